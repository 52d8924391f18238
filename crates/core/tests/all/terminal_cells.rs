//! The data controller against the segmenters and reassemblers of the AALs: each accepts what the
//! other makes, and each octet of payload is written once, in its place.

use std::sync::Arc;

use cellgate_core::Time;
use cellgate_core::aal::tree::{Lengths, Place, Tree};
use cellgate_core::aal::{Memory, aal5, aal34};
use cellgate_core::contract::Aal;
use cellgate_core::terminal::{
    Arq, Demultiplexer, Discard, Kind, Multiplexer, Outcome, Pci, ReceiveBuffer, Terms,
    TransmitBuffer,
};
use cellgate_core::wire::{CellFormat, Header, SarPdu};
use cellgate_simd::{Fold, Kernel, Level, with_level};
use rand_pcg::Pcg64Mcg;

use super::terminal_stack::*;

const AALS: [Aal; 2] = [Aal::Aal5, Aal::Aal34];
const FORMAT: CellFormat = CellFormat::NoHec;

/// A receive buffer: a vector that repeats after half its octets.
struct Mirrored(Vec<u8>);

impl Memory for Mirrored {
    fn len(&self) -> usize {
        self.0.len() / 2
    }

    fn write(&mut self, offset: usize, octets: &[u8]) {
        self.0[offset..offset + octets.len()].copy_from_slice(octets);
    }

    fn stable(&self, _offset: usize, _len: usize) -> Option<&[u8]> {
        None
    }
}

/// What the AAL's own receiver makes of cells.
fn reassembled(aal: Aal, payloads: &[Payload]) -> Vec<u8> {
    match aal {
        Aal::Aal5 => with_level(Level::Baseline, Reassemble(payloads)),
        _ => reassembled_aal34(payloads),
    }
}

struct Reassemble<'a>(&'a [Payload]);

impl Kernel for Reassemble<'_> {
    type Output = Vec<u8>;
    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> Vec<u8> {
        let mut memory = Mirrored(vec![0; 2 * 66_000]);
        let mut reassembler = aal5::Reassembler::default();
        reassembler.start(fold, &memory);
        for (i, (payload, last)) in self.0.iter().enumerate() {
            assert_eq!(*last, i + 1 == self.0.len());
            let cell = [&[0; 4], &payload[..]].concat();
            reassembler.push(fold, &mut memory, 0, &cell, FORMAT);
        }
        let sdu = reassembler.finish(fold, &memory, 0, u16::MAX).unwrap();
        assert_eq!((sdu.uu, sdu.cpi), (0, 0));
        memory.0.truncate(sdu.len.into());
        memory.0
    }
}

fn reassembled_aal34(payloads: &[Payload]) -> Vec<u8> {
    let mut memory = Mirrored(vec![0; 2 * 66_000]);
    let mut reassembler = aal34::Reassembler::new(aal34::Limits {
        mids: 1,
        max_sdu: u16::MAX,
        timeout_ns: 0,
        buffer_len: 66_000,
        descriptors: 1,
    });
    for (i, (payload, _)) in payloads.iter().enumerate() {
        let cell = SarPdu::parse(payload);
        match reassembler
            .receive(Time::from_ns(0), &mut memory, &cell, false)
            .cell
        {
            aal34::Verdict::Held => {}
            aal34::Verdict::Delivered(received) => {
                assert_eq!((i + 1, received.mid), (payloads.len(), MID));
                memory.0.truncate(received.len.into());
                return memory.0;
            }
            verdict => panic!("cell {i}: {verdict:?}"),
        }
    }
    panic!("not complete");
}

/// What the AAL's own sender makes of an SDU.
fn segmented(aal: Aal, sdu: &[u8]) -> Vec<Payload> {
    let mut staging = vec![0; 1_400 * 48];
    staging[..sdu.len()].copy_from_slice(sdu);
    let mut out = vec![0; 1_500 * FORMAT.stride()];
    let cells = match aal {
        Aal::Aal5 => with_level(Level::Baseline, Segment(&mut staging, sdu.len(), &mut out)),
        _ => {
            let header = Header::from_word(0);
            let mut segmenter = aal34::Segmenter::new(sdu.len() as u16, MID, 7, header);
            segmenter.emit_cells(&staging, FORMAT, &mut out)
        }
    };
    let cells = out.chunks_exact(FORMAT.stride()).take(cells.into());
    let payload = |cell: &[u8]| (*cell.last_chunk().unwrap(), cell[3] & 2 != 0);
    cells.map(payload).collect()
}

struct Segment<'a>(&'a mut [u8], usize, &'a mut [u8]);

impl Kernel for Segment<'_> {
    type Output = u16;
    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> u16 {
        let header = Header::from_word(0);
        let segmenter = aal5::Segmenter::seal(fold, self.0, self.1 as u16, 0, 0, header);
        segmenter.unwrap().emit_cells(self.0, FORMAT, self.2)
    }
}

const START: u64 = 10_000_000_000;

fn terms(len: usize) -> Terms {
    Terms {
        transfer: 9,
        run: 77,
        arq: Arq::Selective,
        window: 4,
        start: START,
        end: START + len as u64,
    }
}

/// A transmitter and a receiver of a file of `len` octets, and what the disk layer says.
struct Ends {
    aal: Aal,
    file: Vec<u8>,
    header: Vec<u8>,
    tail: Vec<u8>,
    transmit: TransmitBuffer<File>,
    receive: ReceiveBuffer<Watched>,
    mux: Multiplexer,
    demux: Demultiplexer,
}

impl Ends {
    fn new(aal: Aal, header: u8, tail: u8, len: usize) -> Self {
        let rng = &mut Pcg64Mcg::new(len as u128);
        let tree = tree(aal, header, tail);
        let (header, tail) = (random(rng, header.into()), random(rng, tail.into()));
        let file = random(rng, len);
        let source = File {
            start: START,
            octets: file.clone(),
        };
        let mut transmit = TransmitBuffer::new(&tree, terms(len), source);
        let mut receive = ReceiveBuffer::new(&tree, terms(len), Watched::new(START, len));
        transmit.open_to(u64::MAX);
        receive.open_to(u64::MAX);
        transmit.disk_mut().0.copy_from_slice(&header);
        transmit.disk_mut().1.copy_from_slice(&tail);
        Self {
            aal,
            file,
            header,
            tail,
            transmit,
            receive,
            mux: Multiplexer::new(tree.clone(), MID).unwrap(),
            demux: Demultiplexer::new(tree, 100).unwrap(),
        }
    }

    /// The SDU of a PDU, put together by hand.
    fn sdu(&self, pci: &Pci) -> Vec<u8> {
        let from = (pci.offset - START) as usize;
        let payload = &self.file[from..from + usize::from(pci.length)];
        let mut sdu = pci.emit().to_vec();
        if pci.place.is_first() {
            sdu.extend(&self.header);
        }
        sdu.extend(payload);
        if pci.place.is_last() {
            sdu.extend(&self.tail);
        }
        sdu
    }

    /// Lets the receiver take the cells of one PDU; it must hold it then.
    fn receive(&mut self, pci: Pci, cells: &[Payload]) {
        let outcomes = demultiplex(&mut self.demux, self.aal, cells, &mut self.receive);
        let (last, before) = outcomes.split_last().unwrap();
        assert!(
            before.iter().all(|outcome| *outcome == Outcome::Held),
            "{outcomes:?}"
        );
        assert_eq!(*last, Outcome::Complete(pci));
    }

    /// The file is there, each octet written once, and B(3) is.
    fn check(&mut self) {
        while self.receive.acknowledge().is_some() {}
        let pointers = self.receive.pointers();
        assert_eq!(pointers.ap, pointers.end);
        assert!(self.receive.store().octets == self.file);
        assert!(self.receive.store().is_written(1));
        assert_eq!(self.receive.disk(), (&self.header[..], &self.tail[..]));
        assert_eq!(pointers.w3, self.header.len() + self.tail.len());
    }
}

/// Lengths of payload that try every residue and both ends.
fn payloads() -> impl Iterator<Item = u16> {
    (0..=200)
        .chain([1_000, 9_180])
        .chain(65_535 - 24 - 48 - 48 - 3..=65_535 - 24 - 48 - 48)
}

#[test]
fn what_the_multiplexer_makes_the_reassemblers_accept() {
    for aal in AALS {
        for (header, tail) in [(0, 0), (24, 40), (48, 48), (17, 31)] {
            for len in payloads() {
                let mut ends = Ends::new(aal, header, tail, len.into());
                let sequence = ends.transmit.cut(Place::Only, START, len).unwrap();
                let cells = multiplex(&mut ends.mux, &mut ends.transmit, sequence);
                let pci = ends.transmit.pci(sequence).unwrap();
                let sdu = ends.sdu(&pci);
                assert!(
                    reassembled(aal, &cells) == sdu,
                    "{aal:?} {header} {tail} {len}"
                );
                assert!(segmented(aal, &sdu).len() == cells.len());
                ends.receive(pci, &cells);
                ends.check();
            }
        }
    }
}

#[test]
fn what_the_segmenters_make_goes_to_its_places() {
    for aal in AALS {
        for (header, tail) in [(0, 0), (24, 40), (48, 48), (9, 48)] {
            for len in payloads().filter(|len| *len > 2) {
                // Three PDUs, in another order than that of the file.
                let (a, c) = (len / 3, len / 2 - 1);
                let lens = [a, len - a - c, c];
                let places = [Place::First, Place::Middle, Place::Last];
                let mut ends = Ends::new(aal, header, tail, len.into());
                let mut pcis = Vec::new();
                let mut offset = START;
                for (place, len) in places.into_iter().zip(lens) {
                    let sequence = ends.transmit.cut(place, offset, len).unwrap();
                    pcis.push(ends.transmit.pci(sequence).unwrap());
                    offset += u64::from(len);
                }
                for i in [1, 2, 0] {
                    let cells = segmented(aal, &ends.sdu(&pcis[i]));
                    ends.receive(pcis[i], &cells);
                }
                ends.check();
            }
        }
    }
}

#[test]
fn a_packet_goes_out_and_comes_in_as_its_cells_do() {
    for (aal, len) in AALS
        .into_iter()
        .flat_map(|aal| payloads().map(move |len| (aal, len)))
    {
        let mut ends = Ends::new(aal, 24, 40, len.into());
        let sequence = ends.transmit.cut(Place::Only, START, len).unwrap();
        let pci = ends.transmit.pci(sequence).unwrap();
        let mut out = vec![0xdd; usize::from(len) + 24 + 24 + 40];
        let short = out.len() - 1;
        assert_eq!(
            ends.mux
                .sdu(&mut ends.transmit, sequence, &mut out[..short]),
            None
        );
        let made = ends.mux.sdu(&mut ends.transmit, sequence, &mut out);
        assert_eq!(made.map(usize::from), Some(out.len()));
        assert!(out == ends.sdu(&pci));
        assert_eq!(
            ends.demux.sdu(&out, &mut ends.receive),
            Outcome::Complete(pci)
        );
        ends.check();
    }
}

#[test]
fn a_control_pdu_goes_to_scratch() {
    for aal in AALS {
        let mut ends = Ends::new(aal, 24, 40, 10);
        for (len, fits) in [(0, true), (1, true), (100, true), (101, false)] {
            let body = random(&mut Pcg64Mcg::new(1), len);
            let length = len as u16;
            let pci = Pci {
                kind: Kind::Control,
                place: Place::Middle,
                transfer: 1_000,
                run: 0,
                sequence: 0,
                serial: 0,
                offset: 0,
                length,
            };
            let sdu = [&pci.emit(), &body[..]].concat();
            let cells = segmented(aal, &sdu);
            let outcomes = demultiplex(&mut ends.demux, aal, &cells, &mut ends.receive);
            let refused = Outcome::Discarded(Discard::Oversized, Some(pci));
            if fits {
                assert_eq!(outcomes.last(), Some(&Outcome::Control(pci)));
                assert_eq!(ends.demux.control(), body);
                assert_eq!(
                    ends.demux.sdu(&sdu, &mut ends.receive),
                    Outcome::Control(pci)
                );
                assert_eq!(ends.demux.control(), body);
            } else {
                assert_eq!(outcomes[0], refused);
                assert_eq!(ends.demux.sdu(&sdu, &mut ends.receive), refused);
            }
        }
        assert!(ends.receive.store().is_written(0));
    }
}

#[test]
fn every_discard_has_its_name_and_writes_nothing_beyond_its_pdu() {
    for aal in AALS {
        let mut ends = Ends::new(aal, 24, 40, 500);
        let sequence = ends.transmit.cut(Place::First, START, 300).unwrap();
        let good = ends.transmit.pci(sequence).unwrap();
        let sdu = ends.sdu(&good);
        let with = |pci: Pci| [&pci.emit(), &sdu[24..]].concat();
        let refused = [
            (Pci { run: 76, ..good }, Discard::StaleRun),
            (
                Pci {
                    transfer: 8,
                    ..good
                },
                Discard::UnknownTransfer,
            ),
            (
                Pci {
                    sequence: 4,
                    ..good
                },
                Discard::OutsideWindow,
            ),
            (
                Pci {
                    sequence: Pci::SEQUENCES - 1,
                    ..good
                },
                Discard::OutsideWindow,
            ),
            (
                Pci {
                    offset: START - 1,
                    ..good
                },
                Discard::OutsideWindow,
            ),
            (
                Pci {
                    offset: START + 201,
                    ..good
                },
                Discard::OutsideWindow,
            ),
            (
                Pci {
                    offset: u64::MAX,
                    ..good
                },
                Discard::OutsideWindow,
            ),
            (
                Pci {
                    length: 65_535,
                    ..good
                },
                Discard::LengthError,
            ),
        ];
        for (pci, reason) in refused {
            let cells = segmented(aal, &with(pci));
            let outcomes = demultiplex(&mut ends.demux, aal, &cells, &mut ends.receive);
            assert_eq!(
                outcomes[0],
                Outcome::Discarded(reason, Some(pci)),
                "{aal:?}"
            );
            assert!(
                outcomes[1..]
                    .iter()
                    .all(|outcome| *outcome == Outcome::Skipped(reason))
            );
            let packet = ends.demux.sdu(&with(pci), &mut ends.receive);
            assert_eq!(packet, Outcome::Discarded(reason, Some(pci)));
        }
        let mut wrong = sdu.clone();
        wrong[5] ^= 1;
        let cells = segmented(aal, &wrong);
        let outcomes = demultiplex(&mut ends.demux, aal, &cells, &mut ends.receive);
        assert_eq!(outcomes[0], Outcome::Discarded(Discard::HeaderCheck, None));
        assert_eq!(ends.demux.counts().discarded(Discard::HeaderCheck), 1);
        assert_eq!(
            ends.demux.counts().cells(Discard::HeaderCheck),
            cells.len() as u64
        );
        assert!(ends.receive.store().is_written(0));

        // Of a good header and other cells than it says, nothing is written beyond its own.
        ends.receive.store_mut().allow(START..START + 300);
        let damaged = |reason| Outcome::Discarded(reason, Some(good));
        let cells = segmented(aal, &sdu);
        let n = cells.len();
        let mut more = cells.clone();
        more.insert(n - 1, cells[3]);
        let mut other = cells.clone();
        other[3].0[20] ^= 1;
        let less = [&cells[..3], &cells[4..]].concat();
        let (lost, crc, tag) = match aal {
            Aal::Aal5 => (Discard::LostCell, Discard::CrcError, Discard::LengthError),
            _ => (Discard::LostCell, Discard::LostCell, Discard::TagMismatch),
        };
        for (cells, reason) in [(more, lost), (other, crc), (less, lost)] {
            let outcomes = demultiplex(&mut ends.demux, aal, &cells, &mut ends.receive);
            assert!(
                outcomes.contains(&damaged(reason)),
                "{aal:?} {reason:?} {outcomes:?}"
            );
        }
        // The whole PDU of another length than its PCI's, or of another's end.
        let short = segmented(
            aal,
            &with(Pci {
                length: 299,
                ..good
            }),
        );
        let outcomes = demultiplex(&mut ends.demux, aal, &short, &mut ends.receive);
        assert!(matches!(
            outcomes.last(),
            Some(Outcome::Discarded(Discard::LengthError, _))
        ));
        if aal == Aal::Aal34 {
            let mut mixed = cells.clone();
            let mut end = SarPdu::parse(&mixed[n - 1].0).value;
            end.payload[usize::from(end.li) - 3] ^= 1;
            mixed[n - 1].0 = end.emit();
            let outcomes = demultiplex(&mut ends.demux, aal, &mixed, &mut ends.receive);
            assert_eq!(outcomes.last(), Some(&damaged(tag)));
            end.li -= 4;
            mixed[n - 1].0 = end.emit();
            let outcomes = demultiplex(&mut ends.demux, aal, &mixed, &mut ends.receive);
            assert_eq!(outcomes.last(), Some(&damaged(Discard::LengthError)));
            end.li = SarPdu::ABORT;
            mixed[n - 1].0 = end.emit();
            let outcomes = demultiplex(&mut ends.demux, aal, &mixed, &mut ends.receive);
            assert_eq!(outcomes.last(), Some(&damaged(Discard::Aborted)));
            let outcomes = demultiplex(&mut ends.demux, aal, &cells[1..2], &mut ends.receive);
            assert_eq!(outcomes, [Outcome::Skipped(Discard::MissingBom)]);
            let twice = [&cells[..2], &cells].concat();
            demultiplex(&mut ends.demux, aal, &twice, &mut ends.receive);
            assert_eq!(ends.demux.counts().discarded(Discard::MissingEom), 1);
        } else {
            ends.receive(good, &cells);
        }
        let again = demultiplex(&mut ends.demux, aal, &cells, &mut ends.receive);
        assert_eq!(again[0], damaged(Discard::Repeated));
        ends.receive.acknowledge().unwrap();
        let again = demultiplex(&mut ends.demux, aal, &cells, &mut ends.receive);
        assert_eq!(again[0], damaged(Discard::Repeated));
    }
}

#[test]
fn of_two_pdus_of_a_transfer_the_second_ends_the_first() {
    let mut ends = Ends::new(Aal::Aal34, 24, 40, 600);
    let mut other = ends.demux.clone();
    let (a, b) = (
        ends.transmit.cut(Place::First, START, 300).unwrap(),
        ends.transmit.cut(Place::Last, START + 300, 300).unwrap(),
    );
    let (a, b) = (ends.transmit.pci(a).unwrap(), ends.transmit.pci(b).unwrap());
    let first = segmented(Aal::Aal34, &ends.sdu(&a));
    let second = segmented(Aal::Aal34, &ends.sdu(&b));
    demultiplex(&mut ends.demux, Aal::Aal34, &first[..4], &mut ends.receive);
    demultiplex(&mut other, Aal::Aal34, &second[..4], &mut ends.receive);
    ends.receive.store_mut().allow(0..0);
    let rest = demultiplex(&mut ends.demux, Aal::Aal34, &first[4..], &mut ends.receive);
    assert_eq!(rest[0], Outcome::Discarded(Discard::Abandoned, Some(a)));
    ends.receive.store_mut().allow(START + 300..START + 600);
    let rest = demultiplex(&mut other, Aal::Aal34, &second[4..], &mut ends.receive);
    assert_eq!(rest.last(), Some(&Outcome::Complete(b)));
}

#[test]
fn a_tree_without_room_for_the_pci_has_no_controller() {
    let tree = |pci| {
        Tree::new(
            Aal::Aal5,
            Lengths {
                pci,
                header: 0,
                tail: 0,
            },
        )
        .unwrap()
    };
    for pci in [0, 23, 25, 48] {
        assert!(Demultiplexer::new(Arc::new(tree(pci)), 0).is_none());
        assert!(Multiplexer::new(Arc::new(tree(pci)), 0).is_none());
    }
}
