//! The clients' side of the shared memory, played straight from the byte map: what a client finds
//! is compared with what the reference says it must find.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cellgate_core::adapter::{Aal, Attachment, AttachmentIndex, EVENT_LEN, Region, VcId};
use cellgate_core::queue::Words;
use cellgate_core::queue::layout::{self, attachment, connection};

use crate::memory::{
    Journal, LabAttachment, LabRegion, LabView, LabWords, RegionSizes, TRANSMIT_BUFFER_AT,
};
use crate::reference::{Clients, ExpectedPdu, Submission};

/// The memory of a connection, seen by its client.
#[derive(Debug)]
struct Connection {
    sizes: RegionSizes,
    from_adapter: LabWords,
    from_client: LabWords,
    view: LabView,
    /// Descriptors released, and the tail that stands in memory, which may be a lie.
    released: u64,
    written: u64,
    /// PDUs found and not released.
    unread: VecDeque<ExpectedPdu>,
    transmit_head: u64,
}

/// The memory of a client.
#[derive(Debug)]
struct Attached {
    from_adapter: LabWords,
    from_client: LabWords,
    event_slots: u64,
    doorbell_slots: u64,
    index: Option<AttachmentIndex>,
    events_taken: u64,
    doorbells: u64,
}

/// All clients, by the tickets of the commands that brought their memory.
#[derive(Debug, Default)]
pub(crate) struct LabClients {
    connections: BTreeMap<u64, Connection>,
    attached: BTreeMap<u64, Attached>,
    /// What the adapter has written.
    written: Journal,
    /// Connections of which something else is expected than before, and new ones.
    expected: Vec<u64>,
}

impl Clients for LabClients {
    fn receive_tail(&self, memory: u64) -> u64 {
        self.connections
            .get(&memory)
            .map_or(0, |connection| connection.written)
    }

    fn event_tail(&self, index: u16) -> u64 {
        let mut attached = self.attached.values();
        attached
            .find(|attached| attached.index == Some(AttachmentIndex(index)))
            .map_or(0, |attached| attached.events_taken)
    }
}

impl LabClients {
    pub(crate) fn add_connection(&mut self, ticket: u64, region: &LabRegion) {
        region.from_adapter().watch(&self.written, ticket);
        self.expected.push(ticket);
        let connection = Connection {
            sizes: region.sizes(),
            from_adapter: region.from_adapter().clone(),
            from_client: region.from_client().clone(),
            view: region.view(),
            released: 0,
            written: 0,
            unread: VecDeque::new(),
            transmit_head: 0,
        };
        self.connections.insert(ticket, connection);
    }

    pub(crate) fn add_attachment(&mut self, ticket: u64, memory: &LabAttachment) {
        let attached = Attached {
            from_adapter: memory.from_adapter().clone(),
            from_client: memory.from_client().clone(),
            event_slots: u64::from(memory.event_slots()),
            doorbell_slots: u64::from(memory.doorbell_slots()),
            index: None,
            events_taken: 0,
            doorbells: 0,
        };
        self.attached.insert(ticket, attached);
    }

    /// The command that brought a client's memory was carried out.
    pub(crate) fn attached(&mut self, ticket: u64, index: AttachmentIndex) {
        if let Some(attached) = self.attached.get_mut(&ticket) {
            attached.index = Some(index);
        }
    }

    /// The client's slot is given up.
    pub(crate) fn detached(&mut self, index: AttachmentIndex) {
        self.attached
            .retain(|_, attached| attached.index != Some(index));
    }

    /// The client in a slot: the ticket of the command that brought its memory.
    pub(crate) fn in_slot(&self, index: AttachmentIndex) -> Option<u64> {
        let mut attached = self.attached.iter();
        attached
            .find(|(_, attached)| attached.index == Some(index))
            .map(|(ticket, _)| *ticket)
    }

    /// The slot of a client, by its ticket.
    pub(crate) fn index(&self, ticket: u64) -> Option<AttachmentIndex> {
        self.attached.get(&ticket)?.index
    }

    /// Looks for a PDU that the adapter must have published; what is wrong, if anything. Below
    /// `freed` the client itself has given its octets back, by a wrong tail.
    pub(crate) fn find(&mut self, pdu: ExpectedPdu, freed: u64) -> Option<String> {
        let connection = self.connections.get_mut(&pdu.memory)?;
        let number = connection.released + connection.unread.len() as u64;
        let slot = (number % u64::from(connection.sizes.receive_slots)) as usize;
        let at = layout::SLOTS + slot * layout::RECEIVE_DESCRIPTOR_LEN;
        let mut found = [0; layout::RECEIVE_DESCRIPTOR_LEN];
        connection.from_adapter.copy_out(at, &mut found);
        let expected = descriptor(&pdu);
        if found != expected && number >= freed {
            return Some(format!(
                "{:?} descriptor {number}\n  expected {expected:02x?}\n  got      {found:02x?}",
                pdu.vc
            ));
        }
        let difference = connection.content_difference(&pdu);
        self.expected.push(pdu.memory);
        connection.unread.push_back(pdu);
        difference.filter(|_| number >= freed)
    }

    /// Connections whose indices the adapter may have changed, or should have, since the last call.
    pub(crate) fn changed(&mut self) -> Vec<u64> {
        let mut changed = std::mem::take(&mut self.expected);
        self.written.drain_into(&mut changed);
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    /// Whether each of these connections but the `lawless` has as many PDUs as were found, and no
    /// more.
    pub(crate) fn heads_difference(
        &self,
        changed: &[u64],
        lawless: &BTreeSet<u64>,
    ) -> Option<String> {
        let lawful = changed.iter().filter(|ticket| !lawless.contains(ticket));
        let mut lawful = lawful.filter_map(|ticket| Some((ticket, self.connections.get(ticket)?)));
        lawful.find_map(|(ticket, connection)| {
            let head = connection.from_adapter.load(connection::RECEIVE_HEAD);
            let expected = connection.released + connection.unread.len() as u64;
            (head != expected)
                .then(|| format!("memory {ticket}: receive head {head}, expected {expected}"))
        })
    }

    /// Reads and releases PDUs: their octets must still be what they were, but for those below
    /// `freed`, which the client itself has given back by a wrong tail.
    pub(crate) fn take(&mut self, memory: u64, pdus: u32, freed: u64) -> Option<String> {
        let connection = self.connections.get_mut(&memory)?;
        for _ in 0..pdus {
            let Some(pdu) = connection.unread.pop_front() else {
                break;
            };
            let difference = connection.content_difference(&pdu);
            if let Some(difference) = difference.filter(|_| connection.released >= freed) {
                return Some(format!("overwritten before it was released: {difference}"));
            }
            connection.released += 1;
        }
        connection.write_tail(connection.released);
        None
    }

    /// Writes a tail that is `off_by` the right one.
    pub(crate) fn wrong_tail(&mut self, memory: u64, off_by: i64) {
        if let Some(connection) = self.connections.get_mut(&memory) {
            connection.write_tail(connection.released.wrapping_add_signed(off_by));
        }
    }

    /// Takes an event out of the queue.
    pub(crate) fn take_event(&mut self, ticket: u64) -> Option<[u8; EVENT_LEN]> {
        let attached = self.attached.get_mut(&ticket)?;
        let head = attached.from_adapter.load(attachment::EVENT_HEAD);
        if head == attached.events_taken {
            return None;
        }
        let slot = (attached.events_taken % attached.event_slots) as usize;
        let mut octets = [0; EVENT_LEN];
        let at = layout::SLOTS + slot * layout::EVENT_SLOT_LEN;
        attached.from_adapter.copy_out(at, &mut octets);
        attached.events_taken += 1;
        attached
            .from_client
            .store(attachment::EVENT_TAIL, attached.events_taken);
        Some(octets)
    }

    /// Events that a client was told it missed.
    pub(crate) fn lost(&self, ticket: u64) -> u64 {
        let attached = self.attached.get(&ticket);
        attached.map_or(0, |attached| {
            attached.from_adapter.load(attachment::EVENTS_LOST)
        })
    }

    /// Puts an SDU into the transmit buffer and its descriptor into the queue. False if there is no
    /// room: the client waits.
    pub(crate) fn submit(
        &mut self,
        memory: u64,
        vc: VcId,
        submission: &Submission,
        forged: Option<(u32, u32)>,
    ) -> bool {
        let Some(connection) = self.connections.get_mut(&memory) else {
            return false;
        };
        let slots = u64::from(connection.sizes.transmit_slots);
        let tail = connection.from_adapter.load(connection::TRANSMIT_TAIL);
        let room = u64::from(connection.sizes.transmit_len)
            .checked_div(slots)
            .unwrap_or(0);
        let len = submission.sdu.len() as u64;
        if connection.transmit_head.wrapping_sub(tail) >= slots || len > room {
            return false;
        }
        let slot = connection.transmit_head % slots;
        let offset = (slot * room) as u32;
        let at = TRANSMIT_BUFFER_AT + offset as usize;
        connection.from_client.copy_in(at, &submission.sdu);
        let (offset, len) = forged.unwrap_or((offset, len as u32));
        let mut octets = [0; layout::TRANSMIT_DESCRIPTOR_LEN];
        octets[0..4].copy_from_slice(&offset.to_le_bytes());
        octets[4..8].copy_from_slice(&len.to_le_bytes());
        octets[8..10].copy_from_slice(&[submission.uu, submission.cpi]);
        let flags = u16::from(submission.clp) | submission.mid() << 6;
        octets[10..12].copy_from_slice(&flags.to_le_bytes());
        octets[12..16].copy_from_slice(&vc.generation.to_le_bytes());
        let at = layout::SLOTS + slot as usize * layout::TRANSMIT_DESCRIPTOR_LEN;
        connection.from_client.copy_in(at, &octets);
        connection.transmit_head += 1;
        connection
            .from_client
            .store(connection::TRANSMIT_HEAD, connection.transmit_head);
        true
    }

    /// The tail of the transmit queue, as the adapter has published it.
    pub(crate) fn transmit_tail(&self, memory: u64) -> Option<u64> {
        let connection = self.connections.get(&memory)?;
        Some(connection.from_adapter.load(connection::TRANSMIT_TAIL))
    }

    /// Rings for a VC. False if the doorbell is full.
    pub(crate) fn ring(&mut self, ticket: u64, vc: VcId) -> bool {
        let Some(attached) = self.attached.get_mut(&ticket) else {
            return false;
        };
        let answered = attached.from_adapter.load(attachment::DOORBELL_TAIL);
        if attached.doorbells - answered >= attached.doorbell_slots {
            return false;
        }
        let slot = (attached.doorbells % attached.doorbell_slots) as usize;
        let at = layout::SLOTS + slot * layout::DOORBELL_LEN;
        let octets = u64::from(vc.index.0) | u64::from(vc.generation) << 32;
        attached.from_client.copy_in(at, &octets.to_le_bytes());
        attached.doorbells += 1;
        attached
            .from_client
            .store(attachment::DOORBELL_HEAD, attached.doorbells);
        true
    }

    /// Doorbells that were rung and not answered.
    pub(crate) fn unanswered(&self) -> u64 {
        let unanswered = |attached: &Attached| {
            attached.doorbells - attached.from_adapter.load(attachment::DOORBELL_TAIL)
        };
        self.attached.values().map(unanswered).sum()
    }
}

impl Connection {
    fn write_tail(&mut self, tail: u64) {
        self.written = tail;
        self.from_client.store(connection::RECEIVE_TAIL, tail);
    }

    fn content_difference(&self, pdu: &ExpectedPdu) -> Option<String> {
        let start = (pdu.position % u64::from(self.sizes.receive_buffer)) as usize;
        self.view.show(start, pdu.sdu.len(), |found| {
            if found == pdu.sdu {
                return None;
            }
            let mut pairs = found.iter().zip(&pdu.sdu);
            let at = pairs.position(|(found, sent)| found != sent)?;
            Some(format!(
                "{:?} PDU at {} of {} octets: octet {at} is {:#04x}, sent {:#04x}",
                pdu.vc,
                pdu.position,
                pdu.sdu.len(),
                found[at],
                pdu.sdu[at]
            ))
        })
    }
}

/// A descriptor of the receive queue, from docs/shared-memory.md.
fn descriptor(pdu: &ExpectedPdu) -> [u8; layout::RECEIVE_DESCRIPTOR_LEN] {
    let flags = u8::from(pdu.clp) | u8::from(pdu.congested) << 1 | u8::from(pdu.lent) << 2;
    let mut octets = [0; layout::RECEIVE_DESCRIPTOR_LEN];
    octets[0..8].copy_from_slice(&pdu.position.to_le_bytes());
    octets[8..16].copy_from_slice(&pdu.time.ns().to_le_bytes());
    octets[16..20].copy_from_slice(&(pdu.sdu.len() as u32).to_le_bytes());
    octets[20..24].copy_from_slice(&pdu.cells.to_le_bytes());
    octets[24..28].copy_from_slice(&pdu.vc.generation.to_le_bytes());
    octets[28..30].copy_from_slice(&[pdu.uu, pdu.cpi]);
    let flags = u16::from(flags) | pdu.mid << 6;
    octets[30..32].copy_from_slice(&flags.to_le_bytes());
    octets
}

/// Whether an SDU may be sent on a VC of this AAL.
pub(crate) fn is_sendable(aal: Aal, sdu: &[u8], max_sdu: u16) -> bool {
    match aal {
        Aal::Aal0 => sdu.len() == 52,
        Aal::Aal5 | Aal::Aal34(_) => !sdu.is_empty() && sdu.len() <= usize::from(max_sdu),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_nobody_expects_is_found_in_the_step_that_writes_it() {
        let sizes = RegionSizes {
            receive_buffer: 4_096,
            receive_slots: 4,
            transmit_slots: 4,
            transmit_len: 1_024,
            stable: true,
        };
        let regions = [7, 8, 9].map(|ticket| (ticket, LabRegion::new(sizes)));
        let mut clients = LabClients::default();
        for (ticket, region) in &regions {
            clients.add_connection(*ticket, region);
        }
        let lawless = BTreeSet::from([9]);
        let mut look = || {
            let changed = clients.changed();
            let difference = clients.heads_difference(&changed, &lawless);
            (changed, difference.is_some())
        };
        assert_eq!(look(), (vec![7, 8, 9], false));
        assert_eq!(look(), (vec![], false));
        let write = |n: usize, head| {
            let words = regions[n].1.from_adapter();
            words.store(connection::RECEIVE_HEAD, head);
            words.copy_in(layout::SLOTS, &[1]);
        };
        // Of an adversary it is nobody's business.
        write(2, 1);
        assert_eq!(look(), (vec![9], false));
        write(1, 1);
        write(0, 0);
        assert_eq!(look(), (vec![7, 8], true));
        write(1, 0);
        assert_eq!(look(), (vec![8], false));
    }
}
