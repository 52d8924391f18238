//! AAL5 both ways.

use cellgate_core::aal::Memory;
use cellgate_core::aal::aal5::{Error, Reassembler, Sdu, Segmenter, only};
use cellgate_core::wire::{CellFormat, Header, PAYLOAD_LEN, Pti, VpiVci};
use cellgate_simd::{Fold, Kernel, Level, with_level};

use crate::check;
use crate::memory::Buffer;
use crate::take::Take;

fn level(choice: u8) -> Level {
    let levels: Vec<_> = Level::available().collect();
    levels[usize::from(choice) % levels.len()]
}

/// Runs of cells, each by an octet of what to do: the last cell of a PDU may get the length and
/// the CRC that it should have. A check by the letter of I.363.5 over the octets kept aside must
/// agree on every PDU.
pub fn aal5_reassembly(data: &[u8]) {
    let mut take = Take::new(data);
    let level = level(take.u8());
    with_level(level, Reassembly { take });
}

struct Reassembly<'a> {
    take: Take<'a>,
}

impl Kernel for Reassembly<'_> {
    type Output = ();

    #[inline(always)]
    fn run<F: Fold>(self, fold: F) {
        let mut take = self.take;
        let format = take.pick(&[CellFormat::WithHec, CellFormat::NoHec]);
        let max_sdu = take.u16();
        let len = take.pick(&[4_800, 4_800, 4_800, 65_568]);
        let mut memory = Buffer::new(len, take.flag());
        let mut at = usize::from(take.u16()) % len;
        let mut reassembler = Reassembler::default();
        let mut pdu = Vec::new();
        let mut pdus = 0;
        while !take.is_empty() && pdus < 64 {
            let op = take.u8();
            let before = pdu.len();
            run_of_cells(&mut take, op, &mut pdu);
            pdu.truncate(len);
            let last = op & 0x80 != 0 || pdu.len() == len;
            if last {
                repair(&mut take, op, &mut pdu, before, max_sdu);
            }
            let cells = cells_of(&pdu[before..], format);
            if before == 0 {
                reassembler.start(fold, &memory);
            }
            reassembler.push(fold, &mut memory, at, &cells, format);
            if !last {
                continue;
            }
            let result = reassembler.finish(fold, &memory, at, max_sdu);
            assert_eq!(usize::from(reassembler.cells()) * PAYLOAD_LEN, pdu.len());
            assert_eq!(result, verdict(&pdu, max_sdu));
            if let Ok(payload) = <&[u8; PAYLOAD_LEN]>::try_from(&*pdu) {
                assert_eq!(only(fold, payload, max_sdu).1, result);
            }
            assert_eq!(memory.read(at, pdu.len()), pdu);
            at = (at + pdu.len()) % memory.len();
            pdu.clear();
            pdus += 1;
        }
    }
}

/// The payloads of 1 to 64 cells: as they come, or one octet over and over.
fn run_of_cells(take: &mut Take<'_>, op: u8, pdu: &mut Vec<u8>) {
    let cells = match op >> 2 & 3 {
        0 => 1,
        1 => 2,
        2 => 1 + usize::from(take.u8() & 63),
        _ => match take.u8() {
            0xff => 1 + usize::from(take.u16()) % 1_500,
            n => 1 + usize::from(n & 7),
        },
    };
    let fill = if op & 3 == 0 { take.u8() } else { op };
    let own = match op & 3 {
        0 => 0,
        1 => PAYLOAD_LEN,
        _ => cells * PAYLOAD_LEN,
    };
    let end = pdu.len() + cells * PAYLOAD_LEN;
    pdu.extend_from_slice(take.slice(own.min(cells * PAYLOAD_LEN)));
    pdu.resize(end, fill);
}

/// The trailer as it should be, or nearly.
fn repair(take: &mut Take<'_>, op: u8, pdu: &mut [u8], before: usize, max_sdu: u16) {
    let len = pdu.len();
    // Of the cells that are about to be pushed only: earlier ones are gone.
    if len - before < PAYLOAD_LEN {
        return;
    }
    if op & 0x40 != 0 {
        let length = match take.u8() {
            0 => 0,
            1 => max_sdu,
            2 => take.u16(),
            3 => u16::try_from(len).unwrap_or(u16::MAX),
            pad => (len - 8).saturating_sub(usize::from(pad % 50)) as u16,
        };
        pdu[len - 6..len - 4].copy_from_slice(&length.to_be_bytes());
    }
    if op & 0x20 != 0 {
        let crc = check::crc32(&pdu[..len - 4]);
        pdu[len - 4..].copy_from_slice(&crc.to_be_bytes());
    }
}

fn cells_of(payloads: &[u8], format: CellFormat) -> Vec<u8> {
    let mut cells = Vec::with_capacity(payloads.len() / PAYLOAD_LEN * format.stride());
    for payload in payloads.chunks_exact(PAYLOAD_LEN) {
        cells.resize(cells.len() + format.header_len(), 0xaa);
        cells.extend_from_slice(payload);
    }
    cells
}

fn verdict(pdu: &[u8], max_sdu: u16) -> Result<Sdu, Error> {
    let (octets, crc) = pdu.split_at(pdu.len() - 4);
    if crc != check::crc32(octets).to_be_bytes() {
        return Err(Error::Crc);
    }
    let [.., uu, cpi, l0, l1] = *octets else {
        unreachable!("a PDU is a cell at least");
    };
    let len = u16::from_be_bytes([l0, l1]);
    let cells = (usize::from(len) + 8).div_ceil(PAYLOAD_LEN);
    match len {
        0 => Err(Error::Aborted),
        _ if len > max_sdu || cells * PAYLOAD_LEN != pdu.len() => Err(Error::Length),
        _ => Ok(Sdu { len, uu, cpi }),
    }
}

/// An SDU through segmenter and reassembler: what comes out went in.
pub fn aal5_round_trip(data: &[u8]) {
    let mut take = Take::new(data);
    let level = level(take.u8());
    with_level(level, RoundTrip { take });
}

struct RoundTrip<'a> {
    take: Take<'a>,
}

impl Kernel for RoundTrip<'_> {
    type Output = ();

    #[inline(always)]
    fn run<F: Fold>(self, fold: F) {
        let mut take = self.take;
        let format = take.pick(&[CellFormat::WithHec, CellFormat::NoHec]);
        let (uu, cpi, clp) = (take.u8(), take.u8(), take.flag());
        let address = VpiVci::from_bits(take.u32());
        let header = Header::new(address, Pti::from_bits(take.u8() & 3), clp);
        let len = match take.u8() {
            0 => take.u16(),
            n if n & 1 == 0 => u16::from(n),
            n => u16::from(n) * 6,
        };
        let strides = [take.u8(), take.u8()];
        let lacking = usize::from(take.u8() & 3 == 3);
        let mut sdu = take.rest().to_vec();
        sdu.resize(len.into(), uu);
        let cells = (usize::from(len) + 8).div_ceil(PAYLOAD_LEN);
        let mut staging = sdu.clone();
        staging.resize(cells * PAYLOAD_LEN - lacking, 0xee);
        let sealed = Segmenter::seal(fold, &mut staging, len, uu, cpi, header);
        let Some(mut segmenter) = sealed else {
            assert_eq!(lacking, 1);
            return;
        };
        assert_eq!((usize::from(segmenter.cells()), lacking), (cells, 0));
        let mut memory = Buffer::new(cells * PAYLOAD_LEN, clp);
        let mut reassembler = Reassembler::default();
        reassembler.start(fold, &memory);
        let (mut calls, mut sent) = (0, 0);
        while segmenter.left() > 0 {
            let room = 1 + usize::from(strides[calls & 1]);
            let mut out = vec![0; room * format.stride() + usize::from(uu) % format.stride()];
            let n = usize::from(segmenter.emit_cells(&staging, format, &mut out));
            assert_eq!(n, room.min(cells - sent));
            let out = &out[..n * format.stride()];
            for (i, cell) in out.chunks_exact(format.stride()).enumerate() {
                let last = sent + i + 1 == cells;
                judge_header(cell, format, header, last);
            }
            reassembler.push(fold, &mut memory, 7, out, format);
            sent += n;
            calls += 1;
        }
        assert_eq!(segmenter.emit_cells(&staging, format, &mut [0; 53]), 0);
        let result = reassembler.finish(fold, &memory, 7, u16::MAX);
        let expected = if len == 0 {
            Err(Error::Aborted)
        } else {
            Ok(Sdu { len, uu, cpi })
        };
        assert_eq!(result, expected);
        assert_eq!(memory.read(7, len.into()), sdu);
    }
}

fn judge_header(cell: &[u8], format: CellFormat, header: Header, last: bool) {
    let word = [cell[0], cell[1], cell[2], cell[3]];
    let found = Header::parse(word);
    assert_eq!(found.is_last(), last);
    assert_eq!(found.word() | Header::LAST, header.word() | Header::LAST);
    if format == CellFormat::WithHec {
        assert_eq!(cell[4], check::hec(word));
    }
}
