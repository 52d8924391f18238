//! What the server tells of its own accord.

use std::os::fd::OwnedFd;
use std::time::Duration;

use cellgate_core::Time;
use cellgate_core::server::{Indication, Opened};
use cellgate_shm::is_same_file;

use super::{Connection, End, memory};
use crate::Error;
use crate::clock::now;
use crate::control::Heard;

/// Indications that are kept for the application; beyond, the oldest go.
pub(super) const KEPT_MAX: usize = 64;

/// How often a call that need not wait looks at the control socket.
const LOOK_NS: u64 = 10_000_000;

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
        Ok(self.facts.borrow_mut().indications.pop_front())
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
            let heard = self.control.borrow_mut().hear_within(Some(deadline));
            match heard {
                Ok(Some(heard)) => self.hear(heard)?,
                Ok(None) => return Err(Error::TimedOut),
                Err(error) => self.hang_up(error)?,
            }
        }
    }

    /// Looks at the control socket if the last look was some time ago. It costs a system call.
    #[inline]
    pub(super) fn look_now_and_then(&self, now: Time) -> Result<(), Error> {
        if now < self.look_at.get() {
            return Ok(());
        }
        self.look_at.set(now.plus_ns(LOOK_NS));
        self.look()
    }

    /// Hears all that waits at the control socket.
    pub(super) fn look(&self) -> Result<(), Error> {
        if self.end.get().is_some() {
            return Ok(());
        }
        loop {
            let heard = self.control.borrow_mut().poll();
            // A change that had timed out was carried out before whatever was said after it.
            let late = self.control.borrow_mut().take_late();
            if let Some(confirmed) = late {
                self.told.set(true);
                self.modified(confirmed)?;
            }
            match heard {
                Ok(Some(heard)) => self.hear(heard)?,
                Ok(None) => return Ok(()),
                Err(error) => return self.hang_up(error),
            }
        }
    }

    /// Hears what was said before the last confirm, and nothing after it: that comes later.
    pub(super) fn hear_before(&self) -> Result<(), Error> {
        loop {
            let heard = self.control.borrow_mut().next_kept();
            match heard {
                Some(heard) => self.hear(heard)?,
                None => return Ok(()),
            }
        }
    }

    /// Whether the connection has ended.
    pub(super) fn check_end(&self) -> Result<(), Error> {
        self.end.get().map_or(Ok(()), |end| Err(end.into()))
    }

    /// A server that has hung up ends the connection; anything else is an error.
    fn hang_up(&self, error: Error) -> Result<(), Error> {
        let Error::Closed = error else {
            return Err(error);
        };
        self.told.set(true);
        // What it said before it hung up stands.
        if self.end.get().is_none() {
            self.end.set(Some(End::HungUp));
        }
        self.poller.forget_control(self.control.borrow().as_fd());
        Ok(())
    }

    fn hear(&self, heard: Heard) -> Result<(), Error> {
        let Heard {
            id,
            indication,
            fds,
        } = heard;
        self.told.set(true);
        match &indication {
            Indication::Ended(reason) => self.end.set(Some(End::Said(*reason))),
            // A new server cannot know whether the one before it has told this already.
            Indication::Reopened(_) if self.has_memory(&fds) => return Ok(()),
            Indication::Reopened(opened) => self.reopened(opened.clone(), fds)?,
            Indication::Share {
                transmit_credit, ..
            } => self.renewal.borrow_mut().credit = Some(*transmit_credit),
            Indication::CanGrow { .. } => self.facts.borrow_mut().offer = Some(id),
            Indication::AtRisk { .. }
            | Indication::Restarted
            | Indication::Connection { .. }
            | Indication::Interface { .. } => {}
        }
        let kept = &mut self.facts.borrow_mut().indications;
        if kept.len() == KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(indication);
        Ok(())
    }

    /// Whether the descriptors of an opened connection are those of its present memory.
    fn has_memory(&self, fds: &[OwnedFd]) -> bool {
        let from_client = fds.get(memory::FROM_CLIENT);
        let own = &self.facts.borrow().capability;
        from_client.is_some_and(|fd| is_same_file(fd, own))
    }

    fn reopened(&self, opened: Opened, fds: Vec<OwnedFd>) -> Result<(), Error> {
        let (memory, attached) = memory::all(&opened, fds)?;
        let former = self.attached.replace(attached);
        let attached = self.attached.borrow();
        self.poller.watch(former.as_fd(), attached.as_fd())?;
        self.renew(opened, Some(memory))
    }
}
