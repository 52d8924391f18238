//! Idle time is lent by weight, for a moment, to those who asked for it.

use cellgate_core::adapter::VcId;
use cellgate_core::keeper::Ask;
use cellgate_core::server::{AdapterAsk, Confirm, Idleness, Request};

use super::world::{World, config, user};

const MS: u64 = 1_000_000;

/// A largest PDU of 2 cells takes the adapter 580 ns, and its reader as long.
const BORROWS: &str = "ubr,aal5:excess=when-idle,tx:none,rx:pcr=1000,max_sdu=80";

/// What is lent for `ns` of idle time that are over `after_ns` from now.
fn lent(world: &mut World, ns: u64, after_ns: u64) -> Vec<(VcId, u32, u64)> {
    let until = world.now.plus_ns(after_ns);
    let idle = Idleness { ns, until };
    world.server.handle_idle(world.now, idle);
    world.drain();
    let lease = |ask: &AdapterAsk| match ask {
        AdapterAsk::Keeper(
            Ask::Lease {
                vc,
                pdus,
                expires_in_ns,
            },
            _,
        ) => Some((*vc, *pdus, *expires_in_ns)),
        _ => None,
    };
    world
        .asks
        .iter()
        .filter_map(|(_, ask)| lease(ask))
        .collect()
}

#[test]
fn idle_time_is_lent_by_weight_to_those_who_borrow() {
    let (mut world, _) = World::with_wan(config());
    assert!(!world.server.has_borrowers());
    world.opened(user(1), 100, "ubr,aal5:tx:none,rx:pcr=1000,max_sdu=80");
    assert!(!world.server.has_borrowers());
    world.opened(user(1), 101, BORROWS);
    let weighs = "ubr,aal5:excess=when-idle,tx:none,rx:pcr=1000,min_pcr=3,max_sdu=80";
    world.opened(user(2), 102, weighs);
    assert!(world.server.has_borrowers());
    // A quarter, three quarters: PDUs of 1,160 ns.
    let all = lent(&mut world, 116_000, 8 * MS);
    let pdus: Vec<_> = all.iter().map(|(_, pdus, ns)| (*pdus, *ns)).collect();
    assert_eq!(pdus, [(25, 8 * MS), (75, 8 * MS)]);
    // Until the adapter has answered, nothing more is asked.
    assert_eq!(lent(&mut world, 116_000, 8 * MS), all);
    world.finish();
    let longest = lent(&mut world, 116_000, 50 * MS);
    assert!(
        longest.iter().all(|(_, _, ns)| *ns == 10 * MS),
        "{longest:?}"
    );
    world.finish();
    assert_eq!(lent(&mut world, 116_000, 0), []);
    // Less than a PDU for one of them.
    let little = lent(&mut world, 4_000, MS);
    assert_eq!(little.iter().map(|one| one.1).collect::<Vec<_>>(), [2]);
}

#[test]
fn who_lends_by_hand_and_who_has_gone_is_left_alone() {
    let (mut world, _) = World::with_wan(config());
    let reader = world.opened(user(1), 101, BORROWS);
    let by_hand = Request::Lease {
        pdus: 7,
        expires_in_ns: MS,
    };
    assert_eq!(world.done(reader, by_hand), Ok(Confirm::Done));
    assert_eq!(lent(&mut world, MS, 8 * MS), []);
    world.wait(10 * MS);
    assert_eq!(lent(&mut world, MS, 8 * MS).len(), 1);
    world.finish();
    world.lose_adapter();
    assert_eq!(lent(&mut world, MS, 8 * MS), []);
    world.find_adapter();
    world.finish();
    assert_eq!(lent(&mut world, MS, 8 * MS).len(), 1);
    world.finish();
    world.hang_up(reader);
    world.finish();
    assert!(!world.server.has_borrowers());
    assert_eq!(lent(&mut world, MS, 8 * MS), []);
}
