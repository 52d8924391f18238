use core::fmt;
use core::net::Ipv4Addr;
use core::str::FromStr;

use cellgate_simd::{Fold, Kernel, with_features};
use serde::{Deserialize, Serialize};

use crate::wire::Mssar;

/// Octets of a contract or of an offer, at most.
pub const TEXT_MAX: usize = 512;

/// A service access point of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sap(pub u64);

/// One end of an association, or of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Four octets, as those of an IPv4 address.
    pub host: Ipv4Addr,
    pub sap: Sap,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.sap.0)
    }
}

/// A text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}: expected HOST:SAP, as 10.0.0.2:7")]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let parts = text.split_once(':');
        let parsed = parts.and_then(|(host, sap)| {
            Some(Self {
                host: host.parse().ok()?,
                sap: Sap(sap.parse().ok()?),
            })
        });
        parsed.ok_or_else(|| AddressError(text.to_owned()))
    }
}

/// The cells of a circuit that interrupt its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notify {
    Every,
    /// The first of each block.
    First,
    Last,
    Both,
}

impl Notify {
    pub const ALL: [Self; 4] = [Self::Every, Self::First, Self::Last, Self::Both];

    /// Whether a cell with this header interrupts.
    pub const fn is_met(self, header: Mssar) -> bool {
        match self {
            Self::Every => true,
            Self::First => header.start,
            Self::Last => header.is_last(),
            Self::Both => header.start || header.is_last(),
        }
    }
}

/// Reasons to refuse an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nobody serves there.
    NoSap,
    /// So much is not to be had; the offer is.
    NotAdmitted,
    /// Too many of this caller's wait for an answer.
    Busy,
    /// The contract makes no sense.
    BadContract,
}

impl Refusal {
    const ALL: [Self; 4] = [
        Self::NoSap,
        Self::NotAdmitted,
        Self::Busy,
        Self::BadContract,
    ];
}

/// A message from host to host about associations.
///
/// ```text
/// octet 0         1      2      6             14     18    22               len - 4
/// +---------+------+------+-------------+------+------+------ ... ------+--------+
/// | version | kind | call | incarnation | from |  to  |      body       | CRC-32 |
/// +---------+------+------+-------------+------+------+------ ... ------+--------+
///                          of from       hosts
///
/// Connect   SAP of from 8, of to 8; VCI 2; notify 1; contract
/// Accept    incarnation of to 8; VCI 2
/// Refuse    incarnation of to 8; reason 1; offer
/// Release   incarnation of to 8; VCI 2
/// Datagram  SAP of from 8, of to 8; octets
/// ```
///
/// The CRC is that of AAL5. The layout is ours: the Cambridge one stands in no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Chosen by the caller; an answer has that of its call.
    pub call: u32,
    /// Of the sender: a greater number each time that it begins.
    pub incarnation: u64,
    pub from: Ipv4Addr,
    pub to: Ipv4Addr,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Connect(Connect),
    Accept {
        /// Of the caller: an answer to its predecessor is none.
        caller: u64,
        /// Of the end that accepts: it receives there.
        vci: u16,
    },
    Refuse {
        caller: u64,
        reason: Refusal,
        /// A contract that would be admitted; empty: none.
        offer: String,
    },
    /// A courtesy: no more comes on this circuit of the receiver's.
    Release {
        /// Of the receiver.
        receiver: u64,
        vci: u16,
    },
    Datagram {
        from: Sap,
        to: Sap,
        octets: Vec<u8>,
    },
}

/// Asks for an association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    pub from: Sap,
    pub to: Sap,
    /// Of the caller: it receives there.
    pub vci: u16,
    pub notify: Notify,
    pub contract: String,
}

/// Faults of octets that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    #[error("too short")]
    Short,
    #[error("the CRC does not match")]
    Crc,
    #[error("version {0}")]
    Version(u8),
    #[error("kind {0}")]
    Kind(u8),
    #[error("a field says what cannot be")]
    Field,
}

const VERSION: u8 = 1;
pub(super) const CRC_LEN: usize = 4;

impl Message {
    /// From a block.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(block: &[u8]) -> Result<Self, MessageError> {
        let (said, crc) = block
            .split_last_chunk::<CRC_LEN>()
            .ok_or(MessageError::Short)?;
        if crc32(said).to_be_bytes() != *crc {
            return Err(MessageError::Crc);
        }
        let mut fields = Fields(said);
        let [version, kind] = fields.take()?;
        if version != VERSION {
            return Err(MessageError::Version(version));
        }
        let call = fields.u32()?;
        let incarnation = fields.u64()?;
        let (from, to) = (fields.host()?, fields.host()?);
        let body = match kind {
            1 => Body::Connect(Connect {
                from: fields.sap()?,
                to: fields.sap()?,
                vci: fields.u16()?,
                notify: fields.one_of(&Notify::ALL)?,
                contract: fields.text()?,
            }),
            2 => Body::Accept {
                caller: fields.u64()?,
                vci: fields.u16()?,
            },
            3 => Body::Refuse {
                caller: fields.u64()?,
                reason: fields.one_of(&Refusal::ALL)?,
                offer: fields.text()?,
            },
            4 => Body::Release {
                receiver: fields.u64()?,
                vci: fields.u16()?,
            },
            5 => Body::Datagram {
                from: fields.sap()?,
                to: fields.sap()?,
                octets: fields.rest().to_vec(),
            },
            kind => return Err(MessageError::Kind(kind)),
        };
        match fields.0 {
            [] => Ok(Self {
                call,
                incarnation,
                from,
                to,
                body,
            }),
            _ => Err(MessageError::Field),
        }
    }

    /// The block. Of a text no more than [`TEXT_MAX`] octets count.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = vec![VERSION, self.body.kind()];
        out.extend(self.call.to_be_bytes());
        out.extend(self.incarnation.to_be_bytes());
        out.extend(self.from.octets());
        out.extend(self.to.octets());
        match &self.body {
            Body::Connect(connect) => {
                out.extend(connect.from.0.to_be_bytes());
                out.extend(connect.to.0.to_be_bytes());
                out.extend(connect.vci.to_be_bytes());
                out.push(connect.notify as u8);
                emit_text(&mut out, &connect.contract);
            }
            Body::Accept { caller, vci } => {
                out.extend(caller.to_be_bytes());
                out.extend(vci.to_be_bytes());
            }
            Body::Refuse {
                caller,
                reason,
                offer,
            } => {
                out.extend(caller.to_be_bytes());
                out.push(*reason as u8);
                emit_text(&mut out, offer);
            }
            Body::Release { receiver, vci } => {
                out.extend(receiver.to_be_bytes());
                out.extend(vci.to_be_bytes());
            }
            Body::Datagram { from, to, octets } => {
                out.extend(from.0.to_be_bytes());
                out.extend(to.0.to_be_bytes());
                out.extend(octets);
            }
        }
        out.extend(crc32(&out).to_be_bytes());
        out
    }
}

impl Body {
    const fn kind(&self) -> u8 {
        match self {
            Self::Connect(_) => 1,
            Self::Accept { .. } => 2,
            Self::Refuse { .. } => 3,
            Self::Release { .. } => 4,
            Self::Datagram { .. } => 5,
        }
    }
}

fn emit_text(out: &mut Vec<u8>, text: &str) {
    out.extend(text[..text.floor_char_boundary(TEXT_MAX)].bytes());
}

/// The CRC-32 of I.363.5 (AAL5).
pub(super) fn crc32(octets: &[u8]) -> u32 {
    struct Crc<'a>(&'a [u8]);

    impl Kernel for Crc<'_> {
        type Output = u32;

        #[inline(always)]
        fn run<F: Fold>(self, fold: F) -> u32 {
            !fold.one_pass(self.0)
        }
    }

    with_features(Crc(octets))
}

/// The fields of a message that have not been read.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        let (field, rest) = self.0.split_first_chunk().ok_or(MessageError::Short)?;
        self.0 = rest;
        Ok(*field)
    }

    pub(super) fn u16(&mut self) -> Result<u16, MessageError> {
        self.take().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, MessageError> {
        self.take().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, MessageError> {
        self.take().map(u64::from_be_bytes)
    }

    fn host(&mut self) -> Result<Ipv4Addr, MessageError> {
        self.take::<4>().map(Ipv4Addr::from)
    }

    fn sap(&mut self) -> Result<Sap, MessageError> {
        self.u64().map(Sap)
    }

    /// By its place in a list.
    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> Result<T, MessageError> {
        let [at] = self.take()?;
        let found = all.get(usize::from(at));
        found.copied().ok_or(MessageError::Field)
    }

    pub(super) fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }

    fn text(&mut self) -> Result<String, MessageError> {
        let octets = self.rest();
        if octets.len() > TEXT_MAX {
            return Err(MessageError::Field);
        }
        let text = core::str::from_utf8(octets);
        text.map(str::to_owned).map_err(|_| MessageError::Field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crc_is_aal5_s() {
        assert_eq!(crc32(b"123456789"), 0xfc89_1918);
    }
}
