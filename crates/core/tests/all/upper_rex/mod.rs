//! REX: calls and replies, at most once each, whatever becomes of blocks and ends.

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
            }
            Err(what) => panic!("seed {seed}: {what}"),
        }
    }
    println!("{tally:?}");
}

#[test]
fn planted() {
    for bug in Planted::ALL {
        let found = (0..2000).find_map(|seed| {
            let ran = std::panic::catch_unwind(|| world::run(seed, Some(*bug)));
            match ran {
                Ok(Ok(_)) => None,
                Ok(Err(what)) => Some((seed, what)),
                Err(_) => Some((seed, "panic".to_owned())),
            }
        });
        println!("{bug:?}: {found:?}");
    }
}
