//! What the daemon runs with, as its configuration file names it.

use serde::{Deserialize, Serialize};

use crate::keeper::Idle;

use super::{Quota, Reserve};

/// What the daemon runs with, beside interfaces and connections, which have lists of their own: a
/// part of it, where many users have quotas of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The daemon, with the places that it has found where none are configured; none: whoever asks
    /// may not see it.
    pub server: Option<ServerSection>,
    /// The adapters' processes, the present ones: at least one.
    pub adapters: Vec<AdapterSection>,
    /// What there is to promise.
    pub admission: AdmissionSection,
    /// What users may have without a quota of their own.
    pub quota: Quota,
    /// Those with one, by number: all for the server's own user and root, for others their own.
    pub users: Vec<UserSettings>,
    /// Addresses that not everybody may open: with the first part alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reserves: Vec<Reserve>,
    /// The user that the next part begins with, if there is one.
    pub next: Option<u32>,
}

/// What one user may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserSettings {
    /// As the configuration names it.
    pub name: String,
    pub uid: u32,
    /// What it may have.
    pub quota: UserQuota,
}

/// What one user may have; none: what all may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserQuota {
    pub connections: Option<u32>,
    /// Octets of memory.
    pub memory: Option<u64>,
    /// Guaranteed cells/s, over all interfaces, each way.
    pub cell_s: Option<u64>,
    /// Of the adapter's core, in millionths.
    pub adapter_ppm: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSection {
    /// The control socket; none: `control.sock` in the state directory.
    pub socket: Option<String>,
    /// Its permissions in octal.
    pub socket_mode: String,
    /// Its group, by name or number.
    pub socket_group: Option<String>,
    /// What a successor needs; none: `/run/cellgate`, or that of a user without privilege.
    pub state_dir: Option<String>,
    /// Whom to become once the socket is there, by name or number.
    pub user: Option<String>,
}

impl Default for ServerSection {
    fn default() -> Self {
        Self {
            socket: None,
            socket_mode: "0660".to_owned(),
            socket_group: None,
            state_dir: None,
            user: None,
        }
    }
}

/// An adapter's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdapterSection {
    /// By which interfaces name it: where there are several, each has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// VCs at once.
    pub vcs: u16,
    /// Blocks of 16,384 addresses in which VCs can be open at once, those of all interfaces
    /// together.
    pub leaves: u16,
    /// Applications at once.
    pub attachments: u16,
    /// Interfaces at once.
    pub ports: u8,
    /// Cells that each direction of an interface can have waiting: a power of two.
    pub port_cells: u32,
    /// Octets of memory for connections and applications together.
    pub memory_max: u64,
    /// Pin the firmware thread.
    pub pin: bool,
    /// To this CPU; none: the last one allowed.
    pub cpu: Option<usize>,
    /// Its nice value.
    pub nice: i32,
    /// What the firmware thread does while there is nothing to do.
    pub idle: Idle,
    /// How long it goes on looking before it rests, in nanoseconds; none: as long as has paid.
    pub linger_ns: Option<u64>,
    /// Keep its memory in place.
    pub lock_memory: bool,
    /// The longest stall that must not cost a conforming sender anything, in nanoseconds.
    pub gap_max_ns: u64,
    /// Cells that a link may bring at once: the most that a pseudowire's datagram holds.
    pub clump_cells: u16,
    /// Cells taken from an interface without finding it empty after which best effort is refused
    /// (0: never).
    pub overload_cells: u32,
    /// How long it may leave a question unanswered before it is taken for dead, in nanoseconds (0:
    /// for ever).
    pub silence_max_ns: u64,
}

impl AdapterSection {
    /// So many can be configured at most.
    pub const COUNT_MAX: usize = 16;
}

impl Default for AdapterSection {
    fn default() -> Self {
        Self {
            name: None,
            vcs: 1_024,
            leaves: 64,
            attachments: 1_024,
            ports: 16,
            port_cells: 16_384,
            memory_max: 1 << 31,
            pin: true,
            cpu: None,
            nice: -20,
            idle: Idle::default(),
            linger_ns: None,
            lock_memory: true,
            gap_max_ns: 30_000_000,
            clump_cells: 29,
            overload_cells: 262_144,
            silence_max_ns: 10_000_000_000,
        }
    }
}

/// What there is to promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdmissionSection {
    /// Of each interface and of each adapter's core, in percent, what is kept for best effort.
    pub best_effort_percent: u8,
    /// Reserved beyond the 99th percentile of the cost measured, in percent.
    pub headroom_percent: u32,
    /// Of each adapter's core, in millionths, what there is to promise.
    pub adapter_ppm: u32,
    /// Of one CPU, in millionths, what there is to promise to the workers together; none: 900,000
    /// of each CPU beside the adapter's, 100,000 where there is none.
    pub worker_ppm: Option<u32>,
    /// CPU time is reserved for SDUs of this many octets where a contract's largest is larger.
    pub sdu_floor: Option<u16>,
    /// CDVT where a contract gives none, in nanoseconds.
    pub cdvt_ns: u64,
    /// How late an application may be, in nanoseconds.
    pub wake_up_ns: u64,
}

impl Default for AdmissionSection {
    fn default() -> Self {
        Self {
            best_effort_percent: 5,
            headroom_percent: 25,
            adapter_ppm: 1_000_000,
            worker_ppm: None,
            sdu_floor: None,
            cdvt_ns: 1_000_000,
            wake_up_ns: 10_000_000,
        }
    }
}
