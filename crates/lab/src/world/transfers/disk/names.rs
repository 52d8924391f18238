use std::collections::{BTreeMap, BTreeSet};

use super::Chance;

/// A thing that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Named {
    File(usize),
    Directory,
    Link(Vec<u8>),
}

/// Names as they are, as they are on the disk, and what is between.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Naming {
    pub(in super::super) now: BTreeMap<String, Named>,
    kept: BTreeMap<String, Named>,
    /// What was done since and not synced, each as a whole.
    pending: Vec<Vec<(String, Option<Named>)>>,
}

/// The directory that a path is in; empty: the root.
pub(in super::super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn apply(names: &mut BTreeMap<String, Named>, changes: &[(String, Option<Named>)]) {
    for (path, named) in changes {
        match named {
            Some(named) => names.insert(path.clone(), named.clone()),
            None => names.remove(path),
        };
    }
}

impl Naming {
    pub(super) fn change(&mut self, changes: Vec<(String, Option<Named>)>) {
        apply(&mut self.now, &changes);
        self.pending.push(changes);
    }

    /// Changes of names that `is_it` picks are on the disk.
    pub(super) fn sync(&mut self, is_it: impl Fn(&str) -> bool) {
        let pending = std::mem::take(&mut self.pending);
        for changes in pending {
            if !changes.iter().any(|(path, _)| is_it(path)) {
                self.pending.push(changes);
                continue;
            }
            // Earlier changes of a name are done, too, or of no account any more.
            let is_later = |path: &String| changes.iter().any(|(later, _)| later == path);
            for before in &mut self.pending {
                before.retain(|(path, _)| !is_later(path));
            }
            apply(&mut self.kept, &changes);
        }
    }

    pub(super) fn loses_power(&mut self, chance: &mut Chance) {
        // All, none, or each by itself.
        let how = chance.next() % 4;
        for changes in std::mem::take(&mut self.pending) {
            if how == 1 || how > 1 && chance.next().is_multiple_of(2) {
                apply(&mut self.kept, &changes);
            }
        }
        // Whatever is in no directory is nowhere.
        let mut directories = BTreeSet::from([String::new()]);
        self.kept.retain(|path, named| {
            let is_there = directories.contains(parent(path));
            if is_there && *named == Named::Directory {
                directories.insert(path.clone());
            }
            is_there
        });
        self.now = self.kept.clone();
    }

    /// Why a power failure might take a name away.
    pub(super) fn is_unsafe(&self, path: &str) -> Option<&'static str> {
        let mut at = path;
        while !at.is_empty() {
            if self.kept.get(at) != self.now.get(at) {
                return Some("its name, or that of a directory it is in, was not synced");
            }
            let touches =
                |changes: &Vec<(String, Option<Named>)>| changes.iter().any(|(path, _)| path == at);
            if self.pending.iter().any(touches) {
                return Some("something that was done to its name was not synced");
            }
            at = parent(at);
        }
        None
    }
}
