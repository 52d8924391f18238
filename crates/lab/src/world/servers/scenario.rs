//! Servers and applications as pure data.

use serde::{Deserialize, Serialize};

/// The protocol server of a host. Connections that applications of the host ask it for are opened
/// by it, and by nobody else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    /// Name of the host.
    pub host: String,
    /// How long a message takes between the server and an application, or the adapter.
    #[serde(default = "control_ns")]
    pub control_ns: u64,
    /// Octets of memory that it can promise.
    #[serde(default = "memory")]
    pub memory: u64,
    /// Connections that it can promise.
    #[serde(default = "connections")]
    pub connections: u32,
    /// Millionths of the adapter's core that it can promise.
    #[serde(default = "adapter_ppm")]
    pub adapter_ppm: u32,
    /// Percent of each line, and of the adapter's core, that are kept for best effort.
    #[serde(default = "best_effort_percent")]
    pub best_effort_percent: u8,
    /// Guaranteed cells per second that a user other than root can have each way; 0: no bound.
    #[serde(default)]
    pub quota_cell_s: u64,
    /// Decides which of several messages comes first that come at one time.
    #[serde(default)]
    pub order: u64,
    /// Which of the commands for the adapter find its queue full, by ordinal. Commands that end
    /// something do not count.
    #[serde(default)]
    pub refused: Vec<u64>,
    /// When it dies; its adapter lives on.
    #[serde(default)]
    pub crashes: Vec<CrashSpec>,
}

fn control_ns() -> u64 {
    20_000
}

fn memory() -> u64 {
    64 << 20
}

fn connections() -> u32 {
    64
}

fn adapter_ppm() -> u32 {
    1_000_000
}

fn best_effort_percent() -> u8 {
    2
}

impl ServerSpec {
    /// A server with the usual parameters.
    pub fn on(host: &str) -> Self {
        Self {
            host: host.into(),
            control_ns: control_ns(),
            memory: memory(),
            connections: connections(),
            adapter_ppm: adapter_ppm(),
            best_effort_percent: best_effort_percent(),
            quota_cell_s: 0,
            order: 0,
            refused: Vec::new(),
            crashes: Vec::new(),
        }
    }
}

/// A server dies, and another takes up what it has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrashSpec {
    pub at_ns: u64,
    /// How long there is none.
    pub for_ns: u64,
}

/// A program on a host with a server: it has a control socket, and at most one connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplicationSpec {
    pub name: String,
    /// Name of its host.
    pub host: String,
    /// Name of the connection that its calls are about: it sends where that begins, and receives
    /// where that ends.
    pub connection: String,
    /// Its user; 0 is root.
    #[serde(default = "uid")]
    pub uid: u32,
    /// It takes what a refusal offers, and room that becomes free.
    #[serde(default)]
    pub accepts: bool,
    /// What it asks for.
    pub calls: Vec<CallSpec>,
}

fn uid() -> u32 {
    1_000
}

/// Something that an application does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallSpec {
    /// When, from when everything else is open.
    pub at_ns: u64,
    pub call: Call,
}

/// What an application can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Opens its connection by its contract.
    Open,
    /// The same with another contract, which may be none.
    OpenWith(String),
    /// Changes the contract, when all that was handed over has been sent.
    Modify(String),
    /// Closes the connection, or gives it back.
    Close,
    /// Adds the connection as a permanent one, by its contract.
    Add,
    /// Takes the permanent connection.
    Take,
    /// Lends the connection time for so many PDUs.
    Lend {
        /// PDUs.
        pdus: u32,
        /// For so long.
        for_ns: u64,
    },
    /// Takes the connection over from whoever has it on this host, who hands its descriptor on.
    Reattach,
    /// Deletes the permanent connection.
    Delete,
    /// It dies. Its next call is another process's.
    Crash,
    /// It connects and says nothing, not even hello, unless it has a socket already.
    Mute,
}
