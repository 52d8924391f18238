//! The control socket that connections have in common: the octets and descriptors of what each of
//! them says and hears.

use std::collections::{BTreeMap, VecDeque};
use std::mem::discriminant;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellgate_core::Time;
use cellgate_core::server::{FromClient, FromServer, Indication, Request, Response};
use cellgate_shm::socket::{MESSAGE_MAX, Received, receive, send};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::Error;
use crate::clock::now;
use crate::control::{Descriptors, bad_message, timespec};

/// Ends of dropped connections that wait for their Confirms at once; a server lets 16 Requests of a
/// socket wait.
const CLOSING_MAX: usize = 8;
/// How long a connection that is dropped waits for those before it, in nanoseconds.
const CLOSING_NS: u64 = 1_000_000_000;

type Message = (FromServer, Descriptors);

#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    heard: Mutex<Heard>,
}

#[derive(Debug)]
struct Heard {
    buffer: Vec<u8>,
    /// Messages that nobody has taken, by the numbers of those whom they are for.
    inboxes: BTreeMap<u32, Inbox>,
    last_number: u32,
    /// Connections that were dropped, and whose ends are not confirmed.
    closing: Vec<u32>,
}

/// Messages for one number.
#[derive(Debug, Default)]
struct Inbox {
    messages: VecDeque<Message>,
    /// Whether there is any, for who looks at it often.
    has_any: Arc<AtomicBool>,
    /// Some has come since this was asked last.
    is_fresh: bool,
}

impl Inbox {
    fn put(&mut self, message: FromServer, came: Descriptors) {
        self.messages
            .retain(|(former, _)| !is_outdated(former, &message));
        self.messages.push_back((message, came));
        self.has_any.store(true, Relaxed);
        self.is_fresh = true;
    }

    fn take(&mut self) -> Option<Message> {
        let message = self.messages.pop_front();
        self.has_any.store(!self.messages.is_empty(), Relaxed);
        message
    }
}

impl Socket {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        let heard = Heard {
            buffer: vec![0; MESSAGE_MAX],
            inboxes: BTreeMap::new(),
            last_number: 0,
            closing: Vec::new(),
        };
        Self {
            fd,
            heard: Mutex::new(heard),
        }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for another connection, never given twice.
    pub(crate) fn new_number(&self) -> u32 {
        let mut heard = self.heard();
        heard.last_number += 1;
        heard.last_number
    }

    /// Keeps messages about the connection of this number for it from now on; 0: those about none.
    /// Gives the flag that tells whether any was kept.
    pub(crate) fn enter(&self, number: u32) -> Arc<AtomicBool> {
        let inbox = Inbox::default();
        let has_any = Arc::clone(&inbox.has_any);
        self.heard().inboxes.insert(number, inbox);
        has_any
    }

    /// Nobody hears of this number any more.
    pub(crate) fn leave(&self, number: u32) {
        self.heard().inboxes.remove(&number);
    }

    /// For whom something has come since this was asked last.
    pub(crate) fn take_fresh(&self) -> Vec<u32> {
        let mut heard = self.heard();
        let inboxes = heard.inboxes.iter_mut();
        let fresh = inboxes
            .filter_map(|(number, inbox)| core::mem::take(&mut inbox.is_fresh).then_some(*number));
        fresh.collect()
    }

    /// Whether a message has come for anybody since [`Socket::take_fresh`].
    pub(crate) fn has_fresh(&self) -> bool {
        self.heard().inboxes.values().any(|inbox| inbox.is_fresh)
    }

    /// The next message for this number; none: none has come.
    pub(crate) fn receive(&self, number: u32) -> Result<Option<Message>, Error> {
        let mut heard = self.heard();
        loop {
            let inbox = heard.inboxes.get_mut(&number);
            if let Some(message) = inbox.and_then(Inbox::take) {
                return Ok(Some(message));
            }
            let Some((message, came)) = heard.read(&self.fd)? else {
                return Ok(None);
            };
            if let Some(message) = heard.sort(&self.fd, message, came)? {
                return Ok(Some(message));
            }
        }
    }

    /// Hears all that has come, and keeps it for those whom it is about.
    pub(crate) fn hear_all(&self) -> Result<(), Error> {
        let mut heard = self.heard();
        while let Some((message, came)) = heard.read(&self.fd)? {
            heard.sort(&self.fd, message, came)?;
        }
        Ok(())
    }

    /// Says something; waits until `deadline` for the server to take it.
    pub(crate) fn say(
        &self,
        message: &FromClient,
        fds: &[BorrowedFd<'_>],
        deadline: Time,
    ) -> Result<(), Error> {
        say(&self.fd, message, fds, deadline)
    }

    /// Waits until there is something to hear; `false`: the time is over.
    pub(crate) fn wait_to_hear(&self, deadline: Option<Time>) -> Result<bool, Error> {
        wait_for(self.fd.as_fd(), PollFlags::IN, deadline)
    }

    /// Ends a connection that was dropped. Nobody hears what comes of it.
    pub(crate) fn close(&self, number: u32) -> Result<(), Error> {
        let deadline = now().plus_ns(CLOSING_NS);
        loop {
            self.hear_all()?;
            if self.heard().closing.len() < CLOSING_MAX {
                break;
            }
            if !self.wait_to_hear(Some(deadline))? {
                return Err(Error::TimedOut);
            }
        }
        say(&self.fd, &closing(number), &[], deadline)?;
        self.heard().closing.push(number);
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Heard {
    /// The next message, whomever it is about.
    fn read(&mut self, fd: &OwnedFd) -> Result<Option<Message>, Error> {
        let mut receive = || receive(fd, &mut self.buffer, false);
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

    /// Puts a message into the inbox of its connection. The end of a Request of which the server
    /// has read no number is whoever's who asks.
    fn sort(
        &mut self,
        fd: &OwnedFd,
        message: FromServer,
        came: Descriptors,
    ) -> Result<Option<Message>, Error> {
        match &message {
            FromServer::Confirm { id: 0, .. } => return Ok(Some((message, came))),
            FromServer::Confirm { id, connection, .. } => {
                if let Some(inbox) = self.inboxes.get_mut(connection) {
                    inbox.put(message, came);
                } else if *id == closing_id(*connection) {
                    self.closing.retain(|number| number != connection);
                }
            }
            // A message about no connection is for all.
            FromServer::Indication {
                id,
                connection: 0,
                indication,
            } => {
                if *indication == Indication::Restarted {
                    self.answer(fd, *id)?;
                }
                for inbox in self.inboxes.values_mut() {
                    inbox.put(message.clone(), Descriptors::default());
                }
            }
            FromServer::Indication { connection, .. } => {
                if let Some(inbox) = self.inboxes.get_mut(connection) {
                    inbox.put(message, came);
                }
            }
        }
        Ok(None)
    }

    /// Tells a new server at once that it is heard, whoever calls next: it reads nothing before.
    /// Who asks for something asks again by itself.
    fn answer(&mut self, fd: &OwnedFd, id: u64) -> Result<(), Error> {
        let heard = FromClient::Response {
            id,
            connection: 0,
            response: Response::Heard,
        };
        let deadline = now().plus_ns(CLOSING_NS);
        say(fd, &heard, &[], deadline)?;
        for number in &self.closing {
            say(fd, &closing(*number), &[], deadline)?;
        }
        Ok(())
    }
}

/// Whether an Indication tells how things stand with what the one before it told, too.
fn is_outdated(former: &FromServer, by: &FromServer) -> bool {
    let told = |message: &FromServer| match message {
        FromServer::Indication { indication, .. } => Some(discriminant(indication)),
        FromServer::Confirm { .. } => None,
    };
    let is_state = matches!(
        by,
        FromServer::Indication {
            indication: Indication::Share { .. }
                | Indication::AtRisk { .. }
                | Indication::Losing { .. }
                | Indication::Rate { .. },
            ..
        }
    );
    is_state && told(former) == told(by)
}

/// The last of the numbers that a connection's Requests have.
fn closing_id(number: u32) -> u64 {
    (u64::from(number) + 2) * (1 << 32) - 1
}

/// The Request that ends a dropped connection.
fn closing(number: u32) -> FromClient {
    FromClient::Request {
        id: closing_id(number),
        connection: number,
        request: Request::Close,
    }
}

fn say(
    fd: &OwnedFd,
    message: &FromClient,
    fds: &[BorrowedFd<'_>],
    deadline: Time,
) -> Result<(), Error> {
    let octets = serde_json::to_vec(message).map_err(bad_message)?;
    loop {
        match send(fd, &octets, fds, false) {
            Ok(()) => return Ok(()),
            Err(Errno::AGAIN) => {
                if !wait_for(fd.as_fd(), PollFlags::OUT, Some(deadline))? {
                    return Err(Error::TimedOut);
                }
            }
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => return Err(Error::Closed),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Waits for a descriptor until `deadline` (none: as long as it takes); `false`: the time is over.
/// A signal handler that ran in between is no end of it.
pub(crate) fn wait_for(
    fd: BorrowedFd<'_>,
    flags: PollFlags,
    deadline: Option<Time>,
) -> Result<bool, Error> {
    loop {
        let timeout = deadline.map(|deadline| timespec(deadline.since_ns(now())));
        match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], timeout.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
