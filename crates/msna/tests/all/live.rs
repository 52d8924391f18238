//! Nodes, and liaisons between two.
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use cellgate::{LineSpec, Marks};
use cellgate_msna::{Access, Address, Call, Error, Event, Node, NodeConfig, Notify, Refusal, Sap};

use crate::common::{Daemon, PATIENCE};
use crate::echo::{self, ECHO, octets};

const CALLER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const CALLED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);

fn echo_of(host: Ipv4Addr) -> Address {
    Address { host, sap: ECHO }
}

fn config(daemon: &Daemon, host: Ipv4Addr, access: Access) -> NodeConfig {
    let itf = if host == CALLER { "a" } else { "b" };
    NodeConfig::new(host, access).on(itf).at(daemon.path())
}

fn node(daemon: &Daemon, host: Ipv4Addr, access: Access) -> Node {
    Node::open(config(daemon, host, access)).unwrap()
}

#[test]
fn blocks_of_all_lengths_cross_by_every_access() {
    let daemon = Daemon::start();
    for access in [Access::Cells, Access::Aal5, Access::Packets] {
        let echo = echo::echo(config(&daemon, CALLED, access));
        let mut node = node(&daemon, CALLER, access);
        let mut liaison = node.connect(echo_of(CALLED), &Call::default()).unwrap();
        let mut block = Vec::new();
        for (n, len) in [1, 2, 45, 46, 47, 91, 92, 93, 1_000, 8_000, 11_729, 11_730]
            .into_iter()
            .enumerate()
        {
            let sent = octets(len, n);
            liaison.send(&sent).unwrap();
            assert!(liaison.recv(&mut block, Some(PATIENCE)).unwrap());
            assert_eq!(block, sent, "{access:?}: {len} octets");
        }
        let long = liaison.send(&octets(11_731, 0));
        assert!(
            matches!(
                long,
                Err(Error::TooLong {
                    len: 11_731,
                    max: 11_730
                })
            ),
            "{long:?}"
        );
        // A block of no octets is a cell, and a datagram, and no PDU.
        let empty = liaison.send(&[]);
        match access {
            Access::Aal5 => assert!(matches!(empty, Err(Error::Atm(_))), "{empty:?}"),
            _ => {
                assert!(liaison.recv(&mut block, Some(PATIENCE)).unwrap());
                assert!(block.is_empty());
            }
        }
        assert!(
            !liaison
                .recv(&mut block, Some(Duration::from_millis(5)))
                .unwrap()
        );
        assert_eq!(liaison.counters().discarded.total(), 0);
        drop(echo);
    }
}

#[test]
fn as_many_blocks_are_lost_as_the_line_loses_cells() {
    let daemon = Daemon::start();
    let echo = echo::echo(config(&daemon, CALLED, Access::Cells));
    let mut node = node(&daemon, CALLER, Access::Cells);
    let mut liaison = node.connect(echo_of(CALLED), &Call::default()).unwrap();
    let lossy = LineSpec {
        loss: "10%".parse().unwrap(),
        seed: 5,
        ..LineSpec::default()
    };
    let mut admin = daemon.admin();
    let lost_cells = |admin: &mut cellgate::Admin| -> u64 {
        let all = admin.interfaces().unwrap();
        all.iter()
            .filter_map(|itf| itf.counts.line)
            .map(|line| line.lost)
            .sum()
    };
    admin.set_line("a", lossy).unwrap();
    let mut block = Vec::new();
    // Not back yet: a busy machine takes its time.
    let mut away: Vec<Vec<u8>> = Vec::new();
    for n in 0..200 {
        let sent = octets(46, n);
        away.push(sent.clone());
        liaison.send(&sent).unwrap();
        while liaison
            .recv(&mut block, Some(Duration::from_millis(300)))
            .unwrap()
        {
            let at = away.iter().rposition(|sent| *sent == block);
            away.remove(at.expect("a block comes whole, and once"));
            if block == sent {
                break;
            }
        }
    }
    let lost = away.len() as u64;
    assert!(lost > 5, "{lost} lost");
    // The daemon asks its adapter now and then.
    let deadline = Instant::now() + Duration::from_secs(3);
    while lost_cells(&mut admin) != lost && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(lost, lost_cells(&mut admin));
    // A block of many cells comes whole or not at all, and the next is whole.
    let (mut came, mut sent) = (0, 0);
    let mut all = Vec::new();
    while came < 20 {
        all.push(octets(9 * 46, sent));
        liaison.send(&all[sent]).unwrap();
        sent += 1;
        if liaison
            .recv(&mut block, Some(Duration::from_millis(50)))
            .unwrap()
        {
            assert!(all.contains(&block), "a block comes whole");
            came += 1;
        }
        assert!(sent < 2_000);
    }
    assert!(sent > came, "{sent} sent");
    drop(echo);
}

#[test]
fn a_call_is_refused_with_an_offer_that_is_admitted() {
    let daemon = Daemon::start();
    let echo = echo::echo(config(&daemon, CALLED, Access::Cells));
    let mut node = node(&daemon, CALLER, Access::Cells);
    let call = |contract: &str| Call {
        contract: contract.to_owned(),
        ..Call::default()
    };
    let nobody = Address {
        host: CALLED,
        sap: Sap(8),
    };
    let refused = node.connect(nobody, &Call::default());
    assert!(
        matches!(
            refused,
            Err(Error::Refused {
                reason: Refusal::NoSap,
                ..
            })
        ),
        "{refused:?}"
    );
    let refused = node.connect(echo_of(CALLED), &call("much"));
    assert!(matches!(refused, Err(Error::Contract(_))), "{refused:?}");
    let refused = node.connect(echo_of(CALLED), &call("cbr:pcr=100000000"));
    assert!(
        matches!(refused, Err(Error::Atm(cellgate::Error::Refused(_)))),
        "{refused:?}"
    );
    // The other end has less than this one.
    let other = daemon.builder("b.0.900", "cbr,aal5:tx:none,rx:pcr=900000");
    let other = other.open().unwrap();
    let asked = "cbr:tx:pcr=300000,rx:pcr=1000";
    let refused = node.connect(echo_of(CALLED), &call(asked));
    let Err(Error::Refused {
        reason: Refusal::NotAdmitted,
        offer,
        ..
    }) = refused
    else {
        panic!("{refused:?}");
    };
    let mut liaison = node.connect(echo_of(CALLED), &call(&offer)).unwrap();
    liaison.send(b"fits").unwrap();
    let mut block = Vec::new();
    assert!(liaison.recv(&mut block, Some(PATIENCE)).unwrap());
    assert_eq!(block, b"fits");
    drop((other, echo));
}

#[test]
fn nobody_answers_for_a_host_that_is_not_there() {
    let daemon = Daemon::start();
    for access in [Access::Cells, Access::Packets] {
        let mut node = node(&daemon, CALLER, access);
        let silent = node.connect(echo_of(Ipv4Addr::new(127, 0, 0, 9)), &Call::default());
        assert!(matches!(silent, Err(Error::Silent(_))), "{silent:?}");
    }
}

/// Long form: `CELLGATE_LIAISONS=1000`.
#[test]
fn liaisons_come_and_go_and_leave_no_connection() {
    let count = std::env::var("CELLGATE_LIAISONS");
    let count = count.map_or(150, |count| count.parse().unwrap());
    let daemon = Daemon::start();
    let echo = echo::echo(config(&daemon, CALLED, Access::Cells));
    let mut node = node(&daemon, CALLER, Access::Cells);
    let mut circuits = Vec::new();
    let mut block = Vec::new();
    for n in 0..count {
        let mut liaison = node.connect(echo_of(CALLED), &Call::default()).unwrap();
        let sent = octets(100, n);
        let deadline = Instant::now() + PATIENCE;
        loop {
            liaison.send(&sent).unwrap();
            // An adapter that stands still on a busy machine loses cells.
            let patience = Some(Duration::from_secs(5));
            if liaison.recv(&mut block, patience).unwrap() {
                break;
            }
            assert!(Instant::now() < deadline, "no block crosses");
        }
        assert_eq!(block, sent);
        circuits.push(liaison.circuit());
    }
    // None was used again within the second for which it rests.
    circuits.dedup();
    assert_eq!(circuits.len(), count);
    drop(node);
    drop(echo);
    let deadline = Instant::now() + PATIENCE;
    while !daemon.admin().list().unwrap().is_empty() {
        assert!(Instant::now() < deadline, "connections stay");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_node_that_begins_anew_is_told_of() {
    let daemon = Daemon::start();
    let mut called = node(&daemon, CALLED, Access::Aal5);
    for round in 0..3_u8 {
        let mut caller = node(&daemon, CALLER, Access::Aal5);
        caller
            .datagram(Sap(1), echo_of(CALLED), &[round; 11_000])
            .unwrap();
        if round > 0 {
            let event = called.next_event(Some(PATIENCE)).unwrap();
            assert!(
                matches!(event, Some(Event::Restarted { host: CALLER })),
                "{event:?}"
            );
        }
        let event = called.next_event(Some(PATIENCE)).unwrap();
        let Some(Event::Datagram { from, to, octets }) = event else {
            panic!("{event:?}");
        };
        assert_eq!((from.host, from.sap, to), (CALLER, Sap(1), ECHO));
        assert_eq!(octets, [round; 11_000]);
        let long = caller.datagram(Sap(1), echo_of(CALLED), &[0; 11_700]);
        assert!(matches!(long, Err(Error::TooLong { .. })), "{long:?}");
    }
}

/// Cells 5 ms apart: a reader sleeps as often as its notification says.
fn sleeps(daemon: &Daemon, notify: Notify, dally: Duration) -> f64 {
    const BLOCKS: u64 = 6;
    const CELLS: usize = 6;
    let mut called = node(daemon, CALLED, Access::Cells);
    called.serve(ECHO);
    let config = config(daemon, CALLER, Access::Cells);
    let sender = std::thread::spawn(move || {
        let mut node = Node::open(config).unwrap();
        let call = Call {
            contract: "cbr:pcr=200".to_owned(),
            notify,
            ..Call::default()
        };
        let mut liaison = node.connect(echo_of(CALLED), &call).unwrap();
        let mut block = Vec::new();
        for n in 0..BLOCKS {
            liaison.send(&octets(46 * CELLS, n as usize)).unwrap();
            assert!(liaison.recv(&mut block, Some(PATIENCE)).unwrap());
            // The other end sleeps before the next block comes.
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(
            !liaison
                .recv(&mut block, Some(Duration::from_millis(1)))
                .unwrap()
        );
    });
    let event = called.next_event(Some(PATIENCE)).unwrap();
    let Some(Event::Connected { mut liaison, .. }) = event else {
        panic!("{event:?}");
    };
    liaison.dally(dally);
    let mut block = Vec::new();
    let from = liaison.counters().sleeps;
    for n in 0..BLOCKS {
        assert!(liaison.recv(&mut block, Some(PATIENCE)).unwrap());
        assert_eq!(block, octets(46 * CELLS, n as usize));
        // An answer of a cell: the sender goes on when all of a block is read.
        liaison.send(&[1]).unwrap();
    }
    let slept = liaison.counters().sleeps - from;
    drop(liaison);
    sender.join().unwrap();
    slept as f64 / BLOCKS as f64
}

#[test]
fn a_reader_sleeps_as_often_as_its_notification_says() {
    let daemon = Daemon::start();
    let dally = Duration::from_secs(1);
    let none = Duration::ZERO;
    for (notify, dally, expected) in [
        (Notify::Every, none, 6.0),
        (Notify::First, Duration::from_millis(20), 1.0),
        (Notify::Last, none, 1.0),
        (Notify::Both, none, 2.0),
        (Notify::Every, dally, 0.0),
    ] {
        // A machine that stops the reader for a while has it sleep less.
        let mut seen = Vec::new();
        let exact = (0..8).any(|_| {
            seen.push(sleeps(&daemon, notify, dally));
            seen.last() == Some(&expected)
        });
        assert!(exact, "{notify:?}, {dally:?}: {seen:?}, not {expected}");
        let most = seen.into_iter().fold(0.0, f64::max);
        let is_bound = dally.is_zero();
        assert!(!is_bound || most <= expected, "{notify:?}: {most} sleeps");
    }
}

#[test]
fn whatever_comes_on_circuit_32_a_node_serves_on() {
    let daemon = Daemon::start();
    let mut called = node(&daemon, CALLED, Access::Cells);
    called.serve(ECHO);
    let raw = daemon
        .builder("a.0.32", "ubr,aal0")
        .marks(Marks::Mssar)
        .open()
        .unwrap();
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    let sent = 20_000;
    for n in 0..sent {
        let mut sdu = [0; 52];
        sdu[4..].fill_with(&mut next);
        // Many are blocks of a cell.
        if n % 3 == 0 {
            sdu[4..6].copy_from_slice(&[1, 1]);
        }
        raw.send_timeout(&sdu, PATIENCE).unwrap();
        if n % 64 == 0 {
            let event = called.next_event(Some(Duration::ZERO)).unwrap();
            assert!(event.is_none(), "{event:?}");
        }
    }
    raw.flush(PATIENCE).unwrap();
    drop(raw);
    let event = called.next_event(Some(Duration::from_millis(20))).unwrap();
    assert!(event.is_none(), "{event:?}");
    assert!(called.counts().no_message > 1_000, "{:?}", called.counts());
    let config = config(&daemon, CALLER, Access::Cells);
    let caller = std::thread::spawn(move || {
        let mut node = Node::open(config).unwrap();
        node.connect(echo_of(CALLED), &Call::default())
            .map(|liaison| liaison.circuit())
    });
    let event = called.next_event(Some(PATIENCE)).unwrap();
    let Some(Event::Connected { liaison, .. }) = event else {
        panic!("{event:?}");
    };
    assert_eq!(caller.join().unwrap().unwrap(), liaison.circuit());
}
