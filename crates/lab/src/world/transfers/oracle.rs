//! The rules that hold, whoever dies: of the files that anybody can see, and of all that was said.

use std::sync::Arc;

use super::content::{Given, octets};
use super::disk::{Inode, Meta, Named, PARTIAL, parent};
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
                let may = given.spec.former && self.spec.existing == ExistingSpec::Refuse
                    || !given.spec.changes_ns.is_empty()
                    || disk.failed_syncs > 0;
                if !may {
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
        let may_be_wrong = log.has_failed || self.files.iter().any(|file| file.versions.len() > 1);
        if log.wrong > 0 && !may_be_wrong {
            let text = format!("{} disk-PDUs came with a wrong digest", log.wrong);
            return Err(self.violation("I26", text));
        }
        self.counts.resumed = log.resumed;
        self.counts.thrown_away = log.thrown_away;
        self.counts.small = log.small;
        drop(log);
        self.counts.failed_syncs = self.disk.lock().failed_syncs;
        self.counts.ended = self.now.ns();
        Ok(())
    }
}

/// A file that is there before.
pub(super) fn former(disk: &SharedDisk, given: &Given) {
    let mut disk = disk.lock();
    let inode = disk.make();
    let octets = former_octets(given);
    disk.write(inode, 0, &octets);
    disk.inodes[inode].meta.mode = 0o600;
    let path = given.spec.path.clone();
    let mut changes = Vec::new();
    let mut at = parent(&path);
    while !at.is_empty() {
        changes.insert(0, (at.to_owned(), Some(Named::Directory)));
        at = parent(at);
    }
    changes.push((path, Some(Named::File(inode))));
    // A new disk does what it is told.
    let _ = disk.name(changes);
    disk.published.clear();
    let _ = disk.sync_all();
}

fn former_octets(given: &Given) -> Vec<u8> {
    octets(!given.spec.content, given.spec.octets)
}

fn is_former(given: &Given, inode: &Inode) -> bool {
    given.spec.former && inode.octets == former_octets(given)
}
