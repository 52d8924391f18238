//! The pseudo-interrupt thread (paper 003): waits for what the adapter and the kernel tell of any
//! worker's connection or device, and wakes that worker.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{futex, gettid};

use super::WORKERS_MAX;
use crate::sys::{AdapterCpus, Cpus, Duty, ThreadScheduling, name_thread, take_duty};

/// What a worker is told by. Whoever wakes it waits for nobody: no lock is shared.
#[derive(Debug, Default)]
pub(super) struct Bell(AtomicU32);

impl Bell {
    /// There may be something to do.
    pub(super) const RUNG: u32 = 1;
    /// The device may be gone.
    pub(super) const GONE: u32 = 2;
    /// The worker is to end.
    pub(super) const STOP: u32 = 4;

    pub(super) fn ring(&self, why: u32) {
        self.0.fetch_or(why, Ordering::Release);
        // It fails for addresses that are none.
        let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
    }

    /// Whether the worker is to end.
    pub(super) fn stops(&self) -> bool {
        self.0.load(Ordering::Relaxed) & Self::STOP != 0
    }

    /// Sleeps until it was rung since the last call; why. 0: it was not for so long.
    pub(super) fn wait(&self, patience: Option<Duration>) -> u32 {
        let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
        loop {
            match self.0.fetch_and(Self::STOP, Ordering::Acquire) {
                // Whoever rings meanwhile has changed the value: there is no sleep then.
                0 => {
                    let flags = futex::Flags::PRIVATE;
                    if futex::wait(&self.0, flags, 0, patience.as_ref()) == Err(Errno::TIMEDOUT) {
                        return 0;
                    }
                }
                why => return why,
            }
        }
    }
}

/// The thread, and what it waits for.
#[derive(Clone, Debug)]
pub(super) struct Interrupts {
    epoll: Arc<OwnedFd>,
    bells: Arc<[Bell; WORKERS_MAX]>,
    thread: Option<Pid>,
}

/// A worker's part of it.
#[derive(Clone, Debug)]
pub(super) struct Line {
    interrupts: Interrupts,
    slot: usize,
}

impl Interrupts {
    /// Starts the thread; how it is scheduled. `fails`: it cannot wait any more.
    pub(super) fn start(
        cpus: &Cpus,
        adapters: AdapterCpus,
        fails: impl FnOnce(Errno) + Send + 'static,
    ) -> io::Result<(Self, ThreadScheduling)> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Self::start_on(epoll, cpus, adapters, fails)
    }

    fn start_on(
        epoll: OwnedFd,
        cpus: &Cpus,
        adapters: AdapterCpus,
        fails: impl FnOnce(Errno) + Send + 'static,
    ) -> io::Result<(Self, ThreadScheduling)> {
        let mut interrupts = Self {
            epoll: Arc::new(epoll),
            bells: Arc::new(std::array::from_fn(|_| Bell::default())),
            thread: None,
        };
        let (told, scheduling) = std::sync::mpsc::sync_channel(1);
        let (thread, cpus) = (interrupts.clone(), cpus.clone());
        let builder = std::thread::Builder::new().name("interrupts".to_owned());
        builder.spawn(move || {
            name_thread("cg-interrupt");
            // Its starter waits for it.
            let _ = told.send((gettid(), take_duty(Duty::Interrupt, &cpus, &adapters)));
            fails(thread.run());
        })?;
        let (thread, scheduling) = scheduling.recv().map_err(io::Error::other)?;
        interrupts.thread = Some(thread);
        Ok((interrupts, scheduling))
    }

    /// Has the thread keep off other CPUs, in the class that it has.
    pub(super) fn keep_off(&self, cpus: &Cpus, adapters: &AdapterCpus) {
        if let Some(thread) = self.thread {
            cpus.give_beside(thread, adapters);
        }
    }

    /// As long as it can wait; why it cannot.
    fn run(&self) -> Errno {
        let nothing = epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        };
        let mut events = [nothing; WORKERS_MAX];
        loop {
            let found = match epoll::wait(&self.epoll, &mut events[..], None) {
                Ok(found) => found,
                Err(Errno::INTR) => 0,
                Err(error) => return error,
            };
            for event in &events[..found] {
                let broken = epoll::EventFlags::ERR | epoll::EventFlags::HUP;
                let (flags, data) = (event.flags, event.data);
                let why = match flags.intersects(broken) {
                    true => Bell::RUNG | Bell::GONE,
                    false => Bell::RUNG,
                };
                // A slot: see `Line::arm`.
                if let Some(bell) = self.bells.get(data.u64() as usize) {
                    bell.ring(why);
                }
            }
        }
    }

    /// That of a worker: `slot` is below [`WORKERS_MAX`], and nobody else's.
    pub(super) fn line(&self, slot: usize) -> Line {
        // What was told to the worker before.
        self.bells[slot].0.store(0, Ordering::Relaxed);
        Line {
            interrupts: self.clone(),
            slot,
        }
    }
}

impl Line {
    pub(super) fn bell(&self) -> &Bell {
        &self.interrupts.bells[self.slot]
    }

    /// Begins with a descriptor: nothing is told of it yet.
    pub(super) fn watch(&self, fd: impl AsFd) -> io::Result<()> {
        let (data, flags) = (self.data(), epoll::EventFlags::ONESHOT);
        Ok(epoll::add(&self.interrupts.epoll, fd, data, flags)?)
    }

    /// Has the worker woken once as soon as the descriptor is readable, at once if it is; without
    /// `readable`, only when it is broken.
    pub(super) fn arm(&self, fd: impl AsFd, readable: bool) -> io::Result<()> {
        let mut flags = epoll::EventFlags::ONESHOT;
        flags.set(epoll::EventFlags::IN, readable);
        Ok(epoll::modify(
            &self.interrupts.epoll,
            fd,
            self.data(),
            flags,
        )?)
    }

    /// Ends with a descriptor, which others may hold longer.
    pub(super) fn forget(&self, fd: impl AsFd) {
        // It fails where it was not begun with.
        let _ = epoll::delete(&self.interrupts.epoll, fd);
    }

    fn data(&self) -> epoll::EventData {
        epoll::EventData::new_u64(self.slot as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::pair;

    #[test]
    fn a_worker_is_woken_once_for_each_time_it_armed() {
        let (interrupts, _) =
            Interrupts::start(&Cpus::present(), AdapterCpus::ANY, |_| {}).unwrap();
        let lines = [interrupts.line(0), interrupts.line(WORKERS_MAX - 1)];
        let ends = [pair().unwrap(), pair().unwrap()];
        for (line, (mine, _)) in lines.iter().zip(&ends) {
            line.watch(mine).unwrap();
        }
        for round in 0..1_000 {
            let which = round % 2;
            let (mine, theirs) = &ends[which];
            // Told before or after it was armed.
            if round % 4 < 2 {
                lines[which].arm(mine, true).unwrap();
            }
            rustix::io::write(theirs, b"x").unwrap();
            if round % 4 >= 2 {
                lines[which].arm(mine, true).unwrap();
            }
            assert_eq!(lines[which].bell().wait(None), Bell::RUNG);
            let patience = Some(Duration::from_millis(1));
            assert_eq!(lines[which].bell().wait(patience), 0);
            rustix::io::read(mine, &mut [0; 1]).unwrap();
        }
        let (mine, theirs) = &ends[0];
        lines[0].arm(mine, false).unwrap();
        rustix::io::write(theirs, b"x").unwrap();
        assert_eq!(lines[0].bell().0.load(Ordering::Relaxed), 0);
        lines[1].bell().ring(Bell::STOP);
        assert_eq!(lines[1].bell().wait(None), Bell::STOP);
        assert!(lines[1].bell().stops());
        assert!(!interrupts.line(WORKERS_MAX - 1).bell().stops());
    }

    #[test]
    fn a_thread_that_cannot_wait_says_so() {
        let (tell, told) = std::sync::mpsc::channel();
        let (no_epoll, _) = pair().unwrap();
        let fails = move |error| tell.send(error).unwrap();
        Interrupts::start_on(no_epoll, &Cpus::present(), AdapterCpus::ANY, fails).unwrap();
        let patience = Duration::from_secs(60);
        assert_eq!(told.recv_timeout(patience), Ok(Errno::INVAL));
    }
}
