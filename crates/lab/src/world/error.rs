//! Why a scenario makes no world.

use std::fmt;

use cellgate_core::adapter::{Refusal, Unserved};
use cellgate_core::contract::ContractError;

/// What is wrong with a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScenarioError {
    /// Two nodes or two connections have one name.
    TwoOfAName(String),
    /// Nothing has this name.
    Unknown(String),
    /// There is no path between the ends of a connection.
    NoPath(String),
    /// Two connections have one address on one line.
    AddressInUse(String),
    /// More than one source sends PDUs on a connection.
    TwoSources(String),
    /// A source that sends SDUs has none.
    NoSdus(String),
    /// A source with an SDU that is too short to say whose it is or too long for the contract.
    Sdu(String),
    /// A source that is there to do no harm is too fast: cells per second, what has fewer, how
    /// many.
    Exceeds(String, u64, &'static str, u64),
    /// A recorded cell without 52 octets, or cells out of order.
    Recording(String),
    /// A contract cannot be read.
    Contract(String, ContractError),
    /// A contract cannot be served.
    Unserved(String, Unserved),
    /// A connection cannot be changed to a contract: it has another AAL, or needs new memory.
    Change(String),
    /// A change to SDUs that the memory of a connection may be too small for.
    Memory(String),
    /// An adapter cannot be made, or refuses a connection.
    Refused(String, Refusal),
    /// A host with applications has no server.
    NoServer(String),
    /// An application is at neither end of its connection.
    NoEnd(String),
    /// A fault of an end that belongs to an application of a server.
    Served(String),
    /// More of a kind than there may be: what, how many, the most.
    TooMany(&'static str, usize, usize),
    /// A quantity is zero or too large.
    Quantity(String, &'static str),
}

impl ScenarioError {
    /// The name in the scenario that it is about, if it is about one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::TwoOfAName(name)
            | Self::Unknown(name)
            | Self::NoPath(name)
            | Self::AddressInUse(name)
            | Self::TwoSources(name)
            | Self::NoSdus(name)
            | Self::Sdu(name)
            | Self::Exceeds(name, ..)
            | Self::Recording(name)
            | Self::Contract(name, _)
            | Self::Unserved(name, _)
            | Self::Change(name)
            | Self::Memory(name)
            | Self::Refused(name, _)
            | Self::NoServer(name)
            | Self::NoEnd(name)
            | Self::Served(name)
            | Self::Quantity(name, _) => Some(name),
            Self::TooMany(..) => None,
        }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoOfAName(name) => write!(f, "two of the name {name:?}"),
            Self::Unknown(name) => write!(f, "nothing has the name {name:?}"),
            Self::NoPath(name) => write!(f, "connection {name:?}: no path between its hosts"),
            Self::AddressInUse(name) => {
                write!(f, "connection {name:?}: its address is taken on a line")
            }
            Self::TwoSources(name) => write!(f, "connection {name:?}: two sources send PDUs on it"),
            Self::NoSdus(name) => write!(
                f,
                "a source of connection {name:?}: `sdus` has no entry; only scans and recorded \
                 cells go without"
            ),
            Self::Sdu(name) => write!(
                f,
                "a source of connection {name:?}: SDUs have 12 octets at least, and at most the \
                 contract's max_sdu; on aal0 48"
            ),
            Self::Exceeds(name, cell_s, what, most) => write!(
                f,
                "a source of connection {name:?}: of its {cell_s} cells/s {what} {most}; it needs \
                 `hazard = true`, or `by_adapter = true`"
            ),
            Self::Recording(name) => write!(
                f,
                "a source of connection {name:?}: cells of 52 octets in the order of time are due"
            ),
            Self::Contract(name, error) => write!(f, "connection {name:?}: {error}"),
            Self::Unserved(name, error) => write!(f, "connection {name:?}: {error}"),
            Self::Change(name) => write!(
                f,
                "connection {name:?}: a change keeps the AAL, and on aal34 brings new memory"
            ),
            Self::Memory(name) => write!(
                f,
                "connection {name:?}: a change to SDUs that its memory was not made for needs \
                 `memory = true`"
            ),
            Self::Refused(name, refusal) => write!(f, "host {name:?}: {refusal}"),
            Self::NoServer(name) => write!(f, "host {name:?} has applications and no server"),
            Self::NoEnd(name) => {
                write!(
                    f,
                    "application {name:?}: its host is at no end of its connection"
                )
            }
            Self::Served(name) => write!(
                f,
                "connection {name:?}: this end belongs to an application of a server, which has \
                 calls of its own"
            ),
            Self::TooMany(what, count, most) => write!(f, "{count} {what}: at most {most}"),
            Self::Quantity(name, what) => write!(f, "{name:?}: {what}"),
        }
    }
}

impl std::error::Error for ScenarioError {}
