//! What is told to somebody who may not listen: a thread of its own waits for him.
//!
//! ```text
//!  service thread --> Aside: a bounded queue --> its thread --> a pipe, a terminal, a manager
//! ```

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;

use crate::sys::name_thread;

/// What may wait to be told.
const WAITING_MAX: usize = 1_024;

/// What those who do not listen have at the end.
const END: Duration = Duration::from_millis(500);

/// Tells things in their order, and drops and counts what finds the queue full.
#[derive(Debug)]
pub(crate) struct Aside<T> {
    queue: Option<SyncSender<Said<T>>>,
    /// Gives nothing, and ends with the thread.
    end: Receiver<()>,
    /// Dropped since something was put in the queue last.
    lost: u64,
}

#[derive(Debug)]
enum Said<T> {
    This(T),
    Lost(u64),
}

impl<T> Aside<T> {
    /// Starts a thread of this name that passes on what it is told, and how much was dropped
    /// before that.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn start(
        name: &'static str,
        mut tell: impl FnMut(T) + Send + 'static,
        mut lost: impl FnMut(u64) + Send + 'static,
    ) -> io::Result<Self>
    where
        T: Send + 'static,
    {
        let (queue, said) = sync_channel(WAITING_MAX);
        let (ends, end) = sync_channel(0);
        Builder::new().name(name.to_owned()).spawn(move || {
            let _ends = ends;
            name_thread(name);
            for said in said {
                match said {
                    Said::This(what) => tell(what),
                    Said::Lost(count) => lost(count),
                }
            }
        })?;
        Ok(Self {
            queue: Some(queue),
            end,
            lost: 0,
        })
    }

    /// Has it told. Never waits.
    pub(crate) fn tell(&mut self, what: T) {
        self.tell_lost();
        if self.lost > 0 || !self.put(Said::This(what)) {
            self.lost += 1;
        }
    }

    /// Has it told that something was dropped, as soon as there is room for that.
    pub(crate) fn tell_lost(&mut self) {
        if self.lost > 0 && self.put(Said::Lost(self.lost)) {
            self.lost = 0;
        }
    }

    fn put(&self, said: Said<T>) -> bool {
        let queue = self.queue.as_ref();
        queue.is_some_and(|queue| queue.try_send(said).is_ok())
    }
}

impl<T> Drop for Aside<T> {
    /// Gives whoever listens a moment to hear the rest.
    fn drop(&mut self) {
        self.tell_lost();
        self.queue = None;
        // It ends with the thread, or is late.
        let _ = self.end.recv_timeout(END);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_listen_holds_nobody_up_and_hears_what_he_missed() {
        let (gate, opens) = sync_channel::<()>(0);
        let (told, hears) = sync_channel(10_000);
        let also = told.clone();
        let tell = move |n: u64| {
            let _ = opens.recv();
            told.send((false, n)).unwrap();
        };
        let lost = move |n| also.send((true, n)).unwrap();
        let mut aside = Aside::start("cg-test", tell, lost).unwrap();
        let all = 3 * WAITING_MAX as u64;
        (0..all).for_each(|n| aside.tell(n));
        drop(gate);
        // The first that there is room for again is the last.
        let mut last = all;
        while aside.lost > 0 {
            std::thread::yield_now();
            aside.tell(last);
            last += 1;
        }
        drop(aside);
        let heard: Vec<_> = hears.iter().collect();
        let missed: u64 = heard.iter().filter(|(lost, _)| *lost).map(|(_, n)| n).sum();
        let told: Vec<_> = heard
            .iter()
            .filter(|(lost, _)| !lost)
            .map(|(_, n)| *n)
            .collect();
        assert!(missed > WAITING_MAX as u64, "{missed}");
        assert_eq!(told.len() as u64 + missed, last);
        assert!(
            told.is_sorted() && told.last() == Some(&(last - 1)),
            "{told:?}"
        );
    }
}
