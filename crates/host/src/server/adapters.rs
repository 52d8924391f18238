//! All adapters of the server, and what they have in common: links, of which a memory link may
//! join two of them.

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use cellgate_core::adapter::{AdapterState, AttachmentIndex, PortIndex, VcId};
use cellgate_core::server::{
    AdapterAnswer, AdapterAsk, AdapterIndex, AdapterRefusal, Enclosed, Health, On, TakenInterface,
    Ticket,
};

use super::adapter::{AdapterSide, Said};
use super::files::Files;
use super::links::{Links, Next, Parted};
use super::take_up::Left;
use crate::clock::MonotonicClock;
use crate::closer::Closer;
use crate::control::{ControlError, Hello};
use crate::sys::AdapterCpus;

/// News of an adapter, its links included.
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time, off the data path"
)]
pub(super) enum Told {
    /// It has begun, and has nothing yet.
    Ready(Box<Hello>),
    /// It has outlived another server, and this is what it has.
    TakenUp(Box<Hello>, Vec<TakenInterface>, Vec<Left>),
    /// To the server's question.
    Answer(Ticket, Result<AdapterAnswer, AdapterRefusal>),
    /// A page of its state.
    State(Box<AdapterState>),
    /// How it does.
    Health(Health),
    /// It holds nothing of the worker's device any more.
    LetGo(u32),
    /// It has gone; why it did not start, if that is why.
    Lost(Option<ControlError>),
}

/// The adapters as the server's process has them.
pub(super) struct Adapters {
    sides: Vec<AdapterSide>,
    links: Links,
    /// What is asked once all links are there.
    deferred: VecDeque<(AdapterIndex, Ticket, AdapterAsk)>,
    told: VecDeque<(AdapterIndex, Told)>,
}

impl Adapters {
    /// None of them is there.
    pub(super) fn new(sides: Vec<AdapterSide>, links: Links) -> Self {
        Self {
            sides,
            links,
            deferred: VecDeque::new(),
            told: VecDeque::new(),
        }
    }

    pub(super) fn indices(&self) -> impl Iterator<Item = AdapterIndex> + use<> {
        (0..).map(AdapterIndex).take(self.sides.len())
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = (AdapterIndex, &AdapterSide)> {
        self.indices().zip(&self.sides)
    }

    pub(super) fn side(&self, adapter: AdapterIndex) -> &AdapterSide {
        &self.sides[adapter.place()]
    }

    pub(super) fn side_mut(&mut self, adapter: AdapterIndex) -> &mut AdapterSide {
        &mut self.sides[adapter.place()]
    }

    pub(super) fn sides_mut(&mut self) -> impl Iterator<Item = &mut AdapterSide> {
        self.sides.iter_mut()
    }

    /// Something to poll for each that is there; whether for writing too.
    pub(super) fn poll(&self) -> Vec<(BorrowedFd<'_>, bool)> {
        self.sides.iter().filter_map(AdapterSide::poll).collect()
    }

    /// Whether what one of them is to be sent waits for the kernel to take more descriptors.
    pub(super) fn are_held(&self) -> bool {
        self.sides.iter().any(AdapterSide::is_held)
    }

    /// The CPUs that those which are there have taken; where none is, the next may take any.
    pub(super) fn cpus(&self) -> AdapterCpus {
        let hellos = self.sides.iter().filter_map(AdapterSide::hello);
        let mut pinned = hellos.map(|hello| hello.scheduling.pinned).peekable();
        match pinned.peek() {
            Some(_) => AdapterCpus::of(pinned),
            None => AdapterCpus::ANY,
        }
    }

    /// Asks for the server.
    pub(super) fn ask(&mut self, adapter: AdapterIndex, ticket: Ticket, ask: AdapterAsk) {
        match ask {
            AdapterAsk::Link { port, spec } => {
                self.links.enqueue(ticket, adapter.on(port), Some(spec));
            }
            AdapterAsk::Unlink { port, .. } => self.links.enqueue(ticket, adapter.on(port), None),
            // What is opened on an interface whose link is on its way would send into nothing.
            ask if self.links.are_busy(adapter) => {
                self.deferred.push_back((adapter, ticket, ask));
            }
            ask => self.side_mut(adapter).ask(ticket, ask),
        }
        self.begin_link();
    }

    /// Answers in place of an adapter, which is not asked.
    pub(super) fn refuse(
        &mut self,
        adapter: AdapterIndex,
        ticket: Ticket,
        refusal: AdapterRefusal,
    ) {
        self.tell(adapter, Told::Answer(ticket, Err(refusal)));
    }

    /// Has an adapter keep nothing with an attachment (none: there was none), for a worker that is
    /// to end.
    pub(super) fn let_go(&mut self, attachment: Option<On<AttachmentIndex>>, worker: u32) {
        match attachment {
            Some(On { adapter, id }) => self.side_mut(adapter).let_go(id, worker),
            None => self.tell(AdapterIndex::FIRST, Told::LetGo(worker)),
        }
    }

    /// The name of the interface whose link is on a port.
    pub(super) fn interface_on(&self, port: On<PortIndex>) -> Option<String> {
        self.links.name_of(port)
    }

    /// The descriptors that go along with a message about a connection; none if there are no such
    /// ones.
    pub(super) fn enclosed(&self, enclosed: Enclosed) -> Option<Vec<Arc<OwnedFd>>> {
        match enclosed {
            Enclosed::Nothing | Enclosed::Counters => Some(Vec::new()),
            Enclosed::Connection { adapter, .. } | Enclosed::Memory { adapter, .. } => {
                self.side(adapter).files().enclosed(enclosed)
            }
        }
    }

    /// The VC whose client writes the file `fd`.
    pub(super) fn capability(&self, fd: &Closer) -> Option<On<VcId>> {
        let found = |(adapter, side): (AdapterIndex, &AdapterSide)| {
            Some(adapter.on(side.files().capability(fd)?))
        };
        self.all().find_map(found)
    }

    /// The files of an adapter's memory.
    pub(super) fn files(&self, adapter: AdapterIndex) -> &Files {
        self.side(adapter).files()
    }

    /// Sends what the sockets take.
    pub(super) fn flush(&mut self) {
        self.sides.iter_mut().for_each(AdapterSide::flush);
    }

    /// What one of them has to tell next.
    pub(super) fn next(&mut self) -> Option<(AdapterIndex, Told)> {
        loop {
            if let Some(told) = self.told.pop_front() {
                return Some(told);
            }
            let mut all = self.indices().zip(&mut self.sides);
            let (adapter, said) = all.find_map(|(adapter, side)| Some((adapter, side.next()?)))?;
            self.hear(adapter, said);
        }
    }

    /// What one of them says first, if it is there.
    pub(super) fn next_of(&mut self, adapter: AdapterIndex) -> Option<Told> {
        let said = self.side_mut(adapter).next()?;
        self.hear(adapter, said);
        let place = self.told.iter().position(|(of, _)| *of == adapter)?;
        self.told.remove(place).map(|(_, told)| told)
    }

    fn tell(&mut self, adapter: AdapterIndex, told: Told) {
        self.told.push_back((adapter, told));
    }

    fn hear(&mut self, adapter: AdapterIndex, said: Said) {
        let told = match said {
            Said::Ready(hello) => Told::Ready(hello),
            Said::TakenUp(hello, kept, left) => {
                let interfaces = self.links.take_up(adapter, kept);
                Told::TakenUp(hello, interfaces, left)
            }
            Said::Answer(ticket, answer) => Told::Answer(ticket, answer),
            Said::Link(ticket, answer, fds) => {
                if let Some(next) = self.links.answered(ticket, answer, fds) {
                    self.go_on(ticket, next);
                }
                return;
            }
            Said::State(state) => Told::State(state),
            Said::Health(health, ports) => Told::Health(Health {
                ports: self.links.health(MonotonicClock.now(), adapter, &ports),
                ..health
            }),
            Said::LetGo(worker) => Told::LetGo(worker),
            Said::Lost(why) => {
                self.lose(adapter);
                Told::Lost(why)
            }
        };
        self.tell(adapter, told);
    }

    /// An adapter has gone: others do not send into nothing, or wait for it.
    fn lose(&mut self, adapter: AdapterIndex) {
        self.deferred.retain(|(of, ..)| *of != adapter);
        let Parted { alone, waits } = self.links.lose(adapter);
        for port in alone {
            self.side_mut(port.adapter).unlink(port.id);
        }
        if let Some((port, ticket)) = waits {
            self.refuse(port.adapter, ticket, Links::peer_away());
        }
        self.begin_link();
    }

    /// Begins with the next link, if nothing of another is under way.
    fn begin_link(&mut self) {
        if let Some((ticket, next)) = self.links.begin() {
            self.go_on(ticket, next);
        }
        for (adapter, ticket, ask) in std::mem::take(&mut self.deferred) {
            match self.links.are_busy(adapter) {
                true => self.deferred.push_back((adapter, ticket, ask)),
                false => self.side_mut(adapter).ask(ticket, ask),
            }
        }
    }

    fn go_on(&mut self, ticket: Ticket, next: Next) {
        let next = match next {
            Next::Ask(adapter, ..) if !self.side(adapter).is_there() => self.links.give_up(ticket),
            next => Some(next),
        };
        match next {
            Some(Next::Ask(adapter, ask, fds)) => self.side_mut(adapter).link(ticket, ask, fds),
            Some(Next::End(port, result)) => {
                self.tell(port.adapter, Told::Answer(ticket, result));
                self.begin_link();
            }
            None => {}
        }
    }
}
