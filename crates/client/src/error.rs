use std::io;
use std::path::PathBuf;
use std::time::Duration;

use cellgate_core::server::{AddressError, EndReason, Refused};
use cellgate_shm::ShmError;
use rustix::io::Errno;

/// Why something did not happen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answers at the control socket.
    #[error("{} {}: {cause}. {}", met(cause), path.display(), way_out(cause))]
    NoServer {
        /// The socket that was tried.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// Somebody listens at the control socket, and lets nobody in or does not answer.
    #[error(
        "the cellgate server at {} does not answer: does it hang, or is it stopped?",
        path.display()
    )]
    Silent {
        /// Its socket.
        path: PathBuf,
    },
    /// The server said no. [`Refused::Admission`] says what was needed, what is free, and what
    /// would fit.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The text is no address.
    #[error("no address: {0}")]
    Address(#[from] AddressError),
    /// The connection has ended though nobody here closed it.
    #[error("the connection has ended: {}", reason(*.0))]
    Ended(EndReason),
    /// The server has hung up, and its adapter with it.
    #[error("the server has hung up")]
    Closed,
    /// It cannot be done at once.
    #[error("not at once: {0}")]
    WouldBlock(Wait),
    /// It could not be done in the time given.
    #[error("timed out")]
    TimedOut,
    /// The SDU is longer than the contract allows.
    #[error("an SDU of {len} octets, the contract allows {max}")]
    TooLong {
        /// Octets.
        len: usize,
        /// Octets.
        max: u16,
    },
    /// An SDU of AAL0 is a cell without its HEC: the header, whose address is the connection's, and
    /// the payload.
    #[error("an SDU of AAL0 is a cell of 52 octets, header and payload: {len} are none")]
    NotACell {
        /// Octets.
        len: usize,
    },
    /// An SDU of 0 octets cannot be sent: in AAL5 it is the sign of an aborted PDU.
    #[error("an SDU of 0 octets cannot be sent")]
    Empty,
    /// The contract commits to one size (`fixed`).
    #[error("an SDU of {len} octets, the contract commits to {size}")]
    NotFixed {
        /// Octets.
        len: usize,
        /// Octets.
        size: u16,
    },
    /// The contract has no transmit direction.
    #[error("the connection does not send")]
    DoesNotSend,
    /// The contract has no receive direction.
    #[error("the connection does not receive")]
    DoesNotReceive,
    /// A [`Space`](crate::Space) is borrowed: it is submitted or dropped before the next one.
    #[error("another space of this connection is still borrowed")]
    SpaceBorrowed,
    /// Received PDUs are held: they are dropped before another process may take the connection
    /// over, which could have their octets changed.
    #[error("PDUs of this connection are held: drop them first")]
    PdusHeld,
    /// The connection got new memory while the [`Space`](crate::Space) was borrowed; what was
    /// written into it is not sent.
    #[error("the connection got new memory: what was written is not sent")]
    SpaceLost,
    /// Another connection receives into the transmit buffer of this one
    /// ([`Builder::receive_into`](crate::Builder::receive_into)), which so sends nothing else.
    #[error("another connection receives into this one's transmit buffer: it forwards, no more")]
    Fed,
    /// The two are no chain: the first was not opened to receive into the second.
    #[error("no chain: open the first to receive into the second (Builder::receive_into)")]
    NoChain,
    /// PDUs of the stream were released before they were read.
    #[error("late: {missed} PDUs were released unread")]
    Late {
        /// PDUs.
        missed: u64,
    },
    /// The server's message is none, or none to what was asked.
    #[error("the server's message makes no sense: {0}")]
    BadMessage(String),
    /// The memory that came is not what it should be.
    #[error("the shared memory is refused: {0}")]
    Memory(#[from] ShmError),
    /// The kernel said no.
    #[error(transparent)]
    Kernel(#[from] io::Error),
}

/// What something waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The next PDU.
    Pdu,
    /// The next event.
    Event,
    /// Room in the transmit buffer.
    Room,
    /// The next credit interval, which begins so much later.
    Credit(Duration),
}

impl core::fmt::Display for Wait {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Pdu => f.write_str("no PDU has arrived"),
            Self::Event => f.write_str("the adapter has told nothing"),
            Self::Room => f.write_str("the transmit buffer is full"),
            Self::Credit(after) => write!(f, "the next credit comes in {after:?}"),
        }
    }
}

impl Error {
    /// Whether it would have had to wait.
    pub const fn is_would_block(&self) -> bool {
        matches!(self, Self::WouldBlock(_))
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Self::Kernel(errno.into())
    }
}

/// For callers that speak `io::Result`, as asynchronous runtimes do.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::NoServer { cause, .. } => cause.kind(),
            Error::WouldBlock(_) => io::ErrorKind::WouldBlock,
            Error::TimedOut | Error::Silent { .. } => io::ErrorKind::TimedOut,
            Error::Ended(_) | Error::Closed => io::ErrorKind::ConnectionAborted,
            Error::TooLong { .. }
            | Error::NotACell { .. }
            | Error::NotFixed { .. }
            | Error::Empty
            | Error::Address(_) => io::ErrorKind::InvalidInput,
            Error::DoesNotSend | Error::DoesNotReceive => io::ErrorKind::Unsupported,
            Error::Kernel(cause) => cause.kind(),
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

/// How a message about the control socket begins.
fn met(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::PermissionDenied => "no way in to the cellgate server at",
        _ => "no cellgate server at",
    }
}

/// The advice for a user without a server, or without a way in.
fn way_out(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::PermissionDenied => {
            "This user may not reach it: `socket_group` and `socket_mode` of the server's \
             configuration say who may"
        }
        _ => "Start one with `cellgate serve`, or name its socket in CELLGATE_SOCKET",
    }
}

fn reason(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Deleted => "it was deleted",
        EndReason::InterfaceRemoved => "its interface was removed",
        EndReason::TakenOver => "another socket took it over",
        EndReason::NotReopened => "it could not go on after a restart of the adapter or the server",
        EndReason::ShuttingDown => "the server ends",
        EndReason::PagesTaken => "pages of its memory were taken away, which stops the adapter",
        EndReason::BufferGone => "the connection in whose transmit buffer it received has ended",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_lets_nobody_in_is_no_missing_one() {
        let told = |errno: Errno| {
            let (path, cause) = (PathBuf::from("/run/c.sock"), errno.into());
            Error::NoServer { path, cause }.to_string()
        };
        assert!(told(Errno::NOENT).starts_with("no cellgate server at /run/c.sock: "));
        let wanted = "no way in to the cellgate server at /run/c.sock: ";
        assert!(told(Errno::ACCESS).starts_with(wanted));
    }
}
