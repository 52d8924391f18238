use std::collections::VecDeque;

use super::{Access, Work};
use crate::Time;
use crate::aal::mssar::{Failed, Limits, Outcome, Reassembler, Segmenter, Verdict};
use crate::adapter::{Discard, DiscardCounts};
use crate::wire::Mssar;

/// The room of a host for associations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsdlConfig {
    /// The first circuit that it may receive on, and how many there are.
    pub first_vci: u16,
    pub circuits: u16,
    /// Cells of an association come no later than this behind its end: its circuit is free then.
    pub hold_ns: u64,
    /// From a block's first cell to its last.
    pub timeout_ns: u64,
    /// Octets of blocks that may wait to leave.
    pub queue_max: usize,
}

/// The destination of an association's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum To {
    /// The station that receives the circuit on this channel.
    Channel(u8),
    /// All: a block goes once on each channel.
    All,
}

/// The terms of an association, on which both ends have agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The circuit of blocks that come.
    pub receives: u16,
    /// That of blocks that leave.
    pub sends: u16,
    pub to: To,
    /// Octets of the longest block.
    pub max_block: u16,
    /// Stations that may send on the circuit at a time.
    pub senders: u8,
}

/// An association, as long as neither end has ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Association {
    /// The circuit that it receives on.
    vci: u16,
    /// Another for each that has had this circuit.
    serial: u32,
}

impl Association {
    pub const fn vci(self) -> u16 {
        self.vci
    }
}

/// A cell that leaves: its data is in the caller's octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    pub vci: u16,
    pub channel: u8,
    /// The block leaves with it.
    pub is_last: bool,
}

/// A block that has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub association: Association,
    pub block: Vec<u8>,
}

/// Reasons for which a block is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    #[error("the association has ended")]
    Ended,
    #[error("a block of {len} octets: {max} are the most")]
    TooLong { len: usize, max: u16 },
    #[error("too much waits to leave")]
    Full,
}

/// The fates of cells or packets that came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MsdlCounts {
    /// Those of blocks that were handed on.
    pub delivered: u64,
    /// Those that were thrown away, under the adapter's reasons.
    pub discarded: DiscardCounts,
}

/// Associations, and blocks on their circuits: in cells, or whole, as [`Access`] has it.
///
/// There is no recovery: what is lost on the way is lost. Anybody may end an association at any
/// time without asking the other end, whose cells come to nobody then. A circuit gets no other
/// association before the last of them can have come.
#[derive(Clone, Debug)]
pub struct Msdl {
    config: MsdlConfig,
    /// By circuit, from the first on.
    circuits: Vec<Option<Circuit>>,
    /// Circuits that wait until nothing comes on them, and when that is.
    held: VecDeque<(Time, u16)>,
    /// The circuit that was free last.
    last: u16,
    serial: u32,
    queue: VecDeque<Sending>,
    /// Octets in it.
    queued: usize,
    received: VecDeque<Received>,
    counts: MsdlCounts,
}

#[derive(Clone, Debug)]
struct Circuit {
    association: Association,
    terms: Terms,
    /// None: blocks come whole.
    reassembler: Option<Reassembler>,
    rid: u8,
}

#[derive(Clone, Debug)]
struct Sending {
    association: Association,
    vci: u16,
    block: Vec<u8>,
    /// None: it leaves whole.
    segmenter: Option<Segmenter>,
    /// Channels, the one on which it leaves first.
    channels: core::ops::Range<u8>,
}

impl Msdl {
    pub fn new(config: MsdlConfig) -> Self {
        Self {
            circuits: (0..config.circuits).map(|_| None).collect(),
            held: VecDeque::new(),
            last: config.circuits.saturating_sub(1),
            serial: 0,
            queue: VecDeque::new(),
            queued: 0,
            received: VecDeque::new(),
            counts: MsdlCounts::default(),
            config,
        }
    }

    pub const fn counts(&self) -> &MsdlCounts {
        &self.counts
    }

    /// Cells of blocks in progress.
    pub fn held_cells(&self) -> u32 {
        let circuits = self.circuits.iter().flatten();
        circuits.map(Circuit::held_cells).sum()
    }

    fn index(&self, vci: u16) -> Option<usize> {
        let index = vci.checked_sub(self.config.first_vci)?;
        (index < self.config.circuits).then_some(index.into())
    }

    fn circuit(&mut self, association: Association) -> Option<&mut Circuit> {
        let index = self.index(association.vci)?;
        let circuit = self.circuits.get_mut(index)?.as_mut()?;
        (circuit.association == association).then_some(circuit)
    }

    /// A circuit on which nothing comes, to be told to the other end; none: all are in use, or
    /// were a moment ago. They are taken in turn.
    pub fn free_vci(&mut self, now: Time) -> Option<u16> {
        let count = self.config.circuits;
        let from = (self.last + 1).checked_rem(count)?;
        self.last = (from..count)
            .chain(0..from)
            .find(|index| self.is_free(now, *index))?;
        self.config.first_vci.checked_add(self.last)
    }

    fn is_free(&mut self, now: Time, index: u16) -> bool {
        while self.held.front().is_some_and(|(until, _)| *until <= now) {
            self.held.pop_front();
        }
        let vci = self.config.first_vci.checked_add(index);
        let is_held = self.held.iter().any(|(_, held)| Some(*held) == vci);
        let circuit = self.circuits.get(usize::from(index));
        // VCI 0 is an empty slot's.
        vci.is_some_and(|vci| vci > 0) && !is_held && circuit.is_some_and(Option::is_none)
    }

    /// Begins an association; none: its circuit is none of this host's, or not free.
    pub fn begin(&mut self, now: Time, access: &impl Access, terms: Terms) -> Option<Association> {
        let index = terms.receives.checked_sub(self.config.first_vci)?;
        if !self.is_free(now, index) {
            return None;
        }
        let slot = self.circuits.get_mut(usize::from(index))?;
        let association = Association {
            vci: terms.receives,
            serial: self.serial,
        };
        self.serial = self.serial.wrapping_add(1);
        let limits = |data_len| Limits {
            data_len,
            max_block: terms.max_block,
            blocks: terms.senders,
            timeout_ns: self.config.timeout_ns,
        };
        *slot = Some(Circuit {
            association,
            terms,
            reassembler: access.data_len().map(limits).map(Reassembler::new),
            rid: 0,
        });
        Some(association)
    }

    /// Ends an association, without asking. Its blocks that wait do not leave; cells that still
    /// come are nobody's.
    pub fn end(&mut self, now: Time, association: Association) {
        let Some(circuit) = self.circuit(association) else {
            return;
        };
        let held = circuit.held_cells();
        self.counts.discarded.add(Discard::Closed, held.into());
        if let Some(index) = self.index(association.vci) {
            self.circuits[index] = None;
        }
        let until = now.plus_ns(self.config.hold_ns);
        self.held.push_back((until, association.vci));
        let queued = &mut self.queued;
        self.queue.retain(|sending| {
            let is_other = sending.association != association;
            *queued -= if is_other { 0 } else { sending.block.len() };
            is_other
        });
    }

    /// Has a block leave, behind those that wait.
    ///
    /// # Errors
    /// It is too long; too much waits; the association has ended.
    pub fn send(
        &mut self,
        access: &mut impl Access,
        association: Association,
        block: Vec<u8>,
    ) -> Result<(), SendError> {
        access.work(Work::TransmitCall);
        access.work(Work::CheckBroadcast);
        let full = self.queued + block.len() > self.config.queue_max;
        let circuit = self.circuit(association).ok_or(SendError::Ended)?;
        let (len, max) = (block.len(), circuit.terms.max_block);
        let too_long = SendError::TooLong { len, max };
        if len > max.into() {
            return Err(too_long);
        }
        let cells = |data_len| Segmenter::new(len, circuit.rid, data_len).ok_or(too_long);
        let segmenter = access.data_len().map(cells).transpose()?;
        if full {
            return Err(SendError::Full);
        }
        circuit.rid = (circuit.rid + 1) % Mssar::RIDS;
        let channels = match circuit.terms.to {
            To::Channel(channel) => channel..channel.saturating_add(1),
            To::All => 0..access.channels(),
        };
        let vci = circuit.terms.sends;
        channels
            .clone()
            .for_each(|_| access.work(Work::SelectChannel));
        self.queued += len;
        self.queue.push_back(Sending {
            association,
            vci,
            block,
            segmenter,
            channels,
        });
        Ok(())
    }

    /// Writes the next cell's data to the front of `out`; none: nothing waits, or `out` is too
    /// short, or what waits leaves whole.
    pub fn poll_cell(&mut self, access: &mut impl Access, out: &mut [u8]) -> Option<Leaving> {
        let sending = self.queue.front_mut()?;
        let segmenter = sending.segmenter.as_mut()?;
        if !segmenter.emit_cell(&sending.block, out) {
            return None;
        }
        access.work(Work::TransmitCell);
        let (vci, channel) = (sending.vci, sending.channels.start);
        let mut is_last = segmenter.left() == 0;
        if is_last {
            sending.channels.next();
            is_last = sending.channels.is_empty();
            segmenter.rewind();
        }
        if is_last && let Some(sent) = self.queue.pop_front() {
            self.queued -= sent.block.len();
        }
        Some(Leaving {
            vci,
            channel,
            is_last,
        })
    }

    /// The next block, of a network whose packets have room for all of it; none: nothing waits,
    /// or what waits leaves in cells.
    pub fn poll_packet(&mut self, access: &mut impl Access) -> Option<(Leaving, Vec<u8>)> {
        let sending = self.queue.front_mut()?;
        if sending.segmenter.is_some() {
            return None;
        }
        let (vci, channel) = (sending.vci, sending.channels.next()?);
        access.work(Work::TransmitCell);
        let is_last = sending.channels.is_empty();
        let block = match is_last {
            false => sending.block.clone(),
            true => self.queue.pop_front()?.block,
        };
        self.queued -= if is_last { block.len() } else { 0 };
        let leaving = Leaving {
            vci,
            channel,
            is_last,
        };
        Some((leaving, block))
    }

    /// A cell has come, with this data. The caller takes blocks by [`Msdl::poll_received`].
    pub fn handle_cell(&mut self, now: Time, access: &mut impl Access, vci: u16, data: &[u8]) {
        access.work(Work::ReceiveCell);
        let circuit = self.on_circuit(vci);
        let in_cells = circuit.and_then(|circuit| {
            let association = circuit.association;
            Some((association, circuit.reassembler.as_mut()?))
        });
        let Some((association, reassembler)) = in_cells else {
            self.counts.discarded.add(Discard::UnknownVc, 1);
            return;
        };
        let Outcome { failed, cell } = reassembler.handle(now, data);
        self.counts.fails(failed);
        match cell {
            Verdict::Held => {}
            Verdict::Discarded(reason) => self.counts.discarded.add(reason.into(), 1),
            Verdict::Delivered(block) => {
                access.work(Work::ReceiveCall);
                access.work(Work::LookUp);
                self.counts.delivered += u64::from(block.cells);
                self.received.push_back(Received {
                    association,
                    block: block.octets,
                });
            }
        }
    }

    /// A packet has come, with this block.
    pub fn handle_packet(&mut self, access: &mut impl Access, vci: u16, block: &[u8]) {
        access.work(Work::ReceiveCell);
        let circuit = self.on_circuit(vci);
        let whole = circuit.filter(|circuit| circuit.reassembler.is_none());
        let discard = match whole {
            None => Discard::UnknownVc,
            Some(circuit) if block.len() > circuit.terms.max_block.into() => Discard::Oversized,
            Some(circuit) => {
                let association = circuit.association;
                access.work(Work::ReceiveCall);
                access.work(Work::LookUp);
                self.counts.delivered += 1;
                let block = block.to_vec();
                self.received.push_back(Received { association, block });
                return;
            }
        };
        self.counts.discarded.add(discard, 1);
    }

    fn on_circuit(&mut self, vci: u16) -> Option<&mut Circuit> {
        let index = self.index(vci)?;
        self.circuits.get_mut(index)?.as_mut()
    }

    /// A block that has come.
    pub fn poll_received(&mut self) -> Option<Received> {
        self.received.pop_front()
    }

    /// Takes the memory of a block back.
    pub fn recycle(&mut self, received: Received) {
        let circuit = self.circuit(received.association);
        if let Some(reassembler) = circuit.and_then(|circuit| circuit.reassembler.as_mut()) {
            reassembler.recycle(received.block);
        }
    }

    /// When [`Msdl::handle_deadline`] is due.
    pub fn next_deadline(&self) -> Option<Time> {
        let circuits = self.circuits.iter().flatten();
        let in_cells = circuits.filter_map(|circuit| circuit.reassembler.as_ref());
        in_cells.filter_map(Reassembler::next_deadline).min()
    }

    /// Gives up blocks that are late.
    pub fn handle_deadline(&mut self, now: Time) {
        let circuits = self.circuits.iter_mut().flatten();
        for reassembler in circuits.filter_map(|circuit| circuit.reassembler.as_mut()) {
            while let Some(failed) = reassembler.handle_deadline(now) {
                self.counts.fails(Some(failed));
            }
        }
    }
}

impl Circuit {
    fn held_cells(&self) -> u32 {
        let reassembler = self.reassembler.as_ref();
        reassembler.map_or(0, Reassembler::held_cells)
    }
}

impl MsdlCounts {
    /// A block is given up.
    fn fails(&mut self, failed: Option<Failed>) {
        if let Some(Failed { reason, cells, .. }) = failed {
            self.discarded.add(reason.into(), cells.into());
        }
    }
}
