//! Several protocols over one VC of AAL5 (RFC 2684), and PPP among them (RFC 2364).

use super::Prefix;

/// DSAP, SSAP and control of a SNAP header (RFC 2684 section 5.1).
const SNAP: [u8; 3] = [0xaa, 0xaa, 0x03];
/// DSAP, SSAP and control before an NLPID.
const ISO: [u8; 3] = [0xfe, 0xfe, 0x03];
/// The OUI under which the PID is an EtherType.
const OUI_ETHER_TYPE: [u8; 3] = [0; 3];
/// The OUI of bridged media.
const OUI_BRIDGED: [u8; 3] = [0x00, 0x80, 0xc2];
/// Ethernet that keeps its frame check sequence, and without.
const PID_ETHERNET_FCS: u16 = 0x0001;
const PID_ETHERNET: u16 = 0x0007;
/// What stands before a bridged Ethernet frame so that its body is aligned.
const PAD: [u8; 2] = [0; 2];
/// Octets of the shortest thing that is an Ethernet frame: two addresses and a type.
const ETHERNET_HEADER_LEN: usize = 14;
/// Octets of an Ethernet frame check sequence.
const FCS_LEN: usize = 4;

/// Why an SDU is nothing that RFC 2684 describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LlcError {
    /// Fewer octets than the header has.
    #[error("{len} octets are fewer than the encapsulation header")]
    TooShort {
        /// Octets of the SDU.
        len: usize,
    },
    /// No SNAP and no NLPID.
    #[error("LLC {0:02x?} is neither AA-AA-03 nor FE-FE-03")]
    UnknownLlc([u8; 3]),
    /// The two octets before a bridged Ethernet frame are not zero.
    #[error("the pad before a bridged frame is {0:02x?}, not zero")]
    Pad([u8; 2]),
    /// Neither IPv4 nor IPv6 where only they can be.
    #[error("IP version {0} is neither 4 nor 6")]
    IpVersion(u8),
}

/// The LLC header of an SDU: what its other octets are.
///
/// ```text
/// AA AA 03  00 00 00  EtherType  PDU
/// AA AA 03  00 80 C2  00 01 | 00 07  00 00  Ethernet frame with | without FCS
/// FE FE 03  NLPID  PDU
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Llc {
    /// A routed PDU of this EtherType: 0x0800 IPv4, 0x86DD IPv6, 0x0806 ATMARP.
    Routed {
        /// EtherType.
        ether_type: u16,
    },
    /// A bridged Ethernet or 802.3 frame.
    Bridged {
        /// Whether the last four octets are the frame check sequence.
        fcs: bool,
    },
    /// What an NLPID tells: 0xCF is PPP (RFC 2364). The PDUs of ISO protocols (0x81 to 0x83)
    /// begin with the NLPID itself.
    Nlpid {
        /// Network layer protocol identifier.
        nlpid: u8,
    },
    /// Another SNAP header.
    Other(OtherSnap),
}

/// A SNAP header that is neither an EtherType nor bridged Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherSnap {
    oui: [u8; 3],
    pid: u16,
}

impl OtherSnap {
    /// Organizationally unique identifier.
    pub const fn oui(&self) -> [u8; 3] {
        self.oui
    }

    /// Protocol identifier within the OUI.
    pub const fn pid(&self) -> u16 {
        self.pid
    }
}

impl Llc {
    /// The EtherType of IPv4.
    pub const IPV4: u16 = 0x0800;
    /// The EtherType of IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// The EtherType of ATMARP (RFC 2225).
    pub const ATMARP: u16 = 0x0806;
    /// The NLPID of PPP (RFC 2364).
    pub const PPP: u8 = 0xcf;

    /// The header, and what follows it.
    pub fn parse(sdu: &[u8]) -> Result<(Self, &[u8]), LlcError> {
        let too_short = LlcError::TooShort { len: sdu.len() };
        let (llc, rest) = sdu.split_first_chunk::<3>().ok_or(too_short)?;
        match *llc {
            SNAP => {
                let (oui, rest) = rest.split_first_chunk::<3>().ok_or(too_short)?;
                let (pid, rest) = rest.split_first_chunk::<2>().ok_or(too_short)?;
                Self::parse_snap(*oui, u16::from_be_bytes(*pid), rest).map_err(|e| match e {
                    LlcError::TooShort { .. } => too_short,
                    other => other,
                })
            }
            ISO => {
                let (nlpid, rest) = rest.split_first().ok_or(too_short)?;
                Ok((Self::Nlpid { nlpid: *nlpid }, rest))
            }
            other => Err(LlcError::UnknownLlc(other)),
        }
    }

    fn parse_snap(oui: [u8; 3], pid: u16, rest: &[u8]) -> Result<(Self, &[u8]), LlcError> {
        match (oui, pid) {
            (OUI_ETHER_TYPE, ether_type) => Ok((Self::Routed { ether_type }, rest)),
            (OUI_BRIDGED, PID_ETHERNET_FCS | PID_ETHERNET) => {
                let fcs = pid == PID_ETHERNET_FCS;
                Ok((Self::Bridged { fcs }, bridged(rest, fcs)?))
            }
            _ => Ok((Self::Other(OtherSnap { oui, pid }), rest)),
        }
    }

    /// The header's octets.
    pub fn emit(&self) -> Prefix<10> {
        let snap = |oui: [u8; 3], pid: u16, pad: &[u8]| {
            Prefix::of(&[&SNAP, &oui, &pid.to_be_bytes(), pad])
        };
        match *self {
            Self::Routed { ether_type } => snap(OUI_ETHER_TYPE, ether_type, &[]),
            Self::Bridged { fcs: true } => snap(OUI_BRIDGED, PID_ETHERNET_FCS, &PAD),
            Self::Bridged { fcs: false } => snap(OUI_BRIDGED, PID_ETHERNET, &PAD),
            Self::Nlpid { nlpid } => Prefix::of(&[&ISO, &[nlpid]]),
            Self::Other(OtherSnap { oui, pid }) => snap(oui, pid, &[]),
        }
    }
}

/// The Ethernet frame behind its pad.
fn bridged(octets: &[u8], fcs: bool) -> Result<&[u8], LlcError> {
    let too_short = LlcError::TooShort { len: octets.len() };
    let (pad, frame) = octets.split_first_chunk::<2>().ok_or(too_short)?;
    if *pad != PAD {
        return Err(LlcError::Pad(*pad));
    }
    let least = ETHERNET_HEADER_LEN + if fcs { FCS_LEN } else { 0 };
    if frame.len() < least {
        return Err(too_short);
    }
    Ok(frame)
}

/// A VC that carries one protocol, so that no header tells which (RFC 2684 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VcMux {
    /// IPv4 or IPv6: the SDU is the packet.
    Routed,
    /// Ethernet behind two octets of pad.
    Bridged {
        /// Whether the last four octets are the frame check sequence.
        fcs: bool,
    },
    /// PPP (RFC 2364): the SDU begins with the PPP protocol.
    Ppp,
}

/// What a VC without LLC carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VcMuxPdu<'a> {
    /// An IPv4 packet.
    Ipv4(&'a [u8]),
    /// An IPv6 packet.
    Ipv6(&'a [u8]),
    /// An Ethernet frame, with its frame check sequence if the VC keeps it.
    Ethernet(&'a [u8]),
    /// A PPP frame from its protocol on.
    Ppp(&'a [u8]),
}

impl VcMux {
    /// What `sdu` is on a VC of this kind.
    pub fn parse(self, sdu: &[u8]) -> Result<VcMuxPdu<'_>, LlcError> {
        let too_short = LlcError::TooShort { len: sdu.len() };
        let first = *sdu.first().ok_or(too_short)?;
        match self {
            Self::Routed => match first >> 4 {
                4 => Ok(VcMuxPdu::Ipv4(sdu)),
                6 => Ok(VcMuxPdu::Ipv6(sdu)),
                version => Err(LlcError::IpVersion(version)),
            },
            Self::Bridged { fcs } => {
                bridged(sdu, fcs)
                    .map(VcMuxPdu::Ethernet)
                    .map_err(|e| match e {
                        LlcError::TooShort { .. } => too_short,
                        other => other,
                    })
            }
            Self::Ppp => Ok(VcMuxPdu::Ppp(sdu)),
        }
    }

    /// What goes before the PDU.
    pub fn emit(self) -> Prefix<2> {
        match self {
            Self::Bridged { .. } => Prefix::of(&[&PAD]),
            Self::Routed | Self::Ppp => Prefix::EMPTY,
        }
    }
}
