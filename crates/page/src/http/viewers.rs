//! Those who look, and what they are sent.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::broadcast::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::lock;
use crate::view;
use crate::watch::Look;

/// Octets a second that a viewer is sent, as soon as there is more to tell.
const OCTETS_PER_S: u64 = 100_000;
/// Messages that wait for a viewer; one that leaves more unread is dropped.
const BEHIND_MAX: usize = 8;
/// The most that a message waits for the one before, however long that was.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// When a viewer that is cut off comes again: half a second.
const AGAIN: &[u8] = b"retry: 500\n";
/// From one sign of life to the next where nothing changes.
const ALIVE: Duration = Duration::from_secs(5);

/// Those who look, and what they have been shown.
#[derive(Debug)]
pub(super) struct Viewers {
    shown: Mutex<Shown>,
    sender: Sender<Bytes>,
    places: Arc<Semaphore>,
}

#[derive(Debug)]
struct Shown {
    /// The last look.
    newest: Arc<Result<Look, String>>,
    /// What all viewers know.
    told: Arc<Result<Look, String>>,
    /// That as one message, once somebody has asked for it.
    whole: Option<Bytes>,
    /// Nothing is sent before.
    from: Instant,
    /// When something was sent last.
    last: Instant,
}

/// One who looks.
pub(super) struct Viewer {
    /// All that there is to see.
    pub(super) whole: Bytes,
    /// What changes from there on.
    pub(super) changes: Receiver<Bytes>,
    /// Kept as long as it looks.
    pub(super) place: OwnedSemaphorePermit,
}

impl Viewers {
    /// As many as `most`.
    pub(super) fn new(most: usize) -> Self {
        let now = Instant::now();
        let nothing = Arc::new(Err("not looked yet".to_owned()));
        Self {
            shown: Mutex::new(Shown {
                newest: Arc::clone(&nothing),
                told: nothing,
                whole: None,
                from: now,
                last: now,
            }),
            sender: channel(BEHIND_MAX).0,
            places: Arc::new(Semaphore::new(most)),
        }
    }

    /// What was seen last.
    pub(super) fn newest(&self) -> Arc<Result<Look, String>> {
        Arc::clone(&lock(&self.shown).newest)
    }

    /// Shows a look to all, unless they are to be told no more for a moment.
    pub(super) fn publish(&self, look: Result<Look, String>) {
        let now = Instant::now();
        let mut shown = lock(&self.shown);
        shown.newest = Arc::new(look);
        if now < shown.from {
            return;
        }
        let message = match (&*shown.told, &*shown.newest) {
            (Ok(before), Ok(look)) => {
                view::changes(before, look).map(|text| event("change", &text))
            }
            (Err(_), Ok(look)) => Some(event("state", &view::whole(look))),
            (Err(before), Err(why)) if before == why => None,
            (_, Err(why)) => Some(event("gone", why)),
        };
        let alive = now.duration_since(shown.last) >= ALIVE;
        let message = message.or_else(|| alive.then(|| Bytes::from_static(b": \n\n")));
        let Some(message) = message else {
            return;
        };
        let ns = message.len() as u64 * 1_000_000_000 / OCTETS_PER_S;
        shown.from = now + Duration::from_nanos(ns).min(WAIT_MAX);
        shown.last = now;
        shown.told = Arc::clone(&shown.newest);
        shown.whole = None;
        // Nobody looks: nothing is sent.
        let _ = self.sender.send(message);
    }

    /// Lets one more look; none: there is no room.
    pub(super) fn admit(&self) -> Option<Viewer> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let mut shown = lock(&self.shown);
        let told = Arc::clone(&shown.told);
        let whole = shown.whole.get_or_insert_with(|| {
            let first = match &*told {
                Ok(look) => event("state", &view::whole(look)),
                Err(why) => event("gone", why),
            };
            [AGAIN, &first].concat().into()
        });
        Some(Viewer {
            whole: whole.clone(),
            changes: self.sender.subscribe(),
            place,
        })
    }
}

/// One event (HTML Standard, section 9.2). JSON has no line ends.
pub(super) fn event(name: &str, data: &str) -> Bytes {
    let data = data.replace(['\r', '\n'], " ");
    format!("event: {name}\ndata: {data}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::stats;

    fn text(bytes: &Bytes) -> String {
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn who_comes_sees_all_and_then_what_changes() {
        let viewers = Viewers::new(2);
        let mut look = Look {
            stats: stats(),
            ..Look::default()
        };
        viewers.publish(Ok(look.clone()));
        let mut viewer = viewers.admit().unwrap();
        assert!(text(&viewer.whole).starts_with("retry: 500\nevent: state\ndata: {"));
        assert!(viewer.changes.try_recv().is_err());
        // Not at once: a message makes all wait for its length.
        std::thread::sleep(Duration::from_millis(100));
        look.stats.connections[0].stats.pdus_delivered = 5;
        viewers.publish(Ok(look.clone()));
        let change = text(&viewer.changes.try_recv().unwrap());
        assert!(change.starts_with("event: change\ndata: {"), "{change}");
        std::thread::sleep(Duration::from_millis(100));
        viewers.publish(Err("no\nserver".to_owned()));
        let gone = text(&viewer.changes.try_recv().unwrap());
        assert_eq!(gone, "event: gone\ndata: no server\n\n");
        let late = viewers.admit().unwrap();
        assert_eq!(text(&late.whole), format!("retry: 500\n{gone}"));
        assert!(viewers.admit().is_none());
        drop(viewer);
        assert!(viewers.admit().is_some());
    }

    #[test]
    fn long_messages_are_sent_the_more_seldom_and_nothing_is_missed() {
        let viewers = Viewers::new(1);
        let mut look = Look {
            stats: stats(),
            ..Look::default()
        };
        viewers.publish(Ok(look.clone()));
        let mut viewer = viewers.admit().unwrap();
        for count in 1..=20 {
            look.stats.connections[0].stats.pdus_delivered = count;
            viewers.publish(Ok(look.clone()));
        }
        assert!(viewer.changes.try_recv().is_err(), "the first has its time");
        std::thread::sleep(Duration::from_millis(100));
        viewers.publish(Ok(look));
        let change = text(&viewer.changes.try_recv().unwrap());
        assert!(change.contains("[[1,0,0,0,0,20,"), "{change}");
    }
}
