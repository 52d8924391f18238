//! What the keeper knows: connections, attachments, VCs, ports, and what is under way.

use super::{ConnectionId, Handle, Making, ReceiveInto};
use crate::adapter::{AttachmentIndex, PortConfig, PortIndex, VcId, VcIndex};
use crate::queue::{AttachmentSizes, ConnectionSizes, PortSizes};

/// Whose request, and which of its.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asker {
    pub(super) connection: ConnectionId,
    pub(super) id: u64,
}

/// A control connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) greeted: bool,
    /// Whether it may do what concerns everybody: configure ports, end the adapter.
    pub(super) governs: bool,
    /// Its process; 0: it is in another PID namespace.
    pub(super) pid: u32,
    /// Its other end is closed; what was asked before is still done.
    pub(super) ending: bool,
    /// Requests that wait for a [`Done`](super::Done).
    pub(super) in_flight: usize,
}

/// The memory of a VC.
#[derive(Clone, Debug)]
pub(super) struct VcMemory {
    pub(super) files: Handle,
    pub(super) sizes: ConnectionSizes,
    /// That the files' headers carry.
    pub(super) files_generation: u32,
    pub(super) receive_into: ReceiveInto,
    /// All memory that it needs: its own, and that of the connection into whose transmit buffer it
    /// receives.
    pub(super) needs: Vec<Handle>,
}

/// Memory that a VC, or several, need.
#[derive(Debug)]
pub(super) struct Region {
    /// What it takes of the budget.
    pub(super) octets: u64,
    pub(super) users: usize,
}

/// A VC at the adapter.
#[derive(Debug)]
pub(super) struct VcRecord {
    pub(super) vc: VcId,
    /// None: its client is gone and it was to be kept.
    pub(super) owner: Option<ConnectionId>,
    pub(super) attachment: AttachmentIndex,
    /// Its client is gone and nobody is to have it: it will be closed.
    pub(super) doomed: bool,
    pub(super) memory: VcMemory,
    /// Its owner's own words, for whoever takes it up.
    pub(super) record: Option<String>,
}

/// A client at the adapter.
#[derive(Debug)]
pub(super) struct AttachmentRecord {
    pub(super) owner: Option<ConnectionId>,
    pub(super) files: Handle,
    pub(super) sizes: AttachmentSizes,
    /// That its files' headers carry.
    pub(super) files_generation: u32,
    /// What it takes of the budget.
    pub(super) octets: u64,
    /// Its VCs outlive its owner's connection.
    pub(super) kept: Option<Kept>,
    /// Its removal is on its way. A second one could hit whoever gets the slot next.
    pub(super) leaving: bool,
}

/// What an attachment is taken up with, beside its memory.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Its owner's end of a socket, or whatever else it wants kept.
    pub(super) descriptors: Vec<Handle>,
    /// Its owner's own words about them.
    pub(super) record: Option<String>,
}

/// A port: who has its ends, and what its owner wants known of it.
#[derive(Debug, Default)]
pub(super) struct PortRecord {
    pub(super) receive: Option<ConnectionId>,
    pub(super) transmit: Option<ConnectionId>,
    pub(super) record: Option<String>,
}

/// Work that is under way, and what its end needs.
#[derive(Debug)]
pub(super) enum Pending {
    Connect {
        asker: Asker,
        files: Handle,
    },
    Attach {
        asker: Asker,
        keep: bool,
        sizes: AttachmentSizes,
        making: Making,
        octets: u64,
    },
    Detach {
        asker: Option<Asker>,
        index: AttachmentIndex,
    },
    Open {
        asker: Asker,
        attachment: AttachmentIndex,
        memory: VcMemory,
        record: Option<String>,
    },
    Modify {
        asker: Asker,
        index: VcIndex,
        memory: Option<VcMemory>,
        record: Option<String>,
    },
    Close {
        asker: Option<Asker>,
        vc: VcId,
    },
    Reattach {
        asker: Asker,
        index: VcIndex,
        attachment: AttachmentIndex,
        record: Option<String>,
    },
    /// Its end changes nothing here.
    Plain {
        asker: Asker,
    },
    /// The same, but it may take seconds.
    Loopback {
        asker: Asker,
    },
    Configure {
        asker: Asker,
        port: PortIndex,
        config: PortConfig,
    },
    /// A port gets a new end.
    Port {
        asker: Asker,
        port: PortIndex,
        transmit: bool,
        /// For an end that the asker gets.
        reply: Option<(Making, PortSizes)>,
    },
    /// A port gets a link of the adapter's own for both its ends.
    BothEnds {
        asker: Asker,
        port: PortIndex,
        /// Who had the receive end and the transmit end until now.
        before: [Option<ConnectionId>; 2],
    },
    /// A port gets rid of both its ends.
    Unlink {
        asker: Asker,
        port: PortIndex,
    },
}

impl Pending {
    /// Whose it is; none: the keeper's own.
    pub(super) fn asker(&self) -> Option<Asker> {
        match self {
            Self::Connect { asker, .. }
            | Self::Attach { asker, .. }
            | Self::Open { asker, .. }
            | Self::Modify { asker, .. }
            | Self::Reattach { asker, .. }
            | Self::Plain { asker }
            | Self::Loopback { asker }
            | Self::Configure { asker, .. }
            | Self::BothEnds { asker, .. }
            | Self::Unlink { asker, .. }
            | Self::Port { asker, .. } => Some(*asker),
            Self::Detach { asker, .. } | Self::Close { asker, .. } => *asker,
        }
    }
}

/// What the keeper has to do of its own accord.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chore {
    Close(VcIndex),
    Detach(AttachmentIndex),
}
