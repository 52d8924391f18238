//! The generator's files, value for value.

use crate::common::{
    START_NS, address, cells, crc32, data, ethernet_ping, hex, llc_ping, loopback, oam, pdu, ping,
    read_all, records,
};
use cellgate_capture::{Content, Direction, Error, Link, Record, Refusal, SduKind};
use cellgate_core::wire::llc::{Llc, VcMux, VcMuxPdu};
use cellgate_core::wire::pseudowire::{
    CellMode, PacketContent, PduHeader, Pseudowire, PseudowireError, SduHeader, Sequence, Service,
};
use cellgate_core::wire::{
    Cell, Framing, HeaderForm, HecReceiver, HecVerdict, MplsFrame, MplsFrameError, TRAILER_LEN,
    Trailer,
};

fn address_of(record: &Record) -> String {
    let address = record.content.address(HeaderForm::Uni);
    address.map(|a| a.to_string()).unwrap_or_default()
}

fn file(name: &str) -> Vec<Record> {
    records(&data(name))
}

#[test]
fn every_sdu_of_sunatm_has_its_address_and_kind() {
    let records = file("sunatm.pcap");
    let wanted = [
        ("0.100", SduKind::LLC, 68),
        ("0.35", SduKind::LLC, 84),
        ("0.100", SduKind::LLC, 68),
        ("0.5", SduKind::SIGNALLING, 8),
        ("0.5", SduKind::SIGNALLING, 115),
        ("0.16", SduKind::ILMI, 43),
        ("0.36", SduKind::RAW, 76),
        ("0.38", SduKind::RAW, 60),
        ("0.40", SduKind::RAW, 12),
        ("0.41", SduKind::LLC, 16),
        ("0.42", SduKind::RAW, 14),
    ];
    assert_eq!(records.len(), wanted.len());
    for (i, (record, (vc, kind, len))) in records.iter().zip(wanted).enumerate() {
        assert_eq!(record.time_ns, Some(START_NS + i as u64 * 1_000_000));
        assert_eq!(address_of(record), vc);
        assert_eq!(
            (record.link, record.direction),
            (Link::SunAtm, Direction::Receive)
        );
        let Content::Sdu {
            kind: found, sdu, ..
        } = &record.content
        else {
            panic!("{record:?}");
        };
        assert_eq!((*found, sdu.len()), (kind, len));
    }
    assert_eq!(records[0].offset, 24);
    assert_eq!(records[1].offset, 24 + 16 + 72);
    assert_eq!(records[0].content.octets(), llc_ping());
    let (llc, frame) = Llc::parse(records[1].content.octets()).unwrap();
    assert_eq!(llc, Llc::Bridged { fcs: false });
    assert_eq!(frame, ethernet_ping());
    let bridged = VcMux::Bridged { fcs: false }.parse(records[6].content.octets());
    assert_eq!(bridged, Ok(VcMuxPdu::Ethernet(&ethernet_ping())));
    let routed = VcMux::Routed.parse(records[7].content.octets());
    assert_eq!(routed, Ok(VcMuxPdu::Ipv4(&ping())));
    let lcp = hex("c021 01 01 000a 0506 d9e24b45");
    assert_eq!(
        VcMux::Ppp.parse(records[8].content.octets()),
        Ok(VcMuxPdu::Ppp(&lcp))
    );
    let ppp = Llc::Nlpid { nlpid: Llc::PPP };
    assert_eq!(Llc::parse(records[9].content.octets()), Ok((ppp, &*lcp)));
    assert_eq!(records[10].content.octets(), b"hello,cellgate");
}

#[test]
fn a_published_setup_is_read_whole() {
    let records = file("q2931-tripod.pcap");
    let [record] = &*records else {
        panic!("{records:?}");
    };
    assert_eq!(address_of(record), "0.5");
    let sdu = record.content.octets();
    assert_eq!(sdu.len(), 64);
    assert_eq!(sdu[..9], hex("0903001234 05 800031"));
}

#[test]
fn llc_of_link_type_100_is_told_apart() {
    let found: Vec<_> = file("rfc1483.pcap")
        .iter()
        .map(|record| {
            assert_eq!(record.link, Link::Rfc1483);
            let (llc, rest) = Llc::parse(record.content.octets()).unwrap();
            (llc, rest.len())
        })
        .collect();
    let arp = Llc::Routed {
        ether_type: Llc::ATMARP,
    };
    let wanted = [
        (
            Llc::Routed {
                ether_type: Llc::IPV4,
            },
            60,
        ),
        (Llc::Bridged { fcs: false }, 74),
        (arp, 60),
        (Llc::Nlpid { nlpid: Llc::PPP }, 6),
    ];
    assert_eq!(found, wanted);
}

#[test]
fn classical_ip_is_llc_or_bare() {
    let kinds: Vec<_> = file("clip.pcap")
        .iter()
        .map(|record| match &record.content {
            Content::Sdu {
                address: None,
                kind,
                sdu,
            } => (*kind, sdu.len()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        kinds,
        [(SduKind::LLC, 68), (SduKind::LLC, 68), (SduKind::RAW, 60)]
    );
}

/// Address, kind and octets of each record, and whether the CRC of a PDU is right.
const ERF: [(&str, &str, usize, bool); 12] = [
    ("0.100", "pdu", 96, true),
    ("0.100", "pdu", 96, false),
    ("0.36", "pdu", 96, true),
    ("0.5", "pdu", 144, true),
    ("0.16", "pdu", 96, true),
    ("1.100", "cell", 52, false),
    ("1.100", "cell", 52, false),
    ("1.100", "cell", 52, false),
    ("1.4", "cell", 52, false),
    ("1.100", "cell", 52, false),
    ("1.101", "pdu", 96, true),
    ("1.200", "packet", 12, false),
];

#[test]
fn erf_is_the_same_native_and_as_link_type_197() {
    let native = file("all.erf");
    let in_pcap = file("erf197.pcap");
    assert_eq!(native.len(), ERF.len());
    assert_eq!(in_pcap.len(), ERF.len());
    for (i, (record, (vc, kind, len, crc))) in native.iter().zip(ERF).enumerate() {
        // Steps of 2^-12 s.
        let time_ns = START_NS + (i as u64 * 1_000_000_000 + 2_048) / 4_096;
        assert_eq!(record.time_ns, Some(time_ns));
        assert_eq!(in_pcap[i].time_ns, Some(START_NS + i as u64 * 1_000_000));
        assert_eq!(record.content, in_pcap[i].content);
        assert_eq!(record.direction, Direction::Transmit);
        assert_eq!(address_of(record), vc);
        assert_eq!(record.content.kind(), kind);
        let octets = record.content.octets();
        assert_eq!(octets.len(), len);
        if kind == "pdu" {
            assert_eq!(crc32(octets) == !0xc704_dd7b, crc, "record {i}");
        }
    }
    let trailer = |i: usize| {
        let octets = native[i].content.octets();
        Trailer::parse(*octets.last_chunk::<TRAILER_LEN>().unwrap())
    };
    assert_eq!((trailer(0).uu, trailer(0).length), (7, 68));
    assert_eq!(native[0].content.octets(), pdu(&llc_ping(), 7));
    let sent = cells(address(1, 100), &llc_ping());
    assert_eq!(native[5].content.octets(), sent[0].emit_without_hec());
    assert_eq!(native[6].content.octets(), sent[1].emit_without_hec());
    assert_eq!(native[7].content.octets(), loopback().emit_without_hec());
    assert_eq!(native[9].content, native[5].content);
    assert!(matches!(
        &native[11].content,
        Content::Aal2Packet { cid: 8, .. }
    ));
}

#[test]
fn cells_with_hec_have_the_errors_that_were_put_in() {
    let records = file("cells.trc");
    let mut verdicts = Vec::new();
    for (i, record) in records.iter().enumerate() {
        assert_eq!(record.time_ns, Some(START_NS + i as u64 * 10_000));
        assert_eq!(
            (record.link, record.direction),
            (Link::EyeSdn, Direction::Transmit)
        );
        let Content::CellWithHec(octets) = &record.content else {
            panic!("{record:?}");
        };
        // Each alone: a receiver corrects no two errors in a row.
        let mut receiver = HecReceiver::new();
        verdicts.push(Cell::parse_with_hec(octets, &mut receiver).0);
    }
    let mut wanted = vec![HecVerdict::Valid; 14];
    for (cell, bit) in [(2, 0), (3, 17), (4, 39)] {
        wanted[cell] = HecVerdict::Corrected { bit };
    }
    wanted[5] = HecVerdict::Discard;
    assert_eq!(verdicts, wanted);
    let octets = |i: usize| records[i].content.octets();
    assert_eq!(octets(6), loopback().emit_with_hec());
    assert_eq!(
        octets(7),
        oam(address(1, 100), 4, 0x10, &[]).emit_with_hec()
    );
    assert_eq!(octets(8), oam(address(2, 3), 0, 0x11, &[]).emit_with_hec());
    assert_eq!(octets(13), Cell::IDLE.emit_with_hec());
}

/// The packet of a frame and the label that names its pseudowire.
fn packet(record: &Record) -> (u32, Vec<u8>) {
    assert_eq!(record.link, Link::ETHERNET);
    let frame = MplsFrame::parse(Framing::Ethernet, record.content.octets()).unwrap();
    (frame.entry.label().value(), frame.payload.to_vec())
}

fn pseudowire(label: u32) -> Pseudowire {
    let service = match label {
        1001 => Service::Cells(CellMode::NToOne {
            control_word: false,
        }),
        1002 => Service::Cells(CellMode::NToOne { control_word: true }),
        1003 => Service::Cells(CellMode::OneToOneVcc),
        1004 => Service::Cells(CellMode::OneToOneVpc),
        1005 => Service::Aal5Sdu,
        1006 => Service::Aal5Pdu,
        other => panic!("label {other}"),
    };
    let address = address(1, if label == 1004 { 0 } else { 100 });
    Pseudowire { service, address }
}

#[test]
fn pseudowires_give_back_the_cells_that_went_in() {
    let sent = cells(address(1, 100), &llc_ping());
    let loopback = loopback();
    // Label, sequence, cells.
    let wanted = [
        (0, 1001, 0, vec![sent[0], sent[1]]),
        (1, 1002, 1, vec![sent[0], sent[1]]),
        (3, 1003, 5, vec![sent[0]]),
        (4, 1003, 6, vec![loopback]),
        (5, 1003, 7, vec![sent[0], sent[1]]),
        (6, 1004, 8, vec![sent[0]]),
        (8, 1005, 10, vec![loopback]),
    ];
    let records = file("mplsudp.pcap");
    assert_eq!(records.len(), 11);
    for (i, label, sequence, cells) in wanted {
        let (found, octets) = packet(&records[i]);
        assert_eq!(found, label);
        let packet = pseudowire(label).parse(&octets).unwrap();
        assert_eq!(packet.sequence, Sequence::from_bits(sequence));
        let PacketContent::Cells(found) = packet.content else {
            panic!("frame {i}");
        };
        assert_eq!(found.collect::<Vec<_>>(), cells, "frame {i}");
    }
    let (_, octets) = packet(&records[2]);
    let refused = pseudowire(1001)
        .parse(&octets)
        .map(|packet| packet.sequence);
    let wanted = PseudowireError::CellOctets {
        octets: 103,
        stride: 52,
    };
    assert_eq!(refused, Err(wanted));
}

#[test]
fn pseudowires_give_back_sdus_and_pdus() {
    let records = file("mplsudp.pcap");
    let (label, octets) = packet(&records[7]);
    let packet_7 = pseudowire(label).parse(&octets).unwrap();
    let PacketContent::Sdu { header, sdu } = packet_7.content else {
        panic!("frame 7");
    };
    let sequence = Sequence::from_bits(9);
    assert_eq!(
        header,
        SduHeader {
            sequence,
            ..SduHeader::default()
        }
    );
    assert_eq!(sdu, llc_ping());
    for (i, right) in [(9, true), (10, false)] {
        let (label, octets) = packet(&records[i]);
        let packet = pseudowire(label).parse(&octets).unwrap();
        let PacketContent::Pdu { header, payloads } = packet.content else {
            panic!("frame {i}");
        };
        let sequence = Sequence::from_bits(i as u16 + 2);
        assert_eq!(
            header,
            PduHeader {
                sequence,
                ..PduHeader::default()
            }
        );
        assert_eq!(payloads.as_flattened() == pdu(&llc_ping(), 0), right);
    }
}

#[test]
fn the_last_of_two_labels_names_the_pseudowire() {
    let records = file("mplseth.pcap");
    let (label, octets) = packet(&records[0]);
    assert_eq!((records.len(), label, octets.len()), (1, 1001, 104));
}

#[test]
fn l2tp_is_a_frame_without_pseudowire() {
    for (name, lens) in [
        ("l2tpv3.pcap", &[126, 94, 142, 154][..]),
        ("l2tpv3b.pcap", &[146, 166]),
    ] {
        let records = file(name);
        let found: Vec<_> = records
            .iter()
            .map(|record| record.content.octets().len())
            .collect();
        assert_eq!(found, lens, "{name}");
        for record in &records {
            let refused = MplsFrame::parse(Framing::Ethernet, record.content.octets());
            assert_eq!(refused, Err(MplsFrameError::NotRead("L2TPv3")));
        }
    }
}

#[test]
fn a_sniffer_file_is_named_and_refused() {
    let results = read_all(&data("aal.enc"));
    assert!(
        matches!(&*results, [Err(Error::Refused(Refusal::Sniffer))]),
        "{results:?}"
    );
}

#[test]
fn the_first_bit_of_sunatm_says_that_the_host_sent_it() {
    let mut octets = data("sunatm.pcap");
    octets[40] |= 0x80;
    let directions: Vec<_> = records(&octets)
        .iter()
        .map(|record| record.direction)
        .collect();
    assert_eq!(directions[..2], [Direction::Transmit, Direction::Receive]);
}
