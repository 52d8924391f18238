//! The adapter's board in the lab: ports are queues of cells with arrival times, and everything the
//! adapter does is written down in order.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

use cellgate_core::Time;
use cellgate_core::adapter::{
    AttachmentIndex, Board, CellOutcome, Command, Completion, DiscardCounts, Event, PduEnd,
    Planted, PortIndex, Work,
};
use cellgate_core::contract::AbrPlanted;
use cellgate_core::wire::{CELL_LEN, CellFormat, VpiVci};

use crate::memory::{LabAttachment, LabRegion};

/// A command as the lab gives it.
pub type LabCommand = Command<LabRegion, LabAttachment>;
/// A completion as the lab takes it.
pub type LabCompletion = Completion<LabRegion, LabAttachment>;

thread_local! {
    static ABR_BUG: Cell<Option<AbrPlanted>> = const { Cell::new(None) };
}

/// As long as this is there, sources and destinations of ABR on all boards of the thread have a
/// bug, if it is given one.
pub(crate) struct AbrBug(());

impl AbrBug {
    pub(crate) fn plant(bug: Option<AbrPlanted>) -> Self {
        ABR_BUG.set(bug);
        Self(())
    }
}

impl Drop for AbrBug {
    fn drop(&mut self) {
        ABR_BUG.set(None);
    }
}

/// One thing that the adapter did.
#[derive(Debug)]
pub enum Trace {
    /// It asked a port for cells and got these.
    Received {
        port: PortIndex,
        /// Cells it had room for.
        asked: usize,
        /// The cells' form.
        format: CellFormat,
        /// Cells it got, one after the other.
        cells: Vec<u8>,
    },
    /// It judged so many cells in a row.
    Judged(CellOutcome, u32),
    /// It posted an event.
    Posted(AttachmentIndex, Event),
    /// It interrupted a client.
    /// For a guaranteed connection, or not.
    Interrupted(AttachmentIndex, bool),
    /// It took the command with this ticket, or found none.
    Command(Option<u64>),
    /// It ended a command.
    Completed(Box<LabCompletion>),
    /// It sent these cells.
    Transmitted {
        port: PortIndex,
        /// The cells' form.
        format: CellFormat,
        /// One after the other.
        cells: Vec<u8>,
    },
}

/// A cell of either form, with as many octets as its port's form has.
pub(crate) type Octets = [u8; CELL_LEN];

/// The board. The caller moves time on with [`LabBoard::poll`] before every step and empties
/// [`LabBoard::trace`] after it.
#[derive(Debug, Default)]
pub struct LabBoard {
    arriving: Vec<VecDeque<(Time, Octets)>>,
    there: Vec<VecDeque<Octets>>,
    space: Vec<usize>,
    commands: VecDeque<(u64, LabCommand)>,
    /// Which port receives what each transmits, if one of this board does, and whether PDUs may
    /// cross to it as a whole.
    joined: Vec<Option<(PortIndex, bool)>>,
    /// Cells of all PDUs that did.
    crossed: u64,
    planted: Option<Planted>,
    charges: [u64; KINDS],
    /// Only what somebody has to act upon is written down; or cells that are taken, too.
    terse: bool,
    tells_received: bool,
    /// When it wants a step.
    deadline: Option<Time>,
    /// PDUs that have ended, by VC: those delivered, and the others by reason.
    pub ended: BTreeMap<(PortIndex, VpiVci), (u64, DiscardCounts)>,
    /// What the adapter did since the caller last looked.
    pub trace: Vec<Trace>,
}

impl LabBoard {
    /// A board with so many ports, with a bug or without.
    pub fn new(ports: usize, planted: Option<Planted>) -> Self {
        Self {
            arriving: vec![VecDeque::new(); ports],
            there: vec![VecDeque::new(); ports],
            space: vec![0; ports],
            joined: vec![None; ports],
            planted,
            ..Self::default()
        }
    }

    /// What `from` transmits is received by `to`, in the same step; PDUs may cross as a whole, or
    /// all go as cells.
    pub fn join(&mut self, from: PortIndex, to: PortIndex, whole: bool) {
        self.joined[usize::from(from.0)] = Some((to, whole));
    }

    /// Cells of all PDUs that have crossed.
    pub fn crossed(&self) -> u64 {
        self.crossed
    }

    /// From here on it writes down only events, interrupts, ended commands and cells sent.
    pub fn be_terse(&mut self) {
        self.terse = true;
    }

    /// It writes down cells that are taken, too.
    pub(crate) fn tell_received(&mut self) {
        self.tells_received = true;
    }

    /// A cell will arrive; the cells of a port are given in the order of time.
    pub fn arrive(&mut self, at: Time, port: PortIndex, octets: impl AsRef<[u8]>) {
        self.arriving[usize::from(port.0)].push_back((at, whole(octets.as_ref())));
    }

    /// A cell is there.
    pub(crate) fn put(&mut self, port: PortIndex, cell: Octets) {
        self.there[usize::from(port.0)].push_back(cell);
    }

    /// The same for a cell that comes before others that are given already.
    pub fn arrive_between(&mut self, at: Time, port: PortIndex, octets: impl AsRef<[u8]>) {
        let arriving = &mut self.arriving[usize::from(port.0)];
        let place = arriving.partition_point(|(other, _)| *other <= at);
        arriving.insert(place, (at, whole(octets.as_ref())));
    }

    /// Looks which cells are there now, and how many cells each port takes.
    pub fn poll(&mut self, now: Time, transmit_space: usize) {
        self.look(now);
        self.space.fill(transmit_space);
    }

    /// Looks which cells are there now.
    pub(crate) fn look(&mut self, now: Time) {
        for (arriving, there) in self.arriving.iter_mut().zip(&mut self.there) {
            while let Some((_, octets)) = arriving.pop_front_if(|(at, _)| *at <= now) {
                there.push_back(octets);
            }
        }
    }

    /// When the next cell comes.
    pub(crate) fn next_arrival(&self) -> Option<Time> {
        let first = |arriving: &VecDeque<(Time, Octets)>| arriving.front().map(|(at, _)| *at);
        self.arriving.iter().filter_map(first).min()
    }

    /// How many cells each port takes.
    pub(crate) fn spaces(&self) -> Vec<usize> {
        self.space.clone()
    }

    /// Whether a port takes none.
    pub(crate) fn any_is_held(&self) -> bool {
        self.space.contains(&0)
    }

    /// Ports that took none take so many.
    pub(crate) fn hold_no_more(&mut self, cells: usize) {
        for space in self.space.iter_mut().filter(|space| **space == 0) {
            *space = cells;
        }
    }

    /// When it wants a step, whatever comes.
    pub(crate) fn set_deadline(&mut self, at: Option<Time>) {
        self.deadline = at;
    }

    /// How many cells a port takes.
    pub(crate) fn set_space(&mut self, port: PortIndex, cells: usize) {
        self.space[usize::from(port.0)] = cells;
    }

    /// Whether a command waits.
    pub(crate) fn has_orders(&self) -> bool {
        !self.commands.is_empty()
    }

    /// Cells that have arrived and were not taken.
    pub fn waiting(&self, port: PortIndex) -> usize {
        self.there[usize::from(port.0)].len()
    }

    /// A command for the adapter.
    pub fn order(&mut self, ticket: u64, command: LabCommand) {
        self.commands.push_back((ticket, command));
    }

    /// Work done so far: how often each was charged, by name.
    pub fn charges(&self) -> impl Iterator<Item = (&'static str, u64)> {
        WORKS.into_iter().zip(self.charges)
    }

    /// The same, in the order of [`Work`].
    #[inline]
    pub(crate) fn charged(&self) -> &[u64; KINDS] {
        &self.charges
    }

    #[inline(always)]
    fn note(&mut self, trace: impl FnOnce() -> Trace) {
        if !self.terse {
            self.trace.push(trace());
        }
    }
}

impl Board for LabBoard {
    type Region = LabRegion;
    type Attachment = LabAttachment;

    fn receive(&mut self, port: PortIndex, format: CellFormat, fifo: &mut [u8]) -> usize {
        let there = &mut self.there[usize::from(port.0)];
        let stride = format.stride();
        let asked = format.cells_in(fifo.len());
        let n = asked.min(there.len());
        for (cell, place) in there.drain(..n).zip(fifo.chunks_exact_mut(stride)) {
            place.copy_from_slice(&cell[..stride]);
        }
        if !self.terse || self.tells_received {
            self.trace.push(Trace::Received {
                port,
                asked,
                format,
                cells: fifo[..n * stride].to_vec(),
            });
        }
        n
    }

    fn transmit_space(&mut self, port: PortIndex) -> usize {
        self.space[usize::from(port.0)]
    }

    fn transmit(&mut self, port: PortIndex, format: CellFormat, cells: &[u8]) {
        let n = format.cells_in(cells.len());
        let space = &mut self.space[usize::from(port.0)];
        assert!(n <= *space, "more cells than the port takes");
        *space -= n;
        if let Some((to, _)) = self.joined[usize::from(port.0)] {
            let there = &mut self.there[usize::from(to.0)];
            for cell in cells.chunks_exact(format.stride()) {
                there.push_back(whole(cell));
            }
        }
        let cells = cells.to_vec();
        self.trace.push(Trace::Transmitted {
            port,
            format,
            cells,
        });
    }

    fn crossing(&self, port: PortIndex) -> Option<PortIndex> {
        let (to, whole) = self.joined[usize::from(port.0)]?;
        (whole && self.waiting(to) == 0).then_some(to)
    }

    fn crossed(&mut self, from: PortIndex, _to: PortIndex, cells: u32) {
        let space = &mut self.space[usize::from(from.0)];
        let turn = cells.min(256) as usize;
        assert!(turn <= *space, "more cells than the port takes");
        *space = space.saturating_sub(cells as usize);
        self.crossed += u64::from(cells);
    }

    fn waits(&self) -> bool {
        self.has_orders() || self.there.iter().any(|there| !there.is_empty())
    }

    fn is_held(&self, port: PortIndex) -> bool {
        self.space[usize::from(port.0)] == 0
    }

    fn next_deadline(&self) -> Option<Time> {
        self.deadline
    }

    fn interrupt(&mut self, index: AttachmentIndex, guaranteed: bool) {
        self.trace.push(Trace::Interrupted(index, guaranteed));
    }

    fn command(&mut self) -> Option<LabCommand> {
        if self.terse && self.commands.is_empty() {
            return None;
        }
        let next = self.commands.pop_front();
        let ticket = next.as_ref().map(|(ticket, _)| *ticket);
        self.note(|| Trace::Command(ticket));
        next.map(|(_, command)| command)
    }

    fn ended(&mut self, port: PortIndex, address: VpiVci, end: PduEnd) {
        let (delivered, discarded) = self.ended.entry((port, address)).or_default();
        match end {
            PduEnd::Delivered { pdus, .. } => *delivered += u64::from(pdus),
            PduEnd::Discarded(reason) => discarded.add(reason, 1),
        }
    }

    fn complete(&mut self, completion: LabCompletion) {
        self.trace.push(Trace::Completed(Box::new(completion)));
    }

    fn posted(&mut self, index: AttachmentIndex, event: &Event) {
        self.trace.push(Trace::Posted(index, *event));
    }

    #[inline]
    fn charge(&mut self, work: Work, times: u32) {
        self.charges[work as usize] += u64::from(times);
    }

    #[inline(always)]
    fn judged(&mut self, outcome: CellOutcome, cells: u32) {
        self.note(|| Trace::Judged(outcome, cells));
    }

    #[inline]
    fn planted(&self, bug: Planted) -> bool {
        self.planted == Some(bug)
    }

    fn abr_planted(&self) -> fn(AbrPlanted) -> bool {
        |bug| ABR_BUG.get() == Some(bug)
    }
}

fn whole(octets: &[u8]) -> Octets {
    let mut whole = [0; CELL_LEN];
    whole[..octets.len()].copy_from_slice(octets);
    whole
}

/// Kinds of work.
pub(crate) const KINDS: usize = Work::HandleCommand as usize + 1;

/// The names of work, in the order of [`Work`].
const WORKS: [&str; KINDS] = [
    "test_receive_fifos",
    "parse_empty_transmit_queues",
    "enqueue_to_empty",
    "enqueue",
    "dequeue",
    "discard_cells",
    "lookup",
    "receive_cells",
    "receive_pdu",
    "transmit_cells",
    "schedule",
    "answer_oam",
    "post_event",
    "handle_command",
];
