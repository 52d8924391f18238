//! Marks of files that terminals move.

use super::Marks;
use crate::world::transfers::Counts;

type Count = (&'static str, fn(&Counts) -> u64);

const FILES: [Count; 9] = [
    ("there", |counts| counts.there),
    ("failed", |counts| counts.failed),
    ("small", |counts| counts.small),
    ("large", |counts| counts.large),
    ("settled", |counts| counts.settled),
    ("gone_on_with", |counts| counts.resumed),
    ("thrown_away", |counts| counts.thrown_away),
    ("begun_anew", |counts| counts.again),
    ("compared", |counts| counts.compared),
];

const DEATHS: [Count; 9] = [
    ("giver", |counts| counts.giver_deaths),
    ("taker", |counts| counts.taker_deaths),
    ("power", |counts| counts.power_losses),
    ("in_an_operation", |counts| counts.in_operations),
    ("silence", |counts| counts.silent),
    ("failed_sync", |counts| counts.failed_syncs),
    ("spoiled", |counts| counts.spoiled),
    ("no_room", |counts| counts.no_room),
    ("repeated_cells", |counts| counts.repeats),
];

impl Marks {
    /// The marks of transfers that are over.
    pub(crate) fn of_transfers(transfers: &[Counts]) -> Self {
        let mut marks = Self::default();
        for (group, counts) in [("files", &FILES[..]), ("deaths", &DEATHS)] {
            for (name, count) in counts {
                marks.push(group, name, transfers.iter().map(count).sum());
            }
        }
        marks
    }
}
