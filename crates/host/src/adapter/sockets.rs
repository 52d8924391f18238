//! The sockets of control connections, and the descriptors that travel over them.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use cellgate_shm::{Files, RouseFiles};
use rustix::io::Errno;

use super::sources::RestBell;
use crate::closer::Closer;
use crate::control::send;
use crate::inflight::InFlight;

/// Descriptors that others get, too.
#[derive(Clone, Debug)]
pub(super) enum Shared {
    One(Arc<OwnedFd>),
    /// What somebody has given.
    Given(Arc<Closer>),
    /// Two files: written by the adapter, written by the client.
    Files(Arc<Files>),
    /// What wakes the adapter.
    Rouse(Arc<RouseFiles>),
}

impl Shared {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Self::One(fd) => vec![fd.as_fd()],
            Self::Given(fd) => vec![fd.as_fd()],
            Self::Files(files) => files.fds().to_vec(),
            Self::Rouse(rouse) => rouse.fds().to_vec(),
        }
    }
}

/// What the keeper's handles stand for.
#[derive(Debug)]
pub(super) struct Held {
    /// In the order in which they travel.
    pub(super) shared: Vec<Shared>,
    /// What ends the firmware thread's rest for a client.
    pub(super) bell: Option<RestBell>,
}

impl Held {
    pub(super) fn of(shared: Vec<Shared>) -> Self {
        Self { shared, bell: None }
    }
}

/// A message on its way to a client.
pub(super) struct Outgoing {
    pub(super) octets: Vec<u8>,
    pub(super) enclosed: Vec<Shared>,
}

/// The socket of a control connection.
pub(super) struct Socket {
    pub(super) socket: Closer,
    /// Whether it may do what concerns everybody.
    pub(super) governs: bool,
    pub(super) replies: VecDeque<Outgoing>,
    in_flight: InFlight,
    /// Of the replies, those at the front whose descriptors cannot be sent for now.
    held: usize,
    /// The socket took no more.
    is_full: bool,
}

impl Socket {
    /// Requests and replies that one client may have waiting; further ones stay in its socket.
    const WAITING_MAX: usize = 16;

    pub(super) fn new(socket: Closer, governs: bool) -> Self {
        Self {
            in_flight: InFlight::of(&socket),
            socket,
            governs,
            replies: VecDeque::new(),
            held: 0,
            is_full: false,
        }
    }

    /// Sends what the socket takes; `false` if nobody is there. Where too many descriptors are on
    /// their way, what goes without any overtakes what waits for that.
    pub(super) fn flush(&mut self) -> bool {
        (self.held, self.is_full) = (0, false);
        while let Some(next) = self.replies.get(self.held) {
            let fds: Vec<_> = next.enclosed.iter().flat_map(Shared::fds).collect();
            let count = fds.len();
            // Whoever governs takes what it has asked for.
            let waits = count > 0 && self.held > 0;
            let sent = match !waits && (self.governs || self.in_flight.takes(&self.socket, count)) {
                true => send(&self.socket, &next.octets, &fds, false),
                false => Err(Errno::TOOMANYREFS),
            };
            match sent {
                Ok(()) => {
                    self.in_flight.add(count);
                    self.replies.remove(self.held);
                }
                Err(Errno::TOOMANYREFS) => self.held += 1,
                Err(Errno::AGAIN) => {
                    self.is_full = true;
                    return true;
                }
                Err(_) => return false,
            }
        }
        true
    }

    /// Whether it has to be told when the socket takes more.
    pub(super) fn wants_to_send(&self) -> bool {
        self.is_full
    }

    /// Whether it has replies that are to be sent again in a while.
    pub(super) fn is_held(&self) -> bool {
        self.held > 0
    }

    /// Whether another request may be read from it, of which so many are under way.
    pub(super) fn is_open(&self, under_way: usize) -> bool {
        // Each reply that is held for whoever governs is of something that has its memory already.
        let held = if self.governs { self.held } else { 0 };
        under_way + self.replies.len() - held < Self::WAITING_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::control::{FDS_MAX, Received, pair, receive};

    #[test]
    fn a_guest_leaves_few_descriptors_unread_and_gets_the_rest_as_it_reads() {
        let fd = Arc::new(OwnedFd::from(File::open("/dev/null").unwrap()));
        let enclosed = |with: bool| match with {
            true => vec![Shared::One(Arc::clone(&fd))],
            false => Vec::new(),
        };
        for governs in [false, true] {
            let (mine, theirs) = pair().unwrap();
            let mut connection = Socket::new(mine.into(), governs);
            // A plain one after each three with a descriptor.
            let replies = (0..32_u8).map(|i| Outgoing {
                octets: vec![i],
                enclosed: enclosed(i % 4 != 3),
            });
            connection.replies.extend(replies);
            assert!(connection.flush());
            let most = 2 * FDS_MAX;
            let sent_at_once = if governs { 32 } else { most + 8 };
            assert_eq!(connection.replies.len(), 32 - sent_at_once);
            assert_eq!(connection.is_held(), !governs);
            let mut read = || match receive(&theirs, &mut [0; 8], false) {
                Ok(Received::Message(_, fds)) => Some(fds.len()),
                _ => None,
            };
            let first: Vec<_> = std::iter::from_fn(&mut read).collect();
            let fds: usize = first.iter().sum();
            assert_eq!((first.len(), fds), (sent_at_once, sent_at_once - 8));
            assert!(connection.flush() && connection.replies.is_empty());
            assert!(!connection.is_held() && !connection.wants_to_send());
            let rest: usize = std::iter::from_fn(read).sum();
            assert_eq!(fds + rest, 24);
        }
    }
}
