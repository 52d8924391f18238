//! Hosts: readers sleep when there is nothing to read, and nothing is left when all is closed.

use cellgate_core::adapter::VcStats;

use super::Oracle;
use crate::world::Violation;
use crate::world::log::HostReport;

impl Oracle<'_> {
    /// I16: a reader that sleeps has an empty queue, where events tell it.
    pub(super) fn readers_sleep_only_on_empty_queues(&self) -> Result<(), Violation> {
        let name = |n: &u32| &self.plan.connections[*n as usize].name;
        for host in &self.report().hosts {
            if let Some(n) = host.faulty.first() {
                let text = format!("connection {}: descriptors that cannot be", name(n));
                return Err(self.wrong("I3", text));
            }
            if let Some(n) = host.dozing.first() {
                let text = format!("connection {}: its reader sleeps and PDUs wait", name(n));
                return Err(self.wrong("I16", text));
            }
        }
        Ok(())
    }

    /// I12: nothing is open, nothing held, adapters have as much to give as at first, and their
    /// counters are the sums of their VCs'. I10: no client has run that nobody had woken.
    pub(super) fn hosts_are_left_clean(&self) -> Result<(), Violation> {
        let mut hosts = self.scenario.hosts.iter().zip(&self.report().hosts);
        hosts.try_for_each(|(spec, host)| self.is_left_clean_at(&spec.name, host))
    }

    fn is_left_clean_at(&self, name: &str, host: &HostReport) -> Result<(), Violation> {
        let open = host.open;
        if open > 0 || !host.refusals.is_empty() {
            let text = format!("host {name}: {open} VCs left, refused {:?}", host.refusals);
            return Err(self.wrong("I12", text));
        }
        let [first, room] = host.room;
        if room != first {
            let text = format!("host {name}: {room:?} is left to give, at first {first:?}");
            return Err(self.wrong("I12", text));
        }
        let sum = |count: fn(&VcStats) -> u64| {
            let closed = host.closed.iter();
            closed.map(|(_, info)| count(&info.stats)).sum::<u64>()
        };
        let delivered = sum(|vc| vc.cells_delivered);
        let transmitted = sum(|vc| vc.cells_transmitted);
        if let Some(stats) = host.stats.last() {
            let pairs = [
                ("held", stats.cells_held, 0),
                ("delivered", stats.cells_delivered, delivered),
                ("transmitted", stats.cells_transmitted, transmitted),
            ];
            for (what, adapter, vcs) in pairs {
                if adapter != vcs {
                    let text = format!("host {name}: {adapter} cells {what}, {vcs} by its VCs");
                    return Err(self.wrong("I2", text));
                }
            }
        }
        if host.runs > host.told {
            let (runs, told) = (host.runs, host.told);
            let text = format!("host {name}: clients ran {runs} times, {told} interrupts");
            return Err(self.wrong("I10", text));
        }
        Ok(())
    }
}
