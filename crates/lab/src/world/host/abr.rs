//! ABR at a host: a reference beside each end of a VC that has it.

use std::collections::BTreeMap;

use cellgate_core::adapter::{Discard, OpenRequest, PortIndex, VcInfo, VcStats};
use cellgate_core::wire::{CELL_LEN, VpiVci};

use super::{Host, transmit_fifo};
use crate::board::Trace;
use crate::reference::{AbrEnd, AbrWrong, hec};
use crate::world::Ps;
use crate::world::line::address_of;
use crate::world::net::Net;

type At = (PortIndex, VpiVci);

/// An end, and what is known of it.
#[derive(Debug)]
struct One {
    connection: u32,
    end: AbrEnd,
    /// Cells that it had thrown away.
    discarded: u64,
}

/// The references of a host.
#[derive(Debug, Default)]
pub(super) struct Available {
    ends: BTreeMap<At, One>,
    /// The greatest CDVT of all: a tolerance is a burst, before which others wait.
    cdvt_ns: u64,
    /// The last step.
    looked: Ps,
}

impl Available {
    /// A VC is open for a connection, and its cells have their turn so often.
    pub(super) fn opens(&mut self, connection: u32, request: &OpenRequest, turn_ns: u64) {
        if let Some(end) = AbrEnd::new(request, turn_ns) {
            let one = One {
                connection,
                end,
                discarded: 0,
            };
            self.ends.insert((request.port, request.address), one);
            let cdvt_ns = request.transmit.map_or(0, |transmit| transmit.cdvt_ns);
            self.cdvt_ns = self.cdvt_ns.max(cdvt_ns);
        }
    }

    /// A VC is closed: what it has counted is right.
    pub(super) fn closes(&mut self, info: &VcInfo) -> Result<(), AbrWrong> {
        let end = self.ends.remove(&(info.request.port, info.request.address));
        match end.zip(info.stats.abr) {
            Some((one, stats)) => one.end.ends(&stats),
            None => Ok(()),
        }
    }

    /// A VC has another contract from here on, of which its reference knows nothing.
    pub(super) fn forget(&mut self, request: &OpenRequest) {
        self.ends.remove(&(request.port, request.address));
    }

    /// The adapter dies, or nobody knows what it has taken.
    pub(super) fn is_lost(&mut self) {
        self.ends.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

/// Whether a VC has thrown PDUs away for want of room.
fn loses(stats: &VcStats) -> bool {
    let reasons = [Discard::BufferFull, Discard::QueueFull, Discard::Overload];
    reasons
        .iter()
        .any(|reason| stats.cells_discarded.of(*reason) > 0)
}

impl Host {
    /// What the adapter has sent and taken in a step is held against the rules of ABR.
    pub(super) fn abr_is_followed(&mut self, now: Ps, trace: &[Trace], net: &mut Net) {
        let time = self.time(now).ns();
        let lost = self.thrown_away();
        let mut wrong = Ok(());
        for did in trace {
            let (port, cells, takes) = match did {
                Trace::Transmitted { port, cells, .. } => (*port, cells, false),
                Trace::Received { port, cells, .. } => (*port, cells, true),
                _ => continue,
            };
            for cell in cells.as_chunks::<CELL_LEN>().0 {
                let [a, b, c, d, sum, ..] = *cell;
                if takes && hec([a, b, c, d]) != sum {
                    // A header is mended or not, by what came before it.
                    self.available.is_lost();
                }
                let at = (port, address_of(cell));
                let Some(one) = self.available.ends.get_mut(&at) else {
                    continue;
                };
                let loses = lost.get(&at).is_some_and(|(_, loses)| *loses);
                match takes {
                    true => one.end.takes(time, cell),
                    false if wrong.is_ok() => wrong = one.end.sends(time, cell, loses),
                    false => {}
                }
            }
        }
        for (at, (cells, _)) in lost {
            if let Some(one) = self.available.ends.get_mut(&at)
                && std::mem::replace(&mut one.discarded, cells) != cells
            {
                one.end.forgets_marks();
            }
        }
        self.abr_is_wrong(now, wrong, net);
    }

    /// Cells that each end has thrown away, and whether some were for want of room.
    fn thrown_away(&self) -> BTreeMap<At, (u64, bool)> {
        let all = self.available.ends.iter();
        let all = all.filter_map(|(at, one)| {
            let vc = self.by_connection.get(&one.connection)?;
            let stats = self.adapter.info(vc.index)?.stats;
            Some((*at, (stats.cells_discarded.total(), loses(&stats))))
        });
        all.collect()
    }

    /// After a step, whose cells are on their lines: whoever waits has its floor, and is probed.
    pub(super) fn abr_waits(&mut self, now: Ps, net: &mut Net) {
        let time = self.time(now).ns();
        let passed = now
            .since(std::mem::replace(&mut self.available.looked, now))
            .ns();
        let fifo = transmit_fifo(&self.spec);
        let stands = self.steps.stood_still > Ps::ZERO;
        // Bursts and what comes in their time: floors take less than two thirds of a line.
        let bursts_ns = 2 * self.available.cdvt_ns;
        let mut wrong = Ok(());
        for ((port, _), one) in &mut self.available.ends {
            let output = self.ports[usize::from(port.0)].output;
            let is_full = net.lines[output].backlog(now) + 1 >= fifo;
            let is_full = is_full || self.watch.has_no_more(usize::from(port.0));
            let vc = self.by_connection.get(&one.connection);
            let endpoint = vc.and_then(|vc| self.endpoints.get_mut(vc));
            let waits = endpoint.is_some_and(|endpoint| !endpoint.has_sent_all());
            let looks = one
                .end
                .looks(time, passed, waits && !is_full && !stands, bursts_ns);
            wrong = wrong.and(looks);
        }
        self.abr_is_wrong(now, wrong, net);
    }

    pub(super) fn abr_is_wrong(&self, now: Ps, wrong: Result<(), AbrWrong>, net: &mut Net) {
        if let Err((law, text)) = wrong {
            self.is_wrong(law, now, Some(text), net);
        }
    }

    /// References of ABR run beside its adapters.
    pub(crate) fn has_abr(&mut self) {
        self.follows_abr = true;
        self.board.tell_received();
    }
}
