//! Which events a cell causes, and when its client is interrupted.

use std::collections::BTreeMap;

use cellgate_core::Time;
use cellgate_core::adapter::{Event, EventKind, Marks, Notification};

use super::{Client, Clients, Reference};

/// What happened to a cell, as far as notification cares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// No cell of the PDU was held before.
    pub(super) first: bool,
    pub(super) accepted: bool,
    /// It completed a PDU, which was published.
    pub(super) complete: bool,
    /// Cells of the PDU with this one.
    pub(super) cells: u32,
}

impl Reference {
    pub(super) fn notify(&mut self, index: u16, seen: Seen) {
        let vc = &self.vcs[index];
        let Some(receive) = vc.request.receive else {
            return;
        };
        let value = vc.queue_head;
        let (due, interruptive) = match receive.notification {
            Notification::EveryCell => (seen.accepted, true),
            Notification::FirstCell => (seen.first && seen.accepted, true),
            Notification::LastCell => (seen.complete, true),
            Notification::FirstAndLastCell => {
                (seen.complete || (seen.first && seen.accepted), true)
            }
            Notification::Silent { .. } => {
                let marked = receive.marks == Marks::Mssar;
                (
                    seen.complete || (marked && seen.first && seen.accepted),
                    false,
                )
            }
            Notification::Polled => (false, false),
        };
        if due {
            self.post(
                index,
                EventKind::PduReceived,
                interruptive,
                seen.cells,
                value,
            );
        }
    }

    pub(super) fn post_queue_full(&mut self, index: u16) {
        let vc = &self.vcs[index];
        let fill = vc.queue_head - vc.queue_tail;
        self.post(index, EventKind::ReceiveQueueFull, true, 0, fill);
    }

    /// The fill reaches the threshold from below.
    pub(super) fn check_threshold(&mut self, index: u16, clients: &dyn Clients) {
        let Some(vc) = self.vcs.get_mut(index) else {
            return;
        };
        let threshold = u64::from(
            vc.request
                .receive
                .map_or(0, |receive| receive.queue_threshold),
        );
        if threshold == 0 {
            return;
        }
        if vc.queue_head - vc.queue_tail >= threshold {
            vc.read_tail(clients);
        }
        let fill = vc.queue_head - vc.queue_tail;
        // A delivery adds one: more than the threshold was reached before.
        if fill == threshold {
            let kind = EventKind::ReceiveQueueOverThreshold;
            self.post(index, kind, true, 0, fill);
        }
    }

    fn post(&mut self, index: u16, kind: EventKind, interruptive: bool, cells: u32, value: u64) {
        let vc = &self.vcs[index];
        let name = vc.request.attachment.0;
        let time = Time::from_ns(self.now_ns);
        let event = Event {
            kind,
            interruptive,
            vc: vc.id,
            cells,
            value,
            time,
        };
        self.expected
            .events
            .entry(name)
            .or_default()
            .push_back(event);
    }

    /// An event was posted: into its queue with it, and an interrupt if one is due.
    pub(crate) fn posted(&mut self, name: u16, event: Event, clients: &dyn Clients) {
        let request = self.request(event.vc);
        let receive = request.and_then(|request| request.receive);
        let guaranteed = receive.is_some_and(|receive| receive.guaranteed)
            || request
                .and_then(|request| request.transmit)
                .is_some_and(|transmit| transmit.rate.is_some());
        let silent = event.kind == EventKind::PduReceived;
        if let Some(client) = self.clients.get_mut(&name) {
            client.guaranteed |= guaranteed && (event.interruptive || silent);
        }
        self.enqueue(name, event, clients);
        if let Some(Notification::Silent {
            threshold,
            longest_delay_ns,
        }) = receive.map(|receive| receive.notification)
            && event.kind == EventKind::PduReceived
        {
            self.silent(name, threshold, longest_delay_ns);
        }
    }

    /// Into the event queue, if there is room, and an interrupt if the event asks for one.
    fn enqueue(&mut self, name: u16, event: Event, clients: &dyn Clients) {
        let Some(client) = self.clients.get_mut(&name) else {
            return;
        };
        if client.events - clients.event_tail(name) < client.event_slots {
            client.events += 1;
            self.events += 1;
            client.queued.push_back(event);
        } else {
            client.lost += 1;
            self.events_lost += 1;
        }
        if event.interruptive {
            client.interrupt();
        }
    }

    /// PDUs that took too long are given up. Silent events that have waited long enough cause an
    /// interrupt.
    pub(crate) fn expire(&mut self) {
        self.expire_reassembly();
        for client in self.clients.values_mut() {
            if client
                .silent_deadline_ns
                .is_some_and(|deadline| deadline <= self.now_ns)
            {
                client.interrupt();
            }
        }
    }

    /// Interrupts that clients must have had in this step.
    pub(crate) fn interrupts(&self) -> BTreeMap<u16, Vec<bool>> {
        let clients = self.clients.iter();
        let clients = clients.map(|(name, client)| (*name, client.interrupts.clone()));
        let due = clients.chain(self.detached.clone());
        due.filter(|(_, interrupts)| !interrupts.is_empty())
            .collect()
    }

    /// The next event that a client must find in its queue.
    pub(crate) fn next_queued(&mut self, name: u16) -> Option<Event> {
        self.clients.get_mut(&name)?.queued.pop_front()
    }

    /// Events of a client that were lost.
    pub(crate) fn lost(&self, name: u16) -> Option<u64> {
        self.clients.get(&name).map(|client| client.lost)
    }

    fn silent(&mut self, name: u16, threshold: u32, longest_delay_ns: u64) {
        let Some(client) = self.clients.get_mut(&name) else {
            return;
        };
        client.silent += 1;
        let deadline = self.now_ns.saturating_add(longest_delay_ns);
        let earlier = client
            .silent_deadline_ns
            .map_or(deadline, |other| other.min(deadline));
        client.silent_deadline_ns = Some(earlier);
        if client.silent >= threshold {
            client.interrupt();
        }
    }
}

impl Client {
    fn interrupt(&mut self) {
        self.interrupts.push(std::mem::take(&mut self.guaranteed));
        self.silent = 0;
        self.silent_deadline_ns = None;
    }
}
