//! What of an unfinished file is known to be right.
//!
//! ```text
//!  header   "cgatejrn"  version 4  octets of the header 4  disk_len 4  1: the size is known 4
//!           size 8  the source: size 8, mtime 8 + 4, ctime 8 + 4, inode 8, device 8
//!           octets of the path 4  path  check 8
//!  record   index 8  octets 4  digest 32  check 8
//! ```
//!
//! Numbers have their least octet first. A check is the start of a BLAKE3 hash; that of a record
//! covers the header's, so that no record counts in another journal.

use core::ops::Range;

use super::JournalFile;
use super::digest::{Digest, DiskLen};

const MAGIC: [u8; 8] = *b"cgatejrn";
const VERSION: u32 = 1;
/// Octets of a header without its path.
const FIXED: usize = 8 + 4 * 4 + 8 + 8 + 2 * 12 + 16 + 4 + 8;
const HEADER_MAX: usize = FIXED + 4_096;
const RECORD_LEN: usize = 8 + 4 + 32 + CHECK_LEN;
const CHECK_LEN: usize = 8;
/// Records that are read at a time.
const RECORDS: usize = 1_024;

type Check = [u8; CHECK_LEN];
/// A header, its length and its check.
type Found = (Header, u64, Check);

/// Why what an unfinished file had was thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Refusal {
    #[error("its journal is damaged or missing")]
    Damaged,
    #[error("its journal is of another version of this program")]
    OtherVersion,
    #[error("the source has changed")]
    OtherSource,
    #[error("its disk-PDUs have another length")]
    OtherLength,
}

/// A time of a file: seconds since 1970, and nanoseconds beyond them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    pub seconds: i64,
    pub ns: u32,
}

/// Equal if a file is unchanged: whoever writes to it changes its times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// In octets.
    pub size: u64,
    /// Of its octets.
    pub mtime: Moment,
    /// Of all that is known of it.
    pub ctime: Moment,
    pub inode: u64,
    pub device: u64,
}

/// Whose octets an unfinished file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub disk_len: DiskLen,
    /// None: that is not known before its end.
    pub size: Option<u64>,
    /// The file at the sender.
    pub source: Identity,
    /// Where it is to be, any octets.
    pub path: Box<[u8]>,
}

impl Header {
    fn encode(&self) -> Vec<u8> {
        let path = &self.path;
        let len = (FIXED + path.len()) as u32;
        let mut octets = MAGIC.to_vec();
        for number in [
            VERSION,
            len,
            self.disk_len.octets(),
            self.size.is_some().into(),
        ] {
            octets.extend(number.to_le_bytes());
        }
        octets.extend(self.size.unwrap_or(0).to_le_bytes());
        octets.extend(self.source.size.to_le_bytes());
        for moment in [self.source.mtime, self.source.ctime] {
            octets.extend(moment.seconds.to_le_bytes());
            octets.extend(moment.ns.to_le_bytes());
        }
        octets.extend(self.source.inode.to_le_bytes());
        octets.extend(self.source.device.to_le_bytes());
        octets.extend((path.len() as u32).to_le_bytes());
        octets.extend(path);
        octets.extend(check_of(&[], &octets));
        octets
    }

    fn decode(octets: &[u8]) -> Result<Found, Refusal> {
        let mut fields = Fields(octets);
        if fields.take::<8>()? != MAGIC {
            return Err(Refusal::Damaged);
        }
        if fields.u32()? != VERSION {
            return Err(Refusal::OtherVersion);
        }
        let len = fields.u32()? as usize;
        let body = len.checked_sub(CHECK_LEN).ok_or(Refusal::Damaged)?;
        let whole = octets.get(..len).ok_or(Refusal::Damaged)?;
        let (body, check) = whole.split_at(body);
        if check_of(&[], body) != check {
            return Err(Refusal::Damaged);
        }
        let disk_len = DiskLen::new(fields.u32()?).ok_or(Refusal::Damaged)?;
        let is_known = fields.u32()? != 0;
        let size = fields.u64()?;
        let mut source = Identity {
            size: fields.u64()?,
            ..Identity::default()
        };
        for moment in [&mut source.mtime, &mut source.ctime] {
            *moment = Moment {
                seconds: fields.u64()?.cast_signed(),
                ns: fields.u32()?,
            };
        }
        (source.inode, source.device) = (fields.u64()?, fields.u64()?);
        let path_len = fields.u32()? as usize;
        let path = fields.0.get(..path_len).ok_or(Refusal::Damaged)?;
        let path = path.into();
        let size = is_known.then_some(size);
        let header = Self {
            disk_len,
            size,
            source,
            path,
        };
        Ok((header, len as u64, check_of(&[], body)))
    }

    fn find<F: JournalFile>(file: &F) -> Result<Result<Found, Refusal>, F::Error> {
        let mut octets = [0; HEADER_MAX];
        let read = file.read_at(&mut octets, 0)?;
        Ok(Self::decode(&octets[..read]))
    }

    /// The header of a journal, whoever's it is.
    ///
    /// # Errors
    /// The disk failed.
    pub fn read<F: JournalFile>(file: &F) -> Result<Result<Self, Refusal>, F::Error> {
        Ok(Self::find(file)?.map(|(header, ..)| header))
    }
}

/// A disk-PDU that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) index: u64,
    pub(super) len: u32,
    pub(super) digest: Digest,
}

impl Record {
    fn encode(&self, header: &Check) -> [u8; RECORD_LEN] {
        let mut octets = [0; RECORD_LEN];
        octets[..8].copy_from_slice(&self.index.to_le_bytes());
        octets[8..12].copy_from_slice(&self.len.to_le_bytes());
        octets[12..44].copy_from_slice(&self.digest.0);
        let check = check_of(header, &octets[..44]);
        octets[44..].copy_from_slice(&check);
        octets
    }

    /// None: it is torn or edited.
    fn decode(octets: &[u8], header: &Check) -> Option<Self> {
        let mut fields = Fields(octets);
        let record = Self {
            index: fields.u64().ok()?,
            len: fields.u32().ok()?,
            digest: Digest(fields.take().ok()?),
        };
        (record.encode(header) == octets).then_some(record)
    }
}

/// A journal, to which records are appended.
#[derive(Debug)]
pub(super) struct Journal<F> {
    file: F,
    header: Check,
    records: Range<u64>,
}

impl<F: JournalFile> Journal<F> {
    /// Begins a journal in an empty file.
    pub(super) fn begin(file: F, header: &Header) -> Result<Self, F::Error> {
        let octets = header.encode();
        file.write_at(&octets, 0)?;
        let len = octets.len() as u64;
        let mut check = [0; CHECK_LEN];
        check.copy_from_slice(&octets[octets.len() - CHECK_LEN..]);
        Ok(Self {
            file,
            header: check,
            records: len..len,
        })
    }

    /// Takes a journal up, if it is of `expected`, or whoever's it is if `is_any`. A last record
    /// that was not written whole is cut off; one in the middle that is not right is somebody's
    /// doing, and so may be all of them.
    pub(super) fn resume(
        file: F,
        expected: &Header,
        is_any: bool,
    ) -> Result<Result<Self, Refusal>, F::Error> {
        let (found, start, header) = match Header::find(&file)? {
            Ok(found) => found,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if found.disk_len != expected.disk_len {
            return Ok(Err(Refusal::OtherLength));
        }
        if found != *expected && !is_any {
            return Ok(Err(Refusal::OtherSource));
        }
        let size = file.len()?;
        let mut journal = Self {
            file,
            header,
            records: start..size,
        };
        let (mut good, mut bad, mut good_behind) = (0, false, false);
        journal.each(|record| match record {
            Some(_) if bad => good_behind = true,
            Some(_) => good += 1,
            None => bad = true,
        })?;
        if good_behind {
            return Ok(Err(Refusal::Damaged));
        }
        let end = start + good * RECORD_LEN as u64;
        if end != size {
            journal.file.set_len(end)?;
        }
        journal.records.end = end;
        Ok(Ok(journal))
    }

    /// Hands its records on, in order; none: it is not right.
    pub(super) fn each(&self, mut take: impl FnMut(Option<Record>)) -> Result<(), F::Error> {
        let mut buffer = vec![0; RECORDS * RECORD_LEN];
        let mut at = self.records.start;
        while at < self.records.end {
            let len = (self.records.end - at).min(buffer.len() as u64) as usize;
            let read = self.file.read_at(&mut buffer[..len], at)?;
            for octets in buffer[..read].chunks(RECORD_LEN) {
                take(Record::decode(octets, &self.header));
            }
            if read < len {
                break;
            }
            at += len as u64;
        }
        Ok(())
    }

    /// Has what was written outlive a power failure.
    pub(super) fn sync(&self) -> Result<(), F::Error> {
        self.file.sync()
    }

    /// Appends records, and has them outlive a power failure, if it `syncs`. What they say must do
    /// so before.
    pub(super) fn append(&mut self, records: &[Record], syncs: bool) -> Result<(), F::Error> {
        for some in records.chunks(RECORDS) {
            let encoded = some.iter().map(|record| record.encode(&self.header));
            let octets: Vec<u8> = encoded.flatten().collect();
            self.file.write_at(&octets, self.records.end)?;
            self.records.end += octets.len() as u64;
        }
        if syncs { self.sync() } else { Ok(()) }
    }
}

fn check_of(before: &[u8], octets: &[u8]) -> Check {
    let mut hasher = blake3::Hasher::new();
    let hash = hasher.update(before).update(octets).finalize();
    let mut check = [0; CHECK_LEN];
    check.copy_from_slice(&hash.as_bytes()[..CHECK_LEN]);
    check
}

/// What is ahead of a header or record.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const LEN: usize>(&mut self) -> Result<[u8; LEN], Refusal> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Refusal::Damaged)?;
        self.0 = rest;
        Ok(*field)
    }

    fn u32(&mut self) -> Result<u32, Refusal> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Refusal> {
        self.take().map(u64::from_le_bytes)
    }
}
