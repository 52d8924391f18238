//! From the application to the adapter.

use core::ops::{Deref, DerefMut};
use std::cell::{Cell, RefMut};
use std::time::Duration;

use cellgate_core::Time;
use cellgate_core::adapter::VcId;
use cellgate_core::contract::{Aal, Credit, Remainder, UsageControl, UsageDecision};
use cellgate_core::queue::{self, SduOptions};
use cellgate_core::server::Opened;
use cellgate_core::wire::CELL_LEN_NO_HEC;
use cellgate_shm::ClientTransmit;

use super::{Connection, Interest};
use crate::clock::now;
use crate::{Error, Wait};

/// The transmit half.
#[derive(Debug)]
pub(super) struct Transmitter {
    memory: ClientTransmit,
    vc: VcId,
    max_sdu: Option<u16>,
    /// SDUs are cells of AAL0.
    is_cells: bool,
    /// None: the adapter's share is the only pace.
    pace: Option<UsageControl>,
    /// Until when the writer has no credit.
    suspended_until: Option<Time>,
}

/// What was sent. Not within the transmit half, which is borrowed while a [`Space`] is.
#[derive(Debug, Default)]
pub(super) struct SendCounters {
    pub(super) sent: Cell<u64>,
    pub(super) copies: Cell<u64>,
    pub(super) suspended: Cell<u64>,
}

/// What becomes of the transmit half when the server has changed the connection.
#[derive(Debug, Default)]
pub(super) struct Renewal {
    pub(super) opened: Option<(VcId, Option<u16>)>,
    pub(super) credit: Option<Option<Credit>>,
    pub(super) memory: Option<ClientTransmit>,
}

impl Renewal {
    fn is_due(&self) -> bool {
        self.opened.is_some() || self.credit.is_some() || self.memory.is_some()
    }
}

impl Transmitter {
    pub(super) fn new(memory: ClientTransmit, opened: &Opened, aal: Option<Aal>) -> Self {
        Self {
            memory,
            vc: opened.vc,
            max_sdu: opened.transmit_max_sdu,
            is_cells: aal == Some(Aal::Aal0),
            pace: opened.transmit_credit.map(|credit| paced(now(), credit)),
            suspended_until: None,
        }
    }

    fn renew(&mut self, renewal: &mut Renewal) {
        if let Some((vc, max_sdu)) = renewal.opened.take() {
            (self.vc, self.max_sdu) = (vc, max_sdu);
        }
        if let Some(memory) = renewal.memory.take() {
            self.memory = memory;
        }
        match (renewal.credit.take(), &mut self.pace) {
            (Some(Some(credit)), Some(pace)) => pace.modify(credit),
            (Some(credit), pace) => *pace = credit.map(|credit| paced(now(), credit)),
            (None, _) => {}
        }
    }

    /// Room and credit for an SDU, or what it waits for. Credit is taken only where there is room.
    #[inline]
    fn admit(
        &mut self,
        now: Time,
        len: usize,
        counters: &SendCounters,
    ) -> Result<queue::Space, Error> {
        let max = self.max_sdu.ok_or(Error::DoesNotSend)?;
        let len = match u16::try_from(len) {
            Ok(0) => return Err(Error::Empty),
            Ok(fits) if fits <= max => u32::from(fits),
            _ => return Err(Error::TooLong { len, max }),
        };
        self.is_whole(len as usize)?;
        let space = self.memory.reserve(len);
        let space = space.ok_or(Error::WouldBlock(Wait::Room))?;
        let Some(pace) = &mut self.pace else {
            return Ok(space);
        };
        match pace.request(now, len) {
            UsageDecision::Transfer => {
                self.suspended_until = None;
                Ok(space)
            }
            UsageDecision::SuspendUntil(until) => {
                if self.suspended_until.replace(until) != Some(until) {
                    counters.suspended.update(|n| n + 1);
                }
                let after = Duration::from_nanos(until.since_ns(now));
                Err(Error::WouldBlock(Wait::Credit(after)))
            }
        }
    }

    /// Whether an SDU can have so many octets: of AAL0 just those of a cell.
    fn is_whole(&self, len: usize) -> Result<(), Error> {
        match self.is_cells && len != CELL_LEN_NO_HEC {
            true => Err(Error::NotACell { len }),
            false => Ok(()),
        }
    }

    /// When the writer that was suspended has credit again.
    pub(super) fn suspended_at(&self, now: Time) -> Option<Time> {
        self.suspended_until.filter(|until| *until > now)
    }

    /// Whether there is room for an SDU of `len` octets.
    pub(super) fn has_room(&mut self, len: u32) -> bool {
        self.memory.reserve(len).is_some()
    }

    /// As [`ClientTransmit::share`].
    pub(super) fn share(&mut self) {
        self.memory.share();
    }

    /// SDUs that the adapter has not sent.
    pub(super) fn unsent(&mut self) -> u32 {
        self.memory.reclaim()
    }
}

/// How late a writer may wake up and still send all that was its due: as long as an adapter of the
/// usual configuration may stand still. The adapter shapes what then comes at once.
const LATE_NS: u64 = 30_000_000;

/// What a waiting PDU leaves of a credit is carried on: the rate is exact whatever its size.
fn paced(now: Time, credit: Credit) -> UsageControl {
    UsageControl::new(now, credit, Remainder::Carried).catching_up(LATE_NS)
}

/// Octets of the transmit buffer, borrowed for one SDU; written in place, then [submitted]. What is
/// dropped is not sent.
///
/// [submitted]: Space::submit
#[derive(Debug)]
#[must_use = "nothing is sent before `submit`"]
pub struct Space<'c> {
    connection: &'c Connection,
    transmit: RefMut<'c, Transmitter>,
    space: queue::Space,
}

impl Deref for Space<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.transmit.memory.space(&self.space)
    }
}

impl DerefMut for Space<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.transmit.memory.space_mut(&mut self.space)
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
        if let Some(pace) = &mut self.transmit.pace {
            // Below the largest SDU.
            pace.give_back((before - self.space.len()) as u32);
        }
    }

    /// Hands the SDU to the adapter.
    ///
    /// # Errors
    /// Nothing is left of it ([`Error::Empty`]), or of AAL0 no cell ([`Error::NotACell`]); the
    /// connection got new memory meanwhile ([`Error::SpaceLost`]).
    pub fn submit(self) -> Result<(), Error> {
        self.submit_with(SduOptions::default())
    }

    /// The same with what goes along with the SDU.
    ///
    /// # Errors
    /// As [`Space::submit`].
    #[inline]
    pub fn submit_with(self, options: SduOptions) -> Result<(), Error> {
        let Self {
            connection,
            mut transmit,
            space,
        } = self;
        if space.len() == 0 {
            return Err(Error::Empty);
        }
        transmit.is_whole(space.len())?;
        let replaced = connection.renewal.borrow().memory.is_some();
        if replaced || !transmit.memory.submit(space, options) {
            return Err(Error::SpaceLost);
        }
        connection.sent.sent.update(|n| n + 1);
        let mut attached = connection.attached.borrow_mut();
        attached.ring(transmit.vc);
        // What tells of SDUs that have left must not fill the event queue.
        attached.pass();
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
        let space = transmit.admit(now, len, &self.sent)?;
        Ok(Space {
            connection: self,
            transmit,
            space,
        })
    }

    /// Waits until the adapter has sent everything that was handed to it.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; a [`Space`] is borrowed; the connection has ended.
    pub fn flush(&self, timeout: Duration) -> Result<(), Error> {
        self.wait_until(Some(timeout), Interest::SENT, || {
            self.look_now_and_then(now())?;
            self.check_end()?;
            match self.transmitter()?.unsent() {
                0 => Ok(()),
                _ => Err(Error::WouldBlock(Wait::Room)),
            }
        })
    }

    fn copy_into(
        &self,
        mut space: Space<'_>,
        sdu: &[u8],
        options: SduOptions,
    ) -> Result<(), Error> {
        space.copy_from_slice(sdu);
        self.sent.copies.update(|n| n + 1);
        space.submit_with(options)
    }

    /// The transmit half as the server wants it.
    pub(super) fn transmitter(&self) -> Result<RefMut<'_, Transmitter>, Error> {
        let transmit = self.transmit.try_borrow_mut();
        let mut transmit = transmit.map_err(|_| Error::SpaceBorrowed)?;
        let mut renewal = self.renewal.borrow_mut();
        if renewal.is_due() {
            transmit.renew(&mut renewal);
        }
        Ok(transmit)
    }
}
