//! Memory of connections and clients on one thread: vectors that adapter and client share.
//!
//! A snapshot of an adapter names its memory and does not carry it, just as a process that is
//! started again finds its mappings again: serialising writes a number, and deserialising on the
//! same thread finds the memory while anybody still holds it.

mod buffer;
mod held;
mod words;

use cellgate_core::aal::{Memory, aal34};
use cellgate_core::adapter::{Attachment, OpenRequest, Region};
use cellgate_core::queue::{Words, layout};
use serde::{Deserialize, Serialize};

pub use buffer::{LabBuffer, LabView};
pub use words::{Adversary, LabWords};
pub(crate) use words::{Journal, RingBug};

/// The sizes of a connection's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionSizes {
    /// Octets of the receive buffer.
    pub receive_buffer: u32,
    /// Descriptors of the receive queue.
    pub receive_slots: u32,
    /// Descriptors of the transmit queue.
    pub transmit_slots: u32,
    /// Octets of the transmit buffer.
    pub transmit_len: u32,
    /// Whether the receive buffer may be read again.
    pub stable: bool,
}

/// Offset of the transmit buffer in a region's from-client memory: behind the largest indices and
/// queue that the lab uses.
pub const TRANSMIT_BUFFER_AT: usize = 16 * 1024;

/// Octets of memory with a queue in it, at least as many as most have.
fn queue_len(slots: u32, slot_len: usize) -> usize {
    TRANSMIT_BUFFER_AT.max(layout::SLOTS + slots as usize * slot_len)
}

/// The memory of one connection. What reception touches comes first.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[repr(C)]
pub struct LabRegion {
    from_adapter: LabWords,
    buffer: LabBuffer,
    from_client: LabWords,
    sizes: RegionSizes,
    /// A vector's capacity leaves so many values unused that the compiler would look there whether
    /// a VC is open: one more cache line for each cell.
    staging: Box<[u8]>,
    reassembler: Option<Box<aal34::Reassembler>>,
}

impl LabRegion {
    /// Memory of these sizes, all zero.
    pub fn new(sizes: RegionSizes) -> Self {
        Self {
            sizes,
            from_adapter: LabWords::new(queue_len(
                sizes.receive_slots,
                layout::RECEIVE_DESCRIPTOR_LEN,
            )),
            from_client: LabWords::new(TRANSMIT_BUFFER_AT + sizes.transmit_len as usize),
            buffer: LabBuffer::new(sizes.receive_buffer as usize, sizes.stable),
            // The largest PDU whose SDU fits: trailer and pad round up to whole cells.
            staging: vec![0; (sizes.transmit_len as usize + 8).next_multiple_of(48)].into(),
            reassembler: None,
        }
    }

    /// The same for a VC that is opened like this.
    pub fn for_request(sizes: RegionSizes, request: &OpenRequest) -> Self {
        let limits = request.aal34_limits(sizes.receive_buffer, sizes.receive_slots);
        Self {
            reassembler: limits.map(aal34::Reassembler::new).map(Box::new),
            ..Self::new(sizes)
        }
    }

    pub fn sizes(&self) -> RegionSizes {
        self.sizes
    }

    /// The receive buffer as the client sees it.
    pub fn view(&self) -> LabView {
        self.buffer.view()
    }
}

impl Region for LabRegion {
    type Words = LabWords;
    type Buffer = LabBuffer;

    fn from_adapter(&self) -> &LabWords {
        &self.from_adapter
    }

    fn from_client(&self) -> &LabWords {
        &self.from_client
    }

    fn receive_buffer(&mut self) -> &mut LabBuffer {
        &mut self.buffer
    }

    fn aal34(&mut self) -> Option<(&mut aal34::Reassembler, &mut LabBuffer)> {
        Some((self.reassembler.as_mut()?, &mut self.buffer))
    }

    fn receive_slots(&self) -> u32 {
        self.sizes.receive_slots
    }

    fn transmit_slots(&self) -> u32 {
        self.sizes.transmit_slots
    }

    fn transmit_len(&self) -> u32 {
        self.sizes.transmit_len
    }

    fn stage(&mut self, offset: u32, len: usize) -> &mut [u8] {
        let end = offset as usize + len;
        assert!(
            end <= self.sizes.transmit_len as usize,
            "inside the transmit buffer"
        );
        let at = TRANSMIT_BUFFER_AT + offset as usize;
        self.from_client.copy_out(at, &mut self.staging[..len]);
        &mut self.staging
    }

    fn staging(&self) -> &[u8] {
        &self.staging
    }

    fn carry(&mut self, offset: u32, len: usize, to: Option<&mut Self>, at: usize) {
        let octets = self.stage(offset, len)[..len].to_vec();
        let to = to.map_or(&mut self.buffer, |to| &mut to.buffer);
        to.write(at, &octets);
    }
}

/// The memory of one client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabAttachment {
    from_adapter: LabWords,
    from_client: LabWords,
    event_slots: u32,
    doorbell_slots: u32,
}

impl LabAttachment {
    /// Room for as many events and doorbells.
    pub fn new(event_slots: u32, doorbell_slots: u32) -> Self {
        Self {
            from_adapter: LabWords::new(queue_len(event_slots, layout::EVENT_SLOT_LEN)),
            from_client: LabWords::new(queue_len(doorbell_slots, layout::DOORBELL_LEN)),
            event_slots,
            doorbell_slots,
        }
    }

    /// Room for events, and for doorbells.
    pub(crate) fn sizes(&self) -> (u32, u32) {
        (self.event_slots, self.doorbell_slots)
    }
}

impl Attachment for LabAttachment {
    type Words = LabWords;

    fn from_adapter(&self) -> &LabWords {
        &self.from_adapter
    }

    fn from_client(&self) -> &LabWords {
        &self.from_client
    }

    fn event_slots(&self) -> u32 {
        self.event_slots
    }

    fn doorbell_slots(&self) -> u32 {
        self.doorbell_slots
    }
}
