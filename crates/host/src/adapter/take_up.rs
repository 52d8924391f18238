//! What outlives the control connection of a server, and how its successor gets it.

use std::sync::Arc;

use cellgate_core::adapter::{AttachmentIndex, PortIndex, Refusal};

use super::records::{Asker, AttachmentRecord, ConnectionId, Enclosed, Pending, VcRecord};
use super::service::Service;
use crate::closer::{Closer, is_hung_up};
use crate::control::{Answer, ControlError, TakenUp};
use crate::sys::{is_tun, peer_credentials};

type Handled = Result<(), ControlError>;

impl Service {
    /// Keeps descriptors with an attachment in place of those before, or none.
    pub(super) fn keep(
        &mut self,
        asker: Asker,
        index: AttachmentIndex,
        fds: Vec<Closer>,
        words: Option<String>,
    ) -> Handled {
        self.own_attachment(asker.connection, index)?;
        let record = self.attachments.get_mut(&index);
        let kept = record.and_then(|record| record.kept.as_mut());
        let kept = kept.ok_or(ControlError::NotYours)?;
        let fds = fds.into_iter().map(Arc::new).collect();
        let former = std::mem::replace(&mut kept.descriptors, fds);
        kept.record = words;
        // A network device is let go of before that is told: whoever asked may end it then.
        for device in former.into_iter().filter_map(Arc::into_inner) {
            if is_tun(&device).is_ok_and(|is| is) {
                drop(device.into_inner());
            }
        }
        self.reply(asker, Ok(Answer::Done), Enclosed::Nothing);
        Ok(())
    }

    /// Keeps words with a port in place of those before, or none.
    pub(super) fn keep_port(
        &mut self,
        asker: Asker,
        port: PortIndex,
        words: Option<String>,
    ) -> Handled {
        self.port(port)?;
        self.ports[usize::from(port.0)].record = words;
        self.reply(asker, Ok(Answer::Done), Enclosed::Nothing);
        Ok(())
    }

    /// The process of whoever governs the adapter and is there, unless it is who asks.
    pub(super) fn other_governor(&self, asker: ConnectionId) -> Option<u32> {
        let governor = self.governor.filter(|governor| *governor != asker)?;
        let connection = self.connections.get(&governor)?;
        let is_there = !connection.ending && !is_hung_up(&connection.socket);
        is_there.then(|| peer_credentials(&connection.socket).map_or(0, |(_, pid)| pid))
    }

    /// Whether anybody who governs it is there.
    pub(super) fn is_governed(&self) -> bool {
        self.other_governor(ConnectionId::MAX).is_some()
    }

    /// Hands over one attachment or VC that nobody owns. Who asks for it governs from then on.
    pub(super) fn take_up(&mut self, asker: Asker) -> Handled {
        if let Some(pid) = self.other_governor(asker.connection) {
            return Err(ControlError::Governed { pid });
        }
        self.governor = Some(asker.connection);
        let ending = self.connections.values().any(|other| other.ending);
        let of_the_dead = self.awaits(|pending| {
            // What changes nothing here may take its seconds.
            let asker = match pending {
                Pending::Loopback { .. } => None,
                other => other.asker(),
            };
            asker.is_some_and(|asker| !self.connections.contains_key(&asker.connection))
        });
        if ending || of_the_dead {
            return Err(ControlError::Refused(Refusal::Busy));
        }
        let (taken, enclosed) = self
            .take_up_attachment(asker)
            .or_else(|| self.take_up_vc(asker))
            .unwrap_or((TakenUp::Nothing, Enclosed::Nothing));
        self.reply(asker, Ok(Answer::TakenUp(taken)), enclosed);
        Ok(())
    }

    fn take_up_attachment(&mut self, asker: Asker) -> Option<(TakenUp, Enclosed)> {
        let left = |record: &AttachmentRecord| {
            record.owner.is_none() && record.kept.is_some() && !record.leaving
        };
        let mut attachments = self.attachments.iter_mut();
        let (index, record) = attachments.find(|(_, record)| left(record))?;
        let kept = record.kept.as_ref()?;
        record.owner = Some(asker.connection);
        let taken = TakenUp::Attachment {
            attachment: *index,
            sizes: kept.sizes,
            files_generation: kept.files_generation,
            record: kept.record.clone(),
        };
        let (files, watch) = (Arc::clone(&kept.files), Arc::clone(&kept.watch));
        let rouse = Arc::clone(&kept.rouse);
        let enclosed = Enclosed::Attachment(files, watch, rouse, kept.descriptors.clone());
        Some((taken, enclosed))
    }

    fn take_up_vc(&mut self, asker: Asker) -> Option<(TakenUp, Enclosed)> {
        let left = |vc: &VcRecord| vc.owner.is_none() && !vc.doomed;
        let record = self.vcs.values_mut().find(|vc| left(vc))?;
        record.owner = Some(asker.connection);
        let taken = TakenUp::Vc {
            vc: record.vc,
            attachment: record.attachment,
            sizes: record.memory.sizes,
            receive_into: record.memory.receive_into,
            files_generation: record.memory.files_generation,
            record: record.record.clone(),
        };
        Some((taken, Enclosed::Two(Arc::clone(&record.memory.files))))
    }
}
