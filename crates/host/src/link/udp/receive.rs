use std::collections::VecDeque;
use std::io::{ErrorKind, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use cellgate_core::Time;
use cellgate_core::wire::pseudowire::{
    PacketContent, PseudowireError, SequenceReceiver, SequenceVerdict,
};
use cellgate_core::wire::{
    CELL_LEN_NO_HEC, CellMode, CellPseudowire, Label, LabelEntry, Pseudowire,
};
use quinn_udp::RecvMeta;

use super::socket::BatchSocket;
use super::{UdpError, UdpLink, UdpReport};
use crate::link::QueueCounters;
use crate::sys::socket_memory;

/// Cells of one datagram that nobody has taken yet.
#[derive(Clone, Copy, Debug)]
struct Segment {
    buffer: u8,
    at: u32,
    cells: u32,
}

/// The receiving end of a pseudowire.
#[derive(Debug)]
pub struct UdpReceiver {
    socket: BatchSocket,
    pseudowire: CellPseudowire,
    label: Option<Label>,
    peer: IpAddr,
    /// [`UdpReceiver::BUFFERS`] of [`UdpReceiver::BUFFER_LEN`] octets, used in turn.
    buffers: Vec<u8>,
    /// The buffer that is used next.
    next: usize,
    segments: VecDeque<Segment>,
    waiting: usize,
    /// Cells that the last taker had room for.
    wanted: usize,
    /// Octets of the longest entry that the last look found.
    len_max: usize,
    /// Whether the last look found the socket's queue empty behind what it took.
    drained: bool,
    looked: Time,
    sequence: SequenceReceiver,
    stale_in_a_row: u32,
    taken: u64,
    queued_max: usize,
    counts: UdpReport,
    drops: u32,
    drops_read: Time,
}

impl UdpReceiver {
    /// While nothing comes, the socket is looked at in the first step that begins so much later
    /// than the look before: cells wait for so long and one step more at most. It counts as cell
    /// delay variation.
    pub const LOOK_EVERY_NS: u64 = 10_000;

    /// Entries of the socket's queue that one look takes at most.
    const BUFFERS: usize = quinn_udp::BATCH_SIZE;
    /// Octets of a buffer: the longest entry there is, datagrams that came together included.
    const BUFFER_LEN: usize = 1 << 16;
    /// Octets that a look is to bring, if entries are as long as those of the look before: so much
    /// is copied while other ports wait. A look after short ones that finds long ones brings
    /// [`UdpReceiver::BUFFERS`] x [`UdpReceiver::BUFFER_LEN`] = 2 MiB at most.
    const LOOK_LEN: usize = 1 << 16;
    /// Looks of one step, beside the one at its begin: with datagrams of one cell, 8 x 32 cells.
    const LOOKS_MAX: usize = 8;
    /// Datagrams that the kernel lets come together in one entry (`UDP_MAX_SEGMENTS`).
    const ENTRY_DATAGRAMS_MAX: usize = 128;
    /// Packets out of order in a row after which the peer's count is taken to have begun anew.
    const STALE_MAX: u32 = 16;
    /// From one look at what the kernel has dropped to the next.
    const DROPS_EVERY_NS: u64 = 1_000_000;

    /// Opens the receiving end.
    ///
    /// # Errors
    /// The pseudowire cannot be, or the kernel refuses the socket.
    pub fn open(options: &UdpLink) -> Result<Self, UdpError> {
        options.check()?;
        let socket = BatchSocket::receiving(options)?;
        let memory = socket_memory(&socket.socket).unwrap_or_default();
        Ok(Self {
            socket,
            pseudowire: options.mode,
            label: Label::new(options.label_in),
            peer: options.peer.ip(),
            buffers: vec![0; Self::BUFFERS * Self::BUFFER_LEN],
            next: 0,
            segments: VecDeque::with_capacity(Self::BUFFERS * Self::ENTRY_DATAGRAMS_MAX),
            waiting: 0,
            wanted: 1,
            len_max: Self::BUFFER_LEN,
            drained: true,
            looked: Time::ZERO,
            sequence: SequenceReceiver::new(),
            stale_in_a_row: 0,
            taken: 0,
            queued_max: 0,
            counts: UdpReport {
                receive_buffer_octets: memory.receive_max.into(),
                ..UdpReport::default()
            },
            drops: 0,
            drops_read: Time::ZERO,
        })
    }

    /// Where it receives.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn local_address(&self) -> std::io::Result<SocketAddr> {
        self.socket.socket.local_addr()
    }

    /// Looks at the socket if that may be of use at `now`, about the time: cells that wait.
    #[inline(always)]
    pub fn poll(&mut self, now: Time) -> usize {
        let due = !self.drained || now.since_ns(self.looked) >= Self::LOOK_EVERY_NS;
        if self.waiting < self.wanted && due {
            self.looked = now;
            self.look();
        }
        self.waiting
    }

    /// Whether the last look found the socket's queue empty behind what it took.
    pub(crate) fn is_drained(&self) -> bool {
        self.drained
    }

    /// The next look comes at once, not after so long.
    pub(crate) fn resume(&mut self) {
        self.looked = Time::ZERO;
    }

    /// What it reads from.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.socket.as_fd()
    }

    /// Moves waiting cells to `fifo`, as many as fit; how many. If the socket's queue may hold more
    /// than the last look took, and there is room, looks again: fewer than fit means that it was
    /// empty, but for a socket full of datagrams that are none.
    pub fn take(&mut self, fifo: &mut [u8]) -> usize {
        let (places, _) = fifo.as_chunks_mut::<CELL_LEN_NO_HEC>();
        self.wanted = places.len().max(1);
        let mut done = self.hand_out(places);
        for _ in 0..Self::LOOKS_MAX {
            if done == places.len() || self.drained {
                break;
            }
            self.look();
            done += self.hand_out(&mut places[done..]);
        }
        self.taken += done as u64;
        done
    }

    fn hand_out(&mut self, places: &mut [[u8; CELL_LEN_NO_HEC]]) -> usize {
        let mut done = 0;
        while let Some(segment) = self.segments.front_mut() {
            let count = (segment.cells as usize).min(places.len() - done);
            if count == 0 {
                break;
            }
            let from = usize::from(segment.buffer) * Self::BUFFER_LEN + segment.at as usize;
            let len = count * self.pseudowire.mode().stride();
            let octets = &self.buffers[from..from + len];
            fill(&mut places[done..done + count], octets, self.pseudowire);
            done += count;
            segment.cells -= count as u32;
            segment.at += len as u32;
            if segment.cells == 0 {
                self.segments.pop_front();
            }
        }
        self.waiting -= done;
        done
    }

    /// Buffers in a row, from the next one on, that hold nothing.
    fn free_buffers(&mut self) -> usize {
        match self.segments.front() {
            None => {
                self.next = 0;
                Self::BUFFERS
            }
            // The oldest is behind: up to the end, then from the start again.
            Some(oldest) => match usize::from(oldest.buffer) {
                oldest if oldest < self.next => Self::BUFFERS - self.next,
                oldest => oldest - self.next,
            },
        }
    }

    /// Takes what the socket holds, as far as buffers are free.
    fn look(&mut self) {
        let wanted = (Self::LOOK_LEN / self.len_max.max(1)).clamp(1, Self::BUFFERS);
        let count = wanted.min(self.free_buffers());
        if count == 0 {
            return;
        }
        let first = self.next;
        let mut free = self.buffers[first * Self::BUFFER_LEN..].chunks_exact_mut(Self::BUFFER_LEN);
        let mut slices: [IoSliceMut<'_>; Self::BUFFERS] =
            std::array::from_fn(|_| IoSliceMut::new(free.next().unwrap_or_default()));
        let mut entries = [RecvMeta::default(); Self::BUFFERS];
        let socket = &self.socket;
        let found = socket
            .state
            .recv(socket.as_ref(), &mut slices[..count], &mut entries);
        self.counts.receive_calls += 1;
        let found = match found {
            Ok(found) => found.min(count),
            Err(error) => {
                let empty = error.kind() == ErrorKind::WouldBlock;
                self.counts.receive_errors += u64::from(!empty);
                self.drained = true;
                return;
            }
        };
        self.drained = found < count;
        self.next = (first + found) % Self::BUFFERS;
        self.len_max = 0;
        for (i, entry) in entries[..found].iter().enumerate() {
            self.len_max = self.len_max.max(entry.len);
            self.sort(first + i, entry);
        }
        self.queued_max = self.queued_max.max(self.waiting);
    }

    /// Takes the datagrams of one entry apart.
    fn sort(&mut self, buffer: usize, entry: &RecvMeta) {
        let stride = entry.stride.max(1);
        let len = entry.len.min(Self::BUFFER_LEN);
        // A datagram of no octets is one, too.
        for at in (0..len.max(1)).step_by(stride) {
            let end = len.min(at.saturating_add(stride));
            if entry.addr.ip().to_canonical() != self.peer {
                self.counts.discarded_datagrams.wrong_source += 1;
                self.counts.last_refused = Some(entry.addr.ip().to_canonical());
            } else if self.segments.len() == self.segments.capacity() {
                // More in one entry than the kernel lets come together.
                self.counts.receive_errors += 1;
            } else {
                self.accept(buffer, at, end);
            }
        }
    }

    /// Keeps the cells of one datagram, or counts why there are none.
    fn accept(&mut self, buffer: usize, at: usize, end: usize) {
        let discards = &mut self.counts.discarded_datagrams;
        let start = buffer * Self::BUFFER_LEN;
        let datagram = &self.buffers[start + at..start + end];
        let Some((entry, packet)) = LabelEntry::parse_stack(datagram) else {
            discards.bad_stack += 1;
            return;
        };
        if Some(entry.label()) != self.label {
            discards.wrong_label += 1;
            return;
        }
        let parsed = match Pseudowire::from(self.pseudowire).parse(packet) {
            Ok(parsed) => parsed,
            Err(PseudowireError::CellOctets { .. } | PseudowireError::AtmSpecific(_)) => {
                discards.bad_length += 1;
                return;
            }
            Err(_) => {
                discards.bad_control_word += 1;
                return;
            }
        };
        let PacketContent::Cells(cells) = parsed.content else {
            return;
        };
        let verdict = self.sequence.receive(parsed.sequence);
        if verdict == SequenceVerdict::OutOfOrder {
            discards.out_of_order += 1;
            self.stale_in_a_row += 1;
            if self.stale_in_a_row >= Self::STALE_MAX {
                self.sequence = SequenceReceiver::new();
                self.stale_in_a_row = 0;
            }
            return;
        }
        self.stale_in_a_row = 0;
        if let SequenceVerdict::InOrder { missing } = verdict {
            self.counts.missing_datagrams += u64::from(missing);
        }
        let count = cells.len();
        self.segments.push_back(Segment {
            buffer: buffer as u8,
            at: (end - cells.octets().len()) as u32,
            cells: count as u32,
        });
        self.waiting += count;
        self.counts.received_datagrams += 1;
        self.counts.received_cells += count as u64;
        self.counts.heard = Some(self.looked);
    }

    /// Cells that wait, as the last look found them.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Cells ever taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// What was counted, with what the kernel counted at `now`, about the time, or not long before.
    pub fn report(&mut self, now: Time) -> UdpReport {
        if now.since_ns(self.drops_read) >= Self::DROPS_EVERY_NS {
            self.drops_read = now;
            if let Ok(memory) = socket_memory(&self.socket.socket) {
                // 32 bits in the kernel.
                self.counts.overflows += u64::from(memory.drops.wrapping_sub(self.drops));
                self.drops = memory.drops;
            }
        }
        self.counts
    }

    /// Shows the counters to other threads.
    pub(crate) fn publish(&self, counters: &QueueCounters) {
        counters.publish(
            self.taken + self.waiting as u64,
            self.taken,
            self.queued_max as u64,
        );
    }
}

/// Makes whole cells of what a datagram has of them.
fn fill(places: &mut [[u8; CELL_LEN_NO_HEC]], octets: &[u8], pseudowire: CellPseudowire) {
    let (mode, address) = (pseudowire.mode(), pseudowire.address());
    if let CellMode::NToOne { .. } = mode {
        places.as_flattened_mut().copy_from_slice(octets);
        return;
    }
    for (place, octets) in places.iter_mut().zip(octets.chunks_exact(mode.stride())) {
        if let Some(cell) = mode.parse_cell(address, octets) {
            *place = cell.emit_without_hec();
        }
    }
}
