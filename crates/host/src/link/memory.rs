//! The `memory` link: a port's cells in memory that two processes share.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cellgate_core::Time;
use cellgate_core::queue::PortGeometry;
use cellgate_shm::{Files, PortReceiver, PortSender, RouseFiles, Rouser, ShmError};

use super::{CellSink, CellSource};
use crate::adapter::due::Class;
use crate::adapter::wakers::Call;
use crate::control::QueueReport;

/// The sending end of a `memory` link's port: cells, packed, in memory shared with the receiver.
///
/// It never waits. Cells that do not fit are dropped and counted, as on a line whose other end is
/// too slow.
#[derive(Debug)]
pub struct CellSender {
    port: PortSender,
    stride: usize,
    capacity: u32,
    crossed: u64,
    /// Wakes a receiver that rests.
    rouser: Option<Box<Rouser>>,
}

/// The receiving end. Every cell is copied out once, before anything of it is looked at.
#[derive(Debug)]
pub struct CellReceiver {
    port: PortReceiver,
    queued_max: u32,
    crossed: u64,
}

impl CellSender {
    /// Over a port that was just made or opened.
    pub(crate) fn over(port: PortSender, geometry: &PortGeometry) -> Self {
        Self {
            port,
            stride: geometry.sizes().format.stride(),
            capacity: geometry.sizes().cells,
            crossed: 0,
            rouser: None,
        }
    }

    /// Opens a port that the receiver made.
    ///
    /// # Errors
    /// The files are not a port's, or not of this geometry.
    pub fn open(files: &Files, geometry: &PortGeometry, generation: u32) -> Result<Self, ShmError> {
        let port = PortSender::open(files, geometry, generation)?;
        Ok(Self::over(port, geometry))
    }

    /// Has this end wake the adapter that receives, if that rests.
    ///
    /// # Errors
    /// The files are not an adapter's.
    pub fn rousing(self, files: RouseFiles) -> Result<Self, ShmError> {
        let rouser = Rouser::open(files)?.map(Box::new);
        Ok(Self { rouser, ..self })
    }

    /// Cells that the port takes now.
    #[inline]
    pub fn free(&mut self) -> usize {
        self.port.space(self.capacity) as usize
    }

    /// Cells that the port takes now, if fewer than `wanted`; else at least `wanted`. Looks at the
    /// receiver's word only if it must.
    #[inline(always)]
    pub fn free_for(&mut self, wanted: usize) -> usize {
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX).min(self.capacity);
        self.port.space(wanted) as usize
    }

    /// Cells that the port can hold.
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Sends contiguous whole cells; how many did fit. The rest is dropped and counted.
    #[inline]
    pub fn send(&mut self, cells: &[u8]) -> usize {
        let wanted = cells.len() / self.stride;
        let sent = self.port.send(cells) as usize;
        if sent < wanted {
            self.port.count_dropped((wanted - sent) as u64);
        }
        if let Some(rouser) = &mut self.rouser {
            rouser.rouse();
        }
        sent
    }

    /// Sends contiguous whole cells if all of them fit, else drops and counts them all; whether
    /// they were sent. A sender that is too fast loses PDUs this way, not a piece of each.
    #[inline]
    pub fn send_whole(&mut self, cells: &[u8]) -> bool {
        let wanted = cells.len() / self.stride;
        let fits = self.free_for(wanted) >= wanted;
        if fits {
            self.send(cells);
        } else {
            self.port.count_dropped(wanted as u64);
        }
        fits
    }

    /// Whether `receiver` is the other end.
    pub(crate) fn ends_at(&self, receiver: &CellReceiver) -> bool {
        self.port.ends_at(&receiver.port)
    }

    /// Cells ever sent.
    pub fn sent(&self) -> u64 {
        self.port.cells().sent() + self.crossed
    }

    /// Counts cells that the receiver has without having taken them from here.
    #[inline(always)]
    pub(crate) fn count_crossed(&mut self, cells: u32) {
        self.crossed += u64::from(cells);
    }

    /// Cells ever dropped because the port was full.
    pub fn dropped(&self) -> u64 {
        self.port.cells().dropped()
    }

    /// Cells that wait for the receiver, as last seen.
    pub fn queued(&self) -> u64 {
        let cells = self.port.cells();
        cells.sent().saturating_sub(cells.taken())
    }

    /// Shows the counters to other threads.
    pub(crate) fn publish(&self, counters: &QueueCounters) {
        let cells = self.port.cells();
        counters.sent.store(self.sent(), Relaxed);
        counters.dropped.store(cells.dropped(), Relaxed);
        counters
            .received
            .store(cells.taken() + self.crossed, Relaxed);
        counters.faults.store(cells.faults().into(), Relaxed);
    }
}

impl CellReceiver {
    /// Over a port that was just made or opened.
    pub(crate) fn over(port: PortReceiver) -> Self {
        Self {
            port,
            queued_max: 0,
            crossed: 0,
        }
    }

    /// Opens a port that the sender made.
    ///
    /// # Errors
    /// The files are not a port's, or not of this geometry.
    pub fn open(files: &Files, geometry: &PortGeometry, generation: u32) -> Result<Self, ShmError> {
        PortReceiver::open(files, geometry, generation).map(Self::over)
    }

    /// Looks at the port: cells that wait. Only these are taken until the next look.
    #[inline(always)]
    pub fn poll(&mut self) -> usize {
        let waiting = self.port.poll();
        self.queued_max = self.queued_max.max(waiting);
        waiting as usize
    }

    /// Cells that wait, as the last look found them.
    pub fn waiting(&self) -> usize {
        self.port.cells().waiting() as usize
    }

    /// Moves waiting cells to `fifo`, as many as fit; how many.
    #[inline(always)]
    pub fn take(&mut self, fifo: &mut [u8]) -> usize {
        self.port.take(fifo) as usize
    }

    /// Cells ever taken.
    pub fn taken(&self) -> u64 {
        self.port.cells().taken() + self.crossed
    }

    /// Counts cells that were received without having been here.
    #[inline(always)]
    pub(crate) fn count_crossed(&mut self, cells: u32) {
        self.crossed += u64::from(cells);
    }

    /// The most cells that a look found waiting.
    pub fn queued_max(&self) -> u64 {
        self.queued_max.into()
    }

    /// Cells that the sender says it has dropped. It is the sender's word.
    pub fn dropped(&self) -> u64 {
        self.port.cells_dropped()
    }

    /// Shows the counters to other threads.
    pub(crate) fn publish(&self, counters: &QueueCounters) {
        let cells = self.port.cells();
        let received = self.taken();
        counters
            .sent
            .store(received + u64::from(cells.waiting()), Relaxed);
        counters.received.store(received, Relaxed);
        counters.dropped.store(self.port.cells_dropped(), Relaxed);
        counters.queued_max.store(self.queued_max.into(), Relaxed);
        counters.faults.store(cells.faults().into(), Relaxed);
    }
}

/// Counters of one direction of a port, for other threads: one writes, any read.
#[derive(Debug, Default)]
pub struct QueueCounters {
    sent: AtomicU64,
    dropped: AtomicU64,
    received: AtomicU64,
    queued_max: AtomicU64,
    faults: AtomicU64,
}

impl QueueCounters {
    /// Shows what a link that is no queue between two processes counts.
    pub(crate) fn publish(&self, sent: u64, received: u64, queued_max: u64) {
        self.sent.store(sent, Relaxed);
        self.received.store(received, Relaxed);
        self.queued_max.store(queued_max, Relaxed);
    }

    /// Shows what was dropped where there is no queue.
    pub(crate) fn publish_dropped(&self, dropped: u64) {
        self.dropped.store(dropped, Relaxed);
    }

    pub fn report(&self) -> QueueReport {
        QueueReport {
            sent: self.sent.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            received: self.received.load(Relaxed),
            queued_max: self.queued_max.load(Relaxed),
            faults: self.faults.load(Relaxed),
        }
    }
}

/// The receiving end as a port has it.
pub(crate) struct MemorySource(pub(crate) CellReceiver);

impl CellSource for MemorySource {
    #[inline(always)]
    fn poll(&mut self, _now: Time) -> usize {
        self.0.poll()
    }

    fn waiting(&self) -> usize {
        self.0.waiting()
    }

    #[inline(always)]
    fn take(&mut self, fifo: &mut [u8]) -> usize {
        self.0.take(fifo)
    }

    fn publish(&mut self, _now: Time, counters: &QueueCounters) {
        self.0.publish(counters);
    }

    fn look_again(&mut self) {
        self.0.poll();
    }

    #[inline(always)]
    fn count_crossed(&mut self, cells: u32) {
        self.0.count_crossed(cells);
    }
}

/// The sending end as a port has it.
pub(crate) struct MemorySink {
    sender: CellSender,
    rousing: Option<Box<Rousing>>,
}

/// How another adapter, which receives what is sent, is woken if it rests.
struct Rousing {
    call: Call,
    /// Cells were sent in this step.
    has_sent: bool,
}

impl MemorySink {
    pub(crate) fn new(sender: CellSender, call: Option<Call>) -> Self {
        let rousing = call.map(|call| Rousing {
            call,
            has_sent: false,
        });
        Self {
            sender,
            rousing: rousing.map(Box::new),
        }
    }

    /// Whether what is sent here is received there.
    pub(crate) fn ends_at(&self, source: &MemorySource) -> bool {
        self.sender.ends_at(&source.0)
    }
}

impl CellSink for MemorySink {
    #[inline(always)]
    fn free_for(&mut self, wanted: usize) -> usize {
        self.sender.free_for(wanted)
    }

    #[inline(always)]
    fn capacity(&self) -> usize {
        self.sender.capacity()
    }

    #[inline(always)]
    fn send(&mut self, cells: &[u8]) {
        self.sender.send(cells);
        if let Some(rousing) = &mut self.rousing {
            rousing.has_sent = true;
        }
    }

    #[inline(always)]
    fn end_step(&mut self, _now: Time) {
        if let Some(rousing) = self.rousing.as_mut().filter(|rousing| rousing.has_sent) {
            rousing.has_sent = false;
            rousing.call.wake(Class::Guaranteed);
        }
    }

    fn publish(&self, counters: &QueueCounters) {
        self.sender.publish(counters);
    }

    #[inline(always)]
    fn count_crossed(&mut self, cells: u32) {
        self.sender.count_crossed(cells);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellgate_core::queue::PortSizes;
    use cellgate_core::wire::CellFormat;

    fn port(cells: u32, format: CellFormat) -> (CellSender, CellReceiver) {
        let geometry = PortGeometry::new(PortSizes { cells, format }).unwrap();
        let (port, files) = PortReceiver::create(&geometry, 1).unwrap();
        let sender = CellSender::open(&files, &geometry, 1).unwrap();
        (sender, CellReceiver::over(port))
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let (mut sender, mut receiver) = port(8, CellFormat::NoHec);
        let train: Vec<u8> = (0..10 * 52).map(|i| (i / 52) as u8).collect();
        assert_eq!(sender.send(&train), 8);
        assert_eq!((sender.sent(), sender.dropped()), (8, 2));
        assert_eq!((sender.free(), sender.queued()), (0, 8));
        assert_eq!(sender.send(&train), 0);
        assert_eq!(receiver.poll(), 8);
        assert_eq!((receiver.dropped(), receiver.queued_max()), (12, 8));
        let mut fifo = vec![0; 5 * 52];
        assert_eq!(receiver.take(&mut fifo), 5);
        assert_eq!(fifo, train[..5 * 52]);
        assert_eq!(sender.free(), 5);
        let counters = QueueCounters::default();
        receiver.publish(&counters);
        let report = counters.report();
        assert_eq!((report.sent, report.received, report.dropped), (8, 5, 12));
        assert_eq!((report.queued_max, report.faults), (8, 0));
    }

    #[test]
    fn a_train_is_sent_whole_or_not_at_all() {
        let (mut sender, mut receiver) = port(8, CellFormat::WithHec);
        let train = [9; 5 * 53];
        assert!(sender.send_whole(&train));
        assert!(!sender.send_whole(&train));
        assert_eq!(
            (sender.sent(), sender.dropped(), receiver.poll()),
            (5, 5, 5)
        );
        // Longer than the port: never.
        assert!(!sender.send_whole(&[0; 9 * 53]));
        assert_eq!(receiver.take(&mut [0; 5 * 53]), 5);
        assert!(sender.send_whole(&train));
    }

    #[test]
    fn cells_that_came_after_the_look_wait_for_the_next() {
        let (mut sender, mut receiver) = port(8, CellFormat::WithHec);
        let cell = [7; 53];
        assert_eq!(sender.send(&cell), 1);
        assert_eq!(receiver.poll(), 1);
        assert_eq!(sender.send(&cell), 1);
        let mut fifo = vec![0; 8 * 53];
        assert_eq!(receiver.take(&mut fifo), 1);
        assert_eq!(receiver.take(&mut fifo), 0);
        assert_eq!(receiver.poll(), 1);
        assert_eq!(receiver.take(&mut fifo), 1);
    }
}
