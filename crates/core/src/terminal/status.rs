//! What the terminals say to each other about a transfer: the octets behind the PCI of a control
//! PDU.
//!
//! ```text
//! octet 0      1      2           4                       8                       12
//! status, from who receives:
//! +------+------+-----------+-----------------------+-----------------------+
//! |  1   | 0..S |   seen    |         a(2)          |      held, in us      |
//! +------+------+-----------+-----------------------+-----------------------+
//! |                      Ap                         |        edge ...       |
//! +-------------------------------------------------+-----------------------+
//!       ... edge, to octet 28 |  PDUs above a(2), a bit each, lowest bit first
//!
//! hello, from who begins, and its answer:
//! +------+------+-----------+-----------------------+-----------------------+
//! |  2   |  0   |  window   |  run of the receiver, |  zeros, to octet 28   |
//! |      |      |           |     0: not known      |                       |
//! +------+------+-----------+-----------------------+-----------------------+
//! ```

/// What a receiver has of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status<'a> {
    /// The serial of the newest PDU that came, damaged or not; none before the first.
    pub seen: Option<u16>,
    /// Microseconds since that came.
    pub held_us: u32,
    /// a(2), modulo 2^24: all PDUs before this one are acknowledged.
    pub next: u32,
    /// Ap: all octets of the file before this one are acknowledged.
    pub acknowledged: u64,
    /// Octets from here on find no room yet.
    pub edge: u64,
    /// Bit `i % 8` of octet `i / 8`: PDU a(2) + 1 + i is held.
    pub above: &'a [u8],
}

/// What a control PDU says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    Status(Status<'a>),
    /// The terminal begins, or answers one that does.
    Hello {
        /// The run of the other terminal, if it is known.
        to: Option<u32>,
        /// PDUs of a transfer that this terminal has places for.
        window: u16,
    },
}

/// Octets that are no control PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a control PDU that nobody knows")]
pub struct ControlError;

impl Status<'_> {
    /// Octets before the bits.
    pub const FIXED: usize = 28;
    const SEEN: u8 = 1;
}

impl<'a> Control<'a> {
    /// From the octets behind a PCI.
    pub fn parse(octets: &'a [u8]) -> Result<Self, ControlError> {
        let (fixed, above) = octets
            .split_first_chunk::<{ Status::FIXED }>()
            .ok_or(ControlError)?;
        let [
            what,
            flags,
            s0,
            s1,
            n0,
            n1,
            n2,
            n3,
            h0,
            h1,
            h2,
            h3,
            rest @ ..,
        ] = *fixed;
        let [
            a0,
            a1,
            a2,
            a3,
            a4,
            a5,
            a6,
            a7,
            e0,
            e1,
            e2,
            e3,
            e4,
            e5,
            e6,
            e7,
        ] = rest;
        let next = u32::from_be_bytes([n0, n1, n2, n3]);
        match what {
            1 => Ok(Self::Status(Status {
                seen: (flags & Status::SEEN != 0).then_some(u16::from_be_bytes([s0, s1])),
                held_us: u32::from_be_bytes([h0, h1, h2, h3]),
                next,
                acknowledged: u64::from_be_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
                edge: u64::from_be_bytes([e0, e1, e2, e3, e4, e5, e6, e7]),
                above,
            })),
            2 => Ok(Self::Hello {
                to: (next != 0).then_some(next),
                window: u16::from_be_bytes([s0, s1]),
            }),
            _ => Err(ControlError),
        }
    }

    /// To the front of `out`: its octets; none if they do not fit.
    pub fn emit(&self, out: &mut [u8]) -> Option<u16> {
        let (fixed, rest) = out.split_first_chunk_mut::<{ Status::FIXED }>()?;
        *fixed = [0; Status::FIXED];
        let above: &[u8] = match self {
            Self::Status(status) => {
                fixed[0] = 1;
                if let Some(seen) = status.seen {
                    fixed[1] = Status::SEEN;
                    fixed[2..4].copy_from_slice(&seen.to_be_bytes());
                }
                fixed[4..8].copy_from_slice(&status.next.to_be_bytes());
                fixed[8..12].copy_from_slice(&status.held_us.to_be_bytes());
                fixed[12..20].copy_from_slice(&status.acknowledged.to_be_bytes());
                fixed[20..28].copy_from_slice(&status.edge.to_be_bytes());
                status.above
            }
            Self::Hello { to, window } => {
                fixed[0] = 2;
                fixed[2..4].copy_from_slice(&window.to_be_bytes());
                fixed[4..8].copy_from_slice(&to.unwrap_or(0).to_be_bytes());
                &[]
            }
        };
        rest.get_mut(..above.len())?.copy_from_slice(above);
        u16::try_from(Status::FIXED + above.len()).ok()
    }
}
