//! Marks of what streams and sources of ABR have met: on lines, in switches, at hosts.

use cellgate_core::adapter::AdapterStats;

use super::{Count, Is, Marks, adapters, hosts, lines};
use crate::world::LineCounts;
use crate::world::oracle::Oracle;
use crate::world::scenario::FaultSpec;

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
    pub(super) fn met(&mut self, run: &Oracle<'_>) {
        for (name, count) in LINES {
            self.push("met", name, lines(run, count));
        }
        for (name, is) in FAULTS {
            let of_kind = run.scenario.faults.iter().filter(|fault| is(fault));
            self.push("met", name, of_kind.count() as u64);
        }
        let refused = |stats: &AdapterStats| stats.cells_discarded.total();
        self.push("met", "discarded", adapters(run, refused));
        let outputs = run.log.report.switches.iter().flat_map(|one| &one.outputs);
        let full = outputs.map(|output| output.discarded).sum();
        self.push("met", "switch_full", full);
        self.push("met", "no_adapter", hosts(run, |counts| counts.overflowed));
    }
}
