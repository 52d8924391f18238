//! From a confirm and its descriptors to mapped memory.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use cellgate_core::queue::{AttachmentGeometry, ConnectionGeometry};
use cellgate_core::server::Opened;
use cellgate_shm::{
    Attached, ClientMemory, ClientReceive, ClientTransmit, Files, ReceiveBuffer, RouseFiles,
};

use super::chain::LentBuffer;
use crate::Error;
use crate::hub::{Attachment, Hub};

/// Which of the descriptors is of the file that the client writes.
pub(crate) const FROM_CLIENT: usize = 1;

/// A connection's memory by direction.
pub(super) struct Memory {
    pub(super) transmit: ClientTransmit,
    pub(super) receive: ClientReceive,
    pub(super) capability: OwnedFd,
}

/// The seven descriptors of an opened connection: two are of its memory, five of its attachment,
/// which it may share with others of its session.
pub(super) fn all(
    hub: &Hub,
    opened: &Opened,
    fds: Vec<OwnedFd>,
    into: Option<&LentBuffer>,
) -> Result<(Memory, Arc<Attachment>), Error> {
    let [from_adapter, from_client, attachment @ ..] = take::<7>(fds)?;
    let memory = over(opened, from_adapter, from_client, into)?;
    let attachment = hub.attach(attachment.into(), |fds| attached(opened, fds))?;
    Ok((memory, attachment))
}

/// The five descriptors of an attachment.
fn attached(opened: &Opened, fds: Vec<OwnedFd>) -> Result<Attached, Error> {
    let [events, doorbells, watch, page, bell] = take(fds)?;
    let geometry = AttachmentGeometry::new(opened.attachment_sizes).map_err(bad)?;
    let files = Files {
        from_adapter: events,
        from_client: doorbells,
    };
    let generation = opened.attachment_generation;
    let rouse = RouseFiles { page, bell };
    let index = opened.attachment;
    Ok(Attached::open(
        index, &files, &geometry, generation, watch, rouse,
    )?)
}

/// The two descriptors of a connection's new memory.
pub(super) fn of_connection(opened: &Opened, fds: Vec<OwnedFd>) -> Result<Memory, Error> {
    let [from_adapter, from_client] = take(fds)?;
    over(opened, from_adapter, from_client, None)
}

fn over(
    opened: &Opened,
    from_adapter: OwnedFd,
    from_client: OwnedFd,
    into: Option<&LentBuffer>,
) -> Result<Memory, Error> {
    let geometry = ConnectionGeometry::new(opened.sizes).map_err(bad)?;
    let files = Files {
        from_adapter,
        from_client,
    };
    let buffer = match into {
        None => ReceiveBuffer::Own,
        Some(into) => ReceiveBuffer::TransmitBufferOf {
            from_client: into.capability.as_fd(),
            geometry: ConnectionGeometry::new(into.sizes).map_err(bad)?,
        },
    };
    let memory = ClientMemory::open(&files, &geometry, opened.files_generation, buffer)?;
    let named = memory.named(&geometry, opened.vc.generation);
    let (transmit, receive) = named.into_halves();
    Ok(Memory {
        transmit,
        receive,
        capability: files.from_client,
    })
}

fn take<const N: usize>(fds: Vec<OwnedFd>) -> Result<[OwnedFd; N], Error> {
    let got = fds.len();
    fds.try_into()
        .map_err(|_| Error::BadMessage(format!("{got} descriptors came, {N} belong to it")))
}

fn bad(error: impl core::fmt::Display) -> Error {
    Error::BadMessage(error.to_string())
}
