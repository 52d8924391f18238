//! The files of an adapter's memory as the server's process has them.

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use cellgate_core::keeper::Handle;
use cellgate_shm::name_of;

use super::pages::{FileName, PageWatch};
use crate::closer::Closer;
use crate::sys::AdapterCpus;

/// The files of a VC or of an attachment: written by the adapter, written by the client; of an
/// attachment also what wakes its client, the adapter's page, and what its client wakes the adapter
/// by.
struct Memory {
    fds: Vec<Arc<OwnedFd>>,
    /// Of the file that the client writes: whoever has that of a VC has the VC.
    name: FileName,
}

/// All of them.
pub(super) struct Files {
    all: BTreeMap<Handle, Memory>,
    pages: PageWatch,
}

impl Files {
    pub(super) fn new(pages: PageWatch) -> Self {
        Self {
            all: BTreeMap::new(),
            pages,
        }
    }

    /// Those of an attachment or of a VC came: the file that the adapter writes first, then the
    /// client's.
    pub(super) fn note(&mut self, handle: Handle, fds: Vec<Arc<OwnedFd>>) {
        // No file has the number 0.
        let name = fds.get(1).and_then(name_of).unwrap_or_default();
        self.all.insert(handle, Memory { fds, name });
    }

    /// Nobody has it any more.
    pub(super) fn release(&mut self, handle: Handle) {
        if let Some(memory) = self.all.remove(&handle) {
            self.pages.forget(memory.name);
        }
    }

    /// Applications have all of it: pages can be taken away.
    pub(super) fn are_shared(&self) {
        self.all.values().for_each(|memory| self.share(memory));
    }

    fn share(&self, memory: &Memory) {
        if let [from_adapter, from_client, ..] = &memory.fds[..] {
            let files = [from_adapter, from_client].map(Arc::clone);
            self.pages.watch(memory.name, files);
        }
    }

    /// The adapter has gone.
    pub(super) fn are_gone(&self) {
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
    pub(super) fn enclosed(&self, handles: &[Handle]) -> Option<Vec<Arc<OwnedFd>>> {
        let memory = handles.iter().map(|handle| self.all.get(handle));
        let memory: Vec<_> = memory.collect::<Option<_>>()?;
        memory.iter().for_each(|memory| self.share(memory));
        let fds = memory
            .into_iter()
            .flat_map(|memory| memory.fds.iter().cloned());
        Some(fds.collect())
    }

    /// The memory whose client writes the file `fd`.
    pub(super) fn capability(&self, fd: &Closer) -> Option<Handle> {
        self.named(name_of(fd)?)
    }

    fn named(&self, name: FileName) -> Option<Handle> {
        let mut all = self.all.iter();
        let found = all.find(|(_, memory)| memory.name == name);
        found.map(|(handle, _)| *handle)
    }

    /// The file that the client of a VC writes.
    pub(super) fn capability_of(&self, handle: Handle) -> Option<OwnedFd> {
        self.all.get(&handle)?.fds.get(1)?.try_clone().ok()
    }

    /// Becomes readable when somebody has taken pages away.
    pub(super) fn pages_bell(&self) -> BorrowedFd<'_> {
        self.pages.bell()
    }

    /// Pages that were taken away since this was asked last, of each memory.
    pub(super) fn pages_taken(&self) -> Vec<(Handle, u32)> {
        let found = self.pages.found().into_iter();
        let found = found.filter_map(|(name, pages)| Some((self.named(name)?, pages)));
        found.collect()
    }
}
