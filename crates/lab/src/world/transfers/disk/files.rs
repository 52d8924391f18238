use std::collections::BTreeSet;
use std::ops::Range;

use super::{BLOCK, Chance, SECTOR};

/// Length, owner, permissions and time of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Meta {
    pub(in super::super) len: u64,
    pub(in super::super) mode: u16,
    pub(in super::super) modified_ns: i64,
}

/// A file, as it is and as it is on the disk.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Inode {
    pub(in super::super) octets: Vec<u8>,
    pub(in super::super) meta: Meta,
    kept: Vec<u8>,
    kept_meta: Meta,
    /// Sectors that are not on the disk as they are.
    dirty: BTreeSet<u64>,
    /// The disk has lost some of it when others were synced: the next sync says so, once.
    has_lost: bool,
    /// Blocks that take room.
    pub(in super::super) blocks: BTreeSet<u64>,
}

fn sectors(range: Range<u64>) -> Range<u64> {
    range.start / SECTOR..range.end.div_ceil(SECTOR)
}

impl Inode {
    pub(super) fn write(&mut self, at: u64, octets: &[u8]) {
        if octets.is_empty() {
            return;
        }
        let end = at + octets.len() as u64;
        if end > self.meta.len {
            self.set_len(end);
        }
        self.octets[at as usize..end as usize].copy_from_slice(octets);
        self.dirty.extend(sectors(at..end));
        self.blocks.extend(at / BLOCK..end.div_ceil(BLOCK));
    }

    pub(in super::super) fn set_len(&mut self, len: u64) {
        if len < self.meta.len {
            self.blocks.split_off(&len.div_ceil(BLOCK));
            // What is behind the end is zeros when the file grows again.
            self.dirty.extend(sectors(len..self.meta.len));
        }
        self.octets.resize(len as usize, 0);
        self.meta.len = len;
    }

    /// Zeros that take no room, as far as they are whole blocks.
    pub(in super::super) fn punch(&mut self, range: Range<u64>) {
        let end = range.end.min(self.meta.len);
        if range.start >= end {
            return;
        }
        self.octets[range.start as usize..end as usize].fill(0);
        self.dirty.extend(sectors(range.start..end));
        let last = if end == self.meta.len {
            end.div_ceil(BLOCK)
        } else {
            end / BLOCK
        };
        for block in range.start.div_ceil(BLOCK)..last {
            self.blocks.remove(&block);
        }
    }

    /// Blocks are set aside.
    pub(super) fn allocate(&mut self, range: Range<u64>) {
        self.blocks
            .extend(range.start / BLOCK..range.end.div_ceil(BLOCK));
    }

    /// A sector is on the disk.
    fn settle(&mut self, sector: u64) {
        let start = (sector * SECTOR) as usize;
        let end = (start + SECTOR as usize).min(self.octets.len());
        if start < end {
            if self.kept.len() < end {
                self.kept.resize(end, 0);
            }
            self.kept[start..end].copy_from_slice(&self.octets[start..end]);
        }
        if end < start + SECTOR as usize && self.kept.len() > end.max(start) {
            let stop = self.kept.len().min(start + SECTOR as usize);
            self.kept[end.max(start)..stop].fill(0);
        }
    }

    /// Some of what was written is on the disk before it is told to.
    pub(super) fn settles_some(&mut self, number: u64) {
        let mut chance = Chance::from(number);
        let some: Vec<u64> = self
            .dirty
            .iter()
            .copied()
            .filter(|_| chance.next().is_multiple_of(8))
            .collect();
        for sector in some {
            self.settle(sector);
            self.dirty.remove(&sector);
        }
    }

    /// A disk that does not do it knows of nothing more to do afterwards. Whether all is on the
    /// disk: what got lost before it says once.
    pub(super) fn sync(&mut self, does: bool, all: bool) -> bool {
        if !does {
            self.dirty.clear();
            return false;
        }
        for sector in std::mem::take(&mut self.dirty) {
            self.settle(sector);
        }
        self.kept_meta.len = self.meta.len;
        if all {
            self.kept_meta = self.meta;
        }
        !std::mem::take(&mut self.has_lost)
    }

    /// Others are synced: who syncs this one still hears what got lost of it before.
    pub(super) fn sync_beside(&mut self) {
        let has_lost = self.has_lost;
        self.sync(true, true);
        self.has_lost = has_lost;
    }

    /// Others are synced, and the disk does not do it.
    pub(super) fn gets_lost(&mut self) {
        self.has_lost |= !self.dirty.is_empty();
        self.dirty.clear();
    }

    pub(super) fn loses_power(&mut self, chance: &mut Chance) {
        // All, none, or each by itself.
        let how = chance.next() % 4;
        for sector in std::mem::take(&mut self.dirty) {
            if how == 1 || how > 1 && chance.next().is_multiple_of(2) {
                self.settle(sector);
            }
        }
        if chance.next().is_multiple_of(2) {
            self.kept_meta.len = self.meta.len;
        }
        if chance.next().is_multiple_of(2) {
            let len = self.kept_meta.len;
            self.kept_meta = Meta { len, ..self.meta };
        }
        let len = self.kept_meta.len;
        self.kept.resize(len as usize, 0);
        self.octets.clone_from(&self.kept);
        self.meta = self.kept_meta;
        self.blocks.split_off(&len.div_ceil(BLOCK));
    }

    /// Some octets become others, on the disk as well.
    pub(super) fn gets_spoiled(&mut self, chance: &mut Chance) {
        for _ in 0..1 + chance.next() % 40 {
            let at = (chance.next() % self.octets.len() as u64) as usize;
            self.octets[at] ^= 1;
            if let Some(kept) = self.kept.get_mut(at) {
                *kept = self.octets[at];
            }
        }
    }

    /// Why a power failure might take something of it away.
    pub(super) fn is_unsafe(&self) -> Option<&'static str> {
        if self.kept_meta != self.meta {
            return Some("its length, permissions or time were not synced");
        }
        let len = self.octets.len().min(self.kept.len());
        let is_zeros = self.octets[len..].iter().all(|octet| *octet == 0);
        if self.kept[..len] != self.octets[..len] || !is_zeros {
            return Some("its octets were not synced");
        }
        None
    }
}
