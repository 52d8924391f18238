use core::net::SocketAddr;
use core::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use crate::adapter::PortIndex;
use crate::contract::CellRate;
use crate::wire::{CellPseudowire, VpiVci};

/// An interface to add: a link on a port of the adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceSpec {
    /// Its name ([`super::Address::is_interface_name`]).
    pub name: String,
    /// What carries its cells.
    pub link: Link,
    /// Cells/s that it can send and receive; none: 353,207, an OC-3c.
    #[serde(default)]
    pub line_rate: Option<CellRate>,
}

/// What carries the cells of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Link {
    /// Memory of this machine, to another interface of this server: what one sends, the other
    /// receives. With its own name: what it sends, it receives.
    Memory {
        /// The other's name. The one that is added first waits for it.
        peer: String,
    },
    /// A pseudowire over UDP (RFC 4717 in RFC 7510).
    Udp {
        /// Where its datagrams arrive.
        local: SocketAddr,
        /// Where its datagrams go.
        peer: SocketAddr,
        /// The source port of what is sent; 0: whichever is free.
        #[serde(default)]
        source_port: u16,
        /// The source port of what arrives; none: any.
        #[serde(default)]
        peer_source_port: Option<u16>,
        /// The label of what is sent.
        label_out: u32,
        /// The label of what arrives.
        label_in: u32,
        /// How it packs cells, and whose they are where it does not send that.
        #[serde(default)]
        mode: CellPseudowire,
        /// The longest IP packet in octets.
        mtu: u16,
        /// Cells of a datagram at most; none: as many as fit the packet.
        #[serde(default)]
        pack: Option<NonZeroU16>,
        /// How long a datagram that is not full waits for more cells, in nanoseconds: at most 10^9.
        #[serde(default)]
        timer_ns: u64,
    },
}

impl Link {
    /// What it carries if it cannot carry cells of this VC.
    pub fn bars(&self, vc: VpiVci) -> Option<CellPseudowire> {
        match self {
            Self::Memory { .. } => None,
            Self::Udp { mode, .. } => (!mode.carries(vc)).then_some(*mode),
        }
    }
}

/// An interface as the list shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceInfo {
    /// As it was added.
    pub spec: InterfaceSpec,
    /// The adapter's port.
    pub port: PortIndex,
    /// Whether its link is there: the peer of a memory link is added, a pseudowire has its sockets.
    pub up: bool,
    /// Connections on it.
    pub connections: u32,
    /// Cells that its queue to the adapter had no room for.
    pub dropped_cells: u64,
}
