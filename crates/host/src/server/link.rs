use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use crate::closer::{Closer, given};
use crate::control::{
    Answer, Ask, ControlError, MESSAGE_MAX, Received, Reply, Request, receive, send,
};
use crate::sys::send_many;

/// The adapter has closed the connection, or says what makes no sense; why it did not start, if
/// that is why.
#[derive(Debug)]
pub(super) struct Gone(pub(super) Option<ControlError>);

/// What the adapter answered.
pub(super) type Answered = Result<Answer, ControlError>;

/// A control connection to the adapter whose user never waits: each request has a purpose, with
/// which the answer comes back.
pub(super) struct AdapterLink<P> {
    /// What lies unread in it is closed with it: sockets of applications, where it was to be taken
    /// up.
    socket: Closer,
    last_id: u64,
    outgoing: VecDeque<(Vec<u8>, Vec<Arc<Closer>>)>,
    /// The kernel does not take the next one's descriptors for now.
    held: bool,
    waiting: BTreeMap<u64, P>,
    buffer: Vec<u8>,
}

impl<P> AdapterLink<P> {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self {
            socket: socket.into(),
            last_id: 0,
            outgoing: VecDeque::new(),
            held: false,
            waiting: BTreeMap::new(),
            buffer: vec![0; MESSAGE_MAX],
        }
    }

    /// Asks, as soon as the socket takes it; the purpose of what is too long for a message.
    pub(super) fn ask(&mut self, purpose: P, ask: Ask, fds: Vec<Arc<Closer>>) -> Result<(), P> {
        let request = Request {
            id: self.last_id + 1,
            ask,
        };
        // Numbers, names and texts: all of it has a form in JSON.
        let octets = serde_json::to_vec(&request).unwrap_or_default();
        if octets.len() > MESSAGE_MAX {
            return Err(purpose);
        }
        self.last_id += 1;
        self.outgoing.push_back((octets, fds));
        self.waiting.insert(self.last_id, purpose);
        Ok(())
    }

    /// Whether it has to be told when the socket takes more.
    pub(super) fn wants_to_send(&self) -> bool {
        !self.outgoing.is_empty() && !self.held
    }

    /// Whether it has something to send that is to be tried again in a while.
    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    /// Whether an answer is due that is `like` this.
    pub(super) fn awaits(&self, like: impl Fn(&P) -> bool) -> bool {
        self.waiting.values().any(like)
    }

    /// Whether one of those was sent already.
    pub(super) fn has_sent(&self, like: impl Fn(&P) -> bool) -> bool {
        let sent = self.last_id - self.outgoing.len() as u64;
        self.waiting
            .range(..=sent)
            .any(|(_, purpose)| like(purpose))
    }

    /// What nobody answers any more.
    pub(super) fn into_waiting(self) -> impl Iterator<Item = P> {
        self.waiting.into_values()
    }

    /// Sends what the socket takes.
    pub(super) fn flush(&mut self) -> Result<(), Gone> {
        self.held = false;
        while let Some((octets, fds)) = self.outgoing.front() {
            let plain = self.outgoing.iter().take_while(|(_, fds)| fds.is_empty());
            if plain.clone().nth(1).is_some() {
                let messages = plain.map(|(octets, _)| &**octets);
                match send_many(&self.socket, messages) {
                    Ok(sent) => drop(self.outgoing.drain(..sent)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                    Err(_) => return Err(Gone(None)),
                }
                continue;
            }
            let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
            match send(&self.socket, octets, &fds, false) {
                Ok(()) => drop(self.outgoing.pop_front()),
                Err(Errno::AGAIN) => return Ok(()),
                // Descriptors of this user that are on their way arrive in a while.
                Err(Errno::TOOMANYREFS) => {
                    self.held = true;
                    return Ok(());
                }
                Err(_) => return Err(Gone(None)),
            }
        }
        Ok(())
    }

    /// The next answer, if one has come.
    pub(super) fn next_answer(&mut self) -> Result<Option<(P, Answered, Vec<Closer>)>, Gone> {
        loop {
            let (len, fds) = match receive(&self.socket, &mut self.buffer, false) {
                Ok(Received::Message(len, fds)) => (len, given(fds)),
                Err(Errno::AGAIN) => return Ok(None),
                Ok(Received::TooLong(_) | Received::Closed(_)) | Err(_) => return Err(Gone(None)),
            };
            let reply: Reply =
                serde_json::from_slice(&self.buffer[..len]).map_err(|_| Gone(None))?;
            match (self.waiting.remove(&reply.id), reply.result) {
                (Some(purpose), result) => return Ok(Some((purpose, result, fds))),
                // An adapter that does not start says why under the number 0.
                (None, Err(error)) => return Err(Gone(Some(error))),
                (None, Ok(_)) => {}
            }
        }
    }
}

impl<P> AsFd for AdapterLink<P> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use cellgate_core::adapter::AttachmentIndex;

    use super::*;
    use crate::control::pair;

    #[test]
    fn what_no_message_holds_is_given_back_and_the_link_goes_on() {
        let (mine, theirs) = pair().unwrap();
        let mut link = AdapterLink::new(mine);
        let keep = |octets: usize| Ask::Keep {
            attachment: AttachmentIndex(0),
            record: Some("x".repeat(octets)),
        };
        assert_eq!(link.ask("long", keep(MESSAGE_MAX), Vec::new()), Err("long"));
        assert_eq!(link.ask("short", keep(100), Vec::new()), Ok(()));
        link.flush().unwrap();
        let received = receive(&theirs, &mut vec![0; MESSAGE_MAX], false).unwrap();
        assert!(matches!(received, Received::Message(100.., _)));
        assert_eq!(link.into_waiting().collect::<Vec<_>>(), ["short"]);
    }
}
