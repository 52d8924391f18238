//! Descriptors that others have given, and the threads that close them.
//!
//! ```text
//!  control socket --> Closer, held by whom it concerns --> dropped --> waiting --> reaper: close
//! ```
//!
//! Whoever closes the last descriptor of a file waits for its end, and that takes as long as its
//! author likes: a TCP socket lingers, FUSE asks a program of his, a Unix socket takes along
//! whatever lies unread in it. No thread that serves others does that.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::sys::{interrupt, let_interrupt, name_thread};

/// Threads that close. There is another as soon as all before have something to do.
const REAPERS_MAX: usize = 8;

/// Descriptors that wait to be closed before no others are taken. Far fewer than a process may
/// have: at its limit the kernel closes what is sent to it, on the thread that receives.
const WAITING_MAX: usize = 1_024;

static REAPERS: Reapers = Reapers {
    yard: Mutex::new(Yard {
        waiting: VecDeque::new(),
        idle: 0,
        threads: Vec::new(),
    }),
    arrival: Condvar::new(),
};

/// A descriptor that somebody else has made, or through which others send theirs: it is closed by
/// a thread that nobody waits for, whoever drops it.
#[derive(Debug)]
pub(crate) struct Closer(Option<OwnedFd>);

impl Closer {
    /// The descriptor itself, once it is known to close at once.
    pub(crate) fn into_inner(mut self) -> OwnedFd {
        self.0.take().expect("taken once")
    }
}

/// As they came along with a message.
pub(crate) fn given(fds: Vec<OwnedFd>) -> Vec<Closer> {
    fds.into_iter().map(Closer::from).collect()
}

/// Whether the other end of a socket is closed.
pub(crate) fn is_hung_up(socket: &Closer) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::empty())];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    match poll(&mut fds, Some(&at_once)) {
        Ok(_) => fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR),
        Err(_) => false,
    }
}

/// Whether more descriptors wait to be closed than should.
pub(crate) fn is_behind() -> bool {
    REAPERS.yard().waiting.len() >= WAITING_MAX
}

/// Sees to it that what waits to be closed is not forgotten while nothing else comes.
pub(crate) fn hasten() {
    REAPERS.hasten(&mut REAPERS.yard());
}

impl From<OwnedFd> for Closer {
    fn from(fd: OwnedFd) -> Self {
        Self(Some(fd))
    }
}

impl AsFd for Closer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_ref().expect("taken at its end only").as_fd()
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        if let Some(fd) = self.0.take() {
            REAPERS.take(fd);
        }
    }
}

struct Reapers {
    yard: Mutex<Yard>,
    arrival: Condvar,
}

struct Yard {
    waiting: VecDeque<OwnedFd>,
    /// Threads that wait for something to close.
    idle: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Reapers {
    fn yard(&self) -> MutexGuard<'_, Yard> {
        self.yard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a descriptor closed; never waits for that.
    fn take(&'static self, fd: OwnedFd) {
        let mut yard = self.yard();
        yard.waiting.push_back(fd);
        self.hasten(&mut yard);
        self.arrival.notify_one();
    }

    /// Starts another thread if those there are have something to do; if there are as many as may
    /// be, those that linger are told to stop.
    fn hasten(&'static self, yard: &mut Yard) {
        if yard.waiting.len() <= yard.idle {
            return;
        }
        if yard.threads.len() == REAPERS_MAX {
            return yard.threads.iter().for_each(interrupt);
        }
        let builder = Builder::new().name("reaper".to_owned());
        let thread = builder.spawn(|| self.reap());
        // Without a thread what waits does so a while longer.
        yard.threads.extend(thread);
    }

    fn reap(&self) {
        name_thread("cg-reaper");
        let_interrupt();
        let mut yard = self.yard();
        loop {
            if let Some(fd) = yard.waiting.pop_front() {
                drop(yard);
                drop(fd);
                yard = self.yard();
            } else {
                yard.idle += 1;
                let woken = self.arrival.wait(yard);
                yard = woken.unwrap_or_else(PoisonError::into_inner);
                yard.idle -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use rustix::net::sockopt::set_socket_linger;

    use super::*;

    #[test]
    fn all_is_closed_however_long_each_would_linger() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let hour = Duration::from_secs(3_600);
        let from = Instant::now();
        for _ in 0..3 * REAPERS_MAX {
            let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            socket.set_nonblocking(true).unwrap();
            while socket.write(&[0; 1 << 16]).is_ok() {}
            set_socket_linger(&socket, Some(hour)).unwrap();
            drop(Closer::from(OwnedFd::from(socket)));
        }
        let nothing_waits = || REAPERS.yard().waiting.is_empty();
        while !nothing_waits() {
            hasten();
            std::thread::sleep(Duration::from_millis(1));
            assert!(from.elapsed() < hour / 60, "they wait for each other");
        }
        assert!(REAPERS.yard().threads.len() <= REAPERS_MAX);
    }
}
