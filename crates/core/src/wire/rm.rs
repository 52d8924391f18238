use serde::{Deserialize, Serialize};

use super::{Checked, PAYLOAD_LEN, crc10_is_valid, seal_crc10};

/// What a reserved octet holds (TM 4.0).
const RESERVED: u8 = 0x6a;

/// A cell rate in the floating form of RM cells (I.371, TM 4.0).
///
/// ```text
///  15   14   13      9 8           0
/// +---+----+----------+-------------+
/// | 0 | nz | exponent |  mantissa   |   nz * 2^exponent * (1 + mantissa / 512) cells/s
/// +---+----+----------+-------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RmRate(pub u16);

impl RmRate {
    /// The rate in 1/512 cells/s, exactly.
    pub const fn cell_s_512ths(self) -> u64 {
        if self.0 & 0x4000 == 0 {
            return 0;
        }
        let exponent = self.0 >> 9 & 0x1f;
        (512 | self.0 as u64 & 0x1ff) << exponent
    }

    /// The largest rate of this form that is not above `cell_s`.
    pub const fn at_most(cell_s: u32) -> Self {
        Self::at_most_512ths((cell_s as u64) << 9)
    }

    /// The largest rate of this form that is not above so many 1/512 cells/s: none below a cell/s,
    /// and the largest of all above 2^32.
    pub const fn at_most_512ths(cell_s_512ths: u64) -> Self {
        let Some(exponent) = (cell_s_512ths >> 9).checked_ilog2() else {
            return Self(0);
        };
        if exponent > 31 {
            return Self(0x7fff);
        }
        // Ten bits from the first one on: the first is implied, nine are the mantissa.
        let mantissa = (cell_s_512ths >> exponent) as u16 & 0x1ff;
        Self(0x4000 | (exponent as u16) << 9 | mantissa)
    }
}

/// The payload of a resource management cell (I.371, TM 4.0 section 5.10.3).
///
/// ```text
/// octet 0    1                                2    4     6     8    12   16         46
/// +----+-----+----+----+----+----+----------+----+-----+-----+----+----+----- ... -+---+--------+
/// | ID | DIR | BN | CI | NI | RA | reserved | ER | CCR | MCR | QL | SN | reserved  | 0 | CRC-10 |
/// +----+-----+----+----+----+----+----------+----+-----+-----+----+----+----- ... -+---+--------+
///  8    1     1    1    1    1    3          16   16    16    32   32   240         6   10   bits
/// ```
///
/// Reserved octets are 6A, reserved bits 0; neither is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rm {
    /// Protocol identifier: 1 for ABR.
    pub protocol: u8,
    /// DIR: true from destination to source.
    pub backward: bool,
    /// BN: made by a switch or the destination, not by the source.
    pub backward_notification: bool,
    /// CI: there is congestion, the source is to slow down.
    pub congestion: bool,
    /// NI: the source is not to speed up.
    pub no_increase: bool,
    /// RA: not used by the ABR of TM 4.0.
    pub request_acknowledge: bool,
    /// ER: the explicit cell rate that switches may lower.
    pub er: RmRate,
    /// CCR: the source's current cell rate.
    pub ccr: RmRate,
    /// MCR: the connection's minimum cell rate.
    pub mcr: RmRate,
    /// QL: queue length in cells (I.371).
    pub queue_length: u32,
    /// SN: sequence number (I.371).
    pub sequence: u32,
}

impl Rm {
    /// Protocol identifier of ABR.
    pub const ABR: u8 = 1;

    /// From a payload. Every payload is some RM cell; which fields mean something is for the
    /// protocol identifier to say.
    pub fn parse(payload: &[u8; PAYLOAD_LEN]) -> Checked<Self> {
        let [protocol, kind, fields @ ..] = payload;
        let u16_at = |at: usize| u16::from_be_bytes([fields[at], fields[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) << 16 | u32::from(u16_at(at + 2));
        let value = Self {
            protocol: *protocol,
            backward: kind & 0x80 != 0,
            backward_notification: kind & 0x40 != 0,
            congestion: kind & 0x20 != 0,
            no_increase: kind & 0x10 != 0,
            request_acknowledge: kind & 0x08 != 0,
            er: RmRate(u16_at(0)),
            ccr: RmRate(u16_at(2)),
            mcr: RmRate(u16_at(4)),
            queue_length: u32_at(6),
            sequence: u32_at(10),
        };
        Checked {
            value,
            crc_valid: crc10_is_valid(payload),
        }
    }

    /// The payload, with its CRC-10.
    pub fn emit(&self) -> [u8; PAYLOAD_LEN] {
        let mut payload = [RESERVED; PAYLOAD_LEN];
        payload[0] = self.protocol;
        payload[1] = u8::from(self.backward) << 7
            | u8::from(self.backward_notification) << 6
            | u8::from(self.congestion) << 5
            | u8::from(self.no_increase) << 4
            | u8::from(self.request_acknowledge) << 3;
        payload[2..4].copy_from_slice(&self.er.0.to_be_bytes());
        payload[4..6].copy_from_slice(&self.ccr.0.to_be_bytes());
        payload[6..8].copy_from_slice(&self.mcr.0.to_be_bytes());
        payload[8..12].copy_from_slice(&self.queue_length.to_be_bytes());
        payload[12..16].copy_from_slice(&self.sequence.to_be_bytes());
        payload[46] = 0;
        seal_crc10(&mut payload);
        payload
    }
}
