use serde::{Deserialize, Serialize};

use super::{AdapterStats, Attachment, AttachmentIndex, Board, Event, Planted, Refusal, Work};
use crate::Time;
use crate::ring::layout::attachment::EVENTS_LOST;
use crate::ring::{Consumer, Doorbell, Producer, Words, queue};

/// Doorbells answered in one step.
const DOORBELLS_PER_STEP: u32 = 16;

/// How an event reaches its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// The client is woken.
    Interruptive,
    /// Only with others.
    Silent {
        threshold: u32,
        longest_delay_ns: u64,
    },
    /// When the client looks.
    Never,
}

/// One client of the adapter: its event queue and its doorbell.
#[derive(Debug, Serialize, Deserialize)]
struct Client<A> {
    memory: A,
    events: Producer<queue::Events>,
    doorbells: Consumer<queue::Doorbells>,
    /// Silent events since the last interrupt, and when the first of them has waited enough.
    silent: u32,
    silent_until: Option<Time>,
    /// Events that did not fit, ever: the client reads it to know that it missed some.
    lost: u64,
    vcs: u32,
}

/// All clients.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Clients<A> {
    slots: Vec<Option<Client<A>>>,
    /// The earliest `silent_until` may be: no client needs a look before.
    look_at: Option<Time>,
    /// Whose doorbell is answered next.
    turn: u16,
}

impl<A: Attachment> Clients<A> {
    pub(super) fn new(attachments: u16) -> Self {
        let slots = (0..attachments).map(|_| None).collect();
        Self {
            slots,
            look_at: None,
            turn: 0,
        }
    }

    fn client(&mut self, index: AttachmentIndex) -> Option<&mut Client<A>> {
        self.slots.get_mut(usize::from(index.0))?.as_mut()
    }

    pub(super) fn attach(&mut self, memory: A) -> Result<AttachmentIndex, (Refusal, A)> {
        let slots = [memory.event_slots(), memory.doorbell_slots()];
        if !slots.iter().all(|slots| slots.is_power_of_two()) {
            return Err((Refusal::BadRegion, memory));
        }
        let Some(free) = self.slots.iter().position(Option::is_none) else {
            return Err((Refusal::AttachmentsInUse, memory));
        };
        self.slots[free] = Some(Client {
            events: Producer::new(slots[0]),
            doorbells: Consumer::new(slots[1]),
            memory,
            silent: 0,
            silent_until: None,
            lost: 0,
            vcs: 0,
        });
        Ok(AttachmentIndex(free as u16))
    }

    pub(super) fn detach(&mut self, index: AttachmentIndex) -> Result<A, Refusal> {
        match self.client(index) {
            None => Err(Refusal::NoAttachment),
            Some(client) if client.vcs > 0 => Err(Refusal::Busy),
            Some(_) => self.slots[usize::from(index.0)]
                .take()
                .map(|client| client.memory)
                .ok_or(Refusal::NoAttachment),
        }
    }

    pub(super) fn exists(&self, index: AttachmentIndex) -> bool {
        self.slots
            .get(usize::from(index.0))
            .is_some_and(Option::is_some)
    }

    /// Counts the VCs whose events go to `index`.
    pub(super) fn add_vc(&mut self, index: AttachmentIndex) {
        if let Some(client) = self.client(index) {
            client.vcs += 1;
        }
    }

    pub(super) fn remove_vc(&mut self, index: AttachmentIndex) {
        if let Some(client) = self.client(index) {
            client.vcs -= 1;
        }
    }

    /// Writes an event into the client's queue and wakes the client if the event or the number of
    /// silent ones asks for it.
    pub(super) fn post<B: Board<Attachment = A>>(
        &mut self,
        now: Time,
        board: &mut B,
        stats: &mut AdapterStats,
        index: AttachmentIndex,
        event: Event,
        urgency: Urgency,
    ) {
        let Some(client) = self
            .slots
            .get_mut(usize::from(index.0))
            .and_then(Option::as_mut)
        else {
            return;
        };
        let memory = &client.memory;
        if client
            .events
            .push(memory.from_adapter(), memory.from_client(), &event.emit())
        {
            stats.events += 1;
        } else {
            stats.events_lost += 1;
            client.lost += 1;
            memory.from_adapter().store(EVENTS_LOST, client.lost);
        }
        board.charge(Work::PostEvent, 1);
        board.posted(index, &event);
        match urgency {
            Urgency::Interruptive => client.interrupt(board, stats, index),
            Urgency::Silent {
                threshold,
                longest_delay_ns,
            } => {
                client.silent += 1;
                let wanted = threshold
                    .saturating_add(u32::from(board.planted(Planted::SilentThresholdByOne)));
                if client.silent >= wanted {
                    client.interrupt(board, stats, index);
                } else if !board.planted(Planted::SilentNoDelay) {
                    let until = now.plus_ns(longest_delay_ns);
                    let earliest = client.silent_until.map_or(until, |at| at.min(until));
                    client.silent_until = Some(earliest);
                    self.look_at = Some(self.look_at.map_or(earliest, |at| at.min(earliest)));
                }
            }
            Urgency::Never => {}
        }
    }

    /// Interrupts clients whose silent events have waited long enough. All clients are looked at,
    /// but only when the earliest deadline of any has come.
    #[inline(always)]
    pub(super) fn expire<B: Board<Attachment = A>>(
        &mut self,
        now: Time,
        board: &mut B,
        stats: &mut AdapterStats,
    ) {
        if self.look_at.is_some_and(|at| at <= now) {
            self.expire_all(now, board, stats);
        }
    }

    fn expire_all<B: Board<Attachment = A>>(
        &mut self,
        now: Time,
        board: &mut B,
        stats: &mut AdapterStats,
    ) {
        self.look_at = None;
        for (index, client) in self.slots.iter_mut().enumerate() {
            let Some(client) = client else { continue };
            let Some(until) = client.silent_until else {
                continue;
            };
            if until <= now {
                client.interrupt(board, stats, AttachmentIndex(index as u16));
            } else {
                self.look_at = Some(self.look_at.map_or(until, |at| at.min(until)));
            }
        }
    }

    /// When [`Clients::expire`] will have something to do.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.look_at
    }

    /// Takes up to 16 doorbells of the next client in turn that exists; calls `ring` with each.
    #[inline(always)]
    pub(super) fn answer_doorbells(&mut self, mut ring: impl FnMut(AttachmentIndex, Doorbell)) {
        let next = |slot: u16, count| if slot + 1 < count { slot + 1 } else { 0 };
        let count = self.slots.len() as u16;
        let mut turn = self.turn;
        for _ in 0..count {
            if self.slots[usize::from(turn)].is_some() {
                break;
            }
            turn = next(turn, count);
        }
        self.turn = next(turn, count);
        let Some(client) = self
            .slots
            .get_mut(usize::from(turn))
            .and_then(Option::as_mut)
        else {
            return;
        };
        let memory = &client.memory;
        let waiting = client.doorbells.available(memory.from_client(), 1);
        for _ in 0..waiting.min(DOORBELLS_PER_STEP) {
            let mut octets = [0; 8];
            client
                .doorbells
                .pop(memory.from_adapter(), memory.from_client(), &mut octets);
            ring(AttachmentIndex(turn), Doorbell::parse(&octets));
        }
    }
}

impl<A> Client<A> {
    fn interrupt<B: Board<Attachment = A>>(
        &mut self,
        board: &mut B,
        stats: &mut AdapterStats,
        index: AttachmentIndex,
    ) where
        A: Attachment,
    {
        self.silent = 0;
        self.silent_until = None;
        stats.interrupts += 1;
        board.interrupt(index);
    }
}
