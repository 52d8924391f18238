//! REX: calls and replies, at most once each, whatever becomes of blocks and ends.

mod laws;
mod world;

use cellgate_core::upper::msna::rex::Planted;

#[test]
fn whatever_is_lost_each_call_has_one_outcome_and_is_executed_once_at_most() {
    let mut tally = world::Tally::default();
    for seed in 0..2000 {
        match world::run(seed, None) {
            Ok(it) => {
                tally.replies += it.replies;
                tally.refused += it.refused;
                tally.timed_out += it.timed_out;
                tally.restarted += it.restarted;
                tally.cancelled += it.cancelled;
                tally.dropped += it.dropped;
                tally.deaths += it.deaths;
                tally.damaged += it.damaged;
                tally.blocks += it.blocks;
            }
            Err(what) => panic!("seed {seed}: {what}"),
        }
    }
    println!("{tally:?}");
}

#[test]
fn laws_hold() {
    for (name, law) in laws::ALL {
        if let Err(what) = law(None) {
            panic!("{name}: {what}");
        }
    }
}

#[test]
fn planted() {
    for bug in Planted::ALL {
        let laws = laws::ALL.iter();
        let broken = laws.filter_map(|(name, law)| Some((name, law(Some(*bug)).err()?)));
        for (name, what) in broken {
            println!("{bug:?}: {name}: {what}");
        }
        let found = (0..300).find_map(|seed| Some((seed, world::run(seed, Some(*bug)).err()?)));
        println!("{bug:?}: {found:?}");
    }
}
