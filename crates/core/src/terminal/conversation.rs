//! What two terminals say to each other in order and without loss: messages in a stream of octets,
//! which is a transfer of its own.

use core::ops::Range;
use std::collections::VecDeque;

use super::{Source, Store};

/// Octets of a message, at most.
pub const MESSAGE_MAX: usize = 1 << 17;
/// Octets before each message: its length.
const LENGTH: usize = 4;
/// Octets that may have come and not been read: small files go as messages, and so many of them
/// may be on their way.
const INBOX_LEN: usize = 8 * MESSAGE_MAX;

/// Messages that have not been acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    octets: VecDeque<u8>,
    /// Octets of the stream before these.
    start: u64,
}

impl Outbox {
    /// Octets that wait to be acknowledged. Whoever has much to say waits while it is much.
    pub fn len(&self) -> usize {
        self.octets.len()
    }

    /// Whether all that was said is acknowledged.
    pub fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }

    /// Adds a message; one of more than [`MESSAGE_MAX`] octets the other end would refuse.
    pub fn push(&mut self, message: &[u8]) {
        self.octets.extend((message.len() as u32).to_be_bytes());
        self.octets.extend(message);
    }
}

impl Source for Outbox {
    fn read(&mut self, at: u64, into: &mut [u8]) {
        let from = at.saturating_sub(self.start) as usize;
        for (to, octet) in into.iter_mut().zip(self.octets.range(from..)) {
            *to = *octet;
        }
    }

    fn data(&mut self, at: u64, end: u64) -> Range<u64> {
        let said = self.start + self.octets.len() as u64;
        at..said.min(end).max(at)
    }

    fn release(&mut self, at: u64) {
        let gone = at.saturating_sub(self.start) as usize;
        self.octets.drain(..gone.min(self.octets.len()));
        self.start = self.start.max(at);
    }
}

/// The other end says what cannot be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {0} octets: {MESSAGE_MAX} are the most")]
pub struct TooLong(pub u32);

/// Octets that have come and have not been read, cyclic.
#[derive(Clone, Debug)]
pub(super) struct Inbox {
    octets: Box<[u8]>,
    /// Octets of the stream that were read.
    read: u64,
}

impl Default for Inbox {
    fn default() -> Self {
        Self {
            octets: vec![0; INBOX_LEN].into_boxed_slice(),
            read: 0,
        }
    }
}

impl Inbox {
    /// Where the window may open to.
    pub(super) fn edge(&self) -> u64 {
        self.read + self.octets.len() as u64
    }

    fn copy(&self, at: u64, into: &mut [u8]) {
        let from = (at % self.octets.len() as u64) as usize;
        let first = into.len().min(self.octets.len() - from);
        into[..first].copy_from_slice(&self.octets[from..from + first]);
        let rest = into.len() - first;
        into[first..].copy_from_slice(&self.octets[..rest]);
    }

    /// Reads the next message into `message`, if it is there as a whole: `come` octets of the
    /// stream are.
    pub(super) fn pop(&mut self, come: u64, message: &mut Vec<u8>) -> Result<bool, TooLong> {
        let there = come.saturating_sub(self.read);
        if there < LENGTH as u64 {
            return Ok(false);
        }
        let mut length = [0; LENGTH];
        self.copy(self.read, &mut length);
        let length = u32::from_be_bytes(length);
        if length as usize > MESSAGE_MAX {
            return Err(TooLong(length));
        }
        if there < LENGTH as u64 + u64::from(length) {
            return Ok(false);
        }
        message.clear();
        message.resize(length as usize, 0);
        self.copy(self.read + LENGTH as u64, message);
        self.read += LENGTH as u64 + u64::from(length);
        Ok(true)
    }
}

impl Store for Inbox {
    fn write(&mut self, at: u64, octets: &[u8]) {
        let room = self.octets.len();
        let from = (at % room as u64) as usize;
        let first = octets.len().min(room - from);
        self.octets[from..from + first].copy_from_slice(&octets[..first]);
        self.octets[..octets.len() - first].copy_from_slice(&octets[first..]);
    }
}
