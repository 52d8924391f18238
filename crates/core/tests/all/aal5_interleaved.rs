//! One stream of cells of thousands of VCs, with faults: each PDU comes to the end that its fault
//! foretells, and every cell is accounted for.

use std::collections::VecDeque;

use cellgate_core::aal::Memory;
use cellgate_core::aal::aal5::{Error, Reassembler, Sdu, Segmenter};
use cellgate_core::wire::{CellFormat, Header, VpiVci};
use cellgate_simd::{Fold, Kernel, Level, with_level};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

const VCS: usize = 3_000;
const PDUS_PER_VC: usize = 4;
/// Above the 24 cells from which on some levels stop folding.
const CELLS_MAX: u32 = 40;
const FORMAT: CellFormat = CellFormat::NoHec;
const STRIDE: usize = 52;
const LAST: u8 = 2;

/// A buffer in which every PDU starts at 0, so that it need not repeat.
struct Plain {
    octets: Vec<u8>,
    stable: bool,
}

impl Memory for Plain {
    fn len(&self) -> usize {
        self.octets.len()
    }
    fn write(&mut self, offset: usize, octets: &[u8]) {
        self.octets[offset..offset + octets.len()].copy_from_slice(octets);
    }
    fn stable(&self, offset: usize, len: usize) -> Option<&[u8]> {
        self.stable.then(|| &self.octets[offset..offset + len])
    }
}

/// How a PDU must end, and with how many cells.
type End = (Result<Vec<u8>, Error>, usize);

/// The cells of one VC and what must become of them.
#[derive(Default)]
struct Script {
    cells: VecDeque<[u8; STRIDE]>,
    ends: Vec<End>,
    /// Cells of a PDU whose last cell was lost: they join the next.
    held: usize,
}

fn below(rng: &mut Pcg64Mcg, bound: u32) -> u32 {
    rng.next_u32() % bound
}

/// The cells of one PDU.
struct Cut<'a>(&'a [u8], Header);

impl Kernel for Cut<'_> {
    type Output = Vec<[u8; STRIDE]>;
    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> Self::Output {
        let len = self.0.len();
        let mut staging = self.0.to_vec();
        staging.resize(len + 48 + 8, 0);
        let sealed = Segmenter::seal(fold, &mut staging, len as u16, 0, 0, self.1);
        let mut segmenter = sealed.expect("staging has room for pad and trailer");
        let mut cells = vec![[0; STRIDE]; segmenter.cells().into()];
        segmenter.emit_cells(&staging, FORMAT, cells.as_flattened_mut());
        cells
    }
}

/// The last cell once more with another length, and the CRC that goes with it.
fn forge_length(cells: &mut [[u8; STRIDE]], length: u16) {
    let mut payloads: Vec<u8> = cells.iter().flat_map(|cell| cell[4..].to_vec()).collect();
    let end = payloads.len();
    payloads[end - 6..end - 4].copy_from_slice(&length.to_be_bytes());
    let mut register = u32::MAX;
    for octet in &payloads[..end - 4] {
        register ^= u32::from(*octet) << 24;
        for _ in 0..8 {
            register = (register << 1) ^ ((register >> 31) * 0x04c1_1db7);
        }
    }
    payloads[end - 4..].copy_from_slice(&(!register).to_be_bytes());
    for (cell, payload) in cells.iter_mut().zip(payloads.chunks(48)) {
        cell[4..].copy_from_slice(payload);
    }
}

impl Script {
    fn add_pdu(&mut self, rng: &mut Pcg64Mcg, header: Header) {
        let mut sdu = vec![0; 1 + below(rng, CELLS_MAX * 48 - 8) as usize];
        rng.fill_bytes(&mut sdu);
        let mut cells = with_level(Level::Baseline, Cut(&sdu, header));
        let any = below(rng, cells.len() as u32) as usize;
        let mut end = Ok(sdu);
        match below(rng, 12) {
            0 => {
                cells[any][4 + below(rng, 48) as usize] ^= 1 << below(rng, 8);
                end = Err(Error::Crc);
            }
            1 if any + 1 < cells.len() => {
                cells.remove(any);
                end = Err(Error::Crc);
            }
            2 if any + 1 < cells.len() => {
                cells.insert(any, cells[any]);
                end = Err(Error::Crc);
            }
            3 => {
                forge_length(&mut cells, 0);
                end = Err(Error::Aborted);
            }
            4 => {
                let length = 48 * cells.len() as u16 - 7;
                forge_length(&mut cells, length);
                end = Err(Error::Length);
            }
            5 => {
                cells.pop();
                self.held += cells.len();
                self.cells.extend(cells);
                return;
            }
            _ => {}
        }
        if self.held > 0 {
            end = Err(Error::Crc);
        }
        self.ends.push((end, self.held + cells.len()));
        self.held = 0;
        self.cells.extend(cells);
    }
}

/// A VC of the receiver.
struct Vc {
    reassembler: Reassembler,
    memory: Plain,
    receiving: bool,
    ends: Vec<End>,
}

impl Vc {
    fn new(stable: bool) -> Self {
        let octets = vec![0; (PDUS_PER_VC * (CELLS_MAX as usize + 1)) * 48];
        Self {
            reassembler: Reassembler::default(),
            memory: Plain { octets, stable },
            receiving: false,
            ends: Vec::new(),
        }
    }
}

/// Takes the stream in: a run of cells of one PDU at a time.
struct Take<'a>(&'a mut [Vc], &'a [[u8; STRIDE]]);

impl Kernel for Take<'_> {
    type Output = ();
    #[inline(always)]
    fn run<F: Fold>(self, fold: F) {
        let Self(vcs, cells) = self;
        for run in cells.chunk_by(|a, b| a[..4] == b[..4] && a[3] & LAST == 0) {
            let header = Header::from_word(u32::from_be_bytes([
                run[0][0], run[0][1], run[0][2], run[0][3],
            ]));
            let vc = &mut vcs[usize::from((header.word() >> 4) as u16)];
            if !vc.receiving {
                vc.reassembler.start(fold, &vc.memory);
                vc.receiving = true;
            }
            vc.reassembler
                .push(fold, &mut vc.memory, 0, run.as_flattened(), FORMAT);
            if header.is_last() {
                vc.receiving = false;
                let end = vc.reassembler.finish(fold, &vc.memory, 0, u16::MAX);
                let sdu = |Sdu { len, .. }| vc.memory.octets[..usize::from(len)].to_vec();
                vc.ends.push((end.map(sdu), vc.reassembler.cells().into()));
            }
        }
    }
}

#[test]
fn interleaved_pdus_of_thousands_of_vcs_each_come_to_their_own_end() {
    let rng = &mut Pcg64Mcg::new(6);
    let mut scripts: Vec<Script> = (0..VCS).map(|_| Script::default()).collect();
    for (vci, script) in scripts.iter_mut().enumerate() {
        let address = VpiVci::new(0, vci as u16).expect("VPI 0 exists");
        for _ in 0..PDUS_PER_VC {
            script.add_pdu(rng, Header::from_word(address.bits() << 4));
        }
    }
    // One to three cells of a VC at a time, in no order.
    let mut stream = Vec::new();
    let mut waiting: Vec<usize> = (0..VCS).collect();
    while !waiting.is_empty() {
        let at = below(rng, waiting.len() as u32) as usize;
        let cells = &mut scripts[waiting[at]].cells;
        let n = cells.len().min(1 + below(rng, 3) as usize);
        stream.extend(cells.drain(..n));
        if cells.is_empty() {
            waiting.swap_remove(at);
        }
    }

    for level in Level::available() {
        let mut vcs: Vec<Vc> = (0..VCS).map(|vci| Vc::new(vci % 2 == 0)).collect();
        with_level(level, Take(&mut vcs, &stream));
        let (mut counts, mut accounted) = ([0; 4], 0);
        for (vci, (vc, script)) in vcs.iter().zip(&scripts).enumerate() {
            assert!(
                vc.ends == script.ends,
                "{level:?}: VC {vci} ended otherwise"
            );
            let held = if vc.receiving {
                vc.reassembler.cells().into()
            } else {
                0
            };
            assert_eq!(held, script.held, "{level:?}: VC {vci}");
            accounted += held;
            for (end, cells) in &vc.ends {
                accounted += cells;
                counts[match end {
                    Ok(_) => 0,
                    Err(Error::Crc) => 1,
                    Err(Error::Aborted) => 2,
                    Err(Error::Length) => 3,
                }] += 1;
            }
        }
        assert_eq!(accounted, stream.len(), "{level:?}");
        assert!(
            counts.iter().all(|count| *count > VCS / 6),
            "every end occurs: {counts:?}"
        );
    }
}
