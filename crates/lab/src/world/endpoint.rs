//! Applications of a host: they read and write the adapter's memory with the queues that programs
//! use, and check every octet that they find.

use std::collections::VecDeque;

use cellgate_core::adapter::{Aal, Attachment, AttachmentIndex, Event, EventKind, Region, VcId};
use cellgate_core::queue::{
    Doorbell, EventQueue, Producer, ReceiveQueue, ReceivedPdu, SduOptions, TransmitQueue, queue,
};
use cellgate_core::queue::{Words, layout};
use cellgate_core::wire::PAYLOAD_LEN;

use super::content::Content;
use crate::judge::Judge;
use crate::memory::{LabAttachment, LabRegion, LabView, LabWords, TRANSMIT_BUFFER_AT};

/// Octets of a cell's header in an AAL0 SDU.
pub(crate) const HEADER: usize = 4;

/// Entries of a doorbell queue.
pub(crate) const DOORBELL_SLOTS: u32 = 256;

/// A program: one event queue and one doorbell, whatever VCs it has.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) memory: LabAttachment,
    pub(crate) index: Option<AttachmentIndex>,
    events: EventQueue,
    doorbells: Producer<queue::Doorbells>,
    /// Doorbells that found the queue full.
    unrung: VecDeque<VcId>,
    /// It has been woken and has not run yet.
    pub(crate) is_woken: bool,
    /// Of the command that attaches it.
    pub(crate) ticket: u64,
    /// It has written into this memory what it should not.
    pub(crate) is_lawless: bool,
    /// It has rung, or written something, since the adapter's last step.
    pub(crate) has_written: bool,
    /// Events taken, by kind.
    pub(crate) seen: [u64; 6],
}

impl Client {
    pub(crate) fn new(event_slots: u32) -> Self {
        Self {
            memory: LabAttachment::new(event_slots, DOORBELL_SLOTS),
            index: None,
            events: EventQueue::new(event_slots),
            doorbells: Producer::new(DOORBELL_SLOTS),
            unrung: VecDeque::new(),
            is_woken: false,
            ticket: 0,
            is_lawless: false,
            has_written: false,
            seen: [0; 6],
        }
    }

    /// It is detached, and leaves its memory.
    pub(crate) fn goes(&mut self) {
        self.index = None;
        self.memory = LabAttachment::new(1, 1);
    }

    /// The next event.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        let (client, adapter) = (self.memory.from_client(), self.memory.from_adapter());
        let octets = self.events.next(client, adapter)?;
        let event = Event::parse(&octets)?;
        self.seen[event.kind as usize] += 1;
        Some(event)
    }

    /// Whether events were lost since the last look.
    pub(crate) fn has_lost(&mut self) -> bool {
        self.events.lost(self.memory.from_adapter()) > 0
    }

    /// Rings for a VC, at once or when there is room; the VCs that it rang for.
    pub(crate) fn ring(&mut self, vc: Option<VcId>) -> Vec<VcId> {
        self.unrung.extend(vc);
        self.has_written = true;
        let mut rung = Vec::new();
        while let Some(&vc) = self.unrung.front() {
            let doorbell = Doorbell {
                vc: vc.index.0.into(),
                generation: vc.generation,
            };
            let (client, adapter) = (self.memory.from_client(), self.memory.from_adapter());
            if !self.doorbells.push(client, adapter, &doorbell.emit()) {
                break;
            }
            self.unrung.pop_front();
            rung.push(vc);
        }
        rung
    }

    /// Whether the adapter has doorbells to answer: none of a client that has been detached, whose
    /// application may ring until it hears of that. Whoever lies about their number gets a step.
    pub(crate) fn has_rung(&self) -> bool {
        if self.is_lawless {
            return self.has_written;
        }
        let tail = layout::attachment::DOORBELL_TAIL;
        let answered = self.memory.from_adapter().load(tail);
        self.index.is_some() && self.doorbells.head() != answered
    }
}

/// A PDU that a reader has found.
#[derive(Debug)]
pub(crate) struct Found {
    /// The SDU's number; none: it is none of the connection's.
    pub(crate) number: Option<u64>,
    pub(crate) cells: u32,
    pub(crate) len: usize,
    pub(crate) tagged: bool,
    /// It lies across the end of the buffer.
    pub(crate) across: bool,
    pub(crate) pdu: ReceivedPdu,
}

/// An SDU that is handed over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sdu<'a> {
    /// A source's, by its number and its octets.
    Numbered(&'a Content, u64, u16),
    /// A stream's, and its user-to-user octet.
    Given(&'a [u8], u8),
}

impl Sdu<'_> {
    fn len(self) -> usize {
        match self {
            Self::Numbered(_, _, len) => len.into(),
            Self::Given(octets, _) => octets.len(),
        }
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) connection: u32,
    pub(crate) client: usize,
    pub(crate) vc: VcId,
    /// Ticket of the command that opened it.
    pub(crate) memory: u64,
    from_adapter: LabWords,
    pub(crate) from_client: LabWords,
    view: LabView,
    receive: ReceiveQueue,
    transmit: TransmitQueue,
    /// Of the receive and the transmit queue.
    slots: [u32; 2],
    aal: Aal,
    /// Octets of an SDU before the source's.
    header: usize,
    /// Events tell of every PDU sooner or later.
    pub(crate) is_told: bool,
    /// Its client writes what it likes into its own memory, and reads what comes of that.
    pub(crate) is_lawless: bool,
}

impl Endpoint {
    pub(crate) fn new(
        (connection, client): (u32, usize),
        vc: VcId,
        memory: u64,
        region: &Handles,
        aal: Aal,
    ) -> Self {
        let sizes = region.sizes;
        Self {
            connection,
            client,
            vc,
            memory,
            from_adapter: region.from_adapter.clone(),
            from_client: region.from_client.clone(),
            view: region.view.clone(),
            receive: ReceiveQueue::new(sizes.receive_slots, sizes.receive_buffer, vc.generation),
            transmit: TransmitQueue::new(sizes.transmit_slots, sizes.transmit_len, vc.generation),
            slots: [sizes.receive_slots, sizes.transmit_slots],
            aal,
            header: if aal == Aal::Aal0 { HEADER } else { 0 },
            is_told: false,
            is_lawless: false,
        }
    }

    /// The same end where another application has left it.
    pub(crate) fn resumed(self, region: &Handles) -> Self {
        let (sizes, generation) = (region.sizes, self.vc.generation);
        let from = (&region.from_client, &region.from_adapter);
        let (slots, len) = (sizes.transmit_slots, sizes.transmit_len);
        let buffer = (sizes.receive_slots, sizes.receive_buffer);
        Self {
            receive: ReceiveQueue::resumed(buffer.0, buffer.1, generation, from),
            transmit: TransmitQueue::resumed(slots, len, generation, from),
            ..self
        }
    }

    /// Whether there is room for an SDU.
    pub(crate) fn has_room(&mut self, len: u16) -> bool {
        let len = self.header + usize::from(len);
        let space = self.transmit.reserve(&self.from_adapter, len as u32);
        space.is_some()
    }

    /// Whether what was handed over has been sent.
    pub(crate) fn has_sent_all(&mut self) -> bool {
        self.transmit.reclaim(&self.from_adapter) == 0
    }

    /// The next PDU; it stays where it is until it is given back.
    pub(crate) fn next(&mut self, content: &Content) -> Option<Found> {
        let pdu = self.receive.next(&self.from_client, &self.from_adapter)?;
        let (room, len) = (self.view.len(), pdu.len());
        let offset = pdu.offset() % room;
        let sdu_len = len.saturating_sub(self.header);
        let number = self.view.show(offset, len, |octets| {
            let sdu = octets.get(self.header..).unwrap_or_default();
            content.number(self.connection, sdu)
        });
        let descriptor = *pdu.descriptor();
        let user = (descriptor.uu, descriptor.cpi);
        let is_of = |number: &u64| self.aal != Aal::Aal5 || user == Content::user(*number);
        Some(Found {
            number: number.filter(is_of),
            cells: descriptor.cells,
            len: sdu_len,
            tagged: descriptor.clp,
            across: offset + len > room,
            pdu,
        })
    }

    /// Looks at the octets of a PDU that is not given back yet.
    pub(crate) fn show<T>(&self, found: &Found, look: impl FnOnce(&[u8]) -> T) -> T {
        let offset = found.pdu.offset() % self.view.len();
        self.view.show(offset, found.pdu.len(), look)
    }

    /// The judge looks at the PDU that was read last, before it is given back.
    pub(crate) fn is_judged_by(&self, judge: &mut Option<Judge>) -> Result<(), String> {
        match judge {
            Some(judge) => judge.takes(self.memory),
            None => Ok(()),
        }
    }

    /// Whether nothing waits to be read.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.receive.is_empty(&self.from_adapter)
    }

    /// Gives a PDU back.
    pub(crate) fn release(&mut self, found: Found) -> bool {
        // PDUs of several MIDs lie among each other; who lies gives back what it has not.
        if self.aal == Aal::Aal5 && !self.is_lawless {
            let (offset, octets) = (found.pdu.offset(), found.cells as usize * PAYLOAD_LEN);
            self.view.give_back(offset, octets);
        }
        self.receive.release(&self.from_client, found.pdu)
    }

    /// Hands an SDU over, which is made in `made`. False: there is no room.
    pub(crate) fn submit(&mut self, made: &mut Vec<u8>, sdu: Sdu<'_>) -> bool {
        let len = self.header + sdu.len();
        let Some(space) = self.transmit.reserve(&self.from_adapter, len as u32) else {
            return false;
        };
        made.clear();
        made.resize(len, 0);
        match sdu {
            Sdu::Numbered(content, number, _) => {
                content.fill(self.connection, number, &mut made[self.header..]);
            }
            Sdu::Given(octets, _) => made[self.header..].copy_from_slice(octets),
        }
        let at = TRANSMIT_BUFFER_AT + space.offset();
        self.from_client.copy_in(at, made);
        let options = self.options(sdu);
        self.transmit.submit(&self.from_client, space, options)
    }

    /// What else an SDU is sent with: UU and CPI of its own, or the MID of its connection.
    pub(crate) fn options(&self, sdu: Sdu<'_>) -> SduOptions {
        let mut options = SduOptions::default();
        match (self.aal, sdu) {
            (Aal::Aal5, Sdu::Numbered(_, number, _)) => {
                (options.uu, options.cpi) = Content::user(number);
            }
            (Aal::Aal34(_), _) => options.mid = (self.connection % 1_024) as u16,
            (_, Sdu::Given(_, uu)) => options.uu = uu,
            (Aal::Aal0, _) => {}
        }
        options
    }

    /// Whether the receive queue has more PDUs behind it than it holds.
    pub(crate) fn came_round(&self) -> bool {
        let head = self.from_adapter.load(layout::connection::RECEIVE_HEAD);
        head > self.slots[0].into()
    }

    /// The same of the transmit queue.
    pub(crate) fn sent_round(&self) -> bool {
        let tail = self.from_adapter.load(layout::connection::TRANSMIT_TAIL);
        tail > self.slots[1].into()
    }

    /// Indices and descriptors of the adapter that could not be.
    pub(crate) fn faults(&self) -> u64 {
        let indices = self.receive.faults() + self.transmit.faults();
        self.receive.bad_descriptors() + u64::from(indices)
    }
}

/// The client's view of a region that goes to the adapter.
#[derive(Clone, Debug)]
pub(crate) struct Handles {
    sizes: crate::memory::RegionSizes,
    from_adapter: LabWords,
    from_client: LabWords,
    view: LabView,
}

impl Handles {
    pub(crate) fn of(region: &LabRegion) -> Self {
        Self {
            sizes: region.sizes(),
            from_adapter: region.from_adapter().clone(),
            from_client: region.from_client().clone(),
            view: region.view(),
        }
    }
}

/// Whether an event says that there is something to read.
pub(crate) fn tells_of_pdus(event: &Event) -> bool {
    !matches!(event.kind, EventKind::TransmitCompleted)
}
