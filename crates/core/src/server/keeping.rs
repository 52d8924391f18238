//! Files of a server: it writes them whole or not at all, tries again until they are there, and
//! tells of those that are not.
//!
//! [`Disk`] stands between a server and the file system, as `Board` stands between the firmware
//! and the world: the real one is a directory's descriptor, a simulated one is full, torn, and
//! full of files that somebody has planted. A successor can do without all of these: it needs the
//! adapter's [`Record`](super::Record) of each VC alone.

use core::fmt::Display;

use super::{Bugs, Planted, Sound};
use crate::Time;

/// From one attempt to write to the next, in nanoseconds.
const AGAIN_NS: u64 = 10_000_000_000;

/// The files of a directory. No operation follows a link.
pub trait Disk {
    /// Why an operation failed, for people.
    type Error: Display;

    /// A file's first octets, `max` at most.
    ///
    /// # Errors
    /// There is no such file, or it cannot be read.
    fn read(&mut self, name: &str, max: u64) -> Result<Vec<u8>, Self::Error>;

    /// Makes a file where nothing is, for this user's eyes only; when this comes back with success
    /// all of it is on the disk.
    ///
    /// # Errors
    /// Something is there already, or there is no room: then a part of it can be there.
    fn create(&mut self, name: &str, octets: &[u8]) -> Result<(), Self::Error>;

    /// Puts a file in place of whatever file has the other name.
    ///
    /// # Errors
    /// Both are as they were.
    fn rename(&mut self, from: &str, to: &str) -> Result<(), Self::Error>;

    /// Removes a file.
    ///
    /// # Errors
    /// It is as it was.
    fn remove(&mut self, name: &str) -> Result<(), Self::Error>;
}

/// A file that is to be on the disk, and is tried again until it is.
#[derive(Debug)]
pub struct Keeping<B = Sound> {
    name: &'static str,
    again_ns: u64,
    bugs: B,
    /// The octets that are missing on the disk, and the time of the next attempt.
    missing: Option<(Vec<u8>, Time)>,
    problem: Option<String>,
}

impl Keeping {
    /// Of the file of this name: there is nothing to keep yet.
    pub const fn new(name: &'static str) -> Self {
        Self::with_bugs(name, AGAIN_NS, Sound)
    }
}

impl<B: Bugs> Keeping<B> {
    /// The same with bugs, and another time from one attempt to the next.
    pub const fn with_bugs(name: &'static str, again_ns: u64, bugs: B) -> Self {
        Self {
            name,
            again_ns,
            bugs,
            missing: None,
            problem: None,
        }
    }

    /// Has it be there, in place of what was.
    pub fn keep(&mut self, now: Time, octets: Vec<u8>) {
        self.missing = Some((octets, now));
    }

    /// Tries, if it is time: four operations at most.
    pub fn look<D: Disk>(&mut self, now: Time, disk: &mut D) {
        let bugs = self.bugs;
        let Some((octets, due)) = self.missing.as_mut().filter(|(_, due)| *due <= now) else {
            return;
        };
        match replace(disk, self.name, octets, bugs) {
            Err(error) if !bugs.planted(Planted::FailureTaken) => {
                *due = now.plus_ns(self.again_ns);
                self.problem = Some(format!("{} cannot be written: {error}", self.name));
                if bugs.planted(Planted::NotTriedAgain) {
                    self.missing = None;
                }
                if bugs.planted(Planted::FailureNotTold) {
                    self.problem = None;
                }
            }
            _ => (self.missing, self.problem) = (None, None),
        }
    }

    /// Why it is not there.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

/// Puts `octets` in place of whatever file is at `name`, whole or not at all.
///
/// # Errors
/// The file is as it was, and no other is left beside it.
fn replace<D: Disk>(
    disk: &mut D,
    name: &str,
    octets: &[u8],
    bugs: impl Bugs,
) -> Result<(), D::Error> {
    if bugs.planted(Planted::WrittenInPlace) {
        let _ = disk.remove(name);
        return disk.create(name, octets);
    }
    let new = format!(".{name}.new");
    if !bugs.planted(Planted::RestLeft) {
        // An interrupted attempt has left its rest.
        let _ = disk.remove(&new);
    }
    let written = disk.create(&new, octets);
    let replaced = written.and_then(|()| disk.rename(&new, name));
    if replaced.is_err() && !bugs.planted(Planted::RestLeft) {
        let _ = disk.remove(&new);
    }
    replaced
}

/// The end of the server that had a state directory before, as the lock tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Former {
    /// It has ended with all that it had.
    Ended,
    /// It was killed, or has left what it had to its successor.
    Left,
    /// The directory is new, a cleaner was there, or a full disk took no word.
    Unknown,
}

impl Former {
    /// A server that ends with all that it had leaves this word in the lock. A full disk leaves an
    /// empty file.
    pub const ENDED: &'static str = "ended\n";

    /// By the lock's text; none: there was no lock.
    pub fn of(lock: Option<&str>) -> Self {
        match lock.map(str::trim) {
            None | Some("") => Self::Unknown,
            Some("ended") => Self::Ended,
            Some(_) => Self::Left,
        }
    }

    /// How long its adapter may take to make its socket again, in nanoseconds.
    pub const fn patience_ns(self) -> u64 {
        match self {
            Self::Ended => 0,
            Self::Left => 1_000_000_000,
            Self::Unknown => 300_000_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_word_of_its_own_says_that_a_server_has_ended() {
        let cases = [
            (None, Former::Unknown),
            (Some(""), Former::Unknown),
            (Some("\n"), Former::Unknown),
            (Some(Former::ENDED), Former::Ended),
            (Some("4711\n"), Former::Left),
            // Killed between the word and the cut behind it.
            (Some("47\ned\n"), Former::Left),
            (Some("somebody's\n"), Former::Left),
        ];
        for (lock, former) in cases {
            assert_eq!(Former::of(lock), former, "{lock:?}");
        }
        assert_eq!(Former::Ended.patience_ns(), 0);
    }
}
