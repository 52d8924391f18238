//! Cells, headers, HEC and the AAL5 trailer against published vectors and every small error.

use cellgate_core::wire::{
    Cell, CellFormat, CellRef, Header, HeaderForm, HeaderKind, HecMode, HecReceiver, HecVerdict,
    PAYLOAD_LEN, Pti, Trailer, VpiVci, hec,
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Polynomial division bit by bit, for registers of up to 32 bits; shares no code with the crate.
fn remainder(octets: &[u8], width: u32, polynomial: u32, start: u32) -> u32 {
    let top = 1u64 << (width - 1);
    let mask = (1u64 << width) - 1;
    let mut register = u64::from(start);
    for octet in octets {
        for bit in (0..8).rev() {
            let wire = u64::from(octet >> bit & 1) * top;
            let carry = (register ^ wire) & top != 0;
            register = register << 1 & mask;
            if carry {
                register ^= u64::from(polynomial);
            }
        }
    }
    register as u32
}

fn crc32(octets: &[u8]) -> u32 {
    !remainder(octets, 32, 0x04c1_1db7, u32::MAX)
}

fn with_hec(header: u32) -> [u8; 5] {
    Header::from_word(header).emit_with_hec()
}

fn in_detection() -> HecReceiver {
    let mut receiver = HecReceiver::new();
    let mut octets = [0; 5];
    assert_eq!(receiver.receive(&mut octets), HecVerdict::Discard);
    assert_eq!(receiver.mode(), HecMode::Detection);
    receiver
}

#[test]
fn hec_of_known_headers() {
    for (header, code) in [
        (0x0000_0000, 0x55),
        (0x0000_0001, 0x52),
        (0x0000_0010, 0x25),
        (0x0000_0040, 0x92),
        (0x0000_0050, 0xe2),
        (0x0000_0100, 0x40),
        (0x0010_0640, 0x4e),
        (0x0010_0642, 0x40),
    ] {
        let header: u32 = header;
        assert_eq!(hec(header.to_be_bytes()), code, "{header:08x}");
    }
    // The catalogue's check value of this CRC.
    assert_eq!(remainder(b"123456789", 8, 0x07, 0) ^ 0x55, 0xa1);
}

#[test]
fn hec_is_the_remainder_of_the_division() {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    for _ in 0..20_000 {
        let header = random.next_u32().to_be_bytes();
        let expected = remainder(&header, 8, 0x07, 0) ^ 0x55;
        assert_eq!(u32::from(hec(header)), expected);
    }
}

fn headers() -> impl Iterator<Item = u32> {
    let mut random = Pcg64Mcg::seed_from_u64(2);
    let random = core::iter::repeat_with(move || random.next_u32());
    [0, 1, u32::MAX, 0x0010_0640, 0x0fff_fff0]
        .into_iter()
        .chain(random.take(200))
}

#[test]
fn every_single_bit_error_is_corrected_once_at_its_bit() {
    for header in headers() {
        let good = with_hec(header);
        for bit in 0..40u8 {
            let mut octets = good;
            octets[usize::from(bit / 8)] ^= 0x80 >> (bit % 8);
            let wrong = octets;

            let mut receiver = HecReceiver::new();
            assert_eq!(receiver.receive(&mut octets), HecVerdict::Corrected { bit });
            assert_eq!(octets, good);
            assert_eq!(receiver.mode(), HecMode::Detection);

            let mut again = wrong;
            assert_eq!(receiver.receive(&mut again), HecVerdict::Discard);
            assert_eq!(again, wrong, "a discarded header stays as it came");
            assert_eq!(receiver.mode(), HecMode::Detection);
        }
    }
}

#[test]
fn every_double_bit_error_is_discarded_in_both_modes() {
    for header in headers() {
        let good = with_hec(header);
        for first in 0..40 {
            for second in first + 1..40 {
                let mut wrong = good;
                for bit in [first, second] {
                    wrong[bit / 8] ^= 0x80 >> (bit % 8);
                }
                for mut receiver in [HecReceiver::new(), in_detection()] {
                    let mut octets = wrong;
                    assert_eq!(receiver.receive(&mut octets), HecVerdict::Discard);
                    assert_eq!(octets, wrong);
                    assert_eq!(receiver.mode(), HecMode::Detection);
                }
            }
        }
    }
}

#[test]
fn triple_bit_errors_never_pass_as_valid() {
    let good = with_hec(0x0010_0640);
    for first in 0..40 {
        for second in first + 1..40 {
            for third in second + 1..40 {
                let mut wrong = good;
                for bit in [first, second, third] {
                    wrong[bit / 8] ^= 0x80 >> (bit % 8);
                }
                let mut octets = wrong;
                assert_eq!(in_detection().receive(&mut octets), HecVerdict::Discard);
                assert_ne!(HecReceiver::new().receive(&mut wrong), HecVerdict::Valid);
            }
        }
    }
}

#[test]
fn a_good_header_ends_detection() {
    let mut receiver = in_detection();
    let good = with_hec(0x0010_0640);
    let mut octets = good;
    assert_eq!(receiver.receive(&mut octets), HecVerdict::Valid);
    assert_eq!(octets, good);
    assert_eq!(receiver.mode(), HecMode::Correction);
    octets[4] ^= 1;
    assert_eq!(
        receiver.receive(&mut octets),
        HecVerdict::Corrected { bit: 39 }
    );
    assert_eq!(octets, good);
}

#[test]
fn idle_and_unassigned_cells_are_those_of_the_recommendations() {
    let idle = Cell::IDLE.emit_with_hec();
    assert_eq!(idle[..5], [0, 0, 0, 1, 0x52]);
    assert!(idle[5..].iter().all(|octet| *octet == 0x6a));
    let unassigned = Cell::UNASSIGNED.emit_with_hec();
    assert_eq!(unassigned[..5], [0, 0, 0, 0, 0x55]);
    for form in [HeaderForm::Uni, HeaderForm::Nni] {
        assert_eq!(Cell::IDLE.header.kind(form), HeaderKind::Idle);
        assert_eq!(Cell::UNASSIGNED.header.kind(form), HeaderKind::Unassigned);
    }
    let with_gfc = Header::from_word(0xf000_0000);
    assert_eq!(with_gfc.kind(HeaderForm::Uni), HeaderKind::Unassigned);
    assert_eq!(with_gfc.kind(HeaderForm::Nni), HeaderKind::Assigned);
}

#[test]
fn cells_survive_both_forms() {
    let mut random = Pcg64Mcg::seed_from_u64(3);
    for _ in 0..1_000 {
        let mut payload = [0; PAYLOAD_LEN];
        random.fill_bytes(&mut payload);
        let header = Header::from_word(random.next_u32());
        let cell = Cell { header, payload };

        let octets = cell.emit_without_hec();
        assert_eq!(Cell::parse_without_hec(&octets), cell);
        assert_eq!(octets[..4], header.word().to_be_bytes());
        assert_eq!(octets[4..], payload);

        let mut octets = cell.emit_with_hec();
        assert_eq!(octets[5..], payload);
        let mut receiver = HecReceiver::new();
        let (verdict, parsed) = Cell::parse_with_hec(&octets, &mut receiver);
        assert_eq!((verdict, parsed), (HecVerdict::Valid, Some(cell)));
        octets[2] ^= 0x10;
        let (verdict, parsed) = Cell::parse_with_hec(&octets, &mut receiver);
        assert_eq!(verdict, HecVerdict::Corrected { bit: 19 });
        assert_eq!(parsed, Some(cell));
        let (verdict, parsed) = Cell::parse_with_hec(&octets, &mut receiver);
        assert_eq!((verdict, parsed), (HecVerdict::Discard, None));
    }
}

#[test]
fn a_train_is_its_whole_cells() {
    let address = VpiVci::new(1, 100).unwrap();
    let cells: Vec<Cell> = (0..5)
        .map(|i| Cell::user(address, i == 4, [i; PAYLOAD_LEN]))
        .collect();
    for format in [CellFormat::WithHec, CellFormat::NoHec] {
        let octets: Vec<u8> = cells
            .iter()
            .flat_map(|cell| match format {
                CellFormat::WithHec => cell.emit_with_hec().to_vec(),
                CellFormat::NoHec => cell.emit_without_hec().to_vec(),
            })
            .collect();
        for len in 0..=octets.len() {
            let train: Vec<Cell> = CellRef::train(&octets[..len], format)
                .map(|cell| Cell {
                    header: cell.header(),
                    payload: *cell.payload(),
                })
                .collect();
            assert_eq!(train, cells[..len / format.stride()]);
        }
        let first = CellRef::parse(&octets, format).unwrap();
        let expected = (format == CellFormat::WithHec).then_some(0x4e);
        assert_eq!(first.hec(), expected);
        assert!(CellRef::parse(&octets[..format.stride() - 1], format).is_none());
        assert!(CellRef::parse(&[], format).is_none());
    }
}

#[test]
fn header_fields_lie_where_i_361_puts_them() {
    let mut random = Pcg64Mcg::seed_from_u64(4);
    for _ in 0..10_000 {
        let word = random.next_u32();
        let header = Header::parse(word.to_be_bytes());
        assert_eq!(header.emit(), word.to_be_bytes());
        assert_eq!(u32::from(header.gfc()), word >> 28);
        let uni = header.address(HeaderForm::Uni);
        assert_eq!(u32::from(uni.vpi()), word >> 20 & 0xff);
        let nni = header.address(HeaderForm::Nni);
        assert_eq!(u32::from(nni.vpi()), word >> 20);
        assert_eq!(u32::from(nni.vci()), word >> 4 & 0xffff);
        assert_eq!(u32::from(header.pti().bits()), word >> 1 & 7);
        assert_eq!(header.clp(), word & 1 == 1);
        let last = matches!(header.pti(), Pti::User { last: true, .. });
        assert_eq!(header.is_last(), last);
        assert_eq!(Header::new(nni, header.pti(), header.clp()), header);
    }
}

#[test]
fn addresses_have_one_text_each() {
    for text in ["0.0", "0.5", "1.100", "255.65535", "4095.65535"] {
        let address: VpiVci = text.parse().unwrap();
        assert_eq!(address.to_string(), text);
        assert_eq!(VpiVci::from_bits(address.bits()), address);
    }
    for text in [
        "",
        ".",
        "1",
        "1.",
        ".1",
        "1.2.3",
        "4096.0",
        "0.65536",
        "01.2",
        "1.02",
        "1.-2",
        "+1.2",
        " 1.2",
        "1.2 ",
        "a.b",
        "1.99999999999999999999",
        "1.\u{0661}",
    ] {
        assert!(text.parse::<VpiVci>().is_err(), "{text:?}");
    }
}

#[test]
fn trailers_of_the_published_pdus() {
    let ascending: Vec<u8> = (1..=40).collect();
    for (sdu, uu, cpi, crc) in [
        (vec![0x00; 40], 0, 0, 0x864d_7f99),
        (vec![0xff; 40], 0, 0, 0xc55e_457a),
        (ascending.clone(), 0, 0, 0xbf67_1ed0),
        (ascending, 0x11, 0x22, 0xacba_602a),
    ] {
        let trailer = Trailer {
            uu,
            cpi,
            length: 40,
            crc,
        };
        let mut pdu = sdu;
        pdu.extend(trailer.emit());
        assert_eq!(pdu.len(), PAYLOAD_LEN);
        assert_eq!(pdu[40..44], [uu, cpi, 0, 0x28]);
        assert_eq!(crc32(&pdu[..44]), crc);
        assert_eq!(remainder(&pdu, 32, 0x04c1_1db7, u32::MAX), 0xc704_dd7b);
        assert_eq!(Trailer::parse(*pdu.last_chunk().unwrap()), trailer);
    }
    assert_eq!(crc32(b"123456789"), 0xfc89_1918);
}

#[test]
fn trailers_survive_both_ways() {
    let mut random = Pcg64Mcg::seed_from_u64(5);
    for _ in 0..1_000 {
        let octets = random.next_u64().to_be_bytes();
        assert_eq!(Trailer::parse(octets).emit(), octets);
    }
}
