//! The common property of a session's connections: the control socket, the descriptor to wait at,
//! and at each adapter an attachment with its event queue.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cellgate_core::Time;
use cellgate_core::adapter::{Event, VcIndex};
use cellgate_shm::{Attached, name_of};

use crate::control::Control;
use crate::poller::Poller;
use crate::socket::Socket;
use crate::{Error, ServerInfo};

/// How often a call that need not wait looks at the control socket.
const LOOK_NS: u64 = 10_000_000;

/// Which of an attachment's descriptors tells it from others.
const NAMES: usize = 1;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub(crate) struct Hub {
    socket: Arc<Socket>,
    server: ServerInfo,
    pub(crate) poller: Poller,
    /// When the control socket is looked at next, in nanoseconds.
    look_at: AtomicU64,
    /// One at each adapter, and those of adapters that have gone until nobody reads there any more.
    attachments: Mutex<Vec<Arc<Attachment>>>,
}

/// A client of an adapter, and the connections whose events come there.
#[derive(Debug)]
pub(crate) struct Attachment {
    /// Device and inode of the file that the client writes.
    name: Option<(u64, u64)>,
    shared: Mutex<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) attached: Attached,
    members: BTreeMap<VcIndex, Member>,
}

/// A connection.
#[derive(Debug)]
struct Member {
    number: u32,
    events: Arc<Mutex<Events>>,
    /// An event has come since this was asked last.
    is_ready: bool,
}

/// Events for an application that wants them ([`Builder::events`](crate::Builder::events)).
#[derive(Debug, Default)]
pub(crate) struct Events {
    pub(crate) kept: VecDeque<Event>,
    /// 0: nobody wants any.
    pub(crate) max: usize,
    /// Those that found no room here.
    pub(crate) lost: u64,
}

impl Events {
    pub(crate) fn keep(&mut self, max: usize) {
        self.kept = VecDeque::with_capacity(max);
        self.max = max;
    }

    fn add(&mut self, event: Event) {
        if self.kept.len() < self.max {
            self.kept.push_back(event);
        } else {
            self.lost += u64::from(self.max > 0);
        }
    }
}

impl Hub {
    pub(crate) fn connect(path: &Path, patience: Duration) -> Result<Self, Error> {
        Self::of(&Control::connect(path, patience)?)
    }

    pub(crate) fn over(socket: OwnedFd, patience: Duration) -> Result<Self, Error> {
        Self::of(&Control::over(socket, patience)?)
    }

    fn of(control: &Control) -> Result<Self, Error> {
        Ok(Self {
            socket: Arc::clone(control.socket()),
            server: control.server().clone(),
            poller: Poller::new(control.as_fd())?,
            look_at: AtomicU64::new(0),
            attachments: Mutex::default(),
        })
    }

    pub(crate) fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// Whether it is time for a call that need not wait to look at the control socket, which hears
    /// for all.
    #[inline]
    pub(crate) fn is_to_look(&self, now: Time) -> bool {
        let is_time = self.look_at.load(Relaxed) <= now.ns();
        if is_time {
            self.look_at.store(now.plus_ns(LOOK_NS).ns(), Relaxed);
        }
        is_time
    }

    pub(crate) fn server(&self) -> &ServerInfo {
        &self.server
    }

    /// The attachment of these descriptors: one that is known, or what `open` makes of them.
    pub(crate) fn attach(
        &self,
        fds: Vec<OwnedFd>,
        open: impl FnOnce(Vec<OwnedFd>) -> Result<Attached, Error>,
    ) -> Result<Arc<Attachment>, Error> {
        let name = fds.get(NAMES).and_then(name_of);
        let mut attachments = lock(&self.attachments);
        let known = attachments
            .iter()
            .find(|one| name.is_some() && one.name == name);
        if let Some(known) = known {
            return Ok(Arc::clone(known));
        }
        let attached = open(fds)?;
        self.poller.watch(attached.as_fd())?;
        let shared = Shared {
            attached,
            members: BTreeMap::new(),
        };
        let attachment = Arc::new(Attachment {
            name,
            shared: Mutex::new(shared),
        });
        attachments.push(Arc::clone(&attachment));
        Ok(attachment)
    }

    /// Ends a connection of which nobody has anything any more. Where it is the last of a session
    /// that has gone, the end of the socket does.
    pub(crate) fn end(self: &Arc<Self>, number: u32) {
        if Arc::strong_count(self) > 1 {
            // Nobody is left to hear that the server is gone.
            let _ = self.socket.close(number);
        }
    }

    /// A connection has left an attachment, which goes with the last.
    pub(crate) fn leave(&self, attachment: &Arc<Attachment>, number: u32) {
        let mut attachments = lock(&self.attachments);
        let mut shared = attachment.shared();
        shared.members.retain(|_, member| member.number != number);
        if shared.members.is_empty() {
            self.poller.forget_wake_up(shared.attached.as_fd());
            attachments.retain(|one| !Arc::ptr_eq(one, attachment));
        }
    }

    /// The numbers of the connections that may have something since this was asked last, in order.
    pub(crate) fn take_ready(&self) -> Vec<u32> {
        let mut ready: BTreeSet<u32> = self.socket.take_fresh().into_iter().collect();
        for attachment in lock(&self.attachments).iter() {
            let mut shared = attachment.shared();
            shared.take_off();
            let ready_there = shared.members.values_mut().filter_map(|member| {
                core::mem::take(&mut member.is_ready).then_some(member.number)
            });
            ready.extend(ready_there);
        }
        ready.into_iter().collect()
    }

    /// Has the next wake-up of any adapter be told at the descriptor; `false`: something waits
    /// already, and nothing is armed.
    pub(crate) fn arm(&self) -> bool {
        let attachments = lock(&self.attachments);
        let armed = attachments
            .iter()
            .all(|one| one.shared().attached.arm(|| false));
        if !armed {
            attachments
                .iter()
                .for_each(|one| one.shared().attached.disarm());
        }
        armed
    }

    /// Takes that back.
    pub(crate) fn disarm(&self) {
        let attachments = lock(&self.attachments);
        attachments
            .iter()
            .for_each(|one| one.shared().attached.disarm());
    }

    /// Takes former wake-ups off the descriptor.
    pub(crate) fn drain(&self) -> Result<(), Error> {
        for one in lock(&self.attachments).iter() {
            one.shared().attached.drain()?;
        }
        Ok(())
    }

    /// Rings the doorbells that found no room; when to do so again.
    pub(crate) fn retry_at(&self, now: Time) -> Option<Time> {
        let attachments = lock(&self.attachments);
        let full = attachments
            .iter()
            .filter(|one| !one.shared().attached.ring_all());
        (full.count() > 0).then(|| now.plus_ns(Attached::RETRY.subsec_nanos().into()))
    }

    /// Whether a connection may have something; it stays so until it is taken.
    pub(crate) fn has_ready(&self) -> bool {
        let attachments = lock(&self.attachments);
        let mut attachments = attachments.iter();
        self.socket.has_fresh()
            || attachments.any(|one| {
                let mut shared = one.shared();
                shared.take_off();
                shared.members.values().any(|member| member.is_ready)
            })
    }
}

impl Attachment {
    pub(crate) fn shared(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }
}

impl Shared {
    /// A connection's events come here from now on; `is_ready`: it may have something already.
    pub(crate) fn enter(
        &mut self,
        vc: VcIndex,
        number: u32,
        events: &Arc<Mutex<Events>>,
        is_ready: bool,
    ) {
        let member = Member {
            number,
            events: Arc::clone(events),
            is_ready,
        };
        self.members.insert(vc, member);
    }

    /// Takes all events off the queue, in order, for the connections that they are of.
    pub(crate) fn take_off(&mut self) {
        while let Some(event) = self.attached.next_event() {
            if let Some(member) = self.members.get_mut(&event.vc.index) {
                member.is_ready = true;
                lock(&member.events).add(event);
            }
        }
        if self.attached.events_lost() > 0 {
            self.members
                .values_mut()
                .for_each(|one| one.is_ready = true);
        }
    }

    /// SDUs that each connection may send and read without a look at the event queue.
    pub(crate) fn pass_max(&self) -> u32 {
        let of_all = self.attached.pass_max();
        of_all / u32::try_from(self.members.len()).unwrap_or(u32::MAX).max(1)
    }
}
