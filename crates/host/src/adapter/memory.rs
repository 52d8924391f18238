use std::os::fd::OwnedFd;
use std::sync::Arc;

use cellgate_core::ring::{AttachmentGeometry, ConnectionGeometry, PortGeometry};
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
    pub(super) bell: Waker,
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
        bell: Waker::new(bell, &files, geometry)?,
        files: Arc::new(files),
        watch: Arc::new(watch),
    })
}

/// Octets of private memory for a connection's PDU on its way out.
pub(super) fn staging_len(geometry: &ConnectionGeometry) -> usize {
    match geometry.sizes().transmit_len {
        0 => 0,
        _ => STAGING_LEN,
    }
}

/// Makes the memory of a connection.
pub(super) fn make_region(
    geometry: &ConnectionGeometry,
    generation: u32,
    buffer: ReceiveBuffer<'_>,
) -> Result<(HostRegion, Arc<Files>), ControlError> {
    let (region, files) =
        ConnectionMemory::create(geometry, generation, staging_len(geometry), buffer)?;
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
