//! What the server is told of the adapter, and what it leaves with it for its successor.

use serde::{Deserialize, Serialize};

use super::{
    Address, ClientId, Demand, Histograms, InterfaceCounts, InterfaceSpec, InterfaceState, Open,
    Peer, RestInfo, SlotClocks,
};
use crate::adapter::{AttachmentIndex, OpenRequest, PortIndex, VcId};
use crate::queue::{AttachmentSizes, ConnectionSizes};

/// What the adapter keeps with a VC for a server that takes it up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The connection's number.
    pub number: u32,
    /// Where, with its interface's name.
    pub address: Address,
    /// How it was asked for; the contract in canonical form.
    pub open: Open,
    /// Whether it stays without an application.
    pub permanent: bool,
    /// The user it belongs to.
    pub uid: u32,
    /// A worker of the server is its application.
    pub worker: bool,
    /// The process of the application that uses it; none: nobody does.
    pub pid: Option<u32>,
    /// That application's own number for it.
    #[serde(default, skip_serializing_if = "super::message::is_zero")]
    pub connection: u32,
    /// What is reserved for it.
    pub demand: Demand,
    /// The slots of that since it was opened.
    #[serde(default)]
    pub slots: SlotClocks,
    /// The Request that made it what it is, for an application that did not hear its Confirm.
    pub done: Option<Done>,
    /// It was opened again on a new adapter, and nothing since shows that its application was
    /// told.
    #[serde(default)]
    pub reopened: bool,
}

impl Record {
    /// As it is kept: numbers, names and texts, all of which have a form in JSON.
    pub fn text(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    /// From what was kept, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// A Request that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Done {
    pub id: u64,
    /// It was a change of the contract, which brought new memory or not; none: the connection
    /// was opened or taken.
    pub modified: Option<bool>,
}

/// Connections of an application that are to be opened again, by its own numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reopens(pub Vec<u32>);

impl Reopens {
    const WORD: &str = "reopens";

    /// As it is kept with the application's socket; none: there are none.
    pub fn text(&self) -> Option<String> {
        let numbers = self.0.iter().map(|number| format!(" {number}"));
        (!self.0.is_empty()).then(|| {
            core::iter::once(Self::WORD.to_owned())
                .chain(numbers)
                .collect()
        })
    }

    /// From what was kept, which may be something else.
    pub fn parse(text: Option<&str>) -> Self {
        let numbers = text.and_then(|text| text.strip_prefix(Self::WORD));
        let numbers = numbers.unwrap_or_default().split_ascii_whitespace();
        Self(numbers.filter_map(|number| number.parse().ok()).collect())
    }
}

/// What a new server finds at an adapter that outlived the one before: one for each VC, and one
/// for each attachment without a VC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenUp {
    /// The application's control socket, kept under the attachment; none: there is none, the
    /// application hung up, or it is told of with another VC of the attachment, before this one.
    pub client: Option<(ClientId, Peer)>,
    /// The socket was kept while these connections were being opened again: of those without a VC,
    /// that was in vain.
    pub reopens: Reopens,
    pub attachment: AttachmentIndex,
    pub attachment_sizes: AttachmentSizes,
    /// That its files' headers carry.
    pub attachment_generation: u32,
    pub vc: Option<TakenVc>,
}

/// A VC that outlived the server that opened it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenVc {
    pub vc: VcId,
    /// How it was opened, or modified since.
    pub request: OpenRequest,
    pub sizes: ConnectionSizes,
    /// That its files' headers carry.
    pub files_generation: u32,
    /// What the server before left with it.
    pub record: Record,
}

/// An interface whose link outlived the server that added it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenInterface {
    /// As it was added.
    pub spec: InterfaceSpec,
    /// The adapter's port.
    pub port: PortIndex,
    /// Whether its link is there.
    pub up: bool,
}

/// How the adapter and its links have done since the last time this was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The adapter's process.
    pub pid: u32,
    /// CPU time of all its threads, in nanoseconds.
    pub cpu_ns: u64,
    /// The longest time that the adapter's thread did not run, in nanoseconds.
    pub gap_ns: u64,
    /// Gaps since the adapter began.
    pub gaps: u64,
    /// All of them together, in nanoseconds.
    pub gaps_total_ns: u64,
    /// How it has rested, but for who ended that, and who did for nothing, by attachment.
    pub rests: Option<(RestInfo, Vec<(AttachmentIndex, u64)>)>,
    /// How long gaps, wake-ups and steps took, since the adapter began.
    pub histograms: Option<Box<Histograms>>,
    /// Octets of connections' memory that are not locked, though that is wanted.
    pub unlocked: u64,
    /// Of ports with a link.
    pub ports: Vec<PortHealth>,
}

/// How a port has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortHealth {
    pub port: PortIndex,
    /// Whether its link is there.
    pub up: bool,
    /// Cells that its queue to the adapter had no room for, since the link was put on it.
    pub dropped_cells: u64,
    /// What it carries.
    pub state: InterfaceState,
    /// What it has thrown away.
    pub counts: InterfaceCounts,
}

impl PortHealth {
    /// A port that has its link and has lost nothing.
    pub fn well(port: PortIndex) -> Self {
        Self {
            port,
            up: true,
            dropped_cells: 0,
            state: InterfaceState::Up,
            counts: InterfaceCounts::default(),
        }
    }
}
