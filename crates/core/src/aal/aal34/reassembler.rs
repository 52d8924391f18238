use serde::{Deserialize, Serialize};

use super::mids::{Mid, Mids, Pdu};
use super::space::Space;
use super::{Discard, FIRST_LEN, Failed, InProgress, Limits, Outcome, PAD_TO, Received, Verdict};
use crate::Time;
use crate::aal::Memory;
use crate::wire::{Checked, CpcsHeader, CpcsTrailer, SAR_PAYLOAD_LEN, SarPdu, SegmentType};

/// The reassembly of one VC, and the layout of its receive buffer.
///
/// ```text
///                 BOM: reserve min(BAsize, max_sdu)
///   +----------+ --------------------------------------> +------+ --+ COM: write
///   |  vacant  |                                         | open | <-+
///   +----------+ <-------------------------------------- +------+
///     ^      |           EOM: deliver                       |
///     | EOM  | BOM: refuse                                  | loss, timeout, ...
///     |      v                                              |
///   +----------+ <------------------------------------------+
///   | failing  | --+ COM: discard for the same reason
///   +----------+ <-+                          one of these for each MID
/// ```
///
/// An SDU begins on a multiple of 64 octets and is written once, each cell where it belongs. PDUs
/// are delivered as they are completed; the space comes back in the order in which they began.
/// Nothing is allocated after [`Reassembler::new`].
///
/// A failing MID gives its slot up when another PDU needs it; cells that come on it after that are
/// discarded as [`Discard::MissingBom`], as are those of a PDU for which no slot was left.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reassembler {
    limits: Limits,
    space: Space,
    mids: Mids,
    /// No PDU in progress is late before this.
    deadline: Option<Time>,
    held_cells: u32,
}

impl Reassembler {
    /// Reassembly in an empty receive buffer.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            space: Space::new(limits.buffer_len, limits.descriptors),
            mids: Mids::new(Self::mids(&limits)),
            deadline: None,
            held_cells: 0,
        }
    }

    /// Octets of memory that one with these limits is made of, its own included. The receive
    /// buffer is not among them.
    pub fn memory_len(limits: &Limits) -> usize {
        let parts = Space::memory_len(limits.descriptors) + Mids::memory_len(Self::mids(limits));
        size_of::<Self>() + parts
    }

    /// PDUs that can be in progress: MIDs have ten bits.
    fn mids(limits: &Limits) -> u16 {
        limits.mids.min(SarPdu::MIDS)
    }

    /// What it may hold.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether nothing was ever delivered and no PDU is in progress.
    pub fn is_fresh(&self) -> bool {
        self.space.is_fresh()
    }

    /// Cells of PDUs in progress.
    pub const fn held_cells(&self) -> u32 {
        self.held_cells
    }

    /// PDUs in progress.
    pub fn open_mids(&self) -> usize {
        self.mids.open().count()
    }

    /// Whether a PDU of the largest size would lack room or a descriptor: reason to look at the
    /// client's tail before the next BOM or SSM, and to [`Reassembler::release`].
    pub fn is_short(&self) -> bool {
        !self.has_room_beyond(0)
    }

    /// Whether a descriptor is free, and a PDU of the largest size would leave `reserve` octets of
    /// the buffer free.
    pub fn has_room_beyond(&self, reserve: u32) -> bool {
        let largest = u32::from(self.limits.max_sdu).next_multiple_of(PAD_TO);
        self.space.has_room(largest, reserve)
    }

    /// The PDU in progress on `mid`, if there is one.
    pub fn in_progress(&self, mid: u16) -> Option<InProgress> {
        let pdu = self.mids.open_on(mid)?;
        Some(InProgress {
            cells: pdu.cells,
            mark: pdu.mark,
        })
    }

    /// Lets the PDU in progress on `mid`, if there is one, bear `mark` until it ends.
    pub fn mark(&mut self, mid: u16, mark: u8) {
        if let Some(at) = self.mids.find(mid)
            && let Mid::Open(pdu) = self.mids.state(at)
        {
            pdu.mark = mark;
        }
    }

    /// The client has given back all descriptors before `tail`, counted from the first delivery.
    /// Bounded by the descriptors of the queue; a tail that cannot be changes nothing.
    pub fn release(&mut self, tail: u64) {
        self.space.release(tail);
    }

    /// Takes one cell's SAR-PDU; `clp` is its loss priority. At most one write to `memory`, whose
    /// length is that of the limits.
    pub fn receive<M: Memory>(
        &mut self,
        now: Time,
        memory: &mut M,
        cell: &Checked<SarPdu>,
        clp: bool,
    ) -> Outcome {
        if !cell.crc_valid {
            return Outcome::of(Verdict::Discarded(Discard::CrcError));
        }
        let cell = &cell.value;
        match cell.segment_type {
            SegmentType::Bom => {
                let failed = self.give_up_former(cell.mid);
                let verdict = match self.begin(now, memory, cell, clp) {
                    Ok(()) => Verdict::Held,
                    Err(reason) => {
                        self.remember(cell.mid, reason);
                        Verdict::Refused(reason)
                    }
                };
                Outcome {
                    failed,
                    cell: verdict,
                }
            }
            SegmentType::Ssm => {
                let failed = self.give_up_former(cell.mid);
                let single = self.single(memory, cell, clp);
                Outcome {
                    failed,
                    cell: single.map_or_else(Verdict::Refused, Verdict::Delivered),
                }
            }
            SegmentType::Com | SegmentType::Eom => self.proceed(memory, cell, clp),
        }
    }

    /// Throws away the PDU that begins with this cell, a BOM or SSM, which the caller does not let
    /// in for `reason`; the rest of its cells will go under it too. Other cells go the same way
    /// alone.
    pub fn refuse(&mut self, cell: &Checked<SarPdu>, reason: Discard) -> Outcome {
        match cell.valid() {
            None => Outcome::of(Verdict::Discarded(Discard::CrcError)),
            Some(cell) if cell.segment_type.begins() => {
                let failed = self.give_up_former(cell.mid);
                if cell.segment_type == SegmentType::Bom {
                    self.remember(cell.mid, reason);
                }
                Outcome {
                    failed,
                    cell: Verdict::Refused(reason),
                }
            }
            Some(_) => Outcome::of(Verdict::Discarded(reason)),
        }
    }

    /// When [`Reassembler::poll_timeout`] is to be asked next, if ever: not after the first PDU in
    /// progress is late.
    pub const fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Gives up a PDU that is late. To be called until it gives none.
    pub fn poll_timeout(&mut self, now: Time) -> Option<Failed> {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return None;
        }
        let first = self.mids.open().min_by_key(|(_, _, pdu)| pdu.since);
        self.deadline = first.map(|(_, _, pdu)| pdu.since.plus_ns(self.limits.timeout_ns));
        let (at, mid, _) = first?;
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return None;
        }
        self.fail(at, mid, Discard::ReassemblyTimeout)
    }

    /// Gives up a PDU in progress because the reassembly ends. To be called until it gives none.
    pub fn poll_close(&mut self) -> Option<Failed> {
        let (at, mid, _) = self.mids.open().next()?;
        self.fail(at, mid, Discard::Closed)
    }

    /// Goes on where `former` ended, whose PDUs were given up: their further cells go under the
    /// same reason as those before, as far as there are slots to remember them by.
    pub fn succeed(&mut self, former: &Self) {
        for (mid, reason) in former.mids.failing() {
            let Some(at) = self.mids.vacant() else {
                return;
            };
            self.mids.set(at, mid, Mid::Failing(reason));
        }
    }

    /// A BOM: finds a slot, room and a descriptor, and writes the first octets.
    fn begin<M: Memory>(
        &mut self,
        now: Time,
        memory: &mut M,
        cell: &SarPdu,
        clp: bool,
    ) -> Result<(), Discard> {
        if usize::from(cell.li) != SAR_PAYLOAD_LEN {
            return Err(Discard::LengthError);
        }
        let (header, first) = split_header(&cell.payload);
        if header.cpi != 0 {
            return Err(Discard::CpiError);
        }
        let room = self.room(header.ba_size);
        if room < FIRST_LEN as u32 {
            return Err(self.overflow(header.ba_size));
        }
        let at = self.mids.free().ok_or(Discard::TooManyMids)?;
        let (extent, position) = self.space.allocate(room)?;
        let offset = self.space.offset(position);
        memory.write(offset as usize, first);
        let pdu = Pdu {
            since: now,
            offset,
            held: first.len() as u32,
            room,
            extent,
            ba_size: header.ba_size,
            cells: 1,
            btag: header.btag,
            next_sn: (cell.sn + 1) % SarPdu::SNS,
            mark: 0,
            cells_clp1: clp.into(),
        };
        self.mids.set(at, cell.mid, Mid::Open(pdu));
        self.held_cells += 1;
        if self.limits.timeout_ns != 0 && self.deadline.is_none() {
            self.deadline = Some(now.plus_ns(self.limits.timeout_ns));
        }
        Ok(())
    }

    /// An SSM: a whole PDU.
    fn single<M: Memory>(
        &mut self,
        memory: &mut M,
        cell: &SarPdu,
        clp: bool,
    ) -> Result<Received, Discard> {
        let octets = meaningful(cell)?;
        if octets.len() < CpcsHeader::LEN {
            return Err(Discard::LengthError);
        }
        let (header, octets) = split_header(octets);
        let (octets, trailer) = split_trailer(octets).ok_or(Discard::LengthError)?;
        if header.cpi != 0 {
            return Err(Discard::CpiError);
        }
        let padded = octets.len() as u32;
        let len = self.judge(header.btag, header.ba_size, padded, trailer)?;
        let (extent, position) = self.space.allocate(padded)?;
        memory.write(self.space.offset(position) as usize, octets);
        Ok(Received {
            position: self.space.deliver(extent, padded),
            len,
            cells: 1,
            mid: cell.mid,
            cells_clp1: clp.into(),
        })
    }

    /// A COM or EOM.
    fn proceed<M: Memory>(&mut self, memory: &mut M, cell: &SarPdu, clp: bool) -> Outcome {
        let ends = cell.segment_type == SegmentType::Eom;
        let Some(at) = self.mids.find(cell.mid) else {
            return Outcome::of(Verdict::Discarded(Discard::MissingBom));
        };
        let outcome = match *self.mids.state(at) {
            Mid::Failing(reason) => Outcome::of(Verdict::Discarded(reason)),
            Mid::Open(mut pdu) => {
                pdu.cells_clp1 += u16::from(clp);
                match self.take(memory, cell, &mut pdu) {
                    Ok(None) => {
                        *self.mids.state(at) = Mid::Open(pdu);
                        self.held_cells += 1;
                        Outcome::of(Verdict::Held)
                    }
                    Ok(Some(received)) => {
                        self.held_cells -= u32::from(pdu.cells - 1);
                        Outcome::of(Verdict::Delivered(received))
                    }
                    Err(reason) => Outcome {
                        failed: self.fail(at, cell.mid, reason),
                        cell: Verdict::Discarded(reason),
                    },
                }
            }
        };
        if ends {
            self.mids.vacate(at);
        }
        outcome
    }

    /// Adds a cell to its PDU; the PDU if that completes it.
    fn take<M: Memory>(
        &mut self,
        memory: &mut M,
        cell: &SarPdu,
        pdu: &mut Pdu,
    ) -> Result<Option<Received>, Discard> {
        let ends = cell.segment_type == SegmentType::Eom;
        if ends && cell.li == SarPdu::ABORT {
            return Err(Discard::Aborted);
        }
        if cell.sn != pdu.next_sn {
            return Err(Discard::LostCell);
        }
        let octets = meaningful(cell)?;
        if !ends && octets.len() != SAR_PAYLOAD_LEN {
            return Err(Discard::LengthError);
        }
        let (octets, trailer) = if ends {
            split_trailer(octets).ok_or(Discard::LengthError)?
        } else {
            (octets, CpcsTrailer::default())
        };
        let held = pdu.held + octets.len() as u32;
        if held > pdu.room {
            return Err(self.overflow(pdu.ba_size));
        }
        let len = if ends {
            self.judge(pdu.btag, pdu.ba_size, held, trailer)?
        } else {
            0
        };
        memory.write(pdu.offset as usize + pdu.held as usize, octets);
        pdu.held = held;
        pdu.cells += 1;
        pdu.next_sn = (pdu.next_sn + 1) % SarPdu::SNS;
        Ok(ends.then(|| Received {
            position: self.space.deliver(pdu.extent, held),
            len,
            cells: pdu.cells,
            mid: cell.mid,
            cells_clp1: pdu.cells_clp1,
        }))
    }

    /// What header and trailer say of a PDU with `held` octets of SDU and pad: the SDU's length.
    fn judge(
        &self,
        btag: u8,
        ba_size: u16,
        held: u32,
        trailer: CpcsTrailer,
    ) -> Result<u16, Discard> {
        let len = trailer.length;
        if trailer.etag != btag {
            return Err(Discard::TagMismatch);
        }
        if len == 0 || u32::from(len).next_multiple_of(PAD_TO) != held {
            return Err(Discard::LengthError);
        }
        if len > ba_size {
            return Err(Discard::BaSizeError);
        }
        if len > self.limits.max_sdu {
            return Err(Discard::Oversized);
        }
        Ok(len)
    }

    /// Octets of SDU and pad that a PDU with this BAsize may have.
    fn room(&self, ba_size: u16) -> u32 {
        u32::from(ba_size.min(self.limits.max_sdu)).next_multiple_of(PAD_TO)
    }

    /// Why a PDU with this BAsize may not have more octets.
    fn overflow(&self, ba_size: u16) -> Discard {
        if ba_size > self.limits.max_sdu {
            Discard::Oversized
        } else {
            Discard::BaSizeError
        }
    }

    /// Ends what was on `mid` because a PDU begins there.
    fn give_up_former(&mut self, mid: u16) -> Option<Failed> {
        let at = self.mids.find(mid)?;
        let failed = self.fail(at, mid, Discard::MissingEom);
        self.mids.vacate(at);
        failed
    }

    /// Discards the further cells of a PDU that was not let in for this reason, if there is a slot
    /// to remember it by.
    fn remember(&mut self, mid: u16, reason: Discard) {
        if let Some(at) = self.mids.free() {
            self.mids.set(at, mid, Mid::Failing(reason));
        }
    }

    /// Gives up the PDU in slot `at`, if one is in progress there.
    fn fail(&mut self, at: usize, mid: u16, reason: Discard) -> Option<Failed> {
        let Mid::Open(pdu) = *self.mids.state(at) else {
            return None;
        };
        self.space.abandon(pdu.extent);
        self.held_cells -= u32::from(pdu.cells);
        *self.mids.state(at) = Mid::Failing(reason);
        Some(Failed {
            mid,
            reason,
            cells: pdu.cells,
        })
    }
}

/// The octets of a cell that mean something: a multiple of four of them, for a PDU is one.
fn meaningful(cell: &SarPdu) -> Result<&[u8], Discard> {
    let whole = cell.li.is_multiple_of(PAD_TO as u8);
    let octets = cell.payload.get(..cell.li.into());
    octets.filter(|_| whole).ok_or(Discard::LengthError)
}

/// The header and what follows it.
fn split_header(octets: &[u8]) -> (CpcsHeader, &[u8]) {
    match octets.split_first_chunk() {
        Some((header, rest)) => (CpcsHeader::parse(*header), rest),
        None => (CpcsHeader::default(), &[]),
    }
}

/// What stands before the trailer, and the trailer; none if there is no room for one.
fn split_trailer(octets: &[u8]) -> Option<(&[u8], CpcsTrailer)> {
    let (before, trailer) = octets.split_last_chunk()?;
    Some((before, CpcsTrailer::parse(*trailer)))
}
