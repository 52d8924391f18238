//! Connections that kill adapters: each adapter that opens one dies of it a while later.

use cellgate_core::server::Address;
use cellgate_core::wire::VpiVci;

use super::ServerTurn;
use super::daemon::Served;
use crate::world::Ps;
use crate::world::fault::FaultSpec;
use crate::world::host::Host;
use crate::world::net::Net;
use crate::world::scenario::Scenario;

/// Of which an adapter dies.
#[derive(Clone, Copy, Debug)]
struct Killer {
    address: VpiVci,
    from: Ps,
    until: Ps,
    /// From when it is open to the adapter's death.
    after: Ps,
    /// How long there is no adapter then.
    down: Ps,
}

/// Those of a host.
#[derive(Clone, Debug, Default)]
pub(super) struct Killers(Vec<Killer>);

impl Killers {
    /// Those of a host in a scenario that begins then.
    pub(super) fn of(scenario: &Scenario, host: &str) -> Self {
        let address = |name: &str| {
            let mut all = scenario.connections.iter();
            Some(all.find(|one| one.name == name)?.address)
        };
        let faults = scenario.faults.iter();
        let all = faults.filter_map(|fault| match fault {
            FaultSpec::Kills {
                connection,
                host: of,
                at_ns,
                for_ns,
                after_ns,
                down_ns,
            } if of == host => Some(Killer {
                address: address(connection)?,
                from: Ps::from_ns(*at_ns),
                until: Ps::from_ns(at_ns + for_ns),
                after: Ps::from_ns(*after_ns),
                down: Ps::from_ns(*down_ns),
            }),
            _ => None,
        });
        Self(all.collect())
    }

    /// The addresses of which adapters die.
    pub(super) fn addresses(&self) -> impl Iterator<Item = VpiVci> {
        self.0.iter().map(|killer| killer.address)
    }
}

impl Host {
    /// The adapter of a host has opened a VC here.
    pub(super) fn has_opened(&mut self, address: VpiVci, net: &mut Net) {
        let Some(served) = &self.served else {
            return;
        };
        let since = net.now.since(net.plan.opened);
        let killers = served.killers.0.iter();
        let killers = killers.filter(|one| one.address == address);
        let strikes = |killer: &&Killer| {
            let ends = since.plus(killer.after).plus(killer.down);
            since >= killer.from && ends <= killer.until
        };
        for killer in killers.filter(strikes) {
            let at = net.now.plus(killer.after);
            let strikes = ServerTurn::Strikes(served.adapter_life);
            self.turn_at(at, strikes, net);
            let begins = ServerTurn::AdapterBegins;
            self.turn_at(at.plus(killer.down), begins, net);
        }
    }

    /// The adapter of this life dies of what it has opened.
    pub(super) fn adapter_is_killed(&mut self, life: u32, net: &mut Net) {
        let alive = |served: &Served| served.is_adapter_up && served.adapter_life == life;
        if self.served.as_deref().is_some_and(alive) {
            net.log.seen.note("killer", "killed");
            self.is_judged(net, |audit, seen| audit.adapter_is_killed(seen));
            self.adapter_dies(net);
        }
    }

    /// Its server leaves a connection out.
    pub(super) fn is_left_out(&mut self, address: &Address, net: &mut Net) {
        let whose = self.is_judged(net, |audit, seen| {
            let is_killer = audit.leaves_out(seen, address)?;
            Ok(Some(if is_killer { "left_out" } else { "innocent" }))
        });
        if let Some(whose) = whose {
            net.log.seen.note("killer", whose);
        }
    }
}
