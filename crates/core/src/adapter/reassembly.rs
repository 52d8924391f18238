//! Reception on one VC: police, find room, reassemble, deliver.

use cellgate_simd::Fold;

use super::aal0::Ends;
use super::clients::{Clients, Notice, Urgency};
use super::table::Table;
use super::vc::{Cold, PDU_ALIGN, Standing, Tell, Vc, align_pdu};
use super::{
    AdapterStats, Board, CellOutcome, Discard, Event, EventKind, Excess, Notification, PduEnd,
    Planted, Region, Work,
};
use crate::Time;
use crate::aal::{Memory, aal5};
use crate::queue::{ReceiveDescriptor, Words};
use crate::wire::{CellFormat, Header, PAYLOAD_LEN, Trailer};

/// When the cells in hand arrived: not before `earliest`, not after `now`; and whether more come
/// than the adapter can take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) now: Time,
    pub(super) earliest: Time,
    pub(super) overloaded: bool,
}

/// One VC with all that reception on it touches.
pub(super) struct Reception<'a, R, B: Board> {
    pub(super) table: &'a mut Table,
    pub(super) clients: &'a mut Clients<B::Attachment>,
    pub(super) stats: &'a mut AdapterStats,
    pub(super) vc: &'a mut Vc<R>,
    /// Of the same VC. It is looked at once a PDU: its lines stay out of the cache until then.
    pub(super) cold: &'a mut Option<Cold>,
    pub(super) arrival: Arrival,
    pub(super) format: CellFormat,
    pub(super) board: &'a mut B,
}

/// What its last cell says of a PDU.
pub(super) type Judged = Result<aal5::Sdu, aal5::Error>;

/// The half of a VC that is seldom touched.
#[inline(always)]
pub(super) fn known(cold: &mut Option<Cold>) -> &mut Cold {
    cold.as_mut()
        .expect("opening a VC makes both of its halves")
}

impl<R: Region, B: Board<Region = R>> Reception<'_, R, B> {
    /// The same, for a function that is called and not inlined: a reception whose address no call
    /// has seen lives in registers.
    #[inline(always)]
    pub(super) fn apart(&mut self) -> Reception<'_, R, B> {
        Reception {
            table: self.table,
            clients: self.clients,
            stats: self.stats,
            vc: self.vc,
            cold: self.cold,
            arrival: self.arrival,
            format: self.format,
            board: self.board,
        }
    }

    /// Takes `count` cells with one header that does not end a PDU.
    #[inline(always)]
    pub(super) fn middle<F: Fold>(&mut self, fold: F, header: Header, cells: &[u8], count: u32) {
        if !self.vc.receiver.receiving() {
            if let Err(reason) = self.begin(header) {
                self.refuse(reason);
                self.set_discarding(Some(reason));
                self.discard(reason, count);
                return;
            }
            if !self.board.planted(Planted::CrcStateKept) {
                let buffer = self.vc.region.receive_buffer();
                self.vc.receiver.reassembler.start(fold, buffer);
            }
        }
        let (fitting, reason) = self.fitting(count);
        self.vc.receiver.cells_clp1 += u16::from(header.clp()) * fitting as u16;
        if reason.is_none() {
            self.take(fold, cells, count);
            self.tell_progress(count);
            return;
        }
        if fitting > 0 {
            let octets = fitting as usize * self.format.stride();
            self.take(fold, &cells[..octets], fitting);
            self.tell_progress(fitting);
        }
        if let Some(reason) = reason {
            self.apart().fail(reason, count - fitting);
            self.set_discarding(Some(reason));
        }
    }

    /// Takes one cell that ends a PDU.
    #[inline(always)]
    pub(super) fn last<F: Fold>(&mut self, fold: F, header: Header, cell: &[u8]) {
        if !self.vc.receiver.receiving() {
            if let Err(reason) = self.begin(header) {
                self.refuse(reason);
                self.discard(reason, 1);
                return;
            }
            // Every PDU may have one cell, and `begin` has found room for it.
            self.vc.receiver.cells_clp1 += u16::from(header.clp());
            self.take_only(fold, header, cell);
            return;
        }
        if let (0, Some(reason)) = self.fitting(1) {
            self.apart().fail(reason, 1);
            return;
        }
        if self.board.planted(Planted::ClpOfLastCell) {
            self.vc.receiver.cells_clp1 = 0;
        }
        self.vc.receiver.cells_clp1 += u16::from(header.clp());
        self.take_last(fold, cell);
        self.finish(fold, header);
    }

    /// Judges the first cell of a PDU.
    #[inline(always)]
    pub(super) fn begin(&mut self, header: Header) -> Result<(), Discard> {
        if self.arrival.overloaded && self.apart().gives_way(header.clp()) {
            return Err(Discard::Overload);
        }
        let standing = self.police(header.clp());
        if standing == Standing::None {
            if self.board.planted(Planted::RefusedCharged) {
                self.vc.receiver.charge(1);
            }
            return Err(Discard::NonConforming);
        }
        self.find_room()?;
        self.vc.receiver.flags.standing = standing;
        self.catch_up(self.earliest());
        if standing == Standing::Lent && !self.board.planted(Planted::LeaseNotCounted) {
            known(self.cold).lease.pdus -= 1;
        }
        let receiver = &mut self.vc.receiver;
        receiver.cells_clp1 = 0;
        receiver.pdu_bounds = receiver.bounds;
        Ok(())
    }

    /// When cells arrived at the latest: what conforms is judged by it.
    #[inline(always)]
    pub(super) fn judged_at(&self) -> Time {
        let strict = self.board.planted(Planted::GcraStrict);
        self.arrival.now.minus_ns(strict.into())
    }

    /// When cells arrived at the earliest: what conforms is charged from there.
    #[inline(always)]
    pub(super) fn earliest(&self) -> Time {
        if self.board.planted(Planted::EarliestIgnored) {
            self.arrival.now
        } else {
            self.arrival.earliest
        }
    }

    /// Whether a PDU whose first cell has this loss priority gives way to others under overload.
    #[cold]
    #[inline(never)]
    pub(super) fn gives_way(mut self, clp: bool) -> bool {
        let cold = known(self.cold);
        let receive = cold.request.receive;
        let guaranteed = receive.is_some_and(|receive| receive.guaranteed)
            && (cold.low_priority_reserve(clp).is_none()
                || self.board.planted(Planted::LowPriorityStays));
        let keeps = guaranteed || self.keeps_floor();
        let gives_way = !keeps || self.board.planted(Planted::OverloadRefusesAll);
        if gives_way && self.board.planted(Planted::OverloadCharged) {
            self.vc.receiver.charge(1);
        }
        gives_way
    }

    /// How the PDU stands whose first cell has this loss priority. None: it is refused.
    #[inline(always)]
    pub(super) fn police(&mut self, clp: bool) -> Standing {
        let judged = self.judged_at();
        let receiver = &self.vc.receiver;
        let conforms = receiver.police.is_none_or(|frame| frame.conforms(judged));
        if conforms && !receiver.flags.dual {
            Standing::Peak
        } else {
            self.apart().stand(conforms, clp, judged)
        }
    }

    /// How a PDU stands that is beyond the peak rate, or that a sustained rate judges too. None:
    /// it is refused.
    #[inline(never)]
    fn stand(mut self, conforms: bool, clp: bool, now: Time) -> Standing {
        let blind = self.board.planted(Planted::SustainedIgnored);
        let clp = clp && !self.board.planted(Planted::ClpScopeIgnored);
        let sustained = known(self.cold).conforms_sustained(clp, now);
        match (conforms, sustained.filter(|_| !blind)) {
            (true, None) => self.stand_unjudged(clp),
            (true, Some(true)) => Standing::Both,
            (true, Some(false)) => self.stand_excess(Standing::TaggedSustained),
            (false, _) => self.stand_excess(Standing::Tagged),
        }
    }

    /// How a conforming PDU stands that no sustained rate judges.
    fn stand_unjudged(&mut self, clp: bool) -> Standing {
        let reserve = known(self.cold).low_priority_reserve(clp);
        match reserve.filter(|_| !self.board.planted(Planted::LowPriorityReserveIgnored)) {
            Some(reserve) if !self.has_room_beyond(reserve) => Standing::None,
            _ => Standing::Peak,
        }
    }

    /// What becomes of a PDU beyond the contract.
    fn stand_excess(&mut self, tagged: Standing) -> Standing {
        let excess = known(self.cold)
            .request
            .receive
            .map(|receive| receive.excess);
        let (standing, reserve) = match excess {
            Some(Excess::Tag { reserve }) => (tagged, reserve),
            Some(Excess::WhenIdle { reserve }) if self.lease_holds() => (Standing::Lent, reserve),
            _ => return Standing::None,
        };
        let ignored = self.board.planted(if standing == Standing::Lent {
            Planted::ReserveIgnored
        } else {
            Planted::TagReserveIgnored
        });
        if self.has_room_beyond(if ignored { 0 } else { reserve }) {
            standing
        } else {
            Standing::None
        }
    }

    /// Whether the host lends time for one more PDU.
    fn lease_holds(&self) -> bool {
        let Some(cold) = self.cold.as_ref() else {
            return false;
        };
        let late = u64::from(self.board.planted(Planted::LeaseAtExpiry));
        let expired = cold.lease.expires.plus_ns(late) <= self.arrival.now
            && !self.board.planted(Planted::LeaseNotExpiring);
        cold.lease.pdus > 0 && !expired
    }

    /// Whether the largest PDU leaves `reserve` octets of the buffer free.
    fn has_room_beyond(&mut self, reserve: u32) -> bool {
        self.apart().refresh();
        if let Some((reassembler, _)) = self.vc.region.aal34() {
            return reassembler.has_room_beyond(reserve);
        }
        let receiver = &self.vc.receiver;
        let largest = if receiver.flags.is_aal0() {
            PDU_ALIGN
        } else {
            u64::from(receiver.bounds.max_cells) * PAYLOAD_LEN as u64
        };
        receiver.queue.free_seen() > 0
            && receiver.position + largest + u64::from(reserve) <= receiver.limit
    }

    /// Moves the buckets that the PDU in progress is charged to up to `arrival`.
    #[inline(always)]
    pub(super) fn catch_up(&mut self, arrival: Time) {
        let standing = self.vc.receiver.flags.standing;
        if standing.charges_peak() {
            self.vc.receiver.catch_up(arrival);
        }
        if standing == Standing::Both
            && let Some(frame) = &mut known(self.cold).sustained
        {
            frame.catch_up(arrival);
        }
    }

    /// Charges `cells` of the PDU in progress.
    #[inline(always)]
    pub(super) fn charge(&mut self, cells: u32) {
        let standing = self.vc.receiver.flags.standing;
        let wrongly = match standing {
            Standing::Lent => self.board.planted(Planted::LentCharged),
            Standing::Tagged => self.board.planted(Planted::TaggedCharged),
            _ => false,
        };
        if standing.charges_peak() || wrongly {
            self.vc.receiver.charge(cells);
        }
        let tagged = standing == Standing::TaggedSustained
            && self.board.planted(Planted::TaggedChargedSustained);
        if (standing == Standing::Both || tagged)
            && !self.board.planted(Planted::SustainedNotCharged)
            && let Some(frame) = &mut known(self.cold).sustained
        {
            frame.charge(cells);
        }
    }

    /// A free descriptor and room for the first cell, or for the whole of a fixed SDU.
    #[inline(always)]
    fn find_room(&mut self) -> Result<(), Discard> {
        let octets = self.octets_to_begin();
        let spare = u32::from(self.board.planted(Planted::QueueFullByOne));
        if self.vc.receiver.queue.free_seen() == 0 {
            self.apart().refresh();
            if self.vc.receiver.queue.free_seen() + spare == 0 {
                return Err(Discard::QueueFull);
            }
        }
        if self.vc.receiver.position + octets > self.vc.receiver.limit {
            self.apart().refresh();
            if self.vc.receiver.position + octets > self.vc.receiver.limit {
                return Err(Discard::BufferFull);
            }
        }
        Ok(())
    }

    /// Octets that must be free for a PDU to begin.
    #[inline(always)]
    pub(super) fn octets_to_begin(&self) -> u64 {
        let receiver = &self.vc.receiver;
        let cells = if receiver.flags.fixed_sdu && !self.board.planted(Planted::FixedSduByCell) {
            receiver.bounds.max_cells
        } else {
            1
        };
        if receiver.flags.is_aal0() {
            PDU_ALIGN
        } else {
            u64::from(cells) * PAYLOAD_LEN as u64
        }
    }

    /// How many of `count` further cells fit, and what forbids the next if not all do.
    #[inline(always)]
    fn fitting(&mut self, count: u32) -> (u32, Option<Discard>) {
        let mut max_cells = u32::from(self.vc.receiver.pdu_bounds.max_cells);
        if self.board.planted(Planted::OversizedByOne) {
            max_cells += 1;
        }
        let held = self.vc.receiver.held();
        let receiver = &self.vc.receiver;
        let end = receiver.position + u64::from(held + count) * PAYLOAD_LEN as u64;
        if held + count <= max_cells && end <= receiver.limit {
            return (count, None);
        }
        let allowed = max_cells.saturating_sub(held);
        let wanted = count.min(allowed);
        let mut room = self.room_cells(held);
        if room < wanted {
            self.apart().refresh();
            room = self.room_cells(held);
        }
        if room < wanted {
            (room, Some(Discard::BufferFull))
        } else if wanted < count {
            (wanted, Some(Discard::Oversized))
        } else {
            (count, None)
        }
    }

    /// Whole cells that fit behind `held` cells of the PDU in progress.
    #[inline(always)]
    fn room_cells(&self, held: u32) -> u32 {
        let receiver = &self.vc.receiver;
        let pad = if self.board.planted(Planted::SpaceWithoutPad) {
            47
        } else {
            0
        };
        let octets = (receiver.limit + pad).saturating_sub(receiver.position);
        // A buffer has at most 2^30 octets.
        ((octets / PAYLOAD_LEN as u64) as u32).saturating_sub(held)
    }

    /// Offset in the receive buffer of the PDU in progress.
    #[inline(always)]
    pub(super) fn offset(&self) -> usize {
        self.vc.receiver.offset as usize
    }

    #[inline(always)]
    fn take<F: Fold>(&mut self, fold: F, cells: &[u8], count: u32) {
        let offset = self.offset();
        let buffer = self.vc.region.receive_buffer();
        self.vc
            .receiver
            .reassembler
            .push(fold, buffer, offset, cells, self.format);
        self.stats.cells_held += u64::from(count);
        self.board.charge(Work::ReceiveCells, count);
        self.board.judged(CellOutcome::Accepted, count);
    }

    #[inline(always)]
    fn take_last<F: Fold>(&mut self, fold: F, cell: &[u8]) {
        let offset = self.offset();
        let buffer = self.vc.region.receive_buffer();
        self.vc
            .receiver
            .reassembler
            .push(fold, buffer, offset, cell, self.format);
        self.stats.cells_held += 1;
        self.board.charge(Work::ReceiveCells, 1);
    }

    /// Takes the only cell of a PDU.
    #[inline(always)]
    fn take_only<F: Fold>(&mut self, fold: F, header: Header, cell: &[u8]) {
        if self.board.planted(Planted::CrcStateKept) {
            self.take_last(fold, cell);
            self.finish(fold, header);
            return;
        }
        let Some(payload) = cell.last_chunk() else {
            return;
        };
        let offset = self.offset();
        self.vc.region.receive_buffer().write(offset, payload);
        let receiver = &mut self.vc.receiver;
        receiver.reassembler.hold(1);
        let (trailer, result) = aal5::only(fold, payload, receiver.pdu_bounds.max_sdu);
        self.stats.cells_held += 1;
        self.board.charge(Work::ReceiveCells, 1);
        self.conclude(header, trailer, result);
    }

    /// The end of a PDU: checks it, then delivers or discards it.
    #[inline(always)]
    fn finish<F: Fold>(&mut self, fold: F, header: Header) {
        let offset = self.offset();
        let receiver = &mut self.vc.receiver;
        let buffer = self.vc.region.receive_buffer();
        let max_sdu = receiver.pdu_bounds.max_sdu;
        let result = receiver.reassembler.finish(fold, buffer, offset, max_sdu);
        let trailer = receiver.reassembler.trailer();
        self.conclude(header, trailer, result);
    }

    #[inline(always)]
    fn conclude(&mut self, header: Header, trailer: Trailer, result: Judged) {
        match self.sabotage(trailer, result) {
            Ok(sdu) => self.deliver(header, sdu),
            Err(error) => {
                let reason = match error {
                    aal5::Error::Crc => Discard::CrcError,
                    aal5::Error::Aborted => Discard::Aborted,
                    aal5::Error::Length => Discard::LengthError,
                };
                // The last cell is held already.
                self.apart().fail_held(reason);
                self.board.judged(CellOutcome::Discarded(reason), 1);
            }
        }
    }

    /// The result as an adapter with planted bugs sees it.
    #[inline(always)]
    pub(super) fn sabotage(&self, trailer: Trailer, result: Judged) -> Judged {
        let sdu = aal5::Sdu {
            len: trailer.length,
            uu: trailer.uu,
            cpi: trailer.cpi,
        };
        match result {
            Err(aal5::Error::Crc) if self.board.planted(Planted::CrcNotChecked) => Ok(sdu),
            Err(aal5::Error::Length) if self.board.planted(Planted::LengthNotChecked) => Ok(sdu),
            Err(aal5::Error::Aborted) if self.board.planted(Planted::AbortAsLengthError) => {
                Err(aal5::Error::Length)
            }
            result => result,
        }
    }

    /// Publishes the PDU in progress.
    #[inline(always)]
    fn deliver(&mut self, header: Header, sdu: aal5::Sdu) {
        let cells = self.vc.receiver.held();
        let ends = Ends::of_pdu(cells);
        self.publish(header, sdu.len.into(), cells, ends, sdu.uu, sdu.cpi);
    }

    /// What is known of the PDU in progress without its trailer.
    #[inline(always)]
    pub(super) fn descriptor(&mut self, header: Header, cells: u32) -> ReceiveDescriptor {
        let receiver = &self.vc.receiver;
        let congestion = header.word() & (Header::NOT_USER | Header::CONGESTED)
            == Header::CONGESTED
            && !self.board.planted(Planted::CongestionLost);
        ReceiveDescriptor {
            position: receiver.position,
            time: self.arrival.now,
            len: 0,
            cells,
            generation: known(self.cold).vc.generation,
            uu: 0,
            cpi: 0,
            clp: receiver.cells_clp1 > 0 || self.is_tagged(),
            congestion,
            lent: receiver.flags.standing == Standing::Lent,
            mid: 0,
        }
    }

    /// Puts the PDU in progress into the receive queue and tells of it.
    #[inline(always)]
    pub(super) fn publish(
        &mut self,
        header: Header,
        len: u32,
        cells: u32,
        ends: Ends,
        uu: u8,
        cpi: u8,
    ) {
        let descriptor = ReceiveDescriptor {
            len,
            uu,
            cpi,
            ..self.descriptor(header, cells)
        };
        let receiver = &mut self.vc.receiver;
        let region = &self.vc.region;
        let before = receiver.queue.head();
        region
            .from_adapter()
            .copy_in(receiver.queue.slot_at(0), &descriptor.emit());
        receiver.queue.publish(region.from_adapter(), 1);
        self.charge(cells);
        let receiver = &self.vc.receiver;
        let octets = if receiver.flags.is_aal0() {
            PDU_ALIGN
        } else {
            u64::from(cells) * 48
        };
        let end = receiver.position + octets;
        let round = !self.board.planted(Planted::StartNotRounded);
        self.vc
            .receiver
            .move_to(if round { align_pdu(end) } else { end });
        let standing = self.vc.receiver.flags.standing;
        self.vc.receiver.flags.standing = Standing::None;

        self.stats.cells_held -= u64::from(cells);
        self.stats.cells_delivered += u64::from(cells);
        let cells_clp1 = self.vc.receiver.cells_clp1;
        self.count_delivered(cells, cells_clp1, standing);
        self.board.charge(Work::ReceivePdu, 1);
        self.board.judged(CellOutcome::Delivered, 1);
        self.tell_end(PduEnd::Delivered { pdus: 1, cells });
        let stale = self.board.planted(Planted::EventBeforeDescriptor);
        self.tell_delivery(cells, ends, if stale { before } else { before + 1 });
    }

    /// Ends the PDU in progress: the cells held and `further` ones are discarded, the write head
    /// goes back.
    #[cold]
    fn fail(mut self, reason: Discard, further: u32) {
        self.apart().fail_held(reason);
        if reason == Discard::BufferFull {
            self.apart().tell_full();
        }
        self.discard(reason, further);
    }

    #[cold]
    fn fail_held(mut self, reason: Discard) {
        let held = self.vc.receiver.held();
        if !self.board.planted(Planted::LostNotCharged) {
            self.charge(held);
        }
        let receiver = &mut self.vc.receiver;
        receiver.flags.standing = Standing::None;
        if self.board.planted(Planted::HeadNotRestored) {
            let end = align_pdu(receiver.position + u64::from(held) * 48);
            receiver.move_to(end);
        }
        self.stats.cells_held -= u64::from(held);
        self.stats.cells_discarded.add(reason, held.into());
        known(self.cold)
            .stats
            .cells_discarded
            .add(reason, held.into());
        self.count_discarded(reason);
    }

    /// Counts a PDU that was not let in, and tells if it was for want of room.
    #[inline(always)]
    pub(super) fn refuse(&mut self, reason: Discard) {
        self.count_discarded(reason);
        if matches!(reason, Discard::BufferFull | Discard::QueueFull) {
            self.apart().tell_full();
        }
    }

    #[inline(always)]
    pub(super) fn discard(&mut self, reason: Discard, cells: u32) {
        known(self.cold)
            .stats
            .cells_discarded
            .add(reason, cells.into());
        self.stats.cells_discarded.add(reason, cells.into());
        self.board.charge(Work::DiscardCells, cells);
        self.board.judged(CellOutcome::Discarded(reason), cells);
    }

    #[inline(always)]
    fn set_discarding(&mut self, reason: Option<Discard>) {
        self.table.set_discarding(known(self.cold).slot, reason);
    }

    /// Reads the client's tail: descriptors and buffer that it has given back.
    #[cold]
    pub(super) fn refresh(self) {
        if self.board.planted(Planted::TailNotReread) && self.vc.receiver.queue.tail() > 0 {
            return;
        }
        let receiver = &mut self.vc.receiver;
        let region = &mut self.vc.region;
        let (tail, faults) = (receiver.queue.tail(), receiver.queue.faults());
        receiver.queue.refresh(region.from_client());
        known(self.cold).stats.client_faults += u64::from(receiver.queue.faults() - faults);
        if receiver.queue.tail() == tail {
            return;
        }
        known(self.cold).full_told &= self.board.planted(Planted::FullEventOnce);
        if let Some((reassembler, _)) = region.aal34() {
            if !self.board.planted(Planted::SpaceNotReleased) {
                reassembler.release(receiver.queue.tail());
            }
            return;
        }
        // The descriptor before the tail is the last one given back. It lies in memory that only
        // the adapter writes, so it may be believed.
        let mut octets = [0; 32];
        region
            .from_adapter()
            .copy_out(receiver.queue.released_at(), &mut octets);
        let last = ReceiveDescriptor::parse(&octets);
        let octets = if receiver.flags.is_aal0() {
            PDU_ALIGN
        } else {
            u64::from(last.cells) * 48
        };
        receiver.limit = align_pdu(last.position + octets) + u64::from(receiver.buffer_len);
    }

    #[cold]
    pub(super) fn tell_full(mut self) {
        if known(self.cold).full_told && !self.board.planted(Planted::FullEventEveryPdu) {
            return;
        }
        known(self.cold).full_told = true;
        let fill = self.vc.receiver.fill();
        self.post(
            EventKind::ReceiveQueueFull,
            0,
            fill.into(),
            Urgency::Interruptive,
        );
    }

    /// Tells of `count` cells just taken that do not end a PDU.
    #[inline(always)]
    pub(super) fn tell_progress(&mut self, count: u32) {
        let flags = self.vc.receiver.flags;
        if flags.tell == Tell::Nothing {
            return;
        }
        let held = self.vc.receiver.held();
        for cells in held - count + 1..=held {
            let every = flags.tell == Tell::Every;
            if every || (cells == 1 && !self.board.planted(Planted::FirstCellSilent)) {
                self.apart().tell(cells);
            }
        }
    }

    /// Tells of a PDU in progress that holds `cells`.
    pub(super) fn tell(mut self, cells: u32) {
        let head = self.vc.receiver.queue.head();
        self.post(EventKind::PduReceived, cells, head, Urgency::Interruptive);
    }

    #[inline(always)]
    pub(super) fn tell_delivery(&mut self, cells: u32, ends: Ends, head: u64) {
        let Some(receive) = known(self.cold).request.receive else {
            return;
        };
        let urgency = match receive.notification {
            notification if !ends.tells(notification) => Urgency::Never,
            Notification::Silent {
                threshold,
                longest_delay_ns,
            } => Urgency::Silent {
                threshold,
                longest_delay_ns,
            },
            _ => Urgency::Interruptive,
        };
        if urgency != Urgency::Never {
            self.post(EventKind::PduReceived, cells, head, urgency);
        }
        let threshold = receive.queue_threshold;
        if threshold != 0 && self.vc.receiver.fill() >= threshold {
            self.apart().tell_threshold(threshold);
        }
    }

    #[cold]
    fn tell_threshold(mut self, threshold: u32) {
        self.apart().refresh();
        let fill = self.vc.receiver.fill();
        // A delivery adds one, so the threshold is reached from below exactly when it is met.
        if fill < threshold || fill > threshold && !self.board.planted(Planted::ThresholdRepeats) {
            return;
        }
        let kind = EventKind::ReceiveQueueOverThreshold;
        self.post(kind, 0, fill.into(), Urgency::Interruptive);
    }

    #[inline(always)]
    fn post(&mut self, kind: EventKind, cells: u32, value: u64, urgency: Urgency) {
        let event = Event {
            kind,
            interruptive: urgency == Urgency::Interruptive,
            vc: known(self.cold).vc,
            cells,
            value,
            time: self.arrival.now,
        };
        let request = &known(self.cold).request;
        let notice = Notice {
            client: request.attachment,
            event,
            urgency,
            guaranteed: request.is_guaranteed(),
        };
        self.clients
            .post(self.arrival.now, self.board, self.stats, notice);
    }

    /// Ends the PDUs in progress because their memory goes; the rest of it will be discarded.
    pub(super) fn abandon(&mut self) {
        if self.vc.receiver.flags.is_aal34() {
            self.abandon_all();
            return;
        }
        if !self.vc.receiver.receiving() {
            return;
        }
        self.set_discarding(Some(Discard::Closed));
        if self.board.planted(Planted::CloseForgetsHeld) {
            self.stats.cells_held -= u64::from(self.vc.receiver.held());
            self.vc.receiver.flags.standing = Standing::None;
        } else {
            self.apart().fail_held(Discard::Closed);
        }
    }
}
