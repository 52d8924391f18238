//! The server's side of its adapters: what it asks of each keeper and hears, which memory is whose,
//! and links, of which a memory link may join two adapters.
//!
//! ```text
//!  [ Server ] -- AdapterAsk --> [ Governors ] -- Request, handles --> keeper of an adapter
//!             <--- News -------     |         <--- Reply, handles ---
//!                                   +-- Links: one job at a time, over all adapters
//! ```
//!
//! Descriptors are handles here: who has them learns which to send along, and which to close.

mod links;
mod memory;
mod one;
mod take_up;

use std::collections::VecDeque;

use links::{Links, Next, Parted};
use one::{Governor, Said};

use super::{
    AdapterAnswer, AdapterAsk, AdapterIndex, AdapterRefusal, Enclosed, Health, On, PagesOf,
    TakenInterface, Ticket,
};
use crate::Time;
use crate::adapter::{AdapterState, AttachmentIndex, PortConfig, PortIndex, VcId};
use crate::keeper::{ControlError, Handle, Hello, Reply, Request};

pub use links::ErrorWords;
pub use take_up::Left;

/// News of an adapter, its links included.
#[derive(Debug)]
pub enum News {
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

/// What the governors want done, in this order.
#[derive(Debug)]
pub enum Governed {
    /// A request for an adapter's keeper, and descriptors along with it, which are released then.
    Send(AdapterIndex, Request, Vec<Handle>),
    /// Nothing refers to these descriptors any more, but what was told of before.
    Release(Handle),
    News(AdapterIndex, News),
}

/// A server's adapters. Each input is to be followed by [`Governors::poll`] until that gives
/// nothing.
#[derive(Debug)]
pub struct Governors {
    all: Vec<Governor>,
    links: Links,
    /// What is asked once all links are there.
    deferred: VecDeque<(AdapterIndex, Ticket, AdapterAsk)>,
    outputs: VecDeque<Governed>,
    last_handle: u64,
}

impl Governors {
    /// So many adapters, of which none is there; what their ports are configured as, but for their
    /// rate.
    pub fn new(adapters: usize, template: PortConfig, words: ErrorWords) -> Self {
        Self {
            all: (0..adapters).map(|_| Governor::new()).collect(),
            links: Links::new(template, words),
            deferred: VecDeque::new(),
            outputs: VecDeque::new(),
            last_handle: 0,
        }
    }

    /// A name for a descriptor that came with a reply, or is to be kept.
    pub fn new_handle(&mut self) -> Handle {
        self.last_handle += 1;
        Handle(self.last_handle)
    }

    pub fn indices(&self) -> impl Iterator<Item = AdapterIndex> + use<> {
        (0..).map(AdapterIndex).take(self.all.len())
    }

    /// Begins with an adapter over a fresh connection: one that has just been started, or one that
    /// another server has left.
    pub fn begin(&mut self, adapter: AdapterIndex, was_left: bool) {
        self.one(adapter).begin(was_left);
    }

    /// What an adapter said of itself; none: it is away.
    pub fn hello(&self, adapter: AdapterIndex) -> Option<&Hello> {
        self.all[adapter.place()].hello()
    }

    /// Whether there is somebody to ask.
    pub fn is_there(&self, adapter: AdapterIndex) -> bool {
        self.all[adapter.place()].is_there()
    }

    /// An adapter's keeper has replied, with these descriptors.
    pub fn handle_reply(&mut self, adapter: AdapterIndex, reply: Reply, came: Vec<Handle>) {
        self.one(adapter).handle_reply(reply, came);
    }

    /// The connection to an adapter has ended, or what came over it makes no sense.
    pub fn handle_lost(&mut self, adapter: AdapterIndex) {
        self.one(adapter).lose(None);
    }

    /// Has the adapter keep descriptors with an attachment, and what they are.
    pub fn keep(
        &mut self,
        attachment: On<AttachmentIndex>,
        descriptors: Vec<Handle>,
        record: Option<String>,
    ) {
        let governor = self.one(attachment.adapter);
        governor.keep(attachment.id, descriptors, record);
    }

    /// Asks how an adapter does, `since_ns` after the last time; for how long looks have found it
    /// silent, in nanoseconds. `unsent`: requests of the last that its socket has not taken.
    pub fn look(&mut self, adapter: AdapterIndex, since_ns: u64, unsent: u64) -> u64 {
        self.one(adapter).look(since_ns, unsent)
    }

    /// Asks all adapters to end.
    pub fn shut_down(&mut self) {
        self.all.iter_mut().for_each(Governor::shut_down);
    }

    /// All memory of an adapter.
    pub fn memory(&self, adapter: AdapterIndex) -> impl Iterator<Item = (PagesOf, Handle)> {
        self.all[adapter.place()].memory().all()
    }

    /// That of a VC.
    pub fn memory_of(&self, vc: On<VcId>) -> Option<Handle> {
        self.all[vc.adapter.place()].memory().of_vc(vc.id)
    }

    fn one(&mut self, adapter: AdapterIndex) -> &mut Governor {
        &mut self.all[adapter.place()]
    }

    /// Asks for the server.
    pub fn ask(&mut self, adapter: AdapterIndex, ticket: Ticket, ask: AdapterAsk) {
        match ask {
            AdapterAsk::Link { port, spec } => {
                self.links.enqueue(ticket, adapter.on(port), Some(spec));
            }
            AdapterAsk::Unlink { port } => self.links.enqueue(ticket, adapter.on(port), None),
            // What is opened on an interface whose link is on its way would send into nothing.
            ask if self.links.are_busy(adapter) => {
                self.deferred.push_back((adapter, ticket, ask));
            }
            AdapterAsk::Keeper(ask, record) => {
                self.one(adapter).ask(ticket, ask, record.as_deref());
            }
        }
        self.begin_link();
    }

    /// Answers in place of an adapter, which is not asked.
    pub fn refuse(&mut self, adapter: AdapterIndex, ticket: Ticket, refusal: AdapterRefusal) {
        self.tell(adapter, News::Answer(ticket, Err(refusal)));
    }

    /// Has an adapter keep nothing with an attachment (none: there was none), for a worker that is
    /// to end.
    pub fn let_go(&mut self, attachment: Option<On<AttachmentIndex>>, worker: u32) {
        match attachment {
            Some(On { adapter, id }) => self.one(adapter).let_go(id, worker),
            None => self.tell(AdapterIndex::FIRST, News::LetGo(worker)),
        }
    }

    /// The name of the interface whose link is on a port.
    pub fn interface_on(&self, port: On<PortIndex>) -> Option<String> {
        self.links.name_of(port)
    }

    /// What goes along with a message about a connection; none if there is no such memory.
    pub fn enclosed(&self, enclosed: Enclosed) -> Option<Vec<Handle>> {
        match enclosed {
            Enclosed::Nothing | Enclosed::Counters => Some(Vec::new()),
            Enclosed::Connection { adapter, .. } | Enclosed::Memory { adapter, .. } => {
                self.all[adapter.place()].memory().enclosed(enclosed)
            }
        }
    }

    /// What is wanted next.
    pub fn poll(&mut self, now: Time) -> Option<Governed> {
        loop {
            if let Some(output) = self.outputs.pop_front() {
                return Some(output);
            }
            let mut all = self.indices().zip(&mut self.all);
            let (adapter, said) = all.find_map(|(adapter, one)| Some((adapter, one.next()?)))?;
            self.hear(now, adapter, said);
        }
    }

    fn tell(&mut self, adapter: AdapterIndex, news: News) {
        self.outputs.push_back(Governed::News(adapter, news));
    }

    fn hear(&mut self, now: Time, adapter: AdapterIndex, said: Said) {
        let news = match said {
            Said::Send(request, enclosed) => {
                let send = Governed::Send(adapter, request, enclosed);
                return self.outputs.push_back(send);
            }
            Said::Release(handle) => return self.outputs.push_back(Governed::Release(handle)),
            Said::Ready(hello) => News::Ready(hello),
            Said::TakenUp(hello, kept, left) => {
                let interfaces = self.links.take_up(adapter, kept);
                News::TakenUp(hello, interfaces, left)
            }
            Said::Answer(ticket, answer) => News::Answer(ticket, answer),
            Said::Link(ticket, answer, came) => {
                let (next, rest) = self.links.answered(ticket, answer, came);
                self.outputs.extend(rest.into_iter().map(Governed::Release));
                if let Some(next) = next {
                    self.go_on(ticket, next);
                }
                return;
            }
            Said::State(state) => News::State(state),
            Said::Health(health, ports) => News::Health(Health {
                ports: self.links.health(now, adapter, &ports),
                ..health
            }),
            Said::LetGo(worker) => News::LetGo(worker),
            Said::Lost(why) => {
                self.lose(adapter);
                News::Lost(why)
            }
        };
        self.tell(adapter, news);
    }

    /// An adapter has gone: others do not send into nothing, or wait for it.
    fn lose(&mut self, adapter: AdapterIndex) {
        self.deferred.retain(|(of, ..)| *of != adapter);
        let Parted { alone, waits } = self.links.lose(adapter);
        for port in alone {
            self.one(port.adapter).unlink(port.id);
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
        for (adapter, ticket, ask) in core::mem::take(&mut self.deferred) {
            match ask {
                AdapterAsk::Keeper(ask, record) if !self.links.are_busy(adapter) => {
                    self.one(adapter).ask(ticket, ask, record.as_deref());
                }
                ask => self.deferred.push_back((adapter, ticket, ask)),
            }
        }
    }

    fn go_on(&mut self, ticket: Ticket, next: Next) {
        let next = match next {
            Next::Ask(adapter, _, came) if !self.is_there(adapter) => {
                self.outputs.extend(came.into_iter().map(Governed::Release));
                self.links.give_up(ticket)
            }
            next => Some(next),
        };
        match next {
            Some(Next::Ask(adapter, ask, came)) => self.one(adapter).link(ticket, ask, came),
            Some(Next::End(port, result)) => {
                self.tell(port.adapter, News::Answer(ticket, result));
                self.begin_link();
            }
            None => {}
        }
    }
}
