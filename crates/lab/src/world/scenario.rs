//! An experiment as pure data: what a run is a function of.

use cellgate_core::adapter::Notification;
use cellgate_core::line::LineSpec;
use cellgate_core::wire::VpiVci;
use serde::{Deserialize, Serialize};

pub use super::fault::{FaultSpec, Harm, Plant, Spot, Whose};
pub use super::rings::scenario::{
    AssociationSpec, BridgeBy, BridgeSpec, Interface, Load, MessageEffect, MessageKind, RingHarm,
    RingSpec, SlotEffect, StationHarm, StationSpec, TimedBlock, TrafficSpec,
};
pub use super::servers::scenario::{ApplicationSpec, Call, CallSpec, CrashSpec, ServerSpec};
pub use super::streams::scenario::{ClockSpec, LostSpec, StreamSpec};
pub use super::transfers::scenario::{
    Death, DeathAt, DeathSpec, ExistingSpec, FileSpec, KindSpec, RepeatSpec, TransferSpec,
};
use super::{Ps, QueueDiscard, QueueMark};

/// Everything that happens in a run. Names are the user's; times are nanoseconds of virtual time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Where it came from; says nothing to the run.
    #[serde(default)]
    pub seed: u64,
    /// Sources have sent their last cell when so much time has passed.
    pub duration_ns: u64,
    /// No fault happens from here on, and what conforms must arrive again. 0: there is no such
    /// time.
    #[serde(default)]
    pub heal_ns: u64,
    /// Hosts with an adapter.
    #[serde(default)]
    pub hosts: Vec<HostSpec>,
    #[serde(default)]
    pub switches: Vec<SwitchSpec>,
    /// Links between them.
    #[serde(default)]
    pub links: Vec<LinkSpec>,
    /// Connections from host to host.
    #[serde(default)]
    pub connections: Vec<ConnectionSpec>,
    /// Who sends on them.
    #[serde(default)]
    pub sources: Vec<SourceSpec>,
    /// Video on connections of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamSpec>,
    /// What goes wrong.
    #[serde(default)]
    pub faults: Vec<FaultSpec>,
    /// Hosts' protocol servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerSpec>,
    /// Programs that ask them for connections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<ApplicationSpec>,
    /// Files that terminals move; each by itself, with the link's whole rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<TransferSpec>,
    /// Slotted rings; who has rings has nothing else but what follows, and faults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rings: Vec<RingSpec>,
    /// Stations on them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stations: Vec<StationSpec>,
    /// Blocks from station to station.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub associations: Vec<AssociationSpec>,
    /// What is sent on rings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<TrafficSpec>,
    /// Associations that go on in others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bridges: Vec<BridgeSpec>,
}

impl Scenario {
    /// How much is to go wrong: faults, servers' and terminals' deaths, and commands that find no
    /// room. Not all of it comes to pass: a fault of a cell that is never sent meets none.
    pub fn faults_planned(&self) -> u64 {
        let of_servers = self.servers.iter();
        let of_servers = of_servers.map(|server| server.crashes.len() + server.refused.len());
        let of_transfers = self.transfers.iter();
        let of_transfers = of_transfers.map(|one| one.deaths.len() + one.failing_syncs.len());
        (self.faults.len() + of_servers.sum::<usize>() + of_transfers.sum::<usize>()) as u64
    }
}

/// A host: an adapter with a port for each of its links, and clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    pub name: String,
    /// From one step of the adapter to the next.
    #[serde(default = "step_ns")]
    pub step_ns: u64,
    /// Cells that a step takes from a port.
    #[serde(default = "budget")]
    pub budget: u16,
    /// Cells that a port's receive FIFO holds.
    #[serde(default = "fifo_cells")]
    pub fifo_cells: u32,
    /// Events that a client's queue holds: a power of two.
    #[serde(default = "event_slots")]
    pub event_slots: u32,
    /// From an interrupt to its client's reading.
    #[serde(default = "wake_up_ns")]
    pub wake_up_ns: u64,
    /// The longest stall that must not cost a conforming sender anything.
    #[serde(default = "gap_max_ns")]
    pub gap_max_ns: u64,
    /// Cells that a line may deliver at once though they were sent one by one.
    #[serde(default = "clump_cells")]
    pub clump_cells: u16,
    /// Cells from a port that is never found empty after which best effort gives way; 0: never.
    #[serde(default)]
    pub overload_cells: u32,
    /// A PDU of AAL3/4 that is not complete after so long is given up; 0: never.
    #[serde(default)]
    pub reassembly_timeout_ns: u64,
    /// VCs that can be open beside those of the scenario's connections.
    #[serde(default)]
    pub spare_vcs: u16,
    /// What its clock says when the world begins, at most [`HostSpec::CLOCK_MAX_NS`].
    #[serde(default)]
    pub clock_ns: u64,
    /// Its adapter steps when something comes to it and when it says that it wants to, else it
    /// rests; false: it looks at every instant of its steps.
    #[serde(default, skip_serializing_if = "is_false")]
    pub rests: bool,
}

fn is_false(no: &bool) -> bool {
    !no
}

fn step_ns() -> u64 {
    10_000
}

fn budget() -> u16 {
    256
}

fn fifo_cells() -> u32 {
    4_096
}

fn event_slots() -> u32 {
    256
}

fn wake_up_ns() -> u64 {
    20_000
}

fn gap_max_ns() -> u64 {
    2_000_000
}

fn clump_cells() -> u16 {
    1
}

impl HostSpec {
    /// A clock that begins later could come to its end.
    pub const CLOCK_MAX_NS: u64 = 1 << 62;

    /// A host with the usual parameters.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            step_ns: step_ns(),
            budget: budget(),
            fifo_cells: fifo_cells(),
            event_slots: event_slots(),
            wake_up_ns: wake_up_ns(),
            gap_max_ns: gap_max_ns(),
            clump_cells: clump_cells(),
            overload_cells: 0,
            reassembly_timeout_ns: 0,
            spare_vcs: 0,
            clock_ns: 0,
            rests: false,
        }
    }
}

/// An output-queued switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchSpec {
    pub name: String,
    /// Cells that wait at one output.
    #[serde(default = "queue_cells")]
    pub queue_cells: u32,
    /// Whom an output discards.
    #[serde(default)]
    pub discard: QueueDiscard,
    /// How it tells sources of ABR that it fills; none: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<QueueMark>,
}

fn queue_cells() -> u32 {
    256
}

impl SwitchSpec {
    /// A switch with the usual parameters.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            queue_cells: queue_cells(),
            discard: QueueDiscard::default(),
            mark: None,
        }
    }
}

/// A link: two lines, one each way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Names of hosts or switches.
    pub ends: [String; 2],
    /// Bit/s each way, of cells of 53 octets.
    #[serde(default = "bit_s")]
    pub bit_s: u64,
    /// How long a bit travels.
    #[serde(default = "delay_ns")]
    pub delay_ns: u64,
    /// How either line is impaired, in the words of `cellgate itf set`; none: it is clean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<LineSpec>,
}

fn bit_s() -> u64 {
    149_760_000
}

fn delay_ns() -> u64 {
    5_000
}

impl LinkSpec {
    /// A link of an STM-1's cell rate, a kilometre long.
    pub fn between(one: &str, other: &str) -> Self {
        Self {
            ends: [one.into(), other.into()],
            bit_s: bit_s(),
            delay_ns: delay_ns(),
            line: None,
        }
    }
}

/// A connection, one way, by the shortest path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionSpec {
    pub name: String,
    /// Name of the host that sends.
    pub from: String,
    /// Name of the host that receives.
    pub to: String,
    /// Its address on every line.
    pub address: VpiVci,
    /// The contract, as libatm writes it: `cbr,aal5:pcr=20000cps,max_sdu=1000`.
    pub contract: String,
    /// When the reader is told.
    #[serde(default = "notification")]
    pub notification: Notification,
    /// Which client of the receiving host reads it.
    #[serde(default)]
    pub client: u16,
    /// Whether the receiving host opens it. Cells of one that is not open are a stranger's.
    #[serde(default = "yes")]
    pub open: bool,
}

impl ConnectionSpec {
    /// A connection whose reader is told at the last cell of each PDU.
    pub fn between(name: &str, [from, to]: [&str; 2], address: VpiVci, contract: &str) -> Self {
        Self {
            name: name.into(),
            from: from.into(),
            to: to.into(),
            address,
            contract: contract.into(),
            notification: notification(),
            client: 0,
            open: yes(),
        }
    }
}

fn notification() -> Notification {
    Notification::LastCell
}

fn yes() -> bool {
    true
}

/// Where cells come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceSpec {
    /// Name of the connection that it sends on.
    pub connection: String,
    /// When it sends.
    pub traffic: Traffic,
    /// Octets of its SDUs, in turn, each at least [`SourceSpec::SDU_MIN`]; none of scans and
    /// recordings, which have no SDUs of theirs.
    #[serde(default)]
    pub sdus: Vec<u16>,
    /// Its first cell is due so long after everything is open.
    #[serde(default)]
    pub start_ns: u64,
    /// It begins no PDU from here on; 0: before the scenario's end.
    #[serde(default)]
    pub stop_ns: u64,
    /// Its SDUs go through the sending host's adapter, which shapes them; otherwise it puts cells
    /// on the line, whatever the contract says.
    #[serde(default)]
    pub by_adapter: bool,
    /// It is there to do harm: nothing is promised to its connection, and the others must not
    /// notice it.
    #[serde(default)]
    pub hazard: bool,
    /// PDUs of AAL3/4 that it sends at once, each under a MID of its own, from 0 on; the cells in
    /// turn, the last ones in order. At most [`SourceSpec::MIDS_MAX`]; 0 counts as 1.
    #[serde(default)]
    pub mids: u16,
}

impl SourceSpec {
    /// Octets of the shortest SDU: it says whose it is.
    pub const SDU_MIN: u16 = 12;
    /// As many as every receiver has room for.
    pub const MIDS_MAX: u16 = 4;

    /// A source that puts cells on the line from the beginning to the end, and means no harm.
    pub fn on(connection: &str, traffic: Traffic, sdus: &[u16]) -> Self {
        Self {
            connection: connection.into(),
            traffic,
            sdus: sdus.into(),
            start_ns: 0,
            stop_ns: 0,
            by_adapter: false,
            hazard: false,
            mids: 0,
        }
    }

    /// From when to when it begins PDUs, in a scenario of so many nanoseconds.
    pub(crate) fn span(&self, duration_ns: u64) -> (Ps, Ps) {
        span(self.start_ns, self.stop_ns, duration_ns)
    }
}

/// From a start to a stop, in a scenario of so many nanoseconds; 0: to its end.
pub(super) fn span(start_ns: u64, stop_ns: u64, duration_ns: u64) -> (Ps, Ps) {
    let stop_ns = match stop_ns {
        0 => duration_ns,
        stop_ns => stop_ns.min(duration_ns),
    };
    (Ps::from_ns(start_ns), Ps::from_ns(stop_ns))
}

/// When a source sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Traffic {
    /// Cells at equal distances.
    Paced {
        /// Cells per second.
        cell_s: u32,
    },
    /// As fast as the line goes.
    Greedy,
    /// Paced for a while, silent for a while.
    OnOff {
        /// Cells per second while it sends.
        cell_s: u32,
        /// So long it sends.
        on_ns: u64,
        /// So long it does not.
        off_ns: u64,
    },
    /// Cells at equal distances, to one address after the other: nobody's.
    Scan {
        /// Cells per second.
        cell_s: u32,
    },
    /// These cells.
    Cells(Vec<TimedCell>),
}

/// A cell of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedCell {
    /// From the source's start.
    pub at_ns: u64,
    /// Header without HEC, and payload: 104 hexadecimal digits.
    #[serde(with = "crate::plan::hex")]
    pub octets: Vec<u8>,
}
