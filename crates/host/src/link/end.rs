use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use cellgate_core::Time;
use cellgate_core::line::{ImpairedLine, LineCounts};

use super::udp::{UdpReceiver, UdpReport, UdpSender};
use super::{CellReceiver, CellSender, QueueCounters};
use crate::adapter::wakers::Call;

/// Where the cells of a port come from.
pub(crate) enum ReceiveEnd {
    Memory(CellReceiver),
    Udp(Box<UdpReceiver>, Arc<Shown<UdpReport>>),
}

/// How another adapter, which receives what a port transmits, is woken if it rests.
pub(crate) struct Rousing {
    call: Call,
    /// Cells were sent in this step.
    sent: bool,
}

impl Rousing {
    pub(crate) fn new(call: Call) -> Self {
        Self { call, sent: false }
    }
}

/// Where the cells of a port go to.
pub(crate) enum TransmitEnd {
    Memory(CellSender, Option<Box<Rousing>>),
    Udp(Box<UdpSender>, Arc<Shown<UdpReport>>),
}

/// Counters for other threads. Their thread writes them if nobody is just reading, and never
/// waits; what it could not show, it shows the next time.
#[derive(Debug, Default)]
pub(crate) struct Shown<T>(Mutex<T>);

impl<T: Copy> Shown<T> {
    pub(crate) fn publish(&self, counts: T) {
        if let Ok(mut shown) = self.0.try_lock() {
            *shown = counts;
        }
    }

    pub(crate) fn read(&self) -> T {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReceiveEnd {
    /// Looks for cells, about `now`: how many wait.
    #[inline(always)]
    pub(crate) fn poll(&mut self, now: Time) -> usize {
        match self {
            Self::Memory(receiver) => receiver.poll(),
            Self::Udp(receiver, _) => receiver.poll(now),
        }
    }

    /// Cells that wait, as the last look found them.
    pub(crate) fn waiting(&self) -> usize {
        match self {
            Self::Memory(receiver) => receiver.waiting(),
            Self::Udp(receiver, _) => receiver.waiting(),
        }
    }

    /// Looks once more before a rest. What a socket holds ends a rest by itself.
    pub(crate) fn look_again(&mut self) {
        if let Self::Memory(receiver) = self {
            receiver.poll();
        }
    }

    /// Whether there may be cells that no look has found: a socket held more than was taken.
    pub(crate) fn is_drained(&self) -> bool {
        match self {
            Self::Memory(_) => true,
            Self::Udp(receiver, _) => receiver.is_drained(),
        }
    }

    /// A rest is over: the next look is a look.
    pub(crate) fn resume(&mut self) {
        if let Self::Udp(receiver, _) = self {
            receiver.resume();
        }
    }

    /// Moves waiting cells to `fifo`, as many as fit; how many.
    #[inline(always)]
    pub(crate) fn take(&mut self, fifo: &mut [u8]) -> usize {
        match self {
            Self::Memory(receiver) => receiver.take(fifo),
            Self::Udp(receiver, _) => receiver.take(fifo),
        }
    }

    /// Counts cells that were received without having been in the memory.
    #[inline(always)]
    pub(crate) fn count_crossed(&mut self, cells: u32) {
        if let Self::Memory(receiver) = self {
            receiver.count_crossed(cells);
        }
    }

    /// Shows the counters to other threads.
    pub(crate) fn publish(&mut self, now: Time, counters: &QueueCounters) {
        match self {
            Self::Memory(receiver) => receiver.publish(counters),
            Self::Udp(receiver, shown) => {
                receiver.publish(counters);
                shown.publish(receiver.report(now));
            }
        }
    }
}

impl TransmitEnd {
    /// Cells that are taken now, if fewer than `wanted`; else at least `wanted`.
    #[inline(always)]
    pub(crate) fn free_for(&mut self, wanted: usize) -> usize {
        match self {
            Self::Memory(sender, _) => sender.free_for(wanted),
            Self::Udp(sender, _) => sender.free(),
        }
    }

    /// Cells that are taken at most.
    #[inline(always)]
    pub(crate) fn capacity(&self) -> usize {
        match self {
            Self::Memory(sender, _) => sender.capacity(),
            Self::Udp(sender, _) => sender.capacity(),
        }
    }

    /// Sends whole cells. What does not fit is dropped and counted.
    #[inline(always)]
    pub(crate) fn send(&mut self, cells: &[u8]) {
        match self {
            Self::Memory(sender, rousing) => {
                sender.send(cells);
                if let Some(rousing) = rousing {
                    rousing.sent = true;
                }
            }
            Self::Udp(sender, _) => {
                sender.send(cells);
            }
        }
    }

    /// Counts cells that went without having been in the memory.
    #[inline(always)]
    pub(crate) fn count_crossed(&mut self, cells: u32) {
        if let Self::Memory(sender, _) = self {
            sender.count_crossed(cells);
        }
    }

    /// Whether what is sent here is received there, by way of memory.
    pub(crate) fn ends_at(&self, end: &ReceiveEnd) -> bool {
        match (self, end) {
            (Self::Memory(sender, _), ReceiveEnd::Memory(receiver)) => sender.ends_at(receiver),
            _ => false,
        }
    }

    /// When the end wants to be told that a step is over, whatever comes.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        match self {
            Self::Memory(..) => None,
            Self::Udp(sender, _) => sender.next_deadline(),
        }
    }

    /// The socket that will take more, if it took nothing just now.
    pub(crate) fn full_socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Memory(..) => None,
            Self::Udp(sender, _) => sender.full_socket(),
        }
    }

    /// The step at `now` is over.
    #[inline(always)]
    pub(crate) fn end_step(&mut self, now: Time) {
        match self {
            Self::Udp(sender, _) if sender.staged() > 0 => sender.end_step(now),
            Self::Memory(_, Some(rousing)) if rousing.sent => {
                rousing.sent = false;
                rousing.call.wake();
            }
            Self::Udp(..) | Self::Memory(..) => {}
        }
    }

    /// Shows the counters to other threads.
    pub(crate) fn publish(&self, counters: &QueueCounters) {
        match self {
            Self::Memory(sender, _) => sender.publish(counters),
            Self::Udp(sender, shown) => {
                sender.publish(counters);
                shown.publish(sender.report());
            }
        }
    }
}

/// The impaired line on which a port receives, and where it is counted.
pub(crate) struct PortLine {
    pub(crate) impaired: ImpairedLine,
    pub(crate) counters: Arc<Shown<LineCounts>>,
}

impl PortLine {
    /// What `end` hands on, by way of the line.
    pub(crate) fn receive(&mut self, now: Time, end: &mut ReceiveEnd, fifo: &mut [u8]) -> usize {
        let waiting = end.waiting();
        self.impaired
            .receive(now, waiting, |into| end.take(into), fifo)
    }

    /// Shows the counters to other threads.
    pub(crate) fn publish(&self) {
        self.counters.publish(self.impaired.counts());
    }
}
