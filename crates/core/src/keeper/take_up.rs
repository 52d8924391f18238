//! What outlives the control connection of a server, and how its successor gets it.

use super::records::{Asker, AttachmentRecord, Pending, VcRecord};
use super::{Answer, ControlError, Handle, Keeper, TakenUp};
use crate::adapter::Refusal;

impl Keeper {
    /// Hands over one attachment or VC that nobody owns. Who asks for it governs from then on.
    pub(super) fn take_up(&mut self, asker: Asker) -> Result<(), ControlError> {
        if let Some(pid) = self.other_governor(Some(asker.connection)) {
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
            .unwrap_or((TakenUp::Nothing, Vec::new()));
        self.reply(asker, Ok(Answer::TakenUp(taken)), enclosed);
        Ok(())
    }

    fn take_up_attachment(&mut self, asker: Asker) -> Option<(TakenUp, Vec<Handle>)> {
        let left = |record: &AttachmentRecord| {
            record.owner.is_none() && record.kept.is_some() && !record.leaving
        };
        let mut attachments = self.attachments.iter_mut();
        let (index, record) = attachments.find(|(_, record)| left(record))?;
        record.owner = Some(asker.connection);
        let kept = record.kept.as_ref()?;
        let taken = TakenUp::Attachment {
            attachment: *index,
            sizes: record.sizes,
            files_generation: record.files_generation,
            record: kept.record.clone(),
        };
        let mut enclosed = vec![record.files];
        enclosed.extend(&kept.descriptors);
        Some((taken, enclosed))
    }

    fn take_up_vc(&mut self, asker: Asker) -> Option<(TakenUp, Vec<Handle>)> {
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
        Some((taken, vec![record.memory.files]))
    }
}
