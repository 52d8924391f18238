//! The kernel of a terminal that makes its own cells (*High Performance ATM Terminals*, section 4,
//! Figure 7): one thread of control, flags that are polled, and three queues.
//!
//! ```text
//!   flags       receiver   rate timer
//!                  |          |
//!                  v          v
//!   step:    1. what has come ->  2. the tick that is due ->  3. upstream, downstream,
//!               to the SAR           cells from the SAR           management and time-outs
//! ```
//!
//! With [`Events::Flags`] cells and ticks never see a queue. With [`Events::Queue`] the board
//! interrupts for each, and a message waits in a queue: so it is measured what the flags spare.
//!
//! A step does at most [`STEP_CELLS`] cells each way, or a burst that is longer, and
//! [`STEP_MESSAGES`] messages of each queue: no queue starves the others.

mod layered;

use std::collections::VecDeque;

use cellgate_simd::Fold;

use crate::Time;
use crate::contract::Aal;
use crate::wire::{PAYLOAD_LEN, SegmentType};

use super::{Exchange, RateTimer, Source, Store};
pub use layered::Copies;
use layered::Layered;

/// Cells that a step receives, and sends, at most; a longer burst is sent as a whole.
pub const STEP_CELLS: usize = 64;
/// Messages of each queue that a step takes, at most.
pub const STEP_MESSAGES: usize = 16;
/// Messages that wait in a queue, at most: more are lost, and counted.
const QUEUE_MAX: usize = 1_024;

/// The payload of a cell, and of AAL5 whether it is the last of its PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellPayload {
    pub octets: [u8; PAYLOAD_LEN],
    pub last: bool,
}

/// Work that costs a processor something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// A flag is looked at.
    PollFlag,
    /// The board interrupts.
    Interrupt,
    /// A message is put into a queue.
    Enqueue,
    /// A message is taken out of a queue.
    Dequeue,
    /// A cell is moved over the bus, and its pieces to or from their places.
    ReceiveCell,
    TransmitCell,
    /// A PDU ends: what is done once for each, received or sent.
    Pdu,
    /// Octets are copied from one layer to the next.
    CopyOctets,
    /// Octets go through a CRC in software.
    CrcOctets,
}

/// What is around a kernel.
pub trait Board {
    /// The next cell that has come.
    fn receive(&mut self) -> Option<CellPayload>;

    /// Sends a cell; false if it is not taken now.
    fn transmit(&mut self, cell: &CellPayload) -> bool;

    /// Work was done, so many times or on so many octets.
    #[inline(always)]
    fn charge(&mut self, _work: Work, _times: u64) {}
}

/// How frequent events come to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Events {
    /// It looks at a flag.
    #[default]
    Flags,
    /// The board interrupts, and a message waits in a queue.
    Queue,
}

/// Who makes the CRC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Crc {
    /// The processor, along with the move of a cell.
    #[default]
    Software,
    /// The board, as the paper's did: it costs the processor nothing.
    Hardware,
}

/// The cells that the kernel sends at a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TickCells {
    /// A whole burst, of any PDUs.
    #[default]
    Any,
    /// Cells of one PDU: the burst ends with it, and the next PDU waits for a tick.
    OfOnePdu,
}

/// How a kernel works, for comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    pub events: Events,
    pub copies: Copies,
    pub crc: Crc,
    pub tick_cells: TickCells,
}

/// A message in a queue.
#[derive(Clone, Copy, Debug)]
enum Message {
    Cell(CellPayload),
    Tick(u32),
    TimeOut,
}

/// What a step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stepped {
    pub received: u32,
    pub sent: u32,
    /// More was due than the bounds of a step, or than the board had room for.
    pub has_more: bool,
}

/// The kernel of a terminal.
#[derive(Clone, Debug)]
pub struct Kernel {
    variant: Variant,
    timer: Option<RateTimer>,
    layered: Option<Layered>,
    /// A cell that the board did not take.
    pending: Option<CellPayload>,
    upstream: VecDeque<Message>,
    downstream: VecDeque<Message>,
    management: VecDeque<Message>,
    /// Messages that found their queue full.
    lost: u64,
}

impl Kernel {
    /// Nothing has come. Cells are sent as `timer` says; without one as fast as the board has room.
    pub fn new(variant: Variant, timer: Option<RateTimer>) -> Self {
        Self {
            variant,
            timer,
            layered: Layered::new(variant.copies),
            pending: None,
            upstream: VecDeque::with_capacity(QUEUE_MAX),
            downstream: VecDeque::with_capacity(QUEUE_MAX),
            management: VecDeque::with_capacity(QUEUE_MAX),
            lost: 0,
        }
    }

    /// Messages that found their queue full.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// When the next tick is due.
    pub fn next_tick(&self) -> Option<Time> {
        self.timer.as_ref().map(RateTimer::next_deadline)
    }

    /// Ticks before `now` are missed: the processor has made cells meanwhile, and had none ready.
    pub fn miss_ticks(&mut self, now: Time) {
        if let Some(timer) = &mut self.timer {
            timer.miss(now);
        }
    }

    /// The board interrupts, with [`Events::Queue`]: each cell that has come, and a tick that is
    /// due, become messages.
    pub fn interrupt<B: Board>(&mut self, now: Time, board: &mut B) {
        while self.upstream.len() < QUEUE_MAX
            && let Some(cell) = board.receive()
        {
            board.charge(Work::Interrupt, 1);
            board.charge(Work::Enqueue, 1);
            self.upstream.push_back(Message::Cell(cell));
        }
        if let Some(burst) = self.timer.as_mut().and_then(|timer| timer.poll(now)) {
            board.charge(Work::Interrupt, 1);
            board.charge(Work::Enqueue, 1);
            self.put(Message::Tick(burst));
        }
    }

    /// Has the kernel look at what the exchange does by time.
    pub fn time_out(&mut self) {
        self.put(Message::TimeOut);
    }

    fn put(&mut self, message: Message) {
        let queue = match message {
            Message::Cell(_) => &mut self.upstream,
            Message::Tick(_) => &mut self.downstream,
            Message::TimeOut => &mut self.management,
        };
        if queue.len() < QUEUE_MAX {
            queue.push_back(message);
        } else {
            self.lost += 1;
        }
    }

    /// One step.
    #[inline(always)]
    pub fn step<C: Fold, B: Board, F: Source, S: Store>(
        &mut self,
        fold: C,
        now: Time,
        exchange: &mut Exchange<F, S>,
        board: &mut B,
    ) -> Stepped {
        let mut stepped = Stepped::default();
        match self.variant.events {
            Events::Flags => self.polls_receiver(fold, now, exchange, board, &mut stepped),
            Events::Queue => self.interrupt(now, board),
        }
        // Without a timer nothing interrupts for cells that can be sent.
        if self.variant.events == Events::Flags || self.timer.is_none() {
            self.polls_timer(fold, now, exchange, board, &mut stepped);
        }
        for upstream in 0..STEP_MESSAGES {
            let Some(message) = self.upstream.pop_front() else {
                break;
            };
            board.charge(Work::Dequeue, 1);
            if let Message::Cell(cell) = message {
                self.receives(fold, now, &cell, exchange, board);
                stepped.received += 1;
            }
            stepped.has_more |= upstream + 1 == STEP_MESSAGES;
        }
        for _ in 0..STEP_MESSAGES {
            let Some(message) = self.downstream.pop_front() else {
                break;
            };
            board.charge(Work::Dequeue, 1);
            if let Message::Tick(burst) = message {
                self.sends(fold, now, burst as usize, exchange, board, &mut stepped);
            }
        }
        for _ in 0..STEP_MESSAGES {
            if self.management.pop_front().is_none() {
                break;
            }
            board.charge(Work::Dequeue, 1);
            exchange.handle_deadline(now);
        }
        stepped
    }

    #[inline(always)]
    fn polls_receiver<C: Fold, B: Board, F: Source, S: Store>(
        &mut self,
        fold: C,
        now: Time,
        exchange: &mut Exchange<F, S>,
        board: &mut B,
        stepped: &mut Stepped,
    ) {
        for _ in 0..STEP_CELLS {
            board.charge(Work::PollFlag, 1);
            let Some(cell) = board.receive() else { return };
            self.receives(fold, now, &cell, exchange, board);
            stepped.received += 1;
        }
        stepped.has_more = true;
    }

    #[inline(always)]
    fn polls_timer<C: Fold, B: Board, F: Source, S: Store>(
        &mut self,
        fold: C,
        now: Time,
        exchange: &mut Exchange<F, S>,
        board: &mut B,
        stepped: &mut Stepped,
    ) {
        while (stepped.sent as usize) < STEP_CELLS {
            board.charge(Work::PollFlag, 1);
            let burst = match &mut self.timer {
                None => STEP_CELLS - stepped.sent as usize,
                Some(timer) => match timer.poll(now) {
                    Some(burst) => burst as usize,
                    None => return,
                },
            };
            if !self.sends(fold, now, burst, exchange, board, stepped) {
                return;
            }
        }
        stepped.has_more = true;
    }

    #[inline(always)]
    fn receives<C: Fold, B: Board, F: Source, S: Store>(
        &mut self,
        fold: C,
        now: Time,
        cell: &CellPayload,
        exchange: &mut Exchange<F, S>,
        board: &mut B,
    ) {
        board.charge(Work::ReceiveCell, 1);
        if self.variant.crc == Crc::Software {
            board.charge(Work::CrcOctets, PAYLOAD_LEN as u64);
        }
        if is_last(exchange.aal(), cell) {
            board.charge(Work::Pdu, 1);
        }
        match &mut self.layered {
            None => exchange.handle_cell(fold, now, cell.last, &cell.octets),
            Some(layered) => layered.receive(fold, now, cell, exchange, board),
        }
    }

    /// Sends a burst; false if it was cut short, by the board or because there is no more.
    #[inline(always)]
    fn sends<C: Fold, B: Board, F: Source, S: Store>(
        &mut self,
        fold: C,
        now: Time,
        burst: usize,
        exchange: &mut Exchange<F, S>,
        board: &mut B,
        stepped: &mut Stepped,
    ) -> bool {
        for _ in 0..burst {
            let cell = match self.pending.take() {
                Some(cell) => cell,
                None => match self.next_cell(fold, now, exchange, board) {
                    Some(cell) => cell,
                    None => return false,
                },
            };
            if !board.transmit(&cell) {
                self.pending = Some(cell);
                stepped.has_more = true;
                return false;
            }
            stepped.sent += 1;
            if self.variant.tick_cells == TickCells::OfOnePdu && is_last(exchange.aal(), &cell) {
                break;
            }
        }
        true
    }

    #[inline(always)]
    fn next_cell<C: Fold, B: Board, F: Source, S: Store>(
        &mut self,
        fold: C,
        now: Time,
        exchange: &mut Exchange<F, S>,
        board: &mut B,
    ) -> Option<CellPayload> {
        let mut octets = [0; PAYLOAD_LEN];
        let last = match &mut self.layered {
            None => exchange.poll_cell(fold, now, &mut octets),
            Some(layered) => layered.transmit(fold, now, &mut octets, exchange, board),
        }?;
        board.charge(Work::TransmitCell, 1);
        if self.variant.crc == Crc::Software {
            board.charge(Work::CrcOctets, PAYLOAD_LEN as u64);
        }
        let cell = CellPayload { octets, last };
        if is_last(exchange.aal(), &cell) {
            board.charge(Work::Pdu, 1);
        }
        Some(cell)
    }
}

/// Whether a cell is the last of its PDU.
#[inline(always)]
fn is_last(aal: Aal, cell: &CellPayload) -> bool {
    match aal {
        // The segment type is in the first two bits.
        Aal::Aal34 => {
            let segment_type = SegmentType::from_bits(cell.octets[0] >> 6);
            matches!(segment_type, SegmentType::Eom | SegmentType::Ssm)
        }
        Aal::Aal5 | Aal::Aal0 => cell.last,
    }
}
