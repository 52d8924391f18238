use std::collections::BTreeMap;

use super::Entry;

/// Octets of short files that are asked for or being put in their places, at most: they are in
/// memory.
const OCTETS_MAX: u64 = 16 << 20;

/// Short files on their way: asked for, then being put in their places.
pub(super) struct Short {
    asked: BTreeMap<u32, Entry>,
    /// Octets of each.
    finishing: BTreeMap<u32, u64>,
    /// Of all of them.
    octets: u64,
}

impl Short {
    pub(super) const fn new() -> Self {
        Self {
            asked: BTreeMap::new(),
            finishing: BTreeMap::new(),
            octets: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.asked.len() + self.finishing.len()
    }

    pub(super) fn contains(&self, id: u32) -> bool {
        self.asked.contains_key(&id) || self.finishing.contains_key(&id)
    }

    /// Whether one more may be asked for.
    pub(super) const fn has_room(&self) -> bool {
        self.octets < OCTETS_MAX
    }

    /// A file is asked for.
    pub(super) fn ask(&mut self, id: u32, entry: Entry) {
        self.octets += entry.octets();
        self.asked.insert(id, entry);
    }

    /// A file that is asked for and has not come.
    pub(super) fn asked(&self, id: u32) -> Option<&Entry> {
        self.asked.get(&id)
    }

    /// A file has come, and is being put in its place; none: nobody has asked for it.
    pub(super) fn come(&mut self, id: u32) -> Option<Entry> {
        let entry = self.asked.remove(&id)?;
        self.finishing.insert(id, entry.octets());
        Some(entry)
    }

    /// A file that is asked for does not come.
    pub(super) fn forget(&mut self, id: u32) {
        let entry = self.asked.remove(&id);
        self.octets -= entry.map_or(0, |entry| entry.octets());
    }

    /// A file that has come is in its place, or cannot be.
    pub(super) fn settle(&mut self, id: u32) {
        self.octets -= self.finishing.remove(&id).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::EntryKind;

    fn file(len: u64) -> Entry {
        let holes = false;
        Entry {
            path: b"file".into(),
            kind: EntryKind::File { len, holes },
            mode: 0o644,
            user: 0,
            group: 0,
            modified_ns: 0,
            mark: [0; 16],
        }
    }

    #[test]
    fn octets_are_held_until_each_file_is_settled() {
        let mut short = Short::new();
        short.ask(1, file(OCTETS_MAX - 1));
        assert!(short.has_room());
        short.ask(2, file(1));
        assert!(!short.has_room());
        assert_eq!(short.come(3), None);
        assert!(short.come(1).is_some() && short.come(1).is_none());
        assert!(short.asked(1).is_none() && short.asked(2).is_some());
        assert!(short.contains(1) && short.contains(2));
        assert!(!short.has_room());
        // The other end frees nothing by a word about a file that is being put.
        short.forget(1);
        short.settle(2);
        assert!(!short.has_room());
        short.settle(1);
        short.settle(1);
        assert!(short.has_room());
        short.forget(2);
        assert_eq!((short.len(), short.octets), (0, 0));
    }
}
