//! What a program sleeps for, and what must end its sleep.

use super::OpenConnection;
use crate::Time;
use crate::adapter::{Marks, Notification};

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    pub(super) receive: bool,
    pub(super) send: Option<u32>,
    pub(super) sent: bool,
    pub(super) event: bool,
}

impl Interest {
    /// A PDU to receive.
    pub const RECEIVE: Self = Self {
        receive: true,
        send: None,
        sent: false,
        event: false,
    };

    /// That everything was sent that was handed to the adapter.
    pub const SENT: Self = Self {
        receive: false,
        send: None,
        sent: true,
        event: false,
    };

    /// An event of the adapter.
    pub const EVENT: Self = Self {
        receive: false,
        send: None,
        sent: false,
        event: true,
    };

    /// Nothing but what the server tells of its own accord, which everybody waits for.
    pub const INDICATION: Self = Self {
        receive: false,
        send: None,
        sent: false,
        event: false,
    };

    /// Credit and room to send an SDU of `len` octets.
    pub const fn send(len: usize) -> Self {
        Self {
            receive: false,
            // An SDU longer than that is refused, whoever waits for it.
            send: Some(if len > 0xffff { 0xffff } else { len as u32 }),
            sent: false,
            event: false,
        }
    }

    /// Either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self {
            receive: self.receive || other.receive,
            send: match (self.send, other.send) {
                (Some(a), Some(b)) => Some(if a < b { a } else { b }),
                (Some(len), None) | (None, Some(len)) => Some(len),
                (None, None) => None,
            },
            sent: self.sent || other.sent,
            event: self.event || other.event,
        }
    }

    /// Whether a PDU is waited for.
    pub const fn receives(self) -> bool {
        self.receive
    }

    /// Whether an event is waited for.
    pub const fn is_for_event(self) -> bool {
        self.event
    }

    /// Whether the end of all that was handed over is waited for.
    pub const fn is_for_sent(self) -> bool {
        self.sent
    }
}

/// How often a reader or writer looks whom no event will tell.
const LOOK_NS: u64 = 1_000_000;

/// How to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// When to look again in any case; none: whenever something is told.
    pub until: Option<Time>,
    /// Octets whose room in the transmit buffer ends it; none: no room helps now.
    pub room: Option<u32>,
    /// The adapter has to wake the sleeper.
    pub is_woken: bool,
}

impl<M> OpenConnection<M> {
    /// How a program sleeps from `now` on that waits for `interest`. An adapter spares wake-ups to
    /// those whom only time or the server can help.
    pub fn sleep(&self, now: Time, interest: Interest) -> Sleep {
        let opened = self.opened();
        let events_tell = match opened.notification {
            Some(Notification::Polled) => false,
            // Told of a block's first cell, a reader of cells looks for the others itself.
            Some(Notification::FirstCell) => opened.marks == Marks::Mssar,
            _ => true,
        };
        let credit_at = self.suspended_at(now);
        let is_untold = interest.receive && !events_tell
            || (interest.send.is_some() || interest.sent) && !opened.completions;
        let look_at = is_untold.then(|| now.plus_ns(LOOK_NS));
        let times = [look_at, credit_at.filter(|_| interest.send.is_some())];
        let is_for_more = interest.receive || interest.sent || interest.event;
        let only_credit = !is_for_more && credit_at.is_some();
        Sleep {
            until: times.into_iter().flatten().min(),
            room: interest.send.filter(|_| credit_at.is_none()),
            is_woken: !only_credit && interest != Interest::INDICATION,
        }
    }
}
