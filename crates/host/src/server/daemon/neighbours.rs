//! Other adapters on the machine: the daemon keeps off the CPUs of its own wherever they are, and
//! says who else is there.

use cellgate_core::server::AdapterIndex;

use super::Daemon;
use crate::events::{Field, Kind};
use crate::server::neighbours::Home;
use crate::sys::Duty;

impl Daemon {
    /// Where an adapter is; none: it is away, or not pinned.
    fn home(&self, adapter: AdapterIndex) -> Home {
        let hello = self.adapters.hello(adapter)?;
        Some((hello.pid, hello.scheduling.pinned?))
    }

    /// An adapter has come: all threads keep off the CPU that it has taken.
    pub(super) fn meet_neighbours(&mut self) {
        let cpus = self.adapters.cpus();
        let duty = match self.urgent_until {
            Some(_) => Duty::TakeUp,
            None => Duty::Service,
        };
        self.places.duty(duty, &cpus);
        self.workers.keep_off(cpus);
        self.idle.keep_off(cpus);
        self.cpu_times.keep_off(cpus);
        for adapter in self.adapters.indices() {
            self.adapters.files(adapter).keep_off(cpus);
            let home = self.home(adapter);
            if home.is_some() && self.lives[adapter.place()].neighbours.look(self.now, home) {
                self.tell_of_neighbours(adapter);
            }
        }
    }

    /// Looks who has come and gone.
    pub(super) fn look_at_neighbours(&mut self) {
        for adapter in self.adapters.indices() {
            let home = self.home(adapter);
            let neighbours = &mut self.lives[adapter.place()].neighbours;
            // While it is away, nothing is known of its CPU.
            if home.is_some() && neighbours.go_on(self.now, home) {
                self.tell_of_neighbours(adapter);
            }
        }
    }

    fn tell_of_neighbours(&mut self, adapter: AdapterIndex) {
        let shared = self.lives[adapter.place()].neighbours.shared().cloned();
        let name = self.options.config.adapter_name(adapter);
        let news = match (&shared, name) {
            (Some(shared), None) => shared.note(),
            (Some(shared), Some(name)) => format!("adapter {name}: {}", shared.note()),
            (None, None) => "no other adapter uses the adapter's CPU any more".to_owned(),
            (None, Some(name)) => format!("no other adapter uses {name}'s CPU any more"),
        };
        let event = match &shared {
            Some(shared) => {
                let event = self.of_adapter(Kind::CpuShared, news, adapter);
                event.with(Field::Reason, shared.note())
            }
            None => self.of_adapter(Kind::CpuAlone, news, adapter),
        };
        self.say(event);
        self.server.handle_shared_cpu(adapter, shared);
        self.server.handle_notes(self.all_notes());
        self.status_changed = true;
    }

    /// What people are to know of them.
    pub(super) fn notes_of_neighbours(&self) -> impl Iterator<Item = String> {
        let shared = self.lives.iter().map(|life| life.neighbours.shared());
        let named = shared.zip(&self.options.config.adapters);
        named.filter_map(|(shared, section)| {
            let note = shared?.note();
            Some(match &section.name {
                Some(name) => format!("adapter {name}: {note}"),
                None => note,
            })
        })
    }
}
