use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use cellgate::{Connection, Interest, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::Error;
use crate::call::BLOCK_MAX;
use crate::cells::Cells;

/// The way of blocks between two hosts.
#[derive(Debug)]
pub(crate) enum Path {
    Cells(Box<Cells>),
    Pdus(Box<Connection>),
    /// A datagram of another host's is none of the path.
    Packets {
        socket: UdpSocket,
        to: SocketAddr,
    },
}

impl Path {
    /// Sends a block, and waits for credit and room.
    pub(crate) fn send(&mut self, block: &[u8]) -> Result<(), Error> {
        let len = block.len();
        if len > BLOCK_MAX {
            let max = BLOCK_MAX;
            return Err(Error::TooLong { len, max });
        }
        match self {
            Self::Cells(cells) => cells.send(block),
            Self::Pdus(connection) => Ok(connection.send(block)?),
            Self::Packets { socket, to } => match socket.send_to(block, *to) {
                Ok(_) => Ok(()),
                // Nobody is there any more, as the answer to a datagram before says.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
                Err(error) => Err(error.into()),
            },
        }
    }

    /// Takes a block, in the place of `block`; false: none is there.
    pub(crate) fn try_recv(&mut self, now: Time, block: &mut Vec<u8>) -> Result<bool, Error> {
        match self {
            Self::Cells(cells) => cells.try_recv(now, block),
            Self::Pdus(connection) => match connection.try_next_pdu() {
                Ok(pdu) => {
                    block.clear();
                    block.extend_from_slice(&pdu);
                    Ok(true)
                }
                Err(error) if error.is_would_block() => Ok(false),
                Err(error) => Err(error.into()),
            },
            Self::Packets { socket, to } => loop {
                block.resize(BLOCK_MAX, 0);
                match socket.recv_from(block) {
                    Ok((len, from)) if from == *to || to.port() == 0 => {
                        block.truncate(len);
                        return Ok(true);
                    }
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                    Err(error) => return Err(error.into()),
                }
            },
        }
    }

    /// Whether a block has begun and not ended.
    pub(crate) fn is_amid(&self) -> bool {
        match self {
            Self::Cells(cells) => cells.is_amid(),
            Self::Pdus(_) | Self::Packets { .. } => false,
        }
    }

    pub(crate) fn connection(&self) -> Option<&Connection> {
        match self {
            Self::Cells(cells) => Some(&cells.connection),
            Self::Pdus(connection) => Some(connection),
            Self::Packets { .. } => None,
        }
    }

    /// As [`Connection::arm`].
    pub(crate) fn arm(&self) -> Result<bool, Error> {
        match self.connection() {
            Some(connection) => Ok(connection.arm(Interest::RECEIVE)?),
            None => Ok(true),
        }
    }

    /// Sleeps until something may have come; false: it was there already.
    pub(crate) fn sleep(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        let armed = self.arm()?;
        if armed {
            readable(self.as_fd(), timeout)?;
        }
        Ok(armed)
    }
}

impl AsFd for Path {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Cells(cells) => cells.connection.as_fd(),
            Self::Pdus(connection) => connection.as_fd(),
            Self::Packets { socket, .. } => socket.as_fd(),
        }
    }
}

/// Sleeps until a descriptor is readable.
fn readable(fd: BorrowedFd<'_>, timeout: Option<Duration>) -> Result<(), Error> {
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
