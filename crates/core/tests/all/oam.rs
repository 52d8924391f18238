//! CRC-10, OAM and RM cells against published values, cells of an independent generator, and a CRC
//! made bit by bit.

use cellgate_core::wire::{
    Defect, Header, HeaderForm, HecReceiver, HecVerdict, Loopback, Oam, OamFlow, Pti, Rm, RmRate,
    VpiVci, crc10, crc10_is_valid, seal_crc10,
};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// x^10 + x^9 + x^5 + x^4 + x + 1 over the first `bits` of `octets`, through a register.
fn bitwise(octets: &[u8], bits: usize) -> u16 {
    (0..bits).fold(0, |register: u16, bit| {
        let next = u16::from(octets[bit / 8] >> (7 - bit % 8) & 1);
        let out = register >> 9 ^ next;
        (register << 1 & 0x3ff) ^ (out * 0x233)
    })
}

fn last_ten_bits(payload: &[u8; 48]) -> u16 {
    u16::from_be_bytes([payload[46], payload[47]]) & 0x3ff
}

fn sealed(mut payload: [u8; 48]) -> [u8; 48] {
    seal_crc10(&mut payload);
    payload
}

fn octets(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().as_chunks::<2>().0;
    let octet = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.iter().map(octet).collect()
}

fn random_payload(rng: &mut Pcg64Mcg) -> [u8; 48] {
    let mut payload = [0; 48];
    rng.fill_bytes(&mut payload);
    payload
}

#[test]
fn crc10_has_its_published_values() {
    assert_eq!(crc10(b"123456789"), 0x199);
    assert_eq!(crc10(b""), 0);
    assert_eq!(last_ten_bits(&sealed([0; 48])), 0);
    assert_eq!(last_ten_bits(&sealed([0xff; 48])), 0x2a2);
    let mut ais = [0x6a; 48];
    (ais[0], ais[46]) = (0x10, 0);
    assert_eq!(sealed(ais)[46..], [0x03, 0xb9]);
    ais[0] = 0x18;
    assert_eq!(sealed(ais)[46..], [0x03, 0xc5]);
}

#[test]
fn crc10_is_what_the_bits_give() {
    let mut rng = Pcg64Mcg::new(10);
    for _ in 0..2_000 {
        let payload = random_payload(&mut rng);
        for len in 0..=48 {
            assert_eq!(crc10(&payload[..len]), bitwise(&payload[..len], len * 8));
        }
        let sealed = sealed(payload);
        assert_eq!(last_ten_bits(&sealed), bitwise(&payload, 374));
        assert_eq!(sealed[..46], payload[..46]);
        assert_eq!(sealed[46] & 0xfc, payload[46] & 0xfc);
        assert!(crc10_is_valid(&sealed));
        assert_eq!(bitwise(&sealed, 384), 0);
        assert_eq!(crc10_is_valid(&payload), bitwise(&payload, 384) == 0);
    }
}

#[test]
fn every_wrong_bit_and_every_pair_of_wrong_bits_is_found() {
    let good = sealed(random_payload(&mut Pcg64Mcg::new(11)));
    for one in 0..384 {
        for other in 0..=one {
            let mut wrong = good;
            wrong[one / 8] ^= 0x80 >> (one % 8);
            assert!(other > 0 || !crc10_is_valid(&wrong), "bit {one}");
            wrong[other / 8] ^= 0x80 >> (other % 8);
            assert_eq!(crc10_is_valid(&wrong), one == other, "bits {one}, {other}");
        }
    }
}

#[test]
fn cells_of_the_generator_are_read_and_made_octet_for_octet() {
    let mut read = 0;
    let lines = include_str!("../data/oam-cells.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let [flow, name, hex] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let cell: [u8; 53] = octets(hex).try_into().unwrap();
        let mut header = *cell.first_chunk::<5>().unwrap();
        assert_eq!(
            HecReceiver::new().receive(&mut header),
            HecVerdict::Valid,
            "{line}"
        );
        let header = Header::parse(*cell.first_chunk().unwrap());
        let payload = cell.last_chunk().unwrap();
        let of = OamFlow::of(header, HeaderForm::Uni);
        if flow == "rm" {
            assert_eq!((of, header.pti()), (None, Pti::ResourceManagement));
            assert_eq!(Rm::parse(payload).valid().unwrap().emit(), *payload);
        } else {
            assert_eq!(of.unwrap().name(), flow);
            let oam = Oam::parse(payload).valid().unwrap();
            assert_eq!(oam.name(), name, "{line}");
            assert_eq!(oam.emit(), *payload, "{line}");
        }
        read += 1;
    }
    assert_eq!(read, 19);
}

#[test]
fn loopback_has_its_octets() {
    let request = Loopback::request(42);
    let payload = Oam::Loopback(request).emit();
    let mut expected = [0x6a; 48];
    expected[..6].copy_from_slice(&[0x18, 1, 0, 0, 0, 0x2a]);
    expected[6..38].fill(0xff);
    expected[46..].copy_from_slice(&[0x02, 0x5d]);
    assert_eq!(payload, expected);

    let reply = request.reply().unwrap();
    let answered = Oam::Loopback(reply).emit();
    expected[1] = 0;
    assert_eq!(answered[..46], expected[..46]);
    assert!(crc10_is_valid(&answered));
    assert_eq!(reply.correlation_tag, 42);
    assert_eq!(reply.reply(), None, "an answer is not answered");

    // Only the last bit of the octet is the indication.
    for (octet, asks) in [(0xff, true), (0xfe, false), (0x6a, false), (0x6b, true)] {
        let mut payload = payload;
        payload[1] = octet;
        let Oam::Loopback(loopback) = Oam::parse(&payload).value else {
            panic!("a loopback cell");
        };
        assert_eq!(loopback.request, asks);
    }
}

#[test]
fn a_request_is_for_whom_its_location_names() {
    let own = [7; 16];
    let to = |location| Loopback {
        location,
        ..Loopback::request(1)
    };
    for (location, named, unnamed) in [
        (Loopback::END_POINT, true, true),
        (Loopback::EVERY_POINT, true, true),
        (Loopback::NO_POINT, false, false),
        (own, true, false),
        ([8; 16], false, false),
    ] {
        assert_eq!(to(location).is_for_end_point(Some(&own)), named);
        assert_eq!(to(location).is_for_end_point(None), unnamed);
        let reply = to(location).reply().unwrap();
        assert!(!reply.is_for_end_point(Some(&own)));
    }
    // Nobody can take the name that means nobody.
    let none = to(Loopback::NO_POINT);
    assert!(!none.is_for_end_point(Some(&Loopback::NO_POINT)));
}

#[test]
fn defects_have_their_octets() {
    let defect = Defect {
        defect_type: 3,
        location: *b"0123456789abcdef",
    };
    for (oam, first) in [(Oam::Ais(defect), 0x10), (Oam::Rdi(defect), 0x11)] {
        let payload = oam.emit();
        assert_eq!(payload[..2], [first, 3]);
        assert_eq!(&payload[2..18], b"0123456789abcdef");
        assert!(payload[18..46].iter().all(|octet| *octet == 0x6a));
        assert_eq!(payload[46] & 0xfc, 0);
    }
    let untold = Oam::Ais(Defect::UNTOLD).emit();
    assert_eq!(untold[46..], [0x03, 0xb9]);
}

#[test]
fn flows_are_told_by_their_headers() {
    let header = |vpi, vci, pti| Header::new(VpiVci::new(vpi, vci).unwrap(), pti, false);
    let user = Pti::from_bits(0);
    for (vci, pti, flow) in [
        (3, user, Some(OamFlow::F4Segment)),
        (4, user, Some(OamFlow::F4EndToEnd)),
        (100, Pti::OamSegment, Some(OamFlow::F5Segment)),
        (100, Pti::OamEndToEnd, Some(OamFlow::F5EndToEnd)),
        (100, user, None),
        (5, user, None),
        (100, Pti::ResourceManagement, None),
        (100, Pti::Reserved, None),
    ] {
        assert_eq!(OamFlow::of(header(9, vci, pti), HeaderForm::Nni), flow);
    }
    // The GFC of a UNI is no part of the address.
    let with_gfc = Header::from_word(0xf000_0030);
    assert_eq!(
        OamFlow::of(with_gfc, HeaderForm::Uni),
        Some(OamFlow::F4Segment)
    );
}

#[test]
fn a_flow_has_its_header_and_is_told_by_it() {
    let vc = VpiVci::new(9, 100).unwrap();
    for (flow, word) in [
        (OamFlow::F4Segment, 0x0090_0030),
        (OamFlow::F4EndToEnd, 0x0090_0040),
        (OamFlow::F5Segment, 0x0090_0648),
        (OamFlow::F5EndToEnd, 0x0090_064a),
    ] {
        let header = flow.header(vc);
        assert_eq!(header.word(), word, "{flow:?}");
        assert_eq!(header.address(HeaderForm::Nni), flow.address(vc));
        assert_eq!(OamFlow::of(header, HeaderForm::Nni), Some(flow));
        let text = serde_json::to_string(&flow).unwrap();
        assert_eq!(text, format!("\"{}\"", flow.name()));
    }
}

#[test]
fn any_payload_is_read_and_every_wrong_bit_told() {
    let mut rng = Pcg64Mcg::new(12);
    for round in 0..20_000 {
        let mut payload = random_payload(&mut rng);
        // Among random octets the types with fields of their own are rare.
        payload[0] = [0x10, 0x11, 0x14, 0x18, payload[0]][round % 5];
        let oam = Oam::parse(&payload);
        assert_eq!(oam.crc_valid, crc10_is_valid(&payload));
        let emitted = oam.value.emit();
        assert_eq!(emitted[0], payload[0]);
        assert_eq!(Oam::parse(&emitted).valid(), Some(oam.value));
        let rm = Rm::parse(&payload);
        assert_eq!(Rm::parse(&rm.value.emit()).valid(), Some(rm.value));

        let bit = rng.next_u32() as usize % 384;
        let mut wrong = emitted;
        wrong[bit / 8] ^= 0x80 >> (bit % 8);
        assert_eq!(Oam::parse(&wrong).valid(), None);
        assert_eq!(Rm::parse(&wrong).valid(), None);
    }
    // Of the types that no receiver knows, each keeps its numbers.
    for kind in 0..=255 {
        let mut payload = [0x6a; 48];
        payload[0] = kind;
        let oam = Oam::parse(&payload).value;
        assert_eq!(oam.type_and_function(), (kind >> 4, kind & 0x0f));
    }
}

#[test]
fn rm_cells_have_their_fields() {
    let lines = include_str!("../data/oam-cells.txt").lines();
    let cells: Vec<_> = lines
        .filter_map(|line| line.strip_prefix("rm abr "))
        .collect();
    let read = |hex: &str| {
        let cell = octets(hex);
        Rm::parse(cell.last_chunk().unwrap()).valid().unwrap()
    };
    let first = Rm {
        protocol: Rm::ABR,
        backward: true,
        congestion: true,
        no_increase: true,
        er: RmRate(0x4000 | 18 << 9 | 0x123),
        ccr: RmRate(0x4000 | 17 << 9),
        mcr: RmRate(0x4000 | 3 << 9 | 5),
        queue_length: 7,
        sequence: 0x0102_0304,
        ..Rm::default()
    };
    assert_eq!(read(cells[0]), first);
    let second = Rm {
        protocol: Rm::ABR,
        backward_notification: true,
        request_acknowledge: true,
        ccr: RmRate(0x7fff),
        mcr: RmRate(0x4000),
        ..Rm::default()
    };
    assert_eq!(read(cells[1]), second);
}

#[test]
fn rm_rates_are_exact() {
    assert_eq!(RmRate(0).cell_s_512ths(), 0);
    assert_eq!(RmRate(0x3fff).cell_s_512ths(), 0, "nz is 0");
    assert_eq!(RmRate(0x4000).cell_s_512ths(), 512);
    assert_eq!(RmRate(0x4000 | 3 << 9 | 5).cell_s_512ths(), 8 * 512 + 5 * 8);
    assert_eq!(RmRate(0x7fff).cell_s_512ths(), 1023 << 31);
    let mut rng = Pcg64Mcg::new(13);
    for round in 0..10_000 {
        let cell_s = rng.next_u32() >> (round % 32);
        let rate = RmRate::at_most(cell_s);
        assert!(rate.cell_s_512ths() <= u64::from(cell_s) * 512);
        // The next rate of the form is above.
        if cell_s > 0 && rate != RmRate(0x7fff) {
            let next = RmRate(rate.0 + 1);
            assert!(next.cell_s_512ths() > u64::from(cell_s) * 512);
        }
    }
    assert_eq!(RmRate::at_most(0), RmRate(0));
    assert_eq!(RmRate::at_most(353_207).cell_s_512ths() / 512, 352_768);
}
