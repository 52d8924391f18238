//! AAL3/4 (I.363.3), one cell at a time: the specification of an interleaved VC.
//!
//! The receive buffer is a line of extents in the order of their beginnings. A PDU takes one at its
//! first cell, as long as it may become, and a descriptor; the client gives them back in the order
//! of completion, and what lies before the first extent still in use is free.

use cellgate_core::Time;
use cellgate_core::adapter::{Aal, CellOutcome, Discard, Excess, OpenRequest, Receive};

use super::bits::{Fields, remainder10};
use super::notify::Seen;
use super::policer::{self, Charged};
use super::{Clients, ExpectedPdu, Judged, Reference, Terms, Vc};

/// Octets of PDU in a cell.
const CELL_OCTETS: usize = 44;

/// Makes the CRC-10 right, and leaves the length indicator beside it as it is.
pub(crate) fn seal(payload: &mut [u8; 48]) {
    payload[46] &= 0xfc;
    payload[47] = 0;
    let crc = remainder10(payload);
    payload[46] |= (crc >> 8) as u8;
    payload[47] = crc as u8;
}

fn round_up(octets: usize, to: usize) -> usize {
    octets.div_ceil(to) * to
}

/// Cells of the PDU around an SDU: four octets before, pad to four, four behind.
pub(crate) fn cells_of_sdu(sdu: usize) -> usize {
    (round_up(sdu, 4) + 8).div_ceil(CELL_OCTETS)
}

/// The payloads of an SDU's cells.
pub(crate) fn payloads(sdu: &[u8], mid: u16, tag: u8) -> Vec<[u8; 48]> {
    let length = (sdu.len() as u16).to_be_bytes();
    let mut pdu = vec![0, tag, length[0], length[1]];
    pdu.extend(sdu);
    pdu.resize(4 + round_up(sdu.len(), 4), 0);
    pdu.extend([0, tag, length[0], length[1]]);
    let chunks: Vec<&[u8]> = pdu.chunks(CELL_OCTETS).collect();
    let last = chunks.len() - 1;
    let cell = |(i, chunk): (usize, &&[u8])| {
        let segment_type = match (i == 0, i == last) {
            (true, true) => 3,
            (true, false) => 2,
            (false, true) => 1,
            (false, false) => 0,
        };
        raw(segment_type, i as u8, mid, chunk, chunk.len() as u8)
    };
    chunks.iter().enumerate().map(cell).collect()
}

/// A payload of these fields, with its CRC.
pub(crate) fn raw(segment_type: u8, sn: u8, mid: u16, octets: &[u8], li: u8) -> [u8; 48] {
    let mut payload = [0; 48];
    payload[0] = segment_type << 6 | (sn & 15) << 2 | (mid >> 8) as u8;
    payload[1] = mid as u8;
    payload[2..2 + octets.len()].copy_from_slice(octets);
    payload[46] = li << 2;
    seal(&mut payload);
    payload
}

/// A PDU in progress.
#[derive(Clone, Debug)]
struct Pdu {
    since_ns: u64,
    extent: u64,
    position: u64,
    /// SDU and pad.
    octets: Vec<u8>,
    room: usize,
    announced: usize,
    tag: u8,
    next_sn: u8,
    cells: u64,
    cells_clp1: u64,
    terms: Terms,
}

#[derive(Clone, Debug)]
enum Slot {
    Vacant,
    Open(u16, Pdu),
    /// The rest of the PDU goes the way of its beginning.
    Failing(u16, Discard),
}

impl Slot {
    fn mid(&self) -> Option<u16> {
        match self {
            Self::Vacant => None,
            Self::Open(mid, _) | Self::Failing(mid, _) => Some(*mid),
        }
    }
}

#[derive(Clone, Debug)]
struct Extent {
    name: u64,
    start: u64,
    end: u64,
}

/// All that is in progress on one VC.
#[derive(Clone, Debug)]
pub(super) struct Interleaved {
    timeout_ns: u64,
    max_sdu: usize,
    slots: Vec<Slot>,
    extents: Vec<Extent>,
    /// Names of the extents that descriptors tell of.
    delivered: Vec<u64>,
    released: usize,
    delivered_to: u64,
    names: u64,
}

/// What became of a cell.
enum Fate {
    Held(u64),
    Delivered(Box<Done>),
    Refused(Discard),
    Discarded(Discard),
}

struct Done {
    position: u64,
    sdu: Vec<u8>,
    cells: u64,
    cells_clp1: u64,
    terms: Terms,
}

/// The fields of a cell.
struct Sar<'a> {
    segment_type: u8,
    sn: u8,
    mid: u16,
    octets: &'a [u8],
    li: u8,
}

impl<'a> Sar<'a> {
    fn of(payload: &'a [u8]) -> Self {
        Self {
            segment_type: payload[0] >> 6,
            sn: payload[0] >> 2 & 15,
            mid: u16::from(payload[0] & 3) << 8 | u16::from(payload[1]),
            octets: &payload[2..46],
            li: payload[46] >> 2,
        }
    }

    fn begins(&self) -> bool {
        self.segment_type >= 2
    }

    fn ends(&self) -> bool {
        self.segment_type == 1
    }

    /// What its length indicator says of it.
    fn said(&self) -> Result<&'a [u8], Discard> {
        let li = usize::from(self.li);
        if li > CELL_OCTETS || li % 4 != 0 {
            return Err(Discard::LengthError);
        }
        Ok(&self.octets[..li])
    }
}

impl Interleaved {
    /// Of a VC opened like this, if it is one.
    pub(super) fn of(request: &OpenRequest) -> Option<Self> {
        let (Aal::Aal34(numbers), Some(receive)) = (request.aal, request.receive) else {
            return None;
        };
        Some(Self {
            timeout_ns: numbers.reassembly_timeout_ns,
            max_sdu: receive.max_sdu.into(),
            slots: vec![Slot::Vacant; numbers.mids.into()],
            extents: Vec::new(),
            delivered: Vec::new(),
            released: 0,
            delivered_to: 0,
            names: 0,
        })
    }

    pub(super) fn held(&self) -> u64 {
        let open = self.slots.iter().map(|slot| match slot {
            Slot::Open(_, pdu) => pdu.cells,
            _ => 0,
        });
        open.sum()
    }

    /// The client has given back what lies before its tail.
    pub(super) fn release(&mut self, tail: u64) {
        while (self.released as u64) < tail {
            let name = self.delivered[self.released];
            self.extents.retain(|extent| extent.name != name);
            self.released += 1;
        }
    }

    fn head(&self) -> u64 {
        let newest = self.extents.last().map_or(0, |newest| newest.end);
        newest.max(self.delivered_to)
    }

    fn free(&self, buffer: u32) -> u64 {
        let from = self.extents.first().map_or(self.head(), |e| e.start);
        from + u64::from(buffer) - self.head()
    }

    /// Whether the largest PDU and a reserve would find room.
    fn has_room(&self, vc_slots: u32, buffer: u32, reserve: u64) -> bool {
        let largest = round_up(self.max_sdu, 64) as u64;
        self.extents.len() < vc_slots as usize && largest + reserve <= self.free(buffer)
    }

    fn allocate(&mut self, sizes: (u32, u32), octets: usize) -> Result<(u64, u64), Discard> {
        let (slots, buffer) = sizes;
        if self.extents.len() >= slots as usize {
            return Err(Discard::QueueFull);
        }
        let len = round_up(octets, 64) as u64;
        if len > self.free(buffer) {
            return Err(Discard::BufferFull);
        }
        let start = self.head();
        self.names += 1;
        self.extents.push(Extent {
            name: self.names,
            start,
            end: start + len,
        });
        Ok((self.names, start))
    }

    fn deliver(&mut self, name: u64, octets: usize) {
        let extent = self.extents.iter_mut().find(|extent| extent.name == name);
        let extent = extent.expect("a PDU in progress has one");
        extent.end = extent.start + round_up(octets, 64) as u64;
        self.delivered_to = self.delivered_to.max(extent.end);
        self.delivered.push(name);
    }

    fn find(&self, mid: u16) -> Option<usize> {
        self.slots.iter().position(|slot| slot.mid() == Some(mid))
    }

    /// A vacant slot, else the first that only remembers.
    fn free_slot(&self) -> Option<usize> {
        let vacant = |slot: &Slot| matches!(slot, Slot::Vacant);
        let failing = |slot: &Slot| matches!(slot, Slot::Failing(..));
        let found = self.slots.iter().position(vacant);
        found.or_else(|| self.slots.iter().position(failing))
    }

    /// Puts `slot` in place of the one at `at`; cells of a PDU that was in progress there.
    fn replace(&mut self, at: usize, slot: Slot) -> Option<u64> {
        match std::mem::replace(&mut self.slots[at], slot) {
            Slot::Open(_, pdu) => {
                self.extents.retain(|extent| extent.name != pdu.extent);
                Some(pdu.cells)
            }
            _ => None,
        }
    }

    /// Gives up the PDUs that are in progress since long, or all; the cells of each.
    fn give_up(&mut self, before_ns: u64, reason: Discard) -> Vec<u64> {
        let late: Vec<(usize, u16)> = self
            .slots
            .iter()
            .enumerate()
            .filter_map(|(at, slot)| match slot {
                Slot::Open(mid, pdu) if pdu.since_ns <= before_ns => Some((at, *mid)),
                _ => None,
            })
            .collect();
        let failing = |(at, mid)| self.replace(at, Slot::Failing(mid, reason));
        late.into_iter().filter_map(failing).collect()
    }

    /// In new memory: what was cut in the former goes on as it went there.
    pub(super) fn succeed(&mut self, former: Self) {
        let failing = |slot: &Slot| matches!(slot, Slot::Failing(..));
        let mut failing = former.slots.into_iter().filter(failing);
        for slot in &mut self.slots {
            *slot = failing.next().unwrap_or(Slot::Vacant);
        }
    }

    fn too_long(&self, announced: usize) -> Discard {
        if announced > self.max_sdu {
            Discard::Oversized
        } else {
            Discard::LengthError
        }
    }

    /// The SDU among the octets of a PDU.
    fn sdu(
        &self,
        octets: &[u8],
        trailer: &[u8],
        announced: usize,
        tag: u8,
    ) -> Result<Vec<u8>, Discard> {
        let length = usize::from(trailer[2]) << 8 | usize::from(trailer[3]);
        if trailer[1] != tag {
            Err(Discard::TagMismatch)
        } else if length == 0 || round_up(length, 4) != octets.len() || length > announced {
            Err(Discard::LengthError)
        } else if length > self.max_sdu {
            Err(Discard::Oversized)
        } else {
            Ok(octets[..length].to_vec())
        }
    }

    fn begin(
        &mut self,
        now_ns: u64,
        sizes: (u32, u32),
        cell: &Sar<'_>,
        clp: bool,
        terms: Terms,
    ) -> Result<(), Discard> {
        if usize::from(cell.li) != CELL_OCTETS || cell.octets[0] != 0 {
            return Err(Discard::LengthError);
        }
        let announced = usize::from(cell.octets[2]) << 8 | usize::from(cell.octets[3]);
        let room = round_up(announced.min(self.max_sdu), 4);
        let octets = cell.octets[4..].to_vec();
        if octets.len() > room {
            return Err(self.too_long(announced));
        }
        let at = self.free_slot().ok_or(Discard::TooManyMids)?;
        let (extent, position) = self.allocate(sizes, room)?;
        let pdu = Pdu {
            since_ns: now_ns,
            extent,
            position,
            octets,
            room,
            announced,
            tag: cell.octets[1],
            next_sn: (cell.sn + 1) % 16,
            cells: 1,
            cells_clp1: clp.into(),
            terms,
        };
        self.slots[at] = Slot::Open(cell.mid, pdu);
        Ok(())
    }

    fn single(&mut self, sizes: (u32, u32), cell: &Sar<'_>) -> Result<(u64, Vec<u8>), Discard> {
        let octets = cell.said()?;
        if octets.len() < 8 || octets[0] != 0 {
            return Err(Discard::LengthError);
        }
        let announced = usize::from(octets[2]) << 8 | usize::from(octets[3]);
        let (body, trailer) = octets[4..].split_at(octets.len() - 8);
        let sdu = self.sdu(body, trailer, announced, octets[1])?;
        let (extent, position) = self.allocate(sizes, body.len())?;
        self.deliver(extent, body.len());
        Ok((position, sdu))
    }

    /// Adds a COM or EOM to its PDU; the SDU if that is complete.
    fn add(&self, pdu: &mut Pdu, cell: &Sar<'_>, clp: bool) -> Result<Option<Vec<u8>>, Discard> {
        if cell.ends() && cell.li == 63 {
            return Err(Discard::Aborted);
        }
        if cell.sn != pdu.next_sn {
            return Err(Discard::LostCell);
        }
        let octets = cell.said()?;
        let behind = if cell.ends() { 4 } else { 0 };
        let full = cell.ends() || octets.len() == CELL_OCTETS;
        if octets.len() < behind || !full {
            return Err(Discard::LengthError);
        }
        let (octets, trailer) = octets.split_at(octets.len() - behind);
        pdu.octets.extend(octets);
        pdu.cells += 1;
        pdu.next_sn = (pdu.next_sn + 1) % 16;
        pdu.cells_clp1 += u64::from(clp);
        if pdu.octets.len() > pdu.room {
            return Err(self.too_long(pdu.announced));
        }
        if !cell.ends() {
            return Ok(None);
        }
        let sdu = self.sdu(&pdu.octets, trailer, pdu.announced, pdu.tag)?;
        Ok(Some(sdu))
    }

    /// A COM or EOM: its fate, and the cells of a PDU that failed by it.
    fn proceed(&mut self, cell: &Sar<'_>, clp: bool) -> (Fate, Option<u64>) {
        let Some(at) = self.find(cell.mid) else {
            return (Fate::Discarded(Discard::LostCell), None);
        };
        let result = match self.slots[at].clone() {
            Slot::Vacant => (Fate::Discarded(Discard::LostCell), None),
            Slot::Failing(_, reason) => (Fate::Discarded(reason), None),
            Slot::Open(mid, mut pdu) => match self.add(&mut pdu, cell, clp) {
                Err(reason) => {
                    let failed = self.replace(at, Slot::Failing(mid, reason));
                    (Fate::Discarded(reason), failed)
                }
                Ok(None) => {
                    let cells = pdu.cells;
                    self.slots[at] = Slot::Open(mid, pdu);
                    (Fate::Held(cells), None)
                }
                Ok(Some(sdu)) => {
                    self.deliver(pdu.extent, pdu.octets.len());
                    let done = Done {
                        position: pdu.position,
                        sdu,
                        cells: pdu.cells,
                        cells_clp1: pdu.cells_clp1,
                        terms: pdu.terms,
                    };
                    (Fate::Delivered(Box::new(done)), None)
                }
            },
        };
        if cell.ends() {
            self.slots[at] = Slot::Vacant;
        }
        result
    }
}

/// A cell of such a VC.
pub(super) struct Cell<'a> {
    pub(super) now_ns: u64,
    pub(super) earliest: u64,
    /// Its VC is best effort and the adapter overloaded.
    pub(super) gives_way: bool,
    pub(super) fields: Fields,
    pub(super) payload: &'a [u8],
    pub(super) clients: &'a dyn Clients,
}

impl Cell<'_> {
    /// On which terms the PDU that begins is let in, if it is.
    fn admit(&self, vc: &mut Vc, receive: &Receive) -> Result<Terms, Discard> {
        if self.gives_way {
            return Err(Discard::Overload);
        }
        self.judge(vc, receive).ok_or(Discard::NonConforming)
    }

    fn judge(&self, vc: &mut Vc, receive: &Receive) -> Option<Terms> {
        let mut terms = Terms {
            lent: false,
            tagged: false,
            charged: Charged::default(),
        };
        match vc.buckets.judge(self.now_ns, self.fields.clp) {
            policer::Verdict::Conforming(charged) => {
                terms.charged = charged;
                if let Some(reserve) = vc.buckets.kept_for_others(self.fields.clp) {
                    vc.read_tail(self.clients);
                    if !has_room(vc, reserve.into()) {
                        return None;
                    }
                }
            }
            policer::Verdict::Excess { tagged } => {
                let reserve = match receive.excess {
                    Excess::Discard => return None,
                    Excess::Tag { reserve } => {
                        (terms.charged, terms.tagged) = (tagged, true);
                        reserve
                    }
                    Excess::WhenIdle { reserve } => {
                        if vc.lease_pdus == 0 || self.now_ns >= vc.lease_expires_ns {
                            return None;
                        }
                        terms.lent = true;
                        reserve
                    }
                };
                vc.read_tail(self.clients);
                if !has_room(vc, reserve.into()) {
                    return None;
                }
            }
        }
        if !has_room(vc, 0) {
            vc.read_tail(self.clients);
        }
        Some(terms)
    }
}

fn has_room(vc: &Vc, reserve: u64) -> bool {
    let sizes = vc.sizes;
    let interleaved = vc.interleaved.as_ref();
    interleaved.is_some_and(|i| i.has_room(sizes.receive_slots, sizes.receive_buffer, reserve))
}

impl Reference {
    /// A cell of user data on an AAL3/4 VC.
    pub(super) fn cell_of_aal34(&mut self, index: u16, receive: &Receive, cell: &Cell<'_>) {
        let sar = Sar::of(cell.payload);
        let (fate, failed) = self.fate(index, receive, cell, &sar);
        if let Some((cells, reason)) = failed {
            self.lose(index, cells, reason);
        }
        self.count_held(index);
        let vc = self.vcs.get_mut(index).expect("the caller found it");
        let port = vc.request.port;
        let (outcome, cells) = match &fate {
            Fate::Held(cells) => (CellOutcome::Accepted, *cells),
            Fate::Delivered(done) => {
                vc.stats.cells_delivered += done.cells;
                vc.stats.cells_delivered_clp1 += done.cells_clp1;
                vc.stats.pdus_delivered += 1;
                vc.stats.pdus_lent += u64::from(done.terms.lent);
                vc.stats.pdus_tagged += u64::from(done.terms.tagged);
                vc.queue_head += 1;
                self.delivered += done.cells;
                (CellOutcome::Delivered, done.cells)
            }
            Fate::Refused(reason) | Fate::Discarded(reason) => {
                let begins = matches!(fate, Fate::Refused(_));
                vc.stats.pdus_discarded.add(*reason, begins.into());
                vc.stats.cells_discarded.add(*reason, 1);
                self.discarded.add(*reason, 1);
                (CellOutcome::Discarded(*reason), 0)
            }
        };
        let judged = Judged {
            port,
            fields: Some(cell.fields),
        };
        self.expected.outcomes.push_back((Some(outcome), judged));
        let full = matches!(
            fate,
            Fate::Refused(Discard::BufferFull | Discard::QueueFull)
        );
        if full && vc.told_full_at != Some(vc.queue_tail) {
            vc.told_full_at = Some(vc.queue_tail);
            self.post_queue_full(index);
        }
        let seen = Seen {
            first: sar.begins(),
            accepted: !matches!(outcome, CellOutcome::Discarded(_)),
            complete: matches!(outcome, CellOutcome::Delivered),
            cells: cells as u32,
        };
        self.notify(index, seen);
        if let Fate::Delivered(done) = fate {
            self.check_threshold(index, cell.clients);
            let vc = &self.vcs[index];
            self.expected.pdus.push_back(ExpectedPdu {
                memory: vc.memory,
                vc: vc.id,
                position: done.position,
                sdu: done.sdu,
                uu: 0,
                cpi: 0,
                mid: sar.mid,
                lent: done.terms.lent,
                tagged: done.terms.tagged,
                clp: done.cells_clp1 > 0 || done.terms.tagged,
                congested: cell.fields.pti & 2 != 0,
                cells: done.cells as u32,
                time: Time::from_ns(self.now_ns),
            });
        }
    }

    /// What becomes of a cell, and of a PDU in progress that fails by it.
    fn fate(
        &mut self,
        index: u16,
        receive: &Receive,
        cell: &Cell<'_>,
        sar: &Sar<'_>,
    ) -> (Fate, Option<(u64, Discard)>) {
        let vc = self.vcs.get_mut(index).expect("the caller found it");
        let clp = cell.fields.clp == 1;
        if remainder10(cell.payload) != 0 {
            return (Fate::Discarded(Discard::CrcError), None);
        }
        let mut terms = None;
        let mut failed = None;
        let fate = if sar.begins() {
            let admitted = cell.admit(vc, receive);
            terms = admitted.ok();
            let sizes = (vc.sizes.receive_slots, vc.sizes.receive_buffer);
            let interleaved = vc.interleaved.as_mut().expect("an AAL3/4 VC");
            if let Some(at) = interleaved.find(sar.mid) {
                let cells = interleaved.replace(at, Slot::Vacant);
                failed = cells.map(|cells| (cells, Discard::LostCell));
            }
            let bom = sar.segment_type == 2;
            let result = match admitted {
                Err(reason) => Err(reason),
                Ok(terms) if bom => interleaved
                    .begin(cell.now_ns, sizes, sar, clp, terms)
                    .map(|()| Fate::Held(1)),
                Ok(terms) => interleaved.single(sizes, sar).map(|(position, sdu)| {
                    Fate::Delivered(Box::new(Done {
                        position,
                        sdu,
                        cells: 1,
                        cells_clp1: clp.into(),
                        terms,
                    }))
                }),
            };
            result.unwrap_or_else(|reason| {
                if let Some(at) = interleaved.free_slot().filter(|_| bom) {
                    interleaved.slots[at] = Slot::Failing(sar.mid, reason);
                }
                Fate::Refused(reason)
            })
        } else {
            let interleaved = vc.interleaved.as_mut().expect("an AAL3/4 VC");
            if let Some(Slot::Open(_, pdu)) =
                interleaved.find(sar.mid).map(|at| &interleaved.slots[at])
            {
                terms = Some(pdu.terms);
            }
            let (fate, cells) = interleaved.proceed(sar, clp);
            if let (Fate::Discarded(reason), Some(cells)) = (&fate, cells) {
                failed = Some((cells, *reason));
            }
            fate
        };
        let accepted = matches!(fate, Fate::Held(_) | Fate::Delivered(_));
        if let Some(terms) = terms.filter(|_| accepted) {
            if sar.begins() {
                vc.lease_pdus -= u32::from(terms.lent);
                vc.buckets.arrive(terms.charged, cell.earliest);
            }
            vc.buckets.charge(terms.charged, 1);
        }
        (fate, failed)
    }

    /// A PDU in progress with so many cells is given up.
    fn lose(&mut self, index: u16, cells: u64, reason: Discard) {
        let vc = self.vcs.get_mut(index).expect("the caller found it");
        vc.stats.cells_discarded.add(reason, cells);
        vc.stats.pdus_discarded.add(reason, 1);
        self.discarded.add(reason, cells);
        self.count_held(index);
    }

    /// PDUs that took too long are given up, after the cells of the step.
    pub(crate) fn expire_reassembly(&mut self) {
        let indices: Vec<u16> = self.interleaved.iter().copied().collect();
        for index in indices {
            let now_ns = self.now_ns;
            let vc = self.vcs.get_mut(index).expect("it was listed");
            let late = vc.interleaved.as_mut().and_then(|interleaved| {
                let before_ns = now_ns.checked_sub(interleaved.timeout_ns)?;
                let timed = interleaved.timeout_ns != 0;
                timed.then(|| interleaved.give_up(before_ns, Discard::ReassemblyTimeout))
            });
            for cells in late.unwrap_or_default() {
                self.lose(index, cells, Discard::ReassemblyTimeout);
            }
        }
    }

    /// All PDUs in progress on an AAL3/4 VC end here.
    pub(super) fn lose_interleaved(&mut self, index: u16) {
        let vc = self.vcs.get_mut(index).expect("the caller found it");
        let all = vc.interleaved.as_mut();
        let lost = all.map(|all| all.give_up(u64::MAX, Discard::Closed));
        for cells in lost.unwrap_or_default() {
            self.lose(index, cells, Discard::Closed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_sdu_of_36_octets_fits_one_cell() {
        assert_eq!((cells_of_sdu(36), cells_of_sdu(37)), (1, 2));
        assert_eq!(payloads(&[1; 36], 5, 9)[0][0] >> 6, 3);
        assert_eq!(payloads(&[1; 37], 5, 9).len(), 2);
    }
}
