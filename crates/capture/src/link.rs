use crate::error::Reason;
use crate::record::{Content, Direction, SduKind};
use crate::{erf, sunatm};

/// How an interface frames what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    /// Ethernet, 1.
    Ethernet,
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
    /// Files of EyeSDN, which has no link type.
    EyeSdn,
}

/// What the octets of a packet turn out to be.
pub(crate) struct Decoded {
    pub(crate) direction: Direction,
    pub(crate) content: Content,
    pub(crate) missing: usize,
}

/// Octets of the longest SDU of AAL5.
pub(crate) const SDU_LEN_MAX: usize = 65_535;

impl Link {
    /// By the number in a pcap or pcapng file.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Ethernet),
            18 => Some(Self::OldClip),
            100 => Some(Self::Rfc1483),
            106 => Some(Self::Clip),
            123 => Some(Self::SunAtm),
            197 => Some(Self::Erf),
            _ => None,
        }
    }

    /// The number in a pcap or pcapng file.
    pub const fn number(self) -> Option<u16> {
        match self {
            Self::Ethernet => Some(1),
            Self::OldClip => Some(18),
            Self::Rfc1483 => Some(100),
            Self::Clip => Some(106),
            Self::SunAtm => Some(123),
            Self::Erf => Some(197),
            Self::EyeSdn => None,
        }
    }

    /// What a packet of `original` octets is, of which `octets` were kept.
    pub(crate) fn decode(self, octets: &[u8], original: u32) -> Result<Decoded, Reason> {
        let kept = octets.len();
        let missing = (original as usize)
            .checked_sub(kept)
            .ok_or(Reason::Lengths {
                kept: kept as u32,
                original,
            })?;
        let direction = Direction::Unknown;
        let content = match self {
            Self::SunAtm => return sunatm::parse(octets, missing),
            Self::Erf => return erf::parse(octets, missing).map(|record| record.decoded),
            Self::Ethernet | Self::EyeSdn => Content::Frame(octets.to_vec()),
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
        })
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
