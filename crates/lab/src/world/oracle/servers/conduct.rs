//! I19: what a server does with what others use, and in which order it opens things again.

use cellgate_core::contract::{ServiceCategory, TrafficContract};
use cellgate_core::keeper::Ask;
use cellgate_core::server::{AdapterAsk, Address, EndReason, FromServer, Indication, Open, Opened};

use super::{Audit, View, Wrong};
use crate::world::Ps;
use crate::world::servers::SHORT_PATIENCE_NS;

/// Deaths before anything is suspected, and one of a call that is under way.
const DEATHS: u32 = 4;

impl Audit {
    /// The server dies: whoever comes next knows nothing of what it has offered.
    pub(crate) fn dies(&mut self) {
        self.deaths = 0;
        self.offered.clear();
    }

    /// A server has begun. What one before it has asked again has an order of its own.
    pub(crate) fn begins(&mut self, now: Ps, is_first: bool) {
        (self.since, self.last, self.is_excused) = (now, None, !is_first);
    }

    /// It knows another adapter.
    pub(crate) fn finds_adapter(&mut self, now: Ps) {
        (self.since, self.last, self.is_excused) = (now, None, false);
    }

    /// The server suspects nobody of killing adapters any more.
    pub(crate) fn suspects_nobody(&mut self) {
        self.deaths = 0;
    }

    /// A clock has gone forward.
    pub(crate) fn clock_has_stepped(&mut self) {
        self.deaths = 0;
        self.is_excused = true;
    }

    /// The adapter is to die, and of no connection.
    pub(crate) fn adapter_dies_of_something_else(&mut self) {
        self.has_others = true;
        self.deaths = 0;
    }

    /// The adapter has refused something, and not for want of memory.
    pub(crate) fn is_excused(&mut self) {
        self.is_excused = true;
    }

    /// Somebody asks for a connection to be deleted.
    pub(crate) fn deletes(&mut self, address: Address) {
        self.deleted.insert(address);
    }

    /// The server asks its adapter for something.
    pub(crate) fn asks(&mut self, seen: &View<'_>, ask: &AdapterAsk) -> Result<(), Wrong> {
        if let AdapterAsk::Keeper(Ask::Open { .. }, Some(record)) = ask {
            self.reserves.ask(seen, record, true);
        }
        if let AdapterAsk::Keeper(Ask::Modify { .. }, Some(record)) = ask {
            self.reserves.ask(seen, record, false);
        }
        match ask {
            AdapterAsk::Keeper(Ask::Close { vc }, _) => {
                // What an application holds of an adapter that has died has the same names.
                let uses = seen.user_of(*vc).filter(|user| {
                    let is_used = user.is_holder && user.is_connected && !user.is_closing;
                    is_used && !self.deleted.contains(&user.address)
                });
                uses.map_or(Ok(()), |user| {
                    let name = user.name;
                    let text = format!("it closes {vc:?}, which application {name} uses");
                    Err(("I19", text))
                })
            }
            AdapterAsk::Keeper(Ask::Open { .. }, Some(record)) if record.reopened => {
                // Those who wait for memory, or are suspected after a second death, come later.
                if seen.was_memory_limited || seen.adapter_life >= 2 {
                    return Ok(());
                }
                // What is guaranteed comes first, then what is permanent, then what is older.
                let contract = record.open.contract.parse::<TrafficContract>();
                let category = contract.map(|contract| contract.category);
                let is_best_effort = category == Ok(ServiceCategory::Ubr);
                let place = (is_best_effort, !record.permanent, record.number);
                let before = self.last.replace(place);
                if before.is_some_and(|before| before >= place) {
                    let address = &record.address;
                    let text = format!("{address} is opened again after what comes later");
                    return Err(("I19", text));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// An application is told something: nobody's connection ends for want of memory before others
    /// can have let go of theirs.
    pub(crate) fn tells(
        &self,
        now: Ps,
        seen: &View<'_>,
        message: &FromServer,
    ) -> Result<(), Wrong> {
        let FromServer::Indication {
            indication: Indication::Ended(EndReason::NotReopened),
            ..
        } = message
        else {
            return Ok(());
        };
        let is_early = now < self.since.plus(Ps::from_ns(SHORT_PATIENCE_NS[0]));
        let is_other = self.is_excused || !seen.killers.is_empty();
        match seen.memory_limit.is_some() && is_early && !is_other {
            true => Err(("I19", "a connection ends that waits for memory".into())),
            false => Ok(()),
        }
    }

    /// The adapter dies of what it has opened.
    pub(crate) fn adapter_is_killed(&mut self, seen: &View<'_>) -> Result<(), Wrong> {
        let open = seen.server.map_or(0, |server| server.connections().count());
        // Half of the suspects are left each time, and who is left alone has one more.
        let halves = open.next_power_of_two().ilog2() + 2;
        let most = DEATHS + seen.killers.len() as u32 * halves;
        self.deaths += u32::from(seen.server.is_some());
        let deaths = self.deaths;
        match deaths > most {
            true => {
                let text = format!("{deaths} adapters in a row die of what it opens again");
                Err(("I19", text))
            }
            false => Ok(()),
        }
    }

    /// The server leaves a connection out; whether adapters die of that.
    pub(crate) fn leaves_out(&mut self, seen: &View<'_>, address: &Address) -> Result<bool, Wrong> {
        self.is_excused = true;
        self.deaths = 0;
        let is_killer = seen.killers.contains(&address.vc);
        match is_killer || self.has_others {
            true => Ok(is_killer),
            false => {
                let text = format!("{address} is left out, of which no adapter dies");
                Err(("I19", text))
            }
        }
    }
}

/// I15: what was opened is what was asked for.
pub(crate) fn is_what_was_asked(open: &Open, opened: &Opened) -> Result<(), Wrong> {
    let wanted = open.contract.parse::<TrafficContract>();
    let same = wanted.is_ok_and(|wanted| wanted.to_string() == opened.contract);
    match same && opened.address == open.address {
        true => Ok(()),
        false => {
            let (asked, got) = (&open.contract, &opened.contract);
            Err(("I15", format!("asked for {asked}, opened {got}")))
        }
    }
}
