//! The seam between the server and the threads and descriptors around it.

use serde::{Deserialize, Serialize};

use super::{Address, FromServer, InterfaceSpec, Opened, Record, Refused, Reopens};
use crate::adapter::{AttachmentIndex, PortIndex, Refusal, VcId};
use crate::keeper::{Answer, Ask, ControlError};

/// A control socket of an application, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientId(pub u32);

/// One of the server's adapters: its place among them, in the order of the configuration.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct AdapterIndex(pub u8);

impl AdapterIndex {
    /// The first, or the only one.
    pub const FIRST: Self = Self(0);

    /// Where it is among them.
    pub const fn place(self) -> usize {
        self.0 as usize
    }

    /// What this adapter calls so.
    pub const fn on<T: Copy>(self, id: T) -> On<T> {
        On { adapter: self, id }
    }
}

/// A port, an attachment or a VC, and the adapter that has it: each adapter numbers its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct On<T> {
    /// Whose it is.
    pub adapter: AdapterIndex,
    /// What the adapter calls it.
    pub id: T,
}

/// Repeated by the answer to what was asked under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Who is at the other end of a control socket, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    pub uid: u32,
    /// Its process when it connected; 0 if it is in another namespace.
    pub pid: u32,
}

/// What the server asks of an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdapterAsk {
    /// Of its keeper, and what that is to keep with a VC that is opened, changed or moved.
    Keeper(Ask, Option<Box<Record>>),
    /// Puts a link on a port. Answered by [`AdapterAnswer::Linked`].
    Link {
        port: PortIndex,
        spec: InterfaceSpec,
    },
    /// Takes the link off a port. Answered by [`Answer::Done`].
    Unlink { port: PortIndex },
}

impl From<Ask> for AdapterAsk {
    fn from(ask: Ask) -> Self {
        Self::Keeper(ask, None)
    }
}

/// What the adapter, and the host around it, answered.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time, off the data path"
)]
pub enum AdapterAnswer {
    /// The keeper.
    Keeper(Answer),
    /// To [`AdapterAsk::Link`].
    Linked {
        /// Whether the link is there; a memory link waits for its peer.
        up: bool,
    },
}

/// Why the adapter, or the host around it, did not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdapterRefusal {
    /// The firmware refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Memory is used up.
    #[error("{needed} octets are needed, {free} are free")]
    Memory {
        /// Octets.
        needed: u64,
        /// Octets.
        free: u64,
        /// The limit of the machine that leaves no more; none: the adapter's configuration does.
        limit: Option<String>,
    },
    /// The link cannot be had.
    #[error("{0}")]
    Link(String),
    /// No loopback cell came back.
    #[error("no loopback cell came back in time")]
    NoReturn,
    /// Anything else, for people.
    #[error("{0}")]
    Other(String),
    /// The adapter has gone.
    #[error("the adapter is being restarted")]
    Away,
}

impl From<ControlError> for AdapterRefusal {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::Refused(Refusal::NoReturn) => Self::NoReturn,
            ControlError::Refused(refusal) => Self::Refused(refusal),
            ControlError::MemoryExhausted { needed, free } => Self::Memory {
                needed,
                free,
                limit: None,
            },
            // Whoever hears it says who refused.
            ControlError::Kernel(reason) => Self::Other(reason),
            other => Self::Other(other.to_string()),
        }
    }
}

/// Descriptors that go along with a message, by what they are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enclosed {
    Nothing,
    /// The two files of a VC, then the two files of its attachment and what wakes either side.
    Connection {
        /// Whose they are.
        adapter: AdapterIndex,
        vc: VcId,
        attachment: AttachmentIndex,
    },
    /// The two files of a VC.
    Memory {
        /// Whose they are.
        adapter: AdapterIndex,
        vc: VcId,
    },
    /// The file of the counters.
    Counters,
}

const FROM_ADAPTER: &str = "the connection's file that the adapter writes";
pub(super) const FROM_CLIENT: &str = "the connection's file that the application writes";

pub(super) const MEMORY: &[&str] = &[FROM_ADAPTER, FROM_CLIENT];
pub(super) const CONNECTION: &[&str] = &[
    FROM_ADAPTER,
    FROM_CLIENT,
    "the attachment's file that the adapter writes",
    "the attachment's file that the application writes",
    "what becomes readable when the adapter wakes the application",
    "the adapter's page, which says whether it rests",
    "the eventfd by which the application wakes the adapter",
];
pub(super) const COUNTERS: &[&str] = &["the file of the counters"];

impl Enclosed {
    /// What an application needs of a connection.
    pub(super) const fn connection(adapter: AdapterIndex, opened: &Opened) -> Self {
        Self::Connection {
            adapter,
            vc: opened.vc,
            attachment: opened.attachment,
        }
    }

    /// What each of the descriptors is, in the order in which they travel.
    pub const fn descriptors(self) -> &'static [&'static str] {
        match self {
            Self::Nothing => &[],
            Self::Connection { .. } => CONNECTION,
            Self::Memory { .. } => MEMORY,
            Self::Counters => COUNTERS,
        }
    }
}

/// What the server wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// By an adapter.
    Adapter {
        adapter: AdapterIndex,
        /// For the answer.
        ticket: Ticket,
        ask: AdapterAsk,
    },
    /// A message to an application.
    Client {
        client: ClientId,
        message: FromServer,
        /// Along with it.
        enclosed: Enclosed,
    },
    /// The socket is to be kept with the adapter, under the attachment of its connections, for a
    /// server that takes them up; of a worker, what it carries.
    Keep {
        client: ClientId,
        attachment: On<AttachmentIndex>,
        /// Its connections that were open on an adapter before, and are to be again
        /// ([`TakenUp::reopens`](super::TakenUp::reopens)).
        reopens: Reopens,
    },
    /// The socket is to be closed after what was sent to it.
    HangUp { client: ClientId },
    /// Adapters have died of a connection: it is not opened again. People are to hear of it.
    LeftOut {
        /// Where it was, with its interface's name.
        address: Address,
        /// The user it belonged to.
        uid: u32,
        /// How many adapters died in a row.
        deaths: u32,
    },
    /// A user has lost connections, whose pages its programs took away again and again, and opens
    /// none for a while. People are to hear of it.
    PagesTaken {
        uid: u32,
        /// How many connections.
        connections: u32,
        /// For how long.
        barred_ns: u64,
    },
    /// A permanent connection is gone that nobody deleted: it could not be opened again. The server
    /// does not ask for it once more; whoever had it added may.
    Lost {
        /// Where it was, with its interface's name.
        address: Address,
        /// The user it belonged to.
        uid: u32,
        refused: Refused,
    },
}
