//! The process that an adapter lives in: the real keeper, over the lab's memory.

use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::adapter::{AttachmentIndex, Config, OpenRequest, VcId, VcInfo};
use cellgate_core::keeper::{
    Answer as KeeperAnswer, Ask, ConnectionId, ControlError, Done, Handle, Hello, Keeper,
    KeeperConfig, Order, Output, Reply, Request, Scheduling, VERSION,
};
use cellgate_core::queue::ConnectionSizes;
use cellgate_core::server::{ClientId, Record, Reopens};

use crate::memory::RegionSizes;
use crate::world::endpoint::Handles;
use crate::world::host::{Answer, Brought};

/// Descriptors that a transmit queue of the lab's memory holds.
const TRANSMIT_SLOTS_MAX: u32 = 512;
/// Cells of a port's queue, which are none in worlds: what is behind a port is a line.
const PORT_CELLS: u32 = 64;
/// Descriptors of a port's sender.
const PORT_DESCRIPTORS: usize = 4;
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
pub(crate) struct KeptVc {
    pub(crate) request: OpenRequest,
    pub(crate) sizes: ConnectionSizes,
    pub(super) files: Files,
    pub(crate) record: Record,
    text: String,
}

/// What handles stand for, the keeper's and the server's.
#[derive(Clone, Debug)]
pub(super) enum Held {
    Memory(Files),
    /// A client's memory: its number at the host.
    Client(usize),
    /// The socket of an application.
    Socket(ClientId),
    /// The sender's end of a port.
    Port,
}

/// A reply of the keeper.
#[derive(Debug)]
pub(super) struct Heard {
    /// Of the server that asked.
    pub(super) life: u32,
    pub(super) reply: Reply,
    pub(super) came: Vec<Held>,
    /// How the VC of the reply is open.
    pub(super) opened: Option<OpenRequest>,
}

impl Heard {
    /// A reply to the server of this life in the keeper's place.
    pub(super) fn refusal(life: u32, id: u64, error: ControlError) -> Self {
        Self {
            life,
            reply: Reply {
                id,
                result: Err(error),
            },
            came: Vec::new(),
            opened: None,
        }
    }
}

/// An order that the adapter has not ended.
#[derive(Debug)]
struct Ordered {
    order: Order,
    brought: Brought,
}

/// What there is of the process.
#[derive(Debug, Default)]
pub(crate) struct Process {
    /// None: there is no adapter, or nobody has asked it for anything.
    keeper: Option<Keeper>,
    held: BTreeMap<Handle, Held>,
    /// The connection of each server, by its life.
    servers: BTreeMap<u32, ConnectionId>,
    /// What was asked over a connection and is not answered.
    asked: BTreeMap<(ConnectionId, u64), Ask>,
    /// Orders by the ticket that the adapter has them under.
    ordered: BTreeMap<u64, Ordered>,
    /// As the keeper has it.
    pub(super) attachments: BTreeSet<AttachmentIndex>,
    /// Sockets of applications, by their attachments; whether their connections were to be open
    /// again.
    pub(super) kept: BTreeMap<AttachmentIndex, (ClientId, bool)>,
    pub(crate) vcs: BTreeMap<VcId, KeptVc>,
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

    /// Octets of the memory that was asked for and is not there.
    pub(super) fn octets_asked(&self) -> u64 {
        self.asked.values().map(octets_of).sum()
    }

    /// The control connection of the server of this life has ended.
    pub(super) fn hangs_up(&mut self, life: u32) {
        if let (Some(id), Some(keeper)) = (self.servers.remove(&life), &mut self.keeper) {
            self.asked.retain(|(of, _), _| *of != id);
            keeper.handle_hang_up(id);
        }
    }

    /// The server of this life asks the keeper, over a control connection of its own.
    pub(super) fn is_asked(
        &mut self,
        life: u32,
        config: &Config,
        request: Request,
        sent: Vec<Held>,
    ) {
        let keeper = self.keeper.get_or_insert_with(|| new_keeper(config));
        let id = *self.servers.entry(life).or_insert_with(|| {
            // A server is one of few that connect.
            keeper.connect(true, life).expect("room for a connection")
        });
        let mut came = Vec::new();
        for held in sent {
            let descriptors = match held {
                Held::Port => PORT_DESCRIPTORS,
                _ => 1,
            };
            for _ in 0..descriptors {
                let handle = keeper.new_handle();
                self.held.insert(handle, held.clone());
                came.push(handle);
            }
        }
        self.asked.insert((id, request.id), request.ask.clone());
        keeper.handle_request(id, request, came, false);
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

    /// An order that is none for the adapter is done, or not.
    pub(super) fn is_done(&mut self, order: &Order, done: Result<Done, ControlError>) {
        if let Some(making) = order.making {
            self.held.insert(making.handle, Held::Port);
        }
        for handle in &order.came {
            self.held.remove(handle);
        }
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

    /// What a server hears of the keeper's reply, and what it had asked; none: nobody waits for it.
    pub(super) fn heard(
        &mut self,
        to: ConnectionId,
        reply: Reply,
        enclosed: &[Handle],
        info: impl Fn(VcId) -> Option<VcInfo>,
    ) -> Option<(Heard, Ask)> {
        let ask = self.asked.remove(&(to, reply.id))?;
        let (life, _) = self.servers.iter().find(|(_, id)| **id == to)?;
        let opened = match &reply.result {
            Ok(KeeperAnswer::Opened { vc, .. }) => info(*vc).map(|info| info.request),
            _ => None,
        };
        let came = enclosed.iter();
        let heard = Heard {
            life: *life,
            came: came.filter_map(|one| self.held.get(one)).cloned().collect(),
            reply,
            opened,
        };
        Some((heard, ask))
    }

    /// Looks at what the keeper has.
    pub(super) fn look(&mut self, info: impl Fn(VcId) -> Option<VcInfo>) {
        let Some(keeper) = &self.keeper else {
            return;
        };
        self.attachments.clear();
        self.kept.clear();
        for (index, _) in keeper.attachments() {
            self.attachments.insert(index);
            if let Some((kept, words)) = keeper.kept(index)
                && let Some(Held::Socket(client)) = kept.first().and_then(|one| self.held.get(one))
            {
                self.kept
                    .insert(index, (*client, !Reopens::parse(words).0.is_empty()));
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

/// Whether what is asked begins or changes something, and so can find no room.
pub(super) fn can_be_refused(ask: &Ask) -> bool {
    matches!(
        ask,
        Ask::Attach { .. } | Ask::Open { .. } | Ask::Modify { .. } | Ask::Reattach { .. }
    )
}

/// Octets that carrying out a request makes.
fn octets_of(ask: &Ask) -> u64 {
    match ask {
        Ask::Open { record, .. }
        | Ask::Modify {
            region: Some(_),
            record,
            ..
        } => {
            let record = record.as_deref().and_then(Record::parse);
            record.map_or(0, |record| record.demand.memory)
        }
        _ => 0,
    }
}
