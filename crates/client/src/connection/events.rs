//! Events of the adapter, for applications that want to read them.

use std::collections::VecDeque;
use std::time::Duration;

use cellgate_core::adapter::Event;
use cellgate_core::application::Interest;
use cellgate_shm::Attached;

use super::Connection;
use crate::{Error, Wait};

/// Events for an application that wants them ([`Builder::events`](crate::Builder::events)).
#[derive(Debug, Default)]
pub(super) struct Events {
    kept: VecDeque<Event>,
    /// 0: nobody wants any.
    max: usize,
    /// Those that found no room here.
    lost: u64,
}

impl Events {
    fn keeping(max: usize) -> Self {
        Self {
            kept: VecDeque::with_capacity(max),
            max,
            lost: 0,
        }
    }

    /// Takes all events off the queue, in order. The newest go where there is no room.
    pub(super) fn take_off(&mut self, attached: &mut Attached) {
        while let Some(event) = attached.next_event() {
            if self.kept.len() < self.max {
                self.kept.push_back(event);
            } else {
                self.lost += u64::from(self.max > 0);
            }
        }
    }

    pub(super) fn waits(&self) -> bool {
        !self.kept.is_empty()
    }
}

impl Connection {
    pub(crate) fn keep_events(&self, max: usize) {
        self.events.replace(Events::keeping(max));
    }

    /// The next event of the adapter, in its order; none waits: none. Events are kept if
    /// [`Builder::events`](crate::Builder::events) says so. They tell, and do nothing: a PDU is
    /// received by [`Connection::recv`] or [`Connection::next_pdu`], whether its event is read or
    /// not.
    ///
    /// Four of the five events of *Policing Offloaded* (section 4.2) are among them. The fifth, the
    /// end of a control command, is a call's return here: the server gives the commands.
    pub fn next_event(&self) -> Option<Event> {
        let mut events = self.events.borrow_mut();
        if events.max > 0 {
            events.take_off(&mut self.attached.borrow_mut());
        }
        events.kept.pop_front()
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

    /// Events that found no room: in the queue, or among those that are kept.
    pub fn events_lost(&self) -> u64 {
        let mut attached = self.attached.borrow_mut();
        attached.events_lost();
        self.events.borrow().lost + attached.counters().lost
    }

    /// An application that goes on without a wait must not let events fill their queue.
    #[inline]
    pub(super) fn pass(&self, attached: &mut Attached) {
        if attached.pass() {
            self.events.borrow_mut().take_off(attached);
        }
    }
}
