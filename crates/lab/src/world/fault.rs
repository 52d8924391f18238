//! What happens to a scenario's world beside its traffic.

use cellgate_core::Effect;
use serde::{Deserialize, Serialize};

use super::LineOutcome;
use super::rings::scenario::{MessageEffect, MessageKind, RingHarm, SlotEffect, StationHarm};

/// Something that goes wrong, or is done, at a cell or at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FaultSpec {
    /// To the cell with this ordinal on one direction of a link.
    Cell {
        /// Number of the link.
        link: usize,
        /// From the link's second end to its first.
        #[serde(default)]
        back: bool,
        /// Ordinal of the cell, from 0.
        cell: u64,
        /// What happens to it.
        effect: Effect,
    },
    /// The cell with this ordinal arrives before the one that was sent before it, if that one is
    /// still under way and belongs to another VC.
    Swap {
        /// Number of the link.
        link: usize,
        /// From the link's second end to its first.
        #[serde(default)]
        back: bool,
        /// Ordinal of the cell, from 0.
        cell: u64,
    },
    /// A host's adapter stands still.
    AdapterStall {
        /// Name of the host.
        host: String,
        at_ns: u64,
        for_ns: u64,
    },
    /// A host's clients are not run.
    HostStall {
        /// Name of the host.
        host: String,
        at_ns: u64,
        for_ns: u64,
    },
    /// Interrupts of a host are lost; when that ends its clients look by themselves.
    InterruptsLost {
        /// Name of the host.
        host: String,
        at_ns: u64,
        for_ns: u64,
    },
    /// A host's clients run though nothing has woken them.
    SpuriousWakeUp {
        /// Name of the host.
        host: String,
        at_ns: u64,
    },
    /// A host's clock goes forward at once.
    ClockStep {
        /// Name of the host.
        host: String,
        at_ns: u64,
        /// By so much.
        by_ns: u64,
    },
    /// The reader of a connection dies, and another opens it again.
    ReaderCrash {
        /// Name of the connection.
        connection: String,
        at_ns: u64,
        /// How long nobody reads.
        for_ns: u64,
    },
    /// A host's adapter dies with all its VCs, and another opens them again.
    AdapterCrash {
        /// Name of the host.
        host: String,
        at_ns: u64,
        /// How long there is none.
        for_ns: u64,
    },
    /// The command queue of a host's adapter is full: who has a command for it waits.
    CommandQueueFull {
        /// Name of the host.
        host: String,
        at_ns: u64,
        for_ns: u64,
    },
    /// A host's timers fire before their time: its adapter and its server look what is due, and
    /// writers ask whether there is credit again.
    EarlyTimers {
        /// Name of the host.
        host: String,
        at_ns: u64,
    },
    /// Somebody opens VCs at a host, as many as there is room for, and closes them again.
    Guests {
        /// Name of the host.
        host: String,
        at_ns: u64,
        /// How long they stay open.
        for_ns: u64,
        /// How many are asked for.
        vcs: u16,
    },
    /// A connection gets another contract at one of its ends, without being closed.
    Modify {
        /// Name of the connection.
        connection: String,
        at_ns: u64,
        /// The new contract.
        contract: String,
        /// At the end that sends; else at the one that receives.
        #[serde(default)]
        sender: bool,
        /// It gets new memory, too.
        #[serde(default)]
        memory: bool,
    },
    /// The reader's host lends a connection whose excess is `when-idle` time for some PDUs.
    Lend {
        /// Name of the connection.
        connection: String,
        at_ns: u64,
        /// How long, at most 10 s.
        for_ns: u64,
        /// PDUs.
        pdus: u32,
    },
    /// Each adapter of a host that opens a connection between these times dies of it, and another
    /// begins.
    Kills {
        /// Name of the connection.
        connection: String,
        /// Name of the host.
        host: String,
        /// From when on.
        at_ns: u64,
        /// For how long; the last adapter begins by then.
        for_ns: u64,
        /// How long an adapter lives that has opened it.
        after_ns: u64,
        /// How long there is none then.
        down_ns: u64,
    },
    /// The machine has only so much memory for a host's adapter, which is killed where it has more.
    MemoryLimit {
        /// Name of the host.
        host: String,
        at_ns: u64,
        for_ns: u64,
        /// Octets.
        octets: u64,
    },
    /// Something becomes of the state directory of a host's server.
    StateDirectory {
        /// Name of the host.
        host: String,
        at_ns: u64,
        /// How long a disk is full, what is planted lies there, or whoever writes is killed.
        #[serde(default)]
        for_ns: u64,
        harm: Harm,
    },
    /// A client of a connection writes a word where it may, and should not.
    Write {
        /// Name of the connection.
        connection: String,
        at_ns: u64,
        /// In which memory.
        #[serde(default)]
        whose: Whose,
        /// Number of the word in what the client may write, modulo their number.
        word: u64,
        /// The value: hexadecimal digits.
        #[serde(with = "digits")]
        value: u64,
    },
    /// To the slots of a frame of a ring.
    Slot {
        /// Name of the ring.
        ring: String,
        at_ns: u64,
        /// Number of the frame.
        frame: u32,
        /// Whose slot; none: all channels'.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channel: Option<u8>,
        effect: SlotEffect,
    },
    /// To a ring.
    Ring {
        /// Name of the ring.
        ring: String,
        at_ns: u64,
        for_ns: u64,
        harm: RingHarm,
    },
    /// To messages of the node at a station, each of so many that leave within a time.
    Messages {
        /// Name of the station.
        station: String,
        at_ns: u64,
        for_ns: u64,
        of: MessageKind,
        #[serde(default = "one")]
        every: u64,
        effect: MessageEffect,
    },
    /// To a station of a ring, or its host.
    Station {
        /// Name of the station.
        station: String,
        at_ns: u64,
        #[serde(default)]
        for_ns: u64,
        harm: StationHarm,
    },
}

/// What a fault happens to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whom<'a> {
    /// A cell on the link with this number.
    Link(usize),
    Host(&'a str),
    Connection(&'a str),
    Ring(&'a str),
    Station(&'a str),
}

fn one() -> u64 {
    1
}

impl FaultSpec {
    pub(super) fn whom(&self) -> Whom<'_> {
        match self {
            Self::Cell { link, .. } | Self::Swap { link, .. } => Whom::Link(*link),
            Self::AdapterStall { host, .. }
            | Self::HostStall { host, .. }
            | Self::InterruptsLost { host, .. }
            | Self::SpuriousWakeUp { host, .. }
            | Self::ClockStep { host, .. }
            | Self::AdapterCrash { host, .. }
            | Self::CommandQueueFull { host, .. }
            | Self::EarlyTimers { host, .. }
            | Self::Guests { host, .. }
            | Self::MemoryLimit { host, .. }
            | Self::StateDirectory { host, .. } => Whom::Host(host),
            Self::ReaderCrash { connection, .. }
            | Self::Modify { connection, .. }
            | Self::Lend { connection, .. }
            | Self::Kills { connection, .. }
            | Self::Write { connection, .. } => Whom::Connection(connection),
            Self::Slot { ring, .. } | Self::Ring { ring, .. } => Whom::Ring(ring),
            Self::Station { station, .. } | Self::Messages { station, .. } => {
                Whom::Station(station)
            }
        }
    }

    /// When it begins and how long it lasts, in nanoseconds; none: it happens to a cell.
    pub(super) fn span(&self) -> Option<(u64, u64)> {
        match *self {
            Self::Cell { .. } | Self::Swap { .. } => None,
            Self::AdapterStall { at_ns, for_ns, .. }
            | Self::HostStall { at_ns, for_ns, .. }
            | Self::InterruptsLost { at_ns, for_ns, .. }
            | Self::ReaderCrash { at_ns, for_ns, .. }
            | Self::AdapterCrash { at_ns, for_ns, .. }
            | Self::CommandQueueFull { at_ns, for_ns, .. }
            | Self::StateDirectory { at_ns, for_ns, .. }
            | Self::Kills { at_ns, for_ns, .. }
            | Self::MemoryLimit { at_ns, for_ns, .. }
            | Self::Ring { at_ns, for_ns, .. }
            | Self::Station { at_ns, for_ns, .. }
            | Self::Guests { at_ns, for_ns, .. } => Some((at_ns, for_ns)),
            Self::Messages {
                at_ns,
                for_ns,
                effect,
                ..
            } => Some(match effect {
                MessageEffect::Late { ns } | MessageEffect::Double { ns } => {
                    (at_ns, for_ns.saturating_add(ns))
                }
                MessageEffect::Lose => (at_ns, for_ns),
            }),
            Self::SpuriousWakeUp { at_ns, .. }
            | Self::EarlyTimers { at_ns, .. }
            | Self::ClockStep { at_ns, .. }
            | Self::Modify { at_ns, .. }
            | Self::Lend { at_ns, .. }
            | Self::Slot { at_ns, .. }
            | Self::Write { at_ns, .. } => Some((at_ns, 0)),
        }
    }

    /// Why it never happened in a run that brought `lines`, if it waits for a cell that never came.
    pub fn unmet(&self, lines: &[LineOutcome]) -> Option<String> {
        let (Self::Cell {
            link, back, cell, ..
        }
        | Self::Swap { link, back, cell }) = self
        else {
            return None;
        };
        let line = lines.get(2 * link + usize::from(*back))?;
        let [from, to] = &line.ends;
        let sent = line.sent_cells;
        let cell = (*cell >= sent).then_some(cell)?;
        Some(format!(
            "it waits for cell {cell} from {from} to {to}, where {sent} were sent"
        ))
    }
}

/// What can become of a state directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Harm {
    /// Its disk is full.
    Full,
    /// All that lies there is removed.
    Vanished,
    /// What the server keeps there is the one before the last.
    Stale,
    /// What the server keeps there is half of what it was.
    Halved,
    /// The server that writes there next is killed at this operation, the first being 1, and has
    /// written so many octets of a file then. The next begins when the fault ends.
    Killed {
        operation: u32,
        /// How many octets.
        octets: u32,
    },
    /// Somebody has put something there, and takes it away again.
    Planted { at: Spot, plant: Plant },
}

/// A name in a state directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spot {
    Lock,
    /// What the server keeps.
    Kept,
    /// What that is written to first.
    New,
    /// The adapter's socket.
    Adapter,
}

/// What somebody puts there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plant {
    /// A file of somebody's.
    File,
    Directory,
    /// A link to a file elsewhere.
    Link,
}

/// Memory that a client may write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    /// The region of the connection's reader.
    #[default]
    Reader,
    /// The region of its sender, if that is an adapter's client.
    Sender,
    /// Events and doorbells of the reader's client.
    ReadersClient,
    /// Events and doorbells of the sender's client.
    SendersClient,
}

impl Whose {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Reader,
        Self::Sender,
        Self::ReadersClient,
        Self::SendersClient,
    ];

    /// Whether it is at the end that sends.
    pub(super) const fn sends(self) -> bool {
        matches!(self, Self::Sender | Self::SendersClient)
    }

    /// Whether it belongs to a client, with whatever VCs that has.
    pub(super) const fn is_clients(self) -> bool {
        matches!(self, Self::ReadersClient | Self::SendersClient)
    }
}

/// Numbers up to 2^64, which TOML has not.
mod digits {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &u64, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&format!("{value:x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
        let text = String::deserialize(d)?;
        u64::from_str_radix(&text, 16).map_err(serde::de::Error::custom)
    }
}
