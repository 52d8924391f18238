use cellgate_core::contract::{CellRate, aal5_cells};
use cellgate_core::wire::VpiVci;

use super::host::HostCosts;
use super::pca200e::BoardConfig;
use super::workstation::{Arrivals, Pacing, Quiet, SendSpec, Workstation};
use crate::experiments::Error;
use crate::world::{Flying, Interval, Octets, Pace, Ps};

/// The cells of one AAL5 PDU, as a workstation sends them.
pub fn pdu_cells(address: VpiVci, sdu: u16) -> Result<Vec<Octets>, Error> {
    let mut sender = Workstation::new(BoardConfig::PAPER, HostCosts::NONE)?;
    sender.board().keep_departed();
    sender.send(&SendSpec {
        address,
        fifo: 0,
        sdu,
        pacing: Pacing::ByFifo,
    })?;
    let cells = aal5_cells(sdu.into()) as usize;
    let mut sent = Vec::new();
    // A cell takes the i960 less than two slots of the line, a PDU less than 20.
    let most = Interval::of_rate(CellRate::OC3).times(2 * cells as u64 + 20);
    let end = sender.now().plus(most.round_up(Ps::from_ns(1_000_000)));
    while sent.len() < cells && sender.now() < end {
        sender.run(sender.now().plus(Ps::from_ns(100_000)), &mut Quiet);
        sent.extend(sender.board().take_departed());
    }
    match sent.get(..cells) {
        Some(sent) => Ok(sent.iter().map(|cell| cell.octets).collect()),
        None => Err(Error::new(format!(
            "{address}: no PDU of {sdu} octets left"
        ))),
    }
}

/// A PDU, sent again and again at an even pace.
#[derive(Clone, Debug)]
pub struct Stream {
    cells: Vec<Octets>,
    next: usize,
    pace: Pace,
    interval: Interval,
    jitter: Option<Jitter>,
    due: Ps,
}

/// Cells that are late, each by less than `most`.
#[derive(Clone, Copy, Debug)]
struct Jitter {
    seed: u64,
    most: Ps,
    cells: u64,
}

impl Jitter {
    /// How late the next cell is.
    fn next(&mut self) -> Ps {
        self.cells += 1;
        // SplitMix64 of the cell's number.
        let mut mixed = self
            .seed
            .wrapping_add(self.cells.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let share = u128::from(mixed ^ mixed >> 31) * u128::from(self.most.ps());
        Ps::new((share >> 64) as u64)
    }
}

impl Stream {
    /// From `start` on.
    pub fn new(cells: Vec<Octets>, interval: Interval, start: Ps) -> Self {
        Self {
            cells,
            next: 0,
            pace: Pace::from(start),
            interval,
            jitter: None,
            due: start,
        }
    }

    /// The same, but each cell is late by less than `most`, as `seed` says. Cells keep their order
    /// if that is not more than an interval.
    pub fn jittered(self, seed: u64, most: Ps) -> Self {
        let mut jitter = Jitter {
            seed,
            most,
            cells: 0,
        };
        Self {
            due: self.pace.at().plus(jitter.next()),
            jitter: Some(jitter),
            ..self
        }
    }

    /// When its next cell is sent.
    pub fn due(&self) -> Ps {
        self.due
    }

    /// Its next cell.
    pub fn send(&mut self) -> Flying {
        let cell = Flying {
            at: self.due,
            octets: self.cells[self.next],
        };
        self.pace.advance(self.interval);
        let late = self.jitter.as_mut().map_or(Ps::ZERO, Jitter::next);
        self.due = self.pace.at().plus(late);
        self.next = (self.next + 1) % self.cells.len();
        cell
    }
}

impl Arrivals for Stream {
    fn next(&mut self, now: Ps) -> Option<Flying> {
        (self.due() <= now).then(|| self.send())
    }
}
