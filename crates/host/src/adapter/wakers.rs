//! Who wakes clients: threads off the firmware's CPU, one for each user.
//!
//! Any number of waiters can watch the descriptor by which a client is woken, and whoever writes to
//! its other end walks through all of them. So the firmware thread only leaves a note in private
//! memory and rings a private bell, once however many of a user's clients it wakes; a thread that
//! has no other clients than that user's writes to what they wait on.
//!
//! ```text
//!  firmware thread                 cg-wake, one for each user            clients of the user
//!  Call::wake -- due, rung, bell --> looks at all that are due -- eventfd --> epoll descriptors
//! ```

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::Builder;

use cellgate_shm::Waker;
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::sched_getcpu;

use super::due::Class;
use super::wake::ring;
use crate::clock::{MonotonicClock, thread_cpu_ns};
use crate::closer::Closer;
use crate::meter::Meter;
use crate::sys::{AdapterCpus, Cpus, Duty, name_thread, take_duty};
use cellgate_core::adapter::PortIndex;
use cellgate_core::keeper::ConnectionId;

/// Stack of a thread that makes system calls and nothing else.
const STACK_LEN: usize = 128 << 10;

/// The CPU that the firmware thread was seen on last.
#[derive(Debug)]
pub(super) struct FirmwareCpu(AtomicUsize);

impl FirmwareCpu {
    pub(super) const fn unknown() -> Self {
        Self(AtomicUsize::new(usize::MAX))
    }

    /// The firmware thread is here.
    #[inline]
    pub(super) fn note(&self) {
        self.0.store(sched_getcpu(), Ordering::Relaxed);
    }

    /// Has the calling thread leave that CPU, if it is there and has another.
    fn leave(&self, all: &Cpus) {
        let cpu = self.0.load(Ordering::Relaxed);
        if sched_getcpu() == cpu
            && let Some(others) = all.without(cpu)
        {
            others.use_only();
        }
    }
}

/// A client, as who wakes it has it.
struct Sleeper {
    /// What it waits on. Of a client no other process has this end of it; who joins a port has
    /// given another adapter's.
    eventfd: Closer,
    /// It is to be woken, for this class or for that.
    due: [AtomicBool; 2],
    /// It has gone.
    gone: AtomicBool,
}

/// What the firmware thread and a user's thread have in common.
struct Bell {
    /// Nobody else has this descriptor: to write to it takes no longer than to wake one thread.
    eventfd: OwnedFd,
    /// The thread has not looked since this was set.
    rung: AtomicBool,
}

impl Bell {
    #[inline]
    fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            ring(&self.eventfd);
        }
    }

    /// Waits until it is rung.
    fn wait(&self) {
        // A signal ends the wait, too; whoever waits looks at everything anyway.
        let _ = rustix::io::read(&self.eventfd, &mut [0; 8]);
        // Whoever found it rung has noted before what this thread looks at after.
        self.rung.swap(false, Ordering::AcqRel);
    }
}

/// How the firmware thread has somebody woken: a client, or another adapter.
pub(crate) struct Call {
    asleep: Waker,
    sleeper: Arc<Sleeper>,
    bell: Arc<Bell>,
}

impl Call {
    /// Has it woken, if it sleeps. It takes no longer than a write to a descriptor that
    /// one thread of this process waits on.
    #[inline]
    pub(crate) fn wake(&mut self, class: Class) {
        if self.asleep.is_due() {
            self.sleeper.due[class as usize].store(true, Ordering::Release);
            self.bell.ring();
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.sleeper.gone.store(true, Ordering::Release);
        self.bell.ring();
    }
}

/// A user's thread, as the service thread has it.
struct User {
    bell: Arc<Bell>,
    /// Hands clients over; the thread ends when this is gone, and with it its last client.
    clients: Sender<Arc<Sleeper>>,
}

/// Whose wake-ups one thread makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whose {
    /// Those of a user's clients.
    User(u32),
    /// Those of the adapters that somebody has joined to this one.
    Joined(ConnectionId),
    /// Those of another server's adapter, which this port has met.
    Met(PortIndex),
}

/// The threads that wake clients, and other adapters.
pub(super) struct Wakers {
    users: BTreeMap<Whose, User>,
    cpu: Arc<FirmwareCpu>,
    pinned: Option<usize>,
}

impl Wakers {
    pub(super) fn new(cpu: Arc<FirmwareCpu>, pinned: Option<usize>) -> Self {
        Self {
            users: BTreeMap::new(),
            cpu,
            pinned,
        }
    }

    /// A client of `user`, who wakes by a write to `eventfd`.
    ///
    /// # Errors
    /// The kernel is out of descriptors or threads.
    pub(super) fn client(
        &mut self,
        user: u32,
        eventfd: OwnedFd,
        asleep: Waker,
    ) -> io::Result<Call> {
        self.call(Whose::User(user), eventfd.into(), asleep)
    }

    /// Another adapter, which wakes by a write to `bell`.
    ///
    /// # Errors
    /// The kernel is out of descriptors or threads.
    pub(super) fn adapter(
        &mut self,
        whose: Whose,
        bell: Closer,
        asleep: Waker,
    ) -> io::Result<Call> {
        self.call(whose, bell, asleep)
    }

    fn call(&mut self, whose: Whose, eventfd: Closer, asleep: Waker) -> io::Result<Call> {
        self.forget_absent();
        if !self.users.contains_key(&whose) {
            let started = self.start()?;
            self.users.insert(whose, started);
        }
        let of = &self.users[&whose];
        let sleeper = Arc::new(Sleeper {
            eventfd,
            due: Class::ALL.map(|_| AtomicBool::new(false)),
            gone: AtomicBool::new(false),
        });
        // The thread lives as long as this end of the channel.
        let _ = of.clients.send(Arc::clone(&sleeper));
        Ok(Call {
            asleep,
            sleeper,
            bell: Arc::clone(&of.bell),
        })
    }

    /// Ends the threads of users who have no client left.
    pub(super) fn forget_absent(&mut self) {
        // The thread and this map have one each.
        let has_clients = |user: &User| Arc::strong_count(&user.bell) > 2;
        let absent = self.users.extract_if(.., |_, user| !has_clients(user));
        for (_, User { bell, clients }) in absent {
            drop(clients);
            bell.ring();
        }
    }

    fn start(&self) -> io::Result<User> {
        let bell = Arc::new(Bell {
            eventfd: eventfd(0, EventfdFlags::CLOEXEC)?,
            rung: AtomicBool::new(false),
        });
        let (clients, came) = channel();
        let thread = Thread {
            bell: Arc::clone(&bell),
            came,
            cpu: Arc::clone(&self.cpu),
            pinned: self.pinned,
        };
        let builder = Builder::new().name("wake".to_owned()).stack_size(STACK_LEN);
        builder.spawn(move || thread.run())?;
        Ok(User { bell, clients })
    }
}

impl Drop for Wakers {
    fn drop(&mut self) {
        for (_, User { bell, clients }) in std::mem::take(&mut self.users) {
            drop(clients);
            bell.ring();
        }
    }
}

/// A user's thread.
struct Thread {
    bell: Arc<Bell>,
    came: Receiver<Arc<Sleeper>>,
    cpu: Arc<FirmwareCpu>,
    pinned: Option<usize>,
}

impl Thread {
    fn run(self) {
        name_thread("cg-wake");
        let mut clients: Vec<Arc<Sleeper>> = Vec::new();
        let mut precedence = Precedence::new(Cpus::present(), self.pinned);
        loop {
            self.bell.wait();
            let is_over = loop {
                match self.came.try_recv() {
                    Ok(client) => clients.push(client),
                    Err(TryRecvError::Empty) => break false,
                    Err(TryRecvError::Disconnected) => break true,
                }
            };
            for class in Class::ALL {
                for client in &clients {
                    if client.due[class as usize].swap(false, Ordering::AcqRel) {
                        self.cpu.leave(&precedence.cpus);
                        ring(&client.eventfd);
                    }
                }
            }
            clients.retain(|client| !client.gone.load(Ordering::Acquire));
            if is_over && clients.is_empty() {
                return;
            }
            precedence.keep();
        }
    }
}

/// A thread comes before others while it uses no more than a fifth of a CPU: what its user's
/// clients have watch their descriptors can make each of its writes long.
const SHARE_PPM: u32 = 200_000;

struct Precedence {
    cpus: Cpus,
    adapters: AdapterCpus,
    usual_nice: i32,
    meter: Meter,
}

impl Precedence {
    /// Gives the calling thread its precedence.
    fn new(cpus: Cpus, pinned: Option<usize>) -> Self {
        let usual_nice = getpriority_process(None).unwrap_or(0);
        let adapters = AdapterCpus::of([pinned]);
        take_duty(Duty::Interrupt, &cpus, &adapters);
        Self {
            cpus,
            adapters,
            usual_nice,
            meter: Meter::new(SHARE_PPM, MonotonicClock.now(), thread_cpu_ns()),
        }
    }

    /// Takes it back, and gives it again, by what the thread has used.
    fn keep(&mut self) {
        let had = self.meter.is_within();
        match (
            had,
            self.meter.charge(MonotonicClock.now(), thread_cpu_ns()),
        ) {
            (true, false) => {
                take_duty(Duty::BestEffort, &self.cpus, &self.adapters);
                // To come after others takes no privilege.
                let _ = setpriority_process(None, self.usual_nice);
            }
            (false, true) => drop(take_duty(Duty::Interrupt, &self.cpus, &self.adapters)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cellgate_core::queue::{AttachmentGeometry, AttachmentSizes};
    use cellgate_shm::{AttachmentMemory, ClientAttachment, Sleeper as Watch, Woken};
    use cellgate_shm::{wake_descriptor, wake_descriptors};

    use super::*;

    const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

    struct Client {
        _memory: AttachmentMemory,
        client: ClientAttachment,
        call: Call,
    }

    impl Client {
        fn of(wakers: &mut Wakers, user: u32, eventfd: OwnedFd) -> Self {
            let sizes = AttachmentSizes {
                event_slots: 4,
                doorbell_slots: 4,
            };
            let geometry = AttachmentGeometry::new(sizes).unwrap();
            let (memory, files) = AttachmentMemory::create(&geometry, 1).unwrap();
            let asleep = Waker::new(&files, &geometry).unwrap();
            Self {
                _memory: memory,
                client: ClientAttachment::open(&files, &geometry, 1).unwrap(),
                call: wakers.client(user, eventfd, asleep).unwrap(),
            }
        }

        /// Has it woken as it falls asleep; how its sleep ended.
        fn sleeps(&mut self, watch: &Watch) -> Woken {
            let call = &mut self.call;
            let falls_asleep = || {
                call.wake(Class::Guaranteed);
                false
            };
            self.client.sleep(watch, PATIENCE, falls_asleep).unwrap()
        }
    }

    fn wakers() -> Wakers {
        Wakers::new(Arc::new(FirmwareCpu::unknown()), None)
    }

    /// Threads of this process that wake clients.
    fn threads() -> usize {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names =
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.trim() == "cg-wake").count()
    }

    /// A descriptor to which no write comes to an end stands for one that a million wait on.
    fn endless() -> OwnedFd {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&eventfd, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        eventfd
    }

    #[test]
    fn whose_wake_up_takes_for_ever_holds_up_no_other_user_and_not_the_firmware() {
        let mut wakers = wakers();
        let stuck = endless();
        let mut slow = Client::of(&mut wakers, 1, stuck.try_clone().unwrap());
        let (bell, watch) = wake_descriptors().unwrap();
        let watch = Watch::new(watch);
        let mut other = Client::of(&mut wakers, 2, bell);
        for _ in 0..1_000 {
            assert!(slow.client.arm(|| false));
            slow.call.wake(Class::Guaranteed);
            assert_eq!(other.sleeps(&watch), Woken::Interrupted);
        }
        // It goes on when it can be written to, and then its clients can go.
        assert_eq!(rustix::io::read(&stuck, &mut [0; 8]), Ok(8));
    }

    #[test]
    fn of_a_users_clients_those_of_guaranteed_connections_are_woken_first() {
        let mut wakers = wakers();
        let [first, second] = [endless(), endless()];
        let mut busy = Client::of(&mut wakers, 5, first.try_clone().unwrap());
        let mut before = Client::of(&mut wakers, 5, second.try_clone().unwrap());
        let (bell, watch) = wake_descriptors().unwrap();
        let watch = Watch::new(watch);
        let mut other = Client::of(&mut wakers, 5, bell);
        // While the thread is busy, a client of best effort is due, and then another.
        assert!(busy.client.arm(|| false) && before.client.arm(|| false));
        busy.call.wake(Class::Guaranteed);
        while busy.call.sleeper.due[0].load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        before.call.wake(Class::BestEffort);
        let falls_asleep = || {
            other.call.wake(Class::Guaranteed);
            assert_eq!(rustix::io::read(&first, &mut [0; 8]), Ok(8));
            false
        };
        // What is written for best effort comes to no end.
        let woken = other.client.sleep(&watch, PATIENCE, falls_asleep);
        assert_eq!(woken.unwrap(), Woken::Interrupted);
        assert_eq!(rustix::io::read(&second, &mut [0; 8]), Ok(8));
    }

    #[test]
    fn one_thread_wakes_all_clients_of_a_user_and_ends_with_the_last() {
        let mut wakers = wakers();
        let before = threads();
        let mut clients: Vec<(Client, Watch)> = (0..20)
            .map(|_| {
                let (bell, watch) = wake_descriptors().unwrap();
                (Client::of(&mut wakers, 7, bell), Watch::new(watch))
            })
            .collect();
        for _ in 0..100 {
            for (client, watch) in &mut clients {
                assert_eq!(client.sleeps(watch), Woken::Interrupted);
            }
        }
        assert!(threads() > before);
        // Some go, and the others are woken as before.
        drop(clients.drain(..15));
        wakers.forget_absent();
        for (client, watch) in &mut clients {
            assert_eq!(client.sleeps(watch), Woken::Interrupted);
        }
        drop(clients);
        wakers.forget_absent();
        assert!(wakers.users.is_empty());
    }

    #[test]
    fn a_client_that_does_not_sleep_costs_no_ring() {
        let mut wakers = wakers();
        let mut client = Client::of(&mut wakers, 3, wake_descriptor().unwrap());
        client.call.wake(Class::Guaranteed);
        let due = &client.call.sleeper.due;
        assert!(!due.iter().any(|due| due.load(Ordering::Relaxed)));
    }
}
