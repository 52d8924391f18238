//! The cell level: SAR, CPCS and CRC in the terminal, over a connection of AAL0, or over a line
//! that this process owns, as the paper's PC owned its board.

use std::time::Duration;

use cellgate::{Connection, Error};
use cellgate_core::Time;
use cellgate_core::terminal::{
    Board, CellPayload, Exchange, Kernel, RateTimer, STEP_CELLS, Source, Store, Variant,
};
use cellgate_core::wire::{CELL_LEN_NO_HEC, Header, HeaderForm, PAYLOAD_LEN, Pti, VpiVci};
use cellgate_simd::{Fold, with_features};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::port::Looked;
use crate::link::udp::{UdpReceiver, UdpSender};

/// Steps of the kernel in one look.
const STEPS: usize = 16;
/// Cells that wait in memory between a line and the kernel.
const BATCH: usize = STEPS * STEP_CELLS;

/// A line that this process owns.
pub struct OwnedLine {
    kernel: Kernel,
    ends: Ends,
}

/// The line's ends, as the kernel's board.
struct Ends {
    receiver: UdpReceiver,
    sender: UdpSender,
    address: VpiVci,
    /// Cells that were taken from the line, and how many of them the kernel has.
    came: Vec<u8>,
    taken: usize,
    read: usize,
    /// Cells for the line.
    goes: Vec<u8>,
}

impl OwnedLine {
    /// Cells of `address` over these ends, at most as fast as `timer` says.
    pub fn new(
        receiver: UdpReceiver,
        sender: UdpSender,
        address: VpiVci,
        timer: Option<RateTimer>,
    ) -> Self {
        Self {
            kernel: Kernel::new(Variant::default(), timer),
            ends: Ends {
                receiver,
                sender,
                address,
                came: vec![0; BATCH * CELL_LEN_NO_HEC],
                taken: 0,
                read: 0,
                goes: Vec::with_capacity(BATCH * CELL_LEN_NO_HEC),
            },
        }
    }

    /// Hands what has come to the exchange, and to the line what the exchange has to send.
    pub(super) fn look<F: Source, S: Store>(
        &mut self,
        now: Time,
        exchange: &mut Exchange<F, S>,
    ) -> Looked {
        let Self { kernel, ends } = self;
        ends.receiver.poll(now);
        ends.taken = ends.receiver.take(&mut ends.came);
        ends.read = 0;
        let looked = with_features(Steps {
            kernel,
            now,
            exchange,
            board: ends,
        });
        ends.sender.send(&ends.goes);
        ends.goes.clear();
        ends.sender.end_step(now);
        looked
    }

    /// Waits until something comes, the next tick if `waits`, or `until`.
    pub(super) fn wait(&mut self, now: Time, waits: bool, until: Time) {
        let tick = self.kernel.next_tick();
        let ends = [
            Some(until),
            tick.filter(|_| waits),
            self.ends.sender.next_deadline(),
        ];
        let until = ends.into_iter().flatten().min().unwrap_or(until);
        let left = Duration::from_nanos(until.since_ns(now));
        let timeout = Timespec::try_from(left).ok();
        let socket = self.ends.receiver.socket();
        // A wait that a signal ends is over.
        let _ = poll(
            &mut [PollFd::from_borrowed_fd(socket, PollFlags::IN)],
            timeout.as_ref(),
        );
        self.ends.receiver.resume();
    }
}

impl Board for Ends {
    #[inline(always)]
    fn receive(&mut self) -> Option<CellPayload> {
        let (cells, _) = self.came.as_chunks::<CELL_LEN_NO_HEC>();
        while self.read < self.taken {
            let cell = cells.get(self.read)?;
            self.read += 1;
            if let Some(cell) = payload(self.address, cell) {
                return Some(cell);
            }
        }
        None
    }

    #[inline(always)]
    fn transmit(&mut self, cell: &CellPayload) -> bool {
        let staged = self.goes.len() / CELL_LEN_NO_HEC;
        let is_taken = staged < self.sender.free().min(BATCH);
        if is_taken {
            self.goes.extend_from_slice(&header(self.address, cell));
            self.goes.extend_from_slice(&cell.octets);
        }
        is_taken
    }
}

/// A connection of AAL0, over which the terminal sends cells.
pub struct CellConnection {
    kernel: Kernel,
    pub(super) connection: Connection,
    address: VpiVci,
}

impl CellConnection {
    pub fn new(connection: Connection) -> Self {
        Self {
            kernel: Kernel::new(Variant::default(), None),
            address: connection.address().vc,
            connection,
        }
    }

    /// Hands the cells that have come to the exchange, and to the connection what it has to send.
    pub(super) fn look<F: Source, S: Store>(
        &mut self,
        now: Time,
        exchange: &mut Exchange<F, S>,
    ) -> Result<Looked, Error> {
        let mut cells = Cells {
            connection: &self.connection,
            address: self.address,
            error: None,
        };
        let looked = with_features(Steps {
            kernel: &mut self.kernel,
            now,
            exchange,
            board: &mut cells,
        });
        cells.error.map_or(Ok(looked), Err)
    }
}

/// A connection of AAL0, as the kernel's board.
struct Cells<'a> {
    connection: &'a Connection,
    address: VpiVci,
    /// Why it takes or gives no more, if it is not that it would have to wait.
    error: Option<Error>,
}

impl Board for Cells<'_> {
    #[inline(always)]
    fn receive(&mut self) -> Option<CellPayload> {
        loop {
            match self.connection.try_next_pdu() {
                Ok(pdu) => {
                    if let Some(cell) = pdu
                        .first_chunk()
                        .and_then(|cell| payload(self.address, cell))
                    {
                        return Some(cell);
                    }
                }
                Err(Error::WouldBlock(_)) => return None,
                Err(error) => {
                    self.error.get_or_insert(error);
                    return None;
                }
            }
        }
    }

    fn transmit(&mut self, cell: &CellPayload) -> bool {
        let mut space = match self.connection.try_reserve(CELL_LEN_NO_HEC) {
            Ok(space) => space,
            Err(Error::WouldBlock(_)) => return false,
            Err(error) => {
                self.error.get_or_insert(error);
                return false;
            }
        };
        let (before, octets) = space.split_at_mut(CELL_LEN_NO_HEC - PAYLOAD_LEN);
        before.copy_from_slice(&header(self.address, cell));
        octets.copy_from_slice(&cell.octets);
        // What was written and has no place any more is lost, as cells can be.
        if let Err(error) = space.submit()
            && !matches!(error, Error::SpaceLost)
        {
            self.error.get_or_insert(error);
        }
        true
    }
}

/// The payload of a cell; none if it is of another address, or no user's.
#[inline(always)]
fn payload(address: VpiVci, cell: &[u8; CELL_LEN_NO_HEC]) -> Option<CellPayload> {
    let (header, octets) = cell.split_first_chunk()?;
    let header = Header::parse(*header);
    // A GFC is no part of the address.
    let form = if address.vpi() < 256 {
        HeaderForm::Uni
    } else {
        HeaderForm::Nni
    };
    let is_ours = header.address(form) == address && header.word() & Header::NOT_USER == 0;
    is_ours.then_some(CellPayload {
        octets: *octets.first_chunk()?,
        last: header.is_last(),
    })
}

#[inline(always)]
fn header(address: VpiVci, cell: &CellPayload) -> [u8; CELL_LEN_NO_HEC - PAYLOAD_LEN] {
    Header::new(address, Pti::from_bits(u8::from(cell.last)), false).emit()
}

/// Steps of a kernel, as many as there is work for.
struct Steps<'a, B, F, S> {
    kernel: &'a mut Kernel,
    now: Time,
    exchange: &'a mut Exchange<F, S>,
    board: &'a mut B,
}

impl<B: Board, F: Source, S: Store> cellgate_simd::Kernel for Steps<'_, B, F, S> {
    type Output = Looked;

    #[inline(always)]
    fn run<C: Fold>(self, fold: C) -> Looked {
        let mut looked = Looked::default();
        for _ in 0..STEPS {
            let stepped = self.kernel.step(fold, self.now, self.exchange, self.board);
            looked.is_busy |= stepped.received + stepped.sent > 0;
            looked.waits = stepped.has_more;
            if !stepped.has_more {
                break;
            }
        }
        looked
    }
}
