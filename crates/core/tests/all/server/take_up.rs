//! What a successor takes up of what does not fit together.

use cellgate_core::server::{EndReason, Indication, Record};

use super::world::{ROOT, World, config, user};

const CBR: &str = "cbr:pcr=1000,max_sdu=1500";

/// Of two VCs that are said to be one connection a successor takes one up, and closes the other.
fn takes_up_one_of_two(spoil: fn(&mut Record, &Record)) {
    let (mut world, root) = World::with_wan(config());
    let clients = [100, 101].map(|vci| world.opened(user(1), vci, CBR));
    let mut records = world.adapter.vcs.values_mut().map(|kept| &mut kept.record);
    let (first, second) = (records.next().unwrap(), records.next().unwrap());
    spoil(second, first);
    world.restart(0);
    world.finish();
    assert_eq!(world.adapter.vcs.len(), 1);
    let ended = |world: &mut World, client| {
        let told = world.indications(client);
        let end = (0, Indication::Ended(EndReason::NotReopened));
        told.iter().any(|(_, told)| *told == end.1)
    };
    assert_eq!(
        clients.map(|client| ended(&mut world, client)),
        [false, true]
    );
    let root = match world.clients.contains_key(&root) {
        true => root,
        false => world.hello(ROOT),
    };
    assert_eq!(world.list(root).len(), 1);
    // What was given up can be opened by others.
    world.opened(user(2), 101, CBR);
}

#[test]
fn of_two_vcs_with_one_address_one_is_taken_up() {
    takes_up_one_of_two(|second, first| second.address = first.address.clone());
}

#[test]
fn of_two_vcs_with_one_number_one_is_taken_up() {
    takes_up_one_of_two(|second, first| second.number = first.number);
}
