//! OAM cells of a user VC (I.610): checked, policed on their own, and answered here where they ask
//! for it. They never enter a client's buffer and never break a PDU.

use serde::{Deserialize, Serialize};

use super::reassembly::{Reception, known};
use super::{Board, CellOutcome, Discard, Planted, Region, Work};
use crate::contract::{CellRate, Gcra};
use crate::wire::{CellFormat, Checked, Header, Loopback, Oam, PAYLOAD_LEN, Pti, VpiVci, hec};

/// OAM cells a second that a VC may send, whatever its contract: as many as a loopback test of
/// I.610 could want, and few enough to cost nothing.
const OAM_RATE: CellRate = CellRate::new(100).expect("not zero");
/// Ten OAM cells may come at once.
const OAM_LIMIT_NS: u64 = 90_000_000;

/// The policing of a VC's OAM cells.
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

    fn is_full(&self) -> bool {
        self.cells.len() == Self::MAX * Self::LEN
    }

    fn push(&mut self, header: Header, payload: &[u8; PAYLOAD_LEN]) {
        self.cells.extend_from_slice(&header.emit());
        self.cells.extend_from_slice(payload);
    }

    /// Moves up to `space` answers to the front of `out`; how many.
    pub(super) fn take(&mut self, space: usize, format: CellFormat, out: &mut [u8]) -> usize {
        let cells = self.cells.chunks_exact(Self::LEN);
        let mut count = 0;
        for (cell, out) in cells.take(space).zip(out.chunks_exact_mut(format.stride())) {
            let (header, payload) = cell.split_at(4);
            out[..4].copy_from_slice(header);
            if let (CellFormat::WithHec, [a, b, c, d]) = (format, header) {
                out[4] = hec([*a, *b, *c, *d]);
            }
            out[format.header_len()..].copy_from_slice(payload);
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

impl<R: Region, B: Board<Region = R>> Reception<'_, R, B> {
    /// Takes one cell that carries no user data.
    #[inline(never)]
    pub(super) fn oam(mut self, header: Header, cell: &[u8], replies: &mut Replies) {
        match self.answer(header, cell, replies) {
            Ok(()) => {
                self.stats.cells_answered += 1;
                known(self.cold).stats.cells_answered += 1;
                self.board.charge(Work::AnswerOam, 1);
                self.board.judged(CellOutcome::Answered, 1);
            }
            Err(reason) => self.discard(reason, 1),
        }
    }

    fn answer(
        &mut self,
        header: Header,
        cell: &[u8],
        replies: &mut Replies,
    ) -> Result<(), Discard> {
        let pti = header.pti();
        let payload = cell.last_chunk::<PAYLOAD_LEN>();
        let (Pti::OamSegment | Pti::OamEndToEnd, Some(payload)) = (pti, payload) else {
            return Err(Discard::NotUserData);
        };
        let Checked { value, crc_valid } = Oam::parse(payload);
        if !crc_valid && !self.board.planted(Planted::OamCrcNotChecked) {
            return Err(Discard::CrcError);
        }
        let arrival = self.arrival;
        if !known(self.cold).oam.police(arrival.now, arrival.earliest)
            && !self.board.planted(Planted::OamUnpoliced)
        {
            return Err(Discard::NonConforming);
        }
        let reply = self.reply(value).ok_or(Discard::NotUserData)?;
        if replies.is_full() {
            return Err(Discard::QueueFull);
        }
        let address = known(self.cold).request.address;
        replies.push(
            self.reply_header(address, pti),
            &Oam::Loopback(reply).emit(),
        );
        if self.board.planted(Planted::AnswersReversed) {
            replies.reverse();
        }
        Ok(())
    }

    /// The answer to an OAM cell that asks this end point for one.
    fn reply(&self, oam: Oam) -> Option<Loopback> {
        let Oam::Loopback(mut loopback) = oam else {
            return None;
        };
        loopback.request |= self.board.planted(Planted::AnswersAnswered);
        let mine = loopback.is_for_end_point(None)
            || loopback.request && self.board.planted(Planted::OthersLoopbackAnswered);
        let reply = loopback.reply().filter(|_| mine)?;
        let request = self.board.planted(Planted::IndicationKept);
        Some(Loopback { request, ..reply })
    }

    fn reply_header(&self, address: VpiVci, pti: Pti) -> Header {
        let pti = match pti {
            Pti::OamSegment if self.board.planted(Planted::AnswerInOtherFlow) => Pti::OamEndToEnd,
            pti => pti,
        };
        Header::new(address, pti, false)
    }
}
