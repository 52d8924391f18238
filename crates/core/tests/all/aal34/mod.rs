//! AAL3/4 both ways: cells of an independent generator, round trips of every length, and every
//! discard by its name.

mod discards;
mod limits;
mod receiver;

use cellgate_core::aal::aal34::{Segmenter, Verdict, cells};
use cellgate_core::wire::{CellFormat, Header, SarPdu, SegmentType, hec};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use receiver::*;

/// A PDU of the generator.
struct Generated {
    mid: u16,
    btag: u8,
    sdu: Vec<u8>,
    cells: Vec<Vec<u8>>,
}

fn generated() -> Vec<Generated> {
    let mut pdus: Vec<Generated> = Vec::new();
    for line in include_str!("../../data/aal34-cells.txt").lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["#", ..] => {}
            ["sdu", mid, btag, hex] => pdus.push(Generated {
                mid: mid.parse().unwrap(),
                btag: btag.parse().unwrap(),
                sdu: octets(hex),
                cells: Vec::new(),
            }),
            ["cell", hex] => pdus.last_mut().unwrap().cells.push(octets(hex)),
            _ => panic!("{line}"),
        }
    }
    assert_eq!(pdus.len(), 25);
    pdus
}

#[test]
fn a_pdu_of_two_cells_has_its_octets() {
    let sdu: Vec<u8> = (1..=40).collect();
    let cells = segment(&sdu, 5, 7, CellFormat::NoHec, 2);
    let mut first = octets("001003c0800500070028");
    first.extend(&sdu);
    first.extend([0xb3, 0xe5]);
    let mut second = octets("001003c0440500070028");
    second.resize(50, 0);
    second.extend([0x13, 0x66]);
    assert_eq!(cells, [first, second]);
}

#[test]
fn cells_of_the_generator_are_made_and_read_octet_for_octet() {
    let mut receiver = Receiver::new(LIMITS);
    for (n, pdu) in generated().into_iter().enumerate() {
        let Generated {
            mid,
            btag,
            sdu,
            cells,
        } = pdu;
        assert_eq!(segment(&sdu, mid, btag, CellFormat::WithHec, 3), cells);
        let (last, before) = cells.split_last().unwrap();
        for cell in before {
            assert_eq!(receiver.payload(cell.last_chunk().unwrap(), true), held());
        }
        let outcome = receiver.payload(last.last_chunk().unwrap(), false);
        let Verdict::Delivered(received) = outcome.cell else {
            panic!("{outcome:?}");
        };
        assert_eq!(receiver.memory.sdu(received), sdu);
        let clp1 = cells.len() as u16 - 1;
        assert_eq!((received.mid, received.cells_clp1), (mid, clp1));
        receiver.reassembler.release(n as u64 + 1);
    }
}

#[test]
fn sdus_of_every_length_come_through() {
    let mut rng = Pcg64Mcg::new(34);
    let large = [
        2_047, 2_048, 9_180, 32_767, 32_768, 65_532, 65_533, 65_534, 65_535,
    ];
    let random_lengths: Vec<_> = (0..60)
        .map(|_| 1 + rng.next_u32() as usize % 65_535)
        .collect();
    let lengths = (1..=2_000).chain(large).chain(random_lengths);
    let mut receiver = Receiver::new(LIMITS);
    for (n, len) in lengths.enumerate() {
        let sdu = random(&mut rng, len);
        let format = [CellFormat::WithHec, CellFormat::NoHec][n % 2];
        let mid = (n * 37 % 1_024) as u16;
        let wire = segment(&sdu, mid, n as u8, format, 1 + n % 20);
        let octets = 8 + len.next_multiple_of(4);
        assert_eq!(wire.len(), octets.div_ceil(44));
        assert_eq!(usize::from(cells(len as u16)), wire.len());

        let written = receiver.memory.written;
        let pdus: Vec<_> = wire
            .iter()
            .map(|cell| SarPdu::parse(cell.last_chunk().unwrap()).valid().unwrap())
            .collect();
        receiver.delivers(&sdu, &pdus);
        // Each octet of SDU and pad is written once, and no others.
        assert_eq!(receiver.memory.written - written, len.next_multiple_of(4));
        receiver.reassembler.release(n as u64 + 1);
        for cell in &wire {
            let header = HEADER.emit();
            assert_eq!(cell[..4], header);
            assert!(format == CellFormat::NoHec || cell[4] == hec(header));
        }
    }
    assert_eq!(receiver.reassembler.held_cells(), 0);
}

#[test]
fn a_pdu_is_one_ssm_or_a_bom_coms_and_an_eom() {
    let mut rng = Pcg64Mcg::new(35);
    for len in (1..=300).chain([4_000, 65_535]) {
        let sdu = random(&mut rng, len);
        let cells = sar_pdus(&sdu, 1_023, 255);
        let last = cells.len() - 1;
        for (i, cell) in cells.iter().enumerate() {
            let expected = match (i == 0, i == last) {
                (true, true) => SegmentType::Ssm,
                (true, false) => SegmentType::Bom,
                (false, false) => SegmentType::Com,
                (false, true) => SegmentType::Eom,
            };
            assert_eq!(cell.segment_type, expected);
            assert_eq!(usize::from(cell.sn), i % 16);
            assert_eq!(cell.mid, 1_023);
            let rest = 8 + len.next_multiple_of(4) - 44 * i;
            assert_eq!(usize::from(cell.li), rest.min(44));
            assert!(
                cell.payload[cell.li.into()..]
                    .iter()
                    .all(|octet| *octet == 0)
            );
        }
    }
}

#[test]
fn no_cell_is_marked_as_the_last_of_an_aal5_pdu() {
    let marked = Header::from_word(HEADER.word() | Header::LAST | Header::CLP);
    let mut segmenter = Segmenter::new(100, 1, 1, marked);
    let mut out = [0; 52 * 3];
    assert_eq!(
        segmenter.emit_cells(&[1; 100], CellFormat::NoHec, &mut out),
        3
    );
    for cell in out.chunks_exact(52) {
        assert_eq!(cell[..4], (HEADER.word() | Header::CLP).to_be_bytes());
    }
}

#[test]
fn nothing_leaves_when_the_sdu_is_not_all_there() {
    let mut segmenter = Segmenter::new(100, 1, 1, HEADER);
    let mut out = [0; 53 * 4];
    assert_eq!(
        segmenter.emit_cells(&[0; 99], CellFormat::WithHec, &mut out),
        0
    );
    assert_eq!(
        segmenter.emit_cells(&[0; 100], CellFormat::WithHec, &mut out[..52]),
        0
    );
    assert_eq!(
        segmenter.emit_cells(&[0; 100], CellFormat::WithHec, &mut out),
        3
    );
}
