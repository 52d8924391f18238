//! When to ask who is at the other end of a VC.

use core::net::Ipv4Addr;

use crate::Time;

/// Asks for the peer's address until it is known, by the caller's clock: at once, then after a
/// second, and each time after twice as long, at most a minute; then it gives up. An address that
/// the peer tells by itself ends it, too.
///
/// RFC 2225 says that a question may be repeated and not when: a peer that comes up later asks in
/// its turn, so that giving up costs nobody an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inquiry {
    peer: Option<Ipv4Addr>,
    asked: u32,
    /// When the next question is due; none: there is none to come.
    next: Option<Time>,
}

impl Inquiry {
    /// Questions at most.
    pub const ASKS_MAX: u32 = 12;
    /// From the first question to the second, in nanoseconds.
    const FIRST_WAIT_NS: u64 = 1_000_000_000;
    /// From any to the next at most.
    const WAIT_MAX_NS: u64 = 60_000_000_000;

    /// Nothing is known; the first question is due at `now`.
    pub const fn new(now: Time) -> Self {
        Self {
            peer: None,
            asked: 0,
            next: Some(now),
        }
    }

    /// The peer's address, as it was last told.
    pub const fn peer(&self) -> Option<Ipv4Addr> {
        self.peer
    }

    /// When to look at [`is_due`](Self::is_due) again; none: never.
    pub const fn next_deadline(&self) -> Option<Time> {
        self.next
    }

    /// Whether to ask at `now`.
    pub fn is_due(&self, now: Time) -> bool {
        self.next.is_some_and(|next| next <= now)
    }

    /// A question was sent at `now`, or could not be sent: it counts, and waits as long.
    pub fn handle_asked(&mut self, now: Time) {
        let wait = Self::FIRST_WAIT_NS << self.asked.min(6);
        self.asked = self.asked.saturating_add(1);
        let again = self.peer.is_none() && self.asked < Self::ASKS_MAX;
        self.next = again.then(|| now.plus_ns(wait.min(Self::WAIT_MAX_NS)));
    }

    /// The peer has told its address, asked or not.
    pub fn handle_told(&mut self, ip: Ipv4Addr) {
        self.peer = Some(ip);
        self.next = None;
    }
}
