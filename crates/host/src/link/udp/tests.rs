use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use cellgate_core::Time;
use cellgate_core::adapter::{
    Aal, Config, Excess, Marks, Notification, OpenRequest, PortConfig, PortIndex, Receive, Transmit,
};
use cellgate_core::contract::CellRate;
use cellgate_core::queue::{AttachmentSizes, SduOptions};
use cellgate_core::wire::{CellFormat, CellMode, CellPseudowire, HeaderForm, VpiVci};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::adapter::{AdapterOptions, AdapterThread};
use crate::client::memory_for;
use crate::sys::{SchedulingRequest, allocations};

/// A time at which a look is due, whenever the one before was.
fn later(now: &mut Time) -> Time {
    *now = now.plus_ns(UdpReceiver::LOOK_EVERY_NS);
    *now
}

fn options(mode: &str, mtu: u16, v6: bool) -> UdpLink {
    let local: SocketAddr = match v6 {
        true => "[::1]:0".parse().unwrap(),
        false => "127.0.0.1:0".parse().unwrap(),
    };
    UdpLink {
        local,
        peer: local,
        source_port: 0,
        peer_source_port: None,
        label_out: 1_001,
        label_in: 1_001,
        mode: mode.parse().unwrap(),
        mtu,
        pack: None,
        timer_ns: 0,
    }
}

/// Both ends of one direction, each on a free port.
fn pair(mode: &str, mtu: u16, v6: bool) -> (UdpSender, UdpReceiver) {
    let options = options(mode, mtu, v6);
    let receiver = UdpReceiver::open(&options).unwrap();
    let peer = receiver.local_address().unwrap();
    let sender = UdpSender::open(&UdpLink { peer, ..options }).unwrap();
    (sender, receiver)
}

fn random_cells(seed: u64, count: usize) -> Vec<u8> {
    let mut cells = vec![0; count * 52];
    Pcg64Mcg::new((u128::from(seed) << 1) | 1).fill_bytes(&mut cells);
    cells
}

/// Makes the cell one of those that the pseudowire is for.
fn address(cell: &mut [u8; 52], pseudowire: CellPseudowire) {
    let word = u32::from_be_bytes([cell[0], cell[1], cell[2], cell[3]]);
    let own = pseudowire.address().bits() << 4;
    let word = match pseudowire.mode() {
        CellMode::NToOne { .. } => word,
        CellMode::OneToOneVcc => own | word & 0xf,
        CellMode::OneToOneVpc => own & 0xfff0_0000 | word & 0xf_ffff,
    };
    cell[..4].copy_from_slice(&word.to_be_bytes());
}

/// Takes `count` cells, `room` at a time.
fn take(receiver: &mut UdpReceiver, count: usize, room: usize) -> Vec<u8> {
    let deadline = Instant::now() + Duration::from_secs(20);
    let (mut now, mut all) = (Time::ZERO, Vec::new());
    let mut fifo = vec![0; room * 52];
    while all.len() < count * 52 {
        assert!(Instant::now() < deadline, "{:?}", receiver.report(now));
        receiver.poll(later(&mut now));
        let taken = receiver.take(&mut fifo);
        all.extend_from_slice(&fifo[..taken * 52]);
    }
    all
}

#[test]
fn cells_arrive_as_they_were_sent_in_whichever_pieces() {
    for (mode, mtu, v6) in [
        ("n1", 1_500, false),
        ("n1-cw", 1_500, false),
        ("n1", 1_500, true),
        ("n1-cw", 100, false),
        ("n1", 65_535, false),
        ("vcc@4000.300", 1_500, false),
        ("vpc@4000", 1_500, false),
        ("vcc@4000.300", 86, false),
        ("vpc@4000", 65_535, true),
    ] {
        if v6 && UdpSocket::bind("[::1]:0").is_err() {
            continue;
        }
        let (mut sender, mut receiver) = pair(mode, mtu, v6);
        let pseudowire: CellPseudowire = mode.parse().unwrap();
        let mut rng = Pcg64Mcg::new(3);
        let mut sent = 0;
        for round in 0..60 {
            let count = 1 + rng.next_u64() as usize % 400;
            let room = 1 + rng.next_u64() as usize % 300;
            let mut cells = random_cells(round, count);
            for cell in cells.as_chunks_mut::<52>().0 {
                address(cell, pseudowire);
            }
            let (front, back) = cells.split_at(count / 3 * 52);
            assert_eq!(sender.send(front) + sender.send(back), count);
            assert!(sender.flush());
            assert_eq!(sender.staged(), 0);
            sent += count as u64;
            assert!(take(&mut receiver, count, room) == cells, "round {round}");
        }
        let (out, inward) = (sender.report(), receiver.report(Time::ZERO));
        assert_eq!((out.sent_cells, inward.received_cells), (sent, sent));
        assert_eq!(out.sent_datagrams, inward.received_datagrams);
        assert_eq!(inward.discarded_datagrams.total(), 0);
        assert_eq!((out.send_errors, out.dropped_cells), (0, 0));
        assert_eq!((inward.missing_datagrams, inward.receive_errors), (0, 0));
        assert_eq!(receiver.taken(), sent);
        assert_eq!(receiver.waiting(), 0);
    }
}

#[test]
fn packs_what_the_mtu_holds() {
    for (mode, mtu, v6, pack) in [
        ("n1", 1_500, false, 28),
        ("n1-cw", 1_500, false, 28),
        ("n1", 1_500, true, 27),
        ("n1-cw", 1_500, true, 27),
        ("n1", 84, false, 1),
        ("n1-cw", 87, false, 0),
        ("n1-cw", 88, false, 1),
        ("n1", 9_000, false, 172),
        // (1,500 - 32 - 3) / 49 and / 51.
        ("vcc@0.32", 1_500, false, 29),
        ("vpc@0", 1_500, false, 28),
        ("vcc@0.32", 83, false, 0),
        ("vcc@0.32", 84, false, 1),
    ] {
        assert_eq!(options(mode, mtu, v6).cells_per_datagram(), pack);
    }
    let (mut sender, mut receiver) = pair("n1", 1_500, false);
    sender.send(&random_cells(1, 28 * 3 + 5));
    sender.flush();
    take(&mut receiver, 28 * 3 + 5, 256);
    assert_eq!(sender.report().sent_datagrams, 4);
    // One call, or one for each datagram where there is no segmentation offload.
    assert!([1, 4].contains(&sender.report().send_calls));
}

#[test]
fn cells_of_others_do_not_leave() {
    for (mode, own, other) in [
        ("vcc@16.257", [1, 0, 0x10, 0x10], [1, 0, 0x10, 0x20]),
        ("vpc@16", [1, 0, 0x10, 0x10], [1, 0x10, 0x10, 0x10]),
    ] {
        let (mut sender, mut receiver) = pair(mode, 1_500, false);
        let mut cells = [[9; 52]; 4];
        for (cell, header) in cells.iter_mut().zip([own, other, other, own]) {
            cell[..4].copy_from_slice(&header);
        }
        assert_eq!(sender.send(cells.as_flattened()), 2);
        assert_eq!(sender.staged(), 2);
        assert!(sender.flush());
        let report = sender.report();
        assert_eq!((report.foreign_cells, report.dropped_cells), (2, 2));
        assert_eq!((report.sent_cells, report.sent_datagrams), (2, 1));
        let came = take(&mut receiver, 2, 4);
        assert_eq!(came, [cells[0], cells[3]].concat());
    }
}

/// One cell of VC 16.257 with PTI 1 and CLP 1, as RFC 4717 has it.
#[test]
fn packets_are_those_of_the_rfc() {
    let mut cell = [0x55; 52];
    cell[..4].copy_from_slice(&[1, 0, 0x10, 0x13]);
    for (mode, packet) in [
        ("n1", &[1, 0, 0x10, 0x13][..]),
        ("n1-cw", &[0, 0, 0, 1, 1, 0, 0x10, 0x13]),
        ("vcc@16.257", &[0, 0, 1, 0x03]),
        ("vpc@16", &[0, 0, 1, 0x43, 1, 1]),
    ] {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let peer = socket.local_addr().unwrap();
        let options = UdpLink {
            peer,
            ..options(mode, 1_500, false)
        };
        let mut sender = UdpSender::open(&options).unwrap();
        sender.send(&cell);
        assert!(sender.flush());
        let mut octets = [0; 100];
        let len = socket.recv(&mut octets).unwrap();
        let expected = datagram(&[packet, &[0x55; 48]].concat());
        assert_eq!(octets[..len], expected, "{mode}");
    }
}

#[test]
fn impossible_pseudowires_are_refused() {
    let good = options("n1", 1_500, false);
    let refused = |options: UdpLink| {
        let sender = UdpSender::open(&options).map(|_| ()).unwrap_err();
        let receiver = UdpReceiver::open(&options).map(|_| ()).unwrap_err();
        assert_eq!(sender.to_string(), receiver.to_string());
        sender
    };
    for label in [0, 15, 1 << 20, u32::MAX] {
        let options = UdpLink {
            label_out: label,
            ..good
        };
        assert!(matches!(refused(options), UdpError::Link(UdpLinkError::Label(l)) if l == label));
    }
    let options = UdpLink { mtu: 83, ..good };
    assert!(matches!(
        refused(options),
        UdpError::Link(UdpLinkError::Mtu(83))
    ));
    let options = UdpLink {
        peer: "[::1]:6635".parse().unwrap(),
        ..good
    };
    assert!(matches!(
        refused(options),
        UdpError::Link(UdpLinkError::Versions { .. })
    ));
    let options = UdpLink {
        local: "192.0.2.1:0".parse().unwrap(),
        ..good
    };
    assert!(matches!(refused(options), UdpError::Kernel { .. }));
}

#[test]
fn packs_no_more_than_it_is_told_and_waits_no_longer_than_its_timer() {
    let good = options("n1", 1_500, false);
    let receiver = UdpReceiver::open(&good).unwrap();
    let peer = receiver.local_address().unwrap();
    let options = UdpLink {
        peer,
        pack: NonZeroU16::new(4),
        timer_ns: 1_000_000,
        ..good
    };
    let mut sender = UdpSender::open(&options).unwrap();
    let mut receiver = receiver;
    let cells = random_cells(9, 40);
    let mut cells = cells.chunks(52);
    let mut expected = Vec::new();
    // The end of each step in microseconds, the cells sent in it, and what it leaves: datagrams
    // that have left in all, and cells that wait.
    for (us, count, datagrams, waiting) in [
        (0, 3, 0, 3),
        (900, 0, 0, 3),
        (950, 2, 1, 1),
        (1_000, 0, 1, 1),
        (1_949, 0, 1, 1),
        (1_950, 0, 2, 0),
        (1_960, 8, 4, 0),
        (9_000, 1, 4, 1),
        (9_999, 1, 4, 2),
        (10_000, 0, 5, 0),
        (10_001, 9, 7, 1),
        (10_500, 4, 8, 1),
        (11_001, 0, 8, 1),
        (11_500, 0, 9, 0),
    ] {
        for cell in cells.by_ref().take(count) {
            assert_eq!(sender.send(cell), 1);
            expected.extend_from_slice(cell);
        }
        sender.end_step(Time::from_ns(us * 1_000));
        let report = sender.report();
        let found = (report.sent_datagrams, sender.staged());
        assert_eq!(found, (datagrams, waiting), "{us} us");
        assert_eq!(sender.free(), sender.capacity() - waiting);
    }
    // What waits leaves with the link.
    sender.send(cells.next().unwrap());
    sender.end_step(Time::from_ns(12_000_000));
    assert_eq!(sender.staged(), 1);
    expected.extend_from_slice(&random_cells(9, 40)[expected.len()..][..52]);
    drop(sender);
    assert!(take(&mut receiver, expected.len() / 52, 64) == expected);
    let too_many = UdpLink {
        pack: NonZeroU16::new(29),
        ..good
    };
    let too_long = UdpLink {
        timer_ns: UdpLink::TIMER_NS_MAX + 1,
        ..good
    };
    for (options, text) in [(too_many, "28 cells, not 29"), (too_long, "1000000001 ns")] {
        let refused = UdpSender::open(&options).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains(text), "{refused}");
    }
}

/// A datagram of label 1,001, and what follows it.
fn datagram(rest: &[u8]) -> Vec<u8> {
    let mut octets = (1_001_u32 << 12 | 1 << 8 | 255).to_be_bytes().to_vec();
    octets.extend_from_slice(rest);
    octets
}

/// A mode, a packet that is bad in it, and what counts it.
type Bad = (&'static str, Vec<u8>, fn(&UdpDiscards) -> u64);

#[test]
fn bad_datagrams_are_discarded_by_name() {
    let cell = [1_u8; 52];
    let two = [cell, cell].concat();
    let mut many: Vec<Bad> = Vec::new();
    for mode in ["n1", "n1-cw", "vcc@16.4112", "vpc@16"] {
        many.push((mode, vec![], |d| d.bad_stack));
        many.push((mode, vec![0, 0, 1], |d| d.bad_stack));
        // No entry says that it is the last.
        many.push((mode, vec![0; 1_000], |d| d.bad_stack));
        let other = [&[0, 0x3e, 0x81, 0xff][..], &cell].concat();
        many.push((mode, other, |d| d.wrong_label));
    }
    many.push(("n1", datagram(&[]), |d| d.bad_length));
    many.push(("n1", datagram(&two[..103]), |d| d.bad_length));
    many.push(("n1-cw", datagram(&[]), |d| d.bad_control_word));
    many.push(("n1-cw", datagram(&[0, 0, 0]), |d| d.bad_control_word));
    many.push(("n1-cw", datagram(&[0, 0, 0, 0]), |d| d.bad_length));
    let channel = [&[0x10, 0, 0, 0][..], &cell].concat();
    many.push(("n1-cw", datagram(&channel), |d| d.bad_control_word));
    let shorter = [&[0, 3, 0, 0][..], &cell].concat();
    many.push(("n1-cw", datagram(&shorter), |d| d.bad_control_word));
    let odd = [&[0, 0, 0, 0][..], &two[..103]].concat();
    many.push(("n1-cw", datagram(&odd), |d| d.bad_length));
    for (mode, len) in [("vcc@16.4112", 49), ("vpc@16", 51)] {
        many.push((mode, datagram(&[]), |d| d.bad_control_word));
        many.push((mode, datagram(&[0, 0]), |d| d.bad_control_word));
        many.push((mode, datagram(&[0x10; 64]), |d| d.bad_control_word));
        many.push((mode, datagram(&[0; 3]), |d| d.bad_length));
        many.push((mode, datagram(&vec![0; 3 + len - 1]), |d| d.bad_length));
        many.push((mode, datagram(&vec![0; 3 + len + 1]), |d| d.bad_length));
        // V says the other mode, M says a frame.
        let other = 0x40 * u8::from(len == 49);
        for specific in [other, 0x80 | other ^ 0x40] {
            let packet = [&[0, 0, 0, specific][..], &vec![0; len - 1]].concat();
            many.push((mode, datagram(&packet), |d| d.bad_length));
        }
    }
    for (i, (mode, octets, count)) in many.into_iter().enumerate() {
        let (mut sender, mut receiver) = pair(mode, 1_500, false);
        let to = receiver.local_address().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&octets, to).unwrap();
        sender.send(&cell);
        sender.flush();
        // What comes after it is well.
        assert_eq!(take(&mut receiver, 1, 4), cell, "case {i}");
        let discards = receiver.report(Time::ZERO).discarded_datagrams;
        assert_eq!((count(&discards), discards.total()), (1, 1), "case {i}");
    }
}

#[test]
fn random_datagrams_are_cells_or_discards_and_never_more() {
    let mut rng = Pcg64Mcg::new(11);
    for (mode, header, stride) in [
        ("n1", 0, 52),
        ("n1-cw", 4, 52),
        ("vcc@1.32", 3, 49),
        ("vpc@1", 3, 51),
    ] {
        let (_, mut receiver) = pair(mode, 1_500, false);
        let to = receiver.local_address().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (mut now, mut sent, mut taken) = (Time::ZERO, 0, 0);
        let mut fifo = vec![0; 64 * 52];
        for _ in 0..300 {
            for _ in 0..8 {
                let mut octets = vec![0; rng.next_u64() as usize % 400];
                rng.fill_bytes(&mut octets);
                // Half of them have the label, and of these most a whole number of cells.
                if rng.next_u64() & 1 == 0 {
                    octets.truncate(octets.len() / stride * stride + header);
                    match &mut octets[..] {
                        [flags, length, ..] if header == 4 => {
                            *flags &= 0x0f;
                            *length &= 0xc0;
                        }
                        [flags, _, _, cells @ ..] if header == 3 => {
                            *flags &= 0x0f;
                            for specific in cells.iter_mut().step_by(stride) {
                                *specific = *specific & 0x0f | (stride as u8 & 2) << 5;
                            }
                        }
                        _ => {}
                    }
                    octets = datagram(&octets);
                }
                socket.send_to(&octets, to).unwrap();
                sent += 1;
            }
            for _ in 0..20 {
                receiver.poll(later(&mut now));
                taken += receiver.take(&mut fifo) as u64;
            }
        }
        let report = receiver.report(now.plus_ns(1 << 30));
        let seen = report.received_datagrams + report.discarded_datagrams.total();
        assert_eq!((seen + report.overflows, report.receive_errors), (sent, 0));
        assert_eq!(taken, report.received_cells);
        assert!(report.received_datagrams > 100 && report.discarded_datagrams.total() > 100);
    }
}

#[test]
fn numbered_packets_are_missed_and_refused_if_late() {
    let (_, mut receiver) = pair("n1-cw", 1_500, false);
    let to = receiver.local_address().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let send = |number: u16| {
        let [high, low] = number.to_be_bytes();
        let rest = [&[0, 0, high, low][..], &[number as u8; 52]].concat();
        socket.send_to(&datagram(&rest), to).unwrap();
    };
    for number in [65_534, 65_535, 1, 4, 3, 5] {
        send(number);
    }
    let cells = take(&mut receiver, 5, 8);
    let numbers: Vec<u8> = cells.iter().step_by(52).copied().collect();
    assert_eq!(numbers, [254, 255, 1, 4, 5]);
    let report = receiver.report(Time::ZERO);
    assert_eq!(report.missing_datagrams, 2);
    assert_eq!(report.discarded_datagrams.out_of_order, 1);
    // A peer that begins anew: after 16 numbers of the past its count is believed.
    for number in (60_000..60_016).chain([60_016]) {
        send(number);
    }
    assert_eq!(take(&mut receiver, 1, 8)[0], (60_016_u16 % 256) as u8);
    let report = receiver.report(Time::ZERO);
    assert_eq!(report.discarded_datagrams.out_of_order, 17);
}

#[test]
fn pseudowires_of_one_address_have_queues_of_their_own() {
    // The peers' source ports, found free by binding them.
    let peers: Vec<UdpSocket> = (0..2)
        .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
        .collect();
    let port = |socket: &UdpSocket| socket.local_addr().unwrap().port();
    let first = UdpLink {
        peer_source_port: Some(port(&peers[0])),
        ..options("n1", 1_500, false)
    };
    let mut flooded = UdpReceiver::open(&first).unwrap();
    let local = flooded.local_address().unwrap();
    let second = UdpLink {
        local,
        peer_source_port: Some(port(&peers[1])),
        ..first
    };
    let mut quiet = UdpReceiver::open(&second).unwrap();
    let cell = [5; 52];
    let mut flood = 0;
    let mut now = Time::ZERO;
    while flooded.report(later(&mut now)).overflows == 0 {
        for _ in 0..1_000 {
            peers[0]
                .send_to(&datagram(&[cell; 20].concat()), local)
                .unwrap();
            flood += 1;
        }
        now = now.plus_ns(1 << 30);
        assert!(flood < 1_000_000, "the socket's queue has no end");
    }
    peers[1].send_to(&datagram(&cell), local).unwrap();
    assert_eq!(take(&mut quiet, 1, 4), cell);
    // A third party is heard by neither.
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let _ = stranger.send_to(&datagram(&cell), local);
    let mut fifo = vec![0; 256 * 52];
    let mut taken = 0;
    loop {
        flooded.poll(later(&mut now));
        match flooded.take(&mut fifo) {
            0 => break,
            cells => taken += cells as u64,
        }
    }
    quiet.poll(later(&mut now));
    assert_eq!(quiet.waiting(), 0);
    let report = flooded.report(now.plus_ns(1 << 30));
    assert_eq!(taken, report.received_cells);
    assert_eq!(report.received_datagrams + report.overflows, flood);
    assert_eq!(report.discarded_datagrams.total(), 0);
    assert_eq!(quiet.report(now).received_datagrams, 1);
}

#[test]
fn what_the_kernel_refuses_is_counted() {
    // To broadcast, a socket must have asked for it.
    let options = UdpLink {
        peer: "255.255.255.255:6635".parse().unwrap(),
        local: "127.0.0.1:0".parse().unwrap(),
        ..options("n1-cw", 1_500, false)
    };
    let mut sender = UdpSender::open(&options).unwrap();
    assert_eq!(sender.send(&random_cells(1, 60)), 60);
    assert!(sender.flush());
    let report = sender.report();
    assert_eq!((report.send_errors, report.dropped_cells), (3, 60));
    let errno = report.last_refusal.unwrap();
    assert_eq!(report.refusals.iter().collect::<Vec<_>>(), [(errno, 3)]);
    assert_eq!((report.sent_cells, sender.staged()), (0, 0));
    assert_eq!(sender.free(), sender.capacity());
}

/// Short datagrams pass where long ones are refused: these are told all the same.
#[test]
fn a_refusal_is_told_until_a_second_has_passed_without_one() {
    let (mut sender, _receiver) = pair("n1-cw", 1_500, false);
    let (mut now, peer) = (Time::from_ns(5_000_000_000), sender.peer);
    let mut step = |sender: &mut UdpSender, to, ns| {
        now = now.plus_ns(ns);
        sender.peer = to;
        sender.send(&random_cells(1, 1));
        sender.end_step(now);
        sender.report().last_refusal
    };
    assert_eq!(step(&mut sender, peer, 0), None);
    let refused = step(&mut sender, "255.255.255.255:6635".parse().unwrap(), 1);
    assert!(refused.is_some());
    assert_eq!(step(&mut sender, peer, 1_000), refused);
    assert_eq!(step(&mut sender, peer, 999_998_000), refused);
    assert_eq!(step(&mut sender, peer, 1_000), None);
}

/// An adapter whose port talks to itself over a pseudowire and gets its cells with faults.
#[test]
fn the_firmware_thread_allocates_nothing_for_pseudowires_and_faults() {
    let port = PortConfig {
        form: HeaderForm::Nni,
        format: CellFormat::NoHec,
        budget: 256,
        discard_unread: false,
        real_time: false,
        line_rate: CellRate::new(1_000_000).unwrap(),
    };
    let config = Config {
        vcs: 16,
        leaves: 2,
        attachments: 2,
        ports: vec![port],
        gap_max_ns: 30_000_000,
        clump_cells: 28,
        overload_cells: 0,
    };
    let adapter = AdapterOptions {
        scheduling: SchedulingRequest::modest(),
        ..AdapterOptions::new(config)
    };
    let (_adapter, mut control) = AdapterThread::spawn(adapter).unwrap();
    // To itself: the same address for both ends, with a source port that is free.
    let free = || UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let at = free().unwrap();
    let source = free().unwrap().port();
    let itself = UdpLink {
        local: at,
        peer: at,
        source_port: source,
        peer_source_port: Some(source),
        ..options("n1-cw", 1_500, false)
    };
    control.pseudowire(PortIndex(0), itself).unwrap();
    let words = "loss 2% ber 1e-4 duplicate 2% delay 100us jitter 100us rate 500000 queue 9000";
    control.line(PortIndex(0), words.parse().unwrap()).unwrap();
    let sizes = AttachmentSizes {
        event_slots: 64,
        doorbell_slots: 16,
    };
    let mut attached = control.attach(sizes, false).unwrap();
    let request = OpenRequest {
        address: VpiVci::new(1, 40).unwrap(),
        port: PortIndex(0),
        aal: Aal::Aal5,
        attachment: attached.index(),
        receive: Some(Receive {
            marks: Marks::None,
            rate: None,
            sustained: None,
            cdvt_ns: 0,
            max_sdu: 2_000,
            fixed_sdu: false,
            excess: Excess::Discard,
            notification: Notification::LastCell,
            queue_threshold: 0,
            guaranteed: true,
        }),
        transmit: Some(Transmit {
            rate: None,
            cdvt_ns: 0,
            weight: 1,
            abr: None,
            peak: None,
            max_sdu: 2_000,
            burst: 1,
            sustained: None,
            interrupt_on_completion: false,
        }),
    };
    let mut vc = control.open(request, memory_for(2_000, 8, 8)).unwrap();
    let (mut sent, mut came) = (0, 0);
    let deadline = Instant::now() + Duration::from_secs(60);
    while sent < 300 {
        sent += u64::from(vc.send(&mut attached, &[sent as u8; 1_000], SduOptions::default()));
        while let Some(pdu) = vc.next_pdu() {
            let sdu = vc.sdu(&pdu).unwrap();
            assert!(sdu.iter().all(|octet| *octet == sdu[0]) && sdu.len() == 1_000);
            assert!(vc.release(pdu));
            came += 1;
        }
        while attached.next_event().is_some() {}
        assert!(Instant::now() < deadline, "{sent} PDUs sent");
        std::thread::yield_now();
    }
    // (1,000 + 8) / 48.
    let cells = sent * 21;
    let (line, wire) = loop {
        let line = control.ports().unwrap()[0].line.unwrap();
        let wire = control.pseudowire_report(PortIndex(0)).unwrap();
        if (line.cells_in, line.in_flight) == (cells, 0) && wire.sent_cells == cells {
            break (line, wire);
        }
        assert!(Instant::now() < deadline, "{line:?} {wire:?}");
    };
    assert!(
        came > 0 && line.lost > 0 && line.bit_errors > 0,
        "{came} {line:?}"
    );
    assert_eq!(wire.received_cells, cells);
    assert_eq!(
        (wire.missing_datagrams, wire.discarded_datagrams.total()),
        (0, 0)
    );
    let stats = control.close(vc.id()).unwrap().stats;
    assert_eq!(stats.cells_transmitted, cells);
    let received = control.stats().unwrap().cells_received;
    assert_eq!(received, line.cells_out);
    assert_eq!(allocations::of_watched_threads(), 0);
}
