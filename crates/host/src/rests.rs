//! How often and how long the firmware rested, who ended that, and how late it was up again.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use cellgate_core::keeper::RestReport;

use cellgate_core::adapter::AttachmentIndex;

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
    late_total_ns: AtomicU64,
    linger_ns: AtomicU64,
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
            late_total_ns: AtomicU64::new(0),
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
        add(&self.late_total_ns, ns);
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
            late_total_ns: self.late_total_ns.load(Relaxed),
            linger_ns: self.linger_ns.load(Relaxed),
        }
    }
}
