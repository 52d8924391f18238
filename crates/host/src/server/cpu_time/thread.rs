//! The thread that holds those of applications to their budgets.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{SyncSender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use cellgate_core::server::ClientId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::adapter::wake::silence;
use crate::clock::MonotonicClock;
use crate::meter::Meter;
use crate::sys::{
    AdapterCpus, Cpus, Duty, FavouredThread, ThreadScheduling, name_thread, take_duty,
};

/// From one look to the next.
const LOOK: Duration = Duration::from_millis(1);

/// How a thread is scheduled, or why it is not.
type Answer = SyncSender<Result<ThreadScheduling, String>>;

/// News from the service thread.
pub(super) enum Told {
    Hold(ClientId, Held, Answer),
    Release(ClientId),
    KeepOff(AdapterCpus),
    /// Nobody has anything reserved any more.
    End,
    /// As if the process had been killed.
    #[cfg(test)]
    Die,
}

/// A thread that is held to its budget.
pub(super) struct Held {
    thread: FavouredThread,
    ppm: u32,
    meter: Meter,
}

impl Held {
    pub(super) fn new(mut thread: FavouredThread, ppm: u32, budget_ns: u64) -> Self {
        let used = thread.used_ns().unwrap_or(0);
        let meter = Meter::with_burst(ppm, budget_ns, MonotonicClock.now(), used);
        Self { thread, ppm, meter }
    }

    /// Has it be within its budget or like any other; false: it has ended.
    fn look(&mut self, adapters: &AdapterCpus) -> bool {
        let Some(used) = self.thread.used_ns() else {
            return false;
        };
        let was_within = self.meter.is_within();
        let mut is_within = self.meter.charge(MonotonicClock.now(), used);
        if was_within && self.thread.strays(adapters) {
            self.meter.forfeit();
            is_within = false;
        }
        match (was_within, is_within) {
            (true, false) => self.thread.demote(),
            (false, true) if self.thread.favour(self.ppm, adapters).is_err() => {
                self.meter.forfeit();
            }
            _ => {}
        }
        true
    }
}

/// Starts it; how it is scheduled.
pub(super) fn start(
    cpus: Cpus,
    adapters: AdapterCpus,
    inbox: Arc<Mutex<Vec<Told>>>,
    bell: Arc<OwnedFd>,
) -> std::io::Result<(ThreadScheduling, JoinHandle<()>)> {
    let (tells, told) = channel();
    let thread = std::thread::Builder::new()
        .name("reserve".to_owned())
        .spawn(move || {
            name_thread("cg-reserve");
            let take = |adapters: &AdapterCpus| take_duty(Duty::Interrupt, &cpus, adapters);
            let scheduling = take(&adapters);
            let is_real_time = scheduling.is_real_time();
            let _ = tells.send(scheduling);
            // One that is not would come behind those that it has to hold.
            if is_real_time {
                run(&inbox, &bell, adapters, take);
            }
        })?;
    let scheduling = told.recv().map_err(std::io::Error::other)?;
    Ok((scheduling, thread))
}

fn run(
    inbox: &Mutex<Vec<Told>>,
    bell: &OwnedFd,
    mut adapters: AdapterCpus,
    take: impl Fn(&AdapterCpus) -> ThreadScheduling,
) {
    let mut held: BTreeMap<ClientId, Held> = BTreeMap::new();
    let look = Timespec::try_from(LOOK).ok();
    loop {
        let timeout = look.as_ref().filter(|_| !held.is_empty());
        // A wait that the kernel refuses is a short one.
        let _ = poll(&mut [PollFd::new(bell, PollFlags::IN)], timeout);
        // Who waited for the service thread would keep it from its CPU: what is told is heard at
        // the next look.
        let told = match inbox.try_lock() {
            Ok(mut inbox) => {
                silence(bell);
                std::mem::take(&mut *inbox)
            }
            Err(_) => {
                std::thread::sleep(LOOK);
                Vec::new()
            }
        };
        for told in told {
            match told {
                Told::Hold(client, mut new, answer) => {
                    if let Some(former) = held.remove(&client) {
                        former.thread.release();
                        new.thread.succeed(&former.thread);
                    }
                    let favoured = new.thread.favour(new.ppm, &adapters);
                    if favoured.is_ok() {
                        held.insert(client, new);
                    }
                    let _ = answer.try_send(favoured);
                }
                Told::Release(client) => {
                    if let Some(held) = held.remove(&client) {
                        held.thread.release();
                    }
                }
                Told::KeepOff(from_here_on) => {
                    adapters = from_here_on;
                    take(&adapters);
                }
                Told::End => {
                    return held.values().for_each(|one| one.thread.release());
                }
                #[cfg(test)]
                Told::Die => return,
            }
        }
        held.retain(|_, one| one.look(&adapters));
    }
}
