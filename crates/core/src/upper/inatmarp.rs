//! Inverse ATM address resolution (RFC 2225 section 8, RFC 2390): the IP address at the other end
//! of a VC.

use core::net::Ipv4Addr;

use crate::wire::Prefix;

/// `ar$hrd`: ATM Forum.
const HARDWARE_ATM: u16 = 0x0013;
/// `ar$pro`: IPv4.
const PROTOCOL_IPV4: u16 = 0x0800;
/// `ar$op`: InARP_REQUEST and InARP_REPLY.
const REQUEST: u16 = 8;
const REPLY: u16 = 9;
/// In the octet that counts those of a number: it is E.164, not an ATM end system address.
const E164: u8 = 0x40;
/// The bit before it is reserved: sent as 0, received as anything.
const LEN: u8 = 0x3f;
/// Octets of an ATM end system address, the longest number there is.
const NUMBER_LEN_MAX: usize = 20;
const FIXED_LEN: usize = 12;
const PACKET_LEN_MAX: usize = FIXED_LEN + 4 * NUMBER_LEN_MAX + 2 * 4;

/// Why octets are no InATMARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InAtmArpError {
    /// Fewer octets than its lengths say.
    #[error("{len} octets are fewer than the packet's lengths say")]
    TooShort {
        /// Octets of the packet.
        len: usize,
    },
    /// Not addresses of ATM.
    #[error("hardware type {0:#06x} is not ATM (0x0013)")]
    Hardware(u16),
    /// Not addresses of IPv4.
    #[error("protocol {0:#06x} is not IPv4 (0x0800)")]
    Protocol(u16),
    /// ATMARP (1, 2, 10), or unknown.
    #[error("operation {0} is neither InARP_REQUEST (8) nor InARP_REPLY (9)")]
    Operation(u16),
    /// A number or subaddress longer than they are.
    #[error("an ATM number of {0} octets")]
    NumberLength(u8),
    /// An IPv4 address of neither 0 nor 4 octets.
    #[error("an IPv4 address of {0} octets")]
    IpLength(u8),
}

/// What the packet does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Request,
    Reply,
}

/// An ATM number or subaddress: up to 20 octets, none on a permanent connection between ends that
/// have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtmNumber {
    octets: [u8; NUMBER_LEN_MAX],
    len: u8,
    e164: bool,
}

impl AtmNumber {
    pub const NONE: Self = Self {
        octets: [0; NUMBER_LEN_MAX],
        len: 0,
        e164: false,
    };

    /// A number, of E.164 or an ATM end system address; none if it is longer than 20 octets.
    pub fn new(e164: bool, octets: &[u8]) -> Option<Self> {
        let mut number = Self::NONE;
        number
            .octets
            .get_mut(..octets.len())?
            .copy_from_slice(octets);
        number.len = octets.len() as u8;
        number.e164 = e164 && !octets.is_empty();
        Some(number)
    }

    /// Its octets.
    pub fn octets(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }

    /// Whether it is of E.164.
    pub const fn is_e164(&self) -> bool {
        self.e164
    }

    /// The octet that tells its type and length.
    const fn type_and_len(&self) -> u8 {
        self.len | if self.e164 { E164 } else { 0 }
    }
}

/// One of the two ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Station {
    /// Its ATM number.
    pub number: AtmNumber,
    /// Its ATM subaddress.
    pub subaddress: AtmNumber,
    /// Its IPv4 address, if it is known.
    pub ip: Option<Ipv4Addr>,
}

/// An InATMARP packet (RFC 2225 section 8.4). What follows it is ignored.
///
/// ```text
/// 00 13  08 00  shtl sstl  op op  spln thtl tstl tpln
/// sender: number, subaddress, IP   target: number, subaddress, IP
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InAtmArp {
    /// Question or answer.
    pub operation: Operation,
    /// Who says it.
    pub sender: Station,
    pub target: Station,
}

impl InAtmArp {
    /// The question of the end with the address `ip` on a permanent connection.
    pub fn request(ip: Ipv4Addr) -> Self {
        Self {
            operation: Operation::Request,
            sender: Station {
                ip: Some(ip),
                ..Station::default()
            },
            target: Station::default(),
        }
    }

    /// The answer of the end with the address `ip`; none to an answer. Its number is what the
    /// asker called it by.
    pub fn answer(&self, ip: Ipv4Addr) -> Option<Self> {
        (self.operation == Operation::Request).then_some(Self {
            operation: Operation::Reply,
            sender: Station {
                ip: Some(ip),
                ..self.target
            },
            target: self.sender,
        })
    }

    /// The packet behind the LLC header.
    ///
    /// # Errors
    /// It is none, or of other addresses.
    pub fn parse(octets: &[u8]) -> Result<Self, InAtmArpError> {
        let too_short = InAtmArpError::TooShort { len: octets.len() };
        let (fixed, mut rest) = octets.split_first_chunk::<FIXED_LEN>().ok_or(too_short)?;
        let [h0, h1, p0, p1, shtl, sstl, op0, op1, spln, thtl, tstl, tpln] = *fixed;
        let word = |high, low| u16::from_be_bytes([high, low]);
        match (word(h0, h1), word(p0, p1)) {
            (HARDWARE_ATM, PROTOCOL_IPV4) => {}
            (HARDWARE_ATM, other) => return Err(InAtmArpError::Protocol(other)),
            (other, _) => return Err(InAtmArpError::Hardware(other)),
        }
        let operation = match word(op0, op1) {
            REQUEST => Operation::Request,
            REPLY => Operation::Reply,
            other => return Err(InAtmArpError::Operation(other)),
        };
        let mut station = |number, subaddress, ip| {
            Ok(Station {
                number: take_number(number, &mut rest, too_short)?,
                subaddress: take_number(subaddress, &mut rest, too_short)?,
                ip: take_ip(ip, &mut rest, too_short)?,
            })
        };
        Ok(Self {
            operation,
            sender: station(shtl, sstl, spln)?,
            target: station(thtl, tstl, tpln)?,
        })
    }

    /// The packet's octets.
    pub fn emit(&self) -> Prefix<PACKET_LEN_MAX> {
        let operation = match self.operation {
            Operation::Request => REQUEST,
            Operation::Reply => REPLY,
        };
        let (sender, target) = (&self.sender, &self.target);
        let ip_len = |station: &Station| if station.ip.is_some() { 4 } else { 0 };
        let sender_ip = sender.ip.map(|ip| ip.octets());
        let target_ip = target.ip.map(|ip| ip.octets());
        Prefix::of(&[
            &HARDWARE_ATM.to_be_bytes(),
            &PROTOCOL_IPV4.to_be_bytes(),
            &[
                sender.number.type_and_len(),
                sender.subaddress.type_and_len(),
            ],
            &operation.to_be_bytes(),
            &[ip_len(sender)],
            &[
                target.number.type_and_len(),
                target.subaddress.type_and_len(),
            ],
            &[ip_len(target)],
            sender.number.octets(),
            sender.subaddress.octets(),
            sender_ip.as_ref().map_or(&[], |ip| &ip[..]),
            target.number.octets(),
            target.subaddress.octets(),
            target_ip.as_ref().map_or(&[], |ip| &ip[..]),
        ])
    }
}

fn take<'a>(
    len: usize,
    rest: &mut &'a [u8],
    too_short: InAtmArpError,
) -> Result<&'a [u8], InAtmArpError> {
    let (taken, behind) = rest.split_at_checked(len).ok_or(too_short)?;
    *rest = behind;
    Ok(taken)
}

fn take_number(
    type_and_len: u8,
    rest: &mut &[u8],
    too_short: InAtmArpError,
) -> Result<AtmNumber, InAtmArpError> {
    let len = type_and_len & LEN;
    let octets = take(len.into(), rest, too_short)?;
    let number = AtmNumber::new(type_and_len & E164 != 0, octets);
    number.ok_or(InAtmArpError::NumberLength(len))
}

/// Old stations write an address that they do not know as 0.0.0.0 (RFC 2225 section 8.4).
fn take_ip(
    len: u8,
    rest: &mut &[u8],
    too_short: InAtmArpError,
) -> Result<Option<Ipv4Addr>, InAtmArpError> {
    let octets = take(len.into(), rest, too_short)?;
    let ip = match <[u8; 4]>::try_from(octets) {
        Ok(octets) => Ipv4Addr::from(octets),
        Err(_) if octets.is_empty() => return Ok(None),
        Err(_) => return Err(InAtmArpError::IpLength(len)),
    };
    Ok((!ip.is_unspecified()).then_some(ip))
}
