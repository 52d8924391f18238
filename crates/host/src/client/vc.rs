use std::os::fd::{AsFd, BorrowedFd};

use cellgate_core::aal::aal34;
use cellgate_core::adapter::{Interleaving, VcId};
use cellgate_core::contract::aal5_cells;
use cellgate_core::queue::layout::{PAGE_LEN, PDU_ALIGN};
use cellgate_core::queue::{ConnectionGeometry, ConnectionSizes, ReceivedPdu, SduOptions, Space};
use cellgate_core::wire::PAYLOAD_LEN;
use cellgate_shm::{ClientMemory, Files, ReceiveBuffer};

use super::control::geometry_error;
use super::{Attached, ClientError};
use crate::control::ReceiveInto;

/// Sizes for an AAL5 or AAL0 VC that can have so many PDUs of `max_sdu` octets waiting in either
/// direction (0: it does not use the direction).
pub fn memory_for(max_sdu: u16, receive_pdus: u32, transmit_pdus: u32) -> ConnectionSizes {
    let pdu = aal5_cells(max_sdu.into()) * PAYLOAD_LEN as u32;
    room_for(pdu, receive_pdus, transmit_pdus)
}

/// The same for an AAL3/4 VC, beside as many PDUs in progress as `interleaving` allows: each of
/// those may reserve `max_sdu` octets, and keeps a descriptor.
///
/// Space comes back in the order in which PDUs began. `receive_pdus` is to count what may begin
/// while one PDU is in progress, whether its client has read it or not, or such PDUs are discarded
/// (`buffer_full`).
pub fn memory_for_aal34(
    interleaving: Interleaving,
    max_sdu: u16,
    receive_pdus: u32,
    transmit_pdus: u32,
) -> ConnectionSizes {
    let in_progress = match receive_pdus {
        0 => 0,
        _ => u32::from(interleaving.mids),
    };
    // The adapter also wants room for the largest PDU's cells as they come.
    let pdu = u32::from(aal34::cells(max_sdu)) * PAYLOAD_LEN as u32;
    room_for(pdu, receive_pdus.saturating_add(in_progress), transmit_pdus)
}

fn room_for(pdu_len: u32, receive_pdus: u32, transmit_pdus: u32) -> ConnectionSizes {
    let pdu = pdu_len.next_multiple_of(PDU_ALIGN as u32);
    // Beyond what any geometry allows, and refused as such, rather than wrapped.
    let most = u32::MAX - (PAGE_LEN as u32 - 1);
    let whole_pages = |pdus: u32| {
        let octets = pdu.saturating_mul(pdus).min(most);
        octets.next_multiple_of(PAGE_LEN as u32)
    };
    let slots = |pdus: u32| pdus.max(1).checked_next_power_of_two().unwrap_or(1 << 31);
    ConnectionSizes {
        receive_slots: slots(receive_pdus),
        receive_len: whole_pages(receive_pdus),
        receive_elsewhere: false,
        transmit_slots: slots(transmit_pdus),
        transmit_len: whole_pages(transmit_pdus),
    }
}

/// Where a VC is to receive, as its client has it.
pub(super) enum Receiving<'a> {
    Own,
    TransmitBufferOf(&'a OpenVc),
    File(BorrowedFd<'a>),
}

impl Receiving<'_> {
    pub(super) fn wish(&self) -> ReceiveInto {
        match self {
            Self::Own => ReceiveInto::Own,
            Self::TransmitBufferOf(other) => ReceiveInto::TransmitBufferOf(other.id()),
            Self::File(_) => ReceiveInto::File,
        }
    }

    pub(super) fn fds(&self) -> &[BorrowedFd<'_>] {
        match self {
            Self::File(file) => std::slice::from_ref(file),
            _ => &[],
        }
    }

    pub(super) fn buffer(&self) -> Result<ReceiveBuffer<'_>, ClientError> {
        Ok(match self {
            Self::Own => ReceiveBuffer::Own,
            Self::TransmitBufferOf(other) => ReceiveBuffer::TransmitBufferOf {
                from_client: other.files.from_client.as_fd(),
                geometry: ConnectionGeometry::new(other.sizes).map_err(geometry_error)?,
            },
            Self::File(file) => ReceiveBuffer::File(*file),
        })
    }
}

/// An open VC, as its client has it.
#[derive(Debug)]
pub struct OpenVc {
    id: VcId,
    sizes: ConnectionSizes,
    files: Files,
    memory: ClientMemory,
}

impl OpenVc {
    pub(super) fn open(
        id: VcId,
        files: Files,
        geometry: &ConnectionGeometry,
        files_generation: u32,
        buffer: ReceiveBuffer<'_>,
    ) -> Result<Self, ClientError> {
        let memory = ClientMemory::open(&files, geometry, files_generation, buffer)?;
        Ok(Self {
            id,
            sizes: geometry.sizes(),
            files,
            memory: memory.named(geometry, id.generation),
        })
    }

    /// The VC's name.
    pub fn id(&self) -> VcId {
        self.id
    }

    /// Its memory's sizes.
    pub fn sizes(&self) -> ConnectionSizes {
        self.sizes
    }

    /// The descriptor of the file that this client writes: whoever has it may take the VC over, and
    /// change what lies there. From now on PDUs are copied.
    pub fn capability(&mut self) -> BorrowedFd<'_> {
        self.memory.share();
        self.files.from_client.as_fd()
    }

    /// The shared memory, for what is not offered here.
    pub fn memory(&mut self) -> &mut ClientMemory {
        &mut self.memory
    }

    pub(super) fn rename(&mut self, id: VcId) {
        self.id = id;
    }

    /// The next PDU, if one waits. It stays in the receive buffer until it is released.
    #[inline]
    pub fn next_pdu(&mut self) -> Option<ReceivedPdu> {
        self.memory.next_pdu()
    }

    /// The SDU in place. None if others than the adapter can write the receive buffer: then
    /// [`OpenVc::copy_sdu`] gives octets that stay.
    #[inline]
    pub fn sdu(&self, pdu: &ReceivedPdu) -> Option<&[u8]> {
        self.memory.sdu(pdu)
    }

    /// Copies the first octets of the SDU; how many.
    pub fn copy_sdu(&self, pdu: &ReceivedPdu, octets: &mut [u8]) -> usize {
        self.memory.copy_sdu(pdu, octets)
    }

    /// Gives a PDU back, in any order; `false` if it is another VC's.
    #[inline]
    pub fn release(&mut self, pdu: ReceivedPdu) -> bool {
        self.memory.release(pdu)
    }

    /// Borrows room for an SDU of `len` octets, if there is any.
    #[inline]
    pub fn reserve(&mut self, len: u32) -> Option<Space> {
        self.memory.reserve(len)
    }

    /// The borrowed octets, to be written in place.
    #[inline]
    pub fn space_mut(&mut self, space: &mut Space) -> &mut [u8] {
        self.memory.space_mut(space)
    }

    /// Sends what was written into `space` and rings; `false` if another SDU was submitted since
    /// the space was borrowed.
    #[must_use = "an SDU that is refused is not sent"]
    pub fn submit(&mut self, attached: &mut Attached, space: Space, options: SduOptions) -> bool {
        let submitted = self.memory.submit(space, options);
        if submitted {
            attached.ring(self.id);
        }
        submitted
    }

    /// Copies an SDU into the transmit buffer and sends it; `false` if there is no room now.
    #[must_use = "an SDU that finds no room is not sent"]
    pub fn send(&mut self, attached: &mut Attached, sdu: &[u8], options: SduOptions) -> bool {
        let Ok(len) = u32::try_from(sdu.len()) else {
            return false;
        };
        let Some(mut space) = self.reserve(len) else {
            return false;
        };
        self.space_mut(&mut space).copy_from_slice(sdu);
        self.submit(attached, space, options)
    }

    /// Sends `len` octets that lie at `offset` of the transmit buffer already: another VC received
    /// them there ([`super::Control::open_into_transmit_buffer`]). `false` if the queue is full, or
    /// the octets are not all in the buffer. A PDU that wraps around the buffer's end has to be
    /// copied; where all PDUs have one size of which the buffer is a multiple, none does.
    ///
    /// A VC that forwards does not also [reserve](OpenVc::reserve): both would use the same octets.
    #[must_use = "an SDU that finds no room is not sent"]
    pub fn forward(
        &mut self,
        attached: &mut Attached,
        offset: u32,
        len: u32,
        options: SduOptions,
    ) -> bool {
        let submitted = self.memory.submit_at(offset, len, options);
        if submitted {
            attached.ring(self.id);
        }
        submitted
    }

    /// SDUs that the adapter has not sent yet.
    pub fn unsent(&mut self) -> u32 {
        self.memory.reclaim()
    }
}
