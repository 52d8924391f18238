use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use cellgate_core::Time;
use cellgate_core::adapter::{
    Aal, Config, Excess, Notification, OpenRequest, PortConfig, PortIndex, Receive, Transmit,
};
use cellgate_core::contract::CellRate;
use cellgate_core::ring::{AttachmentSizes, SduOptions};
use cellgate_core::wire::{CellFormat, HeaderForm};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::adapter::{AdapterOptions, AdapterThread};
use crate::client::memory_for;
use crate::link::fault::FaultRates;
use crate::sys::{SchedulingRequest, allocations};

/// A time at which a look is due, whenever the one before was.
fn later(now: &mut Time) -> Time {
    *now = now.plus_ns(UdpReceiver::LOOK_EVERY_NS);
    *now
}

fn options(control_word: bool, mtu: u16, v6: bool) -> UdpOptions {
    let local: SocketAddr = match v6 {
        true => "[::1]:0".parse().unwrap(),
        false => "127.0.0.1:0".parse().unwrap(),
    };
    UdpOptions {
        local,
        peer: local,
        source_port: 0,
        peer_source_port: None,
        label_out: 1_001,
        label_in: 1_001,
        control_word,
        mtu,
        pack: None,
        timer_ns: 0,
    }
}

/// Both ends of one direction, each on a free port.
fn pair(control_word: bool, mtu: u16, v6: bool) -> (UdpSender, UdpReceiver) {
    let options = options(control_word, mtu, v6);
    let receiver = UdpReceiver::open(&options).unwrap();
    let peer = receiver.local_address().unwrap();
    let sender = UdpSender::open(&UdpOptions { peer, ..options }).unwrap();
    (sender, receiver)
}

fn random_cells(seed: u64, count: usize) -> Vec<u8> {
    let mut cells = vec![0; count * 52];
    Pcg64Mcg::new((u128::from(seed) << 1) | 1).fill_bytes(&mut cells);
    cells
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
    for (control_word, mtu, v6) in [
        (false, 1_500, false),
        (true, 1_500, false),
        (false, 1_500, true),
        (true, 100, false),
        (false, 65_535, false),
    ] {
        if v6 && UdpSocket::bind("[::1]:0").is_err() {
            continue;
        }
        let (mut sender, mut receiver) = pair(control_word, mtu, v6);
        let mut rng = Pcg64Mcg::new(3);
        let mut sent = 0;
        for round in 0..60 {
            let count = 1 + rng.next_u64() as usize % 400;
            let room = 1 + rng.next_u64() as usize % 300;
            let cells = random_cells(round, count);
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
    for (control_word, mtu, v6, pack) in [
        (false, 1_500, false, 28),
        (true, 1_500, false, 28),
        (false, 1_500, true, 27),
        (true, 1_500, true, 27),
        (false, 84, false, 1),
        (true, 87, false, 0),
        (true, 88, false, 1),
        (false, 9_000, false, 172),
    ] {
        assert_eq!(options(control_word, mtu, v6).cells_per_datagram(), pack);
    }
    let (mut sender, mut receiver) = pair(false, 1_500, false);
    sender.send(&random_cells(1, 28 * 3 + 5));
    sender.flush();
    take(&mut receiver, 28 * 3 + 5, 256);
    assert_eq!(sender.report().sent_datagrams, 4);
    // One call, or one for each datagram where there is no segmentation offload.
    assert!([1, 4].contains(&sender.report().send_calls));
}

#[test]
fn impossible_pseudowires_are_refused() {
    let good = options(false, 1_500, false);
    let refused = |options: UdpOptions| {
        let sender = UdpSender::open(&options).map(|_| ()).unwrap_err();
        let receiver = UdpReceiver::open(&options).map(|_| ()).unwrap_err();
        assert_eq!(sender.to_string(), receiver.to_string());
        sender
    };
    for label in [0, 15, 1 << 20, u32::MAX] {
        let options = UdpOptions {
            label_out: label,
            ..good
        };
        assert!(matches!(refused(options), UdpError::Label(l) if l == label));
    }
    let options = UdpOptions { mtu: 83, ..good };
    assert!(matches!(refused(options), UdpError::Mtu(83)));
    let options = UdpOptions {
        peer: "[::1]:6635".parse().unwrap(),
        ..good
    };
    assert!(matches!(refused(options), UdpError::Versions { .. }));
    let options = UdpOptions {
        local: "192.0.2.1:0".parse().unwrap(),
        ..good
    };
    assert!(matches!(refused(options), UdpError::Kernel { .. }));
}

#[test]
fn packs_no_more_than_it_is_told_and_waits_no_longer_than_its_timer() {
    let good = options(false, 1_500, false);
    let receiver = UdpReceiver::open(&good).unwrap();
    let peer = receiver.local_address().unwrap();
    let options = UdpOptions {
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
    let too_many = UdpOptions {
        pack: NonZeroU16::new(29),
        ..good
    };
    let too_long = UdpOptions {
        timer_ns: UdpOptions::TIMER_NS_MAX + 1,
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

/// Whether packets have a control word, a bad one, and what counts it.
type Bad = (bool, Vec<u8>, fn(&UdpDiscards) -> u64);

#[test]
fn bad_datagrams_are_discarded_by_name() {
    let cell = [1_u8; 52];
    let two = [cell, cell].concat();
    let mut many: Vec<Bad> = Vec::new();
    for control_word in [false, true] {
        many.push((control_word, vec![], |d| d.bad_stack));
        many.push((control_word, vec![0, 0, 1], |d| d.bad_stack));
        // No entry says that it is the last.
        many.push((control_word, vec![0; 1_000], |d| d.bad_stack));
        let other = [&[0, 0x3e, 0x81, 0xff][..], &cell].concat();
        many.push((control_word, other, |d| d.wrong_label));
    }
    many.push((false, datagram(&[]), |d| d.bad_length));
    many.push((false, datagram(&two[..103]), |d| d.bad_length));
    many.push((true, datagram(&[]), |d| d.bad_control_word));
    many.push((true, datagram(&[0, 0, 0]), |d| d.bad_control_word));
    many.push((true, datagram(&[0, 0, 0, 0]), |d| d.bad_length));
    let channel = [&[0x10, 0, 0, 0][..], &cell].concat();
    many.push((true, datagram(&channel), |d| d.bad_control_word));
    let shorter = [&[0, 3, 0, 0][..], &cell].concat();
    many.push((true, datagram(&shorter), |d| d.bad_control_word));
    let odd = [&[0, 0, 0, 0][..], &two[..103]].concat();
    many.push((true, datagram(&odd), |d| d.bad_length));
    for (i, (control_word, octets, count)) in many.into_iter().enumerate() {
        let (mut sender, mut receiver) = pair(control_word, 1_500, false);
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
    for control_word in [false, true] {
        let (_, mut receiver) = pair(control_word, 1_500, false);
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
                    octets.truncate(octets.len() / 52 * 52 + 4 * usize::from(control_word));
                    if let (true, [flags, length, ..]) = (control_word, &mut octets[..]) {
                        *flags &= 0x0f;
                        *length &= 0xc0;
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
    let (_, mut receiver) = pair(true, 1_500, false);
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
    let first = UdpOptions {
        peer_source_port: Some(port(&peers[0])),
        ..options(false, 1_500, false)
    };
    let mut flooded = UdpReceiver::open(&first).unwrap();
    let local = flooded.local_address().unwrap();
    let second = UdpOptions {
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
    let options = UdpOptions {
        peer: "255.255.255.255:6635".parse().unwrap(),
        local: "127.0.0.1:0".parse().unwrap(),
        ..options(true, 1_500, false)
    };
    let mut sender = UdpSender::open(&options).unwrap();
    assert_eq!(sender.send(&random_cells(1, 60)), 60);
    assert!(sender.flush());
    let report = sender.report();
    assert_eq!((report.send_errors, report.dropped_cells), (3, 60));
    assert_eq!((report.sent_cells, sender.staged()), (0, 0));
    assert_eq!(sender.free(), sender.capacity());
}

/// An adapter whose port talks to itself over a pseudowire and gets its cells with faults.
#[test]
fn the_firmware_thread_allocates_nothing_for_pseudowires_and_faults() {
    let port = PortConfig {
        format: CellFormat::NoHec,
        budget: 256,
        discard_unread: false,
        line_rate: CellRate::new(1_000_000).unwrap(),
    };
    let config = Config {
        form: HeaderForm::Nni,
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
    let itself = UdpOptions {
        local: at,
        peer: at,
        source_port: source,
        peer_source_port: Some(source),
        ..options(true, 1_500, false)
    };
    control.pseudowire(PortIndex(0), itself).unwrap();
    let rates = FaultRates {
        loss_ppm: 20_000,
        payload_errors_ppb: 100_000,
        duplication_ppm: 20_000,
        misinsertion_ppm: 20_000,
        misinserted: VpiVci::new(1, 99).unwrap(),
        holds_ppm: 2_000,
        hold_max_ns: 100_000,
        ..FaultRates::none(1, 4_000)
    };
    control.faults(PortIndex(0), Some(rates)).unwrap();
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
            peak: None,
            max_sdu: 2_000,
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
    let (faults, wire) = loop {
        let faults = control.fault_report(PortIndex(0)).unwrap();
        let wire = control.pseudowire_report(PortIndex(0)).unwrap();
        if faults.cells_in == cells && wire.sent_cells == cells {
            break (faults, wire);
        }
        assert!(Instant::now() < deadline, "{faults:?} {wire:?}");
    };
    assert!(
        came > 0 && faults.lost == 80 && faults.inserted == 80,
        "{came} {faults:?}"
    );
    assert_eq!(wire.received_cells, cells);
    assert_eq!(
        (wire.missing_datagrams, wire.discarded_datagrams.total()),
        (0, 0)
    );
    let stats = control.close(vc.id()).unwrap().stats;
    assert_eq!(stats.cells_transmitted, cells);
    let received = control.stats().unwrap().cells_received;
    assert_eq!(
        received,
        cells - faults.lost + faults.duplicated + faults.inserted
    );
    assert_eq!(allocations::of_watched_threads(), 0);
}
