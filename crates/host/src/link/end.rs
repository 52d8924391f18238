//! The two ends of a port, whatever its link is: where its cells come from, and where they go.

use std::os::fd::BorrowedFd;

use cellgate_core::Time;

use super::udp::{UdpSink, UdpSource};
use super::{MemorySink, MemorySource, QueueCounters};

/// Where cells come from. The firmware thread calls it, in each step: nothing here waits.
pub(crate) trait CellSource {
    /// Looks for cells, about `now`: how many wait.
    fn poll(&mut self, now: Time) -> usize;

    /// Cells that wait, as the last look found them.
    fn waiting(&self) -> usize;

    /// Moves waiting cells to `fifo`, as many as fit; how many.
    fn take(&mut self, fifo: &mut [u8]) -> usize;

    /// Shows the counters to other threads.
    fn publish(&mut self, now: Time, counters: &QueueCounters);

    /// Looks once more before a rest, if nothing will end it that comes meanwhile.
    fn look_again(&mut self) {}

    /// Whether all that is there has been found.
    fn is_drained(&self) -> bool {
        true
    }

    /// A rest is over: the next look is a look.
    fn resume(&mut self) {}

    /// Counts cells that were received without having been in the link.
    fn count_crossed(&mut self, _cells: u32) {}

    /// What ends a rest when cells come.
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Where cells go. The firmware thread calls it, in each step: nothing here waits.
pub(crate) trait CellSink {
    /// Cells that are taken now, if fewer than `wanted`; else at least `wanted`.
    fn free_for(&mut self, wanted: usize) -> usize;

    /// Cells that are taken at most.
    fn capacity(&self) -> usize;

    /// Sends whole cells. What does not fit is dropped and counted.
    fn send(&mut self, cells: &[u8]);

    /// The step at `now` is over.
    fn end_step(&mut self, now: Time);

    /// Shows the counters to other threads.
    fn publish(&self, counters: &QueueCounters);

    /// Counts cells that went without having been in the link.
    fn count_crossed(&mut self, _cells: u32) {}

    /// When the end wants to be told that a step is over, whatever comes.
    fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// The socket that will take more, if it took nothing just now.
    fn full_socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The socket that it sends by.
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// The sources there are. A match costs a step less than a virtual call.
pub(crate) enum ReceiveEnd {
    Memory(MemorySource),
    Udp(Box<UdpSource>),
}

/// The sinks there are.
pub(crate) enum TransmitEnd {
    Memory(MemorySink),
    Udp(Box<UdpSink>),
}

/// The same call for each kind.
macro_rules! of_each {
    ($self:expr, $end:ident => $call:expr) => {
        match $self {
            Self::Memory($end) => $call,
            Self::Udp($end) => $call,
        }
    };
}

impl CellSource for ReceiveEnd {
    #[inline(always)]
    fn poll(&mut self, now: Time) -> usize {
        of_each!(self, end => end.poll(now))
    }

    fn waiting(&self) -> usize {
        of_each!(self, end => end.waiting())
    }

    #[inline(always)]
    fn take(&mut self, fifo: &mut [u8]) -> usize {
        of_each!(self, end => end.take(fifo))
    }

    fn publish(&mut self, now: Time, counters: &QueueCounters) {
        of_each!(self, end => end.publish(now, counters));
    }

    fn look_again(&mut self) {
        of_each!(self, end => end.look_again());
    }

    fn is_drained(&self) -> bool {
        of_each!(self, end => end.is_drained())
    }

    fn resume(&mut self) {
        of_each!(self, end => end.resume());
    }

    #[inline(always)]
    fn count_crossed(&mut self, cells: u32) {
        of_each!(self, end => end.count_crossed(cells));
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        of_each!(self, end => end.socket())
    }
}

impl CellSink for TransmitEnd {
    #[inline(always)]
    fn free_for(&mut self, wanted: usize) -> usize {
        of_each!(self, end => end.free_for(wanted))
    }

    #[inline(always)]
    fn capacity(&self) -> usize {
        of_each!(self, end => end.capacity())
    }

    #[inline(always)]
    fn send(&mut self, cells: &[u8]) {
        of_each!(self, end => end.send(cells));
    }

    #[inline(always)]
    fn end_step(&mut self, now: Time) {
        of_each!(self, end => end.end_step(now));
    }

    fn publish(&self, counters: &QueueCounters) {
        of_each!(self, end => end.publish(counters));
    }

    #[inline(always)]
    fn count_crossed(&mut self, cells: u32) {
        of_each!(self, end => end.count_crossed(cells));
    }

    fn next_deadline(&self) -> Option<Time> {
        of_each!(self, end => end.next_deadline())
    }

    fn full_socket(&self) -> Option<BorrowedFd<'_>> {
        of_each!(self, end => end.full_socket())
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        of_each!(self, end => end.socket())
    }
}

impl TransmitEnd {
    /// Whether what is sent here is received there, by way of memory.
    pub(crate) fn ends_at(&self, end: &ReceiveEnd) -> bool {
        match (self, end) {
            (Self::Memory(sink), ReceiveEnd::Memory(source)) => sink.ends_at(source),
            _ => false,
        }
    }
}
