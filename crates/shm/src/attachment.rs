use std::os::fd::AsFd;
use std::time::Duration;

use cellgate_core::adapter::Attachment;
use cellgate_core::queue::layout::{EVENT_SLOT_LEN, attachment};
use cellgate_core::queue::{
    AttachmentGeometry, Doorbell, EventQueue, FileKind, Producer, Sleep, queue,
};

use crate::ShmError;
use crate::map::{Map, SharedWords};
use crate::memfd::{self, FROM_ADAPTER, Files};
use crate::wake::{Sleeper, Woken};

/// The adapter's side of a client's event queue and doorbell queue.
#[derive(Debug)]
pub struct AttachmentMemory {
    from_adapter: Map,
    from_client: Map,
    geometry: AttachmentGeometry,
}

impl AttachmentMemory {
    /// Makes the memory of an attachment, allocates all of it, and seals it.
    pub fn create(
        geometry: &AttachmentGeometry,
        generation: u32,
    ) -> Result<(Self, Files), ShmError> {
        let len = geometry.from_adapter_len();
        let (from_adapter, mine) = memfd::create_mine(
            "cellgate-events",
            len,
            len,
            geometry.header(FileKind::AttachmentFromAdapter, generation),
        )?;
        memfd::seal(&mine, FROM_ADAPTER)?;
        let (from_client, yours) = memfd::create_yours(
            "cellgate-doorbells",
            geometry.from_client_len(),
            geometry.header(FileKind::AttachmentFromClient, generation),
        )?;
        let memory = Self {
            from_adapter,
            from_client,
            geometry: *geometry,
        };
        let files = Files {
            from_adapter: mine,
            from_client: yours,
        };
        Ok((memory, files))
    }

    /// Both sides of an attachment over heap memory, for tests without system calls.
    pub fn heap(geometry: &AttachmentGeometry, generation: u32) -> (Self, ClientAttachment) {
        let (mine, theirs) = Map::heap(geometry.from_adapter_len());
        geometry
            .header(FileKind::AttachmentFromAdapter, generation)
            .write(mine.words());
        let (yours, from_client) = Map::heap(geometry.from_client_len());
        geometry
            .header(FileKind::AttachmentFromClient, generation)
            .write(yours.words());
        let adapter = Self {
            from_adapter: mine,
            from_client,
            geometry: *geometry,
        };
        (adapter, ClientAttachment::over(geometry, theirs, yours))
    }

    pub fn geometry(&self) -> &AttachmentGeometry {
        &self.geometry
    }
}

impl Attachment for AttachmentMemory {
    type Words = SharedWords;

    #[inline(always)]
    fn from_adapter(&self) -> &SharedWords {
        self.from_adapter.words()
    }

    #[inline(always)]
    fn from_client(&self) -> &SharedWords {
        self.from_client.words()
    }

    fn event_slots(&self) -> u32 {
        self.geometry.sizes().event_slots
    }

    fn doorbell_slots(&self) -> u32 {
        self.geometry.sizes().doorbell_slots
    }
}

/// The client's side of its event queue and doorbell queue.
#[derive(Debug)]
pub struct ClientAttachment {
    from_adapter: Map,
    from_client: Map,
    events: EventQueue,
    doorbells: Producer<queue::Doorbells>,
    sleep: Sleep,
}

impl ClientAttachment {
    /// Judges and maps the files of an attachment.
    pub fn open(
        files: &Files,
        geometry: &AttachmentGeometry,
        generation: u32,
    ) -> Result<Self, ShmError> {
        let len = geometry.from_adapter_len();
        let from_adapter = memfd::open_theirs(
            files.from_adapter.as_fd(),
            len,
            len,
            geometry.header(FileKind::AttachmentFromAdapter, generation),
        )?;
        let from_client = memfd::open_ours(
            files.from_client.as_fd(),
            geometry.from_client_len(),
            geometry.header(FileKind::AttachmentFromClient, generation),
        )?;
        Ok(Self::over(geometry, from_adapter, from_client))
    }

    fn over(geometry: &AttachmentGeometry, from_adapter: Map, from_client: Map) -> Self {
        let sizes = geometry.sizes();
        Self {
            from_adapter,
            from_client,
            events: EventQueue::new(sizes.event_slots),
            doorbells: Producer::new(sizes.doorbell_slots),
            sleep: Sleep::default(),
        }
    }

    /// The octets of the next event (`cellgate_core::adapter::Event` parses them), if one waits.
    pub fn next_event(&mut self) -> Option<[u8; EVENT_SLOT_LEN]> {
        self.events
            .next(self.from_client.words(), self.from_adapter.words())
    }

    /// Events lost since the last call. If any, look at the queues of all VCs.
    pub fn events_lost(&mut self) -> u64 {
        self.events.lost(self.from_adapter.words())
    }

    /// Tells the adapter of a new transmit head. `false` if the queue is full: try again later.
    #[must_use = "the adapter looks at no transmit queue without a doorbell"]
    pub fn ring(&mut self, doorbell: Doorbell) -> bool {
        let (mine, peer) = (self.from_client.words(), self.from_adapter.words());
        self.doorbells.push(mine, peer, &doorbell.emit())
    }

    /// Sleeps until the adapter interrupts or `timeout` is over (none: never), unless an event
    /// waits already or `ready` says that something else does.
    pub fn sleep(
        &mut self,
        sleeper: &Sleeper,
        timeout: Option<Duration>,
        ready: impl FnOnce() -> bool,
    ) -> Result<Woken, ShmError> {
        let woken = match self.arm(ready) {
            true => sleeper.block(timeout),
            false => Ok(Woken::Ready),
        };
        self.disarm();
        woken
    }

    /// Has the adapter wake this client at its next interrupt, once. `false` if an event waits
    /// already, or `ready`, asked after the adapter knows, says that something else does: then
    /// nothing is armed.
    pub fn arm(&mut self, ready: impl FnOnce() -> bool) -> bool {
        let mine = self.from_client.words();
        self.sleep.announce(mine, attachment::ASLEEP);
        let waits = !self.events.is_empty(self.from_adapter.words()) || ready();
        if waits {
            self.disarm();
        }
        !waits
    }

    /// Takes [`ClientAttachment::arm`] back. A wake-up may be on its way already.
    pub fn disarm(&mut self) {
        let mine = self.from_client.words();
        self.sleep.end(mine, attachment::ASLEEP);
    }

    /// The event queue's bookkeeping.
    pub fn events(&self) -> &EventQueue {
        &self.events
    }

    /// The file that this side writes, for tests that break the rules.
    pub fn from_client(&self) -> &SharedWords {
        self.from_client.words()
    }

    /// The file that the adapter writes.
    pub fn from_adapter(&self) -> &SharedWords {
        self.from_adapter.words()
    }
}
