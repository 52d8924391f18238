//! An application that writes in a tight loop, and the worker thread that paces it (paper 003,
//! sections 2.5 and 3.2).

use cellgate_core::Time;
use cellgate_core::contract::{Credit, UsageControl, UsageDecision};

use super::{Host, PS_PER_S, Step, Wire};
use crate::world::Ps;

/// What a worker makes of being woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waking {
    /// It asks the clock, and sleeps again if the interval has not come.
    AsksTheClock,
    /// The interval has come: it is woken for that.
    IsTrusted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Has another packet.
    Asks,
    /// In the send path.
    Sends,
    /// Was told that it is suspended until then.
    Refused(Time),
    Suspended(Time),
}

/// A writer without any idea of its contract: it always has another packet.
#[derive(Clone, Debug)]
pub struct Writer {
    sdu: u32,
    /// What a packet takes of the CPU and of the line; none: it has not sent one.
    costs: Option<(Ps, Ps)>,
    /// None: nothing paces it.
    control: Option<UsageControl>,
    waking: Waking,
    state: State,
    stopped: bool,
    /// By how much it takes the time to be later than the clock shows.
    lead_ns: u64,
    /// As the application sees it.
    pub sent: Meter,
    /// As its peer does, at the other end of the line.
    pub received: Meter,
}

impl Writer {
    /// Of packets of `sdu` octets.
    pub fn new(sdu: u32, control: Option<UsageControl>, waking: Waking) -> Self {
        Self {
            sdu,
            costs: None,
            control,
            waking,
            state: State::Asks,
            stopped: false,
            lead_ns: 0,
            sent: Meter::default(),
            received: Meter::default(),
        }
    }

    /// Another pace, from the next interval on.
    pub fn modify(&mut self, credit: Credit) {
        if let Some(control) = &mut self.control {
            control.modify(credit);
        }
    }

    /// Ends with the packet that it is sending.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    pub(super) fn next(&mut self, now: Ps, host: &mut Host) -> Step {
        let sdu = self.sdu;
        let costs = || (host.p90.send(sdu), Wire::time(sdu));
        let (send, line) = *self.costs.get_or_insert_with(costs);
        match self.state {
            State::Sends => {
                self.sent.count(now, sdu);
                self.received.count(host.wire.pass(now, line), sdu);
            }
            State::Refused(until) => {
                self.state = State::Suspended(until);
                let sleep_ns = until.since_ns(self.time(now, host));
                return Step::Sleep(host.clock.wake(now, sleep_ns));
            }
            State::Suspended(until) if self.waking == Waking::IsTrusted => {
                self.lead_ns += until.since_ns(self.time(now, host));
            }
            State::Suspended(_) | State::Asks => {}
        }
        if self.stopped {
            return Step::End;
        }
        let time = self.time(now, host);
        let decision = match &mut self.control {
            Some(control) => control.request(time, sdu),
            None => UsageDecision::Transfer,
        };
        match decision {
            UsageDecision::Transfer => {
                self.state = State::Sends;
                Step::Run(send)
            }
            UsageDecision::SuspendUntil(until) => {
                self.state = State::Refused(until);
                Step::Run(host.p90.cycles(host.p90.usage_control_cycles))
            }
        }
    }

    /// What it takes the time to be.
    const fn time(&self, now: Ps, host: &Host) -> Time {
        host.clock.read(now).plus_ns(self.lead_ns)
    }
}

/// What has passed somewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    pub pdus: u64,
    /// Octets of SDU.
    pub octets: u64,
    /// When the last one had passed.
    pub last: Ps,
    /// A time is kept every so many packets; 0: none.
    pub sample_pdus: u64,
    pub samples: Vec<Ps>,
    first: Ps,
    first_octets: u64,
}

impl Meter {
    fn count(&mut self, now: Ps, octets: u32) {
        if self.pdus == 0 {
            self.first = now;
            self.first_octets = octets.into();
        }
        self.pdus += 1;
        self.octets += u64::from(octets);
        self.last = now;
        if self.sample_pdus > 0 && self.pdus.is_multiple_of(self.sample_pdus) {
            self.samples.push(now);
        }
    }

    /// Bit/s from the first packet to the last one, rounded down; 0 for fewer than two.
    pub fn bit_s(&self) -> u64 {
        let bits = u128::from(self.octets - self.first_octets) * 8;
        let ps = u128::from(self.last.since(self.first).ps());
        // Nothing here sends 2^64 bit/s.
        (bits * u128::from(PS_PER_S)).checked_div(ps).unwrap_or(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use cellgate_core::contract::{Jitter, Remainder};

    use super::*;
    use crate::machine::p90::{Cpu, HostThread, Level};

    const STEP_NS: u64 = 2_000_000;

    /// A writer at 640 packets/s, 40 * 2^20 bit/s, whose wake-ups come early every so often.
    fn forty(waking: Waking, premature_ppm: u32, seconds: u64) -> Writer {
        let mut host = Host::new(STEP_NS);
        host.clock.wake_prematurely(premature_ppm);
        let credit = Credit::for_sdu_rate(40 << 20, 8_192, Jitter::Default).expect("a credit");
        let control = UsageControl::new(Time::ZERO, credit, Remainder::Carried);
        let mut cpu = Cpu::new(host);
        let writer = Writer::new(8_192, Some(control), waking);
        let id = cpu.start(Level::RealTime, HostThread::Writer(writer));
        cpu.run(Ps::new(seconds * PS_PER_S));
        match cpu.activity(id) {
            HostThread::Writer(writer) => writer.clone(),
            HostThread::User(_) => unreachable!("it is none"),
        }
    }

    #[test]
    fn a_writer_that_is_woken_in_time_gets_its_rate_and_no_packet_more() {
        for waking in [Waking::AsksTheClock, Waking::IsTrusted] {
            let writer = forty(waking, 0, 100);
            assert_eq!(writer.sent.pdus, 64_000, "{waking:?}");
            assert_eq!(writer.received.pdus, 64_000, "{waking:?}");
        }
    }

    #[test]
    fn woken_early_it_gets_more_than_its_rate_only_if_it_does_not_ask_the_clock() {
        assert_eq!(forty(Waking::AsksTheClock, 500_000, 100).sent.pdus, 64_000);
        // Up to 2 ms of 15.625 are saved every other time.
        let more = forty(Waking::IsTrusted, 500_000, 100).sent.pdus;
        assert!((65_500..68_500).contains(&more), "{more}");
    }

    #[test]
    fn a_meter_takes_the_rate_between_its_first_and_last() {
        let mut meter = Meter {
            sample_pdus: 2,
            ..Meter::default()
        };
        assert_eq!(meter.bit_s(), 0);
        for second in 3..=5 {
            meter.count(Ps::new(second * PS_PER_S), 1_000);
        }
        assert_eq!(meter.bit_s(), 8_000);
        assert_eq!(meter.samples, [Ps::new(4 * PS_PER_S)]);
    }
}
