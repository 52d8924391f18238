//! All that two terminals exchange on a stream of octets: a conversation, and transfers both ways.
//! The window, and sending again what is lost, are its transport's.
//!
//! What a receiver has no place for yet it does not take: the octets stay where they are, and by
//! the transport's window the sender comes to wait. So no more is kept here than the messages that
//! one inbox has room for, and the header and tail of a frame.

mod frame;
mod incoming;
mod outgoing;

use std::collections::VecDeque;

use crate::Time;

use super::conversation::TooLong;
use super::{Carrier, Counts, Ended, Event, SenderCounts, Source, Split, Store};
pub use frame::{FRAME_MAX, StreamFault};
use incoming::Incoming;
use outgoing::Outgoing;

/// One end of a stream of octets. `F` is what is read of a file, `S` what is written to.
#[derive(Clone, Debug)]
pub struct OctetStream<F, S> {
    window: u64,
    incoming: Incoming<S>,
    outgoing: Outgoing<F>,
    events: VecDeque<Event>,
    heard_at: Time,
    fault: Option<StreamFault>,
}

impl<F: Source, S: Store> OctetStream<F, S> {
    /// Nothing was said or heard. Room for so many octets of a transfer is made ahead.
    pub fn new(now: Time, window: u64) -> Self {
        Self {
            window,
            incoming: Incoming::new(),
            outgoing: Outgoing::new(now),
            events: VecDeque::new(),
            heard_at: now,
            fault: None,
        }
    }

    /// Takes octets that have come: how many. What is not taken is handed in again, and more
    /// behind it, when events are drained and messages heard.
    ///
    /// # Errors
    /// The other end says what cannot be: the stream is of no use any more.
    pub fn handle_octets(&mut self, now: Time, octets: &[u8]) -> Result<usize, StreamFault> {
        let mut taken = 0;
        // What an event leads to may concern the octets behind it.
        while self.events.is_empty() && self.fault.is_none() {
            match self.incoming.take(&octets[taken..], &mut self.events) {
                Ok(0) => break,
                Ok(some) => taken += some,
                Err(fault) => self.fault = Some(fault),
            }
        }
        if taken > 0 {
            self.heard_at = now;
        }
        self.fault.map_or(Ok(taken), Err)
    }

    /// Writes what is to be sent now to the front of `out`: how many octets. Frames are written as
    /// wholes, as many as have room; one of [`FRAME_MAX`] octets always has to.
    pub fn poll_octets(&mut self, now: Time, out: &mut [u8]) -> usize {
        self.outgoing.poll(now, out)
    }
}

impl<F: Source, S: Store> Carrier for OctetStream<F, S> {
    type Source = F;
    type Store = S;

    fn say(&mut self, message: &[u8]) {
        self.outgoing.say(message);
    }

    fn unsaid(&mut self) -> usize {
        self.outgoing.unsaid()
    }

    fn hear(&mut self, _now: Time, message: &mut Vec<u8>) -> Result<bool, TooLong> {
        self.incoming.hear(message)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn is_established(&self) -> bool {
        self.incoming.is_established()
    }

    fn heard_at(&self) -> Time {
        self.heard_at
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn receive(
        &mut self,
        _now: Time,
        transfer: u16,
        extent: (u64, u64),
        _limit: u64,
        store: S,
    ) -> bool {
        self.is_established() && self.incoming.begin(transfer, extent, store)
    }

    /// Nothing: who waits here for one transfer keeps all others waiting, and its limit moves only
    /// with what comes of it. What has no room yet is written all the same.
    fn allow(&mut self, _now: Time, _transfer: u16, _limit: u64) {}

    fn received(&self, transfer: u16) -> Option<(u64, u64)> {
        self.incoming.extent(transfer)
    }

    fn store_mut(&mut self, transfer: u16) -> Option<&mut S> {
        self.incoming.store_mut(transfer)
    }

    fn end_receive(&mut self, transfer: u16) -> Option<S> {
        self.incoming.end(transfer)
    }

    fn send(&mut self, transfer: u16, extent: (u64, u64), _edge: u64, split: Split, source: F) {
        self.outgoing.begin(transfer, extent, split, source);
    }

    fn sent(&self, transfer: u16) -> Option<u64> {
        self.outgoing.sent(transfer)
    }

    fn end_send(&mut self, transfer: u16) -> Option<Ended> {
        self.outgoing.end(transfer)
    }

    fn counts(&self) -> SenderCounts {
        self.outgoing.counts()
    }

    fn come(&self) -> Counts {
        Counts::default()
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.outgoing.next_deadline())
    }

    fn handle_deadline(&mut self, _now: Time) {}
}
