//! What files go by.

use crate::Time;

use super::conversation::TooLong;
use super::{Counts, Event, Exchange, SenderCounts, Source, Split, Store};

/// A transfer that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Up to where it was.
    pub to: u64,
    /// What of it could not be read.
    pub fault: Option<String>,
}

/// A conversation, and transfers both ways: [`Exchange`] over the SDUs of a VC, which has a window
/// of its own and sends again what is lost, or [`OctetStream`](super::OctetStream) over a stream
/// whose transport does that.
pub trait Carrier {
    /// What is read of a file that is sent.
    type Source: Source;
    /// What is written to of a file that is received.
    type Store: Store;

    /// Says a message of at most [`MESSAGE_MAX`](super::MESSAGE_MAX) octets.
    fn say(&mut self, message: &[u8]);

    /// Octets of messages that have not left, or that the other end has not acknowledged.
    fn unsaid(&mut self) -> usize;

    /// Reads the next message into `message`; false if there is none.
    ///
    /// # Errors
    /// It is too long.
    fn hear(&mut self, now: Time, message: &mut Vec<u8>) -> Result<bool, TooLong>;

    /// What has happened; to be drained behind each call that hands something in.
    fn poll_event(&mut self) -> Option<Event>;

    /// Whether each terminal knows the other.
    fn is_established(&self) -> bool;

    /// When something of the other terminal came last.
    fn heard_at(&self) -> Time;

    /// Octets of a transfer that may be on their way: room for so many is made ahead.
    fn window(&self) -> u64;

    /// Receives octets `start` to `end` of a file as this transfer, as far as `limit` at first.
    /// False if the number is in use, or the other terminal is not known.
    fn receive(
        &mut self,
        now: Time,
        transfer: u16,
        extent: (u64, u64),
        limit: u64,
        store: Self::Store,
    ) -> bool;

    /// Lets a transfer go on to `limit`.
    fn allow(&mut self, now: Time, transfer: u16, limit: u64);

    /// Up to where a transfer has come without a gap, and up to where it may come now.
    fn received(&self, transfer: u16) -> Option<(u64, u64)>;

    /// Where a transfer's payload is put.
    fn store_mut(&mut self, transfer: u16) -> Option<&mut Self::Store>;

    /// Receives no more of a transfer.
    fn end_receive(&mut self, transfer: u16) -> Option<Self::Store>;

    /// Sends octets `start` to `end` of a file as this transfer; the receiver has room up to
    /// `edge`. The transfer replaces one with the same number.
    fn send(
        &mut self,
        transfer: u16,
        extent: (u64, u64),
        edge: u64,
        split: Split,
        source: Self::Source,
    );

    /// Up to where a transfer that is sent has left, or is acknowledged.
    fn sent(&self, transfer: u16) -> Option<u64>;

    /// Sends no more of a transfer: what became of it, if there was one.
    fn end_send(&mut self, transfer: u16) -> Option<Ended>;

    /// What was sent, the conversation included.
    fn counts(&self) -> SenderCounts;

    /// Counts of what has come; a stream throws nothing away, and counts nothing.
    fn come(&self) -> Counts;

    /// When there is something to send even if nothing is handed in before, or
    /// [`Carrier::handle_deadline`] is due.
    fn next_deadline(&self) -> Option<Time>;

    /// Time has passed.
    fn handle_deadline(&mut self, now: Time);
}

impl<F: Source, S: Store> Carrier for Exchange<F, S> {
    type Source = F;
    type Store = S;

    fn say(&mut self, message: &[u8]) {
        self.say(message);
    }

    fn unsaid(&mut self) -> usize {
        self.unsaid()
    }

    fn hear(&mut self, now: Time, message: &mut Vec<u8>) -> Result<bool, TooLong> {
        self.hear(now, message)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.poll_event()
    }

    fn is_established(&self) -> bool {
        self.is_established()
    }

    fn heard_at(&self) -> Time {
        self.heard_at()
    }

    fn window(&self) -> u64 {
        self.terms().window
    }

    fn receive(
        &mut self,
        now: Time,
        transfer: u16,
        extent: (u64, u64),
        limit: u64,
        store: S,
    ) -> bool {
        self.receive(now, transfer, extent, limit, store)
    }

    fn allow(&mut self, now: Time, transfer: u16, limit: u64) {
        self.allow(now, transfer, limit);
    }

    fn received(&self, transfer: u16) -> Option<(u64, u64)> {
        self.received(transfer)
    }

    fn store_mut(&mut self, transfer: u16) -> Option<&mut S> {
        self.store_mut(transfer)
    }

    fn end_receive(&mut self, transfer: u16) -> Option<S> {
        self.end_receive(transfer)
    }

    fn send(&mut self, transfer: u16, extent: (u64, u64), edge: u64, split: Split, source: F) {
        self.send(transfer, extent, edge, split, source);
    }

    fn sent(&self, transfer: u16) -> Option<u64> {
        Some(self.outgoing(transfer)?.buffer().pointers().ap)
    }

    fn end_send(&mut self, transfer: u16) -> Option<Ended> {
        let mut sender = self.end_send(transfer)?;
        let to = sender.buffer().cut_to();
        let fault = sender.buffer_mut().source_mut().fault();
        Some(Ended { to, fault })
    }

    fn counts(&self) -> SenderCounts {
        self.sent()
    }

    fn come(&self) -> Counts {
        let mut all = Counts::default();
        self.counts().for_each(|counts| all += counts);
        all
    }

    fn next_deadline(&self) -> Option<Time> {
        self.next_deadline()
    }

    fn handle_deadline(&mut self, now: Time) {
        self.handle_deadline(now);
    }
}
