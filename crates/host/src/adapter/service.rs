//! The service thread: a keeper's shell over sockets, memory and the firmware's channels.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

use cellgate_core::Time;
use cellgate_core::adapter::PortIndex;
use cellgate_core::keeper::{
    Ask, ConnectionId, ControlError, Handle, Hello, Keeper, KeeperConfig, Output, Reply, Request,
    Scheduling, VERSION,
};
use cellgate_shm::{Rouser, is_same_file};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags, accept_with, shutdown};

use super::AdapterOptions;
use super::board::{HostCommand, HostCompletion};
use super::meetings::{Meetings, own_ticket};
use super::ports::{NewEnds, Ports};
use super::sockets::{Held, Outgoing, Shared, Socket};
use super::sources::{RestBell, Sources};
use super::wake::silence;
use super::wakers::Wakers;
use crate::clock::MonotonicClock;
use crate::closer::{Closer, given, is_hung_up};
use crate::control::{MESSAGE_MAX, Received, receive};
use crate::gap::Gaps;
use crate::inflight::RETRY_NS;
use crate::place::Entrance;
use crate::sys::{Lack, is_tun, peer_credentials};

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

/// The service thread of an adapter: the keeper's sockets, memory and links. The firmware thread
/// never waits for it.
pub(super) struct Service {
    pub(super) options: AdapterOptions,
    pub(super) gaps: Arc<Gaps>,
    pub(super) keeper: Keeper,
    sockets: BTreeMap<ConnectionId, Socket>,
    /// What the keeper's handles stand for.
    pub(super) held: BTreeMap<Handle, Held>,
    pub(super) ports: Ports,
    /// Ends of ports that the firmware is about to get, by order.
    pub(super) changing: BTreeMap<u64, (PortIndex, NewEnds)>,
    pub(super) channels: ServiceChannels,
    pub(super) wakers: Wakers,
    pub(super) meetings: Meetings,
    /// Octets of connections that are to be locked and are not.
    pub(super) unlocked: u64,
    pub(super) listener: Option<Entrance>,
    /// When the own socket is looked at.
    next_look: Time,
}

/// What [`poll`] found ready.
struct Ready {
    completions: bool,
    listener: bool,
    connections: Vec<(ConnectionId, PollFlags)>,
    meetings: bool,
}

impl Service {
    /// How long the service thread rests when it can take no connection on.
    const ACCEPT_RETRY: Duration = Duration::from_millis(10);

    pub(super) fn new(
        options: AdapterOptions,
        mut scheduling: Scheduling,
        gaps: Arc<Gaps>,
        channels: ServiceChannels,
        wakers: Wakers,
        ports: Ports,
        listener: Option<Entrance>,
    ) -> Self {
        scheduling.notes = Lack::together(&scheduling.notes);
        let hello = Hello {
            version: VERSION,
            pid: std::process::id(),
            config: options.config.clone(),
            scheduling,
            memory_max: options.memory_max,
            governor: None,
        };
        let config = KeeperConfig {
            hello,
            port_cells: options.port_cells,
        };
        Self {
            keeper: Keeper::new(config),
            options,
            gaps,
            sockets: BTreeMap::new(),
            held: BTreeMap::new(),
            ports,
            changing: BTreeMap::new(),
            channels,
            wakers,
            meetings: Meetings::default(),
            unlocked: 0,
            listener,
            next_look: MonotonicClock.now(),
        }
    }

    /// Takes a control connection on, with or without a say in what concerns everybody; gives it
    /// back if there are too many.
    pub(super) fn adopt(&mut self, socket: Closer, governs: bool) -> Result<ConnectionId, Closer> {
        let pid = peer_credentials(&socket).map_or(0, |(_, pid)| pid);
        let Some(id) = self.keeper.connect(governs, pid) else {
            return Err(socket);
        };
        self.sockets.insert(id, Socket::new(socket, governs));
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
            self.pump();
            for (id, flags) in ready.connections {
                self.serve(id, flags, &mut buffer);
            }
            if ready.meetings {
                self.turn_meetings(&mut buffer);
            }
            let replaced = self.look();
            self.flush();
            let unreachable = self.keeper.is_alone() && self.listener.is_none();
            if unreachable || replaced || self.keeper.is_stopping() {
                break;
            }
        }
        Ok(())
    }

    /// Waits until there is something to do.
    fn wait(&self) -> std::io::Result<Ready> {
        let room = self.keeper.has_room() && !self.keeper.is_stopping();
        let mut fds = vec![PollFd::new(&self.channels.wake, PollFlags::IN)];
        for (id, socket) in &self.sockets {
            let mut flags = PollFlags::empty();
            let open = socket.is_open(self.keeper.in_flight(*id));
            flags.set(PollFlags::IN, room && open);
            flags.set(PollFlags::OUT, socket.wants_to_send());
            fds.push(PollFd::new(&socket.socket, flags));
        }
        if let Some(listener) = &self.listener {
            fds.push(PollFd::new(listener, PollFlags::IN));
        }
        let (own, now) = (fds.len(), MonotonicClock.now());
        let busy = |port| self.changing.contains_key(&own_ticket(port));
        fds.extend(
            self.meetings
                .poll(busy)
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
        );
        let meets = self.meetings.next_deadline(busy);
        let holds = self.sockets.values().any(Socket::is_held);
        let look_ns = self.next_look.since_ns(now);
        let idle_ns = [
            self.listener.is_some().then_some(look_ns),
            holds.then_some(RETRY_NS),
            meets.map(|due| due.since_ns(now)),
        ];
        let idle = idle_ns.into_iter().flatten().min();
        let idle = idle.and_then(|ns| Timespec::try_from(Duration::from_nanos(ns)).ok());
        match poll(&mut fds, idle.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Ready::none()),
            Err(error) => return Err(error.into()),
        }
        let (fds, met) = fds.split_at(own);
        let clients = fds[1..].iter().zip(self.sockets.keys());
        Ok(Ready {
            completions: !fds[0].revents().is_empty(),
            listener: self.listener.is_some()
                && fds.last().is_some_and(|fd| !fd.revents().is_empty()),
            connections: clients
                .map(|(fd, id)| (*id, fd.revents()))
                .filter(|(_, flags)| !flags.is_empty())
                .collect(),
            meetings: met.iter().any(|fd| !fd.revents().is_empty())
                || meets.is_some_and(|due| due <= MonotonicClock.now()),
        })
    }

    /// Sees to it that a successor of the server finds this adapter. One that nobody governs, and
    /// in whose place another listens, will not be found by anybody: true.
    fn look(&mut self) -> bool {
        let now = MonotonicClock.now();
        if self.next_look > now {
            return false;
        }
        self.look_for_governors();
        let governed = self.keeper.is_governed();
        self.next_look = now.plus_ns(if governed { GOVERNED_NS } else { LOOK_NS });
        let looked = self.listener.as_mut().map(Entrance::look);
        let taken = |error: &std::io::Error| error.kind() == std::io::ErrorKind::AddrInUse;
        matches!(looked, Some(Err(error)) if taken(&error)) && !governed
    }

    /// Notices who of those that govern is gone.
    fn look_for_governors(&mut self) {
        for (id, socket) in &self.sockets {
            if socket.governs && is_hung_up(&socket.socket) {
                self.keeper.handle_ending(*id);
            }
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
        if flags.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            self.keeper.handle_ending(id);
            // Requests that wait for the firmware thread are followed by others.
            if !flags.contains(PollFlags::IN) && self.keeper.in_flight(id) == 0 {
                return self.disconnect(id);
            }
        }
        if !flags.contains(PollFlags::IN) {
            return;
        }
        for _ in 0..REQUESTS_PER_TURN {
            let Some(socket) = self.sockets.get(&id) else {
                return;
            };
            let open = socket.is_open(self.keeper.in_flight(id));
            if !open || !self.keeper.has_room() || self.keeper.is_stopping() {
                return;
            }
            match receive(&socket.socket, buffer, false) {
                Ok(Received::Message(len, fds)) => self.request(id, &buffer[..len], given(fds)),
                Ok(Received::TooLong(fds)) => {
                    drop(given(fds));
                    self.keeper.handle_nonsense(id, ControlError::TooLong);
                }
                Err(Errno::AGAIN) => return,
                Ok(Received::Closed(fds)) => {
                    drop(given(fds));
                    return self.disconnect(id);
                }
                Err(_) => return self.disconnect(id),
            }
            self.pump();
        }
    }

    /// Reads a request and has it handled.
    fn request(&mut self, from: ConnectionId, octets: &[u8], fds: Vec<Closer>) {
        let request: Request = match serde_json::from_slice(octets) {
            Ok(request) => request,
            Err(error) => {
                let mut text = error.to_string();
                // serde_json repeats unknown names; a reply has room for a part of one.
                text.truncate(text.floor_char_boundary(200));
                let error = ControlError::BadMessage(text);
                return self.keeper.handle_nonsense(from, error);
            }
        };
        let proven = match &request.ask {
            Ask::Hello { .. } | Ask::TakeUp => {
                self.look_for_governors();
                false
            }
            Ask::Reattach { vc, .. } => {
                let files = self.keeper.files_of(*vc);
                let held = files.and_then(|handle| self.held.get(&handle));
                match (held.map(|held| &held.shared[..]), fds.first()) {
                    (Some([Shared::Files(files)]), Some(fd)) => {
                        is_same_file(fd, &files.from_client)
                    }
                    _ => false,
                }
            }
            _ => false,
        };
        let mut came = Vec::with_capacity(fds.len());
        for fd in fds {
            let handle = self.keeper.new_handle();
            let given = Held::of(vec![Shared::Given(Arc::new(fd))]);
            self.held.insert(handle, given);
            came.push(handle);
        }
        self.keeper.handle_request(from, request, came, proven);
    }

    /// A control connection has ended.
    fn disconnect(&mut self, id: ConnectionId) {
        // Who governed it may be followed by somebody who looks for it.
        self.next_look = MonotonicClock.now();
        if let Some(socket) = self.sockets.remove(&id) {
            // Its other end sees this one closed before it is. Fails only if it has closed itself.
            let _ = shutdown(&socket.socket, Shutdown::Both);
        }
        self.keeper.handle_hang_up(id);
        self.pump();
    }

    /// Does what the keeper wants, until it wants nothing.
    fn pump(&mut self) {
        while let Some(output) = self.keeper.poll() {
            match output {
                Output::Order(order) => self.carry_out(order),
                Output::Reply {
                    to,
                    reply,
                    enclosed,
                } => self.reply(to, &reply, &enclosed),
                Output::Release(handle) => self.release(handle),
            }
        }
    }

    /// Queues a reply, if its client is still there.
    fn reply(&mut self, to: ConnectionId, reply: &Reply, enclosed: &[Handle]) {
        let Some(socket) = self.sockets.get_mut(&to) else {
            return;
        };
        let held = enclosed.iter().filter_map(|handle| self.held.get(handle));
        let enclosed = held.flat_map(|held| held.shared.iter().cloned()).collect();
        // Replies hold numbers, names and short texts: all of it has a form in JSON.
        let octets = serde_json::to_vec(reply).unwrap_or_default();
        socket.replies.push_back(Outgoing { octets, enclosed });
    }

    /// Nothing refers to it any more.
    fn release(&mut self, handle: Handle) {
        // A network device is let go of before that is told: whoever asked may end it then.
        if let Some(given) = self.take_given(handle)
            && is_tun(&given).is_ok_and(|is| is)
        {
            drop(given.into_inner());
        }
        self.held.remove(&handle);
    }

    /// What somebody has given, if nobody else has it.
    pub(super) fn take_given(&mut self, handle: Handle) -> Option<Closer> {
        let is_given = |held: &Held| matches!(held.shared[..], [Shared::Given(_)]);
        let at = self.held.get(&handle).filter(|held| is_given(held));
        at?;
        match self.held.remove(&handle)?.shared.pop() {
            Some(Shared::Given(given)) => Arc::into_inner(given),
            _ => None,
        }
    }

    /// Sends a command to the firmware thread. There is room: the keeper gives no more orders than
    /// the channel has slots.
    pub(super) fn send_command(&mut self, command: HostCommand) {
        if self.channels.commands.try_send(command).is_ok() {
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

    /// Sends what the sockets take.
    fn flush(&mut self) {
        let mut gone = Vec::new();
        for (id, socket) in &mut self.sockets {
            if !socket.flush() {
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
            meetings: false,
        }
    }
}
