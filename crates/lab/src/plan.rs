//! A run, written down before it starts: pure data, so that a run draws nothing and a failure can
//! be kept, read and made smaller.

use cellgate_core::adapter::{
    AttachmentIndex, Config, OpenRequest, PortConfig, PortIndex, VcId, VcIndex,
};
use cellgate_core::wire::{OamFlow, VpiVci};
use serde::{Deserialize, Serialize};

use crate::memory::RegionSizes;

/// Everything that happens in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Where it came from; says nothing to the run.
    pub seed: u64,
    pub config: Config,
    /// In the order of time.
    pub cells: Vec<Arrival>,
    /// In the order of time.
    pub actions: Vec<Planned>,
    /// In the order of time.
    pub steps: Vec<Step>,
}

/// One step of the adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// When the board looked which cells are there, and the client acted for the last time.
    pub poll_ns: u64,
    /// The adapter's clock in the step: not before.
    pub now_ns: u64,
    /// Cells that each port takes for transmission.
    pub transmit_space: u32,
}

/// A cell that reaches a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    pub at_ns: u64,
    pub port: PortIndex,
    /// Header (52 octets a cell: without HEC) and payload.
    #[serde(with = "hex")]
    pub octets: Vec<u8>,
}

/// Something the host or a client does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// When; it is done before the first poll that is not earlier.
    pub at_ns: u64,
    pub action: Action,
}

/// A VC, named by the command that opened it: its real name is known in the run only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VcName {
    /// What the command with this ticket brought, or the VC's name since.
    Of(u64),
    /// The same with another generation.
    Stale(u64),
    /// Whatever stands there.
    Raw(VcId),
}

impl VcName {
    /// A name that nobody has if the command brought nothing.
    pub const NOBODY: VcId = VcId {
        index: VcIndex(u16::MAX),
        generation: u32::MAX,
    };
}

/// What hosts and clients do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// A command, and its ticket.
    Order(u64, Order),
    /// The client reads at most so many PDUs from the memory that came with command `memory`, and
    /// releases them.
    Take {
        /// Ticket of the command that brought the memory.
        memory: u64,
        pdus: u32,
    },
    /// The client writes a receive tail so far off the right one.
    WrongTail {
        /// Ticket of the command that brought the memory.
        memory: u64,
        /// Added to the right tail, wrapping.
        off_by: i64,
    },
    /// The client takes at most so many events.
    TakeEvents {
        /// Ticket of the attach command.
        client: u64,
        events: u32,
    },
    /// The client hands an SDU over for transmission, and rings the doorbell of whoever owns the
    /// VC.
    Submit {
        vc: VcName,
        /// Ticket of the command that brought the memory.
        memory: u64,
        #[serde(with = "hex")]
        sdu: Vec<u8>,
        /// What the descriptor says instead of the SDU's place and length.
        forged: Option<(u32, u32)>,
        /// User-to-user octet.
        uu: u8,
        /// Common part indicator.
        cpi: u8,
        /// Low priority.
        clp: bool,
    },
    /// The client rings for a VC, with nothing to send.
    Ring {
        /// Ticket of the attach command.
        client: u64,
        vc: VcName,
    },
}

/// A command of the host, without the memory that goes with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Another budget, line rate, or whether the port is read.
    Configure(PortIndex, PortConfig),
    /// A client with as many event slots and doorbell slots.
    Attach(u32, u32),
    /// A client goes.
    Detach(AttachmentIndex),
    /// A VC is opened.
    Open(OpenRequest, RegionSizes),
    /// A VC gets another contract, perhaps other memory.
    Modify(VcName, OpenRequest, Option<RegionSizes>),
    /// A VC is closed.
    Close(VcName),
    /// So many VCs from this slot on are listed.
    Enumerate(VcIndex, u32),
    /// A VC goes to another client.
    Reattach(VcName, AttachmentIndex),
    /// So many PDUs are lent, for so many nanoseconds.
    Lease(VcName, u32, u64),
    /// A loopback cell is sent and awaited for so many nanoseconds; what comes of it on the line.
    Loopback(PortIndex, VpiVci, OamFlow, u64, Vec<Echo>),
}

/// A cell that comes back after a loopback cell has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Echo {
    /// Nanoseconds from its departure.
    pub after_ns: u64,
    /// How it comes back.
    pub twist: Twist,
}

/// What differs in an echo from what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Twist {
    None,
    /// Added to the correlation tag, wrapping.
    Tag(u32),
    /// It still asks for an answer: somebody has plugged the line's ends together.
    Request,
    /// It comes in this flow.
    Flow(OamFlow),
    /// It comes on this port.
    Port(PortIndex),
    /// One bit of it is wrong.
    Bit(u16),
    /// Somebody has put a name to the point that looped it (I.610 leaves that open).
    Location(u8),
}

pub(crate) mod hex {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(octets: &[u8], s: S) -> Result<S::Ok, S::Error> {
        let text: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
        s.serialize_str(&text)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(d)?;
        if !text.is_ascii() || text.len() % 2 == 1 {
            return Err(serde::de::Error::custom(
                "expected pairs of hexadecimal digits",
            ));
        }
        (0..text.len() / 2)
            .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16))
            .collect::<Result<_, _>>()
            .map_err(serde::de::Error::custom)
    }
}
