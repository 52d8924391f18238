//! Events of the adapter, for applications that want to read them.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use cellgate_core::adapter::Event;
use cellgate_core::application::Interest;

use super::Connection;
use crate::hub::Events;
use crate::{Error, Wait};

impl Connection {
    pub(crate) fn keep_events(&self, max: usize) {
        self.events().keep(max);
    }

    /// The next event of the adapter, in its order; none waits: none. Events are kept if
    /// [`Builder::events`](crate::Builder::events) says so. They tell, and do nothing: a PDU is
    /// received by [`Connection::recv`] or [`Connection::next_pdu`], whether its event is read or
    /// not.
    ///
    /// Four of the five events of *Policing Offloaded* (section 4.2) are among them. The fifth, the
    /// end of a control command, is a call's return here: the server gives the commands.
    pub fn next_event(&self) -> Option<Event> {
        let attachment = self.attachment.borrow();
        if self.events().max > 0 {
            attachment.shared().take_off();
        }
        self.events().kept.pop_front()
    }

    /// The same; waits for it, at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; the connection has ended, and every event is read.
    pub fn next_event_timeout(&self, timeout: Duration) -> Result<Event, Error> {
        self.wait_until(Some(timeout), Interest::EVENT, || {
            if let Some(event) = self.next_event() {
                return Ok(event);
            }
            self.check_end()?;
            Err(Error::WouldBlock(Wait::Event))
        })
    }

    /// Events that found no room: in the queue, which connections of a session share, or among
    /// those that are kept.
    pub fn events_lost(&self) -> u64 {
        let attachment = self.attachment.borrow();
        let mut shared = attachment.shared();
        shared.take_off();
        self.events().lost + shared.attached.counters().lost
    }

    /// For each SDU that was sent or read by a connection that needs no events: one that goes on
    /// without a wait must not let them fill their queue. They are not taken off each time, as it
    /// is the adapter that writes them: each look has to fetch them from its core.
    #[inline]
    pub(super) fn pass(&self) {
        if self.pass_left.get() > 0 {
            return self.pass_left.update(|left| left - 1);
        }
        let attachment = self.attachment.borrow();
        let mut shared = attachment.shared();
        shared.take_off();
        self.pass_left.set(shared.pass_max());
    }

    pub(super) fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
