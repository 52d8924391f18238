//! The frames of a stream.
//!
//! ```text
//! octet 0      1       2          4                8                   16
//!       +------+-------+----------+----------------+-------------------+ - - - +---------+ - - +
//!       | kind | place | transfer |     length     |      offset       |       | payload |     |
//!       +------+-------+----------+----------------+-------------------+ - - - +---------+ - - +
//! ```
//!
//! Numbers go most significant octet first. The length is that of the payload. The first part of a
//! disk-PDU (place: bit 0) has the disk layer's header before the payload, the last (bit 1) its
//! tail behind it. Before all frames each end sends [`PREAMBLE`].

use crate::aal::tree::Place;
use crate::terminal::DiskHeader;

/// What each end begins with: what it is, and the version of what follows.
pub(super) const PREAMBLE: [u8; 8] = *b"cellgat\x01";

/// Octets of payload in a frame, at most.
pub(super) const PAYLOAD_MAX: u32 = 1 << 16;

/// Octets of a frame, at most.
pub const FRAME_MAX: usize =
    FrameHeader::LEN + DiskHeader::LEN + PAYLOAD_MAX as usize + DiskHeader::TAIL;

/// What the other end says that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamFault {
    #[error("at the other end is something else than a terminal, or one of another version")]
    Stranger,
    #[error("a frame of kind {0}, which nobody knows")]
    UnknownKind(u8),
    #[error("a frame of {0} octets is too long")]
    TooLong(u32),
    #[error("a frame of transfer {0}, which nobody wants")]
    UnknownTransfer(u16),
    #[error("octets of transfer {transfer} at {offset}, where they cannot be")]
    OutOfPlace { transfer: u16, offset: u64 },
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// Whoever sends it is there.
    Alive,
    /// A part of the conversation.
    Said,
    /// A part of a disk-PDU.
    Part,
    /// No more of a transfer comes.
    End,
}

impl FrameKind {
    const ALL: [Self; 4] = [Self::Alive, Self::Said, Self::Part, Self::End];
}

/// What is before the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) kind: FrameKind,
    pub(super) place: Place,
    pub(super) transfer: u16,
    pub(super) length: u32,
    /// Octets of the file, or of the conversation, before the payload.
    pub(super) offset: u64,
}

impl FrameHeader {
    pub(super) const LEN: usize = 16;

    /// One without a payload.
    pub(super) const fn bare(kind: FrameKind, transfer: u16) -> Self {
        Self {
            kind,
            place: Place::Middle,
            transfer,
            length: 0,
            offset: 0,
        }
    }

    pub(super) fn parse(octets: &[u8; Self::LEN]) -> Result<Self, StreamFault> {
        let [kind, place, t0, t1, l0, l1, l2, l3, offset @ ..] = *octets;
        let transfer = u16::from_be_bytes([t0, t1]);
        let offset = u64::from_be_bytes(offset);
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        let known = usize::from(kind)
            .checked_sub(1)
            .and_then(|at| FrameKind::ALL.get(at));
        let kind = *known.ok_or(StreamFault::UnknownKind(kind))?;
        let has_payload = matches!(kind, FrameKind::Said | FrameKind::Part);
        if length > if has_payload { PAYLOAD_MAX } else { 0 } {
            return Err(StreamFault::TooLong(length));
        }
        let last_place = if kind == FrameKind::Part { 3 } else { 0 };
        if place > last_place {
            return Err(StreamFault::OutOfPlace { transfer, offset });
        }
        Ok(Self {
            kind,
            place: Place::new(place & 1 != 0, place & 2 != 0),
            transfer,
            length,
            offset,
        })
    }

    pub(super) fn emit(&self) -> [u8; Self::LEN] {
        let mut octets = [0; Self::LEN];
        octets[0] = self.kind as u8 + 1;
        octets[1] = u8::from(self.place.is_first()) | u8::from(self.place.is_last()) << 1;
        octets[2..4].copy_from_slice(&self.transfer.to_be_bytes());
        octets[4..8].copy_from_slice(&self.length.to_be_bytes());
        octets[8..].copy_from_slice(&self.offset.to_be_bytes());
        octets
    }

    /// The fault that its payload cannot be where it says.
    pub(super) const fn out_of_place(&self) -> StreamFault {
        StreamFault::OutOfPlace {
            transfer: self.transfer,
            offset: self.offset,
        }
    }
}
