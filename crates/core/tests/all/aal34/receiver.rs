//! A sender and a receiver with its memory.

use cellgate_core::Time;
use cellgate_core::aal::Memory;
use cellgate_core::aal::aal34::{
    Discard, Failed, Limits, Outcome, Reassembler, Received, Segmenter, Verdict,
};
use cellgate_core::wire::{CellFormat, Header, SarPdu};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// VPI 1, VCI 60.
pub(crate) const HEADER: Header = Header::from_word(0x0010_03c0);
pub(crate) const LIMITS: Limits = Limits {
    mids: 4,
    max_sdu: 65_535,
    timeout_ns: 1_000,
    buffer_len: 1 << 18,
    descriptors: 8,
};

/// A receive buffer: a vector that repeats after half its octets.
pub(crate) struct Mirrored {
    octets: Vec<u8>,
    pub(crate) written: usize,
}

impl Mirrored {
    pub(crate) fn new(len: u32) -> Self {
        Self {
            octets: vec![0xee; 2 * len as usize],
            written: 0,
        }
    }

    pub(crate) fn sdu(&self, received: Received) -> &[u8] {
        assert_eq!(received.position % 64, 0);
        let at = (received.position % self.len() as u64) as usize;
        &self.octets[at..at + usize::from(received.len)]
    }
}

impl Memory for Mirrored {
    fn len(&self) -> usize {
        self.octets.len() / 2
    }

    fn write(&mut self, offset: usize, octets: &[u8]) {
        let len = self.len();
        assert!(offset + octets.len() <= 2 * len);
        self.written += octets.len();
        for (i, octet) in octets.iter().enumerate() {
            self.octets[(offset + i) % len] = *octet;
            self.octets[(offset + i) % len + len] = *octet;
        }
    }

    fn stable(&self, _offset: usize, _len: usize) -> Option<&[u8]> {
        None
    }
}

pub(crate) fn octets(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().as_chunks::<2>().0;
    let octet = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.iter().map(octet).collect()
}

pub(crate) fn random(rng: &mut Pcg64Mcg, len: usize) -> Vec<u8> {
    let mut octets = vec![0; len];
    rng.fill_bytes(&mut octets);
    octets
}

/// The cells of `sdu`, made at most `burst` at a time.
pub(crate) fn segment(
    sdu: &[u8],
    mid: u16,
    btag: u8,
    format: CellFormat,
    burst: usize,
) -> Vec<Vec<u8>> {
    let mut segmenter = Segmenter::new(sdu.len() as u16, mid, btag, HEADER);
    // What is in staging behind the SDU must not show, nor what was in the cells before.
    let mut staging = sdu.to_vec();
    staging.resize(sdu.len() + 50, 0xdd);
    let mut out = vec![0x55; burst * format.stride() + 1];
    let mut made = Vec::new();
    while segmenter.left() > 0 {
        let left = segmenter.left();
        let n = segmenter.emit_cells(&staging, format, &mut out);
        assert_eq!(usize::from(n), burst.min(left.into()));
        assert_eq!(segmenter.left(), left - n);
        assert_eq!(out.last(), Some(&0x55));
        let cells = out.chunks_exact(format.stride()).take(n.into());
        made.extend(cells.map(<[u8]>::to_vec));
    }
    assert_eq!(segmenter.emit_cells(&staging, format, &mut out), 0);
    assert_eq!(made.len(), usize::from(segmenter.cells()));
    made
}

/// The SAR-PDUs of `sdu`.
pub(crate) fn sar_pdus(sdu: &[u8], mid: u16, btag: u8) -> Vec<SarPdu> {
    let cells = segment(sdu, mid, btag, CellFormat::NoHec, 7);
    let parse = |cell: &Vec<u8>| SarPdu::parse(cell.last_chunk().unwrap()).valid().unwrap();
    cells.iter().map(parse).collect()
}

/// A VC with its memory.
pub(crate) struct Receiver {
    pub(crate) reassembler: Reassembler,
    pub(crate) memory: Mirrored,
    pub(crate) now: Time,
}

impl Receiver {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            reassembler: Reassembler::new(limits),
            memory: Mirrored::new(limits.buffer_len),
            now: Time::ZERO,
        }
    }

    pub(crate) fn payload(&mut self, payload: &[u8; 48], clp: bool) -> Outcome {
        let cell = SarPdu::parse(payload);
        self.reassembler
            .receive(self.now, &mut self.memory, &cell, clp)
    }

    pub(crate) fn push(&mut self, cell: &SarPdu) -> Outcome {
        self.payload(&cell.emit(), false)
    }

    pub(crate) fn push_all(&mut self, cells: &[SarPdu]) -> Vec<Outcome> {
        cells.iter().map(|cell| self.push(cell)).collect()
    }

    /// The last of `cells` completes `sdu`; the cells of its PDU.
    #[track_caller]
    pub(crate) fn completes(&mut self, sdu: &[u8], cells: &[SarPdu]) -> usize {
        let outcomes = self.push_all(cells);
        let Some(Verdict::Delivered(received)) = outcomes.last().map(|outcome| outcome.cell) else {
            panic!("{outcomes:?}");
        };
        assert_eq!(self.memory.sdu(received), sdu);
        received.cells.into()
    }

    #[track_caller]
    pub(crate) fn delivers(&mut self, sdu: &[u8], cells: &[SarPdu]) {
        assert_eq!(self.completes(sdu, cells), cells.len());
    }
}

pub(crate) fn held() -> Outcome {
    Outcome {
        failed: None,
        cell: Verdict::Held,
    }
}

pub(crate) fn discarded(reason: Discard) -> Outcome {
    Outcome {
        failed: None,
        cell: Verdict::Discarded(reason),
    }
}

pub(crate) fn refused(reason: Discard) -> Outcome {
    Outcome {
        failed: None,
        cell: Verdict::Refused(reason),
    }
}

/// A cell is discarded, and the PDU in progress on its MID with `cells` held.
pub(crate) fn fails(mid: u16, reason: Discard, cells: u16) -> Outcome {
    Outcome {
        failed: Some(Failed { mid, reason, cells }),
        cell: Verdict::Discarded(reason),
    }
}
