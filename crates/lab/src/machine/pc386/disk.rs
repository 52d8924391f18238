use std::collections::VecDeque;

use crate::world::Ps;

/// A disk, and the buffers B(4) between it and the network.
#[derive(Clone, Copy, Debug)]
pub struct Disk {
    /// Until it has found the place of a write.
    pub access: Ps,
    /// Octets per second from there on; at least 1.
    pub octet_s: u64,
    /// Buffers B(4): one that the disk writes takes nothing from the network.
    pub buffers: u32,
    /// Octets of a buffer: a disk-PDU, a power of two.
    pub buffer_len: u32,
}

impl Disk {
    /// How long it writes a buffer. The board has the bus meanwhile, and the processor is free.
    pub fn write(&self) -> Ps {
        let ps = u128::from(self.buffer_len) * 1_000_000_000_000 / u128::from(self.octet_s.max(1));
        self.access.plus(Ps::new(ps as u64))
    }

    /// Octets that the buffers have.
    pub(super) fn room(&self) -> u64 {
        u64::from(self.buffers) * u64::from(self.buffer_len)
    }
}

/// Octets that a disk has written, and has still to write.
#[derive(Default)]
pub(super) struct Writes {
    /// When each is there.
    done: VecDeque<Ps>,
    written: u64,
}

impl Writes {
    /// A buffer is full.
    pub(super) fn begin(&mut self, now: Ps, disk: &Disk) {
        let free = self.done.back().map_or(now, |done| now.max(*done));
        self.done.push_back(free.plus(disk.write()));
    }

    /// Buffers that are on the disk by `now`; none if that is no news.
    pub(super) fn done(&mut self, now: Ps) -> Option<u64> {
        let before = self.written;
        while self.done.pop_front_if(|done| *done <= now).is_some() {
            self.written += 1;
        }
        (self.written > before).then_some(self.written)
    }

    /// When the next is there.
    pub(super) fn next(&self) -> Option<Ps> {
        self.done.front().copied()
    }
}
