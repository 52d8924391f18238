//! Many connections of one program.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::Duration;

use cellgate::{
    Builder, Connection, Crowd, EndReason, Error, EventKind, Indication, Notification, Refused,
    Session,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, kill_process};

use super::common::{Daemon, PATIENCE, eventually, hears};

const RATE: &str = "cbr,aal5:pcr=1000,max_sdu=100";

fn builder(at: &str, n: usize) -> Builder {
    let address = format!("{at}.0.{}", 100 + n);
    Connection::builder().address(address).contract(RATE)
}

/// A session with connections to as many of another, at the other ends.
struct Pair {
    daemon: Daemon,
    mine: (Session, Vec<Connection>),
    theirs: (Session, Vec<Connection>),
}

impl Pair {
    fn new(connections: usize, as_wanted: impl Fn(Builder) -> Builder) -> Self {
        let daemon = Daemon::start();
        let session = |at: &str, as_wanted: &dyn Fn(Builder) -> Builder| {
            let session = Session::connect(daemon.path()).unwrap();
            let open = |n| session.open(&as_wanted(builder(at, n))).unwrap();
            let opened = (0..connections).map(open).collect();
            (session, opened)
        };
        let mine = session("b", &as_wanted);
        let theirs = session("a", &|builder| builder);
        Self {
            daemon,
            mine,
            theirs,
        }
    }

    /// A PDU comes through each of these; a wait names each.
    fn cross(&self, which: impl Iterator<Item = usize> + Clone) {
        let (session, mine) = &self.mine;
        for n in which.clone() {
            self.theirs.1[n].send(&[n as u8; 40]).unwrap();
        }
        let mut missing: BTreeSet<usize> = which.clone().collect();
        while !missing.is_empty() {
            let ready = session.wait(Some(PATIENCE)).unwrap();
            assert!(!ready.is_empty(), "{missing:?} have not come");
            for n in which.clone().filter(|n| ready.contains(&mine[*n].number())) {
                let mut buffer = [0; 100];
                while let Ok(received) = mine[n].try_recv(&mut buffer) {
                    assert_eq!(buffer[..received.len], [n as u8; 40]);
                    assert!(missing.remove(&n), "{n} came twice");
                }
            }
        }
    }

    fn wakeups(&self) -> u64 {
        self.mine.1[0].counters().client.wakeups
    }
}

#[test]
fn the_threshold_of_silent_events_counts_those_of_all_connections() {
    let silent = Notification::Silent {
        threshold: 50,
        longest_delay_ns: 60_000_000_000,
    };
    let mut pair = Pair::new(60, |builder| {
        let seldom = builder.contract("cbr,aal5:pcr=10,max_sdu=40");
        seldom.notification(silent).events(4)
    });
    let mut theirs = core::mem::take(&mut pair.theirs.1);
    for sender in &theirs[..49] {
        sender.send(b"silent").unwrap();
    }
    // All have come, and nobody was woken: no connection has had more than one event.
    eventually("49 events", || {
        pair.mine.0.wait(Some(Duration::ZERO)).unwrap();
        let events = pair.mine.1[0].counters().client.events;
        (events == 49).then_some(())
    });
    assert_eq!(pair.wakeups(), 0);
    let last = theirs.remove(49);
    let sends = std::thread::spawn(move || {
        sleep(Duration::from_millis(50));
        last.send(b"silent").unwrap();
        last
    });
    // The server may tell how things stand meanwhile.
    eventually("the fiftieth", || {
        let ready = pair.mine.0.wait(Some(PATIENCE)).unwrap();
        let events = pair.mine.1[0].counters().client.events;
        (events == 50).then(|| assert!(ready.contains(&pair.mine.1[49].number())))
    });
    assert_eq!(pair.wakeups(), 1, "one for fifty");
    for (n, connection) in pair.mine.1.iter().enumerate() {
        let kinds: Vec<_> = core::iter::from_fn(|| connection.next_event())
            .map(|event| event.kind)
            .collect();
        let expected: &[EventKind] = match n < 50 {
            true => &[EventKind::PduReceived],
            false => &[],
        };
        assert_eq!(kinds, expected, "{n}");
        let received = connection.try_recv(&mut [0; 100]);
        assert_eq!(received.is_ok(), n < 50, "{n}: {received:?}");
    }
    sends.join().unwrap();
}

#[test]
fn one_that_is_closed_dropped_or_refused_leaves_the_others_as_they_are() {
    let mut pair = Pair::new(20, |builder| builder);
    pair.cross(0..20);
    let huge = builder("b", 30).contract("cbr,aal5:pcr=99999999,max_sdu=100");
    let refused = pair.mine.0.open(&huge);
    assert!(
        matches!(refused, Err(Error::Refused(Refused::Admission(_)))),
        "{refused:?}"
    );
    let refused = pair.mine.0.open(&builder("b", 5));
    assert!(
        matches!(refused, Err(Error::Refused(Refused::AddressInUse))),
        "{refused:?}"
    );
    let closed = pair.mine.1.pop().unwrap().close(PATIENCE).unwrap();
    assert_eq!(closed.pdus_delivered, 1);
    drop(pair.mine.1.split_off(4));
    pair.cross(0..4);
    let mut admin = pair.daemon.admin();
    let mut of_b = || {
        let all = admin.list().unwrap();
        let of_b = |address: &cellgate::Address| address.interface.as_deref() == Some("b");
        all.iter().filter(|info| of_b(&info.address)).count()
    };
    eventually("what was dropped ends", || (of_b() == 4).then_some(()));
    // Their addresses are free, and one is taken over by another socket.
    pair.mine
        .1
        .extend((4..6).map(|n| pair.mine.0.open(&builder("b", n)).unwrap()));
    pair.cross(0..6);
    let capability = pair.mine.1[3].capability().unwrap();
    let other = pair
        .daemon
        .builder("b.0.103", RATE)
        .reattach(capability)
        .unwrap();
    let told = hears(&pair.mine.1[3], |told| matches!(told, Indication::Ended(_)));
    assert_eq!(told, Indication::Ended(EndReason::TakenOver));
    pair.theirs.1[3].send(b"on").unwrap();
    assert_eq!(other.recv_timeout(&mut [0; 100], PATIENCE).unwrap().len, 2);
    pair.cross([0, 1, 2, 4, 5].into_iter());
    drop(other);
    drop(pair.mine);
    eventually("all end with the socket", || (of_b() == 0).then_some(()));
}

#[test]
fn all_connections_of_a_session_outlive_their_daemon_and_their_adapter() {
    let mut pair = Pair::new(50, |builder| builder);
    pair.cross(0..50);
    pair.daemon.kill();
    // The adapter carries on, and what waits at the socket is no end.
    pair.cross(0..50);
    pair.daemon.restart();
    for connection in pair.mine.1.iter().rev().chain(&pair.theirs.1) {
        hears(connection, |told| *told == Indication::Restarted);
        let contract = "cbr,aal5:pcr=900,max_sdu=100";
        connection.set_contract(contract).unwrap();
        assert_eq!(connection.contract(), contract);
    }
    pair.cross(0..50);
    pair.daemon.kill_adapter();
    for connection in pair.mine.1.iter().chain(&pair.theirs.1) {
        hears(connection, |told| matches!(told, Indication::Reopened(_)));
    }
    pair.cross(0..50);
    pair.daemon.end();
    let ended = |connection: &Connection| {
        hears(connection, |told| {
            *told == Indication::Ended(EndReason::ShuttingDown)
        })
    };
    pair.mine
        .1
        .iter()
        .for_each(|connection| drop(ended(connection)));
    let gone = pair.mine.0.wait(Some(PATIENCE));
    let gone = gone.and_then(|_| pair.mine.0.wait(Some(PATIENCE)));
    assert!(matches!(gone, Err(Error::Closed)), "{gone:?}");
}

#[test]
fn an_open_that_was_given_up_is_closed_when_the_server_comes_to_it() {
    let pair = Pair::new(2, |builder| builder);
    pair.daemon.stop();
    let hasty = builder("b", 7).patience(Duration::from_millis(20));
    let late = pair.mine.0.open(&hasty).unwrap_err();
    assert!(matches!(late, Error::TimedOut), "{late}");
    kill_process(pair.daemon.pid(), Signal::CONT).unwrap();
    // The same socket hears of it, and nobody else has it.
    let again = eventually("the address is free", || {
        let again = pair.mine.0.open(&builder("b", 7));
        again.ok()
    });
    assert_eq!(pair.daemon.admin().list().unwrap().len(), 5);
    drop(again);
    pair.cross(0..2);
}

#[test]
fn a_session_tells_when_it_is_full_and_has_room_again() {
    let daemon = Daemon::start();
    let session = Session::connect(daemon.path()).unwrap();
    let open = |n: usize| {
        let tiny = builder("a", n).contract("cbr,aal5:pcr=10,max_sdu=40");
        session.open(&tiny)
    };
    let mut all: Vec<_> = (0..256).map(|n| open(n).unwrap()).collect();
    let full = open(256).unwrap_err();
    assert!(
        matches!(
            full,
            Error::Refused(Refused::Full {
                of: Crowd::ConnectionsOfSocket,
                most: 256,
                ..
            })
        ),
        "{full}"
    );
    drop(all.swap_remove(17));
    open(256).unwrap();
}

#[test]
fn whoever_polls_the_descriptor_of_a_session_hears_of_all_of_it() {
    let pair = Pair::new(10, |builder| builder);
    let (session, mine) = &pair.mine;
    let readable = |ms: i64| {
        let timeout = Timespec {
            tv_sec: ms / 1_000,
            tv_nsec: ms % 1_000 * 1_000_000,
        };
        let mut fds = [PollFd::from_borrowed_fd(session.as_fd(), PollFlags::IN)];
        poll(&mut fds, Some(&timeout)).unwrap() > 0
    };
    for n in [7, 2, 7] {
        // The server may tell how things stand at any time.
        eventually("nothing is told", || {
            while !session.wait(Some(Duration::ZERO)).unwrap().is_empty() {}
            (session.arm().unwrap() && !readable(1)).then_some(())
        });
        pair.theirs.1[n].send(b"polled").unwrap();
        let received = eventually("a PDU", || {
            if session.arm().unwrap() {
                assert!(readable(PATIENCE.as_millis() as i64));
            }
            let ready = session.wait(Some(Duration::ZERO)).unwrap();
            let is_ready = ready.contains(&mine[n].number());
            is_ready.then(|| mine[n].try_recv(&mut [0; 100]).ok())?
        });
        assert_eq!(received.len, 6);
    }
}
