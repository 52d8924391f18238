//! A line with faults does to each cell what its list says, and counts it.

use cellgate_core::wire::{CellFormat, Header, HeaderForm, VpiVci, hec};
use cellgate_core::{Effect, Fault, FaultCounts, FaultyLine, Time};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

const NOW: Time = Time::from_ns(1_000);

fn fault(cell: u64, effect: Effect) -> Fault {
    Fault { cell, effect }
}

fn address(vci: u16) -> VpiVci {
    VpiVci::new(0, vci).unwrap()
}

/// Cell `i` of a line: its number in every octet's place.
fn cell(i: u64, stride: usize) -> Vec<u8> {
    let mut cell = vec![i as u8; stride];
    cell[stride - 8..].copy_from_slice(&i.to_be_bytes());
    cell
}

/// Cells that wait, and who takes them.
struct Source {
    stride: usize,
    next: u64,
    waiting: usize,
}

impl Source {
    fn new(stride: usize, waiting: usize) -> Self {
        Self {
            stride,
            next: 0,
            waiting,
        }
    }

    /// What `line` hands on of at most `room` cells.
    fn pass(&mut self, line: &mut FaultyLine, now: Time, room: usize) -> Vec<Vec<u8>> {
        let mut fifo = vec![0; room * self.stride];
        let waiting = self.waiting;
        let take = |into: &mut [u8]| {
            let count = (into.len() / self.stride).min(self.waiting);
            for place in into.chunks_exact_mut(self.stride).take(count) {
                place.copy_from_slice(&cell(self.next, self.stride));
                self.next += 1;
            }
            self.waiting -= count;
            count
        };
        let done = line.receive(now, waiting, take, &mut fifo);
        assert!(done <= room);
        let cells = fifo.chunks_exact(self.stride).take(done);
        cells.map(<[u8]>::to_vec).collect()
    }
}

/// All of `cells` cells of a line with these faults, taken `room` at a time.
fn all(
    format: CellFormat,
    faults: Vec<Fault>,
    cells: usize,
    room: usize,
) -> (Vec<Vec<u8>>, FaultCounts) {
    let mut line = FaultyLine::new(format, faults);
    let mut source = Source::new(format.stride(), cells);
    let mut passed = Vec::new();
    loop {
        let more = source.pass(&mut line, NOW, room);
        let fewer = more.len() < room;
        passed.extend(more);
        if fewer {
            assert_eq!((source.waiting, line.pending()), (0, 0));
            return (passed, line.counts());
        }
    }
}

#[test]
fn each_effect_does_what_it_says_and_is_counted() {
    let format = CellFormat::NoHec;
    let stride = format.stride();
    let whole = |i| cell(i, stride);
    let flipped = |i, bit: usize| {
        let mut cell = cell(i, stride);
        cell[bit / 8] ^= 0x80 >> (bit % 8);
        cell
    };
    let into = Effect::Insert {
        address: address(77),
        last: true,
    };
    let faults = vec![
        fault(5, Effect::Lose),
        fault(1, Effect::Duplicate),
        fault(2, Effect::Flip { bit: 31 }),
        fault(3, Effect::Flip { bit: 32 }),
        fault(4, into),
        fault(6, Effect::Flip { bit: 9_999 }),
        fault(7, Effect::Duplicate),
        fault(7, Effect::Lose),
        fault(8, Effect::Flip { bit: 40 }),
        fault(8, Effect::Flip { bit: 40 }),
    ];
    for room in [1, 2, 3, 300] {
        let (passed, counts) = all(format, faults.clone(), 10, room);
        assert_eq!(passed[..3], [whole(0), whole(1), whole(1)]);
        assert_eq!(passed[3..5], [flipped(2, 31), flipped(3, 32)]);
        let inserted = Header::parse(*passed[5].first_chunk().unwrap());
        assert_eq!(inserted.address(HeaderForm::Nni), address(77));
        assert_eq!(passed[6..], [whole(4), whole(6), whole(8), whole(9)]);
        let expected = FaultCounts {
            cells_in: 10,
            cells_out: 10,
            lost: 2,
            duplicated: 1,
            inserted: 1,
            header_errors: 1,
            payload_errors: 1,
            holds: 0,
        };
        assert_eq!(counts, expected, "{room} at a time");
    }
}

#[test]
fn an_inserted_cell_has_a_valid_hec() {
    let into = Effect::Insert {
        address: address(40),
        last: false,
    };
    let (passed, _) = all(CellFormat::WithHec, vec![fault(0, into)], 1, 8);
    let header = *passed[0].first_chunk().unwrap();
    assert_eq!((passed.len(), passed[0][4]), (2, hec(header)));
}

#[test]
fn a_hold_ends_in_a_clump_in_order() {
    let format = CellFormat::NoHec;
    let mut line = FaultyLine::new(format, vec![fault(3, Effect::Hold { ns: 500 })]);
    let mut source = Source::new(format.stride(), 5);
    assert_eq!(source.pass(&mut line, NOW, 256).len(), 3);
    source.waiting += 4;
    assert_eq!(source.pass(&mut line, NOW.plus_ns(499), 256).len(), 0);
    let clump = source.pass(&mut line, NOW.plus_ns(500), 256);
    let expected: Vec<_> = (3..9).map(|i| cell(i, format.stride())).collect();
    assert_eq!(clump, expected);
    assert_eq!((line.counts().holds, line.counts().cells_out), (1, 9));
}

#[test]
fn a_hold_begins_when_its_cell_has_come() {
    let format = CellFormat::NoHec;
    let mut line = FaultyLine::new(format, vec![fault(0, Effect::Hold { ns: 500 })]);
    let mut source = Source::new(format.stride(), 0);
    assert_eq!(source.pass(&mut line, NOW, 8).len(), 0);
    source.waiting = 1;
    let later = NOW.plus_ns(10_000);
    assert_eq!(source.pass(&mut line, later, 8).len(), 0);
    assert_eq!(source.pass(&mut line, later.plus_ns(500), 8).len(), 1);
}

/// The list applied to whole cells, one by one.
fn plainly(format: CellFormat, faults: &[Fault], cells: u64) -> Vec<Vec<u8>> {
    let mut passed = Vec::new();
    for i in 0..cells {
        let mut octets = cell(i, format.stride());
        let mine: Vec<Effect> = faults
            .iter()
            .filter(|f| f.cell == i)
            .map(|f| f.effect)
            .collect();
        for effect in &mine {
            if let Effect::Insert { address, last } = effect {
                let header = (address.bits() << 4) | u32::from(*last) << 1;
                let mut cell = header.to_be_bytes().to_vec();
                if format == CellFormat::WithHec {
                    cell.push(hec(header.to_be_bytes()));
                }
                cell.resize(format.stride(), 0x6a);
                passed.push(cell);
            }
            if let Effect::Flip { bit } = effect {
                octets[usize::from(bit / 8)] ^= 0x80 >> (bit % 8);
            }
        }
        if !mine.contains(&Effect::Lose) {
            let copies = 1 + mine.iter().filter(|e| **e == Effect::Duplicate).count();
            passed.extend(std::iter::repeat_n(octets, copies));
        }
    }
    passed
}

#[test]
fn agrees_with_the_list_applied_cell_by_cell() {
    for seed in 0..200_u64 {
        let mut rng = Pcg64Mcg::new(u128::from(seed) << 1 | 1);
        let mut below = |n: u64| rng.next_u64() % n;
        let format = [CellFormat::NoHec, CellFormat::WithHec][below(2) as usize];
        let cells = 1 + below(2_000);
        let rarity = 1 + below(20);
        let count = below(1 + cells / rarity);
        let mut faults: Vec<Fault> = (0..count)
            .map(|_| {
                let effect = match below(4) {
                    0 => Effect::Lose,
                    1 => Effect::Duplicate,
                    2 => Effect::Flip {
                        bit: below(8 * format.stride() as u64) as u16,
                    },
                    _ => Effect::Insert {
                        address: VpiVci::from_bits(below(1 << 28) as u32),
                        last: below(2) == 1,
                    },
                };
                fault(below(cells), effect)
            })
            .collect();
        let room = 1 + below(700) as usize;
        let (passed, counts) = all(format, faults.clone(), cells as usize, room);
        faults.sort();
        assert_eq!(passed, plainly(format, &faults, cells), "seed {seed}");
        let c = counts;
        assert_eq!(c.cells_in, cells);
        assert_eq!(c.cells_out, passed.len() as u64);
        assert_eq!(c.cells_out, c.cells_in - c.lost + c.duplicated + c.inserted);
    }
}
