//! The end that sends: what is made in time, and waits where its adapter has no room.

use cellgate_core::Time;
use cellgate_core::terminal::video::{Camera, Pace, Sending, SendingTerms};

use super::Bugs;
use super::scenario::StreamSpec;
use crate::world::Ps;

/// A camera and what it sends.
#[derive(Debug)]
pub(crate) struct Film {
    pub(crate) connection: u32,
    camera: Camera,
    sending: Sending<Bugs>,
    /// The PDU that is to be handed over, and its user-to-user octet.
    sdu: Vec<u8>,
    next: Option<u8>,
    /// One that found no room is tried again so much later.
    patience_ns: u64,
    /// When it has its turn next.
    pub(crate) due: Option<Ps>,
    /// PDUs that were handed over.
    pub(crate) sent: u64,
    /// Times that one found no room.
    pub(crate) waited: u64,
}

impl Film {
    /// Of a camera by the clock of its host.
    pub(crate) fn new(
        (connection, spec): (u32, &StreamSpec),
        camera: Camera,
        patience_ns: u64,
        bugs: Bugs,
    ) -> Self {
        let terms = SendingTerms {
            pack: spec.pack.into(),
            pcr_aware: false,
            numbered: true,
            pace: Pace::Source,
        };
        Self {
            connection,
            camera,
            sending: Sending::with(terms, bugs),
            sdu: Vec::new(),
            next: None,
            patience_ns,
            due: None,
            sent: 0,
            waited: 0,
        }
    }

    /// The PDU that is to be handed over at `now`, if there is one.
    pub(crate) fn next(&mut self, now: Time) -> Option<(u8, &[u8])> {
        while let Some(packet) = self.camera.poll(now) {
            self.sending.handle(now, &packet);
        }
        if self.next.is_none() {
            self.next = self.sending.poll(now, &mut self.sdu);
        }
        Some((self.next?, &self.sdu))
    }

    /// It was handed over.
    pub(crate) fn has_sent(&mut self) {
        self.next = None;
        self.sent += 1;
    }

    /// When it has something to do next.
    pub(crate) fn next_deadline(&self, now: Time) -> Option<Time> {
        match self.next {
            Some(_) => Some(now.plus_ns(self.patience_ns)),
            None => self.camera.next_deadline(),
        }
    }
}
