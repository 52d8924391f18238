//! What the service tells people and the service manager: neither can hold its thread.

use std::io;

use sd_notify::NotifyState;

use crate::aside::Aside;
use crate::clock::MonotonicClock;
use crate::events::{Bounds, Event, Field, Kind, Log};

/// What a service manager is told.
#[derive(Debug)]
pub(super) enum Notice {
    /// And how things are.
    Ready(String),
    Reloading,
    Stopping,
    Watchdog,
    Status(String),
}

/// The log, and the service manager's ear.
#[derive(Debug)]
pub(super) struct Voice {
    log: Aside<Event>,
    /// The rate at which others may have something told.
    bounds: Bounds,
    manager: Aside<Notice>,
}

impl Voice {
    pub(super) fn start(log: Log) -> io::Result<Self> {
        let also = log.clone();
        let lost = move |count: u64| {
            let text = format!("{count} lines were not read in time and are lost here");
            also.tell(&Event::of(Kind::LinesLost, text).with(Field::Count, count));
        };
        Ok(Self {
            log: Aside::start("cg-log", move |event: Event| log.tell(&event), lost)?,
            bounds: Bounds::default(),
            manager: Aside::start("cg-manager", tell, |_| ())?,
        })
    }

    pub(super) fn say(&mut self, event: Event) {
        if self.bounds.admits(MonotonicClock.now(), event.kind()) {
            self.log.tell(event);
        }
    }

    /// Tells the service manager.
    pub(super) fn notify(&mut self, notice: Notice) {
        self.manager.tell(notice);
    }

    /// Tells how much was not read, or not told for its rate, if anything was.
    pub(super) fn look(&mut self) {
        self.log.tell_lost();
        for event in self.bounds.suppressed(MonotonicClock.now()) {
            self.log.tell(event);
        }
    }
}

impl Drop for Voice {
    /// The last chance to tell what was only counted.
    fn drop(&mut self) {
        for event in self.bounds.rest() {
            self.log.tell(event);
        }
    }
}

fn tell(notice: Notice) {
    // Nobody is there without a service manager.
    let _ = match notice {
        Notice::Ready(status) => {
            sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(&status)])
        }
        Notice::Reloading => match NotifyState::monotonic_usec_now() {
            Ok(now) => sd_notify::notify(&[NotifyState::Reloading, now]),
            Err(_) => Ok(()),
        },
        Notice::Stopping => sd_notify::notify(&[NotifyState::Stopping]),
        Notice::Watchdog => sd_notify::notify(&[NotifyState::Watchdog]),
        Notice::Status(text) => sd_notify::notify(&[NotifyState::Status(&text)]),
    };
}
