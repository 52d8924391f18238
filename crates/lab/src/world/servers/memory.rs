//! Memory that the machine has for an adapter: less at times, as the limit of a control group is
//! lowered.

use std::collections::BTreeMap;

use cellgate_core::keeper::Ask;
use cellgate_core::server::{AdapterAsk, AdapterIndex, AdapterRefusal, Book, Bound, Resource};

use super::ServerTurn;
use crate::world::Ps;
use crate::world::host::Host;
use crate::world::net::Net;

/// How long there is no adapter when the machine has killed one.
const DOWN: Ps = Ps::from_ns(100_000);
/// Which limit it is.
const MEMORY_MAX: &str = "memory.max";

/// Limits of a host, by the fault's number.
#[derive(Debug, Default)]
pub(super) struct MemoryLimits {
    by_fault: BTreeMap<u32, u64>,
    /// There was one.
    is_known: bool,
}

impl MemoryLimits {
    /// Whether there is one, or was.
    pub(super) fn are_some(&self) -> bool {
        self.is_known
    }

    pub(super) fn least(&self) -> Option<u64> {
        self.by_fault.values().min().copied()
    }
}

impl Host {
    /// A host has only so much memory for its adapter from now on.
    pub(crate) fn memory_shrinks(&mut self, fault: u32, octets: u64, net: &mut Net) {
        let Some(served) = &mut self.served else {
            return;
        };
        served.memory.is_known = true;
        served.memory.by_fault.insert(fault, octets);
        net.log.seen.note("memory", "shrinks");
        self.bounds_are_told(net);
        self.machine_looks(net);
    }

    /// The machine kills an adapter that has more memory than its limit, or is about to: its server
    /// may have asked before it knew of the limit.
    pub(super) fn machine_looks(&mut self, net: &mut Net) {
        let Some(served) = &self.served else {
            return;
        };
        let Some(limit) = served.memory.least() else {
            return;
        };
        let (is_up, asked) = (served.is_adapter_up, served.process.octets_asked());
        if is_up && self.memory_used() + asked > limit {
            net.log.seen.note("memory", "killed");
            self.adapter_dies_of_something_else(net);
            self.adapter_dies(net);
            let begins = ServerTurn::AdapterBegins;
            self.turn_at(net.now.plus(DOWN), begins, net);
        }
    }

    /// It has more again.
    pub(crate) fn memory_grows(&mut self, fault: u32, net: &mut Net) {
        if let Some(served) = &mut self.served {
            served.memory.by_fault.remove(&fault);
        }
        self.bounds_are_told(net);
    }

    /// The server looks at the limits of its machine.
    pub(super) fn bounds_are_told(&mut self, net: &mut Net) {
        let Some(served) = &self.served else {
            return;
        };
        if !served.memory.is_known {
            return;
        }
        let bound = |capacity| Bound {
            capacity,
            by: MEMORY_MAX.into(),
        };
        let least = served.memory.least();
        let bounds: BTreeMap<_, _> = least
            .map(|capacity| {
                (
                    Book::of(Resource::Memory, AdapterIndex::FIRST),
                    bound(capacity),
                )
            })
            .into_iter()
            .collect();
        self.serve_any(net, |server, now| server.handle_bounds(now, bounds));
    }

    /// Octets that an adapter has made, and those of adapters before that are mapped still.
    fn memory_used(&self) -> u64 {
        let Some(served) = &self.served else {
            return 0;
        };
        let vcs = served.process.vcs.values();
        let open: u64 = vcs.map(|kept| kept.record.demand.memory).sum();
        let mapped = self.applications.iter().filter_map(|one| one.mapped);
        let old = mapped.filter(|(life, _)| *life != served.adapter_life);
        open + old.map(|(_, octets)| octets).sum::<u64>()
    }

    /// Whether an adapter will have no memory for what its server is to ask.
    pub(super) fn has_no_memory(
        &mut self,
        ask: &AdapterAsk,
        net: &mut Net,
    ) -> Option<AdapterRefusal> {
        let served = self.served.as_ref()?;
        let limit = served.memory.least()?;
        let needed = Some(made_by(ask)).filter(|needed| *needed > 0)?;
        let asked = served.asked.values().map(|asked| asked.octets);
        let asked: u64 = asked.sum();
        let used = self.memory_used() + asked;
        let free = limit.saturating_sub(used);
        let limit = Some(MEMORY_MAX.to_owned());
        (needed > free).then(|| {
            net.log.seen.note("memory", "refused");
            AdapterRefusal::Memory {
                needed,
                free,
                limit,
            }
        })
    }
}

/// Octets that a command makes.
pub(super) fn made_by(ask: &AdapterAsk) -> u64 {
    match ask {
        AdapterAsk::Keeper(
            Ask::Open { .. }
            | Ask::Modify {
                region: Some(_), ..
            },
            Some(record),
        ) => record.demand.memory,
        _ => 0,
    }
}
