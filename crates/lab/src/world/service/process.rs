//! The process that an adapter lives in: the real keeper, over the lab's memory.

use std::collections::BTreeMap;

use cellgate_core::adapter::{
    AttachmentIndex, Config, OpenRequest, PortIndex, Refusal, VcId, VcInfo,
};
use cellgate_core::keeper::{
    Answer as KeeperAnswer, Ask, ConnectionId, ControlError, Done, Handle, Hello, Keeper,
    KeeperConfig, Order, Output, Reply, Request, Scheduling, TakenUp, VERSION,
};
use cellgate_core::queue::{AttachmentSizes, ConnectionSizes};
use cellgate_core::server::{
    AdapterAnswer, AdapterAsk, AdapterRefusal, ClientId, InterfaceSpec, Record, Ticket,
};

use crate::memory::RegionSizes;
use crate::world::endpoint::Handles;
use crate::world::host::{Answer, Brought};

/// Descriptors that a transmit queue of the lab's memory holds.
const TRANSMIT_SLOTS_MAX: u32 = 512;
/// Cells of a port's queue, which nobody has in the lab.
const PORT_CELLS: u32 = 64;
/// What the socket of an application is kept with whose connection is to be open again.
const REOPENS: &str = "reopens";

/// The lab's memory for the sizes that are asked for.
pub(super) fn region_sizes(sizes: ConnectionSizes) -> RegionSizes {
    RegionSizes {
        receive_buffer: sizes.receive_len,
        receive_slots: sizes.receive_slots,
        transmit_slots: sizes.transmit_slots.min(TRANSMIT_SLOTS_MAX),
        transmit_len: sizes.transmit_len,
        stable: true,
    }
}

/// A client at the adapter.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptAttachment {
    /// Its number at the host.
    pub(super) client: usize,
    pub(super) sizes: AttachmentSizes,
    pub(super) files_generation: u32,
}

/// The memory of a VC.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) generation: u32,
    /// Ticket of the command that brought it.
    pub(super) memory: u64,
    pub(super) handles: Handles,
}

/// A VC at the adapter.
#[derive(Clone, Debug)]
pub(super) struct KeptVc {
    pub(super) request: OpenRequest,
    pub(super) sizes: ConnectionSizes,
    pub(super) files: Files,
    pub(super) record: Record,
    text: String,
}

/// What the keeper's handles stand for.
#[derive(Clone, Debug)]
enum Held {
    Memory(Files),
    /// A client's memory: its number at the host.
    Client(usize),
    /// The socket of an application.
    Socket(ClientId),
}

/// What the server hears of a command.
#[derive(Debug)]
pub(super) struct Heard {
    /// Of the server that asked.
    pub(super) life: u32,
    pub(super) ticket: Ticket,
    pub(super) answer: Result<AdapterAnswer, AdapterRefusal>,
    /// Memory that comes along.
    pub(super) news: News,
}

/// What a server gets along with an answer.
#[derive(Debug, Default)]
pub(super) enum News {
    #[default]
    None,
    /// A client's memory.
    Attachment(AttachmentIndex, usize),
    /// It is no more.
    NoAttachment(AttachmentIndex),
    /// A VC's memory, and how it was opened.
    Vc(VcId, Files, OpenRequest),
}

/// An order that the adapter has not ended.
#[derive(Debug)]
struct Ordered {
    order: Order,
    brought: Brought,
}

/// What the server asks of a link the world has for it; all else goes to the keeper.
#[derive(Debug, Default)]
pub(super) struct Process {
    /// None: there is no adapter, or nobody has asked it for anything.
    keeper: Option<Keeper>,
    held: BTreeMap<Handle, Held>,
    /// The connection of each server, by its life.
    servers: BTreeMap<u32, ConnectionId>,
    /// What was asked over a connection and is not answered.
    asked: BTreeMap<(ConnectionId, u64), AdapterAsk>,
    /// Orders by the ticket that the adapter has them under.
    ordered: BTreeMap<u64, Ordered>,
    /// As the keeper has it.
    pub(super) attachments: BTreeMap<AttachmentIndex, KeptAttachment>,
    /// Sockets of applications, by their attachments; whether their connections were to be open
    /// again.
    pub(super) kept: BTreeMap<AttachmentIndex, (ClientId, bool)>,
    pub(super) vcs: BTreeMap<VcId, KeptVc>,
    pub(super) links: BTreeMap<PortIndex, InterfaceSpec>,
}

impl Process {
    /// The adapter dies: with it goes all that its process had.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Commands that the adapter has not ended.
    pub(super) fn waiting(&self) -> usize {
        self.ordered.len()
    }

    /// What was asked and is not answered.
    pub(super) fn asks(&self) -> impl Iterator<Item = &AdapterAsk> {
        self.asked.values()
    }

    /// The server of this life has a control connection; of an adapter that was there before it,
    /// it takes up everything. `false`: what the server before has asked is under way.
    pub(super) fn connects(&mut self, life: u32, config: &Config, takes_up: bool) -> bool {
        let keeper = self.keeper.get_or_insert_with(|| new_keeper(config));
        let id = match self.servers.get(&life) {
            Some(id) => *id,
            // A server is one of few that connect.
            None => keeper.connect(true, life).expect("room for a connection"),
        };
        self.servers.insert(life, id);
        let hello = Ask::Hello { version: VERSION };
        self.replied(id, hello).is_ok() && (!takes_up || self.takes_up(id))
    }

    fn takes_up(&mut self, id: ConnectionId) -> bool {
        loop {
            match self.replied(id, Ask::TakeUp) {
                Ok(KeeperAnswer::TakenUp(TakenUp::Nothing)) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    /// Has the keeper answer at once.
    fn replied(&mut self, id: ConnectionId, ask: Ask) -> Result<KeeperAnswer, ControlError> {
        let keeper = self.keeper.as_mut().ok_or(ControlError::ShuttingDown)?;
        keeper.handle_request(id, Request { id: 0, ask }, Vec::new(), false);
        match keeper.poll() {
            Some(Output::Reply { reply, .. }) => reply.result,
            _ => Err(ControlError::ShuttingDown),
        }
    }

    /// The control connection of the server of this life has ended.
    pub(super) fn hangs_up(&mut self, life: u32) {
        if let (Some(id), Some(keeper)) = (self.servers.remove(&life), &mut self.keeper) {
            self.asked.retain(|(of, _), _| *of != id);
            keeper.handle_hang_up(id);
        }
    }

    /// The server of this life asks the keeper.
    pub(super) fn asks_keeper(&mut self, life: u32, ticket: Ticket, ask: AdapterAsk) {
        let (Some(id), Some(keeper)) = (self.servers.get(&life), &mut self.keeper) else {
            return;
        };
        let AdapterAsk::Keeper(mut request, record) = ask.clone() else {
            return;
        };
        if let (Some(kept), Some(record)) = (request.record(), record) {
            *kept = record.text();
        }
        self.asked.insert((*id, ticket.0), ask);
        let request = Request {
            id: ticket.0,
            ask: request,
        };
        keeper.handle_request(*id, request, Vec::new(), false);
    }

    /// The server of this life has a socket kept with an attachment.
    pub(super) fn keeps(
        &mut self,
        life: u32,
        at: AttachmentIndex,
        (client, reopens): (ClientId, bool),
    ) {
        let (Some(id), Some(keeper)) = (self.servers.get(&life), &mut self.keeper) else {
            return;
        };
        let handle = keeper.new_handle();
        self.held.insert(handle, Held::Socket(client));
        let ask = Ask::Keep {
            attachment: at,
            record: reopens.then(|| REOPENS.to_owned()),
        };
        keeper.handle_request(*id, Request { id: 0, ask }, vec![handle], false);
    }

    /// What the keeper wants done.
    pub(super) fn poll(&mut self) -> Option<Output> {
        self.keeper.as_mut()?.poll()
    }

    /// Nothing refers to it any more.
    pub(super) fn release(&mut self, handle: Handle) {
        self.held.remove(&handle);
    }

    /// The adapter has been given what the keeper ordered.
    pub(super) fn is_ordered(&mut self, command: u64, order: Order, brought: Brought) {
        self.ordered.insert(command, Ordered { order, brought });
    }

    /// An order that is none for the adapter is done.
    pub(super) fn is_done(&mut self, order: &Order) {
        let done = match order.ask {
            Ask::Loopback { .. } => Err(ControlError::Refused(Refusal::NoReturn)),
            _ => Ok(Done::Answer(KeeperAnswer::Done)),
        };
        if let Some(keeper) = &mut self.keeper {
            keeper.handle_done(order.ticket, done);
        }
    }

    /// The adapter has ended a command; `false`: nobody gave it.
    pub(super) fn ended(&mut self, (command, result): Answer) -> bool {
        let (Some(Ordered { order, brought }), Some(keeper)) =
            (self.ordered.remove(&command), &mut self.keeper)
        else {
            return false;
        };
        if let (Some(making), Ok(_)) = (order.making, &result) {
            let memory = brought.handles.map(|handles| {
                Held::Memory(Files {
                    generation: making.files_generation,
                    memory: command,
                    handles,
                })
            });
            let held = memory.or(brought.client.map(Held::Client));
            self.held.extend(held.map(|held| (making.handle, held)));
        }
        let done = result.map(Done::Outcome).map_err(ControlError::from);
        keeper.handle_done(order.ticket, done);
        true
    }

    /// What a server hears of the keeper's reply; none: it is of a server that has died, or of
    /// what nobody waits for.
    pub(super) fn heard(
        &mut self,
        to: ConnectionId,
        reply: Reply,
        info: impl Fn(VcId) -> Option<VcInfo>,
    ) -> Option<Heard> {
        let ask = self.asked.remove(&(to, reply.id))?;
        let (life, _) = self.servers.iter().find(|(_, id)| **id == to)?;
        let news = match (&reply.result, &ask) {
            (Ok(KeeperAnswer::Attached { attachment, .. }), _) => {
                let mut all = self.keeper.as_ref()?.attachments();
                let (_, files) = all.find(|(index, _)| index == attachment)?;
                match self.held.get(&files) {
                    Some(Held::Client(client)) => News::Attachment(*attachment, *client),
                    _ => News::None,
                }
            }
            (Ok(KeeperAnswer::Opened { vc, .. }), _) => {
                let files = self.keeper.as_ref()?.files_of(*vc)?;
                match (self.held.get(&files), info(*vc)) {
                    (Some(Held::Memory(files)), Some(info)) => {
                        News::Vc(*vc, files.clone(), info.request)
                    }
                    _ => News::None,
                }
            }
            (Ok(_), AdapterAsk::Keeper(Ask::Detach { attachment }, _)) => {
                News::NoAttachment(*attachment)
            }
            _ => News::None,
        };
        Some(Heard {
            life: *life,
            ticket: Ticket(reply.id),
            answer: match reply.result {
                Ok(answer) => Ok(AdapterAnswer::Keeper(answer)),
                Err(error) => Err(error.into()),
            },
            news,
        })
    }

    /// What concerns links is the world's.
    pub(super) fn links(&mut self, ask: &AdapterAsk) -> Option<AdapterAnswer> {
        match ask {
            AdapterAsk::Link { port, spec } => {
                self.links.insert(*port, spec.clone());
                Some(AdapterAnswer::Linked { up: true })
            }
            AdapterAsk::Unlink { port } => {
                self.links.remove(port);
                Some(AdapterAnswer::Keeper(KeeperAnswer::Done))
            }
            AdapterAsk::Keeper(..) => None,
        }
    }

    /// Looks at what the keeper has.
    pub(super) fn look(&mut self, info: impl Fn(VcId) -> Option<VcInfo>) {
        let Some(keeper) = &self.keeper else {
            return;
        };
        self.attachments.clear();
        self.kept.clear();
        for (index, files) in keeper.attachments() {
            let (Some(Held::Client(client)), Some((sizes, files_generation))) =
                (self.held.get(&files), keeper.attachment(index))
            else {
                continue;
            };
            let one = KeptAttachment {
                client: *client,
                sizes,
                files_generation,
            };
            self.attachments.insert(index, one);
            if let Some((kept, words)) = keeper.kept(index)
                && let Some(Held::Socket(client)) = kept.first().and_then(|one| self.held.get(one))
            {
                self.kept.insert(index, (*client, words == Some(REOPENS)));
            }
        }
        let mut before = std::mem::take(&mut self.vcs);
        for one in keeper.vcs() {
            let (Some(Held::Memory(files)), Some(info)) = (self.held.get(&one.files), info(one.vc))
            else {
                continue;
            };
            let text = one.record.unwrap_or_default();
            let known = before.remove(&one.vc).filter(|known| known.text == text);
            let record = known
                .map(|known| known.record)
                .or_else(|| Record::parse(text));
            if let Some(record) = record {
                let kept = KeptVc {
                    request: info.request,
                    sizes: one.sizes,
                    files: files.clone(),
                    record,
                    text: text.to_owned(),
                };
                self.vcs.insert(one.vc, kept);
            }
        }
    }
}

fn new_keeper(config: &Config) -> Keeper {
    Keeper::new(KeeperConfig {
        hello: Hello {
            version: VERSION,
            pid: 1,
            config: config.clone(),
            scheduling: Scheduling::default(),
            // What there is of memory the world decides.
            memory_max: u64::MAX,
            governor: None,
        },
        port_cells: PORT_CELLS,
    })
}

/// Whether a command begins or changes something, and so can find no room.
pub(super) fn can_be_refused(ask: &AdapterAsk) -> bool {
    matches!(
        ask,
        AdapterAsk::Keeper(
            Ask::Attach { .. } | Ask::Open { .. } | Ask::Modify { .. } | Ask::Reattach { .. },
            _
        )
    )
}
