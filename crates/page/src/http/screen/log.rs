//! What of a stream is kept for those who watch: one log for all, and a place in it for each.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::WatchStream;

use super::super::lock;

/// Octets that are kept: from the last entry on, and for whoever is slow.
pub(super) const KEPT: usize = 16 << 20;
/// A viewer that is so far behind has to begin anew where there is an entry that it has not seen.
pub(super) const BEHIND: Duration = Duration::from_secs(3);
/// Octets that a viewer is given at once.
const GIVEN: usize = 64 << 10;

/// The newest part of a stream.
#[derive(Debug)]
pub(super) struct Log {
    kept: Mutex<Kept>,
    /// Counts what has come, so that who waits is woken.
    woken: watch::Sender<u64>,
    places: Arc<Semaphore>,
    /// Viewers that were behind when they ended.
    behind: AtomicU64,
}

#[derive(Debug, Default)]
struct Kept {
    chunks: VecDeque<Chunk>,
    /// The number of the first chunk that is kept.
    first: u64,
    octets: usize,
    /// The chunk with which a viewer can begin, and what it needs before.
    entry: Option<(u64, Bytes)>,
    /// How often all has begun anew.
    runs: u64,
}

#[derive(Debug)]
struct Chunk {
    octets: Bytes,
    came: Instant,
}

/// What a viewer finds.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Octets(Vec<Bytes>),
    /// It has seen all there is.
    Nothing,
    /// It is to come again.
    Over,
}

impl Log {
    /// For as many viewers as `most`.
    pub(super) fn new(most: usize) -> Self {
        Self {
            kept: Mutex::default(),
            woken: watch::Sender::new(0),
            places: Arc::new(Semaphore::new(most)),
            behind: AtomicU64::new(0),
        }
    }

    /// Whole packets. With `tables` a viewer can begin with them.
    pub(super) fn add(&self, octets: Vec<u8>, tables: Option<Vec<u8>>) {
        let octets = Bytes::from(octets);
        {
            let mut kept = lock(&self.kept);
            if let Some(tables) = tables {
                kept.entry = Some((kept.end(), tables.into()));
            }
            kept.octets += octets.len();
            kept.chunks.push_back(Chunk {
                octets,
                came: Instant::now(),
            });
            while kept.octets > KEPT
                && let Some(oldest) = kept.chunks.pop_front()
            {
                kept.octets -= oldest.octets.len();
                kept.first += 1;
            }
            let first = kept.first;
            kept.entry = kept.entry.take().filter(|(at, _)| *at >= first);
        }
        self.woken.send_modify(|count| *count += 1);
    }

    /// Whatever comes has nothing to do with what came: all viewers come again.
    pub(super) fn anew(&self) {
        {
            let mut kept = lock(&self.kept);
            kept.first = kept.end();
            kept.chunks.clear();
            kept.octets = 0;
            kept.entry = None;
            kept.runs += 1;
        }
        self.woken.send_modify(|count| *count += 1);
    }

    /// Lets one more watch; none: there is no room.
    pub(super) fn admit(self: &Arc<Self>) -> Option<Viewing> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let woken = WatchStream::new(self.woken.subscribe());
        let run = lock(&self.kept).runs;
        Some(Viewing {
            log: Arc::clone(self),
            _place: place,
            run,
            next: None,
            is_behind: false,
            woken,
        })
    }

    /// Viewers now.
    pub(super) fn viewers(&self, most: usize) -> usize {
        most.saturating_sub(self.places.available_permits())
    }

    /// Viewers that were behind when they ended.
    pub(super) fn behind(&self) -> u64 {
        self.behind.load(Ordering::Relaxed)
    }
}

impl Kept {
    fn end(&self) -> u64 {
        self.first + self.chunks.len() as u64
    }

    /// Whether the chunk that comes next for a viewer is too old for it.
    fn is_behind(&self, next: u64) -> bool {
        let Some(ahead) = next.checked_sub(self.first) else {
            return true;
        };
        let chunk = usize::try_from(ahead).ok();
        let chunk = chunk.and_then(|ahead| self.chunks.get(ahead));
        chunk.is_some_and(|chunk| chunk.came.elapsed() > BEHIND)
    }

    /// What stands from `next` on, as much as is given at once.
    fn from(&self, next: &mut u64) -> Vec<Bytes> {
        let mut given = Vec::new();
        let mut octets = 0;
        let ahead = usize::try_from(next.saturating_sub(self.first)).unwrap_or(usize::MAX);
        for chunk in self.chunks.iter().skip(ahead) {
            if octets > 0 && octets + chunk.octets.len() > GIVEN {
                break;
            }
            octets += chunk.octets.len();
            given.push(chunk.octets.clone());
            *next += 1;
        }
        given
    }
}

/// One who watches.
#[derive(Debug)]
pub(super) struct Viewing {
    log: Arc<Log>,
    /// Kept as long as it watches.
    _place: OwnedSemaphorePermit,
    /// How often all had begun anew when it came.
    run: u64,
    /// The chunk that it has not seen; none: it waits for an entry.
    next: Option<u64>,
    /// It has to come again because it was too slow.
    is_behind: bool,
    woken: WatchStream<u64>,
}

impl Viewing {
    fn find(&mut self) -> Found {
        let kept = lock(&self.log.kept);
        if self.run != kept.runs {
            return Found::Over;
        }
        let Some(next) = &mut self.next else {
            let Some((at, tables)) = &kept.entry else {
                return Found::Nothing;
            };
            let mut found = vec![tables.clone()];
            let next = self.next.insert(*at);
            found.extend(kept.from(next));
            return Found::Octets(found);
        };
        let has_later = kept.entry.as_ref().is_some_and(|(at, _)| *at > *next);
        if *next < kept.first || has_later && kept.is_behind(*next) {
            self.is_behind = true;
            return Found::Over;
        }
        match kept.from(next) {
            found if found.is_empty() => Found::Nothing,
            found => Found::Octets(found),
        }
    }
}

impl Stream for Viewing {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            match self.find() {
                Found::Octets(found) => return Poll::Ready(Some(joined(found))),
                Found::Over => return Poll::Ready(None),
                // What comes between is seen: the count has changed.
                Found::Nothing => {
                    if ready!(Pin::new(&mut self.woken).poll_next(context)).is_none() {
                        return Poll::Ready(None);
                    }
                }
            }
        }
    }
}

impl Drop for Viewing {
    fn drop(&mut self) {
        let kept = lock(&self.log.kept);
        // One that was given up because it took nothing has not been asked before.
        let is_unread = self.run == kept.runs && self.next.is_some_and(|next| kept.is_behind(next));
        if self.is_behind || is_unread {
            self.log.behind.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn joined(mut parts: Vec<Bytes>) -> Bytes {
    match parts.len() {
        1 => parts.remove(0),
        _ => {
            let mut all = BytesMut::with_capacity(parts.iter().map(Bytes::len).sum());
            parts.iter().for_each(|part| all.extend_from_slice(part));
            all.freeze()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(viewing: &mut Viewing) -> Option<Vec<u8>> {
        match viewing.find() {
            Found::Octets(found) => Some(joined(found).to_vec()),
            Found::Nothing => Some(Vec::new()),
            Found::Over => None,
        }
    }

    #[test]
    fn a_late_viewer_begins_at_the_last_entry_behind_its_tables() {
        let log = Arc::new(Log::new(2));
        let mut early = log.admit().unwrap();
        log.add(b"lost".to_vec(), None);
        assert_eq!(take(&mut early).unwrap(), b"", "it waits for an entry");
        log.add(b"one,".to_vec(), Some(b"tables:".to_vec()));
        log.add(b"two,".to_vec(), None);
        assert_eq!(take(&mut early).unwrap(), b"tables:one,two,");
        log.add(b"three,".to_vec(), Some(b"others:".to_vec()));
        let mut late = log.admit().unwrap();
        assert!(log.admit().is_none(), "there is no room");
        assert_eq!(log.viewers(2), 2);
        assert_eq!(take(&mut early).unwrap(), b"three,");
        assert_eq!(take(&mut late).unwrap(), b"others:three,");
        for viewer in [&mut early, &mut late] {
            assert_eq!(take(viewer).unwrap(), b"");
        }
        log.anew();
        assert_eq!(take(&mut late), None);
        let mut next = {
            drop((early, late));
            log.admit().unwrap()
        };
        assert_eq!(take(&mut next).unwrap(), b"", "nothing of before");
        assert_eq!(log.behind(), 0);
    }

    #[test]
    fn what_is_kept_has_a_bound_and_who_does_not_read_ends() {
        let log = Arc::new(Log::new(2));
        log.add(vec![1; 1_000], Some(Vec::new()));
        let mut viewing = log.admit().unwrap();
        assert_eq!(take(&mut viewing).unwrap().len(), 1_000);
        let unread = log.admit().unwrap();
        for _ in 0..2 * KEPT / GIVEN {
            log.add(vec![2; GIVEN], None);
        }
        let kept = lock(&log.kept).octets;
        assert!(kept <= KEPT, "{kept}");
        assert_eq!(take(&mut viewing), None, "what it has not read is gone");
        drop((viewing, unread));
        assert_eq!(log.behind(), 1, "one waited for an entry");
        let mut next = log.admit().unwrap();
        assert_eq!(take(&mut next).unwrap(), b"", "the entry is gone, too");
    }

    #[test]
    fn a_viewer_that_is_behind_ends_where_there_is_a_later_entry() {
        let log = Arc::new(Log::new(1));
        log.add(b"old".to_vec(), Some(Vec::new()));
        lock(&log.kept).chunks[0].came = Instant::now() - 2 * BEHIND;
        let mut viewing = log.admit().unwrap();
        assert_eq!(take(&mut viewing).unwrap(), b"old", "there is no newer one");
        log.add(b"older".to_vec(), None);
        lock(&log.kept).chunks[1].came = Instant::now() - 2 * BEHIND;
        log.add(b"new".to_vec(), Some(Vec::new()));
        assert_eq!(take(&mut viewing), None);
        drop(viewing);
        assert_eq!(log.behind(), 1);
        assert_eq!(take(&mut log.admit().unwrap()).unwrap(), b"new");
    }
}
