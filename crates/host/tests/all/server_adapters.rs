//! A daemon with several adapters: each has its own process and books, and dies alone.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::common::application::*;
use crate::common::*;
use cellgate::Admin;
use cellgate_core::server::{
    Confirm, HeaderForm, Indication, InterfaceSpec, Link, Priority, Refused, Request, Resource,
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

fn are_all_up(admin: &mut Admin) -> bool {
    admin.interfaces().unwrap().iter().all(|info| info.up)
}

fn is_reopened(told: &Indication) -> bool {
    matches!(told, Indication::Reopened(_))
}

#[test]
fn each_adapter_is_a_process_with_books_of_its_own() {
    let daemon = Daemon::start_with("three", &NAMES, THREE);
    let mut watcher = daemon.admin();
    let adapters = watcher.adapters().unwrap().into_iter();
    let names = adapters.map(|info| info.name.unwrap());
    assert_eq!(names.collect::<Vec<_>>(), NAMES);
    let pids: BTreeSet<_> = NAMES.map(|name| daemon.adapter_named(name).unwrap()).into();
    assert_eq!(pids.len(), 3);
    assert!(!pids.contains(&daemon.pid()));
    let reserved = |watcher: &mut Admin, resource, name: &str| {
        let all = watcher.resources().unwrap().into_iter();
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
    let mut admin = daemon.admin();
    let (west, east) = (daemon.open("we.0.100", CBR), daemon.open("ew.0.100", CBR));
    for (out, back) in Sdus::new(2, 1_000).zip(Sdus::new(3, 1_000)).take(200) {
        crosses(&west, &east, &out);
        crosses(&east, &west, &back);
    }
    assert!(are_all_up(&mut admin));
    drop(west);
    eventually("nobody is there", || admin.remove_interface("we").ok());
    let of = |name: &str| {
        let all = daemon.admin().interfaces().unwrap().into_iter();
        all.into_iter().find(|info| info.spec.name == name).unwrap()
    };
    assert!(!of("ew").up);
    // On another adapter this time.
    let spec = InterfaceSpec {
        name: "we".to_owned(),
        adapter: Some("mid".to_owned()),
        link: Link::peer("ew"),
        form: HeaderForm::Nni,
        priority: Priority::Normal,
        line_rate: None,
        line: None,
    };
    admin.add_interface(spec.clone()).unwrap();
    assert!(of("ew").up && of("we").spec == spec);
    crosses(&daemon.open("we.0.100", CBR), &east, b"from the middle");
    let nowhere = InterfaceSpec {
        name: "n".to_owned(),
        adapter: Some("north".to_owned()),
        ..spec
    };
    let refused = admin.add_interface(nowhere).unwrap_err();
    assert!(refused.to_string().contains("no such adapter"), "{refused}");
}

#[test]
fn the_death_of_one_is_noticed_by_the_others_in_nothing() {
    let daemon = Daemon::start_with("deaths", &NAMES, THREE);
    let mid = daemon.open("m.0.100", CBR);
    let mut others = ["w.0.100", "e.0.100"].map(|address| daemon.open(address, CBR));
    let pids = |names: [&str; 2]| names.map(|name| daemon.adapter_named(name).unwrap());
    let stay = pids(["west", "east"]);
    // Not three: a connection that three in a row die of is left out.
    for round in 0..2 {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let streams: Vec<_> = others
                .iter_mut()
                .map(|other| {
                    let ended = &ended;
                    scope.spawn(move || {
                        let mut number = 0_u32;
                        // A test that has failed does not end it.
                        let from = Instant::now();
                        while !ended.load(Ordering::Relaxed) || number < 200 {
                            assert!(from.elapsed() < PATIENCE);
                            crosses(other, other, &number.to_be_bytes());
                            number += 1;
                        }
                        number
                    })
                })
                .collect();
            crosses(&mid, &mid, b"before");
            kill(daemon.adapter_named("mid").unwrap(), Signal::KILL);
            hears(&mid, is_reopened);
            crosses(&mid, &mid, b"after");
            ended.store(true, Ordering::Relaxed);
            let sent: Vec<_> = streams.into_iter().map(|one| one.join().unwrap()).collect();
            println!("round {round}: {sent:?} PDUs beside a death, none lost");
        });
    }
    assert_eq!(pids(["west", "east"]), stay);
    for other in others {
        let stats = other.close(PATIENCE).unwrap();
        assert_eq!(stats.pdus_transmitted, stats.pdus_delivered);
        assert_eq!(stats.cells_discarded.total(), 0);
    }
    println!("ran adapters_die_alone");
}

#[test]
fn a_link_to_an_adapter_that_died_is_there_again_with_its_successor() {
    let daemon = Daemon::start_with("relinked", &NAMES, THREE);
    let mut watcher = daemon.admin();
    let (west, east) = (daemon.open("we.0.100", CBR), daemon.open("ew.0.100", CBR));
    for round in 0..4_u32 {
        crosses(&west, &east, &round.to_be_bytes());
        // Either end.
        let (name, connection) = match round % 2 {
            0 => ("east", &east),
            _ => ("west", &west),
        };
        kill(daemon.adapter_named(name).unwrap(), Signal::KILL);
        hears(connection, is_reopened);
        eventually("the link is there again", || {
            are_all_up(&mut watcher).then_some(())
        });
        crosses(&east, &west, b"back");
    }
}

#[test]
fn a_successor_of_the_daemon_takes_all_adapters_up_and_ends_those_without_a_name() {
    let mut daemon = Daemon::start_with("taken", &NAMES, THREE);
    let addresses = ["w.0.100", "m.0.100", "e.0.100", "we.0.100", "ew.0.100"];
    let connections = addresses.map(|address| daemon.open(address, CBR));
    assert_eq!(
        connections.each_ref().map(|one| one.address().to_string()),
        addresses
    );
    let pids = NAMES.map(|name| daemon.adapter_named(name));
    daemon.kill();
    daemon.restart();
    for connection in &connections {
        hears(connection, |told| *told == Indication::Restarted);
    }
    assert_eq!(NAMES.map(|name| daemon.adapter_named(name)), pids);
    let mut watcher = daemon.admin();
    assert!(are_all_up(&mut watcher));
    let [west, mid, east, we, ew] = &connections;
    for connection in [west, mid, east] {
        crosses(connection, connection, b"on");
    }
    crosses(we, ew, b"across");
    // A new connection has a number of its own.
    let new = daemon.open("m.0.101", CBR);
    crosses(&new, &new, b"new");
    drop((connections, new));
    daemon.kill();
    daemon.has(&["mid"]);
    daemon.configure("");
    daemon.restart();
    let _ready = daemon.connect();
    let left = NAMES.map(|name| daemon.adapter_named(name).is_some());
    assert_eq!(left, [false, true, false]);
}
