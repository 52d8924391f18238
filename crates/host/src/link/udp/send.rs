use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use cellgate_core::Time;
use cellgate_core::wire::pseudowire::Sequence;
use cellgate_core::wire::{
    CELL_LEN_NO_HEC, Cell, CellMode, CellPseudowire, LABEL_ENTRY_LEN, Label, LabelEntry, VpiVci,
};
use quinn_udp::Transmit;

use super::socket::BatchSocket;
use super::{UdpError, UdpLink, UdpLinkError, UdpReport};
use crate::link::QueueCounters;

/// The sending end of a pseudowire: packs cells into datagrams, and sends these in batches.
///
/// It never waits. While the kernel takes nothing, a batch is kept; cells beyond it are dropped and
/// counted.
#[derive(Debug)]
pub struct UdpSender {
    socket: BatchSocket,
    pub(super) peer: SocketAddr,
    label: [u8; LABEL_ENTRY_LEN],
    pseudowire: CellPseudowire,
    sequence: Sequence,
    header_len: usize,
    /// How long a datagram that is not full waits.
    timer_ns: u64,
    /// When the one that is not full was begun, if a step has ended since.
    waits_since: Option<Time>,
    /// Octets of a cell in a datagram.
    stride: usize,
    /// Cells of a full datagram.
    datagram_cells: usize,
    /// Octets of a full datagram.
    datagram_len: usize,
    /// Datagrams that are full but for the last one, up to [`UdpSender::batch_len`] octets.
    batch: Vec<u8>,
    batch_len: usize,
    /// Octets at the start of the batch that are sent already.
    sent: usize,
    staged: usize,
    counts: UdpReport,
    /// When the last step ended.
    now: Time,
    /// When the kernel last refused a datagram.
    refused: Time,
}

impl UdpSender {
    /// Octets that the kernel takes in one call, in as many datagrams.
    const BATCH_LEN_MAX: usize = 65_507;
    /// Datagrams that every kernel with segmentation offload takes in one call.
    const BATCH_DATAGRAMS_MAX: usize = 64;
    /// A datagram that is sent so long after the last refusal ends the trouble: short ones pass
    /// where long ones are refused.
    const MENDED_NS: u64 = 1_000_000_000;
    /// Time to live of the label.
    const TTL: u8 = 255;

    /// Opens the sending end.
    ///
    /// # Errors
    /// The pseudowire cannot be, or the kernel refuses the socket.
    pub fn open(options: &UdpLink) -> Result<Self, UdpError> {
        options.check()?;
        let label = Label::new(options.label_out).ok_or(UdpLinkError::Label(options.label_out))?;
        let (header_len, cells) = (options.header_len(), options.packed());
        let mode = options.mode.mode();
        let datagram_len = header_len + cells * mode.stride();
        let datagrams = (Self::BATCH_LEN_MAX / datagram_len).clamp(1, Self::BATCH_DATAGRAMS_MAX);
        let batch_len = datagrams * datagram_len;
        Ok(Self {
            socket: BatchSocket::sending(options)?,
            peer: options.peer,
            label: LabelEntry::new(label, true, Self::TTL).emit(),
            pseudowire: options.mode,
            sequence: match mode.is_numbered() {
                true => Sequence::FIRST,
                false => Sequence::NONE,
            },
            header_len,
            timer_ns: options.timer_ns,
            waits_since: None,
            stride: mode.stride(),
            datagram_cells: cells,
            datagram_len,
            batch: Vec::with_capacity(batch_len),
            batch_len,
            sent: 0,
            staged: 0,
            counts: UdpReport::default(),
            now: Time::ZERO,
            refused: Time::ZERO,
        })
    }

    /// From where it sends.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn local_address(&self) -> std::io::Result<SocketAddr> {
        self.socket.socket.local_addr()
    }

    /// Cells of a batch.
    pub fn capacity(&self) -> usize {
        self.batch_len / self.datagram_len * self.datagram_cells
    }

    /// Cells that are taken now: those of a batch, less what waits in it.
    pub fn free(&self) -> usize {
        let left = self.batch_len - self.batch.len();
        let (datagrams, part) = (left / self.datagram_len, left % self.datagram_len);
        // A datagram that has been begun has its header.
        datagrams * self.datagram_cells + part / self.stride
    }

    /// Puts contiguous cells of 52 octets into datagrams; how many found room. They are sent when a
    /// batch is full, else by [`UdpSender::end_step`]. Cells of VCs that the pseudowire is not for
    /// are dropped.
    pub fn send(&mut self, cells: &[u8]) -> usize {
        let (cells, _) = cells.as_chunks::<CELL_LEN_NO_HEC>();
        if let CellMode::NToOne { .. } = self.pseudowire.mode() {
            return self.pack(cells);
        }
        let mut found = 0;
        for cell in cells {
            if self.pseudowire.carries(address_of(cell)) {
                found += self.pack(std::slice::from_ref(cell));
            } else {
                self.counts.foreign_cells += 1;
                self.counts.dropped_cells += 1;
            }
        }
        found
    }

    fn pack(&mut self, mut cells: &[[u8; CELL_LEN_NO_HEC]]) -> usize {
        let wanted = cells.len();
        while !cells.is_empty() {
            if self.batch.len() == self.batch_len && !self.flush() {
                break;
            }
            let begun = self.batch.len() % self.datagram_len;
            let room = match begun {
                0 => {
                    self.begin();
                    self.datagram_cells
                }
                _ => (self.datagram_len - begun) / self.stride,
            };
            let (now, later) = cells.split_at(room.min(cells.len()));
            self.put(now);
            self.staged += now.len();
            cells = later;
        }
        self.counts.dropped_cells += cells.len() as u64;
        wanted - cells.len()
    }

    /// Puts cells into a datagram that has room for them.
    fn put(&mut self, cells: &[[u8; CELL_LEN_NO_HEC]]) {
        match self.pseudowire.mode() {
            CellMode::NToOne { .. } => self.batch.extend_from_slice(cells.as_flattened()),
            mode => {
                for cell in cells {
                    let cell = Cell::parse_without_hec(cell);
                    self.batch.extend_from_slice(&mode.emit_cell(&cell));
                }
            }
        }
    }

    /// Begins a datagram.
    fn begin(&mut self) {
        self.waits_since = None;
        self.batch.extend_from_slice(&self.label);
        let header = self.pseudowire.mode().emit_header(self.sequence);
        self.batch.extend_from_slice(&header);
        self.sequence = self.sequence.next();
    }

    /// Ends a step at `now`: sends all datagrams that are full, and the last one too if it has
    /// waited for the timer.
    pub fn end_step(&mut self, now: Time) {
        self.now = now;
        let part = self.batch.len() % self.datagram_len;
        let since = *self.waits_since.get_or_insert(now);
        if part == 0 || now >= since.plus_ns(self.timer_ns) {
            self.flush();
        } else {
            self.send_up_to(self.batch.len() - part);
        }
    }

    /// When the datagram that is not full has waited for the timer; none: no such one waits, or the
    /// kernel took nothing.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let part = self.batch.len() % self.datagram_len;
        let waits = part > 0 && part == self.batch.len();
        let due = self.waits_since.filter(|_| waits)?.plus_ns(self.timer_ns);
        (due > self.now).then_some(due)
    }

    /// The socket, if it took nothing of what is to be sent.
    pub(crate) fn full_socket(&self) -> Option<BorrowedFd<'_>> {
        let full = self.staged > 0 && self.next_deadline().is_none();
        full.then(|| self.socket())
    }

    /// What it writes to.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.socket.as_fd()
    }

    /// Sends all that was put into datagrams; whether the kernel took it. What it did not take for
    /// want of room is kept; what it refused is dropped and counted.
    pub fn flush(&mut self) -> bool {
        self.send_up_to(self.batch.len())
    }

    /// The same for the first `end` octets of the batch, whole datagrams.
    fn send_up_to(&mut self, end: usize) -> bool {
        while self.sent < end {
            let together = self.socket.state.max_gso_segments();
            let len = together.max(1).saturating_mul(self.datagram_len);
            let rest = &self.batch[self.sent..end];
            let contents = &rest[..len.min(rest.len())];
            let datagrams = contents.len().div_ceil(self.datagram_len);
            let cells = (contents.len() - datagrams * self.header_len) / self.stride;
            let transmit = Transmit {
                destination: self.peer,
                ecn: None,
                contents,
                segment_size: (datagrams > 1).then_some(self.datagram_len),
                src_ip: None,
            };
            let (datagrams, cells) = (datagrams as u64, cells as u64);
            let result = self.socket.state.try_send(self.socket.as_ref(), &transmit);
            self.counts.send_calls += 1;
            match result {
                Ok(()) => {
                    if self.now.since_ns(self.refused) >= Self::MENDED_NS {
                        self.counts.last_refusal = None;
                    }
                    self.counts.sent_datagrams += datagrams;
                    self.counts.sent_cells += cells;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return false;
                }
                // Segmentation is not to be had on this way out: one by one from here on.
                Err(_) if datagrams > 1 && self.socket.state.max_gso_segments() < together => {
                    continue;
                }
                Err(error) => {
                    let errno = error.raw_os_error().unwrap_or(0);
                    self.counts.refusals.count(errno, datagrams);
                    self.counts.last_refusal = Some(errno);
                    self.refused = self.now;
                    self.counts.send_errors += datagrams;
                    self.counts.dropped_cells += cells;
                }
            }
            self.sent += contents.len();
            self.staged -= cells as usize;
        }
        self.batch.drain(..end);
        self.sent = 0;
        true
    }

    /// Cells that were put into datagrams and not sent yet.
    pub fn staged(&self) -> usize {
        self.staged
    }

    /// What was counted.
    pub fn report(&self) -> UdpReport {
        self.counts
    }

    /// Shows the counters to other threads.
    pub(crate) fn publish(&self, counters: &QueueCounters) {
        counters.publish(self.counts.sent_cells, self.counts.sent_cells, 0);
        counters.publish_dropped(self.counts.dropped_cells);
    }
}

/// Whose cell it is. On a UNI the adapter sends GFC 0.
fn address_of(cell: &[u8; CELL_LEN_NO_HEC]) -> VpiVci {
    VpiVci::from_bits(Cell::parse_without_hec(cell).header.word() >> 4)
}

impl Drop for UdpSender {
    /// What waits leaves.
    fn drop(&mut self) {
        self.flush();
    }
}
