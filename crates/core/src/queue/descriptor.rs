use super::layout::{DOORBELL_LEN, RECEIVE_DESCRIPTOR_LEN, TRANSMIT_DESCRIPTOR_LEN};
use crate::Time;

/// MIDs stand in the high ten bits of the flags.
const MID_SHIFT: u32 = 6;

#[inline(always)]
fn u16_at(octets: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([octets[at], octets[at + 1]])
}

#[inline(always)]
fn u32_at(octets: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
}

#[inline(always)]
fn u64_at(octets: &[u8], at: usize) -> u64 {
    u64::from(u32_at(octets, at)) | u64::from(u32_at(octets, at + 4)) << 32
}

/// A PDU in the receive buffer, as the adapter tells the client.
///
/// ```text
///  0          8      16    20      24           28   29    30      32
/// +----------+------+-----+-------+------------+----+-----+-------+
/// | position | time | len | cells | generation | uu | cpi | flags |   little endian
/// +----------+------+-----+-------+------------+----+-----+-------+
///                 flags: bit 0 clp, bit 1 congestion, bit 2 lent, bits 6 to 15 mid
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveDescriptor {
    /// Octets of receive buffer ever passed before the PDU: its offset is `position` modulo the
    /// buffer's length.
    pub position: u64,
    /// When the last cell was handled, by the adapter's clock.
    pub time: Time,
    /// Octets of the SDU.
    pub len: u32,
    /// Cells of the PDU.
    pub cells: u32,
    /// Of the region.
    pub generation: u32,
    /// User-to-user octet (I.363.5).
    pub uu: u8,
    /// Common part indicator (I.363.5).
    pub cpi: u8,
    /// Some cell of the PDU had low priority (CLP 1).
    pub clp: bool,
    /// The last cell met congestion on its way (PTI).
    pub congestion: bool,
    /// Delivered beyond the contract, on a lease.
    pub lent: bool,
    /// Multiplexing identification (AAL3/4, I.363.3), ten bits; 0 with other AALs.
    pub mid: u16,
}

impl ReceiveDescriptor {
    /// The octets in the receive queue.
    #[inline(always)]
    pub fn emit(&self) -> [u8; RECEIVE_DESCRIPTOR_LEN] {
        let flags =
            u16::from(self.clp) | u16::from(self.congestion) << 1 | u16::from(self.lent) << 2;
        let flags = flags | self.mid << MID_SHIFT;
        let mut octets = [0; RECEIVE_DESCRIPTOR_LEN];
        octets[0..8].copy_from_slice(&self.position.to_le_bytes());
        octets[8..16].copy_from_slice(&self.time.ns().to_le_bytes());
        octets[16..20].copy_from_slice(&self.len.to_le_bytes());
        octets[20..24].copy_from_slice(&self.cells.to_le_bytes());
        octets[24..28].copy_from_slice(&self.generation.to_le_bytes());
        octets[28] = self.uu;
        octets[29] = self.cpi;
        octets[30..32].copy_from_slice(&flags.to_le_bytes());
        octets
    }

    /// From the octets of the receive queue. Any octets are a descriptor; whether it names memory
    /// is for [`ReceiveQueue`](super::ReceiveQueue) to judge.
    #[inline(always)]
    pub fn parse(octets: &[u8; RECEIVE_DESCRIPTOR_LEN]) -> Self {
        Self {
            position: u64_at(octets, 0),
            time: Time::from_ns(u64_at(octets, 8)),
            len: u32_at(octets, 16),
            cells: u32_at(octets, 20),
            generation: u32_at(octets, 24),
            uu: octets[28],
            cpi: octets[29],
            clp: octets[30] & 1 != 0,
            congestion: octets[30] & 2 != 0,
            lent: octets[30] & 4 != 0,
            mid: u16_at(octets, 30) >> MID_SHIFT,
        }
    }
}

/// An SDU in the transmit buffer, as the client tells the adapter.
///
/// ```text
///  0        4     8    9     10      12           16
/// +--------+-----+----+-----+-------+------------+
/// | offset | len | uu | cpi | flags | generation |   little endian
///                    flags: bit 0 clp, bits 6 to 15 mid
/// +--------+-----+----+-----+-------+------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransmitDescriptor {
    /// Of the SDU in the transmit buffer, octets.
    pub offset: u32,
    /// Octets of the SDU.
    pub len: u32,
    /// User-to-user octet (I.363.5).
    pub uu: u8,
    /// Common part indicator (I.363.5).
    pub cpi: u8,
    /// Send its cells with low priority (CLP 1).
    pub clp: bool,
    /// Multiplexing identification (AAL3/4, I.363.3), ten bits; of no meaning with other AALs.
    pub mid: u16,
    /// Of the region.
    pub generation: u32,
}

impl TransmitDescriptor {
    /// The octets in the transmit queue.
    #[inline(always)]
    pub fn emit(&self) -> [u8; TRANSMIT_DESCRIPTOR_LEN] {
        let mut octets = [0; TRANSMIT_DESCRIPTOR_LEN];
        octets[0..4].copy_from_slice(&self.offset.to_le_bytes());
        octets[4..8].copy_from_slice(&self.len.to_le_bytes());
        octets[8] = self.uu;
        octets[9] = self.cpi;
        let flags = u16::from(self.clp) | self.mid << MID_SHIFT;
        octets[10..12].copy_from_slice(&flags.to_le_bytes());
        octets[12..16].copy_from_slice(&self.generation.to_le_bytes());
        octets
    }

    /// From the octets of the transmit queue. Any octets are a descriptor; the adapter judges it
    /// with [`TransmitDescriptor::is_within`].
    #[inline(always)]
    pub fn parse(octets: &[u8; TRANSMIT_DESCRIPTOR_LEN]) -> Self {
        Self {
            offset: u32_at(octets, 0),
            len: u32_at(octets, 4),
            uu: octets[8],
            cpi: octets[9],
            clp: octets[10] & 1 != 0,
            mid: u16_at(octets, 10) >> MID_SHIFT,
            generation: u32_at(octets, 12),
        }
    }

    /// Whether it names octets of a transmit buffer of `transmit_len` octets, and at least one.
    #[inline(always)]
    pub fn is_within(&self, transmit_len: u32) -> bool {
        self.len >= 1 && self.len <= transmit_len && self.offset <= transmit_len - self.len
    }
}

/// An entry of the doorbell queue: this VC's transmit queue has got a new head.
///
/// ```text
///  0            4            8
/// +------------+------------+
/// | vc (index) | generation |   little endian
/// +------------+------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Doorbell {
    /// Slot in the adapter's table.
    pub vc: u32,
    /// Of the VC.
    pub generation: u32,
}

impl Doorbell {
    /// The octets in the doorbell queue.
    #[inline(always)]
    pub fn emit(&self) -> [u8; DOORBELL_LEN] {
        (u64::from(self.vc) | u64::from(self.generation) << 32).to_le_bytes()
    }

    /// From the octets of the doorbell queue.
    #[inline(always)]
    pub fn parse(octets: &[u8; DOORBELL_LEN]) -> Self {
        Self {
            vc: u32_at(octets, 0),
            generation: u32_at(octets, 4),
        }
    }
}
