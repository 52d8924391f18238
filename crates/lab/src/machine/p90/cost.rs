//! The host of paper 003: what its sends cost, its kernel's clock, and its line.

use cellgate_core::Time;
use cellgate_core::contract::aal5_cells;
use cellgate_core::server::lambda::Lambda;
use cellgate_core::server::{CpuLaw, Direction, LawError, Sample};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::world::{Interval, Ps};

pub(crate) const PS_PER_S: u64 = 1_000_000_000_000;
/// Octets of the packets that a calibration measures.
const CALIBRATION_SDU: [u32; 6] = [40, 512, 1_024, 4_096, 8_192, 65_535];
const CALIBRATION_PDUS: u64 = 100;

/// A Pentium at 90 MHz whose network adapter does the AAL (sections 3 and 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct P90 {
    /// Cycles per second.
    pub cycle_s: u64,
    /// Bit/s of long packets at which sending takes the whole CPU.
    pub transmit_max_bit_s: u64,
    /// Bit/s of long packets at which receiving takes the whole CPU.
    pub receive_max_bit_s: u64,
    /// How the size of packets counts.
    pub lambda: Lambda,
    /// Cycles of a call of usage control (section 4, "slightly more than 300"). The send path, as
    /// the paper measures it, has one in it.
    pub usage_control_cycles: u64,
}

impl P90 {
    /// As the paper gives it.
    pub const PAPER: Self = Self {
        cycle_s: 90_000_000,
        transmit_max_bit_s: 133_000_000,
        receive_max_bit_s: 90_000_000,
        lambda: Lambda::Printed,
        usage_control_cycles: 300,
    };

    /// The CPU time that sending a packet of `sdu` octets takes, rounded up: the whole of a
    /// synchronous call.
    pub fn send(&self, sdu: u32) -> Ps {
        self.packet(sdu, self.transmit_max_bit_s)
    }

    /// The CPU time that receiving a packet of `sdu` octets takes, rounded up.
    pub fn receive(&self, sdu: u32) -> Ps {
        self.packet(sdu, self.receive_max_bit_s)
    }

    fn packet(&self, sdu: u32, max_bit_s: u64) -> Ps {
        let lambda = self.lambda.of(sdu);
        let bits = u128::from(sdu) * 8;
        // Below 2^23 * 2^35 * 2^40.
        let ps = lambda.numerator() * bits * u128::from(PS_PER_S);
        let ps = ps.div_ceil(lambda.denominator() * u128::from(max_bit_s.max(1)));
        Ps::new(u64::try_from(ps).unwrap_or(u64::MAX))
    }

    /// The law that core's admission reserves by, calibrated on this machine as a server
    /// calibrates itself: by the time that packets of some sizes take.
    pub fn law(&self, headroom_percent: u32) -> Result<CpuLaw, LawError> {
        let mut samples = Vec::new();
        for sdu in CALIBRATION_SDU {
            let ways = [
                (Direction::Transmit, self.send(sdu)),
                (Direction::Receive, self.receive(sdu)),
            ];
            samples.extend(ways.map(|(direction, time)| Sample {
                direction,
                sdu,
                cells: CALIBRATION_PDUS * u64::from(aal5_cells(sdu)),
                pdus: CALIBRATION_PDUS,
                ns: CALIBRATION_PDUS * time.ps() / 1_000,
            }));
        }
        CpuLaw::fit(&samples, headroom_percent)
    }

    /// What `cycles` take.
    pub const fn cycles(&self, cycles: u64) -> Ps {
        Ps::new((cycles as u128 * PS_PER_S as u128 / self.cycle_s as u128) as u64)
    }

    /// The cycles of some time, rounded down.
    pub const fn cycles_of(&self, time: Ps) -> u64 {
        (time.ps() as u128 * self.cycle_s as u128 / PS_PER_S as u128) as u64
    }
}

/// The real-time clock of the kernel. Threads sleep by it, and usage control reads it
/// (section 3.2).
#[derive(Clone, Debug)]
pub struct KernelClock {
    step_ns: u64,
    premature_ppm: u32,
    random: Pcg64Mcg,
}

impl KernelClock {
    /// A clock that goes on every `step_ns` nanoseconds, at least 1. From `seed` follows whom it
    /// wakes prematurely.
    pub fn new(step_ns: u64, seed: u64) -> Self {
        Self {
            step_ns: step_ns.max(1),
            premature_ppm: 0,
            random: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    /// From here on, so many of a million sleepers are woken a step of the clock too early: the
    /// anomaly of section 4.2.
    pub fn wake_prematurely(&mut self, ppm: u32) {
        self.premature_ppm = ppm;
    }

    /// What it shows.
    pub const fn read(&self, now: Ps) -> Time {
        let ns = now.ns();
        Time::from_ns(ns - ns % self.step_ns)
    }

    /// When a thread runs again that goes to sleep for `ns`: at the first step that is not before
    /// their end.
    pub fn wake(&mut self, now: Ps, ns: u64) -> Ps {
        let end_ns = self.read(now).ns() + ns;
        let mut step_ns = end_ns.next_multiple_of(self.step_ns);
        if self.premature_ppm > 0 && self.random.next_u32() % 1_000_000 < self.premature_ppm {
            step_ns -= self.step_ns;
        }
        Ps::from_ns(step_ns).max(now)
    }
}

/// The line between host and peer: 149.76 Mbit/s of cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    free: Ps,
}

impl Wire {
    /// From one cell to the next.
    pub const CELL: Interval = Interval::of_line(149_760_000);

    /// What an AAL5 PDU of `sdu` octets takes, rounded down.
    pub const fn time(sdu: u32) -> Ps {
        Self::CELL.times(aal5_cells(sdu) as u64)
    }

    /// When the last cell has passed of a PDU that is ready `now` and takes `time`.
    pub fn pass(&mut self, now: Ps, time: Ps) -> Ps {
        self.free = self.free.max(now).plus(time);
        self.free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_packet_takes_its_time_at_the_peak_rate_and_a_short_one_the_hyperbolas() {
        let p90 = P90::PAPER;
        // 65,536 bits at 133 Mbit/s; 2,201 octets' worth whatever the packet has below 1,024.
        assert_eq!(p90.send(8_192), Ps::new(492_751_880));
        assert_eq!(p90.send(40), p90.send(1_000));
        assert_eq!(p90.send(40), Ps::new(132_390_978));
        assert_eq!(p90.cycles(90), Ps::from_ns(1_000));
        assert_eq!(p90.cycles_of(Ps::from_ns(1_000)), 90);
    }

    #[test]
    fn a_sleeper_wakes_at_a_step_never_before_its_time_unless_prematurely() {
        let mut clock = KernelClock::new(2_000_000, 1);
        let ms = |ms: u64| Ps::from_ns(ms * 1_000_000);
        assert_eq!(clock.read(ms(5)), Time::from_ns(4_000_000));
        assert_eq!(clock.wake(ms(0), 13_000_000), ms(14));
        assert_eq!(clock.wake(ms(5), 4_000_000), ms(8));
        clock.wake_prematurely(1_000_000);
        assert_eq!(clock.wake(ms(0), 13_000_000), ms(12));
        assert_eq!(clock.wake(ms(5), 1_000_000), ms(5));
    }

    #[test]
    fn packets_pass_a_line_one_after_the_other() {
        let mut wire = Wire::default();
        let first = wire.pass(Ps::new(7), Wire::time(8_192));
        assert_eq!(first, Ps::new(7).plus(Wire::CELL.times(171)));
        let second = wire.pass(Ps::new(8), Wire::time(40));
        assert_eq!(second, first.plus(Wire::CELL.times(1)));
    }
}
