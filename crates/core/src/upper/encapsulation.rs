//! A network device's packets in PDUs of AAL5 (RFC 2684).

use core::fmt;
use core::str::FromStr;

use crate::wire::Prefix;
use crate::wire::llc::{Llc, LlcError, VcMux, VcMuxPdu};

/// Octets of an Ethernet header, and of the tag that 802.1Q puts into it.
const ETHERNET_HEADER_LEN: u16 = 14;
const VLAN_TAG_LEN: u16 = 4;
/// Every link takes IPv4 packets of so many octets (RFC 791).
const MTU_MIN: u16 = 68;

/// How a network device's packets lie in PDUs; the words are those of tc-cake(8).
///
/// ```text
/// ipoa-llcsnap      AA AA 03  00 00 00  EtherType  IP packet
/// ipoa-vcmux                                       IP packet
/// bridged-llcsnap   AA AA 03  00 80 C2  00 07  00 00  Ethernet frame
/// bridged-vcmux                                00 00  Ethernet frame
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encapsulation {
    /// IP behind LLC and SNAP (RFC 2684 section 5.1, RFC 2225).
    IpoaLlcsnap,
    /// IP alone (RFC 2684 section 6.1). Its version tells IPv4 from IPv6, so one VC carries both.
    IpoaVcmux,
    /// Ethernet behind LLC and SNAP (RFC 2684 section 5.2), sent without its frame check sequence
    /// and received with or without.
    BridgedLlcsnap,
    /// Ethernet without its frame check sequence (RFC 2684 section 6.2).
    BridgedVcmux,
}

impl Encapsulation {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::IpoaLlcsnap,
        Self::IpoaVcmux,
        Self::BridgedLlcsnap,
        Self::BridgedVcmux,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::IpoaLlcsnap => "ipoa-llcsnap",
            Self::IpoaVcmux => "ipoa-vcmux",
            Self::BridgedLlcsnap => "bridged-llcsnap",
            Self::BridgedVcmux => "bridged-vcmux",
        }
    }

    /// Whether packets are Ethernet frames, not IP packets.
    pub const fn is_bridged(self) -> bool {
        matches!(self, Self::BridgedLlcsnap | Self::BridgedVcmux)
    }

    /// Octets in front of each packet.
    pub const fn headroom(self) -> usize {
        match self {
            Self::IpoaLlcsnap => 8,
            Self::IpoaVcmux => 0,
            Self::BridgedLlcsnap => 10,
            Self::BridgedVcmux => 2,
        }
    }

    /// The largest MTU, in octets of IP packet, whose packets always fit into SDUs of `max_sdu`
    /// octets, frames with an 802.1Q tag too. None: no IP link is that narrow (68 octets).
    pub const fn mtu_max(self, max_sdu: u16) -> Option<u16> {
        let ethernet = match self.is_bridged() {
            true => ETHERNET_HEADER_LEN + VLAN_TAG_LEN,
            false => 0,
        };
        match max_sdu.checked_sub(self.headroom() as u16 + ethernet) {
            Some(mtu) if mtu >= MTU_MIN => Some(mtu),
            _ => None,
        }
    }

    /// The MTU that peers expect: 9,180 octets of IP over ATM (RFC 2225 section 7), Ethernet's.
    pub const fn mtu_usual(self) -> u16 {
        match self.is_bridged() {
            true => 1_500,
            false => 9_180,
        }
    }

    /// What goes in front of `packet`: [`Encapsulation::headroom`] octets.
    ///
    /// # Errors
    /// It is no IP packet, or no Ethernet frame.
    #[inline]
    pub fn emit(self, packet: &[u8]) -> Result<Prefix<10>, Misfit> {
        if self.is_bridged() && packet.len() < usize::from(ETHERNET_HEADER_LEN) {
            return Err(Misfit::TooShort);
        }
        Ok(match self {
            Self::IpoaLlcsnap => {
                let ether_type = ether_type(packet)?;
                Llc::Routed { ether_type }.emit()
            }
            Self::IpoaVcmux => {
                ether_type(packet)?;
                Prefix::of(&[&VcMux::Routed.emit()])
            }
            Self::BridgedLlcsnap => Llc::Bridged { fcs: false }.emit(),
            Self::BridgedVcmux => Prefix::of(&[&VcMux::Bridged { fcs: false }.emit()]),
        })
    }

    /// What goes in front of an ATMARP packet; none: this encapsulation carries none (RFC 2225
    /// has it behind LLC and SNAP only, and bridges resolve by Ethernet's ARP).
    pub fn emit_atmarp(self) -> Option<Prefix<10>> {
        let ether_type = Llc::ATMARP;
        (self == Self::IpoaLlcsnap).then(|| Llc::Routed { ether_type }.emit())
    }

    /// What a received PDU carries.
    ///
    /// # Errors
    /// Not what this encapsulation has.
    #[inline]
    pub fn parse(self, sdu: &[u8]) -> Result<Payload<'_>, Misfit> {
        let payload = match self {
            Self::IpoaLlcsnap => match Llc::parse(sdu)? {
                (
                    Llc::Routed {
                        ether_type: Llc::ATMARP,
                    },
                    arp,
                ) => return Ok(Payload::Atmarp(arp)),
                (Llc::Routed { ether_type: told }, packet)
                    if matches!(told, Llc::IPV4 | Llc::IPV6) =>
                {
                    if ether_type(packet)? != told {
                        return Err(Misfit::IpVersion);
                    }
                    packet
                }
                _ => return Err(Misfit::OtherProtocol),
            },
            Self::BridgedLlcsnap => match Llc::parse(sdu)? {
                (Llc::Bridged { fcs: false }, frame) => frame,
                (Llc::Bridged { fcs: true }, frame) => without_fcs(frame)?,
                _ => return Err(Misfit::OtherProtocol),
            },
            Self::IpoaVcmux => of_vc_mux(VcMux::Routed.parse(sdu)?),
            Self::BridgedVcmux => of_vc_mux(VcMux::Bridged { fcs: false }.parse(sdu)?),
        };
        Ok(Payload::Packet(payload))
    }
}

fn of_vc_mux(pdu: VcMuxPdu<'_>) -> &[u8] {
    let (VcMuxPdu::Ipv4(packet)
    | VcMuxPdu::Ipv6(packet)
    | VcMuxPdu::Ethernet(packet)
    | VcMuxPdu::Ppp(packet)) = pdu;
    packet
}

/// The EtherType of an IP packet, by its version.
fn ether_type(packet: &[u8]) -> Result<u16, Misfit> {
    match packet.first().ok_or(Misfit::TooShort)? >> 4 {
        4 => Ok(Llc::IPV4),
        6 => Ok(Llc::IPV6),
        _ => Err(Misfit::IpVersion),
    }
}

/// The frame before its frame check sequence, which must be right.
fn without_fcs(frame: &[u8]) -> Result<&[u8], Misfit> {
    let (frame, fcs) = frame.split_last_chunk().ok_or(Misfit::TooShort)?;
    match u32::from_le_bytes(*fcs) == ethernet_fcs(frame) {
        true => Ok(frame),
        false => Err(Misfit::Fcs),
    }
}

/// The frame check sequence of Ethernet (IEEE 802.3), whose low octet is sent first.
fn ethernet_fcs(frame: &[u8]) -> u32 {
    !frame.iter().fold(u32::MAX, |crc, octet| {
        FCS_OF_OCTET[usize::from(crc as u8 ^ octet)] ^ crc >> 8
    })
}

/// What each octet, followed by 24 zero bits, leaves in the register.
const FCS_OF_OCTET: [u32; 256] = {
    let mut table = [0; 256];
    let mut octet = 0;
    while octet < table.len() {
        let mut crc = octet as u32;
        let mut bit = 0;
        while bit < 8 {
            // The polynomial 0x04C11DB7, low bit first.
            crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
            bit += 1;
        }
        table[octet] = crc;
        octet += 1;
    }
    table
};

impl fmt::Display for Encapsulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that is no encapsulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected ipoa-llcsnap, ipoa-vcmux, bridged-llcsnap or bridged-vcmux")]
pub struct UnknownEncapsulation;

impl FromStr for Encapsulation {
    type Err = UnknownEncapsulation;

    fn from_str(text: &str) -> Result<Self, UnknownEncapsulation> {
        let mut all = Self::ALL.into_iter();
        all.find(|one| one.name() == text)
            .ok_or(UnknownEncapsulation)
    }
}

/// What a PDU carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// An IP packet, or an Ethernet frame without its frame check sequence.
    Packet(&'a [u8]),
    /// An ATMARP packet: [`InAtmArp::parse`](super::InAtmArp::parse).
    Atmarp(&'a [u8]),
}

/// Why a PDU or a packet is not carried on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[repr(u8)]
pub enum Misfit {
    /// Shorter than its headers.
    #[error("too short for its headers")]
    TooShort,
    /// Neither SNAP nor NLPID.
    #[error("no LLC header")]
    UnknownLlc,
    /// LLC that tells of a protocol other than this device's.
    #[error("another protocol than this device's")]
    OtherProtocol,
    /// The two octets before a bridged frame are not zero.
    #[error("a pad that is not zero")]
    Pad,
    /// Neither IPv4 nor IPv6, or not the one that its header tells.
    #[error("not the IP version that it should be")]
    IpVersion,
    /// The Ethernet frame's check sequence is wrong.
    #[error("a wrong frame check sequence")]
    Fcs,
}

impl Misfit {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::TooShort,
        Self::UnknownLlc,
        Self::OtherProtocol,
        Self::Pad,
        Self::IpVersion,
        Self::Fcs,
    ];

    /// The reason as users read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooShort => "too_short",
            Self::UnknownLlc => "unknown_llc",
            Self::OtherProtocol => "other_protocol",
            Self::Pad => "bad_pad",
            Self::IpVersion => "ip_version",
            Self::Fcs => "bad_fcs",
        }
    }
}

impl From<LlcError> for Misfit {
    fn from(error: LlcError) -> Self {
        match error {
            LlcError::TooShort { .. } => Self::TooShort,
            LlcError::UnknownLlc(_) => Self::UnknownLlc,
            LlcError::Pad(_) => Self::Pad,
            LlcError::IpVersion(_) => Self::IpVersion,
        }
    }
}

/// A count for each reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MisfitCounts {
    counts: [u64; Misfit::ALL.len()],
}

impl MisfitCounts {
    /// Adds one under `reason`.
    pub fn add(&mut self, reason: Misfit) {
        self.counts[reason as usize] += 1;
    }

    /// Reasons with their counts, the zero ones too.
    pub fn iter(&self) -> impl Iterator<Item = (Misfit, u64)> + '_ {
        Misfit::ALL.into_iter().zip(self.counts)
    }
}
