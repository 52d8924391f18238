//! Files between two terminals that die, over a line that loses, to a disk that forgets.

use cellgate_lab::world::{Options, WITH_TRANSFERS, check, scenario_of};

#[test]
fn random_scenarios_with_transfers_are_right() {
    for seed in 0..crate::transfers_seeds() {
        let seed = WITH_TRANSFERS + seed;
        check(&scenario_of(seed), Options::default())
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}
