use serde::{Deserialize, Serialize};

use super::layout::{
    BUFFER_LEN_MAX, CELLS_MAX, DOORBELL_LEN, EVENT_SLOT_LEN, PAGE_LEN, QUEUE_SLOTS_MAX,
    RECEIVE_DESCRIPTOR_LEN, SLOTS, TRANSMIT_DESCRIPTOR_LEN,
};
use super::{FileKind, Header};
use crate::wire::CellFormat;

/// Why sizes make no shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// A queue's slots are no power of two.
    #[error("a queue of {0} slots: not a power of two")]
    NotPowerOfTwo(u32),
    /// A queue has too many slots.
    #[error("a queue of {0} slots: at most {1}")]
    TooManySlots(u32, u32),
    /// A buffer is no multiple of a page.
    #[error("a buffer of {0} octets: not a multiple of {PAGE_LEN}")]
    NotWholePages(u32),
    /// A buffer is too long.
    #[error("a buffer of {0} octets: at most {BUFFER_LEN_MAX}")]
    BufferTooLong(u32),
}

const fn check_slots(slots: u32, max: u32) -> Result<(), GeometryError> {
    if !slots.is_power_of_two() {
        Err(GeometryError::NotPowerOfTwo(slots))
    } else if slots > max {
        Err(GeometryError::TooManySlots(slots, max))
    } else {
        Ok(())
    }
}

const fn check_buffer(len: u32) -> Result<(), GeometryError> {
    if !(len as usize).is_multiple_of(PAGE_LEN) {
        Err(GeometryError::NotWholePages(len))
    } else if len > BUFFER_LEN_MAX {
        Err(GeometryError::BufferTooLong(len))
    } else {
        Ok(())
    }
}

const fn pages(octets: usize) -> usize {
    octets.next_multiple_of(PAGE_LEN)
}

/// The sizes of a connection's memory, checked: every offset and length that follows from them is
/// below [`FILE_LEN_MAX`](super::layout::FILE_LEN_MAX), so no sum here can overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "ConnectionSizes", into = "ConnectionSizes")]
pub struct ConnectionGeometry {
    sizes: ConnectionSizes,
}

/// The sizes of a connection's memory as someone asks for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ConnectionSizes {
    /// Descriptors of the receive queue: a power of two.
    pub receive_slots: u32,
    /// Octets of the receive buffer: whole pages; 0 if the connection does not receive.
    pub receive_len: u32,
    /// The receive buffer is not in the connection's own file but another connection's transmit
    /// buffer or a file.
    pub receive_elsewhere: bool,
    /// Descriptors of the transmit queue: a power of two.
    pub transmit_slots: u32,
    /// Octets of the transmit buffer: whole pages; 0 if the connection does not transmit.
    pub transmit_len: u32,
}

impl TryFrom<ConnectionSizes> for ConnectionGeometry {
    type Error = GeometryError;

    fn try_from(sizes: ConnectionSizes) -> Result<Self, GeometryError> {
        Self::new(sizes)
    }
}

impl From<ConnectionGeometry> for ConnectionSizes {
    fn from(geometry: ConnectionGeometry) -> Self {
        geometry.sizes
    }
}

impl ConnectionGeometry {
    /// Checks `sizes`.
    pub const fn new(sizes: ConnectionSizes) -> Result<Self, GeometryError> {
        let checks = [
            check_slots(sizes.receive_slots, QUEUE_SLOTS_MAX),
            check_slots(sizes.transmit_slots, QUEUE_SLOTS_MAX),
            check_buffer(sizes.receive_len),
            check_buffer(sizes.transmit_len),
        ];
        let mut i = 0;
        while i < checks.len() {
            if let Err(error) = checks[i] {
                return Err(error);
            }
            i += 1;
        }
        Ok(Self { sizes })
    }

    pub const fn sizes(&self) -> ConnectionSizes {
        self.sizes
    }

    /// Where the receive buffer begins in the from-adapter file.
    pub const fn receive_buffer_at(&self) -> usize {
        pages(SLOTS + self.sizes.receive_slots as usize * RECEIVE_DESCRIPTOR_LEN)
    }

    /// Octets of the receive buffer that lie in the from-adapter file.
    pub const fn receive_own_len(&self) -> usize {
        if self.sizes.receive_elsewhere {
            0
        } else {
            self.sizes.receive_len as usize
        }
    }

    /// Octets of the from-adapter file.
    pub const fn from_adapter_len(&self) -> usize {
        self.receive_buffer_at() + self.receive_own_len()
    }

    /// Where the transmit buffer begins in the from-client file.
    pub const fn transmit_buffer_at(&self) -> usize {
        pages(SLOTS + self.sizes.transmit_slots as usize * TRANSMIT_DESCRIPTOR_LEN)
    }

    /// Octets of the from-client file.
    pub const fn from_client_len(&self) -> usize {
        self.transmit_buffer_at() + self.sizes.transmit_len as usize
    }

    /// The header of one of the two files.
    pub const fn header(&self, kind: FileKind, generation: u32) -> Header {
        let s = self.sizes;
        Header {
            kind,
            generation,
            geometry: [
                s.receive_slots as u64,
                s.receive_len as u64,
                s.transmit_slots as u64,
                s.transmit_len as u64,
                s.receive_elsewhere as u64,
            ],
        }
    }
}

/// The sizes of an attachment's memory, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "AttachmentSizes", into = "AttachmentSizes")]
pub struct AttachmentGeometry {
    sizes: AttachmentSizes,
}

/// The sizes of an attachment's memory as someone asks for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AttachmentSizes {
    /// Events of the event queue: a power of two.
    pub event_slots: u32,
    /// Entries of the doorbell queue: a power of two.
    pub doorbell_slots: u32,
}

impl TryFrom<AttachmentSizes> for AttachmentGeometry {
    type Error = GeometryError;

    fn try_from(sizes: AttachmentSizes) -> Result<Self, GeometryError> {
        Self::new(sizes)
    }
}

impl From<AttachmentGeometry> for AttachmentSizes {
    fn from(geometry: AttachmentGeometry) -> Self {
        geometry.sizes
    }
}

impl AttachmentGeometry {
    /// Checks `sizes`.
    pub const fn new(sizes: AttachmentSizes) -> Result<Self, GeometryError> {
        if let Err(error) = check_slots(sizes.event_slots, QUEUE_SLOTS_MAX) {
            return Err(error);
        }
        if let Err(error) = check_slots(sizes.doorbell_slots, QUEUE_SLOTS_MAX) {
            return Err(error);
        }
        Ok(Self { sizes })
    }

    pub const fn sizes(&self) -> AttachmentSizes {
        self.sizes
    }

    /// Octets of the from-adapter file.
    pub const fn from_adapter_len(&self) -> usize {
        pages(SLOTS + self.sizes.event_slots as usize * EVENT_SLOT_LEN)
    }

    /// Octets of the from-client file.
    pub const fn from_client_len(&self) -> usize {
        pages(SLOTS + self.sizes.doorbell_slots as usize * DOORBELL_LEN)
    }

    /// The header of one of the two files.
    pub const fn header(&self, kind: FileKind, generation: u32) -> Header {
        let s = self.sizes;
        Header {
            kind,
            generation,
            geometry: [s.event_slots as u64, s.doorbell_slots as u64, 0, 0, 0],
        }
    }
}

/// The size of a memory link's port, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "PortSizes", into = "PortSizes")]
pub struct PortGeometry {
    sizes: PortSizes,
}

/// The size of a memory link's port as someone asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PortSizes {
    /// Cells that the queue holds: a power of two.
    pub cells: u32,
    /// 52 or 53 octets a cell.
    pub format: CellFormat,
}

impl TryFrom<PortSizes> for PortGeometry {
    type Error = GeometryError;

    fn try_from(sizes: PortSizes) -> Result<Self, GeometryError> {
        Self::new(sizes)
    }
}

impl From<PortGeometry> for PortSizes {
    fn from(geometry: PortGeometry) -> Self {
        geometry.sizes
    }
}

impl PortGeometry {
    /// Checks `sizes`.
    pub const fn new(sizes: PortSizes) -> Result<Self, GeometryError> {
        if let Err(error) = check_slots(sizes.cells, CELLS_MAX) {
            return Err(error);
        }
        Ok(Self { sizes })
    }

    pub const fn sizes(&self) -> PortSizes {
        self.sizes
    }

    /// Octets of the from-sender file.
    pub const fn from_sender_len(&self) -> usize {
        pages(SLOTS + self.sizes.cells as usize * self.sizes.format.stride())
    }

    /// Octets of the from-receiver file.
    pub const fn from_receiver_len(&self) -> usize {
        SLOTS
    }

    /// The header of one of the two files.
    pub const fn header(&self, kind: FileKind, generation: u32) -> Header {
        let s = self.sizes;
        Header {
            kind,
            generation,
            geometry: [s.cells as u64, s.format.stride() as u64, 0, 0, 0],
        }
    }
}
