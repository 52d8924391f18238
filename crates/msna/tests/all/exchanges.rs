//! Calls and their replies.
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cellgate::LineSpec;
use cellgate_msna::rex::{Event, Failure, MESSAGE_MAX, Outcome};
use cellgate_msna::{Access, Address, Call, Error, Exchanger, Node, NodeConfig, Sap};

use crate::common::{Daemon, PATIENCE};
use crate::echo::{Thread, octets};

const SERVER: Address = Address {
    host: Ipv4Addr::new(10, 0, 0, 2),
    sap: Sap(20),
};

fn exchanger(config: NodeConfig) -> Exchanger {
    Exchanger::new(Node::open(config).unwrap(), Call::default()).unwrap()
}

fn caller(daemon: &Daemon, access: Access) -> Exchanger {
    let host = Ipv4Addr::new(10, 0, 0, 1);
    exchanger(NodeConfig::new(host, access).on("a").at(daemon.path()))
}

/// A server that replies with what it was called with, or never; the calls that it has executed.
fn server(daemon: &Daemon, access: Access, is_silent: bool) -> (Thread, Arc<AtomicU64>) {
    let executed = Arc::<AtomicU64>::default();
    let counted = Arc::clone(&executed);
    let config = NodeConfig::new(SERVER.host, access)
        .on("b")
        .at(daemon.path());
    let begin = || {
        let mut server = exchanger(config);
        server.serve(SERVER.sap);
        server
    };
    let thread = Thread::start(begin, move |server| {
        let event = server.next_event(Some(Duration::from_millis(20))).unwrap();
        if let Some(Event::Called { exchange, octets }) = event {
            counted.fetch_add(1, Ordering::Relaxed);
            if !is_silent {
                server.reply(exchange, octets).unwrap();
            }
        }
    });
    (thread, executed)
}

#[test]
fn each_call_has_its_reply_up_to_the_longest() {
    let daemon = Daemon::start();
    for access in [Access::Cells, Access::Aal5] {
        let (_server, executed) = server(&daemon, access, false);
        let mut caller = caller(&daemon, access);
        for (n, len) in [0, 1, 11_000, 11_730, 100_000, MESSAGE_MAX]
            .into_iter()
            .enumerate()
        {
            let sent = octets(len, n);
            let outcome = caller.ask(SERVER, sent.clone()).unwrap();
            assert!(outcome == Outcome::Reply(sent), "{access:?}: {len} octets");
        }
        assert_eq!(executed.load(Ordering::Relaxed), 6);
        let long = caller.call(SERVER, vec![0; MESSAGE_MAX + 1]);
        assert!(matches!(long, Err(Error::Call(_))), "{long:?}");
        // Calls at once, each with a reply of its own.
        let mut under_way: Vec<_> = (0..20)
            .map(|n| {
                (
                    caller.call(SERVER, octets(3_000, n)).unwrap(),
                    octets(3_000, n),
                )
            })
            .collect();
        while !under_way.is_empty() {
            let event = caller.next_event(Some(PATIENCE)).unwrap();
            let Some(Event::Ended { call, outcome }) = event else {
                panic!("{event:?}");
            };
            let at = under_way
                .iter()
                .position(|(other, _)| *other == call)
                .unwrap();
            assert_eq!(outcome, Outcome::Reply(under_way.swap_remove(at).1));
        }
    }
}

#[test]
fn over_a_bad_line_each_call_is_executed_once() {
    let daemon = Daemon::start();
    let (_server, executed) = server(&daemon, Access::Cells, false);
    let mut caller = caller(&daemon, Access::Cells);
    caller.ask(SERVER, Vec::new()).unwrap();
    let mut admin = daemon.admin();
    for (seed, name) in [(1, "a"), (2, "b")] {
        let bad = LineSpec {
            loss: "0.3%".parse().unwrap(),
            duplicate: "0.3%".parse().unwrap(),
            seed,
            ..LineSpec::default()
        };
        admin.set_line(name, bad).unwrap();
    }
    for n in 0..40 {
        let sent = octets(n * 100, n);
        let outcome = caller.ask(SERVER, sent.clone()).unwrap();
        assert!(outcome == Outcome::Reply(sent), "call {n}");
    }
    assert_eq!(executed.load(Ordering::Relaxed), 41);
}

#[test]
fn a_server_that_dies_fails_the_call_and_its_successor_serves_the_next() {
    let daemon = Daemon::start();
    let mut caller = caller(&daemon, Access::Cells);
    let (dies, executed) = server(&daemon, Access::Cells, true);
    let call = caller.call(SERVER, vec![7]).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while executed.load(Ordering::Relaxed) == 0 {
        let event = caller.next_event(Some(Duration::from_millis(5))).unwrap();
        assert!(event.is_none() && Instant::now() < deadline, "{event:?}");
    }
    // Between executing and replying.
    drop(dies);
    let (_successor, after) = server(&daemon, Access::Cells, false);
    let event = caller.next_event(Some(PATIENCE)).unwrap();
    let Some(Event::Ended {
        call: ended,
        outcome,
    }) = event
    else {
        panic!("{event:?}");
    };
    assert_eq!(ended, call);
    let lost = [Failure::TimedOut, Failure::Restarted, Failure::Dropped];
    assert!(lost.map(Outcome::Failed).contains(&outcome), "{outcome:?}");
    let outcome = caller.ask(SERVER, vec![8]).unwrap();
    assert_eq!(outcome, Outcome::Reply(vec![8]));
    assert_eq!(after.load(Ordering::Relaxed), 1);
}

#[test]
fn a_call_that_is_cancelled_ends_so() {
    let daemon = Daemon::start();
    let _server = server(&daemon, Access::Aal5, true);
    let mut caller = caller(&daemon, Access::Aal5);
    let call = caller.call(SERVER, vec![1]).unwrap();
    caller.cancel(call);
    let event = caller.next_event(Some(PATIENCE)).unwrap();
    let outcome = Outcome::Failed(Failure::Cancelled);
    assert_eq!(event, Some(Event::Ended { call, outcome }));
}
