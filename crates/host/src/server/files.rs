//! The files of an adapter's memory as the server's process has them.

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use cellgate_core::adapter::{AttachmentIndex, VcId, VcIndex};
use cellgate_core::server::{Enclosed, PagesOf};
use cellgate_shm::name_of;

use super::pages::{FileName, PageWatch};
use crate::closer::Closer;
use crate::sys::AdapterCpus;

/// The files of an attachment, and what wakes its client.
struct OfAttachment {
    from_adapter: Arc<OwnedFd>,
    from_client: Arc<OwnedFd>,
    watch: Arc<OwnedFd>,
    /// What its client wakes the adapter by.
    bell: Arc<OwnedFd>,
    name: FileName,
}

/// The files of a VC.
struct OfVc {
    vc: VcId,
    from_adapter: Arc<OwnedFd>,
    from_client: Arc<OwnedFd>,
    /// That of the file that its client writes: whoever has it has the VC.
    capability: FileName,
}

/// All of them.
pub(super) struct Files {
    attachments: BTreeMap<AttachmentIndex, OfAttachment>,
    vcs: BTreeMap<VcIndex, OfVc>,
    /// The adapter's page, the same for all of them.
    page: Option<Arc<OwnedFd>>,
    pages: PageWatch,
}

impl Files {
    pub(super) fn new(pages: PageWatch) -> Self {
        Self {
            attachments: BTreeMap::new(),
            vcs: BTreeMap::new(),
            page: None,
            pages,
        }
    }

    /// Those of an attachment came.
    pub(super) fn note_attachment(&mut self, index: AttachmentIndex, fds: [&Arc<OwnedFd>; 5]) {
        self.forget_attachment(index);
        let [from_adapter, from_client, watch, page, bell] = fds.map(Arc::clone);
        let of = OfAttachment {
            name: file_name(&from_client),
            from_adapter,
            from_client,
            watch,
            bell,
        };
        self.page = Some(page);
        self.attachments.insert(index, of);
    }

    pub(super) fn forget_attachment(&mut self, index: AttachmentIndex) {
        if let Some(of) = self.attachments.remove(&index) {
            self.pages.forget(of.name);
        }
        if self.attachments.is_empty() {
            self.page = None;
        }
    }

    /// Those of a VC came.
    pub(super) fn note_vc(&mut self, vc: VcId, fds: [&Arc<OwnedFd>; 2]) {
        self.forget_vc(vc.index);
        let [from_adapter, from_client] = fds.map(Arc::clone);
        let of = OfVc {
            vc,
            capability: file_name(&from_client),
            from_adapter,
            from_client,
        };
        self.vcs.insert(vc.index, of);
    }

    /// A VC has another name, and the files that it had.
    pub(super) fn rename_vc(&mut self, vc: VcId) {
        if let Some(of) = self.vcs.get_mut(&vc.index) {
            of.vc = vc;
        }
    }

    pub(super) fn forget_vc(&mut self, index: VcIndex) {
        if let Some(of) = self.vcs.remove(&index) {
            self.pages.forget(of.capability);
        }
    }

    /// Applications have the memory that came last: pages of it can be taken away.
    pub(super) fn are_shared(&self) {
        for of in self.attachments.values() {
            self.share_attachment(of);
        }
        self.vcs.values().for_each(|of| self.share_vc(of));
    }

    fn share_attachment(&self, of: &OfAttachment) {
        let files = [&of.from_adapter, &of.from_client].map(Arc::clone);
        self.pages.watch(of.name, files);
    }

    fn share_vc(&self, of: &OfVc) {
        let files = [&of.from_adapter, &of.from_client].map(Arc::clone);
        self.pages.watch(of.capability, files);
    }

    /// The adapter has gone.
    pub(super) fn forget_all(&mut self) {
        self.attachments.clear();
        self.vcs.clear();
        self.page = None;
        self.pages.forget_all();
    }

    /// The adapter's process is this one.
    pub(super) fn are_of(&self, pid: u32) {
        self.pages.adapter(pid);
    }

    /// Who watches over them keeps off these CPUs.
    pub(super) fn keep_off(&self, adapters: AdapterCpus) {
        self.pages.keep_off(adapters);
    }

    /// Those that go along with a message, whose pages can be taken away from now on; none if there
    /// are no such ones.
    pub(super) fn enclosed(&self, enclosed: Enclosed) -> Option<Vec<Arc<OwnedFd>>> {
        let vc = |vc: VcId| {
            let of = self.of(vc)?;
            self.share_vc(of);
            Some([Arc::clone(&of.from_adapter), Arc::clone(&of.from_client)])
        };
        match enclosed {
            Enclosed::Nothing => Some(Vec::new()),
            Enclosed::Memory { vc: name, .. } => Some(vc(name)?.to_vec()),
            Enclosed::Connection {
                vc: name,
                attachment,
                ..
            } => {
                let of = self.attachments.get(&attachment)?;
                self.share_attachment(of);
                let mut fds = vc(name)?.to_vec();
                let page = self.page.as_ref()?;
                let own = [&of.from_adapter, &of.from_client, &of.watch, page, &of.bell];
                fds.extend(own.map(Arc::clone));
                Some(fds)
            }
            Enclosed::Counters => None,
        }
    }

    /// The VC whose client writes the file `fd`.
    pub(super) fn capability(&self, fd: &Closer) -> Option<VcId> {
        let name = name_of(fd)?;
        let found = self.vcs.values().find(|vc| vc.capability == name)?;
        Some(found.vc)
    }

    /// The capability of a VC.
    pub(super) fn capability_of(&self, vc: VcId) -> Option<OwnedFd> {
        self.of(vc)?.from_client.try_clone().ok()
    }

    fn of(&self, vc: VcId) -> Option<&OfVc> {
        self.vcs.get(&vc.index).filter(|of| of.vc == vc)
    }

    /// Becomes readable when somebody has taken pages away.
    pub(super) fn pages_bell(&self) -> BorrowedFd<'_> {
        self.pages.bell()
    }

    /// Pages that were taken away since this was asked last, of each memory.
    pub(super) fn pages_taken(&self) -> Vec<(PagesOf, u32)> {
        let memory = |name| {
            let mut vcs = self.vcs.values();
            let vc = vcs.find(|of| of.capability == name);
            let mut attachments = self.attachments.iter();
            let attachment = attachments.find(|(_, of)| of.name == name);
            let attachment = attachment.map(|(index, _)| PagesOf::Attachment(*index));
            vc.map(|of| PagesOf::Vc(of.vc)).or(attachment)
        };
        let found = self.pages.found().into_iter();
        let found = found.filter_map(|(name, pages)| Some((memory(name)?, pages)));
        found.collect()
    }
}

/// No file has the number 0.
fn file_name(file: &OwnedFd) -> FileName {
    name_of(file).unwrap_or_default()
}
