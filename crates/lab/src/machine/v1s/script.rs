use std::collections::VecDeque;

use cellgate_core::aal::mssar::Segmenter;
use cellgate_core::upper::msna::To;
use cellgate_core::wire::{CbnCell, DATA_LEN, MSSAR_RING_LEN};

use super::{Application, Outgoing};
use crate::world::Ps;

/// An application of trials: it sends blocks, and answers those that come.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The block that it sends, and how often.
    sends: Option<(Destination, u64)>,
    /// Destinations to which it sends a block each, in turn, without end.
    floods: Vec<Destination>,
    /// The time at which it begins.
    from: Ps,
    /// The destination to which it sends all back.
    answers: Option<Destination>,
    /// It waits for an answer before it sends again.
    waits: bool,
    is_waiting: bool,
    queue: VecDeque<Outgoing>,
    /// The times at which it began with each block of its own, had sent it, and had one.
    pub begun: Vec<Ps>,
    pub sent: Vec<Ps>,
    pub received: Vec<Ps>,
    /// The octets of those that came.
    pub lengths: Vec<usize>,
    /// Blocks with other octets than were sent.
    pub wrong: u64,
}

/// The destination of blocks, and their length.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    pub vci: u16,
    pub to: To,
    /// Octets of each.
    pub octets: usize,
}

impl Destination {
    /// The cells of a block, as a [`Script`] would send it.
    pub fn cells(self, rid: u8) -> Vec<CbnCell> {
        let octets = Script::octets(self.octets);
        let segmenter = Segmenter::new(octets.len(), rid, MSSAR_RING_LEN as u8);
        let next = segmenter.map(|mut segmenter| {
            core::iter::from_fn(move || {
                let mut data = [0; DATA_LEN];
                let vci = self.vci;
                segmenter
                    .emit_cell(&octets, &mut data)
                    .then_some(CbnCell { vci, data })
            })
        });
        next.into_iter().flatten().collect()
    }

    fn block(self, octets: Vec<u8>) -> Outgoing {
        Outgoing {
            vci: self.vci,
            to: self.to,
            octets,
        }
    }
}

impl Script {
    /// Sends so many blocks.
    pub fn sends(to: Destination, blocks: u64) -> Self {
        Self {
            sends: Some((to, blocks)),
            ..Self::default()
        }
    }

    /// The same, and looks for the first time at `from` or behind it.
    pub fn later(self, from: Ps) -> Self {
        Self { from, ..self }
    }

    /// Sends so many blocks, each when the one before has been answered.
    pub fn pings(to: Destination, blocks: u64) -> Self {
        Self {
            waits: true,
            ..Self::sends(to, blocks)
        }
    }

    pub fn answers(to: Destination) -> Self {
        Self {
            answers: Some(to),
            ..Self::default()
        }
    }

    /// Sends a block to each in turn, without end.
    pub fn floods(to: Vec<Destination>) -> Self {
        Self {
            floods: to,
            ..Self::default()
        }
    }

    /// The octets of a block: those of no two cells are alike.
    fn octets(len: usize) -> Vec<u8> {
        let octet = |n: usize| (n * 31 + n / 251) as u8;
        (0..len).map(octet).collect()
    }
}

impl Application for Script {
    fn idle(&mut self, at: Ps) -> Option<Outgoing> {
        if let Some(answer) = self.queue.pop_front() {
            return Some(answer);
        }
        if let Some(to) = self.floods.first().copied() {
            self.floods.rotate_left(1);
            return Some(to.block(Self::octets(to.octets)));
        }
        let (to, left) = self.sends.as_mut()?;
        if *left == 0 || self.is_waiting || at < self.from {
            return None;
        }
        *left -= 1;
        self.is_waiting = self.waits;
        self.begun.push(at);
        Some(to.block(Self::octets(to.octets)))
    }

    fn sent(&mut self, at: Ps) {
        self.sent.push(at);
    }

    fn received(&mut self, at: Ps, _: u16, block: &[u8]) {
        self.received.push(at);
        self.lengths.push(block.len());
        self.is_waiting = false;
        self.wrong += u64::from(block != Self::octets(block.len()));
        if let Some(to) = self.answers {
            self.queue.push_back(to.block(block.to_vec()));
        }
    }
}
