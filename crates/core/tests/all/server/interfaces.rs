//! Interfaces that are added and removed.

use cellgate_core::keeper::UdpLink;
use cellgate_core::server::{
    AdapterRefusal, Change, Confirm, HeaderForm, Indication, InterfaceSpec, Link, Priority,
    Refused, Request,
};

use super::world::{ROOT, SERVER_UID, World, config, open, user, wan};

const CBR: &str = "cbr:pcr=1000,max_sdu=1500";

/// It is asked of the adapter, kept for a successor, put on again on a new adapter, and taken back
/// where the adapter refuses it or dies.
fn memory(name: &str, peer: &str) -> InterfaceSpec {
    InterfaceSpec {
        adapter: None,
        name: name.to_owned(),
        link: Link::peer(peer),
        form: HeaderForm::Nni,
        priority: Priority::Normal,
        line_rate: None,
        line: None,
    }
}

#[test]
fn an_address_without_interface_is_of_lo_where_there_are_several() {
    let mut world = World::new(config());
    let governor = world.hello(user(SERVER_UID));
    world.find_adapter();
    for (name, peer) in [("a", "b"), ("b", "a"), ("lo", "lo")] {
        let spec = memory(name, peer);
        let added = world.done(governor, Request::AddInterface(spec));
        assert_eq!(added, Ok(Confirm::Done), "{name}");
    }
    let mut unnamed = open(100, CBR);
    unnamed.address.interface = None;
    let opened = world.done(governor, Request::Open(unnamed));
    let Ok(Confirm::Opened(opened)) = opened else {
        panic!("{opened:?}");
    };
    assert_eq!(opened.address.to_string(), "lo.0.100");
}

#[test]
fn a_line_is_impaired_for_those_who_govern_and_stays_so() {
    let (mut world, root) = World::with_wan(config());
    let mortal = world.hello(user(1));
    let set = |name: &str, words: &str| Request::SetLine {
        name: name.to_owned(),
        line: words.parse().expect(words),
    };
    let line_of = |world: &mut World| {
        let client = world.hello(ROOT);
        let Ok(Confirm::Interfaces(all)) = world.done(client, Request::Interfaces) else {
            panic!("no list");
        };
        let [wan] = &all[..] else { panic!("{all:?}") };
        let kept = world
            .adapter
            .links
            .values()
            .next()
            .and_then(|spec| spec.line.clone());
        assert!(wan.up && kept == wan.spec.line);
        wan.spec.line.as_ref().map(|line| line.to_string())
    };
    let refused = world.done(mortal, set("wan", "loss 1%"));
    assert_eq!(refused, Err(Refused::NotPermitted));
    let refused = world.done(root, set("lan", "loss 1%"));
    assert_eq!(refused, Err(Refused::NoInterface));
    let connection = world.opened(user(1), 100, CBR);
    assert_eq!(world.done(root, set("wan", "loss 1%")), Ok(Confirm::Done));
    let impaired = Some("loss 1% seed 0".to_owned());
    assert_eq!(line_of(&mut world), impaired);
    assert_eq!(world.list(connection).len(), 1);
    // The next server, and then the next adapter.
    world.restart(0);
    world.finish();
    assert_eq!(line_of(&mut world), impaired);
    world.lose_adapter();
    world.find_adapter();
    world.finish();
    assert_eq!(line_of(&mut world), impaired);
    let root = world.hello(ROOT);
    world.refuse_next = Some(AdapterRefusal::Link("no memory".to_owned()));
    let refused = world.done(root, set("wan", "clean"));
    assert_eq!(refused, Err(Refused::Interface("no memory".to_owned())));
    assert_eq!(line_of(&mut world), impaired);
    let id = world.send(root, set("wan", "loss 2%"));
    world.lose_adapter();
    assert_eq!(world.confirmed(root, id), Err(Refused::AdapterAway));
    let away = world.done(root, set("wan", "loss 2%"));
    assert_eq!(away, Err(Refused::AdapterAway));
    world.find_adapter();
    world.finish();
    assert_eq!(line_of(&mut world), impaired);
    assert_eq!(world.done(root, set("wan", "clean")), Ok(Confirm::Done));
    assert_eq!(line_of(&mut world), None);
}

#[test]
fn interfaces_are_for_those_who_govern() {
    let mut world = World::new(config());
    let (governor, mortal) = (world.hello(user(SERVER_UID)), world.hello(user(1)));
    let add = |spec: InterfaceSpec| Request::AddInterface(spec);
    assert_eq!(
        world.done(governor, add(wan("wan"))),
        Err(Refused::AdapterAway)
    );
    world.find_adapter();
    assert_eq!(world.open(mortal, 100, CBR), Err(Refused::NoInterface));
    assert_eq!(
        world.done(mortal, add(wan("wan"))),
        Err(Refused::NotPermitted)
    );
    let monitor = world.done(mortal, Request::Monitor);
    assert_eq!(monitor, Ok(Confirm::Done));
    assert_eq!(
        world.done(governor, add(memory("a", "b"))),
        Ok(Confirm::Done)
    );
    for spec in [
        memory("a", "a"),
        memory("", "x"),
        memory("c", "a"),
        memory("c", "!"),
    ] {
        let refused = world.done(governor, add(spec.clone()));
        assert!(
            matches!(refused, Err(Refused::Interface(_))),
            "{spec:?}: {refused:?}"
        );
    }
    let not_b = world.done(governor, add(memory("b", "c")));
    assert!(matches!(not_b, Err(Refused::Interface(_))), "{not_b:?}");
    assert_eq!(
        world.done(governor, add(memory("b", "a"))),
        Ok(Confirm::Done)
    );
    world.refuse_next = Some(AdapterRefusal::Link("EADDRINUSE".to_owned()));
    let refused = world.done(governor, add(wan("wan")));
    assert_eq!(refused, Err(Refused::Interface("EADDRINUSE".to_owned())));
    let all = world.done(mortal, Request::Interfaces);
    let Ok(Confirm::Interfaces(all)) = all else {
        panic!("{all:?}");
    };
    let ports: Vec<_> = all
        .iter()
        .map(|one| (one.spec.name.as_str(), one.port.0))
        .collect();
    assert_eq!(ports, [("a", 0), ("b", 1)]);
    // Two of them: an address has to name one.
    let mut unnamed = open(100, CBR);
    unnamed.address.interface = None;
    let refused = world.done(mortal, Request::Open(unnamed.clone()));
    let names = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(refused, Err(Refused::InterfaceUnnamed { names }));
    unnamed.address.interface = Some("b".to_owned());
    assert!(world.done(mortal, Request::Open(unnamed.clone())).is_ok());
    let remove = |name: &str| Request::RemoveInterface {
        name: name.to_owned(),
    };
    let busy = world.done(governor, remove("b"));
    assert_eq!(busy, Err(Refused::InterfaceInUse { connections: 1 }));
    assert_eq!(world.done(governor, remove("c")), Err(Refused::NoInterface));
    assert_eq!(world.done(governor, remove("a")), Ok(Confirm::Done));
    let changes: Vec<_> = world
        .indications(mortal)
        .into_iter()
        .filter_map(|(_, indication)| match indication {
            Indication::Interface { change, info } => Some((info.spec.name, change, info.up)),
            _ => None,
        })
        .collect();
    let change = |name: &str, change, up| (name.to_owned(), change, up);
    let expected = [
        change("a", Change::Added, true),
        change("b", Change::Added, true),
        change("b", Change::Changed, false),
        change("a", Change::Removed, false),
    ];
    assert_eq!(changes, expected);
}

fn wire(local: &str, peer: &str, from: Option<u16>) -> Link {
    Link::Udp(UdpLink {
        local: local.parse().unwrap(),
        peer: peer.parse().unwrap(),
        source_port: 0,
        peer_source_port: from,
        label_out: 16,
        label_in: 16,
        mode: Default::default(),
        mtu: 1_500,
        pack: None,
        timer_ns: 0,
    })
}

#[test]
fn pseudowires_that_no_machine_can_have_are_refused() {
    let (mut world, root) = World::with_wan(config());
    let mut add = |name: &str, link: Link| {
        let spec = InterfaceSpec {
            adapter: None,
            name: name.to_owned(),
            link,
            form: HeaderForm::Nni,
            priority: Priority::Normal,
            line_rate: None,
            line: None,
        };
        world.done(root, Request::AddInterface(spec))
    };
    let here = "192.0.2.1:6635";
    for (local, peer) in [
        ("192.0.2.1:0", "192.0.2.2:6635"),
        (here, "192.0.2.2:0"),
        (here, "224.0.0.1:6635"),
        (here, "255.255.255.255:6635"),
        (here, "0.0.0.0:6635"),
        ("[::1]:6635", "[ff02::1]:6635"),
        ("[::1]:6635", "[::]:6635"),
    ] {
        let refused = add("w", wire(local, peer, None));
        assert!(
            matches!(refused, Err(Refused::Interface(_))),
            "{local} {peer}"
        );
    }
    assert_eq!(
        add("w", wire(here, "192.0.2.2:6635", Some(5_000))),
        Ok(Confirm::Done)
    );
    // Told apart by who sends; not by labels.
    assert_eq!(
        add("x", wire(here, "192.0.2.3:6635", Some(5_000))),
        Ok(Confirm::Done)
    );
    for (local, peer, from) in [
        (here, "192.0.2.4:6635", None),
        (here, "192.0.2.2:6635", Some(5_000)),
        ("0.0.0.0:6635", "192.0.2.4:6635", None),
    ] {
        let refused = add("y", wire(local, peer, from));
        assert!(
            matches!(refused, Err(Refused::Interface(_))),
            "{local} {peer}"
        );
    }
    let elsewhere = wire("192.0.2.1:6636", "192.0.2.2:6635", None);
    assert_eq!(add("y", elsewhere), Ok(Confirm::Done));
}
