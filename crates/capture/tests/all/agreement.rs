//! What the product writes: octet for octet what the generator writes, where both write it, and
//! what the reader gives back.

use crate::common::{
    START_NS, address, cells, data, ethernet_ping, eyesdn, llc_ping, loopback, mpls_frame, pdu,
    pseudowire_packets, recorded, records,
};
use cellgate_capture::{Content, Direction, Item, Link, Recorder};
use cellgate_core::wire::{Carrier, Framing, HeaderForm, MplsFrame};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// The packets of a little-endian pcap file.
fn pcap_packets(file: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = &file[24..];
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        packets.push(rest[16..16 + len].to_vec());
        rest = &rest[16 + len..];
    }
    packets
}

/// The packets of a little-endian pcapng file.
fn pcapng_packets(file: &[u8]) -> Vec<Vec<u8>> {
    let number = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let mut at = 0;
    let mut packets = Vec::new();
    while at < file.len() {
        if number(at) == 6 {
            packets.push(file[at + 28..at + 28 + number(at + 20)].to_vec());
        }
        at += number(at + 4);
    }
    packets
}

/// What the recorder writes for the records of a file.
fn rerecorded(file: &[u8]) -> Vec<Vec<u8>> {
    let mut recorder = Recorder::new(Vec::new(), "test").unwrap();
    for record in records(file) {
        let time_ns = record.time_ns.unwrap();
        let cell;
        let item = match &record.content {
            Content::Cell(octets) => {
                cell = cellgate_core::wire::Cell::parse_without_hec(octets);
                Item::Cell(&cell)
            }
            Content::Aal5Pdu { header, pdu } => Item::Aal5Pdu {
                header: *header,
                pdu,
            },
            Content::Sdu {
                address: Some(address),
                kind,
                sdu,
            } => Item::Sdu {
                address: *address,
                kind: *kind,
                sdu,
            },
            Content::Frame { octets, .. } => Item::Frame(octets),
            other => panic!("{other:?}"),
        };
        recorder
            .record(time_ns, record.direction, item, None)
            .unwrap();
    }
    pcapng_packets(&recorder.finish().unwrap())
}

#[test]
fn eyesdn_files_are_the_same() {
    assert_eq!(eyesdn(), data("cells.trc"));
}

#[test]
fn sunatm_packets_are_the_same() {
    for name in ["sunatm.pcap", "q2931-tripod.pcap", "mplsudp.pcap"] {
        assert_eq!(rerecorded(&data(name)), pcap_packets(&data(name)), "{name}");
    }
}

#[test]
fn erf_packets_are_the_same_but_for_parts_of_a_nanosecond() {
    // The last three are types that are read and not written.
    let file = &data("all.erf")[..116 * 4 + 164 + 68 * 4];
    let theirs = pcap_packets(&data("erf197.pcap"));
    let ours = rerecorded(file);
    assert_eq!(ours.len(), 9);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours[8..], theirs[8..]);
        let time = |octets: &[u8]| u64::from_le_bytes(octets[..8].try_into().unwrap());
        // A nanosecond is 4.3 units.
        assert!(time(ours).abs_diff(time(theirs)) <= 4);
    }
}

#[test]
fn pseudowire_frames_are_the_same() {
    let mut theirs = pcap_packets(&data("mplsudp.pcap"));
    theirs.remove(2);
    let ours: Vec<_> = pseudowire_packets()
        .iter()
        .map(|(label, packet)| mpls_frame(*label, packet, false))
        .collect();
    assert_eq!(ours, theirs);
}

#[test]
fn a_recording_of_every_view_is_read_back() {
    let sdu = llc_ping();
    let pdu_7 = pdu(&sdu, 7);
    let far = pdu(&sdu, 0);
    let sent = cells(address(1, 100), &sdu);
    let octets = [
        sdu.clone(),
        sdu,
        pdu_7,
        sent[0].emit_without_hec().to_vec(),
        sent[1].emit_without_hec().to_vec(),
        loopback().emit_without_hec().to_vec(),
        far,
        ethernet_ping(),
    ];
    let (sun, erf, wire) = (Link::SunAtm, Link::Erf, Link::ETHERNET);
    let links = [
        (0, sun),
        (0, sun),
        (1, erf),
        (1, erf),
        (1, erf),
        (1, erf),
        (1, erf),
        (2, wire),
    ];
    let (rx, tx) = (Direction::Receive, Direction::Transmit);
    let directions = [rx, tx, rx, tx, tx, rx, tx, Direction::Unknown];
    let addresses = [
        "0.100", "0.100", "0.100", "1.100", "1.100", "1.100", "4000.100", "",
    ];
    let records = records(&recorded());
    assert_eq!(records.len(), octets.len());
    for (i, record) in records.iter().enumerate() {
        assert_eq!(record.content.octets(), octets[i], "{i}");
        assert_eq!((record.interface, record.link), links[i], "{i}");
        assert_eq!(record.direction, directions[i], "{i}");
        assert_eq!(record.time_ns, Some(START_NS + i as u64 * 1_234_567));
        assert_eq!(record.missing, 0);
        let address = record.content.address(HeaderForm::Nni);
        assert_eq!(
            address.map(|a| a.to_string()).unwrap_or_default(),
            addresses[i]
        );
        let comments: &[&str] = if i == 1 { &["policed: GCRA(PCR)"] } else { &[] };
        assert_eq!(record.comments, comments);
    }
}

#[test]
fn a_nanosecond_survives_the_fixed_point_of_erf() {
    let mut rng = Pcg64Mcg::new(3);
    let mut recorder = Recorder::new(Vec::new(), "test").unwrap();
    let edges = [
        0,
        1,
        999_999_999,
        1_000_000_000,
        u64::from(u32::MAX) * 1_000_000_000,
    ];
    let drawn = (0..1_000).map(|_| rng.next_u64() % (4_294_967_295 * 1_000_000_000));
    let times: Vec<u64> = edges.into_iter().chain(drawn).collect();
    for time_ns in &times {
        let cell = loopback();
        recorder
            .record(*time_ns, Direction::Receive, Item::Cell(&cell), None)
            .unwrap();
    }
    let mut native = pcapng_packets(&recorder.finish().unwrap());
    // A file of seconds 0 is a file all the same.
    let file = native.concat();
    let read: Vec<_> = records(&file)
        .iter()
        .map(|record| record.time_ns.unwrap())
        .collect();
    assert_eq!(read, times);
    native.truncate(1);
    assert_eq!(records(&native.concat()).len(), 1);
}

#[test]
fn the_longest_sdu_of_a_large_vpi_is_cut_and_says_so() {
    let sdu = vec![0x5a; 65_535];
    let mut recorder = Recorder::new(Vec::new(), "test").unwrap();
    for vpi in [255, 256] {
        let item = Item::Sdu {
            address: address(vpi, 33),
            kind: cellgate_capture::SduKind::RAW,
            sdu: &sdu,
        };
        recorder
            .record(START_NS, Direction::Receive, item, None)
            .unwrap();
    }
    let records = records(&recorder.finish().unwrap());
    let kept: Vec<_> = records
        .iter()
        .map(|r| (r.content.octets().len(), r.missing))
        .collect();
    // A PDU of 65,568 octets in a record of 65,535, of which 20 are headers.
    assert_eq!(kept, [(65_535, 0), (65_515, 53)]);
}

#[test]
fn an_sdu_that_is_none_is_not_recorded() {
    let mut recorder = Recorder::new(Vec::new(), "test").unwrap();
    for len in [0, 65_536] {
        let item = Item::Sdu {
            address: address(0, 33),
            kind: cellgate_capture::SduKind::RAW,
            sdu: &vec![0; len],
        };
        let refused = recorder
            .record(0, Direction::Receive, item, None)
            .unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
    }
}

#[test]
fn frames_over_ipv6_are_found_again() {
    use cellgate_core::wire::{Addresses, Label, LabelEntry, MplsInUdp};
    let headers = MplsInUdp {
        ethernet_source: [2; 6],
        ethernet_destination: [4; 6],
        addresses: Addresses::V6 {
            source: "fd00::1".parse().unwrap(),
            destination: "fd00::2".parse().unwrap(),
        },
        identification: 0,
        ttl: 64,
        source_port: 50_000,
        checksum: true,
        entry: LabelEntry::new(Label::new(1001).unwrap(), true, 64),
    };
    let (_, payload) = &pseudowire_packets()[0];
    let frame = [&*headers.emit(payload), payload].concat();
    let found = MplsFrame::parse(Framing::Ethernet, &frame).unwrap();
    let carrier = Carrier::Udp {
        source_port: 50_000,
        destination_port: 6_635,
    };
    assert_eq!((found.carrier, found.entry), (carrier, headers.entry));
    assert_eq!(found.payload, payload);
}
