//! MPLS in the frames that people capture: whatever stands before the label stack.
//!
//! ```text
//! Ethernet, cooked, null, C-HDLC --> VLAN tags --> EtherType --+--> MPLS
//! PPP, PPPoE session ------------> protocol of PPP ------------+--> PPPoE --> ...
//! raw IP ------------------------------------------------------+--> IPv4, IPv6 with extensions
//!                                        IP --> UDP | GRE | protocol 137 --> MPLS
//!                                        IP --> IP
//! ```
//!
//! Checksums are not looked at: an adapter has. Fragments are not put together.

mod ip;
mod link;

use core::net::{Ipv4Addr, Ipv6Addr};

use super::{LabelEntry, LabelStack, MPLS_UDP_PORT};

pub(super) const ETHERNET_LEN: usize = 14;
pub(super) const IPV4_LEN: usize = 20;
pub(super) const IPV6_LEN: usize = 40;
pub(super) const UDP_LEN: usize = 8;
pub(super) const TYPE_IPV4: u16 = 0x0800;
pub(super) const TYPE_IPV6: u16 = 0x86dd;
pub(super) const PROTOCOL_UDP: u8 = 17;
/// Headers that are opened one inside the other: more are not in use.
const DEPTH_MAX: usize = 32;

/// How a frame begins: the link type of its capture says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Framing {
    /// Ethernet II or 802.3.
    #[default]
    Ethernet,
    /// Linux cooked, version 1: 16 octets, the EtherType last.
    Cooked,
    /// Linux cooked, version 2: 20 octets, the EtherType first.
    Cooked2,
    /// IPv4 or IPv6 without anything before it.
    Ip,
    /// BSD loopback: an address family in the byte order of some host.
    Loopback,
    /// PPP, with or without its address and control octets.
    Ppp,
    /// PPPoE from its version on.
    PppOe,
    /// Cisco HDLC: two octets and an EtherType.
    CiscoHdlc,
    /// A label stack at once.
    Mpls,
}

/// What carries the label stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// The link itself.
    Link,
    /// UDP (RFC 7510).
    Udp {
        /// The sender's port.
        source_port: u16,
        destination_port: u16,
    },
    /// GRE (RFC 4023).
    Gre,
    /// IP protocol 137 (RFC 4023).
    Ip,
}

impl Carrier {
    /// As people write it: `mpls`, `mpls/udp`, `mpls/gre`, `mpls/ip`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Link => "mpls",
            Self::Udp { .. } => "mpls/udp",
            Self::Gre => "mpls/gre",
            Self::Ip => "mpls/ip",
        }
    }
}

/// Who sent a frame, as far as it says: both ends of a pseudowire may have chosen one label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sender {
    /// It does not say.
    #[default]
    Unknown,
    /// A hardware address.
    Hardware([u8; 6]),
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 address.
    V6(Ipv6Addr),
}

/// Why a frame holds no pseudowire packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MplsFrameError {
    /// Fewer octets than the headers say.
    #[error("the frame ends inside its {0} header")]
    TooShort(&'static str),
    /// Another protocol over Ethernet.
    #[error("EtherType 0x{0:04x} is neither MPLS nor IP")]
    EtherType(u16),
    /// A frame of 802.3 without SNAP.
    #[error("an 802.3 frame that carries no SNAP")]
    NoEtherType,
    /// Another protocol over PPP.
    #[error("PPP protocol 0x{0:04x} is neither MPLS nor IP")]
    PppProtocol(u16),
    /// Another address family on a loopback.
    #[error("address family {0} is neither IPv4 nor IPv6")]
    Family(u32),
    /// UDP between ports that carry no MPLS as far as anybody has said.
    #[error(
        "UDP from port {source_port} to {destination_port}, neither of which is {MPLS_UDP_PORT}"
    )]
    Port {
        /// The sender's port.
        source_port: u16,
        destination_port: u16,
    },
    /// Another protocol over IP.
    #[error("IP protocol {0} carries no MPLS")]
    IpProtocol(u8),
    /// A protocol that may hold a pseudowire and is not read.
    #[error("{0}, not read")]
    NotRead(&'static str),
    /// A fragment of an IP packet.
    #[error("a fragment of an IP packet, from octet {offset} on")]
    Fragment {
        /// Octets of the packet before it.
        offset: u16,
    },
    /// A length that contradicts the headers.
    #[error("the {0} length contradicts the frame")]
    Length(&'static str),
    /// A label stack without a last entry.
    #[error("the label stack has no last entry")]
    Stack,
    /// Headers without end.
    #[error("more than {DEPTH_MAX} headers one inside the other")]
    TooDeep,
}

/// A pseudowire packet in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MplsFrame<'a> {
    /// Where Linux saw it, by the number in a cooked frame of version 2, else 0: a frame may be
    /// there twice, on an interface and on the one above it.
    pub interface: u32,
    /// Who sent it.
    pub sender: Sender,
    /// What carries the label stack.
    pub carrier: Carrier,
    /// The entry of the label stack that names the pseudowire.
    pub entry: LabelEntry,
    /// A packet of a control channel (RFC 5085), for the label stack says so.
    pub is_channel: bool,
    /// The frame ends in a check sequence of Ethernet, which is no part of the packet.
    pub has_fcs: bool,
    /// The pseudowire packet, as far as it was kept.
    pub payload: &'a [u8],
    /// Octets of the packet that were not kept.
    pub missing: usize,
}

/// What is to be opened next.
#[derive(Clone, Copy)]
enum Layer {
    Ethernet,
    EtherType(u16),
    Snap,
    Ip,
    Ipv4,
    Ipv6,
    /// What an IP packet carries, by its number.
    Protocol(u8),
    Udp,
    Gre,
    Ppp,
    PppOe,
    Mpls(Carrier),
}

/// What is left of a frame, of which the last `missing` octets were not kept.
#[derive(Clone, Copy)]
struct Rest<'a> {
    octets: &'a [u8],
    missing: usize,
}

impl<'a> Rest<'a> {
    /// The next `N` octets, which are of the header `name`.
    fn take<const N: usize>(&mut self, name: &'static str) -> Result<&'a [u8; N], MplsFrameError> {
        let (front, rest) = self
            .octets
            .split_first_chunk()
            .ok_or(MplsFrameError::TooShort(name))?;
        self.octets = rest;
        Ok(front)
    }

    fn skip(&mut self, len: usize, name: &'static str) -> Result<(), MplsFrameError> {
        self.octets = self
            .octets
            .get(len..)
            .ok_or(MplsFrameError::TooShort(name))?;
        Ok(())
    }

    /// Leaves out what is behind the first `len` octets, which the header `name` has told.
    fn cut(&mut self, len: usize, name: &'static str) -> Result<(), MplsFrameError> {
        match self.octets.get(..len) {
            Some(octets) => *self = Rest { octets, missing: 0 },
            None if len <= self.octets.len() + self.missing => {
                self.missing = len - self.octets.len();
            }
            None => return Err(MplsFrameError::Length(name)),
        }
        Ok(())
    }
}

struct Search<'a, 'p> {
    rest: Rest<'a>,
    ports: &'p [u16],
    interface: u32,
    sender: Sender,
    has_fcs: bool,
}

impl<'a> MplsFrame<'a> {
    /// The pseudowire packet in a frame that was kept whole, in UDP by [`MPLS_UDP_PORT`] alone.
    pub fn parse(framing: Framing, frame: &'a [u8]) -> Result<Self, MplsFrameError> {
        Self::find(framing, frame, 0, &[])
    }

    /// The pseudowire packet in a frame of which the last `missing` octets were not kept. MPLS in
    /// UDP is what goes to or comes from [`MPLS_UDP_PORT`] or one of `ports`.
    pub fn find(
        framing: Framing,
        octets: &'a [u8],
        missing: usize,
        ports: &[u16],
    ) -> Result<Self, MplsFrameError> {
        let mut search = Search {
            rest: Rest { octets, missing },
            ports,
            interface: 0,
            sender: Sender::Unknown,
            has_fcs: false,
        };
        let mut layer = search.first(framing)?;
        for _ in 0..DEPTH_MAX {
            if let Layer::Mpls(carrier) = layer {
                return search.packet(carrier);
            }
            layer = search.open(layer)?;
        }
        Err(MplsFrameError::TooDeep)
    }

    /// Octets of the packet, kept or not.
    pub const fn packet_len(&self) -> usize {
        self.payload.len() + self.missing
    }
}

impl<'a> Search<'a, '_> {
    fn open(&mut self, layer: Layer) -> Result<Layer, MplsFrameError> {
        match layer {
            Layer::Ethernet => self.ethernet(),
            Layer::EtherType(kind) => self.ether_type(kind),
            Layer::Snap => self.snap(),
            Layer::Ip => self.ip(),
            Layer::Ipv4 => self.ipv4(),
            Layer::Ipv6 => self.ipv6(),
            Layer::Protocol(protocol) => self.protocol(protocol),
            Layer::Udp => self.udp(),
            Layer::Gre => self.gre(),
            Layer::Ppp => self.ppp(),
            Layer::PppOe => self.pppoe(),
            Layer::Mpls(_) => Ok(layer),
        }
    }

    fn packet(self, carrier: Carrier) -> Result<MplsFrame<'a>, MplsFrameError> {
        let Rest { octets, missing } = self.rest;
        let stack = LabelStack::parse(octets).ok_or(MplsFrameError::Stack)?;
        Ok(MplsFrame {
            interface: self.interface,
            sender: self.sender,
            carrier,
            entry: stack.entry,
            is_channel: stack.is_channel,
            has_fcs: self.has_fcs,
            payload: stack.payload,
            missing,
        })
    }
}
