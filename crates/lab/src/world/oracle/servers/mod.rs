//! Servers: what one says and does is held against what its adapter has and its applications use.

mod accounts;
mod books;
mod conduct;
mod refusals;
mod shares;

use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::Time;
use cellgate_core::adapter::{PortIndex, VcId};
use cellgate_core::contract::CellRate;
use cellgate_core::server::{Address, ClientId, InterfaceSpec};
use cellgate_core::wire::VpiVci;

use crate::world::Ps;
use crate::world::scenario::ServerSpec;
use crate::world::servers::{Asked, Books, KeptVc, Serving};
use accounts::Reserves;
use refusals::Offered;

pub(crate) use conduct::is_what_was_asked;

/// What can be seen of a host's server, and of what is around it, at one time.
#[derive(Debug)]
pub(crate) struct View<'a> {
    /// What the host's clock says.
    pub(crate) now: Time,
    pub(crate) spec: &'a ServerSpec,
    pub(crate) interfaces: &'a [InterfaceSpec],
    /// Cells per second that the line of each port carries, whatever the server believes.
    pub(crate) lines: Vec<u64>,
    /// What it says of itself. None: there is none.
    pub(crate) server: Option<&'a Serving>,
    /// What its adapter has.
    pub(crate) vcs: &'a BTreeMap<VcId, KeptVc>,
    pub(crate) attachments: usize,
    /// Adapters before this one.
    pub(crate) adapter_life: u32,
    /// There is an adapter, and the server knows it.
    pub(crate) is_adapter_known: bool,
    /// Nothing is asked of the adapter that it has not answered.
    pub(crate) is_quiet: bool,
    /// Octets that the machine has for its adapter now, if they are bounded; and whether they ever
    /// were.
    pub(crate) memory_limit: Option<u64>,
    pub(crate) was_memory_limited: bool,
    /// Addresses of which adapters die.
    pub(crate) killers: Vec<VpiVci>,
    /// Whose sockets there are: applications by number.
    pub(crate) sockets: &'a BTreeMap<ClientId, usize>,
    pub(crate) users: Vec<User<'a>>,
}

/// An application.
#[derive(Debug)]
pub(crate) struct User<'a> {
    pub(crate) name: &'a str,
    pub(crate) address: Address,
    /// The VC that it has, and whether it writes and reads it.
    pub(crate) held: Option<(VcId, bool)>,
    /// It is the one that uses the connection's end.
    pub(crate) is_holder: bool,
    /// The adapter of which it has memory.
    pub(crate) mapped: Option<u32>,
    pub(crate) is_connected: bool,
    pub(crate) is_closing: bool,
    /// What best effort has heard of its share: of what it sends, of what it receives.
    pub(crate) share: [Option<CellRate>; 2],
    /// What it has asked for and had no Confirm of.
    pub(crate) asks: Option<&'a Asked>,
}

/// What is wrong: an invariant, and what was seen.
pub(crate) type Wrong = (&'static str, String);

/// What was seen of a host's server before.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    /// Octets that were promised when somebody looked last.
    promised: u64,
    /// What it has offered instead of what it refused.
    offered: BTreeMap<ClientId, Offered>,
    /// Addresses that somebody has had deleted.
    deleted: BTreeSet<Address>,
    /// Since when it opens again what was open at the adapter before.
    since: Ps,
    /// The last that was opened again: best effort, of an application alone, number.
    last: Option<(bool, bool, u32)>,
    /// Something else than want of memory can have ended a connection: a refusal, or a step of the
    /// clock.
    is_excused: bool,
    /// Adapters in a row that have died of what was opened again; some have died of something else.
    deaths: u32,
    has_others: bool,
    reserves: Reserves,
    /// Refusals that came with an offer, and times that its books were compared with its adapter.
    pub(crate) offers: u64,
    pub(crate) audits: u64,
}

impl View<'_> {
    /// The name of the interface on a port.
    fn interface(&self, port: PortIndex) -> Option<&String> {
        let one = self.interfaces.get(usize::from(port.0))?;
        Some(&one.name)
    }

    /// The VC at an address, if the adapter has one.
    fn vc_at(&self, address: &Address) -> Option<(&VcId, &KeptVc)> {
        self.vcs.iter().find(|(_, kept)| {
            let request = &kept.request;
            request.address == address.vc
                && self.interface(request.port) == address.interface.as_ref()
        })
    }

    /// Who is connected and uses a VC.
    fn user_of(&self, vc: VcId) -> Option<&User<'_>> {
        let users = self.sockets.values().map(|n| &self.users[*n]);
        let mut users = users.filter(|user| user.held == Some((vc, true)));
        users.next()
    }

    /// Cells per second of a port.
    fn line(&self, port: PortIndex) -> u64 {
        self.lines.get(usize::from(port.0)).copied().unwrap_or(0)
    }

    /// What must hold when nothing happens any more and everything is open still.
    pub(crate) fn is_right(&self) -> Result<(), Wrong> {
        for User { name, asks, .. } in &self.users {
            if let Some(Asked { request, .. }) = asks {
                let text = format!("application {name}: {request:?} was never confirmed");
                return Err(("I18", text));
            }
        }
        self.shares_are_heard()?;
        for user in &self.users {
            if matches!(user.held, Some((_, true))) && !user.is_holder {
                let name = user.name;
                let text = format!("application {name}: its connection was not opened again");
                return Err(("I19", text));
            }
        }
        Ok(())
    }

    /// I12: nothing is open, promised or attached.
    pub(crate) fn is_left_clean(&self, empty: &Books) -> Result<(), Wrong> {
        let wrong = |text: String| Err(("I12", text));
        let (vcs, clients) = (self.vcs.len(), self.attachments);
        if vcs > 0 || clients > 1 {
            return wrong(format!("{vcs} VCs and {clients} attachments are left"));
        }
        let Some(server) = self.server else {
            return wrong("there is none".into());
        };
        if server.admission() != empty {
            return wrong(format!("promised still: {:?}", server.admission()));
        }
        if let Some(info) = server.connections().next() {
            return wrong(format!("{} is left", info.address));
        }
        Ok(())
    }
}
