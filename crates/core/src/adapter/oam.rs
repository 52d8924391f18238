//! OAM cells of VCs and of their paths (I.610): checked, policed on their own, and answered here
//! where they ask for it. They never enter a client's buffer and never break a PDU.

use serde::{Deserialize, Serialize};

use super::loopback::{Loopbacks, Route};
use super::reassembly::{Arrival, Reception, known};
use super::{Board, CellOutcome, Discard, OpenRequest, Planted, Region, Work};
use crate::contract::{CellRate, Gcra};
use crate::wire::{CellFormat, Checked, Header, Loopback, Oam, OamFlow, PAYLOAD_LEN, Pti, hec};

/// OAM cells a second that a VC or a path may send, whatever its contract: as many as a loopback
/// test of I.610 could want, and few enough to cost nothing.
const OAM_RATE: CellRate = CellRate::new(100).expect("not zero");
/// Ten OAM cells may come at once.
const OAM_LIMIT_NS: u64 = 90_000_000;

/// The policing of the OAM cells of a VC or a path.
pub(super) const fn police() -> Gcra {
    Gcra::new(OAM_RATE, OAM_LIMIT_NS)
}

/// Answers that wait for a port's next turn to transmit.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Replies {
    /// Cells without HEC, one after the other.
    cells: Vec<u8>,
}

impl Replies {
    /// Answers that can wait on one port.
    const MAX: usize = 16;
    const LEN: usize = CellFormat::NoHec.stride();

    pub(super) fn new() -> Self {
        Self {
            cells: Vec::with_capacity(Self::MAX * Self::LEN),
        }
    }

    /// Whether no answer waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.cells.len() == Self::MAX * Self::LEN
    }

    pub(super) fn push(&mut self, header: Header, payload: &[u8; PAYLOAD_LEN]) {
        self.cells.extend_from_slice(&header.emit());
        self.cells.extend_from_slice(payload);
    }

    /// Moves up to `space` answers to the front of `out`; how many.
    pub(super) fn take(&mut self, space: usize, format: CellFormat, out: &mut [u8]) -> usize {
        let cells = self.cells.chunks_exact(Self::LEN);
        let mut count = 0;
        for (cell, out) in cells.take(space).zip(out.chunks_exact_mut(format.stride())) {
            if let (Some(header), Some(payload)) = (cell.first_chunk(), cell.last_chunk()) {
                emit(*header, payload, format, out);
            }
            count += 1;
        }
        self.cells.drain(..count * Self::LEN);
        count
    }

    /// Turns the order of the answers round, as no adapter should.
    pub(super) fn reverse(&mut self) {
        let reversed: Vec<u8> = self
            .cells
            .chunks_exact(Self::LEN)
            .rev()
            .flatten()
            .copied()
            .collect();
        self.cells = reversed;
    }
}

/// Writes a cell to `out`, which is one cell long.
pub(super) fn emit(
    header: [u8; 4],
    payload: &[u8; PAYLOAD_LEN],
    format: CellFormat,
    out: &mut [u8],
) {
    let (front, back) = out.split_at_mut(format.header_len());
    front[..4].copy_from_slice(&header);
    if format == CellFormat::WithHec {
        front[4] = hec(header);
    }
    back.copy_from_slice(payload);
}

/// What a port does about OAM cells.
pub(super) struct Desk<'a, B> {
    pub(super) arrival: Arrival,
    pub(super) replies: &'a mut Replies,
    pub(super) loopbacks: &'a mut Loopbacks,
    pub(super) board: &'a B,
}

impl<B: Board> Desk<'_, B> {
    /// Answers a loopback cell, or takes one of the adapter's own back.
    pub(super) fn take(
        &mut self,
        route: Route,
        police: &mut Gcra,
        cell: &[u8],
    ) -> Result<(), Discard> {
        let payload = cell.last_chunk::<PAYLOAD_LEN>();
        let Some(Checked { value, crc_valid }) = payload.map(Oam::parse) else {
            return Err(Discard::NotUserData);
        };
        if !crc_valid && !self.board.planted(Planted::OamCrcNotChecked) {
            return Err(Discard::CrcError);
        }
        let Arrival { now, earliest, .. } = self.arrival;
        let unpoliced = self.board.planted(Planted::OamUnpoliced)
            || route.flow.is_f4() && self.board.planted(Planted::PathUnpoliced);
        if !police.police(now, earliest) && !unpoliced {
            return Err(Discard::NonConforming);
        }
        let Oam::Loopback(loopback) = value else {
            return Err(Discard::NotUserData);
        };
        let returns = !loopback.request || self.board.planted(Planted::RequestTakenBack);
        let tag = loopback.correlation_tag;
        if returns && self.loopbacks.take_back(now, route, tag, self.board) {
            return Ok(());
        }
        let reply = self.reply(loopback).ok_or(Discard::NotUserData)?;
        self.answer(route, reply)
    }

    fn answer(&mut self, route: Route, reply: Loopback) -> Result<(), Discard> {
        if self.replies.is_full() {
            return Err(Discard::QueueFull);
        }
        let flow = match route.flow {
            OamFlow::F5Segment if self.board.planted(Planted::AnswerInOtherFlow) => {
                OamFlow::F5EndToEnd
            }
            flow => flow,
        };
        let header = flow.header(route.address);
        self.replies.push(header, &Oam::Loopback(reply).emit());
        if self.board.planted(Planted::AnswersReversed) {
            self.replies.reverse();
        }
        Ok(())
    }

    /// The answer to a loopback cell that asks this end point for one.
    fn reply(&self, mut loopback: Loopback) -> Option<Loopback> {
        loopback.request |= self.board.planted(Planted::AnswersAnswered);
        let mine = loopback.is_for_end_point(None)
            || loopback.request && self.board.planted(Planted::OthersLoopbackAnswered);
        let reply = loopback.reply().filter(|_| mine)?;
        let request = self.board.planted(Planted::IndicationKept);
        Some(Loopback { request, ..reply })
    }
}

impl<R: Region, B: Board<Region = R>> Reception<'_, R, B> {
    /// Takes one cell that carries no user data. It came on the VC's port.
    #[inline(never)]
    pub(super) fn oam(
        mut self,
        header: Header,
        cell: &[u8],
        replies: &mut Replies,
        loopbacks: &mut Loopbacks,
    ) {
        let rm = (header.pti() == Pti::ResourceManagement)
            .then(|| self.rm(cell))
            .flatten();
        let cold = known(self.cold);
        let OpenRequest { address, port, .. } = cold.request;
        let taken = rm.unwrap_or_else(|| {
            OamFlow::of_pti(header.pti())
                .ok_or(Discard::NotUserData)
                .and_then(|flow| {
                    let route = Route {
                        port,
                        address,
                        flow,
                    };
                    let mut desk = Desk {
                        arrival: self.arrival,
                        replies,
                        loopbacks,
                        board: &*self.board,
                    };
                    desk.take(route, &mut cold.oam, cell)
                })
        });
        match taken {
            Ok(()) => {
                self.stats.cells_answered += 1;
                cold.stats.cells_answered += 1;
                self.board.charge(Work::AnswerOam, 1);
                self.board.judged(CellOutcome::Answered, 1);
            }
            Err(reason) => self.discard(reason, 1),
        }
    }
}
