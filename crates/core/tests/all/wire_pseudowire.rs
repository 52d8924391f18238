//! RFC 2684 and RFC 4717 both ways: what is emitted is parsed back, and what is neither is refused.

use cellgate_core::wire::llc::{Llc, LlcError, VcMux, VcMuxPdu};
use cellgate_core::wire::pseudowire::{
    CellMode, ControlWord, PacketContent, PduHeader, Pseudowire, PseudowireError, SduHeader,
    Sequence, SequenceReceiver, SequenceVerdict, Service, administrative_cell,
};
use cellgate_core::wire::{
    Cell, Framing, Header, IpVersion, Label, LabelEntry, MplsFrame, MplsFrameError, VpiVci,
};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

const MODES: [CellMode; 4] = [
    CellMode::NToOne {
        control_word: false,
    },
    CellMode::NToOne { control_word: true },
    CellMode::OneToOneVcc,
    CellMode::OneToOneVpc,
];

fn vc() -> VpiVci {
    VpiVci::new(0xabc, 0x1234).unwrap()
}

fn pseudowire(service: Service) -> Pseudowire {
    let address = vc();
    Pseudowire { service, address }
}

/// A cell whose header is `word` and whose payload counts from it.
fn cell(word: u32) -> Cell {
    Cell {
        header: Header::from_word(word),
        payload: std::array::from_fn(|i| (word as u8).wrapping_add(i as u8)),
    }
}

#[test]
fn llc_headers_are_those_of_rfc_2684() {
    let table: [(Llc, &[u8]); 6] = [
        (
            Llc::Routed { ether_type: 0x0800 },
            &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0],
        ),
        (
            Llc::Routed { ether_type: 0x86dd },
            &[0xaa, 0xaa, 3, 0, 0, 0, 0x86, 0xdd],
        ),
        (
            Llc::Bridged { fcs: true },
            &[0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0, 1, 0, 0],
        ),
        (
            Llc::Bridged { fcs: false },
            &[0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0, 7, 0, 0],
        ),
        (Llc::Nlpid { nlpid: 0xcf }, &[0xfe, 0xfe, 3, 0xcf]),
        (Llc::Nlpid { nlpid: 0x81 }, &[0xfe, 0xfe, 3, 0x81]),
    ];
    for (llc, octets) in table {
        assert_eq!(*llc.emit(), *octets);
        let sdu = [octets, &[0x55; 18]].concat();
        assert_eq!(Llc::parse(&sdu), Ok((llc, &[0x55; 18][..])));
        for len in 0..octets.len() {
            assert_eq!(Llc::parse(&sdu[..len]), Err(LlcError::TooShort { len }));
        }
    }
    let other = [0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0, 2, 9];
    let (llc, rest) = Llc::parse(&other).unwrap();
    let Llc::Other(snap) = llc else {
        panic!("{llc:?}");
    };
    assert_eq!(
        (snap.oui(), snap.pid(), rest),
        ([0, 0x80, 0xc2], 2, &[9][..])
    );
    assert_eq!(*llc.emit(), other[..8]);
    assert_eq!(
        Llc::parse(&[0x42, 0x42, 3, 0]),
        Err(LlcError::UnknownLlc([0x42, 0x42, 3]))
    );
    let padded = [0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0, 7, 0, 1];
    assert_eq!(Llc::parse(&padded), Err(LlcError::Pad([0, 1])));
}

#[test]
fn a_bridged_frame_has_its_addresses_and_its_check_sequence() {
    for (fcs, least) in [(false, 14), (true, 18)] {
        for mux in [true, false] {
            let prefix = if mux {
                VcMux::Bridged { fcs }.emit().to_vec()
            } else {
                Llc::Bridged { fcs }.emit().to_vec()
            };
            for len in [least - 1, least] {
                let sdu = [&prefix[..], &vec![1; len]].concat();
                let found = match mux {
                    true => VcMux::Bridged { fcs }.parse(&sdu).is_ok(),
                    false => Llc::parse(&sdu).is_ok(),
                };
                assert_eq!(found, len == least, "fcs {fcs}, mux {mux}, {len}");
            }
        }
    }
}

#[test]
fn a_vc_of_one_protocol_carries_it_bare() {
    assert_eq!(
        VcMux::Routed.parse(&[0x45, 0]),
        Ok(VcMuxPdu::Ipv4(&[0x45, 0]))
    );
    assert_eq!(VcMux::Routed.parse(&[0x60]), Ok(VcMuxPdu::Ipv6(&[0x60])));
    assert_eq!(VcMux::Routed.parse(&[0x50]), Err(LlcError::IpVersion(5)));
    assert_eq!(
        VcMux::Ppp.parse(&[0xc0, 0x21]),
        Ok(VcMuxPdu::Ppp(&[0xc0, 0x21]))
    );
    assert!(VcMux::Routed.emit().is_empty() && VcMux::Ppp.emit().is_empty());
    for mux in [VcMux::Routed, VcMux::Ppp, VcMux::Bridged { fcs: false }] {
        assert_eq!(mux.parse(&[]), Err(LlcError::TooShort { len: 0 }));
    }
}

#[test]
fn cells_of_every_mode_come_back() {
    let mut rng = Pcg64Mcg::new(11);
    for mode in MODES {
        let pseudowire = pseudowire(Service::Cells(mode));
        for count in 1..30 {
            let cells: Vec<Cell> = (0..count)
                .map(|_| {
                    let random = rng.next_u64() as u32;
                    // What a mode does not send, both ends know.
                    cell(match mode {
                        CellMode::NToOne { .. } => random,
                        CellMode::OneToOneVcc => vc().bits() << 4 | random & 0xf,
                        CellMode::OneToOneVpc => (vc().bits() & !0xffff) << 4 | random & 0xf_ffff,
                    })
                })
                .collect();
            let sequence = Sequence::from_bits(rng.next_u64() as u16);
            let mut packet = mode.emit_header(sequence).to_vec();
            assert_eq!(packet.len(), mode.header_len());
            cells
                .iter()
                .for_each(|cell| packet.extend(&*mode.emit_cell(cell)));
            assert_eq!(packet.len(), mode.header_len() + count * mode.stride());
            let parsed = pseudowire.parse(&packet).unwrap();
            let numbered = mode.header_len() > 0;
            assert_eq!(
                parsed.sequence,
                if numbered { sequence } else { Sequence::NONE }
            );
            let PacketContent::Cells(found) = parsed.content else {
                panic!("{mode:?}");
            };
            assert_eq!(found.len(), count);
            assert_eq!(found.collect::<Vec<_>>(), cells);
            packet.pop();
            assert!(matches!(
                pseudowire.parse(&packet).map(|_| ()),
                Err(PseudowireError::CellOctets { .. })
            ));
        }
    }
}

#[test]
fn a_packet_of_another_service_is_refused() {
    let first = cell(vc().bits() << 4);
    let packet = |mode: CellMode| {
        let mut packet = mode.emit_header(Sequence::FIRST).to_vec();
        // 49 * 51 octets are whole cells of both one-to-one modes.
        (0..51).for_each(|_| packet.extend(&*mode.emit_cell(&first)));
        packet
    };
    let (vcc, vpc) = (CellMode::OneToOneVcc, CellMode::OneToOneVpc);
    let refused = |service, packet: &[u8]| pseudowire(service).parse(packet).map(|_| ());
    let specific = PseudowireError::AtmSpecific(0);
    assert_eq!(refused(Service::Cells(vpc), &packet(vcc)), Err(specific));
    let mut frame = packet(vcc);
    frame[3 + 49] |= 0x80;
    let specific = PseudowireError::AtmSpecific(0x80);
    assert_eq!(refused(Service::Cells(vcc), &frame), Err(specific));
    let channel = [0x10, 0, 0, 1, 0, 0, 0, 0];
    let nibble = Err(PseudowireError::FirstNibble(1));
    for service in [Service::Aal5Sdu, Service::Aal5Pdu, Service::Cells(vcc)] {
        assert_eq!(refused(service, &channel), nibble);
        for len in 0..4 {
            assert!(refused(service, &[0; 4][..len]).is_err());
        }
    }
    assert!(
        refused(Service::Aal5Sdu, &[0, 0, 0, 1]).is_err(),
        "an SDU of no octets"
    );
    assert!(
        refused(Service::Aal5Pdu, &[0, 0, 1, 0x80]).is_err(),
        "a PDU of no cells"
    );
    assert!(refused(Service::Aal5Pdu, &[&[0, 0, 1, 0x80][..], &[0; 47]].concat()).is_err());
}

#[test]
fn short_sdus_lose_the_padding_of_the_link() {
    let pseudowire = pseudowire(Service::Aal5Sdu);
    for len in 1..100_usize {
        let sdu: Vec<u8> = (0..len as u8).collect();
        for bits in 0..8_u8 {
            let header = SduHeader {
                sequence: Sequence::from_bits(7),
                efci: bits & 4 != 0,
                clp: bits & 2 != 0,
                uu: bits & 1 != 0,
            };
            let word = header.emit(len);
            let length = if len < 60 { len as u8 + 4 } else { 0 };
            assert_eq!(word, [bits, length, 0, 7]);
            let pad = 60_usize.saturating_sub(len);
            let packet = [&word[..], &sdu, &vec![0xee; pad]].concat();
            let PacketContent::Sdu {
                header: found,
                sdu: octets,
            } = pseudowire.parse(&packet).unwrap().content
            else {
                panic!("{len}");
            };
            assert_eq!((found, octets), (header, &sdu[..]));
        }
    }
    for length in [1, 3, 13] {
        let refused = pseudowire
            .parse(&[0, length, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9])
            .map(|_| ());
        let wanted = PseudowireError::ControlLength { length, len: 12 };
        assert_eq!(refused, Err(wanted));
    }
}

#[test]
fn the_other_cells_of_an_aal5_pseudowire_come_between() {
    let oam = cell(0x0012_340a);
    let word = administrative_cell(Sequence::FIRST);
    assert_eq!(word, [8, 0, 0, 1]);
    let packet = [&word[..], &oam.emit_without_hec()].concat();
    let parsed = pseudowire(Service::Aal5Sdu).parse(&packet).unwrap();
    let PacketContent::Cells(cells) = parsed.content else {
        panic!();
    };
    assert_eq!(cells.collect::<Vec<_>>(), [oam]);

    let oam = cell(vc().bits() << 4 | 0xa);
    let mode = CellMode::OneToOneVcc;
    let header = mode.emit_header(Sequence::FIRST);
    let packet = [&*header, &*mode.emit_cell(&oam)].concat();
    let parsed = pseudowire(Service::Aal5Pdu).parse(&packet).unwrap();
    let PacketContent::Cells(cells) = parsed.content else {
        panic!();
    };
    assert_eq!(cells.collect::<Vec<_>>(), [oam]);
    for bits in 0..8_u8 {
        let sent = PduHeader {
            sequence: Sequence::from_bits(0x0102),
            last: bits & 4 != 0,
            efci: bits & 2 != 0,
            clp: bits & 1 != 0,
        };
        assert_eq!(sent.emit(), [0, 1, 2, 0x80 | bits]);
        let packet = [&sent.emit()[..], &[7; 96]].concat();
        let parsed = pseudowire(Service::Aal5Pdu).parse(&packet).unwrap();
        let PacketContent::Pdu { header, payloads } = parsed.content else {
            panic!();
        };
        assert_eq!((header, payloads), (sent, &[[7; 48]; 2][..]));
    }
}

#[test]
fn sequence_numbers_wrap_past_zero() {
    assert_eq!(Sequence::FIRST.next().bits(), 2);
    assert_eq!(Sequence::from_bits(u16::MAX).next(), Sequence::FIRST);
    assert_eq!(Sequence::NONE.next(), Sequence::NONE);
    let mut receiver = SequenceReceiver::new();
    let mut said = |bits| receiver.receive(Sequence::from_bits(bits));
    let in_order = |missing| SequenceVerdict::InOrder { missing };
    let script = [
        (65_530, in_order(0)),
        (65_531, in_order(0)),
        (65_531, SequenceVerdict::OutOfOrder),
        (0, SequenceVerdict::Unnumbered),
        (65_535, in_order(3)),
        (1, in_order(0)),
        (65_533, SequenceVerdict::OutOfOrder),
        (5, in_order(3)),
        (32_773, in_order(32_767)),
        (6, in_order(32_767)),
        (32_775, SequenceVerdict::OutOfOrder),
        (7, in_order(0)),
    ];
    for (i, (bits, wanted)) in script.into_iter().enumerate() {
        assert_eq!(said(bits), wanted, "step {i}");
    }
}

#[test]
fn a_control_word_keeps_to_its_bits() {
    let word = ControlWord::new(Sequence::from_bits(0xfedc)).with_flags(0xff);
    assert_eq!(word.emit(), [0x0f, 0, 0xfe, 0xdc]);
    assert_eq!(word.with_payload_len(59).emit()[1], 63);
    assert_eq!(word.with_payload_len(60).emit()[1], 0);
    assert_eq!(word.with_payload_len(usize::MAX).emit()[1], 0);
    // The two bits before the length are reserved.
    let (parsed, rest) = ControlWord::parse(&[0x0a, 0xc0 | 5, 1, 2, 9, 8]).unwrap();
    assert_eq!((parsed.flags(), parsed.length(), rest), (0x0a, 5, &[9][..]));
}

#[test]
fn labels_and_stacks_keep_their_bits() {
    assert_eq!(Label::new(1 << 20), None);
    let label = Label::new(0xf_fffe).unwrap();
    let entry = LabelEntry::new(label, true, 9).with_traffic_class(0xfd);
    assert_eq!(entry.emit(), [0xff, 0xff, 0xeb, 9]);
    assert_eq!(LabelEntry::parse(entry.emit()), entry);
    assert_eq!(
        (
            entry.label(),
            entry.traffic_class(),
            entry.bottom(),
            entry.ttl()
        ),
        (label, 5, true, 9)
    );
    assert!(Label::new(15).unwrap().is_reserved() && !Label::new(16).unwrap().is_reserved());
    let stack = |above: usize| [vec![0; 4 * above], entry.emit().to_vec(), vec![7]].concat();
    assert_eq!(LabelEntry::parse_stack(&stack(15)), Some((entry, &[7][..])));
    assert_eq!(LabelEntry::parse_stack(&stack(16)), None);
    assert_eq!(LabelEntry::parse_stack(&stack(3)[..15]), None);
}

#[test]
fn cells_per_datagram_fill_the_mtu() {
    let table = [
        (1_500, 28, 27),
        (9_000, 172, 172),
        (84, 1, 0),
        (83, 0, 0),
        (104, 1, 1),
        (103, 1, 0),
        (0, 0, 0),
    ];
    for (mtu, v4, v6) in table {
        assert_eq!(
            IpVersion::V4.cells_per_datagram(mtu, CellMode::PLAIN),
            v4,
            "MTU {mtu}"
        );
        assert_eq!(
            IpVersion::V6.cells_per_datagram(mtu, CellMode::PLAIN),
            v6,
            "MTU {mtu}"
        );
    }
}

#[test]
fn random_octets_panic_nowhere() {
    let mut rng = Pcg64Mcg::new(5);
    let mut understood = 0;
    for _ in 0..100_000 {
        let len = (rng.next_u64() % 220) as usize;
        let mut octets: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
        // Some luck, or nothing gets past the first octets.
        let starts: [&[u8]; 5] = [
            &[0, 0],
            &[0x08, 56],
            &[0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0],
            &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45],
            &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0x47],
        ];
        let start = starts[(rng.next_u64() % 5) as usize];
        let n = start.len().min(octets.len());
        octets[..n].copy_from_slice(&start[..n]);
        let services = MODES.map(Service::Cells);
        for service in services
            .into_iter()
            .chain([Service::Aal5Sdu, Service::Aal5Pdu])
        {
            if let Ok(packet) = pseudowire(service).parse(&octets) {
                understood += 1;
                if let PacketContent::Cells(cells) = packet.content {
                    assert_eq!(cells.len(), cells.count());
                }
            }
        }
        let _ = Llc::parse(&octets);
        let _ = VcMux::Bridged { fcs: true }.parse(&octets);
        understood += usize::from(MplsFrame::parse(Framing::Ethernet, &octets).is_ok());
    }
    assert!(understood > 1_000, "{understood}");
}

#[test]
fn frames_without_a_pseudowire_say_why() {
    let ethernet = [2; 12];
    let frame = |rest: &[u8]| [&ethernet[..], rest].concat();
    let said = |rest: &[u8]| MplsFrame::parse(Framing::Ethernet, &frame(rest)).unwrap_err();
    assert_eq!(
        MplsFrame::parse(Framing::Ethernet, &[]),
        Err(MplsFrameError::TooShort("Ethernet"))
    );
    assert_eq!(said(&[0x08, 0x06]), MplsFrameError::EtherType(0x0806));
    assert_eq!(said(&[0x88, 0x47, 0, 0, 0]), MplsFrameError::Stack);
    let mut ip = vec![0x08, 0x00];
    ip.extend([
        0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    ip.extend([0xc0, 0, 0x19, 0xeb, 0, 8, 0, 0]);
    assert_eq!(said(&ip), MplsFrameError::Stack);
    let changed = |at: usize, octet: u8| {
        let mut ip = ip.clone();
        ip[2 + at] = octet;
        said(&ip)
    };
    assert_eq!(changed(0, 0x44), MplsFrameError::Length("IPv4"));
    assert_eq!(changed(3, 29), MplsFrameError::Length("IPv4"));
    assert_eq!(changed(6, 0x20), MplsFrameError::Fragment { offset: 0 });
    assert_eq!(changed(9, 6), MplsFrameError::IpProtocol(6));
    let (source_port, destination_port) = (0xc000, 0x1900);
    let port = MplsFrameError::Port {
        source_port,
        destination_port,
    };
    assert_eq!(changed(23, 0), port);
    assert_eq!(changed(25, 9), MplsFrameError::Length("UDP"));
    assert_eq!(changed(25, 7), MplsFrameError::Length("UDP"));
}
