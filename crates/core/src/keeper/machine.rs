//! The keeper itself: its inputs, its outputs, and what can be asked of it without changing it.

use std::collections::{BTreeMap, VecDeque};

use super::records::{
    Asker, AttachmentRecord, Chore, Connection, Pending, PortRecord, Region, VcRecord,
};
use super::{Answer, Ask, ControlError, Hello, Reply, Request};
use crate::adapter::{AttachmentIndex, Outcome, PortConfig, PortIndex, VcId, VcIndex};
use crate::queue::{AttachmentSizes, ConnectionSizes};

/// A control connection, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What the process around a keeper has made or was given: a descriptor, or several that belong
/// together. No number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

/// What is to be made, and how it is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Making {
    pub handle: Handle,
    /// For the files' headers, so that no two files are taken for each other.
    pub files_generation: u32,
}

/// What the process has to carry out. Exactly one [`Keeper::handle_done`] follows.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    pub ticket: u64,
    /// Whose request it is; none: it is the keeper's own wish.
    pub from: Option<ConnectionId>,
    /// It may be carried out as it is.
    pub ask: Ask,
    /// The memory or the socket that it needs.
    pub making: Option<Making>,
    /// The memory into whose transmit buffer new memory receives
    /// ([`ReceiveInto::TransmitBufferOf`](super::ReceiveInto)), and its sizes.
    pub into: Option<(Handle, ConnectionSizes)>,
    /// The descriptors that came with it: the process's from now on.
    pub came: Vec<Handle>,
}

/// What carrying out an [`Order`] has brought.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a VC's counters are a part of the outcome, and the adapter does not allocate"
)]
pub enum Done {
    /// The firmware's.
    Outcome(Outcome),
    /// The process's own.
    Answer(Answer),
}

/// What the keeper wants done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    Order(Order),
    Reply {
        to: ConnectionId,
        reply: Reply,
        /// Their descriptors go along, in this order.
        enclosed: Vec<Handle>,
    },
    /// Nothing refers to this any more, but replies that were told of before.
    Release(Handle),
}

/// A VC that a keeper knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptVc<'k> {
    pub vc: VcId,
    pub attachment: AttachmentIndex,
    /// Its memory.
    pub files: Handle,
    pub sizes: ConnectionSizes,
    /// That its files' headers carry.
    pub files_generation: u32,
    /// What was left with it for whoever takes it up.
    pub record: Option<&'k str>,
}

/// What a keeper is made for.
#[derive(Clone, Debug, PartialEq)]
pub struct KeeperConfig {
    /// What it says of its adapter; who governs that it fills in itself.
    pub hello: Hello,
    /// Cells that each direction of a port can have waiting (a power of two).
    pub port_cells: u32,
}

/// Knows which control connection has what of an adapter. Each input is to be followed by
/// [`Keeper::poll`] until that gives nothing; one input causes as many outputs as a connection has
/// VCs and attachments, at most.
#[derive(Debug)]
pub struct Keeper {
    pub(super) config: KeeperConfig,
    pub(super) connections: BTreeMap<ConnectionId, Connection>,
    pub(super) attachments: BTreeMap<AttachmentIndex, AttachmentRecord>,
    pub(super) vcs: BTreeMap<VcIndex, VcRecord>,
    pub(super) ports: Vec<PortRecord>,
    /// The connection that has taken up last, or the first: that of who started the adapter.
    pub(super) governor: Option<ConnectionId>,
    pub(super) stopping: bool,
    pub(super) chores: VecDeque<Chore>,
    /// The memory of VCs.
    pub(super) regions: BTreeMap<Handle, Region>,
    /// Octets that clients have.
    pub(super) used: u64,
    pending: BTreeMap<u64, Pending>,
    outputs: VecDeque<Output>,
    last_connection: u64,
    last_ticket: u64,
    last_handle: u64,
    last_generation: u32,
}

impl Keeper {
    /// Control connections at once.
    pub const CONNECTIONS_MAX: usize = 128;
    /// Orders under way at once: no request is to be handled while there are so many.
    pub const ORDERS_MAX: usize = 64;

    pub fn new(config: KeeperConfig) -> Self {
        let ports = config.hello.config.ports.iter();
        Self {
            ports: ports.map(|_| PortRecord::default()).collect(),
            config,
            connections: BTreeMap::new(),
            attachments: BTreeMap::new(),
            vcs: BTreeMap::new(),
            governor: None,
            stopping: false,
            chores: VecDeque::new(),
            regions: BTreeMap::new(),
            used: 0,
            pending: BTreeMap::new(),
            outputs: VecDeque::new(),
            last_connection: 0,
            last_ticket: 0,
            last_handle: 0,
            last_generation: 1,
        }
    }

    /// What it wants done next.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// A name for a descriptor that came with a request.
    pub fn new_handle(&mut self) -> Handle {
        self.last_handle += 1;
        Handle(self.last_handle)
    }

    /// A control connection of a process (0: in another PID namespace), with or without a say in
    /// what concerns everybody; none: there are too many.
    pub fn connect(&mut self, governs: bool, pid: u32) -> Option<ConnectionId> {
        if self.connections.len() >= Self::CONNECTIONS_MAX {
            return None;
        }
        self.last_connection += 1;
        let id = ConnectionId(self.last_connection);
        let connection = Connection {
            greeted: false,
            governs,
            pid,
            ending: false,
            in_flight: 0,
        };
        self.connections.insert(id, connection);
        self.governor = self.governor.or(Some(id));
        Some(id)
    }

    /// Handles a request, with the descriptors that came along; `proven`: that of a
    /// [`Ask::Reattach`] is the file that the client of its VC writes.
    pub fn handle_request(
        &mut self,
        from: ConnectionId,
        request: Request,
        came: Vec<Handle>,
        proven: bool,
    ) {
        let asker = Asker {
            connection: from,
            id: request.id,
        };
        let mut came = came;
        if let Err(error) = self.handle(asker, request.ask, &mut came, proven) {
            self.reply(asker, Err(error), Vec::new());
        }
        for handle in came {
            self.release(handle);
        }
        self.do_chores();
    }

    /// A message that is no request.
    pub fn handle_nonsense(&mut self, from: ConnectionId, error: ControlError) {
        let asker = Asker {
            connection: from,
            id: 0,
        };
        self.reply(asker, Err(error), Vec::new());
    }

    /// The other end of a control connection is closed: what it has asked is still to be handled.
    pub fn handle_ending(&mut self, connection: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.ending = true;
        }
    }

    /// A control connection has ended: its VCs are closed, or kept for whoever can prove a right
    /// to them; its ports are free.
    pub fn handle_hang_up(&mut self, connection: ConnectionId) {
        self.connections.remove(&connection);
        self.forget_if_alone(connection);
        self.do_chores();
    }

    /// An order was carried out, or could not be.
    pub fn handle_done(&mut self, ticket: u64, result: Result<Done, ControlError>) {
        let Some(pending) = self.pending.remove(&ticket) else {
            return;
        };
        if let Some(asker) = pending.asker()
            && let Some(connection) = self.connections.get_mut(&asker.connection)
        {
            connection.in_flight -= 1;
        }
        self.conclude(pending, result);
        self.do_chores();
    }

    /// Whether another order fits.
    pub fn has_room(&self) -> bool {
        self.pending.len() < Self::ORDERS_MAX
    }

    /// Octets of memory that clients have, or are about to get.
    pub fn octets_used(&self) -> u64 {
        self.used
    }

    /// Whether nobody is connected.
    pub fn is_alone(&self) -> bool {
        self.connections.is_empty()
    }

    /// Whether the adapter is to end.
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Requests of a connection that are under way.
    pub fn in_flight(&self, connection: ConnectionId) -> usize {
        let connection = self.connections.get(&connection);
        connection.map_or(0, |connection| connection.in_flight)
    }

    /// The memory of a VC; none: no client has it under this name.
    pub fn files_of(&self, vc: VcId) -> Option<Handle> {
        let record = self.vcs.get(&vc.index).filter(|record| record.vc == vc);
        record.map(|record| record.memory.files)
    }

    /// All VCs, whoever has them.
    pub fn vcs(&self) -> impl Iterator<Item = KeptVc<'_>> {
        self.vcs.values().map(|record| KeptVc {
            vc: record.vc,
            attachment: record.attachment,
            files: record.memory.files,
            sizes: record.memory.sizes,
            files_generation: record.memory.files_generation,
            record: record.record.as_deref(),
        })
    }

    /// What is kept with an attachment: descriptors, and its owner's words about them.
    pub fn kept(&self, attachment: AttachmentIndex) -> Option<(&[Handle], Option<&str>)> {
        let kept = self.attachments.get(&attachment)?.kept.as_ref()?;
        Some((&kept.descriptors, kept.record.as_deref()))
    }

    /// The sizes of an attachment, and the generation of its files.
    pub fn attachment(&self, attachment: AttachmentIndex) -> Option<(AttachmentSizes, u32)> {
        let record = self.attachments.get(&attachment)?;
        Some((record.sizes, record.files_generation))
    }

    /// All attachments, by what was made for them.
    pub fn attachments(&self) -> impl Iterator<Item = (AttachmentIndex, Handle)> {
        let all = self.attachments.iter();
        all.map(|(index, record)| (*index, record.files))
    }

    /// How a port is configured; none: there is no such port.
    pub fn port(&self, port: PortIndex) -> Option<&PortConfig> {
        self.config.hello.config.ports.get(usize::from(port.0))
    }

    /// Whether somebody who governs the adapter is there.
    pub fn is_governed(&self) -> bool {
        self.other_governor(None).is_some()
    }

    pub(super) fn reply(
        &mut self,
        asker: Asker,
        result: Result<Answer, ControlError>,
        enclosed: Vec<Handle>,
    ) {
        if self.connections.contains_key(&asker.connection) {
            self.outputs.push_back(Output::Reply {
                to: asker.connection,
                reply: Reply {
                    id: asker.id,
                    result,
                },
                enclosed,
            });
        }
    }

    pub(super) fn release(&mut self, handle: Handle) {
        self.outputs.push_back(Output::Release(handle));
    }

    pub(super) fn order(
        &mut self,
        pending: Pending,
        ask: Ask,
        making: Option<Making>,
        came: Vec<Handle>,
    ) {
        self.order_into(pending, ask, making, None, came);
    }

    pub(super) fn order_into(
        &mut self,
        pending: Pending,
        ask: Ask,
        making: Option<Making>,
        into: Option<(Handle, ConnectionSizes)>,
        came: Vec<Handle>,
    ) {
        self.last_ticket += 1;
        let asker = pending.asker();
        if let Some(asker) = asker
            && let Some(connection) = self.connections.get_mut(&asker.connection)
        {
            connection.in_flight += 1;
        }
        self.pending.insert(self.last_ticket, pending);
        self.outputs.push_back(Output::Order(Order {
            ticket: self.last_ticket,
            from: asker.map(|asker| asker.connection),
            ask,
            making,
            into,
            came,
        }));
    }

    pub(super) fn making(&mut self) -> Making {
        self.last_generation = self.last_generation.wrapping_add(1);
        Making {
            handle: self.new_handle(),
            files_generation: self.last_generation,
        }
    }

    /// Takes octets of what clients may have together.
    pub(super) fn charge(&mut self, octets: u64) -> Result<(), ControlError> {
        let free = self.config.hello.memory_max.saturating_sub(self.used);
        if octets > free {
            return Err(ControlError::MemoryExhausted {
                needed: octets,
                free,
            });
        }
        self.used += octets;
        Ok(())
    }

    /// Whether an order like this is under way.
    pub(super) fn awaits(&self, like: impl Fn(&Pending) -> bool) -> bool {
        self.pending.values().any(like)
    }

    /// The orders under way.
    pub(super) fn awaited(&self) -> impl Iterator<Item = &Pending> {
        self.pending.values()
    }

    /// The process of whoever governs the adapter and is there, unless it is who asks.
    pub(super) fn other_governor(&self, asker: Option<ConnectionId>) -> Option<u32> {
        let governor = self.governor.filter(|governor| Some(*governor) != asker)?;
        let connection = self.connections.get(&governor)?;
        (!connection.ending).then_some(connection.pid)
    }
}
