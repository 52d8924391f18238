//! The other way round: how a client, or whoever sends cells, wakes an adapter that rests.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use cellgate_core::queue::layout::{PAGE_LEN, adapter::FIRMWARE_ASLEEP};
use cellgate_core::queue::{FileKind, Sleep};

use crate::map::Map;
use crate::memfd::{self, FROM_ADAPTER};
use crate::{ShmError, Waker};

/// The adapter's side of its page: one for all who may have to wake it.
#[derive(Debug)]
pub struct AdapterPage {
    map: Map,
    sleep: Sleep,
}

impl AdapterPage {
    /// Makes the page and seals it: nobody else writes it. Of an adapter that never `rests` it
    /// says so, and who holds it never looks.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn create(rests: bool) -> Result<(Self, OwnedFd), ShmError> {
        let header = FileKind::adapter_header(rests);
        let (map, file) = memfd::create_mine("cellgate-adapter", PAGE_LEN, PAGE_LEN, header)?;
        memfd::seal(&file, FROM_ADAPTER)?;
        let sleep = Sleep::default();
        Ok((Self { map, sleep }, file))
    }

    /// Says that the adapter is about to sleep. It must look at everything once more, and sleep
    /// only if nothing waits.
    #[inline]
    pub fn announce(&mut self) {
        self.sleep.announce(self.map.words(), FIRMWARE_ASLEEP);
    }

    /// Says that it is awake.
    #[inline]
    pub fn end(&mut self) {
        self.sleep.end(self.map.words(), FIRMWARE_ASLEEP);
    }
}

/// What an adapter hands to somebody who may have to wake it: its page, and an eventfd that is that
/// party's own. The adapter never reads or writes the eventfd, and watches it by edges, so neither
/// its flags nor its count can make the adapter wait.
#[derive(Debug)]
pub struct RouseFiles {
    /// The adapter's page.
    pub page: OwnedFd,
    /// What wakes it.
    pub bell: OwnedFd,
}

impl RouseFiles {
    /// Both, in their order.
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.page.as_fd(), self.bell.as_fd()]
    }
}

/// Wakes an adapter that rests.
#[derive(Debug)]
pub struct Rouser {
    asleep: Waker,
    bell: OwnedFd,
}

impl Rouser {
    /// Judges and maps what an adapter handed out; none: it never rests.
    ///
    /// # Errors
    /// It is no adapter's page, or the kernel refuses.
    pub fn open(files: RouseFiles) -> Result<Option<Self>, ShmError> {
        let RouseFiles { page, bell } = files;
        let asleep = Waker::of_adapter(&page)?;
        Ok(asleep.map(|asleep| Self { asleep, bell }))
    }

    /// Wakes the adapter if it rests, once for each rest. Call it after what it shall see was
    /// published.
    #[inline]
    pub fn rouse(&mut self) {
        if self.asleep.is_due() {
            self.ring();
        }
    }

    #[cold]
    fn ring(&self) {
        // It fails only where its owner has filled it.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}
