//! The rules that hold, whoever dies: of the files that anybody can see, and of all that was said.

use std::sync::Arc;

use super::content::{Given, octets};
use super::disk::{BLOCK, Inode, LosingDisk, Meta, Named, PARTIAL, parent};
use super::held::SharedDisk;
use super::run::Run;
use super::scenario::{ExistingSpec, KindSpec};
use crate::world::Violation;

impl Run<'_> {
    /// A file that has its name is whole.
    pub(super) fn sees(&self) -> Result<(), Violation> {
        let published = std::mem::take(&mut self.disk.lock().published);
        let mut published = published.iter();
        published.try_for_each(|(path, inode)| self.is_whole(path, *inode))
    }

    /// The place, as anybody can see it.
    pub(super) fn looks(&mut self) -> Result<(), Violation> {
        self.sees()?;
        let has_failed = self.disk.lock().failed_syncs > 0;
        self.log.lock().has_failed |= has_failed;
        let violation = self.log.lock().violations.pop();
        if let Some((invariant, text)) = violation {
            return Err(self.violation(invariant, text));
        }
        Ok(())
    }

    /// A name shows a file that was given, whole.
    fn is_whole(&self, path: &str, inode: usize) -> Result<(), Violation> {
        let disk = self.disk.lock();
        let inode = &disk.inodes[inode];
        let Some(given) = self.files.iter().find(|given| given.spec.path == path) else {
            return Err(self.violation("I23", format!("nobody has given {path}")));
        };
        let versions = given.versions.iter().enumerate();
        let is_it = |(version, octets): (usize, &Arc<Vec<u8>>)| {
            let meta = Meta {
                len: octets.len() as u64,
                mode: given.spec.mode,
                modified_ns: given.modified_ns(version),
            };
            inode.meta == meta && inode.octets == **octets
        };
        if !versions.into_iter().any(is_it) && !is_former(given, inode) {
            let text = format!("{path} shows what was never given: {:?}", inode.meta);
            return Err(self.violation("I23", text));
        }
        Ok(())
    }

    /// Everything at the place is whole, and what was settled is there.
    pub(super) fn all_are_whole(&self) -> Result<(), Violation> {
        let names = self.disk.lock().names().clone();
        for (path, named) in &names {
            if let Named::File(inode) = named
                && !path.starts_with(PARTIAL)
            {
                self.is_whole(path, *inode)?;
            }
        }
        for path in &self.settled {
            if !names.contains_key(path) {
                let text = format!("{path} was settled, and is gone");
                return Err(self.violation("I24", text));
            }
        }
        Ok(())
    }

    /// Nobody has failed for want of room that there is. Where files come and go, there may be
    /// more of it now.
    pub(super) fn room_was_missing(&self) -> Result<(), Violation> {
        let disk = self.disk.lock();
        let comes_and_goes = disk.failed_syncs > 0
            || self.spec.deaths.len() > self.deaths.len()
            || self.files.iter().map(|given| &given.spec).any(|spec| {
                spec.former && self.spec.existing == ExistingSpec::Replace
                    || !spec.changes_ns.is_empty()
            });
        let free = disk.free().filter(|_| !comes_and_goes);
        for given in &*self.files {
            let path = &given.spec.path;
            let Some(Some(reason)) = self.told.get(path.as_bytes()) else {
                continue;
            };
            if !is_no_room(reason) && !self.may_fail(given, &disk) {
                return Err(self.violation("I27", format!("{path}: failed: {reason}")));
            }
            // With its journal, and with those of others that were under way, which go.
            let takes = given.spec.octets + (1 + u64::from(self.spec.jobs)) * 2 * BLOCK;
            if let Some(free) = free.filter(|free| is_no_room(reason) && *free > takes) {
                let text = format!("{path} failed: {reason}, and {free} octets are free");
                return Err(self.violation("I29", text));
            }
        }
        Ok(())
    }

    /// Whether there is a reason for a file to fail, if there is room for it.
    fn may_fail(&self, given: &Given, disk: &LosingDisk) -> bool {
        given.spec.former && self.spec.existing == ExistingSpec::Refuse
            || !given.spec.changes_ns.is_empty()
            || disk.failed_syncs > 0
    }

    /// All is settled: is it right?
    pub(super) fn ends(&mut self) -> Result<(), Violation> {
        self.giver_gone(self.now);
        self.all_are_whole()?;
        let disk = self.disk.lock();
        let (mut failed, mut there, mut large) = (0, 0, 0);
        for given in &*self.files {
            let path = &given.spec.path;
            let wrong = |text: String| self.violation("I27", format!("{path}: {text}"));
            let Some(told) = self.told.get(path.as_bytes()) else {
                if given.spec.kind == KindSpec::Directory {
                    continue;
                }
                return Err(wrong("nothing was told of it".into()));
            };
            if let Some(reason) = told {
                failed += 1;
                if !self.may_fail(given, &disk) {
                    return Err(wrong(format!("failed: {reason}")));
                }
                continue;
            }
            there += 1;
            large += u64::from(given.spec.octets > 1 << 16);
            let Some(Named::File(inode)) = disk.names().get(path) else {
                continue;
            };
            let inode = &disk.inodes[*inode];
            let mut versions = given.versions.iter();
            let is_left = self.spec.existing == ExistingSpec::Skip
                || versions.any(|octets| **octets == inode.octets);
            if is_former(given, inode) && !is_left {
                return Err(wrong("it is there, and is what was there before".into()));
            }
            let holes = given.spec.holes.iter();
            let blocks = holes.flat_map(|(start, end)| start.div_ceil(4_096)..end / 4_096);
            let is_kept = |mut blocks: Box<dyn Iterator<Item = u64> + '_>| {
                blocks.all(|block| !inode.blocks.contains(&block))
            };
            let is_given = !is_former(given, inode);
            if is_given && given.spec.octets > 1 << 16 && !is_kept(Box::new(blocks)) {
                return Err(wrong("its holes take room".into()));
            }
        }
        let mut unfinished = disk.names().keys().filter(|name| name.starts_with(PARTIAL));
        let left = unfinished.next_back();
        // Of a file that stays though it is another, what was begun of it stays, too.
        let has_changed_in_place = self.spec.existing == ExistingSpec::Skip
            && self.files.iter().any(|file| file.versions.len() > 1);
        // What a power failure brings back behind that, the next transfer removes.
        if let Some(left) = left.filter(|_| failed == 0 && self.is_settled && !has_changed_in_place)
        {
            return Err(self.violation("I27", format!("{left} is left behind")));
        }
        drop(disk);
        self.counts.large = large;
        self.counts.there = there;
        self.counts.failed = failed;
        let log = self.log.lock();
        // Octets that found no room are missing from their disk-PDU.
        let may_be_wrong = log.has_failed
            || self.disk.lock().was_full
            || self.files.iter().any(|file| file.versions.len() > 1);
        if log.wrong > 0 && !may_be_wrong {
            let text = format!("{} disk-PDUs came with a wrong digest", log.wrong);
            return Err(self.violation("I26", text));
        }
        self.counts.resumed = log.resumed;
        self.counts.thrown_away = log.thrown_away;
        self.counts.small = log.small;
        self.counts.compared = log.compared;
        drop(log);
        self.counts.failed_syncs = self.disk.lock().failed_syncs;
        self.counts.ended = self.now.ns();
        Ok(())
    }
}

/// Whether a file has failed because there is no room for it.
pub(super) fn is_no_room(reason: &str) -> bool {
    reason.starts_with("Full")
}

/// A file that is there before.
pub(super) fn former(disk: &SharedDisk, given: &Given) {
    let mut disk = disk.lock();
    let inode = disk.make();
    let octets = former_octets(given);
    // A new disk has room, and does what it is told.
    let _ = disk.write(inode, 0, &octets);
    disk.inodes[inode].meta.mode = 0o600;
    let path = given.spec.path.clone();
    let mut changes = Vec::new();
    let mut at = parent(&path);
    while !at.is_empty() {
        changes.insert(0, (at.to_owned(), Some(Named::Directory)));
        at = parent(at);
    }
    changes.push((path, Some(Named::File(inode))));
    let _ = disk.name(changes);
    disk.published.clear();
    let _ = disk.sync_all();
}

fn former_octets(given: &Given) -> Vec<u8> {
    match given.spec.former_is_same {
        true => given.versions[0].to_vec(),
        false => octets(!given.spec.content, given.spec.octets),
    }
}

fn is_former(given: &Given, inode: &Inode) -> bool {
    given.spec.former && inode.octets == former_octets(given)
}
