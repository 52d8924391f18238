//! What the service tells people and the service manager: neither can hold its thread.

use std::io;

use sd_notify::NotifyState;

use crate::aside::Aside;

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
    log: Aside<String>,
    manager: Aside<Notice>,
}

impl Voice {
    pub(super) fn start(say: fn(&str)) -> io::Result<Self> {
        let lost = move |count| {
            say(&format!(
                "{count} lines were not read in time and are lost here"
            ));
        };
        Ok(Self {
            log: Aside::start("cg-log", move |text: String| say(&text), lost)?,
            manager: Aside::start("cg-manager", tell, |_| ())?,
        })
    }

    pub(super) fn say(&mut self, text: &str) {
        self.log.tell(text.to_owned());
    }

    /// Tells the service manager.
    pub(super) fn notify(&mut self, notice: Notice) {
        self.manager.tell(notice);
    }

    /// Tells how much was not read, if anything was.
    pub(super) fn look(&mut self) {
        self.log.tell_lost();
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
