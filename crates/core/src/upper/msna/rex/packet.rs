use super::super::message::{CRC_LEN, Fields, MessageError, crc32};
use super::Refusal;

/// Octets of a block that are not the message's whose fragment is in it, at most.
pub const OVERHEAD: usize = HEADER_LEN + FLOOR_LEN + FRAGMENT_LEN + CRC_LEN;

const VERSION: u8 = 1;
const HEADER_LEN: usize = 34;
const FLOOR_LEN: usize = 8;
const FRAGMENT_LEN: usize = 11;

/// A block of REX.
///
/// ```text
/// octet 0         1      2         10       18         26     34            len - 4
/// +---------+------+---------+--------+----------+------+------ ... ------+--------+
/// | version | kind | session | sender | receiver | call |      body       | CRC-32 |
/// +---------+------+---------+--------+----------+------+------ ... ------+--------+
///
/// fragment   length 4, size 2, number 2, round 2, asks 1, octets
/// progress   round 2, next 2, beyond 8
/// ```
///
/// The CRC is that of AAL5. The layout is ours: that of ANSA stands in no text that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Numbered by the server, from 1 on; 0: none yet.
    pub session: u64,
    /// The incarnation of who says it.
    pub sender: u64,
    /// That of who is meant; 0: whoever it is.
    pub receiver: u64,
    /// Numbered by the caller, from 1 on.
    pub call: u64,
    pub body: Body<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// From a caller: asks for a session, for this call and those that follow.
    Hello,
    /// From a server, of the same call: the session, and how long it outlives silence.
    Welcome { keep_us: u32 },
    /// From a server: there is no such session.
    Gone,
    /// A fragment of a call. Calls below the floor have ended.
    Call { floor: u64, fragment: Fragment<'a> },
    /// A fragment of a call that has no reply.
    Announcement { floor: u64, fragment: Fragment<'a> },
    /// From a server: what has come of a call.
    Received(Progress),
    /// From a server: all of the call has come, and there is no reply yet.
    Working,
    /// A fragment of a reply.
    Reply(Fragment<'a>),
    /// From a caller: what has come of the reply. Round 0: it asks what became of the call.
    Probe { floor: u64, progress: Progress },
    /// From a server: the call is not executed.
    Refused(Refusal),
    /// From a server: the call has no reply, and will have none.
    Dropped,
    /// From a caller: it wants no more of the call.
    Ended { floor: u64 },
}

/// How a message is cut: fragments of one size, but for the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    length: u32,
    size: u16,
}

impl Cut {
    /// None: it would take more fragments than there are numbers.
    pub fn new(length: u32, size: u16) -> Option<Self> {
        let count = length.div_ceil(u32::from(size).max(1));
        (size > 0 && count <= u16::MAX.into()).then_some(Self { length, size })
    }

    /// Octets of the message.
    pub const fn length(self) -> usize {
        self.length as usize
    }

    /// Octets of each fragment but the last.
    pub const fn size(self) -> u16 {
        self.size
    }

    /// Fragments; an empty message has one.
    pub const fn count(self) -> u16 {
        match self.length {
            0 => 1,
            length => length.div_ceil(self.size as u32) as u16,
        }
    }

    /// The place of a fragment in the message.
    pub fn range(self, number: u16) -> core::ops::Range<usize> {
        let size = usize::from(self.size);
        let from = (usize::from(number) * size).min(self.length());
        from..(from + size).min(self.length())
    }
}

/// A part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    pub cut: Cut,
    pub number: u16,
    pub round: u16,
    /// The sender waits to hear what has come.
    pub asks: bool,
    pub octets: &'a [u8],
}

/// The fragments of a message that have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Of the fragment that asked.
    pub round: u16,
    /// All before this one have come.
    pub next: u16,
    /// Of the 64 behind it those that have, the first in the lowest bit.
    pub beyond: u64,
}

impl<'a> Packet<'a> {
    /// From a block.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(block: &'a [u8]) -> Result<Self, MessageError> {
        let (said, crc) = block
            .split_last_chunk::<CRC_LEN>()
            .ok_or(MessageError::Short)?;
        if crc32(said).to_be_bytes() != *crc {
            return Err(MessageError::Crc);
        }
        Self::parse_said(said)
    }

    /// Without a look at the CRC.
    pub(super) fn parse_unchecked(block: &'a [u8]) -> Result<Self, MessageError> {
        let said = block.split_last_chunk::<CRC_LEN>();
        Self::parse_said(said.ok_or(MessageError::Short)?.0)
    }

    fn parse_said(said: &'a [u8]) -> Result<Self, MessageError> {
        let mut fields = Fields(said);
        let [version, kind] = fields.take()?;
        if version != VERSION {
            return Err(MessageError::Version(version));
        }
        let (session, sender) = (fields.u64()?, fields.u64()?);
        let (receiver, call) = (fields.u64()?, fields.u64()?);
        let body = match kind {
            1 => Body::Hello,
            2 => Body::Welcome {
                keep_us: fields.u32()?,
            },
            3 => Body::Gone,
            4 | 5 => {
                let floor = fields.u64()?;
                let fragment = Fragment::parse(&mut fields)?;
                match kind {
                    4 => Body::Call { floor, fragment },
                    _ => Body::Announcement { floor, fragment },
                }
            }
            6 => Body::Received(Progress::parse(&mut fields)?),
            7 => Body::Working,
            8 => Body::Reply(Fragment::parse(&mut fields)?),
            9 => Body::Probe {
                floor: fields.u64()?,
                progress: Progress::parse(&mut fields)?,
            },
            10 => Body::Refused(fields.one_of(&Refusal::ALL)?),
            11 => Body::Dropped,
            12 => Body::Ended {
                floor: fields.u64()?,
            },
            kind => return Err(MessageError::Kind(kind)),
        };
        if !fields.0.is_empty() {
            return Err(MessageError::Field);
        }
        Ok(Self {
            session,
            sender,
            receiver,
            call,
            body,
        })
    }

    /// The block.
    pub fn emit(&self) -> Vec<u8> {
        let octets = match &self.body {
            Body::Call { fragment, .. } | Body::Announcement { fragment, .. } => fragment.octets,
            Body::Reply(fragment) => fragment.octets,
            _ => &[],
        };
        let mut out = Vec::with_capacity(OVERHEAD + octets.len());
        out.extend([VERSION, self.body.kind()]);
        out.extend(self.session.to_be_bytes());
        out.extend(self.sender.to_be_bytes());
        out.extend(self.receiver.to_be_bytes());
        out.extend(self.call.to_be_bytes());
        match self.body {
            Body::Hello | Body::Gone | Body::Working | Body::Dropped => {}
            Body::Welcome { keep_us } => out.extend(keep_us.to_be_bytes()),
            Body::Call { floor, fragment } | Body::Announcement { floor, fragment } => {
                out.extend(floor.to_be_bytes());
                fragment.emit(&mut out);
            }
            Body::Received(progress) => progress.emit(&mut out),
            Body::Reply(fragment) => fragment.emit(&mut out),
            Body::Probe { floor, progress } => {
                out.extend(floor.to_be_bytes());
                progress.emit(&mut out);
            }
            Body::Refused(reason) => out.push(reason as u8),
            Body::Ended { floor } => out.extend(floor.to_be_bytes()),
        }
        out.extend(crc32(&out).to_be_bytes());
        out
    }
}

impl Body<'_> {
    const fn kind(&self) -> u8 {
        match self {
            Self::Hello => 1,
            Self::Welcome { .. } => 2,
            Self::Gone => 3,
            Self::Call { .. } => 4,
            Self::Announcement { .. } => 5,
            Self::Received(_) => 6,
            Self::Working => 7,
            Self::Reply(_) => 8,
            Self::Probe { .. } => 9,
            Self::Refused(_) => 10,
            Self::Dropped => 11,
            Self::Ended { .. } => 12,
        }
    }

    /// Whether a server says it.
    pub(super) const fn is_of_server(&self) -> bool {
        matches!(
            self,
            Self::Welcome { .. }
                | Self::Gone
                | Self::Received(_)
                | Self::Working
                | Self::Reply(_)
                | Self::Refused(_)
                | Self::Dropped
        )
    }

    /// The floor that a caller says.
    pub(super) const fn floor(&self) -> Option<u64> {
        match self {
            Self::Call { floor, .. }
            | Self::Announcement { floor, .. }
            | Self::Probe { floor, .. }
            | Self::Ended { floor } => Some(*floor),
            _ => None,
        }
    }
}

impl<'a> Fragment<'a> {
    fn parse(fields: &mut Fields<'a>) -> Result<Self, MessageError> {
        let (length, size) = (fields.u32()?, fields.u16()?);
        let cut = Cut::new(length, size).ok_or(MessageError::Field)?;
        let fragment = Self {
            cut,
            number: fields.u16()?,
            round: fields.u16()?,
            asks: fields.one_of(&[false, true])?,
            octets: fields.rest(),
        };
        let number = fragment.number;
        let fits = number < cut.count() && fragment.octets.len() == cut.range(number).len();
        fits.then_some(fragment).ok_or(MessageError::Field)
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend(self.cut.length.to_be_bytes());
        out.extend(self.cut.size.to_be_bytes());
        out.extend(self.number.to_be_bytes());
        out.extend(self.round.to_be_bytes());
        out.push(u8::from(self.asks));
        out.extend(self.octets);
    }
}

impl Progress {
    fn parse(fields: &mut Fields<'_>) -> Result<Self, MessageError> {
        Ok(Self {
            round: fields.u16()?,
            next: fields.u16()?,
            beyond: fields.u64()?,
        })
    }

    fn emit(self, out: &mut Vec<u8>) {
        out.extend(self.round.to_be_bytes());
        out.extend(self.next.to_be_bytes());
        out.extend(self.beyond.to_be_bytes());
    }
}
