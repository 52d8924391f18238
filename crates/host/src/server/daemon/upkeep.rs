//! What lies in the file system is looked after: a cleaner may take any of it, a disk be full.

use std::io;

use cellgate_core::server::AdapterIndex;

use super::super::operator::MISSING;
use super::Daemon;
use crate::events::{Event, Field, Kind};
use crate::place::{Directory, Look};
use crate::sys::Lack;

impl Daemon {
    /// Makes again what is gone, writes what could not be written, and tells what does not succeed.
    pub(super) fn look_after_places(&mut self) {
        let mut troubles = Vec::new();
        let mut note = |what: &str, error: &io::Error| troubles.push(format!("{what}: {error}"));
        let mut again = Vec::new();
        let places = &mut self.places;
        if !places.directory.is_there() {
            match Directory::make(places.directory.path(), None) {
                Ok(directory) => {
                    places.directory = directory;
                    again.push(places.directory.path().display().to_string());
                }
                Err(error) => note("the state directory is gone", &error),
            }
        }
        match places.lock.look(&places.directory) {
            Ok(true) => again.push("the lock of the state directory".to_owned()),
            Ok(false) => {}
            Err(error) => note("the lock of the state directory is gone", &error),
        }
        match self.listener.look() {
            Ok(Look::Again) => {
                again.extend(self.listener.path().map(|at| at.display().to_string()))
            }
            Ok(Look::Same) => {}
            Err(error) => note("applications do not find this server", &error),
        }
        places.calibration.look(self.now, &mut places.directory);
        places.reserved.look(self.now, &mut places.directory);
        troubles.extend(places.calibration.problem().map(str::to_owned));
        troubles.extend(places.reserved.problem().map(str::to_owned));
        for what in again {
            let text = format!("{what} was gone and is made again");
            self.say(Event::of(Kind::PlaceMadeAgain, text).with(Field::Path, what));
        }
        self.told(troubles);
    }

    /// Tells people of troubles that they have not heard of.
    fn told(&mut self, troubles: Vec<String>) {
        if troubles == self.troubles {
            return;
        }
        let before = std::mem::replace(&mut self.troubles, troubles);
        let new: Vec<_> = self
            .troubles
            .iter()
            .filter(|one| !before.contains(one))
            .cloned()
            .collect();
        for trouble in new {
            self.say(Event::of(Kind::PlaceGone, &*trouble).with(Field::Reason, &*trouble));
        }
        if self.troubles.is_empty() {
            let text = "the state directory and the control socket are as they should be";
            self.say(Event::of(Kind::PlacesWell, text));
        }
        self.server.handle_notes(self.all_notes());
        self.status_changed = true;
    }

    /// Asks what has become of the configuration.
    pub(super) fn look_after_news(&mut self) {
        if let Some(news) = self.operator.news() {
            (self.known, self.status_changed) = (news, true);
            self.server.handle_notes(self.all_notes());
        }
    }

    /// What of the configuration is not there, and why.
    fn missing(&self) -> Option<&str> {
        Some(&*self.known).filter(|known| known.starts_with(MISSING))
    }

    /// How things are, for the service manager.
    pub(super) fn status(&self) -> String {
        let known = Some(&self.known).filter(|known| !known.is_empty());
        let status = known.into_iter().chain(&self.troubles).cloned();
        let status: Vec<_> = status.chain(self.notes_of_neighbours()).collect();
        status.join("; ")
    }

    /// How much of an adapter's connections is not locked: told when it begins and when it ends.
    pub(super) fn note_unlocked(&mut self, adapter: AdapterIndex, octets: u64) {
        let before = self.unlocked_note();
        match octets {
            0 => self.unlocked.remove(&adapter),
            octets => self.unlocked.insert(adapter, octets),
        };
        let now = self.unlocked_note();
        if before == now {
            return;
        }
        match (&before, &now) {
            (None, Some(note)) => {
                let event = Event::of(Kind::MemoryUnlocked, &**note);
                self.say(
                    event
                        .with(Field::Count, octets)
                        .with(Field::Reason, &**note),
                );
            }
            (_, None) => {
                let text = "the memory of all connections is locked again";
                self.say(Event::of(Kind::MemoryLocked, text));
            }
            // It is told again by whoever is asked.
            (Some(_), Some(_)) => {}
        }
        self.server.handle_notes(self.all_notes());
    }

    fn unlocked_note(&self) -> Option<String> {
        let octets: u64 = self.unlocked.values().sum();
        let what = format!("{octets} octets of connections' memory not locked");
        (octets > 0).then(|| Lack::Memory.note(what))
    }

    /// What the adapters and this process could not have, and what goes wrong.
    pub(super) fn all_notes(&self) -> Vec<String> {
        let adapters = self.hellos().flatten();
        let of_adapters = adapters.flat_map(|hello| &hello.scheduling.notes);
        let unlocked: Vec<String> = self.unlocked_note().into_iter().collect();
        let notes = of_adapters.chain(&unlocked).chain(&self.notes);
        let mut all = Lack::together(notes.chain(&self.troubles));
        all.extend(self.notes_of_neighbours());
        all.extend(self.missing().map(str::to_owned));
        all
    }
}
