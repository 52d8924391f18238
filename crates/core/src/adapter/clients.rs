use serde::{Deserialize, Serialize};

use super::{AdapterStats, Attachment, AttachmentIndex, Board, Event, Planted, Refusal, Work};
use crate::Time;
use crate::queue::layout::attachment::EVENTS_LOST;
use crate::queue::{Consumer, Doorbell, Producer, Words, queue};

/// Doorbells answered in one step.
const DOORBELLS_PER_STEP: u32 = 16;

/// Clients whose doorbells are looked at in one step: each look is a load of a word that another
/// process writes.
const LOOKS_PER_STEP: usize = 16;

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

/// An event, and how it is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notice {
    pub(super) client: AttachmentIndex,
    pub(super) event: Event,
    pub(super) urgency: Urgency,
    /// It is of a guaranteed connection.
    pub(super) guaranteed: bool,
}

/// One client of the adapter: its event queue and its doorbell.
#[derive(Debug, Serialize, Deserialize)]
struct Client<A> {
    memory: A,
    events: Producer<queue::Events>,
    doorbells: Consumer<queue::Doorbells>,
    /// The VC that it rang for last.
    rung: u32,
    /// Silent events since the last interrupt, and when the first of them has waited enough.
    silent: u32,
    silent_until: Option<Time>,
    /// An event since then that asks for an interrupt, now or later, is of a guaranteed connection.
    #[serde(default)]
    guaranteed: bool,
    /// Events that did not fit, ever: the client reads it to know that it missed some.
    lost: u64,
    vcs: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Clients<A> {
    slots: Vec<Option<Client<A>>>,
    /// The slots that hold a client.
    present: Vec<u16>,
    /// The earliest `silent_until` may be: no client needs a look before.
    look_at: Option<Time>,
    /// Whose doorbells are looked at next, among `present`.
    turn: usize,
    /// Doorbells ever answered.
    answered: u64,
}

impl<A: Attachment> Clients<A> {
    pub(super) fn new(attachments: u16) -> Self {
        let slots = (0..attachments).map(|_| None).collect();
        Self {
            slots,
            present: Vec::with_capacity(attachments.into()),
            look_at: None,
            turn: 0,
            answered: 0,
        }
    }

    /// Doorbells ever answered.
    pub(super) const fn answered(&self) -> u64 {
        self.answered
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
            rung: 0,
            memory,
            silent: 0,
            silent_until: None,
            guaranteed: false,
            lost: 0,
            vcs: 0,
        });
        self.present.push(free as u16);
        Ok(AttachmentIndex(free as u16))
    }

    pub(super) fn detach(&mut self, index: AttachmentIndex) -> Result<A, Refusal> {
        match self.client(index) {
            None => Err(Refusal::NoAttachment),
            Some(client) if client.vcs > 0 => Err(Refusal::Busy),
            Some(_) => {
                self.present.retain(|slot| *slot != index.0);
                self.slots[usize::from(index.0)]
                    .take()
                    .map(|client| client.memory)
                    .ok_or(Refusal::NoAttachment)
            }
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
        notice: Notice,
    ) {
        let index = notice.client;
        let event = notice.event;
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
        client.guaranteed |= notice.guaranteed && notice.urgency != Urgency::Never;
        match notice.urgency {
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

    /// Whether any client has rung a doorbell that was not answered. Looks at all of them.
    pub(super) fn has_doorbells<B: Board<Attachment = A>>(&self, board: &B) -> bool {
        let looks = match board.planted(Planted::RestLooksAtSixteen) {
            true => LOOKS_PER_STEP,
            false => self.present.len(),
        };
        let clients = self.present.iter().take(looks);
        let mut clients = clients.filter_map(|slot| self.slots.get(usize::from(*slot))?.as_ref());
        clients.any(|client| client.doorbells.has_any(client.memory.from_client()))
    }

    /// When [`Clients::expire`] will have something to do.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.look_at
    }

    /// Takes up to 16 doorbells of the next 16 clients in turn; calls `ring` with each. A step
    /// answers one client at least, however many doorbells each of them has. `expect` is told the
    /// VC that a client rings for most likely, before its doorbell has come from its core.
    #[inline(always)]
    pub(super) fn answer_doorbells(
        &mut self,
        expect: impl Fn(u32),
        mut ring: impl FnMut(AttachmentIndex, Doorbell),
    ) {
        let mut left = DOORBELLS_PER_STEP;
        for _ in 0..self.present.len().min(LOOKS_PER_STEP) {
            // Beyond the last, also where one of those before it has gone.
            if self.turn >= self.present.len() {
                self.turn = 0;
            }
            let slot = self.present[self.turn];
            self.turn += 1;
            let Some(Some(client)) = self.slots.get_mut(usize::from(slot)) else {
                continue;
            };
            let memory = &client.memory;
            // On its way while the head is looked at, which tells whether it is wanted.
            memory.from_client().prefetch(client.doorbells.slot_at(0));
            let waiting = client.doorbells.available(memory.from_client(), 1);
            if waiting > 0 {
                expect(client.rung);
            }
            for _ in 0..waiting.min(left) {
                let mut octets = [0; 8];
                client
                    .doorbells
                    .pop(memory.from_adapter(), memory.from_client(), &mut octets);
                let bell = Doorbell::parse(&octets);
                if bell.vc != client.rung {
                    client.rung = bell.vc;
                    expect(bell.vc);
                }
                ring(AttachmentIndex(slot), bell);
            }
            self.answered += u64::from(waiting.min(left));
            left -= waiting.min(left);
            if left == 0 {
                break;
            }
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
        let guaranteed = core::mem::take(&mut self.guaranteed);
        board.interrupt(
            index,
            guaranteed && !board.planted(Planted::InterruptClassLost),
        );
    }
}

#[cfg(test)]
mod tests {
    use core::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::queue::layout::SLOTS;

    const SLOTS_OF_A_RING: u32 = 32;

    /// Octets that both sides have.
    #[derive(Clone)]
    struct File(Rc<RefCell<Vec<u8>>>);

    impl Words for File {
        fn load(&self, offset: usize) -> u64 {
            let mut word = [0; 8];
            self.copy_out(offset, &mut word);
            u64::from_le_bytes(word)
        }

        fn store(&self, offset: usize, value: u64) {
            self.copy_in(offset, &value.to_le_bytes());
        }

        fn fence(&self) {}

        fn copy_in(&self, offset: usize, octets: &[u8]) {
            self.0.borrow_mut()[offset..offset + octets.len()].copy_from_slice(octets);
        }

        fn copy_out(&self, offset: usize, octets: &mut [u8]) {
            octets.copy_from_slice(&self.0.borrow()[offset..offset + octets.len()]);
        }
    }

    #[derive(Clone)]
    struct Memory([File; 2]);

    impl Attachment for Memory {
        type Words = File;

        fn from_adapter(&self) -> &File {
            &self.0[0]
        }

        fn from_client(&self) -> &File {
            &self.0[1]
        }

        fn event_slots(&self) -> u32 {
            1
        }

        fn doorbell_slots(&self) -> u32 {
            SLOTS_OF_A_RING
        }
    }

    /// The clients of an adapter and their doorbells.
    struct World {
        clients: Clients<Memory>,
        rings: Vec<(AttachmentIndex, Memory, Producer<queue::Doorbells>)>,
    }

    impl World {
        fn new(attached: u16, attachments: u16) -> Self {
            let mut world = Self {
                clients: Clients::new(attachments),
                rings: Vec::new(),
            };
            for _ in 0..attached {
                let len = SLOTS + SLOTS_OF_A_RING as usize * 8;
                let file = || File(Rc::new(RefCell::new(vec![0; len])));
                let memory = Memory([file(), file()]);
                let index = world.clients.attach(memory.clone()).ok().unwrap();
                world
                    .rings
                    .push((index, memory, Producer::new(SLOTS_OF_A_RING)));
            }
            world
        }

        /// Whether there was room.
        fn ring(&mut self, client: usize) -> bool {
            let (_, memory, ring) = &mut self.rings[client];
            let bell = Doorbell {
                vc: client as u32,
                generation: 1,
            };
            ring.push(memory.from_client(), memory.from_adapter(), &bell.emit())
        }

        /// Whose doorbells one step answers.
        fn step(&mut self) -> Vec<u32> {
            let mut answered = Vec::new();
            self.clients
                .answer_doorbells(|_| {}, |_, bell| answered.push(bell.vc));
            answered
        }
    }

    #[test]
    fn a_step_looks_at_sixteen_clients_however_few_of_many_places_are_taken() {
        let mut world = World::new(40, 1_024);
        assert!((0..40).all(|client| world.ring(client)));
        assert_eq!(world.step(), (0..16).collect::<Vec<_>>());
        assert_eq!(world.step(), (16..32).collect::<Vec<_>>());
        assert_eq!(world.step(), (32..40).collect::<Vec<_>>());
        // The look went on with the first eight.
        assert!(world.ring(8) && world.ring(7));
        assert_eq!(world.step(), [8]);
        assert!(world.step().is_empty());
        assert_eq!(world.step(), [7]);
    }

    #[test]
    fn nobody_waits_for_more_than_a_step_of_each_other_client() {
        let mut world = World::new(5, 8);
        let mut answered = [0; 5];
        for _ in 0..100 {
            // Four that never stop, and one.
            for client in 0..4 {
                while world.ring(client) {}
            }
            assert!(world.ring(4));
            for _ in 0..5 {
                let step = world.step();
                assert!(step.len() <= DOORBELLS_PER_STEP as usize);
                step.iter().for_each(|vc| answered[*vc as usize] += 1);
            }
        }
        assert_eq!(answered[4], 100);
        assert!(answered[..4].iter().all(|n| *n >= 1_500), "{answered:?}");
    }

    #[test]
    fn clients_come_and_go_and_the_others_are_answered() {
        let mut world = World::new(6, 8);
        for gone in [5, 0, 3] {
            let (index, ..) = world.rings[gone];
            assert!(world.clients.detach(index).is_ok());
            assert!(world.clients.detach(index).is_err());
            world.step();
        }
        for client in [1, 2, 4] {
            assert!(world.ring(client));
        }
        let mut answered = world.step();
        answered.extend(world.step());
        answered.sort_unstable();
        assert_eq!(answered, [1, 2, 4]);
    }
}
