//! Frames that people capture around a pseudowire: found in each, named where it is not read.

use crate::common::{ethernet_ping, frames_around, hex, ipv4, ipv6, labelled, records, udp};
use cellgate_capture::{Content, Direction, Link};
use cellgate_core::wire::{Carrier, Framing, MplsFrame, MplsFrameError, Sender};

/// A pcap file of one link type, with the upper bits of that field as they are.
fn pcap(link: u32, packets: &[(&[u8], u32)]) -> Vec<u8> {
    let mut file = hex("d4c3b2a1 0200 0400 00000000 00000000 00000400");
    file.extend(link.to_le_bytes());
    for (octets, original) in packets {
        for field in [1_700_000_000, 0, octets.len() as u32, *original] {
            file.extend(u32::to_le_bytes(field));
        }
        file.extend(*octets);
    }
    file
}

fn one(link: u32, octets: &[u8]) -> (Framing, Vec<u8>, usize) {
    let mut records = records(&pcap(link, &[(octets, octets.len() as u32)]));
    let record = records.remove(0);
    match record.content {
        Content::Frame { framing, octets } => (framing, octets, record.missing),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_packet_is_found_in_each() {
    let labelled = labelled();
    for (name, framing, frame) in frames_around() {
        let number = Link::Frames(framing).number().unwrap();
        let (read, octets, _) = one(number.into(), &frame);
        assert_eq!((read, &octets), (framing, &frame), "{name}");
        let found = MplsFrame::parse(framing, &octets).expect(name);
        assert_eq!(found.entry.label().value(), 1001, "{name}");
        assert_eq!(
            (found.payload, found.missing),
            (&labelled[4..], 0),
            "{name}"
        );
        let carrier = match name {
            name if name.starts_with("gre") => Carrier::Gre,
            name if name.ends_with("137") => Carrier::Ip,
            name if name.contains("mpls") || name == "802.1ad" || name == "three tags" => {
                Carrier::Link
            }
            _ => Carrier::Udp {
                source_port: 49_152,
                destination_port: 6_635,
            },
        };
        assert_eq!(found.carrier, carrier, "{name}");
        // Cut anywhere, it is found as far as it was kept, or an error tells of a header.
        for kept in 0..frame.len() {
            let missing = frame.len() - kept;
            match MplsFrame::find(framing, &frame[..kept], missing, &[]) {
                Ok(part) => {
                    assert_eq!(part.payload.len() + part.missing, labelled.len() - 4);
                    assert!(labelled[4..].starts_with(part.payload), "{name} {kept}");
                }
                Err(MplsFrameError::TooShort(_) | MplsFrameError::Stack) => {}
                Err(other) => panic!("{name} {kept}: {other}"),
            }
        }
    }
}

#[test]
fn every_number_of_a_link_type_is_read() {
    let packet = ipv4(17, &udp(1, 6_635, &labelled()));
    for number in [12, 14, 101, 228] {
        assert_eq!(one(number, &packet).0, Framing::Ip);
    }
    assert_eq!(one(229, &ipv6(17, &[])).0, Framing::Ip);
    assert_eq!(one(108, &[0, 0, 0, 2]).0, Framing::Loopback);
    assert_eq!(one(50, &[0xff, 3, 0, 0x21]).0, Framing::Ppp);
}

#[test]
fn linux_says_which_frames_were_its_own() {
    let packet = ipv4(17, &udp(1, 6_635, &labelled()));
    for kind in 0..=7_u8 {
        let wanted = match kind {
            4 => Direction::Transmit,
            0..4 => Direction::Receive,
            _ => Direction::Unknown,
        };
        let cooked = [
            &[0, kind][..],
            &hex("0001 0006 0200000000010000 0800"),
            &packet,
        ]
        .concat();
        let mut cooked2 = [
            hex("0800 0000 00000002 0001 00 06 0200000000010000"),
            packet.clone(),
        ]
        .concat();
        cooked2[10] = kind;
        for (link, frame) in [(113, cooked), (276, cooked2)] {
            let record = &records(&pcap(link, &[(&frame, frame.len() as u32)]))[0];
            assert_eq!(record.direction, wanted, "{link} {kind}");
        }
    }
}

#[test]
fn a_port_that_is_named_is_found_both_ways() {
    let labelled = labelled();
    for (source, destination) in [(50_000, 7_001), (7_001, 50_000)] {
        let packet = ipv4(17, &udp(source, destination, &labelled));
        let found = MplsFrame::find(Framing::Ip, &packet, 0, &[9, 7_001]).unwrap();
        assert_eq!(found.sender, Sender::V4([192, 0, 2, 1].into()));
        let port = MplsFrameError::Port {
            source_port: source,
            destination_port: destination,
        };
        assert_eq!(MplsFrame::parse(Framing::Ip, &packet), Err(port));
    }
    let usual = ipv4(17, &udp(50_000, 6_635, &labelled));
    assert!(MplsFrame::find(Framing::Ip, &usual, 0, &[7_001]).is_ok());
    let back = ipv4(17, &udp(6_635, 50_000, &labelled));
    assert!(MplsFrame::parse(Framing::Ip, &back).is_ok());
}

#[test]
fn what_is_not_read_is_named() {
    let whole = ipv4(17, &udp(49_152, 6_635, &labelled()));
    let mut first = whole.clone();
    first[6] = 0x20;
    let mut later = whole.clone();
    later[7] = 185;
    let fragment6 = [hex("11 00 05c9 00000001"), vec![0; 64]].concat();
    for (frame, wanted) in [
        (ipv4(115, &[0; 40]), "L2TPv3, not read"),
        (ipv6(115, &[0; 40]), "L2TPv3, not read"),
        (
            ipv4(17, &udp(1_701, 1_701, &hex("0003 0000 00001111"))),
            "L2TPv3, not read",
        ),
        (
            ipv4(17, &udp(40_000, 1_701, &hex("c803 0000 00001111"))),
            "L2TPv3, not read",
        ),
        (
            ipv4(17, &udp(1_701, 1_701, &hex("c802 000c 00001111"))),
            "L2TPv2, not read",
        ),
        (ipv4(50, &[0; 40]), "encrypted IP (ESP), not read"),
        (first, "a fragment of an IP packet, from octet 0 on"),
        (later, "a fragment of an IP packet, from octet 1480 on"),
        (
            ipv6(44, &fragment6),
            "a fragment of an IP packet, from octet 1480 on",
        ),
        (ipv4(6, &[0; 20]), "IP protocol 6 carries no MPLS"),
        (
            ipv4(47, &hex("0001 880b 00000000")),
            "GRE of another version or with routing, not read",
        ),
        (
            ipv4(47, &hex("0000 0806 00000000")),
            "EtherType 0x0806 is neither MPLS nor IP",
        ),
    ] {
        let said = MplsFrame::parse(Framing::Ip, &frame).unwrap_err();
        assert_eq!(said.to_string(), wanted);
    }
    let ethernet = |rest: &str| [hex("020000000001 020000000002"), hex(rest)].concat();
    for (rest, wanted) in [
        ("8863 1109 0000 0004 01010000", "PPPoE discovery, not read"),
        ("8864 11a7 0000 0000", "PPPoE discovery, not read"),
        (
            "8864 1100 0001 0004 c0210000",
            "PPP protocol 0xc021 is neither MPLS nor IP",
        ),
        (
            "0026 424203 0000000000",
            "an 802.3 frame that carries no SNAP",
        ),
        (
            "8100 0007 0806 0001",
            "EtherType 0x0806 is neither MPLS nor IP",
        ),
    ] {
        let said = MplsFrame::parse(Framing::Ethernet, &ethernet(rest)).unwrap_err();
        assert_eq!(said.to_string(), wanted);
    }
    // Tags without end come to one.
    let tags = ethernet(&"81000007".repeat(40));
    assert_eq!(
        MplsFrame::parse(Framing::Ethernet, &tags),
        Err(MplsFrameError::TooDeep)
    );
}

/// CRC-32 of Ethernet, bit by bit.
fn ethernet_fcs(octets: &[u8]) -> [u8; 4] {
    let register = octets.iter().fold(u32::MAX, |crc, octet| {
        (0..8).fold(crc ^ u32::from(*octet), |crc, _| match crc & 1 {
            1 => crc >> 1 ^ 0xedb8_8320,
            _ => crc >> 1,
        })
    });
    (!register).to_le_bytes()
}

#[test]
fn a_check_sequence_is_left_out_flagged_or_not() {
    let labelled = labelled();
    let bare = [hex("020000000001 020000000002 8847"), labelled.clone()].concat();
    let right = [&bare[..], &ethernet_fcs(&bare)].concat();
    let found = MplsFrame::parse(Framing::Ethernet, &right).unwrap();
    assert_eq!((found.payload, found.has_fcs), (&labelled[4..], true));
    // One wrong bit anywhere, and it is taken for a part of the packet.
    for bit in 0..8 {
        let mut wrong = right.clone();
        wrong[60] ^= 1 << bit;
        let found = MplsFrame::parse(Framing::Ethernet, &wrong).unwrap();
        assert_eq!(
            (found.payload.len(), found.has_fcs),
            (labelled.len(), false)
        );
    }
    // Where the file says that there is one it need not be right.
    let wrong = [&bare[..], &[1, 2, 3, 4]].concat();
    let flagged = 2 << 28 | 0x0400_0000 | 1;
    for (kept, missing) in [(wrong.len(), 0), (wrong.len() - 3, 0), (wrong.len() - 6, 2)] {
        let file = pcap(flagged, &[(&wrong[..kept], wrong.len() as u32)]);
        let record = &records(&file)[0];
        let end = bare.len() - missing;
        assert_eq!(
            (record.content.octets(), record.missing),
            (&bare[..end], missing)
        );
    }
    assert_eq!(one(1, &ethernet_ping()).1, ethernet_ping());
}
