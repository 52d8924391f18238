//! One cell after the other: address, police, queue, space, reassemble.

use cellgate_core::Time;
use cellgate_core::adapter::{Aal, CellOutcome, Discard, Excess, Marks, PortIndex, Receive};
use cellgate_core::wire::{CellFormat, HeaderForm};

use super::aal34;
use super::bits::{Fields, crc32};
use super::notify::Seen;
use super::policer::{Charged, Verdict};
use super::{Clients, ExpectedPdu, Judged, Partial, Reference, State, Terms, Vc};

/// Cells of the PDU around an SDU: the SDU, eight octets of trailer, and pad to 48.
fn cells_of_sdu(sdu: u64) -> u64 {
    (sdu + 8).div_ceil(48)
}

fn round_up_64(octets: u64) -> u64 {
    octets.div_ceil(64) * 64
}

impl Reference {
    /// The adapter asked `port` for cells and got these. `emptied`: fewer than it asked for.
    pub(crate) fn received<'a>(
        &mut self,
        port: PortIndex,
        cells: impl ExactSizeIterator<Item = &'a [u8]>,
        emptied: bool,
        clients: &dyn Clients,
    ) {
        let index = usize::from(port.0);
        let last_empty = self.ports[index].last_empty_ns;
        let earliest = last_empty.max(self.now_ns.saturating_sub(self.config.gap_max_ns));
        let n = cells.len() as u64;
        self.received += n;
        if self.config.ports[index].discard_unread {
            self.unread += n;
        } else {
            for octets in cells {
                self.cell(port, octets, earliest, clients);
            }
        }
        self.ports[index].crowd += n;
        if emptied || self.config.ports[index].discard_unread {
            self.ports[index].crowd = 0;
        }
        if emptied {
            self.ports[index].last_empty_ns = self.previous_ns;
        }
        self.check_conservation();
    }

    fn cell(&mut self, port: PortIndex, octets: &[u8], earliest: u64, clients: &dyn Clients) {
        let config = &self.config.ports[usize::from(port.0)];
        let head = |n: usize| octets[n];
        let (header, payload) = match config.format {
            CellFormat::NoHec => (Some([0, 1, 2, 3].map(head)), &octets[4..]),
            CellFormat::WithHec => {
                let receiver = &mut self.ports[usize::from(port.0)].hec;
                (receiver.check([0, 1, 2, 3, 4].map(head)), &octets[5..])
            }
        };
        let Some(header) = header else {
            return self.nobodys(Discard::HecError, port, None);
        };
        let fields = Fields::of(header, config.form == HeaderForm::Uni);
        let vcs = self.at(port, fields.vpi, fields.vci);
        let receiver = vcs.clone().find(|vc| vc.request.receive.is_some());
        let transmitter = { vcs }.find(|vc| vc.request.aal != Aal::Aal0);
        let oam_of = transmitter.filter(|_| fields.pti >= 4);
        let index = receiver.or(oam_of).map(|vc| vc.id.index.0);
        match index {
            Some(index) => self.cell_of_vc(index, header, fields, payload, earliest, clients),
            None if fields.is_filler() => self.nobodys(Discard::Idle, port, Some(fields)),
            None => self.cell_of_path(port, fields, payload, earliest),
        }
    }

    /// The VCs of an address: at most one receives, and at most one sends.
    pub(super) fn at(
        &self,
        port: PortIndex,
        vpi: u16,
        vci: u16,
    ) -> impl Iterator<Item = &Vc> + Clone {
        let slots = self.places.get(&(port.0, vpi, vci)).copied();
        slots
            .into_iter()
            .flatten()
            .flatten()
            .map(|slot| &self.vcs[slot])
    }

    pub(super) fn nobodys(&mut self, reason: Discard, port: PortIndex, fields: Option<Fields>) {
        self.discarded.add(reason, 1);
        let outcome = CellOutcome::Discarded(reason);
        let cell = Judged { port, fields };
        self.expected.outcomes.push_back((Some(outcome), cell));
    }

    fn cell_of_vc(
        &mut self,
        index: u16,
        header: [u8; 4],
        fields: Fields,
        payload: &[u8],
        earliest: u64,
        clients: &dyn Clients,
    ) {
        let vc = self.vcs.get_mut(index).expect("the caller found it");
        vc.stats.cells_received += 1;
        let port = vc.request.port;
        if vc.request.aal != Aal::Aal0 && fields.pti >= 4 {
            return self.oam_cell_of_vc(index, fields, payload, earliest);
        }
        let receive = vc.request.receive.expect("the caller found it receiving");
        if vc.lawless {
            let cell = Judged {
                port,
                fields: Some(fields),
            };
            self.expected.outcomes.push_back((None, cell));
            return;
        }
        let yields = vc.buckets.kept_for_others(fields.clp).is_some();
        let gives_way = self.overloaded && (yields || !receive.guaranteed);
        if matches!(vc.request.aal, Aal::Aal34(_)) {
            let cell = aal34::Cell {
                gives_way,
                now_ns: self.now_ns,
                earliest,
                fields,
                payload,
                clients,
            };
            return self.cell_of_aal34(index, &receive, &cell);
        }
        let mut cell = CellOfVc {
            now_ns: self.now_ns,
            earliest,
            receive,
            fields,
            clients,
            gives_way,
            full: false,
        };
        let before = vc.held();
        let (outcome, done) = match vc.request.aal {
            Aal::Aal0 => cell.aal0(vc, [&header, payload].concat()),
            Aal::Aal5 | Aal::Aal34(_) => cell.aal5(vc, payload),
        };
        let full = cell.full && vc.told_full_at != Some(vc.queue_tail);
        if full {
            vc.told_full_at = Some(vc.queue_tail);
        }
        match outcome {
            CellOutcome::Accepted | CellOutcome::Answered => {}
            CellOutcome::Delivered => {
                vc.stats.cells_delivered += before + 1;
                vc.stats.pdus_delivered += 1;
                self.delivered += before + 1;
            }
            CellOutcome::Discarded(reason) => {
                vc.stats.cells_discarded.add(reason, before + 1 - vc.held());
                self.discarded.add(reason, before + 1 - vc.held());
            }
        }
        self.count_held(index);
        let cell = Judged {
            port,
            fields: Some(fields),
        };
        self.expected.outcomes.push_back((Some(outcome), cell));
        if full {
            self.post_queue_full(index);
        }
        // An AAL0 cell is a PDU, whatever its block; its block says when to tell of it.
        let (first, last) = match receive.marks {
            Marks::None => (before == 0, true),
            Marks::Mssar => (payload[1] & 1 == 1, payload[0] == 1),
        };
        let seen = Seen {
            first,
            accepted: matches!(outcome, CellOutcome::Accepted | CellOutcome::Delivered),
            complete: done.is_some() && last,
            cells: (before + 1) as u32,
        };
        self.notify(index, seen);
        if let Some(pdu) = done {
            self.check_threshold(index, clients);
            self.expected.pdus.push_back(pdu);
        }
    }
}

/// A cell of an open VC, and what is known when it is handled.
struct CellOfVc<'a> {
    now_ns: u64,
    earliest: u64,
    receive: Receive,
    fields: Fields,
    clients: &'a dyn Clients,
    /// Its VC is best effort and the adapter overloaded.
    gives_way: bool,
    /// It was refused for want of room.
    full: bool,
}

const REFUSED: fn(Discard) -> (CellOutcome, Option<ExpectedPdu>) =
    |reason| (CellOutcome::Discarded(reason), None);

impl CellOfVc<'_> {
    fn is_last(&self) -> bool {
        self.fields.pti == 1 || self.fields.pti == 3
    }

    fn aal0(&mut self, vc: &mut Vc, sdu: Vec<u8>) -> (CellOutcome, Option<ExpectedPdu>) {
        let terms = match self.admit(vc, 64, 64) {
            Ok(terms) => terms,
            Err(reason) => {
                vc.stats.pdus_discarded.add(reason, 1);
                return REFUSED(reason);
            }
        };
        vc.buckets.charge(terms.charged, 1);
        let partial = Partial {
            position: round_up_64(vc.write_head),
            payload: Vec::new(),
            cells: 1,
            max_cells: 1,
            max_sdu: 52,
            terms,
            cells_clp1: self.fields.clp.into(),
        };
        let pdu = self.publish(vc, &partial, sdu, (0, 0), 64);
        (CellOutcome::Delivered, Some(pdu))
    }

    fn aal5(&mut self, vc: &mut Vc, payload: &[u8]) -> (CellOutcome, Option<ExpectedPdu>) {
        match std::mem::replace(&mut vc.state, State::BetweenPdus) {
            State::Discarding(reason) => {
                if !self.is_last() {
                    vc.state = State::Discarding(reason);
                }
                REFUSED(reason)
            }
            State::BetweenPdus => match self.first(vc) {
                Ok(partial) => self.further(vc, partial, payload),
                Err(reason) => self.give_up(vc, reason),
            },
            State::Receiving(partial) => {
                let reason = if partial.cells == partial.max_cells {
                    Some(Discard::Oversized)
                } else {
                    let end = partial.position + 48 * (partial.cells + 1);
                    (!self.fits(vc, end)).then_some(Discard::BufferFull)
                };
                let Some(reason) = reason else {
                    return self.further(vc, partial, payload);
                };
                self.full |= reason == Discard::BufferFull;
                charge(vc, &partial);
                self.give_up(vc, reason)
            }
        }
    }

    /// The rest of the PDU is discarded like this cell.
    fn give_up(&self, vc: &mut Vc, reason: Discard) -> (CellOutcome, Option<ExpectedPdu>) {
        vc.stats.pdus_discarded.add(reason, 1);
        if !self.is_last() {
            vc.state = State::Discarding(reason);
        }
        REFUSED(reason)
    }

    fn first(&mut self, vc: &mut Vc) -> Result<Partial, Discard> {
        let max_cells = cells_of_sdu(u64::from(self.receive.max_sdu));
        let now = if self.receive.fixed_sdu { max_cells } else { 1 };
        let terms = self.admit(vc, 48 * now, 48 * max_cells)?;
        Ok(Partial {
            position: round_up_64(vc.write_head),
            payload: Vec::with_capacity(48 * max_cells.min(32) as usize),
            cells: 0,
            max_cells,
            max_sdu: u64::from(self.receive.max_sdu),
            terms,
            cells_clp1: 0,
        })
    }

    /// Overload, police, queue, space, in this order. `needed` octets now, `whole` for the largest
    /// PDU.
    fn admit(&mut self, vc: &mut Vc, needed: u64, whole: u64) -> Result<Terms, Discard> {
        if self.gives_way {
            return Err(Discard::Overload);
        }
        let mut terms = Terms {
            lent: false,
            tagged: false,
            charged: Charged::default(),
        };
        match vc.buckets.judge(self.now_ns, self.fields.clp) {
            Verdict::Conforming(charged) => {
                let kept = vc.buckets.kept_for_others(self.fields.clp);
                if kept.is_some_and(|reserve| !self.has_room_beyond(reserve, vc, whole)) {
                    return Err(Discard::NonConforming);
                }
                terms.charged = charged;
            }
            Verdict::Excess { tagged } => {
                let reserve = match self.receive.excess {
                    Excess::WhenIdle { reserve } | Excess::Tag { reserve } => reserve,
                    Excess::Discard => return Err(Discard::NonConforming),
                };
                let tags = matches!(self.receive.excess, Excess::Tag { .. });
                let lends = self.has_lease(vc);
                if !(tags || lends) || !self.has_room_beyond(reserve, vc, whole) {
                    return Err(Discard::NonConforming);
                }
                if tags {
                    terms.charged = tagged;
                }
                (terms.lent, terms.tagged) = (lends, tags);
            }
        }
        if !self.has_descriptor(vc) {
            self.full = true;
            return Err(Discard::QueueFull);
        }
        let end = round_up_64(vc.write_head) + needed;
        if !self.fits(vc, end) {
            self.full = true;
            return Err(Discard::BufferFull);
        }
        vc.lease_pdus -= u32::from(terms.lent);
        vc.buckets.arrive(terms.charged, self.earliest);
        Ok(terms)
    }

    fn has_lease(&self, vc: &Vc) -> bool {
        matches!(self.receive.excess, Excess::WhenIdle { .. })
            && vc.lease_pdus > 0
            && self.now_ns < vc.lease_expires_ns
    }

    /// Whether the largest PDU would leave the reserve untouched.
    fn has_room_beyond(&self, reserve: u32, vc: &mut Vc, whole: u64) -> bool {
        vc.read_tail(self.clients);
        let end = round_up_64(vc.write_head) + whole + u64::from(reserve);
        end <= vc.freed + u64::from(vc.sizes.receive_buffer)
            && vc.queue_head - vc.queue_tail < u64::from(vc.sizes.receive_slots)
    }

    fn has_descriptor(&self, vc: &mut Vc) -> bool {
        let is_free = |vc: &Vc| vc.queue_head - vc.queue_tail < u64::from(vc.sizes.receive_slots);
        if !is_free(vc) {
            vc.read_tail(self.clients);
        }
        is_free(vc)
    }

    fn fits(&self, vc: &mut Vc, end: u64) -> bool {
        let is_free = |vc: &Vc| end <= vc.freed + u64::from(vc.sizes.receive_buffer);
        if !is_free(vc) {
            vc.read_tail(self.clients);
        }
        is_free(vc)
    }

    /// An accepted cell.
    fn further(
        &mut self,
        vc: &mut Vc,
        mut partial: Partial,
        payload: &[u8],
    ) -> (CellOutcome, Option<ExpectedPdu>) {
        partial.payload.extend_from_slice(payload);
        partial.cells += 1;
        partial.cells_clp1 += u64::from(self.fields.clp);
        if !self.is_last() {
            // Where the next goes: until its turn comes, thousands of others have theirs.
            let next = partial.payload.spare_capacity_mut();
            cellgate_simd::prefetch(next, payload.len() - 1);
            vc.state = State::Receiving(partial);
            return (CellOutcome::Accepted, None);
        }
        charge(vc, &partial);
        match check(&partial) {
            Err(reason) => {
                vc.stats.pdus_discarded.add(reason, 1);
                REFUSED(reason)
            }
            Ok((len, uu_cpi)) => {
                let room = 48 * partial.cells;
                let mut sdu = std::mem::take(&mut partial.payload);
                sdu.truncate(len);
                let pdu = self.publish(vc, &partial, sdu, uu_cpi, room);
                (CellOutcome::Delivered, Some(pdu))
            }
        }
    }

    fn publish(
        &self,
        vc: &mut Vc,
        partial: &Partial,
        sdu: Vec<u8>,
        (uu, cpi): (u8, u8),
        room: u64,
    ) -> ExpectedPdu {
        vc.write_head = round_up_64(partial.position + room);
        vc.ends.push(vc.write_head);
        vc.queue_head += 1;
        vc.stats.cells_delivered_clp1 += partial.cells_clp1;
        vc.stats.pdus_lent += u64::from(partial.terms.lent);
        vc.stats.pdus_tagged += u64::from(partial.terms.tagged);
        ExpectedPdu {
            memory: vc.memory,
            vc: vc.id,
            position: partial.position,
            sdu,
            uu,
            cpi,
            mid: 0,
            lent: partial.terms.lent,
            tagged: partial.terms.tagged,
            clp: partial.cells_clp1 > 0 || partial.terms.tagged,
            congested: self.fields.pti < 4 && self.fields.pti & 2 != 0,
            cells: partial.cells as u32,
            time: Time::from_ns(self.now_ns),
        }
    }
}

/// Octets of the SDU in a finished PDU, its UU and CPI.
fn check(partial: &Partial) -> Result<(usize, (u8, u8)), Discard> {
    let trailer = &partial.payload[partial.payload.len() - 8..];
    let crc = u32::from_be_bytes([trailer[4], trailer[5], trailer[6], trailer[7]]);
    if crc32(&partial.payload[..partial.payload.len() - 4]) != crc {
        return Err(Discard::CrcError);
    }
    let length = u64::from(trailer[2]) << 8 | u64::from(trailer[3]);
    if length == 0 {
        return Err(Discard::Aborted);
    }
    let fits = cells_of_sdu(length) == partial.cells;
    if !fits || length > partial.max_sdu {
        return Err(Discard::LengthError);
    }
    Ok((length as usize, (trailer[0], trailer[1])))
}

/// An accepted PDU is charged for every cell it had, to the buckets that let it in.
fn charge(vc: &mut Vc, partial: &Partial) {
    vc.buckets.charge(partial.terms.charged, partial.cells);
}

impl Vc {
    /// Takes note of the client's tail: it frees descriptors, and octets up to the end of the last
    /// freed PDU. One that runs backwards or past the head is the client's fault.
    pub(super) fn read_tail(&mut self, clients: &dyn Clients) {
        let tail = clients.receive_tail(self.memory);
        if tail < self.queue_tail || tail > self.queue_head {
            self.stats.tail_faults += 1;
            return;
        }
        self.queue_tail = tail;
        if let Some(interleaved) = &mut self.interleaved {
            interleaved.release(tail);
        }
        if let Some(&end) = tail
            .checked_sub(1)
            .and_then(|last| self.ends.get(last as usize))
        {
            self.freed = end;
        }
    }
}
