//! Who asks beside somebody who gives back waits, and is told of no less than there will be.

use cellgate_core::adapter::Refusal;
use cellgate_core::keeper::Ask;
use cellgate_core::server::{
    AdapterAsk, AdapterRefusal, ClientId, Confirm, Quota, Refused, Request, ServerConfig,
};

use super::world::{ROOT, World, address, config, open, user};

const CBR: &str = "cbr:pcr=100000,max_sdu=1500,dvt=5ms";
const PATIENCE_NS: u64 = 10_000_000_000;

/// What a thing can be short of: for each a configuration in which one connection of [`CBR`] has it
/// all.
fn short() -> Vec<(&'static str, ServerConfig)> {
    let change = |what, change: fn(&mut ServerConfig)| {
        let mut config = config();
        config.admission.quota = Quota::NONE;
        config.admission.adapter_law.reserve = Default::default();
        change(&mut config);
        (what, config)
    };
    vec![
        change("bandwidth", |config| {
            config.admission.best_effort_percent = 60
        }),
        change("cpu", |config| {
            let law = config.admission.worker_law;
            config.admission.adapter_law = law;
            config.admission.adapters[0].cpu_ppm = 60_000;
        }),
        change("memory", |config| {
            config.admission.adapters[0].memory = 700_000
        }),
        change("connections", |config| {
            config.admission.adapters[0].connections = 1
        }),
        change("quota of cells", |config| {
            config.admission.quota.cell_s = 150_000
        }),
        change("quota of memory", |config| {
            config.admission.quota.memory = 700_000
        }),
        change("quota of connections", |config| {
            config.admission.quota.connections = 1
        }),
        change("quota of cpu", |config| {
            let law = config.admission.worker_law;
            config.admission.adapter_law = law;
            config.admission.quota.adapter_ppm = 60_000;
        }),
    ]
}

/// How a connection at VCI 100 is given up.
#[derive(Clone, Copy, Debug)]
enum GivenUp {
    HungUp,
    Closed,
    Deleted,
}

fn give_up(world: &mut World, how: GivenUp, (client, root): (ClientId, ClientId)) {
    match how {
        GivenUp::HungUp => world.hang_up(client),
        GivenUp::Closed => drop(world.send(client, Request::Close)),
        GivenUp::Deleted => {
            let address = address(100);
            world.send(root, Request::Delete { address });
        }
    }
}

fn is_waiting(world: &World, client: ClientId) -> bool {
    world
        .unconfirmed
        .get(&client)
        .is_some_and(|all| !all.is_empty())
}

fn is_one(ask: &AdapterAsk, like: impl Fn(&Ask) -> bool) -> bool {
    matches!(ask, AdapterAsk::Keeper(ask, _) if like(ask))
}

/// Whether the adapter has such a question before it.
fn is_asked(world: &World, like: impl Fn(&Ask) -> bool) -> bool {
    world.asks.iter().any(|(_, ask)| is_one(ask, &like))
}

#[test]
fn an_open_waits_for_what_is_on_its_way_back_whatever_is_short_and_whoever_has_it() {
    for (what, config) in short() {
        for how in [GivenUp::HungUp, GivenUp::Closed, GivenUp::Deleted] {
            for permanent in [false, true] {
                let context = format!("{what}, {how:?}, permanent {permanent}");
                let (mut world, root) = World::with_wan(config.clone());
                let (first, next) = (world.hello(user(1)), world.hello(user(1)));
                let opened = match how {
                    GivenUp::Deleted => world.done(first, Request::Add(open(100, CBR))),
                    _ => world.open(first, 100, CBR),
                };
                assert!(opened.is_ok(), "{context}: {opened:?}");
                let refused = world.open(next, 101, CBR);
                assert!(
                    matches!(refused, Err(Refused::Admission(_))),
                    "{context}: {refused:?}"
                );
                give_up(&mut world, how, (first, root));
                let request = match permanent {
                    false => Request::Open(open(101, CBR)),
                    true => Request::Add(open(101, CBR)),
                };
                let id = world.send(next, request);
                assert!(is_waiting(&world, next), "{context}");
                world.finish();
                let opened = world.confirmed(next, id);
                assert!(opened.is_ok(), "{context}: {opened:?}");
                assert_eq!(world.list(root).len(), 1, "{context}");
            }
        }
    }
}

#[test]
fn a_raise_waits_beside_a_close_and_an_open_beside_a_lowering() {
    let (mut world, _) = World::with_wan(config());
    let [big, small, next] = [1, 2, 3].map(|uid| world.hello(user(uid)));
    assert!(world.open(big, 100, "cbr:pcr=200000,max_sdu=1500").is_ok());
    assert!(
        world
            .open(small, 101, "cbr:pcr=100000,max_sdu=1500")
            .is_ok()
    );
    let lower = Request::Modify {
        contract: "cbr:pcr=50000,max_sdu=1500".to_owned(),
    };
    let lowered = world.send(big, lower);
    let opened = world.send(
        next,
        Request::Open(open(102, "cbr:pcr=150000,max_sdu=1500")),
    );
    assert!(is_waiting(&world, next));
    world.finish();
    assert!(world.confirmed(big, lowered).is_ok());
    assert!(world.confirmed(next, opened).is_ok());
    world.hang_up(next);
    let raise = Request::Modify {
        contract: "cbr:pcr=250000,max_sdu=1500".to_owned(),
    };
    let raised = world.send(small, raise.clone());
    assert!(is_waiting(&world, small));
    world.finish();
    assert!(matches!(
        world.confirmed(small, raised),
        Ok(Confirm::Modified { .. })
    ));
    // A lowering that the adapter refuses gives nothing back.
    let lower = Request::Modify {
        contract: "cbr:pcr=50,max_sdu=1500".to_owned(),
    };
    let lowered = world.send(small, lower);
    let raised = world.send(big, raise);
    world.refuse_next = Some(AdapterRefusal::Refused(Refusal::Busy));
    world.finish();
    assert!(world.confirmed(small, lowered).is_err());
    assert!(matches!(
        world.confirmed(big, raised),
        Err(Refused::Admission(_))
    ));
}

#[test]
fn an_offer_tells_what_will_be_free_and_who_waits_is_not_overtaken() {
    let mut config = config();
    config.admission.quota = Quota::NONE;
    let (mut world, _) = World::with_wan(config);
    let [has, late, next, last] = [1, 2, 3, 4].map(|uid| world.hello(user(uid)));
    assert!(world.open(has, 100, "cbr:pcr=300000,max_sdu=1500").is_ok());
    world.hang_up(has);
    // More than there ever is: what is offered will be there.
    let refused = world.send(
        late,
        Request::Open(open(101, "cbr:pcr=350000,max_sdu=1500")),
    );
    let Err(Refused::Admission(shortage)) = world.confirmed(late, refused) else {
        panic!("it is more than the line has");
    };
    assert!(shortage.free > 300_000, "{shortage}");
    let wanted = world.send(
        late,
        Request::Open(open(101, "cbr:pcr=300000,max_sdu=1500")),
    );
    assert!(is_waiting(&world, late));
    // There are 46,142 cells/s free, which are promised to who waits.
    let refused = world.send(next, Request::Open(open(102, "cbr:pcr=46143,max_sdu=1500")));
    let Err(Refused::Admission(shortage)) = world.confirmed(next, refused) else {
        panic!("somebody waits for it");
    };
    assert_eq!(shortage.free, 46_142);
    let small = world.send(last, Request::Open(open(103, "cbr:pcr=46142,max_sdu=1500")));
    world.finish();
    assert!(world.confirmed(late, wanted).is_ok());
    assert!(world.confirmed(last, small).is_ok());
}

#[test]
fn who_waits_for_blocks_or_for_what_the_adapter_lacks_gets_them() {
    let mut few = config();
    few.adapters[0].blocks = 1;
    let (mut world, _) = World::with_wan(few);
    let at = |vpi: u16| {
        let mut open = open(100, "ubr:max_sdu=40");
        open.address = format!("wan.{vpi}.100").parse().expect("an address");
        Request::Open(open)
    };
    let (first, next) = (world.hello(user(1)), world.hello(user(1)));
    assert!(world.done(first, at(1)).is_ok());
    let most = Err(Refused::AddressBlocks { most: 1 });
    assert_eq!(world.done(next, at(2)), most);
    world.send(first, Request::Close);
    let id = world.send(next, at(2));
    assert!(is_waiting(&world, next));
    world.finish();
    assert!(world.confirmed(next, id).is_ok());

    // The adapter is asked once more when it has let go of something.
    world.send(next, Request::Close);
    let id = world.send(first, at(2));
    let closes = world
        .asks
        .iter()
        .position(|ask| matches!(ask.1, AdapterAsk::Keeper(Ask::Close { .. }, _)));
    assert_eq!(closes, Some(0));
    assert!(is_waiting(&world, first));
    world.finish();
    assert!(world.confirmed(first, id).is_ok());
    let third = world.hello(ROOT);
    world.send(first, Request::Close);
    let id = world.send(third, at(3));
    let attaches = world
        .asks
        .iter()
        .position(|ask| matches!(ask.1, AdapterAsk::Keeper(Ask::Attach { .. }, _)));
    world.refuse_next = Some(AdapterRefusal::Refused(Refusal::AttachmentsInUse));
    world.answer(attaches.expect("it is asked"));
    assert!(is_waiting(&world, third));
    // Before it has let go of something it would refuse once more.
    assert!(!is_asked(&world, |ask| matches!(ask, Ask::Attach { .. })));
    world.finish();
    assert!(world.confirmed(third, id).is_ok());
}

/// A limit of the machine has no room for a change that the books have room for, while others give
/// back: the adapter is asked once more when they have, and not for ever in between.
#[test]
fn what_the_adapter_refuses_is_not_asked_again_before_something_comes_back() {
    let (mut world, _) = World::with_wan(config());
    let [big, small] = [1, 2].map(|uid| world.hello(user(uid)));
    assert!(world.open(big, 100, "cbr:pcr=100000,max_sdu=1500").is_ok());
    assert!(world.open(small, 101, "cbr:pcr=50000,max_sdu=40").is_ok());
    world.hang_up(big);
    let contract = "cbr:pcr=50000,max_sdu=1500".to_owned();
    let id = world.send(small, Request::Modify { contract });
    let modifies = |ask: &Ask| matches!(ask, Ask::Modify { .. });
    let place = world.asks.iter().position(|(_, ask)| is_one(ask, modifies));
    world.refuse_next = Some(AdapterRefusal::Memory {
        needed: 5,
        free: 3,
        limit: Some("memory.max of /a is 100".to_owned()),
    });
    world.answer(place.expect("it is asked"));
    assert!(is_waiting(&world, small));
    assert!(!is_asked(&world, modifies));
    world.finish();
    assert!(matches!(
        world.confirmed(small, id),
        Ok(Confirm::Modified { .. })
    ));
}

#[test]
fn nobody_waits_for_ever_or_without_bounds() {
    let mut config = config();
    config.limits.clients = 1_000;
    config.limits.clients_per_user = 100;
    config.admission.adapters[0].connections = 1_000;
    config.admission.quota = Quota::NONE;
    let (mut world, _) = World::with_wan(config);
    let has = world.opened(user(1), 100, "cbr:pcr=200000,max_sdu=40");
    let waits = world.hello(user(2));
    let gone = world.hello(user(2));
    world.hang_up(has);
    let id = world.send(waits, Request::Open(open(101, "cbr:pcr=200000,max_sdu=40")));
    world.send(gone, Request::Open(open(102, "cbr:pcr=10000,max_sdu=40")));
    assert!(is_waiting(&world, waits) && is_waiting(&world, gone));
    world.hang_up(gone);
    let due = world.server.next_deadline();
    assert_eq!(due, Some(world.now.plus_ns(PATIENCE_NS)));
    world.wait(PATIENCE_NS);
    let refused = world.confirmed(waits, id);
    assert!(matches!(refused, Err(Refused::Admission(_))), "{refused:?}");
    assert_eq!(world.server.next_deadline(), None);
    // It may ask once more, and wait as long. A lost adapter answers everybody.
    let id = world.send(waits, Request::Open(open(101, "cbr:pcr=200000,max_sdu=40")));
    assert!(is_waiting(&world, waits));
    world.lose_adapter();
    assert_eq!(world.confirmed(waits, id), Err(Refused::AdapterAway));
    world.find_adapter();
    world.finish();
    assert!(
        world
            .open(waits, 101, "cbr:pcr=345000,max_sdu=1500")
            .is_ok()
    );
    // A user has 64 that wait, and others theirs.
    let crowd: Vec<_> = (0..70).map(|_| world.hello(user(3))).collect();
    let other = world.hello(user(4));
    world.hang_up(waits);
    let asked: Vec<_> = crowd
        .iter()
        .zip(200..)
        .map(|(client, vci)| {
            let open = open(vci, "cbr:pcr=2000,max_sdu=40");
            world.send(*client, Request::Open(open))
        })
        .collect();
    let waiting = crowd
        .iter()
        .filter(|client| is_waiting(&world, **client))
        .count();
    assert_eq!(waiting, 64);
    let id = world.send(other, Request::Open(open(150, "cbr:pcr=200000,max_sdu=40")));
    assert!(is_waiting(&world, other));
    world.finish();
    assert!(world.confirmed(other, id).is_ok());
    assert!(crowd.iter().all(|client| !is_waiting(&world, *client)));
    let opened = crowd.iter().zip(asked);
    let opened = opened.filter(|(client, id)| world.confirmed(**client, *id).is_ok());
    assert_eq!(opened.count(), 64);
}
