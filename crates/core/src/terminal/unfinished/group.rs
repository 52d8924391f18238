use super::digest::Digest;
use super::{Held, Volume, unless};
use crate::terminal::Planted;

/// Small files that are written whole and synced together. Dropped, it leaves nothing behind.
pub struct Group<V: Volume> {
    volume: V,
    members: Vec<Member<V>>,
}

struct Member<V: Volume> {
    path: V::Path,
    held: V::Held,
    overwrite: bool,
}

/// Files that could not have their names, and why.
pub type Nameless<V> = Vec<(<V as Volume>::Path, <V as Volume>::Error)>;

impl<V: Volume> Group<V> {
    /// Files of a group: each takes a descriptor of a host.
    pub const MAX: usize = 128;

    pub const fn new(volume: V) -> Self {
        Self {
            volume,
            members: Vec::new(),
        }
    }

    /// Where they are put.
    pub const fn volume(&self) -> &V {
        &self.volume
    }

    /// Files that are in it.
    pub const fn len(&self) -> usize {
        self.members.len()
    }

    pub const fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether it takes no more.
    pub const fn is_full(&self) -> bool {
        self.members.len() >= Self::MAX
    }

    /// Writes a file that is to be at `path`, and gives it permissions, owner and time; its root. A
    /// file that was unfinished is replaced.
    ///
    /// # Errors
    /// The group is full; there is no room; somebody receives the file; it cannot be there.
    pub fn add(
        &mut self,
        path: &V::Path,
        traits: &V::Traits,
        octets: &[u8],
        overwrite: bool,
    ) -> Result<Digest, V::Error> {
        if self.is_full() {
            return Err(self.volume.too_many(path));
        }
        let held = self.volume.take(path)?;
        let member = Member::<V> {
            path: path.clone(),
            held,
            overwrite,
        };
        let held = &member.held;
        let made = held.make_parents();
        let written = made.and_then(|()| held.write_whole(octets));
        match written.and_then(|()| {
            unless(held, Planted::GroupTraitsForgotten, |held| {
                held.give(traits)
            })
        }) {
            Ok(()) => {
                self.members.push(member);
                Ok(Digest::of_file(octets))
            }
            Err(error) => {
                member.remove();
                member.held.leave();
                Err(error)
            }
        }
    }

    /// Syncs all at once and gives each file its name. Which ones could not have theirs, and why:
    /// they are removed.
    ///
    /// # Errors
    /// The disk failed or is full: no file has its name, and all are removed.
    pub fn finish(&mut self) -> Result<Nameless<V>, V::Error> {
        let members = std::mem::take(&mut self.members);
        let Some(last) = members.last() else {
            return Ok(Vec::new());
        };
        let has = |bug| last.held.has(bug);
        let is_late = has(Planted::GroupNamedBeforeSync);
        let mut synced = match is_late {
            true => Ok(()),
            false => unless(&last.held, Planted::GroupNotSynced, V::Held::sync_disk),
        };
        if has(Planted::FailedGroupNamed) {
            synced = Ok(());
        }
        let mut failed = Vec::new();
        // Files of one directory come together: the last of each syncs it for all of them.
        let mut named: Vec<&Member<V>> = Vec::new();
        for member in &members {
            let published = synced
                .is_ok()
                .then(|| member.held.publish(member.overwrite));
            match published {
                Some(Ok(())) => {
                    if named
                        .first()
                        .is_some_and(|first| !first.held.is_beside(&member.held))
                    {
                        match has(Planted::OneDirectorySynced) {
                            true => named.clear(),
                            false => sync_names(&mut named, &mut failed),
                        }
                    }
                    named.push(member);
                    let _ = member.held.remove_journal();
                }
                Some(Err(error)) => {
                    failed.push((member.path.clone(), error));
                    member.remove();
                }
                None => member.remove(),
            }
        }
        if is_late {
            synced = last.held.sync_disk();
        }
        last.held.leave();
        if !has(Planted::GroupNamesNotSynced) {
            sync_names(&mut named, &mut failed);
        }
        synced.map(|()| failed)
    }
}

/// Has the names of files of one directory outlive a power failure.
fn sync_names<V: Volume>(named: &mut Vec<&Member<V>>, failed: &mut Vec<(V::Path, V::Error)>) {
    let named = std::mem::take(named);
    let Some(Err(error)) = named.last().map(|last| last.held.sync_name()) else {
        return;
    };
    // The disk says it once: the others would hear that all is well.
    let lost = named
        .iter()
        .map(|member| (member.path.clone(), member.held.lost()));
    failed.extend(lost.skip(1));
    failed.extend(named.first().map(|first| (first.path.clone(), error)));
}

impl<V: Volume> Drop for Group<V> {
    fn drop(&mut self) {
        self.members.iter().for_each(Member::remove);
        if let Some(last) = self.members.last() {
            last.held.leave();
        }
    }
}

impl<V: Volume> Member<V> {
    /// Removes what is left of it: whoever lists what is left finds what cannot be removed.
    fn remove(&self) {
        let _ = self.held.remove_journal();
        let _ = self.held.remove();
    }
}
