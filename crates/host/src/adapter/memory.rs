use std::os::fd::OwnedFd;
use std::sync::Arc;

use cellgate_core::aal::aal34;
use cellgate_core::adapter::{Aal, OpenRequest};
use cellgate_core::queue::{AttachmentGeometry, ConnectionGeometry, PortGeometry};
use cellgate_shm::{
    AttachmentMemory, ConnectionMemory, Files, PortReceiver, PortSender, ReceiveBuffer, ShmError,
    Waker, wake_descriptors,
};

use crate::control::ControlError;
use crate::link::{CellReceiver, CellSender};

/// The memory of a connection as the firmware has it.
pub(super) type HostRegion = ConnectionMemory;
/// The memory of a client as the firmware has it.
pub(super) type HostAttachment = AttachmentMemory;

/// Room for the largest AAL5 PDU on its way out: 1,366 cells carry 65,535 octets and the trailer.
const STAGING_LEN: usize = 1_366 * 48;

/// The same of AAL3/4: 1,490 cells, each with 44 octets of the PDU.
const STAGING_LEN_AAL34: usize = aal34::cells(u16::MAX) as usize * 48;

impl From<ShmError> for ControlError {
    fn from(error: ShmError) -> Self {
        match error {
            ShmError::System { .. } => Self::Kernel(error.to_string()),
            ShmError::ReceiveBuffer => Self::BadGeometry(error.to_string()),
            _ => Self::BadDescriptor(error.to_string()),
        }
    }
}

/// A client's memory, all three views of it.
pub(super) struct MadeAttachment {
    pub(super) attachment: HostAttachment,
    /// When the client is to be woken.
    pub(super) asleep: Waker,
    /// What wakes it.
    pub(super) bell: OwnedFd,
    pub(super) files: Arc<Files>,
    pub(super) watch: Arc<OwnedFd>,
}

/// Makes the memory of a client.
pub(super) fn make_attachment(
    geometry: &AttachmentGeometry,
    generation: u32,
) -> Result<MadeAttachment, ControlError> {
    let (attachment, files) = AttachmentMemory::create(geometry, generation)?;
    let (bell, watch) = wake_descriptors()?;
    Ok(MadeAttachment {
        attachment,
        asleep: Waker::new(&files, geometry)?,
        bell,
        files: Arc::new(files),
        watch: Arc::new(watch),
    })
}

/// The adapter's private memory for a connection: sizes of what lies in no file.
pub(super) struct PrivateMemory {
    /// Octets for a PDU on its way out.
    staging_len: usize,
    /// What an AAL3/4 VC that receives may hold.
    limits: Option<aal34::Limits>,
}

impl PrivateMemory {
    /// For a VC that is opened, or modified, like this.
    pub(super) fn of(request: &OpenRequest, geometry: &ConnectionGeometry) -> Self {
        let sizes = geometry.sizes();
        let staging_len = match (sizes.transmit_len, request.aal) {
            (0, _) => 0,
            (_, Aal::Aal0 | Aal::Aal5) => STAGING_LEN,
            (_, Aal::Aal34(_)) => STAGING_LEN_AAL34,
        };
        Self {
            staging_len,
            limits: request.aal34_limits(sizes.receive_len, sizes.receive_slots),
        }
    }

    /// Octets in all.
    pub(super) fn octets(&self) -> usize {
        let reassembler = self.limits.as_ref().map(aal34::Reassembler::memory_len);
        self.staging_len + reassembler.unwrap_or(0)
    }
}

/// Makes the memory of a connection.
pub(super) fn make_region(
    geometry: &ConnectionGeometry,
    generation: u32,
    private: &PrivateMemory,
    buffer: ReceiveBuffer<'_>,
) -> Result<(HostRegion, Arc<Files>), ControlError> {
    let (region, files) =
        ConnectionMemory::create(geometry, generation, private.staging_len, buffer)?;
    let region = match private.limits {
        Some(limits) => region.with_reassembler(limits),
        None => region,
    };
    Ok((region, Arc::new(files)))
}

/// Makes a port that the adapter receives from.
pub(super) fn make_receive_port(
    geometry: &PortGeometry,
    generation: u32,
) -> Result<(CellReceiver, Arc<Files>), ControlError> {
    let (port, files) = PortReceiver::create(geometry, generation)?;
    Ok((CellReceiver::over(port), Arc::new(files)))
}

/// Makes a port that the adapter transmits into.
pub(super) fn make_transmit_port(
    geometry: &PortGeometry,
    generation: u32,
) -> Result<(CellSender, Arc<Files>), ControlError> {
    let (port, files) = PortSender::create(geometry, generation)?;
    Ok((CellSender::over(port, geometry), Arc::new(files)))
}
