//! Connections: data, contracts, pace, memory, ends.

use std::time::{Duration, Instant};

use crate::common::{Daemon, LINE, PATIENCE, eventually, hears};
use cellgate::{
    Aal, CellRate, Connection, EndReason, Error, Indication, Interest, Notification, Peak, Refused,
    Resource, SduOptions, ServiceCategory, TrafficContract, TrafficDescriptor, Wait,
};
use rustix::process::Pid;
use rustix::thread::gettid;

/// Fast enough that credit is no matter for the SDUs of a test.
const FAST: &str = "cbr,aal5:pcr=400000,max_sdu=8192";

/// An SDU that both ends can make.
fn sdu(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + number * 7) as u8).collect()
}

fn recv(connection: &Connection) -> Vec<u8> {
    let mut buffer = [0; 16_384];
    let received = connection.recv_timeout(&mut buffer, PATIENCE).unwrap();
    assert!(!received.is_truncated());
    buffer[..received.len].to_vec()
}

#[test]
fn sdus_cross_octet_for_octet_with_one_copy_on_either_side() {
    let daemon = Daemon::start();
    let (a, b) = daemon.pair(FAST);
    const SDUS: usize = 300;
    for i in 0..SDUS {
        let sent = sdu(i, 1 + i * 27);
        a.send(&sent).unwrap();
        assert_eq!(recv(&b), sent);
    }
    let (sent, received) = (a.counters(), b.counters());
    assert_eq!((sent.sent, sent.send_copies), (SDUS as u64, SDUS as u64));
    assert_eq!(
        (received.received, received.receive_copies),
        (SDUS as u64, SDUS as u64)
    );
    assert_eq!(received.dismissed, 0);
    assert_eq!((sent.client.lost, received.client.lost), (0, 0));
}

/// The adapter hears of a row once: with its last, when its sender waits, or when it has no room.
#[test]
fn of_a_row_the_adapter_is_told_once() {
    let daemon = Daemon::start();
    let a = daemon.builder("a.0.100", FAST).transmit_pdus(8);
    let b = daemon.builder("b.0.100", FAST).receive_pdus(64);
    let (a, b) = (a.open().unwrap(), b.open().unwrap());
    let more = |n| {
        let mut space = a.try_reserve(40)?;
        space.copy_from_slice(&sdu(n, 40));
        space.submit_more()
    };
    let rung = || a.counters().client.doorbells;
    let before = rung();
    (0..3).for_each(|n| more(n).unwrap());
    assert_eq!(rung(), before);
    a.send(&sdu(3, 40)).unwrap();
    assert_eq!(rung(), before + 1);
    (0..4).for_each(|n| assert_eq!(recv(&b), sdu(n, 40)));
    (0..3).for_each(|n| more(n).unwrap());
    a.flush(PATIENCE).unwrap();
    (0..3).for_each(|n| assert_eq!(recv(&b), sdu(n, 40)));
    // Without a wait, as long as there is room and credit.
    let sent = (0..40).take_while(|n| more(*n).is_ok()).count();
    if sent == 40 {
        // The adapter was still at it.
        a.flush(PATIENCE).unwrap();
    }
    (0..sent).for_each(|n| assert_eq!(recv(&b), sdu(n, 40)));
}

#[test]
fn what_is_lent_crosses_without_a_copy() {
    let daemon = Daemon::start();
    let (a, b) = daemon.pair(FAST);
    const SDUS: usize = 100;
    let mut held = Vec::new();
    for i in 0..SDUS {
        let mut space = a.reserve(1 + i).unwrap();
        space.copy_from_slice(&sdu(i, 1 + i));
        space.submit().unwrap();
        held.push(b.next_pdu_timeout(PATIENCE).unwrap());
        // Four are held at once, released in another order than they came.
        if held.len() == 4 {
            for place in [2, 0, 1, 0] {
                let pdu = held.remove(place);
                let number = pdu.len() - 1;
                assert_eq!(*pdu, sdu(number, number + 1));
            }
        }
    }
    let (sent, received) = (a.counters(), b.counters());
    assert_eq!((sent.sent, sent.send_copies), (SDUS as u64, 0));
    assert_eq!(
        (received.received, received.receive_copies),
        (SDUS as u64, 0)
    );
}

#[test]
fn counters_are_right_while_a_space_is_borrowed() {
    let daemon = Daemon::start();
    let (a, _b) = daemon.pair(FAST);
    a.send(&[1; 10]).unwrap();
    let space = a.reserve(10).unwrap();
    let counted = a.counters();
    assert_eq!((counted.sent, counted.send_copies), (1, 1));
    space.submit().unwrap();
    assert_eq!((a.counters().sent, a.counters().send_copies), (2, 1));
}

#[test]
fn a_contract_made_of_fields_is_the_one_in_words() {
    let one_way = TrafficDescriptor {
        pcr: CellRate::new(400_000).map(Peak::Rate),
        max_sdu: 8_192.try_into().ok(),
        ..TrafficDescriptor::default()
    };
    let contract = TrafficContract {
        aal: Some(Aal::Aal5),
        transmit: Some(one_way),
        receive: Some(one_way),
        ..TrafficContract::new(ServiceCategory::Cbr)
    };
    let daemon = Daemon::start();
    let made = daemon.builder("a.0.100", "ubr").contract(contract).open();
    let written = daemon.open("a.0.101", FAST);
    assert_eq!(made.unwrap().contract(), written.contract());
}

#[test]
fn what_turns_out_shorter_costs_what_it_is_wherever_the_ring_wraps() {
    let daemon = Daemon::start();
    let builder = daemon
        .builder("a.0.100", "cbr,aal5:pcr=40000,max_sdu=4000")
        .transmit_pdus(2);
    let a = builder.open().unwrap();
    let b = daemon.open("b.0.100", "cbr,aal5:pcr=40000,max_sdu=4000");
    for i in 1..=400 {
        let mut space = a.reserve(4_000).unwrap();
        space[..i].copy_from_slice(&sdu(i, i));
        space.truncate(i);
        // No more than there is.
        space.truncate(4_000);
        assert_eq!(space.len(), i);
        space.submit().unwrap();
        assert_eq!(recv(&b), sdu(i, i));
    }
    let mut space = a.reserve(4_000).unwrap();
    space.truncate(0);
    assert!(matches!(space.submit(), Err(Error::Empty)));
    assert_eq!(a.counters().sent, 400);
}

#[test]
fn what_is_given_back_of_a_space_can_be_sent_in_the_same_interval() {
    let daemon = Daemon::start();
    // 10 PDUs of 4,000 octets, 84 cells each, in 8.4 s.
    let a = daemon.open("a.0.100", "cbr,aal5:pcr=100,max_sdu=4000");
    for _ in 0..100 {
        let mut space = a.try_reserve(4_000).unwrap();
        space.truncate(0);
    }
    a.try_reserve(4_000).unwrap().submit().unwrap();
    assert_eq!(a.counters().suspended, 0);
}

#[test]
fn a_borrowed_space_keeps_nobody_from_receiving_and_is_the_only_one() {
    let daemon = Daemon::start();
    let (a, b) = daemon.pair(FAST);
    let mut space = a.reserve(3).unwrap();
    b.send(b"inbound").unwrap();
    assert_eq!(recv(&a), b"inbound");
    assert!(matches!(a.try_send(b"x"), Err(Error::SpaceBorrowed)));
    assert!(matches!(a.set_contract(FAST), Err(Error::SpaceBorrowed)));
    space.copy_from_slice(b"abc");
    space.submit().unwrap();
    assert_eq!(recv(&b), b"abc");
    drop(a.reserve(5).unwrap());
    a.send(b"after").unwrap();
    assert_eq!(recv(&b), b"after");
}

#[test]
fn what_goes_along_with_an_sdu_arrives() {
    let daemon = Daemon::start();
    let (a, b) = daemon.pair(FAST);
    let options = SduOptions {
        uu: 0x5a,
        cpi: 0,
        clp: true,
        mid: 0,
    };
    a.send_with(b"with", options).unwrap();
    let mut short = [0; 2];
    let received = b.recv_timeout(&mut short, PATIENCE).unwrap();
    assert_eq!(
        (received.uu, received.clp, received.congestion),
        (0x5a, true, false)
    );
    assert_eq!(
        (received.len, received.sdu_len, received.is_truncated()),
        (2, 4, true)
    );
    assert_eq!(&short, b"wi");
    a.try_send_with(b"again", SduOptions::default()).unwrap();
    assert!(!b.next_pdu_timeout(PATIENCE).unwrap().received().clp);
}

#[test]
fn bad_sdus_are_errors_and_send_nothing() {
    let daemon = Daemon::start();
    let a = daemon.open("a.0.100", "cbr,aal5:tx:pcr=1000,max_sdu=100,rx:none");
    assert!(matches!(a.send(b""), Err(Error::Empty)));
    for len in [101, 65_535, 65_536, 1 << 20] {
        let refused = a.send(&vec![0; len]);
        assert!(matches!(refused, Err(Error::TooLong { len: l, max: 100 }) if l == len));
    }
    let cells = daemon.open("a.0.101", "cbr,aal0:tx:pcr=1000,rx:none");
    for len in [1, 48, 51] {
        let refused = cells.send(&vec![0; len]);
        assert!(matches!(refused, Err(Error::NotACell { len: l }) if l == len));
        let mut space = cells.reserve(52).unwrap();
        space.truncate(len);
        assert!(matches!(space.submit(), Err(Error::NotACell { len: l }) if l == len));
    }
    cells.send(&[0; 52]).unwrap();
    assert!(matches!(a.recv(&mut [0; 10]), Err(Error::DoesNotReceive)));
    assert!(matches!(a.next_pdu(), Err(Error::DoesNotReceive)));
    assert_eq!(
        (a.transmit_max_sdu(), a.receive_max_sdu()),
        (Some(100), None)
    );
    let b = daemon.open("b.0.100", "cbr,aal5:tx:none,rx:pcr=1000,max_sdu=100");
    assert!(matches!(b.send(b"x"), Err(Error::DoesNotSend)));
    assert_eq!(a.counters().sent, 0);
}

#[test]
fn refusals_say_what_admission_said() {
    let daemon = Daemon::start();
    let open = |address, contract| daemon.builder(address, contract).open().unwrap_err();
    let Error::Refused(Refused::Admission(shortage)) = open("a.0.5", "cbr,aal5:pcr=2000000") else {
        panic!("more than the line was admitted");
    };
    assert_eq!(shortage.resource, Resource::TransmitBandwidth);
    assert_eq!((shortage.needed, shortage.free), (2_000_000, 1_000_000));
    let offer = shortage.offer.unwrap();
    assert_eq!(daemon.open("a.0.5", &offer).contract(), offer);

    let refused = open("a.0.6", "cbr,aal5:pcr=x");
    assert!(
        matches!(refused, Error::Refused(Refused::Contract { at: 13, .. })),
        "{refused}"
    );
    assert!(matches!(open("a.0.99999", "ubr,aal5"), Error::Address(_)));
    assert!(matches!(
        open("c.0.6", "ubr,aal5"),
        Error::Refused(Refused::NoInterface)
    ));
}

#[test]
fn no_server_is_said_with_its_path_and_what_to_do() {
    let nowhere = Connection::builder().socket("/nonexistent/cellgate.sock");
    let error = nowhere.address("0.100").open().unwrap_err();
    let text = error.to_string();
    for part in [
        "/nonexistent/cellgate.sock",
        "cellgate serve",
        "CELLGATE_SOCKET",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let long = "x".repeat(200);
    let error = Connection::builder().socket(long).address("0.100").open();
    assert!(matches!(error, Err(Error::NoServer { .. })));
}

#[test]
fn a_writer_is_suspended_until_the_next_interval_and_keeps_its_rate() {
    let daemon = Daemon::start();
    // 2,000 cells/s of single-cell PDUs: 40 octets each, a credit of 10 PDUs in 5 ms.
    let contract = "cbr,aal5:pcr=2000,max_sdu=40";
    let a = daemon
        .builder("a.0.100", contract)
        .transmit_pdus(100)
        .open()
        .unwrap();
    let b = daemon.open("b.0.100", contract);
    const SDUS: usize = 400;
    let reader = std::thread::spawn(move || {
        for i in 0..SDUS {
            assert_eq!(recv(&b), sdu(i, 40));
        }
        b
    });
    let mut calls = Vec::new();
    for i in 0..SDUS {
        let before = Instant::now();
        a.send(&sdu(i, 40)).unwrap();
        calls.push((before, Instant::now()));
    }
    let b = reader.join().unwrap();
    // However long anything took: what k + 1 intervals touch is at most k + 2 credits and a PDU;
    // where a writer comes late, those of 30 ms before, too, but never more since the first.
    for (i, (first, _)) in calls.iter().enumerate() {
        let before = if i == 0 { 0 } else { 6 };
        for (n, (_, last)) in calls[i..].iter().enumerate() {
            let intervals = (*last - *first).as_micros() / 5_000;
            let credits = intervals + 2 + before;
            assert!((n as u128) <= 10 * credits, "{i} to {}", i + n);
        }
    }
    assert!(a.counters().suspended > 0, "{:?}", a.counters());
    assert_eq!(b.dismissed(), 0);

    let blocked = loop {
        match a.try_send(&sdu(0, 40)) {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    let Error::WouldBlock(Wait::Credit(after)) = blocked else {
        panic!("{blocked}");
    };
    assert!(after <= Duration::from_millis(5), "{after:?}");
    let timed_out = loop {
        match a.send_timeout(&sdu(0, 40), Duration::from_micros(1)) {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(timed_out, Error::TimedOut));
}

#[test]
fn a_full_ring_blocks_until_the_adapter_has_sent() {
    let daemon = Daemon::start();
    for completions in [true, false] {
        // 8,192 octets, 171 cells, take 17 ms to leave; there is credit for ten such at once.
        let contract = "cbr,aal5:pcr=10000,max_sdu=8192";
        let a = daemon.builder("a.0.100", contract).transmit_pdus(2);
        let a = a.completions(completions).open().unwrap();
        let b = daemon.builder("b.0.100", contract).receive_pdus(64);
        let b = b.open().unwrap();
        let mut sent = 0;
        for _ in 0..3 {
            let full = loop {
                match a.try_send(&sdu(sent, 8_192)) {
                    Ok(()) => sent += 1,
                    Err(full) => break full,
                }
            };
            assert!(matches!(full, Error::WouldBlock(Wait::Room)), "{full}");
            a.send(&sdu(sent, 8_192)).unwrap();
            sent += 1;
        }
        a.flush(PATIENCE).unwrap();
        let stats = a.close(PATIENCE).unwrap();
        assert_eq!(stats.pdus_transmitted, sent as u64);
        (0..sent).for_each(|i| assert_eq!(recv(&b), sdu(i, 8_192)));
        b.close(PATIENCE).unwrap();
    }
}

#[test]
fn received_pdus_beyond_credit_and_tolerance_are_dismissed_and_counted() {
    let daemon = Daemon::start();
    let a = daemon.open("a.0.100", "ubr,aal5:tx:max_sdu=40,rx:none");
    // Policed by its buffer only: what is beyond the rate reaches the library.
    let contract = "cbr,aal5:police=buffer,tx:none,rx:pcr=1000,max_sdu=40";
    let b = daemon
        .builder("b.0.100", contract)
        .receive_pdus(4_000)
        .open()
        .unwrap();
    const SDUS: u64 = 2_000;
    for i in 0..SDUS {
        a.send(&sdu(i as usize, 40)).unwrap();
    }
    a.flush(PATIENCE).unwrap();
    let mut taken = 0;
    let mut buffer = [0; 40];
    while let Ok(received) = b.recv_timeout(&mut buffer, Duration::from_millis(200)) {
        assert_eq!(received.len, 40);
        taken += 1;
    }
    assert_eq!(taken + b.dismissed(), SDUS);
    assert!(b.dismissed() > SDUS / 2, "{}", b.dismissed());
    // Two credits of 10 PDUs, one PDU, and 30 ms at the rate: 51; the rest is the rate's.
    assert!(taken >= 51, "{taken}");
}

/// Sends `sdus` SDUs from `a`, has something change, and then reads all of them at `b`.
fn all_is_read_after(change: impl FnOnce(&Daemon, &Connection), contract: &str) {
    const SDUS: usize = 2_000;
    let daemon = Daemon::start();
    let a = daemon.open("a.0.100", "ubr,aal5:tx:max_sdu=40,rx:none");
    let b = daemon.builder("b.0.100", contract).receive_pdus(4_000);
    let b = b.open().unwrap();
    (0..SDUS).for_each(|i| a.send(&sdu(i, 40)).unwrap());
    a.flush(PATIENCE).unwrap();
    change(&daemon, &b);
    (0..SDUS).for_each(|i| assert_eq!(recv(&b), sdu(i, 40)));
    assert_eq!(b.dismissed(), 0);
}

#[test]
fn what_was_sent_under_a_larger_share_is_read_after_it_has_shrunk() {
    let mut others = Vec::new();
    let shrinks = |daemon: &Daemon, b: &Connection| {
        for vci in 101..104 {
            others.push(daemon.open(&format!("b.0.{vci}"), "ubr,aal5:tx:none,rx:max_sdu=40"));
        }
        hears(b, |told| {
            let Indication::Share { receive, .. } = told else {
                return false;
            };
            receive.is_some_and(|rate| rate.cell_s() <= LINE / 4)
        });
    };
    all_is_read_after(shrinks, "ubr,aal5:tx:none,rx:max_sdu=40");
}

#[test]
fn what_arrived_under_a_contract_is_read_under_the_next() {
    let contract = "cbr,aal5:police=buffer,tx:none,rx:pcr=300000,max_sdu=40";
    let shrinks =
        |_: &Daemon, b: &Connection| b.set_contract(&contract.replace("300000", "10")).unwrap();
    all_is_read_after(shrinks, contract);
}

#[test]
fn a_contract_changes_without_losing_anything() {
    let daemon = Daemon::start();
    let (a, b) = daemon.pair("cbr,aal5:pcr=10000,max_sdu=1000");
    let memory = || [&a, &b].map(|end| end.info().unwrap().memory);
    let mut sent = 0;
    for round in 0..6 {
        // Longer SDUs take other memory, another rate alone does not.
        let renew = round % 3 != 2;
        let before = memory();
        for _ in 0..5 {
            a.send(&sdu(sent, 900)).unwrap();
            sent += 1;
        }
        let held = b.next_pdu_timeout(PATIENCE).unwrap();
        // What was sent under the old contract is read after the change, and what is held stays.
        let contract = match renew {
            true => format!(
                "cbr,aal5:pcr={},max_sdu={}",
                20_000 + round,
                1_000 + 500 * round
            ),
            false => format!("cbr,aal5:pcr={},max_sdu=1000", 9_000 + round),
        };
        a.set_contract(&contract).unwrap();
        b.set_contract(&contract).unwrap();
        assert_eq!(a.contract(), contract);
        let is_other = |(before, after)| before != after;
        let is_renewed = before.into_iter().zip(memory()).all(is_other);
        assert_eq!(is_renewed, renew, "round {round}");
        a.send(&sdu(sent, 950)).unwrap();
        sent += 1;
        assert_eq!(*held, sdu(sent - 6, 900));
        drop(held);
        for i in sent - 5..sent - 1 {
            assert_eq!(recv(&b), sdu(i, 900));
        }
        assert_eq!(recv(&b), sdu(sent - 1, 950));
    }
    let refused = a.set_contract("cbr,aal5:pcr=9999999").unwrap_err();
    assert!(
        matches!(refused, Error::Refused(Refused::Admission(_))),
        "{refused}"
    );
    assert_eq!(a.contract(), "cbr,aal5:pcr=9005,max_sdu=1000");
    a.send(b"still").unwrap();
    assert_eq!(recv(&b), b"still");
}

#[test]
fn an_offer_is_taken_or_left() {
    const MORE: &str = "cbr,aal5:pcr=100000,max_sdu=2000";
    let daemon = Daemon::start();
    let a = daemon.open("a.0.100", "cbr,aal5:pcr=1000,max_sdu=1000");
    assert!(a.accept_offer().unwrap_err().is_would_block());
    let is_offered = || {
        let other = daemon.open("a.0.101", "cbr,aal5:pcr=950000");
        let refused = a.set_contract(MORE).unwrap_err();
        assert!(matches!(refused, Error::Refused(Refused::Admission(_))));
        other.close(PATIENCE).unwrap();
        let offer = Indication::CanGrow {
            contract: MORE.to_owned(),
        };
        hears(&a, |told| *told == offer);
    };
    is_offered();
    a.decline_offer().unwrap();
    assert!(a.decline_offer().unwrap_err().is_would_block());
    assert_eq!(a.contract(), "cbr,aal5:pcr=1000,max_sdu=1000");
    is_offered();
    a.accept_offer().unwrap();
    assert_eq!(a.contract(), MORE);
    assert_eq!(a.transmit_max_sdu(), Some(2_000));
}

#[test]
fn a_restarted_adapter_costs_the_gap_and_no_more() {
    let daemon = Daemon::start();
    let (a, b) = daemon.pair(FAST);
    a.send(b"before").unwrap();
    assert_eq!(recv(&b), b"before");
    a.send(b"unread").unwrap();
    a.flush(PATIENCE).unwrap();
    let unread = b.next_pdu_timeout(PATIENCE).unwrap();
    let mut space = a.reserve(4).unwrap();
    space.copy_from_slice(b"lost");
    daemon.kill_adapter();
    for connection in [&a, &b] {
        hears(connection, |told| matches!(told, Indication::Reopened(_)));
    }
    assert!(matches!(space.submit(), Err(Error::SpaceLost)));
    // What was held before is still there, and new SDUs cross.
    for i in 0..200 {
        a.send(&sdu(i, 100 + i)).unwrap();
        assert_eq!(recv(&b), sdu(i, 100 + i));
        b.send(&sdu(i, 200 + i)).unwrap();
        assert_eq!(recv(&a), sdu(i, 200 + i));
    }
    assert_eq!(*unread, *b"unread");
}

#[test]
fn a_reader_that_sleeps_hears_of_the_new_adapter() {
    let daemon = Daemon::start();
    let (a, b) = daemon.pair(FAST);
    let reader = std::thread::spawn(move || recv(&b));
    daemon.kill_adapter();
    hears(&a, |told| matches!(told, Indication::Reopened(_)));
    // The reader's end may be opened again after the first SDU was sent.
    eventually("the reader sleeps on", || {
        a.send(b"awake").unwrap();
        reader.is_finished().then_some(())
    });
    assert_eq!(reader.join().unwrap(), b"awake");
}

/// Waits until a thread of this process waits for something.
fn sleeps(thread: Pid) {
    let path = format!("/proc/self/task/{}/status", thread.as_raw_nonzero());
    eventually("the thread runs on", || {
        let status = std::fs::read_to_string(&path).unwrap();
        status.contains("State:\tS").then_some(())
    });
}

#[test]
fn a_request_that_a_dying_server_forgot_is_asked_again() {
    let mut daemon = Daemon::start();
    let a = daemon.open("a.0.100", "cbr,aal5:pcr=1000,max_sdu=1000");
    let (tell, told) = std::sync::mpsc::channel();
    daemon.stop();
    let asking = std::thread::spawn(move || {
        tell.send(gettid()).unwrap();
        a.set_contract("cbr,aal5:pcr=1500,max_sdu=1000").unwrap();
        a
    });
    // It has said what it wants.
    sleeps(told.recv().unwrap());
    daemon.kill();
    daemon.restart();
    let a = asking.join().unwrap();
    assert_eq!(a.contract(), "cbr,aal5:pcr=1500,max_sdu=1000");
    assert_eq!(a.next_indication().unwrap(), Some(Indication::Restarted));
    assert_eq!(a.next_indication().unwrap(), None);
}

#[test]
fn what_was_received_is_read_before_the_end_is_told() {
    let daemon = Daemon::start();
    let mut admin = daemon.admin();
    admin.add(&daemon.builder("b.0.100", FAST)).unwrap();
    let b = daemon.builder("b.0.100", "").take().unwrap();
    let a = daemon.open("a.0.100", FAST);
    for i in 0..3 {
        a.send(&sdu(i, 50)).unwrap();
    }
    daemon.delivers(&a);
    admin.delete("b.0.100").unwrap();
    hears(&b, |told| *told == Indication::Ended(EndReason::Deleted));
    for i in 0..3 {
        assert_eq!(recv(&b), sdu(i, 50));
    }
    assert!(matches!(
        b.recv(&mut [0; 50]),
        Err(Error::Ended(EndReason::Deleted))
    ));
    assert!(matches!(
        b.send(b"x"),
        Err(Error::Ended(EndReason::Deleted))
    ));
}

#[test]
fn a_server_that_hangs_up_ends_the_connection_for_sleepers_too() {
    let mut daemon = Daemon::start();
    let (a, b) = daemon.pair(FAST);
    let (tell, told) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        tell.send(gettid()).unwrap();
        b.recv(&mut [0; 10]).unwrap_err()
    });
    sleeps(told.recv().unwrap());
    // Both have the sockets.
    daemon.kill();
    daemon.kill_adapter();
    let end = reader.join().unwrap();
    assert!(matches!(end, Error::Closed), "{end}");
    let end = a.next_indication_timeout(PATIENCE).unwrap_err();
    assert!(matches!(end, Error::Closed), "{end}");
    assert!(matches!(a.send(b"x"), Err(Error::Closed)));
    assert!(matches!(a.stats(), Err(Error::Closed)));
    // A descriptor that is readable for ever would make its poller spin.
    assert!(!a.arm(Interest::RECEIVE).unwrap());
}

#[test]
fn a_connection_is_taken_over_by_its_capability() {
    let daemon = Daemon::start();
    let (a, b) = daemon.pair(FAST);
    let socket = || daemon.builder("a.0.100", "");
    let other = socket().reattach(b.capability().unwrap()).unwrap_err();
    assert!(
        matches!(other, Error::Refused(Refused::Descriptors(_))),
        "{other}"
    );
    let taken = socket().reattach(a.capability().unwrap()).unwrap();
    assert!(matches!(
        a.next_indication_timeout(PATIENCE).unwrap(),
        Indication::Ended(EndReason::TakenOver)
    ));
    taken.send(b"taken").unwrap();
    assert_eq!(recv(&b), b"taken");
}

#[test]
fn what_another_process_may_have_changed_is_a_copy() {
    let daemon = Daemon::start();
    let (a, b) = daemon.pair(FAST);
    let copies = |b: &Connection| b.counters().receive_copies;
    a.send(b"held").unwrap();
    let held = b.next_pdu_timeout(PATIENCE).unwrap();
    assert!(matches!(b.capability(), Err(Error::PdusHeld)));
    drop(held);
    let space = b.reserve(8).unwrap();
    assert!(matches!(b.capability(), Err(Error::SpaceBorrowed)));
    drop(space);
    let capability = b.capability().unwrap();
    let mut space = b.reserve(8).unwrap();
    space.copy_from_slice(b"by a way");
    space.submit().unwrap();
    assert_eq!(recv(&a), b"by a way");
    let before = copies(&b);
    a.send(b"as before").unwrap();
    let held = b.next_pdu_timeout(PATIENCE).unwrap();
    let taken = daemon.builder("b.0.100", "").reattach(capability).unwrap();
    // The other gives it back, and its place is used again.
    for _ in 0..100 {
        a.send(b"what comes behind").unwrap();
        let one = taken.next_pdu_timeout(PATIENCE).unwrap();
        assert!(*one == *b"what comes behind" || *one == *b"as before");
    }
    assert_eq!(*held, *b"as before");
    assert_eq!(copies(&b), before, "no call has copied it into a buffer");
}

#[test]
fn a_reader_that_no_event_tells_looks_by_itself() {
    let daemon = Daemon::start();
    let a = daemon.open("a.0.100", FAST);
    for notification in [Notification::Polled, Notification::FirstCell] {
        let b = daemon.builder("b.0.100", FAST).notification(notification);
        let b = b.open().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            tell.send(gettid()).unwrap();
            (recv(&b), b)
        });
        sleeps(told.recv().unwrap());
        a.send(&sdu(1, 3_000)).unwrap();
        let (received, b) = reader.join().unwrap();
        assert_eq!(received, sdu(1, 3_000));
        b.close(PATIENCE).unwrap();
    }
}

#[test]
fn stats_are_this_connections() {
    let daemon = Daemon::start();
    let (a, b) = daemon.pair(FAST);
    for i in 0..7 {
        a.send(&sdu(i, 100)).unwrap();
        recv(&b);
    }
    // As of the server's last report.
    let counted = |end: &Connection| {
        eventually("nothing is counted", || {
            let stats = end.stats().unwrap();
            (stats.pdus_transmitted + stats.pdus_delivered >= 7).then_some(stats)
        })
    };
    let (sent, received) = (counted(&a), counted(&b));
    assert_eq!((sent.pdus_transmitted, sent.pdus_delivered), (7, 0));
    assert_eq!((received.pdus_transmitted, received.pdus_delivered), (0, 7));
    assert_eq!(a.info().unwrap().contract, a.contract());
    assert_eq!(a.server().pid, daemon.pid().as_raw_pid() as u32);
}

#[test]
fn who_never_waits_loses_no_event() {
    let daemon = Daemon::start();
    let (a, b) = daemon.pair(FAST);
    let mut buffer = [0; 100];
    // One at a time, more than the event queues have room for.
    for i in 0..2_000 {
        while let Err(error) = a.try_send(&sdu(i, 100)) {
            assert!(error.is_would_block(), "{error}");
        }
        while let Err(error) = b.try_recv(&mut buffer) {
            assert!(error.is_would_block(), "{error}");
        }
    }
    for connection in [a, b] {
        // Looks whether any was lost.
        connection.arm(Interest::SENT).unwrap();
        let client = connection.counters().client;
        assert_eq!(client.lost, 0, "{client:?}");
    }
}

#[test]
fn the_space_of_a_dropped_pdu_is_used_again() {
    let daemon = Daemon::start();
    let (a, b) = daemon.pair("cbr,aal5:pcr=2000,max_sdu=40");
    // Many times what the buffer has room for.
    for i in 0..500 {
        a.send(&sdu(i, 40)).unwrap();
        let pdu = b.next_pdu_timeout(PATIENCE).unwrap();
        assert_eq!(*pdu, sdu(i, 40));
    }
}

/// What has no room whole is refused at its first cell, and no other size leaves.
#[test]
fn a_committed_size_is_kept_to_and_what_has_no_room_is_refused_at_once() {
    let daemon = Daemon::start();
    let (a, b) = daemon.pair("ubr,aal5:max_sdu=1000,fixed");
    for len in [1, 999] {
        let error = a.send(&vec![1; len]).unwrap_err();
        assert!(
            matches!(error, Error::NotFixed { len: l, size: 1_000 } if l == len),
            "{error}"
        );
    }
    let mut space = a.reserve(1_000).unwrap();
    space.truncate(10);
    let shorter = space.submit().unwrap_err();
    assert!(matches!(shorter, Error::NotFixed { len: 10, .. }));
    for _ in 0..4_000 {
        a.send(&[1; 1_000]).unwrap();
    }
    daemon.delivers(&a);
    let stats = b.close(PATIENCE).unwrap();
    let lost = stats.pdus_discarded.total();
    assert!(lost > 0, "{stats:?}");
    // Without the committed size cells are held until the buffer ends.
    assert_eq!(stats.cells_discarded.total(), lost * 21, "{stats:?}");
    assert_eq!(stats.pdus_delivered + lost, 4_000);
}
