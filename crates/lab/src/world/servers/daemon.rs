//! The process of a server, and the channels to and from it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cellgate_core::adapter::{OpenRequest, VcId, VcIndex};
use cellgate_core::keeper::{GapReport, Handle, Request};
use cellgate_core::server::governor::Governors;
use cellgate_core::server::{
    AdapterAnswer, AdapterIndex, Admission, ClientId, Enclosed, FromClient, FromServer,
    InterfaceSpec, PagesOf, Planted, Server, ServerConfig, Ticket,
};
use serde::{Deserialize, Serialize};

use super::killers::Killers;
use super::memory::MemoryLimits;
use super::places::Places;
use super::process::{Files, Heard, Held, Process};
use super::scenario::ServerSpec;
use crate::world::Ps;

/// The operator's socket: whoever adds interfaces.
pub(super) const OPERATOR: ClientId = ClientId(1);
/// From the server to the process of the adapter.
pub(super) const TO_ADAPTER: u32 = 0;
pub(super) const FROM_ADAPTER: u32 = 1;

/// From an application to the server.
pub(super) const fn to_server(client: ClientId) -> u32 {
    2 * client.0
}

/// From the server to an application.
pub(super) const fn to_client(client: ClientId) -> u32 {
    2 * client.0 + 1
}

/// The application's socket that a channel belongs to.
pub(super) const fn client_of(channel: u32) -> ClientId {
    ClientId(channel / 2)
}

/// Who gets what comes on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    Server,
    Process,
    Application,
}

pub(super) const fn reader_of(channel: u32) -> Reader {
    match channel {
        TO_ADAPTER => Reader::Process,
        FROM_ADAPTER => Reader::Server,
        _ if channel.is_multiple_of(2) => Reader::Server,
        _ => Reader::Application,
    }
}

/// Memory that goes along with a message to an application.
#[derive(Clone, Debug)]
pub(super) struct Enclosure {
    pub(super) client: usize,
    pub(super) vc: VcId,
    pub(super) files: Files,
    pub(super) request: OpenRequest,
    /// Of which adapter.
    pub(super) adapter_life: u32,
}

#[derive(Debug)]
pub(super) enum Parcel {
    /// A socket is connected.
    Connect,
    /// An application says something; a descriptor goes along, or not.
    Said(FromClient, Option<VcId>),
    /// An application has closed its socket.
    HangUp,
    /// The server says something.
    Told(Box<FromServer>, Option<Box<Enclosure>>),
    /// The other end of an application's socket is closed.
    HungUp,
    /// For the keeper of the adapter of this life, by the server of this one; descriptors go along.
    Ask {
        adapter: u32,
        asker: u32,
        request: Box<Request>,
        sent: Vec<Held>,
    },
    /// For the adapter of this life: the server of this one has gone.
    Gone(u32, u32),
    Reply(Box<Heard>),
    /// What a bug answers the server of this life in the adapter's place.
    Lie(u32, Ticket, Box<AdapterAnswer>),
    /// The adapter of this life has gone.
    Lost(u32),
    /// There is this one.
    Ready(u32),
}

/// What is on its way, in order.
#[derive(Debug, Default)]
pub(super) struct Channel {
    pub(super) parcels: VecDeque<Parcel>,
    /// Of these, those that have come and wait for a server.
    pub(super) waiting: u32,
}

/// A server that can have a bug.
pub(crate) type Serving = Server<Option<Planted>>;

pub(crate) type Books = Admission<Option<Planted>>;

/// A server in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerOutcome {
    /// Requests of applications.
    pub requests: u64,
    /// Those that were carried out.
    pub confirmed: u64,
    /// Those that were not.
    pub refused: u64,
    /// Refusals that came with an offer.
    pub offered: u64,
    /// Commands for the adapter.
    pub commands: u64,
    /// Servers that have taken up what another had left.
    pub take_ups: u64,
    /// Connections that they found.
    pub taken_up: u64,
    /// Times that a writer was suspended until its next credit.
    pub suspended: u64,
    /// Times that the books were compared with what the adapter has.
    pub audits: u64,
    /// PDUs that were promised to arrive, and have; of connections that are received here.
    pub kept_pdus: u64,
}

/// What a server has asked of its adapter and has had no answer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// What it was for.
    pub(super) stage: &'static str,
    /// Octets that it makes.
    pub(super) octets: u64,
}

/// A host's server, and what is around it.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) spec: ServerSpec,
    pub(super) config: ServerConfig,
    pub(super) interfaces: Vec<InterfaceSpec>,
    /// None: there is none, or its adapter has not told yet what it has.
    pub(super) server: Option<Serving>,
    /// The server's side of its adapter. None: there is no process of a server.
    pub(super) governors: Option<Governors>,
    /// What they want is being done.
    pub(super) governors_go_on: bool,
    /// What the handles of that stand for.
    pub(super) files: BTreeMap<Handle, Held>,
    /// Servers so far.
    pub(super) life: u32,
    /// Adapters so far.
    pub(super) adapter_life: u32,
    /// Of these, the one that the server knows.
    pub(super) known_adapter: u32,
    pub(super) is_adapter_up: bool,
    pub(super) places: Places,
    pub(super) killers: Killers,
    pub(super) memory: MemoryLimits,
    pub(super) process: Process,
    /// How the VCs were opened whose memory the server has.
    pub(super) requests: BTreeMap<VcIndex, (VcId, OpenRequest)>,
    /// Applications whose sockets the process of the adapter keeps for the server that begins.
    pub(super) awaited: BTreeSet<ClientId>,
    /// Whose sockets there are: applications by number.
    pub(super) clients: BTreeMap<ClientId, usize>,
    pub(super) channels: BTreeMap<u32, Channel>,
    /// The last given.
    pub(super) last_client: u32,
    /// Commands that can find no room.
    pub(super) refusable: u64,
    pub(super) asked: BTreeMap<Ticket, Asked>,
    /// When its timer fires next.
    pub(super) deadline: Option<Ps>,
    /// How its adapter has stood still since it was last asked.
    pub(super) gaps: GapReport,
    /// It does not look at its adapter from then on.
    pub(super) looks_until: Ps,
    pub(super) counts: ServerOutcome,
}

impl Served {
    pub(super) fn new(
        spec: ServerSpec,
        config: ServerConfig,
        interfaces: Vec<InterfaceSpec>,
    ) -> Self {
        Self {
            spec,
            server: None,
            governors: None,
            governors_go_on: false,
            files: BTreeMap::new(),
            life: 0,
            adapter_life: 0,
            known_adapter: 0,
            is_adapter_up: true,
            places: Places::default(),
            killers: Killers::default(),
            memory: MemoryLimits::default(),
            process: Process::default(),
            requests: BTreeMap::new(),
            awaited: BTreeSet::new(),
            clients: BTreeMap::new(),
            channels: BTreeMap::new(),
            last_client: OPERATOR.0,
            refusable: 0,
            asked: BTreeMap::new(),
            deadline: None,
            gaps: GapReport::default(),
            looks_until: Ps::ZERO,
            counts: ServerOutcome::default(),
            config,
            interfaces,
        }
    }

    /// Its adapter stands still for so long.
    pub(crate) fn stood_still(&mut self, span: Ps) {
        let gaps = &mut self.gaps;
        gaps.max_ns = gaps.max_ns.max(span.ns());
        gaps.count += 1;
        gaps.total_ns += span.ns();
    }

    /// Where a channel comes among those that have a message at the same time.
    pub(super) fn rank(&self, channel: u32) -> u32 {
        let mixed = (u64::from(channel) ^ self.spec.order).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as u32
    }

    /// Messages that have not come.
    pub(super) fn under_way(&self) -> usize {
        self.channels.values().map(|one| one.parcels.len()).sum()
    }

    /// The memory that goes along with a message. None: there is none such.
    pub(super) fn enclosure(&self, enclosed: Enclosed) -> Option<Enclosure> {
        let governors = self.governors.as_ref()?;
        let vc = match enclosed {
            Enclosed::Connection { vc, .. } | Enclosed::Memory { vc, .. } => vc,
            Enclosed::Nothing | Enclosed::Counters => return None,
        };
        let (_, request) = self
            .requests
            .get(&vc.index)
            .filter(|(name, _)| *name == vc)?;
        let attachment = match enclosed {
            Enclosed::Connection { attachment, .. } => attachment,
            _ => request.attachment,
        };
        let memory = *governors.enclosed(enclosed)?.first()?;
        let mut all = governors.memory(AdapterIndex::FIRST);
        let (_, client) = all.find(|(of, _)| *of == PagesOf::Attachment(attachment))?;
        match (self.files.get(&memory)?, self.files.get(&client)?) {
            (Held::Memory(files), Held::Client(client)) => Some(Enclosure {
                client: *client,
                vc,
                files: files.clone(),
                request: OpenRequest {
                    attachment,
                    ..*request
                },
                adapter_life: self.known_adapter,
            }),
            _ => None,
        }
    }

    /// Sockets that the process of the adapter keeps, or is about to.
    pub(super) fn kept(&self) -> BTreeSet<ClientId> {
        let kept = self.process.kept.values();
        let mut kept: BTreeSet<ClientId> = kept.map(|(client, _)| *client).collect();
        if !self.is_adapter_up {
            return BTreeSet::new();
        }
        let under_way = self.channels.get(&TO_ADAPTER).into_iter();
        for parcel in under_way.flat_map(|channel| &channel.parcels) {
            if let Parcel::Ask { adapter, sent, .. } = parcel
                && *adapter == self.adapter_life
                && let [Held::Socket(client)] = &sent[..]
            {
                kept.insert(*client);
            }
        }
        kept
    }
}
