use super::cells;
use crate::wire::{MSSAR_LEN, Mssar};

/// A block on its way out: its octets lie where the caller has them until the last cell has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmenter {
    rid: u8,
    data_len: u8,
    cells: u8,
    sent: u8,
    len: u16,
}

impl Segmenter {
    /// A block of `len` octets, `data_len` octets in each cell; none: no block is so long.
    ///
    /// `rid` is to differ from that of the block before it on the same circuit; its low six bits
    /// count.
    pub const fn new(len: usize, rid: u8, data_len: u8) -> Option<Self> {
        let Some(cells) = cells(len, data_len) else {
            return None;
        };
        Some(Self {
            rid: rid % Mssar::RIDS,
            data_len,
            cells,
            sent: 0,
            len: len as u16,
        })
    }

    /// Cells that have not left.
    pub const fn left(&self) -> u8 {
        self.cells - self.sent
    }

    /// Whether the next cell is the block's first.
    pub const fn begins(&self) -> bool {
        self.sent == 0
    }

    /// Begins anew: the block leaves once more.
    pub const fn rewind(&mut self) {
        self.sent = 0;
    }

    /// Writes the next cell's fragmentation header and D octets of `block` to the front of `out`.
    /// False: no cell is left, or the block or `out` has too few octets.
    pub fn emit_cell(&mut self, block: &[u8], out: &mut [u8]) -> bool {
        let data_len = usize::from(self.data_len);
        let Some((header, data)) = out.split_first_chunk_mut::<MSSAR_LEN>() else {
            return false;
        };
        let block = block.get(..self.len.into());
        let (Some(block), Some(data)) = (block, data.get_mut(..data_len)) else {
            return false;
        };
        if self.left() == 0 {
            return false;
        }
        let rest = &block[usize::from(self.sent) * data_len..];
        let now = rest.len().min(data_len);
        data[..now].copy_from_slice(&rest[..now]);
        let part = now < data_len;
        if part {
            data[now..].fill(0);
            data[data_len - 1] = now as u8;
        }
        *header = Mssar {
            sequence: self.left(),
            rid: self.rid,
            part,
            start: self.begins(),
        }
        .emit();
        self.sent += 1;
        true
    }
}
