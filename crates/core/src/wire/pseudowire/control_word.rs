use super::PseudowireError;

/// Octets of the generic control word.
pub const CONTROL_WORD_LEN: usize = 4;
/// Packets below this many octets, control word and all, may have been padded on the way, so the
/// control word says their length (RFC 4385 section 3).
const LENGTH_BELOW: usize = 64;

/// The sequence number of a pseudowire packet; 0 says that there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sequence(u16);

impl Sequence {
    /// Packets are not numbered.
    pub const NONE: Self = Self(0);
    /// The number of the first packet.
    pub const FIRST: Self = Self(1);

    /// From the field.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The number of the packet after this one: 65,535 is followed by 1 (RFC 4385 section 4.1).
    /// After a packet without number comes another.
    pub const fn next(self) -> Self {
        match self.0 {
            0 => Self::NONE,
            u16::MAX => Self::FIRST,
            n => Self(n + 1),
        }
    }
}

/// What a sequence number says of its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceVerdict {
    /// No number, nothing to say.
    Unnumbered,
    /// Not older than expected.
    InOrder {
        /// Packets that were expected before it and have not come.
        missing: u16,
    },
    /// Older than expected: to be discarded.
    OutOfOrder,
}

/// The receiver's side of the sequence numbers of one pseudowire (RFC 4385 section 4.2).
#[derive(Clone, Copy, Debug, Default)]
pub struct SequenceReceiver {
    /// The next number, once one has come.
    expected: Option<u16>,
}

impl SequenceReceiver {
    /// A receiver that takes any first number.
    pub const fn new() -> Self {
        Self { expected: None }
    }

    /// Judges the next packet. A packet out of order leaves what is expected as it was.
    pub fn receive(&mut self, sequence: Sequence) -> SequenceVerdict {
        if sequence == Sequence::NONE {
            return SequenceVerdict::Unnumbered;
        }
        // Numbers are 1 to 65,535, a circle of 65,535; counted from 0 here.
        const CIRCLE: u32 = 65_535;
        let at = u32::from(sequence.0) - 1;
        let expected = self.expected.map_or(at, |n| u32::from(n) - 1);
        let ahead = (at + CIRCLE - expected) % CIRCLE;
        if ahead >= 1 << 15 {
            return SequenceVerdict::OutOfOrder;
        }
        self.expected = Some(sequence.next().0);
        SequenceVerdict::InOrder {
            missing: ahead as u16,
        }
    }
}

/// The generic control word (RFC 4385 section 3, RFC 4717 section 7.1).
///
/// ```text
///  0                   1                   2                   3
/// +-------+-------+---+-----------+-------------------------------+
/// |0 0 0 0| flags | 0 |  length   |        sequence number        |
/// +-------+-------+---+-----------+-------------------------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlWord {
    flags: u8,
    length: u8,
    /// Number of the packet.
    pub sequence: Sequence,
}

impl ControlWord {
    /// A control word without flags and length.
    pub const fn new(sequence: Sequence) -> Self {
        Self {
            flags: 0,
            length: 0,
            sequence,
        }
    }

    /// The same with the low four bits of `flags`.
    pub const fn with_flags(self, flags: u8) -> Self {
        Self {
            flags: flags & 0x0f,
            ..self
        }
    }

    /// The same for a payload of so many octets behind it: the length is said if a link may pad.
    pub const fn with_payload_len(self, octets: usize) -> Self {
        let length = octets.saturating_add(CONTROL_WORD_LEN);
        Self {
            length: if length < LENGTH_BELOW {
                length as u8
            } else {
                0
            },
            ..self
        }
    }

    /// Four bits; what they mean depends on the service.
    pub const fn flags(self) -> u8 {
        self.flags
    }

    /// Octets of the packet from the control word on, 4 to 63; 0 if it does not say.
    pub const fn length(self) -> u8 {
        self.length
    }

    /// The control word at the start of a packet, and its payload without padding.
    pub fn parse(packet: &[u8]) -> Result<(Self, &[u8]), PseudowireError> {
        let (octets, rest) = packet
            .split_first_chunk::<CONTROL_WORD_LEN>()
            .ok_or(PseudowireError::TooShort { len: packet.len() })?;
        let [flags, length, s0, s1] = *octets;
        super::no_channel(flags)?;
        let length = length & 0x3f;
        let word = Self {
            flags: flags & 0x0f,
            length,
            sequence: Sequence::from_bits(u16::from_be_bytes([s0, s1])),
        };
        if length == 0 {
            return Ok((word, rest));
        }
        let payload = usize::from(length)
            .checked_sub(CONTROL_WORD_LEN)
            .and_then(|len| rest.get(..len))
            .ok_or(PseudowireError::ControlLength {
                length,
                len: packet.len(),
            })?;
        Ok((word, payload))
    }

    /// The octets.
    pub const fn emit(self) -> [u8; CONTROL_WORD_LEN] {
        let [s0, s1] = self.sequence.bits().to_be_bytes();
        [self.flags, self.length, s0, s1]
    }
}
