//! Receive buffers: octets in a vector that adapter and client share.

use std::cell::{Cell, OnceCell, RefCell};

use cellgate_core::aal::Memory;
use cellgate_core::queue::layout::PDU_ALIGN;
use cellgate_core::wire::{CELL_LEN, CELL_LEN_NO_HEC, CellFormat, PAYLOAD_LEN};
use serde::{Deserialize, Serialize};

use super::held::{Growing, Held};

// What every access touches stands on one cache line: thousands of buffers are touched in turn.
#[repr(C, align(64))]
struct Shared {
    /// From `base` on and around the end.
    octets: Growing,
    base: Cell<u32>,
    /// Where what was written last ends.
    end: Cell<u32>,
}

/// A receive buffer as its client sees it. Clones are the same memory.
///
/// A buffer that is given back as a whole begins anew in the memory that it had: of thousands, no
/// more is touched than what is under way. Whoever reads what he has given back finds other octets.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LabView {
    shared: Held<Shared>,
}

impl std::fmt::Debug for LabView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = self.shared.number();
        write!(f, "LabView({number}, {} octets)", self.len())
    }
}

impl LabView {
    /// `len` octets of zero.
    fn new(len: usize) -> Self {
        Self {
            shared: Held::new(Shared {
                octets: Growing::new(len),
                base: Cell::new(0),
                end: Cell::new(0),
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

    /// All octets.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut octets = vec![0; self.len()];
        self.copy_out(0, &mut octets);
        octets
    }

    /// Shows `look` the `len` octets at `offset`, at the end on from the beginning.
    pub(crate) fn show<T>(&self, offset: usize, len: usize, look: impl FnOnce(&[u8]) -> T) -> T {
        let place = self.place(offset);
        if place + len > self.len() {
            let mut octets = vec![0; len];
            self.copy_out(offset, &mut octets);
            return look(&octets);
        }
        look(&self.shared.octets.used_to(place + len)[place..place + len])
    }

    /// `octets` octets at `offset` are free again. If nothing was written behind them, and PDUs are
    /// written one after the other, all of the buffer is.
    pub(crate) fn give_back(&self, offset: usize, octets: usize) {
        let end = offset + octets;
        if self.shared.end.get() as usize == end % self.len() {
            let next = end.next_multiple_of(PDU_ALIGN) % self.len();
            self.shared.base.set(next as u32);
        }
    }

    /// Where in the vector an offset lies, which may be one of the buffer's second image.
    #[inline]
    fn place(&self, offset: usize) -> usize {
        let (len, base) = (self.len(), self.shared.base.get() as usize);
        let offset = if offset < len { offset } else { offset - len };
        if offset < base {
            offset + len - base
        } else {
            offset - base
        }
    }

    /// Octets have been written up to `end`.
    #[inline]
    fn written_to(&self, end: usize) {
        let len = self.len();
        let end = if end < len { end } else { end - len };
        self.shared.end.set(end as u32);
    }

    /// Copies the payloads of `cells` to `offset`, at the end on from the beginning.
    #[inline]
    fn copy_payloads_in<const STRIDE: usize>(&self, offset: usize, cells: &[[u8; STRIDE]]) {
        let (octets, len) = (cells.len() * PAYLOAD_LEN, self.len());
        assert!(
            octets <= len && offset + octets <= 2 * len,
            "inside the map"
        );
        let payloads = cells
            .iter()
            .filter_map(|cell| cell.last_chunk::<PAYLOAD_LEN>());
        let mut at = self.place(offset);
        let mut all = self.shared.octets.used_to((at + octets).min(len));
        if let Some(places) = all.get_mut(at..at + octets) {
            let (places, _) = places.as_chunks_mut();
            for (place, payload) in places.iter_mut().zip(payloads) {
                *place = *payload;
            }
        } else {
            for payload in payloads {
                let (first, second) = payload.split_at(PAYLOAD_LEN.min(len - at));
                all[at..at + first.len()].copy_from_slice(first);
                all[..second.len()].copy_from_slice(second);
                at = (at + PAYLOAD_LEN) % len;
            }
        }
        // Where the next goes: until its turn comes, thousands of others have theirs.
        cellgate_simd::prefetch(&all, at + octets + PAYLOAD_LEN - 1);
        self.written_to(offset + octets);
    }

    /// Copies `octets` to `offset`, at the end on from the beginning.
    fn copy_in(&self, offset: usize, octets: &[u8]) {
        let len = self.len();
        assert!(
            octets.len() <= len && offset + octets.len() <= 2 * len,
            "inside the map"
        );
        let at = self.place(offset);
        let (first, second) = octets.split_at(octets.len().min(len - at));
        let mut all = self.shared.octets.used_to(at + first.len());
        all[at..at + first.len()].copy_from_slice(first);
        all[..second.len()].copy_from_slice(second);
        self.written_to(offset + octets.len());
    }

    /// Copies the octets at `offset` out, at the end on from the beginning.
    pub fn copy_out(&self, offset: usize, octets: &mut [u8]) {
        let at = self.place(offset);
        let (first, second) = octets.split_at_mut(octets.len().min(self.len() - at));
        let all = self.shared.octets.used_to(at + first.len());
        first.copy_from_slice(&all[at..at + first.len()]);
        second.copy_from_slice(&all[..second.len()]);
    }
}

/// A receive buffer, which the client sees through [`LabBuffer::view`]: the buffer once.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[repr(C)]
pub struct LabBuffer {
    view: LabView,
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
            view: LabView::new(len),
            stable,
            again: OnceCell::new(),
            room: RefCell::default(),
        }
    }

    /// What the client sees: the buffer once.
    pub fn view(&self) -> LabView {
        self.view.clone()
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
        self.forget();
        self.view.copy_in(offset, octets);
    }

    fn write_payloads(&mut self, offset: usize, cells: &[u8], format: CellFormat) {
        self.forget();
        match format {
            CellFormat::WithHec => {
                let (cells, _) = cells.as_chunks::<CELL_LEN>();
                self.view.copy_payloads_in(offset, cells);
            }
            CellFormat::NoHec => {
                let (cells, _) = cells.as_chunks::<CELL_LEN_NO_HEC>();
                self.view.copy_payloads_in(offset, cells);
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
            self.view.copy_out(offset, &mut octets);
            (offset, octets)
        });
        octets.get(..len).filter(|_| *at == offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(state: &mut u64) -> usize {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (*state >> 40) as usize
    }

    /// Writes PDUs one after the other and gives them back in order, some later than others.
    #[test]
    fn what_was_not_given_back_is_there() {
        const LEN: usize = 4_096;
        let mut buffer = LabBuffer::new(LEN, true);
        let view = buffer.view();
        let mut unread = std::collections::VecDeque::new();
        let (mut state, mut position, mut used) = (1, 0, 0);
        for number in 0..5_000_u32 {
            let cells = 1 + draw(&mut state) % 20;
            let octets = (cells * PAYLOAD_LEN).next_multiple_of(PDU_ALIGN);
            while used + octets > LEN || draw(&mut state).is_multiple_of(2) && !unread.is_empty() {
                let (offset, sent) = unread.pop_front().expect("something uses it");
                let sent: Vec<u8> = sent;
                view.show(offset, sent.len(), |found| assert_eq!(found, sent));
                let mut found = vec![0; sent.len()];
                view.copy_out(offset, &mut found);
                assert_eq!(found, sent);
                view.give_back(offset, sent.len());
                used -= sent.len().next_multiple_of(PDU_ALIGN);
            }
            let sent: Vec<[u8; CELL_LEN]> = (0..cells)
                .map(|cell| std::array::from_fn(|n| (number as usize + 7 * cell + n) as u8))
                .collect();
            let mut at = position;
            for cells in sent.chunks(1 + draw(&mut state) % 3) {
                buffer.write_payloads(at, cells.as_flattened(), CellFormat::WithHec);
                at += cells.len() * PAYLOAD_LEN;
            }
            let payloads = sent
                .iter()
                .flat_map(|cell| cell[CELL_LEN - PAYLOAD_LEN..].to_vec());
            unread.push_back((position, payloads.collect()));
            used += octets;
            position = (position + octets) % LEN;
        }
    }

    #[test]
    fn who_gives_back_at_once_needs_no_more_than_a_pdu() {
        let mut buffer = LabBuffer::new(65_536, true);
        let view = buffer.view();
        for number in 0..1_000 {
            let offset = number * 1_536 % 65_536;
            buffer.write(offset, &[number as u8; 1_536]);
            view.show(offset, 1_536, |found| {
                assert_eq!(found, [number as u8; 1_536])
            });
            view.give_back(offset, 1_536);
        }
        assert_eq!(view.shared.octets.used().len(), 1_536);
    }

    #[test]
    fn another_pdu_under_way_keeps_its_place() {
        let mut buffer = LabBuffer::new(4_096, true);
        let view = buffer.view();
        buffer.write(0, &[1; 960]);
        buffer.write(960, &[2; 48]);
        view.give_back(0, 960);
        view.show(960, 48, |found| assert_eq!(found, [2; 48]));
        let mut all = [0; 4_096];
        all[..960].fill(1);
        all[960..1_008].fill(2);
        assert_eq!(view.to_vec(), all);
    }
}
