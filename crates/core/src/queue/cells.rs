use super::layout::port;
use super::{Consumer, PortGeometry, Producer, Words, queue};
use crate::wire::CellFormat;

/// The sending side of a memory link's port.
#[derive(Clone, Debug)]
pub struct CellSender {
    queue: SenderQueue,
    dropped: u64,
}

#[derive(Clone, Debug)]
enum SenderQueue {
    WithHec(Producer<queue::CellsWithHec>),
    NoHec(Producer<queue::CellsNoHec>),
}

/// The receiving side of a memory link's port.
#[derive(Clone, Debug)]
pub struct CellReceiver {
    queue: ReceiverQueue,
}

#[derive(Clone, Debug)]
enum ReceiverQueue {
    WithHec(Consumer<queue::CellsWithHec>),
    NoHec(Consumer<queue::CellsNoHec>),
}

macro_rules! each {
    ($kind:ident, $queue:expr, $name:ident => $body:expr) => {
        match $queue {
            $kind::WithHec($name) => $body,
            $kind::NoHec($name) => $body,
        }
    };
}

impl CellSender {
    /// The sender of a fresh port.
    pub fn new(geometry: &PortGeometry) -> Self {
        let cells = geometry.sizes().cells;
        Self {
            queue: match geometry.sizes().format {
                CellFormat::WithHec => SenderQueue::WithHec(Producer::new(cells)),
                CellFormat::NoHec => SenderQueue::NoHec(Producer::new(cells)),
            },
            dropped: 0,
        }
    }

    /// Cells that the queue takes; looks at the receiver's tail if fewer than `wanted` were known.
    #[inline]
    pub fn space<R: Words>(&mut self, from_receiver: &R, wanted: u32) -> u32 {
        each!(SenderQueue, &mut self.queue, queue => queue.free(from_receiver, wanted))
    }

    /// Puts in as many of the contiguous `cells` as fit; how many. The rest is the caller's: to
    /// keep, or to drop and [count](CellSender::count_dropped).
    #[inline]
    #[must_use = "cells that did not fit are not sent"]
    pub fn send<S: Words, R: Words>(
        &mut self,
        from_sender: &S,
        from_receiver: &R,
        cells: &[u8],
    ) -> u32 {
        let (mine, peer) = (from_sender, from_receiver);
        each!(SenderQueue, &mut self.queue, queue => queue.push_batch(mine, peer, cells))
    }

    /// Counts cells that the caller dropped because the queue was full.
    #[inline]
    pub fn count_dropped<S: Words>(&mut self, from_sender: &S, cells: u64) {
        self.dropped += cells;
        from_sender.store(port::CELLS_DROPPED, self.dropped);
    }

    /// Cells ever put in.
    pub fn sent(&self) -> u64 {
        each!(SenderQueue, &self.queue, queue => queue.head())
    }

    /// Cells ever dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Cells that the receiver has taken, as last seen.
    pub fn taken(&self) -> u64 {
        each!(SenderQueue, &self.queue, queue => queue.tail())
    }

    /// Times that the receiver's tail could not be what it said.
    pub fn faults(&self) -> u32 {
        each!(SenderQueue, &self.queue, queue => queue.faults())
    }
}

impl CellReceiver {
    /// The receiver of a fresh port.
    pub fn new(geometry: &PortGeometry) -> Self {
        let cells = geometry.sizes().cells;
        Self {
            queue: match geometry.sizes().format {
                CellFormat::WithHec => ReceiverQueue::WithHec(Consumer::new(cells)),
                CellFormat::NoHec => ReceiverQueue::NoHec(Consumer::new(cells)),
            },
        }
    }

    /// Looks at the sender's head: cells that wait.
    #[inline]
    pub fn poll<S: Words>(&mut self, from_sender: &S) -> u32 {
        each!(ReceiverQueue, &mut self.queue, queue => queue.refresh(from_sender))
    }

    /// Moves waiting cells to `fifo`, as many as fit, none that came after the last
    /// [poll](CellReceiver::poll); how many.
    #[inline]
    pub fn take<R: Words, S: Words>(
        &mut self,
        from_receiver: &R,
        from_sender: &S,
        fifo: &mut [u8],
    ) -> u32 {
        let (mine, peer) = (from_receiver, from_sender);
        each!(ReceiverQueue, &mut self.queue, queue => queue.pop_seen(mine, peer, fifo))
    }

    /// Cells that waited at the last poll and were not taken since.
    pub fn waiting(&self) -> u32 {
        each!(ReceiverQueue, &self.queue, queue => queue.available_seen())
    }

    /// Cells ever taken.
    pub fn taken(&self) -> u64 {
        each!(ReceiverQueue, &self.queue, queue => queue.tail())
    }

    /// Times that the sender's head could not be what it said.
    pub fn faults(&self) -> u32 {
        each!(ReceiverQueue, &self.queue, queue => queue.faults())
    }
}

/// Cells that a port's sender has dropped, for whoever reads its file.
pub fn cells_dropped<S: Words>(from_sender: &S) -> u64 {
    from_sender.load(port::CELLS_DROPPED)
}
