use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

use cellgate_core::Time;
use cellgate_core::adapter::{AttachmentIndex, VcIndex};
use cellgate_shm::Rouser;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use super::AdapterOptions;
use super::board::{HostCommand, HostCompletion};
use super::records::{
    Asker, AttachmentRecord, Budget, Chore, Connection, ConnectionId, Enclosed, Outgoing, Pending,
    PortRecord, VcRecord,
};
use super::sources::{RestBell, Sources};
use super::wake::silence;
use super::wakers::Wakers;
use crate::clock::MonotonicClock;
use crate::closer::{Closer, given};
use crate::control::{Answer, ControlError, MESSAGE_MAX, Received, Reply, Request, receive};
use crate::gap::Gaps;
use crate::inflight::RETRY_NS;
use crate::place::Entrance;
use crate::sys::Scheduling;

/// Commands that can be on their way to the firmware thread at once.
pub(super) const COMMANDS_MAX: usize = 64;

/// Control connections at once.
pub(super) const CONNECTIONS_MAX: usize = 128;

/// From one look at the own socket to the next, while nobody governs who would find it gone.
const LOOK_NS: u64 = 200_000_000;
/// The same while somebody does.
const GOVERNED_NS: u64 = 5_000_000_000;

/// Requests read from one connection before the others have their turn.
const REQUESTS_PER_TURN: usize = 4;

/// The service thread's ends of the channels to the firmware thread.
pub(super) struct ServiceChannels {
    pub(super) commands: SyncSender<HostCommand>,
    /// How many were ever sent.
    pub(super) posted: Arc<AtomicU64>,
    pub(super) completions: Receiver<HostCompletion>,
    /// Rings when a completion was sent or the firmware thread has ended.
    pub(super) wake: Arc<OwnedFd>,
    /// What ends a rest of the firmware thread.
    pub(super) sources: Arc<Sources>,
    /// Ends it for the service thread; none: it never rests.
    pub(super) rouser: Option<Rouser>,
    /// The firmware thread's end of that.
    pub(super) _bell: RestBell,
}

/// The service thread of an adapter: talks to clients, makes and frees their memory, and knows
/// which client has what. The firmware thread never waits for it.
pub(super) struct Service {
    pub(super) options: AdapterOptions,
    pub(super) scheduling: Scheduling,
    pub(super) gaps: Arc<Gaps>,
    pub(super) budget: Budget,
    pub(super) connections: BTreeMap<ConnectionId, Connection>,
    pub(super) attachments: BTreeMap<AttachmentIndex, AttachmentRecord>,
    pub(super) vcs: BTreeMap<VcIndex, VcRecord>,
    pub(super) ports: Vec<PortRecord>,
    pub(super) chores: VecDeque<Chore>,
    pub(super) stopping: bool,
    /// The connection that has taken up last, or that of who started the adapter.
    pub(super) governor: Option<ConnectionId>,
    pub(super) channels: ServiceChannels,
    pub(super) wakers: Wakers,
    pending: BTreeMap<u64, Pending>,
    pub(super) listener: Option<Entrance>,
    /// When the own socket is looked at.
    pub(super) next_look: Time,
    next_connection: ConnectionId,
    next_ticket: u64,
    next_generation: u32,
}

/// What [`poll`] found ready.
struct Ready {
    completions: bool,
    listener: bool,
    connections: Vec<(ConnectionId, PollFlags)>,
}

impl Service {
    /// How long the service thread rests when it can take no connection on.
    const ACCEPT_RETRY: Duration = Duration::from_millis(10);

    pub(super) fn new(
        options: AdapterOptions,
        scheduling: Scheduling,
        gaps: Arc<Gaps>,
        channels: ServiceChannels,
        wakers: Wakers,
        ports: Vec<PortRecord>,
        listener: Option<Entrance>,
    ) -> Self {
        Self {
            scheduling,
            gaps,
            budget: Budget::new(options.memory_max),
            connections: BTreeMap::new(),
            attachments: BTreeMap::new(),
            vcs: BTreeMap::new(),
            ports,
            chores: VecDeque::new(),
            stopping: false,
            governor: None,
            channels,
            wakers,
            pending: BTreeMap::new(),
            listener,
            next_look: MonotonicClock.now(),
            next_connection: 0,
            next_ticket: 1,
            next_generation: 1,
            options,
        }
    }

    /// Takes a control connection on, with or without a say in what concerns everybody; gives it
    /// back if there are too many.
    pub(super) fn adopt(&mut self, socket: Closer, governs: bool) -> Result<ConnectionId, Closer> {
        if self.connections.len() >= CONNECTIONS_MAX {
            return Err(socket);
        }
        let id = self.next_connection;
        self.next_connection += 1;
        self.connections
            .insert(id, Connection::new(socket, governs));
        Ok(id)
    }

    /// Serves until somebody asks for the end, nobody is left who could ask for anything, or
    /// `firmware_ended`.
    pub(super) fn run(&mut self, firmware_ended: impl Fn() -> bool) -> std::io::Result<()> {
        let mut buffer = vec![0; MESSAGE_MAX];
        while !firmware_ended() {
            let ready = self.wait()?;
            if ready.completions {
                silence(&self.channels.wake);
            }
            while let Ok(completion) = self.channels.completions.try_recv() {
                self.complete(completion);
            }
            if ready.listener {
                self.accept();
            }
            for (id, flags) in ready.connections {
                self.serve(id, flags, &mut buffer);
            }
            self.do_chores();
            self.look();
            self.flush();
            let unreachable = self.connections.is_empty() && self.listener.is_none();
            if unreachable || self.stopping {
                break;
            }
        }
        Ok(())
    }

    /// Waits until there is something to do.
    fn wait(&self) -> std::io::Result<Ready> {
        let room = self.pending.len() < COMMANDS_MAX;
        let mut fds = vec![PollFd::new(&self.channels.wake, PollFlags::IN)];
        for connection in self.connections.values() {
            let mut flags = PollFlags::empty();
            flags.set(
                PollFlags::IN,
                room && connection.is_open() && !self.stopping,
            );
            flags.set(PollFlags::OUT, connection.wants_to_send());
            fds.push(PollFd::new(&connection.socket, flags));
        }
        if let Some(listener) = &self.listener {
            fds.push(PollFd::new(listener, PollFlags::IN));
        }
        let holds = self.connections.values().any(Connection::is_held);
        let look_ns = self.next_look.since_ns(MonotonicClock.now());
        let idle_ns = [
            self.listener.is_some().then_some(look_ns),
            holds.then_some(RETRY_NS),
        ];
        let idle = idle_ns.into_iter().flatten().min();
        let idle = idle.and_then(|ns| Timespec::try_from(Duration::from_nanos(ns)).ok());
        match poll(&mut fds, idle.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Ready::none()),
            Err(error) => return Err(error.into()),
        }
        let clients = fds[1..].iter().zip(self.connections.keys());
        Ok(Ready {
            completions: !fds[0].revents().is_empty(),
            listener: self.listener.is_some()
                && fds.last().is_some_and(|fd| !fd.revents().is_empty()),
            connections: clients
                .map(|(fd, id)| (*id, fd.revents()))
                .filter(|(_, flags)| !flags.is_empty())
                .collect(),
        })
    }

    /// Sees to it that a successor of the server finds this adapter. One that nobody governs, and
    /// in whose place another listens, will not be found by anybody.
    fn look(&mut self) {
        let now = MonotonicClock.now();
        if self.next_look > now {
            return;
        }
        self.next_look = now.plus_ns(match self.is_governed() {
            true => GOVERNED_NS,
            false => LOOK_NS,
        });
        let looked = self.listener.as_mut().map(Entrance::look);
        let taken = |error: &std::io::Error| error.kind() == std::io::ErrorKind::AddrInUse;
        if matches!(looked, Some(Err(error)) if taken(&error)) && !self.is_governed() {
            self.stopping = true;
        }
    }

    fn accept(&mut self) {
        let Some(listener) = &self.listener else {
            return;
        };
        match accept_with(listener, SocketFlags::CLOEXEC) {
            // Too many: the connection is closed again, and its client sees the end.
            Ok(socket) => drop(self.adopt(socket.into(), true)),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
            // Out of descriptors: the connection stays in the queue, and looking at it again and
            // again would only burn time.
            Err(_) => std::thread::sleep(Self::ACCEPT_RETRY),
        }
    }

    /// Reads some requests of one connection, or notices its end.
    fn serve(&mut self, id: ConnectionId, flags: PollFlags, buffer: &mut [u8]) {
        let over = flags.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.ending |= over;
            // Requests that wait for the firmware thread are followed by others.
            if !flags.contains(PollFlags::IN) && over && connection.in_flight == 0 {
                return self.disconnect(id);
            }
        }
        if !flags.contains(PollFlags::IN) {
            return;
        }
        for _ in 0..REQUESTS_PER_TURN {
            let Some(connection) = self.connections.get(&id) else {
                return;
            };
            if !connection.is_open() || self.pending.len() >= COMMANDS_MAX || self.stopping {
                return;
            }
            match receive(&connection.socket, buffer, false) {
                Ok(Received::Message(len, fds)) => self.request(id, &buffer[..len], given(fds)),
                Ok(Received::TooLong(fds)) => {
                    drop(given(fds));
                    self.reply(
                        Asker {
                            connection: id,
                            id: 0,
                        },
                        Err(ControlError::TooLong),
                        Enclosed::Nothing,
                    );
                }
                Err(Errno::AGAIN) => return,
                Ok(Received::Closed(fds)) => {
                    drop(given(fds));
                    return self.disconnect(id);
                }
                Err(_) => return self.disconnect(id),
            }
        }
    }

    /// Reads a request and has it handled.
    fn request(&mut self, connection: ConnectionId, octets: &[u8], fds: Vec<Closer>) {
        let request: Request = match serde_json::from_slice(octets) {
            Ok(request) => request,
            Err(error) => {
                let mut text = error.to_string();
                // serde_json repeats unknown names; a reply has room for a part of one.
                text.truncate(text.floor_char_boundary(200));
                let asker = Asker { connection, id: 0 };
                return self.reply(
                    asker,
                    Err(ControlError::BadMessage(text)),
                    Enclosed::Nothing,
                );
            }
        };
        let asker = Asker {
            connection,
            id: request.id,
        };
        if let Err(error) = self.handle(asker, request.ask, fds) {
            self.reply(asker, Err(error), Enclosed::Nothing);
        }
    }

    /// Queues a reply, if its client is still there.
    pub(super) fn reply(
        &mut self,
        asker: Asker,
        result: Result<Answer, ControlError>,
        enclosed: Enclosed,
    ) {
        let Some(connection) = self.connections.get_mut(&asker.connection) else {
            return;
        };
        let reply = Reply {
            id: asker.id,
            result,
        };
        // Replies hold numbers, names and short texts: all of it has a form in JSON.
        let octets = serde_json::to_vec(&reply).unwrap_or_default();
        connection.replies.push_back(Outgoing {
            octets,
            fds: enclosed,
        });
    }

    /// Sends a command to the firmware thread.
    pub(super) fn post(&mut self, pending: Pending, command: impl FnOnce(u64) -> HostCommand) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        if let Some(asker) = pending.asker()
            && let Some(connection) = self.connections.get_mut(&asker.connection)
        {
            connection.in_flight += 1;
        }
        // There is room: `pending` has an entry for everything in the channel, and nothing is
        // read or begun while it has as many as the channel has slots.
        if self.channels.commands.try_send(command(ticket)).is_ok() {
            self.pending.insert(ticket, pending);
            self.channels.posted.fetch_add(1, Ordering::Release);
            self.rouse();
        }
    }

    /// Ends a rest of the firmware thread, for what it shall see now.
    pub(super) fn rouse(&mut self) {
        if let Some(rouser) = &mut self.channels.rouser {
            rouser.rouse();
        }
    }

    /// What waited for the completion of `ticket`.
    pub(super) fn settle(&mut self, ticket: u64) -> Option<Pending> {
        let pending = self.pending.remove(&ticket)?;
        if let Some(asker) = pending.asker()
            && let Some(connection) = self.connections.get_mut(&asker.connection)
        {
            connection.in_flight -= 1;
        }
        Some(pending)
    }

    /// A number for the headers of new files, so that no two are taken for each other.
    pub(super) fn generation(&mut self) -> u32 {
        self.next_generation = self.next_generation.wrapping_add(1);
        self.next_generation
    }

    /// Whether a command like this is on its way.
    pub(super) fn awaits(&self, like: impl Fn(&Pending) -> bool) -> bool {
        self.pending.values().any(like)
    }

    /// The commands on their way.
    pub(super) fn awaited(&self) -> impl Iterator<Item = &Pending> {
        self.pending.values()
    }

    /// Whether another command fits.
    pub(super) fn has_room(&self) -> bool {
        self.pending.len() < COMMANDS_MAX
    }

    /// Sends what the sockets take.
    fn flush(&mut self) {
        let mut gone = Vec::new();
        for (id, connection) in &mut self.connections {
            if !connection.flush() {
                gone.push(*id);
            }
        }
        for id in gone {
            self.disconnect(id);
        }
    }
}

impl Ready {
    const fn none() -> Self {
        Self {
            completions: false,
            listener: false,
            connections: Vec::new(),
        }
    }
}
