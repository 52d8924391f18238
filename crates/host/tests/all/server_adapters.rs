//! A daemon with several adapters: each has its own process and books, and dies alone.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::common::application::*;
use crate::common::*;
use cellgate_core::server::{
    AdapterInfo, Confirm, Indication, InterfaceInfo, InterfaceSpec, Link, Refused, Request,
    Resource,
};
use rustix::process::Signal;

const NAMES: [&str; 3] = ["west", "mid", "east"];

/// An interface of each adapter that receives what it sends, and a link from west to east.
const THREE: &str = "[[interface]]\nname = \"w\"\nadapter = \"west\"\nlink.memory.peer = \"w\"\n\
                     [[interface]]\nname = \"m\"\nadapter = \"mid\"\nlink.memory.peer = \"m\"\n\
                     [[interface]]\nname = \"e\"\nadapter = \"east\"\nlink.memory.peer = \"e\"\n\
                     [[interface]]\nname = \"we\"\nadapter = \"west\"\nlink.memory.peer = \"ew\"\n\
                     [[interface]]\nname = \"ew\"\nadapter = \"east\"\nlink.memory.peer = \"we\"\n";

const CBR: &str = "aal5,cbr:pcr=20000cps,max_sdu=1000";

fn interfaces(application: &mut Application) -> Vec<InterfaceInfo> {
    match application.ask(Request::Interfaces) {
        Ok(Confirm::Interfaces(all)) => all,
        other => panic!("{other:?}"),
    }
}

fn adapters(application: &mut Application) -> Vec<AdapterInfo> {
    match application.ask(Request::Adapters) {
        Ok(Confirm::Adapters(all)) => all,
        other => panic!("{other:?}"),
    }
}

fn reopened(indication: &Indication) -> Option<cellgate_core::server::Opened> {
    match indication {
        Indication::Reopened(opened) => Some(opened.clone()),
        _ => None,
    }
}

#[test]
fn each_adapter_is_a_process_with_books_of_its_own() {
    let daemon = Daemon::start_with("three", &NAMES, THREE);
    let mut watcher = daemon.connect();
    let names = adapters(&mut watcher)
        .into_iter()
        .map(|info| info.name.unwrap());
    assert_eq!(names.collect::<Vec<_>>(), NAMES);
    let pids: BTreeSet<_> = NAMES.map(|name| daemon.adapter_named(name).unwrap()).into();
    assert_eq!(pids.len(), 3);
    assert!(!pids.contains(&daemon.pid()));
    let reserved = |watcher: &mut Application, resource, name: &str| {
        let all = watcher.resources().into_iter();
        let mut all = all.filter(|info| info.resource == resource);
        let of = all.find(|info| info.adapter.as_deref() == Some(name));
        of.unwrap().reserved
    };
    // Two VCs of one address and one index, on two adapters.
    let (mut one, mut other) = (daemon.connect(), daemon.connect());
    let (confirm, fds) = one.ask_with(Request::Open(open("w.0.100", CBR)), &[]);
    let Ok(Confirm::Opened(opened)) = confirm else {
        panic!("{confirm:?}");
    };
    let capability = fds[1].try_clone().unwrap();
    let mut west = raw(&opened, fds);
    for resource in [
        Resource::AdapterCpu,
        Resource::Memory,
        Resource::Connections,
    ] {
        assert!(reserved(&mut watcher, resource, "west") > 0, "{resource}");
        assert_eq!(reserved(&mut watcher, resource, "east"), 0, "{resource}");
    }
    let (beside, mut east) = other.open(open("e.0.100", CBR)).unwrap();
    assert_eq!(
        (opened.vc, opened.attachment),
        (beside.vc, beside.attachment)
    );
    for sdu in Sdus::new(1, 1_000).take(100) {
        west.send(&sdu);
        east.send(b"beside");
        assert_eq!(west.receive(), sdu);
        assert_eq!(east.receive(), b"beside");
    }
    // What belongs to one is no key to the other.
    let mut stranger = daemon.connect();
    let address = "e.0.100".parse().unwrap();
    let (refused, _) = stranger.ask_with(Request::Reattach { address }, &[capability.as_fd()]);
    assert!(
        matches!(refused, Err(Refused::Descriptors(_))),
        "{refused:?}"
    );
    drop((one, west));
    eventually("it is given back", || {
        (reserved(&mut watcher, Resource::Memory, "west") == 0).then_some(())
    });
    assert!(reserved(&mut watcher, Resource::Memory, "east") > 0);
}

#[test]
fn a_memory_link_joins_two_adapters() {
    let daemon = Daemon::start_with("joined", &NAMES, THREE);
    let (mut one, mut other) = (daemon.connect(), daemon.connect());
    let (_, mut west) = one.open(open("we.0.100", CBR)).unwrap();
    let (_, mut east) = other.open(open("ew.0.100", CBR)).unwrap();
    for (out, back) in Sdus::new(2, 1_000).zip(Sdus::new(3, 1_000)).take(200) {
        west.send(&out);
        assert_eq!(east.receive(), out);
        east.send(&back);
        assert_eq!(west.receive(), back);
    }
    assert!(interfaces(&mut one).iter().all(|info| info.up));
    let name = "we".to_owned();
    drop((west, one));
    eventually("nobody is there", || {
        let removed = daemon
            .connect()
            .ask(Request::RemoveInterface { name: name.clone() });
        removed.is_ok().then_some(())
    });
    let of = |name: &str| {
        interfaces(&mut daemon.connect())
            .into_iter()
            .find(|i| i.spec.name == name)
    };
    assert!(!of("ew").unwrap().up);
    // On another adapter this time.
    let spec = InterfaceSpec {
        name,
        adapter: Some("mid".to_owned()),
        link: Link::Memory {
            peer: "ew".to_owned(),
        },
        line_rate: None,
        line: None,
    };
    let added = daemon.connect().ask(Request::AddInterface(spec.clone()));
    assert_eq!(added, Ok(Confirm::Done));
    assert!(of("ew").unwrap().up && of("we").unwrap().spec == spec);
    let mut one = daemon.connect();
    let (_, mut mid) = one.open(open("we.0.100", CBR)).unwrap();
    mid.send(b"from the middle");
    assert_eq!(east.receive(), b"from the middle");
    let nowhere = InterfaceSpec {
        name: "n".to_owned(),
        adapter: Some("north".to_owned()),
        ..spec
    };
    let refused = daemon
        .connect()
        .ask(Request::AddInterface(nowhere))
        .unwrap_err();
    assert!(refused.to_string().contains("no such adapter"), "{refused}");
}

#[test]
fn the_death_of_one_is_noticed_by_the_others_in_nothing() {
    let daemon = Daemon::start_with("deaths", &NAMES, THREE);
    let mut killed = daemon.connect();
    let (_, mut mid) = killed.open(open("m.0.100", CBR)).unwrap();
    let mut others = Vec::new();
    for address in ["w.0.100", "e.0.100"] {
        let mut application = daemon.connect();
        let (_, vc) = application.open(open(address, CBR)).unwrap();
        others.push((application, vc));
    }
    let pids = |names: [&str; 2]| names.map(|name| daemon.adapter_named(name).unwrap());
    let stay = pids(["west", "east"]);
    // Not three: a connection that three in a row die of is left out.
    for round in 0..2 {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let streams: Vec<_> = others
                .iter_mut()
                .map(|(_, vc)| {
                    let ended = &ended;
                    scope.spawn(move || {
                        let mut number = 0_u32;
                        // A test that has failed does not end it.
                        let from = Instant::now();
                        while !ended.load(Ordering::Relaxed) || number < 200 {
                            assert!(from.elapsed() < PATIENCE);
                            vc.send(&number.to_be_bytes());
                            assert_eq!(vc.receive(), number.to_be_bytes());
                            number += 1;
                        }
                        number
                    })
                })
                .collect();
            mid.send(b"before");
            assert_eq!(mid.receive(), b"before");
            kill(daemon.adapter_named("mid").unwrap(), Signal::KILL);
            let (opened, fds) = killed.indication(reopened);
            mid = raw(&opened, fds);
            mid.send(b"after");
            assert_eq!(mid.receive(), b"after");
            ended.store(true, Ordering::Relaxed);
            let sent: Vec<_> = streams.into_iter().map(|one| one.join().unwrap()).collect();
            println!("round {round}: {sent:?} PDUs beside a death, none lost");
        });
    }
    assert_eq!(pids(["west", "east"]), stay);
    for (application, _) in &mut others {
        let Ok(Confirm::Closed { stats }) = application.ask(Request::Close) else {
            panic!("closed");
        };
        assert_eq!(stats.pdus_transmitted, stats.pdus_delivered);
        assert_eq!(stats.cells_discarded.total(), 0);
    }
    println!("ran adapters_die_alone");
}

#[test]
fn a_link_to_an_adapter_that_died_is_there_again_with_its_successor() {
    let daemon = Daemon::start_with("relinked", &NAMES, THREE);
    let (mut one, mut other) = (daemon.connect(), daemon.connect());
    let (_, mut west) = one.open(open("we.0.100", CBR)).unwrap();
    let (_, mut east) = other.open(open("ew.0.100", CBR)).unwrap();
    for round in 0..4_u32 {
        west.send(&round.to_be_bytes());
        assert_eq!(east.receive(), round.to_be_bytes());
        // Either end.
        let (name, application, vc) = match round % 2 {
            0 => ("east", &mut other, &mut east),
            _ => ("west", &mut one, &mut west),
        };
        kill(daemon.adapter_named(name).unwrap(), Signal::KILL);
        let (opened, fds) = application.indication(reopened);
        *vc = raw(&opened, fds);
        let mut watcher = daemon.connect();
        eventually("the link is there again", || {
            interfaces(&mut watcher)
                .iter()
                .all(|info| info.up)
                .then_some(())
        });
        east.send(b"back");
        assert_eq!(west.receive(), b"back");
    }
}

#[test]
fn a_successor_of_the_daemon_takes_all_adapters_up_and_ends_those_without_a_name() {
    let mut daemon = Daemon::start_with("taken", &NAMES, THREE);
    let mut applications = Vec::new();
    for address in ["w.0.100", "m.0.100", "e.0.100", "we.0.100", "ew.0.100"] {
        let mut application = daemon.connect();
        let (opened, vc) = application.open(open(address, CBR)).unwrap();
        assert_eq!(opened.address.to_string(), address);
        applications.push((application, vc));
    }
    let pids = NAMES.map(|name| daemon.adapter_named(name));
    daemon.kill();
    daemon.restart();
    for (application, _) in &mut applications {
        application.indication(|i| (*i == Indication::Restarted).then_some(()));
    }
    assert_eq!(NAMES.map(|name| daemon.adapter_named(name)), pids);
    let mut watcher = daemon.connect();
    assert!(interfaces(&mut watcher).iter().all(|info| info.up));
    let [(_, west), (_, mid), (_, east), (_, we), (_, ew)] = &mut applications[..] else {
        panic!("five");
    };
    for vc in [west, mid, east] {
        vc.send(b"on");
        assert_eq!(vc.receive(), b"on");
    }
    we.send(b"across");
    assert_eq!(ew.receive(), b"across");
    // A new connection has a number of its own.
    let (_, mut vc) = watcher.open(open("m.0.101", CBR)).unwrap();
    vc.send(b"new");
    assert_eq!(vc.receive(), b"new");
    drop((applications, watcher, vc));
    daemon.kill();
    daemon.has(&["mid"]);
    daemon.configure("");
    daemon.restart();
    let _ready = daemon.connect();
    let left = NAMES.map(|name| daemon.adapter_named(name).is_some());
    assert_eq!(left, [false, true, false]);
}
