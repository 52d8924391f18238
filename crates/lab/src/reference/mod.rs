//! The executable specification of the adapter: one cell at a time, nothing optimised, nothing
//! shared with core but the names of things.
//!
//! ```text
//!  Board's trace            Reference                      compared by the judge
//!  Received(port, cells) -> cell() -> police -> buffer --> outcomes, events, descriptors
//!  Completed(ticket)     -> completed()               --> results, counters
//!  Transmitted(cells)    -> next_reply()              --> replies to OAM cells, before all else
//!                           next_loopback()           --> loopback cells, before all PDUs
//!                           Output::cell()            --> PDUs, order, conformance
//! ```
//!
//! What the specification leaves to the adapter - in which order it serves ports, which slot an
//! opened VC gets, when between its bounds a cell leaves - the reference takes from the trace and
//! checks against the bounds.

mod aal34;
mod abr;
mod bits;
mod commands;
mod loopback;
mod notify;
mod oam;
mod output;
mod policer;
mod receive;
mod slots;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cellgate_core::Time;
use cellgate_core::adapter::{
    AdapterStats, AttachmentIndex, CellOutcome, Config, Discard, DiscardCounts, Event, OpenRequest,
    PortIndex, VcId, VcStats,
};

use crate::memory::RegionSizes;

pub(crate) use aal34::{cells_of_sdu as cells_of_aal34, payloads, raw, seal};
pub(crate) use abr::{AbrEnd, Wrong as AbrWrong};
pub(crate) use bits::{crc32, hec, remainder10, seal10};
pub(crate) use loopback::LoopbackLeft;
pub(crate) use output::{Output, Submission, policers};
pub(crate) use policer::Policer;
use slots::Slots;

/// What the clients have written where the adapter reads it.
pub(crate) trait Clients {
    /// The tail of the receive queue in the memory that came with command `memory`.
    fn receive_tail(&self, memory: u64) -> u64;
    /// The tail of the event queue of attachment `index`.
    fn event_tail(&self, index: u16) -> u64;
}

/// A PDU that the client must find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExpectedPdu {
    /// The ticket of the command that brought the memory.
    pub(crate) memory: u64,
    pub(crate) vc: VcId,
    /// Where in the buffer: octets since the region was new.
    pub(crate) position: u64,
    pub(crate) sdu: Vec<u8>,
    pub(crate) uu: u8,
    pub(crate) cpi: u8,
    /// Of AAL3/4.
    pub(crate) mid: u16,
    pub(crate) lent: bool,
    pub(crate) tagged: bool,
    /// The CLP bit of any cell, or it was tagged.
    pub(crate) clp: bool,
    /// The EFCI bit of the last cell.
    pub(crate) congested: bool,
    pub(crate) cells: u32,
    pub(crate) time: Time,
}

/// Counts by reason; core's own type is the thing compared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts(BTreeMap<Discard, u64>);

impl Counts {
    fn add(&mut self, reason: Discard, n: u64) {
        *self.0.entry(reason).or_default() += n;
    }

    fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// The first reason with another count, if any: (reason, here, there).
    pub(crate) fn difference(&self, other: &DiscardCounts) -> Option<(Discard, u64, u64)> {
        Discard::ALL
            .into_iter()
            .map(|reason| {
                let here = self.0.get(&reason).copied().unwrap_or(0);
                (reason, here, other.of(reason))
            })
            .find(|(_, here, there)| here != there)
    }
}

/// A PDU in progress.
#[derive(Clone, Debug)]
struct Partial {
    position: u64,
    payload: Vec<u8>,
    cells: u64,
    max_cells: u64,
    max_sdu: u64,
    terms: Terms,
    /// Cells of CLP 1.
    cells_clp1: u64,
}

/// On what terms a PDU was accepted, and what it is charged to.
#[derive(Clone, Copy, Debug)]
struct Terms {
    lent: bool,
    tagged: bool,
    charged: policer::Charged,
}

#[derive(Clone, Debug)]
enum State {
    BetweenPdus,
    Receiving(Partial),
    Discarding(Discard),
}

// What every cell touches stands first, on as few cache lines as hold it.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Vc {
    state: State,
    /// Instead of that, on an AAL3/4 VC that receives.
    interleaved: Option<Box<aal34::Interleaved>>,
    /// Cells held, as last counted in the sum of all.
    counted: u64,
    /// Its client is an adversary: what becomes of this VC is its own affair.
    lawless: bool,
    id: VcId,
    /// Descriptors published; one past the newest.
    queue_head: u64,
    request: OpenRequest,
    stats: RefStats,
    memory: u64,
    sizes: RegionSizes,
    buckets: policer::Buckets,
    /// Of its OAM cells.
    oam: policer::Policer,
    /// The client's, as last accepted.
    queue_tail: u64,
    /// Where the buffer's used part ends and where it begins.
    write_head: u64,
    freed: u64,
    /// End of each published PDU's room, rounded up to 64.
    ends: Vec<u64>,
    /// The tail when the client was last told that its queue is full.
    told_full_at: Option<u64>,
    lease_pdus: u32,
    lease_expires_ns: u64,
}

/// [`VcStats`] without the transmit direction.
#[derive(Clone, Debug, Default)]
struct RefStats {
    cells_received: u64,
    cells_delivered: u64,
    cells_delivered_clp1: u64,
    cells_discarded: Counts,
    pdus_delivered: u64,
    pdus_lent: u64,
    pdus_tagged: u64,
    cells_answered: u64,
    pdus_discarded: Counts,
    tail_faults: u64,
}

#[derive(Clone, Debug)]
struct Client {
    event_slots: u64,
    events: u64,
    silent: u32,
    silent_deadline_ns: Option<u64>,
    /// In this step, and whether each was for a guaranteed connection.
    interrupts: Vec<bool>,
    /// One that asks for an interrupt, since the last, is.
    guaranteed: bool,
    /// Events in the queue that the client did not take yet.
    queued: VecDeque<Event>,
    lost: u64,
}

#[derive(Clone, Debug)]
struct Port {
    hec: bits::HecReceiver,
    last_empty_ns: u64,
    /// Cells taken since it was found empty.
    crowd: u64,
    replies: oam::Replies,
    /// Replies and loopback cells that waited when the step began, and those that have left in it.
    replies_due: usize,
    replied: usize,
}

/// A judged cell, for the report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    port: PortIndex,
    /// None: the header was damaged.
    fields: Option<bits::Fields>,
}

impl std::fmt::Display for Judged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "port {}", self.port.0)?;
        match self.fields {
            Some(fields) => write!(f, " {}.{} pti {}", fields.vpi, fields.vci, fields.pti),
            None => write!(f, " damaged header"),
        }
    }
}

/// What a step must have brought, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    /// Outcome of each judged cell; none: anything.
    pub(crate) outcomes: VecDeque<(Option<CellOutcome>, Judged)>,
    /// Receive events that must have been posted, per attachment.
    pub(crate) events: BTreeMap<u16, VecDeque<Event>>,
    /// PDUs to be found, in order.
    pub(crate) pdus: VecDeque<ExpectedPdu>,
}

/// The reference model.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    config: Config,
    now_ns: u64,
    previous_ns: u64,
    /// In this step best effort gives way.
    overloaded: bool,
    /// Cells received in steps in which it did, since it was last let in.
    gave_way: u64,
    /// Cells received before this step.
    received_before: u64,
    ports: Vec<Port>,
    vcs: Slots<Vc>,
    /// Their slots, by port, VPI and VCI: at most one receives and one sends. In order.
    places: BTreeMap<(u8, u16, u16), [Option<u16>; 2]>,
    /// How many there are in each block of addresses in use, and on each virtual path.
    leaves: BTreeMap<(u8, u32), u32>,
    paths_of_vcs: BTreeMap<(u8, u16), u32>,
    /// Those of which several PDUs can be in progress.
    interleaved: BTreeSet<u16>,
    /// Their slots, by the memory they use.
    users: BTreeMap<u64, u16>,
    generations: BTreeMap<u16, u32>,
    clients: BTreeMap<u16, Client>,
    /// Modifications that wait for the end of a PDU, by VC: ticket, and since when.
    pending: BTreeMap<VcId, (u64, u64)>,
    /// Loopback cells that wait to leave or are out.
    loopbacks: Vec<loopback::Out>,
    /// The virtual paths that are in use, by port and VPI, with the policers of their OAM cells.
    paths: BTreeMap<(u8, u16), policer::Policer>,
    /// Memory that was given back, and the last tail believed there.
    given_back: BTreeMap<u64, u64>,
    received: u64,
    /// Cells of PDUs in progress.
    held: u64,
    unread: u64,
    delivered: u64,
    answered: u64,
    discarded: Counts,
    events: u64,
    events_lost: u64,
    /// An attachment that went in this step, and the interrupts it had before.
    detached: Option<(u16, Vec<bool>)>,
    /// The commands whose VCs adversaries own.
    pub(crate) lawless: BTreeSet<u64>,
    pub(crate) expected: Expected,
}

impl Reference {
    pub(crate) fn new(config: &Config, now: Time) -> Self {
        let port = Port {
            hec: bits::HecReceiver::default(),
            last_empty_ns: now.ns(),
            crowd: 0,
            replies: oam::Replies::new(),
            replies_due: 0,
            replied: 0,
        };
        Self {
            config: config.clone(),
            now_ns: now.ns(),
            previous_ns: now.ns(),
            overloaded: false,
            gave_way: 0,
            received_before: 0,
            ports: vec![port; config.ports.len()],
            vcs: Slots::new(),
            places: BTreeMap::new(),
            leaves: BTreeMap::new(),
            paths_of_vcs: BTreeMap::new(),
            interleaved: BTreeSet::new(),
            users: BTreeMap::new(),
            generations: BTreeMap::new(),
            clients: BTreeMap::new(),
            pending: BTreeMap::new(),
            loopbacks: Vec::new(),
            paths: BTreeMap::new(),
            given_back: BTreeMap::new(),
            received: 0,
            held: 0,
            unread: 0,
            delivered: 0,
            answered: 0,
            discarded: Counts::default(),
            events: 0,
            events_lost: 0,
            detached: None,
            lawless: BTreeSet::new(),
            expected: Expected::default(),
        }
    }

    /// Begins a step.
    pub(crate) fn step(&mut self, now: Time) {
        self.previous_ns = self.now_ns;
        self.now_ns = now.ns();
        self.detached = None;
        let bound = u64::from(self.config.overload_cells);
        let taken = self.received - self.received_before;
        self.received_before = self.received;
        self.gave_way = if self.overloaded {
            self.gave_way + taken
        } else {
            0
        };
        if bound > 0 && self.gave_way >= bound {
            // Let in for an eighth as many, or the rest of a step.
            let until = bound - (bound / 8).clamp(1, 4096);
            self.ports
                .iter_mut()
                .for_each(|port| port.crowd = port.crowd.min(until));
            self.gave_way = 0;
        }
        let crowded = self.ports.iter().any(|port| port.crowd >= bound);
        self.overloaded = bound > 0 && crowded;
        for client in self.clients.values_mut() {
            client.interrupts.clear();
        }
        for (index, port) in self.ports.iter_mut().enumerate() {
            let waits = |out: &&loopback::Out| out.waits_on(index);
            let loopbacks = self.loopbacks.iter().filter(waits).count();
            (port.replies_due, port.replied) = (port.replies.len() + loopbacks, 0);
        }
    }

    /// The reply that must leave `port` before any other cell, if one waits.
    pub(crate) fn next_reply(&mut self, port: PortIndex) -> Option<Vec<u8>> {
        let port = &mut self.ports[usize::from(port.0)];
        let reply = port.replies.pop_front()?;
        port.replied += 1;
        Some(reply)
    }

    /// At the end of a step in which port n took `space(n)` cells: replies that waited have left,
    /// as far as there was room.
    pub(crate) fn replies_difference(&self, space: impl Fn(usize) -> usize) -> Option<String> {
        let mut ports = self.ports.iter().enumerate();
        ports.find_map(|(index, port)| {
            let expected = port.replies_due.min(space(index));
            (port.replied != expected).then(|| {
                let replied = port.replied;
                format!("port {index}: {replied} replies left, expected {expected}")
            })
        })
    }

    /// Counts anew what one VC holds.
    fn count_held(&mut self, index: u16) {
        if let Some(vc) = self.vcs.get_mut(index) {
            let held = vc.held();
            self.held = self.held - vc.counted + held;
            vc.counted = held;
        }
    }

    /// Cells of the PDU in progress on one VC.
    pub(crate) fn held_by(&self, id: VcId) -> u64 {
        self.named(id).map_or(0, Vc::held)
    }

    /// How a VC was opened, or modified since.
    /// Whether a port's cells come before others.
    pub(crate) fn is_real_time(&self, port: PortIndex) -> bool {
        self.config.ports[usize::from(port.0)].real_time
    }

    pub(crate) fn request(&self, id: VcId) -> Option<&OpenRequest> {
        self.named(id).map(|vc| &vc.request)
    }

    /// Who is told of a VC's events.
    pub(crate) fn attachment_of(&self, id: VcId) -> Option<AttachmentIndex> {
        self.request(id).map(|request| request.attachment)
    }

    /// Receive tails of a VC that could not be.
    pub(crate) fn tail_faults(&self, id: VcId) -> u64 {
        self.named(id).map_or(0, |vc| vc.stats.tail_faults)
    }

    /// The tail of a receive queue that was believed last.
    pub(crate) fn accepted_tail(&self, memory: u64) -> u64 {
        let user = self.users.get(&memory);
        let used = user.and_then(|index| self.vcs.get(*index));
        let used = used.map(|vc| vc.queue_tail);
        used.or_else(|| self.given_back.get(&memory).copied())
            .unwrap_or(0)
    }

    /// Cells that a step may take from each port.
    pub(crate) fn budgets(&self) -> Vec<usize> {
        self.config
            .ports
            .iter()
            .map(|port| usize::from(port.budget))
            .collect()
    }

    /// Whether a VC belongs to an adversary.
    pub(crate) fn is_lawless(&self, id: VcId) -> bool {
        self.named(id).is_some_and(|vc| vc.lawless)
    }

    fn named(&self, id: VcId) -> Option<&Vc> {
        self.vcs.get(id.index.0).filter(|vc| vc.id == id)
    }

    /// What differs between the adapter's counters and the reference's, if anything does.
    pub(crate) fn adapter_difference(&self, stats: &AdapterStats) -> Option<String> {
        let pairs = [
            ("cells_received", self.received, stats.cells_received),
            ("cells_unread", self.unread, stats.cells_unread),
            ("cells_answered", self.answered, stats.cells_answered),
            ("cells_delivered", self.delivered, stats.cells_delivered),
            (
                "cells_held",
                self.vcs.values().map(Vc::held).sum(),
                stats.cells_held,
            ),
            ("events", self.events, stats.events),
            ("events_lost", self.events_lost, stats.events_lost),
        ];
        let conserved = stats.cells_delivered
            + stats.cells_discarded.total()
            + stats.cells_unread
            + stats.cells_held
            + stats.cells_answered;
        // OAM cells are no business of the client's memory: an adversary changes nothing there.
        let known = &pairs[..if !self.lawless.is_empty() {
            3
        } else {
            pairs.len()
        }];
        first_difference(known)
            .or_else(|| {
                difference_by_reason(&self.discarded, &stats.cells_discarded)
                    .filter(|_| self.lawless.is_empty())
            })
            .or_else(|| {
                (conserved != stats.cells_received).then(|| {
                    format!(
                        "{} cells received, {conserved} accounted for",
                        stats.cells_received
                    )
                })
            })
    }

    fn check_conservation(&self) {
        let gone = self.delivered + self.discarded.total() + self.unread + self.answered;
        let accounted = gone + self.held;
        assert!(
            !self.lawless.is_empty() || self.received == accounted,
            "the reference itself loses cells"
        );
    }
}

impl Vc {
    fn held(&self) -> u64 {
        let interleaved = self.interleaved.as_deref();
        let one = match &self.state {
            State::Receiving(partial) => partial.cells,
            State::BetweenPdus | State::Discarding(_) => 0,
        };
        one + interleaved.map_or(0, aal34::Interleaved::held)
    }

    fn difference(&self, stats: &VcStats) -> Option<String> {
        if self.lawless {
            return None;
        }
        let ours = &self.stats;
        let pairs = [
            ("cells_received", ours.cells_received, stats.cells_received),
            (
                "cells_delivered",
                ours.cells_delivered,
                stats.cells_delivered,
            ),
            (
                "cells_delivered_clp1",
                ours.cells_delivered_clp1,
                stats.cells_delivered_clp1,
            ),
            ("cells_held", self.held(), stats.cells_held),
            ("pdus_delivered", ours.pdus_delivered, stats.pdus_delivered),
            ("pdus_lent", ours.pdus_lent, stats.pdus_lent),
            ("pdus_tagged", ours.pdus_tagged, stats.pdus_tagged),
            ("cells_answered", ours.cells_answered, stats.cells_answered),
        ];
        let gone = stats.cells_delivered + stats.cells_discarded.total() + stats.cells_answered;
        let accounted = gone + stats.cells_held;
        first_difference(&pairs)
            .or_else(|| difference_by_reason(&ours.cells_discarded, &stats.cells_discarded))
            .or_else(|| {
                difference_by_reason(&ours.pdus_discarded, &stats.pdus_discarded)
                    .map(|text| format!("PDUs {text}"))
            })
            .or_else(|| {
                (accounted != stats.cells_received).then(|| {
                    format!(
                        "{} cells received, {accounted} accounted for",
                        stats.cells_received
                    )
                })
            })
            .map(|text| format!("{:?}: {text}", self.id))
    }
}

fn first_difference(pairs: &[(&str, u64, u64)]) -> Option<String> {
    pairs
        .iter()
        .find(|(_, ours, theirs)| ours != theirs)
        .map(|(name, ours, theirs)| format!("{name}: expected {ours}, got {theirs}"))
}

fn difference_by_reason(ours: &Counts, theirs: &DiscardCounts) -> Option<String> {
    ours.difference(theirs).map(|(reason, ours, theirs)| {
        format!("discarded {}: expected {ours}, got {theirs}", reason.name())
    })
}
