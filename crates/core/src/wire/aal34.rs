use super::{Checked, PAYLOAD_LEN, crc10_is_valid, seal_crc10};

/// Octets of CPCS-PDU that an AAL3/4 cell carries.
pub const SAR_PAYLOAD_LEN: usize = 44;

/// Where in its PDU a cell stands (I.363.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentType {
    /// Continuation of message.
    Com,
    /// End of message.
    Eom,
    /// Beginning of message.
    Bom,
    /// Single segment message.
    Ssm,
}

impl SegmentType {
    /// From two bits (higher bits are ignored).
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Com,
            1 => Self::Eom,
            2 => Self::Bom,
            _ => Self::Ssm,
        }
    }

    /// The two bits.
    pub const fn bits(self) -> u8 {
        match self {
            Self::Com => 0,
            Self::Eom => 1,
            Self::Bom => 2,
            Self::Ssm => 3,
        }
    }

    /// Whether a PDU begins with this cell.
    pub const fn begins(self) -> bool {
        matches!(self, Self::Bom | Self::Ssm)
    }

    /// The type as users read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Com => "com",
            Self::Eom => "eom",
            Self::Bom => "bom",
            Self::Ssm => "ssm",
        }
    }
}

/// The SAR-PDU of AAL3/4: the payload of one cell (I.363.3).
///
/// ```text
/// octet 0          2                                   46         47
/// +----+----+-----+------------------- ... -----------+----+--------+
/// | ST | SN | MID |  44 octets, LI of them meaningful  | LI | CRC-10 |
/// +----+----+-----+------------------- ... -----------+----+--------+
///  2    4    10    352                                 6    10   bits
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SarPdu {
    /// Where in its PDU.
    pub segment_type: SegmentType,
    /// Sequence number, modulo 16.
    pub sn: u8,
    /// Multiplexing identification: PDUs with different ones may be interleaved on a VC.
    pub mid: u16,
    /// Of the CPCS-PDU, zeros behind the first LI.
    pub payload: [u8; SAR_PAYLOAD_LEN],
    /// Length indicator: how many octets mean something; [`SarPdu::ABORT`] aborts the PDU.
    pub li: u8,
}

impl SarPdu {
    /// MIDs there are on a VC.
    pub const MIDS: u16 = 1 << 10;
    /// Sequence numbers there are.
    pub const SNS: u8 = 1 << 4;
    /// The length indicator of an EOM by which the sender gives the PDU up.
    pub const ABORT: u8 = 63;

    /// From a cell's payload. Every payload is some SAR-PDU.
    #[inline(always)]
    pub fn parse(octets: &[u8; PAYLOAD_LEN]) -> Checked<Self> {
        let [_, _, payload @ .., _, _] = *octets;
        let Checked { value, crc_valid } = SarPci::parse(octets);
        let SarPci {
            segment_type,
            sn,
            mid,
            li,
        } = value;
        let value = Self {
            segment_type,
            sn,
            mid,
            payload,
            li,
        };
        Checked { value, crc_valid }
    }

    /// The cell's payload, with its CRC-10. Of `sn`, `mid` and `li` the low 4, 10 and 6 bits count.
    #[inline(always)]
    pub fn emit(&self) -> [u8; PAYLOAD_LEN] {
        let mut octets = [0; PAYLOAD_LEN];
        let [_, _, payload @ .., _, _] = &mut octets;
        *payload = self.payload;
        let pci = SarPci {
            segment_type: self.segment_type,
            sn: self.sn,
            mid: self.mid,
            li: self.li,
        };
        pci.emit(&mut octets);
        octets
    }
}

/// The control information of a SAR-PDU alone, for those who leave the payload where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SarPci {
    /// Where in its PDU.
    pub segment_type: SegmentType,
    /// Sequence number, modulo 16.
    pub sn: u8,
    /// Multiplexing identification.
    pub mid: u16,
    /// Length indicator.
    pub li: u8,
}

impl SarPci {
    /// From a cell's payload.
    #[inline(always)]
    pub fn parse(octets: &[u8; PAYLOAD_LEN]) -> Checked<Self> {
        let [first, mid_low, .., li, _] = *octets;
        let value = Self {
            segment_type: SegmentType::from_bits(first >> 6),
            sn: first >> 2 & 0x0f,
            mid: u16::from_be_bytes([first & 3, mid_low]),
            li: li >> 2,
        };
        Checked {
            value,
            crc_valid: crc10_is_valid(octets),
        }
    }

    /// Makes the octets around the 44 in the middle of `octets`, which stay, those of a SAR-PDU.
    /// Of `sn`, `mid` and `li` the low 4, 10 and 6 bits count.
    #[inline(always)]
    pub fn emit(&self, octets: &mut [u8; PAYLOAD_LEN]) {
        let [mid_high, mid_low] = self.mid.to_be_bytes();
        let [first, second, .., li, _] = octets;
        *first = self.segment_type.bits() << 6 | (self.sn & 0x0f) << 2 | mid_high & 3;
        *second = mid_low;
        *li = self.li << 2;
        seal_crc10(octets);
    }
}

/// The first four octets of an AAL3/4 CPCS-PDU (I.363.3).
///
/// ```text
/// octet 0      1      2          4
/// +-----+------+----------------+
/// | CPI | Btag |     BAsize     |
/// +-----+------+----------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpcsHeader {
    /// Common part indicator: 0 says that sizes are counted in octets.
    pub cpi: u8,
    /// Beginning tag: equal to the trailer's etag.
    pub btag: u8,
    /// Buffer allocation size: octets that the receiver needs for the SDU at most.
    pub ba_size: u16,
}

impl CpcsHeader {
    /// Octets of the header.
    pub const LEN: usize = 4;

    /// From four octets.
    #[inline(always)]
    pub const fn parse(octets: [u8; Self::LEN]) -> Self {
        let [cpi, btag, b0, b1] = octets;
        Self {
            cpi,
            btag,
            ba_size: u16::from_be_bytes([b0, b1]),
        }
    }

    /// The four octets.
    #[inline(always)]
    pub const fn emit(self) -> [u8; Self::LEN] {
        let [b0, b1] = self.ba_size.to_be_bytes();
        [self.cpi, self.btag, b0, b1]
    }
}

/// The last four octets of an AAL3/4 CPCS-PDU (I.363.3).
///
/// ```text
/// octet 0     1      2          4
/// +----+------+----------------+
/// | AL | Etag |     length     |
/// +----+------+----------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpcsTrailer {
    /// Alignment: fills the trailer up to four octets and says nothing; sent as 0.
    pub al: u8,
    /// End tag: equal to the header's btag.
    pub etag: u8,
    /// Octets of the SDU.
    pub length: u16,
}

impl CpcsTrailer {
    /// Octets of the trailer.
    pub const LEN: usize = 4;

    /// From four octets.
    #[inline(always)]
    pub const fn parse(octets: [u8; Self::LEN]) -> Self {
        let [al, etag, l0, l1] = octets;
        Self {
            al,
            etag,
            length: u16::from_be_bytes([l0, l1]),
        }
    }

    /// The four octets.
    #[inline(always)]
    pub const fn emit(self) -> [u8; Self::LEN] {
        let [l0, l1] = self.length.to_be_bytes();
        [self.al, self.etag, l0, l1]
    }
}
