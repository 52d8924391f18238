//! Over the real daemon: kills, changes of contract, permanent connections.

use std::time::{Duration, Instant};

use crate::common::{Daemon, PATIENCE, hears};
use cellgate::{Connection, Error, Indication, Interest, Notification, Refused, Resource};
use rustix::process::{Signal, kill_process};

const SENDS: &str = "cbr,aal5:tx:pcr=20000,max_sdu=1000,rx:none";
const RECEIVES: &str = "cbr,aal5:tx:none,rx:pcr=20000,max_sdu=1000";

/// Both ends of a connection that goes one way.
fn pair(daemon: &Daemon) -> (Connection, Connection) {
    (
        daemon.open("a.0.100", SENDS),
        daemon.open("b.0.100", RECEIVES),
    )
}

fn crosses(a: &Connection, b: &Connection, sdu: &[u8]) {
    let mut buffer = [0; 4_000];
    a.send(sdu).unwrap();
    let received = b.recv_timeout(&mut buffer, PATIENCE).unwrap();
    assert_eq!(&buffer[..received.len], sdu);
}

#[test]
fn sdus_cross_contracts_change_and_refusals_offer_what_fits() {
    let daemon = Daemon::start();
    let (a, b) = pair(&daemon);
    for i in 0..300_usize {
        crosses(&a, &b, &vec![i as u8; 1 + i * 3]);
    }
    assert_eq!(
        (a.counters().send_copies, b.counters().receive_copies),
        (300, 300)
    );
    assert_eq!(b.dismissed(), 0);
    b.set_contract("cbr,aal5:tx:none,rx:pcr=30000,max_sdu=4000")
        .unwrap();
    a.set_contract("cbr,aal5:tx:pcr=30000,max_sdu=4000,rx:none")
        .unwrap();
    assert_eq!(a.transmit_max_sdu(), Some(4_000));
    for i in 0..20 {
        crosses(&a, &b, &[i; 4_000]);
    }
    let refused = daemon
        .builder("a.0.101", "cbr,aal5:tx:pcr=100000000,rx:none")
        .open();
    let Err(Error::Refused(Refused::Admission(shortage))) = refused else {
        panic!("{refused:?}");
    };
    let offer = shortage.offer.unwrap();
    let offered = daemon.builder("a.0.101", &offer).open().unwrap();
    assert_eq!(offered.contract(), offer);
    assert_eq!(a.close(PATIENCE).unwrap().pdus_transmitted, 320);
}

#[test]
fn a_key_frame_leaves_at_the_peak_rate_and_its_reader_polices_nothing_away() {
    const SDU: usize = 4_096;
    // 946 of the 1,000 cells that a burst may have: 47 ms at PCR, 1,183 ms at SCR. What an adapter
    // stands still for is lost, beyond CDVT.
    const FRAME: usize = 11;
    let terms = "pcr=20000,scr=800,mbs=1000,max_sdu=4096";
    let daemon = Daemon::start();
    let a = daemon.open("a.0.100", &format!("vbr,aal5:tx:{terms},rx:none"));
    let b = daemon.open("b.0.100", &format!("vbr,aal5:tx:none,rx:{terms}"));
    // Between the adapter's stamps of the first PDU's arrival and the last's.
    let frame_ms = |number: u8| {
        (0..FRAME).for_each(|_| a.send(&[number; SDU]).unwrap());
        let mut buffer = [0; SDU];
        let times: Vec<u64> = (0..FRAME)
            .map(|_| {
                let received = b.recv_timeout(&mut buffer, PATIENCE).unwrap();
                assert_eq!(buffer, [number; SDU]);
                received.time.ns()
            })
            .collect();
        (times[FRAME - 1] - times[0]) / 1_000_000
    };
    let first = frame_ms(0);
    std::thread::sleep(Duration::from_millis(1_300));
    // The burst is regained; and it is not without the pause.
    let (second, third) = (frame_ms(1), frame_ms(2));
    let all = [first, second, third];
    assert!(first.max(second) < 600 && third > 800, "{all:?} ms");
    let stats = b.close(PATIENCE).unwrap();
    assert_eq!(stats.pdus_delivered, 3 * FRAME as u64, "{stats:?}");
    assert_eq!(stats.cells_discarded.total(), 0, "{stats:?}");
}

#[test]
fn a_change_that_is_confirmed_too_late_is_in_force_all_the_same() {
    // However the confirm is heard: who arms is told to try again.
    is_in_force_late(|b| {
        let none = b.recv_timeout(&mut [0; 4_000], Duration::from_millis(20));
        assert!(matches!(none, Err(Error::TimedOut)), "{none:?}");
        b.contract().contains("max_sdu=4000")
    });
    is_in_force_late(|b| {
        std::thread::sleep(Duration::from_millis(5));
        let armed = b.arm(Interest::RECEIVE).unwrap();
        let in_force = b.contract().contains("max_sdu=4000");
        assert!(!(armed && in_force));
        in_force
    });
}

fn is_in_force_late(hears: impl Fn(&Connection) -> bool) {
    let daemon = Daemon::start();
    let a = daemon.builder("a.0.100", SENDS).open().unwrap();
    let patience = Duration::from_millis(300);
    let b = daemon.builder("b.0.100", RECEIVES).patience(patience);
    let b = b.open().unwrap();
    crosses(&a, &b, b"before");
    daemon.stop();
    // With other memory.
    let larger = "cbr,aal5:tx:none,rx:pcr=30000,max_sdu=4000";
    let late = b.set_contract(larger);
    kill_process(daemon.pid(), Signal::CONT).unwrap();
    assert!(matches!(late, Err(Error::TimedOut)), "{late:?}");
    let deadline = Instant::now() + PATIENCE;
    while !hears(&b) {
        assert!(Instant::now() < deadline, "{}", b.contract());
    }
    a.set_contract("cbr,aal5:tx:pcr=30000,max_sdu=4000,rx:none")
        .unwrap();
    for i in 0..20 {
        crosses(&a, &b, &[i; 4_000]);
    }
}

#[test]
fn a_killed_daemon_stops_no_data_and_its_successor_answers() {
    let mut daemon = Daemon::start();
    let (a, b) = pair(&daemon);
    crosses(&a, &b, b"before");
    daemon.kill();
    for i in 0..200 {
        crosses(&a, &b, &[i; 700]);
    }
    daemon.restart();
    for connection in [&a, &b] {
        hears(connection, |told| *told == Indication::Restarted);
    }
    b.set_contract("cbr,aal5:tx:none,rx:pcr=25000,max_sdu=1500")
        .unwrap();
    a.set_contract("cbr,aal5:tx:pcr=25000,max_sdu=1500,rx:none")
        .unwrap();
    crosses(&a, &b, &[7; 1_500]);
    assert_eq!(b.counters().received, 202);
}

#[test]
fn a_killed_adapter_costs_the_gap_and_no_more() {
    let mut daemon = Daemon::start();
    let (a, b) = pair(&daemon);
    crosses(&a, &b, b"before");
    daemon.kill_adapter();
    for connection in [&a, &b] {
        hears(connection, |told| matches!(told, Indication::Reopened(_)));
    }
    for i in 0..200 {
        crosses(&a, &b, &[i; 700]);
    }
    // Of its memory the next daemon tells once more, in case that this one could not.
    daemon.kill();
    daemon.restart();
    for connection in [&a, &b] {
        hears(connection, |told| *told == Indication::Restarted);
    }
    a.set_contract(&a.contract()).unwrap();
    for i in 0..200 {
        crosses(&a, &b, &[i; 600]);
    }
    assert_eq!(b.counters().received, 401);
}

#[test]
fn a_permanent_connection_is_taken_given_back_and_taken_again() {
    let daemon = Daemon::start();
    let mut admin = daemon.admin();
    let contract = admin.add(&daemon.builder("b.0.7", RECEIVES)).unwrap();
    let a = daemon.builder("a.0.7", SENDS).open().unwrap();
    let taking = daemon.builder("b.0.7", "");
    for round in 0..3 {
        let taken = loop {
            match taking.take() {
                Ok(taken) => break taken,
                // The former socket's end may not be noticed yet.
                Err(Error::Refused(Refused::InUse)) => {}
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(taken.contract(), contract);
        for i in 0..50 {
            crosses(&a, &taken, &[round, i]);
        }
    }
    admin.delete("b.0.7").unwrap();
}

#[test]
fn a_reader_of_a_taken_connection_misses_nothing_however_that_was_made() {
    let daemon = Daemon::start();
    let mut admin = daemon.admin();
    let a = daemon.builder("a.0.7", SENDS).open().unwrap();
    let made = daemon.builder("b.0.7", RECEIVES);
    let taking = daemon.builder("b.0.7", "");
    let looks = [
        (Notification::Polled, true),
        (Notification::FirstCell, true),
        (Notification::LastCell, false),
    ];
    for ((notification, looks), over) in looks.iter().flat_map(|one| [(*one, false), (*one, true)])
    {
        admin.add(&made.clone().notification(notification)).unwrap();
        let mut taken = taking.take().unwrap();
        if over {
            taken = taking.reattach(taken.capability().unwrap()).unwrap();
        }
        let mut buffer = [0; 1_000];
        let reader = std::thread::spawn(move || {
            let read = taken.recv_timeout(&mut buffer, PATIENCE);
            (read, sleeps())
        });
        std::thread::sleep(Duration::from_millis(200));
        let from = Instant::now();
        a.send(&[7; 500]).unwrap();
        let (read, sleeps) = reader.join().unwrap();
        assert_eq!(read.unwrap().len, 500);
        assert!(from.elapsed() < Duration::from_secs(1), "{notification:?}");
        // Who is told need not look.
        assert!(looks || sleeps < 20, "{notification:?}: {sleeps}");
        admin.delete("b.0.7").unwrap();
    }
}

#[test]
fn a_sender_on_a_taken_connection_is_told_what_has_left() {
    let daemon = Daemon::start();
    // A PDU of 500 octets, 11 cells, takes 110 ms.
    let made = daemon.builder("a.0.7", "aal5,cbr:pcr=100,max_sdu=500,rx:none");
    daemon.admin().add(&made.transmit_pdus(4)).unwrap();
    let taken = daemon.builder("a.0.7", "").take().unwrap();
    let waits = std::thread::spawn(move || {
        taken.send(&[7; 500]).unwrap();
        let (from, before) = (Instant::now(), sleeps());
        for _ in 0..3 {
            taken.send(&[7; 500]).unwrap();
        }
        taken.flush(PATIENCE).unwrap();
        (from.elapsed(), sleeps() - before)
    });
    let (took, sleeps) = waits.join().unwrap();
    assert!(took > Duration::from_millis(200), "{took:?}");
    assert!(sleeps < 40, "{sleeps} in {took:?}");
}

/// How often this thread has waited for something.
fn sleeps() -> u32 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn opens_and_closes_of_others_leave_an_idle_connection_alone() {
    const BEST_EFFORT: &str = "ubr,aal5:max_sdu=1000";
    let daemon = Daemon::start();
    let small = |at| {
        let of = daemon.builder(at, BEST_EFFORT);
        of.transmit_pdus(4).receive_pdus(4)
    };
    let (idle, other) = (small("a.0.100").open().unwrap(), small("a.0.101"));
    for _ in 0..400 {
        other.open().unwrap().close(PATIENCE).unwrap();
    }
    idle.send(b"still there").unwrap();
    // Of its share it hears the last word.
    let mut told = None;
    while let Ok(indication) = idle.next_indication_timeout(Duration::from_millis(200)) {
        if let Indication::Share { transmit, .. } = indication {
            told = transmit;
        }
    }
    assert_eq!(told, idle.info().unwrap().transmit);
}

/// A sender of best effort fills its window as its credit lets it, while others halve its share
/// again and again, on its own interface and on its reader's.
#[test]
fn best_effort_that_keeps_its_credit_loses_nothing_as_shares_shrink() {
    const BEST_EFFORT: &str = "ubr,aal5:max_sdu=1500";
    const SDUS: u64 = 20_000;
    let daemon = Daemon::start();
    let window = |at| {
        let of = daemon.builder(at, BEST_EFFORT).completions(false);
        let of = of.notification(Notification::Polled);
        of.transmit_pdus(200).receive_pdus(2_000).open().unwrap()
    };
    let (a, b) = (window("a.0.100"), window("b.0.100"));
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let others = ["a.0.101", "b.0.101", "a.0.102", "b.0.102", "b.0.103"];
                let others = others.map(|at| daemon.builder(at, BEST_EFFORT).open().unwrap());
                std::thread::sleep(Duration::from_millis(20));
                drop(others);
            }
        });
        let (mut sdu, mut buffer) = ([0; 1_500], [0; 1_500]);
        let (mut sent, mut received) = (0_u64, 0_u64);
        let mut last = Instant::now();
        while received < SDUS && last.elapsed() < Duration::from_secs(5) {
            if sent < SDUS && sent - received < 200 {
                sdu[..8].copy_from_slice(&sent.to_be_bytes());
                sent += u64::from(a.try_send(&sdu).is_ok());
            }
            if b.try_recv(&mut buffer).is_ok() {
                if buffer[..8] != received.to_be_bytes() {
                    break;
                }
                (received, last) = (received + 1, Instant::now());
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        let discarded = b.stats().unwrap().pdus_discarded;
        assert_eq!((received, b.dismissed()), (SDUS, 0), "{discarded:?}");
    });
}

#[test]
fn memory_is_short_in_the_books_before_it_is_at_the_adapter() {
    let daemon = Daemon::start_with("memory_max = 4000000", "");
    let mut admin = daemon.admin();
    // The server keeps the attachment that it has had for this.
    admin.add(&daemon.builder("b.0.7", RECEIVES)).unwrap();
    admin.delete("b.0.7").unwrap();
    let (mut open, mut max_sdu) = (Vec::new(), 65_520);
    while max_sdu >= 40 {
        let address = format!("a.0.{}", 100 + open.len());
        let contract = format!("cbr,aal5:pcr=2000,max_sdu={max_sdu}");
        match daemon.builder(&address, &contract).open() {
            Ok(connection) => open.push(connection),
            Err(Error::Refused(Refused::Admission(short))) => {
                let resources = admin.resources().unwrap();
                let mut memory = resources
                    .iter()
                    .filter(|of| of.resource == Resource::Memory);
                let free = memory.next().map(|of| of.capacity - of.reserved);
                assert_eq!((short.resource, Some(short.free)), (Resource::Memory, free));
                max_sdu = max_sdu / 16 * 15;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(open.len() >= 3, "{} connections", open.len());
}

#[test]
fn what_the_daemon_tolerates_the_library_does_not_dismiss() {
    const SDUS: u64 = 400;
    let stall = "gap_max_ns = 5000000000";
    let late = "cdvt_ns = 5000000000";
    for (adapter, more) in [(stall, ""), ("gap_max_ns = 250000", late)] {
        let daemon = Daemon::start_with(adapter, more);
        let a = daemon.builder("a.0.100", SENDS).open().unwrap();
        // Policed by its buffer only: what is beyond the rate reaches the library. Five seconds at
        // that rate have more cells than there come at once.
        let contract = "cbr,aal5:police=buffer,tx:none,rx:pcr=100,max_sdu=40";
        let b = daemon.builder("b.0.100", contract).receive_pdus(1_000);
        let b = b.open().unwrap();
        for _ in 0..2 {
            for i in 0..SDUS {
                a.send(&i.to_be_bytes()).unwrap();
            }
            let mut buffer = [0; 40];
            let received = |_| {
                b.recv_timeout(&mut buffer, Duration::from_millis(500))
                    .is_ok()
            };
            let taken = (0..SDUS).map(received).take_while(|taken| *taken).count();
            assert_eq!((taken as u64, b.dismissed()), (SDUS, 0), "{adapter}");
            // A changed contract has the same tolerance, and all of it again.
            b.set_contract(&contract.replace("pcr=100", "pcr=101"))
                .unwrap();
        }
    }
}
