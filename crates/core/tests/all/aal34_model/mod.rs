//! Several VCs with interleaved MIDs, with loss, duplication, swaps, damage and forged fields,
//! against a reassembler made the naive way: it keeps every cell and reads the PDU at its end.

mod reference;

use std::collections::BTreeMap;

use cellgate_core::Time;
use cellgate_core::aal::Memory;
use cellgate_core::aal::aal34::{Discard, Limits, Reassembler, Segmenter, Verdict};
use cellgate_core::wire::{CellFormat, Header, SarPdu};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use reference::{Reference, outcome, repair};

/// A receive buffer: a vector that repeats after half its octets.
struct Mirrored {
    octets: Vec<u8>,
    /// How often something was written.
    writes: u64,
}

impl Memory for Mirrored {
    fn len(&self) -> usize {
        self.octets.len() / 2
    }

    fn write(&mut self, offset: usize, octets: &[u8]) {
        let len = self.len();
        assert!(offset + octets.len() <= 2 * len);
        for (i, octet) in octets.iter().enumerate() {
            self.octets[(offset + i) % len] = *octet;
            self.octets[(offset + i) % len + len] = *octet;
        }
        self.writes += 1;
    }

    fn stable(&self, _offset: usize, _len: usize) -> Option<&[u8]> {
        None
    }
}

/// Cells by their end, and PDUs by theirs.
#[derive(Default)]
struct Counts {
    cells: u64,
    delivered: u64,
    discarded: BTreeMap<Discard, u64>,
    pdus: u64,
    forgotten: u64,
    bytes_checked: u64,
}

struct Vc {
    reference: Reference,
    reassembler: Reassembler,
    memory: Mirrored,
    counts: Counts,
}

impl Vc {
    fn new(limits: Limits) -> Self {
        Self {
            reference: Reference::new(limits),
            reassembler: Reassembler::new(limits),
            memory: Mirrored {
                octets: vec![0; 2 * limits.buffer_len as usize],
                writes: 0,
            },
            counts: Counts::default(),
        }
    }

    fn receive(&mut self, now: u64, payload: &[u8; 48], clp: bool) {
        let cell = SarPdu::parse(payload);
        let failing = self.reference.failing.get(&cell.value.mid);
        let forgotten = failing.is_some_and(|failing| failing.1);
        let (mut expected, sdu) = self.reference.receive(now, payload, clp);
        let before = self.memory.writes;
        let time = Time::from_ns(now);
        let got = self.reassembler.receive(time, &mut self.memory, &cell, clp);
        let missing_bom = outcome(Verdict::Discarded(Discard::MissingBom));
        if got != expected && got == missing_bom && forgotten {
            self.counts.forgotten += 1;
            expected = got;
        }
        assert_eq!(got, expected);
        self.counts.cells += 1;
        if let Some(failed) = got.failed {
            *self.counts.discarded.entry(failed.reason).or_default() += u64::from(failed.cells);
        }
        match got.cell {
            Verdict::Held => {}
            Verdict::Delivered(received) => {
                self.counts.delivered += u64::from(received.cells);
                self.counts.pdus += 1;
                assert_eq!(self.sdu(received.position, sdu.len()), sdu);
            }
            Verdict::Refused(reason) | Verdict::Discarded(reason) => {
                *self.counts.discarded.entry(reason).or_default() += 1;
                assert_eq!(before, self.memory.writes, "a discarded cell was written");
            }
        }
        self.check();
    }

    fn sdu(&self, position: u64, len: usize) -> &[u8] {
        let at = (position % self.memory.len() as u64) as usize;
        &self.memory.octets[at..at + len]
    }

    fn timeouts(&mut self, now: u64) {
        let now_time = Time::from_ns(now);
        let expected = self.reference.timeouts(now);
        let late = std::iter::from_fn(|| self.reassembler.poll_timeout(now_time));
        let mut got: Vec<_> = late.collect();
        for failed in &got {
            *self.counts.discarded.entry(failed.reason).or_default() += u64::from(failed.cells);
        }
        let mut expected = expected;
        // Of PDUs that began at the same time, either may be first.
        got.sort_by_key(|failed| failed.mid);
        expected.sort_by_key(|failed| failed.mid);
        assert_eq!(got, expected);
        self.check();
    }

    /// The client gives `count` descriptors back, after a last look at what they name.
    fn release(&mut self, count: u64) {
        let tail = self
            .reference
            .deliveries
            .min(self.reference.releases + count);
        for index in self.reference.releases..tail {
            let (start, sdu) = self.reference.delivered.remove(&index).unwrap();
            assert_eq!(
                self.sdu(start, sdu.len()),
                sdu,
                "overwritten before it was given back"
            );
            self.counts.bytes_checked += sdu.len() as u64;
            let given_back = self.reference.live.remove(&start);
            assert!(given_back.is_some());
        }
        self.reference.releases = tail;
        self.reassembler.release(tail);
        // What cannot be changes nothing.
        self.reassembler.release(self.reference.deliveries + 1);
        self.reassembler.release(tail.saturating_sub(1));
        self.check();
    }

    /// What holds after every step.
    fn check(&self) {
        let held = self.reassembler.held_cells();
        assert_eq!(held, self.reference.held_cells());
        assert_eq!(self.reassembler.open_mids(), self.reference.open.len());
        let discarded: u64 = self.counts.discarded.values().sum();
        let accounted = self.counts.delivered + discarded + u64::from(held);
        assert_eq!(self.counts.cells, accounted);
        // Everything in use lies within one length of the buffer, in order, none over another.
        let live: Vec<_> = self.reference.live.iter().collect();
        for pair in live.windows(2) {
            assert!(pair[0].1 <= pair[1].0);
        }
        if let (Some(first), Some(last)) = (live.first(), live.last()) {
            assert!(last.1 - first.0 <= u64::from(self.reference.limits.buffer_len));
        }
        if let Some(deadline) = self.reassembler.deadline() {
            let first = self.reference.open.values().map(|open| open.since).min();
            let late = first.map(|since| since + self.reference.limits.timeout_ns);
            assert!(late.is_none_or(|late| deadline.ns() <= late));
        } else {
            assert!(self.reference.open.is_empty() || self.reference.limits.timeout_ns == 0);
        }
    }
}

/// A sender of one MID of one VC: PDUs one after the other.
struct Sender {
    vc: usize,
    mid: u16,
    btag: u8,
    cells: Vec<[u8; 48]>,
}

fn below(rng: &mut Pcg64Mcg, bound: u32) -> u32 {
    rng.next_u32() % bound
}

impl Sender {
    /// The next cell on the wire; a new PDU when the last one has left.
    fn next(&mut self, rng: &mut Pcg64Mcg, max_sdu: u16) -> [u8; 48] {
        if self.cells.is_empty() {
            let above = u32::from(max_sdu) * 9 / 8;
            let len = match below(rng, 4) {
                0 => 1 + below(rng, 40),
                1 => 1 + below(rng, above),
                _ => 1 + below(rng, 300),
            };
            self.btag = self.btag.wrapping_add(1);
            let mut sdu = vec![0; len as usize];
            rng.fill_bytes(&mut sdu);
            let header = Header::from_word(0);
            let mut segmenter = Segmenter::new(len as u16, self.mid, self.btag, header);
            let mut wire = vec![0; usize::from(segmenter.cells()) * 52];
            segmenter.emit_cells(&sdu, CellFormat::NoHec, &mut wire);
            let payloads = wire
                .chunks_exact(52)
                .map(|cell| *cell.last_chunk().unwrap());
            self.cells = payloads.rev().collect();
        }
        self.cells.pop().unwrap()
    }
}

/// Forges some field of a cell and makes its CRC right.
fn forge(rng: &mut Pcg64Mcg, payload: &mut [u8; 48]) {
    match below(rng, 7) {
        0 => payload[0] ^= 0x40 << below(rng, 2),
        1 => payload[0] ^= 4 << below(rng, 4),
        2 => payload[1] ^= 1 << below(rng, 3),
        3 => payload[46] = (rng.next_u32() as u8) & 0xfc,
        4 => payload[2 + below(rng, 4) as usize] ^= 1 << below(rng, 8),
        5 => {
            let at = usize::from(payload[46] >> 2).clamp(4, 44) - 4;
            payload[2 + at + below(rng, 4) as usize] ^= 1 << below(rng, 8);
        }
        _ => {
            // The sender gives up.
            payload[0] = payload[0] & 0x3f | 1 << 6;
            payload[46] = 63 << 2;
        }
    }
    repair(payload);
}

fn run(seed: u64, mids: u16, buffer_len: u32, timeout_ns: u64, faults: bool) -> Counts {
    // The generator ignores the two lowest bits.
    let mut rng = Pcg64Mcg::new(u128::from(seed) << 2);
    let limits = Limits {
        mids,
        max_sdu: 1_200,
        timeout_ns,
        buffer_len,
        descriptors: 16,
    };
    let mut vcs = [Vc::new(limits), Vc::new(limits), Vc::new(limits)];
    let mut senders: Vec<_> = (0..24)
        .map(|i| Sender {
            vc: i % 3,
            mid: (i / 3) as u16,
            btag: 0,
            cells: Vec::new(),
        })
        .collect();
    let mut now = 0;
    let mut late: Option<(usize, [u8; 48])> = None;
    for _ in 0..12_000 {
        now += u64::from(below(&mut rng, 2_000));
        let at = below(&mut rng, 24) as usize;
        let vc = senders[at].vc;
        let mut payload = senders[at].next(&mut rng, limits.max_sdu);
        let mut copies = 1;
        match below(&mut rng, 100) {
            _ if !faults => {}
            0 => copies = 0,
            1 => copies = 2,
            2 => {
                let bit = below(&mut rng, 384) as usize;
                payload[bit / 8] ^= 0x80 >> (bit % 8);
            }
            3 | 4 => forge(&mut rng, &mut payload),
            5 => {
                copies = if late.replace((vc, payload)).is_none() {
                    0
                } else {
                    1
                }
            }
            6 => now += u64::from(below(&mut rng, 50_000)),
            _ => {}
        }
        let clp = below(&mut rng, 10) == 0;
        for _ in 0..copies {
            vcs[vc].receive(now, &payload, clp);
        }
        if below(&mut rng, 3) == 0
            && let Some((vc, payload)) = late.take()
        {
            vcs[vc].receive(now, &payload, clp);
        }
        if below(&mut rng, 4) == 0 {
            vcs[vc].timeouts(now);
        }
        // Now and then the client rests.
        if now % 8_000_000 > 2_000_000 && below(&mut rng, 3) == 0 {
            let count = below(&mut rng, 6);
            vcs[vc].release(count.into());
        }
    }
    let mut all = Counts::default();
    for vc in &mut vcs {
        vc.release(u64::MAX - vc.reference.releases);
        while let Some(failed) = vc.reassembler.poll_close() {
            assert!(vc.reference.fail(failed.mid, Discard::Closed).is_some());
            *vc.counts.discarded.entry(Discard::Closed).or_default() += u64::from(failed.cells);
        }
        vc.check();
        assert_eq!(vc.reassembler.held_cells(), 0);
        assert!(vc.reference.live.is_empty());
        all.cells += vc.counts.cells;
        all.pdus += vc.counts.pdus;
        all.forgotten += vc.counts.forgotten;
        all.bytes_checked += vc.counts.bytes_checked;
        for (reason, cells) in &vc.counts.discarded {
            *all.discarded.entry(*reason).or_default() += cells;
        }
    }
    all
}

#[test]
fn does_what_the_naive_reassembler_does_with_every_cell() {
    let mut seen = BTreeMap::new();
    let (mut cells, mut pdus) = (0, 0);
    for seed in 0..6 {
        // Eight MIDs a VC and those that a forged bit makes.
        let counts = run(seed, 16, 24_000, 2_000_000, true);
        assert_eq!(counts.forgotten, 0);
        cells += counts.cells;
        pdus += counts.pdus;
        for (reason, cells) in counts.discarded {
            *seen.entry(reason).or_insert(0) += cells;
        }
    }
    for seed in 6..12 {
        // A small buffer that is no multiple of 64, and fewer slots than MIDs.
        let counts = run(seed, 5, 6_430, 300_000, true);
        cells += counts.cells;
        pdus += counts.pdus;
        for (reason, cells) in counts.discarded {
            *seen.entry(reason).or_insert(0) += cells;
        }
    }
    println!("{cells} cells, {pdus} PDUs, discarded: {seen:?}");
    assert!(pdus > 5_000);
    let never = [Discard::Refused, Discard::Overload];
    for reason in Discard::ALL {
        assert_eq!(
            seen.contains_key(&reason),
            !never.contains(&reason),
            "{reason:?}"
        );
    }
}

#[test]
fn without_faults_and_with_room_every_pdu_that_fits_comes_through() {
    for seed in 20..23 {
        let counts = run(seed, 8, 1 << 20, 2_000_000, false);
        let expected = [
            Discard::Oversized,
            Discard::QueueFull,
            Discard::Closed,
            Discard::ReassemblyTimeout,
        ];
        for reason in counts.discarded.keys() {
            assert!(expected.contains(reason), "{reason:?}");
        }
        assert!(counts.pdus > 500 && counts.bytes_checked > 50_000);
    }
}

/// Octets that nobody's segmenter made, but whose CRC-10 is right.
#[test]
fn does_what_the_naive_reassembler_does_with_any_octets() {
    let mut delivered = 0;
    for seed in 40..44u128 {
        let mut rng = Pcg64Mcg::new(seed << 2);
        let limits = Limits {
            mids: 4,
            max_sdu: 150,
            timeout_ns: 50_000,
            buffer_len: 2_000,
            descriptors: 6,
        };
        let mut vc = Vc::new(limits);
        let mut sns = [0u8; 4];
        let mut now = 0;
        for _ in 0..15_000 {
            now += u64::from(below(&mut rng, 2_000));
            let mut payload = [0; 48];
            rng.fill_bytes(&mut payload);
            // Few values for each field, or no two cells would ever be of one PDU.
            let mid = below(&mut rng, 4) as u8;
            let sn = &mut sns[usize::from(mid)];
            *sn = (*sn + u8::from(below(&mut rng, 8) != 0)) % 16;
            payload[0] = payload[0] & 0xc0 | *sn << 2;
            payload[1] = mid;
            let small = |rng: &mut Pcg64Mcg| [0, below(rng, 2) as u8, 0, below(rng, 160) as u8];
            payload[2..6].copy_from_slice(&small(&mut rng));
            let li = match below(&mut rng, 8) {
                0 => below(&mut rng, 64),
                1 | 2 => 4 * below(&mut rng, 12),
                _ => 44,
            };
            payload[46] = (li as u8) << 2;
            let at = 2 + (li as usize).clamp(8, 44) - 4;
            payload[at..at + 4].copy_from_slice(&small(&mut rng));
            repair(&mut payload);
            vc.receive(now, &payload, false);
            vc.timeouts(now);
            if below(&mut rng, 20) == 0 {
                let count = below(&mut rng, 4);
                vc.release(count.into());
            }
        }
        delivered += vc.counts.pdus;
    }
    assert!(delivered > 100, "{delivered}");
}
