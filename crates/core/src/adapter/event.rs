use serde::{Deserialize, Serialize};

use super::{VcId, VcIndex};
use crate::Time;

/// Octets of an event in the event queue.
pub const EVENT_LEN: usize = 32;

/// The events of *Policing Offloaded*, section 4.2, but for the end of a command. Whoever gives
/// commands hears of that by its [`Completion`](super::Completion), an application by the server's
/// Confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum EventKind {
    /// A PDU of the transmit queue has left; `value` is the new tail of the transmit queue.
    TransmitCompleted = 1,
    /// Cells were received; `value` is the head of the receive queue, `cells` those held of the
    /// PDU.
    PduReceived = 3,
    /// The receive buffer or receive queue had no room for a PDU.
    ReceiveQueueFull = 4,
    /// The receive queue reached the connection's threshold; `value` is its fill.
    ReceiveQueueOverThreshold = 5,
}

/// An entry of the event queue.
///
/// ```text
///  0      1            2          4            8           12       16      24      32
/// +------+------------+----------+------------+-----------+--------+-------+-------+
/// | kind | interrupts | reserved | vc (index) | generation| cells  | value | time  |
/// +------+------------+----------+------------+-----------+--------+-------+-------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The kind.
    pub kind: EventKind,
    /// Interruptive: the client is woken. Silent otherwise.
    pub interruptive: bool,
    /// The VC it is about.
    pub vc: VcId,
    /// Cells that a PDU in progress holds; for a finished PDU all its cells.
    pub cells: u32,
    /// As `kind` says.
    pub value: u64,
    /// The adapter's clock.
    pub time: Time,
}

impl Event {
    /// The octets in the event queue, little endian.
    pub fn emit(&self) -> [u8; EVENT_LEN] {
        let mut octets = [0; EVENT_LEN];
        octets[0] = self.kind as u8;
        octets[1] = self.interruptive as u8;
        octets[4..8].copy_from_slice(&u32::from(self.vc.index.0).to_le_bytes());
        octets[8..12].copy_from_slice(&self.vc.generation.to_le_bytes());
        octets[12..16].copy_from_slice(&self.cells.to_le_bytes());
        octets[16..24].copy_from_slice(&self.value.to_le_bytes());
        octets[24..32].copy_from_slice(&self.time.ns().to_le_bytes());
        octets
    }

    /// From the octets of the event queue; none if they are no event.
    pub fn parse(octets: &[u8; EVENT_LEN]) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| octets[at + i]));
        let long = |at: usize| word(at) as u64 | (word(at + 4) as u64) << 32;
        Some(Self {
            kind: match octets[0] {
                1 => EventKind::TransmitCompleted,
                3 => EventKind::PduReceived,
                4 => EventKind::ReceiveQueueFull,
                5 => EventKind::ReceiveQueueOverThreshold,
                _ => return None,
            },
            interruptive: octets[1] != 0,
            vc: VcId {
                index: VcIndex(u16::try_from(word(4)).ok()?),
                generation: word(8),
            },
            cells: word(12),
            value: long(16),
            time: Time::from_ns(long(24)),
        })
    }
}
