//! The extents that have come above Ap, in order.

use core::ops::Range;

/// PDUs that follow each other without a gap in numbers or octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Numbers of the PDUs, counted from the run's first.
    pub sequences: Range<u64>,
    /// Octets of the file; none if the PDUs carry none.
    pub octets: Range<u64>,
}

/// Extents in ascending order, both of numbers and of octets. There is never more than one for
/// each PDU of the window; nothing is allocated after [`Extents::new`].
#[derive(Clone, Debug)]
pub(super) struct Extents {
    list: Vec<Extent>,
}

impl Extents {
    pub(super) fn new(window: u32) -> Self {
        Self {
            list: Vec::with_capacity(window as usize),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.list.iter()
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    /// Extents whose numbers are all below `sequence`.
    fn below(&self, sequence: u64) -> usize {
        self.list
            .partition_point(|extent| extent.sequences.end <= sequence)
    }

    pub(super) fn holds(&self, sequence: u64) -> bool {
        let next = self.list.get(self.below(sequence));
        next.is_some_and(|extent| extent.sequences.start <= sequence)
    }

    /// Where the octets before those of `sequence`, which is not held, end, and where those behind
    /// them begin, as far as they are known.
    pub(super) fn around(&self, sequence: u64) -> (Option<u64>, Option<u64>) {
        let at = self.below(sequence);
        let before = at.checked_sub(1).and_then(|before| self.list.get(before));
        let behind = self.list.get(at);
        let end = before.map(|extent| extent.octets.end);
        (end, behind.map(|extent| extent.octets.start))
    }

    /// Where the last octets end.
    pub(super) fn end(&self) -> Option<u64> {
        self.list.last().map(|extent| extent.octets.end)
    }

    /// Adds a PDU that is not held, between those around it.
    pub(super) fn insert(&mut self, sequence: u64, octets: Range<u64>) {
        let at = self.below(sequence);
        let mut new = Extent {
            sequences: sequence..sequence + 1,
            octets,
        };
        if let Some(behind) = self.list.get(at)
            && behind.sequences.start == new.sequences.end
            && behind.octets.start == new.octets.end
        {
            new.sequences.end = behind.sequences.end;
            new.octets.end = behind.octets.end;
            self.list.remove(at);
        }
        let before = at
            .checked_sub(1)
            .and_then(|before| self.list.get_mut(before));
        match before {
            Some(before)
                if before.sequences.end == new.sequences.start
                    && before.octets.end == new.octets.start =>
            {
                before.sequences.end = new.sequences.end;
                before.octets.end = new.octets.end;
            }
            _ => self.list.insert(at, new),
        }
    }

    /// Takes the first PDU, number `sequence`, whose octets end at `end`, out.
    pub(super) fn take_first(&mut self, sequence: u64, end: u64) {
        if let Some(first) = self.list.first_mut() {
            first.sequences.start = sequence + 1;
            first.octets.start = end;
            if first.sequences.is_empty() {
                self.list.remove(0);
            }
        }
    }
}
