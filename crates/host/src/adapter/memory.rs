//! The memory of attachments, connections and ports, as the service thread makes it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use cellgate_core::keeper::{ControlError, PrivateMemory};
use cellgate_core::queue::{AttachmentGeometry, ConnectionGeometry, PortGeometry};
use cellgate_shm::{
    AttachmentMemory, ConnectionMemory, Files, PortReceiver, PortSender, ReceiveBuffer, ShmError,
    Waker, wake_descriptors,
};

use crate::link::{CellReceiver, CellSender};

/// The memory of a connection as the firmware has it.
pub(super) type HostRegion = ConnectionMemory;
/// The memory of a client as the firmware has it.
pub(super) type HostAttachment = AttachmentMemory;

/// Why memory cannot be had.
fn refused(error: ShmError) -> ControlError {
    match error {
        ShmError::System { .. } => ControlError::Kernel(error.to_string()),
        ShmError::ReceiveBuffer => ControlError::BadGeometry(error.to_string()),
        _ => ControlError::BadDescriptor(error.to_string()),
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
    let (attachment, files) = AttachmentMemory::create(geometry, generation).map_err(refused)?;
    let (bell, watch) = wake_descriptors().map_err(refused)?;
    Ok(MadeAttachment {
        attachment,
        asleep: Waker::new(&files, geometry).map_err(refused)?,
        bell,
        files: Arc::new(files),
        watch: Arc::new(watch),
    })
}

/// Makes the memory of a connection.
pub(super) fn make_region(
    geometry: &ConnectionGeometry,
    generation: u32,
    private: &PrivateMemory,
    buffer: ReceiveBuffer<'_>,
) -> Result<(HostRegion, Arc<Files>), ControlError> {
    let (region, files) =
        ConnectionMemory::create(geometry, generation, private.staging_len, buffer)
            .map_err(refused)?;
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
    let (port, files) = PortReceiver::create(geometry, generation).map_err(refused)?;
    Ok((CellReceiver::over(port), Arc::new(files)))
}

/// Makes a port that the adapter transmits into.
pub(super) fn make_transmit_port(
    geometry: &PortGeometry,
    generation: u32,
) -> Result<(CellSender, Arc<Files>), ControlError> {
    let (port, files) = PortSender::create(geometry, generation).map_err(refused)?;
    Ok((CellSender::over(port, geometry), Arc::new(files)))
}
