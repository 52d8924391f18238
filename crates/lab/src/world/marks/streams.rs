//! Marks of video.

use super::{Count, Is, Marks};
use crate::world::log::StreamReport;
use crate::world::oracle::Oracle;
use crate::world::scenario::{ClockSpec, StreamSpec};

/// PDUs of a gap that their numbers do not tell of.
const NUMBERS: u64 = 256;
/// A clock that is known so well, in ppb.
const KNOWN_PPB: u64 = 2_000;

const COUNTS: [Count<StreamReport>; 14] = [
    ("packets_released", |one| one.player.counts.released),
    ("pdus_lost", |one| one.player.counts.lost_pdus),
    ("marked", |one| one.player.counts.marked),
    ("late", |one| one.player.counts.late),
    ("early", |one| one.player.counts.early),
    ("underrun", |one| one.player.counts.underruns),
    ("left_out", |one| one.player.counts.overruns),
    ("untimed", |one| one.player.counts.untimed),
    ("anchored_anew", |one| {
        one.player.counts.anchors.saturating_sub(1)
    }),
    ("numbers_came_round", |one| one.sent / NUMBERS),
    ("gap_of_all_numbers", |one| {
        (one.player.missing - one.player.told_missing) / NUMBERS
    }),
    ("waited_for_room", |one| one.waited),
    ("frames_late", |one| one.player.display.late),
    ("frames_missing", |one| one.player.display.missing),
];

const CLOCKS: [Is<StreamSpec>; 3] = [
    ("pcr", |spec| spec.clock == ClockSpec::Pcr),
    ("occupancy", |spec| spec.clock == ClockSpec::Occupancy),
    ("none", |spec| spec.clock == ClockSpec::None),
];

impl Marks {
    pub(super) fn streams(&mut self, run: &Oracle<'_>) {
        let reports = &run.log.report.streams;
        for (name, count) in COUNTS {
            self.push("stream", name, reports.iter().map(count).sum());
        }
        let all = || run.scenario.streams.iter().zip(reports);
        let promised = all().filter(|(spec, report)| run.is_promised_in_time(spec, report));
        self.push("stream", "promised_in_time", promised.count() as u64);
        for (name, is) in CLOCKS {
            let known = all().filter(|(spec, report)| {
                let off = report.player.clock_ppb - i64::from(spec.ppm) * 1_000;
                let drifts = spec.ppm != 0;
                is(spec) && drifts && (off.unsigned_abs() < KNOWN_PPB) == (name != "none")
            });
            self.push("clock", name, known.count() as u64);
        }
        self.met(run);
    }
}
