//! A pseudowire as the ends of a port, and what they show.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use cellgate_core::Time;

use super::{UdpReceiver, UdpReport, UdpSender};
use crate::link::{CellSink, CellSource, QueueCounters, Shown};

/// The receiving end.
pub(crate) struct UdpSource {
    pub(crate) receiver: UdpReceiver,
    pub(crate) shown: Arc<Shown<UdpReport>>,
}

/// The sending end.
pub(crate) struct UdpSink {
    pub(crate) sender: UdpSender,
    pub(crate) shown: Arc<Shown<UdpReport>>,
}

impl CellSource for UdpSource {
    #[inline(always)]
    fn poll(&mut self, now: Time) -> usize {
        self.receiver.poll(now)
    }

    fn waiting(&self) -> usize {
        self.receiver.waiting()
    }

    #[inline(always)]
    fn take(&mut self, fifo: &mut [u8]) -> usize {
        self.receiver.take(fifo)
    }

    fn publish(&mut self, now: Time, counters: &QueueCounters) {
        self.receiver.publish(counters);
        self.shown.publish(self.receiver.report(now));
    }

    fn is_drained(&self) -> bool {
        self.receiver.is_drained()
    }

    fn resume(&mut self) {
        self.receiver.resume();
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.receiver.socket())
    }
}

impl CellSink for UdpSink {
    #[inline(always)]
    fn free_for(&mut self, _wanted: usize) -> usize {
        self.sender.free()
    }

    #[inline(always)]
    fn capacity(&self) -> usize {
        self.sender.capacity()
    }

    #[inline(always)]
    fn send(&mut self, cells: &[u8]) {
        self.sender.send(cells);
    }

    #[inline(always)]
    fn end_step(&mut self, now: Time) {
        if self.sender.staged() > 0 {
            self.sender.end_step(now);
        }
    }

    fn publish(&self, counters: &QueueCounters) {
        self.sender.publish(counters);
        self.shown.publish(self.sender.report());
    }

    fn next_deadline(&self) -> Option<Time> {
        self.sender.next_deadline()
    }

    fn full_socket(&self) -> Option<BorrowedFd<'_>> {
        self.sender.full_socket()
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.sender.socket())
    }
}
