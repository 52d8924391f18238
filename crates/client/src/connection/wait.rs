//! Waiting: here, or by whoever polls the descriptor.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use cellgate_core::Time;
use cellgate_core::application::Interest;
use cellgate_shm::Attached;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::Connection;
use crate::Error;
use crate::clock::now;
use crate::control::timespec;

enum Prepared {
    /// Try again at once.
    Ready,
    /// The descriptor will become readable; try again at this time in any case.
    Armed { until: Option<Time> },
}

/// What became readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Source {
    Control,
    WakeUp,
    Timer,
}

/// One descriptor for all that can happen: the adapter's wake-up, the control socket, a time.
///
/// The wake-up is watched by edges: whoever sleeps here hears of each once, and takes none off the
/// descriptor of the wake-up itself.
#[derive(Debug)]
pub(super) struct Poller {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// The timer runs, or has run out.
    timed: Cell<bool>,
}

impl Poller {
    pub(super) fn new(control: BorrowedFd<'_>, wake_up: BorrowedFd<'_>) -> Result<Self, Error> {
        let poller = Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            timer: timerfd_create(
                TimerfdClockId::Monotonic,
                TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
            )?,
            timed: Cell::new(false),
        };
        poller.add(control, Source::Control)?;
        poller.add(wake_up, Source::WakeUp)?;
        poller.add(poller.timer.as_fd(), Source::Timer)?;
        Ok(poller)
    }

    fn add(&self, fd: BorrowedFd<'_>, source: Source) -> Result<(), Error> {
        let mut flags = epoll::EventFlags::IN;
        flags.set(epoll::EventFlags::ET, source == Source::WakeUp);
        let data = epoll::EventData::new_u64(source as u64);
        Ok(epoll::add(&self.epoll, fd, data, flags)?)
    }

    /// Sleeps until something happens or `until` has come (none: never): whether the control socket
    /// and the adapter have told something. A signal handler that ran in between ends it, too.
    fn sleep(&self, until: Option<Time>) -> Result<(bool, bool), Error> {
        let timeout = until.map(|until| timespec(until.since_ns(now())));
        let mut events = [const { MaybeUninit::uninit() }; Source::Timer as usize + 1];
        let events = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((events, _)) => &*events,
            Err(Errno::INTR) => &[],
            Err(errno) => return Err(errno.into()),
        };
        let has = |source| {
            let mut data = events.iter().map(|event| event.data);
            data.any(|data| data.u64() == source as u64)
        };
        Ok((has(Source::Control), has(Source::WakeUp)))
    }

    /// Another adapter's wake-up in place of the former's.
    pub(super) fn watch(
        &self,
        former: BorrowedFd<'_>,
        wake_up: BorrowedFd<'_>,
    ) -> Result<(), Error> {
        epoll::delete(&self.epoll, former)?;
        self.add(wake_up, Source::WakeUp)
    }

    /// A socket that was hung up is readable for ever.
    pub(super) fn forget_control(&self, control: BorrowedFd<'_>) {
        // It fails where it was forgotten before.
        let _ = epoll::delete(&self.epoll, control);
    }

    /// Has the timer run out at `at`, or never.
    fn set_timer(&self, at: Option<Time>) -> Result<(), Error> {
        if at.is_none() && !self.timed.get() {
            return Ok(());
        }
        let value = Itimerspec {
            it_interval: timespec(0),
            // 0 would stop it.
            it_value: timespec(at.map_or(0, |at| at.ns().max(1))),
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &value)?;
        self.timed.set(at.is_some());
        Ok(())
    }
}

impl AsFd for Connection {
    /// Readable when there is something to do: see [`Connection::arm`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.epoll.as_fd()
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
        self.attached.borrow_mut().drain()?;
        // What was told is off the socket, and may have changed all that the last try met: the
        // memory, the credit, the end.
        if self.control.borrow_mut().take_told() {
            return Ok(false);
        }
        match self.prepare(interest)? {
            Prepared::Ready => Ok(false),
            Prepared::Armed { until } => {
                self.poller.set_timer(until)?;
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
        self.attached.borrow_mut().disarm();
        self.poller.set_timer(None)
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
        let Prepared::Armed { until } = self.prepare(interest)? else {
            return Ok(());
        };
        let until = match (until, deadline) {
            (Some(until), Some(deadline)) => Some(until.min(deadline)),
            (until, deadline) => until.or(deadline),
        };
        let slept = self.poller.sleep(until);
        self.attached.borrow_mut().disarm();
        let (told, woken) = slept?;
        if woken {
            self.attached.borrow_mut().count_wakeup();
        }
        match told {
            true => self.look(),
            false => Ok(()),
        }
    }

    /// Tells the adapter that somebody sleeps, unless there is something to do.
    fn prepare(&self, interest: Interest) -> Result<Prepared, Error> {
        self.tell_untold();
        self.poller.set_timer(None)?;
        let attached = &mut *self.attached.borrow_mut();
        let mut events = self.events.borrow_mut();
        events.take_off(attached);
        attached.events_lost();
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
                || interest.is_for_event() && events.waits()
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
