//! How often and how long the firmware rested, who ended that, and how late it was up again.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cellgate_core::adapter::AttachmentIndex;
use serde::{Deserialize, Serialize};

use crate::gap::{BUCKETS, add, bucket, raise};

/// Clients that one report names.
const NAMED: usize = 16;

/// What the firmware counts about its rests, for readers in other threads. The firmware thread
/// alone writes.
#[derive(Debug)]
pub struct Rests {
    rests: AtomicU64,
    rested_ns: AtomicU64,
    by_time: AtomicU64,
    by_clients: AtomicU64,
    by_links: AtomicU64,
    by_service: AtomicU64,
    for_nothing: AtomicU64,
    /// Of each client.
    clients_for_nothing: Vec<AtomicU64>,
    late_max_ns: AtomicU64,
    late_histogram: [AtomicU64; BUCKETS],
    linger_ns: AtomicU64,
}

/// A reading of [`Rests`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestReport {
    pub rests: u64,
    /// Nanoseconds of all of them.
    pub rested_ns: u64,
    /// Rests that ended because their time was over.
    pub by_time: u64,
    /// Times that clients ended one.
    pub by_clients: u64,
    /// Times that cells did.
    pub by_links: u64,
    /// Times that the adapter's service did.
    pub by_service: u64,
    /// Rests that somebody ended, and nothing was there.
    pub for_nothing: u64,
    /// Clients that ended any for nothing, the worst 16 first.
    pub clients_for_nothing: Vec<(AttachmentIndex, u64)>,
    /// The most that the firmware was up too late for what was due, in nanoseconds.
    pub late_max_ns: u64,
    /// Rests that ended because their time was over, by the base-2 logarithm of the nanoseconds
    /// that the firmware was too late then.
    pub late_histogram: Vec<u64>,
    /// How long the firmware goes on looking before it rests, in nanoseconds.
    pub linger_ns: u64,
}

impl RestReport {
    /// What happened since `earlier`; the maximum and the clients stay those of all time.
    pub fn since(&self, earlier: &Self) -> Self {
        let counts = self.late_histogram.iter().zip(&earlier.late_histogram);
        Self {
            rests: self.rests.saturating_sub(earlier.rests),
            rested_ns: self.rested_ns.saturating_sub(earlier.rested_ns),
            by_time: self.by_time.saturating_sub(earlier.by_time),
            by_clients: self.by_clients.saturating_sub(earlier.by_clients),
            by_links: self.by_links.saturating_sub(earlier.by_links),
            by_service: self.by_service.saturating_sub(earlier.by_service),
            for_nothing: self.for_nothing.saturating_sub(earlier.for_nothing),
            late_histogram: counts
                .map(|(now, then)| now.saturating_sub(*then))
                .collect(),
            ..self.clone()
        }
    }
}

/// Who ended a rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// Nobody: its time was over.
    Time,
    Client,
    /// Cells.
    Link,
    /// The adapter's service.
    Service,
}

impl Rests {
    /// All zero, with room for so many clients.
    pub fn new(clients: usize) -> Self {
        Self {
            rests: AtomicU64::new(0),
            rested_ns: AtomicU64::new(0),
            by_time: AtomicU64::new(0),
            by_clients: AtomicU64::new(0),
            by_links: AtomicU64::new(0),
            by_service: AtomicU64::new(0),
            for_nothing: AtomicU64::new(0),
            clients_for_nothing: (0..clients).map(|_| AtomicU64::new(0)).collect(),
            late_max_ns: AtomicU64::new(0),
            late_histogram: [const { AtomicU64::new(0) }; BUCKETS],
            linger_ns: AtomicU64::new(0),
        }
    }

    /// A rest of so many nanoseconds is over.
    pub(crate) fn rested(&self, ns: u64) {
        add(&self.rests, 1);
        add(&self.rested_ns, ns);
    }

    /// Somebody ended it.
    pub(crate) fn ended_by(&self, who: EndedBy) {
        let counter = match who {
            EndedBy::Time => &self.by_time,
            EndedBy::Client => &self.by_clients,
            EndedBy::Link => &self.by_links,
            EndedBy::Service => &self.by_service,
        };
        add(counter, 1);
    }

    /// It was over so many nanoseconds too late for what was due.
    pub(crate) fn late(&self, ns: u64) {
        add(&self.late_histogram[bucket(ns)], 1);
        raise(&self.late_max_ns, ns);
    }

    /// It was ended, and nothing was there.
    pub(crate) fn for_nothing(&self) {
        add(&self.for_nothing, 1);
    }

    /// The client at this place had ended it.
    pub(crate) fn client_for_nothing(&self, place: usize) {
        if let Some(counter) = self.clients_for_nothing.get(place) {
            add(counter, 1);
        }
    }

    /// Another client has this place.
    pub(crate) fn begin_client(&self, place: usize) {
        if let Some(counter) = self.clients_for_nothing.get(place) {
            counter.store(0, Relaxed);
        }
    }

    pub(crate) fn show_linger(&self, ns: u64) {
        self.linger_ns.store(ns, Relaxed);
    }

    /// Begins the maximum anew.
    pub fn restart_maxima(&self) {
        self.late_max_ns.store(0, Relaxed);
    }

    /// Reads the counters without disturbing their writer; `client` has which place.
    pub(crate) fn report(&self, client: impl Fn(usize) -> Option<AttachmentIndex>) -> RestReport {
        let clients = self.clients_for_nothing.iter().enumerate();
        let clients = clients.map(|(place, count)| (place, count.load(Relaxed)));
        let clients = clients.filter(|(_, count)| *count > 0);
        let clients = clients.filter_map(|(place, count)| Some((client(place)?, count)));
        let mut clients: Vec<_> = clients.collect();
        clients.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        clients.truncate(NAMED);
        RestReport {
            rests: self.rests.load(Relaxed),
            rested_ns: self.rested_ns.load(Relaxed),
            by_time: self.by_time.load(Relaxed),
            by_clients: self.by_clients.load(Relaxed),
            by_links: self.by_links.load(Relaxed),
            by_service: self.by_service.load(Relaxed),
            for_nothing: self.for_nothing.load(Relaxed),
            clients_for_nothing: clients,
            late_max_ns: self.late_max_ns.load(Relaxed),
            late_histogram: (self.late_histogram.iter())
                .map(|count| count.load(Relaxed))
                .collect(),
            linger_ns: self.linger_ns.load(Relaxed),
        }
    }
}
