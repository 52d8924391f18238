//! The common buffer of a transmitter.

use super::list::{PciList, Standing};
use super::{Pointers, Progress, Source, Terms};
use crate::aal::tree::{Place, Tree};
use crate::terminal::{Kind, Pci};

/// The common buffer of one transfer, out of which the controller fills cells.
///
/// The caller [cuts](Self::cut) the payload into PDUs; each [begins](Self::begin) as often as it is
/// sent, and keeps number, place and length. Nothing is allocated after [`Self::new`].
#[derive(Clone, Debug)]
pub struct TransmitBuffer<S> {
    source: S,
    terms: Terms,
    list: PciList,
    /// B(3): header and tail of the disk-PDU that is cut.
    disk: Box<[u8]>,
    progress: Option<Progress>,
    ap: u64,
    /// Where the last PDU that was cut ends.
    cut_to: u64,
    edge: u64,
    /// Times that a PDU has begun.
    begun: u64,
}

impl<S: Source> TransmitBuffer<S> {
    /// An empty buffer for PDUs as `tree` makes them, with its edge at the start of the transfer.
    pub fn new(tree: &Tree, terms: Terms, source: S) -> Self {
        let disk = tree.record().len - tree.record().header;
        Self {
            source,
            terms,
            list: PciList::new(tree.record(), terms.window),
            disk: vec![0; disk].into_boxed_slice(),
            progress: None,
            ap: terms.start,
            cut_to: terms.start,
            edge: terms.start,
            begun: 0,
        }
    }

    /// What the transfer agreed on.
    pub const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Where the payload comes from.
    pub const fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// Where the pointers are.
    pub fn pointers(&self) -> Pointers {
        Pointers {
            a2: self.list.a,
            w2: self.list.w,
            w3: self.disk.len(),
            ap: self.ap,
            wp: self.progress.map_or(self.cut_to, |progress| progress.start),
            p: self.progress.map_or(self.cut_to, |progress| progress.p),
            edge: self.edge,
            end: self.terms.end,
        }
    }

    /// Lets PDUs be cut below `edge`, as far as the transfer goes: the receiver has room there.
    pub fn open_to(&mut self, edge: u64) {
        self.edge = self.edge.max(edge.min(self.terms.end));
    }

    /// B(3): the header and the tail that the next PDUs to be cut take with them.
    pub fn disk_mut(&mut self) -> (&mut [u8], &mut [u8]) {
        let layout = self.list.layout();
        self.disk.split_at_mut(layout.tail - layout.header)
    }

    /// Where the last PDU that was cut ends.
    pub const fn cut_to(&self) -> u64 {
        self.cut_to
    }

    /// Times that a PDU has begun.
    pub const fn begun(&self) -> u64 {
        self.begun
    }

    /// Makes the next PDU: `length` octets of payload from `offset` of the file on, which is not
    /// before the end of the PDU before it. Its number; none if the window is full, or the extent
    /// is before that end or beyond the edge.
    pub fn cut(&mut self, place: Place, offset: u64, length: u16) -> Option<u64> {
        let sequence = self.list.w;
        let pci = Pci {
            kind: Kind::Data,
            place,
            transfer: self.terms.transfer,
            run: self.terms.run,
            sequence: sequence as u32 % Pci::SEQUENCES,
            serial: 0,
            offset,
            length,
        };
        let end = pci.end()?;
        let full = sequence - self.list.a >= self.list.window();
        if full || offset < self.cut_to || end > self.edge {
            return None;
        }
        self.list.set(sequence, pci);
        let layout = self.list.layout();
        let record = self.list.record_mut(sequence);
        record[layout.header..].copy_from_slice(&self.disk);
        self.list.w += 1;
        self.cut_to = end;
        Some(sequence)
    }

    /// Makes a control PDU of `length` octets from offset 0 on, in place of whatever was cut. It is
    /// of `transfer`, which need not be this buffer's. Its number.
    pub fn cut_control(&mut self, transfer: u16, length: u16) -> u64 {
        let sequence = self.list.w;
        let pci = Pci {
            kind: Kind::Control,
            place: Place::Middle,
            transfer,
            run: self.terms.run,
            sequence: 0,
            serial: 0,
            offset: 0,
            length,
        };
        self.progress = None;
        self.list.set(sequence, pci);
        self.list.a = sequence;
        self.list.w = sequence + 1;
        sequence
    }

    /// The PCI of a PDU that is cut and not acknowledged.
    pub fn pci(&self, sequence: u64) -> Option<Pci> {
        let is = (self.list.a..self.list.w).contains(&sequence);
        is.then(|| self.list.pci(sequence))
    }

    /// Begins to send a PDU, for the first time or again: Wp and p go to its place. Its PCI; none
    /// if it is not cut, or acknowledged. What was in progress ends.
    pub fn begin(&mut self, sequence: u64) -> Option<Pci> {
        let mut pci = self.pci(sequence)?;
        pci.serial = self.begun as u16;
        self.begun += 1;
        let at = self.list.layout().pci;
        self.list.record_mut(sequence)[at..at + Pci::LEN].copy_from_slice(&pci.emit());
        self.progress = Some(Progress {
            sequence,
            start: pci.offset,
            p: pci.offset,
            end: pci.end()?,
        });
        Some(pci)
    }

    /// The octets of the PCIs of the PDU in progress; none without one.
    #[inline(always)]
    pub fn record(&self) -> Option<&[u8]> {
        Some(self.list.record(self.progress?.sequence))
    }

    /// The same to be written.
    pub fn record_mut(&mut self) -> Option<&mut [u8]> {
        let sequence = self.progress?.sequence;
        Some(self.list.record_mut(sequence))
    }

    /// Reads the next octets of payload of the PDU in progress at p; false if it has not so many.
    /// With the last of them, the PDU that is the last of its disk-PDU gets the tail.
    #[inline(always)]
    pub fn take(&mut self, into: &mut [u8]) -> bool {
        let Some(progress) = &mut self.progress else {
            return false;
        };
        if progress.end - progress.p < into.len() as u64 {
            return false;
        }
        self.source.read(progress.p, into);
        progress.p += into.len() as u64;
        let Progress {
            sequence, p, end, ..
        } = *progress;
        if p == end && self.list.pci(sequence).place.is_last() {
            let tail = self.list.layout().tail;
            let record = self.list.record_mut(sequence);
            self.source.tail(end, &mut record[tail..]);
        }
        true
    }

    /// The PDU in progress has left.
    pub fn sent(&mut self) {
        self.progress = None;
    }

    /// The receiver has acknowledged all PDUs before the one with this number (as a PCI bears it).
    /// How many are new; none if that one cannot be: it is neither of the window nor next behind
    /// what was cut. The PDU in progress ends if it is among them.
    pub fn handle_acknowledged(&mut self, sequence: u32) -> Option<u64> {
        let to = match self.list.standing(sequence) {
            Standing::Inside(to) if to <= self.list.w => to,
            // A window that is acknowledged as a whole.
            _ if sequence == self.list.w as u32 % Pci::SEQUENCES => self.list.w,
            _ => return None,
        };
        let new = to - self.list.a;
        if let Some(last) = to.checked_sub(1).filter(|_| new > 0) {
            self.ap = self.list.pci(last).end().unwrap_or(self.ap);
            self.list.a = to;
            self.source.release(self.ap);
            self.progress = self.progress.filter(|progress| progress.sequence >= to);
        }
        Some(new)
    }
}
