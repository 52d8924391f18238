use std::os::fd::{BorrowedFd, OwnedFd};

use cellgate_core::Time;
use cellgate_core::queue::layout::PAGE_LEN;
use cellgate_core::server::{
    CounterRecord, CounterSnapshot, CountersRoom, Shown, counters_header, read_counters,
    write_counters,
};

use crate::ShmError;
use crate::map::Map;
use crate::memfd::{self, FROM_ADAPTER};

/// There is one file in a server's life.
const GENERATION: u32 = 1;
/// A writer takes microseconds; meeting it so often means that it has died at work.
const TRIES: u32 = 1_000;

/// The server's side of its counters.
#[derive(Debug)]
pub struct CountersMemory {
    map: Map,
    len: usize,
}

impl CountersMemory {
    /// Makes the file with room for all that, allocates all of it, and seals it: nobody else writes
    /// it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn create(room: CountersRoom) -> Result<(Self, OwnedFd), ShmError> {
        let len = room.octets();
        let header = counters_header(GENERATION);
        let (map, file) = memfd::create_mine("cellgate-counters", len, len, header)?;
        memfd::seal(&file, FROM_ADAPTER)?;
        Ok((Self { map, len }, file))
    }

    /// Octets.
    #[expect(clippy::len_without_is_empty, reason = "no file is empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Shows all counters.
    pub fn show(&self, now: Time, shown: Shown<impl Iterator<Item = CounterRecord>>) {
        write_counters(self.map.words(), self.len, now, shown);
    }
}

/// A reader's side of a server's counters.
#[derive(Debug)]
pub struct CountersView {
    map: Map,
    len: usize,
}

impl CountersView {
    /// Maps the file of `len` octets, after judging it.
    ///
    /// # Errors
    /// It is not what a server makes, or the kernel refuses.
    pub fn open(file: BorrowedFd<'_>, len: u64) -> Result<Self, ShmError> {
        let bounds = CountersRoom::LEAST.octets()..=CountersRoom::MOST.octets();
        let whole = usize::try_from(len).ok();
        let whole = whole.filter(|len| bounds.contains(len) && len.is_multiple_of(PAGE_LEN));
        let len = whole.ok_or(ShmError::Length {
            has: len,
            needs: *bounds.start() as u64,
        })?;
        let map = memfd::open_theirs(file, len, len, counters_header(GENERATION))?;
        Ok(Self { map, len })
    }

    /// The counters as of the server's last look; none: its writer has died at work.
    pub fn read(&self) -> Option<CounterSnapshot> {
        (0..TRIES).find_map(|_| {
            let snapshot = read_counters(self.map.words(), self.len);
            if snapshot.is_none() {
                std::thread::yield_now();
            }
            snapshot
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "system calls")]
    fn a_reader_sees_what_is_shown_and_writes_nothing() {
        let (memory, file) = CountersMemory::create(CountersRoom::LEAST).unwrap();
        let view = CountersView::open(file.as_fd(), memory.len() as u64).unwrap();
        let nothing = Shown {
            adapters: Vec::new(),
            interfaces: Vec::new(),
            resources: Vec::new(),
            connections: std::iter::empty(),
        };
        memory.show(Time::from_ns(4), nothing);
        let snapshot = view.read().unwrap();
        assert_eq!(snapshot.time, Time::from_ns(4));
        assert!(snapshot.records.is_empty());
        rustix::io::pwrite(&file, &[1], 128).unwrap_err();
        for len in [0, 8_000, 4_096, 12_288, u64::MAX] {
            CountersView::open(file.as_fd(), len).unwrap_err();
        }
    }
}
