use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::aal::{aal34, mssar};

/// Why cells were thrown away. Every received cell is delivered, held in an unfinished PDU, or
/// counted under one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Discard {
    /// No VC with this address is open on this port.
    UnknownVc,
    /// The header was damaged (I.432.1).
    HecError,
    /// An idle or unassigned cell.
    Idle,
    /// An OAM cell that asks nothing of the adapter, an RM or a reserved cell of an open VC.
    NotUserData,
    /// The PDU came earlier than the contract allows.
    NonConforming,
    /// The receive buffer had no room for the PDU.
    BufferFull,
    /// The receive queue had no free descriptor.
    QueueFull,
    /// The PDU had more cells than the contract's largest SDU needs.
    Oversized,
    /// The PDU's CRC-32 was wrong; of an AAL3/4 or OAM cell the CRC-10.
    CrcError,
    /// The PDU's length field did not fit its number of cells, or exceeded the contract; with
    /// AAL3/4 also the length of a cell, BAsize, or a CPI that counts in other units.
    LengthError,
    /// The sender aborted the PDU (length 0, I.363.5; an EOM with LI 63, I.363.3).
    Aborted,
    /// The VC was closed, or its memory replaced, in the middle of the PDU.
    Closed,
    /// AAL3/4: a cell before this one is missing, or this one came twice or too late.
    LostCell,
    /// AAL3/4: beginning and end tag differ: the cells are of two PDUs.
    TagMismatch,
    /// AAL3/4: as many PDUs as the contract allows were in progress on other MIDs.
    TooManyMids,
    /// AAL3/4: the PDU was not complete in time.
    ReassemblyTimeout,
    /// A PDU of a best-effort VC came while the adapter was overloaded.
    Overload,
}

impl Discard {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 17] = [
        Self::UnknownVc,
        Self::HecError,
        Self::Idle,
        Self::NotUserData,
        Self::NonConforming,
        Self::BufferFull,
        Self::QueueFull,
        Self::Oversized,
        Self::CrcError,
        Self::LengthError,
        Self::Aborted,
        Self::Closed,
        Self::LostCell,
        Self::TagMismatch,
        Self::TooManyMids,
        Self::ReassemblyTimeout,
        Self::Overload,
    ];

    /// What it means, and what to do, for people: one sentence, without quotes.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::UnknownVc => "Nobody has opened this VC on this interface.",
            Self::HecError => "The cell header was damaged on the line.",
            Self::Idle => "Idle or unassigned cells, which carry nothing.",
            Self::NotUserData => "OAM, RM or reserved cells of an open VC that ask nothing.",
            Self::NonConforming => {
                "It came earlier than the contract allows: the sender is too fast."
            }
            Self::BufferFull => "The receive buffer was full: the reader is too slow.",
            Self::QueueFull => "The receive queue was full: the reader is too slow.",
            Self::Oversized => "It was longer than max_sdu of the contract.",
            Self::CrcError => "Octets were damaged, or cells of it lost, on the line.",
            Self::LengthError => "Its length does not fit its cells: cells were lost on the line.",
            Self::Aborted => "Its sender gave it up.",
            Self::Closed => "The VC was closed in the middle of it.",
            Self::LostCell => "AAL3/4: cells of it were lost, or came twice, on the line.",
            Self::TagMismatch => "AAL3/4: its end is that of another PDU: cells were lost.",
            Self::TooManyMids => "AAL3/4: more PDUs at once than mids of the contract.",
            Self::ReassemblyTimeout => "AAL3/4: its end did not come in time.",
            Self::Overload => "Best effort gave way while the adapter was overloaded.",
        }
    }

    /// The reason as users read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownVc => "unknown_vc",
            Self::HecError => "hec_error",
            Self::Idle => "idle",
            Self::NotUserData => "not_user_data",
            Self::NonConforming => "non_conforming",
            Self::BufferFull => "buffer_full",
            Self::QueueFull => "queue_full",
            Self::Oversized => "oversized",
            Self::CrcError => "crc_error",
            Self::LengthError => "length_error",
            Self::Aborted => "aborted",
            Self::Closed => "closed",
            Self::LostCell => "lost_cell",
            Self::TagMismatch => "tag_mismatch",
            Self::TooManyMids => "too_many_mids",
            Self::ReassemblyTimeout => "reassembly_timeout",
            Self::Overload => "overload",
        }
    }
}

impl From<aal34::Discard> for Discard {
    fn from(reason: aal34::Discard) -> Self {
        use aal34::Discard as Aal34;
        match reason {
            Aal34::CrcError => Self::CrcError,
            Aal34::LostCell | Aal34::MissingBom | Aal34::MissingEom => Self::LostCell,
            Aal34::TagMismatch => Self::TagMismatch,
            Aal34::LengthError | Aal34::CpiError | Aal34::BaSizeError => Self::LengthError,
            Aal34::Oversized => Self::Oversized,
            Aal34::TooManyMids => Self::TooManyMids,
            Aal34::BufferFull => Self::BufferFull,
            Aal34::QueueFull => Self::QueueFull,
            Aal34::ReassemblyTimeout => Self::ReassemblyTimeout,
            Aal34::Aborted => Self::Aborted,
            Aal34::Refused => Self::NonConforming,
            Aal34::Overload => Self::Overload,
            Aal34::Closed => Self::Closed,
        }
    }
}

impl From<mssar::Discard> for Discard {
    fn from(reason: mssar::Discard) -> Self {
        use mssar::Discard as Mssar;
        match reason {
            Mssar::LostCell => Self::LostCell,
            Mssar::LengthError => Self::LengthError,
            Mssar::Oversized => Self::Oversized,
            Mssar::TooManyBlocks => Self::TooManyMids,
            Mssar::ReassemblyTimeout => Self::ReassemblyTimeout,
        }
    }
}

/// A count for each reason. As JSON it has the reasons whose count is not zero, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<Discard, u64>", from = "BTreeMap<Discard, u64>")]
pub struct DiscardCounts {
    counts: [u64; Discard::ALL.len()],
}

impl DiscardCounts {
    /// Adds `n` under `reason`.
    #[inline(always)]
    pub fn add(&mut self, reason: Discard, n: u64) {
        self.counts[reason as usize] += n;
    }

    /// The count of one reason.
    pub fn of(&self, reason: Discard) -> u64 {
        self.counts[reason as usize]
    }

    /// The sum over all reasons.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Reasons with their counts, the zero ones too.
    pub fn iter(&self) -> impl Iterator<Item = (Discard, u64)> + '_ {
        Discard::ALL.into_iter().zip(self.counts)
    }
}

impl From<[u64; Discard::ALL.len()]> for DiscardCounts {
    /// Counts in the order of [`Discard::ALL`].
    fn from(counts: [u64; Discard::ALL.len()]) -> Self {
        Self { counts }
    }
}

impl From<DiscardCounts> for BTreeMap<Discard, u64> {
    fn from(counts: DiscardCounts) -> Self {
        counts.iter().filter(|(_, n)| *n > 0).collect()
    }
}

impl From<BTreeMap<Discard, u64>> for DiscardCounts {
    fn from(named: BTreeMap<Discard, u64>) -> Self {
        let mut counts = Self::default();
        for (reason, n) in named {
            counts.add(reason, n);
        }
        counts
    }
}

/// What became of one cell at the moment it was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CellOutcome {
    /// Held in a PDU in progress.
    Accepted,
    /// It completed a PDU, which was delivered.
    Delivered,
    /// An OAM loopback cell that the adapter answered, or its own come back.
    Answered,
    /// Thrown away; earlier cells of the same PDU, if any were held, with it.
    Discarded(Discard),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_told_by_the_names_of_their_reasons() {
        let mut counts = DiscardCounts::default();
        assert_eq!(serde_json::to_string(&counts).unwrap(), "{}");
        for (n, reason) in Discard::ALL.into_iter().enumerate() {
            counts.add(reason, n as u64);
        }
        let told = serde_json::to_value(counts).unwrap();
        assert_eq!(
            serde_json::from_value::<DiscardCounts>(told.clone()).unwrap(),
            counts
        );
        let told = told.as_object().unwrap();
        assert_eq!(told.len(), Discard::ALL.len() - 1);
        for (reason, n) in counts.iter().filter(|(_, n)| *n > 0) {
            assert_eq!(told[reason.name()], n);
        }
        assert!(serde_json::from_str::<DiscardCounts>(r#"{"bad_luck":1}"#).is_err());
    }
}
