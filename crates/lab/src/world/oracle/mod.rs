//! The invariants that must hold when a run is over: what the scenario says, and what the log does.

mod cells;
mod charges;
mod delays;
mod fates;
mod hosts;
mod pdus;
mod servers;
mod standing;
mod streams;

use cellgate_core::adapter::Discard;
use cellgate_core::contract::charging;

use super::Violation;
use super::host::VcAccount;
use super::log::{HostReport, Log, Report, Tally};
use super::plan::{Connection, Plan};
use super::run::World;
use super::scenario::Scenario;
use super::trace::Watch;

pub(crate) use fates::Fate;
pub(crate) use servers::{Audit, User, View, Wrong, is_what_was_asked};

/// What a run is judged by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Oracle<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) plan: &'a Plan,
    pub(crate) log: &'a Log,
    /// The bug that charging has on purpose.
    charge_bug: Option<charging::Planted>,
}

impl World {
    /// Runs to the end, closes everything, and looks whether all was right. `Err`: it was not.
    pub fn judge(&mut self, scenario: &Scenario, watch: &mut Watch<'_>) -> Result<(), Violation> {
        self.run_watched(scenario.duration_ns, watch);
        self.servers_look_again();
        self.reports();
        self.oracle(scenario).is_right()?;
        for host in &self.hosts {
            host.server_is_over(&mut self.net);
        }
        self.oracle(scenario).promises_are_kept()?;
        self.close();
        self.run();
        self.reports();
        self.oracle(scenario).is_left_clean()?;
        for host in &self.hosts {
            host.server_has_ended(&mut self.net);
        }
        self.oracle(scenario).nothing_was_wrong()
    }

    /// Who judges what was written down until now.
    pub(super) fn oracle<'a>(&'a self, scenario: &'a Scenario) -> Oracle<'a> {
        Oracle {
            scenario,
            plan: &self.net.plan,
            log: &self.net.log,
            charge_bug: self.net.options.charge_bug,
        }
    }
}

impl Oracle<'_> {
    /// Whether all is right when nothing happens any more.
    fn is_right(&self) -> Result<(), Violation> {
        self.nothing_was_wrong()?;
        self.nothing_waits()?;
        self.cells_are_conserved()?;
        self.charges_are_right()?;
        self.pdus_are_right()?;
        self.streams_are_right()?;
        self.readers_sleep_only_on_empty_queues()
    }

    /// I6, I7: what servers have promised at both ends has come, in time.
    fn promises_are_kept(&self) -> Result<(), Violation> {
        self.nothing_was_wrong()?;
        let crowds = self.crowds();
        for (n, promise) in self.log.promises.iter() {
            let n = n as usize;
            if !self.is_sound(n) {
                continue;
            }
            let name = &self.plan.connections[n].name;
            if let Some((first, missing)) = promise.missing() {
                let text = format!("connection {name}: {missing} PDUs from {first} on are missing");
                return Err(self.wrong("I6", text));
            }
            let bound = self.delay_bound(&crowds, n);
            let bound = bound.plus(self.shaping_bound(n));
            if promise.longest > bound {
                let (longest, bound) = (promise.longest.ns(), bound.ns());
                let text = format!("connection {name}: a PDU took {longest} ns, bound {bound} ns");
                return Err(self.wrong("I7", text));
            }
        }
        Ok(())
    }

    /// Whether nothing is left when everything was closed.
    fn is_left_clean(&self) -> Result<(), Violation> {
        self.nothing_was_wrong()?;
        self.hosts_are_left_clean()
    }

    fn nothing_was_wrong(&self) -> Result<(), Violation> {
        self.log.violation.clone().map_or(Ok(()), Err)
    }

    fn report(&self) -> &Report {
        &self.log.report
    }

    fn host(&self, n: usize) -> &HostReport {
        &self.log.report.hosts[n]
    }

    fn connection(&self, n: usize) -> (&Connection, &Tally) {
        (&self.plan.connections[n], &self.log.connections[n])
    }

    fn wrong(&self, invariant: &str, text: String) -> Violation {
        Violation::new(invariant, self.log.report.ended, text)
    }

    /// Cells of a connection's address that switches have discarded, or that found a FIFO full, or
    /// no adapter, at its end.
    fn found_no_room(&self, n: usize) -> u64 {
        let (connection, tally) = self.connection(n);
        let overflowed = &self.host(connection.to).overflowed;
        tally.discarded + overflowed.get(&connection.address).copied().unwrap_or(0)
    }

    /// Whether cells of ABR, whose rate the network sets, were refused because they had waited in
    /// switches and came closer to each other than CDVT lets them.
    fn came_too_close(&self, n: usize) -> bool {
        let connection = &self.plan.connections[n];
        let receiver = &self.host(connection.to).accounts;
        let mut vcs = receiver
            .iter()
            .filter(|vc| vc.info.request.address == connection.address);
        let refused = |vc: &VcAccount| vc.info.stats.cells_discarded.of(Discard::NonConforming) > 0;
        connection.is_abr() && connection.path.len() > 1 && vcs.any(refused)
    }

    /// Whether a fault of a line met it, or could have moved its cells.
    fn is_met(&self, n: usize) -> bool {
        let address = self.plan.connections[n].address;
        let mut path = self.plan.connections[n].path.iter();
        path.any(|line| {
            let line = &self.report().lines[*line];
            line.met.contains(&address) || line.counts.held > 0
        })
    }
}
