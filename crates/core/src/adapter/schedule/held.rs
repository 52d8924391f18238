use serde::{Deserialize, Serialize};

use super::{Entry, Place};
use crate::Time;
use crate::adapter::VcIndex;

/// The VCs of a line that have cells to send and may not yet, by the time from which they may: a
/// heap, in which an entry knows its place. Of equal times the lower index comes first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    /// `len` of them in order, with room for every VC of the schedule.
    heap: Vec<u16>,
    len: u16,
}

impl Held {
    pub(super) fn new(vcs: usize) -> Self {
        Self {
            heap: vec![0; vcs],
            len: 0,
        }
    }

    /// Who may send first, and when.
    #[inline(always)]
    pub(super) fn first(&self, entries: &[Entry]) -> Option<(VcIndex, Time)> {
        if self.len == 0 {
            return None;
        }
        let vc = VcIndex(self.heap[0]);
        Some((vc, entries[usize::from(vc.0)].next()))
    }

    /// Puts in `vc`, which is in no list. Work: O(log n).
    pub(super) fn push(&mut self, entries: &mut [Entry], vc: VcIndex) {
        let at = usize::from(self.len);
        self.len += 1;
        self.rise(entries, at, vc.0);
    }

    /// Takes out `vc`, which is at its place. Work: O(log n).
    pub(super) fn remove(&mut self, entries: &mut [Entry], vc: VcIndex) {
        let entry = &mut entries[usize::from(vc.0)];
        let Place::Held(at) = entry.place else {
            return;
        };
        entry.place = Place::Idle;
        self.len -= 1;
        let last = self.heap[usize::from(self.len)];
        if last != vc.0 {
            let at = self.sink(entries, usize::from(at), last);
            self.rise(entries, at, last);
        }
    }

    fn set(&mut self, entries: &mut [Entry], at: usize, vc: u16) {
        self.heap[at] = vc;
        // There are at most 16,384 VCs.
        entries[usize::from(vc)].place = Place::Held(at as u16);
    }

    /// Puts `vc` at `at`, or nearer to the front.
    fn rise(&mut self, entries: &mut [Entry], mut at: usize, vc: u16) {
        while at > 0 {
            let above = (at - 1) / 2;
            let other = self.heap[above];
            if key(entries, other) < key(entries, vc) {
                break;
            }
            self.set(entries, at, other);
            at = above;
        }
        self.set(entries, at, vc);
    }

    /// Where `vc` belongs, from `at` away from the front; others have made way.
    fn sink(&mut self, entries: &mut [Entry], mut at: usize, vc: u16) -> usize {
        let len = usize::from(self.len);
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            if left >= len {
                return at;
            }
            let sooner =
                right < len && key(entries, self.heap[right]) < key(entries, self.heap[left]);
            let below = if sooner { right } else { left };
            let other = self.heap[below];
            if key(entries, vc) < key(entries, other) {
                return at;
            }
            self.set(entries, at, other);
            at = below;
        }
    }
}

fn key(entries: &[Entry], vc: u16) -> (Time, u16) {
    (entries[usize::from(vc)].next(), vc)
}
