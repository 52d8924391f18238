//! Memory links to other servers' adapters: the sockets at which both ends meet, hand each other
//! the port that they receive from, and notice that the other is gone.
//!
//! [`Meeting`] decides; this calls, listens, and makes and hands over ports. Nothing of it is on
//! the way of a cell: while two are joined, their cells travel as between two adapters of one
//! server, and the socket tells only that the other process lives.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cellgate_core::Time;
use cellgate_core::adapter::PortIndex;
use cellgate_core::keeper::{Answer, ControlError, Hail, Meeting, MeetingReport, Word};
use cellgate_core::queue::PortGeometry;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use super::board::PortEnd;
use super::memory::make_receive_port;
use super::orders::{Begun, Result};
use super::ports::{End, NewEnds};
use super::service::Service;
use super::sources::{RestBell, Source};
use super::wakers::Whose;
use crate::clock::MonotonicClock;
use crate::closer::{Closer, given};
use crate::control::{Received, receive, send};
use crate::link::{CellReceiver, MemorySource, ReceiveEnd};
use crate::place::{Entrance, Look, call};
use crate::sys::{peer_credentials, plain};

/// This user and root may come, nobody else.
const MODE: u32 = 0o600;
/// How long the service thread waits for somebody who lets nobody in.
const PATIENCE: Duration = Duration::from_millis(10);

/// Who is let in, or sent away, before others have their turn.
const LET_IN_MAX: usize = 4;

/// The service's own order to the firmware about a port: the keeper's have smaller numbers.
pub(super) const fn own_ticket(port: PortIndex) -> u64 {
    1 << 63 | port.0 as u64
}

/// The links of all ports that lead to other servers' adapters.
#[derive(Default)]
pub(super) struct Meetings {
    all: BTreeMap<PortIndex, HostMeeting>,
    /// Of the files made last.
    generation: u32,
}

struct HostMeeting {
    path: PathBuf,
    geometry: PortGeometry,
    meeting: Meeting,
    entrance: Option<Entrance>,
    peer: Option<Peer>,
}

/// The process at the other end of the socket.
struct Peer {
    socket: Closer,
    /// The port that it sends into, until the firmware has that.
    mine: Option<(CellReceiver, RestBell)>,
}

impl Meetings {
    /// How the other end of a port does; none: no other server has it.
    pub(super) fn report(&self, now: Time, port: PortIndex) -> Option<MeetingReport> {
        let one = self.all.get(&port)?;
        Some(one.meeting.report(now))
    }

    /// Descriptors to wait for, but for ports that are `busy`.
    pub(super) fn poll(
        &self,
        busy: impl Fn(PortIndex) -> bool,
    ) -> impl Iterator<Item = BorrowedFd<'_>> {
        let idle = self.all.iter().filter(move |(port, _)| !busy(**port));
        idle.flat_map(|(_, one)| {
            let peer = one.peer.as_ref().map(|peer| peer.socket.as_fd());
            one.entrance
                .as_ref()
                .map(AsFd::as_fd)
                .into_iter()
                .chain(peer)
        })
    }

    /// When there is something to do, whoever comes, but for ports that are `busy`.
    pub(super) fn next_deadline(&self, busy: impl Fn(PortIndex) -> bool) -> Option<Time> {
        let idle = self.all.iter().filter(|(port, _)| !busy(**port));
        idle.filter_map(|(_, one)| one.meeting.next_deadline())
            .min()
    }

    /// A port gets another link.
    pub(super) fn end(&mut self, port: PortIndex) {
        let one = self.all.remove(&port);
        if let Some(entrance) = one.and_then(|one| one.entrance) {
            entrance.remove();
        }
    }

    /// The adapter ends.
    pub(super) fn end_all(&mut self) {
        let all = std::mem::take(&mut self.all).into_values();
        all.filter_map(|one| one.entrance)
            .for_each(Entrance::remove);
    }
}

impl Service {
    /// Has a port meet another server's at `path`.
    pub(super) fn meet(&mut self, port: PortIndex, path: String) -> Result<Begun> {
        let geometry = self.port_geometry(port)?;
        let config = self.keeper.port(port).ok_or(ControlError::NotYours)?;
        let one = HostMeeting {
            path: path.into(),
            geometry,
            meeting: Meeting::new(config.form, geometry.sizes()),
            entrance: None,
            peer: None,
        };
        self.meetings.end(port);
        self.meetings.all.insert(port, one);
        let now = MonotonicClock.now();
        self.look_for_peer(now, port);
        // An obstacle at the path is told to who asked; the word of the other end comes later.
        let report = self.meetings.report(now, port);
        match report.and_then(|report| report.trouble) {
            Some(trouble) => {
                self.meetings.end(port);
                Err(ControlError::Meeting(trouble))
            }
            None => Ok(Begun::now(Answer::Done)),
        }
    }

    /// Does what is due, and hears who has come or gone: a few system calls for each link.
    pub(super) fn turn_meetings(&mut self, buffer: &mut [u8]) {
        let now = MonotonicClock.now();
        let ports: Vec<PortIndex> = self.meetings.all.keys().copied().collect();
        for port in ports {
            // The firmware is about to get other ends: whatever comes waits for that.
            if self.changing.contains_key(&own_ticket(port)) {
                continue;
            }
            if let Some(one) = self.meetings.all.get_mut(&port)
                && one.meeting.gives_up(now)
            {
                one.peer = None;
            }
            self.look_for_peer(now, port);
            self.let_in(now, port);
            self.hear_peer(now, port, buffer);
        }
    }

    /// Looks who is at the path, if it is time: connects, or listens there.
    fn look_for_peer(&mut self, now: Time, port: PortIndex) {
        let Some(one) = self.meetings.all.get_mut(&port) else {
            return;
        };
        if !one.meeting.is_due(now) {
            return;
        }
        match one.find() {
            Ok(Some(socket)) => self.greet(now, port, socket),
            Ok(None) => one.meeting.part(now),
            Err(error) => one.fail(now, &error),
        }
    }

    /// Lets in who has come; a third is told that there are two.
    fn let_in(&mut self, now: Time, port: PortIndex) {
        for _ in 0..LET_IN_MAX {
            let Some(one) = self.meetings.all.get_mut(&port) else {
                return;
            };
            let Some(entrance) = &one.entrance else {
                return;
            };
            let Ok(socket) = accept_with(entrance, SocketFlags::CLOEXEC) else {
                // Nobody has come, or there are no descriptors: whoever waits is seen again.
                return;
            };
            let socket = Closer::from(socket);
            if one.meeting.is_away() {
                self.greet(now, port, socket);
            } else {
                let word = serde_json::to_vec(&Word::Taken).unwrap_or_default();
                // Whoever does not hear it is gone.
                let _ = send(&socket, &word, &[], false);
            }
        }
    }

    /// Hands the other end the port that it is to send into.
    fn greet(&mut self, now: Time, port: PortIndex, socket: Closer) {
        let Some(one) = self.meetings.all.get(&port) else {
            return;
        };
        self.meetings.generation = self.meetings.generation.wrapping_add(1);
        let generation = self.meetings.generation;
        let said = refuse_strangers(&socket).and_then(|()| {
            let made = make_receive_port(&one.geometry, generation).map_err(io::Error::other)?;
            let (receiver, files) = made;
            let (bell, rouse) = self.channels.sources.bell(Source::Link)?;
            Ok((receiver, files, bell, rouse))
        });
        let Some(one) = self.meetings.all.get_mut(&port) else {
            return;
        };
        let (receiver, files, bell, rouse) = match said {
            Ok(made) => made,
            Err(error) => return one.fail(now, &error),
        };
        let word = serde_json::to_vec(&one.meeting.greet(now, generation)).unwrap_or_default();
        let fds = [files.fds(), rouse.fds()].concat();
        match send(&socket, &word, &fds, false) {
            Ok(()) => {
                let mine = Some((receiver, bell));
                one.peer = Some(Peer { socket, mine });
            }
            // It came and went.
            Err(_) => one.meeting.part(now),
        }
    }

    fn hear_peer(&mut self, now: Time, port: PortIndex, buffer: &mut [u8]) {
        let Some(one) = self.meetings.all.get_mut(&port) else {
            return;
        };
        let Some(peer) = &mut one.peer else {
            return;
        };
        let came = match receive(&peer.socket, buffer, false) {
            Err(Errno::AGAIN) => return,
            Ok(Received::Message(len, fds)) => Some((len, given(fds))),
            Ok(Received::TooLong(fds) | Received::Closed(fds)) => {
                drop(given(fds));
                None
            }
            Err(_) => None,
        };
        match (came, peer.mine.take()) {
            (Some((len, fds)), Some(mine)) => {
                let heard = one.meeting.hear(now, &buffer[..len], fds.len());
                match heard {
                    Ok(hail) => self.join(now, port, &hail, mine, fds),
                    Err(_) => one.peer = None,
                }
            }
            (None, Some(_)) => {
                one.meeting.part(now);
                one.peer = None;
            }
            // It has gone, or says what nobody says who is joined.
            (_, None) => {
                one.meeting.part(now);
                one.peer = None;
                self.unlink(own_ticket(port), port);
            }
        }
    }

    fn join(
        &mut self,
        now: Time,
        port: PortIndex,
        hail: &Hail,
        (receiver, bell): (CellReceiver, RestBell),
        fds: Vec<Closer>,
    ) {
        let whose = Some(Whose::Met(port));
        let far = self.far_end(whose, hail.sizes, hail.files_generation, fds);
        let far = match far {
            Ok(far) => far,
            Err(error) => {
                if let Some(one) = self.meetings.all.get_mut(&port) {
                    one.meeting.fail(now, format!("the other end: {error}"));
                    one.peer = None;
                }
                return;
            }
        };
        let receive = End {
            _bell: Some(bell),
            ..End::default()
        };
        let transmit = End::default();
        let source = ReceiveEnd::Memory(MemorySource(receiver));
        let ends = [
            Some(PortEnd::Receive(source, Arc::clone(&receive.counters))),
            Some(PortEnd::Transmit(far, Arc::clone(&transmit.counters))),
        ];
        self.post_ends(
            own_ticket(port),
            port,
            ends,
            NewEnds::Met([receive, transmit]),
        );
    }
}

impl HostMeeting {
    /// Who is at the path; none: nobody, and this end listens there.
    fn find(&mut self) -> io::Result<Option<Closer>> {
        if let Some(entrance) = &mut self.entrance {
            match entrance.look() {
                Ok(Look::Same | Look::Again) => return Ok(None),
                // Somebody else listens there by now.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => self.entrance = None,
                Err(error) => return Err(error),
            }
        }
        if let Some(socket) = call(&self.path, PATIENCE)? {
            return Ok(Some(socket.into()));
        }
        match Entrance::make(&self.path, MODE, (None, None)) {
            Ok(entrance) => self.entrance = Some(entrance),
            // The other end was faster: the next look finds it.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    fn fail(&mut self, now: Time, error: &io::Error) {
        let (path, text) = (self.path.display().to_string(), plain(error));
        let named = text.contains(&path);
        let why = if named {
            text
        } else {
            format!("{path}: {text}")
        };
        self.meeting.fail(now, why);
    }
}

/// Lets nobody have the other end but this user and root.
///
/// # Errors
/// Somebody else has it.
fn refuse_strangers(socket: &Closer) -> io::Result<()> {
    let (uid, _) = peer_credentials(socket)?;
    let own = rustix::process::geteuid().as_raw();
    match uid == own || uid == 0 {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "user {uid} has the other end, where only user {own} and root may"
        ))),
    }
}
