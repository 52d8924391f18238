//! What the tests of captures share: the files, and the values in them.
#![allow(dead_code)]

use std::path::PathBuf;

use cellgate_capture::{Direction, Error, EyeSdnWriter, Item, Reader, Record, Recorder, SduKind};
use cellgate_core::wire::pseudowire::{
    CellMode, PduHeader, SduHeader, Sequence, administrative_cell,
};
use cellgate_core::wire::{Addresses, Cell, Framing, Label, LabelEntry, MplsInUdp, VpiVci};

/// When every file of the generator starts: seconds since 1970.
pub(crate) const START_NS: u64 = 1_700_000_000_000_000_000;

/// Every file of the generator.
pub(crate) const FILES: [&str; 12] = [
    "aal.enc",
    "all.erf",
    "cells.trc",
    "clip.pcap",
    "erf197.pcap",
    "l2tpv3.pcap",
    "l2tpv3b.pcap",
    "mplseth.pcap",
    "mplsudp.pcap",
    "q2931-tripod.pcap",
    "rfc1483.pcap",
    "sunatm.pcap",
];

/// The octets of one of [`FILES`].
pub(crate) fn data(name: &str) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "data", name]
        .iter()
        .collect();
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Every record and every error, in order.
pub(crate) fn read_all(octets: &[u8]) -> Vec<Result<Record, Error>> {
    match Reader::open(octets) {
        Ok(reader) => reader.collect(),
        Err(e) => vec![Err(e)],
    }
}

/// Every record of a file without errors.
pub(crate) fn records(octets: &[u8]) -> Vec<Record> {
    read_all(octets)
        .into_iter()
        .map(|r| r.expect("a good file"))
        .collect()
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).expect("hex") as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

pub(crate) fn address(vpi: u16, vci: u16) -> VpiVci {
    VpiVci::new(vpi, vci).unwrap()
}

/// A ping from 10.0.0.1 to 10.0.0.2.
pub(crate) fn ping() -> Vec<u8> {
    let mut packet = hex("4500003c00010000400166be0a0000010a000002 0800f4c912340001");
    packet.extend(0..32);
    packet
}

/// The ping behind LLC and SNAP.
pub(crate) fn llc_ping() -> Vec<u8> {
    [hex("aaaa030000000800"), ping()].concat()
}

/// The ping in an Ethernet frame.
pub(crate) fn ethernet_ping() -> Vec<u8> {
    [hex("020000000001 020000000002 0800"), ping()].concat()
}

/// CRC-32 of I.363.5, bit by bit.
pub(crate) fn crc32(octets: &[u8]) -> u32 {
    !octets.iter().fold(u32::MAX, |crc, octet| {
        (0..8).fold(crc ^ u32::from(*octet) << 24, |crc, _| {
            if crc >> 31 == 1 {
                crc << 1 ^ 0x04c1_1db7
            } else {
                crc << 1
            }
        })
    })
}

/// Writes the CRC-10 of I.363.3 into the last ten bits, bit by bit.
pub(crate) fn seal_crc10(payload: &mut [u8; 48]) {
    payload[46] &= 0xfc;
    payload[47] = 0;
    let mut register = 0_u16;
    for bit in 0..48 * 8 - 10 {
        let wire = u16::from(payload[bit / 8] >> (7 - bit % 8) & 1);
        let feedback = register >> 9 & 1 ^ wire;
        register = register << 1 & 0x3ff ^ if feedback == 1 { 0x233 } else { 0 };
    }
    payload[46] |= (register >> 8) as u8;
    payload[47] = register as u8;
}

/// The CPCS-PDU of an SDU.
pub(crate) fn pdu(sdu: &[u8], uu: u8) -> Vec<u8> {
    let mut pdu = sdu.to_vec();
    pdu.resize((sdu.len() + 8).next_multiple_of(48) - 8, 0);
    pdu.extend([uu, 0]);
    pdu.extend((sdu.len() as u16).to_be_bytes());
    pdu.extend(crc32(&pdu).to_be_bytes());
    pdu
}

/// The cells of an SDU.
pub(crate) fn cells(vc: VpiVci, sdu: &[u8]) -> Vec<Cell> {
    let pdu = pdu(sdu, 0);
    let count = pdu.len() / 48;
    let payloads = pdu.as_chunks::<48>().0.iter().enumerate();
    payloads
        .map(|(i, payload)| Cell::user(vc, i + 1 == count, *payload))
        .collect()
}

/// An OAM cell: address, PTI and CLP as the low bits of the header; type and function, and what
/// is specific to it, filled up as I.610 wants it.
pub(crate) fn oam(vc: VpiVci, pti: u8, kind: u8, specific: &[u8]) -> Cell {
    let mut payload = [0x6a; 48];
    payload[0] = kind;
    payload[46] = 0;
    payload[1..=specific.len()].copy_from_slice(specific);
    seal_crc10(&mut payload);
    let word = vc.bits() << 4 | u32::from(pti) << 1;
    let mut octets = [0; 52];
    octets[..4].copy_from_slice(&word.to_be_bytes());
    octets[4..].copy_from_slice(&payload);
    Cell::parse_without_hec(&octets)
}

/// A loopback of tag 42 to any location.
pub(crate) fn loopback() -> Cell {
    let specific = [hex("01 0000002a"), vec![0xff; 32]].concat();
    oam(address(1, 100), 5, 0x18, &specific)
}

/// A pcapng file with every view, as the product writes it.
pub(crate) fn recorded() -> Vec<u8> {
    let mut recorder = Recorder::new(Vec::new(), "test").unwrap();
    let mut time_ns = START_NS;
    let mut record = |direction, item: Item<'_>, comment: Option<&str>| {
        recorder.record(time_ns, direction, item, comment).unwrap();
        time_ns += 1_234_567;
    };
    let sdu = llc_ping();
    let kind = SduKind::LLC;
    let vc = address(0, 100);
    record(
        Direction::Receive,
        Item::Sdu {
            address: vc,
            kind,
            sdu: &sdu,
        },
        None,
    );
    let comment = Some("policed: GCRA(PCR)");
    record(
        Direction::Transmit,
        Item::Sdu {
            address: vc,
            kind,
            sdu: &sdu,
        },
        comment,
    );
    let header = cells(vc, &sdu)[0].header;
    let pdu = pdu(&sdu, 7);
    record(
        Direction::Receive,
        Item::Aal5Pdu { header, pdu: &pdu },
        None,
    );
    for cell in cells(address(1, 100), &sdu) {
        record(Direction::Transmit, Item::Cell(&cell), None);
    }
    record(Direction::Receive, Item::Cell(&loopback()), None);
    let far = address(4000, 100);
    record(
        Direction::Transmit,
        Item::Sdu {
            address: far,
            kind,
            sdu: &sdu,
        },
        None,
    );
    record(Direction::Unknown, Item::Frame(&ethernet_ping()), None);
    recorder.finish().unwrap()
}

/// `payload` as the generator frames it for the pseudowire `label`.
pub(crate) fn mpls_frame(label: u32, payload: &[u8], checksum: bool) -> Vec<u8> {
    let headers = MplsInUdp {
        ethernet_source: [2, 0, 0, 0, 0, 2],
        ethernet_destination: [2, 0, 0, 0, 0, 1],
        addresses: Addresses::V4 {
            source: [10, 9, 0, 1].into(),
            destination: [10, 9, 0, 2].into(),
        },
        identification: 1,
        ttl: 64,
        source_port: 49_152,
        checksum,
        entry: LabelEntry::new(Label::new(label).unwrap(), true, 64),
    };
    [&*headers.emit(payload), payload].concat()
}

/// Packets of every service with the ping or a loopback in them: label and packet, in the order
/// and with the numbers of `mplsudp.pcap`; its third, of a wrong size, is left out.
pub(crate) fn pseudowire_packets() -> Vec<(u32, Vec<u8>)> {
    let sent = cells(address(1, 100), &llc_ping());
    let of_cells = |mode: CellMode, sequence: u16, cells: &[Cell]| {
        let mut packet = mode.emit_header(Sequence::from_bits(sequence)).to_vec();
        cells
            .iter()
            .for_each(|cell| packet.extend(&*mode.emit_cell(cell)));
        packet
    };
    let [bare, numbered] = [false, true].map(|control_word| CellMode::NToOne { control_word });
    let (vcc, vpc) = (CellMode::OneToOneVcc, CellMode::OneToOneVpc);
    let sdu = SduHeader {
        sequence: Sequence::from_bits(9),
        ..SduHeader::default()
    };
    let tenth = administrative_cell(Sequence::from_bits(10));
    let of_pdu = |sequence: u16, pdu: &[u8]| {
        let sequence = Sequence::from_bits(sequence);
        let header = PduHeader {
            sequence,
            ..PduHeader::default()
        };
        [&header.emit(), pdu].concat()
    };
    let right = pdu(&llc_ping(), 0);
    let mut wrong = right.clone();
    let end = wrong.len() - 2;
    wrong[end] ^= 8;
    vec![
        (1001, of_cells(bare, 0, &sent)),
        (1002, of_cells(numbered, 1, &sent)),
        (1003, of_cells(vcc, 5, &sent[..1])),
        (1003, of_cells(vcc, 6, &[loopback()])),
        (1003, of_cells(vcc, 7, &sent)),
        (1004, of_cells(vpc, 8, &sent[..1])),
        (1005, [&sdu.emit(68)[..], &llc_ping()].concat()),
        (1005, [&tenth[..], &loopback().emit_without_hec()].concat()),
        (1006, of_pdu(11, &right)),
        (1006, of_pdu(12, &wrong)),
    ]
}

/// The cells of `cells.trc`: of a ping, with wrong header bits, of OAM, an RM and an idle cell.
pub(crate) fn cells_with_hec() -> Vec<[u8; 53]> {
    let vc = address(1, 100);
    let flipped = |mut octets: [u8; 53], bits: &[usize]| {
        bits.iter()
            .for_each(|bit| octets[bit / 8] ^= 0x80 >> (bit % 8));
        octets
    };
    let sent = cells(vc, &llc_ping());
    let first = sent[0].emit_with_hec();
    let mut all: Vec<_> = sent.iter().map(Cell::emit_with_hec).collect();
    all.extend([&[0][..], &[17], &[39], &[3, 20]].map(|bits| flipped(first, bits)));
    all.extend(
        [
            loopback(),
            oam(vc, 4, 0x10, &[]),
            oam(address(2, 3), 0, 0x11, &[]),
            oam(address(2, 4), 0, 0x20, &[]),
        ]
        .map(|cell| cell.emit_with_hec()),
    );
    all.push(flipped(oam(vc, 5, 0x18, &[]).emit_with_hec(), &[160]));
    all.push(oam(vc, 4, 0x80, &[]).emit_with_hec());
    all.push(oam(vc, 6, 0x01, &[0; 45]).emit_with_hec());
    all.push(Cell::IDLE.emit_with_hec());
    all
}

/// [`cells_with_hec`] as the product writes them, with the times of the generator.
pub(crate) fn eyesdn() -> Vec<u8> {
    let mut file = EyeSdnWriter::new(Vec::new()).unwrap();
    for (i, cell) in cells_with_hec().iter().enumerate() {
        let time_ns = START_NS + i as u64 * 10_000;
        file.cell(time_ns, Direction::Transmit, cell).unwrap();
    }
    file.finish().unwrap()
}

/// The label stack and the packet that [`frames_around`] carries: two cells of 1.100.
pub(crate) fn labelled() -> Vec<u8> {
    [hex("003e9140"), pseudowire_packets()[0].1.clone()].concat()
}

/// An IPv4 packet.
pub(crate) fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = hex("4500 0000 0001 0000 40 00 0000 c0000201 c0000202");
    header[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
    header[9] = protocol;
    let sum: u32 = header
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [header, payload.to_vec()].concat()
}

/// An IPv6 packet.
pub(crate) fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u16).to_be_bytes();
    let addresses = [0xfd_u8, 1].map(|last| [vec![0xfd; 15], vec![last]].concat());
    [
        &hex("60000000")[..],
        &len,
        &[next, 64],
        &addresses.concat(),
        payload,
    ]
    .concat()
}

/// A UDP datagram without checksum.
pub(crate) fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let fields = [source, destination, 8 + payload.len() as u16, 0];
    let header: Vec<_> = fields
        .iter()
        .flat_map(|field| field.to_be_bytes())
        .collect();
    [header, payload.to_vec()].concat()
}

/// [`labelled`] as people find it: a name, the link type, the frame.
pub(crate) fn frames_around() -> Vec<(&'static str, Framing, Vec<u8>)> {
    use Framing::{CiscoHdlc, Cooked, Cooked2, Ethernet, Ip, Loopback, Mpls, Ppp, PppOe};
    let labelled = labelled();
    let hardware = hex("020000000001 020000000002");
    let over = |front: &str, rest: &[u8]| [hex(front), rest.to_vec()].concat();
    let ethernet = |front: &str, rest: &[u8]| [hardware.clone(), over(front, rest)].concat();
    let in_udp = ipv4(17, &udp(49_152, 6_635, &labelled));
    let in_udp6 = udp(49_152, 6_635, &labelled);
    let pppoe = |protocol: &str, rest: &[u8]| {
        let len = (rest.len() as u16 + 2).to_be_bytes();
        [
            hex("11 00 0007"),
            len.to_vec(),
            hex(protocol),
            rest.to_vec(),
        ]
        .concat()
    };
    let mut options = in_udp.clone();
    options[0] = 0x46;
    options[3] += 4;
    options.splice(20..20, [1, 1, 1, 0]);
    let authentication = hex("11 04 0000 00000001 00000001 000000000000000000000000");
    let cooked = "0000 0001 0006 020000000001 0000";
    let cooked2 = "0000 00000002 0001 00 06 0200000000010000";
    vec![
        ("mpls over ethernet", Ethernet, ethernet("8847", &labelled)),
        ("mpls multicast", Ethernet, ethernet("8848", &labelled)),
        ("udp", Ethernet, ethernet("0800", &in_udp)),
        ("ipv4 with options", Ethernet, ethernet("0800", &options)),
        ("802.1q", Ethernet, ethernet("8100 2007 0800", &in_udp)),
        (
            "802.1ad",
            Ethernet,
            ethernet("88a8 0064 8100 0007 8847", &labelled),
        ),
        (
            "qinq 0x9100",
            Ethernet,
            ethernet("9100 0064 8100 0007 0800", &in_udp),
        ),
        (
            "three tags",
            Ethernet,
            ethernet("8100 0001 8100 0002 8100 0003 8847", &labelled),
        ),
        (
            "gre",
            Ethernet,
            ethernet("0800", &ipv4(47, &over("0000 8847", &labelled))),
        ),
        (
            "gre multicast",
            Ethernet,
            ethernet("0800", &ipv4(47, &over("0000 8848", &labelled))),
        ),
        (
            "gre with a key",
            Ethernet,
            ethernet("0800", &ipv4(47, &over("2000 8847 00000009", &labelled))),
        ),
        (
            "gre with key and sequence",
            Ethernet,
            ethernet(
                "0800",
                &ipv4(47, &over("3000 8847 00000009 00000001", &labelled)),
            ),
        ),
        (
            "ip protocol 137",
            Ethernet,
            ethernet("0800", &ipv4(137, &labelled)),
        ),
        ("ipv6", Ethernet, ethernet("86dd", &ipv6(17, &in_udp6))),
        (
            "ipv6 protocol 137",
            Ethernet,
            ethernet("86dd", &ipv6(137, &labelled)),
        ),
        (
            "hop by hop",
            Ethernet,
            ethernet("86dd", &ipv6(0, &over("11 00 0104 00000000", &in_udp6))),
        ),
        (
            "destination and routing",
            Ethernet,
            ethernet(
                "86dd",
                &ipv6(
                    60,
                    &over("2b 00 0104 00000000 11 00 fd00 00000000", &in_udp6),
                ),
            ),
        ),
        (
            "a fragment that is all",
            Ethernet,
            ethernet("86dd", &ipv6(44, &over("11 00 0000 00000001", &in_udp6))),
        ),
        (
            "authenticated",
            Ethernet,
            ethernet(
                "0800",
                &ipv4(51, &[authentication, in_udp6.clone()].concat()),
            ),
        ),
        ("ip in ip", Ethernet, ethernet("0800", &ipv4(4, &in_udp))),
        (
            "ipv6 in ipv4",
            Ethernet,
            ethernet("0800", &ipv4(41, &ipv6(17, &in_udp6))),
        ),
        ("pppoe", Ethernet, ethernet("8864", &pppoe("0021", &in_udp))),
        (
            "pppoe with mpls",
            Ethernet,
            ethernet("8864", &pppoe("0281", &labelled)),
        ),
        ("sll", Cooked, over(&format!("{cooked} 0800"), &in_udp)),
        (
            "sll with mpls",
            Cooked,
            over(&format!("{cooked} 8847"), &labelled),
        ),
        (
            "sll with a tag",
            Cooked,
            over(&format!("{cooked} 8100 0007 0800"), &in_udp),
        ),
        ("sll2", Cooked2, over(&format!("0800 {cooked2}"), &in_udp)),
        (
            "sll2 with mpls",
            Cooked2,
            over(&format!("8847 {cooked2}"), &labelled),
        ),
        (
            "sll with snap",
            Cooked,
            over(&format!("{cooked} 0004 aaaa03000000 0800"), &in_udp),
        ),
        (
            "snap over ethernet",
            Ethernet,
            [
                hardware.clone(),
                (in_udp.len() as u16 + 8).to_be_bytes().to_vec(),
                hex("aaaa03000000 0800"),
                in_udp.clone(),
            ]
            .concat(),
        ),
        ("raw ip", Ip, in_udp.clone()),
        ("raw ipv6", Ip, ipv6(17, &in_udp6)),
        ("null", Loopback, over("02000000", &in_udp)),
        ("null the other way", Loopback, over("00000002", &in_udp)),
        (
            "null with ipv6",
            Loopback,
            over("1e000000", &ipv6(17, &in_udp6)),
        ),
        ("ppp", Ppp, over("ff03 0021", &in_udp)),
        ("ppp with mpls", Ppp, over("0281", &labelled)),
        ("cisco hdlc", CiscoHdlc, over("0f00 0800", &in_udp)),
        ("pppoe alone", PppOe, pppoe("0021", &in_udp)),
        ("bare mpls", Mpls, labelled),
    ]
}
