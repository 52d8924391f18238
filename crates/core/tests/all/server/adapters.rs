//! A server of several adapters: each has its own books, and dies alone.

use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::adapter::{AttachmentIndex, PortIndex};
use cellgate_core::server::{
    AdapterBooks, AdapterIndex, Book, Bound, ClientId, Confirm, FromServer, Health, Indication,
    InterfaceSpec, Link, Open, PagesOf, Refused, Request, Resource, ServerAdapter, ServerConfig,
    SharedCpu, TakenInterface,
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::world::{FIRST, ROOT, World, config, open, user, wan};

const SECOND: AdapterIndex = AdapterIndex(1);
const CBR: &str = "cbr:pcr=1000,max_sdu=1500";

/// `west` and `east`; the second has little.
fn two() -> ServerConfig {
    let mut config = config();
    let one = config.adapters[0].clone();
    let named = |name: &str, ports| ServerAdapter {
        name: Some(name.to_owned()),
        ports,
        ..one.clone()
    };
    config.adapters = vec![named("west", 4), named("east", 2)];
    (config.limits.interfaces, config.limits.clients_per_user) = (6, 200);
    config.limits.clients = 400;
    config.admission.adapters.push(AdapterBooks {
        cpu_ppm: 20_000,
        memory: 8 << 20,
        connections: 5,
    });
    config
}

fn on(name: &str, adapter: &str) -> InterfaceSpec {
    InterfaceSpec {
        adapter: Some(adapter.to_owned()),
        ..wan(name)
    }
}

fn at(interface: &str, vci: u16, contract: &str) -> Open {
    Open {
        address: format!("{interface}.0.{vci}").parse().unwrap(),
        ..open(vci, contract)
    }
}

/// Both adapters are there; `w` is on the first, `e` on the second.
fn world(config: ServerConfig) -> (World, ClientId) {
    let mut world = World::new(config);
    for adapter in [FIRST, SECOND] {
        world.server.handle_adapter_ready(world.now, adapter);
    }
    let root = world.hello(ROOT);
    for spec in [on("w", "west"), on("e", "east")] {
        let added = world.done(root, Request::AddInterface(spec));
        assert_eq!(added, Ok(Confirm::Done));
    }
    (world, root)
}

fn opened(world: &mut World, uid: u32, interface: &str, vci: u16) -> ClientId {
    let client = world.hello(user(uid));
    let confirm = world.done(client, Request::Open(at(interface, vci, CBR)));
    assert!(matches!(confirm, Ok(Confirm::Opened(_))), "{confirm:?}");
    client
}

#[test]
fn an_interface_is_on_the_adapter_that_it_names() {
    let (mut world, root) = world(two());
    assert!(world.adapter.links.contains_key(&PortIndex(0)));
    assert!(world.at(SECOND).links.contains_key(&PortIndex(0)));
    let mut add = |spec| world.done(root, Request::AddInterface(spec));
    // Without a name it is on the first.
    assert_eq!(add(wan("first")), Ok(Confirm::Done));
    assert_eq!(add(on("e2", "east")), Ok(Confirm::Done));
    for (spec, why) in [
        (on("x", "north"), "no such adapter"),
        (on("e3", "east"), "all ports"),
        (on("e", "west"), "in use"),
    ] {
        let refused = add(spec).unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
    assert_eq!(
        (world.adapter.links.len(), world.at(SECOND).links.len()),
        (2, 2)
    );
}

#[test]
fn each_adapter_has_books_of_its_own_and_a_user_one_quota() {
    let mut config = two();
    config.admission.quota.connections = 7;
    let (mut world, root) = world(config);
    for vci in 100..105 {
        opened(&mut world, 1, "e", vci);
    }
    let mut refused = |interface: &str| {
        let client = world.hello(user(1));
        let refused = world.done(client, Request::Open(at(interface, 200, CBR)));
        match refused {
            Err(Refused::Admission(shortage)) => Some((shortage.resource, shortage.quota)),
            Ok(_) => None,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused("e"), Some((Resource::Connections, None)));
    assert_eq!(refused("w"), None);
    assert_eq!(refused("e"), Some((Resource::Connections, None)));
    let client = world.hello(user(1));
    assert!(world.done(client, Request::Open(at("w", 201, CBR))).is_ok());
    let client = world.hello(user(1));
    let beyond = world.done(client, Request::Open(at("w", 202, CBR)));
    let Err(Refused::Admission(shortage)) = beyond else {
        panic!("{beyond:?}");
    };
    assert_eq!(
        (shortage.resource, shortage.quota),
        (Resource::Connections, Some(1))
    );
    let all = world.resources(root);
    let of = |resource, name: Option<&str>| {
        let mut all = all.iter().filter(|info| info.resource == resource);
        all.find(|info| info.adapter.as_deref() == name).unwrap()
    };
    assert_eq!(of(Resource::Connections, Some("west")).reserved, 2);
    assert_eq!(of(Resource::Connections, Some("east")).reserved, 5);
    assert!(
        of(Resource::Memory, Some("east")).capacity < of(Resource::Memory, Some("west")).capacity
    );
    // Workers are the server's.
    let workers = all
        .iter()
        .filter(|info| info.resource == Resource::WorkerCpu);
    assert_eq!(
        workers.map(|info| &info.adapter).collect::<Vec<_>>(),
        [&None]
    );
}

#[test]
fn what_an_adapter_tells_is_about_its_own() {
    let (mut world, root) = world(two());
    let (west, east) = (
        opened(&mut world, 1, "w", 100),
        opened(&mut world, 2, "e", 100),
    );
    let health = Health {
        gap_ns: 31_000_000,
        gaps: 3,
        ..Health::default()
    };
    world.server.handle_health(world.now, SECOND, &health);
    world
        .server
        .handle_shared_cpu(SECOND, Some(SharedCpu::default()));
    world.drain();
    let at_risk = |world: &mut World, client| {
        let heard = world.indications(client);
        heard
            .iter()
            .any(|(_, one)| matches!(one, Indication::AtRisk { .. }))
    };
    assert!(at_risk(&mut world, east) && !at_risk(&mut world, west));
    let Ok(Confirm::Adapters(infos)) = world.done(root, Request::Adapters) else {
        panic!("they are listed");
    };
    let told = infos
        .iter()
        .map(|info| (info.name.as_deref(), info.gaps, info.shared.is_some()));
    let expected = [(Some("west"), 0, false), (Some("east"), 3, true)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    // Both have an attachment of the same number.
    let taken = [(PagesOf::Attachment(AttachmentIndex(0)), u32::MAX)];
    world.server.handle_pages_taken(world.now, SECOND, &taken);
    world.drain();
    assert_eq!(world.hung_up, BTreeSet::from([east]));
}

#[test]
fn who_was_promised_more_of_a_cpu_than_is_left_hears_so_once() {
    let (mut world, _) = world(two());
    let (west, east) = (
        opened(&mut world, 1, "w", 100),
        opened(&mut world, 2, "e", 100),
    );
    let at_risk = |world: &mut World, client| {
        let heard = world.indications(client).into_iter();
        let reasons = heard.filter_map(|(_, one)| match one {
            Indication::AtRisk { reason } => Some(reason),
            _ => None,
        });
        reasons.collect::<Vec<_>>()
    };
    for (capacity, told) in [(1_000_000, 0), (100, 1), (100, 0), (1_000_000, 0), (100, 1)] {
        let book = Book::of(Resource::AdapterCpu, SECOND);
        let by = "2 other adapters use CPU 1, too".to_owned();
        let bounds = BTreeMap::from([(book, Bound { capacity, by })]);
        world.server.handle_bounds(world.now, bounds);
        for adapter in [FIRST, SECOND] {
            world
                .server
                .handle_health(world.now, adapter, &Health::default());
        }
        world.drain();
        let reasons = at_risk(&mut world, east);
        assert_eq!(reasons.len(), told, "{capacity}: {reasons:?}");
        assert!(
            reasons
                .iter()
                .all(|reason| reason.contains("other adapters"))
        );
        assert!(at_risk(&mut world, west).is_empty());
    }
}

#[test]
fn a_memory_link_is_down_at_both_ends_while_one_adapter_is_away() {
    let (mut world, root) = world(two());
    for (name, peer, adapter) in [("we", "ew", "west"), ("ew", "we", "east")] {
        let spec = InterfaceSpec {
            link: Link::peer(peer),
            ..on(name, adapter)
        };
        assert_eq!(
            world.done(root, Request::AddInterface(spec)),
            Ok(Confirm::Done)
        );
    }
    let up = |world: &mut World| match world.done(root, Request::Interfaces) {
        Ok(Confirm::Interfaces(all)) => {
            let up = all.into_iter().filter(|info| info.up);
            up.map(|info| info.spec.name).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(up(&mut world), ["e", "ew", "w", "we"]);
    world.lose(SECOND);
    assert_eq!(up(&mut world), ["w"]);
    world.find(SECOND);
    world.finish();
    assert_eq!(up(&mut world), ["e", "ew", "w", "we"]);
}

#[test]
fn a_memory_link_that_is_taken_up_is_there_at_both_ends() {
    let mut world = World::new(two());
    // The second that is taken up finds the first.
    for (adapter, name, peer, up) in [(FIRST, "we", "ew", false), (SECOND, "ew", "we", true)] {
        let spec = InterfaceSpec {
            name: name.to_owned(),
            link: Link::peer(peer),
            ..wan(name)
        };
        let port = PortIndex(0);
        let interface = TakenInterface { spec, port, up };
        world
            .server
            .take_up(world.now, adapter, vec![interface], Vec::new());
    }
    let root = world.hello(ROOT);
    let Ok(Confirm::Interfaces(all)) = world.done(root, Request::Interfaces) else {
        panic!("they are listed");
    };
    let told = all
        .iter()
        .map(|info| (info.spec.adapter.as_deref(), info.up));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [(Some("east"), true), (Some("west"), true)]
    );
}

/// Random opens, changes, ends and deaths of either adapter; what must hold holds after each.
#[test]
fn the_death_of_one_touches_nothing_of_the_other() {
    for seed in 0..300 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut below = |bound: u32| random.next_u32() % bound;
        let mut config = two();
        config.admission.adapters[1] = config.admission.adapters[0];
        let (mut world, root) = world(config);
        let mut away = [false; 2];
        for _ in 0..200 {
            let interface = ["w", "e"][below(2) as usize];
            let place = below(2) as usize;
            let (adapter, other) = ([FIRST, SECOND][place], [SECOND, FIRST][place]);
            match below(12) {
                0..5 => {
                    let vci = 100 + below(6) as u16;
                    let client = world.hello(user(1 + below(2)));
                    let wanted = at(interface, vci, CBR);
                    let request = match below(4) {
                        0 => Request::Add(wanted),
                        _ => Request::Open(wanted),
                    };
                    world.send(client, request);
                }
                5 | 6 => {
                    let clients: Vec<_> = world.clients.keys().copied().collect();
                    let client = clients[below(clients.len() as u32) as usize];
                    if client != root {
                        world.hang_up(client);
                    }
                }
                7..10 if !world.asks.is_empty() => {
                    let asks = world.asks.len() as u32;
                    world.answer(below(asks) as usize);
                }
                10 => {
                    let (vcs, asked) = (world.at(other).vcs.len(), world.asked_of(other));
                    match away[place] {
                        true => world.find(adapter),
                        false => world.lose(adapter),
                    }
                    away[place] = !away[place];
                    // Not even a question, but for those that were there before.
                    assert_eq!(world.at(other).vcs.len(), vcs, "seed {seed}");
                    assert_eq!(world.asked_of(other), asked, "seed {seed}");
                }
                _ => world.wait(20_000_000),
            }
            let resources = world.server.admission().resources(|_| None, |_| None);
            assert!(
                resources.iter().all(|one| one.reserved <= one.capacity),
                "seed {seed}"
            );
        }
        for (place, adapter) in [FIRST, SECOND].into_iter().enumerate() {
            if away[place] {
                world.find(adapter);
            }
        }
        // As a host does, which tells again and again how adapters are.
        for _ in 0..16 {
            world.wait(1_000_000);
            world.outlive();
        }
        let list = world.list(root);
        for (name, adapter) in [("w", FIRST), ("e", SECOND)] {
            let here = list
                .iter()
                .filter(|info| info.address.interface.as_deref() == Some(name));
            let listed: BTreeSet<_> = here.map(|info| info.address.vc).collect();
            let kept = world
                .at(adapter)
                .vcs
                .values()
                .map(|kept| kept.request.address);
            assert_eq!(kept.collect::<BTreeSet<_>>(), listed, "seed {seed}: {name}");
        }
        for info in list.into_iter().filter(|info| info.permanent) {
            let address = info.address;
            assert_eq!(
                world.done(root, Request::Delete { address }),
                Ok(Confirm::Done)
            );
        }
        let clients: Vec<_> = world.clients.keys().copied().collect();
        clients
            .into_iter()
            .filter(|one| *one != root)
            .for_each(|one| world.hang_up(one));
        world.finish();
        let resources = world.resources(root);
        assert!(
            resources.iter().all(|one| one.reserved == 0),
            "seed {seed}: {resources:?}"
        );
    }
}

#[test]
fn connections_of_a_socket_at_two_adapters_have_an_attachment_at_each() {
    let (mut world, _) = world(two());
    let client = world.hello(user(1));
    for (number, interface) in [(1, "w"), (2, "e"), (3, "w"), (4, "e")] {
        world.naming = number;
        let open = Request::Open(at(interface, 100 + number as u16, CBR));
        let opened = world.done(client, open);
        assert!(matches!(opened, Ok(Confirm::Opened(_))), "{opened:?}");
    }
    for adapter in [FIRST, SECOND] {
        let of_it = world.at(adapter);
        let counts = (of_it.vcs.len(), of_it.attachments.len(), of_it.kept.len());
        assert_eq!(counts, (2, 1, 1));
    }
    // One dies, and those of the other hear nothing.
    world.lose(SECOND);
    world.find(SECOND);
    world.finish();
    let of_it = world.at(SECOND);
    assert_eq!((of_it.vcs.len(), of_it.attachments.len()), (2, 1));
    let heard = world.heard.remove(&client).unwrap_or_default();
    let reopened = heard.iter().filter_map(|(message, _)| match message {
        FromServer::Indication {
            connection,
            indication: Indication::Reopened(_),
            ..
        } => Some(*connection),
        _ => None,
    });
    assert!(reopened.eq([2, 4]), "{heard:?}");
    world.hang_up(client);
    world.finish();
    for adapter in [FIRST, SECOND] {
        let of_it = world.at(adapter);
        assert!(of_it.vcs.is_empty() && of_it.attachments.is_empty());
    }
}
