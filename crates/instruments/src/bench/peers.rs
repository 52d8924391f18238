//! What the adapter is compared with, on the same train and as much memory.

use std::marker::PhantomData;
use std::ops::Range;
use std::rc::Rc;

use cellgate_core::aal::aal5::Segmenter;
use cellgate_core::contract::aal5_cells;
use cellgate_core::wire::{CELL_LEN_NO_HEC, CellFormat, PAYLOAD_LEN, VpiVci};
use cellgate_simd::{Fold, FoldState, Kernel, Level, with_features};
use crc::{CRC_32_BZIP2, Crc, Table};

use super::rig::Run;
use super::train::{Train, user_cell};

/// Copies the payloads of `cells` to the front of `to`, as many as fit.
#[inline(always)]
fn copy_payloads(cells: &[u8], to: &mut [u8]) {
    let (cells, _) = cells.as_chunks::<CELL_LEN_NO_HEC>();
    let (to, _) = to.as_chunks_mut::<PAYLOAD_LEN>();
    for (cell, to) in cells.iter().zip(to) {
        to.copy_from_slice(&cell[CELL_LEN_NO_HEC - PAYLOAD_LEN..]);
    }
}

/// The payloads of a train into memory of the adapter's size, and nothing else.
pub(super) struct BareCopy {
    train: Rc<Train>,
    memory: Vec<u8>,
}

impl BareCopy {
    /// Into `len` octets, again and again.
    pub(super) fn new(train: Rc<Train>, len: usize) -> Self {
        let memory = vec![1; len.max(PAYLOAD_LEN)];
        Self { train, memory }
    }

    pub(super) fn pass(&mut self) {
        let cells = self.memory.len() / PAYLOAD_LEN;
        for cells in self.train.octets().chunks(cells * CELL_LEN_NO_HEC) {
            copy_payloads(cells, &mut self.memory);
        }
        std::hint::black_box(&mut self.memory);
    }
}

/// The same, and the CRC of each PDU in one pass: the least that any receiver in software does.
pub(super) struct CopyAndCrc {
    train: Rc<Train>,
    memory: Vec<u8>,
    pdu_cells: usize,
}

impl CopyAndCrc {
    pub(super) fn new(train: Rc<Train>, len: usize, pdu_cells: usize) -> Self {
        let memory = vec![1; len.max(pdu_cells * PAYLOAD_LEN)];
        Self {
            train,
            memory,
            pdu_cells,
        }
    }

    pub(super) fn pass(&mut self) {
        std::hint::black_box(with_features(self));
    }
}

impl Kernel for &mut CopyAndCrc {
    type Output = u32;

    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> u32 {
        let len = self.pdu_cells * PAYLOAD_LEN;
        let room = self.memory.len() / len;
        let mut sum = 0;
        let pdus = self
            .train
            .octets()
            .chunks_exact(self.pdu_cells * CELL_LEN_NO_HEC);
        for (at, cells) in pdus.enumerate() {
            let to = &mut self.memory[at % room * len..][..len];
            copy_payloads(cells, to);
            sum ^= fold.one_pass(to);
        }
        sum
    }
}

/// An AAL5 CRC made by a library, of a whole PDU at its end.
pub(super) trait Checksum: Copy {
    /// Of `octets`, as sent.
    fn checksum(octets: &[u8]) -> u32;
}

/// The `crc` crate as it comes: a table of 256 entries.
#[derive(Clone, Copy)]
pub(super) struct DefaultTable;

impl Checksum for DefaultTable {
    fn checksum(octets: &[u8]) -> u32 {
        static CRC_32: Crc<u32> = Crc::<u32>::new(&CRC_32_BZIP2);
        CRC_32.checksum(octets)
    }
}

/// The `crc` crate with 16 tables.
#[derive(Clone, Copy)]
pub(super) struct SixteenTables;

impl Checksum for SixteenTables {
    fn checksum(octets: &[u8]) -> u32 {
        static CRC_32: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_BZIP2);
        CRC_32.checksum(octets)
    }
}

/// The `crc-fast` crate: one call for a PDU.
#[cfg(feature = "crc-fast")]
#[derive(Clone, Copy)]
pub(super) struct CrcFast;

#[cfg(feature = "crc-fast")]
impl Checksum for CrcFast {
    fn checksum(octets: &[u8]) -> u32 {
        crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Bzip2, octets) as u32
    }
}

/// Runs the adapter's own receive loop, compiled for the same CPU level, with one call of a library
/// for each PDU in place of the fold.
pub(super) struct ByCall<C>(PhantomData<C>);

impl<C: Checksum> Run for ByCall<C> {
    #[inline(always)]
    fn run<K: Kernel>(batch: K) -> K::Output {
        with_features(WithCalls(batch, PhantomData::<C>))
    }
}

struct WithCalls<K, C>(K, PhantomData<C>);

impl<K: Kernel, C: Checksum> Kernel for WithCalls<K, C> {
    type Output = K::Output;

    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> K::Output {
        self.0.run(CallPerPdu(fold, PhantomData::<C>))
    }
}

/// Leaves every PDU to one call at its end, but a VC's first, of which the adapter does not know
/// yet that its cells come in runs. What no PDU of a measurement asks for, such as a memory
/// that may not be read again, is the fold's.
#[derive(Clone, Copy)]
struct CallPerPdu<F, C>(F, PhantomData<C>);

impl<F: Fold, C: Checksum> Fold for CallPerPdu<F, C> {
    const LEVEL: Level = F::LEVEL;
    const ONE_PASS_FROM_CELLS: u16 = 0;

    #[inline(always)]
    fn start(self, state: &mut FoldState) {
        self.0.start(state);
    }

    #[inline(always)]
    fn cell(self, state: &mut FoldState, payload: &[u8; 48]) {
        self.0.cell(state, payload);
    }

    #[inline(always)]
    fn cells<const STRIDE: usize>(self, state: &mut FoldState, cells: &[[u8; STRIDE]]) {
        self.0.cells(state, cells);
    }

    #[inline(always)]
    fn finish(self, state: &FoldState) -> u32 {
        self.0.finish(state)
    }

    #[inline(always)]
    fn resume(self, register: u32, octets: &[u8]) -> u32 {
        if register == u32::MAX {
            !C::checksum(octets)
        } else {
            self.0.resume(register, octets)
        }
    }

    #[inline(always)]
    fn prefetch(self, octets: &[u8], offset: usize) {
        self.0.prefetch(octets, offset);
    }

    #[inline(always)]
    fn prefetch_value<T>(self, value: &T, octets: Range<usize>) {
        self.0.prefetch_value(value, octets);
    }
}

/// A plain receiver: the link's copy into a FIFO, header, look-up in a table of 65,536, copy, CRC
/// and length at the end of a PDU, descriptor. It polices nothing and trusts every size.
pub(super) struct PlainReceiver {
    train: Rc<Train>,
    fifo: Vec<u8>,
    table: Vec<u16>,
    vcs: Vec<PlainVc>,
    descriptors: Vec<(usize, u16)>,
    pub(super) delivered: u64,
}

struct PlainVc {
    memory: Vec<u8>,
    start: usize,
    cells: usize,
}

impl PlainReceiver {
    /// For `vcs` VCs from VCI 32 on, with `len` octets for each.
    pub(super) fn new(train: Rc<Train>, vcs: usize, len: usize) -> Self {
        let mut table = vec![0; 1 << 16];
        for at in 0..vcs {
            table[32 + at] = at as u16 + 1;
        }
        let vc = || PlainVc {
            memory: vec![1; len],
            start: 0,
            cells: 0,
        };
        Self {
            train,
            fifo: vec![0; 1024 * CELL_LEN_NO_HEC],
            table,
            vcs: (0..vcs).map(|_| vc()).collect(),
            descriptors: vec![(0, 0); 4096],
            delivered: 0,
        }
    }

    pub(super) fn pass<C: Checksum>(&mut self, pdu_cells: usize) {
        let train = Rc::clone(&self.train);
        for cells in train.octets().chunks(self.fifo.len()) {
            self.fifo[..cells.len()].copy_from_slice(cells);
            self.take::<C>(cells.len(), pdu_cells);
        }
        std::hint::black_box(&mut self.descriptors);
    }

    #[inline(always)]
    fn take<C: Checksum>(&mut self, len: usize, pdu_cells: usize) {
        let (cells, _) = self.fifo[..len].as_chunks::<CELL_LEN_NO_HEC>();
        for cell in cells {
            let header = u32::from_be_bytes([cell[0], cell[1], cell[2], cell[3]]);
            let index = self.table[(header >> 4) as usize & 0xffff];
            let Some(vc) = self.vcs.get_mut(usize::from(index).wrapping_sub(1)) else {
                continue;
            };
            let at = vc.start + vc.cells * PAYLOAD_LEN;
            vc.memory[at..at + PAYLOAD_LEN].copy_from_slice(&cell[4..]);
            vc.cells += 1;
            if header & 2 == 0 {
                continue;
            }
            let end = at + PAYLOAD_LEN;
            let (pdu, crc) = vc.memory[vc.start..end].split_at(end - vc.start - 4);
            let length = u16::from_be_bytes([pdu[pdu.len() - 4], pdu[pdu.len() - 3]]);
            let good = C::checksum(pdu).to_be_bytes() == *crc
                && (usize::from(length) + 8).div_ceil(PAYLOAD_LEN) == vc.cells;
            if good {
                let slot = self.delivered as usize % self.descriptors.len();
                self.descriptors[slot] = (vc.start, length);
                self.delivered += 1;
            }
            vc.start = if end + pdu_cells * PAYLOAD_LEN + 64 > vc.memory.len() {
                0
            } else {
                end.next_multiple_of(64)
            };
            vc.cells = 0;
        }
    }
}

/// The adapter's own segmentation without the adapter: SDUs out of memory, cells into memory.
pub(super) struct Segmentation {
    sdus: Vec<u8>,
    sdu: u16,
    staging: Vec<u8>,
    cells: Vec<u8>,
    pdus: usize,
}

impl Segmentation {
    /// Of at least `cells` cells a pass.
    pub(super) fn new(sdu: u16, cells: usize) -> Self {
        let pdu_cells = aal5_cells(sdu.into()) as usize;
        let pdus = cells.div_ceil(pdu_cells);
        Self {
            sdus: vec![0x5a; usize::from(sdu) * pdus],
            sdu,
            staging: vec![0; pdu_cells * PAYLOAD_LEN],
            cells: vec![0; pdus * pdu_cells * CELL_LEN_NO_HEC],
            pdus,
        }
    }

    /// Cells of a pass.
    pub(super) fn cells(&self) -> usize {
        self.cells.len() / CELL_LEN_NO_HEC
    }

    pub(super) fn pass(&mut self) {
        with_features(self);
    }
}

impl Kernel for &mut Segmentation {
    type Output = ();

    #[inline(always)]
    fn run<F: Fold>(self, fold: F) {
        let header = user_cell(VpiVci::from_bits(32), false, false);
        let len = self.cells.len() / self.pdus;
        let sdus = self.sdus.chunks_exact(self.sdu.into());
        for (sdu, cells) in sdus.zip(self.cells.chunks_exact_mut(len)) {
            self.staging[..sdu.len()].copy_from_slice(sdu);
            let sealed = Segmenter::seal(fold, &mut self.staging, self.sdu, 0, 0, header);
            if let Some(mut segmenter) = sealed {
                segmenter.emit_cells(&self.staging, CellFormat::NoHec, cells);
            }
        }
        std::hint::black_box(&mut self.cells);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::rig::{Contract, Rig};
    use super::super::train::{Order, addresses};
    use super::*;

    thread_local! {
        static CALLS: Cell<u64> = const { Cell::new(0) };
    }

    #[derive(Clone, Copy)]
    struct Counting;

    impl Checksum for Counting {
        fn checksum(octets: &[u8]) -> u32 {
            CALLS.set(CALLS.get() + 1);
            SixteenTables::checksum(octets)
        }
    }

    #[test]
    fn the_adapter_by_call_calls_once_a_pdu_and_delivers_all() -> anyhow::Result<()> {
        for sdu in [40, 8192] {
            let addresses = addresses(1);
            let train = Rc::new(Train::aal5(&addresses, sdu, Order::Contiguous, 2_000));
            let pdus = train.cells() / aal5_cells(sdu.into()) as usize;
            let contract = Contract::policed(sdu);
            let mut rig = Rig::<ByCall<Counting>>::receiving_by(&addresses, contract, train)?;
            rig.pass();
            CALLS.set(0);
            rig.pass();
            rig.ensure_delivered()?;
            assert_eq!(CALLS.get(), pdus as u64, "{sdu} octets");
        }
        Ok(())
    }
}
