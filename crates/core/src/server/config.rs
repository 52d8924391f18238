use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{AdapterIndex, CpuLaw, Idle, Reserve};
use crate::adapter::{Interleaving, Transmit};
use crate::queue::AttachmentSizes;

/// What a server is built with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Its program's name and version.
    pub server: String,
    pub pid: u32,
    /// Its user, who may do what root may.
    pub uid: u32,
    /// What it could not have, for people.
    pub notes: Vec<String>,
    /// Octets of the file that the counters are shown in; none: there is none.
    pub counters_len: Option<u64>,
    /// Its adapters, at least one. [`AdmissionConfig::adapters`] has as many.
    pub adapters: Vec<ServerAdapter>,
    /// The memory of an application at an adapter.
    pub attachment: AttachmentSizes,
    /// What contracts leave open.
    pub assumptions: ServerAssumptions,
    /// What there is to promise.
    pub admission: AdmissionConfig,
    /// What applications can occupy besides.
    pub limits: Limits,
    /// Addresses that not everybody may open, beside those of VCIs below [`OWN_VCI_MIN`].
    ///
    /// [`OWN_VCI_MIN`]: super::OWN_VCI_MIN
    pub reserves: Vec<Reserve>,
}

/// An adapter of the server, and what connections on it depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAdapter {
    /// By which interfaces name it; none: it is the only one.
    pub name: Option<String>,
    /// Ports that interfaces can be put on: 0 to this, less one.
    pub ports: u8,
    /// Blocks of addresses in which VCs can be open at once ([`Config::leaves`]); of one user a
    /// quarter.
    ///
    /// [`Config::leaves`]: crate::adapter::Config::leaves
    pub blocks: u32,
    /// The longest stall of the adapter that must not cost a conforming sender anything. A longer
    /// one puts guarantees at risk.
    pub gap_max_ns: u64,
    /// Cells that a link may deliver at once though they were sent one by one.
    pub clump_cells: u16,
    /// What the adapter does while there is nothing to do.
    pub idle: Idle,
    /// How late one that rests may be for what is due, in nanoseconds; 0: it never rests.
    pub late_ns: u64,
}

/// What connections depend on beside their contract and their adapter
/// ([`Assumptions`](crate::adapter::Assumptions)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerAssumptions {
    /// CDVT where the contract gives none.
    pub cdvt_ns: u64,
    /// How AAL3/4 is reassembled.
    pub interleaving: Interleaving,
    /// How late an application may be.
    pub wake_up_ns: u64,
}

impl ServerConfig {
    /// One of the adapters.
    ///
    /// # Panics
    /// There is none such.
    pub fn adapter(&self, index: AdapterIndex) -> &ServerAdapter {
        &self.adapters[index.place()]
    }

    /// These adapters, as another configuration has them: names and ports stay.
    pub(super) fn adapters_changed_to(&self, others: Vec<ServerAdapter>) -> Vec<ServerAdapter> {
        let pairs = self.adapters.iter().zip(others);
        let same = |(one, other): (&ServerAdapter, ServerAdapter)| ServerAdapter {
            name: one.name.clone(),
            ports: one.ports,
            ..other
        };
        pairs.map(same).collect()
    }
}

impl ServerAdapter {
    /// The least CDVT of a VC that sends at a rate of its own, beside which the adapter can rest: a
    /// quarter of it is what the adapter waits, another what it may be late.
    pub const fn least_cdvt_ns(&self) -> u64 {
        self.late_ns.saturating_mul(4)
    }

    /// Whether a VC that sends like this under a contract of `cdvt_ns` keeps the adapter from
    /// resting.
    pub(super) fn is_kept_awake_by(&self, transmit: &Transmit, cdvt_ns: u64) -> bool {
        let paced = transmit.rate.is_some() || transmit.peak.is_some() || transmit.abr.is_some();
        paced && self.idle.rests() && cdvt_ns < self.least_cdvt_ns()
    }
}

/// What there is to promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionConfig {
    /// What cells and PDUs cost an adapter's core.
    pub adapter_law: CpuLaw,
    /// What each adapter has, in their order.
    pub adapters: Vec<AdapterBooks>,
    /// What PDUs cost a worker of the server.
    pub worker_law: CpuLaw,
    /// Of the cores of all workers together, in millionths of one.
    pub worker_ppm: u32,
    /// Of each interface and of each adapter's core, in percent, what is kept for best effort so
    /// that it can at least be discarded; at most 100.
    pub best_effort_percent: u8,
    /// CPU time is reserved for SDUs of this many octets where a contract's largest is larger: a
    /// sender of short ones has more PDUs. None: for the largest.
    pub sdu_floor: Option<u16>,
    /// What one user may have who has no quota of its own. The server's own user and root may have
    /// what there is.
    pub quota: Quota,
    /// What single users may have instead, by number.
    pub quotas: BTreeMap<u32, Quota>,
}

/// What an adapter has to promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterBooks {
    /// Of its core, in millionths: 1,000,000 if it does nothing else.
    pub cpu_ppm: u32,
    /// Octets of memory.
    pub memory: u64,
    pub connections: u32,
}

/// A limit of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// What it leaves to promise, in the resource's unit.
    pub capacity: u64,
    /// Which it is, for people.
    pub by: String,
}

/// What one user may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    pub connections: u32,
    /// Octets of memory.
    pub memory: u64,
    /// Guaranteed cells/s, over all interfaces, each way.
    pub cell_s: u64,
    /// Of the adapters' cores, in millionths of one.
    pub adapter_ppm: u32,
}

impl Quota {
    /// As much as there is.
    pub const NONE: Self = Self {
        connections: u32::MAX,
        memory: u64::MAX,
        cell_s: u64::MAX,
        adapter_ppm: u32::MAX,
    };
}

/// What applications can occupy besides what admission hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub clients: u32,
    /// Of these, of one user.
    pub clients_per_user: u32,
    /// Requests of one socket that wait for their Confirm.
    pub waiting: u32,
    /// Sockets that monitor; of one user a quarter.
    pub monitors: u32,
    pub interfaces: u32,
    /// Nanoseconds that a socket has for its first request.
    pub hello_ns: u64,
    /// An adapter that has lived for so many nanoseconds since it opened a connection again does
    /// not die of that.
    pub outlived_ns: u64,
    /// Nanoseconds before what had no memory when it was opened again is asked for once more.
    pub short_again_ns: u64,
    /// How many nanoseconds pass before one of these ends: after there is an adapter, and after the
    /// last that opened or ended.
    pub short_patience_ns: [u64; 2],
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 4_096,
            clients_per_user: 1_024,
            waiting: 16,
            monitors: 16,
            interfaces: 64,
            hello_ns: 10_000_000_000,
            outlived_ns: 750_000_000,
            short_again_ns: 100_000_000,
            short_patience_ns: [5_000_000_000, 1_000_000_000],
        }
    }
}
