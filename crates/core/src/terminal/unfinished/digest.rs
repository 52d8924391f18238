//! The digests of disk-PDUs are chaining values of BLAKE3: subtrees of the file's tree, which join
//! to its root.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use blake3::Hasher;
use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

/// Octets of a disk-PDU: a power of two. The last of a file may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskLen(u32);

impl DiskLen {
    pub const MIN: Self = Self(64 << 10);
    pub const DEFAULT: Self = Self(1 << 20);
    pub const MAX: Self = Self(16 << 20);

    /// None: no power of two, or outside [`Self::MIN`] to [`Self::MAX`].
    pub const fn new(octets: u32) -> Option<Self> {
        let fits = octets.is_power_of_two() && Self::MIN.0 <= octets && octets <= Self::MAX.0;
        if fits { Some(Self(octets)) } else { None }
    }

    /// In octets.
    pub const fn octets(self) -> u32 {
        self.0
    }

    /// Disk-PDUs of a file of `size` octets.
    pub const fn count(self, size: u64) -> u64 {
        size.div_ceil(self.0 as u64)
    }

    /// The octets of the disk-PDU `index` of a file of `size` octets; none behind its end.
    pub const fn range(self, index: u64, size: u64) -> Range<u64> {
        let start = index.saturating_mul(self.0 as u64);
        let end = start.saturating_add(self.0 as u64);
        let end = if end < size { end } else { size };
        (if start < end { start } else { end })..end
    }
}

/// 32 octets of BLAKE3: the chaining value of a disk-PDU, or the root of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The root of a whole file: what `b3sum` prints.
    pub fn of_file(octets: &[u8]) -> Self {
        Self(*blake3::hash(octets).as_bytes())
    }
}

/// As `b3sum` prints it.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Makes the digest of one disk-PDU of its octets, in order, piece by piece.
#[derive(Clone, Debug)]
pub struct Digesting {
    hasher: Hasher,
    offset: u64,
}

impl Digesting {
    /// Of the disk-PDU that begins at `offset` of its file.
    ///
    /// # Panics
    /// If no disk-PDU begins there: it is no multiple of [`DiskLen::MIN`].
    pub fn new(offset: u64) -> Self {
        let aligned = offset.is_multiple_of(DiskLen::MIN.0.into());
        assert!(aligned, "no disk-PDU begins at {offset}");
        let mut hasher = Hasher::new();
        hasher.set_input_offset(offset);
        Self { hasher, offset }
    }

    /// The next octets. A disk-PDU has at most [`DiskLen::MAX`].
    pub fn octets(&mut self, octets: &[u8]) -> &mut Self {
        self.hasher.update(octets);
        self
    }

    /// The next octets are zeros: a hole. Nothing is read for them. There is no shortcut: where a
    /// chunk lies enters its chaining value, so that zeros elsewhere have another one.
    pub fn zeros(&mut self, mut len: u64) -> &mut Self {
        while len > 0 {
            let piece = len.min(ZEROS.len() as u64);
            self.hasher.update(&ZEROS[..piece as usize]);
            len -= piece;
        }
        self
    }

    /// The digest of the disk-PDU; none: it has no octets.
    pub fn digest(&self) -> Option<Digest> {
        (self.hasher.count() > 0).then(|| Digest(self.hasher.finalize_non_root()))
    }

    /// The root of a file that has no other disk-PDU than this; none: this is not its first.
    pub fn root(&self) -> Option<Digest> {
        (self.offset == 0).then(|| Digest(*self.hasher.finalize().as_bytes()))
    }
}

/// The digests of a file's disk-PDUs, in any order, up to its root.
///
/// Two neighbours that have a node above them become that node at once. So a file that comes in
/// order takes two nodes of each level, 48 at most for 2^40 octets; each gap takes as many again.
#[derive(Clone, Debug, Default)]
pub struct Subtrees {
    /// By the first disk-PDU: the node's level (it has 2^level disk-PDUs), and its value.
    nodes: BTreeMap<u64, (u32, Digest)>,
    present: u64,
}

impl Subtrees {
    pub const fn new() -> Self {
        Self {
            nodes: BTreeMap::new(),
            present: 0,
        }
    }

    /// Disk-PDUs that are there.
    pub const fn present(&self) -> u64 {
        self.present
    }

    /// Whether the disk-PDU `index` is there.
    pub fn has(&self, index: u64) -> bool {
        let node = self.nodes.range(..=index).next_back();
        node.is_some_and(|(start, (level, _))| index - start < 1 << level)
    }

    /// Takes the digest of the disk-PDU `index`, which is the last if it is shorter than others.
    /// False: one is there, which stays.
    pub fn insert(&mut self, index: u64, digest: Digest) -> bool {
        if self.has(index) {
            return false;
        }
        self.present += 1;
        let (mut start, mut level, mut value) = (index, 0, digest);
        // The first two nodes of a level may be the root's children, which join as a root.
        while level < 63 && start >> (level + 1) != 0 {
            let sibling = start ^ 1 << level;
            let Some((_, other)) = self.nodes.get(&sibling).filter(|node| node.0 == level) else {
                break;
            };
            value = match sibling < start {
                true => join(other, &value),
                false => join(&value, other),
            };
            self.nodes.remove(&sibling);
            start = start.min(sibling);
            level += 1;
        }
        self.nodes.insert(start, (level, value));
        true
    }

    /// The root of a file of `count` disk-PDUs. None: some are missing, or there are fewer than
    /// two, whose file has a root of its own kind ([`Digesting::root`], [`Digest::of_file`]).
    pub fn root(&self, count: u64) -> Option<Digest> {
        if count < 2 {
            return None;
        }
        let middle = 1 << (count - 1).ilog2();
        let (left, right) = (self.value(0, middle)?, self.value(middle, count)?);
        let root = merge_subtrees_root(&left.0, &right.0, Mode::Hash);
        Some(Digest(*root.as_bytes()))
    }

    /// The value of the node above the disk-PDUs `from..to`. Each call goes one level down.
    fn value(&self, from: u64, to: u64) -> Option<Digest> {
        match self.nodes.get(&from) {
            Some((level, value)) if 1 << level == to - from => return Some(*value),
            None => return None,
            Some(_) if to - from == 1 => return None,
            Some(_) => {}
        }
        let middle = from + (1 << (to - from - 1).ilog2());
        Some(join(&self.value(from, middle)?, &self.value(middle, to)?))
    }
}

fn join(left: &Digest, right: &Digest) -> Digest {
    Digest(merge_subtrees_non_root(&left.0, &right.0, Mode::Hash))
}
