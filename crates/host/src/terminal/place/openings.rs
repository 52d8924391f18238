//! Opening a file takes as long as the disk needs: all that is there of it is read. The terminal
//! goes on meanwhile, so that the other end hears of it.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::terminal::disk::PathBelow;

/// Files that are opened at a time.
const OPENINGS_MAX: usize = 8;
/// A quick opening is waited for, for so long.
const QUICK: Duration = Duration::from_millis(20);

/// Files that are being opened, each by a thread of its own. Of one that nobody takes, the thread
/// drops what it opened.
#[derive(Debug)]
pub(super) struct Openings<T>(BTreeMap<PathBelow, Receiver<T>>);

impl<T> Default for Openings<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Send + 'static> Openings<T> {
    /// Whether a file of this path is being opened, or was and is not taken:
    /// [`Openings::open`] takes it.
    pub(super) fn is_under_way(&self, path: &PathBelow) -> bool {
        self.0.contains_key(path)
    }

    /// Opens a file, or takes it if it has been opened since it was asked for: none if that takes
    /// its time, and it is to be asked for again.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(super) fn open(
        &mut self,
        path: &PathBelow,
        open: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>, String> {
        let (opening, wait) = match self.0.remove(path) {
            Some(opening) => (opening, Duration::ZERO),
            None if self.0.len() >= OPENINGS_MAX => return Ok(None),
            None => {
                let (opens, opening) = channel();
                thread::Builder::new()
                    .name("opening".to_owned())
                    .spawn(move || drop(opens.send(open())))
                    .map_err(|error| format!("no thread to open a file: {error}"))?;
                (opening, QUICK)
            }
        };
        match opening.recv_timeout(wait) {
            Ok(opened) => Ok(Some(opened)),
            Err(RecvTimeoutError::Timeout) => {
                self.0.insert(path.clone(), opening);
                Ok(None)
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err("the thread that opened the file has ended".to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::time::Instant;

    use super::*;

    fn path(name: &str) -> PathBelow {
        PathBelow::new(name.as_bytes()).unwrap()
    }

    /// Asks until it is opened.
    fn taken<T: Send + 'static>(
        openings: &mut Openings<T>,
        name: &str,
        open: fn() -> T,
    ) -> Result<T, String> {
        let begun = Instant::now();
        loop {
            if let Some(opened) = openings.open(&path(name), open)? {
                return Ok(opened);
            }
            assert!(begun.elapsed() < Duration::from_secs(60));
        }
    }

    #[test]
    fn a_slow_disk_is_not_waited_for_and_what_it_opened_is_taken_later() {
        let mut openings = Openings::default();
        assert_eq!(openings.open(&path("quick"), || 1), Ok(Some(1)));
        let (ends, end) = channel();
        let slow = move || end.recv().unwrap();
        assert_eq!(openings.open(&path("slow"), slow), Ok(None));
        assert!(openings.is_under_way(&path("slow")));
        assert!(!openings.is_under_way(&path("quick")));
        // Asked for again it is not opened a second time, and others are opened beside it.
        assert_eq!(openings.open(&path("slow"), || 3), Ok(None));
        assert_eq!(openings.open(&path("quick"), || 4), Ok(Some(4)));
        ends.send(2).unwrap();
        assert_eq!(taken(&mut openings, "slow", || 3), Ok(2));
        assert!(!openings.is_under_way(&path("slow")));
    }

    #[test]
    fn so_many_are_opened_at_a_time_and_no_more() {
        let mut openings = Openings::default();
        let mut ends: Vec<Sender<()>> = Vec::new();
        for n in 0..=OPENINGS_MAX {
            let (end, waits) = channel();
            let opened = openings.open(&path(&format!("of-{n}")), move || waits.recv().is_ok());
            assert_eq!(opened, Ok(None));
            assert_eq!(
                openings.is_under_way(&path(&format!("of-{n}"))),
                n < OPENINGS_MAX
            );
            ends.push(end);
        }
    }

    #[test]
    fn who_panics_while_it_opens_is_an_error() {
        let mut openings = Openings::<()>::default();
        let opened = taken(&mut openings, "panics", || panic!("as is wanted here"));
        assert!(opened.unwrap_err().contains("has ended"));
    }
}
