//! Short runs behind single numbers of the text.

use cellgate_core::Time;
use cellgate_core::adapter::{Class, PortIndex, Schedule, VcIndex, Work};
use cellgate_core::contract::CellRate;
use cellgate_report::Rational;

use super::{Error, HostCosts, LINE_BIT_S, Ps, address};
use crate::machine::{
    Arrivals, BoardConfig, FIFOS, I960_CYCLE_S, Pacing, Quiet, ReceiveSpec, SendSpec, Stream,
    Workstation, pdu_cells,
};
use crate::world::{Flying, Interval, Octets};

/// A cell now.
struct Now(Option<Octets>);

impl Arrivals for Now {
    fn next(&mut self, now: Ps) -> Option<Flying> {
        self.0.take().map(|octets| Flying { at: now, octets })
    }
}

/// One cell to each of 1,024 addresses that are all open, and to as many that are not.
pub(super) struct Addresses {
    /// Those that were looked up and open.
    pub(super) hits: u64,
    /// Those that were looked up and not.
    pub(super) misses: u64,
    pub(super) lookups_most: u64,
    pub(super) hit_least: Rational,
    pub(super) hit_most: Rational,
    pub(super) miss_most: Rational,
}

impl Addresses {
    /// VCIs below are for signalling.
    const FIRST: u16 = 32;
    const ALL: u16 = 1_024;

    pub(super) fn run() -> Result<Self, Error> {
        let mut workstation = Workstation::new(BoardConfig::PAPER, HostCosts::NONE)?;
        let sample = pdu_cells(address(Self::FIRST)?, 40)?;
        for vci in Self::FIRST..Self::FIRST + Self::ALL {
            workstation.receive(&ReceiveSpec {
                address: address(vci)?,
                sdu: 40,
                buffer_pdus: 4,
                drain: Ps::ZERO,
            })?;
        }
        let mut seen = Self {
            hits: 0,
            misses: 0,
            lookups_most: 0,
            hit_least: Rational::whole(i64::MAX.into()),
            hit_most: Rational::ZERO,
            miss_most: Rational::ZERO,
        };
        for vci in Self::FIRST..Self::FIRST + 2 * Self::ALL {
            let mut octets = sample[0];
            octets[1] = (vci >> 12) as u8;
            octets[2] = (vci >> 4) as u8;
            octets[3] = (vci << 4) as u8 | octets[3] & 0xf;
            octets[4] = cellgate_core::wire::hec([octets[0], octets[1], octets[2], octets[3]]);
            let (lookups, delivered) = (
                workstation.board().work(Work::Lookup),
                workstation.stats().events,
            );
            let before = workstation.cycles().number();
            // One turn of the firmware.
            workstation.run(workstation.now().plus(Ps::new(1)), &mut Now(Some(octets)));
            let cycles = workstation.cycles().number() - before;
            let lookups = workstation.board().work(Work::Lookup) - lookups;
            seen.lookups_most = seen.lookups_most.max(lookups);
            let looked_up = u64::from(lookups > 0);
            if workstation.stats().events > delivered {
                seen.hits += looked_up;
                seen.hit_least = seen.hit_least.min(cycles);
                seen.hit_most = seen.hit_most.max(cycles);
            } else {
                seen.misses += looked_up;
                seen.miss_most = seen.miss_most.max(cycles);
            }
        }
        Ok(seen)
    }
}

/// A line full of cells that nobody receives.
pub(super) struct Discarding {
    /// Cells/s, if it did nothing else.
    pub(super) ceiling: Option<Rational>,
    /// Of the i960's time, without its idle turns.
    pub(super) share: Rational,
    /// What it sends beside.
    pub(super) sent_cell_s: Rational,
    pub(super) arrived: u64,
    /// Found their FIFO full.
    pub(super) overflowed: u64,
}

impl Discarding {
    /// All of one address.
    pub(super) fn of_one(config: BoardConfig) -> Result<Self, Error> {
        let cells = pdu_cells(address(32)?, 8_192)?;
        Self::run(Workstation::new(config, HostCosts::NONE)?, cells)
    }

    /// The same, of a workstation that sends as much as it can.
    pub(super) fn of_one_while_sending(config: BoardConfig) -> Result<Self, Error> {
        let cells = pdu_cells(address(32)?, 8_192)?;
        Self::run(sender(config)?, cells)
    }

    /// The same with two addresses in turn.
    pub(super) fn of_two_while_sending(config: BoardConfig) -> Result<Self, Error> {
        let cells = [32, 32 + FIFOS as u16].map(|vci| Ok(pdu_cells(address(vci)?, 8_192)?[0]));
        let cells = cells.into_iter().collect::<Result<_, Error>>()?;
        Self::run(sender(config)?, cells)
    }

    /// Of two addresses in turn on each receive FIFO: no two cells in a row have the same header.
    pub(super) fn of_many(config: BoardConfig) -> Result<Self, Error> {
        let cell = |vci| Ok(pdu_cells(address(vci)?, 8_192)?[0]);
        let cells = (32..32 + 2 * FIFOS as u16).map(cell);
        let cells = cells.collect::<Result<_, Error>>()?;
        Self::run(Workstation::new(config, HostCosts::NONE)?, cells)
    }

    fn run(mut workstation: Workstation, cells: Vec<Octets>) -> Result<Self, Error> {
        let begin = workstation.now();
        let mut strangers = Stream::new(cells, Interval::of_line(LINE_BIT_S), begin);
        workstation.run(begin.plus(Ps::from_ns(50_000_000)), &mut strangers);
        let discarded = workstation.stats().cells_discarded.total();
        let [lookup, discard] = [Work::Lookup, Work::DiscardCells].map(|work| {
            let cycles = workstation.board().cycles(work);
            cycles.number()
        });
        let cycles = lookup + discard;
        let span = Rational::new(
            workstation.now().since(begin).ps().into(),
            1_000_000_000_000,
        );
        Ok(Self {
            ceiling: Rational::from(discarded * I960_CYCLE_S).over(cycles),
            share: cycles / (span * Rational::from(I960_CYCLE_S)),
            sent_cell_s: Rational::from(workstation.stats().cells_transmitted) / span,
            arrived: workstation.board().counts().arrived,
            overflowed: workstation.board().counts().overflowed,
        })
    }
}

/// A workstation that sends PDUs without end, the smallest with which it just fills the line.
fn sender(config: BoardConfig) -> Result<Workstation, Error> {
    let mut workstation = Workstation::new(config, HostCosts::NONE)?;
    workstation.send(&SendSpec {
        address: address(48)?,
        fifo: FIFOS - 1,
        sdu: 1_024,
        pacing: Pacing::ByFifo,
    })?;
    Ok(workstation)
}

/// The adapter's schedule with many VCs on one line.
pub(super) struct Shaped {
    pub(super) vcs: u64,
    /// Cells by which any VC is off its rate.
    pub(super) off_most: u64,
}

impl Shaped {
    const VCS: u16 = 1_000;
    /// So that they nearly fill the line.
    const CELL_S: u32 = 350;
    const SECONDS_10TH: u64 = 2;

    pub(super) fn run() -> Self {
        let vcs = usize::from(Self::VCS);
        let mut schedule = Schedule::new(&[CellRate::OC3], 256, vcs);
        let line = PortIndex(0);
        let rate = CellRate::new(Self::CELL_S).unwrap_or(CellRate::OC3);
        for vc in 0..Self::VCS {
            let class = Class::Guaranteed {
                rate,
                cdvt_ns: 10_000_000,
                burst: 1,
                sustained: None,
            };
            schedule.open(VcIndex(vc), line, class);
            schedule.activate(Time::ZERO, VcIndex(vc));
        }
        let mut sent = vec![0_u64; vcs];
        let end = Time::from_ns(Self::SECONDS_10TH * 100_000_000);
        let mut now = Time::ZERO;
        while now < end {
            while let Some(grant) = schedule.grant(now, line, 1) {
                schedule.sent(now, grant.vc, 1);
                sent[usize::from(grant.vc.0)] += 1;
            }
            now = schedule
                .next_deadline(line)
                .unwrap_or(end)
                .max(now.plus_ns(1));
        }
        let expected = u64::from(Self::CELL_S) * Self::SECONDS_10TH / 10;
        let off = sent.iter().map(|cells| cells.abs_diff(expected));
        Self {
            vcs: sent.iter().filter(|cells| **cells > 0).count() as u64,
            off_most: off.max().unwrap_or(u64::MAX),
        }
    }
}

/// From a PDU's last cell to the host's interrupt.
pub(super) struct Latency {
    pub(super) delay: Ps,
}

impl Latency {
    pub(super) fn run() -> Result<Self, Error> {
        let mut workstation = Workstation::new(BoardConfig::PAPER, HostCosts::NONE)?;
        workstation.receive(&ReceiveSpec {
            address: address(32)?,
            sdu: 8_192,
            buffer_pdus: 8,
            drain: Ps::ZERO,
        })?;
        let cells = pdu_cells(address(32)?, 8_192)?;
        let (line, n) = (Interval::of_line(LINE_BIT_S), cells.len() as u64);
        let begin = workstation.now();
        let last = begin.plus(line.times(n - 1));
        let mut stream = Stream::new(cells, line, begin);
        let turn = Ps::new(1);
        while workstation.host().interrupts() == 0 && workstation.now() < last.plus(last) {
            match stream.due() <= last {
                true => workstation.run(workstation.now().plus(turn), &mut stream),
                false => workstation.run(workstation.now().plus(turn), &mut Quiet),
            }
        }
        Ok(Self {
            delay: workstation.now().since(last),
        })
    }
}
