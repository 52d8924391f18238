//! Who takes: says what it wants of each entry, puts it in its place, and checks it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::short::Short;
use super::{CONTENT_MAX, Digest, Entry, EntryKind, Message, OFFERED_MAX, Offers, TRIES};
use crate::Time;
use crate::terminal::exchange::CONTROL_MID;
use crate::terminal::{Carrier, DiskHeader, DiskPdu, Planted, Store};

/// Files but short ones that are being put in their places, at most: each has descriptors.
const FINISHING_MAX: usize = 256;

/// A file that is being received.
pub trait Partial: Store {
    /// Makes room from `from` to `to`, as far as the file goes, and says how far there is some now.
    /// In a file with holes nobody makes room: all of it may be written.
    fn make_room(&mut self, from: u64, to: u64) -> Result<u64, String>;

    /// A stretch is a hole, from one disk-PDU's start to another's.
    fn hole(&mut self, start: u64, end: u64);

    /// Whether the octets of a disk-PDU have its digest. If not they are given up, holes and all.
    fn check(&mut self, disk_pdu: &DiskPdu) -> bool;

    /// Time has passed: what was checked is made safe now and then.
    fn handle_deadline(&mut self, now: Time) -> Result<(), String>;
}

/// What becomes of an offer.
#[derive(Debug)]
pub enum Offered<P> {
    /// It is there, or was made.
    Have,
    /// All of its octets are wanted as a message.
    Take,
    /// These extents of it, in order, each from one disk-PDU's start to another's, or to the end;
    /// of a stream one without end.
    Want(P, Vec<(u64, u64)>),
    /// Somebody else has it for now, who may have gone: it is to be offered again soon.
    Later,
    /// A file of its length is there: by the digest of that its giver says whether it is the same.
    Compare,
}

/// Files, as their host puts them.
pub trait Destination {
    type File: Partial;

    /// Takes an offer: makes a directory or a link, opens a file that is to be received. `is_same`:
    /// whether the file that is there is this one; none: they were not compared.
    fn offer(
        &mut self,
        entry: &Entry,
        is_same: Option<bool>,
    ) -> Result<Offered<Self::File>, String>;

    /// Begins to make the digest of what is there.
    fn digest(&mut self, id: u32, entry: &Entry);

    /// A digest that was made.
    fn digested(&mut self) -> Option<(u32, Result<Digest, String>)>;

    /// Puts a file in its place, given all its octets.
    fn content(&mut self, id: u32, entry: Entry, octets: Vec<u8>, digest: Digest);

    /// Puts a file in its place that has come whole.
    fn finish(&mut self, id: u32, entry: Entry, file: Self::File);

    /// A file whose extents are not all there: it stays to be gone on with, unless its source is
    /// another by now.
    fn leave(&mut self, entry: &Entry, file: Self::File, is_stale: bool);

    /// All in a directory is settled.
    fn left(&mut self, entry: &Entry) -> Result<(), String>;

    /// What has become of a file that was put in its place: its digest.
    fn settled(&mut self) -> Option<(u32, Entry, Result<Digest, String>)>;

    /// Whether it has a bug on purpose.
    #[inline(always)]
    fn has(&self, _bug: Planted) -> bool {
        false
    }
}

/// What has become of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// A digest, if it was received.
    There {
        entry: Entry,
        digest: Option<Digest>,
    },
    Failed {
        path: Vec<u8>,
        reason: String,
    },
    /// All is settled.
    Done,
}

/// A count of what has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Disk-PDUs that were checked, and those that were wrong.
    pub disk_pdus: u64,
    pub wrong: u64,
}

/// A file that is being received.
struct Coming<P> {
    /// Of a stream that has ended it says a length.
    entry: Entry,
    /// It cannot be sent again.
    is_stream: bool,
    /// Its transfer, while one is under way.
    transfer: Option<u16>,
    /// Up to where disk-PDUs of the transfer have come, and where it ends.
    at: u64,
    end: u64,
    /// Between transfers.
    file: Option<P>,
    /// Extents that are still to be wanted.
    missing: VecDeque<(u64, u64)>,
    /// Disk-PDUs that came with a wrong digest, and how often.
    wrong: BTreeMap<u64, u8>,
}

/// A file that waits for its turn.
struct Waiting {
    id: u32,
    entry: Entry,
    /// Whether it is the same as what is there; none: they were not compared.
    is_same: Option<bool>,
}

/// Takes a tree.
pub struct Taking<D: Destination> {
    destination: D,
    /// Files at a time.
    jobs: usize,
    coming: BTreeMap<u32, Coming<D::File>>,
    /// Files whose octets come as a message.
    short: Short,
    /// Files that are compared with what is there.
    compared: BTreeMap<u32, Entry>,
    /// Files that wait for one of the jobs, and short ones that wait for memory.
    waiting: VecDeque<Waiting>,
    waiting_short: VecDeque<Waiting>,
    directories: BTreeMap<u32, Entry>,
    /// Other files that are being put in their places.
    finishing: BTreeSet<u32>,
    offered: Offers,
    transfers: BTreeMap<u16, u32>,
    next_transfer: u16,
    is_offered: bool,
    is_done: bool,
    taken: Taken,
    fault: Option<&'static str>,
}

impl<D: Destination> Taking<D> {
    /// Takes to `destination`, so many files at a time.
    pub const fn new(destination: D, jobs: usize) -> Self {
        Self {
            destination,
            jobs,
            coming: BTreeMap::new(),
            short: Short::new(),
            compared: BTreeMap::new(),
            waiting: VecDeque::new(),
            waiting_short: VecDeque::new(),
            directories: BTreeMap::new(),
            finishing: BTreeSet::new(),
            offered: Offers::NONE,
            transfers: BTreeMap::new(),
            next_transfer: 1,
            is_offered: false,
            is_done: false,
            taken: Taken {
                disk_pdus: 0,
                wrong: 0,
            },
            fault: None,
        }
    }

    /// Where it is put.
    pub const fn destination_mut(&mut self) -> &mut D {
        &mut self.destination
    }

    /// Whether all that was offered is settled.
    pub const fn is_done(&self) -> bool {
        self.is_done
    }

    /// What has come.
    pub const fn taken(&self) -> Taken {
        self.taken
    }

    /// What was offered.
    pub const fn offers(&self) -> Offers {
        self.offered
    }

    /// What no honest giver does, if this one has: nothing more is to be taken from it.
    pub const fn fault(&self) -> Option<&'static str> {
        self.fault
    }

    /// Files that are being received, and up to where they are.
    pub fn progress<C: Carrier<Store = D::File>>(
        &self,
        carrier: &C,
    ) -> impl Iterator<Item = (&Entry, u64)> {
        self.coming.values().filter_map(move |coming| {
            let (ap, _) = carrier.received(coming.transfer?)?;
            Some((&coming.entry, ap))
        })
    }

    /// Gives up what is under way: it stays to be gone on with.
    pub fn abandon<C: Carrier<Store = D::File>>(&mut self, carrier: &mut C) {
        for coming in std::mem::take(&mut self.coming).into_values() {
            let file = coming
                .file
                .or_else(|| carrier.end_receive(coming.transfer?));
            if let Some(file) = file {
                let is_of_no_use = coming.is_stream;
                self.destination.leave(&coming.entry, file, is_of_no_use);
            }
        }
    }

    /// What the other end says; messages of other kinds are not for who takes.
    pub fn handle<C: Carrier<Store = D::File>>(
        &mut self,
        now: Time,
        carrier: &mut C,
        message: Message,
        settled: &mut Vec<Settled>,
    ) {
        match message {
            Message::Offer { id, entry } => self.offered(now, carrier, id, entry, settled),
            Message::Content { id, digest, octets } => {
                let Some(entry) = self.short.come(id) else {
                    return;
                };
                if octets.len() as u64 == entry.octets() {
                    self.destination.content(id, entry, octets, digest);
                } else {
                    self.short.settle(id);
                    let reason = "another length than was offered";
                    self.failure(carrier, id, &entry, reason, settled);
                }
            }
            Message::Whole { id } => {
                let Some(mut coming) = self.coming.remove(&id) else {
                    return;
                };
                match coming.file.take() {
                    Some(file) if coming.missing.is_empty() => {
                        self.finishing.insert(id);
                        self.destination.finish(id, coming.entry, file);
                    }
                    // It is not: what it says is not believed.
                    file => {
                        coming.file = file;
                        self.coming.insert(id, coming);
                    }
                }
            }
            Message::Changed { id } => {
                self.gives_up(carrier, id, true);
                self.short.forget(id);
            }
            Message::Failed { id, reason } => {
                let coming = self.coming.get(&id).map(|coming| &coming.entry);
                let entry = coming.or_else(|| self.short.asked(id));
                let entry = entry.or_else(|| self.compared.get(&id));
                if let Some(entry) = entry {
                    let path = entry.path.clone();
                    settled.push(Settled::Failed { path, reason });
                }
                self.short.forget(id);
                self.compared.remove(&id);
                self.gives_up(carrier, id, false);
            }
            Message::Compared { id, is_same } => {
                let Some(entry) = self.compared.remove(&id) else {
                    return;
                };
                self.waits(id, entry, Some(is_same));
            }
            Message::Left { id } => {
                if let Some(entry) = self.directories.remove(&id)
                    && let Err(reason) = self.destination.left(&entry)
                {
                    let path = entry.path;
                    settled.push(Settled::Failed { path, reason });
                }
            }
            Message::End => {
                self.is_offered = true;
                self.offered.is_all = true;
            }
            _ => {}
        }
        self.begins(now, carrier, settled);
        self.ends(carrier, settled);
    }

    fn offered<C: Carrier<Store = D::File>>(
        &mut self,
        now: Time,
        carrier: &mut C,
        id: u32,
        entry: Entry,
        settled: &mut Vec<Settled>,
    ) {
        if self.is_unsettled(id) {
            self.fault = Some("two offers have one number");
            return;
        }
        if self.unsettled() >= OFFERED_MAX {
            self.fault = Some("more is offered at a time than may be");
            return;
        }
        self.offered.add(&entry);
        match entry.kind {
            EntryKind::File { .. } | EntryKind::Stream => self.waits(id, entry, None),
            EntryKind::Directory | EntryKind::Link { .. } => {
                let waiting = Waiting {
                    id,
                    entry,
                    is_same: None,
                };
                self.opens(now, carrier, waiting, settled);
            }
        }
    }

    /// A file waits for its turn.
    fn waits(&mut self, id: u32, entry: Entry, is_same: Option<bool>) {
        let queue = match entry.kind {
            EntryKind::File { len, .. } if len <= CONTENT_MAX => &mut self.waiting_short,
            _ => &mut self.waiting,
        };
        queue.push_back(Waiting { id, entry, is_same });
    }

    /// Entries that were offered and are not settled.
    fn unsettled(&self) -> usize {
        self.coming.len()
            + self.short.len()
            + self.compared.len()
            + self.waiting.len()
            + self.waiting_short.len()
            + self.finishing.len()
            + self.directories.len()
    }

    fn is_unsettled(&self, id: u32) -> bool {
        self.coming.contains_key(&id)
            || self.short.contains(id)
            || self.compared.contains_key(&id)
            || self.finishing.contains(&id)
            || self.directories.contains_key(&id)
            || [&self.waiting, &self.waiting_short]
                .into_iter()
                .flatten()
                .any(|waiting| waiting.id == id)
    }

    /// An entry is there.
    fn has<C: Carrier<Store = D::File>>(
        &mut self,
        carrier: &mut C,
        id: u32,
        entry: Entry,
        settled: &mut Vec<Settled>,
    ) {
        carrier.say(&Message::Have { id, digest: None }.emit());
        if entry.kind == EntryKind::Directory {
            self.directories.insert(id, entry);
        } else {
            let digest = None;
            settled.push(Settled::There { entry, digest });
        }
    }

    /// Begins with files that wait, as many as may be under way.
    fn begins<C: Carrier<Store = D::File>>(
        &mut self,
        now: Time,
        carrier: &mut C,
        settled: &mut Vec<Settled>,
    ) {
        while self.short.has_room()
            && let Some(waiting) = self.waiting_short.pop_front()
        {
            self.opens(now, carrier, waiting, settled);
        }
        // A file that somebody else has goes to the end.
        for _ in 0..self.waiting.len() {
            if self.coming.len() >= self.jobs || self.finishing.len() >= FINISHING_MAX {
                break;
            }
            let Some(waiting) = self.waiting.pop_front() else {
                break;
            };
            self.opens(now, carrier, waiting, settled);
        }
    }

    fn opens<C: Carrier<Store = D::File>>(
        &mut self,
        now: Time,
        carrier: &mut C,
        waiting: Waiting,
        settled: &mut Vec<Settled>,
    ) {
        let Waiting { id, entry, is_same } = waiting;
        match self.destination.offer(&entry, is_same) {
            Ok(Offered::Have) => self.has(carrier, id, entry, settled),
            Ok(Offered::Compare) => {
                self.destination.digest(id, &entry);
                self.compared.insert(id, entry);
            }
            Ok(Offered::Take) => {
                carrier.say(&Message::Take { id }.emit());
                self.short.ask(id, entry);
            }
            Ok(Offered::Want(file, missing)) => {
                let coming = Coming {
                    is_stream: entry.kind == EntryKind::Stream,
                    entry,
                    transfer: None,
                    at: 0,
                    end: 0,
                    file: Some(file),
                    missing: missing.into(),
                    wrong: BTreeMap::new(),
                };
                self.coming.insert(id, coming);
                self.wants(now, carrier, id, settled);
            }
            Ok(Offered::Later) => self.waiting.push_back(Waiting { id, entry, is_same }),
            Err(reason) => self.failure(carrier, id, &entry, &reason, settled),
        }
    }

    /// Wants the next extent of a file, or says that all are there.
    fn wants<C: Carrier<Store = D::File>>(
        &mut self,
        now: Time,
        carrier: &mut C,
        id: u32,
        settled: &mut Vec<Settled>,
    ) {
        let Some(coming) = self.coming.get_mut(&id) else {
            return;
        };
        let Some((start, end)) = coming.missing.pop_front() else {
            if self.destination.has(Planted::WholeNotAwaited)
                && let Some(coming) = self.coming.remove(&id)
                && let Some(file) = coming.file
            {
                self.finishing.insert(id);
                self.destination.finish(id, coming.entry, file);
            }
            return carrier.say(&Message::Got { id }.emit());
        };
        if self.destination.has(Planted::GapsForgotten) {
            coming.missing.clear();
        }
        let Some(mut file) = coming.file.take() else {
            return;
        };
        let room = room(start, carrier.window());
        let limit = match file.make_room(start, room) {
            Ok(limit) => limit,
            Err(reason) => {
                coming.file = Some(file);
                let entry = coming.entry.clone();
                self.gives_up(carrier, id, false);
                return self.failure(carrier, id, &entry, &reason, settled);
            }
        };
        let transfer = loop {
            let transfer = self.next_transfer;
            self.next_transfer = transfer.checked_add(1).unwrap_or(1);
            // Of AAL3/4 two with one MID would mix their cells.
            let mid = |transfer: &u16| transfer % CONTROL_MID;
            let mut others = self.transfers.keys().map(mid);
            if mid(&transfer) != 0 && others.all(|other| other != mid(&transfer)) {
                break transfer;
            }
        };
        (coming.transfer, coming.at, coming.end) = (Some(transfer), start, end);
        carrier.receive(now, transfer, (start, end), limit, file);
        self.transfers.insert(transfer, id);
        let edge = carrier.received(transfer).map_or(start, |(_, edge)| edge);
        let want = Message::Want {
            id,
            transfer,
            start,
            end,
            edge,
        };
        carrier.say(&want.emit());
    }

    /// A disk-PDU has come.
    pub fn handle_disk_pdu<C: Carrier<Store = D::File>>(
        &mut self,
        now: Time,
        carrier: &mut C,
        transfer: u16,
        disk_pdu: &DiskPdu,
        settled: &mut Vec<Settled>,
    ) {
        let Some(id) = self.transfers.get(&transfer).copied() else {
            return;
        };
        let Some(coming) = self.coming.get_mut(&id) else {
            return;
        };
        let Some(file) = carrier.store_mut(transfer) else {
            return;
        };
        self.taken.disk_pdus += 1;
        let DiskHeader { offset, length, .. } = disk_pdu.header;
        let end = offset.saturating_add(length.into());
        if coming.is_stream && disk_pdu.header.is_end {
            coming.end = end;
            coming.entry.kind = EntryKind::File {
                len: end,
                holes: false,
            };
            self.offered.octets = self.offered.octets.saturating_add(end);
        }
        if offset < coming.at || end > coming.end || coming.is_stream && offset > coming.at {
            let entry = coming.entry.clone();
            self.gives_up(carrier, id, false);
            let reason = "a disk-PDU came that is not in what was wanted";
            return self.failure(carrier, id, &entry, reason, settled);
        }
        if coming.at < offset {
            file.hole(coming.at, offset);
        }
        coming.at = end;
        if !file.check(disk_pdu) {
            self.taken.wrong += 1;
            let times = coming.wrong.entry(offset).or_default();
            *times += 1;
            let tries = if coming.is_stream { 1 } else { TRIES };
            if *times >= tries {
                let reason =
                    format!("octets from {offset} on came with a wrong digest {tries} times");
                let entry = coming.entry.clone();
                self.gives_up(carrier, id, false);
                return self.failure(carrier, id, &entry, &reason, settled);
            }
            coming
                .missing
                .push_back((offset, end.min(coming.entry.octets())));
        }
        let window = carrier.window();
        let Some((ap, _)) = carrier.received(transfer) else {
            return;
        };
        if coming.at >= coming.end {
            coming.file = carrier.end_receive(transfer);
            coming.transfer = None;
            self.transfers.remove(&transfer);
            self.wants(now, carrier, id, settled);
        } else if let Some(file) = carrier.store_mut(transfer) {
            match file.make_room(ap, room(ap, window)) {
                Ok(limit) => carrier.allow(now, transfer, limit),
                Err(reason) => {
                    let entry = coming.entry.clone();
                    self.gives_up(carrier, id, false);
                    self.failure(carrier, id, &entry, &reason, settled);
                }
            }
        }
        self.begins(now, carrier, settled);
        self.ends(carrier, settled);
    }

    /// Time has passed, or files have been put in their places.
    pub fn step<C: Carrier<Store = D::File>>(
        &mut self,
        now: Time,
        carrier: &mut C,
        settled: &mut Vec<Settled>,
    ) {
        while let Some((id, entry, result)) = self.destination.settled() {
            self.finishing.remove(&id);
            self.short.settle(id);
            match result {
                Ok(digest) => {
                    let digest = Some(digest);
                    carrier.say(&Message::Have { id, digest }.emit());
                    settled.push(Settled::There { entry, digest });
                }
                Err(reason) => self.failure(carrier, id, &entry, &reason, settled),
            }
        }
        while let Some((id, digest)) = self.destination.digested() {
            match (digest, self.compared.remove(&id)) {
                (Ok(digest), Some(entry)) => {
                    carrier.say(&Message::Compare { id, digest }.emit());
                    self.compared.insert(id, entry);
                }
                // It is not there any more, or cannot be read.
                (Err(_), Some(entry)) => self.waits(id, entry, Some(false)),
                (_, None) => {}
            }
        }
        let mut failed = Vec::new();
        for (id, coming) in &mut self.coming {
            // One of which all has come is still to be said to be whole.
            let file = match (&mut coming.file, coming.transfer) {
                (Some(file), _) => Some(file),
                (None, Some(transfer)) => carrier.store_mut(transfer),
                (None, None) => None,
            };
            if let Some(Err(reason)) = file.map(|file| file.handle_deadline(now)) {
                failed.push((*id, reason));
            }
        }
        for (id, reason) in failed {
            if let Some(entry) = self.coming.get(&id).map(|coming| coming.entry.clone()) {
                self.gives_up(carrier, id, false);
                self.failure(carrier, id, &entry, &reason, settled);
            }
        }
        self.begins(now, carrier, settled);
        self.ends(carrier, settled);
    }

    /// Receives no more of a file.
    fn gives_up<C: Carrier<Store = D::File>>(&mut self, carrier: &mut C, id: u32, is_stale: bool) {
        let Some(coming) = self.coming.remove(&id) else {
            return;
        };
        let transfer = coming.transfer;
        let file = coming.file.or_else(|| carrier.end_receive(transfer?));
        if let Some(transfer) = transfer {
            self.transfers.remove(&transfer);
        }
        if let Some(file) = file {
            let is_of_no_use = is_stale || coming.is_stream;
            self.destination.leave(&coming.entry, file, is_of_no_use);
        }
    }

    fn failure<C: Carrier<Store = D::File>>(
        &self,
        carrier: &mut C,
        id: u32,
        entry: &Entry,
        reason: &str,
        settled: &mut Vec<Settled>,
    ) {
        let reason = reason.to_owned();
        let failed = Message::Failed {
            id,
            reason: reason.clone(),
        };
        carrier.say(&failed.emit());
        let path = entry.path.clone();
        settled.push(Settled::Failed { path, reason });
    }

    fn ends<C: Carrier<Store = D::File>>(&mut self, carrier: &mut C, settled: &mut Vec<Settled>) {
        let is_idle = self.unsettled() == self.directories.len();
        if self.is_offered && !self.is_done && is_idle {
            self.is_done = true;
            carrier.say(&Message::Done.emit());
            settled.push(Settled::Done);
        }
    }
}

/// Up to where room is made for a window that begins at `from`, until the next disk-PDU has come.
const fn room(from: u64, window: u64) -> u64 {
    from.saturating_add(window)
        .saturating_add(2 * DiskHeader::LONGEST as u64)
}
