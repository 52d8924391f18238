//! `receive()`: cells from the FIFO of one port to their VCs.

use cellgate_simd::{Fold, Kernel};

use super::abr::Wanting;
use super::clients::Clients;
use super::loopback::Loopbacks;
use super::oam::Replies;
use super::paths::Paths;
use super::reassembly::{Arrival, Reception};
use super::table::{Entry, Table};
use super::timeouts::Timeouts;
use super::vc::{Cold, Framing, Tell, Vc, touched};
use super::{
    AdapterStats, Attachment, Board, CellOutcome, Discard, Planted, PortIndex, Region, Work,
};
use crate::aal::Memory;
use crate::wire::{
    CELL_LEN, CELL_LEN_NO_HEC, CellFormat, Header, HeaderForm, HecReceiver, HecVerdict,
    PAYLOAD_LEN, VpiVci,
};

/// The VCs whose state was asked for and whose payloads were not.
#[derive(Default)]
struct Ahead {
    vcs: [u16; Self::PAYLOAD],
    turn: usize,
}

impl Ahead {
    /// Runs between a VC's state and the place of its payload.
    const PAYLOAD: usize = 16;
    /// Cells from the run in hand to the one whose state is asked for.
    const CELLS: usize = 2 * Self::PAYLOAD;

    /// Keeps `vc`, and gives the one that was kept the longest.
    #[inline(always)]
    fn exchange(&mut self, vc: usize) -> usize {
        self.turn = (self.turn + 1) % Self::PAYLOAD;
        core::mem::replace(&mut self.vcs[self.turn], vc as u16).into()
    }
}

/// What became of cells with one header.
enum Taken {
    /// A VC takes them.
    Open,
    /// All of them were discarded.
    Discarded,
    /// Nothing yet: no VC receives them, but they can be more than strangers.
    Strays,
}

/// The cells taken from one port in one step, and all they can touch.
pub(super) struct Batch<'a, R, A, B> {
    pub(super) table: &'a mut Table,
    pub(super) vcs: &'a mut [Option<Vc<R>>],
    pub(super) cold: &'a mut [Option<Cold>],
    /// Cells of each VC discarded since it began to discard until the last of a PDU.
    pub(super) skipped: &'a mut [u32],
    pub(super) clients: &'a mut Clients<A>,
    pub(super) stats: &'a mut AdapterStats,
    /// The address of the last cell that no VC was open for.
    pub(super) unknown: &'a mut Option<VpiVci>,
    pub(super) hec: &'a mut HecReceiver,
    pub(super) replies: &'a mut Replies,
    pub(super) paths: &'a mut Paths,
    pub(super) loopbacks: &'a mut Loopbacks,
    pub(super) timeouts: &'a mut Timeouts,
    pub(super) wanting: &'a mut Wanting,
    pub(super) board: &'a mut B,
    pub(super) form: HeaderForm,
    pub(super) port: PortIndex,
    pub(super) format: CellFormat,
    pub(super) arrival: Arrival,
    pub(super) cells: &'a mut [u8],
}

impl<R, A, B> Kernel for Batch<'_, R, A, B>
where
    R: Region,
    A: Attachment,
    B: Board<Region = R, Attachment = A>,
{
    type Output = ();

    #[inline(always)]
    fn run<F: Fold>(mut self, fold: F) {
        match self.format {
            CellFormat::NoHec => self.without_hec(fold),
            CellFormat::WithHec => self.with_hec(fold),
        }
    }
}

impl<R, A, B> Batch<'_, R, A, B>
where
    R: Region,
    A: Attachment,
    B: Board<Region = R, Attachment = A>,
{
    #[inline(always)]
    fn without_hec<F: Fold>(&mut self, fold: F) {
        let cells = core::mem::take(&mut self.cells);
        let (cells, _) = cells.as_chunks::<CELL_LEN_NO_HEC>();
        let mut ahead = Ahead::default();
        let mut at = 0;
        while let Some((cell, behind)) = cells.get(at..).and_then(<[_]>::split_first) {
            let [a, b, c, d, ..] = *cell;
            let header = [a, b, c, d];
            let mut count = 1;
            while behind.get(count - 1).and_then(|cell| cell.first_chunk()) == Some(&header) {
                count += 1;
            }
            let run = &cells[at..at + count];
            let parsed = Header::parse(header);
            let run = run.as_flattened();
            match self.take_run(fold, parsed, run, count as u32, CellFormat::NoHec) {
                Taken::Open => self.look_ahead(fold, &mut ahead, header, &behind[count - 1..]),
                // A flood that is discarded is not worth a look at what comes behind it.
                Taken::Discarded => {}
                // From all cells once more: nothing is to be kept in a register for this.
                Taken::Strays => self.apart().take_strays(cells, at, count),
            }
            at += count;
        }
    }

    /// As [`Batch::without_hec`]. A header equal to a valid one is valid: the check, too, is made
    /// once a run.
    #[inline(always)]
    fn with_hec<F: Fold>(&mut self, fold: F) {
        let mut rest = core::mem::take(&mut self.cells);
        while let Some(octets) = rest.first_chunk_mut::<5>() {
            let [a, b, c, d, _] = *octets;
            let received = Header::parse([a, b, c, d]);
            let verdict = self.hec.receive(octets);
            let octets = *octets;
            let [a, b, c, d, _] = octets;
            let mut header = Header::parse([a, b, c, d]);
            let count = match verdict {
                HecVerdict::Valid => run_length::<CELL_LEN, 5>(rest, octets),
                HecVerdict::Corrected { .. } | HecVerdict::Discard => 1,
            };
            if self.board.planted(Planted::CorrectedHeaderIgnored) {
                header = received;
            }
            let (run, behind) = rest.split_at_mut(count * CELL_LEN);
            if verdict == HecVerdict::Discard {
                self.discard(Discard::HecError, 1);
            } else {
                let taken = self.take_run(fold, header, run, count as u32, CellFormat::WithHec);
                if let Taken::Strays = taken {
                    let (run, _) = run.as_chunks::<CELL_LEN>();
                    self.apart().take_strays(run, 0, count);
                }
            }
            rest = behind;
        }
    }

    /// Brings nearer what the cells to come will touch, if they are of other VCs than the run in
    /// hand: a VC's state first, and when that must be here, where its next payload goes.
    #[inline(always)]
    fn look_ahead<F: Fold>(
        &mut self,
        fold: F,
        ahead: &mut Ahead,
        run: [u8; 4],
        behind: &[[u8; CELL_LEN_NO_HEC]],
    ) {
        let Some(&far) = behind.get(Ahead::CELLS).and_then(|cell| cell.first_chunk()) else {
            return;
        };
        if far == run {
            return;
        }
        let far = Header::parse(far);
        let address = far.address(self.form);
        let entry = self.table.lookup(self.port, address);
        if !entry.is_accepting() {
            return;
        }
        let index = usize::from(entry.vc().0);
        if let Some(vc) = self.vcs.get(index) {
            fold.prefetch_value(vc, touched(far.is_last()));
        }
        if let Some(Some(vc)) = self.vcs.get_mut(ahead.exchange(index)) {
            let offset = vc.receiver.next_payload();
            vc.region.receive_buffer().prefetch(offset);
        }
    }

    /// Takes `count` cells with one header, unless they are strays.
    #[inline(always)]
    fn take_run<F: Fold>(
        &mut self,
        fold: F,
        header: Header,
        cells: &[u8],
        count: u32,
        format: CellFormat,
    ) -> Taken {
        // A constant where this is inlined.
        self.format = format;
        self.board.charge(Work::Lookup, 1);
        let form = if self.board.planted(Planted::GfcInAddress) {
            HeaderForm::Nni
        } else {
            self.form
        };
        let address = header.address(form);
        let mut entry = self.table.lookup(self.port, address);
        if self.board.planted(Planted::WrongPortAccepted) && !entry.is_open() {
            entry = self.table.lookup(PortIndex(0), address);
        }
        if !entry.is_open() {
            if entry.has_known_strays()
                || self.board.planted(Planted::TransmitterOnAnyPort)
                || self.board.planted(Planted::UnknownVcTold)
            {
                return Taken::Strays;
            }
            // Not by `discard`, which looks whether there are any.
            *self.unknown = Some(address);
            let unknown = Discard::UnknownVc;
            self.stats.cells_discarded.add(unknown, count.into());
            self.board.charge(Work::DiscardCells, count);
            self.board.judged(CellOutcome::Discarded(unknown), count);
            return Taken::Discarded;
        }
        if let Some(reason) = entry.discarding() {
            self.take_run_discarding(fold, header, cells, count, entry, reason);
            Taken::Discarded
        } else {
            self.take_run_open(fold, header, cells, count, entry);
            Taken::Open
        }
    }

    #[inline(always)]
    fn take_run_open<F: Fold>(
        &mut self,
        fold: F,
        header: Header,
        cells: &[u8],
        count: u32,
        entry: Entry,
    ) {
        let index = usize::from(entry.vc().0);
        let (Some(Some(vc)), Some(cold)) = (self.vcs.get_mut(index), self.cold.get_mut(index))
        else {
            // The table names open VCs only.
            self.discard(Discard::UnknownVc, count);
            return;
        };
        let user =
            header.word() & Header::NOT_USER == 0 || self.board.planted(Planted::OamIntoBuffer);
        if !user || vc.receiver.flags.framing != Framing::Aal5 {
            return self.take_run_apart(fold, header, cells, count, (index, user));
        }
        let is_last = header.word() & Header::LAST != 0;
        let held = (&mut *vc, &mut *self.stats, &mut *self.board);
        if !is_last && count == 1 && hold_one(held, fold, header, cells, self.format) {
            return;
        }
        let mut reception = Reception {
            table: self.table,
            clients: self.clients,
            stats: self.stats,
            vc,
            cold,
            arrival: self.arrival,
            format: self.format,
            board: self.board,
        };
        match is_last {
            true => reception.lasts(fold, header, cells),
            false => reception.middle(fold, header, cells, count),
        }
    }

    /// Takes cells of the VC `index` that are not the user data of a plain AAL5 VC; `user`: they
    /// are user data of another kind.
    #[inline(never)]
    fn take_run_apart<F: Fold>(
        &mut self,
        fold: F,
        header: Header,
        cells: &[u8],
        count: u32,
        (index, user): (usize, bool),
    ) {
        let (Some(Some(vc)), Some(cold)) = (self.vcs.get_mut(index), self.cold.get_mut(index))
        else {
            return;
        };
        let framing = vc.receiver.flags.framing;
        let mut reception = Reception {
            table: self.table,
            clients: self.clients,
            stats: self.stats,
            vc,
            cold,
            arrival: self.arrival,
            format: self.format,
            board: self.board,
        };
        if framing == Framing::Abr && user {
            if reception.available(fold, header, cells, count) {
                self.touch(index);
            }
            return;
        }
        for cell in cells.chunks_exact(self.format.stride()) {
            let reception = reception.apart();
            match framing {
                Framing::Aal0 => reception.aal0(header, cell),
                _ if !user => reception.oam(header, cell, self.replies, self.loopbacks),
                _ => reception.aal34(header, cell, self.timeouts),
            }
        }
        if framing == Framing::Abr {
            self.touch(index);
        }
    }

    /// Cells of a VC that discards until the last of a PDU. The VC's own lines stay untouched.
    #[inline(always)]
    fn take_run_discarding<F: Fold>(
        &mut self,
        fold: F,
        header: Header,
        cells: &[u8],
        count: u32,
        entry: Entry,
        reason: Discard,
    ) {
        if header.word() & Header::NOT_USER != 0 {
            self.take_run_open(fold, header, cells, count, entry);
            return;
        }
        if self.board.planted(Planted::RefusedReopens) && count > 1 {
            self.set_accepting(entry, reason, 0);
            self.take_run_open(fold, header, cells, count, entry);
            return;
        }
        let index = usize::from(entry.vc().0);
        if !header.is_last() {
            self.skip(index, reason, count);
            return;
        }
        // The first ends the PDU that is being discarded, the others are PDUs of their own.
        if self.board.planted(Planted::RefusedStaysRefused) {
            self.skip(index, reason, count);
            return;
        }
        let (first, further) = if self.board.planted(Planted::LastOfRefusedStored) {
            (0, cells)
        } else {
            (1, &cells[self.format.stride()..])
        };
        self.set_accepting(entry, reason, first);
        if !further.is_empty() {
            self.take_run_open(fold, header, further, count - first, entry);
        }
    }

    /// Ends the discarding of a VC, `last` cells more included, and counts it there.
    #[inline(always)]
    fn set_accepting(&mut self, entry: Entry, reason: Discard, last: u32) {
        let index = usize::from(entry.vc().0);
        if let (Some(Some(cold)), Some(skipped)) =
            (self.cold.get_mut(index), self.skipped.get_mut(index))
        {
            self.table.set_discarding(cold.slot, None);
            let cells = u64::from(core::mem::take(skipped)) + u64::from(last);
            cold.stats.cells_discarded.add(reason, cells);
        }
        self.discard(reason, last);
    }

    #[inline(always)]
    fn skip(&mut self, index: usize, reason: Discard, count: u32) {
        if let Some(skipped) = self.skipped.get_mut(index) {
            if let Some(sum) = skipped.checked_add(count) {
                *skipped = sum;
            } else {
                let full = core::mem::replace(skipped, count);
                self.bank(index, reason, full);
            }
        }
        self.discard(reason, count);
    }

    /// Counts `cells` skipped ones where they are kept for good.
    #[cold]
    fn bank(&mut self, index: usize, reason: Discard, cells: u32) {
        if let Some(Some(cold)) = self.cold.get_mut(index) {
            cold.stats.cells_discarded.add(reason, cells.into());
        }
    }

    #[inline(always)]
    pub(super) fn discard(&mut self, reason: Discard, count: u32) {
        if count == 0 {
            return;
        }
        self.stats.cells_discarded.add(reason, count.into());
        self.board.charge(Work::DiscardCells, count);
        self.board.judged(CellOutcome::Discarded(reason), count);
    }
}

/// How many of the cells at the front of `cells` begin with `header`; the first does.
#[inline(always)]
fn run_length<const STRIDE: usize, const HEADER: usize>(
    cells: &[u8],
    header: [u8; HEADER],
) -> usize {
    let (cells, _) = cells.as_chunks::<STRIDE>();
    1 + cells[1.min(cells.len())..]
        .iter()
        .take_while(|cell| cell.first_chunk::<HEADER>() == Some(&header))
        .count()
}

/// Takes one cell into a PDU in progress, if there is nothing but to hold it. Where cells of many
/// VCs come in turn this is the way of most, and no [`Reception`] has to be put together for them.
#[inline(always)]
fn hold_one<F: Fold, R: Region, B: Board>(
    (vc, stats, board): (&mut Vc<R>, &mut AdapterStats, &mut B),
    fold: F,
    header: Header,
    cell: &[u8],
    format: CellFormat,
) -> bool {
    let receiver = &mut vc.receiver;
    let held = receiver.reassembler.cells();
    let end = receiver.position + (u64::from(held) + 1) * PAYLOAD_LEN as u64;
    if !receiver.receiving()
        || receiver.flags.tell != Tell::Nothing
        || held >= receiver.pdu_bounds.max_cells
        || end > receiver.limit
    {
        return false;
    }
    receiver.cells_clp1 += u16::from(header.clp());
    let (buffer, offset) = (vc.region.receive_buffer(), receiver.offset as usize);
    // Of a length that is known where this is compiled.
    let cell = &cell[..format.stride()];
    receiver
        .reassembler
        .push(fold, buffer, offset, cell, format);
    stats.cells_held += 1;
    board.charge(Work::ReceiveCells, 1);
    board.judged(CellOutcome::Accepted, 1);
    true
}
