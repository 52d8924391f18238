//! Out of cells or SDUs, into the buffers.

use std::sync::Arc;

use cellgate_simd::{Fold, FoldState, RESIDUE};

use super::Transfers;
use super::cpcs::{Scratch, judge, move_pcis};
use crate::aal::tree::{Place, Row, Train, Tree};
use crate::contract::Aal;
use crate::terminal::{Counts, Discard, Kind, Pci, PciError, Ticket};
use crate::wire::{Checked, PAYLOAD_LEN, SarPci, SarPdu, SegmentType};

/// Takes the cells of one VC (AAL5) or of one MID (AAL3/4), or the SDUs of either, apart.
///
/// ```text
///              first cell: PCI good, place free
///   +------+ ------------------------------------> +------+ --+ next cell: its pieces go
///   | idle |                                       | open | <-+ to their places
///   +------+ <------------------------------------ +------+
///    ^   |           last cell: held, or damaged      |
///    |   | first cell: no place for it                | a cell that does not fit
///    |   v                                            |
///   +----------+ <------------------------------------+
///   | skipping | --+ the rest is counted for the same reason
///   +----------+ <-+
/// ```
///
/// A PDU that is not let in writes nothing but counters. Nothing is allocated after
/// [`Demultiplexer::new`].
#[derive(Clone, Debug)]
pub struct Demultiplexer {
    pub(super) tree: Arc<Tree>,
    state: State,
    fold: FoldState,
    pub(super) scratch: Scratch,
    pub(super) counts: Counts,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Idle,
    Open(Open),
    Skipping(Discard),
}

/// A PDU in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    train: Train,
    pub(super) pci: Pci,
    pub(super) sdu_len: u16,
    /// Cells taken.
    cells: u16,
    next_sn: u8,
    /// Of its buffer; none: to scratch.
    pub(super) ticket: Option<Ticket>,
}

/// What a cell, or an SDU, did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It belongs to a PDU in progress.
    Held,
    /// It completed a PDU, which its buffer holds.
    Complete(Pci),
    /// It completed a control PDU: [`Demultiplexer::control`] has what is behind the PCI, until
    /// the next cell.
    Control(Pci),
    /// The PDU ends here, or was not let in; its PCI if it had a good one.
    Discarded(Discard, Option<Pci>),
    /// A cell of a PDU that was discarded before for this reason, or of none.
    Skipped(Discard),
}

impl Demultiplexer {
    /// For PDUs as `tree` makes them, whose PCIs must have [`Pci::LEN`] octets: none if not.
    /// Control PDUs may have `control_max` octets behind the PCI.
    pub fn new(tree: Arc<Tree>, control_max: u16) -> Option<Self> {
        let opening = tree.opening();
        (usize::from(tree.lengths().pci) == Pci::LEN && opening.len() == Pci::LEN).then(|| Self {
            scratch: Scratch::new(tree.record().len, control_max.into()),
            tree,
            state: State::Idle,
            fold: FoldState::default(),
            counts: Counts::default(),
        })
    }

    /// The AAL of its PDUs.
    #[inline(always)]
    pub fn aal(&self) -> Aal {
        self.tree.aal()
    }

    /// What has come.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What is behind the PCI of the control PDU that [`Outcome::Control`] told of.
    pub fn control(&self) -> &[u8] {
        self.scratch.octets()
    }

    /// Takes the payload of a cell of AAL5; `last` is its header's mark of the last of a PDU. At
    /// most 48 octets are moved, each once.
    #[inline(always)]
    pub fn aal5_cell<F: Fold, T: Transfers>(
        &mut self,
        fold: F,
        last: bool,
        payload: &[u8; PAYLOAD_LEN],
        to: &mut T,
    ) -> Outcome {
        let mut open = match self.state {
            State::Open(open) => open,
            State::Skipping(reason) => return self.skip(reason, last),
            State::Idle => match self.begin(payload, to) {
                Ok(open) => {
                    fold.start(&mut self.fold);
                    open
                }
                Err((reason, pci)) => return self.refuse(reason, pci, last),
            },
        };
        self.counts.hold();
        fold.cell(&mut self.fold, payload);
        let fits = |row: &Row| {
            (row.is_last() == last)
                .then_some(())
                .ok_or(Discard::LostCell)
        };
        let moved = self.take(&mut open, fits, payload, to);
        let judged = moved.and_then(|()| match last {
            true if fold.finish(&self.fold) != RESIDUE => Err(Discard::CrcError),
            true => self.judge(&open, to),
            false => Ok(()),
        });
        self.conclude(open, judged, last, to)
    }

    /// Takes a cell of AAL3/4: `sar` is what [`SarPci::parse`] makes of `payload`, and its MID is
    /// that of this demultiplexer, as far as its CRC is right. At most 44 octets are moved, each
    /// once.
    #[inline(always)]
    pub fn aal34_cell<T: Transfers>(
        &mut self,
        sar: &Checked<SarPci>,
        payload: &[u8; PAYLOAD_LEN],
        to: &mut T,
    ) -> Outcome {
        let Some(sar) = sar.valid() else {
            self.counts.discard_cell(Discard::CrcError);
            return Outcome::Skipped(Discard::CrcError);
        };
        let last = matches!(sar.segment_type, SegmentType::Eom | SegmentType::Ssm);
        let mut open = if sar.segment_type.begins() {
            self.give_up(Discard::MissingEom, to);
            match self.begin(payload, to) {
                Ok(open) => Open {
                    next_sn: sar.sn,
                    ..open
                },
                Err((reason, pci)) => return self.refuse(reason, pci, last),
            }
        } else {
            match self.state {
                State::Open(open) => open,
                State::Skipping(reason) => return self.skip(reason, last),
                State::Idle => return self.skip(Discard::MissingBom, true),
            }
        };
        self.counts.hold();
        let next_sn = open.next_sn;
        let fits = |row: &Row| {
            if sar.segment_type == SegmentType::Eom && sar.li == SarPdu::ABORT {
                Err(Discard::Aborted)
            } else if sar.sn != next_sn {
                Err(Discard::LostCell)
            } else if (row.segment_type, row.li) != (sar.segment_type, sar.li) {
                Err(Discard::LengthError)
            } else {
                Ok(())
            }
        };
        let moved = self.take(&mut open, fits, payload, to);
        open.next_sn = (next_sn + 1) % SarPdu::SNS;
        let judged = moved.and_then(|()| match last {
            true => self.judge(&open, to),
            false => Ok(()),
        });
        self.conclude(open, judged, last, to)
    }

    /// Gives up the PDU in progress, because the connection ends or its last cell is overdue.
    pub fn close<T: Transfers>(&mut self, to: &mut T) {
        self.give_up(Discard::Abandoned, to);
    }

    /// The PCI at the front of a PDU's first cell, and where the PDU goes.
    #[inline(always)]
    fn begin<T: Transfers>(
        &mut self,
        payload: &[u8; PAYLOAD_LEN],
        to: &mut T,
    ) -> Result<Open, (Discard, Option<Pci>)> {
        let octets = payload
            .get(self.tree.opening())
            .and_then(|octets| octets.first_chunk());
        self.admit(octets.ok_or((Discard::HeaderCheck, None))?, to)
    }

    pub(super) fn admit<T: Transfers>(
        &mut self,
        octets: &[u8; Pci::LEN],
        to: &mut T,
    ) -> Result<Open, (Discard, Option<Pci>)> {
        let pci = Pci::parse(octets).map_err(|error| match error {
            PciError::Check => (Discard::HeaderCheck, None),
            PciError::Unknown => (Discard::UnknownHeader, None),
        })?;
        self.admit_pci(pci, to)
            .map_err(|reason| (reason, Some(pci)))
    }

    fn admit_pci<T: Transfers>(&mut self, pci: Pci, to: &mut T) -> Result<Open, Discard> {
        let place = match pci.kind {
            Kind::Data => pci.place,
            Kind::Control => Place::Middle,
        };
        let sdu_len = self.tree.sdu_len(place, pci.length);
        let sdu_len = sdu_len.ok_or(Discard::LengthError)?;
        let train = self
            .tree
            .train(place, sdu_len)
            .ok_or(Discard::LengthError)?;
        let ticket = match pci.kind {
            Kind::Data => {
                let buffer = to.buffer(pci.transfer).ok_or(Discard::UnknownTransfer)?;
                Some(buffer.begin(&pci)?)
            }
            Kind::Control if usize::from(pci.length) > self.scratch.room() => {
                return Err(Discard::Oversized);
            }
            Kind::Control => None,
        };
        self.scratch.clear();
        Ok(Open {
            train,
            pci,
            sdu_len,
            cells: 0,
            next_sn: 0,
            ticket,
        })
    }

    /// Moves the pieces of the next cell of `open`, if the cell `fits` the row.
    #[inline(always)]
    fn take<T: Transfers>(
        &mut self,
        open: &mut Open,
        fits: impl Fn(&Row) -> Result<(), Discard>,
        payload: &[u8; PAYLOAD_LEN],
        to: &mut T,
    ) -> Result<(), Discard> {
        let row = self
            .tree
            .row(open.train, open.cells)
            .ok_or(Discard::LostCell)?;
        fits(row)?;
        open.cells += 1;
        let octets = payload.get(row.payload().cell()).unwrap_or_default();
        let Some(ticket) = open.ticket else {
            move_pcis(row, payload, &mut self.scratch.record);
            return self.scratch.write(octets);
        };
        let buffer = to.buffer(open.pci.transfer).ok_or(Discard::Abandoned)?;
        let record = buffer.record_mut(ticket).ok_or(Discard::Abandoned)?;
        move_pcis(row, payload, record);
        buffer
            .place(ticket, octets)
            .then_some(())
            .ok_or(Discard::Abandoned)
    }

    /// What the CPCS says of a PDU whose cells are all there.
    #[inline(always)]
    fn judge<T: Transfers>(&mut self, open: &Open, to: &mut T) -> Result<(), Discard> {
        let record = match open.ticket {
            Some(ticket) => {
                let buffer = to.buffer(open.pci.transfer).ok_or(Discard::Abandoned)?;
                buffer.record_mut(ticket).ok_or(Discard::Abandoned)?
            }
            None => &mut self.scratch.record,
        };
        judge(&self.tree, record, open.sdu_len)
    }

    /// Goes on, or ends the PDU.
    #[inline(always)]
    pub(super) fn conclude<T: Transfers>(
        &mut self,
        open: Open,
        judged: Result<(), Discard>,
        last: bool,
        to: &mut T,
    ) -> Outcome {
        match judged {
            Ok(()) if !last => {
                self.state = State::Open(open);
                Outcome::Held
            }
            Ok(()) => self.complete(open, to),
            Err(reason) => self.damage(open, reason, last, to),
        }
    }

    fn complete<T: Transfers>(&mut self, open: Open, to: &mut T) -> Outcome {
        let outcome = match open.ticket {
            None => Outcome::Control(open.pci),
            Some(ticket) => {
                let buffer = to.buffer(open.pci.transfer);
                if !buffer.is_some_and(|buffer| buffer.complete(ticket)) {
                    return self.damage(open, Discard::Abandoned, true, to);
                }
                Outcome::Complete(open.pci)
            }
        };
        self.state = State::Idle;
        self.counts.deliver();
        outcome
    }

    /// Ends a PDU for `reason`; what is left of its cells is skipped.
    fn damage<T: Transfers>(
        &mut self,
        open: Open,
        reason: Discard,
        last: bool,
        to: &mut T,
    ) -> Outcome {
        if let Some(ticket) = open.ticket
            && let Some(buffer) = to.buffer(open.pci.transfer)
        {
            buffer.damaged(ticket);
        }
        self.counts.discard(reason);
        self.state = if last {
            State::Idle
        } else {
            State::Skipping(reason)
        };
        Outcome::Discarded(reason, Some(open.pci))
    }

    /// Does not let a PDU in.
    pub(super) fn refuse(&mut self, reason: Discard, pci: Option<Pci>, last: bool) -> Outcome {
        self.counts.hold();
        self.counts.discard(reason);
        self.state = if last {
            State::Idle
        } else {
            State::Skipping(reason)
        };
        Outcome::Discarded(reason, pci)
    }

    fn skip(&mut self, reason: Discard, last: bool) -> Outcome {
        self.counts.discard_cell(reason);
        if last {
            self.state = State::Idle;
        }
        Outcome::Skipped(reason)
    }

    fn give_up<T: Transfers>(&mut self, reason: Discard, to: &mut T) {
        if let State::Open(open) = self.state {
            self.damage(open, reason, true, to);
        }
        self.state = State::Idle;
    }
}
