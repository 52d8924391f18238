//! Marks of ABR.

use cellgate_core::adapter::AbrStats;
use cellgate_core::contract::RateReason;

use super::{Count, Is, Marks};
use crate::world::oracle::Oracle;
use crate::world::scenario::SwitchSpec;
use crate::world::switch::QueueMark;

const COUNTS: [Count<AbrStats>; 8] = [
    ("forward_sent", |abr| abr.forward_sent),
    ("backward_sent", |abr| abr.backward_sent),
    ("forward_received", |abr| abr.forward_received),
    ("backward_received", |abr| abr.backward_received),
    ("replaced", |abr| abr.replaced),
    ("crc_error", |abr| abr.crc_error),
    ("unasked", |abr| abr.unasked),
    ("below_floor", |abr| abr.below_floor),
];

const SWITCHES: [Is<SwitchSpec>; 3] = [
    ("efci", |one| matches!(one.mark, Some(QueueMark::Efci(_)))),
    ("ci", |one| matches!(one.mark, Some(QueueMark::Ci(_)))),
    ("er", |one| matches!(one.mark, Some(QueueMark::Er { .. }))),
];

impl Marks {
    /// RM cells of ends, reasons of the last change of their rates, and what was met.
    pub(super) fn available(&mut self, run: &Oracle<'_>) {
        let accounts = run.log.report.hosts.iter().flat_map(|host| &host.accounts);
        let all: Vec<AbrStats> = accounts.filter_map(|one| one.info.stats.abr).collect();
        for (name, count) in COUNTS {
            self.push("rm", name, all.iter().map(count).sum());
        }
        // No contract changes in these worlds.
        let reasons = RateReason::ALL.into_iter();
        for reason in reasons.filter(|reason| *reason != RateReason::Contract) {
            let last = all.iter().filter(|abr| abr.reason == reason);
            self.push("rate", reason.name(), last.count() as u64);
        }
        let slow = all.iter().filter(|abr| abr.allowed_cell_s == 0);
        self.push("rate", "none", slow.count() as u64);
        for (name, is) in SWITCHES {
            let marking = run.scenario.switches.iter().filter(|one| is(one));
            self.push("switch", name, marking.count() as u64);
        }
        self.met(run);
    }
}
