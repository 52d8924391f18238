//! Memory of connections and clients on one thread: vectors that adapter and client share.
//!
//! A snapshot of an adapter names its memory and does not carry it, just as a process that is
//! started again finds its mappings again: serialising writes a number, and deserialising on the
//! same thread finds the memory while anybody still holds it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use cellgate_core::aal::{Memory, aal34};
use cellgate_core::adapter::{Attachment, OpenRequest, Region};
use cellgate_core::ring::{Words, layout};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Called before every load with the memory and the offset that is about to be read: a writer who
/// strikes between any two accesses of the reader.
pub type Adversary = Box<dyn FnMut(&mut [u8], usize)>;

struct Shared {
    id: u64,
    octets: RefCell<Vec<u8>>,
    adversary: RefCell<Option<Adversary>>,
    loads: Cell<u64>,
    watcher: RefCell<Option<Watcher>>,
}

/// Which of several memories were written since somebody last asked. Clones are the same journal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    written: Rc<RefCell<Vec<u64>>>,
    /// Times that somebody asked.
    round: Rc<Cell<u64>>,
}

impl Journal {
    /// Gives their names to `names`, each once.
    pub(crate) fn drain_into(&self, names: &mut Vec<u64>) {
        names.append(&mut self.written.borrow_mut());
        self.round.set(self.round.get() + 1);
    }
}

/// Who wants to know of writes, and by which name.
struct Watcher {
    journal: Journal,
    name: u64,
    /// The round in which it was told last.
    told: Cell<Option<u64>>,
}

impl Watcher {
    fn tell(&self) {
        let round = Some(self.journal.round.get());
        if self.told.replace(round) != round {
            self.journal.written.borrow_mut().push(self.name);
        }
    }
}

thread_local! {
    static NEXT_ID: Cell<u64> = const { Cell::new(0) };
    static KNOWN: RefCell<BTreeMap<u64, Weak<Shared>>> = const { RefCell::new(BTreeMap::new()) };
}

impl Drop for Shared {
    fn drop(&mut self) {
        // At the end of the thread the list may be gone already.
        let _ = KNOWN.try_with(|known| known.borrow_mut().remove(&self.id));
    }
}

/// Words in a vector. Clones are the same memory.
#[derive(Clone)]
pub struct LabWords {
    shared: Rc<Shared>,
}

impl std::fmt::Debug for LabWords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LabWords({}, {} octets)", self.shared.id, self.len())
    }
}

impl LabWords {
    /// `len` octets of zero.
    pub fn new(len: usize) -> Self {
        let id = NEXT_ID.with(|next| next.replace(next.get() + 1));
        let shared = Rc::new(Shared {
            id,
            octets: RefCell::new(vec![0; len]),
            adversary: RefCell::new(None),
            loads: Cell::new(0),
            watcher: RefCell::new(None),
        });
        KNOWN.with(|known| known.borrow_mut().insert(id, Rc::downgrade(&shared)));
        Self { shared }
    }

    /// Octets.
    pub fn len(&self) -> usize {
        self.shared.octets.borrow().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lets `adversary` change the memory before every load; none: nobody does.
    pub fn set_adversary(&self, adversary: Option<Adversary>) {
        *self.shared.adversary.borrow_mut() = adversary;
    }

    /// Loads and copies out so far.
    pub fn loads(&self) -> u64 {
        self.shared.loads.get()
    }

    /// All octets, as they are now; no load in the sense of [`Words`].
    pub fn to_vec(&self) -> Vec<u8> {
        self.shared.octets.borrow().clone()
    }

    /// From here on every write is told to `journal`, under this name.
    pub(crate) fn watch(&self, journal: &Journal, name: u64) {
        *self.shared.watcher.borrow_mut() = Some(Watcher {
            journal: journal.clone(),
            name,
            told: Cell::new(None),
        });
    }

    fn written(&self) {
        if let Some(watcher) = &*self.shared.watcher.borrow() {
            watcher.tell();
        }
    }

    fn before_load(&self, offset: usize) {
        self.shared.loads.set(self.shared.loads.get() + 1);
        if let Some(adversary) = self.shared.adversary.borrow_mut().as_mut() {
            adversary(&mut self.shared.octets.borrow_mut(), offset);
        }
    }
}

impl Words for LabWords {
    fn load(&self, offset: usize) -> u64 {
        assert!(offset.is_multiple_of(8), "a word begins at a multiple of 8");
        self.before_load(offset);
        let octets = self.shared.octets.borrow();
        let word = octets[offset..offset + 8].try_into();
        u64::from_le_bytes(word.expect("eight octets were cut out"))
    }

    fn store(&self, offset: usize, value: u64) {
        assert!(offset.is_multiple_of(8), "a word begins at a multiple of 8");
        self.written();
        let mut octets = self.shared.octets.borrow_mut();
        octets[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
    }

    fn fence(&self) {}

    fn copy_in(&self, offset: usize, octets: &[u8]) {
        self.written();
        self.shared.octets.borrow_mut()[offset..offset + octets.len()].copy_from_slice(octets);
    }

    fn copy_out(&self, offset: usize, octets: &mut [u8]) {
        self.before_load(offset);
        octets.copy_from_slice(&self.shared.octets.borrow()[offset..offset + octets.len()]);
    }
}

impl Serialize for LabWords {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.shared.id.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LabWords {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = u64::deserialize(deserializer)?;
        KNOWN
            .with(|known| known.borrow().get(&id).and_then(Weak::upgrade))
            .map(|shared| Self { shared })
            .ok_or_else(|| serde::de::Error::custom("nobody holds the memory any more"))
    }
}

/// A receive buffer in a vector twice as long, the second half a mirror of the first. The client
/// sees what was written through [`LabBuffer::view`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabBuffer {
    octets: Vec<u8>,
    view: LabWords,
    stable: bool,
}

impl LabBuffer {
    /// A buffer of `len` octets. `stable`: nobody else can write it, so it may be read again.
    pub fn new(len: usize, stable: bool) -> Self {
        Self {
            octets: vec![0; 2 * len],
            view: LabWords::new(len),
            stable,
        }
    }

    /// What the client sees: the buffer once.
    pub fn view(&self) -> LabWords {
        self.view.clone()
    }
}

impl Memory for LabBuffer {
    fn len(&self) -> usize {
        self.octets.len() / 2
    }

    fn write(&mut self, offset: usize, octets: &[u8]) {
        let len = self.len();
        assert!(
            octets.len() <= len && offset + octets.len() <= 2 * len,
            "inside the map"
        );
        let offset = offset % len;
        // The mirror: what lies behind the end lies at the start too, and the other way round.
        let (first, second) = octets.split_at(octets.len().min(len - offset));
        for (at, part) in [(offset, first), (0, second)] {
            self.octets[at..at + part.len()].copy_from_slice(part);
            self.octets[len + at..len + at + part.len()].copy_from_slice(part);
            self.view.copy_in(at, part);
        }
    }

    fn stable(&self, offset: usize, len: usize) -> Option<&[u8]> {
        self.stable.then(|| &self.octets[offset..offset + len])
    }
}

/// The sizes of a connection's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionSizes {
    /// Octets of the receive buffer.
    pub receive_buffer: u32,
    /// Descriptors of the receive queue.
    pub receive_slots: u32,
    /// Descriptors of the transmit queue.
    pub transmit_slots: u32,
    /// Octets of the transmit buffer.
    pub transmit_len: u32,
    /// Whether the receive buffer may be read again.
    pub stable: bool,
}

/// Offset of the transmit buffer in a region's from-client memory: behind the largest indices and
/// queue that the lab uses.
pub const TRANSMIT_BUFFER_AT: usize = 16 * 1024;

/// Octets of memory with a queue in it, at least as many as most have.
fn queue_len(slots: u32, slot_len: usize) -> usize {
    TRANSMIT_BUFFER_AT.max(layout::SLOTS + slots as usize * slot_len)
}

/// The memory of one connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabRegion {
    sizes: RegionSizes,
    from_adapter: LabWords,
    from_client: LabWords,
    buffer: LabBuffer,
    staging: Vec<u8>,
    reassembler: Option<aal34::Reassembler>,
}

impl LabRegion {
    /// Memory of these sizes, all zero.
    pub fn new(sizes: RegionSizes) -> Self {
        Self {
            sizes,
            from_adapter: LabWords::new(queue_len(
                sizes.receive_slots,
                layout::RECEIVE_DESCRIPTOR_LEN,
            )),
            from_client: LabWords::new(TRANSMIT_BUFFER_AT + sizes.transmit_len as usize),
            buffer: LabBuffer::new(sizes.receive_buffer as usize, sizes.stable),
            // The largest PDU whose SDU fits: trailer and pad round up to whole cells.
            staging: vec![0; (sizes.transmit_len as usize + 8).next_multiple_of(48)],
            reassembler: None,
        }
    }

    /// The same for a VC that is opened like this.
    pub fn for_request(sizes: RegionSizes, request: &OpenRequest) -> Self {
        let limits = request.aal34_limits(sizes.receive_buffer, sizes.receive_slots);
        Self {
            reassembler: limits.map(aal34::Reassembler::new),
            ..Self::new(sizes)
        }
    }

    /// Its sizes.
    pub fn sizes(&self) -> RegionSizes {
        self.sizes
    }

    /// The receive buffer as the client sees it.
    pub fn view(&self) -> LabWords {
        self.buffer.view()
    }
}

impl Region for LabRegion {
    type Words = LabWords;
    type Buffer = LabBuffer;

    fn from_adapter(&self) -> &LabWords {
        &self.from_adapter
    }

    fn from_client(&self) -> &LabWords {
        &self.from_client
    }

    fn receive_buffer(&mut self) -> &mut LabBuffer {
        &mut self.buffer
    }

    fn aal34(&mut self) -> Option<(&mut aal34::Reassembler, &mut LabBuffer)> {
        Some((self.reassembler.as_mut()?, &mut self.buffer))
    }

    fn receive_slots(&self) -> u32 {
        self.sizes.receive_slots
    }

    fn transmit_slots(&self) -> u32 {
        self.sizes.transmit_slots
    }

    fn transmit_len(&self) -> u32 {
        self.sizes.transmit_len
    }

    fn stage(&mut self, offset: u32, len: usize) -> &mut [u8] {
        let end = offset as usize + len;
        assert!(
            end <= self.sizes.transmit_len as usize,
            "inside the transmit buffer"
        );
        let at = TRANSMIT_BUFFER_AT + offset as usize;
        self.from_client.copy_out(at, &mut self.staging[..len]);
        &mut self.staging
    }

    fn staging(&self) -> &[u8] {
        &self.staging
    }
}

/// The memory of one client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabAttachment {
    from_adapter: LabWords,
    from_client: LabWords,
    event_slots: u32,
    doorbell_slots: u32,
}

impl LabAttachment {
    /// Room for as many events and doorbells.
    pub fn new(event_slots: u32, doorbell_slots: u32) -> Self {
        Self {
            from_adapter: LabWords::new(queue_len(event_slots, layout::EVENT_SLOT_LEN)),
            from_client: LabWords::new(queue_len(doorbell_slots, layout::DOORBELL_LEN)),
            event_slots,
            doorbell_slots,
        }
    }

    /// Room for events, and for doorbells.
    pub(crate) fn sizes(&self) -> (u32, u32) {
        (self.event_slots, self.doorbell_slots)
    }
}

impl Attachment for LabAttachment {
    type Words = LabWords;

    fn from_adapter(&self) -> &LabWords {
        &self.from_adapter
    }

    fn from_client(&self) -> &LabWords {
        &self.from_client
    }

    fn event_slots(&self) -> u32 {
        self.event_slots
    }

    fn doorbell_slots(&self) -> u32 {
        self.doorbell_slots
    }
}
