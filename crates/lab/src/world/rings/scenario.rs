//! Rings as a scenario has them. Where a value is not the paper's it says whose it is.

use cellgate_core::upper::msna::Notify;
use serde::{Deserialize, Serialize};

use crate::cbn::{Release, Reuse};
use crate::machine::v1s::{Order, Stage};

/// A slotted ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RingSpec {
    pub name: String,
    /// A slot's time for its way round.
    #[serde(default = "rotation_ns")]
    pub rotation_ns: u64,
    /// Frames, each of a slot a channel.
    #[serde(default = "frames")]
    pub frames: u32,
    #[serde(default = "channels")]
    pub channels: u8,
    /// Who empties a slot.
    #[serde(default)]
    pub release: Release,
    /// What a source does with a slot that it has emptied.
    #[serde(default)]
    pub reuse: Reuse,
    /// Slots that a station may have filled on a channel at a time; 0: any number.
    #[serde(default)]
    pub outstanding: u32,
}

fn rotation_ns() -> u64 {
    crate::cbn::RingSpec::PAPER.rotation.ns()
}

fn frames() -> u32 {
    crate::cbn::RingSpec::PAPER.frames
}

fn channels() -> u8 {
    crate::cbn::RingSpec::PAPER.channels
}

impl RingSpec {
    /// The paper's ring.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            rotation_ns: rotation_ns(),
            frames: frames(),
            channels: channels(),
            release: Release::default(),
            reuse: Reuse::default(),
            outstanding: 0,
        }
    }
}

/// A station's interface to its host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interface {
    /// The CPU copies all words.
    #[default]
    V1s,
    /// The station copies all words of a cell that leaves but the first.
    V1sDma,
    /// Words and instructions take no time: the RAM alone is left.
    Ideal,
}

/// A station and its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StationSpec {
    pub name: String,
    /// Name of its ring.
    pub ring: String,
    /// Its place, 0 to 255.
    pub at: u32,
    /// The channel that it receives on.
    #[serde(default)]
    pub channel: u8,
    #[serde(default)]
    pub interface: Interface,
    /// The bus is locked while the station copies a cell.
    #[serde(default = "yes")]
    pub lock: bool,
    /// Instructions take so many of the paper's 20 MHz.
    #[serde(default = "cpu_hz")]
    pub cpu_hz: u32,
    /// How far the receive software was improved, 0 to 3.
    #[serde(default = "stage")]
    pub stage: u8,
    /// How long the handler waits for another cell.
    #[serde(default)]
    pub dally_ns: u64,
    #[serde(default)]
    pub order: Order,
    /// Cells of each of its FIFOs.
    #[serde(default = "fifo_cells")]
    pub fifo_cells: u32,
}

fn yes() -> bool {
    true
}

fn cpu_hz() -> u32 {
    StationSpec::CPU_HZ
}

fn stage() -> u8 {
    3
}

fn fifo_cells() -> u32 {
    256
}

impl StationSpec {
    /// The paper's 68030.
    pub const CPU_HZ: u32 = 20_000_000;

    /// The paper's station.
    pub fn named(name: &str, ring: &str, at: u32) -> Self {
        Self {
            name: name.into(),
            ring: ring.into(),
            at,
            channel: 0,
            interface: Interface::default(),
            lock: true,
            cpu_hz: cpu_hz(),
            stage: stage(),
            dally_ns: 0,
            order: Order::default(),
            fifo_cells: fifo_cells(),
        }
    }

    pub(super) fn stage(&self) -> Stage {
        let stages = Stage::ALL;
        stages[usize::from(self.stage).min(stages.len() - 1)]
    }
}

/// Blocks from one station to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssociationSpec {
    pub name: String,
    /// Names of stations on one ring.
    pub from: String,
    pub to: String,
    /// The circuit that the second receives on.
    pub vci: u16,
    /// The cells that interrupt it.
    #[serde(default = "notify")]
    pub notify: Notify,
}

fn notify() -> Notify {
    Notify::Every
}

/// Blocks that are sent, or cells of nobody's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficSpec {
    /// Name of an association, of false traffic that of a station.
    pub on: String,
    pub load: Load,
    /// Octets of its blocks, in turn, each at least [`TrafficSpec::OCTETS_MIN`]; none of false
    /// traffic, nor of blocks of a recording.
    #[serde(default)]
    pub octets: Vec<u16>,
    #[serde(default)]
    pub start_ns: u64,
    /// It begins no block from here on; 0: before the scenario's end.
    #[serde(default)]
    pub stop_ns: u64,
    /// It sends so many; 0: any number.
    #[serde(default)]
    pub blocks: u64,
}

impl TrafficSpec {
    /// A block says whose it is.
    pub const OCTETS_MIN: u16 = 12;

    pub fn on(on: &str, load: Load, octets: &[u16]) -> Self {
        Self {
            on: on.into(),
            load,
            octets: octets.into(),
            start_ns: 0,
            stop_ns: 0,
            blocks: 0,
        }
    }
}

/// When it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Load {
    /// A block as soon as the one before has left.
    Greedy,
    /// Blocks at equal distances.
    Paced {
        /// Blocks per second.
        block_s: u32,
    },
    /// Paced for a while, silent for a while.
    OnOff {
        block_s: u32,
        on_ns: u64,
        off_ns: u64,
    },
    /// These blocks.
    Blocks(Vec<TimedBlock>),
    /// A block when the one before has come back, or has not for [`Load::PATIENCE_NS`].
    Ping {
        /// Name of the association on which it comes back.
        back: String,
    },
    /// Calls of the node at the one end to that at the other, by REX over circuits that MSNL sets
    /// up.
    Rpc {
        /// Name of the association on which MSNL's answers come.
        back: String,
        /// Calls per second.
        call_s: u32,
        /// From a call's coming to its reply.
        #[serde(default)]
        work_ns: u64,
    },
    /// The station fills empty slots with cells of its own, which nobody takes.
    False {
        /// From one to the next, on each channel.
        every_ns: u64,
        /// How many of the channels, from the first on.
        channels: u8,
    },
}

impl Load {
    pub const PATIENCE_NS: u64 = 100_000_000;
}

/// A block of a recording: its octets are others, since each block says whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedBlock {
    /// From the traffic's start; none is earlier than the one before.
    pub at_ns: u64,
    /// How many it has.
    pub octets: u16,
}

/// A host with two stations, which sends on what has come to the one from the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BridgeSpec {
    /// Names of associations: blocks of this one go on in that one.
    pub from: String,
    pub to: String,
    #[serde(default)]
    pub by: BridgeBy,
}

/// What a bridge sends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BridgeBy {
    /// A block, when all of it has come.
    #[default]
    Block,
    /// A cell, when it has come, under another VCI.
    Cell,
}

/// What happens to slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotEffect {
    /// What lies in it is gone.
    Lose,
    /// A bit is another: 0 its type, 1 to 16 its VCI, 289 its response.
    Flip { bit: u16 },
}

/// What happens to a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RingHarm {
    /// It is cut before place 0: what comes there is lost.
    Cut,
    /// Its monitor sees nothing.
    MonitorDead,
    /// A slot is full, whoever empties it.
    SlotStuck { frame: u32, channel: u8 },
}

/// What happens to a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StationHarm {
    /// The ring goes past it; its slots are the monitor's.
    Dead,
    /// It empties its slots, and neither takes nor fills any.
    Stopped,
    /// Its interrupts are lost.
    InterruptsLost,
    /// Its host does nothing.
    HostStopped,
    /// What it holds is lost, and it forgets which slots it has filled: at once, for no time.
    Reset,
    /// The node of its host is dead, and another begins then.
    NodeKilled,
}

/// The protocol of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    Msnl,
    Rex,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageEffect {
    Lose,
    /// It leaves once more, so much later.
    Double {
        ns: u64,
    },
    /// It leaves later.
    Late {
        ns: u64,
    },
}
