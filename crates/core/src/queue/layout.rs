//! Byte maps of the shared files (docs/shared-memory.md is their readable form; a test compares).
//!
//! Every file begins with a page of words: the [`Header`](super::Header), then one word per event,
//! each on a line pair of its own. Slots begin at the second page, buffers at a page of their own.

/// Words that different events write lie this far apart: two cache lines of 64 octets, because
/// processors fetch lines in pairs.
pub const LINE_LEN: usize = 128;
/// Octets of a page. Maps, and so buffers, begin on one.
pub const PAGE_LEN: usize = 4096;
/// Where slots begin in every file.
pub const SLOTS: usize = PAGE_LEN;
/// PDUs start on a multiple of this in receive and transmit buffers.
pub const PDU_ALIGN: usize = 64;

/// The most slots of a queue of descriptors, events or doorbells.
pub const QUEUE_SLOTS_MAX: u32 = 1 << 16;
/// The most cells of a port's queue.
pub const CELLS_MAX: u32 = 1 << 20;
/// The most octets of a receive or transmit buffer.
pub const BUFFER_LEN_MAX: u32 = 1 << 30;

/// The longest file that any geometry gives.
pub const FILE_LEN_MAX: usize =
    SLOTS + QUEUE_SLOTS_MAX as usize * RECEIVE_DESCRIPTOR_LEN + BUFFER_LEN_MAX as usize;

/// Octets of a slot of the receive queue.
pub const RECEIVE_DESCRIPTOR_LEN: usize = 32;
/// Octets of a slot of the transmit queue.
pub const TRANSMIT_DESCRIPTOR_LEN: usize = 16;
/// Octets of a slot of the event queue.
pub const EVENT_SLOT_LEN: usize = 32;
/// Octets of a slot of the doorbell queue.
pub const DOORBELL_LEN: usize = 8;

/// The words of a connection's two files.
pub mod connection {
    use super::LINE_LEN;

    /// From-adapter: descriptors ever put into the receive queue.
    pub const RECEIVE_HEAD: usize = LINE_LEN;
    /// From-adapter: descriptors ever taken from the transmit queue.
    pub const TRANSMIT_TAIL: usize = 2 * LINE_LEN;
    /// From-client: descriptors of the receive queue ever released.
    pub const RECEIVE_TAIL: usize = LINE_LEN;
    /// From-client: descriptors ever put into the transmit queue.
    pub const TRANSMIT_HEAD: usize = 2 * LINE_LEN;
}

/// The words of an attachment's two files.
pub mod attachment {
    use super::LINE_LEN;

    /// From-adapter: events ever put into the event queue.
    pub const EVENT_HEAD: usize = LINE_LEN;
    /// From-adapter: events ever lost because the event queue was full.
    pub const EVENTS_LOST: usize = 2 * LINE_LEN;
    /// From-adapter: doorbells ever answered.
    pub const DOORBELL_TAIL: usize = 3 * LINE_LEN;
    /// From-client: events ever taken.
    pub const EVENT_TAIL: usize = LINE_LEN;
    /// From-client: 0 while the client is awake, else the number of its sleep.
    pub const ASLEEP: usize = 2 * LINE_LEN;
    /// From-client: doorbells ever rung.
    pub const DOORBELL_HEAD: usize = 3 * LINE_LEN;
}

/// The words of the two files of a memory link's port.
pub mod port {
    use super::LINE_LEN;

    /// From-sender: cells ever put into the queue.
    pub const CELL_HEAD: usize = LINE_LEN;
    /// From-sender: cells that its sender has dropped because the queue was full.
    pub const CELLS_DROPPED: usize = 2 * LINE_LEN;
    /// From-receiver: cells ever taken from the queue.
    pub const CELL_TAIL: usize = LINE_LEN;
}

/// The words of the one page that an adapter shows to all who may have to wake it.
pub mod adapter {
    use super::LINE_LEN;

    /// 0 while the firmware is awake, else the number of its sleep.
    pub const FIRMWARE_ASLEEP: usize = LINE_LEN;
}

/// The counters that a server shows. From [`SLOTS`] on: a record of each adapter, then of each
/// interface, of each resource, of each connection.
pub mod counters {
    use super::LINE_LEN;

    /// Odd while the server writes, else the number of times it has, twice.
    pub const SEQUENCE: usize = LINE_LEN;
    /// When it wrote last: nanoseconds of `CLOCK_MONOTONIC`.
    pub const TIME: usize = 2 * LINE_LEN;
    /// Records of connections.
    pub const RECORDS: usize = 3 * LINE_LEN;
    /// Records of adapters.
    pub const ADAPTERS: usize = 4 * LINE_LEN;
    /// Records of interfaces.
    pub const INTERFACES: usize = 5 * LINE_LEN;
    /// Records of resources.
    pub const RESOURCES: usize = 6 * LINE_LEN;
    /// Octets of an adapter's record.
    pub const ADAPTER_LEN: usize = 832;
    /// Octets of an interface's record.
    pub const INTERFACE_LEN: usize = 128;
    /// Octets of a resource's record.
    pub const RESOURCE_LEN: usize = 96;
    /// Octets of a connection's record.
    pub const RECORD_LEN: usize = 832;
}

/// Where one queue keeps its words and slots. Head and slots are in the producer's file, the tail
/// in the consumer's.
pub trait Queue {
    /// Offset of the head in the producer's file.
    const HEAD: usize;
    /// Offset of the tail in the consumer's file.
    const TAIL: usize;
    /// Offset of the first slot in the producer's file.
    const SLOTS: usize = SLOTS;
    /// Octets from one slot to the next.
    const SLOT_LEN: usize;
}

/// The queues of the shared files.
pub mod queue {
    use super::*;

    /// The receive queue of a connection: adapter to client.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Receive {}

    impl Queue for Receive {
        const HEAD: usize = connection::RECEIVE_HEAD;
        const TAIL: usize = connection::RECEIVE_TAIL;
        const SLOT_LEN: usize = RECEIVE_DESCRIPTOR_LEN;
    }

    /// The transmit queue of a connection: client to adapter.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Transmit {}

    impl Queue for Transmit {
        const HEAD: usize = connection::TRANSMIT_HEAD;
        const TAIL: usize = connection::TRANSMIT_TAIL;
        const SLOT_LEN: usize = TRANSMIT_DESCRIPTOR_LEN;
    }

    /// The event queue of an attachment: adapter to client.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Events {}

    impl Queue for Events {
        const HEAD: usize = attachment::EVENT_HEAD;
        const TAIL: usize = attachment::EVENT_TAIL;
        const SLOT_LEN: usize = EVENT_SLOT_LEN;
    }

    /// The doorbell queue of an attachment: client to adapter.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Doorbells {}

    impl Queue for Doorbells {
        const HEAD: usize = attachment::DOORBELL_HEAD;
        const TAIL: usize = attachment::DOORBELL_TAIL;
        const SLOT_LEN: usize = DOORBELL_LEN;
    }

    /// The cell queue of a port whose cells carry a HEC.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CellsWithHec {}

    impl Queue for CellsWithHec {
        const HEAD: usize = port::CELL_HEAD;
        const TAIL: usize = port::CELL_TAIL;
        const SLOT_LEN: usize = crate::wire::CELL_LEN;
    }

    /// The cell queue of a port whose cells carry none.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CellsNoHec {}

    impl Queue for CellsNoHec {
        const HEAD: usize = port::CELL_HEAD;
        const TAIL: usize = port::CELL_TAIL;
        const SLOT_LEN: usize = crate::wire::CELL_LEN_NO_HEC;
    }
}

/// Whether `words` are multiples of a line, behind the header, before the slots, and distinct.
const fn apart(words: &[usize]) -> bool {
    let mut i = 0;
    while i < words.len() {
        if !words[i].is_multiple_of(LINE_LEN) || words[i] == 0 || words[i] >= SLOTS {
            return false;
        }
        let mut j = i + 1;
        while j < words.len() {
            if words[i] == words[j] {
                return false;
            }
            j += 1;
        }
        i += 1;
    }
    true
}

const _: () = {
    use attachment as a;
    use connection as c;
    assert!(apart(&[c::RECEIVE_HEAD, c::TRANSMIT_TAIL]));
    assert!(apart(&[c::RECEIVE_TAIL, c::TRANSMIT_HEAD]));
    assert!(apart(&[a::EVENT_HEAD, a::EVENTS_LOST, a::DOORBELL_TAIL]));
    assert!(apart(&[a::EVENT_TAIL, a::ASLEEP, a::DOORBELL_HEAD]));
    assert!(apart(&[port::CELL_HEAD, port::CELLS_DROPPED]));
    assert!(apart(&[port::CELL_TAIL]));
    assert!(super::header::HEADER_LEN <= LINE_LEN);
    // Slots never straddle a page, so that a slot is one aligned copy.
    assert!(PAGE_LEN.is_multiple_of(RECEIVE_DESCRIPTOR_LEN));
    assert!(PAGE_LEN.is_multiple_of(TRANSMIT_DESCRIPTOR_LEN));
    assert!(PAGE_LEN.is_multiple_of(EVENT_SLOT_LEN));
    assert!(PAGE_LEN.is_multiple_of(DOORBELL_LEN));
    assert!(PAGE_LEN.is_multiple_of(PDU_ALIGN));
    // The longest file of the other kinds is shorter.
    assert!(SLOTS + CELLS_MAX as usize * crate::wire::CELL_LEN < FILE_LEN_MAX);
};
