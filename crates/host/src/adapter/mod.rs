//! The adapter as a process of its own (or a thread, where a test wants one): a firmware thread
//! that does the work, and a service thread that talks to clients.
//!
//! ```text
//!  control sockets         service thread                 firmware thread
//! ----------------> requests -> commands ---channel---> HostBoard::command
//! <---------------- replies <- completions <--channel--- HostBoard::complete
//!                                                        ports, event queues, doorbells:
//! clients, senders <------------ shared memory --------> nothing of it passes the service thread
//! clients <-- their eventfds -- a thread for each user <-- its bell
//! clients, senders -- eventfds of theirs, sockets --------> one epoll, while it rests
//! ```
//!
//! The firmware thread never allocates, waits only while it rests (`rest`), and makes no other
//! system call but writes to eventfds that only threads of this process wait at and, for ports with
//! a pseudowire, `recvmmsg` and `sendmsg` that do not wait ([`udp`](crate::link::udp) says when).
//! Memory is made, populated and freed by the service thread, sockets are opened and closed by it;
//! what came from others is closed by threads that nobody waits for (`given`).

mod board;
pub(crate) mod due;
mod firmware;
mod meetings;
mod memory;
mod orders;
mod ports;
mod process;
mod rest;
mod service;
mod sockets;
mod sources;
mod start;
pub(crate) mod wake;
pub(crate) mod wakers;

use std::collections::BTreeMap;
use std::path::PathBuf;

use cellgate_core::adapter::{Config, Refusal};
use serde::{Deserialize, Serialize};

use crate::gap::Gaps;
use crate::sys::{SchedulingRequest, WakeUp};

pub(crate) use process::allow_descriptors;
pub use process::{AdapterProcess, AdapterThread, run_as_child};
pub use start::serve;

/// What an adapter is started with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterOptions {
    /// What it is built for.
    pub config: Config,
    /// How its firmware thread is to be scheduled.
    pub scheduling: SchedulingRequest,
    /// Cells that each direction of each port can have waiting (a power of two).
    pub port_cells: u32,
    /// Octets of memory that connections and clients may have together.
    pub memory_max: u64,
    /// Distances between clock reads from here on count as gaps.
    pub gap_threshold_ns: u64,
    /// The adapter is killed when the thread that started its process ends.
    pub die_with_parent: bool,
    /// Where else control connections are taken on: a Unix socket of this path, for its user only.
    /// Without, the adapter ends with its last control connection.
    pub listen: Option<PathBuf>,
    /// What wake-ups take, by CPU, where that is known: it is not measured again there.
    pub wake_ups: BTreeMap<usize, WakeUp>,
    /// How much more than measured a wake-up may take, in percent.
    pub headroom_percent: u32,
}

impl AdapterOptions {
    /// An adapter built for `config`, everything else as is usual.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            scheduling: SchedulingRequest::default(),
            port_cells: 16_384,
            memory_max: 1 << 31,
            gap_threshold_ns: Gaps::THRESHOLD_NS_DEFAULT,
            die_with_parent: true,
            listen: None,
            wake_ups: BTreeMap::new(),
            headroom_percent: 25,
        }
    }
}

/// Why an adapter did not start, or ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// The configuration was refused.
    #[error("the adapter's configuration is refused: {0}")]
    Refused(#[from] Refusal),
    /// The kernel refused something.
    #[error(transparent)]
    Kernel(#[from] std::io::Error),
    /// The starter did not say with what to start.
    #[error("no options came over the control connection: {0}")]
    Options(String),
    /// The firmware thread ended of itself.
    #[error("the firmware thread has ended")]
    Firmware,
}
