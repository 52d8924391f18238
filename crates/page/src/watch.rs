//! Whatever is looked at, a few times a second.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cellgate::{Admin, Connection, CountersView, Error, Monitor};
use serde_json::{Value, json};

use crate::Stats;

/// From one time that all is asked for to the next, whatever changes: texts, and what only the
/// lists have.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// However much changes, lists are asked for no more often: their length is the server's work.
const ASK_AT_MOST: Duration = Duration::from_millis(250);

/// VCIs below are for signalling and management (I.361).
const FIRST_VCI: u16 = 32;

/// What a look has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    /// When its counters were written, nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// What the server tells of itself.
    pub stats: Stats,
    /// What only a demo tells: its steering, and what hostile senders do.
    pub demo: Option<Value>,
}

/// Whoever can be looked at.
pub trait Source: Send {
    /// Looks.
    ///
    /// # Errors
    /// There is nothing to be seen, and why; the next look may find something.
    fn look(&mut self) -> Result<Look, String>;

    /// Whether a connection would be admitted at an address, or at a free one of an interface: by
    /// the words of `vc add --dry-run --json`.
    ///
    /// # Errors
    /// Nobody can tell, and why.
    fn try_open(&mut self, address: &str, contract: &str) -> Result<Value, String>;

    /// Does what a visitor asks for; whether there is anything to steer, and the token was right.
    fn steer(&mut self, _token: &str, _what: &Value) -> bool {
        false
    }
}

/// A daemon's state, kept up to date: numbers out of its counters' file, the rest asked for when
/// one monitor tells of a change.
#[derive(Debug)]
pub struct Watch {
    socket: PathBuf,
    met: Option<Met>,
}

/// A server that answers.
#[derive(Debug)]
struct Met {
    admin: Admin,
    monitor: Monitor,
    view: CountersView,
    stats: Stats,
    time_ns: u64,
    asked: Instant,
    /// Something has changed since then.
    changed: bool,
}

impl Watch {
    /// Of the server whose control socket is `socket`; it need not be there yet.
    pub const fn of(socket: PathBuf) -> Self {
        Self { socket, met: None }
    }
}

impl Met {
    fn meet(socket: &Path) -> Result<Self, Error> {
        let monitor = Admin::at(socket)?.monitor()?;
        let mut admin = Admin::at(socket)?;
        let view = admin.counters()?.map()?;
        let stats = Stats::ask(&mut admin)?;
        Ok(Self {
            admin,
            monitor,
            view,
            stats,
            time_ns: 0,
            asked: Instant::now(),
            changed: false,
        })
    }

    /// Takes what is new.
    fn look(&mut self, socket: &Path) -> Result<(), Error> {
        while self.monitor.try_next()?.is_some() {
            self.changed = true;
        }
        // A writer that has died at work shows nothing; its socket tells of its end.
        if let Some(counters) = self.view.read() {
            self.changed |= !self.stats.take_counters(&counters);
            self.time_ns = counters.time.ns();
        }
        let since = self.asked.elapsed();
        if since >= ASK_AGAIN {
            // Notes are told to whoever says hello.
            self.admin = Admin::at(socket)?;
        }
        if since >= ASK_AGAIN || self.changed && since >= ASK_AT_MOST {
            self.stats = Stats::ask(&mut self.admin)?;
            (self.asked, self.changed) = (Instant::now(), false);
        }
        Ok(())
    }
}

impl Source for Watch {
    fn look(&mut self) -> Result<Look, String> {
        if let Some(met) = &mut self.met
            && met.look(&self.socket).is_err()
        {
            self.met = None;
        }
        if self.met.is_none() {
            let met = Met::meet(&self.socket).map_err(|error| error.to_string())?;
            self.met = Some(met);
        }
        let met = self.met.as_ref();
        Ok(met.map_or_else(Look::default, |met| Look {
            time_ns: met.time_ns,
            stats: met.stats.clone(),
            demo: None,
        }))
    }

    fn try_open(&mut self, address: &str, contract: &str) -> Result<Value, String> {
        let met = self.met.as_mut().ok_or("there is no server")?;
        let address = match address.contains('.') {
            true => address.to_owned(),
            false => met
                .free_on(address)
                .ok_or("all VCIs of that interface are taken")?,
        };
        let asked = Connection::builder().address(&*address).contract(contract);
        match met.admin.try_open(&asked) {
            Ok(tried) => serde_json::to_value(tried).map_err(|error| error.to_string()),
            Err(Error::Refused(refused)) => {
                Ok(json!({ "error": refused.to_string(), "refused": refused }))
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Met {
    /// An address that nobody has on an interface.
    fn free_on(&self, interface: &str) -> Option<String> {
        let all = self.stats.connections.iter();
        let taken: BTreeSet<String> = all.map(|info| info.address.to_string()).collect();
        let mut candidates = (FIRST_VCI..=u16::MAX).map(|vci| format!("{interface}.0.{vci}"));
        candidates.find(|address| !taken.contains(address))
    }
}
