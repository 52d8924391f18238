use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use cellgate_core::Time;
use cellgate_core::adapter::Discard;
use cellgate_core::server::{
    CONNECTIONS_PER_SOCKET, ClientId, FromClient, FromServer, Indication, Peer,
};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::fstat;
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Resource, getrlimit};

use crate::closer::{self, Closer, given, is_hung_up};
use crate::control::{FDS_MAX, MESSAGE_MAX, Received, receive, send};
use crate::inflight::{InFlight, RETRY_NS};
use crate::sys::{peer_credentials, peer_groups};

/// Messages that wait for an application which does not read, beside those in its socket and those
/// that tell a state: one for each connection that a new adapter may have, and others. They are
/// short but for the first: while there are any, nothing is read of it that would be answered.
const QUEUE_MAX: usize = 64 + CONNECTIONS_PER_SOCKET as usize;
/// How long an application may ask without taking its answers.
const DEAF_NS: u64 = 60_000_000_000;

/// A user's part of the descriptors that the kernel lets this one have on their way: the adapter
/// needs some, too.
const USERS_PART: u64 = 8;

/// The most of it: each socket that was hung up on is kept for what is unread in it.
const ON_WAY_MAX: u64 = 8_192;

/// Octets of a text that is repeated to its author.
const TEXT_MAX: usize = 200;

/// What came from an application.
pub(super) enum Heard {
    /// A request or response with its descriptors.
    Message(Box<FromClient>, Vec<Closer>),
    /// Something else; what is wrong with it.
    Nonsense(String),
    /// Nothing more for now.
    Nothing,
    /// It has hung up, or is to be hung up on: it sends descriptors that nobody can close.
    End,
}

/// An application's control socket.
struct Application {
    /// Shared with whoever keeps it. What lies unread in it is closed with it.
    socket: Arc<Closer>,
    uid: u32,
    /// The socket's, by which it is known again; none: the kernel does not tell.
    inode: Option<u64>,
    outgoing: VecDeque<Outgoing>,
    on_way: InFlight,
    /// Too many descriptors are on their way: not before then.
    held_until: Option<Time>,
    /// The kernel has taken nothing more for it since.
    full_since: Option<Time>,
}

/// A message that waits.
struct Outgoing {
    octets: Vec<u8>,
    fds: Vec<Arc<OwnedFd>>,
    state: Option<StateOf>,
}

/// A state, and the application's own number for the connection that it is of.
type StateOf = (u32, State);

/// What an indication tells how things stand with: the next one of the same makes it out of date.
/// Others bring such news about as often as they like, while the application may make no call for
/// hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Share,
    Risk,
    Loss(Discard),
    Rate,
}

impl State {
    fn of(message: &FromServer) -> Option<StateOf> {
        let FromServer::Indication {
            indication,
            connection,
            ..
        } = message
        else {
            return None;
        };
        let state = match indication {
            Indication::Share { .. } => Self::Share,
            Indication::AtRisk { .. } => Self::Risk,
            Indication::Losing { reason, .. } => Self::Loss(*reason),
            Indication::Rate { .. } => Self::Rate,
            _ => return None,
        };
        Some((*connection, state))
    }
}

/// The control sockets of all applications.
pub(super) struct Applications {
    sockets: BTreeMap<ClientId, Application>,
    /// Users and sockets of those that were hung up on with descriptors unread: these are on their
    /// way for as long as the other end is kept.
    unread: Vec<(u32, Arc<Closer>, InFlight)>,
    next: u32,
    buffer: Vec<u8>,
    /// The most descriptors that one user leaves unread.
    on_way_max: usize,
}

impl Applications {
    /// The first of these is the server's own.
    pub(super) const OPERATOR: ClientId = ClientId(0);

    pub(super) fn new() -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let most = (limit / USERS_PART).min(ON_WAY_MAX);
        Self {
            sockets: BTreeMap::new(),
            unread: Vec::new(),
            next: 1,
            buffer: vec![0; MESSAGE_MAX],
            on_way_max: usize::try_from(most).unwrap_or(usize::MAX).max(FDS_MAX),
        }
    }

    /// Takes a socket on that was kept with an attachment, unless it was kept with another, too,
    /// and is here already; says who is there.
    pub(super) fn adopt_kept(&mut self, socket: Closer) -> io::Result<(ClientId, Peer)> {
        let inode = inode_of(&socket);
        let mut all = self.sockets.iter();
        let here = all.find(|(_, of)| inode.is_some() && of.inode == inode);
        match here.map(|(client, _)| *client) {
            Some(client) => {
                let (uid, pid) = peer_credentials(&socket)?;
                Ok((client, Peer { uid, pid }))
            }
            None => self.adopt(socket),
        }
    }

    /// Takes a socket on, and says who is there.
    pub(super) fn adopt(&mut self, socket: Closer) -> io::Result<(ClientId, Peer)> {
        let (uid, pid) = peer_credentials(&socket)?;
        let peer = Peer { uid, pid };
        let client = self.number();
        let application = Application {
            on_way: InFlight::of(&socket),
            inode: inode_of(&socket),
            socket: Arc::new(socket),
            uid,
            outgoing: VecDeque::new(),
            held_until: None,
            full_since: None,
        };
        self.sockets.insert(client, application);
        Ok((client, peer))
    }

    /// Of `groups` those that the process at the other end was in when it connected.
    pub(super) fn groups(&self, client: ClientId, groups: &BTreeSet<u32>) -> Vec<u32> {
        let application = self.sockets.get(&client).filter(|_| !groups.is_empty());
        let of_peer = application.map(|application| peer_groups(&application.socket));
        // A kernel that does not tell has nobody in any.
        let of_peer = of_peer.and_then(Result::ok).unwrap_or_default();
        let of_peer = of_peer.into_iter().filter(|group| groups.contains(group));
        of_peer.collect()
    }

    /// A number that nobody has. Far fewer are in use at once than there are.
    fn number(&mut self) -> ClientId {
        loop {
            let client = ClientId(self.next);
            self.next = self.next.wrapping_add(1);
            if client != Self::OPERATOR && !self.sockets.contains_key(&client) {
                return client;
            }
        }
    }

    pub(super) fn socket(&self, client: ClientId) -> Option<Arc<Closer>> {
        let application = self.sockets.get(&client)?;
        Some(Arc::clone(&application.socket))
    }

    /// Whom to poll, with their users, and for what; nobody whose user `waits`.
    pub(super) fn poll_fds(
        &self,
        now: Time,
        waits: impl Fn(u32) -> bool,
    ) -> (Vec<(ClientId, u32)>, Vec<PollFd<'_>>) {
        let sockets = self.sockets.iter().filter(|(_, of)| !waits(of.uid));
        let polled = sockets.map(|(client, application)| {
            let held = application.held_until.is_some_and(|until| until > now);
            let waits = !application.outgoing.is_empty();
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, !waits);
            flags.set(PollFlags::OUT, !held && waits);
            let fd = PollFd::new(&application.socket, flags);
            ((*client, application.uid), fd)
        });
        polled.unzip()
    }

    pub(super) fn clients(&self) -> Vec<ClientId> {
        self.sockets.keys().copied().collect()
    }

    /// When something is to be sent that could not be before.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.sockets
            .values()
            .filter_map(|application| application.held_until)
            .min()
    }

    /// The next message of an application.
    pub(super) fn hear(&mut self, client: ClientId) -> Heard {
        let application = self.sockets.get(&client);
        let Some(application) = application.filter(|of| of.outgoing.is_empty()) else {
            return Heard::Nothing;
        };
        let (len, fds) = match receive(&application.socket, &mut self.buffer, false) {
            Ok(Received::Message(len, fds)) => (Some(len), given(fds)),
            Ok(Received::TooLong(fds)) => (None, given(fds)),
            Err(Errno::AGAIN) => return Heard::Nothing,
            Ok(Received::Closed(fds)) => {
                drop(given(fds));
                return Heard::End;
            }
            Err(_) => return Heard::End,
        };
        if !fds.is_empty() && closer::is_behind() {
            return Heard::End;
        }
        let Some(len) = len else {
            return Heard::Nonsense(format!("longer than {MESSAGE_MAX} octets"));
        };
        match serde_json::from_slice(&self.buffer[..len]) {
            Ok(message) => Heard::Message(Box::new(message), fds),
            Err(error) => {
                let mut text = error.to_string();
                text.truncate(text.floor_char_boundary(TEXT_MAX));
                Heard::Nonsense(text)
            }
        }
    }

    /// Sends, or queues; `false` if the application does not read what it is sent. What tells a
    /// state takes the place of the message before it that told the same and still waits.
    #[must_use = "one that does not read is hung up on"]
    pub(super) fn tell(
        &mut self,
        now: Time,
        client: ClientId,
        message: &FromServer,
        fds: Vec<Arc<OwnedFd>>,
    ) -> bool {
        // Numbers, names and texts: all of it has a form in JSON.
        let octets = serde_json::to_vec(message).unwrap_or_default();
        let state = State::of(message);
        self.queue(now, client, Outgoing { octets, fds, state })
    }

    /// The same of a message that is made already, and encloses nothing.
    #[must_use = "one that does not read is hung up on"]
    pub(super) fn tell_octets(&mut self, now: Time, client: ClientId, octets: Vec<u8>) -> bool {
        let (fds, state) = (Vec::new(), None);
        self.queue(now, client, Outgoing { octets, fds, state })
    }

    fn queue(&mut self, now: Time, client: ClientId, message: Outgoing) -> bool {
        let Some(application) = self.sockets.get_mut(&client) else {
            return true;
        };
        if message.state.is_some() {
            let mut waiting = application.outgoing.iter();
            let former = waiting.position(|one| one.state == message.state);
            former.and_then(|former| application.outgoing.remove(former));
        }
        application.outgoing.push_back(message);
        let lasts = |of: &&Outgoing| of.state.is_none();
        let waits = |of: &Application| of.outgoing.iter().filter(lasts).count();
        self.flush_one(now, client) && self.sockets.get(&client).map_or(0, waits) <= QUEUE_MAX
    }

    /// Sends what the sockets take that are `writable`, or were held until now; the applications
    /// that are gone.
    pub(super) fn flush(&mut self, now: Time, writable: &[ClientId]) -> Vec<ClientId> {
        let is_due = |client: &ClientId, of: &Application| {
            let held = of.held_until.is_some_and(|until| until <= now);
            !of.outgoing.is_empty() && (held || writable.binary_search(client).is_ok())
        };
        let waiting = self
            .sockets
            .iter()
            .filter(|(client, of)| is_due(client, of));
        let waiting = waiting.map(|(_, of)| of).filter(|of| of.encloses());
        let uids: BTreeSet<u32> = waiting.map(|of| of.uid).collect();
        let mut rooms: BTreeMap<_, _> = uids.iter().map(|uid| (*uid, self.room(*uid))).collect();
        let waiting = self.sockets.iter_mut();
        let waiting = waiting.filter(|(client, of)| is_due(client, of));
        let gone = waiting.filter_map(|(client, of)| {
            let room = rooms.entry(of.uid).or_default();
            (!of.flush(now, room)).then_some(*client)
        });
        gone.collect()
    }

    /// Sends what one socket takes; `false` if nobody is there.
    fn flush_one(&mut self, now: Time, client: ClientId) -> bool {
        let application = self.sockets.get(&client);
        let encloses = application.filter(|application| application.encloses());
        let mut room = match encloses.map(|of| of.uid) {
            Some(uid) => self.room(uid),
            None => 0,
        };
        let application = self.sockets.get_mut(&client);
        application.is_none_or(|application| application.flush(now, &mut room))
    }

    /// Descriptors that a user may have on their way beside those that it has. Sockets are looked
    /// at only where that may change whether a message has room.
    fn room(&mut self, uid: u32) -> usize {
        let of_user = self.sockets.values().filter(|of| of.uid == uid);
        let gone = self.unread.iter().filter(|(of, ..)| *of == uid);
        let on_way = of_user.map(|of| &of.on_way);
        let on_way = on_way.chain(gone.map(|(.., on_way)| on_way));
        let at_most: usize = on_way.map(InFlight::at_most).sum();
        if at_most + FDS_MAX <= self.on_way_max {
            return self.on_way_max - at_most;
        }
        self.forget_what_is_read();
        let of_user = self.sockets.values_mut().filter(|of| of.uid == uid);
        let on_way: usize = of_user.map(|of| of.on_way.count(&of.socket)).sum();
        let gone = self.unread.iter().filter(|(of, ..)| *of == uid);
        let gone: usize = gone.map(|(.., on_way)| on_way.at_most()).sum();
        self.on_way_max.saturating_sub(on_way + gone)
    }

    /// Applications that have asked for more, and have not taken what they were told for a minute.
    /// Nobody may be there: a socket whose other end was sent along with what lies unread in it is
    /// never seen closed.
    pub(super) fn deaf(&self, now: Time) -> Vec<ClientId> {
        let is_deaf = |of: &Application| {
            let full_ns = of.full_since.map(|since| now.since_ns(since));
            let asks = || ioctl_fionread(&of.socket).is_ok_and(|octets| octets > 0);
            full_ns.is_some_and(|ns| ns >= DEAF_NS) && asks()
        };
        let deaf = self.sockets.iter().filter(|(_, of)| is_deaf(of));
        deaf.map(|(client, _)| *client).collect()
    }

    /// Closes sockets that were hung up on, of which nothing is unread any more.
    pub(super) fn forget_what_is_read(&mut self) {
        self.unread
            .retain_mut(|(_, socket, on_way)| on_way.count(&*socket) > 0);
    }

    /// Closes a socket after what was sent to it, also where somebody keeps it.
    pub(super) fn hang_up(&mut self, client: ClientId) {
        if let Some(application) = self.sockets.remove(&client) {
            // Fails only if the other end is closed.
            let _ = shutdown(&application.socket, Shutdown::Both);
            let Application {
                uid,
                socket,
                mut on_way,
                ..
            } = application;
            if on_way.count(&socket) > 0 {
                // However few they are: it takes a descriptor of this process, too.
                self.unread.push((uid, socket, InFlight::ALL));
            }
        }
    }
}

fn inode_of(socket: &Closer) -> Option<u64> {
    fstat(socket).ok().map(|stat| stat.st_ino)
}

impl Application {
    /// Whether descriptors wait to be sent.
    fn encloses(&self) -> bool {
        self.outgoing.iter().any(|of| !of.fds.is_empty())
    }

    /// Sends what the socket takes, and of descriptors no more than there is `room` for; `false` if
    /// nobody is there.
    fn flush(&mut self, now: Time, room: &mut usize) -> bool {
        self.held_until = None;
        while let Some(next) = self.outgoing.front() {
            let fds: Vec<BorrowedFd<'_>> = next.fds.iter().map(|fd| fd.as_fd()).collect();
            let count = fds.len();
            let sent = match count <= *room && self.on_way.takes(&self.socket, count) {
                true => send(&self.socket, &next.octets, &fds, false),
                false => Err(Errno::TOOMANYREFS),
            };
            match sent {
                Ok(()) => {
                    *room -= count;
                    self.on_way.add(count);
                    self.outgoing.pop_front();
                    self.full_since = None;
                }
                Err(Errno::AGAIN) => {
                    self.full_since.get_or_insert(now);
                    return true;
                }
                // Nobody else would notice: nothing is sent.
                Err(Errno::TOOMANYREFS) if is_hung_up(&self.socket) => return false,
                Err(Errno::TOOMANYREFS) => {
                    self.held_until = Some(now.plus_ns(RETRY_NS));
                    return true;
                }
                Err(_) => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use cellgate_core::contract::CellRate;

    use super::*;
    use crate::control::pair;

    impl Applications {
        /// As if all sockets took more.
        fn flush_all(&mut self, now: Time) -> Vec<ClientId> {
            let all = self.clients();
            self.flush(now, &all)
        }
    }

    #[test]
    fn numbers_begin_again_behind_the_last_and_meet_nobodys() {
        let mut applications = Applications::new();
        let mut adopt = |next: Option<u32>| {
            applications.next = next.unwrap_or(applications.next);
            let (mine, _) = pair().unwrap();
            applications.adopt(mine.into()).unwrap().0.0
        };
        assert_eq!([None, None].map(&mut adopt), [1, 2]);
        let last = u32::MAX;
        assert_eq!([Some(last), None, None].map(adopt), [last, 3, 4]);
    }

    #[test]
    fn no_user_leaves_more_descriptors_unread_than_its_part() {
        let mut applications = Applications::new();
        applications.on_way_max = 3 * FDS_MAX;
        let ends = [0, 0, 1].map(|uid| {
            let (mine, theirs) = pair().unwrap();
            let (client, _) = applications.adopt(mine.into()).unwrap();
            applications.sockets.get_mut(&client).unwrap().uid = uid;
            (client, theirs)
        });
        let message = FromServer::Indication {
            connection: 0,
            id: 0,
            indication: Indication::Restarted,
        };
        let fd = Arc::new(OwnedFd::from(File::open("/dev/null").unwrap()));
        for (client, _) in &ends {
            for _ in 0..5 {
                let fds = vec![Arc::clone(&fd); FDS_MAX];
                assert!(applications.tell(Time::ZERO, *client, &message, fds));
            }
        }
        let mut now = Time::ZERO;
        let mut waiting_after = |reads: &[usize]| {
            for i in reads {
                let received = receive(&ends[*i].1, &mut [0; 1_000], false).unwrap();
                assert!(matches!(received, Received::Message(_, fds) if fds.len() == FDS_MAX));
            }
            assert_eq!(applications.flush_all(now), []);
            assert_eq!(applications.next_deadline(), Some(now.plus_ns(RETRY_NS)));
            now = now.plus_ns(RETRY_NS);
            ends.each_ref()
                .map(|(client, _)| applications.sockets[client].outgoing.len())
        };
        // Two messages of a socket, three of a user.
        assert_eq!(waiting_after(&[]), [3, 4, 3]);
        assert_eq!(waiting_after(&[1]), [3, 3, 3]);
        assert_eq!(waiting_after(&[0]), [3, 3, 3]);
        assert_eq!(waiting_after(&[0]), [1, 3, 3]);
        assert_eq!(waiting_after(&[2, 2, 1]), [1, 2, 2]);
    }

    #[test]
    fn who_is_hung_up_on_has_its_descriptors_unread_until_it_goes() {
        let mut applications = Applications::new();
        applications.on_way_max = 4 * FDS_MAX;
        let message = FromServer::Indication {
            connection: 0,
            id: 0,
            indication: Indication::Restarted,
        };
        let fd = Arc::new(OwnedFd::from(File::open("/dev/null").unwrap()));
        let told = |applications: &mut Applications, times: usize| {
            let (mine, theirs) = pair().unwrap();
            let (client, _) = applications.adopt(mine.into()).unwrap();
            for _ in 0..times {
                let fds = vec![Arc::clone(&fd)];
                assert!(applications.tell(Time::ZERO, client, &message, fds));
            }
            let waits = applications.sockets[&client].outgoing.len();
            (client, theirs, waits)
        };
        // One that has more to be told, and shuts its end without closing it.
        let (client, theirs, waits) = told(&mut applications, 2 * FDS_MAX + 1);
        assert_eq!(waits, 1);
        assert_eq!(applications.flush_all(Time::ZERO), []);
        shutdown(&theirs, Shutdown::Both).unwrap();
        assert_eq!(applications.flush_all(Time::ZERO), [client]);
        applications.hang_up(client);
        // One descriptor counts as much as can be there.
        let (one, other, waits) = told(&mut applications, 1);
        assert_eq!(waits, 0);
        applications.hang_up(one);
        let (last, _theirs, waits) = told(&mut applications, 1);
        assert_eq!((waits, applications.unread.len()), (1, 2));
        drop(theirs);
        applications.forget_what_is_read();
        assert_eq!(applications.unread.len(), 1);
        assert_eq!(applications.flush_all(Time::ZERO), []);
        assert_eq!(applications.sockets[&last].outgoing.len(), 0);
        drop(other);
        applications.forget_what_is_read();
        assert!(applications.unread.is_empty());
    }

    #[test]
    fn of_a_state_only_the_last_waits() {
        let mut applications = Applications::new();
        let (mine, theirs) = pair().unwrap();
        let (client, _) = applications.adopt(mine.into()).unwrap();
        let mut tell = |indication| {
            let message = FromServer::Indication {
                connection: 0,
                id: 0,
                indication,
            };
            applications.tell(Time::ZERO, client, &message, Vec::new())
        };
        let risk = |i: u32| Indication::AtRisk {
            reason: i.to_string(),
        };
        let share = |cell_s| Indication::Share {
            transmit: CellRate::new(cell_s),
            transmit_credit: None,
            receive: None,
        };
        let last = 20_000;
        assert!((1..=last).all(|i| tell(share(i))));
        assert!((1..=last).all(|i| tell(risk(i))));
        assert!((1..=last).all(|i| tell(share(i))));
        let mut buffer = vec![0; MESSAGE_MAX];
        let mut heard: Vec<FromServer> = Vec::new();
        while let Ok(Received::Message(len, _)) = receive(&theirs, &mut buffer, false) {
            heard.push(serde_json::from_slice(&buffer[..len]).unwrap());
            assert_eq!(applications.flush_all(Time::ZERO), []);
        }
        let told = [risk(last), share(last)];
        let told = told.map(|indication| FromServer::Indication {
            connection: 0,
            id: 0,
            indication,
        });
        assert_eq!(heard[heard.len() - 2..], told);
        // Others are all told, or the application does not read.
        let other = FromServer::Indication {
            connection: 0,
            id: 0,
            indication: Indication::Restarted,
        };
        let mut taken =
            (0..last).map(|_| applications.tell(Time::ZERO, client, &other, Vec::new()));
        assert!(!taken.all(|taken| taken));
    }

    #[test]
    fn who_asks_and_takes_no_answers_is_deaf_after_a_minute() {
        let mut applications = Applications::new();
        let adopt = |applications: &mut Applications| {
            let (mine, theirs) = pair().unwrap();
            let (client, _) = applications.adopt(mine.into()).unwrap();
            (client, theirs)
        };
        let (asks, theirs) = adopt(&mut applications);
        let (listens_late, _theirs) = adopt(&mut applications);
        let told = FromServer::Indication {
            connection: 0,
            id: 0,
            indication: Indication::AtRisk {
                reason: "x".repeat(1_000),
            },
        };
        let (from, late) = (Time::from_ns(7), Time::from_ns(7 + DEAF_NS));
        for client in [asks, listens_late] {
            while applications.sockets[&client].full_since.is_none() {
                assert!(applications.tell(from, client, &told, Vec::new()));
            }
        }
        assert_eq!(applications.deaf(late), [], "neither has asked for more");
        send(&theirs, b"{}", &[], false).unwrap();
        assert_eq!(applications.deaf(Time::from_ns(6 + DEAF_NS)), []);
        assert_eq!(applications.deaf(late), [asks]);
        // It listens again.
        let mut buffer = vec![0; MESSAGE_MAX];
        while receive(&theirs, &mut buffer, false).is_ok() {}
        assert_eq!(applications.flush_all(late), []);
        assert_eq!(applications.deaf(late), []);
    }
}
