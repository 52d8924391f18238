//! What the server tells of its own accord.

use std::time::Duration;

use cellgate_core::Time;
use cellgate_core::application::{Cause, End};
use cellgate_core::server::Indication;

use super::Connection;
use super::memory::{self, Memory};
use crate::Error;
use crate::clock::now;
use crate::control::NewMemory;

impl Connection {
    /// The next thing that the server told of its own accord, oldest first. At most 64 are kept;
    /// [`Connection::contract`] and the rest are up to date whether these are read or not.
    ///
    /// After [`Indication::CanGrow`]: [`Connection::accept_offer`] or
    /// [`Connection::decline_offer`].
    ///
    /// # Errors
    /// The kernel refuses, or the server's message makes no sense.
    pub fn next_indication(&self) -> Result<Option<Indication>, Error> {
        self.look()?;
        Ok(self.control.borrow_mut().next_indication())
    }

    /// The same; waits until there is one, at most `timeout`.
    ///
    /// # Errors
    /// As [`Connection::next_indication`]; [`Error::TimedOut`]; the connection has ended.
    pub fn next_indication_timeout(&self, timeout: Duration) -> Result<Indication, Error> {
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let deadline = now().plus_ns(timeout);
        loop {
            if let Some(indication) = self.next_indication()? {
                return Ok(indication);
            }
            self.check_end()?;
            if !self.control.borrow().wait_to_hear(Some(deadline))? {
                return Err(Error::TimedOut);
            }
        }
    }

    /// Looks at the control socket if nobody of the session has for some time, or somebody has
    /// heard something for this connection. It costs a system call.
    #[inline]
    pub(super) fn look_now_and_then(&self, now: Time) -> Result<(), Error> {
        if !self.hub.is_to_look(now) && !self.control.borrow().has_any() {
            return Ok(());
        }
        self.look()
    }

    /// Hears all that waits at the control socket.
    pub(super) fn look(&self) -> Result<(), Error> {
        if self.control.borrow().end().is_some() {
            return Ok(());
        }
        loop {
            let heard = self.control.borrow_mut().hear();
            self.map_new_memory()?;
            match heard {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(Error::Closed) => {
                    self.hub
                        .poller
                        .forget_control(self.control.borrow().as_fd());
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the connection has ended.
    pub(super) fn check_end(&self) -> Result<(), Error> {
        let end: Option<End> = self.control.borrow().end();
        end.map_or(Ok(()), |end| Err(end.into()))
    }

    /// Maps what the server has given the connection since the last call.
    pub(super) fn map_new_memory(&self) -> Result<(), Error> {
        loop {
            let memory = self.control.borrow_mut().next_memory();
            let Some(NewMemory {
                opened,
                came,
                cause,
            }) = memory
            else {
                return Ok(());
            };
            let memory = match cause {
                Cause::Modified => memory::of_connection(&opened, came.0)?,
                Cause::Opened | Cause::Reopened => {
                    let (memory, attachment) = memory::all(&self.hub, &opened, came.0, None)?;
                    self.move_to(attachment, &opened);
                    memory
                }
            };
            let Memory {
                transmit,
                receive,
                capability,
            } = memory;
            self.next_transmit.replace(Some(transmit));
            self.receive.borrow_mut().add(receive);
            self.capability.replace(capability);
        }
    }
}
