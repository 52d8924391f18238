//! What a network device sends and receives.

use cellgate_core::upper::{Encapsulation, InAtmArp, Payload};

/// A PDU in each encapsulation, a packet into each, and an InATMARP packet: what was parsed and
/// emitted is parsed as the same.
pub fn upper(data: &[u8]) {
    for encapsulation in Encapsulation::ALL {
        match encapsulation.parse(data) {
            Ok(Payload::Packet(packet)) => {
                let emitted = packed(encapsulation, packet).expect("what was parsed is a packet");
                // Only the frame check sequence is taken away.
                let kept_fcs = data.len() == emitted.len() + 4 && data[..7] == emitted[..7];
                assert!(emitted == data || kept_fcs && (data[7], emitted[7]) == (1, 7));
            }
            Ok(Payload::Atmarp(packet)) => {
                let header = encapsulation.emit_atmarp().expect("it carries ATMARP");
                assert_eq!([&header, packet].concat(), data);
                inatmarp(packet);
            }
            Err(_) => {}
        }
        packed(encapsulation, data);
    }
    inatmarp(data);
}

/// The PDU of a packet, from which it comes out again.
fn packed(encapsulation: Encapsulation, packet: &[u8]) -> Option<Vec<u8>> {
    let header = encapsulation.emit(packet).ok()?;
    assert_eq!(header.len(), encapsulation.headroom());
    let sdu = [&header, packet].concat();
    assert_eq!(encapsulation.parse(&sdu), Ok(Payload::Packet(packet)));
    Some(sdu)
}

fn inatmarp(octets: &[u8]) {
    let Ok(packet) = InAtmArp::parse(octets) else {
        return;
    };
    let emitted = packet.emit();
    assert!(emitted.len() <= octets.len());
    assert_eq!(InAtmArp::parse(&emitted), Ok(packet));
    let ip = core::net::Ipv4Addr::new(10, 0, 0, 1);
    if let Some(answer) = packet.answer(ip) {
        assert_eq!(answer.target, packet.sender);
        assert_eq!(answer.sender.ip, Some(ip));
        assert_eq!(InAtmArp::parse(&answer.emit()), Ok(answer));
    }
}
