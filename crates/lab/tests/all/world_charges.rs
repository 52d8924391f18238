//! Charging in worlds: the oracle counts slots, costs and differences by itself, and finds bugs.

use cellgate_lab::world::{within_reach, world_kill};

/// Seeds of the ordinary test; `CELLGATE_CHARGES` overrides it, and has all bugs planted.
fn seeds() -> u64 {
    let given = std::env::var("CELLGATE_CHARGES").ok();
    given.map_or(30, |text| {
        text.parse().expect("CELLGATE_CHARGES is a number of seeds")
    })
}

/// Of all of them `sim mutants` tells.
#[test]
fn bugs_of_charging_that_show_soon_are_found() {
    let all = std::env::var("CELLGATE_CHARGES").is_ok();
    let quick = [
        "charge: FirstSlotForgotten",
        "charge: UnoccupiedFree",
        "charge: SetUpTwice",
        "charge: TwiceIsLost",
        "server: AccountNotKept",
    ];
    let bugs = within_reach();
    let of_charging = bugs.iter().filter(|bug| {
        let is_quick = quick.contains(&bug.as_str());
        is_quick || all && (bug.starts_with("charge: ") || bug.contains("Account"))
    });
    let mut found = 0;
    for bug in of_charging {
        let kill = world_kill(bug, 0..seeds()).expect("a bug");
        println!("{bug}: {} seeds, {}", kill.tried, kill.text);
        assert!(all || kill.seed.is_some(), "{bug} survives");
        found += usize::from(kill.seed.is_some());
    }
    assert!(found >= quick.len());
}
