//! The slots of connections count from when they are opened and changed, not from when the server
//! was told something last; and go on where a successor takes them up.

use cellgate_core::server::{Record, Request};

use super::world::{World, config, user};

const MS: u64 = 1_000_000;

fn record(world: &World) -> Record {
    let mut vcs = world.adapter.vcs.values();
    vcs.next().expect("a VC").record.clone()
}

/// Slots of what is sent until now.
fn begun(world: &World) -> u64 {
    record(world).slots.transmit.begun(world.now)
}

#[test]
fn slots_count_from_the_moment_that_begins_them_and_outlive_the_server() {
    let (mut world, _) = World::with_wan(config());
    let client = world.hello(user(1_000));
    // Nobody tells the server that time passes.
    world.now = world.now.plus_ns(250 * MS);
    let contract = |rate: u32| format!("cbr,aal5:pcr={rate}cps,max_sdu=400,cdvt=1ms");
    world.open(client, 60, &contract(1_000)).expect("room");
    assert_eq!(begun(&world), 1);
    world.now = world.now.plus_ns(100 * MS);
    let change = Request::Modify {
        contract: contract(2_000),
    };
    world.done(client, change).expect("room");
    assert_eq!(begun(&world), 1 + 100);
    world.now = world.now.plus_ns(100 * MS);
    assert_eq!(begun(&world), 1 + 100 + 200);
    world.restart(0);
    world.hear_of_restarts();
    let change = Request::Modify {
        contract: contract(1_000),
    };
    world.done(client, change).expect("room");
    assert_eq!(begun(&world), 1 + 100 + 200);
}
