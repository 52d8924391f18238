//! What the senders' cells travel over: shared memory, or pseudowires over UDP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use cellgate_core::adapter::PortIndex;
use cellgate_core::wire::{CellPseudowire, MPLS_UDP_PORT};
use cellgate_host::client::Control;
use cellgate_host::link::CellSender;
use cellgate_host::link::udp::{UdpLink, UdpSender};
use cellgate_host::sys::enter_network_namespace;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The longest IP packet of a pseudowire: that of any Ethernet.
const MTU: u16 = 1_500;
/// Labels of what the adapter receives, and of what it sends: one for each port from here on.
const LABELS: [u32; 2] = [1_000, 2_000];

/// The kind of link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Link {
    /// Memory shared by each sender and the adapter
    Memory,
    /// A pseudowire from each sender to the adapter (RFC 4717 in RFC 7510)
    Udp,
}

/// Where the ends of the pseudowires are.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    /// The adapter.
    pub(crate) adapter: IpAddr,
    /// The senders.
    pub(crate) senders: IpAddr,
    /// The network namespace of the senders; none: this process's.
    pub(crate) netns: Option<String>,
}

/// A sender's end of its pseudowire.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Wire {
    options: UdpLink,
    netns: Option<String>,
}

impl Network {
    /// Both ends on this machine, unless something else is said.
    pub(crate) fn new(
        adapter: Option<IpAddr>,
        senders: Option<IpAddr>,
        netns: Option<String>,
    ) -> Self {
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Self {
            adapter: adapter.unwrap_or(here),
            senders: senders.unwrap_or(here),
            netns,
        }
    }

    fn end(address: IpAddr) -> SocketAddr {
        SocketAddr::new(address, MPLS_UDP_PORT)
    }

    /// The adapter's end of a port's pseudowire, whose sender sends from `peer_source_port`.
    pub(crate) fn to_adapter(&self, port: PortIndex, peer_source_port: Option<u16>) -> UdpLink {
        UdpLink {
            local: Self::end(self.adapter),
            peer: Self::end(self.senders),
            source_port: 0,
            peer_source_port,
            label_out: LABELS[1] + u32::from(port.0),
            label_in: LABELS[0] + u32::from(port.0),
            mode: CellPseudowire::default(),
            mtu: MTU,
            pack: None,
            timer_ns: 0,
        }
    }

    /// The sender's end; it sends from whichever port is free.
    pub(crate) fn to_sender(&self, port: PortIndex) -> Wire {
        let far = self.to_adapter(port, None);
        Wire {
            options: UdpLink {
                local: far.peer,
                peer: far.local,
                label_out: far.label_in,
                label_in: far.label_out,
                ..far
            },
            netns: self.netns.clone(),
        }
    }

    /// Cells that a sender may bring at once.
    pub(crate) fn clump_cells(&self) -> u16 {
        self.to_adapter(PortIndex(0), None).cells_per_datagram() as u16
    }
}

/// A sender's end of its port.
pub(crate) enum SendPort {
    Memory(CellSender),
    Udp(Box<UdpSender>),
}

impl SendPort {
    /// Takes the port: over `wire`, or in memory.
    pub(crate) fn take(
        control: &mut Control,
        port: PortIndex,
        wire: Option<&Wire>,
    ) -> anyhow::Result<Self> {
        let Some(wire) = wire else {
            return Ok(Self::Memory(control.cell_sender(port)?));
        };
        if let Some(name) = &wire.netns {
            enter_network_namespace(name)?;
        }
        Ok(Self::Udp(Box::new(UdpSender::open(&wire.options)?)))
    }

    /// From where it sends, over a pseudowire.
    pub(crate) fn source_port(&self) -> anyhow::Result<Option<u16>> {
        Ok(match self {
            Self::Memory(_) => None,
            Self::Udp(sender) => Some(sender.local_address()?.port()),
        })
    }

    /// Cells that it takes now, if fewer than `wanted`; else at least `wanted`.
    #[inline(always)]
    pub(crate) fn free_for(&mut self, wanted: usize) -> usize {
        match self {
            Self::Memory(sender) => sender.free_for(wanted),
            Self::Udp(sender) => sender.free(),
        }
    }

    /// Sends contiguous whole cells; how many it took.
    #[inline(always)]
    pub(crate) fn send(&mut self, cells: &[u8]) -> usize {
        match self {
            Self::Memory(sender) => sender.send(cells),
            Self::Udp(sender) => {
                let before = sender.report().sent_cells;
                sender.send(cells);
                while !sender.flush() {
                    std::thread::yield_now();
                }
                (sender.report().sent_cells - before) as usize
            }
        }
    }
}
