//! A link's line that is impaired on purpose: stands before whatever brings the cells.

use std::sync::Arc;

use cellgate_core::Time;
use cellgate_core::line::{ImpairedLine, LineCounts};

use super::{CellSource, ReceiveEnd, Shown};

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

    /// Cells that were on their way when the link went.
    pub(crate) fn hand_on(&mut self, now: Time, fifo: &mut [u8]) -> usize {
        self.impaired.receive(now, 0, |_| 0, fifo)
    }

    /// Shows the counters to other threads.
    pub(crate) fn publish(&self) {
        self.counters.publish(self.impaired.counts());
    }
}
