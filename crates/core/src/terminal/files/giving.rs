//! Who gives: offers entries, and sends what is wanted of them.

use std::collections::BTreeMap;

use super::{Digest, Entry, EntryKind, Message, OFFERED_MAX, TRIES};
use crate::terminal::{Carrier, Planted, Source, Split};

/// Transfers at a time, at most: each has a file open, and a window of PDUs in memory.
const TRANSFERS_MAX: usize = 256;
/// Octets of messages that wait to be acknowledged, at most, when more is offered.
const UNSAID_MAX: usize = 1 << 20;

/// A tree, as its host has it.
pub trait Origin {
    type File: Source;

    /// The next entry; a directory comes before what is in it.
    fn next(&mut self) -> Option<Found>;

    /// Opens a file to be sent, from octet `start` to `end`.
    fn open(&mut self, entry: &Entry, extent: (u64, u64)) -> Result<Self::File, String>;

    /// Whether a file is as it was when it was offered.
    fn is_unchanged(&mut self, entry: &Entry) -> bool;

    /// All octets of a file, and their digest.
    fn content(&mut self, entry: &Entry) -> Result<(Vec<u8>, Digest), String>;

    /// Begins to find out whether a file has this digest.
    fn compare(&mut self, id: u32, entry: &Entry, digest: &Digest);

    /// What was found out of a file: whether it has.
    fn compared(&mut self) -> Option<(u32, Result<bool, String>)>;

    /// The entry as it is now, to be offered anew.
    fn again(&mut self, entry: &Entry) -> Result<Entry, String>;

    /// Whether it has a bug on purpose.
    #[inline(always)]
    fn has(&self, _bug: Planted) -> bool {
        false
    }
}

/// What a walk through a tree finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Entry(Entry),
    /// All of the directory that was found last and not left has been found.
    Left,
    /// What cannot be sent, and why.
    Skipped {
        path: Vec<u8>,
        reason: String,
    },
}

/// What has become of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// It is at the other end: its digest, if it was sent.
    There {
        entry: Entry,
        digest: Option<Digest>,
    },
    Failed {
        path: Vec<u8>,
        reason: String,
    },
    Skipped {
        path: Vec<u8>,
        reason: String,
    },
    /// All is settled.
    Done,
}

/// How much is to be given or taken, as far as that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// Files, directories and links.
    pub entries: u64,
    pub octets: u64,
    /// No more will be offered.
    pub is_all: bool,
}

impl Offers {
    pub(super) const NONE: Self = Self {
        entries: 0,
        octets: 0,
        is_all: false,
    };

    pub(super) fn add(&mut self, entry: &Entry) {
        self.entries += 1;
        self.octets = self.octets.saturating_add(entry.octets());
    }
}

struct Item {
    entry: Entry,
    parent: Option<u32>,
    /// The transfer that is sent of it.
    transfer: Option<u16>,
    tries: u8,
    /// Of a directory: entries in it that are not settled, and whether all are found.
    inside: u32,
    is_left: bool,
    /// The other end has the directory itself.
    is_there: bool,
}

/// Gives a tree.
pub struct Giving<O> {
    origin: O,
    split: Split,
    items: BTreeMap<u32, Item>,
    /// Directories that are found and not left, the innermost last.
    stack: Vec<u32>,
    next_id: u32,
    offered: Offers,
    transfers: usize,
    is_walked: bool,
    is_done: bool,
}

impl<O: Origin> Giving<O> {
    /// Offers what `origin` has, in PDUs and disk-PDUs as `split` says.
    pub const fn new(origin: O, split: Split) -> Self {
        Self {
            origin,
            split,
            items: BTreeMap::new(),
            stack: Vec::new(),
            next_id: 0,
            offered: Offers::NONE,
            transfers: 0,
            is_walked: false,
            is_done: false,
        }
    }

    /// Whether the other end has said that all is settled.
    pub const fn is_done(&self) -> bool {
        self.is_done
    }

    /// What was offered.
    pub const fn offers(&self) -> Offers {
        self.offered
    }

    /// Octets of files that are being sent and are acknowledged, of each its entry.
    pub fn progress<C: Carrier<Source = O::File>>(
        &self,
        carrier: &C,
    ) -> impl Iterator<Item = (&Entry, u64)> {
        self.items
            .values()
            .filter_map(move |item| Some((&item.entry, carrier.sent(item.transfer?)?)))
    }

    /// Offers the next entry, if not too much is under way. What is told goes to `given`; false if
    /// there is nothing to do for now.
    pub fn step<C: Carrier<Source = O::File>>(
        &mut self,
        carrier: &mut C,
        given: &mut Vec<Given>,
    ) -> bool {
        while let Some((id, found)) = self.origin.compared() {
            match found {
                Ok(is_same) => {
                    let is_same = is_same || self.origin.has(Planted::ComparedUnseen);
                    carrier.say(&Message::Compared { id, is_same }.emit());
                }
                Err(reason) => self.failure(carrier, id, &reason, given),
            }
        }
        if self.is_walked || self.items.len() >= OFFERED_MAX || carrier.unsaid() > UNSAID_MAX {
            return false;
        }
        match self.origin.next() {
            Some(Found::Entry(entry)) => {
                let parent = self.stack.last().copied();
                if let Some(parent) = parent.and_then(|parent| self.items.get_mut(&parent)) {
                    parent.inside += 1;
                }
                self.offered.add(&entry);
                let is_directory = entry.kind == EntryKind::Directory;
                let id = self.offer(carrier, entry, parent, 1);
                if is_directory {
                    self.stack.push(id);
                }
            }
            Some(Found::Left) => {
                if let Some(id) = self.stack.pop() {
                    if let Some(item) = self.items.get_mut(&id) {
                        item.is_left = true;
                    }
                    self.settles(carrier, id);
                }
            }
            Some(Found::Skipped { path, reason }) => given.push(Given::Skipped { path, reason }),
            None => {
                self.is_walked = true;
                self.offered.is_all = true;
                self.ends(carrier);
            }
        }
        true
    }

    fn offer<C: Carrier<Source = O::File>>(
        &mut self,
        carrier: &mut C,
        entry: Entry,
        parent: Option<u32>,
        tries: u8,
    ) -> u32 {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let offer = Message::Offer {
            id,
            entry: entry.clone(),
        };
        carrier.say(&offer.emit());
        let item = Item {
            entry,
            parent,
            transfer: None,
            tries,
            inside: 0,
            is_left: false,
            is_there: false,
        };
        self.items.insert(id, item);
        id
    }

    /// What the other end says; messages of other kinds are not for who gives.
    pub fn handle<C: Carrier<Source = O::File>>(
        &mut self,
        carrier: &mut C,
        message: Message,
        given: &mut Vec<Given>,
    ) {
        match message {
            Message::Want {
                id,
                transfer,
                start,
                end,
                edge,
            } => self.sends(carrier, id, (transfer, start, end, edge), given),
            Message::Take { id } => self.says(carrier, id, given),
            Message::Got { id } => {
                let Some(item) = self.items.get_mut(&id) else {
                    return;
                };
                if let Some(transfer) = item.transfer.take() {
                    self.transfers -= 1;
                    let ended = carrier.end_send(transfer);
                    if item.entry.kind == EntryKind::Stream {
                        item.entry.kind = EntryKind::File {
                            len: ended.as_ref().map_or(0, |ended| ended.to),
                            holes: false,
                        };
                    }
                    if let Some(fault) = ended.and_then(|ended| ended.fault) {
                        return self.failure(carrier, id, &fault, given);
                    }
                }
                let is_blind = self.origin.has(Planted::ChangeNotSeen);
                if self.origin.is_unchanged(&item.entry) || is_blind {
                    carrier.say(&Message::Whole { id }.emit());
                } else {
                    self.changed(carrier, id, given);
                }
            }
            Message::Have { id, digest } => {
                let Some(item) = self.items.get_mut(&id) else {
                    return;
                };
                if item.entry.kind == EntryKind::Directory {
                    item.is_there = true;
                } else {
                    given.push(Given::There {
                        entry: item.entry.clone(),
                        digest,
                    });
                }
                self.settles(carrier, id);
            }
            Message::Compare { id, digest } => {
                if let Some(item) = self.items.get(&id) {
                    self.origin.compare(id, &item.entry, &digest);
                }
            }
            Message::Failed { id, reason } => self.fails(carrier, id, reason, given),
            Message::Done => {
                self.is_done = true;
                given.push(Given::Done);
            }
            _ => {}
        }
    }

    fn sends<C: Carrier<Source = O::File>>(
        &mut self,
        carrier: &mut C,
        id: u32,
        (transfer, start, end, edge): (u16, u64, u64, u64),
        given: &mut Vec<Given>,
    ) {
        let Some(item) = self.items.get_mut(&id) else {
            return;
        };
        let is_stream = item.entry.kind == EntryKind::Stream;
        if is_stream && (start, end) != (0, u64::MAX) {
            return self.failure(carrier, id, "it cannot be read again", given);
        }
        let len = if is_stream {
            u64::MAX
        } else {
            item.entry.octets()
        };
        let disk_len = u64::from(self.split.disk_len.unwrap_or(1));
        let is_aligned =
            start.is_multiple_of(disk_len) && (end == len || end.is_multiple_of(disk_len));
        if start >= end || end > len || !is_aligned || transfer == 0 {
            return self.failure(carrier, id, "an extent that the file does not have", given);
        }
        if let Some(before) = item.transfer.take() {
            self.transfers -= 1;
            let before = carrier.end_send(before);
            if let Some(fault) = before.and_then(|before| before.fault) {
                return self.failure(carrier, id, &fault, given);
            }
        }
        if carrier.sent(transfer).is_some() || self.transfers >= TRANSFERS_MAX {
            let reason = "more transfers at a time than there may be, or two of one number";
            return self.failure(carrier, id, reason, given);
        }
        match self.origin.open(&item.entry, (start, end)) {
            Ok(file) => {
                item.transfer = Some(transfer);
                self.transfers += 1;
                let split = Split {
                    file_len: (!is_stream).then_some(len),
                    ..self.split
                };
                carrier.send(transfer, (start, end), edge, split, file);
            }
            Err(reason) => self.failure(carrier, id, &reason, given),
        }
    }

    fn says<C: Carrier<Source = O::File>>(
        &mut self,
        carrier: &mut C,
        id: u32,
        given: &mut Vec<Given>,
    ) {
        let Some(item) = self.items.get(&id) else {
            return;
        };
        if item.entry.octets() > super::CONTENT_MAX || item.entry.kind == EntryKind::Stream {
            return self.failure(carrier, id, "too long for a message", given);
        }
        match self.origin.content(&item.entry) {
            Ok(_) if !self.origin.is_unchanged(&item.entry) => self.changed(carrier, id, given),
            Ok((octets, digest)) => carrier.say(&Message::Content { id, digest, octets }.emit()),
            Err(reason) => self.failure(carrier, id, &reason, given),
        }
    }

    /// A file was changed while it was sent: it is offered anew, or fails.
    fn changed<C: Carrier<Source = O::File>>(
        &mut self,
        carrier: &mut C,
        id: u32,
        given: &mut Vec<Given>,
    ) {
        let Some(item) = self.items.get(&id) else {
            return;
        };
        carrier.say(&Message::Changed { id }.emit());
        let (parent, tries) = (item.parent, item.tries);
        let again = if tries < TRIES {
            self.origin.again(&item.entry)
        } else {
            Err(format!("it was changed {TRIES} times while it was sent"))
        };
        match again {
            Ok(entry) => {
                // It stays counted in its directory.
                self.items.remove(&id);
                self.offer(carrier, entry, parent, tries + 1);
            }
            Err(reason) => self.fails(carrier, id, reason, given),
        }
    }

    /// This end cannot go on with an entry: the other hears of it.
    fn failure<C: Carrier<Source = O::File>>(
        &mut self,
        carrier: &mut C,
        id: u32,
        reason: &str,
        given: &mut Vec<Given>,
    ) {
        let reason = reason.to_owned();
        let failed = Message::Failed {
            id,
            reason: reason.clone(),
        };
        carrier.say(&failed.emit());
        self.fails(carrier, id, reason, given);
    }

    fn fails<C: Carrier<Source = O::File>>(
        &mut self,
        carrier: &mut C,
        id: u32,
        reason: String,
        given: &mut Vec<Given>,
    ) {
        let Some(item) = self.items.get_mut(&id) else {
            return;
        };
        if let Some(transfer) = item.transfer.take() {
            self.transfers -= 1;
            carrier.end_send(transfer);
        }
        item.is_there = true;
        let path = item.entry.path.clone();
        given.push(Given::Failed { path, reason });
        self.settles(carrier, id);
    }

    /// An entry is settled, if it is no directory with something in it that is not.
    fn settles<C: Carrier<Source = O::File>>(&mut self, carrier: &mut C, id: u32) {
        let mut settled = Some(id);
        while let Some(id) = settled.take() {
            let Some(item) = self.items.get(&id) else {
                break;
            };
            if item.entry.kind == EntryKind::Directory {
                if !item.is_left || item.inside > 0 || !item.is_there {
                    break;
                }
                carrier.say(&Message::Left { id }.emit());
            }
            let parent = self.items.remove(&id).and_then(|item| item.parent);
            if let Some(directory) = parent.and_then(|parent| self.items.get_mut(&parent)) {
                directory.inside -= 1;
                settled = parent;
            }
        }
        self.ends(carrier);
    }

    fn ends<C: Carrier<Source = O::File>>(&self, carrier: &mut C) {
        if self.is_walked && self.items.is_empty() {
            carrier.say(&Message::End.emit());
        }
    }
}
