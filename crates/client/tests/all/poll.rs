//! Waiting elsewhere: the connection's descriptor in somebody else's poll, by level and by edge.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::common::{Daemon, PATIENCE, hears};
use cellgate::{Connection, Error, Indication, Interest, Wait};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

const CONTRACT: &str = "cbr,aal5:pcr=400000,max_sdu=1000";

fn timespec(timeout: Duration) -> Timespec {
    Timespec {
        tv_sec: timeout.as_secs() as i64,
        tv_nsec: timeout.subsec_nanos().into(),
    }
}

/// Whether the connection's descriptor becomes readable, as `poll` sees it.
fn readable(connection: &Connection, timeout: Duration) -> bool {
    let mut fds = [PollFd::new(connection, PollFlags::IN)];
    poll(&mut fds, Some(&timespec(timeout))).unwrap() > 0
}

/// Somebody's epoll that watches by edge, as asynchronous runtimes do.
struct Edges(OwnedFd);

impl Edges {
    fn of(connection: &Connection) -> Self {
        let edges = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(
            &edges,
            connection.as_fd(),
            epoll::EventData::new_u64(0),
            flags,
        )
        .unwrap();
        Self(edges)
    }

    /// Whether there is an edge within `timeout`.
    fn next(&self, timeout: Duration) -> bool {
        let mut events = Vec::with_capacity(4);
        let spare = rustix::buffer::spare_capacity(&mut events);
        epoll::wait(&self.0, spare, Some(&timespec(timeout))).unwrap() > 0
    }
}

/// Receives as an asynchronous reader does: tries, arms, waits for an edge.
fn receive_by_edges(connection: &Connection, edges: &Edges) -> Vec<u8> {
    let mut buffer = [0; 1_000];
    loop {
        match connection.try_recv(&mut buffer) {
            Ok(received) => return buffer[..received.len].to_vec(),
            Err(Error::WouldBlock(Wait::Pdu)) => {}
            Err(error) => panic!("{error}"),
        }
        if connection.arm(Interest::RECEIVE).unwrap() {
            assert!(edges.next(PATIENCE), "a wake-up is lost");
        }
    }
}

#[test]
fn no_wake_up_is_lost_by_edge() {
    let daemon = Daemon::start();
    let (a, b) = daemon.pair(CONTRACT);
    let edges = Edges::of(&b);
    let sender = std::thread::spawn(move || {
        for i in 0..3_000_u32 {
            a.send(&i.to_be_bytes()).unwrap();
            if i % 16 == 0 {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        a
    });
    for i in 0..3_000_u32 {
        assert_eq!(receive_by_edges(&b, &edges), i.to_be_bytes());
    }
    sender.join().unwrap();
    let counters = b.counters();
    assert!(counters.client.sleeps > 0, "{counters:?}");
}

#[test]
fn one_wake_up_per_arming_and_none_without() {
    let daemon = Daemon::start();
    let (a, b) = daemon.pair(CONTRACT);
    assert!(b.arm(Interest::RECEIVE).unwrap());
    assert!(!readable(&b, Duration::ZERO));
    a.send(b"first").unwrap();
    assert!(readable(&b, PATIENCE));
    // By level it stays so until it is armed again.
    assert!(readable(&b, Duration::ZERO));
    assert!(!b.arm(Interest::RECEIVE).unwrap(), "a PDU waits");
    assert_eq!(b.try_recv(&mut [0; 1_000]).unwrap().len, 5);
    assert!(b.arm(Interest::RECEIVE).unwrap());
    assert!(
        !readable(&b, Duration::ZERO),
        "the former wake-up is taken back"
    );
    b.disarm().unwrap();
    a.send(b"second").unwrap();
    daemon.delivers(&a);
    assert!(!readable(&b, Duration::ZERO), "nobody said that they sleep");
    assert_eq!(b.try_recv(&mut [0; 1_000]).unwrap().len, 6);
}

#[test]
fn an_edge_comes_though_the_descriptor_was_readable_before() {
    let daemon = Daemon::start();
    let (a, b) = daemon.pair(CONTRACT);
    let edges = Edges::of(&b);
    for _ in 0..20 {
        // The reader is told, and does not look at the descriptor before it arms again.
        assert!(b.arm(Interest::RECEIVE).unwrap());
        a.send(b"x").unwrap();
        assert!(edges.next(PATIENCE));
        assert_eq!(b.try_recv(&mut [0; 10]).unwrap().len, 1);
    }
}

#[test]
fn credit_and_room_and_indications_are_told_by_the_same_descriptor() {
    let mut daemon = Daemon::start();
    let contract = "cbr,aal5:pcr=2000,max_sdu=40";
    let a = daemon
        .builder("a.0.100", contract)
        .transmit_pdus(700)
        .open()
        .unwrap();
    let edges = Edges::of(&a);
    let mut suspended = 0;
    // An interval has credit for ten, and who wakes late has that of six before it, too: 700 take
    // nine wake-ups, however late they are.
    for _ in 0..700 {
        while let Err(error) = a.try_send(&[7; 40]) {
            assert!(
                matches!(error, Error::WouldBlock(Wait::Credit(_))),
                "{error}"
            );
            suspended += 1;
            if a.arm(Interest::send(40)).unwrap() {
                assert!(edges.next(PATIENCE), "the timer is lost");
            }
        }
    }
    assert!(suspended >= 8, "{suspended}");

    if a.arm(Interest::SENT).unwrap() {
        assert!(edges.next(PATIENCE), "the completion is lost");
    }

    assert!(a.arm(Interest::INDICATION).unwrap());
    daemon.kill();
    daemon.restart();
    assert!(readable(&a, PATIENCE));
    assert_eq!(a.next_indication().unwrap(), Some(Indication::Restarted));
}

#[test]
fn what_was_told_before_is_no_reason_to_wait() {
    let mut daemon = Daemon::start();
    // A PDU takes 220 ms to leave.
    let contract = "cbr,aal5:pcr=100,max_sdu=1000";
    let a = daemon.builder("a.0.100", contract).transmit_pdus(2);
    let a = a.open().unwrap();
    let told = |daemon: &mut Daemon| {
        assert!(a.arm(Interest::INDICATION).unwrap());
        daemon.kill();
        daemon.restart();
        assert!(readable(&a, PATIENCE));
    };
    assert_eq!(a.next_indication().unwrap(), None);
    told(&mut daemon);
    assert!(
        !a.arm(Interest::INDICATION).unwrap(),
        "it is off the socket"
    );
    assert!(a.arm(Interest::INDICATION).unwrap(), "it was said once");
    assert_eq!(a.next_indication().unwrap(), Some(Indication::Restarted));

    // Another call took it off the socket.
    told(&mut daemon);
    a.stats().unwrap();
    assert!(!a.arm(Interest::INDICATION).unwrap());
    assert!(a.arm(Interest::INDICATION).unwrap());

    // The buffer that is full was another adapter's, whom nobody hears any more.
    loop {
        match a.try_send(&[7; 1_000]) {
            Ok(()) => {}
            Err(Error::WouldBlock(Wait::Room)) => break,
            Err(error) => panic!("{error}"),
        }
    }
    // Opened again after that.
    let b = daemon.open("b.0.100", contract);
    daemon.kill_adapter();
    hears(&b, |told| matches!(told, Indication::Reopened(_)));
    assert!(!a.arm(Interest::send(1_000)).unwrap());
    a.try_send(&[7; 1_000]).unwrap();
}

#[test]
fn interests_combine() {
    let either = Interest::RECEIVE
        .or(Interest::send(500))
        .or(Interest::send(90));
    assert_eq!(either, Interest::send(90).or(Interest::RECEIVE));
    assert_ne!(either, Interest::send(90));
    assert_eq!(Interest::INDICATION.or(Interest::SENT), Interest::SENT);
}
