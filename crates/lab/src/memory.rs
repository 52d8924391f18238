//! Memory of connections and clients on one thread: vectors that adapter and client share.
//!
//! A snapshot of an adapter names its memory and does not carry it, just as a process that is
//! started again finds its mappings again: serialising writes a number, and deserialising on the
//! same thread finds the memory while anybody still holds it.

use std::cell::{Cell, OnceCell, RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use cellgate_core::aal::{Memory, aal34};
use cellgate_core::adapter::{Attachment, OpenRequest, Region};
use cellgate_core::ring::{Planted, Words, layout};
use cellgate_core::wire::{CELL_LEN, CELL_LEN_NO_HEC, CellFormat, PAYLOAD_LEN};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Called before every load with the memory and the offset that is about to be read: a writer who
/// strikes between any two accesses of the reader.
pub type Adversary = Box<dyn FnMut(&mut [u8], usize)>;

/// Octets that memory grows by at least.
const GROWTH: usize = 512;

// What every access touches stands first, on one cache line: thousands of memories are touched in
// turn.
#[repr(C, align(64))]
struct Shared {
    /// There is an adversary; somebody watches.
    hooks: Cell<(bool, bool)>,
    len: u32,
    /// Those that were written, and those before them; behind them all are 0.
    octets: RefCell<Vec<u8>>,
    loads: Cell<u64>,
    id: u64,
    adversary: RefCell<Option<Adversary>>,
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
    static RING_BUG: Cell<Option<Planted>> = const { Cell::new(None) };
    static KNOWN: RefCell<BTreeMap<u64, Weak<Shared>>> = const { RefCell::new(BTreeMap::new()) };
}

impl Drop for Shared {
    fn drop(&mut self) {
        // At the end of the thread the list may be gone already.
        let _ = KNOWN.try_with(|known| known.borrow_mut().remove(&self.id));
    }
}

/// As long as this is there, the rings in all memory of the thread have a bug, if it is given one.
pub(crate) struct RingBug(());

impl RingBug {
    pub(crate) fn plant(bug: Option<Planted>) -> Self {
        RING_BUG.set(bug);
        Self(())
    }
}

impl Drop for RingBug {
    fn drop(&mut self) {
        RING_BUG.set(None);
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
            hooks: Cell::new((false, false)),
            len: u32::try_from(len).expect("a memory is below 4 GiB"),
            octets: RefCell::default(),
            loads: Cell::new(0),
            id,
            adversary: RefCell::new(None),
            watcher: RefCell::new(None),
        });
        KNOWN.with(|known| known.borrow_mut().insert(id, Rc::downgrade(&shared)));
        Self { shared }
    }

    /// Octets.
    pub fn len(&self) -> usize {
        self.shared.len as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lets `adversary` change the memory before every load; none: nobody does.
    pub fn set_adversary(&self, adversary: Option<Adversary>) {
        let (_, is_watched) = self.shared.hooks.get();
        self.shared.hooks.set((adversary.is_some(), is_watched));
        *self.shared.adversary.borrow_mut() = adversary;
    }

    /// Loads and copies out so far.
    pub fn loads(&self) -> u64 {
        self.shared.loads.get()
    }

    /// All octets, as they are now; no load in the sense of [`Words`].
    pub fn to_vec(&self) -> Vec<u8> {
        self.octets_to(self.len()).to_vec()
    }

    /// From here on every write is told to `journal`, under this name.
    pub(crate) fn watch(&self, journal: &Journal, name: u64) {
        let (is_attacked, _) = self.shared.hooks.get();
        self.shared.hooks.set((is_attacked, true));
        *self.shared.watcher.borrow_mut() = Some(Watcher {
            journal: journal.clone(),
            name,
            told: Cell::new(None),
        });
    }

    /// All octets up to `end` at least.
    #[inline]
    fn octets_to(&self, end: usize) -> RefMut<'_, Vec<u8>> {
        let mut octets = self.shared.octets.borrow_mut();
        if octets.len() < end {
            self.grow(&mut octets, end);
        }
        octets
    }

    #[cold]
    fn grow(&self, octets: &mut Vec<u8>, end: usize) {
        assert!(end <= self.len(), "inside the memory");
        octets.resize(end.next_multiple_of(GROWTH).min(self.len()), 0);
    }

    /// Copies the payloads of `cells` to `offset`, at the end on from the beginning.
    fn copy_payloads_in<const STRIDE: usize>(&self, offset: usize, cells: &[[u8; STRIDE]]) {
        self.written();
        let payloads = cells
            .iter()
            .filter_map(|cell| cell.last_chunk::<PAYLOAD_LEN>());
        let (end, len) = (offset + cells.len() * PAYLOAD_LEN, self.len());
        let mut octets = self.octets_to(end.min(len));
        if let Some(places) = octets.get_mut(offset..end) {
            let (places, _) = places.as_chunks_mut();
            for (place, payload) in places.iter_mut().zip(payloads) {
                *place = *payload;
            }
        } else {
            let mut at = offset % len;
            for payload in payloads {
                let (first, second) = payload.split_at(PAYLOAD_LEN.min(len - at));
                octets[at..at + first.len()].copy_from_slice(first);
                octets[..second.len()].copy_from_slice(second);
                at = (at + PAYLOAD_LEN) % len;
            }
        }
        // Where the next goes: until its turn comes, thousands of others have theirs.
        cellgate_simd::prefetch(&octets, end + PAYLOAD_LEN - 1);
    }

    /// Shows `look` the `len` octets at `offset`, at the end on from the beginning. A load.
    pub(crate) fn show<T>(&self, offset: usize, len: usize, look: impl FnOnce(&[u8]) -> T) -> T {
        if offset + len > self.len() {
            let mut octets = vec![0; len];
            let (first, second) = octets.split_at_mut(self.len() - offset);
            self.copy_out(offset, first);
            self.copy_out(0, second);
            return look(&octets);
        }
        self.before_load(offset);
        look(&self.octets_to(offset + len)[offset..offset + len])
    }

    /// Copies the octets at `offset` out, at the end on from the beginning. No load.
    fn look(&self, offset: usize, octets: &mut [u8]) {
        let from = self.octets_to(self.len());
        let (first, second) = octets.split_at_mut(octets.len().min(from.len() - offset));
        first.copy_from_slice(&from[offset..offset + first.len()]);
        second.copy_from_slice(&from[..second.len()]);
    }

    #[inline]
    fn written(&self) {
        let (_, is_watched) = self.shared.hooks.get();
        if is_watched && let Some(watcher) = &*self.shared.watcher.borrow() {
            watcher.tell();
        }
    }

    #[inline]
    fn before_load(&self, offset: usize) {
        self.shared.loads.set(self.shared.loads.get() + 1);
        let (is_attacked, _) = self.shared.hooks.get();
        if is_attacked && let Some(adversary) = self.shared.adversary.borrow_mut().as_mut() {
            adversary(&mut self.octets_to(self.len()), offset);
        }
    }
}

impl Words for LabWords {
    fn load(&self, offset: usize) -> u64 {
        assert!(offset.is_multiple_of(8), "a word begins at a multiple of 8");
        assert!(offset + 8 <= self.len(), "inside the memory");
        self.before_load(offset);
        let octets = self.shared.octets.borrow();
        let word = octets.get(offset..).and_then(<[u8]>::first_chunk);
        word.map_or(0, |word| u64::from_le_bytes(*word))
    }

    fn store(&self, offset: usize, value: u64) {
        assert!(offset.is_multiple_of(8), "a word begins at a multiple of 8");
        self.written();
        self.octets_to(offset + 8)[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
    }

    fn fence(&self) {}

    fn copy_in(&self, offset: usize, octets: &[u8]) {
        self.written();
        let end = offset + octets.len();
        self.octets_to(end)[offset..end].copy_from_slice(octets);
    }

    fn copy_out(&self, offset: usize, octets: &mut [u8]) {
        assert!(offset + octets.len() <= self.len(), "inside the memory");
        self.before_load(offset);
        let from = self.shared.octets.borrow();
        let from = from.get(offset..).unwrap_or(&[]);
        let (there, rest) = octets.split_at_mut(octets.len().min(from.len()));
        there.copy_from_slice(&from[..there.len()]);
        rest.fill(0);
    }

    #[inline]
    fn planted(&self, bug: Planted) -> bool {
        RING_BUG.get() == Some(bug)
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

/// A receive buffer, which the client sees through [`LabBuffer::view`]: the buffer once.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[repr(C)]
pub struct LabBuffer {
    view: LabWords,
    stable: bool,
    /// What was read again since the last write, and where it begins.
    #[serde(skip)]
    again: OnceCell<(usize, Vec<u8>)>,
    /// Room for the next.
    #[serde(skip)]
    room: RefCell<Vec<u8>>,
}

impl LabBuffer {
    /// A buffer of `len` octets. `stable`: nobody else can write it, so it may be read again.
    pub fn new(len: usize, stable: bool) -> Self {
        Self {
            view: LabWords::new(len),
            stable,
            again: OnceCell::new(),
            room: RefCell::default(),
        }
    }

    /// What the client sees: the buffer once.
    pub fn view(&self) -> LabWords {
        self.view.clone()
    }

    #[inline]
    fn write_cells<const STRIDE: usize>(&mut self, offset: usize, cells: &[[u8; STRIDE]]) {
        let octets = cells.len() * PAYLOAD_LEN;
        let len = self.len();
        assert!(
            octets <= len && offset + octets <= 2 * len,
            "inside the map"
        );
        self.forget();
        self.view.copy_payloads_in(offset, cells);
    }

    #[inline]
    fn forget(&mut self) {
        // To look first keeps a cache line clean.
        if self.again.get().is_some()
            && let Some((_, octets)) = self.again.take()
        {
            *self.room.get_mut() = octets;
        }
    }
}

impl Memory for LabBuffer {
    fn len(&self) -> usize {
        self.view.len()
    }

    fn write(&mut self, offset: usize, octets: &[u8]) {
        let len = self.len();
        assert!(
            octets.len() <= len && offset + octets.len() <= 2 * len,
            "inside the map"
        );
        self.forget();
        let offset = offset % len;
        let (first, second) = octets.split_at(octets.len().min(len - offset));
        self.view.copy_in(offset, first);
        self.view.copy_in(0, second);
    }

    fn write_payloads(&mut self, offset: usize, cells: &[u8], format: CellFormat) {
        match format {
            CellFormat::WithHec => self.write_cells::<CELL_LEN>(offset, cells.as_chunks().0),
            CellFormat::NoHec => {
                self.write_cells::<CELL_LEN_NO_HEC>(offset, cells.as_chunks().0);
            }
        }
    }

    /// Gives what was asked for first since the last write, and no other part of the buffer.
    fn stable(&self, offset: usize, len: usize) -> Option<&[u8]> {
        if !self.stable || len == 0 {
            return self.stable.then_some(&[]);
        }
        let (at, octets) = self.again.get_or_init(|| {
            let mut octets = self.room.take();
            octets.resize(len, 0);
            self.view.look(offset % self.len(), &mut octets);
            (offset, octets)
        });
        octets.get(..len).filter(|_| *at == offset)
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

/// The memory of one connection. What reception touches comes first.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[repr(C)]
pub struct LabRegion {
    buffer: LabBuffer,
    from_adapter: LabWords,
    from_client: LabWords,
    sizes: RegionSizes,
    /// A vector's capacity leaves so many values unused that the compiler would look there whether
    /// a VC is open: one more cache line for each cell.
    staging: Box<[u8]>,
    reassembler: Option<Box<aal34::Reassembler>>,
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
            staging: vec![0; (sizes.transmit_len as usize + 8).next_multiple_of(48)].into(),
            reassembler: None,
        }
    }

    /// The same for a VC that is opened like this.
    pub fn for_request(sizes: RegionSizes, request: &OpenRequest) -> Self {
        let limits = request.aal34_limits(sizes.receive_buffer, sizes.receive_slots);
        Self {
            reassembler: limits.map(aal34::Reassembler::new).map(Box::new),
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

    fn carry(&mut self, offset: u32, len: usize, to: Option<&mut Self>, at: usize) {
        let octets = self.stage(offset, len)[..len].to_vec();
        let to = to.map_or(&mut self.buffer, |to| &mut to.buffer);
        to.write(at, &octets);
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
