//! What became of the PDUs of one connection.

use std::collections::VecDeque;

use crate::world::Ps;
use crate::world::check::limits::CELLS_MAX;

/// PDUs of a connection as its reader found them, in the order of their numbers or not.
#[derive(Clone, Debug, Default)]
pub(crate) struct PduCounts {
    pub(crate) delivered: u64,
    pub(crate) cells: u64,
    pub(crate) octets: u64,
    /// Numbers that were passed over.
    pub(crate) lost: u64,
    /// PDUs found after one with the same or a higher number.
    pub(crate) repeated: u64,
    /// PDUs that are none of the connection's.
    pub(crate) strangers: u64,
    /// PDUs of another length than the source gave them.
    pub(crate) misfits: u64,
    pub(crate) tagged: u64,
    /// The number that is due.
    due: u64,
    pub(crate) latency: Latency,
    pub(crate) settled: Option<Settled>,
    /// When each PDU's last cell was sent, for those that were not found.
    under_way: VecDeque<(u64, Ps)>,
}

/// How things stood when everything had to be right again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// The first PDU that has to arrive.
    pub(crate) from: u64,
    /// Cells that had found no room in a switch or a FIFO.
    pub(crate) no_room: u64,
    /// PDUs that have arrived since.
    pub(crate) delivered: u64,
}

/// From a PDU's last cell being sent to its being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Latency {
    pub(crate) least: u64,
    pub(crate) most: u64,
    pub(crate) sum: u128,
    pub(crate) count: u64,
}

impl Latency {
    fn add(&mut self, ps: u64) {
        self.least = if self.count == 0 {
            ps
        } else {
            self.least.min(ps)
        };
        self.most = self.most.max(ps);
        self.sum += u128::from(ps);
        self.count += 1;
    }

    /// Rounded down; 0 if there is none.
    pub(crate) fn mean_ps(&self) -> u64 {
        self.sum.checked_div(self.count.into()).unwrap_or(0) as u64
    }
}

impl PduCounts {
    /// The last cell of PDU `number` is sent.
    pub(crate) fn sent(&mut self, number: u64, at: Ps) {
        if self.under_way.len() as u64 == CELLS_MAX {
            // It is on no line any more.
            self.under_way.pop_front();
        }
        self.under_way.push_back((number, at));
    }

    /// From PDU `from` on, all must arrive.
    pub(crate) fn settle(&mut self, from: u64, no_room: u64) {
        self.settled = Some(Settled {
            from,
            no_room,
            delivered: 0,
        });
    }

    /// PDU `number` was read.
    pub(crate) fn found(&mut self, number: u64, now: Ps) {
        self.delivered += 1;
        if number < self.due {
            self.repeated += 1;
            return;
        }
        self.lost += number - self.due;
        self.due = number + 1;
        if let Some(settled) = &mut self.settled {
            settled.delivered += u64::from(number >= settled.from);
        }
        while let Some((sent, at)) = self.under_way.pop_front_if(|(sent, _)| *sent <= number) {
            if sent == number {
                self.latency.add(now.since(at).ps());
            }
        }
    }

    /// PDUs of `sent` that did not arrive, those before the due one once.
    pub(crate) fn missing(&self, sent: u64) -> u64 {
        self.lost + sent.saturating_sub(self.due)
    }
}
