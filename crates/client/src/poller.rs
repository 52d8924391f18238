//! One descriptor for whoever waits.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use cellgate_core::Time;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::Error;
use crate::clock::now;
use crate::control::timespec;

/// The descriptors that can become readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Source {
    Control,
    WakeUp,
    Timer,
}

/// One descriptor for all that can happen: adapters' wake-ups, the control socket, a time.
///
/// A wake-up is watched by edges: whoever sleeps here hears of each once, and takes none off the
/// descriptor of the wake-up itself.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// The timer runs, or has run out.
    timed: AtomicBool,
}

impl Poller {
    pub(crate) fn new(control: BorrowedFd<'_>) -> Result<Self, Error> {
        let poller = Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            timer: timerfd_create(
                TimerfdClockId::Monotonic,
                TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
            )?,
            timed: AtomicBool::new(false),
        };
        poller.add(control, Source::Control)?;
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
    pub(crate) fn sleep(&self, until: Option<Time>) -> Result<(bool, bool), Error> {
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

    /// The wake-up of an attachment.
    pub(crate) fn watch(&self, wake_up: BorrowedFd<'_>) -> Result<(), Error> {
        self.add(wake_up, Source::WakeUp)
    }

    /// The wake-up of an attachment that goes.
    pub(crate) fn forget_wake_up(&self, wake_up: BorrowedFd<'_>) {
        // It fails where the kernel has no memory left for it; the descriptor's end does the same.
        let _ = epoll::delete(&self.epoll, wake_up);
    }

    /// A socket that was hung up is readable for ever.
    pub(crate) fn forget_control(&self, control: BorrowedFd<'_>) {
        // It fails where it was forgotten before.
        let _ = epoll::delete(&self.epoll, control);
    }

    /// Has the timer run out at `at`, or never.
    pub(crate) fn set_timer(&self, at: Option<Time>) -> Result<(), Error> {
        if at.is_none() && !self.timed.load(Relaxed) {
            return Ok(());
        }
        let value = Itimerspec {
            it_interval: timespec(0),
            // 0 would stop it.
            it_value: timespec(at.map_or(0, |at| at.ns().max(1))),
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &value)?;
        self.timed.store(at.is_some(), Relaxed);
        Ok(())
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
