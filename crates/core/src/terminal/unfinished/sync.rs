use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::journal::{Journal, Record};
use super::{Held, unless};
use crate::terminal::Planted;

/// The longest that octets which were found right are not known to outlive a power failure: the
/// time between two [jobs](super::Unfinished::sync_job).
pub const SYNC_EVERY_NS: u64 = 1_000_000_000;

/// The part of an unfinished file that a job needs, wherever it runs.
pub(super) struct Shared<H: Held> {
    pub(super) held: H,
    journal: Mutex<Journal<H::Journal>>,
    /// The disk has not taken what it was given.
    has_failed: AtomicBool,
}

impl<H: Held> Shared<H> {
    pub(super) const fn new(held: H, journal: Journal<H::Journal>) -> Self {
        Self {
            held,
            journal: Mutex::new(journal),
            has_failed: AtomicBool::new(false),
        }
    }

    pub(super) fn journal(&self) -> MutexGuard<'_, Journal<H::Journal>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_sound(&self) -> Result<(), H::Error> {
        match self.has_failed.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(self.held.lost()),
        }
    }
}

/// First the octets, then the journal. A job that is dropped is forgotten: after a power failure
/// its disk-PDUs are sent again.
pub struct SyncJob<H: Held> {
    shared: Arc<Shared<H>>,
    records: Vec<Record>,
}

impl<H: Held> SyncJob<H> {
    pub(super) const fn new(shared: Arc<Shared<H>>, records: Vec<Record>) -> Self {
        Self { shared, records }
    }

    /// Waits for the disk. Jobs of one file wait for each other.
    ///
    /// # Errors
    /// The disk failed or is full. What it had not written it may have forgotten, and says so only
    /// once: the file is not sound from then on.
    pub fn run(self) -> Result<(), H::Error> {
        let mut journal = self.shared.journal();
        self.shared.is_sound()?;
        let held = &self.shared.held;
        if held.has(Planted::JournalBeforeOctets) {
            journal.append(&self.records, true)?;
            return held.sync_octets();
        }
        // However octets were written, they are in the page cache by now.
        let synced = unless(held, Planted::OctetsNotSynced, H::sync_octets);
        let synced = synced.or_else(|error| match held.has(Planted::FailedSyncTaken) {
            true => Ok(()),
            false => Err(error),
        });
        let syncs = !held.has(Planted::JournalNotSynced);
        if let Err(error) = synced.and_then(|()| journal.append(&self.records, syncs)) {
            self.shared.has_failed.store(true, Ordering::Release);
            return Err(error);
        }
        Ok(())
    }
}
