use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use crate::closer::{Closer, given};
use crate::control::{MESSAGE_MAX, Received, Reply, Request, receive, send};
use crate::sys::send_many;

/// The adapter has closed the connection, or says what makes no sense.
#[derive(Debug)]
pub(super) struct Gone;

/// A control connection to the adapter whose user never waits.
pub(super) struct AdapterLink {
    /// What lies unread in it is closed with it: sockets of applications, where it was to be taken
    /// up.
    socket: Closer,
    outgoing: VecDeque<(Vec<u8>, Vec<Arc<Closer>>)>,
    /// The kernel does not take the next one's descriptors for now.
    held: bool,
    buffer: Vec<u8>,
}

impl AdapterLink {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self {
            socket: socket.into(),
            outgoing: VecDeque::new(),
            held: false,
            buffer: vec![0; MESSAGE_MAX],
        }
    }

    /// Asks, as soon as the socket takes it; `false`: it is too long for a message.
    pub(super) fn ask(&mut self, request: &Request, fds: Vec<Arc<Closer>>) -> bool {
        // Numbers, names and texts: all of it has a form in JSON.
        let octets = serde_json::to_vec(request).unwrap_or_default();
        if octets.len() > MESSAGE_MAX {
            return false;
        }
        self.outgoing.push_back((octets, fds));
        true
    }

    /// Requests that the socket has not taken.
    pub(super) fn unsent(&self) -> u64 {
        self.outgoing.len() as u64
    }

    /// Whether it has to be told when the socket takes more.
    pub(super) fn wants_to_send(&self) -> bool {
        !self.outgoing.is_empty() && !self.held
    }

    /// Whether it has something to send that is to be tried again in a while.
    pub(super) fn is_held(&self) -> bool {
        self.held
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
                    Err(_) => return Err(Gone),
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
                Err(_) => return Err(Gone),
            }
        }
        Ok(())
    }

    /// The next reply, if one has come.
    pub(super) fn next_reply(&mut self) -> Result<Option<(Reply, Vec<Closer>)>, Gone> {
        let (len, fds) = match receive(&self.socket, &mut self.buffer, false) {
            Ok(Received::Message(len, fds)) => (len, given(fds)),
            Err(Errno::AGAIN) => return Ok(None),
            Ok(Received::TooLong(fds) | Received::Closed(fds)) => {
                drop(given(fds));
                return Err(Gone);
            }
            Err(_) => return Err(Gone),
        };
        let reply = serde_json::from_slice(&self.buffer[..len]).map_err(|_| Gone)?;
        Ok(Some((reply, fds)))
    }
}

impl AsFd for AdapterLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use cellgate_core::adapter::AttachmentIndex;

    use super::*;
    use crate::control::{Ask, pair};

    #[test]
    fn what_no_message_holds_is_not_sent_and_the_link_goes_on() {
        let (mine, theirs) = pair().unwrap();
        let mut link = AdapterLink::new(mine);
        let keep = |octets: usize| Request {
            id: 1,
            ask: Ask::Keep {
                attachment: AttachmentIndex(0),
                record: Some("x".repeat(octets)),
            },
        };
        assert!(!link.ask(&keep(MESSAGE_MAX), Vec::new()));
        assert!(link.ask(&keep(100), Vec::new()));
        link.flush().unwrap();
        let received = receive(&theirs, &mut vec![0; MESSAGE_MAX], false).unwrap();
        assert!(matches!(received, Received::Message(100.., _)));
        assert_eq!(link.unsent(), 0);
    }
}
