//! Two connections in a chain: what the first receives the second sends, from where it lies.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use cellgate_core::adapter::VcStats;
use cellgate_core::application::Interest;
use cellgate_core::contract::UsageDecision;
use cellgate_core::queue::{ConnectionSizes, ReceivedPdu, SduOptions};
use cellgate_core::server::Address;
use cellgate_shm::ClientTransmit;
use rustix::event::{PollFd, PollFlags, poll};

use super::Connection;
use super::transmit::refused;
use crate::clock::now;
use crate::control::timespec;
use crate::{Error, Wait};

/// The transmit buffer that a connection is opened to receive into.
#[derive(Clone, Debug)]
pub(crate) struct LentBuffer {
    pub(crate) address: Address,
    pub(crate) capability: Arc<OwnedFd>,
    pub(super) sizes: ConnectionSizes,
    pub(super) feed: Arc<()>,
}

impl Connection {
    /// The transmit buffer for another connection to receive into, as soon as it is empty.
    pub(crate) fn lend_buffer(&self, patience: Duration) -> Result<LentBuffer, Error> {
        self.flush(patience)?;
        let control = self.control.borrow();
        let opened = control.open().opened();
        Ok(LentBuffer {
            address: opened.address.clone(),
            capability: Arc::new(self.capability.borrow().try_clone()?),
            sizes: opened.sizes,
            feed: Arc::clone(&self.feed),
        })
    }

    /// # Errors
    /// The transmit buffer has what another connection has received, or does receive.
    #[inline]
    pub(super) fn check_buffer_is_its_own(
        &self,
        transmit: &mut ClientTransmit,
    ) -> Result<(), Error> {
        if Arc::strong_count(&self.feed) > 1 {
            return Err(Error::Fed);
        }
        if self.forwards.get() {
            if transmit.reclaim() > 0 {
                return Err(Error::WouldBlock(Wait::Room));
            }
            self.forwards.set(false);
        }
        Ok(())
    }
}

/// Two connections, of which the second sends what the first receives. The adapter puts each PDU
/// together in the second's transmit buffer, and segments it from there: this process copies none,
/// but those that wrap around the buffer's end, about one in a turn of it.
///
/// ```text
///   cells -> adapter -> [ transmit buffer of `to` ] -> adapter -> cells
///               |          ^ descriptor in, out ^         |
///               +--- receive queue      transmit queue ---+
///                          `-- forward --'
/// ```
///
/// Octets are given back to the adapter when they have left. A `to` without credit holds PDUs up,
/// and what then finds no room is discarded at `from` (`buffer_full`), and counted there.
#[derive(Debug)]
pub struct Chain {
    from: Connection,
    to: Connection,
    /// Where a PDU that wraps is copied to: behind all that is received.
    spare: u32,
    /// Octets of the receive buffer.
    receive_len: u32,
    /// Taken, and without room or credit until now.
    next: Option<ReceivedPdu>,
    /// With the adapter, oldest first. Room for all that can be.
    sent: VecDeque<ReceivedPdu>,
    counters: ChainCounters,
}

/// Counts of a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChainCounters {
    /// PDUs handed on.
    pub pdus: u64,
    /// Octets of their SDUs.
    pub octets: u64,
    /// Of these PDUs, copied by this process: those that wrapped.
    pub copies: u64,
    /// PDUs that the second connection can never send: longer than its contract has it, or empty.
    pub unsendable: u64,
}

impl Chain {
    /// Joins two connections; `from` was opened to receive into `to`
    /// ([`Builder::receive_into`](crate::Builder::receive_into)).
    ///
    /// # Errors
    /// [`Error::NoChain`]: it was not.
    pub fn new(from: Connection, to: Connection) -> Result<Self, Error> {
        let is_fed = |feed: &Arc<()>| Arc::ptr_eq(feed, &to.feed);
        if !from.into.as_ref().is_some_and(is_fed) {
            return Err(Error::NoChain);
        }
        let sizes = from.control.borrow().open().opened().sizes;
        let slots = to.control.borrow().open().opened().sizes.transmit_slots;
        Ok(Self {
            spare: sizes.receive_len,
            receive_len: sizes.receive_len,
            next: None,
            sent: VecDeque::with_capacity(slots as usize),
            counters: ChainCounters::default(),
            from,
            to,
        })
    }

    /// The connection that receives.
    pub fn from(&self) -> &Connection {
        &self.from
    }

    /// The connection that sends.
    pub fn to(&self) -> &Connection {
        &self.to
    }

    /// Its counts so far.
    pub fn counters(&self) -> ChainCounters {
        self.counters
    }

    /// Hands on the next PDU, if it is there, with its user-to-user octet, its priority and its
    /// MID: the octets of its SDU.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]; one of the two has ended.
    pub fn try_forward(&mut self) -> Result<usize, Error> {
        self.give_back()?;
        loop {
            let pdu = match self.next.take() {
                Some(pdu) => pdu,
                None => self.from.taken(|receive, open| receive.take(open))?,
            };
            let len = pdu.len();
            match self.hand_on(&pdu) {
                Ok(()) => {
                    self.counters.pdus += 1;
                    self.counters.octets += len as u64;
                    self.sent.push_back(pdu);
                    return Ok(len);
                }
                Err(Error::WouldBlock(wait)) => {
                    self.next = Some(pdu);
                    return Err(Error::WouldBlock(wait));
                }
                Err(
                    Error::TooLong { .. }
                    | Error::Empty
                    | Error::NotACell { .. }
                    | Error::NotFixed { .. },
                ) => {
                    self.counters.unsendable += 1;
                    self.release(pdu);
                }
                Err(error) => {
                    self.next = Some(pdu);
                    return Err(error);
                }
            }
        }
    }

    /// The same; waits for a PDU, and for credit and room to send it.
    ///
    /// # Errors
    /// [`Error::TimedOut`] after `timeout`; one of the two has ended.
    pub fn forward_timeout(&mut self, timeout: Duration) -> Result<usize, Error> {
        let ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let deadline = now().plus_ns(ns);
        loop {
            match self.try_forward() {
                Err(Error::WouldBlock(_)) => {}
                done => return done,
            }
            let left = deadline.since_ns(now());
            if left == 0 {
                return Err(Error::TimedOut);
            }
            self.wait(left)?;
        }
    }

    /// Waits until what was handed on has left, and closes both: the last counters of the first
    /// and of the second.
    ///
    /// # Errors
    /// It does not leave within `linger`; the server is gone.
    pub fn close(self, linger: Duration) -> Result<(VcStats, VcStats), Error> {
        let flushed = self.to.flush(linger);
        let (from, to) = (self.from, self.to);
        let from = from.close(Duration::ZERO)?;
        let to = to.close(Duration::ZERO)?;
        flushed.map(|()| (from, to))
    }

    /// Waits, `ns` at most, until a PDU may have come, may be sent, or may have left.
    fn wait(&self, ns: u64) -> Result<(), Error> {
        let to = match &self.next {
            Some(pdu) => Interest::send(pdu.len()),
            None if !self.sent.is_empty() => Interest::SENT,
            None => Interest::INDICATION,
        };
        let from = match &self.next {
            Some(_) => Interest::INDICATION,
            None => Interest::RECEIVE,
        };
        if self.from.arm(from)? && self.to.arm(to)? {
            let mut fds = [
                PollFd::new(&self.from, PollFlags::IN),
                PollFd::new(&self.to, PollFlags::IN),
            ];
            match poll(&mut fds, Some(&timespec(ns))) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        self.from.disarm()?;
        self.to.disarm()
    }

    /// Gives the adapter the room of what has left.
    fn give_back(&mut self) -> Result<(), Error> {
        let unsent = match self.sent.is_empty() {
            true => 0,
            false => self.to.transmitter()?.reclaim() as usize,
        };
        while self.sent.len() > unsent {
            if let Some(pdu) = self.sent.pop_front() {
                self.release(pdu);
            }
        }
        Ok(())
    }

    fn release(&self, pdu: ReceivedPdu) {
        if let Some(memory) = self.from.receive.borrow_mut().memory() {
            memory.release(pdu);
        }
    }

    fn hand_on(&mut self, pdu: &ReceivedPdu) -> Result<(), Error> {
        let (to, now) = (&self.to, now());
        to.look_now_and_then(now)?;
        to.check_end()?;
        let len = pdu.len();
        let mut transmit = to.transmitter()?;
        let mut control = to.control.borrow_mut();
        let open = control.open_mut();
        let octets = open.sendable(len).map_err(|why| refused(why, len))?;
        if let Some(why) = open.is_odd(len) {
            return Err(refused(why, len));
        }
        if transmit.reserve(octets).is_none() {
            return Err(Error::WouldBlock(Wait::Room));
        }
        if let UsageDecision::SuspendUntil(until) = open.request(now, octets) {
            let after = Duration::from_nanos(until.since_ns(now));
            return Err(Error::WouldBlock(Wait::Credit(after)));
        }
        drop(control);
        // Below the buffer's length, which is a u32.
        let mut offset = pdu.offset() as u32;
        if offset + octets > self.receive_len {
            let mut receive = self.from.receive.borrow_mut();
            let memory = receive.memory().ok_or(Error::DoesNotReceive)?;
            if !transmit.unwrap_pdu(memory, pdu, self.spare) {
                return Err(Error::NoChain);
            }
            self.counters.copies += 1;
            offset = self.spare;
        }
        let descriptor = pdu.descriptor();
        let options = SduOptions {
            uu: descriptor.uu,
            cpi: descriptor.cpi,
            clp: descriptor.clp,
            mid: descriptor.mid,
        };
        if !transmit.submit_at(offset, octets, options) {
            to.control.borrow_mut().open_mut().give_back(octets);
            return Err(Error::WouldBlock(Wait::Room));
        }
        drop(transmit);
        to.forwards.set(true);
        to.sent.update(|n| n + 1);
        to.tell();
        Ok(())
    }
}
