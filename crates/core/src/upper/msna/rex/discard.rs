use core::fmt;

use crate::upper::msna::MessageError;

/// Reasons to throw a block away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RexDiscard {
    /// It is too short to be one.
    Short,
    CrcError,
    UnknownVersion,
    UnknownKind,
    /// A field of it says what cannot be.
    BadField,
    /// It is of or to a predecessor, or of a call that has ended.
    Stale,
    /// It is of a session that is not there.
    UnknownSession,
    /// It says what was said before.
    Duplicate,
    /// A fragment of another message than the first, or too far on.
    Misplaced,
    /// It begins what there is no room for.
    Busy,
    /// It begins what is longer than may be.
    TooLong,
}

impl RexDiscard {
    pub const ALL: [Self; 11] = [
        Self::Short,
        Self::CrcError,
        Self::UnknownVersion,
        Self::UnknownKind,
        Self::BadField,
        Self::Stale,
        Self::UnknownSession,
        Self::Duplicate,
        Self::Misplaced,
        Self::Busy,
        Self::TooLong,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::CrcError => "crc_error",
            Self::UnknownVersion => "unknown_version",
            Self::UnknownKind => "unknown_kind",
            Self::BadField => "bad_field",
            Self::Stale => "stale",
            Self::UnknownSession => "unknown_session",
            Self::Duplicate => "duplicate",
            Self::Misplaced => "misplaced",
            Self::Busy => "busy",
            Self::TooLong => "too_long",
        }
    }
}

impl fmt::Display for RexDiscard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<MessageError> for RexDiscard {
    fn from(error: MessageError) -> Self {
        match error {
            MessageError::Short => Self::Short,
            MessageError::Crc => Self::CrcError,
            MessageError::Version(_) => Self::UnknownVersion,
            MessageError::Kind(_) => Self::UnknownKind,
            MessageError::Field => Self::BadField,
        }
    }
}

/// The fates of blocks that came: all of them are here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RexCounts {
    pub received: u64,
    pub taken: u64,
    pub(super) discarded: [u64; RexDiscard::ALL.len()],
}

impl RexCounts {
    pub const fn discarded(&self, reason: RexDiscard) -> u64 {
        self.discarded[reason as usize]
    }
}
