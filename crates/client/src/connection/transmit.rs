//! From the application to the adapter.

use core::ops::{Deref, DerefMut};
use std::cell::RefMut;
use std::time::Duration;

use cellgate_core::application::{Interest, Unsendable};
use cellgate_core::contract::UsageDecision;
use cellgate_core::queue::{self, SduOptions};
use cellgate_shm::ClientTransmit;

use super::Connection;
use crate::clock::now;
use crate::{Error, Wait};

/// Octets of the transmit buffer, borrowed for one SDU; written in place, then [submitted]. What is
/// dropped is not sent.
///
/// [submitted]: Space::submit
#[derive(Debug)]
#[must_use = "nothing is sent before `submit`"]
pub struct Space<'c> {
    connection: &'c Connection,
    transmit: RefMut<'c, ClientTransmit>,
    space: queue::Space,
}

impl Deref for Space<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.transmit.space(&self.space)
    }
}

impl DerefMut for Space<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.transmit.space_mut(&mut self.space)
    }
}

impl Space<'_> {
    /// Leaves the first `len` octets to be sent, at most those that there are; the credit of the
    /// rest is given back. For who learns how long an SDU is by writing it; with 0, dropping the
    /// space has cost nothing.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        let before = self.space.len();
        self.space.truncate(u32::try_from(len).unwrap_or(u32::MAX));
        // Below the largest SDU.
        let octets = (before - self.space.len()) as u32;
        self.connection
            .control
            .borrow_mut()
            .open_mut()
            .give_back(octets);
    }

    /// Hands the SDU to the adapter.
    ///
    /// # Errors
    /// Nothing is left of it ([`Error::Empty`]), or of AAL0 no cell ([`Error::NotACell`]), or not
    /// the size that the contract commits to ([`Error::NotFixed`]); the connection got new memory
    /// meanwhile ([`Error::SpaceLost`]).
    pub fn submit(self) -> Result<(), Error> {
        self.submit_with(SduOptions::default())
    }

    /// The same with what goes along with the SDU.
    ///
    /// # Errors
    /// As [`Space::submit`].
    #[inline]
    pub fn submit_with(self, options: SduOptions) -> Result<(), Error> {
        let connection = self.connection;
        self.hand_over(options)?;
        connection.tell();
        Ok(())
    }

    /// The same of an SDU that others follow at once: an adapter that rests is not woken for each
    /// of a row. It is told with the next that is submitted, or when this connection waits.
    ///
    /// # Errors
    /// As [`Space::submit`].
    #[inline]
    pub fn submit_more(self) -> Result<(), Error> {
        let connection = self.connection;
        self.hand_over(SduOptions::default())?;
        connection.untold.set(true);
        Ok(())
    }

    #[inline]
    fn hand_over(self, options: SduOptions) -> Result<(), Error> {
        let Self {
            connection,
            mut transmit,
            space,
        } = self;
        if space.len() == 0 {
            return Err(Error::Empty);
        }
        let control = connection.control.borrow();
        let (open, len) = (control.open(), space.len());
        if let Some(why) = open.is_odd(len) {
            return Err(refused(why, len));
        }
        let is_replaced = connection.next_transmit.borrow().is_some();
        if is_replaced || !transmit.submit(space, options) {
            return Err(Error::SpaceLost);
        }
        connection.sent.update(|n| n + 1);
        Ok(())
    }
}

impl Connection {
    /// Sends an SDU: copies it into the transmit buffer, suspended until there is credit and room.
    /// When the call returns, `sdu` may be used again; the adapter sends it in its time
    /// ([`Connection::flush`]).
    ///
    /// # Errors
    /// The SDU is empty, too long or on AAL0 no cell; the connection does not send, or has ended.
    pub fn send(&self, sdu: &[u8]) -> Result<(), Error> {
        self.send_with(sdu, SduOptions::default())
    }

    /// The same with what goes along with the SDU: user-to-user octet, low priority, MID.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn send_with(&self, sdu: &[u8], options: SduOptions) -> Result<(), Error> {
        self.copy_into(self.reserve(sdu.len())?, sdu, options)
    }

    /// The same; [`Error::TimedOut`] if it had to wait for more than `timeout`.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn send_timeout(&self, sdu: &[u8], timeout: Duration) -> Result<(), Error> {
        self.send_with_timeout(sdu, SduOptions::default(), timeout)
    }

    /// The same with what goes along with the SDU.
    ///
    /// # Errors
    /// As [`Connection::send_timeout`].
    pub fn send_with_timeout(
        &self,
        sdu: &[u8],
        options: SduOptions,
        timeout: Duration,
    ) -> Result<(), Error> {
        self.copy_into(self.reserve_timeout(sdu.len(), timeout)?, sdu, options)
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// As [`Connection::send`]; [`Error::WouldBlock`] says for what, and how long, it would wait.
    pub fn try_send(&self, sdu: &[u8]) -> Result<(), Error> {
        self.try_send_with(sdu, SduOptions::default())
    }

    /// The same with what goes along with the SDU.
    ///
    /// # Errors
    /// As [`Connection::try_send`].
    pub fn try_send_with(&self, sdu: &[u8], options: SduOptions) -> Result<(), Error> {
        self.copy_into(self.try_reserve(sdu.len())?, sdu, options)
    }

    /// Borrows room for an SDU of `len` octets, to be written in place: no copy. Waits for credit
    /// and room; the credit is spent, whether the space is submitted or not.
    ///
    /// # Errors
    /// As [`Connection::send`]; another space is borrowed.
    pub fn reserve(&self, len: usize) -> Result<Space<'_>, Error> {
        self.wait_until(None, Interest::send(len), || self.try_reserve(len))
    }

    /// The same; [`Error::TimedOut`] if it had to wait for more than `timeout`.
    ///
    /// # Errors
    /// As [`Connection::reserve`].
    pub fn reserve_timeout(&self, len: usize, timeout: Duration) -> Result<Space<'_>, Error> {
        self.wait_until(Some(timeout), Interest::send(len), || self.try_reserve(len))
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// As [`Connection::reserve`] and [`Connection::try_send`].
    #[inline]
    pub fn try_reserve(&self, len: usize) -> Result<Space<'_>, Error> {
        let now = now();
        self.look_now_and_then(now)?;
        self.check_end()?;
        let mut transmit = self.transmitter()?;
        self.check_buffer_is_its_own(&mut transmit)?;
        let mut control = self.control.borrow_mut();
        let open = control.open_mut();
        let sendable = open.sendable(len);
        let octets = sendable.map_err(|why| refused(why, len))?;
        // Credit is taken only where there is room.
        let wait = match transmit.reserve(octets) {
            None => Wait::Room,
            Some(space) => match open.request(now, octets) {
                UsageDecision::Transfer => {
                    return Ok(Space {
                        connection: self,
                        transmit,
                        space,
                    });
                }
                UsageDecision::SuspendUntil(until) => {
                    Wait::Credit(Duration::from_nanos(until.since_ns(now)))
                }
            },
        };
        drop(control);
        self.tell_untold();
        Err(Error::WouldBlock(wait))
    }

    /// Waits until the adapter has sent everything that was handed to it.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; a [`Space`] is borrowed; the connection has ended.
    pub fn flush(&self, timeout: Duration) -> Result<(), Error> {
        self.wait_until(Some(timeout), Interest::SENT, || {
            self.look_now_and_then(now())?;
            self.check_end()?;
            match self.transmitter()?.reclaim() {
                0 => Ok(()),
                _ => Err(Error::WouldBlock(Wait::Room)),
            }
        })
    }

    /// Tells the adapter of what was handed over.
    #[inline]
    pub(super) fn tell(&self) {
        let control = self.control.borrow();
        let attachment = self.attachment.borrow();
        let vc = control.open().opened().vc;
        attachment.shared().attached.ring(vc);
        self.pass();
        self.untold.set(false);
    }

    /// The same, if it has not been told.
    pub(super) fn tell_untold(&self) {
        if self.untold.get() {
            self.tell();
        }
    }

    fn copy_into(
        &self,
        mut space: Space<'_>,
        sdu: &[u8],
        options: SduOptions,
    ) -> Result<(), Error> {
        space.copy_from_slice(sdu);
        self.send_copies.update(|n| n + 1);
        space.submit_with(options)
    }

    /// The transmit half as the server wants it.
    pub(super) fn transmitter(&self) -> Result<RefMut<'_, ClientTransmit>, Error> {
        let transmit = self.transmit.try_borrow_mut();
        let mut transmit = transmit.map_err(|_| Error::SpaceBorrowed)?;
        if let Some(next) = self.next_transmit.take() {
            *transmit = next;
        }
        Ok(transmit)
    }
}

/// Why an SDU of `len` octets is never sent.
pub(super) fn refused(why: Unsendable, len: usize) -> Error {
    match why {
        Unsendable::DoesNotSend => Error::DoesNotSend,
        Unsendable::Empty => Error::Empty,
        Unsendable::TooLong { max } => Error::TooLong { len, max },
        Unsendable::NotACell => Error::NotACell { len },
        Unsendable::NotFixed { size } => Error::NotFixed { len, size },
    }
}
