//! A relay between two lines: `a` and `b` are joined, and `c` and `d`.
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cellgate::{HeaderForm, InterfaceSpec, Link, Priority};
use cellgate_msna::{Access, Address, By, Call, Error, Node, NodeConfig, Refusal, Relay, Sap};

use crate::common::{Daemon, PATIENCE};
use crate::echo::{self, ECHO, Thread, octets};

const CALLER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const CALLED: Address = Address {
    host: Ipv4Addr::new(10, 0, 0, 2),
    sap: ECHO,
};

fn config(daemon: &Daemon, host: Ipv4Addr, itf: &str) -> NodeConfig {
    NodeConfig::new(host, Access::Cells)
        .on(itf)
        .at(daemon.path())
}

/// Runs `client` beside a relay, and an echo on its other side.
fn relayed(by: By, client: impl FnOnce(&Daemon, &mut Node)) {
    let daemon = Daemon::start();
    for (name, peer) in [("c", "d"), ("d", "c")] {
        let spec = InterfaceSpec {
            name: name.to_owned(),
            adapter: None,
            link: Link::peer(peer),
            form: HeaderForm::Nni,
            priority: Priority::Normal,
            line_rate: None,
            line: None,
        };
        daemon.admin().add_interface(spec).unwrap();
    }
    let lines = ["b", "c"].map(|itf| config(&daemon, Ipv4Addr::UNSPECIFIED, itf));
    let circuits = Arc::<AtomicUsize>::default();
    let told = Arc::clone(&circuits);
    let relay = Thread::start(
        move || Relay::open(lines, by).unwrap(),
        move |relay| {
            if !relay.turn().unwrap() {
                std::thread::yield_now();
            }
            told.store(relay.circuits(), Ordering::Relaxed);
        },
    );
    let echo = echo::echo(config(&daemon, CALLED.host, "d"));
    let mut node = Node::open(config(&daemon, CALLER, "a")).unwrap();
    client(&daemon, &mut node);
    drop(node);
    // All that was opened has gone.
    let deadline = Instant::now() + PATIENCE;
    while circuits.load(Ordering::Relaxed) > 0 {
        assert!(Instant::now() < deadline, "circuits stay");
        std::thread::yield_now();
    }
    drop((relay, echo));
}

#[test]
fn blocks_cross_two_lines_by_cell_and_by_block() {
    for by in [By::Cell, By::Block] {
        relayed(by, |_, node| {
            let mut liaison = node.connect(CALLED, &Call::default()).unwrap();
            let mut block = Vec::new();
            for (n, len) in [0, 1, 46, 47, 5_000, 11_730].into_iter().enumerate() {
                let sent = octets(len, n);
                liaison.send(&sent).unwrap();
                assert!(liaison.recv(&mut block, Some(PATIENCE)).unwrap());
                assert!(block == sent, "{by:?}: {len} octets");
            }
            let nobody = Address {
                sap: Sap(8),
                ..CALLED
            };
            let refused = node.connect(nobody, &Call::default());
            let Err(Error::Refused { reason, .. }) = refused else {
                panic!("{refused:?}");
            };
            assert_eq!(reason, Refusal::NoSap);
        });
    }
}

#[test]
fn a_relay_that_has_no_room_refuses_with_an_offer_that_is_admitted() {
    relayed(By::Cell, |daemon, node| {
        // The relay's second line has less than the first.
        let other = daemon.builder("c.0.900", "cbr,aal5:tx:pcr=200000,rx:none");
        let other = other.open().unwrap();
        let mut call = Call {
            contract: "cbr:tx:pcr=200000,rx:pcr=1000".to_owned(),
            ..Call::default()
        };
        let refused = node.connect(CALLED, &call);
        let Err(Error::Refused {
            reason: Refusal::NotAdmitted,
            offer,
            ..
        }) = refused
        else {
            panic!("{refused:?}");
        };
        call.contract = offer;
        let mut liaison = node.connect(CALLED, &call).unwrap();
        liaison.send(b"fits").unwrap();
        let mut block = Vec::new();
        assert!(liaison.recv(&mut block, Some(PATIENCE)).unwrap());
        assert_eq!(block, b"fits");
        drop(other);
    });
}

/// A block that has not come back by then never will.
const LOST: Duration = Duration::from_secs(5);

/// Microseconds of a block of 255 cells there and back, over lines of 10 Mbit/s.
fn round_trip(by: By) -> f64 {
    let mut best = f64::MAX;
    relayed(by, |_, node| {
        let call = Call {
            contract: "cbr:pcr=23585".to_owned(),
            ..Call::default()
        };
        let mut liaison = node.connect(CALLED, &call).unwrap();
        let (sent, mut block) = (octets(11_730, 0), Vec::new());
        for _ in 0..12 {
            let began = Instant::now();
            liaison.send(&sent).unwrap();
            // A block that a busy machine has lost says nothing of the others.
            if liaison.recv(&mut block, Some(LOST)).unwrap() {
                best = best.min(began.elapsed().as_secs_f64() * 1e6);
            }
        }
    });
    assert!(best < f64::MAX, "all blocks were lost");
    best
}

#[test]
fn by_block_a_block_is_sent_once_more_on_each_way() {
    // 255 cells at 23,585 cells/s.
    let block_us = 10_812.0;
    let (cell, block) = (round_trip(By::Cell), round_trip(By::Block));
    println!("255 cells there and back: {cell:.0} us by cell, {block:.0} us by block");
    // No block is sooner whole than the line lets it be.
    assert!(cell > 2.0 * block_us * 0.9 && block > 4.0 * block_us * 0.9);
}
