use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::fdatasync;

use super::error::{DiskError, refused};
use super::journal::{Journal, Record};
use crate::sys::LockedFile;

/// The longest that octets which were found right are not known to outlive a power failure: the
/// time between two [jobs](super::Partial::sync_job).
pub const SYNC_EVERY: Duration = Duration::from_secs(1);

/// What a job needs of a partial, wherever it runs.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) file: Arc<LockedFile>,
    journal: Mutex<Journal>,
    path: String,
    /// The disk has not taken what it was given.
    has_failed: AtomicBool,
}

impl Shared {
    pub(super) fn new(file: Arc<LockedFile>, journal: Journal, path: String) -> Self {
        Self {
            file,
            journal: Mutex::new(journal),
            path,
            has_failed: AtomicBool::new(false),
        }
    }

    pub(super) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_sound(&self) -> Result<(), DiskError> {
        match self.has_failed.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(DiskError::Lost {
                path: self.path.clone(),
            }),
        }
    }
}

/// First the data, then the journal. A job that is dropped is forgotten: after a power failure its
/// disk-PDUs are sent again.
#[derive(Debug)]
pub struct SyncJob {
    shared: Arc<Shared>,
    records: Vec<Record>,
}

impl SyncJob {
    pub(super) const fn new(shared: Arc<Shared>, records: Vec<Record>) -> Self {
        Self { shared, records }
    }

    /// Waits for the disk. Jobs of one partial wait for each other.
    ///
    /// # Errors
    /// The disk failed or is full. What it had not written it may have forgotten, and says so only
    /// once: the partial is not sound from then on.
    pub fn run(self) -> Result<(), DiskError> {
        let mut journal = self.shared.journal();
        self.shared.is_sound()?;
        // What was written through a map is in the page cache like anything else.
        let synced = fdatasync(&self.shared.file);
        if let Err(error) = synced.and_then(|()| journal.append(&self.records)) {
            self.shared.has_failed.store(true, Ordering::Release);
            return Err(refused("syncing", &self.shared.path)(error));
        }
        Ok(())
    }
}
