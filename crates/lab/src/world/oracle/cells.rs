//! Cells: none is lost without a word, and none is still under way.

use cellgate_core::adapter::AdapterStats;

use super::Oracle;
use crate::world::Violation;
use crate::world::topology::Place;

impl Oracle<'_> {
    /// I18, I16: what was under way has arrived, what has arrived was taken.
    pub(super) fn nothing_waits(&self) -> Result<(), Violation> {
        for (n, line) in self.report().lines.iter().enumerate() {
            if line.in_flight > 0 {
                let text = format!("line {n}: {} cells are still under way", line.in_flight);
                return Err(self.wrong("I18", text));
            }
        }
        for (spec, host) in self.scenario.hosts.iter().zip(&self.report().hosts) {
            if host.waiting > 0 {
                let text = format!("host {}: cells wait in its FIFOs", spec.name);
                return Err(self.wrong("I18", text));
            }
        }
        Ok(())
    }

    /// I1: lines, switches, FIFOs. I2: adapters.
    pub(super) fn cells_are_conserved(&self) -> Result<(), Violation> {
        let same = |invariant, what: String, here: u64, there: u64| {
            if here == there {
                return Ok(());
            }
            let text = format!("{what}: {here} cells went in, {there} are accounted for");
            Err(self.wrong(invariant, text))
        };
        let report = self.report();
        let mut into_switch = vec![0; report.switches.len()];
        let mut into_host = vec![0; report.hosts.len()];
        let mut out_of_host = vec![0; report.hosts.len()];
        for (n, line) in report.lines.iter().enumerate() {
            let counts = line.counts;
            let gained = counts.faults.duplicated + counts.faults.inserted;
            let gone = counts.arrived + counts.faults.lost;
            same("I1", format!("line {n}"), counts.sent + gained, gone)?;
            match self.plan.places[n] {
                Place::Switch { switch, .. } => into_switch[switch] += counts.arrived,
                Place::Host { host } => into_host[host] += counts.arrived,
            }
            if let Some(host) = self.plan.host_before(n) {
                out_of_host[host] += counts.sent;
            }
        }
        for (n, switch) in report.switches.iter().enumerate() {
            let outputs = switch.outputs.iter();
            let outputs = outputs.map(|counts| counts.queued + counts.discarded);
            let gone = outputs.sum::<u64>() + switch.unrouted_cells;
            same("I1", format!("switch {n}"), into_switch[n], gone)?;
            self.outputs_are_conserved(n)?;
        }
        for (n, host) in report.hosts.iter().enumerate() {
            let name = &self.scenario.hosts[n].name;
            let counts = host.counts;
            let gone = counts.arrived + counts.overflowed;
            same("I1", format!("ports of host {name}"), into_host[n], gone)?;
            let received = host.stats.iter().map(|stats| stats.cells_received);
            let gone = received.sum::<u64>() + counts.buried + host.waiting;
            let what = format!("adapter of host {name}");
            same("I2", what, counts.arrived, gone)?;
            if !host.stats.iter().all(AdapterStats::is_conserved) {
                let text = format!("adapter of host {name}: cells have vanished");
                return Err(self.wrong("I2", text));
            }
            let sources = self.plan.sources.iter().zip(&report.sources);
            let by_line = sources.filter(|(source, _)| {
                !source.is_by_adapter() && self.plan.host_before(source.line) == Some(n)
            });
            let sent = by_line.map(|(_, counted)| counted.cells).sum::<u64>();
            let sent = sent + counts.sent;
            same("I1", format!("lines of host {name}"), sent, out_of_host[n])?;
        }
        Ok(())
    }

    /// What a switch has queued it has sent.
    fn outputs_are_conserved(&self, switch: usize) -> Result<(), Violation> {
        let behind = self.plan.outputs_of(switch);
        for (line, counts) in behind.zip(&self.report().switches[switch].outputs) {
            let sent = self.report().lines[line].counts.sent;
            if sent != counts.queued {
                let text = format!("line {line}: {} queued, {sent} sent", counts.queued);
                return Err(self.wrong("I1", text));
            }
        }
        Ok(())
    }
}
