//! All adapters of the server, as its process has them: a connection to each keeper, and the
//! descriptors that came over it.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use cellgate_core::adapter::{AttachmentIndex, PortConfig, PortIndex, VcId};
use cellgate_core::keeper::Handle;
use cellgate_core::server::governor::{Governed, Governors, News};
use cellgate_core::server::{
    AdapterAsk, AdapterIndex, AdapterRefusal, Enclosed, On, PagesOf, Ticket,
};

use super::files::Files;
use super::link::AdapterLink;
use super::pages::PageWatch;
use crate::adapter::AdapterProcess;
use crate::clock::MonotonicClock;
use crate::closer::Closer;
use crate::control::{Answer, ControlError, Hello, Reply, TakenUp};
use crate::sys::AdapterCpus;

/// One of them.
struct Side {
    link: Option<AdapterLink>,
    /// None: it is no child of this process.
    process: Option<AdapterProcess>,
    files: Files,
}

/// The adapters as the server's process has them.
pub(super) struct Adapters {
    governors: Governors,
    sides: Vec<Side>,
    /// What is kept for others, or is to be sent along.
    given: BTreeMap<Handle, Vec<Arc<Closer>>>,
    /// What others have to hear later.
    news: Vec<(AdapterIndex, News)>,
}

impl Adapters {
    /// None of them is there. `template`: what ports are configured as.
    pub(super) fn new(pages: Vec<PageWatch>, template: PortConfig) -> Self {
        let words = |errno| std::io::Error::from_raw_os_error(errno).to_string();
        let side = |pages| Side {
            link: None,
            process: None,
            files: Files::new(pages),
        };
        Self {
            governors: Governors::new(pages.len(), template, words),
            sides: pages.into_iter().map(side).collect(),
            given: BTreeMap::new(),
            news: Vec::new(),
        }
    }

    pub(super) fn indices(&self) -> impl Iterator<Item = AdapterIndex> + use<> {
        self.governors.indices()
    }

    /// What an adapter said of itself; none: it is away.
    pub(super) fn hello(&self, adapter: AdapterIndex) -> Option<&Hello> {
        self.governors.hello(adapter)
    }

    /// Says hello to an adapter: one that was started just now, or one that another server left.
    pub(super) fn begin(
        &mut self,
        adapter: AdapterIndex,
        socket: OwnedFd,
        process: Option<AdapterProcess>,
    ) {
        let was_left = process.is_none();
        let side = &mut self.sides[adapter.place()];
        side.process = process;
        side.link = Some(AdapterLink::new(socket));
        self.governors.begin(adapter, was_left);
    }

    /// Something to poll for each that is there; whether for writing too.
    pub(super) fn poll(&self) -> Vec<(BorrowedFd<'_>, bool)> {
        let links = self.sides.iter().filter_map(|side| side.link.as_ref());
        links
            .map(|link| (link.as_fd(), link.wants_to_send()))
            .collect()
    }

    /// The same for one of them.
    pub(super) fn poll_one(&self, adapter: AdapterIndex) -> Option<BorrowedFd<'_>> {
        let link = self.sides[adapter.place()].link.as_ref();
        link.map(AsFd::as_fd)
    }

    /// Whether what one of them is to be sent waits for the kernel to take more descriptors.
    pub(super) fn are_held(&self) -> bool {
        let mut links = self.sides.iter().filter_map(|side| side.link.as_ref());
        links.any(AdapterLink::is_held)
    }

    /// The CPUs that those which are there have taken; where none is, the next may take any.
    pub(super) fn cpus(&self) -> AdapterCpus {
        let hellos = self.indices().filter_map(|adapter| self.hello(adapter));
        let mut pinned = hellos.map(|hello| hello.scheduling.pinned).peekable();
        match pinned.peek() {
            Some(_) => AdapterCpus::of(pinned),
            None => AdapterCpus::ANY,
        }
    }

    /// Asks for the server.
    pub(super) fn ask(&mut self, adapter: AdapterIndex, ticket: Ticket, ask: AdapterAsk) {
        self.governors.ask(adapter, ticket, ask);
    }

    /// Answers in place of an adapter, which is not asked.
    pub(super) fn refuse(&mut self, adapter: AdapterIndex, ticket: Ticket, why: AdapterRefusal) {
        self.governors.refuse(adapter, ticket, why);
    }

    /// Has an adapter keep descriptors, and what they are.
    pub(super) fn keep(
        &mut self,
        attachment: On<AttachmentIndex>,
        fds: Vec<Arc<Closer>>,
        record: Option<String>,
    ) {
        let handle = self.governors.new_handle();
        self.given.insert(handle, fds);
        self.governors.keep(attachment, vec![handle], record);
    }

    /// Has an adapter keep nothing with an attachment (none: there was none), for a worker that is
    /// to end.
    pub(super) fn let_go(&mut self, attachment: Option<On<AttachmentIndex>>, worker: u32) {
        self.governors.let_go(attachment, worker);
    }

    /// What was kept, if nobody else has it.
    pub(super) fn take_given(&mut self, kept: Vec<Handle>) -> Vec<Closer> {
        let given = kept
            .into_iter()
            .filter_map(|handle| self.given.remove(&handle));
        given.flatten().filter_map(Arc::into_inner).collect()
    }

    /// Asks how one does, `since_ns` after the last time; for how long it has been silent.
    pub(super) fn look(&mut self, adapter: AdapterIndex, since_ns: u64) -> u64 {
        let link = self.sides[adapter.place()].link.as_ref();
        let unsent = link.map_or(0, AdapterLink::unsent);
        self.governors.look(adapter, since_ns, unsent)
    }

    /// Takes one for dead.
    pub(super) fn give_up(&mut self, adapter: AdapterIndex) {
        self.governors.handle_lost(adapter);
    }

    /// Lets all live on when this process ends.
    pub(super) fn leave(&mut self) {
        let processes = self.sides.iter_mut().map(|side| side.process.take());
        processes.flatten().for_each(AdapterProcess::leave);
    }

    /// Asks all to end.
    pub(super) fn shut_down(&mut self) {
        self.governors.shut_down();
    }

    /// The name of the interface whose link is on a port.
    pub(super) fn interface_on(&self, port: On<PortIndex>) -> Option<String> {
        self.governors.interface_on(port)
    }

    /// The descriptors that go along with a message about a connection; none if there are no such
    /// ones.
    pub(super) fn enclosed(&self, enclosed: Enclosed) -> Option<Vec<Arc<OwnedFd>>> {
        let handles = self.governors.enclosed(enclosed)?;
        match enclosed {
            Enclosed::Nothing | Enclosed::Counters => Some(Vec::new()),
            Enclosed::Connection { adapter, .. } | Enclosed::Memory { adapter, .. } => {
                self.files(adapter).enclosed(&handles)
            }
        }
    }

    /// The VC whose client writes the file `fd`.
    pub(super) fn capability(&self, fd: &Closer) -> Option<On<VcId>> {
        self.indices().find_map(|adapter| {
            let files = self.files(adapter).capability(fd)?;
            match self.whose(adapter, files)? {
                PagesOf::Vc(vc) => Some(adapter.on(vc)),
                PagesOf::Attachment(_) => None,
            }
        })
    }

    /// The capability of a VC.
    pub(super) fn capability_of(&self, vc: On<VcId>) -> Option<OwnedFd> {
        let handle = self.governors.memory_of(vc)?;
        self.files(vc.adapter).capability_of(handle)
    }

    /// The files of an adapter's memory.
    pub(super) fn files(&self, adapter: AdapterIndex) -> &Files {
        &self.sides[adapter.place()].files
    }

    /// Pages that were taken away since this was asked last, of each memory.
    pub(super) fn pages_taken(&self, adapter: AdapterIndex) -> Vec<(PagesOf, u32)> {
        let found = self.files(adapter).pages_taken().into_iter();
        let found = found.filter_map(|(files, pages)| Some((self.whose(adapter, files)?, pages)));
        found.collect()
    }

    fn whose(&self, adapter: AdapterIndex, files: Handle) -> Option<PagesOf> {
        let mut all = self.governors.memory(adapter);
        let found = all.find(|(_, handle)| *handle == files);
        found.map(|(whose, _)| whose)
    }

    /// Sends what the sockets take.
    pub(super) fn flush(&mut self) {
        for adapter in self.indices() {
            let link = self.sides[adapter.place()].link.as_mut();
            if link.is_some_and(|link| link.flush().is_err()) {
                self.governors.handle_lost(adapter);
            }
        }
    }

    /// What one of them has to tell next.
    pub(super) fn next(&mut self) -> Option<(AdapterIndex, News)> {
        loop {
            if !self.news.is_empty() {
                return Some(self.news.remove(0));
            }
            if let Some(told) = self.next_governed() {
                return Some(told);
            }
            if !self.indices().any(|adapter| self.hear(adapter)) {
                return None;
            }
        }
    }

    /// What one of them says first, if it is there.
    pub(super) fn next_of(&mut self, adapter: AdapterIndex) -> Option<News> {
        loop {
            while let Some(told) = self.next_governed() {
                self.news.push(told);
            }
            if let Some(place) = self.news.iter().position(|(of, _)| *of == adapter) {
                return Some(self.news.remove(place).1);
            }
            if !self.hear(adapter) {
                return None;
            }
        }
    }

    /// Does what the governors want, until there is something to tell.
    fn next_governed(&mut self) -> Option<(AdapterIndex, News)> {
        while let Some(governed) = self.governors.poll(MonotonicClock.now()) {
            match governed {
                Governed::Send(adapter, request, enclosed) => {
                    let fds = enclosed
                        .iter()
                        .filter_map(|handle| self.given.remove(handle));
                    let fds = fds.flatten().collect();
                    let id = request.id;
                    let link = self.sides[adapter.place()].link.as_mut();
                    if link.is_some_and(|link| !link.ask(&request, fds)) {
                        let result = Err(ControlError::TooLong);
                        self.governors
                            .handle_reply(adapter, Reply { id, result }, Vec::new());
                    }
                }
                Governed::Release(handle) => {
                    self.given.remove(&handle);
                    self.sides
                        .iter_mut()
                        .for_each(|side| side.files.release(handle));
                }
                Governed::News(adapter, news) => {
                    self.note(adapter, &news);
                    return Some((adapter, news));
                }
            }
        }
        None
    }

    fn note(&mut self, adapter: AdapterIndex, news: &News) {
        let side = &mut self.sides[adapter.place()];
        match news {
            News::Ready(hello) => side.files.are_of(hello.pid),
            News::TakenUp(hello, ..) => {
                side.files.are_of(hello.pid);
                side.files.are_shared();
            }
            News::Lost(_) => {
                side.link = None;
                // Whoever is a child is gone or to go.
                side.process = None;
                side.files.are_gone();
            }
            _ => {}
        }
    }

    /// Takes one reply of an adapter; `false` if none has come.
    fn hear(&mut self, adapter: AdapterIndex) -> bool {
        let Some(link) = &mut self.sides[adapter.place()].link else {
            return false;
        };
        match link.next_reply() {
            Ok(Some((reply, fds))) => match grouped(&reply, fds) {
                Some(groups) => {
                    let came = self.came(adapter, &reply, groups);
                    self.governors.handle_reply(adapter, reply, came);
                }
                None => self.governors.handle_lost(adapter),
            },
            Ok(None) => return false,
            Err(_) => self.governors.handle_lost(adapter),
        }
        true
    }

    /// Names what came along with a reply. What the adapter itself has made is its memory.
    fn came(
        &mut self,
        adapter: AdapterIndex,
        reply: &Reply,
        groups: Vec<Vec<Closer>>,
    ) -> Vec<Handle> {
        let mut came = Vec::new();
        for (place, fds) in groups.into_iter().enumerate() {
            let handle = self.governors.new_handle();
            came.push(handle);
            let is_memory = matches!(
                reply.result,
                Ok(Answer::Attached { .. } | Answer::Opened { .. } | Answer::TakenUp(_))
            );
            if is_memory && place == 0 {
                let fds = fds.into_iter().map(Closer::into_inner).map(Arc::new);
                let side = &mut self.sides[adapter.place()];
                side.files.note(handle, fds.collect());
            } else {
                let fds = fds.into_iter().map(Arc::new);
                self.given.insert(handle, fds.collect());
            }
        }
        came
    }
}

/// The descriptors that came with a reply, by what they belong to; none: they are not those that
/// do.
fn grouped(reply: &Reply, mut fds: Vec<Closer>) -> Option<Vec<Vec<Closer>>> {
    let first = match &reply.result {
        Ok(Answer::Attached { .. }) if fds.len() == 5 => 5,
        Ok(Answer::TakenUp(TakenUp::Attachment { .. })) if fds.len() >= 5 => 5,
        Ok(Answer::TakenUp(TakenUp::Vc { .. })) if fds.len() == 2 => 2,
        Ok(Answer::Opened { .. }) if matches!(fds.len(), 0 | 2) => fds.len(),
        Ok(Answer::Port { .. }) => fds.len(),
        Ok(Answer::Attached { .. } | Answer::Opened { .. } | Answer::TakenUp(_))
            if !matches!(reply.result, Ok(Answer::TakenUp(TakenUp::Nothing))) =>
        {
            return None;
        }
        _ => 1.min(fds.len()),
    };
    let rest = fds.split_off(first);
    let first = (!fds.is_empty()).then_some(fds);
    Some(
        first
            .into_iter()
            .chain(rest.into_iter().map(|fd| vec![fd]))
            .collect(),
    )
}
