//! What cells and SDUs are wrapped in: RFC 2684, pseudowires, MPLS, UDP and IP.

use cellgate_core::wire::llc::{Llc, VcMux, VcMuxPdu};
use cellgate_core::wire::pseudowire::{
    Packet, PacketContent, Sequence, SequenceReceiver, SequenceVerdict, Service,
    administrative_cell,
};
use cellgate_core::wire::{
    Addresses, Carrier, Cell, CellMode, ControlWord, CpsReceiver, CpsUnit, Framing, LabelEntry,
    MPLS_UDP_PORT, MplsFrame, MplsInUdp, Pseudowire, VpiVci,
};

use crate::take::Take;

/// An SDU as RFC 2684 has it, by LLC and in each form of VC multiplexing: what was parsed is
/// emitted octet for octet.
pub fn llc(data: &[u8]) {
    if let Ok((llc, rest)) = Llc::parse(data) {
        assert_eq!([&llc.emit(), rest].concat(), data);
        if let Llc::Other(other) = llc {
            assert_eq!(data[3..6], other.oui());
            assert_eq!(data[6..8], other.pid().to_be_bytes());
        }
    }
    for mux in [
        VcMux::Routed,
        VcMux::Ppp,
        VcMux::Bridged { fcs: false },
        VcMux::Bridged { fcs: true },
    ] {
        let Ok(pdu) = mux.parse(data) else { continue };
        let (VcMuxPdu::Ipv4(octets)
        | VcMuxPdu::Ipv6(octets)
        | VcMuxPdu::Ethernet(octets)
        | VcMuxPdu::Ppp(octets)) = pdu;
        assert_eq!([&mux.emit(), octets].concat(), data);
    }
}

const SERVICES: [Service; 6] = [
    Service::Cells(CellMode::NToOne {
        control_word: false,
    }),
    Service::Cells(CellMode::NToOne { control_word: true }),
    Service::Cells(CellMode::OneToOneVcc),
    Service::Cells(CellMode::OneToOneVpc),
    Service::Aal5Sdu,
    Service::Aal5Pdu,
];

/// A packet of each service: what is emitted from the parsed packet says the same again.
pub fn pseudowire(data: &[u8]) {
    let mut take = Take::new(data);
    let (op, address) = (take.u8(), VpiVci::from_bits(take.u32()));
    let mut packet = take.rest().to_vec();
    if let (true, Some(first)) = (op & 1 != 0, packet.first_mut()) {
        // Past the first check of all services but one.
        *first &= 0x0f;
    }
    for service in SERVICES {
        let wire = Pseudowire { service, address };
        let Ok(parsed) = wire.parse(&packet) else {
            continue;
        };
        marks(service, &packet, &parsed, address);
        let emitted = emit(service, &parsed);
        let again = wire.parse(&emitted).expect("what was emitted is a packet");
        assert_same(parsed, again);
    }
    if let Ok((word, payload)) = ControlWord::parse(&packet) {
        let emitted = [&word.emit(), payload].concat();
        assert_eq!(ControlWord::parse(&emitted), Ok((word, payload)));
    }
    numbers(&packet);
}

/// The bits of RFC 4717 sections 9 to 11, read from where they are drawn there.
fn marks(service: Service, packet: &[u8], parsed: &Packet<'_>, address: VpiVci) {
    let is_set = |at: usize, bit: u8| packet[at] & bit != 0;
    match &parsed.content {
        PacketContent::Sdu { header, .. } => {
            let found = (header.efci, header.clp, header.uu);
            assert_eq!(found, (is_set(0, 4), is_set(0, 2), is_set(0, 1)));
        }
        PacketContent::Pdu { header, .. } => {
            let found = (header.last, header.efci, header.clp);
            assert_eq!(found, (is_set(3, 4), is_set(3, 2), is_set(3, 1)));
        }
        PacketContent::Cells(cells) if service == Service::Cells(CellMode::OneToOneVcc) => {
            for (cell, octets) in cells.clone().zip(packet[3..].chunks_exact(49)) {
                let word = address.bits() << 4 | u32::from(octets[0] & 0xf);
                assert_eq!(
                    (cell.header.word(), &cell.payload[..]),
                    (word, &octets[1..])
                );
            }
        }
        PacketContent::Cells(_) => {}
    }
}

fn emit(service: Service, packet: &Packet<'_>) -> Vec<u8> {
    let sequence = packet.sequence;
    match (&packet.content, service) {
        (PacketContent::Cells(cells), Service::Cells(mode)) => {
            let mut octets = mode.emit_header(sequence).to_vec();
            cells
                .clone()
                .for_each(|cell| octets.extend_from_slice(&mode.emit_cell(&cell)));
            octets
        }
        (PacketContent::Cells(cells), Service::Aal5Sdu) => {
            let mut octets = administrative_cell(sequence).to_vec();
            let mode = CellMode::NToOne { control_word: true };
            cells
                .clone()
                .for_each(|cell| octets.extend_from_slice(&mode.emit_cell(&cell)));
            octets
        }
        (PacketContent::Cells(cells), Service::Aal5Pdu) => {
            let mode = CellMode::OneToOneVcc;
            let mut octets = mode.emit_header(sequence).to_vec();
            cells
                .clone()
                .for_each(|cell| octets.extend_from_slice(&mode.emit_cell(&cell)));
            octets
        }
        (PacketContent::Sdu { header, sdu }, _) => [&header.emit(sdu.len()), *sdu].concat(),
        (PacketContent::Pdu { header, payloads }, _) => {
            [&header.emit(), payloads.as_flattened()].concat()
        }
    }
}

fn assert_same(one: Packet<'_>, other: Packet<'_>) {
    assert_eq!(one.sequence, other.sequence);
    match (one.content, other.content) {
        (PacketContent::Cells(one), PacketContent::Cells(other)) => {
            assert_eq!(one.len(), other.len());
            let cells: Vec<Cell> = one.collect();
            assert!(!cells.is_empty() && cells == other.collect::<Vec<_>>());
        }
        (
            PacketContent::Sdu { header, sdu },
            PacketContent::Sdu {
                header: other,
                sdu: others,
            },
        ) => assert!(!sdu.is_empty() && (header, sdu) == (other, others)),
        (
            PacketContent::Pdu { header, payloads },
            PacketContent::Pdu {
                header: other,
                payloads: others,
            },
        ) => assert!(!payloads.is_empty() && (header, payloads) == (other, others)),
        (one, other) => panic!("{one:?} became {other:?}"),
    }
}

/// Octets as sequence numbers, against RFC 4385 section 4.2 by its letter.
fn numbers(octets: &[u8]) {
    let mut receiver = SequenceReceiver::new();
    let mut expected: Option<u16> = None;
    for pair in octets.chunks_exact(2).take(16) {
        let number = u16::from_be_bytes([pair[0], pair[1]]);
        let verdict = receiver.receive(Sequence::from_bits(number));
        if number == 0 {
            assert_eq!(verdict, SequenceVerdict::Unnumbered);
            continue;
        }
        let next = expected.unwrap_or(number);
        let in_order = (number >= next && number - next < 32_768)
            || (number < next && next - number >= 32_768);
        assert_eq!(
            verdict == SequenceVerdict::OutOfOrder,
            !in_order,
            "{number} {next}"
        );
        if in_order {
            expected = Some(if number == u16::MAX { 1 } else { number + 1 });
        }
    }
}

/// A frame as it comes, and MPLS-in-UDP around the octets: what was put in is found.
pub fn frame(data: &[u8]) {
    any_frame(data);
    if let Some((entry, rest)) = LabelEntry::parse_stack(data) {
        assert!(entry.bottom() && data.ends_with(rest));
        assert_eq!(LabelEntry::parse(entry.emit()), entry);
        let again = LabelEntry::new(entry.label(), true, entry.ttl());
        assert_eq!(again.with_traffic_class(entry.traffic_class()), entry);
    }
    let mut take = Take::new(data);
    let op = take.u8();
    let addresses = if op & 1 == 0 {
        Addresses::V4 {
            source: take.octets().into(),
            destination: take.octets().into(),
        }
    } else {
        Addresses::V6 {
            source: take.octets().into(),
            destination: take.octets().into(),
        }
    };
    let headers = MplsInUdp {
        ethernet_source: take.octets(),
        ethernet_destination: take.octets(),
        addresses,
        identification: take.u16(),
        ttl: take.u8(),
        source_port: take.u16(),
        checksum: op & 2 != 0,
        entry: LabelEntry::parse(take.octets()),
    };
    let mut payload = take.rest().to_vec();
    if op & 0x1c == 0x1c {
        payload.resize(usize::from(op) << 8, op);
    }
    let emitted = [&headers.emit(&payload), &payload[..]].concat();
    assert_eq!(ones_complement(&emitted, &addresses, op & 2 != 0), (0, 0));
    let longest = 65_535 - 20 - 8 - 4;
    if headers.entry.bottom() && payload.len() <= longest {
        let found =
            MplsFrame::parse(Framing::Ethernet, &emitted).expect("what was emitted is a frame");
        assert_eq!(found.entry, headers.entry);
        assert_eq!(
            found.carrier,
            Carrier::Udp {
                source_port: headers.source_port,
                destination_port: MPLS_UDP_PORT,
            }
        );
        assert_eq!(found.payload, payload);
    }
}

/// Octets as a frame of every framing, whole and cut, and as the cells of an AAL2 VC.
fn any_frame(data: &[u8]) {
    for framing in [
        Framing::Ethernet,
        Framing::Cooked,
        Framing::Cooked2,
        Framing::Ip,
        Framing::Loopback,
        Framing::Ppp,
        Framing::PppOe,
        Framing::CiscoHdlc,
        Framing::Mpls,
    ] {
        for missing in [0, 1_000] {
            if let Ok(found) = MplsFrame::find(framing, data, missing, &[0, 7_001]) {
                assert!(is_piece(found.payload, data) && found.missing <= missing);
                assert!(found.is_channel || found.entry.bottom());
            }
        }
    }
    let mut receiver = CpsReceiver::default();
    for cell in data.as_chunks::<48>().0 {
        let held = receiver.held();
        let mut octets = 1;
        receiver.receive(cell, |unit| {
            octets += match unit {
                CpsUnit::Packet(packet) => packet.len(),
                CpsUnit::Part(octets) => octets,
                CpsUnit::Strays(octets) | CpsUnit::Padding(octets) => octets,
                CpsUnit::Unreadable(octets) => octets,
            };
        });
        // A wrong start field hides all of the cell.
        let told = octets + receiver.held();
        assert!(told == held + 48 || told == held + 1, "{told} {held}");
    }
}

/// What is left over of the checksums of IPv4 and UDP: 0 each.
fn ones_complement(frame: &[u8], addresses: &Addresses, checksum: bool) -> (u16, u16) {
    let sum = |octets: &[u8]| -> u64 {
        let pairs = octets.chunks(2);
        let word = |pair: &[u8]| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |o| u64::from(*o));
        pairs.map(word).sum()
    };
    let fold = |sum: u64| !((0..4).fold(sum, |sum, _| (sum >> 16) + (sum & 0xffff)) as u16);
    let (ip, udp_at, addresses_at) = match addresses {
        Addresses::V4 { .. } => (fold(sum(&frame[14..34])), 34, 26..34),
        Addresses::V6 { .. } => (0, 54, 22..54),
    };
    if !checksum {
        assert_eq!(frame[udp_at + 6..udp_at + 8], [0, 0]);
        return (ip, 0);
    }
    let len = u64::from(u16::from_be_bytes([frame[udp_at + 4], frame[udp_at + 5]]));
    let udp = sum(&frame[addresses_at]) + 17 + len + sum(&frame[udp_at..]);
    (ip, fold(udp))
}

/// Whether `part` is a piece of `whole`.
fn is_piece(part: &[u8], whole: &[u8]) -> bool {
    part.is_empty() || whole.as_ptr_range().contains(&part.as_ptr())
}
