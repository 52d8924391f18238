use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// Octets of a cell on a UNI or NNI (I.361).
pub const CELL_LEN: usize = 53;
/// Octets of a cell without HEC, as pseudowires carry it (RFC 4717).
pub const CELL_LEN_NO_HEC: usize = 52;
/// Octets of a cell's payload.
pub const PAYLOAD_LEN: usize = 48;

/// Whether cells carry a HEC octet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CellFormat {
    /// 53 octets: four of header, the HEC, 48 of payload (I.361).
    WithHec,
    /// 52 octets: four of header, 48 of payload (RFC 4717).
    NoHec,
}

impl CellFormat {
    /// Octets from one cell to the next.
    #[inline(always)]
    pub const fn stride(self) -> usize {
        match self {
            Self::WithHec => CELL_LEN,
            Self::NoHec => CELL_LEN_NO_HEC,
        }
    }

    /// Whole cells in so many octets.
    #[inline(always)]
    pub const fn cells_in(self, octets: usize) -> usize {
        // By a constant: to divide by what is known only at run time takes longer.
        match self {
            Self::WithHec => octets / CELL_LEN,
            Self::NoHec => octets / CELL_LEN_NO_HEC,
        }
    }

    /// Octets before the payload.
    #[inline(always)]
    pub const fn header_len(self) -> usize {
        self.stride() - PAYLOAD_LEN
    }
}

/// Which of the two header layouts of I.361 an interface speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeaderForm {
    /// GFC (4 bits), VPI (8), VCI (16): the GFC is no part of the address.
    Uni,
    /// VPI (12 bits), VCI (16).
    #[default]
    Nni,
}

impl core::str::FromStr for HeaderForm {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "uni" => Ok(Self::Uni),
            "nni" => Ok(Self::Nni),
            _ => Err("expected uni or nni"),
        }
    }
}

impl HeaderForm {
    /// Its name, with its article.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uni => "a UNI",
            Self::Nni => "an NNI",
        }
    }

    /// Whether it is that of an NNI.
    pub const fn is_nni(&self) -> bool {
        matches!(self, Self::Nni)
    }

    /// The largest VPI a header of this form can name.
    pub const fn vpi_max(self) -> u16 {
        match self {
            Self::Uni => 0xff,
            Self::Nni => 0xfff,
        }
    }

    /// The bits of a header word that are the address.
    #[inline(always)]
    pub const fn address_mask(self) -> u32 {
        match self {
            Self::Uni => 0x0fff_fff0,
            Self::Nni => 0xffff_fff0,
        }
    }
}

/// The address of a VC on one interface: VPI (12 bits) and VCI (16 bits).
///
/// Its text form is `vpi.vci`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct VpiVci {
    bits: u32,
}

impl VpiVci {
    /// The address of `vci` in `vpi`; none if the VPI needs more than 12 bits.
    pub const fn new(vpi: u16, vci: u16) -> Option<Self> {
        if vpi > 0xfff {
            return None;
        }
        Some(Self {
            bits: (vpi as u32) << 16 | vci as u32,
        })
    }

    /// The address in the low 28 bits of `bits`, VPI first.
    #[inline(always)]
    pub const fn from_bits(bits: u32) -> Self {
        Self {
            bits: bits & 0x0fff_ffff,
        }
    }

    /// 28 bits, VPI first.
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// Virtual path identifier.
    pub const fn vpi(self) -> u16 {
        (self.bits >> 16) as u16
    }

    /// Virtual channel identifier.
    pub const fn vci(self) -> u16 {
        self.bits as u16
    }
}

impl fmt::Display for VpiVci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.vpi(), self.vci())
    }
}

/// A text that is no `vpi.vci`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected vpi.vci, VPI 0 to 4095 and VCI 0 to 65535, without leading zeros")]
pub struct AddressError;

impl From<VpiVci> for String {
    fn from(address: VpiVci) -> Self {
        address.to_string()
    }
}

impl TryFrom<String> for VpiVci {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        text.parse()
    }
}

impl FromStr for VpiVci {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let number = |digits: &str| -> Result<u16, AddressError> {
            let plain = digits.bytes().all(|b| b.is_ascii_digit());
            if !plain || (digits.len() > 1 && digits.starts_with('0')) {
                return Err(AddressError);
            }
            digits.parse().map_err(|_| AddressError)
        };
        let (vpi, vci) = text.split_once('.').ok_or(AddressError)?;
        Self::new(number(vpi)?, number(vci)?).ok_or(AddressError)
    }
}

/// Payload type (I.361): three bits of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pti {
    /// User data. `last` is the ATM-user-to-ATM-user indication: in AAL5, the last cell of a PDU.
    User {
        /// A switch on the way was congested (EFCI).
        congested: bool,
        /// Last cell of an AAL5 CPCS-PDU.
        last: bool,
    },
    /// OAM F5 segment flow.
    OamSegment,
    /// OAM F5 end-to-end flow.
    OamEndToEnd,
    /// Resource management.
    ResourceManagement,
    /// Reserved (7).
    Reserved,
}

impl Pti {
    /// From the three bits (higher bits are ignored).
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 7 {
            4 => Self::OamSegment,
            5 => Self::OamEndToEnd,
            6 => Self::ResourceManagement,
            7 => Self::Reserved,
            user => Self::User {
                congested: user & 2 != 0,
                last: user & 1 != 0,
            },
        }
    }

    /// The three bits.
    pub const fn bits(self) -> u8 {
        match self {
            Self::User { congested, last } => (congested as u8) << 1 | last as u8,
            Self::OamSegment => 4,
            Self::OamEndToEnd => 5,
            Self::ResourceManagement => 6,
            Self::Reserved => 7,
        }
    }
}

/// What a cell's header says the cell is, before any connection is looked up (I.361, I.432.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderKind {
    /// Inserted by the physical layer to fill the link: VPI 0, VCI 0, CLP 1.
    Idle,
    /// An empty cell of the ATM layer: VPI 0, VCI 0, CLP 0.
    Unassigned,
    /// A cell of some VC.
    Assigned,
}

/// The first four octets of a cell.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-------+---------------+-------------------------------+-----+-+
/// |  GFC  |      VPI      |              VCI              | PTI |C|  UNI
/// +-------+---------------+-------------------------------+-----+-+
/// |          VPI          |              VCI              | PTI |C|  NNI
/// +-----------------------+-------------------------------+-----+-+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Header {
    word: u32,
}

impl Header {
    /// Bit of the word that marks the last cell of an AAL5 PDU.
    pub const LAST: u32 = 2;
    /// Bit of the word that a congested switch sets (EFCI).
    pub const CONGESTED: u32 = 4;
    /// Bit of the word that tells OAM and RM cells from user data.
    pub const NOT_USER: u32 = 8;
    /// Cell loss priority bit of the word.
    pub const CLP: u32 = 1;

    /// A header with GFC 0.
    pub const fn new(address: VpiVci, pti: Pti, clp: bool) -> Self {
        Self {
            word: address.bits() << 4 | (pti.bits() as u32) << 1 | clp as u32,
        }
    }

    /// From the header's octets, most significant first.
    #[inline(always)]
    pub const fn from_word(word: u32) -> Self {
        Self { word }
    }

    /// The header's octets as one number, most significant first.
    #[inline(always)]
    pub const fn word(self) -> u32 {
        self.word
    }

    /// From the first four octets.
    #[inline(always)]
    pub const fn parse(octets: [u8; 4]) -> Self {
        Self {
            word: u32::from_be_bytes(octets),
        }
    }

    /// The first four octets.
    #[inline(always)]
    pub const fn emit(self) -> [u8; 4] {
        self.word.to_be_bytes()
    }

    /// Generic flow control (UNI only).
    pub const fn gfc(self) -> u8 {
        (self.word >> 28) as u8
    }

    /// The address, without the GFC on a UNI.
    #[inline(always)]
    pub const fn address(self, form: HeaderForm) -> VpiVci {
        VpiVci::from_bits((self.word & form.address_mask()) >> 4)
    }

    /// Payload type.
    pub const fn pti(self) -> Pti {
        Pti::from_bits((self.word >> 1) as u8)
    }

    /// Cell loss priority: true for the cells to drop first.
    #[inline(always)]
    pub const fn clp(self) -> bool {
        self.word & Self::CLP != 0
    }

    /// Whether this is user data and the last cell of an AAL5 PDU.
    #[inline(always)]
    pub const fn is_last(self) -> bool {
        self.word & (Self::NOT_USER | Self::LAST) == Self::LAST
    }

    /// Idle, unassigned, or a cell of some VC.
    pub const fn kind(self, form: HeaderForm) -> HeaderKind {
        if self.address(form).bits() != 0 {
            return HeaderKind::Assigned;
        }
        match (self.pti(), self.clp()) {
            //= I.361 table 1: on a UNI the GFC of an unassigned cell may be anything
            (Pti::User { .. }, false) => HeaderKind::Unassigned,
            (
                Pti::User {
                    congested: false,
                    last: false,
                },
                true,
            ) => HeaderKind::Idle,
            _ => HeaderKind::Assigned,
        }
    }
}
