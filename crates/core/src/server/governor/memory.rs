//! Which memory of one adapter is whose.

use std::collections::BTreeMap;

use crate::adapter::{AttachmentIndex, VcId, VcIndex};
use crate::keeper::Handle;
use crate::server::{Enclosed, PagesOf};

/// Which memory of an adapter is whose, as its server knows. What another takes the place of comes
/// back, to be released.
#[derive(Debug, Default)]
pub(super) struct Memory {
    attachments: BTreeMap<AttachmentIndex, Handle>,
    vcs: BTreeMap<VcIndex, (VcId, Handle)>,
}

impl Memory {
    pub(super) fn note_attachment(
        &mut self,
        index: AttachmentIndex,
        files: Handle,
    ) -> Option<Handle> {
        self.attachments.insert(index, files)
    }

    pub(super) fn forget_attachment(&mut self, index: AttachmentIndex) -> Option<Handle> {
        self.attachments.remove(&index)
    }

    pub(super) fn note_vc(&mut self, vc: VcId, files: Handle) -> Option<Handle> {
        let former = self.vcs.insert(vc.index, (vc, files));
        former.map(|(_, files)| files)
    }

    /// A VC has another name, and the memory that it had.
    pub(super) fn rename_vc(&mut self, vc: VcId) {
        if let Some((name, _)) = self.vcs.get_mut(&vc.index) {
            *name = vc;
        }
    }

    pub(super) fn forget_vc(&mut self, index: VcIndex) -> Option<Handle> {
        self.vcs.remove(&index).map(|(_, files)| files)
    }

    pub(super) fn forget_all(&mut self) -> Vec<Handle> {
        let attachments = core::mem::take(&mut self.attachments).into_values();
        let vcs = core::mem::take(&mut self.vcs).into_values();
        attachments.chain(vcs.map(|(_, files)| files)).collect()
    }

    /// That of a VC.
    pub(super) fn of_vc(&self, vc: VcId) -> Option<Handle> {
        let (name, files) = self.vcs.get(&vc.index)?;
        (*name == vc).then_some(*files)
    }

    /// What goes along with a message, of a VC and of an attachment; none: there is no such memory.
    pub(super) fn enclosed(&self, enclosed: Enclosed) -> Option<Vec<Handle>> {
        match enclosed {
            Enclosed::Nothing => Some(Vec::new()),
            Enclosed::Memory { vc, .. } => Some(vec![self.of_vc(vc)?]),
            Enclosed::Connection { vc, attachment, .. } => {
                let attachment = self.attachments.get(&attachment)?;
                Some(vec![self.of_vc(vc)?, *attachment])
            }
            Enclosed::Counters => None,
        }
    }

    /// All of it.
    pub(super) fn all(&self) -> impl Iterator<Item = (PagesOf, Handle)> {
        let attachments = self.attachments.iter();
        let attachments = attachments.map(|(index, files)| (PagesOf::Attachment(*index), *files));
        let vcs = self
            .vcs
            .values()
            .map(|(vc, files)| (PagesOf::Vc(*vc), *files));
        attachments.chain(vcs)
    }
}
