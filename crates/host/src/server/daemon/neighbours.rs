//! Other adapters on the machine: the daemon keeps off its own one's CPU wherever that is, and says
//! who else is there.

use cellgate_core::server::SharedCpu;

use super::Daemon;
use crate::server::neighbours::Home;
use crate::sys::Duty;

impl Daemon {
    /// Where the adapter is; none: there is none, or it is not pinned.
    pub(super) fn home(&self) -> Home {
        let hello = self.adapter.hello()?;
        Some((hello.pid, hello.scheduling.pinned?))
    }

    /// An adapter has come: all threads keep off the CPU that it has taken.
    pub(super) fn meet_neighbours(&mut self) {
        let home = self.home();
        let cpu = home.map(|(_, cpu)| cpu);
        let duty = match self.urgent_until {
            Some(_) => Duty::TakeUp,
            None => Duty::Service,
        };
        self.places.duty(duty, cpu);
        self.workers.keep_off(cpu);
        if self.neighbours.look(self.now, home) {
            self.tell_of_neighbours();
        }
    }

    /// Looks who has come and gone.
    pub(super) fn look_at_neighbours(&mut self) {
        let home = self.home();
        // While there is no adapter, nothing is known of its CPU.
        if home.is_some() && self.neighbours.go_on(self.now, home) {
            self.tell_of_neighbours();
        }
    }

    fn tell_of_neighbours(&mut self) {
        let shared = self.neighbours.shared().cloned();
        let news = shared.as_ref().map_or_else(
            || "no other adapter uses the adapter's CPU any more".to_owned(),
            SharedCpu::note,
        );
        self.say(&news);
        self.server.handle_shared_cpu(shared);
        self.server.handle_notes(self.all_notes());
        self.status_changed = true;
    }

    /// What people are to know of it.
    pub(super) fn note_of_neighbours(&self) -> Option<String> {
        self.neighbours.shared().map(SharedCpu::note)
    }
}
