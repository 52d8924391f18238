use cellgate_core::wire::Framing;

use crate::error::Reason;
use crate::record::{Content, Direction, Marks, SduKind};
use crate::{erf, ring, sunatm};

/// How an interface frames what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    /// Frames that may hold pseudowires: Ethernet, 1, and what is captured in its place.
    Frames(Framing),
    /// Classical IP over ATM as old Linux wrote it, 18: LLC or bare IP.
    OldClip,
    /// RFC 2684 with LLC, 100.
    Rfc1483,
    /// Classical IP over ATM, 106: LLC or bare IP.
    Clip,
    /// SunATM, 123: a type, VPI and VCI before each SDU.
    SunAtm,
    /// ERF, 197, and files of ERF records.
    Erf,
    /// Cells of the Cambridge ring, in our own framing: USER0, 147.
    Ring,
    /// Files of EyeSDN, which has no link type.
    EyeSdn,
}

/// What the octets of a packet turn out to be.
pub(crate) struct Decoded {
    pub(crate) direction: Direction,
    pub(crate) content: Content,
    pub(crate) missing: usize,
    pub(crate) marks: Marks,
}

/// Octets of the longest SDU of AAL5.
pub(crate) const SDU_LEN_MAX: usize = 65_535;

impl Link {
    pub const ETHERNET: Self = Self::Frames(Framing::Ethernet);

    /// By the number in a pcap or pcapng file.
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 | 108 => Self::Frames(Framing::Loopback),
            1 => Self::ETHERNET,
            9 | 50 => Self::Frames(Framing::Ppp),
            // Raw IP has these numbers where systems number it by themselves.
            12 | 14 | 101 | 228 | 229 => Self::Frames(Framing::Ip),
            18 => Self::OldClip,
            51 => Self::Frames(Framing::PppOe),
            100 => Self::Rfc1483,
            104 => Self::Frames(Framing::CiscoHdlc),
            106 => Self::Clip,
            113 => Self::Frames(Framing::Cooked),
            123 => Self::SunAtm,
            147 => Self::Ring,
            197 => Self::Erf,
            219 => Self::Frames(Framing::Mpls),
            276 => Self::Frames(Framing::Cooked2),
            _ => return None,
        })
    }

    /// A number for it in a pcap or pcapng file.
    pub const fn number(self) -> Option<u16> {
        Some(match self {
            Self::Frames(framing) => match framing {
                Framing::Ethernet => 1,
                Framing::Cooked => 113,
                Framing::Cooked2 => 276,
                Framing::Ip => 101,
                Framing::Loopback => 0,
                Framing::Ppp => 9,
                Framing::PppOe => 51,
                Framing::CiscoHdlc => 104,
                Framing::Mpls => 219,
            },
            Self::OldClip => 18,
            Self::Rfc1483 => 100,
            Self::Clip => 106,
            Self::SunAtm => 123,
            Self::Ring => 147,
            Self::Erf => 197,
            Self::EyeSdn => return None,
        })
    }

    /// What a packet of `original` octets is, of which `octets` were kept. The last `fcs_len` are a
    /// check sequence.
    pub(crate) fn decode(
        self,
        octets: &[u8],
        original: u32,
        fcs_len: usize,
    ) -> Result<Decoded, Reason> {
        // Some programs say 0, or less than they kept, for a length that they do not know.
        let missing = (original as usize).saturating_sub(octets.len());
        let mut direction = Direction::Unknown;
        let mut missing = missing;
        let content = match self {
            Self::SunAtm => return sunatm::parse(octets, missing),
            Self::Ring => return ring::parse(octets, missing),
            Self::Erf => return erf::parse(octets, missing).map(|record| record.decoded),
            Self::Frames(framing) => {
                direction = cooked_direction(framing, octets);
                let kept_fcs = fcs_len.saturating_sub(missing).min(octets.len());
                missing = missing.saturating_sub(fcs_len);
                frame(framing, &octets[..octets.len() - kept_fcs])
            }
            Self::EyeSdn => frame(Framing::Ethernet, octets),
            Self::Rfc1483 => sdu(SduKind::LLC, octets, missing)?,
            Self::OldClip | Self::Clip => {
                let kind = match octets {
                    [0xaa, 0xaa, 0x03, ..] => SduKind::LLC,
                    _ => SduKind::RAW,
                };
                sdu(kind, octets, missing)?
            }
        };
        Ok(Decoded {
            direction,
            content,
            missing,
            marks: Marks::default(),
        })
    }
}

/// Linux says which frames were the host's own.
fn cooked_direction(framing: Framing, octets: &[u8]) -> Direction {
    const OUTGOING: u8 = 4;
    let kind = match (framing, octets) {
        (Framing::Cooked, [0, kind, ..]) => *kind,
        (Framing::Cooked2, [_, _, _, _, _, _, _, _, _, _, kind, ..]) => *kind,
        _ => return Direction::Unknown,
    };
    match kind {
        OUTGOING => Direction::Transmit,
        0..OUTGOING => Direction::Receive,
        _ => Direction::Unknown,
    }
}

fn frame(framing: Framing, octets: &[u8]) -> Content {
    Content::Frame {
        framing,
        octets: octets.to_vec(),
    }
}

fn sdu(kind: SduKind, octets: &[u8], missing: usize) -> Result<Content, Reason> {
    check_sdu(octets, missing, SDU_LEN_MAX)?;
    Ok(Content::Sdu {
        address: None,
        kind,
        sdu: octets.to_vec(),
    })
}

/// Refuses what no SDU can be.
pub(crate) fn check_sdu(octets: &[u8], missing: usize, max: usize) -> Result<(), Reason> {
    let original = octets.len() + missing;
    if original > max {
        return Err(Reason::SduTooLong(original));
    }
    if octets.is_empty() {
        return Err(Reason::Empty { original });
    }
    Ok(())
}
