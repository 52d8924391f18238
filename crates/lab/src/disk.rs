//! A disk that fills up, is torn, loses files, and holds what somebody has planted.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use cellgate_core::server::Disk;

/// What somebody may have at a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thing {
    File(Vec<u8>),
    Directory,
    /// A link to a file of somebody else.
    Link,
    Socket,
}

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskError {
    /// Nothing has this name.
    NotFound,
    /// Something has this name.
    Exists,
    /// What has this name is no file.
    NoFile,
    /// There is no room.
    Full,
    /// The process was killed.
    Killed,
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "no such file",
            Self::Exists => "the file exists",
            Self::NoFile => "not a file",
            Self::Full => "no space left on the device",
            Self::Killed => "the process was killed",
        })
    }
}

#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    /// What is where.
    pub things: BTreeMap<String, Thing>,
    /// Octets that it has room for.
    pub room: usize,
    /// Operations until the process that uses it is killed.
    pub life: u32,
    /// So many octets of what that process makes then are written; more: as many as fit.
    pub torn: usize,
}

impl Default for SimulatedDisk {
    fn default() -> Self {
        Self {
            things: BTreeMap::new(),
            room: usize::MAX,
            life: u32::MAX,
            torn: usize::MAX,
        }
    }
}

impl SimulatedDisk {
    /// Whether the process that uses it was killed.
    pub fn has_killed(&self) -> bool {
        self.life == 0
    }

    /// The octets of the file of this name.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        match self.things.get(name)? {
            Thing::File(octets) => Some(octets),
            _ => None,
        }
    }

    /// Writes over the file of this name, and cuts it there; made if there is none. What a file
    /// has it keeps: on a full disk, too.
    ///
    /// # Errors
    /// What has this name is no file, or there is no room: then it is empty.
    pub fn overwrite(&mut self, name: &str, octets: &[u8]) -> Result<(), DiskError> {
        self.lives()?;
        let len = match self.things.get(name) {
            None => 0,
            Some(Thing::File(before)) => before.len(),
            Some(_) => return Err(DiskError::NoFile),
        };
        let fits = octets.len() <= len + self.free();
        let octets = if fits { octets.to_vec() } else { Vec::new() };
        self.things.insert(name.to_owned(), Thing::File(octets));
        fits.then_some(()).ok_or(DiskError::Full)
    }

    fn lives(&mut self) -> Result<(), DiskError> {
        self.life = self.life.saturating_sub(1);
        match self.has_killed() {
            true => Err(DiskError::Killed),
            false => Ok(()),
        }
    }

    fn free(&self) -> usize {
        let len = |thing: &Thing| match thing {
            Thing::File(octets) => octets.len(),
            _ => 0,
        };
        let used: usize = self.things.values().map(len).sum();
        self.room.saturating_sub(used)
    }
}

impl Disk for SimulatedDisk {
    type Error = DiskError;

    fn read(&mut self, name: &str, max: u64) -> Result<Vec<u8>, DiskError> {
        match self.things.get(name) {
            Some(Thing::File(octets)) => {
                let max = usize::try_from(max).unwrap_or(usize::MAX);
                Ok(octets[..octets.len().min(max)].to_vec())
            }
            Some(_) => Err(DiskError::NoFile),
            None => Err(DiskError::NotFound),
        }
    }

    fn create(&mut self, name: &str, octets: &[u8]) -> Result<(), DiskError> {
        let lives = self.lives();
        if self.things.contains_key(name) {
            return lives.and(Err(DiskError::Exists));
        }
        let fits = self.free().min(octets.len());
        // Killed in the middle of it, it leaves a part.
        let written = lives.map_or(fits.min(self.torn), |()| fits);
        let part = octets[..written].to_vec();
        self.things.insert(name.to_owned(), Thing::File(part));
        match written == octets.len() {
            true => lives,
            false => lives.and(Err(DiskError::Full)),
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.lives()?;
        if self.things.get(to) == Some(&Thing::Directory) {
            return Err(DiskError::NoFile);
        }
        let thing = self.things.remove(from).ok_or(DiskError::NotFound)?;
        self.things.insert(to.to_owned(), thing);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.lives()?;
        match self.things.get(name) {
            Some(Thing::Directory) => Err(DiskError::NoFile),
            Some(_) => {
                self.things.remove(name);
                Ok(())
            }
            None => Err(DiskError::NotFound),
        }
    }
}
