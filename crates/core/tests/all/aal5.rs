//! AAL5 both ways, at every CPU level, against PDUs and CRCs made the slow way.

use std::cell::Cell;

use cellgate_core::aal::Memory;
use cellgate_core::aal::aal5::{Error, Reassembler, Sdu, Segmenter};
use cellgate_core::wire::{CellFormat, Header, hec};
use cellgate_simd::{Fold, Kernel, Level, with_level};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

const FORMATS: [CellFormat; 2] = [CellFormat::WithHec, CellFormat::NoHec];
/// VPI 1, VCI 100, low priority.
const HEADER: u32 = 0x0010_0641;

/// A receive buffer: a vector that repeats after half its octets.
struct Mirrored {
    octets: Vec<u8>,
    stable: bool,
    /// Octets that were asked for again after they had been written.
    read_again: Cell<usize>,
}

impl Mirrored {
    fn new(len: usize, stable: bool) -> Self {
        Self {
            octets: vec![0xee; 2 * len],
            stable,
            read_again: Cell::new(0),
        }
    }
}

impl Memory for Mirrored {
    fn len(&self) -> usize {
        self.octets.len() / 2
    }

    fn write(&mut self, offset: usize, octets: &[u8]) {
        let len = self.len();
        assert!(offset + octets.len() <= 2 * len);
        for (i, octet) in octets.iter().enumerate() {
            self.octets[(offset + i) % len] = *octet;
            self.octets[(offset + i) % len + len] = *octet;
        }
    }

    fn stable(&self, offset: usize, len: usize) -> Option<&[u8]> {
        self.read_again.set(self.read_again.get() + len);
        self.stable.then(|| &self.octets[offset..offset + len])
    }
}

fn bitwise_crc(octets: &[u8]) -> u32 {
    let mut register = u32::MAX;
    for octet in octets {
        register ^= u32::from(*octet) << 24;
        for _ in 0..8 {
            let out = register >> 31;
            register = (register << 1) ^ (out * 0x04c1_1db7);
        }
    }
    !register
}

/// The CPCS-PDU of `sdu` that claims to carry `length` octets.
fn pdu(sdu: &[u8], uu: u8, cpi: u8, length: u16) -> Vec<u8> {
    let mut pdu = sdu.to_vec();
    pdu.resize((sdu.len() + 8).div_ceil(48) * 48 - 8, 0);
    pdu.extend([uu, cpi]);
    pdu.extend(length.to_be_bytes());
    pdu.extend(bitwise_crc(&pdu).to_be_bytes());
    pdu
}

/// The cells of a PDU.
fn cells(pdu: &[u8], format: CellFormat) -> Vec<Vec<u8>> {
    let payloads = pdu.as_chunks::<48>().0;
    let cell = |(i, payload): (usize, &[u8; 48])| {
        let last = i + 1 == payloads.len();
        let header = (HEADER | u32::from(last) << 1).to_be_bytes();
        let mut cell = header.to_vec();
        if format == CellFormat::WithHec {
            cell.push(hec(header));
        }
        cell.extend(payload);
        cell
    };
    payloads.iter().enumerate().map(cell).collect()
}

fn random(rng: &mut Pcg64Mcg, len: usize) -> Vec<u8> {
    let mut octets = vec![0; len];
    rng.fill_bytes(&mut octets);
    octets
}

/// Seals `sdu` and emits its cells, at most `burst` at a time.
struct Send<'a> {
    sdu: &'a [u8],
    uu: u8,
    cpi: u8,
    format: CellFormat,
    burst: usize,
}

impl Kernel for Send<'_> {
    type Output = Vec<u8>;
    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> Vec<u8> {
        // What was there before must not show in the pad.
        let mut staging = vec![0xdd; 1366 * 48];
        staging[..self.sdu.len()].copy_from_slice(self.sdu);
        let header = Header::from_word(HEADER);
        let len = self.sdu.len() as u16;
        let mut segmenter =
            Segmenter::seal(fold, &mut staging, len, self.uu, self.cpi, header).unwrap();
        let stride = self.format.stride();
        let mut wire = vec![0; usize::from(segmenter.cells()) * stride];
        // One octet more than fits whole cells: it stays as it is.
        let mut out = vec![0x55; self.burst * stride + 1];
        let mut at = 0;
        while segmenter.left() > 0 {
            let left = segmenter.left();
            let n = segmenter.emit_cells(&staging, self.format, &mut out);
            assert_eq!(usize::from(n), self.burst.min(left.into()));
            assert_eq!(segmenter.left(), left - n);
            assert_eq!(out.last(), Some(&0x55));
            let octets = usize::from(n) * stride;
            wire[at..at + octets].copy_from_slice(&out[..octets]);
            at += octets;
        }
        assert_eq!(segmenter.emit_cells(&staging, self.format, &mut out), 0);
        wire
    }
}

/// Reassembles `cells`, `run` at a time, at `at`.
struct Receive<'a> {
    reassembler: &'a mut Reassembler,
    memory: &'a mut Mirrored,
    at: usize,
    cells: &'a [u8],
    run: usize,
    format: CellFormat,
    max_sdu: u16,
}

impl Kernel for Receive<'_> {
    type Output = Result<Sdu, Error>;
    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> Self::Output {
        self.reassembler.start(fold, self.memory);
        for run in self.cells.chunks(self.run * self.format.stride()) {
            self.reassembler
                .push(fold, self.memory, self.at, run, self.format);
        }
        self.reassembler
            .finish(fold, self.memory, self.at, self.max_sdu)
    }
}

/// What becomes of the cells of one PDU, which must not depend on level, format, memory or runs.
fn judge(pdu: &[u8], max_sdu: u16) -> Result<Sdu, Error> {
    let mut verdicts = Vec::new();
    for level in Level::available() {
        for format in FORMATS {
            for (stable, run) in [(true, 1), (false, 2), (true, 64), (false, 64)] {
                let mut memory = Mirrored::new(66_000, stable);
                verdicts.push(with_level(
                    level,
                    Receive {
                        reassembler: &mut Reassembler::default(),
                        memory: &mut memory,
                        at: 0,
                        cells: &cells(pdu, format).concat(),
                        run,
                        format,
                        max_sdu,
                    },
                ));
            }
        }
    }
    assert!(
        verdicts.iter().all(|verdict| *verdict == verdicts[0]),
        "{verdicts:?}"
    );
    verdicts[0]
}

#[test]
fn the_published_crcs_come_out() {
    let counting: Vec<u8> = (1..=40).collect();
    let vectors: [(&[u8], u8, u8, u32); 4] = [
        (&[0; 40], 0, 0, 0x864d_7f99),
        (&[0xff; 40], 0, 0, 0xc55e_457a),
        (&counting, 0, 0, 0xbf67_1ed0),
        (&counting, 0x11, 0x22, 0xacba_602a),
    ];
    for (sdu, uu, cpi, crc) in vectors {
        for level in Level::available() {
            let format = CellFormat::NoHec;
            let wire = with_level(
                level,
                Send {
                    sdu,
                    uu,
                    cpi,
                    format,
                    burst: 1,
                },
            );
            assert_eq!(wire[48..], crc.to_be_bytes(), "{level:?}");
        }
        let received = judge(&pdu(sdu, uu, cpi, 40), 40);
        assert_eq!(received, Ok(Sdu { len: 40, uu, cpi }));
    }
}

#[test]
fn every_length_goes_out_as_the_standard_says_and_comes_back() {
    let mut rng = Pcg64Mcg::new(1);
    let all = random(&mut rng, 65_535);
    let long = [
        2_047, 4_096, 8_191, 8_192, 9_180, 9_188, 16_384, 32_768, 65_527, 65_528, 65_535,
    ];
    let mut memory = [Mirrored::new(70_000, false), Mirrored::new(70_000, true)];
    let mut reassembler = Reassembler::default();
    for len in (1..=2_000).chain(long) {
        let (sdu, uu, cpi) = (&all[..len], rng.next_u32() as u8, rng.next_u32() as u8);
        let pdu = pdu(sdu, uu, cpi, len as u16);
        let format = FORMATS[len % 2];
        let expected = cells(&pdu, format).concat();
        for level in Level::available() {
            let burst = [1, 7, 171, 1_366][rng.next_u32() as usize % 4];
            let wire = with_level(
                level,
                Send {
                    sdu,
                    uu,
                    cpi,
                    format,
                    burst,
                },
            );
            assert_eq!(wire, expected, "{level:?} {len}");
            let at = rng.next_u32() as usize % 70_000;
            let run = 1 + rng.next_u32() as usize % 40;
            for memory in &mut memory {
                let receive = Receive {
                    reassembler: &mut reassembler,
                    memory,
                    at,
                    cells: &wire,
                    run,
                    format,
                    max_sdu: u16::MAX,
                };
                let sdu_info = with_level(level, receive);
                let good = Sdu {
                    len: len as u16,
                    uu,
                    cpi,
                };
                assert_eq!(sdu_info, Ok(good), "{level:?} {len}");
                assert_eq!(usize::from(reassembler.cells()) * 48, pdu.len());
                assert_eq!(memory.octets[at..at + pdu.len()], pdu);
            }
        }
    }
}

#[test]
fn every_single_wrong_bit_is_found() {
    let sdu: Vec<u8> = (0..60).collect();
    let good = pdu(&sdu, 3, 0, 60);
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 0x80 >> (bit % 8);
        assert_eq!(judge(&bad, u16::MAX), Err(Error::Crc), "{bit}");
    }
    assert_eq!(
        judge(&good, u16::MAX),
        Ok(Sdu {
            len: 60,
            uu: 3,
            cpi: 0
        })
    );
}

#[test]
fn lost_repeated_and_swapped_cells_are_found() {
    let good = pdu(&random(&mut Pcg64Mcg::new(2), 48 * 9), 0, 0, 48 * 9);
    let payloads = good.as_chunks::<48>().0;
    for i in 0..payloads.len() - 1 {
        let mut lost = payloads.to_vec();
        lost.remove(i);
        assert_eq!(
            judge(lost.as_flattened(), u16::MAX),
            Err(Error::Crc),
            "{i} lost"
        );
        let mut repeated = payloads.to_vec();
        repeated.insert(i, payloads[i]);
        assert_eq!(
            judge(repeated.as_flattened(), u16::MAX),
            Err(Error::Crc),
            "{i} repeated"
        );
        let mut swapped = payloads.to_vec();
        swapped.swap(i, i + 1);
        assert_eq!(
            judge(swapped.as_flattened(), u16::MAX),
            Err(Error::Crc),
            "{i} swapped"
        );
    }
}

#[test]
fn the_first_of_crc_abort_and_length_is_told() {
    let sdu = [7; 100];
    assert_eq!(judge(&pdu(&sdu, 0, 0, 0), 0), Err(Error::Aborted));
    let mut both = pdu(&sdu, 0, 0, 0);
    both[0] ^= 1;
    assert_eq!(judge(&both, 0), Err(Error::Crc));
    // Three cells carry 89 to 136 octets.
    for length in 0..=300 {
        let expected = match length {
            0 => Err(Error::Aborted),
            89..=120 => Ok(Sdu {
                len: length,
                uu: 9,
                cpi: 8,
            }),
            _ => Err(Error::Length),
        };
        assert_eq!(judge(&pdu(&sdu, 9, 8, length), 120), expected, "{length}");
    }
    assert_eq!(
        judge(&pdu(&sdu, 0, 0, u16::MAX), u16::MAX),
        Err(Error::Length)
    );
}

#[test]
fn nothing_is_judged_good_before_its_first_cell() {
    struct Empty;
    impl Kernel for Empty {
        type Output = Result<Sdu, Error>;
        #[inline(always)]
        fn run<F: Fold>(self, fold: F) -> Self::Output {
            let (mut reassembler, memory) = (Reassembler::default(), Mirrored::new(64, true));
            reassembler.start(fold, &memory);
            reassembler.finish(fold, &memory, 0, u16::MAX)
        }
    }
    for level in Level::available() {
        assert_eq!(with_level(level, Empty), Err(Error::Crc));
    }
}

#[test]
fn an_sdu_that_does_not_fit_its_staging_is_not_sealed() {
    struct Seal(usize, u16);
    impl Kernel for Seal {
        type Output = Option<u16>;
        #[inline(always)]
        fn run<F: Fold>(self, fold: F) -> Option<u16> {
            let mut staging = vec![0; self.0];
            Segmenter::seal(fold, &mut staging, self.1, 0, 0, Header::from_word(HEADER))
                .map(|segmenter| segmenter.cells())
        }
    }
    for level in Level::available() {
        assert_eq!(with_level(level, Seal(47, 1)), None);
        assert_eq!(with_level(level, Seal(48, 40)), Some(1));
        assert_eq!(with_level(level, Seal(95, 41)), None);
        assert_eq!(with_level(level, Seal(96, 41)), Some(2));
        assert_eq!(with_level(level, Seal(1366 * 48, u16::MAX)), Some(1366));
    }
}

/// What a [`Fold`] says of itself.
struct OnePassFrom;

impl Kernel for OnePassFrom {
    type Output = u16;
    #[inline(always)]
    fn run<F: Fold>(self, _fold: F) -> u16 {
        F::ONE_PASS_FROM_CELLS
    }
}

#[test]
fn long_pdus_in_runs_are_read_again_others_never() {
    let mut rng = Pcg64Mcg::new(3);
    // Cells of successive PDUs: short and long after each other in every order.
    let sizes = [1, 2, 60, 61, 5, 1, 200, 3, 3, 150, 90, 1];
    for level in Level::available() {
        let limit = usize::from(with_level(level, OnePassFrom));
        for (stable, run) in [(true, 1), (true, 10), (false, 10)] {
            let mut memory = Mirrored::new(20_000, stable);
            let mut reassembler = Reassembler::default();
            let mut before = 0;
            for n in sizes {
                let sdu = random(&mut rng, n * 48 - 8);
                let pdu = pdu(&sdu, 0, 0, sdu.len() as u16);
                let format = CellFormat::WithHec;
                let wire = cells(&pdu, format).concat();
                memory.read_again.set(0);
                let (at, max_sdu) = (64, u16::MAX);
                let receive = Receive {
                    reassembler: &mut reassembler,
                    memory: &mut memory,
                    at,
                    cells: &wire,
                    run,
                    format,
                    max_sdu,
                };
                assert!(with_level(level, receive).is_ok());
                let again = memory.read_again.get();
                let expected = if !stable || run == 1 {
                    0
                } else if before >= limit {
                    pdu.len()
                } else {
                    // Folded up to and with the run that reached the limit.
                    let folded = limit.div_ceil(run).saturating_mul(run).min(n);
                    pdu.len() - folded * 48
                };
                assert_eq!(again, expected, "{level:?} {n} cells after {before}");
                before = n;
            }
        }
    }
}

#[test]
fn what_others_write_into_the_memory_changes_no_verdict() {
    /// A client that overwrites what it was given before the PDU ends.
    struct Tamper<'a>(&'a [u8], &'a mut Mirrored);
    impl Kernel for Tamper<'_> {
        type Output = Result<Sdu, Error>;
        #[inline(always)]
        fn run<F: Fold>(self, fold: F) -> Self::Output {
            let Self(wire, memory) = self;
            let mut reassembler = Reassembler::default();
            // Twice: the second time the PDU is predicted to be long.
            for _ in 0..2 {
                reassembler.start(fold, memory);
                for cell in wire.chunks(52) {
                    reassembler.push(fold, memory, 0, cell, CellFormat::NoHec);
                    memory.octets.fill(0xff);
                }
                reassembler.finish(fold, memory, 0, u16::MAX)?;
            }
            reassembler.finish(fold, memory, 0, u16::MAX)
        }
    }
    let sdu = random(&mut Pcg64Mcg::new(4), 5_000);
    let wire = cells(&pdu(&sdu, 1, 2, 5_000), CellFormat::NoHec).concat();
    for level in Level::available() {
        let verdict = with_level(level, Tamper(&wire, &mut Mirrored::new(6_000, false)));
        assert_eq!(
            verdict,
            Ok(Sdu {
                len: 5_000,
                uu: 1,
                cpi: 2
            }),
            "{level:?}"
        );
    }
}

#[test]
fn a_reassembly_goes_on_from_its_copy() {
    /// Half the cells, a copy, the other half in the copy.
    struct Halves<'a>(&'a [u8]);
    impl Kernel for Halves<'_> {
        type Output = Result<Sdu, Error>;
        #[inline(always)]
        fn run<F: Fold>(self, fold: F) -> Self::Output {
            let mut memory = Mirrored::new(2_000, false);
            let mut reassembler = Reassembler::default();
            reassembler.start(fold, &memory);
            let (first, second) = self.0.split_at(self.0.len() / 104 * 52);
            reassembler.push(fold, &mut memory, 0, first, CellFormat::NoHec);
            let mut copy = reassembler.clone();
            reassembler.start(fold, &memory);
            copy.push(fold, &mut memory, 0, second, CellFormat::NoHec);
            copy.finish(fold, &memory, 0, u16::MAX)
        }
    }
    let sdu = random(&mut Pcg64Mcg::new(5), 700);
    let wire = cells(&pdu(&sdu, 1, 2, 700), CellFormat::NoHec).concat();
    for level in Level::available() {
        assert_eq!(
            with_level(level, Halves(&wire)),
            Ok(Sdu {
                len: 700,
                uu: 1,
                cpi: 2
            })
        );
    }
}
