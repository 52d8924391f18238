use serde::{Deserialize, Serialize};

use super::Entry;
use crate::adapter::VcIndex;

/// No entry. VC indices stay below: an adapter has at most 16,384 VCs.
const NONE: u16 = u16::MAX;

/// The neighbours of an entry in the one list that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Links {
    previous: u16,
    next: u16,
}

impl Links {
    pub(super) const ALONE: Self = Self {
        previous: NONE,
        next: NONE,
    };
}

/// A first-in-first-out list of VCs, linked through their entries: anyone leaves in O(1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct List {
    head: u16,
    tail: u16,
}

impl List {
    pub(super) const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
    };

    #[inline(always)]
    pub(super) fn first(&self) -> Option<VcIndex> {
        (self.head != NONE).then_some(VcIndex(self.head))
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Whether exactly one entry is in the list.
    #[inline(always)]
    pub(super) fn is_single(&self) -> bool {
        self.head == self.tail && self.head != NONE
    }

    /// The entry behind `vc`, which is in this list.
    #[inline(always)]
    pub(super) fn after(entries: &[Entry], vc: VcIndex) -> Option<VcIndex> {
        let next = entries[usize::from(vc.0)].links.next;
        (next != NONE).then_some(VcIndex(next))
    }

    #[inline(always)]
    pub(super) fn push_back(&mut self, entries: &mut [Entry], vc: VcIndex) {
        entries[usize::from(vc.0)].links = Links {
            previous: self.tail,
            next: NONE,
        };
        match self.tail {
            NONE => self.head = vc.0,
            tail => entries[usize::from(tail)].links.next = vc.0,
        }
        self.tail = vc.0;
    }

    /// Takes `vc` out. The caller keeps that it is in this list.
    #[inline(always)]
    pub(super) fn remove(&mut self, entries: &mut [Entry], vc: VcIndex) {
        let entry = &mut entries[usize::from(vc.0)];
        let Links { previous, next } = core::mem::replace(&mut entry.links, Links::ALONE);
        match previous {
            NONE => self.head = next,
            previous => entries[usize::from(previous)].links.next = next,
        }
        match next {
            NONE => self.tail = previous,
            next => entries[usize::from(next)].links.previous = previous,
        }
    }
}

/// Up to 4,096 lists in a circle, with a bitmap of those that hold something: the first one from
/// any point is found by looking at four words at most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Slots {
    lists: Vec<List>,
    /// One bit a list.
    occupied: Vec<u64>,
    /// One bit a word of `occupied`.
    summary: u64,
}

impl Slots {
    /// `slots` lists: a power of two from 64 to 4,096.
    pub(super) fn new(slots: usize) -> Self {
        Self {
            lists: vec![List::EMPTY; slots],
            occupied: vec![0; slots / 64],
            summary: 0,
        }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.summary == 0
    }

    #[inline(always)]
    pub(super) fn list(&self, slot: usize) -> &List {
        &self.lists[slot]
    }

    #[inline(always)]
    pub(super) fn push_back(&mut self, entries: &mut [Entry], slot: usize, vc: VcIndex) {
        self.lists[slot].push_back(entries, vc);
        self.occupied[slot / 64] |= 1 << (slot % 64);
        self.summary |= 1 << (slot / 64);
    }

    #[inline(always)]
    pub(super) fn remove(&mut self, entries: &mut [Entry], slot: usize, vc: VcIndex) {
        self.lists[slot].remove(entries, vc);
        if self.lists[slot].is_empty() {
            let word = &mut self.occupied[slot / 64];
            *word &= !(1 << (slot % 64));
            if *word == 0 {
                self.summary &= !(1 << (slot / 64));
            }
        }
    }

    /// How many slots after `from` the first occupied one is, 0 if it is `from` itself; once round
    /// the circle.
    #[inline(always)]
    pub(super) fn first_from(&self, from: usize) -> Option<usize> {
        if self.summary == 0 {
            return None;
        }
        let (word, bit) = (from / 64, from % 64);
        let here = self.occupied[word] >> bit;
        if here != 0 {
            return Some(here.trailing_zeros() as usize);
        }
        // Words behind this one, else from the start of the circle up to this one again.
        let behind = self.summary & (u64::MAX << word) & !(1 << word);
        let next = if behind != 0 { behind } else { self.summary };
        let next = next.trailing_zeros() as usize;
        let found = next * 64 + self.occupied[next].trailing_zeros() as usize;
        Some((found + self.lists.len() - from) % self.lists.len())
    }
}
