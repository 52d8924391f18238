//! What a host has counted.

use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::adapter::Attachment;
use cellgate_core::queue::{Words, layout::attachment};

use super::Host;
use crate::world::Ps;
use crate::world::endpoint::DOORBELL_SLOTS;
use crate::world::log::{HostReport, PortReport};

impl Host {
    /// What it has counted until now.
    pub(crate) fn reports(&mut self, now: Ps) -> HostReport {
        let past = self.past.iter().chain([self.adapter.stats()]);
        let stats = past.copied().collect();
        let ports = self.ports.iter().enumerate().map(|(port, wires)| {
            let (late, full) = self.watch.crowd(port);
            PortReport {
                output: wires.output,
                late,
                full,
            }
        });
        let ports = ports.collect();
        let mut seen = [0; 6];
        let mut rounds = [0; 2];
        for client in &self.clients {
            for (sum, events) in seen.iter_mut().zip(client.seen) {
                *sum += events;
            }
            let words = client.memory.from_adapter();
            let events = words.load(attachment::EVENT_HEAD);
            let doorbells = words.load(attachment::DOORBELL_TAIL);
            rounds[0] += u64::from(events > self.spec.event_slots.into());
            rounds[1] += u64::from(doorbells > DOORBELL_SLOTS.into());
        }
        let mut faulty = Vec::new();
        let mut dozing = Vec::new();
        for endpoint in self.endpoints.values_mut() {
            if endpoint.faults() > 0 && !endpoint.is_lawless {
                faulty.push(endpoint.connection);
            }
            if endpoint.is_told && !endpoint.is_empty() {
                dozing.push(endpoint.connection);
            }
        }
        let receives = self.openings.iter();
        let receives = receives.filter_map(|(n, opening)| Some((*n, opening.request.receive?)));
        let receives: BTreeMap<_, _> = receives.collect();
        let openings = self.openings.iter();
        let own = openings.filter(|(_, opening)| opening.lawless);
        let lawless: BTreeSet<u32> = own.map(|(n, _)| *n).collect();
        let (accounts, answers) = self.accounts(self.time(now));
        HostReport {
            counts: self.counts,
            accounts,
            answers,
            rests: self.rests.counts,
            stats,
            waiting: self.waiting(),
            overflowed: self.overflowed.clone(),
            closed: self.closed.clone(),
            receives,
            stood_still: self.steps.stood_still,
            cut: self.cut.clone(),
            lawless: lawless
                .into_iter()
                .chain(self.liars.values().copied())
                .collect(),
            ports,
            faulty,
            dozing,
            refusals: self.refusals.clone(),
            open: self.by_connection.len() + self.orders(),
            room: [self.room, self.adapter.room()],
            runs: self.runs,
            told: self.counts.interrupts + self.unasked,
            judged_cells: self.judged_cells(),
            seen,
            rounds,
            clock_ns: self.time(now).ns(),
        }
    }
}
