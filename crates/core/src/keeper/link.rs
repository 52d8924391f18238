//! What carries the cells of a port.

use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU16;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::wire::{CellPseudowire, IpVersion, Label, VpiVci};

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
    Udp(UdpLink),
}

/// The longest IP packet of Ethernet in octets.
const fn default_mtu() -> u16 {
    Link::MTU
}

fn read_end<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    Link::end(&String::deserialize(from)?).map_err(D::Error::custom)
}

impl Link {
    /// Octets of a pseudowire's longest IP packet where nothing else is said.
    pub const MTU: u16 = 1500;
    /// The UDP port of MPLS in UDP (RFC 7510), where an address names none.
    const MPLS_IN_UDP: u16 = 6635;

    /// The end of a pseudowire that a text names: an IP address, with or without port.
    ///
    /// # Errors
    /// It names none; the error says so.
    pub fn end(text: &str) -> Result<SocketAddr, String> {
        let bare = text.parse::<IpAddr>();
        let bare = bare.map(|ip| (ip, Self::MPLS_IN_UDP).into());
        bare.or_else(|_| text.parse())
            .map_err(|_| format!("`{text}` is no IP address, with or without port"))
    }

    /// What it carries if it cannot carry cells of this VC.
    pub fn bars(&self, vc: VpiVci) -> Option<CellPseudowire> {
        match self {
            Self::Memory { .. } => None,
            Self::Udp(udp) => (!udp.mode.carries(vc)).then_some(udp.mode),
        }
    }
}

impl Link {
    /// What no machine can have of it, if anything: a port 0, where nothing arrives, or a peer that
    /// is not one host.
    pub fn mistake(&self) -> Option<String> {
        let Self::Udp(UdpLink { local, peer, .. }) = self else {
            return None;
        };
        for (name, address) in [("local", local), ("peer", peer)] {
            if address.port() == 0 {
                return Some(format!("{name} {address}: a port of 1 to 65535 is needed"));
            }
            let is_broadcast = address.ip() == core::net::Ipv4Addr::BROADCAST;
            if address.ip().is_multicast() || is_broadcast {
                return Some(format!(
                    "{name} {address}: a pseudowire has one host at each end"
                ));
            }
        }
        let nobody = peer.ip().is_unspecified();
        nobody.then(|| format!("peer {peer}: that is no host's address"))
    }

    /// Whether no machine can have both: their datagrams arrive at one address, and nothing tells
    /// whose they are.
    pub fn collides(&self, other: &Self) -> bool {
        let (
            Self::Udp(UdpLink {
                local,
                peer,
                peer_source_port,
                ..
            }),
            Self::Udp(UdpLink {
                local: there,
                peer: of,
                peer_source_port: from,
                ..
            }),
        ) = (self, other)
        else {
            return false;
        };
        let any = |address: &SocketAddr| address.ip().is_unspecified();
        let meets = local.port() == there.port()
            && local.is_ipv4() == there.is_ipv4()
            && (local.ip() == there.ip() || any(local) || any(there));
        let apart = match (peer_source_port, from) {
            (Some(one), Some(two)) => (peer.ip(), one) != (of.ip(), two),
            _ => false,
        };
        meets && !apart
    }
}

/// One pseudowire, as both ends have agreed on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdpLink {
    /// Where its datagrams arrive; text without a port means 6635 (RFC 7510).
    #[serde(deserialize_with = "read_end")]
    pub local: SocketAddr,
    /// Where its datagrams go; text without a port means 6635.
    #[serde(deserialize_with = "read_end")]
    pub peer: SocketAddr,
    /// The source port of what is sent: one for each pseudowire (0: whichever is free).
    #[serde(default)]
    pub source_port: u16,
    /// The source port of what arrives. Without, any will do, and no other pseudowire of this
    /// machine can use `local`.
    #[serde(default)]
    pub peer_source_port: Option<u16>,
    /// The label of what is sent: 16 to 1,048,575.
    pub label_out: u32,
    /// The label of what arrives: 16 to 1,048,575.
    pub label_in: u32,
    /// How it packs cells, and whose they are where it does not send that.
    #[serde(default)]
    pub mode: CellPseudowire,
    /// The longest IP packet, in octets: 68 to 65,535; 1500 where nothing else is said.
    #[serde(default = "default_mtu")]
    pub mtu: u16,
    /// Cells of a datagram at most; none: as many as fit.
    #[serde(default)]
    pub pack: Option<NonZeroU16>,
    /// How long a datagram that is not full waits for more cells, in nanoseconds: at most
    /// [`UdpLink::TIMER_NS_MAX`].
    #[serde(default)]
    pub timer_ns: u64,
}

/// Why a pseudowire cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum UdpLinkError {
    /// A label is reserved, or has more than 20 bits.
    #[error("label {0} is not one of 16 to 1,048,575")]
    Label(u32),
    /// No cell fits.
    #[error("no cell fits an IP packet of {0} octets")]
    Mtu(u16),
    /// So many cells do not fit.
    #[error("an IP packet of {mtu} octets has {fit} cells, not {pack}")]
    Pack {
        /// Cells.
        pack: u16,
        /// Octets.
        mtu: u16,
        /// Cells.
        fit: usize,
    },
    /// Datagrams can bring more at once than the adapter tolerates.
    #[error(
        "{pack} cells a datagram: {clump} at once are tolerated; pack {clump}, or have more \
         `adapter.clump_cells`"
    )]
    Clump {
        /// Cells.
        pack: usize,
        /// Cells.
        clump: u16,
    },
    /// The timer is too long.
    #[error("a timer of {0} ns: at most 1,000,000,000")]
    Timer(u64),
    /// Its ends are of different versions of IP.
    #[error("{local} and {peer} are of different versions of IP")]
    Versions { local: SocketAddr, peer: SocketAddr },
}

impl UdpLink {
    /// The longest packing timer.
    pub const TIMER_NS_MAX: u64 = 1_000_000_000;

    /// Octets before the first cell of a datagram.
    pub const fn header_len(&self) -> usize {
        crate::wire::LABEL_ENTRY_LEN + self.mode.mode().header_len()
    }

    /// Cells of a full datagram.
    pub fn packed(&self) -> usize {
        let fit = self.cells_per_datagram();
        self.pack.map_or(fit, |pack| fit.min(pack.get().into()))
    }

    /// Cells that fit a datagram.
    pub const fn cells_per_datagram(&self) -> usize {
        let version = match self.peer {
            SocketAddr::V4(_) => IpVersion::V4,
            SocketAddr::V6(_) => IpVersion::V6,
        };
        version.cells_per_datagram(self.mtu as usize, self.mode.mode())
    }

    /// Whether an adapter can have it that tolerates `clump` cells at once (`Config::clump_cells`):
    /// the peer is taken to pack as many cells as this end.
    ///
    /// # Errors
    /// Both ends could not be, or its datagrams bring more.
    pub fn fits(&self, clump: u16) -> Result<(), UdpLinkError> {
        self.check()?;
        match self.packed() {
            pack if pack > clump.into() => Err(UdpLinkError::Clump { pack, clump }),
            _ => Ok(()),
        }
    }

    /// Whether both ends could be.
    ///
    /// # Errors
    /// They could not; why.
    pub fn check(&self) -> Result<(), UdpLinkError> {
        for label in [self.label_in, self.label_out] {
            if Label::new(label).is_none_or(Label::is_reserved) {
                return Err(UdpLinkError::Label(label));
            }
        }
        if self.local.is_ipv4() != self.peer.is_ipv4() {
            let (local, peer) = (self.local, self.peer);
            return Err(UdpLinkError::Versions { local, peer });
        }
        if self.timer_ns > Self::TIMER_NS_MAX {
            return Err(UdpLinkError::Timer(self.timer_ns));
        }
        match (self.cells_per_datagram(), self.pack.map(NonZeroU16::get)) {
            (0, _) => Err(UdpLinkError::Mtu(self.mtu)),
            (fit, Some(pack)) if usize::from(pack) > fit => {
                let mtu = self.mtu;
                Err(UdpLinkError::Pack { pack, mtu, fit })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_without_a_port_and_no_mtu_are_those_of_mpls_in_udp() {
        let udp = |local: &str| {
            let link = format!(
                r#"{{"udp":{{"local":"{local}","peer":"192.0.2.2:7001",
                    "label_out":16,"label_in":17}}}}"#
            );
            serde_json::from_str::<Link>(&link)
        };
        let Ok(Link::Udp(UdpLink {
            local, peer, mtu, ..
        })) = udp("2001:db8::1")
        else {
            panic!("no pseudowire");
        };
        assert_eq!(
            (local.to_string(), peer.to_string(), mtu),
            (
                "[2001:db8::1]:6635".to_owned(),
                "192.0.2.2:7001".to_owned(),
                1_500
            )
        );
        let error = udp("here").expect_err("no address").to_string();
        assert!(
            error.starts_with("`here` is no IP address, with or without port"),
            "{error}"
        );
    }
}
