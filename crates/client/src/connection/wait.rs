//! Waiting: here, or by whoever polls the descriptor.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use cellgate_core::Time;
use cellgate_core::application::Interest;
use cellgate_shm::Attached;

use super::Connection;
use crate::Error;
use crate::clock::now;

enum Prepared {
    /// Try again at once.
    Ready,
    /// The descriptor will become readable; try again at this time in any case.
    Armed { until: Option<Time> },
}

impl AsFd for Connection {
    /// Readable when there is something to do: see [`Connection::arm`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.hub.poller.as_fd()
    }
}

impl Connection {
    /// For a caller that waits elsewhere, by `poll`, `epoll`, mio or an asynchronous runtime: has
    /// the connection's descriptor ([`AsFd`]) become readable as soon as what `interest` names may
    /// be possible, or the server has told something. `false`: it is possible already, or the
    /// server has told something since the last `arm`; nothing is armed, try at once.
    ///
    /// The order is: *try; where that would block, arm; where that says `true`, wait for the
    /// descriptor; try again.* Without `arm` the descriptor tells of nothing but the server, since
    /// the adapter spares wake-ups to those who have not said that they sleep.
    ///
    /// - One `true` is good for one wake-up. Arm again before each wait.
    /// - Polled by level, the descriptor stays readable until the next `arm`, which takes back
    ///   what was. Polled by edge (`EPOLLET`), each wake-up after an `arm` is an edge, whether or
    ///   not the descriptor was readable before. So no wake-up is lost either way, and runtimes
    ///   that clear a readiness of their own clear it after `arm` has said `true`.
    /// - A wake-up means *may*: the try can still block.
    /// - Credit that comes with time is told by a timer in the same descriptor.
    ///
    /// The descriptor is an epoll descriptor; it is for polling only.
    ///
    /// # Errors
    /// The kernel refuses, or the server's message makes no sense.
    pub fn arm(&self, interest: Interest) -> Result<bool, Error> {
        self.look()?;
        self.attachment.borrow().shared().attached.drain()?;
        // What was told is off the socket, and may have changed all that the last try met: the
        // memory, the credit, the end.
        if self.control.borrow_mut().take_told() {
            return Ok(false);
        }
        match self.prepare(interest)? {
            Prepared::Ready => Ok(false),
            Prepared::Armed { until } => {
                self.hub.poller.set_timer(until)?;
                Ok(true)
            }
        }
    }

    /// Takes [`Connection::arm`] back, for a caller that has stopped waiting: it spares the adapter
    /// a wake-up. The descriptor may be readable all the same.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn disarm(&self) -> Result<(), Error> {
        self.attachment.borrow().shared().attached.disarm();
        self.hub.poller.set_timer(None)
    }

    /// Tries until it does not block, waiting in between, for `timeout` at most.
    pub(crate) fn wait_until<T>(
        &self,
        timeout: Option<Duration>,
        interest: Interest,
        mut attempt: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut deadline = None;
        loop {
            match attempt() {
                Err(Error::WouldBlock(_)) => {}
                done => return done,
            }
            if let (None, Some(timeout)) = (deadline, timeout) {
                let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
                deadline = Some(now().plus_ns(timeout));
            }
            if deadline.is_some_and(|deadline| deadline <= now()) {
                return Err(Error::TimedOut);
            }
            self.wait(interest, deadline)?;
        }
    }

    /// Waits until `interest` may be possible or `deadline` has come.
    ///
    /// One system call, since most waits are short: the control socket is read only if it became
    /// readable, and a wake-up that came late for a former wait ends this one early.
    fn wait(&self, interest: Interest, deadline: Option<Time>) -> Result<(), Error> {
        // Others of the session may have heard it.
        if self.control.borrow().has_any() {
            return self.look();
        }
        let Prepared::Armed { until } = self.prepare(interest)? else {
            return Ok(());
        };
        let until = match (until, deadline) {
            (Some(until), Some(deadline)) => Some(until.min(deadline)),
            (until, deadline) => until.or(deadline),
        };
        let slept = self.hub.poller.sleep(until);
        let woken = slept.as_ref().is_ok_and(|(_, woken)| *woken);
        {
            let attachment = self.attachment.borrow();
            let mut shared = attachment.shared();
            shared.attached.disarm();
            if woken {
                shared.attached.count_wakeup();
            }
        }
        let (told, _) = slept?;
        match told {
            true => self.look(),
            false => Ok(()),
        }
    }

    /// Tells the adapter that somebody sleeps, unless there is something to do.
    fn prepare(&self, interest: Interest) -> Result<Prepared, Error> {
        self.tell_untold();
        self.hub.poller.set_timer(None)?;
        let attachment = self.attachment.borrow();
        let mut shared = attachment.shared();
        shared.take_off();
        let attached = &mut shared.attached;
        let now = now();
        let retry_ns = Attached::RETRY.subsec_nanos().into();
        let retry_at = (!attached.ring_all()).then(|| now.plus_ns(retry_ns));
        let control = self.control.borrow();
        let sleep = control.open().sleep(now, interest);
        let until = [retry_at, sleep.until].into_iter().flatten().min();

        let mut receive = self.receive.borrow_mut();
        // Who has borrowed a space waits for no room, and is told so by the next try.
        let mut transmit = self.transmit.try_borrow_mut().ok();
        if control.end().is_some() && !receive.waits() {
            return Ok(Prepared::Ready);
        }
        let mut possible = || {
            interest.receives() && receive.waits()
                || interest.is_for_event() && !self.events().kept.is_empty()
                || transmit.as_mut().is_some_and(|transmit| {
                    sleep
                        .room
                        .is_some_and(|len| transmit.reserve(len).is_some())
                        || interest.is_for_sent() && transmit.reclaim() == 0
                })
        };
        if !sleep.is_woken {
            attached.disarm();
        } else if !attached.arm(&mut possible) {
            return Ok(Prepared::Ready);
        }
        Ok(Prepared::Armed { until })
    }
}
