//! Two levels of fairness: a user has what its quota says, and nobody else a say in it.

use std::collections::BTreeMap;

use cellgate_core::server::{
    ClientId, Confirm, Open, Quota, Refused, Request, Resource, ServerConfig, Shortage,
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::world::{LINE, ROOT, World, config, open, user};

/// Users that share out the machine: quotas that add up to no more than there is.
const USERS: [u32; 3] = [11, 12, 13];
/// Sockets, with a connection each, that a user may have.
const SOCKETS: u32 = 8;

/// 11 has a quota of its own, 12 too, and 13 that of everybody.
fn shared_out() -> ServerConfig {
    let mut config = config();
    let quota = |parts: u32| Quota {
        connections: 2 * parts,
        memory: u64::from(parts) << 20,
        // 2 % of the line and of the core are kept for best effort.
        cell_s: u64::from(LINE) * 98 / 100 * u64::from(parts) / 6,
        adapter_ppm: 980_000 * parts / 6,
    };
    config.admission.quotas = BTreeMap::from([(11, quota(1)), (12, quota(2))]);
    config.admission.quota = quota(3);
    // Small PDUs use up the core before the line.
    config.admission.adapter_law.headroom_percent = 400;
    config.admission.adapters[0].memory = 6 << 20;
    config.admission.adapters[0].connections = 12;
    config.limits.clients = 3 * SOCKETS + 2;
    config.limits.clients_per_user = SOCKETS;
    config
}

#[derive(Clone, Debug)]
enum Act {
    Open(u16, String),
    Modify(u16, String),
    Close(u16),
}

struct Storm {
    random: Pcg64Mcg,
}

impl Storm {
    fn below(&mut self, bound: u32) -> u32 {
        self.random.next_u32() % bound
    }

    fn contract(&mut self) -> String {
        let sdu = [40, 1_500, 9_180][self.below(3) as usize];
        let rate = 1 << self.below(18);
        let (tx, rx) = [("", ""), (",tx:none", ""), ("", ",rx:none")][self.below(3) as usize];
        match self.below(5) {
            0 => format!("ubr:max_sdu={sdu}{tx}{rx}"),
            1 => format!(
                "vbr:pcr={rate},scr={},mbs=20,max_sdu={sdu}{tx}{rx}",
                1 + rate / 2
            ),
            _ => format!("cbr:pcr={rate},max_sdu={sdu}{tx}{rx}"),
        }
    }

    fn act(&mut self, uid: u32) -> Act {
        let vci = (100 * uid + self.below(SOCKETS)) as u16;
        match self.below(5) {
            0 | 1 => Act::Open(vci, self.contract()),
            2 | 3 => Act::Modify(vci, self.contract()),
            _ => Act::Close(vci),
        }
    }
}

/// A world, and the socket of each address.
struct Place {
    world: World,
    sockets: BTreeMap<u16, ClientId>,
}

/// What a user hears of what it does.
#[derive(Debug, PartialEq)]
enum Heard {
    Done(Option<String>),
    Refused(Refused),
}

impl Place {
    fn new(config: ServerConfig) -> Self {
        let (world, root) = World::with_wan(config);
        let mut place = Self {
            world,
            sockets: BTreeMap::new(),
        };
        place.world.hang_up(root);
        place
    }

    fn act(&mut self, uid: u32, act: &Act) -> Heard {
        let (vci, request) = match act {
            Act::Open(vci, contract) => (*vci, Request::Open(open(*vci, contract))),
            Act::Modify(vci, contract) => {
                let contract = contract.clone();
                (*vci, Request::Modify { contract })
            }
            Act::Close(vci) => (*vci, Request::Close),
        };
        let world = &mut self.world;
        let socket = self.sockets.entry(vci);
        let socket = *socket.or_insert_with(|| world.hello(user(uid)));
        match self.world.done(socket, request) {
            Ok(Confirm::Opened(opened) | Confirm::Modified { opened, .. }) => {
                Heard::Done(Some(opened.contract))
            }
            Ok(_) => Heard::Done(None),
            Err(refused) => Heard::Refused(refused),
        }
    }

    /// What each user has is at most what it may have.
    fn check(&mut self, config: &ServerConfig, seed: u64) {
        let probe = self.world.hello(ROOT);
        let list = self.world.list(probe);
        self.world.hang_up(probe);
        for uid in USERS {
            let own = config.admission.quotas.get(&uid);
            let quota = own.unwrap_or(&config.admission.quota);
            let of_user = || list.iter().filter(|info| info.uid == uid);
            let sum = |of: fn(&cellgate_core::server::ConnectionInfo) -> u64| {
                of_user().map(of).sum::<u64>()
            };
            let guaranteed = |rate: Option<cellgate_core::contract::CellRate>| {
                rate.map_or(0, |rate| u64::from(rate.cell_s()))
            };
            let rates = of_user().filter(|info| info.guaranteed);
            let (transmit, receive) = rates.fold((0, 0), |(out, into), info| {
                (
                    out + guaranteed(info.transmit),
                    into + guaranteed(info.receive),
                )
            });
            let within = of_user().count() as u64 <= quota.connections.into()
                && sum(|info| info.memory) <= quota.memory
                && sum(|info| info.cpu_reserved_ppm.into()) <= quota.adapter_ppm.into()
                && transmit <= quota.cell_s
                && receive <= quota.cell_s;
            assert!(within, "seed {seed}: user {uid} of {quota:?}: {list:?}");
        }
    }
}

#[test]
fn what_a_user_gets_and_hears_depends_on_itself_alone() {
    let mut refused = BTreeMap::new();
    let mut done = 0;
    for seed in 0..40 {
        let config = shared_out();
        let mut storm = Storm {
            random: Pcg64Mcg::seed_from_u64(seed),
        };
        let mut crowd = Place::new(config.clone());
        let mut alone = USERS.map(|_| Place::new(config.clone()));
        for step in 0..200 {
            let at = storm.below(3) as usize;
            let (uid, act) = (USERS[at], storm.act(USERS[at]));
            let heard = crowd.act(uid, &act);
            let expected = alone[at].act(uid, &act);
            assert_eq!(heard, expected, "seed {seed}, user {uid}, {act:?}");
            match heard {
                Heard::Done(_) => done += 1,
                Heard::Refused(Refused::Admission(shortage)) => {
                    assert_eq!(shortage.quota, Some(uid), "seed {seed}: {shortage}");
                    *refused.entry(shortage.resource).or_insert(0) += 1;
                }
                Heard::Refused(_) => {}
            }
            if step % 20 == 0 {
                crowd.check(&config, seed);
            }
        }
    }
    println!("{done} done; refused: {refused:?}");
    assert!(done > 1_000);
    for resource in [
        Resource::TransmitBandwidth,
        Resource::ReceiveBandwidth,
        Resource::AdapterCpu,
        Resource::Memory,
        Resource::Connections,
    ] {
        let count = refused.get(&resource).copied().unwrap_or(0);
        assert!(count > 5, "{resource} was not short often enough");
    }
}

#[test]
fn a_user_at_its_quota_does_not_hinder_another() {
    let mut place = Place::new(shared_out());
    let contract = "cbr:pcr=1000,max_sdu=40";
    let mut opened = 0;
    let full = loop {
        match place.act(11, &Act::Open(1_100 + opened, contract.to_owned())) {
            Heard::Done(_) => opened += 1,
            Heard::Refused(Refused::Admission(shortage)) => break shortage,
            other => panic!("{other:?}"),
        }
    };
    let expected = Shortage {
        resource: Resource::Connections,
        needed: 1,
        free: 0,
        quota: Some(11),
        offer: None,
        others: Vec::new(),
        limit: None,
    };
    assert_eq!((opened, &full), (2, &expected));
    let text = "not enough connections: 1 connections needed, 0 free in the quota of user 11";
    assert_eq!(full.to_string(), text);
    for vci in 1_300..1_306 {
        let heard = place.act(13, &Act::Open(vci, contract.to_owned()));
        assert!(matches!(heard, Heard::Done(Some(_))), "{heard:?}");
    }
    // Room that is left to nobody else is not for the user who has had its own.
    let heard = place.act(11, &Act::Open(1_107, contract.to_owned()));
    assert_eq!(heard, Heard::Refused(Refused::Admission(expected)));
    // Another quota counts from then on; what is beyond it stays.
    let mut other = shared_out();
    other.admission.quotas.clear();
    other.admission.quota.connections = 3;
    place.world.server.handle_config(place.world.now, other);
    place.world.drain();
    let heard = place.act(11, &Act::Open(1_102, contract.to_owned()));
    assert!(matches!(heard, Heard::Done(Some(_))), "{heard:?}");
    let heard = place.act(13, &Act::Open(1_307, contract.to_owned()));
    assert!(matches!(heard, Heard::Refused(_)), "{heard:?}");
    assert_eq!(place.world.adapter.vcs.len(), 9);
}

#[test]
fn root_and_the_server_have_a_quota_only_where_they_are_named() {
    for uid in [0, super::world::SERVER_UID] {
        let mut config = config();
        config.admission.quota.connections = 0;
        let contract = "ubr:max_sdu=40";
        let mut place = Place::new(config.clone());
        let heard = place.act(uid, &Act::Open(100, contract.to_owned()));
        assert!(matches!(heard, Heard::Done(Some(_))), "{heard:?}");
        let none = config.admission.quota;
        config.admission.quotas.insert(uid, none);
        let heard = Place::new(config).act(uid, &Act::Open(100, contract.to_owned()));
        assert!(matches!(heard, Heard::Refused(_)), "{heard:?}");
    }
}

#[test]
fn no_user_has_more_than_a_quarter_of_the_blocks_of_addresses() {
    let mut config = config();
    config.adapters[0].blocks = 9;
    let (mut world, _) = World::with_wan(config);
    let ask = |world: &mut World, uid: u32, at: &str| {
        let client = world.hello(user(uid));
        let open = Open {
            address: format!("wan.{at}").parse().expect("an address"),
            ..open(32, "ubr:max_sdu=40")
        };
        world.done(client, Request::Open(open)).map(|_| client)
    };
    // A block has a VPI and the upper two bits of a VCI in common.
    let here = ["1.40", "1.16383", "1.16384", "2.40"];
    let clients = here.map(|at| ask(&mut world, 11, at).expect("it is free"));
    for at in ["3.40", "2.32768"] {
        let most = Err(Refused::AddressBlocks { most: 3 });
        assert_eq!(ask(&mut world, 11, at), most, "{at}");
    }
    // Of those that it has it may use all; others have their own, and root what there is.
    for (uid, at) in [(11, "2.41"), (12, "3.40"), (12, "4.40"), (12, "5.40")] {
        assert!(ask(&mut world, uid, at).is_ok(), "{at}");
    }
    for vpi in 6..10 {
        assert!(ask(&mut world, 0, &format!("{vpi}.40")).is_ok(), "{vpi}");
    }
    for (client, is_free) in [(clients[0], false), (clients[1], true)] {
        world.hang_up(client);
        world.finish();
        assert_eq!(ask(&mut world, 11, "3.41").is_ok(), is_free);
    }
}
