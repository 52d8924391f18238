//! MPLS-in-UDP (RFC 7510) and MPLS over Ethernet: just enough of IP and UDP to frame a pseudowire
//! packet and to find one in a frame. No options, extension headers, fragments or routing.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::{CellMode, LABEL_ENTRY_LEN, LabelEntry, Prefix};

/// The UDP port of MPLS-in-UDP (RFC 7510 section 3).
pub const MPLS_UDP_PORT: u16 = 6635;
/// Octets of the longest headers before a pseudowire packet: Ethernet, IPv6, UDP, one label.
pub const MPLS_IN_UDP_LEN_MAX: usize = ETHERNET_LEN + IPV6_LEN + UDP_LEN + LABEL_ENTRY_LEN;

const ETHERNET_LEN: usize = 14;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const UDP_LEN: usize = 8;
const ETHER_TYPE_IPV4: u16 = 0x0800;
const ETHER_TYPE_IPV6: u16 = 0x86dd;
const ETHER_TYPE_MPLS: u16 = 0x8847;
const PROTOCOL_UDP: u8 = 17;

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
    /// Over IPv4.
    V4 {
        /// Who sends.
        source: Ipv4Addr,
        /// Who receives.
        destination: Ipv4Addr,
    },
    /// Over IPv6.
    V6 {
        /// Who sends.
        source: Ipv6Addr,
        /// Who receives.
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
    /// IP addresses.
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
                put(&mut ethernet, 12, ETHER_TYPE_IPV4);
                let ip = self.ipv4(source, destination, udp_len);
                Prefix::of(&[&ethernet, &ip, &udp, &label])
            }
            Addresses::V6 {
                source,
                destination,
            } => {
                put(&mut ethernet, 12, ETHER_TYPE_IPV6);
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

/// Why a frame holds no pseudowire packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MplsFrameError {
    /// Fewer octets than the headers say.
    #[error("the frame ends inside its {0} header")]
    TooShort(&'static str),
    /// Another protocol over Ethernet.
    #[error("EtherType 0x{0:04x} is neither MPLS nor IP")]
    EtherType(u16),
    /// No UDP to port 6635.
    #[error("the packet is no UDP to port 6635")]
    NotMplsInUdp,
    /// A fragment of an IPv4 packet.
    #[error("the packet is a fragment")]
    Fragment,
    /// A length that contradicts the headers.
    #[error("the {0} length contradicts the frame")]
    Length(&'static str),
    /// A label stack without a last entry.
    #[error("the label stack has no last entry")]
    Stack,
}

/// A pseudowire packet in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MplsFrame<'a> {
    /// The UDP source port; none over plain Ethernet.
    pub source_port: Option<u16>,
    /// The last entry of the label stack: it names the pseudowire.
    pub entry: LabelEntry,
    /// The pseudowire packet.
    pub payload: &'a [u8],
}

impl<'a> MplsFrame<'a> {
    /// The pseudowire packet in an Ethernet frame: MPLS itself (EtherType 0x8847), or in UDP.
    /// Checksums are not looked at: an adapter has.
    pub fn parse(frame: &'a [u8]) -> Result<Self, MplsFrameError> {
        let (ethernet, rest) = frame
            .split_first_chunk::<ETHERNET_LEN>()
            .ok_or(MplsFrameError::TooShort("Ethernet"))?;
        let [.., high, low] = *ethernet;
        let udp = match u16::from_be_bytes([high, low]) {
            ETHER_TYPE_MPLS => return Self::of_stack(None, rest),
            ETHER_TYPE_IPV4 => ipv4_payload(rest)?,
            ETHER_TYPE_IPV6 => ipv6_payload(rest)?,
            other => return Err(MplsFrameError::EtherType(other)),
        };
        let ([s0, s1, d0, d1, l0, l1, _, _], rest) = udp
            .split_first_chunk::<UDP_LEN>()
            .ok_or(MplsFrameError::TooShort("UDP"))?;
        if u16::from_be_bytes([*d0, *d1]) != MPLS_UDP_PORT {
            return Err(MplsFrameError::NotMplsInUdp);
        }
        let datagram = usize::from(u16::from_be_bytes([*l0, *l1]))
            .checked_sub(UDP_LEN)
            .and_then(|len| rest.get(..len))
            .ok_or(MplsFrameError::Length("UDP"))?;
        Self::of_stack(Some(u16::from_be_bytes([*s0, *s1])), datagram)
    }

    fn of_stack(source_port: Option<u16>, octets: &'a [u8]) -> Result<Self, MplsFrameError> {
        let (entry, payload) = LabelEntry::parse_stack(octets).ok_or(MplsFrameError::Stack)?;
        Ok(Self {
            source_port,
            entry,
            payload,
        })
    }
}

fn ipv4_payload(packet: &[u8]) -> Result<&[u8], MplsFrameError> {
    let header = packet
        .first_chunk::<IPV4_LEN>()
        .ok_or(MplsFrameError::TooShort("IPv4"))?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[0] >> 4 != 4 || header_len < IPV4_LEN {
        return Err(MplsFrameError::Length("IPv4"));
    }
    if header[9] != PROTOCOL_UDP {
        return Err(MplsFrameError::NotMplsInUdp);
    }
    // More fragments, or an offset.
    if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
        return Err(MplsFrameError::Fragment);
    }
    packet
        .get(header_len..total_len)
        .ok_or(MplsFrameError::Length("IPv4"))
}

fn ipv6_payload(packet: &[u8]) -> Result<&[u8], MplsFrameError> {
    let (header, rest) = packet
        .split_first_chunk::<IPV6_LEN>()
        .ok_or(MplsFrameError::TooShort("IPv6"))?;
    if header[0] >> 4 != 6 {
        return Err(MplsFrameError::Length("IPv6"));
    }
    if header[6] != PROTOCOL_UDP {
        return Err(MplsFrameError::NotMplsInUdp);
    }
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    rest.get(..len).ok_or(MplsFrameError::Length("IPv6"))
}
