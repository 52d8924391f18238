//! The control socket: the octets and descriptors of what an application says and hears.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use cellgate_core::Time;
use cellgate_core::application::{
    Answer, Application, Cause, Enclosure, End, Failure, OpenConnection, Output,
};
use cellgate_core::server::{
    Confirm, FromClient, FromServer, Indication, Opened, Request, VERSION,
};
use cellgate_shm::name_of;
use cellgate_shm::socket::{self, MESSAGE_MAX, Received, receive, send};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::clock::now;
use crate::connection::FROM_CLIENT;
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
    socket: OwnedFd,
    buffer: Vec<u8>,
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
        let mut control = Self {
            socket,
            buffer: vec![0; MESSAGE_MAX],
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
        let heard = match self.receive() {
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
        self.wait(PollFlags::IN, deadline)
    }

    /// Goes on until what was asked has ended.
    fn conclude(&mut self, fds: &[BorrowedFd<'_>]) -> Result<(Confirm, Vec<OwnedFd>), Error> {
        loop {
            if let Some(Answer { result, came }) = self.carry_out(fds)? {
                return Ok((result?, came.unwrap_or_default().0));
            }
            match self.receive() {
                Ok(Some((message, came))) => self.application.handle(now(), message, came),
                Ok(None) => {
                    if !self.wait(PollFlags::IN, self.application.next_deadline())? {
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
        while let Ok(Some((message, came))) = self.receive() {
            self.application.handle(now(), message, came);
        }
        self.application.hung_up();
    }

    fn say(&mut self, message: &FromClient, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        let octets = serde_json::to_vec(message).map_err(bad_message)?;
        loop {
            match send(&self.socket, &octets, fds, false) {
                Ok(()) => return Ok(()),
                Err(Errno::AGAIN) => {
                    let patience = Self::PATIENCE.as_nanos() as u64;
                    let deadline = self.application.next_deadline();
                    let deadline = deadline.unwrap_or(now().plus_ns(patience));
                    if !self.wait(PollFlags::OUT, Some(deadline))? {
                        return Err(Error::TimedOut);
                    }
                }
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => return Err(Error::Closed),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn receive(&mut self) -> Result<Option<(FromServer, Descriptors)>, Error> {
        let mut receive = || receive(&self.socket, &mut self.buffer, false);
        let received = match receive() {
            // It left something unread: what it had said before comes after this.
            Err(Errno::CONNRESET) => receive(),
            received => received,
        };
        match received {
            Ok(Received::Message(len, fds)) => {
                let message = self.buffer.get(..len).unwrap_or_default();
                let message = serde_json::from_slice(message).map_err(bad_message)?;
                Ok(Some((message, Descriptors(fds))))
            }
            Ok(Received::TooLong(_)) => Err(Error::BadMessage("it is too long".to_owned())),
            Ok(Received::Closed(_)) => Err(Error::Closed),
            Err(Errno::AGAIN) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Waits until the socket can be used; `false`: the time is over.
    fn wait(&self, flags: PollFlags, deadline: Option<Time>) -> Result<bool, Error> {
        wait_for(self.socket.as_fd(), flags, deadline)
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

/// Waits for a descriptor until `deadline` (none: as long as it takes); `false`: the time is over.
/// A signal handler that ran in between is no end of it.
fn wait_for(fd: BorrowedFd<'_>, flags: PollFlags, deadline: Option<Time>) -> Result<bool, Error> {
    loop {
        let timeout = deadline.map(|deadline| timespec(deadline.since_ns(now())));
        match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], timeout.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
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

fn bad_message(error: serde_json::Error) -> Error {
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
    use cellgate_core::server::{Crowd, Refused};
    use cellgate_shm::socket::pair;

    use super::*;

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
