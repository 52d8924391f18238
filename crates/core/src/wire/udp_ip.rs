//! MPLS-in-UDP (RFC 7510): just enough of IP and UDP to frame a pseudowire packet. No options,
//! extension headers, fragments or routing.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::frame::{ETHERNET_LEN, IPV4_LEN, IPV6_LEN, PROTOCOL_UDP, TYPE_IPV4, TYPE_IPV6, UDP_LEN};
use super::{CellMode, LABEL_ENTRY_LEN, LabelEntry, Prefix};

/// The UDP port of MPLS-in-UDP (RFC 7510 section 3).
pub const MPLS_UDP_PORT: u16 = 6635;
/// Octets of the longest headers before a pseudowire packet: Ethernet, IPv6, UDP, one label.
pub const MPLS_IN_UDP_LEN_MAX: usize = ETHERNET_LEN + IPV6_LEN + UDP_LEN + LABEL_ENTRY_LEN;

/// The version of IP below a pseudowire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpVersion {
    /// IPv4, without options.
    V4,
    /// IPv6, without extension headers.
    V6,
}

impl IpVersion {
    /// Octets before the first cell in a packet of MPLS-in-UDP: IP, UDP, one label.
    pub const fn overhead(self) -> usize {
        UDP_LEN
            + LABEL_ENTRY_LEN
            + match self {
                Self::V4 => IPV4_LEN,
                Self::V6 => IPV6_LEN,
            }
    }

    /// Cells that fit into one datagram. N to one without control word: (`mtu` - 32) / 52 on IPv4,
    /// (`mtu` - 52) / 52 on IPv6, rounded down.
    pub const fn cells_per_datagram(self, mtu: usize, mode: CellMode) -> usize {
        mtu.saturating_sub(self.overhead() + mode.header_len()) / mode.stride()
    }
}

/// Source and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    V4 {
        source: Ipv4Addr,
        destination: Ipv4Addr,
    },
    V6 {
        source: Ipv6Addr,
        destination: Ipv6Addr,
    },
}

/// The headers in front of a pseudowire packet in an Ethernet frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MplsInUdp {
    /// Hardware address of the sender.
    pub ethernet_source: [u8; 6],
    /// Hardware address of the next hop.
    pub ethernet_destination: [u8; 6],
    pub addresses: Addresses,
    /// Identification of the IPv4 packet; IPv6 has none.
    pub identification: u16,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// The UDP source port: one for each pseudowire, so that routers spread them (RFC 7510
    /// section 3).
    pub source_port: u16,
    /// Whether the UDP checksum is computed. Without, it is 0: RFC 7510 section 3.1 says when
    /// IPv6 allows it.
    pub checksum: bool,
    /// The one entry of the label stack.
    pub entry: LabelEntry,
}

impl MplsInUdp {
    /// What goes before `payload`, the pseudowire packet. A length field that cannot say the
    /// length of a payload beyond 64 KiB says its largest value.
    pub fn emit(&self, payload: &[u8]) -> Prefix<MPLS_IN_UDP_LEN_MAX> {
        let udp_len = UDP_LEN + LABEL_ENTRY_LEN + payload.len();
        let udp_len_field = u16::try_from(udp_len).unwrap_or(u16::MAX);
        let label = self.entry.emit();
        let mut udp = [0; UDP_LEN];
        put(&mut udp, 0, self.source_port);
        put(&mut udp, 2, MPLS_UDP_PORT);
        put(&mut udp, 4, udp_len_field);
        if self.checksum {
            let sum = self.pseudo_header_sum(udp_len_field);
            let sum = ones_complement(sum, &[&udp, &label, payload]);
            //= RFC 768: a computed 0 is sent as all ones, 0 says that there is none
            put(&mut udp, 6, if sum == 0 { 0xffff } else { sum });
        }
        let mut ethernet = [0; ETHERNET_LEN];
        ethernet[..6].copy_from_slice(&self.ethernet_destination);
        ethernet[6..12].copy_from_slice(&self.ethernet_source);
        match self.addresses {
            Addresses::V4 {
                source,
                destination,
            } => {
                put(&mut ethernet, 12, TYPE_IPV4);
                let ip = self.ipv4(source, destination, udp_len);
                Prefix::of(&[&ethernet, &ip, &udp, &label])
            }
            Addresses::V6 {
                source,
                destination,
            } => {
                put(&mut ethernet, 12, TYPE_IPV6);
                let ip = self.ipv6(source, destination, udp_len_field);
                Prefix::of(&[&ethernet, &ip, &udp, &label])
            }
        }
    }

    fn ipv4(&self, source: Ipv4Addr, destination: Ipv4Addr, udp_len: usize) -> [u8; IPV4_LEN] {
        let mut ip = [0; IPV4_LEN];
        let len = u16::try_from(IPV4_LEN + udp_len).unwrap_or(u16::MAX);
        ip[0] = 0x45;
        put(&mut ip, 2, len);
        put(&mut ip, 4, self.identification);
        ip[8] = self.ttl;
        ip[9] = PROTOCOL_UDP;
        ip[12..16].copy_from_slice(&source.octets());
        ip[16..].copy_from_slice(&destination.octets());
        let sum = ones_complement(0, &[&ip]);
        put(&mut ip, 10, sum);
        ip
    }

    fn ipv6(&self, source: Ipv6Addr, destination: Ipv6Addr, udp_len: u16) -> [u8; IPV6_LEN] {
        let mut ip = [0; IPV6_LEN];
        ip[0] = 0x60;
        put(&mut ip, 4, udp_len);
        ip[6] = PROTOCOL_UDP;
        ip[7] = self.ttl;
        ip[8..24].copy_from_slice(&source.octets());
        ip[24..].copy_from_slice(&destination.octets());
        ip
    }

    /// What the UDP checksum covers beside the datagram.
    fn pseudo_header_sum(&self, udp_len: u16) -> u64 {
        let words = |octets: &[u8]| -> u64 {
            let (pairs, _) = octets.as_chunks::<2>();
            pairs
                .iter()
                .map(|pair| u64::from(u16::from_be_bytes(*pair)))
                .sum()
        };
        let addresses = match self.addresses {
            Addresses::V4 {
                source,
                destination,
            } => words(&source.octets()) + words(&destination.octets()),
            Addresses::V6 {
                source,
                destination,
            } => words(&source.octets()) + words(&destination.octets()),
        };
        addresses + u64::from(PROTOCOL_UDP) + u64::from(udp_len)
    }
}

/// Writes a number at `at`, which every caller knows to be inside its array.
fn put<const N: usize>(octets: &mut [u8; N], at: usize, value: u16) {
    octets[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// The Internet checksum (RFC 1071) of `parts`, of which only the last may be odd.
fn ones_complement(start: u64, parts: &[&[u8]]) -> u16 {
    let mut sum = start;
    for part in parts {
        let (pairs, odd) = part.as_chunks::<2>();
        for pair in pairs {
            sum += u64::from(u16::from_be_bytes(*pair));
        }
        if let [last] = odd {
            sum += u64::from(*last) << 8;
        }
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}
