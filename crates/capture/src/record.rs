use cellgate_core::wire::{
    CBN_CELL_LEN, CELL_LEN, CELL_LEN_NO_HEC, Framing, Header, HeaderForm, VpiVci,
};

use crate::{Link, RingHeader};

/// One unit of traffic in a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where its record starts in the file.
    pub offset: u64,
    /// Nanoseconds since 1970 began (UTC); none where the format has none.
    pub time_ns: Option<u64>,
    /// Number of the interface in its section; 0 in formats with one.
    pub interface: u32,
    /// How the interface frames what it carries.
    pub link: Link,
    /// Which way it went.
    pub direction: Direction,
    /// What it is.
    pub content: Content,
    /// Octets at its end that were on the wire but were not kept.
    pub missing: usize,
    /// What went wrong with the capture of it.
    pub marks: Marks,
    /// What the one who captured it said about it.
    pub comments: Vec<String>,
}

/// What the one who captured a unit says went wrong: the flags and the loss counter of ERF, the
/// flags and the drop count of pcapng.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Units that were lost between the one before and this one.
    pub lost_before: u64,
    /// The receiver found an error in it: its octets may be wrong.
    pub receive_error: bool,
    /// The capturing device found its own record damaged.
    pub stream_error: bool,
    /// The device was short of room and cut it.
    pub truncated: bool,
}

impl Marks {
    /// What either says.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self {
            lost_before: self.lost_before.saturating_add(other.lost_before),
            receive_error: self.receive_error || other.receive_error,
            stream_error: self.stream_error || other.stream_error,
            truncated: self.truncated || other.truncated,
        }
    }
}

/// Which way a unit went, seen from the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// The file does not say.
    #[default]
    Unknown,
    /// To the host; for Wireshark DCE to DTE.
    Receive,
    /// From the host; for Wireshark DTE to DCE.
    Transmit,
}

/// What SunATM says an SDU is: four bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SduKind(u8);

impl SduKind {
    /// Unknown, or of a VC that carries one protocol.
    pub const RAW: Self = Self(0);
    /// LAN emulation.
    pub const LANE: Self = Self(1);
    /// LLC (RFC 2684).
    pub const LLC: Self = Self(2);
    pub const ILMI: Self = Self(5);
    /// Signalling: SSCOP and Q.2931.
    pub const SIGNALLING: Self = Self(6);

    /// From the low four bits.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 0x0f)
    }

    /// Four bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// By the address and the first octets, as libpcap does: ILMI on VCI 16, signalling on VCI 5,
    /// LLC where the octets are one.
    pub fn guess(address: VpiVci, sdu: &[u8]) -> Self {
        match (address.vci(), sdu) {
            (5, _) => Self::SIGNALLING,
            (16, _) => Self::ILMI,
            (_, [0xaa, 0xaa, 0x03, ..] | [0xfe, 0xfe, 0x03, ..]) => Self::LLC,
            _ => Self::RAW,
        }
    }
}

/// What a record holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A cell with its HEC, as on a UNI.
    CellWithHec([u8; CELL_LEN]),
    /// A cell without HEC.
    Cell([u8; CELL_LEN_NO_HEC]),
    /// A cell of which the end was not kept.
    PartOfCell {
        header: Header,
        /// The front of its payload: at most 47 octets.
        payload: Vec<u8>,
    },
    /// A cell of the Cambridge ring.
    RingCell {
        header: RingHeader,
        octets: [u8; CBN_CELL_LEN],
    },
    /// A CPCS-PDU of AAL5, pad and trailer and all; its CRC has not been looked at.
    Aal5Pdu {
        /// Header of one of its cells.
        header: Header,
        /// The PDU; at least one octet.
        pdu: Vec<u8>,
    },
    /// A CPS packet of AAL2.
    Aal2Packet {
        /// Header of its cell.
        header: Header,
        cid: u8,
        /// The packet with its own header; at least one octet.
        packet: Vec<u8>,
    },
    /// An SDU of AAL5.
    Sdu {
        /// The VC, where the link type says it.
        address: Option<VpiVci>,
        /// What it is said to be.
        kind: SduKind,
        /// 1 to 65,535 octets.
        sdu: Vec<u8>,
    },
    /// A frame that may hold a packet of a pseudowire.
    Frame {
        /// How it begins.
        framing: Framing,
        /// All of it, without a check sequence that the capture tells of.
        octets: Vec<u8>,
    },
}

impl Content {
    /// One word for it: `cell`, `pdu`, `packet`, `sdu`, `frame`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::CellWithHec(_)
            | Self::Cell(_)
            | Self::PartOfCell { .. }
            | Self::RingCell { .. } => "cell",
            Self::Aal5Pdu { .. } => "pdu",
            Self::Aal2Packet { .. } => "packet",
            Self::Sdu { .. } => "sdu",
            Self::Frame { .. } => "frame",
        }
    }

    /// The cell header, where there is one. The HEC is not looked at.
    pub fn header(&self) -> Option<Header> {
        match self {
            Self::CellWithHec([a, b, c, d, ..]) => Some(Header::parse([*a, *b, *c, *d])),
            Self::Cell([a, b, c, d, ..]) => Some(Header::parse([*a, *b, *c, *d])),
            Self::PartOfCell { header, .. }
            | Self::Aal5Pdu { header, .. }
            | Self::Aal2Packet { header, .. } => Some(*header),
            Self::RingCell { .. } | Self::Sdu { .. } | Self::Frame { .. } => None,
        }
    }

    /// The address, if the interface speaks `form`.
    pub fn address(&self, form: HeaderForm) -> Option<VpiVci> {
        match self {
            Self::Sdu { address, .. } => *address,
            _ => self.header().map(|header| header.address(form)),
        }
    }

    /// Its octets: of whole cells and frames all, of the rest without cell header.
    pub fn octets(&self) -> &[u8] {
        match self {
            Self::CellWithHec(octets) => octets,
            Self::Cell(octets) => octets,
            Self::RingCell { octets, .. } => octets,
            Self::PartOfCell {
                payload: octets, ..
            }
            | Self::Aal5Pdu { pdu: octets, .. }
            | Self::Aal2Packet { packet: octets, .. }
            | Self::Sdu { sdu: octets, .. }
            | Self::Frame { octets, .. } => octets,
        }
    }
}
