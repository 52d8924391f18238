//! What a terminal is told of its connection and its transfers.

use std::sync::Arc;

use cellgate_core::aal::tree::Tree;
use cellgate_core::contract::Aal;
use cellgate_core::terminal::{Arq, DiskHeader, Pci, Status};
use rustix::rand::{GetRandomFlags, getrandom};

use super::disk::DiskLen;
use super::packets::OVERHEAD;

/// PDUs of a transfer that may be on their way, at most.
const WINDOW_PDUS: u32 = 1 << 13;

/// With PDUs of so many octets or more the window may be full, whatever is best at either end.
const SHORT_PDU: u16 = 512;

/// Octets of a file in a frame of a stream: a power of two, as disk-PDUs are.
const FRAME_PAYLOAD: u16 = 1 << 15;

/// What a terminal is told.
#[derive(Clone, Debug)]
pub struct Terms {
    /// A number that no other terminal has had on the connection.
    pub run: u32,
    pub arq: Arq,
    /// Octets of a transfer that may be on their way and not acknowledged.
    pub window: u64,
    /// Octets of payload in a PDU, at most.
    pub pdu_len: u16,
    /// PDUs are as long as what is lost makes best.
    pub adapts: bool,
    pub disk_len: DiskLen,
    /// Files at a time.
    pub jobs: usize,
    max_sdu: u16,
    pub(super) tree: Arc<Tree>,
}

impl Terms {
    /// Octets of the window without a word of it.
    pub const WINDOW: u64 = 4 << 20;

    /// For a connection that carries SDUs of `max_sdu` octets both ways; none: these are too short
    /// for a terminal.
    pub fn new(aal: Aal, max_sdu: u16) -> Option<Self> {
        let pdu_len = max_sdu.checked_sub(OVERHEAD).filter(|len| *len > 0)?;
        let mut terms = Self {
            run: 0,
            arq: Arq::Selective,
            window: Self::WINDOW,
            pdu_len,
            adapts: true,
            disk_len: DiskLen::DEFAULT,
            jobs: 4,
            max_sdu,
            tree: Arc::new(Tree::new(aal, DiskHeader::LENGTHS)?),
        };
        terms.renew();
        Some(terms)
    }

    /// For a stream of octets.
    pub fn of_stream() -> Self {
        let terms = Self::new(Aal::Aal5, u16::MAX).expect("the longest SDU has room");
        Self {
            pdu_len: FRAME_PAYLOAD,
            ..terms
        }
    }

    /// Another run.
    pub(super) fn renew(&mut self) {
        let mut run = [0; 4];
        while run == [0; 4] {
            // A kernel without random numbers: the clock, which nobody attacks here.
            if getrandom(&mut run, GetRandomFlags::empty()).is_err() {
                run = (crate::clock::MonotonicClock.now().ns() as u32).to_be_bytes();
            }
        }
        self.run = u32::from_be_bytes(run);
    }

    /// As many PDUs as the window has if they are short, and as a status has bits for.
    pub(super) fn window_pdus(&self) -> u32 {
        let pdus = self.window / u64::from(self.pdu_len.min(SHORT_PDU));
        let status = usize::from(self.max_sdu) - Pci::LEN - Status::FIXED;
        let told = 8 * status as u32;
        (pdus as u32).clamp(16, WINDOW_PDUS.min(told))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_a_bit_for_each_pdu_of_the_window() {
        for (max_sdu, window, pdus) in [
            (OVERHEAD + 1, Terms::WINDOW, 168),
            (672, Terms::WINDOW, 4_960),
            (9_180, Terms::WINDOW, 8_192),
            (9_180, 1 << 20, 2_048),
            (9_180, 1, 16),
        ] {
            let mut terms = Terms::new(Aal::Aal5, max_sdu).unwrap();
            terms.window = window;
            assert_eq!(terms.window_pdus(), pdus, "{max_sdu}");
            let status = Pci::LEN + Status::FIXED + terms.window_pdus().div_ceil(8) as usize;
            assert!(status <= max_sdu.into(), "{max_sdu}");
        }
    }
}
