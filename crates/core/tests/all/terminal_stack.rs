//! What the tests of the terminal share: stores that watch, and cells both ways.

use std::ops::Range;
use std::sync::Arc;

use cellgate_core::aal::tree::{Lengths, Tree};
use cellgate_core::contract::Aal;
use cellgate_core::terminal::{
    Demultiplexer, Multiplexer, Outcome, Source, Store, Transfers, TransmitBuffer,
};
use cellgate_core::wire::SarPci;
use cellgate_simd::{Fold, Kernel, Level, with_level};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

pub(crate) const MID: u16 = 5;

/// Octets of a file from `start` on, how often each was written, and where writing is allowed.
pub(crate) struct Watched {
    pub(crate) start: u64,
    pub(crate) octets: Vec<u8>,
    pub(crate) writes: Vec<u32>,
    /// Below it no octet changes.
    pub(crate) acknowledged: u64,
    /// Nor here.
    pub(crate) held: Vec<Range<u64>>,
    /// Where the PDUs that are being received say that they belong.
    pub(crate) allowed: Vec<Range<u64>>,
}

impl Watched {
    pub(crate) fn new(start: u64, len: usize) -> Self {
        Self {
            start,
            octets: vec![0xee; len],
            writes: vec![0; len],
            acknowledged: start,
            held: Vec::new(),
            allowed: std::iter::once(start..start + len as u64).collect(),
        }
    }

    /// Whether each octet has been written so many times.
    pub(crate) fn is_written(&self, times: u32) -> bool {
        self.writes.iter().all(|writes| *writes == times)
    }

    /// Only these octets may be written.
    pub(crate) fn allow(&mut self, octets: Range<u64>) {
        self.allowed.clear();
        self.allowed.push(octets);
    }
}

impl Store for Watched {
    fn write(&mut self, at: u64, octets: &[u8]) {
        if octets.is_empty() {
            return;
        }
        let end = at + octets.len() as u64;
        assert!(at >= self.acknowledged, "{at} is acknowledged");
        let apart = |held: &Range<u64>| end <= held.start || held.end <= at;
        assert!(self.held.iter().all(apart), "{at}..{end} is held");
        let allowed = |own: &Range<u64>| own.start <= at && end <= own.end;
        let (any, all) = (self.allowed.iter().any(allowed), &self.allowed);
        assert!(any, "{at}..{end} is not of {all:?}");
        let from = (at - self.start) as usize;
        self.octets[from..from + octets.len()].copy_from_slice(octets);
        for writes in &mut self.writes[from..from + octets.len()] {
            *writes += 1;
        }
    }
}

/// A file from `start` on.
pub(crate) struct File {
    pub(crate) start: u64,
    pub(crate) octets: Vec<u8>,
}

impl Source for File {
    fn read(&mut self, at: u64, into: &mut [u8]) {
        let from = (at - self.start) as usize;
        into.copy_from_slice(&self.octets[from..from + into.len()]);
    }
}

pub(crate) fn random(rng: &mut Pcg64Mcg, len: usize) -> Vec<u8> {
    let mut octets = vec![0; len];
    rng.fill_bytes(&mut octets);
    octets
}

/// A number below `n`.
pub(crate) fn below(rng: &mut Pcg64Mcg, n: u64) -> u64 {
    rng.next_u64() % n
}

pub(crate) fn tree(aal: Aal, header: u8, tail: u8) -> Arc<Tree> {
    Arc::new(
        Tree::new(
            aal,
            Lengths {
                pci: 24,
                header,
                tail,
            },
        )
        .unwrap(),
    )
}

/// A cell's payload, and whether its header says that it is the last of an AAL5 PDU.
pub(crate) type Payload = ([u8; 48], bool);

struct Mux<'a> {
    mux: &'a mut Multiplexer,
    buffer: &'a mut TransmitBuffer<File>,
    sequence: u64,
}

impl Kernel for Mux<'_> {
    type Output = Vec<Payload>;
    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> Vec<Payload> {
        let cells = self.mux.start(fold, self.buffer, self.sequence).unwrap();
        let mut payloads = Vec::new();
        while self.mux.left() > 0 {
            // What was there before must not show.
            let mut payload = [0xdd; 48];
            let last = self.mux.cell(fold, self.buffer, &mut payload).unwrap();
            payloads.push((payload, last));
            assert_eq!(last, self.mux.left() == 0);
        }
        assert_eq!(payloads.len(), usize::from(cells));
        assert_eq!(self.mux.cell(fold, self.buffer, &mut [0; 48]), None);
        payloads
    }
}

/// The cells of a PDU.
pub(crate) fn multiplex(
    mux: &mut Multiplexer,
    buffer: &mut TransmitBuffer<File>,
    sequence: u64,
) -> Vec<Payload> {
    with_level(
        Level::Baseline,
        Mux {
            mux,
            buffer,
            sequence,
        },
    )
}

struct Demux<'a, T> {
    demux: &'a mut Demultiplexer,
    aal: Aal,
    payloads: &'a [Payload],
    to: &'a mut T,
}

impl<T: Transfers> Kernel for Demux<'_, T> {
    type Output = Vec<Outcome>;
    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> Vec<Outcome> {
        let Self {
            demux,
            aal,
            payloads,
            to,
        } = self;
        let one = |(payload, last): &Payload| match aal {
            Aal::Aal5 => demux.aal5_cell(fold, *last, payload, to),
            _ => demux.aal34_cell(&SarPci::parse(payload), payload, to),
        };
        payloads.iter().map(one).collect()
    }
}

/// What became of each cell.
pub(crate) fn demultiplex<T: Transfers>(
    demux: &mut Demultiplexer,
    aal: Aal,
    payloads: &[Payload],
    to: &mut T,
) -> Vec<Outcome> {
    let outcomes = with_level(
        Level::Baseline,
        Demux {
            demux,
            aal,
            payloads,
            to,
        },
    );
    let counts = demux.counts();
    let ended = counts.delivered + counts.discarded_cells();
    assert_eq!(counts.received, ended + counts.held, "{counts:?}");
    outcomes
}
