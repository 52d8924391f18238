//! Whoever rests until the core says so misses nothing, and whoever does not rest has something to
//! do.

use cellgate_lab::world::{Options, WITH_RESTS, check, scenario_of};
use cellgate_lab::{Rested, kill_table_of_rests, plan_of, print_table, run_adapter_resting};

/// Seeds of the ordinary test; `CELLGATE_SEEDS` overrides it.
fn seeds() -> u64 {
    let given = std::env::var("CELLGATE_SEEDS").ok();
    given.map_or(150, |text| {
        text.parse().expect("CELLGATE_SEEDS is a number of seeds")
    })
}

#[test]
fn whoever_rests_has_nothing_to_do_until_then() {
    let mut sum = Rested::default();
    for seed in 0..seeds() {
        match run_adapter_resting(&plan_of(seed), None) {
            Ok((_, rested)) => sum.add(rested),
            Err(failure) => panic!("{failure}"),
        }
    }
    let n = seeds();
    println!("{n} seeds: {sum:?}");
    assert!(sum.rests > 300 * n && sum.busy > 100 * n, "{sum:?}");
    assert!(
        sum.exact > 3 * n && sum.shaped > n && sum.held > 20 * n,
        "{sum:?}"
    );
}

#[test]
fn every_bug_of_resting_is_found() {
    let kills = kill_table_of_rests(0..400);
    println!("{}", print_table(&kills));
    let alive = kills.iter().filter(|kill| kill.seed.is_none());
    let alive: Vec<&str> = alive.map(|kill| kill.bug.as_str()).collect();
    assert!(kills.len() >= 12 && alive.is_empty(), "survived: {alive:?}");
}

#[test]
fn worlds_in_which_adapters_rest_are_right() {
    for seed in 0..worlds() {
        let seed = WITH_RESTS + seed;
        if let Err(failure) = check(
            &scenario_of(seed),
            Options {
                reference: true,
                ..Options::default()
            },
        ) {
            println!("seed {seed}: {failure}");
        }
    }
    panic!();
}

fn worlds() -> u64 {
    60
}
