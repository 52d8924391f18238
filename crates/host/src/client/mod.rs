//! The client's side: control connections, events, PDUs.

mod control;
mod vc;

pub use cellgate_shm::{Attached, ClientCounters};
pub use control::Control;
pub use vc::{OpenVc, memory_for, memory_for_aal34};

use cellgate_shm::ShmError;

use crate::control::ControlError;

/// Why something asked of an adapter did not happen.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The adapter's process said no.
    #[error(transparent)]
    Refused(#[from] ControlError),
    /// The kernel said no.
    #[error(transparent)]
    Kernel(#[from] std::io::Error),
    /// The memory that came is not what it should be.
    #[error(transparent)]
    Memory(#[from] ShmError),
    /// The control connection is closed.
    #[error("the adapter has closed the control connection")]
    Closed,
    /// The reply was none, or none to what was asked.
    #[error("the adapter's reply makes no sense: {0}")]
    BadReply(String),
}

impl From<rustix::io::Errno> for ClientError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Kernel(errno.into())
    }
}

impl From<serde_json::Error> for ClientError {
    fn from(error: serde_json::Error) -> Self {
        Self::BadReply(error.to_string())
    }
}
