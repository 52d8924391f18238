//! What comes out of a pipe: its octets are there once, and nobody knows how many there will be.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use cellgate_core::terminal::{CONTENT_MAX, Source};

use super::disk::{Digest, Digesting, DiskLen};

/// A disk-PDU as a whole.
#[derive(Debug)]
struct Part {
    octets: Vec<u8>,
    digest: Option<Digest>,
}

#[derive(Debug, Default)]
struct State {
    parts: VecDeque<Part>,
    /// Octets before the first of them.
    start: u64,
    /// Up to where disk-PDUs may be sent: it is known whether each is the last.
    shown: u64,
    end: Option<u64>,
    fault: Option<String>,
    is_left: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `is_so`.
    fn until(&self, is_so: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let state = self.changed.wait_while(self.state(), |state| !is_so(state));
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pipe that a thread reads, disk-PDU by disk-PDU, into memory: as many as a window has octets,
/// and one, of which nobody knows whether it is the last.
#[derive(Debug)]
pub struct Pipe {
    shared: Arc<Shared>,
    disk_len: u64,
}

impl Pipe {
    /// Reads from `from`, at most so far ahead. Waits until the first disk-PDU has come, or the
    /// end.
    ///
    /// # Errors
    /// There is no thread for it, or nothing can be read.
    pub fn new(
        from: impl Read + Send + 'static,
        disk_len: DiskLen,
        window: u64,
    ) -> Result<Self, String> {
        let shared = Arc::new(Shared::default());
        let disk_len = u64::from(disk_len.octets());
        let reads = Arc::clone(&shared);
        thread::Builder::new()
            .name("pipe".to_owned())
            .spawn(move || read(from, &reads, disk_len, window))
            .map_err(|error| format!("no thread for the pipe: {error}"))?;
        let mut state = shared.until(|state| state.shown > 0 || state.end.is_some());
        let fault = state.fault.take();
        drop(state);
        fault.map_or(Ok(Self { shared, disk_len }), Err)
    }

    /// All of it, if it has ended by now and is short.
    pub(super) fn content(&self) -> Option<Vec<u8>> {
        let state = self.shared.state();
        let is_short = state.start == 0 && state.end.is_some_and(|end| end <= CONTENT_MAX);
        let octets = state.parts.front().map(|part| part.octets.clone());
        is_short.then(|| octets.unwrap_or_default())
    }
}

/// Whoever sends it has ended: the thread is told.
impl Drop for Pipe {
    fn drop(&mut self) {
        self.shared.state().is_left = true;
        self.shared.changed.notify_all();
    }
}

fn read(mut from: impl Read, shared: &Shared, disk_len: u64, window: u64) {
    let mut at = 0;
    loop {
        // What is shown and not acknowledged is a window, or a disk-PDU that is longer.
        let state = shared.until(|state| {
            state.is_left || state.shown.saturating_sub(state.start) < window.max(1)
        });
        if state.is_left {
            return;
        }
        drop(state);
        let mut octets = vec![0; disk_len as usize];
        let mut len = 0;
        let mut fault = None;
        while len < octets.len() {
            match from.read(&mut octets[len..]) {
                Ok(0) => break,
                Ok(read) => {
                    if len == 0 {
                        // What came before is not the last.
                        shared.state().shown = at;
                        shared.changed.notify_all();
                    }
                    len += read;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    fault = Some(format!("reading the pipe: {error}"));
                    break;
                }
            }
        }
        let is_end = len < octets.len();
        octets.truncate(len);
        let digest = Digesting::new(at).octets(&octets).digest();
        let mut state = shared.state();
        at += len as u64;
        if len > 0 {
            state.parts.push_back(Part { octets, digest });
        }
        if is_end {
            (state.shown, state.end, state.fault) = (at, Some(at), fault);
            shared.changed.notify_all();
            return;
        }
    }
}

impl Source for Pipe {
    fn read(&mut self, at: u64, into: &mut [u8]) {
        let state = self.shared.state();
        let place = at.checked_sub(state.start);
        let part = place.and_then(|place| state.parts.get((place / self.disk_len) as usize));
        let from = (at % self.disk_len) as usize;
        // No PDU has octets of two disk-PDUs, and none that is acknowledged is read.
        if let Some(octets) = part.and_then(|part| part.octets.get(from..from + into.len())) {
            into.copy_from_slice(octets);
        }
    }

    fn data(&mut self, at: u64, end: u64) -> Range<u64> {
        at..self.shared.state().shown.min(end).max(at)
    }

    fn end(&mut self) -> Option<u64> {
        self.shared.state().end
    }

    fn fault(&mut self) -> Option<String> {
        self.shared.state().fault.clone()
    }

    fn tail(&mut self, end: u64, tail: &mut [u8]) {
        let state = self.shared.state();
        let place = end.saturating_sub(1).checked_sub(state.start);
        let part = place.and_then(|place| state.parts.get((place / self.disk_len) as usize));
        if let Some(digest) = part.and_then(|part| part.digest) {
            tail.copy_from_slice(&digest.0);
        }
    }

    fn release(&mut self, at: u64) {
        let mut state = self.shared.state();
        while let Some(part) = state.parts.front()
            && state.start + part.octets.len() as u64 <= at
        {
            state.start += part.octets.len() as u64;
            state.parts.pop_front();
        }
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Octets that come in pieces of odd lengths.
    struct Pieces(Vec<u8>, usize);

    impl Read for Pieces {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            self.1 = (self.1 * 7 + 3) % 60_000;
            let len = self.0.len().min(into.len()).min(self.1 + 1);
            into[..len].copy_from_slice(&self.0[..len]);
            self.0.drain(..len);
            Ok(len)
        }
    }

    #[test]
    fn a_pipe_shows_whole_disk_pdus_and_holds_a_window_and_one() {
        let disk_len = u64::from(DiskLen::MIN.octets());
        for len in [disk_len - 1, disk_len, 4 * disk_len, 9 * disk_len + 5] {
            let octets: Vec<u8> = (0..len).map(|at| ((at * at) >> 8) as u8).collect();
            let from = Pieces(octets.clone(), 1);
            let mut pipe = Pipe::new(from, DiskLen::MIN, 100_000).unwrap();
            let (mut at, mut came) = (0, Vec::new());
            while pipe.end() != Some(at) {
                let seen = pipe.shared.until(|state| state.shown > at);
                let held: usize = seen.parts.iter().map(|part| part.octets.len()).sum();
                assert!(held as u64 <= 3 * disk_len, "{held}");
                drop(seen);
                let data = pipe.data(at, u64::MAX);
                let end = data.end.min(at + disk_len);
                assert!(end % disk_len == 0 || pipe.end() == Some(end));
                let mut piece = vec![0; (end - at) as usize];
                pipe.read(at, &mut piece);
                let mut tail = [0; 32];
                pipe.tail(end, &mut tail);
                let digest = Digesting::new(at).octets(&piece).digest();
                assert_eq!(Some(Digest(tail)), digest);
                came.extend(piece);
                at = end;
                pipe.release(at);
            }
            assert!(came == octets, "{len}");
        }
    }

    #[test]
    fn a_pipe_that_ends_soon_is_its_content() {
        for octets in [&b""[..], b"short"] {
            let pipe = Pipe::new(octets, DiskLen::MIN, 1).unwrap();
            assert_eq!(pipe.content().as_deref(), Some(octets));
        }
        let long = vec![1; CONTENT_MAX as usize + 1];
        let pipe = Pipe::new(std::io::Cursor::new(long), DiskLen::DEFAULT, 1).unwrap();
        assert_eq!(pipe.content(), None);
    }

    #[test]
    fn what_cannot_be_read_of_a_pipe_is_told() {
        struct Broken(bool);
        impl Read for Broken {
            fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                let is_first = std::mem::take(&mut self.0);
                is_first
                    .then_some(into.len())
                    .ok_or_else(|| std::io::Error::other("gone"))
            }
        }
        let mut pipe = Pipe::new(Broken(true), DiskLen::MIN, 1).unwrap_err();
        assert!(pipe.contains("gone"), "{pipe}");
        pipe.clear();
    }
}
