//! The packet level: SDUs of an adapter that makes and reassembles PDUs.

use super::Transfers;
use super::demultiplexer::{Demultiplexer, Open, Outcome};
use crate::terminal::{Discard, Pci};

impl Demultiplexer {
    /// Takes an SDU that an adapter has reassembled and found good. Its payload is moved once.
    pub fn sdu<T: Transfers>(&mut self, sdu: &[u8], to: &mut T) -> Outcome {
        let opening = sdu.first_chunk().ok_or((Discard::HeaderCheck, None));
        let open = match opening.and_then(|octets| self.admit(octets, to)) {
            Ok(open) => open,
            Err((reason, pci)) => return self.refuse(reason, pci, true),
        };
        self.counts.hold();
        let judged = self.place_sdu(&open, sdu, to);
        self.conclude(open, judged, true, to)
    }

    /// Moves the parts of an SDU.
    fn place_sdu<T: Transfers>(
        &mut self,
        open: &Open,
        sdu: &[u8],
        to: &mut T,
    ) -> Result<(), Discard> {
        if sdu.len() != usize::from(open.sdu_len) {
            return Err(Discard::LengthError);
        }
        let layout = self.tree.record();
        let Some(ticket) = open.ticket else {
            return self.scratch.write(sdu.get(Pci::LEN..).unwrap_or_default());
        };
        let parts = self.tree.parts(open.pci.place, open.sdu_len);
        let parts = parts.ok_or(Discard::LengthError)?;
        let (pci, rest) = sdu.split_at(parts.pci.into());
        let (header, rest) = rest.split_at(parts.header.into());
        let (payload, tail) = rest.split_at(parts.payload.into());
        let buffer = to.buffer(open.pci.transfer).ok_or(Discard::Abandoned)?;
        let record = buffer.record_mut(ticket).ok_or(Discard::Abandoned)?;
        for (at, octets) in [
            (layout.pci, pci),
            (layout.header, header),
            (layout.tail, tail),
        ] {
            record[at..at + octets.len()].copy_from_slice(octets);
        }
        buffer
            .place(ticket, payload)
            .then_some(())
            .ok_or(Discard::Abandoned)
    }
}
