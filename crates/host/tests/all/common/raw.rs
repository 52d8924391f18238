//! A client made of descriptors, as they come with a message.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use cellgate_core::adapter::{AttachmentIndex, VcId};
use cellgate_core::queue::{
    AttachmentGeometry, AttachmentSizes, ConnectionGeometry, ConnectionSizes, SduOptions,
};
use cellgate_host::client::Attached;
use cellgate_shm::{ClientMemory, Files, ReceiveBuffer, RouseFiles};

use super::PATIENCE;

/// What a client must be told of its memory.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Parts {
    pub vc: VcId,
    pub sizes: ConnectionSizes,
    pub files_generation: u32,
    pub attachment: AttachmentIndex,
    pub attachment_sizes: AttachmentSizes,
    pub attachment_generation: u32,
}

/// A client with one VC.
pub struct RawVc {
    pub id: VcId,
    pub attached: Attached,
    pub memory: ClientMemory,
}

impl RawVc {
    /// Over the two files of a VC, the two of its attachment, and what wakes it.
    pub fn new(parts: &Parts, fds: Vec<OwnedFd>) -> Self {
        let [from_adapter, from_client, a, b, watch, page, bell] =
            fds.try_into().expect("seven descriptors");
        let files = Files {
            from_adapter,
            from_client,
        };
        let geometry = AttachmentGeometry::new(parts.attachment_sizes).unwrap();
        let of_attachment = Files {
            from_adapter: a,
            from_client: b,
        };
        let attached = Attached::open(
            parts.attachment,
            &of_attachment,
            &geometry,
            parts.attachment_generation,
            watch,
            RouseFiles { page, bell },
        );
        Self {
            id: parts.vc,
            attached: attached.unwrap(),
            memory: Self::memory(parts, &files),
        }
    }

    fn memory(parts: &Parts, files: &Files) -> ClientMemory {
        let geometry = ConnectionGeometry::new(parts.sizes).unwrap();
        let generation = parts.files_generation;
        ClientMemory::open(files, &geometry, generation, ReceiveBuffer::Own)
            .unwrap()
            .named(&geometry, parts.vc.generation)
    }

    /// Sends if there is room.
    pub fn try_send(&mut self, sdu: &[u8]) -> bool {
        let Some(mut space) = self.memory.reserve(sdu.len() as u32) else {
            self.memory.reclaim();
            return false;
        };
        self.memory.space_mut(&mut space).copy_from_slice(sdu);
        let sent = self.memory.submit(space, SduOptions::default());
        if sent {
            self.attached.ring(self.id);
        }
        sent
    }

    /// Sends, waiting for room.
    pub fn send(&mut self, sdu: &[u8]) {
        let deadline = Instant::now() + PATIENCE;
        while !self.try_send(sdu) {
            assert!(Instant::now() < deadline, "no room to send");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// The next SDU, if one waits.
    pub fn try_receive(&mut self) -> Option<Vec<u8>> {
        while self.attached.next_event().is_some() {}
        let pdu = self.memory.next_pdu()?;
        let mut sdu = vec![0; pdu.len()];
        assert_eq!(self.memory.copy_sdu(&pdu, &mut sdu), sdu.len());
        assert!(self.memory.release(pdu));
        Some(sdu)
    }

    /// The next SDU, waiting for it.
    pub fn receive(&mut self) -> Vec<u8> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(sdu) = self.try_receive() {
                return sdu;
            }
            assert!(Instant::now() < deadline, "no PDU came");
            self.attached.wait(Some(Duration::from_millis(5))).unwrap();
        }
    }
}
