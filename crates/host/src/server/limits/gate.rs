//! What stands between the server's decisions and the kernel's: no memory is asked for that a
//! control group has no room for, whatever is under way, kept mapped, or had twice for a moment.

use std::collections::BTreeMap;
use std::path::Path;

use cellgate_core::Time;
use cellgate_core::keeper::Ask;
use cellgate_core::queue::AttachmentGeometry;
use cellgate_core::server::{
    AdapterAsk, AdapterIndex, AdapterRefusal, Book, Bound, Resource, ResourceInfo, Ticket,
};

use super::{Machine, Room};
use crate::events::{Event, Field, Kind};

/// From one look at the limits to the next.
const LOOK_NS: u64 = 1_000_000_000;

/// What is asked of the adapter's memory.
pub(in crate::server) struct Gate {
    machine: Machine,
    /// What was left at the last look, less what was asked for since; none: there is no limit.
    room: Option<Room>,
    /// What was asked for and is not answered: the kernel may have charged it or not.
    asked: BTreeMap<Ticket, (AdapterIndex, u64)>,
    known: BTreeMap<Book, Bound>,
    /// What others on its CPU leave each adapter, at the last look.
    shared: Vec<Option<Bound>>,
    next_look: Time,
    /// The limits that people were told of.
    told: BTreeMap<(Resource, Option<String>), String>,
}

impl Gate {
    /// Of this machine; `cpus` are this process's.
    pub(in crate::server) fn new(cpus: usize) -> Self {
        Self::at(Path::new("/"), cpus)
    }

    pub(super) fn at(root: &Path, cpus: usize) -> Self {
        Self {
            machine: Machine::at(root, cpus),
            room: None,
            asked: BTreeMap::new(),
            known: BTreeMap::new(),
            shared: Vec::new(),
            next_look: Time::ZERO,
            told: BTreeMap::new(),
        }
    }

    /// Has the next look be at once.
    pub(in crate::server) fn hurry(&mut self) {
        self.next_look = Time::ZERO;
    }

    /// Looks at the limits if it is time, or another adapter has come or gone; what there is of
    /// resources, if that is news. `adapters`: the octets that connections have on each, and what
    /// others on its CPU leave of it (none: there are no others).
    pub(in crate::server) fn look(
        &mut self,
        now: Time,
        adapters: &[(u64, Option<Bound>)],
    ) -> Option<BTreeMap<Book, Bound>> {
        let shared = adapters.iter().map(|(_, shared)| shared);
        if !shared.clone().eq(&self.shared) {
            self.shared = shared.cloned().collect();
            self.hurry();
        }
        if now < self.next_look {
            return None;
        }
        self.next_look = now.plus_ns(LOOK_NS);
        self.machine.look();
        self.measure();
        let held = adapters.iter().map(|(held, _)| *held);
        let mut bounds = self.machine.bounds(&held.collect::<Vec<_>>());
        for (shared, adapter) in self.shared.iter().zip((0..).map(AdapterIndex)) {
            if let Some(shared) = shared {
                let bound = bounds.entry(Book::of(Resource::AdapterCpu, adapter));
                let bound = bound.or_insert_with(|| shared.clone());
                if shared.capacity < bound.capacity {
                    bound.clone_from(shared);
                }
            }
        }
        if bounds == self.known {
            return None;
        }
        self.known.clone_from(&bounds);
        Some(bounds)
    }

    fn measure(&mut self) {
        let asked: u64 = self.asked.values().map(|(_, octets)| octets).sum();
        self.room = self.machine.memory();
        if let Some(room) = &mut self.room {
            room.free = room.free.saturating_sub(asked);
        }
    }

    /// Whether there is room for what is asked under `ticket`.
    pub(in crate::server) fn admits(
        &mut self,
        adapter: AdapterIndex,
        ticket: Ticket,
        ask: &AdapterAsk,
    ) -> Result<(), AdapterRefusal> {
        let needed = octets(ask);
        if needed == 0 {
            return Ok(());
        }
        if self.room.as_ref().is_some_and(|room| room.free < needed) {
            self.measure();
        }
        if let Some(room) = &mut self.room {
            if room.free < needed {
                return Err(AdapterRefusal::Memory {
                    needed,
                    free: room.free,
                    limit: Some(room.limit.to_string()),
                });
            }
            room.free -= needed;
        }
        self.asked.insert(ticket, (adapter, needed));
        Ok(())
    }

    /// What was asked under this ticket is made, or will not be.
    pub(in crate::server) fn answered(&mut self, ticket: Ticket) {
        self.asked.remove(&ticket);
    }

    /// An adapter is gone, and with it what it was asked.
    pub(in crate::server) fn lost(&mut self, adapter: AdapterIndex) {
        self.asked.retain(|_, (of, _)| *of != adapter);
        self.hurry();
    }

    /// What to tell people of the limits that count: where one does that did not, or does no more.
    pub(in crate::server) fn news(&mut self, resources: &[ResourceInfo]) -> Vec<Event> {
        let of_machine = resources.iter().filter(|info| info.interface.is_none());
        let mut news = Vec::new();
        for info in of_machine {
            let of = (info.resource, info.adapter.clone());
            if self.told.get(&of) == info.limit.as_ref() {
                continue;
            }
            let (resource, capacity) = (info.resource, info.capacity);
            let limit = info.limit.as_deref().unwrap_or("as configured");
            let unit = resource.unit();
            let whose = info.adapter.as_ref();
            let whose = whose.map_or_else(String::new, |name| format!("adapter {name}: "));
            let text = format!("{whose}{resource}: {capacity} {unit} to promise ({limit})");
            let event = match &info.limit {
                Some(limit) => Event::of(Kind::PromiseBounded, text).with(Field::Reason, &**limit),
                None => Event::of(Kind::PromiseAsConfigured, text),
            };
            let event = event
                .with_any(Field::Adapter, info.adapter.as_deref())
                .with(Field::Count, capacity)
                .with(Field::Resource, resource.to_string());
            news.push(event);
            match &info.limit {
                Some(limit) => self.told.insert(of, limit.clone()),
                None => self.told.remove(&of),
            };
        }
        news
    }
}

/// Octets of new memory that an ask takes.
fn octets(ask: &AdapterAsk) -> u64 {
    let AdapterAsk::Keeper(ask, record) = ask else {
        return 0;
    };
    let memory = record.as_ref().map_or(0, |record| record.demand.memory);
    match ask {
        Ask::Attach { sizes, .. } => {
            let geometry = AttachmentGeometry::new(*sizes).ok();
            geometry.map_or(0, |of| of.from_adapter_len() + of.from_client_len()) as u64
        }
        Ask::Open { .. }
        | Ask::Modify {
            region: Some(_), ..
        } => memory,
        _ => 0,
    }
}
