//! The common buffer of a receiver.

use core::ops::Range;

use super::extents::Extents;
use super::list::{PciList, Standing};
use super::{Arq, Extent, Pointers, Progress, Store, Terms};
use crate::aal::tree::Tree;
use crate::terminal::{Discard, Pci, Planted};

/// The common buffer of one transfer, into which the controller writes what it takes out of cells.
///
/// A PDU [begins](Self::begin) when its PCI is there and checked, is placed piece by piece, and
/// ends complete or damaged. What is complete is held; [`Self::acknowledge`] makes it final, PDU by
/// PDU in order, as far as nothing is missing. Nothing is allocated after [`Self::new`].
#[derive(Clone, Debug)]
pub struct ReceiveBuffer<S> {
    store: S,
    terms: Terms,
    list: PciList,
    /// B(3): header and tail.
    disk: Box<[u8]>,
    w3: usize,
    held: Extents,
    progress: Option<Progress>,
    /// PDUs ever begun.
    begun: u64,
    ap: u64,
    edge: u64,
}

/// Stands for a PDU in progress, until it or another begins or ends: of two PDUs that come
/// interleaved, the second ends the first, whose further cells find that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// A PDU that has become final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// What it said of itself. If it was the last of its disk-PDU, B(3) is complete until the next
    /// is acknowledged.
    pub pci: Pci,
    /// Its number, counted from the run's first.
    pub sequence: u64,
}

impl<S: Store> ReceiveBuffer<S> {
    /// An empty buffer for PDUs as `tree` makes them, with its edge at the start of the transfer.
    pub fn new(tree: &Tree, terms: Terms, store: S) -> Self {
        let list = PciList::new(tree.record(), terms.window);
        let disk = tree.record().len - tree.record().header;
        Self {
            store,
            terms,
            held: Extents::new(list.window() as u32),
            list,
            disk: vec![0; disk].into_boxed_slice(),
            w3: 0,
            progress: None,
            begun: 0,
            ap: terms.start,
            edge: terms.start,
        }
    }

    /// What the transfer agreed on.
    pub const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Where the payload goes.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// Where the payload has gone.
    pub fn into_store(self) -> S {
        self.store
    }

    /// As [`Self::store`], for the caller to make room in. What is below Ap is final.
    pub const fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Where the pointers are.
    pub fn pointers(&self) -> Pointers {
        let idle = self.held.end().unwrap_or(self.ap);
        Pointers {
            a2: self.list.a,
            w2: self.list.w,
            w3: self.w3,
            ap: self.ap,
            wp: self.progress.map_or(idle, |progress| progress.start),
            p: self.progress.map_or(idle, |progress| progress.p),
            edge: self.edge,
            end: self.terms.end,
        }
    }

    /// What is held above Ap, in order: at most as many as the window has PDUs.
    pub fn held(&self) -> impl Iterator<Item = &Extent> {
        self.held.iter()
    }

    /// Lets payload be written below `edge`, as far as the transfer goes. It never closes again:
    /// what was allowed once may be on its way.
    pub fn open_to(&mut self, edge: u64) {
        self.edge = self.edge.max(edge.min(self.terms.end));
    }

    /// Begins the PDU with this PCI, whose check was right: takes its place in B(2) and its extent
    /// in B(4). A PDU in progress is given up as damaged first.
    pub fn begin(&mut self, pci: &Pci) -> Result<Ticket, Discard> {
        self.damaged(Ticket(self.begun));
        let (sequence, octets) = self.place_of(pci)?;
        self.list.set(sequence, *pci);
        self.progress = Some(Progress {
            sequence,
            start: octets.start,
            p: octets.start,
            end: octets.end,
        });
        self.begun += 1;
        Ok(Ticket(self.begun))
    }

    /// The number and the extent of the PDU with this PCI, if it may be written there.
    fn place_of(&self, pci: &Pci) -> Result<(u64, Range<u64>), Discard> {
        if pci.transfer != self.terms.transfer {
            return Err(Discard::UnknownTransfer);
        }
        if pci.run != self.terms.run && !self.store.has(Planted::StaleRunTaken) {
            return Err(Discard::StaleRun);
        }
        let sequence = match self.list.standing(pci.sequence) {
            Standing::Below => return Err(Discard::Repeated),
            Standing::Beyond => return Err(Discard::OutsideWindow),
            Standing::Inside(sequence) => sequence,
        };
        if self.held.holds(sequence) {
            let octets = pci.end().map(|end| pci.offset..end);
            let octets = octets.filter(|_| self.store.has(Planted::HeldOverwritten));
            return octets
                .map(|octets| (sequence, octets))
                .ok_or(Discard::Repeated);
        }
        if self.terms.arq == Arq::GoBackN && sequence != self.list.w {
            return Err(Discard::OutOfOrder);
        }
        let (before, behind) = self.held.around(sequence);
        let from = before.unwrap_or(self.ap);
        let to = behind.unwrap_or(self.edge);
        match pci.end() {
            Some(end) if from <= pci.offset && end <= to => Ok((sequence, pci.offset..end)),
            _ => Err(Discard::OutsideWindow),
        }
    }

    /// The PDU that `ticket` stands for, if it is in progress.
    #[inline(always)]
    fn progress(&mut self, ticket: Ticket) -> Option<&mut Progress> {
        self.progress.as_mut().filter(|_| ticket.0 == self.begun)
    }

    /// The octets of the PCIs of the PDU in progress; none if it is not.
    #[inline(always)]
    pub fn record_mut(&mut self, ticket: Ticket) -> Option<&mut [u8]> {
        let sequence = self.progress(ticket)?.sequence;
        Some(self.list.record_mut(sequence))
    }

    /// Writes the next octets of payload of the PDU in progress at p. What would be beyond its
    /// extent is not written. False if the PDU is not in progress.
    #[inline(always)]
    pub fn place(&mut self, ticket: Ticket, octets: &[u8]) -> bool {
        let Some(progress) = self.progress.as_mut().filter(|_| ticket.0 == self.begun) else {
            return false;
        };
        let room = (progress.end - progress.p).min(octets.len() as u64);
        self.store.write(progress.p, &octets[..room as usize]);
        progress.p += room;
        true
    }

    /// The PDU in progress has come whole: it is held. False if it is not in progress, or its
    /// extent is not full, which is damage.
    pub fn complete(&mut self, ticket: Ticket) -> bool {
        let Some(progress) = self.progress(ticket).copied() else {
            return false;
        };
        if progress.p != progress.end {
            self.damaged(ticket);
            return false;
        }
        self.progress = None;
        let Progress {
            sequence,
            start,
            end,
            ..
        } = progress;
        self.held.insert(sequence, start..end);
        self.list.w = self.list.w.max(sequence + 1);
        true
    }

    /// The PDU in progress is damaged: p goes back. With go-back-N it goes back to Ap, and what is
    /// held above is no more; acknowledge first what is to stay. If the PDU is not in progress
    /// nothing happens.
    pub fn damaged(&mut self, ticket: Ticket) {
        let Some(progress) = self.progress(ticket).copied() else {
            return;
        };
        self.progress = None;
        if self.store.has(Planted::DamagedHeld) {
            self.held
                .insert(progress.sequence, progress.start..progress.end);
            self.list.w = self.list.w.max(progress.sequence + 1);
            return;
        }
        if self.terms.arq == Arq::GoBackN {
            self.held.clear();
            self.list.w = self.list.a;
        }
    }

    /// Makes the next PDU final, if it is held. To be called until it gives none: each call moves
    /// a(2) and Ap by one PDU.
    pub fn acknowledge(&mut self) -> Option<Acknowledged> {
        let sequence = self.list.a;
        if !self.held.holds(sequence) {
            return None;
        }
        let pci = self.list.pci(sequence);
        // Of a PDU that was begun, the end was found below the edge.
        let end = pci.end().unwrap_or(self.ap);
        self.held.take_first(sequence, end);
        self.ap = end;
        self.list.a += 1;
        let layout = self.list.layout();
        let header = layout.tail - layout.header;
        let octets = &self.list.record(sequence)[layout.header..];
        if pci.place.is_first() {
            self.disk[..header].copy_from_slice(&octets[..header]);
            self.w3 = header;
        }
        if pci.place.is_last() {
            self.disk[header..].copy_from_slice(&octets[header..]);
            self.w3 = self.disk.len();
        }
        Some(Acknowledged { pci, sequence })
    }

    /// The disk layer's header and tail in B(3), of which w(3) octets have come.
    pub fn disk(&self) -> (&[u8], &[u8]) {
        let layout = self.list.layout();
        self.disk.split_at(layout.tail - layout.header)
    }
}
