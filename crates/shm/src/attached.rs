use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use cellgate_core::adapter::{AttachmentIndex, Event, VcId};
use cellgate_core::queue::{AttachmentGeometry, Doorbell};
use serde::{Deserialize, Serialize};

use crate::{ClientAttachment, Files, RouseFiles, Rouser, ShmError, Sleeper, Woken};

/// What a client of an adapter has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientCounters {
    /// Events taken from the event queue.
    pub events: u64,
    /// Of these, interruptive ones.
    pub interruptive: u64,
    /// Times that this client blocked.
    pub sleeps: u64,
    /// Times that the adapter ended that.
    pub wakeups: u64,
    pub doorbells: u64,
    /// Events that were lost because the queue was full.
    pub lost: u64,
    /// Slots of the event queue that held no event.
    pub malformed: u64,
}

/// A client of the adapter: its event queue, its doorbell queue, its sleep.
#[derive(Debug)]
pub struct Attached {
    index: AttachmentIndex,
    memory: ClientAttachment,
    sleeper: Sleeper,
    /// None: the adapter never rests.
    rouser: Option<Rouser>,
    unrung: VecDeque<Doorbell>,
    pass_max: u32,
    counters: ClientCounters,
}

impl Attached {
    /// Judges and maps the memory of the attachment that the adapter calls `index`; `watch`
    /// becomes readable when the adapter wakes this client, `rouse` is how this wakes the adapter.
    ///
    /// # Errors
    /// The memory is not what it should be.
    pub fn open(
        index: AttachmentIndex,
        files: &Files,
        geometry: &AttachmentGeometry,
        generation: u32,
        watch: OwnedFd,
        rouse: RouseFiles,
    ) -> Result<Self, ShmError> {
        Ok(Self {
            index,
            memory: ClientAttachment::open(files, geometry, generation)?,
            sleeper: Sleeper::new(watch),
            rouser: Rouser::open(rouse)?,
            unrung: VecDeque::new(),
            pass_max: (geometry.sizes().event_slots / 8).min(Self::PASS_MAX),
            counters: ClientCounters::default(),
        })
    }

    /// What the adapter calls this client.
    pub fn index(&self) -> AttachmentIndex {
        self.index
    }

    /// What was counted.
    pub fn counters(&self) -> ClientCounters {
        self.counters
    }

    /// Becomes readable with a wake-up, for a poll together with others.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.sleeper.as_fd()
    }

    /// The shared memory, for tests that break the rules.
    pub fn memory(&mut self) -> &mut ClientAttachment {
        &mut self.memory
    }

    /// The next event, if one waits.
    #[inline]
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            let octets = self.memory.next_event()?;
            if let Some(event) = Event::parse(&octets) {
                self.counters.events += 1;
                self.counters.interruptive += u64::from(event.interruptive);
                return Some(event);
            }
            self.counters.malformed += 1;
        }
    }

    /// SDUs that go by before events are looked at, at most.
    const PASS_MAX: u32 = 16;

    /// SDUs that a client that needs no events may send and read before it takes events off the
    /// queue, so that they do not fill it.
    pub fn pass_max(&self) -> u32 {
        self.pass_max
    }

    /// Events lost since the last call because the queue was full. If any, look at the queues of
    /// all VCs.
    pub fn events_lost(&mut self) -> u64 {
        let lost = self.memory.events_lost();
        self.counters.lost += lost;
        lost
    }

    /// Sleeps until the adapter interrupts or `timeout` is over; at once if events wait. Whether
    /// events may wait.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, ShmError> {
        self.wait_unless(timeout, || false)
    }

    /// The same for a client that also waits for what makes no event: `ready` is asked after the
    /// adapter knows of the sleep.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub fn wait_unless(
        &mut self,
        timeout: Option<Duration>,
        ready: impl FnOnce() -> bool,
    ) -> Result<bool, ShmError> {
        // Doorbells that wait for room are no reason to be woken: look again soon.
        let timeout = match self.ring_all() {
            true => timeout,
            false => Some(timeout.map_or(Self::RETRY, |t| t.min(Self::RETRY))),
        };
        let woken = self.memory.sleep(&self.sleeper, timeout, ready)?;
        self.counters.sleeps += u64::from(woken != Woken::Ready);
        self.counters.wakeups += u64::from(woken == Woken::Interrupted);
        Ok(woken != Woken::TimedOut)
    }

    /// Has [`Attached::as_fd`] become readable at the adapter's next interrupt, for a client that
    /// waits elsewhere. Former wake-ups stay on it: [`Attached::drain`] takes them off, and who
    /// watches it by edges leaves them. `false` if something waits already: an event, or what
    /// `ready` looks at after the adapter knows; then nothing is armed.
    ///
    /// One call is good for one wake-up.
    pub fn arm(&mut self, ready: impl FnOnce() -> bool) -> bool {
        let armed = self.memory.arm(ready);
        self.counters.sleeps += u64::from(armed);
        armed
    }

    /// Takes [`Attached::arm`] back. The descriptor may be readable all the same.
    pub fn disarm(&mut self) {
        self.memory.disarm();
    }

    /// Takes a former wake-up off the descriptor.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn drain(&mut self) -> Result<(), ShmError> {
        if self.sleeper.drain()? {
            self.count_wakeup();
        }
        Ok(())
    }

    /// A wake-up came that was watched for by edges.
    pub fn count_wakeup(&mut self) {
        self.counters.wakeups += 1;
    }

    /// How soon doorbells that found no room are tried again.
    pub const RETRY: Duration = Duration::from_micros(100);

    /// Tells the adapter that SDUs were submitted on `vc`. A doorbell that finds the queue full is
    /// rung by the next call of this or [`Attached::wait`].
    pub fn ring(&mut self, vc: VcId) {
        let doorbell = Doorbell {
            vc: vc.index.0.into(),
            generation: vc.generation,
        };
        if self.unrung.is_empty() && self.memory.ring(doorbell) {
            self.counters.doorbells += 1;
            self.rouse();
            return;
        }
        if !self.unrung.contains(&doorbell) {
            self.unrung.push_back(doorbell);
        }
        self.ring_all();
    }

    /// Wakes the adapter if it rests.
    #[inline]
    fn rouse(&mut self) {
        if let Some(rouser) = &mut self.rouser {
            rouser.rouse();
        }
    }

    /// Rings what could not be rung before; whether all was. If not: again after
    /// [`Attached::RETRY`].
    pub fn ring_all(&mut self) -> bool {
        while let Some(doorbell) = self.unrung.front() {
            if !self.memory.ring(*doorbell) {
                return false;
            }
            self.counters.doorbells += 1;
            self.unrung.pop_front();
            self.rouse();
        }
        true
    }
}
