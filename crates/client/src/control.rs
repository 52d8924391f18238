//! The control socket: requests and their confirms, indications in between.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use cellgate_core::Time;
use cellgate_core::server::{
    Confirm, FromClient, FromServer, Indication, Refused, Request, Response, VERSION,
};
use cellgate_shm::socket::{self, MESSAGE_MAX, Received, receive, send};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::clock::now;
use crate::{Error, ServerInfo};

/// An indication, and what came along.
#[derive(Debug)]
pub(crate) struct Heard {
    /// For a Response.
    pub(crate) id: u64,
    pub(crate) indication: Indication,
    pub(crate) fds: Vec<OwnedFd>,
}

/// A confirm, and what came along.
pub(crate) type Confirmed = (Confirm, Vec<OwnedFd>);

#[derive(Debug)]
pub(crate) struct Control {
    socket: OwnedFd,
    buffer: Vec<u8>,
    last_id: u64,
    /// How long a request waits for its confirm.
    patience: Duration,
    /// Indications in their order, until somebody wants them.
    heard: VecDeque<Heard>,
    /// A change that was not confirmed in time, which may have been carried out all the same.
    unconfirmed: Option<u64>,
    /// Its confirm.
    late: Option<Confirmed>,
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
        let mut control = Self {
            socket,
            buffer: vec![0; MESSAGE_MAX],
            last_id: 0,
            patience,
            heard: VecDeque::new(),
            unconfirmed: None,
            late: None,
            server: ServerInfo::default(),
        };
        let hello = Request::Hello { version: VERSION };
        match control.request(hello, &[])? {
            (
                Confirm::Hello {
                    version,
                    server,
                    pid,
                    notes,
                },
                _,
            ) if version == VERSION => control.server = ServerInfo { server, pid, notes },
            (Confirm::Hello { version, .. }, _) => {
                return Err(Refused::Version { speaks: version }.into());
            }
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

    /// Asks, and waits for the confirm. Indications that come before it are kept, in order.
    pub(crate) fn request(
        &mut self,
        request: Request,
        fds: &[BorrowedFd<'_>],
    ) -> Result<Confirmed, Error> {
        self.last_id += 1;
        let id = self.last_id;
        self.exchange(id, &FromClient::Request { id, request }, fds)
    }

    /// Accepts what an indication offered, and waits for the confirm.
    pub(crate) fn accept(&mut self, id: u64) -> Result<Confirmed, Error> {
        let response = Response::Accept;
        self.exchange(id, &FromClient::Response { id, response }, &[])
    }

    /// Declines what an indication offered.
    pub(crate) fn decline(&mut self, id: u64) -> Result<(), Error> {
        let response = Response::Decline;
        let deadline = self.deadline();
        self.say(&FromClient::Response { id, response }, &[], deadline)
    }

    /// Says to a new server that it is known: it reads what follows. One that has gone since need
    /// not know.
    fn has_heard(&mut self, id: u64) -> Result<(), Error> {
        let response = Response::Heard;
        let deadline = self.deadline();
        match self.say(&FromClient::Response { id, response }, &[], deadline) {
            Err(Error::Closed) => Ok(()),
            said => said,
        }
    }

    /// The next indication of those that came before the last confirm.
    pub(crate) fn next_kept(&mut self) -> Option<Heard> {
        self.heard.pop_front()
    }

    /// Forgets the memory that was told of before the last confirm, which brings its own: what a
    /// server had opened again before it confirmed that it was open at all.
    pub(crate) fn forget_reopened(&mut self) {
        let is_other = |heard: &Heard| !matches!(heard.indication, Indication::Reopened(_));
        self.heard.retain(is_other);
    }

    /// The next indication, if one was kept or waits.
    pub(crate) fn poll(&mut self) -> Result<Option<Heard>, Error> {
        self.hear_within(Some(Time::ZERO))
    }

    /// The next indication; waits for it until `deadline` (none: as long as it takes).
    pub(crate) fn hear_within(&mut self, deadline: Option<Time>) -> Result<Option<Heard>, Error> {
        loop {
            if let Some(heard) = self.heard.pop_front() {
                return Ok(Some(heard));
            }
            match self.receive()? {
                Some((FromServer::Confirm { id, result }, fds)) => self.is_late(id, result, fds),
                Some((FromServer::Indication { id, indication }, fds)) => {
                    if indication == Indication::Restarted {
                        self.has_heard(id)?;
                    }
                    return Ok(Some(Heard {
                        id,
                        indication,
                        fds,
                    }));
                }
                None if deadline == Some(Time::ZERO) => return Ok(None),
                None => {
                    if !self.wait(PollFlags::IN, deadline)? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Whether an indication was kept that [`Self::poll`] will give without asking the socket.
    pub(crate) fn has_kept(&self) -> bool {
        !self.heard.is_empty()
    }

    fn deadline(&self) -> Time {
        let patience = u64::try_from(self.patience.as_nanos()).unwrap_or(u64::MAX);
        now().plus_ns(patience)
    }

    fn exchange(
        &mut self,
        id: u64,
        message: &FromClient,
        fds: &[BorrowedFd<'_>],
    ) -> Result<Confirmed, Error> {
        let deadline = self.deadline();
        let said = self.say(message, fds, deadline);
        said.map_err(|error| self.last_word(error))?;
        loop {
            match self.receive()? {
                Some((FromServer::Confirm { id: of, result }, fds)) if of == id || of == 0 => {
                    return Ok((result?, fds));
                }
                Some((FromServer::Confirm { id, result }, fds)) => self.is_late(id, result, fds),
                Some((FromServer::Indication { id, indication }, came)) => {
                    let again = indication == Indication::Restarted;
                    self.heard.push_back(Heard {
                        id,
                        indication,
                        fds: came,
                    });
                    if again {
                        self.has_heard(id)?;
                        self.say(message, fds, deadline)?;
                    }
                }
                None => {
                    if !self.wait(PollFlags::IN, Some(deadline))? {
                        if is_change(message) {
                            self.unconfirmed = Some(id);
                        }
                        return Err(Error::TimedOut);
                    }
                }
            }
        }
    }

    /// Why the server has hung up, if it said so before: what it said stands.
    fn last_word(&mut self, error: Error) -> Error {
        while let (Error::Closed, Ok(Some((message, _)))) = (&error, self.receive()) {
            if let FromServer::Confirm {
                id: 0,
                result: Err(refused),
            } = message
            {
                return refused.into();
            }
        }
        error
    }

    /// A confirm has come that nobody waits for any more: one of a change is kept.
    fn is_late(&mut self, id: u64, result: Result<Confirm, Refused>, fds: Vec<OwnedFd>) {
        if self.unconfirmed == Some(id) {
            self.unconfirmed = None;
            self.late = result.ok().map(|confirm| (confirm, fds));
        }
    }

    /// What has been confirmed of a change that had timed out.
    pub(crate) fn take_late(&mut self) -> Option<Confirmed> {
        self.late.take()
    }

    fn say(
        &mut self,
        message: &FromClient,
        fds: &[BorrowedFd<'_>],
        deadline: Time,
    ) -> Result<(), Error> {
        let octets = serde_json::to_vec(message).map_err(bad_message)?;
        loop {
            match send(&self.socket, &octets, fds, false) {
                Ok(()) => return Ok(()),
                Err(Errno::AGAIN) => {
                    if !self.wait(PollFlags::OUT, Some(deadline))? {
                        return Err(Error::TimedOut);
                    }
                }
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => return Err(Error::Closed),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn receive(&mut self) -> Result<Option<(FromServer, Vec<OwnedFd>)>, Error> {
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
                Ok(Some((message, fds)))
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

/// Whether a message changes a connection's contract, and perhaps its memory.
fn is_change(message: &FromClient) -> bool {
    match message {
        FromClient::Request { request, .. } => matches!(request, Request::Modify { .. }),
        FromClient::Response { response, .. } => *response == Response::Accept,
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
    use cellgate_core::server::Crowd;
    use cellgate_shm::socket::pair;

    use super::*;

    #[test]
    fn what_a_server_said_before_it_hung_up_stands() {
        let refused = Refused::full_of_user(Crowd::ControlSockets, 16, 1_001);
        let last = FromServer::Confirm {
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
