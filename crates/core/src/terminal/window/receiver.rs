//! The receiver's half.

use crate::Time;
use crate::terminal::{DiskHeader, Pci, ReceiveBuffer, Status, Store};

/// A status is due behind so many PDUs, or so long behind the first that it has not told of.
const NEWS_MAX: u32 = 32;
const NEWS_NS: u64 = 5_000_000;
/// As long as a transfer is not complete, its status comes as often at least: the sender may have
/// missed the one that opened the window.
const REPEAT_NS: u64 = 1_000_000_000;

/// A disk-PDU all of whose PDUs are acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskPdu {
    pub header: DiskHeader,
    /// The digest that its sender has made.
    pub digest: [u8; DiskHeader::TAIL],
}

/// The receiver's half of a transfer.
#[derive(Clone, Debug)]
pub struct Receiver<S> {
    buffer: ReceiveBuffer<S>,
    seen: Option<(u16, Time)>,
    /// PDUs that no status has told of.
    news: u32,
    deadline: Time,
}

impl<S: Store> Receiver<S> {
    /// Nothing has come yet; a status says so at once.
    pub const fn new(now: Time, buffer: ReceiveBuffer<S>) -> Self {
        Self {
            buffer,
            seen: None,
            news: 0,
            deadline: now,
        }
    }

    /// Where it is put, for the controller.
    pub const fn buffer_mut(&mut self) -> &mut ReceiveBuffer<S> {
        &mut self.buffer
    }

    /// As [`Self::buffer_mut`], to look at.
    pub const fn buffer(&self) -> &ReceiveBuffer<S> {
        &self.buffer
    }

    /// What was received.
    pub fn into_buffer(self) -> ReceiveBuffer<S> {
        self.buffer
    }

    /// A PDU with this PCI has come, `complete` or not. What [`Receiver::acknowledge`] gives is
    /// to be drained behind it.
    pub fn handle(&mut self, now: Time, pci: &Pci, complete: bool) {
        let is_gap = self
            .seen
            .is_some_and(|(seen, _)| pci.serial != seen.wrapping_add(1));
        self.seen = Some((pci.serial, now));
        self.news += 1;
        let is_urgent = !complete || is_gap || pci.place.is_last() || self.news >= NEWS_MAX;
        let due = now.plus_ns(if is_urgent { 0 } else { NEWS_NS });
        self.deadline = self.deadline.min(due);
    }

    /// Makes what has come without a gap final. To be called until it gives none: each call moves
    /// Ap by a PDU, and tells if a disk-PDU is complete by it.
    pub fn acknowledge(&mut self) -> Option<Option<DiskPdu>> {
        let acknowledged = self.buffer.acknowledge()?;
        let disk_pdu = acknowledged.pci.place.is_last().then(|| {
            let (header, tail) = self.buffer.disk();
            Some(DiskPdu {
                header: DiskHeader::parse(header.first_chunk()?)?,
                digest: *tail.first_chunk()?,
            })
        });
        Some(disk_pdu.flatten())
    }

    /// Opens the window up to `edge`; the sender hears of it.
    pub fn open_to(&mut self, now: Time, edge: u64) {
        let before = self.buffer.pointers();
        self.buffer.open_to(edge);
        let after = self.buffer.pointers().edge;
        // One that was closed is told of at once.
        if after > before.edge && before.p >= before.edge.saturating_sub(1 << 16) {
            self.deadline = now;
        }
    }

    /// When a status is due.
    pub const fn next_deadline(&self) -> Time {
        self.deadline
    }

    /// The status, if it is due; the bits of PDUs above are written to `above`, which has an octet
    /// for every eight PDUs of the window.
    pub fn poll<'a>(&mut self, now: Time, above: &'a mut [u8]) -> Option<Status<'a>> {
        if now < self.deadline {
            return None;
        }
        self.news = 0;
        self.deadline = now.plus_ns(REPEAT_NS);
        let pointers = self.buffer.pointers();
        let mut used = 0;
        above.fill(0);
        for extent in self.buffer.held() {
            for sequence in extent.sequences.clone() {
                let Some(bit) = sequence.checked_sub(pointers.a2 + 1) else {
                    continue;
                };
                let at = (bit / 8) as usize;
                if let Some(octet) = above.get_mut(at) {
                    *octet |= 1 << (bit % 8);
                    used = at + 1;
                }
            }
        }
        Some(Status {
            seen: self.seen.map(|(serial, _)| serial),
            held_us: self
                .seen
                .map_or(0, |(_, at)| (now.since_ns(at) / 1_000).min(u32::MAX.into()))
                as u32,
            next: (pointers.a2 % u64::from(Pci::SEQUENCES)) as u32,
            acknowledged: pointers.ap,
            edge: pointers.edge,
            above: &above[..used],
        })
    }
}
