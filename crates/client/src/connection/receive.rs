//! From the adapter to the application.

use core::mem::MaybeUninit;
use core::ops::Deref;
use std::collections::VecDeque;
use std::time::Duration;

use cellgate_core::Time;
use cellgate_core::application::{Interest, OpenConnection};
use cellgate_core::queue::ReceivedPdu;
use cellgate_shm::{ClientReceive, HeldPdu};

use super::{Connection, ConnectionCounters};
use crate::clock::now;
use crate::{Error, Wait};

/// PDUs that one call dismisses before it looks at the rest of the world again.
const DISMISSED_MAX: usize = 1_024;

type Open = OpenConnection<(u64, u64)>;

/// The receive half.
#[derive(Debug)]
pub(super) struct Receiver {
    /// The present memory is the last; those before it are read until they are empty. Never empty.
    memories: VecDeque<ClientReceive>,
    pub(super) counters: ConnectionCounters,
}

impl Receiver {
    pub(super) fn new(memory: ClientReceive) -> Self {
        Self {
            memories: VecDeque::from([memory]),
            counters: ConnectionCounters::default(),
        }
    }

    /// New memory; the present one is read until it is empty.
    pub(super) fn add(&mut self, memory: ClientReceive) {
        self.memories.push_back(memory);
    }

    /// As [`ClientReceive::share`].
    pub(super) fn share(&mut self) -> Result<(), Error> {
        let held = |memory: &ClientReceive| memory.queue().outstanding() > 0;
        if self.memories.iter().any(held) {
            return Err(Error::PdusHeld);
        }
        self.memories.iter_mut().for_each(ClientReceive::share);
        Ok(())
    }

    /// Whether a PDU waits.
    pub(super) fn waits(&mut self) -> bool {
        self.memories.iter_mut().any(|memory| !memory.is_empty())
    }

    /// The next PDU that the contract allows, with its memory. At most `DISMISSED_MAX` are
    /// dismissed before it.
    #[inline]
    fn next(&mut self, open: &mut Open) -> Result<(&mut ClientReceive, ReceivedPdu), Error> {
        while self.memories.len() > 1 && self.memories[0].is_empty() {
            self.memories.pop_front();
        }
        // What `memories` never is.
        let memory = self.memories.front_mut().ok_or(Error::DoesNotReceive)?;
        open.opened().receive_max_sdu.ok_or(Error::DoesNotReceive)?;
        for _ in 0..DISMISSED_MAX {
            let Some(pdu) = memory.next_pdu() else {
                break;
            };
            if open.takes(pdu.descriptor(), pdu.len()) {
                self.counters.received += 1;
                return Ok((memory, pdu));
            }
            memory.release(pdu);
            self.counters.dismissed += 1;
        }
        Err(Error::WouldBlock(Wait::Pdu))
    }

    /// Copies the next PDU's SDU.
    fn copy(&mut self, open: &mut Open, buffer: &mut [u8]) -> Result<Received, Error> {
        let (memory, pdu) = self.next(open)?;
        let len = memory.copy_sdu(&pdu, buffer);
        let received = Received {
            len,
            ..Received::of(&pdu)
        };
        memory.release(pdu);
        self.counters.receive_copies += 1;
        Ok(received)
    }

    /// Holds the next PDU in place.
    fn hold(&mut self, open: &mut Open) -> Result<HeldPdu, Error> {
        let (memory, pdu) = self.next(open)?;
        // It is this memory's own.
        memory.hold(pdu).map_err(|_| Error::DoesNotReceive)
    }

    /// The next PDU where it lies, for who forwards it and gives it back by
    /// [`Receiver::memory`].
    pub(super) fn take(&mut self, open: &mut Open) -> Result<ReceivedPdu, Error> {
        Ok(self.next(open)?.1)
    }

    /// The memory of a connection that has had one alone.
    pub(super) fn memory(&mut self) -> Option<&mut ClientReceive> {
        self.memories.front_mut()
    }

    /// Gives a PDU back; that of memory that is gone needs no giving back.
    fn release(&mut self, held: HeldPdu) {
        let owner = self.memories.iter_mut().find(|memory| memory.owns(&held));
        if let Some(memory) = owner {
            memory.release_held(held);
        }
    }
}

/// What was received, beside its octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// Octets in the caller's buffer.
    pub len: usize,
    /// Octets of the SDU; what the buffer had no room for is gone.
    pub sdu_len: usize,
    /// User-to-user octet (AAL5, I.363.5).
    pub uu: u8,
    /// Common part indicator (AAL5, I.363.5).
    pub cpi: u8,
    /// Some cell had low priority (CLP 1).
    pub clp: bool,
    /// The last cell met congestion on its way.
    pub congestion: bool,
    /// Delivered beyond the contract ([`Connection::lease`]).
    pub lent: bool,
    /// Multiplexing identification (AAL3/4); 0 with other AALs.
    pub mid: u16,
    /// When the adapter handled the last cell, `CLOCK_MONOTONIC`.
    pub time: Time,
}

impl Received {
    fn of(pdu: &ReceivedPdu) -> Self {
        let descriptor = pdu.descriptor();
        Self {
            len: pdu.len(),
            sdu_len: pdu.len(),
            uu: descriptor.uu,
            cpi: descriptor.cpi,
            clp: descriptor.clp,
            congestion: descriptor.congestion,
            lent: descriptor.lent,
            mid: descriptor.mid,
            time: descriptor.time,
        }
    }

    /// Whether the buffer was too short for the SDU.
    pub const fn is_truncated(&self) -> bool {
        self.len < self.sdu_len
    }
}

/// A received PDU in place (a copy, where another process may have the connection): the octets of
/// its SDU. Several can be held, and are released in any order when they are dropped; the adapter
/// reuses their space in the order of arrival. A reader that holds too long loses its own PDUs
/// (`buffer_full`), nobody else's.
#[derive(Debug)]
pub struct Pdu<'c> {
    connection: &'c Connection,
    /// None only while it is dropped.
    held: Option<HeldPdu>,
    received: Received,
}

impl Pdu<'_> {
    /// What goes along with the SDU.
    pub fn received(&self) -> &Received {
        &self.received
    }
}

impl Deref for Pdu<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.held.as_deref().unwrap_or_default()
    }
}

impl Drop for Pdu<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.connection.release(held);
        }
    }
}

impl Connection {
    /// Receives an SDU: waits for it, and copies it into `buffer`. What `buffer` has no room for is
    /// gone ([`Received::is_truncated`]).
    ///
    /// # Errors
    /// The connection does not receive; it has ended, and everything that it received is read.
    pub fn recv(&self, buffer: &mut [u8]) -> Result<Received, Error> {
        self.wait_until(None, Interest::RECEIVE, || self.try_recv(buffer))
    }

    /// The same; [`Error::TimedOut`] after `timeout`.
    ///
    /// # Errors
    /// As [`Connection::recv`].
    pub fn recv_timeout(&self, buffer: &mut [u8], timeout: Duration) -> Result<Received, Error> {
        self.wait_until(Some(timeout), Interest::RECEIVE, || self.try_recv(buffer))
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// As [`Connection::recv`]; [`Error::WouldBlock`].
    #[inline]
    pub fn try_recv(&self, buffer: &mut [u8]) -> Result<Received, Error> {
        self.taken(|receive, open| receive.copy(open, buffer))
    }

    /// As [`Connection::recv`] for memory that holds nothing yet, as other languages hand it over:
    /// what is received is written, the rest stays as it is. `timeout`: none waits for ever, zero
    /// does not wait.
    ///
    /// # Errors
    /// As [`Connection::recv_timeout`] and [`Connection::try_recv`].
    pub fn recv_uninit(
        &self,
        buffer: &mut [MaybeUninit<u8>],
        timeout: Option<Duration>,
    ) -> Result<Received, Error> {
        let pdu = match timeout {
            Some(Duration::ZERO) => self.try_next_pdu(),
            Some(timeout) => self.next_pdu_timeout(timeout),
            None => self.next_pdu(),
        }?;
        let len = pdu.len().min(buffer.len());
        buffer[..len].write_copy_of_slice(&pdu[..len]);
        self.count_copy();
        Ok(Received {
            len,
            ..*pdu.received()
        })
    }

    /// The next PDU in place: waits for it; no copy.
    ///
    /// # Errors
    /// As [`Connection::recv`].
    pub fn next_pdu(&self) -> Result<Pdu<'_>, Error> {
        self.wait_until(None, Interest::RECEIVE, || self.try_next_pdu())
    }

    /// The same; [`Error::TimedOut`] after `timeout`.
    ///
    /// # Errors
    /// As [`Connection::recv`].
    pub fn next_pdu_timeout(&self, timeout: Duration) -> Result<Pdu<'_>, Error> {
        self.wait_until(Some(timeout), Interest::RECEIVE, || self.try_next_pdu())
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// As [`Connection::try_recv`].
    #[inline]
    pub fn try_next_pdu(&self) -> Result<Pdu<'_>, Error> {
        let held = self.try_hold()?;
        Ok(Pdu {
            connection: self,
            received: Received::of(held.pdu()),
            held: Some(held),
        })
    }

    /// Received PDUs that were dismissed: beyond credit and tolerance.
    pub fn dismissed(&self) -> u64 {
        self.receive.borrow().counters.dismissed
    }

    /// Counts an SDU that was copied from where it is held.
    pub(crate) fn count_copy(&self) {
        self.receive.borrow_mut().counters.receive_copies += 1;
    }

    pub(crate) fn try_hold(&self) -> Result<HeldPdu, Error> {
        self.taken(Receiver::hold)
    }

    pub(crate) fn release(&self, held: HeldPdu) {
        self.receive.borrow_mut().release(held);
    }

    pub(crate) fn receives(&self) -> bool {
        self.receive_max_sdu().is_some()
    }

    #[inline]
    pub(super) fn taken<T>(
        &self,
        take: impl FnOnce(&mut Receiver, &mut Open) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let taken = {
            let mut control = self.control.borrow_mut();
            take(&mut self.receive.borrow_mut(), control.open_mut())
        };
        if let Err(Error::WouldBlock(_)) = &taken {
            self.look_now_and_then(now())?;
            // What it received before it ended comes first.
            let mut receive = self.receive.borrow_mut();
            if !receive.waits() {
                self.check_end()?;
            }
            return taken;
        }
        // What tells of PDUs that are read must not fill the event queue.
        self.pass();
        taken
    }
}
