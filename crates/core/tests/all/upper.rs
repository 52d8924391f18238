//! Packets in PDUs, and InATMARP, against vectors written out by hand.

use std::net::Ipv4Addr;

use cellgate_core::upper::{
    AtmNumber, Encapsulation, InAtmArp, InAtmArpError, Misfit, MisfitCounts, Operation, Payload,
    Station,
};
use cellgate_core::wire::llc::Llc;

fn hex(text: &str) -> Vec<u8> {
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

const IPV4: &str = "45000014000100004001 66e6 0a000001 0a000002";
const IPV6: &str = "6000000000003b40";
const FRAME: &str = "020000000001 020000000002 0800 4500";

#[test]
fn packets_lie_in_pdus_as_rfc_2684_draws_them() {
    use Encapsulation::{BridgedLlcsnap, BridgedVcmux, IpoaLlcsnap, IpoaVcmux};
    for (encapsulation, word, header, packet) in [
        (IpoaLlcsnap, "ipoa-llcsnap", "aaaa030000000800", IPV4),
        (IpoaLlcsnap, "ipoa-llcsnap", "aaaa0300000086dd", IPV6),
        (IpoaVcmux, "ipoa-vcmux", "", IPV4),
        (IpoaVcmux, "ipoa-vcmux", "", IPV6),
        (
            BridgedLlcsnap,
            "bridged-llcsnap",
            "aaaa030080c200070000",
            FRAME,
        ),
        (BridgedVcmux, "bridged-vcmux", "0000", FRAME),
    ] {
        let (header, packet) = (hex(header), hex(packet));
        assert_eq!(word.parse(), Ok(encapsulation));
        assert_eq!(encapsulation.to_string(), word);
        assert_eq!(encapsulation.headroom(), header.len(), "{word}");
        assert_eq!(*encapsulation.emit(&packet).unwrap(), header, "{word}");
        let sdu = [header, packet.clone()].concat();
        assert_eq!(
            encapsulation.parse(&sdu),
            Ok(Payload::Packet(&packet)),
            "{word}"
        );
    }
    assert!("ipoa".parse::<Encapsulation>().is_err());
}

#[test]
fn what_is_no_packet_of_the_device_is_not_sent() {
    for encapsulation in Encapsulation::ALL {
        let none = encapsulation.emit(&[]);
        assert_eq!(none.unwrap_err(), Misfit::TooShort, "{encapsulation}");
    }
    let mpls = hex("00010040 4500");
    for routed in [Encapsulation::IpoaLlcsnap, Encapsulation::IpoaVcmux] {
        assert_eq!(routed.emit(&mpls).unwrap_err(), Misfit::IpVersion);
    }
    for bridged in [Encapsulation::BridgedLlcsnap, Encapsulation::BridgedVcmux] {
        assert_eq!(
            bridged.emit(&hex(FRAME)[..13]).unwrap_err(),
            Misfit::TooShort
        );
    }
}

/// The frame's own check sequence, bit by bit with the polynomial as IEEE 802.3 writes it.
fn fcs(frame: &[u8]) -> [u8; 4] {
    let register = frame.iter().fold(u32::MAX, |register, octet| {
        (0..8).fold(register, |register, bit| {
            let feedback = register >> 31 ^ u32::from(octet >> bit & 1);
            register << 1 ^ if feedback == 1 { 0x04c1_1db7 } else { 0 }
        })
    });
    (!register).reverse_bits().to_le_bytes()
}

#[test]
fn a_frame_with_its_check_sequence_is_checked_and_loses_it() {
    // The check value of this CRC everywhere.
    assert_eq!(fcs(b"123456789"), 0xcbf4_3926_u32.to_le_bytes());
    let frame = hex(FRAME);
    let mut sdu = [
        hex("aaaa030080c200010000"),
        frame.clone(),
        fcs(&frame).to_vec(),
    ]
    .concat();
    let parse = Encapsulation::BridgedLlcsnap;
    assert_eq!(parse.parse(&sdu), Ok(Payload::Packet(&frame)));
    for octet in 10..sdu.len() {
        sdu[octet] ^= 0x40;
        assert_eq!(parse.parse(&sdu), Err(Misfit::Fcs), "octet {octet}");
        sdu[octet] ^= 0x40;
    }
    assert_eq!(parse.parse(&sdu[..10 + 17]), Err(Misfit::TooShort));
}

#[test]
fn every_other_pdu_is_a_misfit_with_a_name() {
    use Encapsulation::{BridgedLlcsnap, BridgedVcmux, IpoaLlcsnap, IpoaVcmux};
    let bridged = format!("aaaa030080c200070000{FRAME}");
    let routed = format!("aaaa030000000800{IPV4}");
    let mut counts = MisfitCounts::default();
    for (encapsulation, sdu, wanted) in [
        (IpoaLlcsnap, "aaaa0300000008", Misfit::TooShort),
        (IpoaLlcsnap, "aaaa030000000800", Misfit::TooShort),
        (IpoaLlcsnap, IPV4, Misfit::UnknownLlc),
        (IpoaLlcsnap, &bridged, Misfit::OtherProtocol),
        (IpoaLlcsnap, "fefe03cf0021", Misfit::OtherProtocol),
        (IpoaLlcsnap, "aaaa0300000088474500", Misfit::OtherProtocol),
        (IpoaLlcsnap, "aaaa03000000080060", Misfit::IpVersion),
        (IpoaLlcsnap, "aaaa0300000086dd45", Misfit::IpVersion),
        (IpoaVcmux, &routed, Misfit::IpVersion),
        (BridgedLlcsnap, &routed, Misfit::OtherProtocol),
        (
            BridgedLlcsnap,
            "aaaa030080c2000e0000",
            Misfit::OtherProtocol,
        ),
        (BridgedLlcsnap, "aaaa030080c200070001020304", Misfit::Pad),
        (BridgedVcmux, &bridged, Misfit::Pad),
        (BridgedVcmux, "00000200000000010200", Misfit::TooShort),
    ] {
        assert_eq!(
            encapsulation.parse(&hex(sdu)),
            Err(wanted),
            "{encapsulation} {sdu}"
        );
        counts.add(wanted);
    }
    let counted: Vec<_> = counts
        .iter()
        .map(|(reason, n)| (reason.name(), n))
        .collect();
    let wanted = [
        ("too_short", 3),
        ("unknown_llc", 1),
        ("other_protocol", 5),
        ("bad_pad", 2),
        ("ip_version", 3),
        ("bad_fcs", 0),
    ];
    assert_eq!(counted, wanted);
}

#[test]
fn an_mtu_leaves_room_for_what_stands_in_front() {
    use Encapsulation::{BridgedLlcsnap, BridgedVcmux, IpoaLlcsnap, IpoaVcmux};
    for (encapsulation, max_sdu, mtu) in [
        (IpoaLlcsnap, 9_188, Some(9_180)),
        (IpoaVcmux, 9_180, Some(9_180)),
        (BridgedLlcsnap, 1_528, Some(1_500)),
        (BridgedVcmux, 1_520, Some(1_500)),
        (BridgedVcmux, u16::MAX, Some(65_515)),
        (IpoaLlcsnap, 76, Some(68)),
        (IpoaLlcsnap, 75, None),
        (BridgedLlcsnap, 10, None),
    ] {
        assert_eq!(
            encapsulation.mtu_max(max_sdu),
            mtu,
            "{encapsulation} {max_sdu}"
        );
    }
    // RFC 2225 section 7: the MTU of 9,180 makes SDUs of 9,188.
    assert_eq!(IpoaLlcsnap.mtu_max(9_188), Some(IpoaLlcsnap.mtu_usual()));
}

/// A question with two ATM end system addresses, as tshark reads it: 10.0.0.2 asks.
const QUESTION: &str = "00130800 1400 0008 04 1400 04
    47000580ffe1000000f21a26d8 0020ea000002 00 0a000002
    47000580ffe1000000f21a26d8 0020ea000003 00 0a000001";

#[test]
fn a_question_is_answered_with_the_ends_swapped() {
    let asked = hex(QUESTION);
    let sdu = [hex("aaaa030000000806"), asked.clone()].concat();
    let Ok(Payload::Atmarp(packet)) = Encapsulation::IpoaLlcsnap.parse(&sdu) else {
        panic!("no ATMARP packet");
    };
    let question = InAtmArp::parse(packet).unwrap();
    assert_eq!(question.operation, Operation::Request);
    assert_eq!(question.sender.ip, Some(Ipv4Addr::new(10, 0, 0, 2)));
    assert_eq!(question.target.number.octets()[18], 3);
    assert_eq!(*question.emit(), asked);

    let answer = question.answer(Ipv4Addr::new(10, 0, 0, 9)).unwrap();
    let wanted = hex("00130800 1400 0009 04 1400 04
        47000580ffe1000000f21a26d8 0020ea000003 00 0a000009
        47000580ffe1000000f21a26d8 0020ea000002 00 0a000002");
    assert_eq!(*answer.emit(), wanted);
    assert_eq!(InAtmArp::parse(&wanted), Ok(answer));
    assert_eq!(answer.answer(Ipv4Addr::LOCALHOST), None);
}

#[test]
fn ends_of_a_permanent_connection_need_no_number() {
    let question = InAtmArp::request(Ipv4Addr::new(10, 0, 0, 1));
    assert_eq!(
        *question.emit(),
        hex("00130800 0000 0008 04 0000 00 0a000001")
    );
    let answer = question.answer(Ipv4Addr::new(10, 0, 0, 2)).unwrap();
    let wanted = hex("00130800 0000 0009 04 0000 04 0a000002 0a000001");
    assert_eq!(*answer.emit(), wanted);
    // An unknown address as old stations write it, and what follows the packet.
    let old = hex("00130800 0000 0008 04 0000 04 0a000001 00000000 ffff");
    assert_eq!(InAtmArp::parse(&old), Ok(question));
    for encapsulation in Encapsulation::ALL {
        let header = encapsulation.emit_atmarp().map(|header| header.to_vec());
        let wanted = (encapsulation == Encapsulation::IpoaLlcsnap).then(|| {
            let ether_type = Llc::ATMARP;
            Llc::Routed { ether_type }.emit().to_vec()
        });
        assert_eq!(header, wanted, "{encapsulation}");
    }
}

#[test]
fn numbers_of_either_kind_survive() {
    let longest = AtmNumber::new(true, &[7; 20]).unwrap();
    assert!(AtmNumber::new(true, &[7; 21]).is_none());
    assert_eq!(AtmNumber::new(true, &[]), Some(AtmNumber::NONE));
    let station = |ip| Station {
        number: longest,
        subaddress: AtmNumber::new(false, &[1, 2]).unwrap(),
        ip,
    };
    let packet = InAtmArp {
        operation: Operation::Reply,
        sender: station(Some(Ipv4Addr::BROADCAST)),
        target: station(None),
    };
    let octets = packet.emit();
    assert_eq!(octets[4..6], [0x40 | 20, 2]);
    assert_eq!(octets.len(), 12 + 22 + 4 + 22);
    assert_eq!(InAtmArp::parse(&octets), Ok(packet));
    assert!(packet.sender.number.is_e164() && !packet.sender.subaddress.is_e164());
}

#[test]
fn what_is_no_inatmarp_is_told() {
    for (octets, wanted) in [
        ("", InAtmArpError::TooShort { len: 0 }),
        ("00010800 0604 0001 00000000", InAtmArpError::Hardware(1)),
        (
            "001386dd 0000 0008 10000000",
            InAtmArpError::Protocol(0x86dd),
        ),
        ("00130800 0000 0001 04000004", InAtmArpError::Operation(1)),
        ("00130800 0000 000a 04000004", InAtmArpError::Operation(10)),
        (
            "00130800 0000 0008 05000000 0000000000",
            InAtmArpError::IpLength(5),
        ),
    ] {
        assert_eq!(InAtmArp::parse(&hex(octets)), Err(wanted), "{octets}");
    }
    let long = [hex("00130800 1500 0008 04000000"), vec![0; 25]].concat();
    assert_eq!(InAtmArp::parse(&long), Err(InAtmArpError::NumberLength(21)));
    let asked = hex(QUESTION);
    for len in 0..asked.len() {
        let cut = InAtmArp::parse(&asked[..len]);
        assert_eq!(cut, Err(InAtmArpError::TooShort { len }), "{len}");
    }
}
