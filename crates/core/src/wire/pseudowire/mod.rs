//! ATM over pseudowires (RFC 4717): what follows the MPLS label.
//!
//! ```text
//! N to one         [control word]  52-octet cells
//! one to one VCC   0, sequence  { M V - PTI C, payload }
//! one to one VPC   0, sequence  { M V - PTI C, VCI, payload }
//! AAL5 SDU         control word with T E C U  SDU, or one 52-octet cell
//! AAL5 PDU         0, sequence  M V - U E C  part of a CPCS-PDU, or one-to-one cells
//! ```
//!
//! No packing timers, no negotiation (RFC 4447); of the associated channel (RFC 5085) the header.

mod aal5;
mod cells;
mod channel;
mod control_word;
mod words;

pub use aal5::{PduHeader, SduHeader, administrative_cell};
pub use cells::{CellMode, Cells};
pub use channel::ChannelHeader;
pub use control_word::{
    CONTROL_WORD_LEN, ControlWord, Sequence, SequenceReceiver, SequenceVerdict,
};
pub use words::{CellPseudowire, CellPseudowireError, ServiceError};

use super::{PAYLOAD_LEN, VpiVci};

/// What a pseudowire carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// Cells.
    Cells(CellMode),
    /// SDUs of AAL5 of one VC; its OAM cells between them.
    Aal5Sdu,
    /// PDUs of AAL5 of one VC with their trailers, whole or in parts; its OAM cells between them.
    Aal5Pdu,
}

/// One pseudowire, as both ends have agreed on it: nothing in a packet tells its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pseudowire {
    /// What it carries.
    pub service: Service,
    /// The VC it stands for. A VPC uses the VPI only, an N-to-one pseudowire nothing.
    pub address: VpiVci,
}

/// Why octets are no packet of a pseudowire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PseudowireError {
    /// Fewer octets than the packet's header, or nothing behind it.
    #[error("{len} octets are fewer than the packet's header and content")]
    TooShort {
        /// Octets of the packet.
        len: usize,
    },
    /// The first four bits are not 0: an associated channel (1), or no pseudowire packet.
    #[error("the control word begins with {0}, not 0")]
    FirstNibble(u8),
    /// The control word says more octets than there are, or fewer than its own.
    #[error("the control word says {length} octets of {len}")]
    ControlLength {
        /// The length field.
        length: u8,
        /// Octets of the packet.
        len: usize,
    },
    /// No whole number of cells, or none.
    #[error("{octets} octets are no whole number of {stride}-octet cells")]
    CellOctets {
        /// Octets behind the header.
        octets: usize,
        /// Octets of a cell.
        stride: usize,
    },
    /// M or V of the ATM-specific octet contradict the service.
    #[error("the ATM-specific octet 0x{0:02x} is of another service")]
    AtmSpecific(u8),
}

/// What a packet holds.
#[derive(Clone, Debug)]
pub enum PacketContent<'a> {
    /// Cells, each with its whole header; at least one.
    Cells(Cells<'a>),
    /// An SDU of AAL5.
    Sdu {
        /// What the control word says.
        header: SduHeader,
        /// At least one octet.
        sdu: &'a [u8],
    },
    /// A CPCS-PDU of AAL5 or a part of one.
    Pdu {
        /// What the control word and the ATM-specific octet say.
        header: PduHeader,
        /// The payloads of its cells; at least one.
        payloads: &'a [[u8; PAYLOAD_LEN]],
    },
}

/// A packet of a pseudowire.
#[derive(Clone, Debug)]
pub struct Packet<'a> {
    /// Its number; none where there is no control word.
    pub sequence: Sequence,
    /// What it holds.
    pub content: PacketContent<'a>,
}

impl Pseudowire {
    /// What `packet`, all that follows the label, holds.
    pub fn parse<'a>(&self, packet: &'a [u8]) -> Result<Packet<'a>, PseudowireError> {
        match self.service {
            Service::Cells(mode) => self.parse_cells(mode, packet),
            Service::Aal5Sdu => self.parse_sdu(packet),
            Service::Aal5Pdu => self.parse_pdu(packet),
        }
    }

    fn parse_cells<'a>(
        &self,
        mode: CellMode,
        packet: &'a [u8],
    ) -> Result<Packet<'a>, PseudowireError> {
        let (sequence, octets) = match mode {
            CellMode::NToOne {
                control_word: false,
            } => (Sequence::NONE, packet),
            CellMode::NToOne { control_word: true } => {
                let (word, octets) = ControlWord::parse(packet)?;
                (word.sequence, octets)
            }
            CellMode::OneToOneVcc | CellMode::OneToOneVpc => numbered(packet)?,
        };
        let cells = Cells::parse(mode, self.address, octets)?;
        Ok(Packet {
            sequence,
            content: PacketContent::Cells(cells),
        })
    }

    fn parse_sdu<'a>(&self, packet: &'a [u8]) -> Result<Packet<'a>, PseudowireError> {
        let (word, sdu) = ControlWord::parse(packet)?;
        let content = if aal5::is_administrative(word) {
            let mode = CellMode::NToOne { control_word: true };
            PacketContent::Cells(Cells::parse(mode, self.address, sdu)?)
        } else if sdu.is_empty() {
            return Err(PseudowireError::TooShort { len: packet.len() });
        } else {
            PacketContent::Sdu {
                header: SduHeader::of(word),
                sdu,
            }
        };
        Ok(Packet {
            sequence: word.sequence,
            content,
        })
    }

    fn parse_pdu<'a>(&self, packet: &'a [u8]) -> Result<Packet<'a>, PseudowireError> {
        let (sequence, octets) = numbered(packet)?;
        let (specific, part) = octets
            .split_first()
            .ok_or(PseudowireError::TooShort { len: packet.len() })?;
        if !cells::is_frame(*specific) {
            return self.parse_cells(CellMode::OneToOneVcc, packet);
        }
        let (payloads, rest) = part.as_chunks::<PAYLOAD_LEN>();
        if payloads.is_empty() || !rest.is_empty() {
            return Err(PseudowireError::CellOctets {
                octets: part.len(),
                stride: PAYLOAD_LEN,
            });
        }
        let header = PduHeader::of(sequence, *specific);
        Ok(Packet {
            sequence,
            content: PacketContent::Pdu { header, payloads },
        })
    }
}

/// The three octets before the first ATM-specific octet.
fn numbered(packet: &[u8]) -> Result<(Sequence, &[u8]), PseudowireError> {
    let ([first, s0, s1], rest) = packet
        .split_first_chunk()
        .ok_or(PseudowireError::TooShort { len: packet.len() })?;
    no_channel(*first)?;
    Ok((Sequence::from_bits(u16::from_be_bytes([*s0, *s1])), rest))
}

/// What [`numbered`] reads.
fn with_sequence(sequence: Sequence) -> [u8; 3] {
    let [s0, s1] = sequence.bits().to_be_bytes();
    [0, s0, s1]
}

//= RFC 4385 section 3: a packet of data begins with 0000
fn no_channel(first: u8) -> Result<(), PseudowireError> {
    match first >> 4 {
        0 => Ok(()),
        other => Err(PseudowireError::FirstNibble(other)),
    }
}
