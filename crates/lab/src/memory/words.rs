//! Memory of words: vectors that adapter and client share, watched, counted and attacked.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cellgate_core::queue::{Planted, Words};
use serde::{Deserialize, Serialize};

use super::held::{Growing, Held};

/// Called before every load with the memory and the offset that is about to be read: a writer who
/// strikes between any two accesses of the reader.
pub type Adversary = Box<dyn FnMut(&mut [u8], usize)>;

// What every access touches stands first, on one cache line: thousands of memories are touched in
// turn.
#[repr(C, align(64))]
struct Shared {
    /// There is an adversary; somebody watches.
    hooks: Cell<(bool, bool)>,
    octets: Growing,
    loads: Cell<u64>,
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
    static RING_BUG: Cell<Option<Planted>> = const { Cell::new(None) };
}

/// As long as this is there, the queues in all memory of the thread have a bug, if it is given one.
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
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LabWords {
    shared: Held<Shared>,
}

impl std::fmt::Debug for LabWords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = self.shared.number();
        write!(f, "LabWords({number}, {} octets)", self.len())
    }
}

impl LabWords {
    /// `len` octets of zero.
    pub fn new(len: usize) -> Self {
        Self {
            shared: Held::new(Shared {
                hooks: Cell::new((false, false)),
                octets: Growing::new(len),
                loads: Cell::new(0),
                adversary: RefCell::new(None),
                watcher: RefCell::new(None),
            }),
        }
    }

    /// Octets.
    pub fn len(&self) -> usize {
        self.shared.octets.len()
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
        self.shared.octets.used_to(self.len()).to_vec()
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
            adversary(&mut self.shared.octets.used_to(self.len()), offset);
        }
    }
}

impl Words for LabWords {
    fn load(&self, offset: usize) -> u64 {
        assert!(offset.is_multiple_of(8), "a word begins at a multiple of 8");
        assert!(offset + 8 <= self.len(), "inside the memory");
        self.before_load(offset);
        let octets = self.shared.octets.used();
        let word = octets.get(offset..).and_then(<[u8]>::first_chunk);
        word.map_or(0, |word| u64::from_le_bytes(*word))
    }

    fn store(&self, offset: usize, value: u64) {
        assert!(offset.is_multiple_of(8), "a word begins at a multiple of 8");
        self.written();
        self.shared.octets.used_to(offset + 8)[offset..offset + 8]
            .copy_from_slice(&value.to_le_bytes());
    }

    fn fence(&self) {}

    fn copy_in(&self, offset: usize, octets: &[u8]) {
        self.written();
        let end = offset + octets.len();
        self.shared.octets.used_to(end)[offset..end].copy_from_slice(octets);
    }

    fn copy_out(&self, offset: usize, octets: &mut [u8]) {
        assert!(offset + octets.len() <= self.len(), "inside the memory");
        self.before_load(offset);
        let from = self.shared.octets.used();
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
