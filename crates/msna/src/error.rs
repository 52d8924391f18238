use std::io;

use cellgate_core::upper::msna::rex::CallError;
use cellgate_core::upper::msna::{Address, Refusal};
use rustix::io::Errno;

/// Reasons for which something did not happen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The daemon, its admission, or a connection says no.
    #[error(transparent)]
    Atm(#[from] cellgate::Error),
    /// Nobody has answered.
    #[error("{0}: nobody answers: is a node running there, at the other end of this interface?")]
    Silent(Address),
    /// The other host says no.
    #[error("{to} refuses: {}{}", why(*.reason), offered(.offer))]
    Refused {
        /// The address that was called.
        to: Address,
        /// Its reason.
        reason: Refusal,
        /// A contract that it would admit; empty: none.
        offer: String,
    },
    /// The block does not fit into one.
    #[error("a block of {len} octets: an association carries at most {max}")]
    TooLong {
        /// Octets.
        len: usize,
        /// Octets.
        max: usize,
    },
    /// All circuits are in use, or were a moment ago.
    #[error("all {0} circuits of this node are in use, or were within the last second")]
    NoCircuit(u16),
    /// Too much is under way, or the call is too long.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The contract is none.
    #[error("no contract: {0}")]
    Contract(String),
    /// The kernel said no.
    #[error(transparent)]
    Kernel(#[from] io::Error),
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Self::Kernel(errno.into())
    }
}

const fn why(reason: Refusal) -> &'static str {
    match reason {
        Refusal::NoSap => "nobody serves there",
        Refusal::NotAdmitted => "so much is not to be had",
        Refusal::Busy => "it is busy",
        Refusal::BadContract => "the contract makes no sense there",
    }
}

fn offered(offer: &str) -> String {
    match offer {
        "" => String::new(),
        offer => format!("; this would fit: {offer}"),
    }
}
