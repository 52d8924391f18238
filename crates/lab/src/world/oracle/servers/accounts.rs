//! I19: the account of a connection's slots goes on, whichever server has begun it.

use std::collections::BTreeMap;

use cellgate_core::Time;
use cellgate_core::server::{Address, Record, SlotClocks};

use super::super::charges::granted;
use super::{Audit, View, Wrong};

/// A server has asked for a connection to have so many cells/s of its own from then on.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Time,
    rates: [u64; 2],
    /// Nobody has looked whether the adapter has done it.
    is_open: bool,
}

/// What servers have asked for, by connection.
#[derive(Debug, Default)]
pub(super) struct Reserves {
    asked: BTreeMap<Address, Vec<Asked>>,
}

fn rates(record: &Record) -> [u64; 2] {
    let demand = &record.demand;
    [demand.transmit.guaranteed, demand.receive.guaranteed]
}

fn begun(clocks: &SlotClocks, now: Time) -> [u64; 2] {
    [clocks.transmit.begun(now), clocks.receive.begun(now)]
}

fn due(asked: &[Asked], now: Time) -> [u64; 2] {
    let before = asked.iter().filter(|one| one.at <= now);
    let since: Vec<_> = before.map(|one| (one.at, one.rates)).collect();
    granted(&since, now)
}

impl Reserves {
    /// A connection is to be opened, or to have what `record` says from now on.
    pub(super) fn ask(&mut self, seen: &View<'_>, record: &Record, opens: bool) {
        self.settle(seen, &record.address);
        let all = self.asked.entry(record.address.clone()).or_default();
        if opens {
            all.clear();
        }
        all.push(Asked {
            at: seen.now,
            rates: rates(record),
            is_open: true,
        });
    }

    /// Forgets what the adapter has not done of what it was asked for last.
    fn settle(&mut self, seen: &View<'_>, address: &Address) {
        let kept = seen.vc_at(address).map(|(_, kept)| &kept.record);
        if let (Some(kept), Some(all)) = (kept, self.asked.get_mut(address))
            && let [_, .., last] = &mut all[..]
            && core::mem::take(&mut last.is_open)
            && last.rates != rates(kept)
        {
            all.pop();
        }
    }

    /// What is wrong with the accounts, if anything.
    fn wrong(&mut self, seen: &View<'_>) -> Option<String> {
        if !seen.is_quiet {
            return None;
        }
        let kept: Vec<_> = seen.vcs.values().map(|kept| kept.record.clone()).collect();
        for record in kept {
            self.settle(seen, &record.address);
            let Some(asked) = self.asked.get(&record.address) else {
                continue;
            };
            let (told, due) = (begun(&record.slots, seen.now), due(asked, seen.now));
            if told != due {
                let address = &record.address;
                return Some(format!(
                    "{address}: {told:?} slots are kept with it, due {due:?}"
                ));
            }
        }
        None
    }

    /// The same of what a server says that has just been told how its connections do.
    fn wrongly_told(&mut self, seen: &View<'_>) -> Option<String> {
        let server = seen.server.filter(|_| seen.is_quiet)?;
        server.connections().find_map(|info| {
            seen.vc_at(&info.address)?;
            self.settle(seen, &info.address);
            let due = due(self.asked.get(&info.address)?, seen.now);
            let told = [info.slots.transmit.reserved, info.slots.receive.reserved];
            (told != due).then(|| format!("{}: {told:?} slots, due {due:?}", info.address))
        })
    }
}

impl Audit {
    /// The server has been told how its connections do: it tells of the slots that there were.
    pub(crate) fn is_told(&mut self, seen: &View<'_>) -> Result<(), Wrong> {
        let wrong = self.reserves.wrongly_told(seen);
        wrong.map_or(Ok(()), |text| Err(("I19", text)))
    }

    /// The accounts of slots are what was reserved.
    pub(super) fn accounts_go_on(&mut self, seen: &View<'_>) -> Result<(), Wrong> {
        let wrong = self.reserves.wrong(seen);
        wrong.map_or(Ok(()), |text| Err(("I19", text)))
    }
}
