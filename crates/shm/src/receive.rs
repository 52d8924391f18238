use std::os::fd::{AsFd, BorrowedFd};

use cellgate_core::aal::Memory;
use cellgate_core::queue::{ConnectionGeometry, Words};
use cellgate_core::wire::{CELL_LEN, CELL_LEN_NO_HEC, CellFormat, PAYLOAD_LEN};

use crate::ShmError;
use crate::map::{Access, Map, SharedWords};
use crate::memfd::{FOREIGN, FROM_CLIENT, Length, verify};

/// Where a connection's PDUs are reassembled (the data routing of *Policing Offloaded*).
#[derive(Clone, Copy, Debug)]
pub enum ReceiveBuffer<'fd> {
    /// In the connection's own from-adapter file.
    Own,
    /// At the start of another connection's transmit buffer.
    TransmitBufferOf {
        /// The other's from-client file.
        from_client: BorrowedFd<'fd>,
        /// The other's geometry.
        geometry: ConnectionGeometry,
    },
    /// At the start of a memory file of its owner's making. It must be sealed against shrinking:
    /// an owner that could shorten it could stop the adapter.
    File(BorrowedFd<'fd>),
}

/// A receive buffer mapped twice, one behind the other, so that every PDU is contiguous.
#[derive(Debug)]
pub struct ReceiveMemory {
    words: SharedWords,
}

impl ReceiveMemory {
    /// Over both halves of `map`, which the caller keeps.
    pub(crate) fn over(map: &Map, sole_writer: bool) -> Self {
        let mut words = map.words().alias();
        words.sole_writer = sole_writer;
        Self { words }
    }

    /// The buffer of a connection that does not receive.
    pub(crate) fn none() -> Self {
        Self {
            words: SharedWords::none(),
        }
    }

    /// Copies `len` octets at `from` of `words` to `offset`, each once.
    ///
    /// # Panics
    /// If the buffer is not one that only the adapter writes: it could be a part of `words`.
    pub(crate) fn write_from(
        &mut self,
        offset: usize,
        words: &SharedWords,
        from: usize,
        len: usize,
    ) {
        assert!(self.words.sole_writer, "the buffer may be its sender's");
        let (mut to, mut from) = (
            self.words.range(offset, len),
            words.range(from, len).cast_const(),
        );
        let mut left = len;
        while left > 0 {
            let n = left.min(CHUNK);
            for line in 0..CHUNK / 64 {
                claim(to.wrapping_add(AHEAD + line * 64));
            }
            // SAFETY: `range` checked both. The destination is mapped writable by the adapter alone
            // and is no part of the source, which clients write: they can change octets while they
            // are copied, and each lands as some value it had.
            unsafe {
                core::ptr::copy_nonoverlapping(from, to, n);
                (from, to) = (from.add(n), to.add(n));
            }
            left -= n;
        }
    }

    /// Copies octets out, each once.
    pub(crate) fn copy_out(&self, offset: usize, octets: &mut [u8]) {
        self.words.copy_out(offset, octets);
    }

    /// Copies `len` octets at `offset` to `to`.
    ///
    /// # Safety
    /// `to` is mapped, writable, and no part of them.
    pub(crate) unsafe fn copy_to(&self, offset: usize, to: *mut u8, len: usize) {
        let from = self.words.range(offset, len).cast_const();
        // SAFETY: `range` checked the source, and the caller the destination.
        unsafe { core::ptr::copy_nonoverlapping(from, to, len) }
    }

    /// `len` octets at `offset`.
    ///
    /// # Safety
    /// Nobody writes them while the slice lives.
    pub(crate) unsafe fn slice(&self, offset: usize, len: usize) -> &[u8] {
        let start = self.words.range(offset, len);
        // SAFETY: `range` checked that they are mapped; the caller knows that nobody writes.
        unsafe { core::slice::from_raw_parts(start, len) }
    }
}

/// Cells that are copied between two looks ahead.
const GROUP: usize = 4;

/// Octets that are copied between two looks ahead where they lie in a row.
const CHUNK: usize = 512;

/// How far ahead of a copy the lines that it will write are asked for. A client that has read them
/// has them in its core, and one after the other they come slower than cells do.
const AHEAD: usize = 1_536;

#[inline(always)]
unsafe fn copy_payload<const STRIDE: usize>(to: *mut u8, cell: &[u8; STRIDE]) {
    let payload = &cell[STRIDE - PAYLOAD_LEN..];
    // SAFETY: the caller has checked room for a payload at `to`.
    unsafe { core::ptr::copy_nonoverlapping(payload.as_ptr(), to, PAYLOAD_LEN) }
}

#[inline(always)]
unsafe fn copy_payloads<const STRIDE: usize>(mut to: *mut u8, cells: &[u8]) {
    let (cells, _) = cells.as_chunks::<STRIDE>();
    let (groups, rest) = cells.as_chunks::<GROUP>();
    for group in groups {
        for line in 0..GROUP * PAYLOAD_LEN / 64 {
            claim(to.wrapping_add(AHEAD + line * 64));
        }
        for cell in group {
            // SAFETY: the caller has checked room for all payloads at `to`.
            unsafe {
                copy_payload(to, cell);
                to = to.add(PAYLOAD_LEN);
            }
        }
    }
    for cell in rest {
        // SAFETY: as above.
        unsafe {
            copy_payload(to, cell);
            to = to.add(PAYLOAD_LEN);
        }
    }
}

/// Asks the CPU for a line that will be written.
#[inline(always)]
fn claim(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, which touches nothing, whatever the address; CPUs without it do nothing.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

impl Memory for ReceiveMemory {
    #[inline(always)]
    fn len(&self) -> usize {
        self.words.len() / 2
    }

    #[inline(always)]
    fn write(&mut self, offset: usize, octets: &[u8]) {
        let to = self.words.range(offset, octets.len());
        // SAFETY: `range` checked the destination, which only the adapter maps writable or which
        // its owner gave away; the source is private memory.
        unsafe { core::ptr::copy_nonoverlapping(octets.as_ptr(), to, octets.len()) }
    }

    #[inline(always)]
    fn write_payloads(&mut self, offset: usize, cells: &[u8], format: CellFormat) {
        let n = format.cells_in(cells.len());
        let to = self.words.range(offset, n * PAYLOAD_LEN);
        // SAFETY: room for n payloads was just checked.
        unsafe {
            match format {
                CellFormat::WithHec => copy_payloads::<CELL_LEN>(to, cells),
                CellFormat::NoHec => copy_payloads::<CELL_LEN_NO_HEC>(to, cells),
            }
        }
    }

    #[inline(always)]
    fn prefetch(&self, offset: usize) {
        self.words.prefetch(offset);
        self.words.prefetch(offset + PAYLOAD_LEN - 1);
    }

    #[inline(always)]
    fn stable(&self, offset: usize, len: usize) -> Option<&[u8]> {
        // SAFETY: this value's owner is the only writer, and writing takes `&mut self`.
        self.words
            .sole_writer
            .then(|| unsafe { self.slice(offset, len) })
    }
}

/// Maps the receive buffer that `geometry` speaks of; `own` is the connection's from-adapter file.
/// None if the connection does not receive.
pub(crate) fn map_buffer(
    geometry: &ConnectionGeometry,
    own: BorrowedFd<'_>,
    buffer: ReceiveBuffer<'_>,
    access: Access,
) -> Result<Option<Map>, ShmError> {
    let sizes = geometry.sizes();
    let len = sizes.receive_len as usize;
    if sizes.receive_elsewhere == matches!(buffer, ReceiveBuffer::Own) {
        return Err(ShmError::ReceiveBuffer);
    }
    if len == 0 {
        return Ok(None);
    }
    let map = match buffer {
        ReceiveBuffer::Own => Map::mirrored(own, geometry.receive_buffer_at(), len, access),
        ReceiveBuffer::TransmitBufferOf {
            from_client,
            geometry: other,
        } => {
            // What is left at its end is its client's, for PDUs that wrap.
            if (other.sizes().transmit_len as usize) < len {
                return Err(ShmError::ReceiveBuffer);
            }
            verify(
                from_client,
                FROM_CLIENT,
                Length::Exactly(other.from_client_len()),
            )?;
            Map::mirrored(from_client, other.transmit_buffer_at(), len, access)
        }
        ReceiveBuffer::File(file) => {
            verify(file.as_fd(), FOREIGN, Length::AtLeast(len))?;
            Map::mirrored(file, 0, len, access)
        }
    };
    map.map(Some)
}
