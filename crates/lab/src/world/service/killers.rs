//! Connections that kill adapters: each adapter that opens one dies of it a while later.

use cellgate_core::server::Address;
use cellgate_core::wire::VpiVci;

use super::ServiceEvent;
use super::daemon::Served;
use crate::world::Ps;
use crate::world::fault::FaultSpec;
use crate::world::run::{Event, World};
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

impl World {
    /// The adapter of a host has opened a VC here.
    pub(super) fn has_opened(&mut self, host: usize, address: VpiVci) {
        let Some(served) = self.service.hosts.get(&host) else {
            return;
        };
        let since = self.now.since(self.opened);
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
            let at = self.now.plus(killer.after);
            let strikes = ServiceEvent::Strikes(host as u32, served.adapter_life);
            self.queue.push(at, Event::Service(strikes));
            let begins = ServiceEvent::AdapterBegins(host as u32);
            self.queue
                .push(at.plus(killer.down), Event::Service(begins));
        }
    }

    /// The adapter of this life dies of what it has opened.
    pub(super) fn adapter_is_killed(&mut self, host: usize, life: u32) {
        let served = self.service.hosts.get_mut(&host);
        let alive = |served: &&mut Served| served.is_adapter_up && served.adapter_life == life;
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
        self.service.seen.note("killer", "killed");
        if deaths > most {
            let text = format!("{deaths} adapters in a row die of what it opens again");
            self.breaks("I19", host, &text);
        }
        self.adapter_dies(host);
    }

    /// A server leaves a connection out.
    pub(super) fn is_left_out(&mut self, host: usize, address: &Address) {
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        served.again.is_excused = true;
        let killers = &mut served.killers;
        killers.are_forgotten();
        let is_innocent = !killers.has(address.vc);
        if is_innocent && !killers.has_others {
            let text = format!("{address} is left out, of which no adapter dies");
            return self.breaks("I19", host, &text);
        }
        let whose = if is_innocent { "innocent" } else { "left_out" };
        self.service.seen.note("killer", whose);
    }
}
