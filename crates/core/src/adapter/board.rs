use cellgate_simd::{Kernel, with_features};
use serde::{Deserialize, Serialize};

use super::{AttachmentIndex, CellOutcome, Command, Completion, Event, PduEnd, Planted};
use crate::Time;
use crate::aal::{Memory, aal34};
use crate::contract::AbrPlanted;
use crate::queue::Words;
use crate::wire::{CellFormat, VpiVci};

/// A receive or transmit port of the adapter's link, in the order of configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PortIndex(pub u8);

/// The memory of one connection, split by writer (docs/shared-memory.md).
#[expect(
    clippy::wrong_self_convention,
    reason = "the files are named after their writers"
)]
pub trait Region {
    /// Either of the two files.
    type Words: Words;
    /// The receive buffer.
    type Buffer: Memory;

    /// Written by the adapter, read by the client: receive queue, heads.
    fn from_adapter(&self) -> &Self::Words;
    /// Written by the client, read by the adapter: transmit queue, transmit buffer, tails.
    fn from_client(&self) -> &Self::Words;
    /// Where PDUs are reassembled.
    fn receive_buffer(&mut self) -> &mut Self::Buffer;
    /// The reassembler of an AAL3/4 VC that receives, beside the buffer that it lays out. Made with
    /// the region, for [`super::OpenRequest::aal34_limits`], because the adapter does not allocate.
    /// None with every other VC.
    fn aal34(&mut self) -> Option<(&mut aal34::Reassembler, &mut Self::Buffer)> {
        None
    }
    /// Descriptors that the receive queue holds (a power of two).
    fn receive_slots(&self) -> u32;
    /// Descriptors that the transmit queue holds (a power of two).
    fn transmit_slots(&self) -> u32;
    /// Octets of the transmit buffer (0: this connection does not transmit).
    fn transmit_len(&self) -> u32;
    /// Copies the `len` octets at `offset` of the transmit buffer, each once, to the front of the
    /// adapter's private staging, and returns all of that. CRC and cells are made from the copy.
    /// The caller keeps `offset + len <= transmit_len` and `len <= staging().len()`.
    fn stage(&mut self, offset: u32, len: usize) -> &mut [u8];
    /// Asks for the first octets of what [`Region::stage`] is likely to copy next: a hint. `offset`
    /// can be anything.
    #[inline(always)]
    fn prefetch_stage(&self, _offset: u32) {}
    /// Private memory of the adapter for one PDU on its way out.
    fn staging(&self) -> &[u8];
    /// Copies the `len` octets at `offset` of the transmit buffer, each once, to `at` in the
    /// receive buffer of `to`, or in its own. The caller keeps `offset + len <= transmit_len` and
    /// the rule of [`Memory`]; that buffer is stable.
    fn carry(&mut self, offset: u32, len: usize, to: Option<&mut Self>, at: usize)
    where
        Self: Sized;
}

/// The memory of one client of the adapter: its event queue and its doorbell.
#[expect(
    clippy::wrong_self_convention,
    reason = "the files are named after their writers"
)]
pub trait Attachment {
    /// Either of the two files.
    type Words: Words;
    /// Written by the adapter: the event queue.
    fn from_adapter(&self) -> &Self::Words;
    /// Written by the client: the doorbell queue, tails, whether it sleeps.
    fn from_client(&self) -> &Self::Words;
    /// Events that the event queue holds (a power of two).
    fn event_slots(&self) -> u32;
    /// Entries that the doorbell queue holds (a power of two).
    fn doorbell_slots(&self) -> u32;
}

/// Work that a model of a slower machine charges cycles for (Table 1 of *Policing Offloaded*, and
/// what else the firmware does).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// Looked whether any receive FIFO holds cells.
    TestReceiveFifos,
    /// Looked through the transmit queues and found them empty.
    ParseEmptyTransmitQueues,
    /// Took a PDU from a client's transmit queue, behind which no other was seen.
    EnqueueToEmpty,
    /// The same where others wait behind it.
    Enqueue,
    /// Finished a PDU and took its descriptor off.
    Dequeue,
    /// Removed cells from a FIFO without looking at their payload.
    DiscardCells,
    /// Read a cell header and looked the VC up.
    Lookup,
    /// Moved cells from a FIFO into a receive buffer.
    ReceiveCells,
    /// Finished a received PDU.
    ReceivePdu,
    /// Moved cells from a transmit buffer to a FIFO.
    TransmitCells,
    /// Chose, among those that are promised a rate, whose cells leave next.
    Schedule,
    /// Made the answer to an OAM cell.
    AnswerOam,
    /// Wrote an event.
    PostEvent,
    /// Carried a command out.
    HandleCommand,
}

/// What the adapter needs of the world.
pub trait Board {
    /// The memory of a connection.
    type Region: Region;
    /// The memory of a client.
    type Attachment: Attachment;

    /// Runs the loop that receives, with the best instructions that this CPU has. A board that
    /// compares may run it with another [`Fold`](cellgate_simd::Fold).
    #[inline(always)]
    fn run<K: Kernel>(batch: K) -> K::Output {
        with_features(batch)
    }

    /// Ports from this one on have never been connected to anything: nothing comes from there.
    #[inline(always)]
    fn connected(&self) -> usize {
        usize::MAX
    }

    /// Moves up to `fifo.len() / stride` of the next cells of `port` into `fifo`; returns how many.
    /// Fewer than asked means that the port was empty after them.
    fn receive(&mut self, port: PortIndex, format: CellFormat, fifo: &mut [u8]) -> usize;

    /// How many cells `port` takes now.
    fn transmit_space(&mut self, port: PortIndex) -> usize;

    /// Appends whole cells to `port`. The caller asked for space first.
    fn transmit(&mut self, port: PortIndex, format: CellFormat, cells: &[u8]);

    /// The port of this board that receives what `port` transmits, if nothing is on the way there:
    /// a whole PDU may cross at once then, in place of its cells.
    #[inline(always)]
    fn crossing(&self, _port: PortIndex) -> Option<PortIndex> {
        None
    }

    /// Told that `cells` have been transmitted by `from` and received by `to` without having been
    /// there. The caller asked for space first; with space for 256 a PDU of more is the only one.
    #[inline(always)]
    fn crossed(&mut self, _from: PortIndex, _to: PortIndex, _cells: u32) {}

    /// Whether anything waits that a step would take: cells of a port, a command. A board whose
    /// adapter never rests need not say.
    fn waits(&self) -> bool {
        true
    }

    /// Whether `port` takes no cells now. When it is to be tried again the board tells as its next
    /// deadline, or ends the rest.
    fn is_held(&self, _port: PortIndex) -> bool {
        false
    }

    /// When the board itself wants a step, whatever comes.
    fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// Interrupts the client: wakes it if it sleeps. Those that are woken for a guaranteed
    /// connection are woken before the others of a step.
    fn interrupt(&mut self, index: AttachmentIndex, guaranteed: bool);

    /// The next command, if one waits.
    fn command(&mut self) -> Option<Command<Self::Region, Self::Attachment>>;

    /// The end of a command, in order.
    fn complete(&mut self, completion: Completion<Self::Region, Self::Attachment>);

    /// Told of every event, after it was written to its queue or lost because that was full.
    #[inline(always)]
    fn posted(&mut self, _index: AttachmentIndex, _event: &Event) {}

    /// Told of work done, for machines that cost more than this one.
    #[inline(always)]
    fn charge(&mut self, _work: Work, _times: u32) {}

    /// Told what became of `cells` cells in a row, in the order of their arrival; the lab's judge
    /// compares it with the reference model.
    #[inline(always)]
    fn judged(&mut self, _outcome: CellOutcome, _cells: u32) {}

    /// Told of the end of a PDU, or of some in a row, on the VC at `address` of `port`.
    #[inline(always)]
    fn ended(&mut self, _port: PortIndex, _address: VpiVci, _end: PduEnd) {}

    /// Whether the adapter has this bug. Never, but in tests of the tests.
    #[inline(always)]
    fn planted(&self, _bug: Planted) -> bool {
        false
    }

    /// Which bugs sources and destinations of ABR have. None, but in tests of the tests.
    #[inline(always)]
    fn abr_planted(&self) -> fn(AbrPlanted) -> bool {
        |_| false
    }
}
