//! Descriptors on their way to somebody who has not received them.
//!
//! The kernel counts them against the user who sent them (unix(7): ETOOMANYREFS at RLIMIT_NOFILE).
//! Whoever left enough of them unread would keep a server from giving anybody any.

use std::os::fd::AsFd;

use crate::control::FDS_MAX;
use crate::sys::is_read;

/// How soon descriptors that could not be sent are sent again.
pub(crate) const RETRY_NS: u64 = 10_000_000;

/// The most that one socket holds unread: those of two messages.
const MAX: usize = 2 * FDS_MAX;

/// How many were sent through a socket since all of it was read.
#[derive(Debug)]
pub(crate) struct InFlight(usize);

impl InFlight {
    /// As many as there can be.
    pub(crate) const ALL: Self = Self(MAX);

    /// Of a socket through which somebody else may have sent some.
    pub(crate) fn of(socket: impl AsFd) -> Self {
        let mut unknown = Self::ALL;
        unknown.count(socket);
        unknown
    }

    /// How many there are, as far as is known.
    pub(crate) const fn at_most(&self) -> usize {
        self.0
    }

    /// How many there are at most, now that the socket is looked at.
    pub(crate) fn count(&mut self, socket: impl AsFd) -> usize {
        if self.0 > 0 && is_read(socket) {
            self.0 = 0;
        }
        self.0
    }

    /// Whether so many more may be sent along with a message.
    pub(crate) fn takes(&mut self, socket: impl AsFd, fds: usize) -> bool {
        fds == 0 || self.count(socket) + fds <= MAX
    }

    /// So many were sent.
    pub(crate) fn add(&mut self, fds: usize) {
        self.0 += fds;
    }
}
