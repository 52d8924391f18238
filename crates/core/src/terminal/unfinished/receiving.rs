use core::fmt;
use core::ops::Range;

use super::digest::{Digest, DiskLen};
use super::sync::{SYNC_EVERY_NS, SyncJob};
use super::{Finish, Held, Opened, Unfinished, Volume};
use crate::Time;
use crate::terminal::{DiskPdu, Entry, Partial, Planted, Store};

/// Has somebody who may wait for the disk do a job.
type Later<H> = Box<dyn FnMut(SyncJob<H>) + Send>;

/// A file that disk-PDUs come into.
pub struct Receiving<H: Held> {
    file: Unfinished<H>,
    disk_len: u64,
    is_stream: bool,
    has_holes: bool,
    /// Stretches of whole disk-PDUs that are holes: their digests are made at the end, by somebody
    /// who has time.
    holes: Vec<Range<u64>>,
    fault: Option<String>,
    synced_at: Time,
    later: Later<H>,
}

impl<H: Held> Receiving<H> {
    /// Goes on with a file of `len` octets (none: a stream), and the extents of it that are
    /// missing.
    pub fn new(
        opened: Opened<H>,
        disk_len: DiskLen,
        len: Option<u64>,
        has_holes: bool,
        later: Later<H>,
    ) -> (Self, Vec<(u64, u64)>) {
        let is_stream = len.is_none();
        let len = len.unwrap_or(u64::MAX);
        let disk_len = u64::from(disk_len.octets());
        let (mut missing, mut at) = (Vec::new(), 0);
        for there in opened.there {
            let start = there.start * disk_len;
            if at < start {
                missing.push((at, start));
            }
            at = (there.end * disk_len).min(len);
        }
        if at < len {
            missing.push((at, len));
        }
        let receiving = Self {
            file: opened.file,
            disk_len,
            is_stream,
            has_holes,
            holes: Vec::new(),
            fault: None,
            synced_at: Time::ZERO,
            later,
        };
        (receiving, missing)
    }

    /// All of it has come.
    pub fn finish<V: Volume<Held = H, Traits = H::Traits>>(
        self,
        id: u32,
        entry: Entry,
        path: V::Path,
        traits: H::Traits,
        overwrite: bool,
    ) -> Finish<V> {
        Finish {
            id,
            entry,
            path,
            traits,
            file: self.file,
            holes: self.holes,
            overwrite,
        }
    }

    /// It stays to be gone on with, unless its source is another by now.
    pub fn leave(mut self, is_stale: bool) {
        // The next receiver finds an error of this.
        let _ = match is_stale {
            true => self.file.discard(),
            false if self.file.has(Planted::LeftNotSynced) => Ok(()),
            false => self.file.sync(),
        };
    }
}

impl<H: Held> fmt::Debug for Receiving<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiving").finish_non_exhaustive()
    }
}

impl<H: Held> Store for Receiving<H> {
    #[inline]
    fn write(&mut self, at: u64, octets: &[u8]) {
        self.file.write(at, octets);
    }

    #[inline(always)]
    fn has(&self, bug: Planted) -> bool {
        self.file.has(bug)
    }
}

impl<H: Held> Partial for Receiving<H> {
    fn make_room(&mut self, from: u64, to: u64) -> Result<u64, String> {
        // Room that is made takes blocks, which holes must not have.
        if self.has_holes {
            return Ok(u64::MAX);
        }
        let mut to = to;
        loop {
            match self.file.make_room(from..to) {
                // It may end before.
                Err(error)
                    if H::is_full(&error) && self.is_stream && to - from > 2 * self.disk_len =>
                {
                    to -= (to - from) / 2;
                }
                made => return made.map_err(said),
            }
        }
    }

    fn hole(&mut self, start: u64, end: u64) {
        let punched = self.file.punch(start..end);
        self.fault = self.fault.take().or(punched.err().map(said));
        if !self.file.has(Planted::HoleForgotten) {
            self.holes.push(start..end);
        }
    }

    fn check(&mut self, disk_pdu: &DiskPdu) -> bool {
        let header = disk_pdu.header;
        let digest = Digest(disk_pdu.digest);
        let index = u64::from(header.index);
        let checked = self
            .file
            .check(index, header.offset, header.length, &digest);
        let end = header.offset.saturating_add(header.length.into());
        match checked {
            Ok(true) => true,
            Ok(false) => {
                let rejected = self.file.reject(header.offset..end);
                self.fault = self.fault.take().or(rejected.err().map(said));
                false
            }
            Err(error) => {
                self.fault = Some(said(error));
                false
            }
        }
    }

    fn handle_deadline(&mut self, now: Time) -> Result<(), String> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        self.file.is_sound().map_err(said)?;
        let is_late = now.since_ns(self.synced_at) >= SYNC_EVERY_NS;
        if is_late && !self.file.has(Planted::NeverSynced) {
            self.synced_at = now;
            if let Some(job) = self.file.sync_job() {
                (self.later)(job);
            }
        }
        Ok(())
    }
}

fn said(error: impl fmt::Display) -> String {
    error.to_string()
}
