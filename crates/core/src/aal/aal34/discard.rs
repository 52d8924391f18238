use serde::{Deserialize, Serialize};

/// Why AAL3/4 cells were thrown away. Every received cell is delivered, held in an unfinished PDU,
/// or has one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Discard {
    /// The cell's CRC-10 was wrong: nobody can say of which PDU it is.
    CrcError,
    /// SN: a cell of the PDU is missing, or came twice, or too late.
    LostCell,
    /// A COM or EOM of a MID on which no PDU is in progress.
    MissingBom,
    /// A PDU began on the MID of one in progress, which is given up.
    MissingEom,
    /// Btag and Etag differ: the cells are of two PDUs.
    TagMismatch,
    /// The length, or a cell's length indicator, does not fit the octets that came.
    LengthError,
    /// The CPI is not 0: sizes are counted in units nobody has defined.
    CpiError,
    /// The PDU has more octets than its BAsize announced.
    BaSizeError,
    /// The SDU has more octets than the largest allowed.
    Oversized,
    /// As many PDUs as allowed are in progress on other MIDs.
    TooManyMids,
    /// No room for what the PDU reserves.
    BufferFull,
    /// Every descriptor is used, or kept for a PDU in progress.
    QueueFull,
    /// The PDU was not complete in time.
    ReassemblyTimeout,
    /// The sender gave the PDU up (EOM with LI 63).
    Aborted,
    /// The caller did not let the PDU in.
    Refused,
    /// The caller had no time for the PDU.
    Overload,
    /// The reassembly ended while the PDU was in progress.
    Closed,
}

impl Discard {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 17] = [
        Self::CrcError,
        Self::LostCell,
        Self::MissingBom,
        Self::MissingEom,
        Self::TagMismatch,
        Self::LengthError,
        Self::CpiError,
        Self::BaSizeError,
        Self::Oversized,
        Self::TooManyMids,
        Self::BufferFull,
        Self::QueueFull,
        Self::ReassemblyTimeout,
        Self::Aborted,
        Self::Refused,
        Self::Overload,
        Self::Closed,
    ];

    /// The reason as users read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CrcError => "crc_error",
            Self::LostCell => "lost_cell",
            Self::MissingBom => "missing_bom",
            Self::MissingEom => "missing_eom",
            Self::TagMismatch => "tag_mismatch",
            Self::LengthError => "length_error",
            Self::CpiError => "cpi_error",
            Self::BaSizeError => "ba_size_error",
            Self::Oversized => "oversized",
            Self::TooManyMids => "too_many_mids",
            Self::BufferFull => "buffer_full",
            Self::QueueFull => "queue_full",
            Self::ReassemblyTimeout => "reassembly_timeout",
            Self::Aborted => "aborted",
            Self::Refused => "refused",
            Self::Overload => "overload",
            Self::Closed => "closed",
        }
    }
}
