use crate::wire::{CellFormat, PAYLOAD_LEN};

/// Memory that cells are reassembled into: a buffer of [`Memory::len`] octets that repeats, so that
/// a PDU which starts anywhere in it is contiguous (offsets up to `2 * len` are valid).
///
/// Only the adapter writes it. Callers keep `offset + octets <= 2 * len`.
#[expect(
    clippy::len_without_is_empty,
    reason = "a length to wrap at; nothing is ever empty"
)]
pub trait Memory {
    /// Octets before the buffer repeats.
    fn len(&self) -> usize;

    /// Copies `octets` to `offset`.
    fn write(&mut self, offset: usize, octets: &[u8]);

    /// Copies the payloads of contiguous `cells` to `offset`, one after the other.
    #[inline(always)]
    fn write_payloads(&mut self, mut offset: usize, cells: &[u8], format: CellFormat) {
        for cell in cells.chunks_exact(format.stride()) {
            self.write(offset, &cell[format.header_len()..]);
            offset += PAYLOAD_LEN;
        }
    }

    /// Asks the CPU to bring the place of a payload at `offset` nearer. A hint: any offset will do.
    #[inline(always)]
    fn prefetch(&self, _offset: usize) {}

    /// `len` octets at `offset`, if nobody else can change them: then they may be read again.
    fn stable(&self, offset: usize, len: usize) -> Option<&[u8]>;
}
