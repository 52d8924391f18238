//! What a new adapter is asked to open again, in which order, and what is left out.

use cellgate_core::keeper::Ask;
use cellgate_core::server::{AdapterAsk, AdapterRefusal, EndReason, Indication, Refused, Request};

use super::world::{World, config, open, user};

const CBR: &str = "cbr:pcr=1000,max_sdu=1500";

/// The first ask for each VC that a new adapter gets, in order.
fn opened_in_order(world: &mut World) -> Vec<u16> {
    let mut order = Vec::new();
    while let Some((_, ask)) = world.asks.front() {
        if let AdapterAsk::Keeper(Ask::Open { request, .. }, _) = ask {
            order.push(request.address.vci());
        }
        world.answer(0);
    }
    order
}

#[test]
fn guarantees_are_open_again_first_and_permanent_connections_before_others() {
    let (mut world, root) = World::with_wan(config());
    world.opened(user(1), 100, "ubr:max_sdu=1500");
    world.opened(user(1), 101, CBR);
    for (vci, contract) in [(102, "ubr:max_sdu=1500"), (103, CBR)] {
        let add = Request::Add(open(vci, contract));
        world.done(root, add).expect("added");
    }
    world.opened(user(1), 104, CBR);
    world.lose_adapter();
    world.find_adapter();
    let order = opened_in_order(&mut world);
    let at = |vci| {
        order
            .iter()
            .position(|one| *one == vci)
            .expect("it is open")
    };
    // Of what is guaranteed, who has an application at first waits for no other's.
    assert!(
        at(101) < at(104) && at(103) < at(102) && at(104) < at(100),
        "{order:?}"
    );
    assert_eq!(order.len(), 5);
}

/// Some connections have each adapter die as soon as one of them is open: they alone are left out,
/// the others are open again after each death but for those that are suspected with them.
#[test]
fn what_kills_adapters_is_left_out_by_name_and_nothing_else() {
    let killers: [&[u16]; 6] = [
        &[100],
        &[107],
        &[115],
        &[100, 101],
        &[103, 114],
        &[101, 106, 108, 115],
    ];
    for killers in killers {
        for permanent in [false, true] {
            let (mut world, root) = World::with_wan(config());
            let mut clients = Vec::new();
            for vci in 100..116 {
                let contract = ["ubr:max_sdu=1500", CBR][usize::from(vci % 2 == 0)];
                if permanent && killers.contains(&vci) {
                    let add = Request::Add(open(vci, contract));
                    world.done(root, add).expect("added");
                } else {
                    let uid = 1 + u32::from(vci % 2);
                    clients.push((vci, world.opened(user(uid), vci, contract)));
                }
            }
            let later = |world: &mut World| {
                world.now = world.now.plus_ns(1_000_000_000);
                world.server.handle_deadline(world.now);
                world.drain();
            };
            later(&mut world);
            let mut deaths = 0;
            world.lose_adapter();
            world.find_adapter();
            loop {
                world.finish();
                let mut open = world.adapter.vcs.values();
                if open.any(|kept| killers.contains(&kept.request.address.vci())) {
                    deaths += 1;
                    assert!(deaths < 40, "{killers:?} go on killing");
                    world.lose_adapter();
                    world.find_adapter();
                } else if world.server.next_deadline().is_none() {
                    break;
                } else {
                    later(&mut world);
                }
            }
            let most = 2 + 6 * killers.len();
            assert!(deaths <= most, "{deaths} deaths by {killers:?}");
            for (vci, client) in clients {
                let told = world.indications(client);
                let ended = (0, Indication::Ended(EndReason::NotReopened));
                let kills = killers.contains(&vci);
                assert_eq!(told.contains(&ended), kills, "{vci}: {told:?}");
            }
            let notes = world.notes();
            for killer in killers {
                let named = format!("wan.0.{killer} ");
                assert!(notes.iter().any(|note| note.contains(&named)), "{notes:?}");
            }
            assert_eq!(notes.len(), killers.len());
            if permanent {
                let left_out =
                    |(_, uid, why): &(_, _, _)| *uid == 0 && matches!(why, Refused::LeftOut { .. });
                assert!(world.lost.iter().all(left_out));
                assert_eq!(world.lost.len(), killers.len());
            }
        }
    }
}

/// Who kills adapters now and then, as people do, has no connection left out.
#[test]
fn adapters_that_die_of_something_else_cost_nobody_a_connection() {
    let (mut world, _) = World::with_wan(config());
    let client = world.opened(user(1), 100, CBR);
    for _ in 0..10 {
        world.lose_adapter();
        world.find_adapter();
        world.finish();
        world.now = world.now.plus_ns(1_000_000_000);
    }
    assert_eq!(world.adapter.vcs.len(), 1);
    let told = world.indications(client);
    assert!(
        told.iter()
            .all(|(_, told)| matches!(told, Indication::Reopened(_)))
    );
}

/// Adapters die, again and again, before there is memory for a connection: none dies of that.
#[test]
fn what_waits_for_memory_kills_no_adapter() {
    let (mut world, _) = World::with_wan(config());
    let client = world.opened(user(1), 100, CBR);
    for _ in 0..8 {
        world.lose_adapter();
        world.find_adapter();
        while let Some((_, ask)) = world.asks.front() {
            if matches!(ask, AdapterAsk::Keeper(Ask::Open { .. }, _)) {
                world.refuse_next = Some(AdapterRefusal::Memory {
                    needed: 5,
                    free: 3,
                    limit: Some("memory.max of /a is 100".to_owned()),
                });
            }
            world.answer(0);
        }
    }
    world.lose_adapter();
    world.find_adapter();
    world.finish();
    let told = world.indications(client);
    assert!(
        matches!(told[..], [(0, Indication::Reopened(_))]),
        "{told:?}"
    );
}

/// An adapter dies of what somebody opens beside a suspect: that is not left out for it.
#[test]
fn what_is_opened_anew_is_suspected_beside_what_was_there() {
    let (mut world, _) = World::with_wan(config());
    let suspect = world.opened(user(1), 100, CBR);
    for death in 0..4 {
        world.lose_adapter();
        world.find_adapter();
        world.finish();
        if death == 0 {
            // It is not new any more.
            world.now = world.now.plus_ns(1_000_000_000);
            world.server.handle_deadline(world.now);
            world.drain();
        }
    }
    world.opened(user(2), 101, CBR);
    world.lose_adapter();
    world.find_adapter();
    world.finish();
    let told = world.indications(suspect);
    let ended = (0, Indication::Ended(EndReason::NotReopened));
    assert!(!told.contains(&ended), "{told:?}");
}

/// The memory of the adapter that died is let go of by and by.
#[test]
fn what_there_is_no_memory_for_yet_is_asked_for_again() {
    for comes in [true, false] {
        let (mut world, _) = World::with_wan(config());
        let client = world.opened(user(1), 100, CBR);
        world.lose_adapter();
        world.find_adapter();
        let began = world.now;
        loop {
            while !world.asks.is_empty() {
                let (_, ask) = &world.asks[0];
                let later = world.now >= began.plus_ns(3_000_000_000);
                if matches!(ask, AdapterAsk::Keeper(Ask::Open { .. }, _)) && !(comes && later) {
                    world.refuse_next = Some(AdapterRefusal::Memory {
                        needed: 5,
                        free: 3,
                        limit: Some("memory.max of /a is 100".to_owned()),
                    });
                }
                world.answer(0);
            }
            let Some(next) = world.server.next_deadline() else {
                break;
            };
            assert!(next > world.now, "it would not end");
            world.now = next;
            world.server.handle_deadline(next);
            world.drain();
        }
        let told = world.indications(client);
        match (comes, &told[..]) {
            (true, [(0, Indication::Reopened(_))]) => assert_eq!(world.adapter.vcs.len(), 1),
            (false, [(0, Indication::Ended(EndReason::NotReopened))]) => {
                assert!(world.now.since_ns(began) <= 11_000_000_000);
            }
            _ => panic!("{comes}: {told:?}"),
        }
    }
}
