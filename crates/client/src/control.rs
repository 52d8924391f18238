//! A connection's part of a control socket: what it asks, and what it is told.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use cellgate_core::Time;
use cellgate_core::application::{
    Answer, Application, Cause, Enclosure, End, Failure, OpenConnection, Output,
};
use cellgate_core::server::{Confirm, FromClient, Indication, Opened, Request, Response, VERSION};
use cellgate_shm::name_of;
use cellgate_shm::socket;
use rustix::event::Timespec;
use rustix::io::Errno;

use crate::clock::now;
use crate::connection::FROM_CLIENT;
use crate::socket::Socket;
use crate::{Error, ServerInfo};

/// Descriptors that came along with a message.
#[derive(Debug, Default)]
pub(crate) struct Descriptors(pub(crate) Vec<OwnedFd>);

impl Enclosure for Descriptors {
    /// Device and inode of the file that the client writes.
    type Memory = (u64, u64);

    fn memory(&self) -> Option<Self::Memory> {
        self.0.get(FROM_CLIENT).and_then(name_of)
    }
}

/// Memory that the server has given a connection.
#[derive(Debug)]
pub(crate) struct NewMemory {
    pub(crate) opened: Opened,
    pub(crate) came: Descriptors,
    pub(crate) cause: Cause,
}

#[derive(Debug)]
pub(crate) struct Control {
    socket: Arc<Socket>,
    /// By which messages name the connection; 0: it has none.
    number: u32,
    /// Something was heard for it by others.
    has_any: Arc<AtomicBool>,
    application: Application<Descriptors>,
    /// What is still to be mapped, in order.
    memories: VecDeque<NewMemory>,
    server: ServerInfo,
}

impl Control {
    /// How long a request waits if nothing else is said: a server that is restarted answers the
    /// requests of its predecessor, one that is not never does.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

    pub(crate) fn connect(path: &Path, patience: Duration) -> Result<Self, Error> {
        let silent = || Error::Silent {
            path: path.to_owned(),
        };
        let socket = socket::dial(path, patience).map_err(|errno| match errno {
            Errno::TIMEDOUT => silent(),
            errno => Error::NoServer {
                path: path.to_owned(),
                cause: errno.into(),
            },
        })?;
        Self::over(socket, patience).map_err(|error| match error {
            Error::TimedOut => silent(),
            error => error,
        })
    }

    /// Says hello over a socket.
    pub(crate) fn over(socket: OwnedFd, patience: Duration) -> Result<Self, Error> {
        let patience = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        let shared = Arc::new(Socket::new(socket));
        let mut control = Self {
            has_any: shared.enter(0),
            socket: shared,
            number: 0,
            application: Application::new(patience),
            memories: VecDeque::new(),
            server: ServerInfo::default(),
        };
        match control.request(Request::Hello { version: VERSION }, &[])? {
            (
                Confirm::Hello {
                    server, pid, notes, ..
                },
                _,
            ) => control.server = ServerInfo { server, pid, notes },
            (other, _) => return Err(unexpected(&other)),
        }
        Ok(control)
    }

    /// A part of the same socket, for another connection.
    pub(crate) fn another(socket: &Arc<Socket>, patience: Duration) -> Self {
        let patience = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        let number = socket.new_number();
        Self {
            has_any: socket.enter(number),
            socket: Arc::clone(socket),
            number,
            application: Application::numbered(number, patience),
            memories: VecDeque::new(),
            server: ServerInfo::default(),
        }
    }

    /// The number by which messages name the connection.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Whether something was heard for it by others, and not looked at.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.has_any.load(Relaxed)
    }

    /// The socket, which others may share.
    pub(crate) fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// Whether the connection is to be closed when it is dropped.
    pub(crate) fn is_open(&self) -> bool {
        self.application.connection().is_some() && self.application.end().is_none()
    }

    /// Who answered.
    pub(crate) fn server(&self) -> &ServerInfo {
        &self.server
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Of a socket whose connection has been opened, and was not closed since.
    #[inline]
    pub(crate) fn open(&self) -> &OpenConnection<(u64, u64)> {
        let open = self.application.connection();
        open.expect("a `Connection` begins with its connection and ends with it")
    }

    /// The same, to send and to take.
    #[inline]
    pub(crate) fn open_mut(&mut self) -> &mut OpenConnection<(u64, u64)> {
        let open = self.application.connection_mut();
        open.expect("a `Connection` begins with its connection and ends with it")
    }

    pub(crate) fn end(&self) -> Option<End> {
        self.application.end()
    }

    /// Whether the server has told something since the last call.
    pub(crate) fn take_told(&mut self) -> bool {
        self.application.take_told()
    }

    pub(crate) fn next_indication(&mut self) -> Option<Indication> {
        self.application.next_indication()
    }

    /// What is to be mapped next: to be asked for after all else that hears the server.
    pub(crate) fn next_memory(&mut self) -> Option<NewMemory> {
        self.memories.pop_front()
    }

    /// Asks, and waits for the confirm.
    pub(crate) fn request(
        &mut self,
        request: Request,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(Confirm, Vec<OwnedFd>), Error> {
        self.application.ask(now(), request);
        self.conclude(fds)
    }

    /// Changes the contract of a connection that has sent everything.
    pub(crate) fn modify(&mut self, contract: String) -> Result<(), Error> {
        self.application.modify(now(), contract);
        self.application.has_sent_all(now());
        self.conclude(&[]).map(|_| ())
    }

    /// The same, to what was offered.
    pub(crate) fn accept_offer(&mut self) -> Result<(), Error> {
        if !self.application.accept_offer(now()) {
            return Err(Error::WouldBlock(crate::Wait::Pdu));
        }
        self.application.has_sent_all(now());
        self.conclude(&[]).map(|_| ())
    }

    /// Declines what was offered.
    pub(crate) fn decline_offer(&mut self) -> Result<(), Error> {
        if !self.application.decline_offer() {
            return Err(Error::WouldBlock(crate::Wait::Pdu));
        }
        self.carry_out(&[])?;
        match self.application.end() {
            Some(End::HungUp) => Err(Error::Closed),
            _ => Ok(()),
        }
    }

    /// Hears one thing, if it is there; whether it was.
    pub(crate) fn hear(&mut self) -> Result<bool, Error> {
        let heard = match self.socket.receive(self.number) {
            Ok(Some((message, came))) => {
                self.application.handle(now(), message, came);
                Ok(true)
            }
            Err(Error::Closed) => {
                self.application.hung_up();
                Err(Error::Closed)
            }
            other => return other.map(|_| false),
        };
        self.carry_out(&[])?;
        heard
    }

    /// Waits until there is something to hear; `false`: the time is over.
    pub(crate) fn wait_to_hear(&self, deadline: Option<Time>) -> Result<bool, Error> {
        self.socket.wait_to_hear(deadline)
    }

    /// Goes on until what was asked has ended.
    fn conclude(&mut self, fds: &[BorrowedFd<'_>]) -> Result<(Confirm, Vec<OwnedFd>), Error> {
        loop {
            if let Some(Answer { result, came }) = self.carry_out(fds)? {
                return Ok((result?, came.unwrap_or_default().0));
            }
            match self.socket.receive(self.number) {
                Ok(Some((message, came))) => self.application.handle(now(), message, came),
                Ok(None) => {
                    if !self.wait_to_hear(self.application.next_deadline())? {
                        self.application.expire(now());
                    }
                }
                Err(Error::Closed) => self.application.hung_up(),
                Err(error) => return Err(error),
            }
        }
    }

    /// Does what the application wants; the answer to what was asked with `fds`, if there is one.
    fn carry_out(&mut self, fds: &[BorrowedFd<'_>]) -> Result<Option<Answer<Descriptors>>, Error> {
        let mut answered = None;
        while let Some(output) = self.application.poll() {
            match output {
                // Its socket has said so.
                Output::Say(FromClient::Response {
                    response: Response::Heard,
                    ..
                }) => {}
                Output::Say(message) => {
                    let along = match message {
                        FromClient::Request { .. } => fds,
                        FromClient::Response { .. } => &[],
                    };
                    match self.say(&message, along) {
                        Err(Error::Closed) => self.is_hung_up(),
                        Err(Error::TimedOut) => self.application.expire(now()),
                        said => said?,
                    }
                }
                Output::Memory {
                    opened,
                    came,
                    cause,
                } => self.memories.push_back(NewMemory {
                    opened,
                    came,
                    cause,
                }),
                Output::Answer(answer) => answered = Some(answer),
                Output::Senseless(text) => return Err(Error::BadMessage(text)),
            }
        }
        Ok(answered)
    }

    /// Nobody hears any more what is said: what the server said before stands.
    fn is_hung_up(&mut self) {
        while let Ok(Some((message, came))) = self.socket.receive(self.number) {
            self.application.handle(now(), message, came);
        }
        self.application.hung_up();
    }

    fn say(&self, message: &FromClient, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        let patience = Self::PATIENCE.as_nanos() as u64;
        let deadline = self.application.next_deadline();
        let deadline = deadline.unwrap_or(now().plus_ns(patience));
        self.socket.say(message, fds, deadline)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.socket.leave(self.number);
    }
}

impl From<End> for Error {
    fn from(end: End) -> Self {
        match end {
            End::Said(reason) => Self::Ended(reason),
            End::HungUp => Self::Closed,
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(refused) => refused.into(),
            Failure::TimedOut => Self::TimedOut,
            Failure::Ended(end) => end.into(),
            Failure::Senseless(text) => Self::BadMessage(text),
        }
    }
}

pub(crate) fn timespec(ns: u64) -> Timespec {
    const NS_PER_S: u64 = 1_000_000_000;
    Timespec {
        // Below 2^35.
        tv_sec: (ns / NS_PER_S) as i64,
        tv_nsec: (ns % NS_PER_S) as i64,
    }
}

pub(crate) fn bad_message(error: serde_json::Error) -> Error {
    Error::BadMessage(error.to_string())
}

/// A confirm that belongs to another request.
pub(crate) fn unexpected(confirm: &Confirm) -> Error {
    let mut text = format!("{confirm:?}");
    text.truncate(text.floor_char_boundary(200));
    Error::BadMessage(text)
}

#[cfg(test)]
mod tests {
    use cellgate_core::server::{Crowd, FromServer, Refused};
    use cellgate_shm::socket::{pair, send};
    use rustix::event::PollFlags;

    use super::*;
    use crate::socket::wait_for;

    #[test]
    fn what_a_server_said_before_it_hung_up_stands() {
        let refused = Refused::full_of_user(Crowd::ControlSockets, 16, 1_001);
        let last = FromServer::Confirm {
            connection: 0,
            id: 0,
            result: Err(refused.clone()),
        };
        let last = serde_json::to_vec(&last).unwrap();
        // Before hello is sent, and before it is read.
        for waits in [false, true] {
            let (mine, theirs) = pair().unwrap();
            let last = last.clone();
            let server = move || {
                if waits {
                    wait_for(theirs.as_fd(), PollFlags::IN, None).unwrap();
                }
                send(&theirs, &last, &[], true).unwrap();
            };
            let server = std::thread::spawn(server);
            if !waits {
                server.join().unwrap();
            }
            let told = Control::over(mine, Duration::from_secs(10)).err().unwrap();
            assert!(
                matches!(told, Error::Refused(why) if why == refused),
                "{waits}"
            );
        }
        let (mine, theirs) = pair().unwrap();
        drop(theirs);
        let told = Control::over(mine, Duration::from_secs(10)).err();
        assert!(matches!(told, Some(Error::Closed)));
    }
}
