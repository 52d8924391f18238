//! Marks of ABR.

use cellgate_core::adapter::AbrStats;
use cellgate_core::contract::RateReason;

use super::{Count, Is, Marks, adapters, hosts, lines};
use crate::world::LineCounts;
use crate::world::oracle::Oracle;
use crate::world::scenario::{FaultSpec, SwitchSpec};
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

const LINES: [Count<LineCounts>; 5] = [
    ("lost", |counts| counts.faults.lost),
    ("duplicated", |counts| counts.faults.duplicated),
    ("damaged", |counts| counts.faults.payload_errors),
    ("held", |counts| counts.held),
    ("overtaken", |counts| counts.swapped),
];

const FAULTS: [Is<FaultSpec>; 4] = [
    ("adapter_stall", |fault| {
        matches!(fault, FaultSpec::AdapterStall { .. })
    }),
    ("host_stall", |fault| {
        matches!(fault, FaultSpec::HostStall { .. })
    }),
    ("adapter_crash", |fault| {
        matches!(fault, FaultSpec::AdapterCrash { .. })
    }),
    ("clock_step", |fault| {
        matches!(fault, FaultSpec::ClockStep { .. })
    }),
];

impl Marks {
    /// What ends of ABR have reached: RM cells, why rates have changed last, and what was met.
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
        for (name, count) in LINES {
            self.push("met", name, lines(run, count));
        }
        for (name, is) in FAULTS {
            let of_kind = run.scenario.faults.iter().filter(|fault| is(fault));
            self.push("met", name, of_kind.count() as u64);
        }
        let refused = |stats: &cellgate_core::adapter::AdapterStats| stats.cells_discarded.total();
        self.push("met", "discarded", adapters(run, refused));
        let outputs = run.log.report.switches.iter().flat_map(|one| &one.outputs);
        let full = outputs.map(|output| output.discarded).sum();
        self.push("met", "switch_full", full);
        self.push("met", "no_adapter", hosts(run, |counts| counts.overflowed));
    }
}
