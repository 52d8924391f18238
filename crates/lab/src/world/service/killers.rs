//! Connections that kill adapters: each adapter that opens one dies of it a while later.

use cellgate_core::server::Address;
use cellgate_core::wire::VpiVci;

use super::ServiceTurn;
use super::daemon::Served;
use crate::world::Ps;
use crate::world::fault::FaultSpec;
use crate::world::host::Host;
use crate::world::net::Net;
use crate::world::scenario::Scenario;

/// Deaths before anything is suspected, and one of a call that is under way.
const DEATHS: u32 = 4;

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

/// Those of a host, and what they have done.
#[derive(Clone, Debug, Default)]
pub(super) struct Killers {
    all: Vec<Killer>,
    /// Adapters in a row that one of them has killed, of what was opened again.
    deaths: u32,
    /// Some have died of something else.
    pub(super) has_others: bool,
}

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
        Self {
            all: all.collect(),
            ..Self::default()
        }
    }

    /// Whoever is suspected, it begins anew.
    pub(super) fn are_forgotten(&mut self) {
        self.deaths = 0;
    }

    /// Whether there are any.
    pub(super) fn are_some(&self) -> bool {
        !self.all.is_empty()
    }

    fn has(&self, address: VpiVci) -> bool {
        self.all.iter().any(|killer| killer.address == address)
    }
}

impl Host {
    /// The adapter of a host has opened a VC here.
    pub(super) fn has_opened(&mut self, address: VpiVci, net: &mut Net) {
        let Some(served) = &self.served else {
            return;
        };
        let since = net.now.since(net.plan.opened);
        let killers = served
            .killers
            .all
            .iter()
            .filter(|one| one.address == address);
        let strikes = |killer: &&Killer| {
            let ends = since.plus(killer.after).plus(killer.down);
            since >= killer.from && ends <= killer.until
        };
        for killer in killers.filter(strikes) {
            let at = net.now.plus(killer.after);
            let strikes = ServiceTurn::Strikes(served.adapter_life);
            self.turn_at(at, strikes, net);
            let begins = ServiceTurn::AdapterBegins;
            self.turn_at(at.plus(killer.down), begins, net);
        }
    }

    /// The adapter of this life dies of what it has opened.
    pub(super) fn adapter_is_killed(&mut self, life: u32, net: &mut Net) {
        let served = self.served.as_mut();
        let alive = |served: &&mut Box<Served>| served.is_adapter_up && served.adapter_life == life;
        let Some(served) = served.filter(alive) else {
            return;
        };
        let open = served
            .server
            .as_ref()
            .map_or(0, |server| server.connections().count());
        // Half of the suspects are left each time, and who is left alone has one more.
        let halves = open.next_power_of_two().ilog2() + 2;
        let most = DEATHS + served.killers.all.len() as u32 * halves;
        served.killers.deaths += u32::from(served.server.is_some());
        let deaths = served.killers.deaths;
        net.log.seen.note("killer", "killed");
        if deaths > most {
            let text = format!("{deaths} adapters in a row die of what it opens again");
            self.breaks("I19", &text, net);
        }
        self.adapter_dies(net);
    }

    /// A server leaves a connection out.
    pub(super) fn is_left_out(&mut self, address: &Address, net: &mut Net) {
        let Some(served) = &mut self.served else {
            return;
        };
        served.again.is_excused = true;
        let killers = &mut served.killers;
        killers.are_forgotten();
        let is_innocent = !killers.has(address.vc);
        if is_innocent && !killers.has_others {
            let text = format!("{address} is left out, of which no adapter dies");
            return self.breaks("I19", &text, net);
        }
        let whose = if is_innocent { "innocent" } else { "left_out" };
        net.log.seen.note("killer", whose);
    }
}
