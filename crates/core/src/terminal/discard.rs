//! Why PDUs of a terminal are thrown away, and how many.

/// Why a PDU, or a cell without one, was thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Discard {
    /// The check of the PCI was wrong, or there was no room for one: no place is taken from it.
    HeaderCheck,
    /// The PCI is of a version, or has a kind or flags, that nobody here knows.
    UnknownHeader,
    /// A transfer that is not in progress.
    UnknownTransfer,
    /// Another run of the sender.
    StaleRun,
    /// The number is beyond the window, or the extent not between those around it and the edge.
    OutsideWindow,
    /// The PDU is held, or acknowledged.
    Repeated,
    /// Go-back-N: a PDU before it is missing.
    OutOfOrder,
    /// The PCI, the cells and the CPCS do not say the same length.
    LengthError,
    /// The CRC of a cell (AAL3/4) or of the PDU (AAL5) was wrong.
    CrcError,
    /// A cell of the PDU is missing or came twice (AAL3/4: by SN).
    LostCell,
    /// A cell of no PDU in progress (AAL3/4).
    MissingBom,
    /// A PDU began before another had ended (AAL3/4).
    MissingEom,
    /// Btag and Etag differ, or the CPI is not 0 (AAL3/4).
    TagMismatch,
    /// The sender gave the PDU up.
    Aborted,
    /// A control PDU larger than there is room for.
    Oversized,
    /// Another PDU of the transfer began (AAL3/4: on another MID), or the caller gave this one up.
    Abandoned,
}

impl Discard {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 16] = [
        Self::HeaderCheck,
        Self::UnknownHeader,
        Self::UnknownTransfer,
        Self::StaleRun,
        Self::OutsideWindow,
        Self::Repeated,
        Self::OutOfOrder,
        Self::LengthError,
        Self::CrcError,
        Self::LostCell,
        Self::MissingBom,
        Self::MissingEom,
        Self::TagMismatch,
        Self::Aborted,
        Self::Oversized,
        Self::Abandoned,
    ];

    /// The reason as users read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HeaderCheck => "header_check",
            Self::UnknownHeader => "unknown_header",
            Self::UnknownTransfer => "unknown_transfer",
            Self::StaleRun => "stale_run",
            Self::OutsideWindow => "outside_window",
            Self::Repeated => "repeated",
            Self::OutOfOrder => "out_of_order",
            Self::LengthError => "length_error",
            Self::CrcError => "crc_error",
            Self::LostCell => "lost_cell",
            Self::MissingBom => "missing_bom",
            Self::MissingEom => "missing_eom",
            Self::TagMismatch => "tag_mismatch",
            Self::Aborted => "aborted",
            Self::Oversized => "oversized",
            Self::Abandoned => "abandoned",
        }
    }
}

/// What has come: cells received = delivered + discarded + held, always. At packet level a PDU
/// counts as one cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cells that were received.
    pub received: u64,
    /// Cells of PDUs that were complete.
    pub delivered: u64,
    /// Cells of the PDU in progress.
    pub held: u64,
    /// PDUs that were complete.
    pub pdus: u64,
    cells: [u64; Discard::ALL.len()],
    discarded_pdus: [u64; Discard::ALL.len()],
}

impl core::ops::AddAssign<&Self> for Counts {
    fn add_assign(&mut self, other: &Self) {
        self.received += other.received;
        self.delivered += other.delivered;
        self.held += other.held;
        self.pdus += other.pdus;
        for (all, more) in [
            (&mut self.cells, &other.cells),
            (&mut self.discarded_pdus, &other.discarded_pdus),
        ] {
            for (all, more) in all.iter_mut().zip(more) {
                *all += more;
            }
        }
    }
}

impl Counts {
    /// Cells that were discarded for this reason.
    pub const fn cells(&self, reason: Discard) -> u64 {
        self.cells[reason as usize]
    }

    /// PDUs that were discarded for this reason; cells of no PDU are none.
    pub const fn discarded(&self, reason: Discard) -> u64 {
        self.discarded_pdus[reason as usize]
    }

    /// All cells that were discarded.
    pub fn discarded_cells(&self) -> u64 {
        self.cells.iter().sum()
    }

    /// A cell, held for the moment.
    pub(super) const fn hold(&mut self) {
        self.received += 1;
        self.held += 1;
    }

    /// Counts the cells held as those of a complete PDU.
    pub(super) const fn deliver(&mut self) {
        self.delivered += self.held;
        self.pdus += 1;
        self.held = 0;
    }

    /// Counts the cells held as those of a PDU, or its beginning, that is thrown away.
    pub(super) const fn discard(&mut self, reason: Discard) {
        self.cells[reason as usize] += self.held;
        self.discarded_pdus[reason as usize] += 1;
        self.held = 0;
    }

    /// A cell of a PDU that was thrown away, or of none.
    pub(super) const fn discard_cell(&mut self, reason: Discard) {
        self.received += 1;
        self.cells[reason as usize] += 1;
    }
}
