//! A host's node: it calls other hosts and is called, by the core's own MSNL and REX.
//!
//! ```text
//!   calls, work --> Rex -- blocks --> circuits that Msnl has set up --+
//!                    ^                                                +--> MSDL, station, ring
//!   Connect, Accept, Release: Msnl <--> the associations of `rpc` ----+
//! ```
//!
//! A node may be killed: what it knew is gone, its host closes its circuits, and the next one is
//! another incarnation. The books stay.

mod book;
mod deeds;
mod link;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use cellgate_core::upper::msna::rex::{Exchange, Planted, Rex, RexConfig};
use cellgate_core::upper::msna::{Address, Msnl, MsnlConfig, Sap};

pub(crate) use self::book::Tally;
pub(super) use self::book::{Book, judge};
use self::link::Peer;
use super::application::Route;
use super::scenario::MessageEffect;
use crate::cbn::CbnBug;
use crate::machine::v1s::{Circuits, Outgoing};
use crate::world::Ps;

/// Circuits that a node may have at a time.
pub(super) const CIRCUITS: u16 = 16;
/// The service that answers calls.
const SAP: Sap = Sap(7);
/// Octets of a message in a block: 17 cells carry them and their header.
const FRAGMENT: u16 = 480;
/// Blocks that wait to leave before REX is asked for another.
const WAITING: usize = 8;

/// A node's name among others, and its times: as slow as the slowest host.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeSpec {
    pub(super) host: Ipv4Addr,
    /// The first of its circuits.
    pub(super) first_vci: u16,
    pub(super) beat: Ps,
    /// A circuit rests so long when it was closed.
    pub(super) hold: Ps,
    pub(super) bug: Option<CbnBug>,
}

impl NodeSpec {
    /// In beats: how long a caller keeps what it has of a server, and an association that nobody
    /// uses.
    pub(super) const KEEP: u64 = 6;
    const IDLE: u64 = 8;
    const CONNECTS: u8 = 3;
    const TRIES: u8 = 5;

    const fn beats(&self, count: u64) -> u64 {
        self.beat.ns() * count
    }

    /// Of this node alone. On a ring of few slots a cell may outlive its circuit's rest, and reach
    /// another association: incarnations tell the two apart. Live nodes have the time of their
    /// beginning.
    fn first_incarnation(&self) -> u64 {
        u64::from(u32::from(self.host)) << 16
    }

    fn msnl(&self, incarnation: u64) -> Msnl {
        Msnl::new(MsnlConfig {
            host: self.host,
            incarnation,
            retry_ns: self.beats(1),
            tries: Self::CONNECTS,
            waiting_max: 4,
            hosts_max: 256,
        })
    }

    fn rex(&self, incarnation: u64) -> Rex<Option<Planted>> {
        let config = RexConfig {
            incarnation,
            fragment_max: FRAGMENT,
            window: 4,
            message_max: 8_192,
            retry_ns: self.beats(1),
            tries: Self::TRIES,
            probe_ns: self.beats(1),
            acknowledge_ns: self.beats(1) / 2,
            keep_ns: self.beats(Self::KEEP),
            calls_max: 64,
            exchanges_max: 64,
            octets_max: 1 << 18,
            peers_max: 64,
        };
        Rex::with_bugs(config, self.planted())
    }

    const fn planted(&self) -> Option<Planted> {
        Some(match self.bug {
            Some(CbnBug::ExecutedTwice) => Planted::FloorIgnored,
            Some(CbnBug::SilenceNotTold) => Planted::SilenceNotTold,
            _ => return None,
        })
    }
}

/// Calls that a node makes.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// Number of the association that the traffic is on.
    pub(super) association: u32,
    pub(super) to: Ipv4Addr,
    pub(super) octets: Vec<u16>,
    pub(super) start: Ps,
    pub(super) stop: Ps,
    pub(super) call_s: u32,
    pub(super) most: u64,
    pub(super) made: u64,
}

impl Caller {
    fn due(&self) -> Ps {
        let due = self
            .start
            .plus(super::application::distance(self.made, self.call_s));
        match due < self.stop && self.made < self.most {
            true => due,
            false => Ps::MAX,
        }
    }
}

/// What becomes of some of a node's messages within a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Harm {
    pub(super) from: Ps,
    pub(super) until: Ps,
    /// REX's, or MSNL's.
    pub(super) is_rex: bool,
    /// The first, and each of so many.
    pub(super) every: u64,
    pub(super) effect: MessageEffect,
    pub(super) met: u64,
}

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    spec: NodeSpec,
    incarnation: u64,
    msnl: Msnl,
    rex: Rex<Option<Planted>>,
    peers: BTreeMap<Ipv4Addr, Peer>,
    pub(super) callers: Vec<Caller>,
    /// How long it works at a call.
    pub(super) work: Ps,
    /// Hosts that have left a call without an answer.
    silent: BTreeSet<Ipv4Addr>,
    works: VecDeque<(Ps, Exchange, Vec<u8>)>,
    inbox: VecDeque<(u16, Vec<u8>)>,
    out: BTreeMap<(Ps, u64), Outgoing>,
    /// Blocks that were put there.
    sent: u64,
    pub(super) harms: Vec<Harm>,
    /// Killed: there is none until then.
    dead_until: Option<Ps>,
    /// Its predecessor's circuits are open.
    is_open: bool,
    pub(super) book: Book,
}

impl Node {
    pub(super) fn new(spec: NodeSpec) -> Self {
        let incarnation = spec.first_incarnation();
        Self {
            incarnation,
            msnl: spec.msnl(incarnation),
            rex: spec.rex(incarnation),
            peers: BTreeMap::new(),
            callers: Vec::new(),
            work: Ps::ZERO,
            silent: BTreeSet::new(),
            works: VecDeque::new(),
            inbox: VecDeque::new(),
            out: BTreeMap::new(),
            sent: 0,
            harms: Vec::new(),
            dead_until: None,
            is_open: false,
            book: Book::default(),
            spec,
        }
    }

    /// Messages to a host go by this route, and come on that circuit.
    pub(super) fn knows(&mut self, host: Ipv4Addr, route: Route, comes: u16) {
        let peer = Peer::new(route, comes);
        self.peers.entry(host).or_insert(peer);
    }

    pub(super) fn room(&self) -> (u16, Ps) {
        let hold = match self.spec.bug {
            Some(CbnBug::VciReusedAtOnce) => Ps::ZERO,
            _ => self.spec.hold,
        };
        (self.spec.first_vci + CIRCUITS, hold)
    }

    /// Whether a circuit is the node's.
    pub(super) fn owns(&self, vci: u16) -> bool {
        let own = self.spec.first_vci..self.spec.first_vci + CIRCUITS;
        own.contains(&vci) || self.peers.values().any(|peer| peer.comes == vci)
    }

    /// A block has come on a circuit of the node's.
    pub(super) fn has_come(&mut self, vci: u16, block: &[u8]) {
        self.inbox.push_back((vci, block.to_vec()));
    }

    /// It is killed; another begins then.
    pub(super) fn dies(&mut self, until: Ps) {
        self.dead_until = Some(self.dead_until.map_or(until, |before| before.max(until)));
        self.is_open = true;
        self.book.dies(self.incarnation);
        self.incarnation += u64::from(self.spec.bug != Some(CbnBug::IncarnationKept));
        self.msnl = self.spec.msnl(self.incarnation);
        self.rex = self.spec.rex(self.incarnation);
        self.peers.values_mut().for_each(Peer::forget);
        self.works.clear();
        self.inbox.clear();
        // A message that is on its way is.
    }

    /// When there is something to do.
    pub(super) fn due(&self) -> Ps {
        let out = self.out.keys().next().map_or(Ps::MAX, |(at, _)| *at);
        if self.is_open {
            return Ps::ZERO;
        }
        if let Some(until) = self.dead_until {
            return until.min(out);
        }
        let comes = match self.inbox.is_empty() {
            true => Ps::MAX,
            false => Ps::ZERO,
        };
        let deadlines = [self.msnl.next_deadline(), self.rex.next_deadline()];
        let deadlines = deadlines.into_iter().flatten();
        let deadlines = deadlines.map(|at| Ps::from_ns(at.ns()));
        let calls = self.callers.iter().map(Caller::due);
        let works = self.works.iter().map(|(at, ..)| *at);
        let links = self.peers.values().map(|peer| peer.due(self.idle()));
        let all = deadlines.chain(calls).chain(works).chain(links);
        all.fold(comes.min(out), Ps::min)
    }

    fn idle(&self) -> Ps {
        match self.spec.bug {
            Some(CbnBug::AssociationLeft) => Ps::from_ns(1 << 50),
            _ => Ps::from_ns(self.spec.beats(NodeSpec::IDLE)),
        }
    }

    /// A block that leaves now.
    pub(super) fn leaves(&mut self, at: Ps) -> Option<Outgoing> {
        let (key, _) = self.out.first_key_value()?;
        let key = (key.0 <= at).then_some(*key)?;
        self.out.remove(&key)
    }

    /// Whether nothing is left of calls and associations.
    pub(super) fn left(&self) -> Option<String> {
        let held = self.rex.held();
        let links = self.peers.values().filter(|peer| !peer.is_closed()).count();
        let msnl = self.msnl.next_deadline().is_some();
        let nothing = held == Default::default() && links == 0 && !msnl && self.out.is_empty();
        let text = || format!("{held:?}, {links} associations, answers to keep: {msnl}");
        (!nothing).then(text)
    }

    const fn address(host: Ipv4Addr) -> Address {
        Address { host, sap: SAP }
    }
}
