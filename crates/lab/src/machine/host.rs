use std::collections::VecDeque;

use cellgate_core::adapter::{Attachment, AttachmentIndex, Event, EventKind, Region, VcId};
use cellgate_core::contract::{CellRate, aal5_cells};
use cellgate_core::queue::{
    Doorbell, EventQueue, Producer, ReceiveQueue, ReceivedPdu, SduOptions, TransmitQueue, Words,
    queue,
};

use super::workstation::ALIGN;
use crate::memory::{LabAttachment, LabRegion, TRANSMIT_BUFFER_AT};
use crate::world::{Interval, Pace, Ps};

/// An SDU whose every 48 octets, what a cell carries, are their number in it again and again.
fn numbered(sdu: u32) -> Vec<u8> {
    let pairs = (0..sdu.div_ceil(2)).map(|pair| ((pair / 24) as u16).to_be_bytes());
    let mut octets: Vec<u8> = pairs.flatten().collect();
    octets.truncate(sdu as usize);
    octets
}

/// What work costs the host's CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCosts {
    /// Entering and leaving the interrupt handler.
    pub interrupt: Ps,
    /// A received PDU: taking it, and giving its space back.
    pub pdu: Ps,
    /// Any other event.
    pub event: Ps,
}

impl HostCosts {
    /// A host for which everything is free.
    pub const NONE: Self = Self {
        interrupt: Ps::ZERO,
        pdu: Ps::ZERO,
        event: Ps::ZERO,
    };
}

/// Turns of the idler's loop take so long: ten cycles of a Pentium at 100 MHz.
const LOOP: Ps = Ps::from_ns(100);

/// A VC as the host sees it.
#[derive(Debug)]
struct Connection {
    vc: VcId,
    region: LabRegion,
    receive: ReceiveQueue,
    transmit: TransmitQueue,
    /// SDU that is sent again and again, in octets; 0: none.
    sdu: u32,
    /// The least time from one PDU given back to the next.
    drain: Ps,
    /// When the last one was, or will be.
    drained: Ps,
    /// PDUs to be given back, and when.
    held: VecDeque<(Ps, ReceivedPdu)>,
    received: u64,
    /// New SDUs of which the adapter was not told.
    unrung: bool,
    /// When its PDUs take turns with those of others.
    turns: Option<Turns>,
}

/// When a connection's PDUs are due: as many cells as they have, at its rate.
#[derive(Debug)]
struct Turns {
    interval: Interval,
    due: Pace,
}

/// The host: one client of the adapter, its interrupt handler, an idler.
#[derive(Debug)]
pub struct Host {
    costs: HostCosts,
    memory: LabAttachment,
    pub(super) index: AttachmentIndex,
    events: EventQueue,
    doorbells: Producer<queue::Doorbells>,
    connections: Vec<Connection>,
    /// The handler runs until then.
    busy_until: Ps,
    busy: Ps,
    interrupts: u64,
}

impl Host {
    /// Descriptors of every queue.
    pub(super) const SLOTS: u32 = 32;
    /// SDUs kept waiting by a greedy writer.
    const AHEAD: u32 = Self::SLOTS / 2;

    pub(super) fn new(costs: HostCosts, memory: LabAttachment, index: AttachmentIndex) -> Self {
        Self {
            costs,
            index,
            events: EventQueue::new(memory.event_slots()),
            doorbells: Producer::new(memory.doorbell_slots()),
            memory,
            connections: Vec::new(),
            busy_until: Ps::ZERO,
            busy: Ps::ZERO,
            interrupts: 0,
        }
    }

    /// An open VC: it gives a received PDU back at once, but no sooner than `drain` after the one
    /// before, and sends SDUs of `sdu` octets without end.
    pub(super) fn open(&mut self, vc: VcId, region: LabRegion, sdu: u32, drain: Ps) {
        let sizes = region.sizes();
        let own = region.from_client();
        for at in (0..sizes.transmit_len).step_by(sdu.next_multiple_of(ALIGN).max(1) as usize) {
            own.copy_in(TRANSMIT_BUFFER_AT + at as usize, &numbered(sdu));
        }
        self.connections.push(Connection {
            vc,
            receive: ReceiveQueue::new(sizes.receive_slots, sizes.receive_buffer, vc.generation),
            transmit: TransmitQueue::new(sizes.transmit_slots, sizes.transmit_len, vc.generation),
            region,
            sdu,
            drain,
            drained: Ps::ZERO,
            held: VecDeque::new(),
            received: 0,
            unrung: false,
            turns: None,
        });
    }

    /// The PDUs of the connection that was opened last leave at this rate, one at a time and none
    /// beside one of another such connection.
    pub(super) fn interleave(&mut self, now: Ps, rate: CellRate) {
        if let Some(connection) = self.connections.last_mut() {
            connection.turns = Some(Turns {
                interval: Interval::of_rate(rate),
                due: Pace::from(now),
            });
        }
    }

    /// Hands over the PDU that has been due for the longest, if no such PDU is on its way.
    fn take_turns(&mut self, now: Ps) {
        let due = |connection: &Connection| connection.turns.as_ref().map(|turns| turns.due.at());
        let all = self.connections.iter_mut();
        let mut next: Option<&mut Connection> = None;
        for connection in all.filter(|connection| connection.turns.is_some()) {
            if connection.is_sending() {
                return;
            }
            if next.as_ref().is_none_or(|next| due(connection) < due(next)) {
                next = Some(connection);
            }
        }
        if let Some(connection) = next.filter(|next| due(next) <= Some(now)) {
            connection.take_turn();
        }
    }

    /// What the host does between two steps of the adapter.
    pub(super) fn turn(&mut self, now: Ps, interrupts: u32) {
        self.take_turns(now);
        for connection in &mut self.connections {
            connection.give_back(now);
            connection.refill();
            if connection.unrung {
                let bell = Doorbell {
                    vc: connection.vc.index.0.into(),
                    generation: connection.vc.generation,
                };
                let (mine, peer) = (self.memory.from_client(), self.memory.from_adapter());
                connection.unrung = !self.doorbells.push(mine, peer, &bell.emit());
            }
        }
        if interrupts > 0 {
            self.handle_interrupt(now);
        }
    }

    fn handle_interrupt(&mut self, now: Ps) {
        // An interrupt during the handler only makes it look again.
        if self.busy_until <= now {
            self.interrupts += 1;
            self.busy_until = now;
            self.spend(self.costs.interrupt);
        }
        let (mine, peer) = (
            self.memory.from_client().clone(),
            self.memory.from_adapter().clone(),
        );
        while let Some(octets) = self.events.next(&mine, &peer) {
            let Some(event) = Event::parse(&octets) else {
                continue;
            };
            self.handle(&event);
        }
    }

    fn spend(&mut self, time: Ps) {
        self.busy_until = self.busy_until.plus(time);
        self.busy = self.busy.plus(time);
    }

    fn handle(&mut self, event: &Event) {
        let known = |connection: &Connection| connection.vc == event.vc;
        let Some(index) = self.connections.iter().position(known) else {
            return;
        };
        if event.kind != EventKind::PduReceived {
            self.spend(self.costs.event);
            return;
        }
        self.spend(self.costs.pdu);
        let at = self.busy_until;
        self.connections[index].take(at);
    }

    /// PDUs received on a VC, by the order in which the VCs were opened.
    pub fn received(&self, index: usize) -> u64 {
        self.connections[index].received
    }

    pub fn interrupts(&self) -> u64 {
        self.interrupts
    }

    /// CPU time of the handler.
    pub fn busy(&self) -> Ps {
        self.busy
    }

    /// How often a tiny loop runs in `span` beside so much other work: the idler (section 6.5).
    pub fn idler_loops(span: Ps, busy: Ps) -> u64 {
        span.since(busy).ps() / LOOP.ps()
    }
}

impl Connection {
    /// A PDU was received.
    fn take(&mut self, now: Ps) {
        let (mine, peer) = (self.region.from_client(), self.region.from_adapter());
        if let Some(pdu) = self.receive.next(mine, peer) {
            self.received += 1;
            self.drained = now.max(self.drained.plus(self.drain));
            self.held.push_back((self.drained, pdu));
        }
    }

    fn give_back(&mut self, now: Ps) {
        while let Some((_, pdu)) = self.held.pop_front_if(|(at, _)| *at <= now) {
            self.receive.release(self.region.from_client(), pdu);
        }
    }

    /// Keeps SDUs waiting.
    fn refill(&mut self) {
        if self.sdu == 0
            || self.turns.is_some()
            || self.transmit.reclaim(self.region.from_adapter()) > Host::AHEAD / 2
        {
            return;
        }
        while self.transmit.submitted() - self.transmit.completed() < Host::AHEAD.into() {
            if !self.submit() {
                break;
            }
        }
    }

    /// Hands one SDU over, if there is room.
    fn submit(&mut self) -> bool {
        let space = self.transmit.reserve(self.region.from_adapter(), self.sdu);
        let submitted = space.is_some_and(|space| {
            let client = self.region.from_client();
            self.transmit.submit(client, space, SduOptions::default())
        });
        self.unrung |= submitted;
        submitted
    }

    /// Whether an SDU that was handed over has not left.
    fn is_sending(&mut self) -> bool {
        self.transmit.reclaim(self.region.from_adapter());
        self.transmit.submitted() != self.transmit.completed()
    }

    /// Hands over the PDU whose turn it is.
    fn take_turn(&mut self) {
        if self.submit()
            && let Some(turns) = &mut self.turns
        {
            for _ in 0..aal5_cells(self.sdu) {
                turns.due.advance(turns.interval);
            }
        }
    }
}
