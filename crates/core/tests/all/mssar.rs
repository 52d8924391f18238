//! Blocks in cells: round trips of every length, every discard by its name, and cells that are
//! lost, doubled and swapped, against a decoder by the letter.

use cellgate_core::Time;
use cellgate_core::aal::mssar::{
    Block, CELLS_MAX, Discard, Failed, Limits, Outcome, Reassembler, Segmenter, Verdict, block_max,
    cells,
};
use cellgate_core::wire::{MSSAR_ATM_LEN, MSSAR_RING_LEN, Mssar};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

const RING: u8 = MSSAR_RING_LEN as u8;
const ATM: u8 = MSSAR_ATM_LEN as u8;

const fn limits(data_len: u8, blocks: u8) -> Limits {
    Limits {
        data_len,
        max_block: block_max(data_len),
        blocks,
        timeout_ns: 1_000,
    }
}

fn segment(block: &[u8], rid: u8, data_len: u8) -> Vec<Vec<u8>> {
    let mut segmenter = Segmenter::new(block.len(), rid, data_len).unwrap();
    let mut cell = vec![0xee; 2 + usize::from(data_len)];
    let mut cells = Vec::new();
    while segmenter.emit_cell(block, &mut cell) {
        cells.push(cell.clone());
    }
    cells
}

fn handle(reassembler: &mut Reassembler, cell: &[u8]) -> Outcome {
    reassembler.handle(Time::ZERO, cell)
}

fn octets(len: usize, random: &mut Pcg64Mcg) -> Vec<u8> {
    let mut octets = vec![0; len];
    random.fill_bytes(&mut octets);
    octets
}

#[test]
fn a_block_of_70_octets_has_its_octets() {
    let block: Vec<u8> = (1..=70).collect();
    let cells = segment(&block, 5, RING);
    assert_eq!(cells.len(), 3);
    assert_eq!(cells[0][..2], [0x03, 0x15]);
    assert_eq!(cells[0][2..], block[..32]);
    assert_eq!(cells[1][..2], [0x02, 0x14]);
    assert_eq!(cells[1][2..], block[32..64]);
    assert_eq!(cells[2][..2], [0x01, 0x16]);
    assert_eq!(cells[2][2..8], block[64..]);
    assert!(cells[2][8..33].iter().all(|octet| *octet == 0));
    assert_eq!(cells[2][33], 6);
}

#[test]
fn blocks_of_every_length_come_back() {
    for data_len in [RING, ATM] {
        let mut random = Pcg64Mcg::new(7);
        let longest = octets(block_max(data_len).into(), &mut random);
        assert_eq!(longest.len(), 255 * usize::from(data_len));
        let mut reassembler = Reassembler::new(limits(data_len, 1));
        for len in 0..=longest.len() {
            let block = &longest[longest.len() - len..];
            let sent = segment(block, len as u8, data_len);
            assert_eq!(Some(sent.len() as u8), cells(len, data_len));
            let mut last = None;
            for cell in &sent {
                assert!(last.is_none() || last == Some(Verdict::Held));
                let outcome = handle(&mut reassembler, cell);
                assert_eq!(outcome.failed, None);
                last = Some(outcome.cell);
            }
            let Some(Verdict::Delivered(whole)) = last else {
                panic!("{len}: {last:?}");
            };
            assert_eq!(whole.octets, block);
            assert_eq!(usize::from(whole.cells), sent.len());
            assert_eq!(whole.rid, len as u8 % Mssar::RIDS);
            reassembler.recycle(whole.octets);
        }
        assert_eq!(reassembler.held_cells(), 0);
        assert_eq!(Segmenter::new(longest.len() + 1, 0, data_len), None);
    }
}

#[test]
fn a_segmenter_waits_for_its_block_and_for_room() {
    let mut segmenter = Segmenter::new(40, 0, RING).unwrap();
    let mut cell = [0; 34];
    assert!(!segmenter.emit_cell(&[0; 39], &mut cell));
    assert!(!segmenter.emit_cell(&[0; 40], &mut cell[..33]));
    assert!(!segmenter.emit_cell(&[0; 40], &mut []));
    assert_eq!((segmenter.left(), segmenter.begins()), (2, true));
    assert!(segmenter.emit_cell(&[0; 40], &mut cell));
    assert!(segmenter.emit_cell(&[0; 40], &mut cell));
    assert!(!segmenter.emit_cell(&[0; 40], &mut cell));
}

/// A cell that says this.
fn saying(sequence: u8, rid: u8, start: bool, count: Option<u8>) -> Vec<u8> {
    let header = Mssar {
        sequence,
        rid,
        part: count.is_some(),
        start,
    };
    let mut cell = header.emit().to_vec();
    cell.resize(34, 0xaa);
    cell[33] = count.unwrap_or(0xaa);
    cell
}

#[test]
fn each_bad_cell_has_its_reason_and_the_next_block_is_whole() {
    let begun = saying(3, 1, true, None);
    let bad = [
        (saying(0, 1, false, None), Discard::LengthError),
        (saying(0, 1, true, None), Discard::LengthError),
        (saying(2, 1, false, Some(32)), Discard::LengthError),
        (saying(2, 1, false, Some(255)), Discard::LengthError),
        (
            saying(2, 1, false, None)[..33].to_vec(),
            Discard::LengthError,
        ),
        (
            saying(2, 1, false, None)[..1].to_vec(),
            Discard::LengthError,
        ),
        (saying(1, 1, false, None), Discard::LostCell),
        (saying(3, 1, false, None), Discard::LostCell),
        (saying(2, 2, false, None), Discard::LostCell),
    ];
    for (cell, reason) in bad {
        let mut reassembler = Reassembler::new(limits(RING, 1));
        assert_eq!(handle(&mut reassembler, &begun).cell, Verdict::Held);
        let outcome = handle(&mut reassembler, &cell);
        assert_eq!(outcome.cell, Verdict::Discarded(reason), "{cell:02x?}");
        // One octet tells nothing of whose it is.
        let failed = (cell.len() > 1).then_some(Failed {
            rid: 1,
            reason,
            cells: 1,
        });
        assert_eq!(outcome.failed, failed);
        let next = handle(&mut reassembler, &saying(1, 2, true, Some(2)));
        let Verdict::Delivered(block) = next.cell else {
            panic!("{next:?}");
        };
        assert_eq!(block.octets, [0xaa; 2]);
    }
}

#[test]
fn a_block_that_begins_ends_the_one_before() {
    let mut reassembler = Reassembler::new(limits(RING, 1));
    handle(&mut reassembler, &saying(3, 1, true, None));
    handle(&mut reassembler, &saying(2, 1, false, None));
    for rid in [1, 9] {
        let outcome = handle(&mut reassembler, &saying(2, rid, true, None));
        assert_eq!(outcome.cell, Verdict::Held);
        let failed = outcome.failed.unwrap();
        assert_eq!((failed.rid, failed.reason), (1, Discard::LostCell));
    }
    let outcome = handle(&mut reassembler, &saying(1, 9, false, Some(0)));
    assert!(matches!(outcome.cell, Verdict::Delivered(Block { octets, .. }) if octets.len() == 32));
}

#[test]
fn a_block_longer_than_the_largest_is_refused_at_its_first_cell_or_where_it_shows() {
    let mut reassembler = Reassembler::new(Limits {
        max_block: 40,
        ..limits(RING, 1)
    });
    let oversized = Verdict::Discarded(Discard::Oversized);
    let outcome = handle(&mut reassembler, &saying(3, 1, true, None));
    assert_eq!((outcome.failed, outcome.cell), (None, oversized.clone()));
    handle(&mut reassembler, &saying(2, 2, true, None));
    let outcome = handle(&mut reassembler, &saying(1, 2, false, Some(9)));
    assert_eq!(outcome.cell, oversized);
    assert_eq!(outcome.failed.unwrap().cells, 1);
    // Nothing has failed but what was held.
    let mut reassembler = Reassembler::new(Limits {
        max_block: 10,
        ..limits(RING, 1)
    });
    let outcome = handle(&mut reassembler, &saying(1, 2, true, None));
    assert_eq!((outcome.failed, outcome.cell), (None, oversized));
    assert_eq!(reassembler.held_cells(), 0);
}

#[test]
fn blocks_of_several_senders_are_put_together_at_once() {
    let mut reassembler = Reassembler::new(limits(RING, 3));
    let mut random = Pcg64Mcg::new(1);
    let blocks: Vec<_> = (0..3).map(|_| octets(100, &mut random)).collect();
    let sent: Vec<_> = (0..3).map(|n| segment(&blocks[n], n as u8, RING)).collect();
    for at in 0..4 {
        for (n, sent) in sent.iter().enumerate() {
            let outcome = handle(&mut reassembler, &sent[at]);
            assert_eq!(outcome.failed, None);
            match (at, outcome.cell) {
                (3, Verdict::Delivered(block)) => assert_eq!(block.octets, blocks[n]),
                (_, verdict) => assert_eq!(verdict, Verdict::Held),
            }
        }
    }
    for rid in 0..3 {
        handle(&mut reassembler, &saying(2, rid, true, None));
    }
    let fourth = handle(&mut reassembler, &saying(2, 3, true, None));
    assert_eq!(fourth.failed, None);
    assert_eq!(fourth.cell, Verdict::Discarded(Discard::TooManyBlocks));
    let stray = handle(&mut reassembler, &saying(1, 3, false, None));
    assert_eq!(stray.failed, None);
    assert_eq!(stray.cell, Verdict::Discarded(Discard::LostCell));
    assert_eq!(reassembler.held_cells(), 3);
}

#[test]
fn a_late_block_is_given_up() {
    let mut reassembler = Reassembler::new(limits(RING, 2));
    let at = Time::from_ns;
    reassembler.handle(at(10), &saying(2, 1, true, None));
    reassembler.handle(at(500), &saying(2, 2, true, None));
    assert_eq!(reassembler.next_deadline(), Some(at(1_010)));
    assert_eq!(reassembler.handle_deadline(at(1_009)), None);
    let failed = reassembler.handle_deadline(at(1_010)).unwrap();
    assert_eq!((failed.rid, failed.cells), (1, 1));
    assert_eq!(failed.reason, Discard::ReassemblyTimeout);
    assert_eq!(reassembler.handle_deadline(at(1_010)), None);
    assert!(reassembler.handle_deadline(at(1_500)).is_some());
    assert_eq!(reassembler.next_deadline(), None);
}

/// What has become of all cells.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    blocks: Vec<Vec<u8>>,
    delivered: usize,
    discarded: Vec<(Discard, usize)>,
    held: usize,
}

impl Told {
    fn discard(&mut self, reason: Discard, cells: usize) {
        if cells > 0 {
            self.discarded.push((reason, cells));
        }
    }

    fn cells(&self) -> usize {
        let discarded = self.discarded.iter().map(|(_, cells)| cells);
        self.delivered + self.held + discarded.sum::<usize>()
    }
}

fn reassembled(limits: Limits, cells: &[Vec<u8>]) -> Told {
    let mut reassembler = Reassembler::new(limits);
    let mut told = Told::default();
    for cell in cells {
        let outcome = handle(&mut reassembler, cell);
        if let Some(failed) = outcome.failed {
            told.discard(failed.reason, failed.cells.into());
        }
        match outcome.cell {
            Verdict::Held => {}
            Verdict::Delivered(block) => {
                told.delivered += usize::from(block.cells);
                told.blocks.push(block.octets);
            }
            Verdict::Discarded(reason) => told.discard(reason, 1),
        }
    }
    told.held = reassembler.held_cells() as usize;
    told
}

/// By the letter of the paper: all cells of a block are kept as they came, and looked at again and
/// again. Of each, the octets of the wire are read.
fn by_the_letter(limits: Limits, cells: &[Vec<u8>]) -> Told {
    let mut told = Told::default();
    // Under the RID; where one station sends, all under 0.
    let mut open: Vec<Vec<&[u8]>> = vec![Vec::new(); 64];
    for cell in cells {
        let rid = cell[1] >> 2;
        let key = if limits.blocks > 1 { rid } else { 0 };
        let kept = &mut open[usize::from(key)];
        let is_bad = cell[0] == 0 || cell[1] & 2 != 0 && cell[cell.len() - 1] >= limits.data_len;
        if is_bad {
            told.discard(Discard::LengthError, kept.drain(..).count());
            told.discard(Discard::LengthError, 1);
            continue;
        }
        if cell[1] & 1 != 0 {
            told.discard(Discard::LostCell, kept.drain(..).count());
            kept.push(cell);
        } else {
            let goes_on = kept.first().is_some_and(|first| {
                first[1] >> 2 == rid && usize::from(first[0]) == usize::from(cell[0]) + kept.len()
            });
            if !goes_on {
                told.discard(Discard::LostCell, kept.drain(..).count());
                told.discard(Discard::LostCell, 1);
                continue;
            }
            kept.push(cell);
        }
        if cell[0] == 1 {
            told.delivered += kept.len();
            let mut block = Vec::new();
            for cell in kept.drain(..) {
                let valid = match cell[1] & 2 {
                    0 => cell.len() - 2,
                    _ => usize::from(cell[cell.len() - 1]),
                };
                block.extend_from_slice(&cell[2..2 + valid]);
            }
            told.blocks.push(block);
        }
    }
    told.held = open.iter().map(Vec::len).sum();
    told
}

/// Blocks one after the other, or those of several senders between each other.
fn sent(random: &mut Pcg64Mcg, data_len: u8, senders: usize) -> Vec<Vec<u8>> {
    let mut queues: Vec<Vec<Vec<u8>>> = vec![Vec::new(); senders];
    for n in 0..200 {
        let cells = random.next_u32() % 6 + u32::from(random.next_u32().is_multiple_of(40)) * 249;
        let len = (cells * u32::from(data_len) + random.next_u32() % u32::from(data_len))
            .min(block_max(data_len).into());
        let block = octets(len as usize, random);
        let sender = n % senders;
        // Each sender has identifiers of its own.
        let rid = (n / senders % (64 / senders) * senders + sender) as u8;
        queues[sender].extend(segment(&block, rid, data_len));
    }
    let mut queues: Vec<_> = queues.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    while !queues.is_empty() {
        let at = random.next_u32() as usize % queues.len();
        match queues[at].next() {
            Some(cell) => all.push(cell),
            None => drop(queues.remove(at)),
        }
    }
    all
}

#[test]
fn cells_lost_doubled_swapped_and_changed_are_told_as_by_the_letter() {
    for seed in 0..200 {
        let mut random = Pcg64Mcg::new(seed);
        let data_len = if seed % 2 == 0 { RING } else { ATM };
        let senders = if seed % 4 < 2 { 1 } else { 8 };
        let limits = limits(data_len, if senders == 1 { 1 } else { 64 });
        let mut came = Vec::new();
        for mut cell in sent(&mut random, data_len, senders) {
            match random.next_u32() % 256 {
                0..4 => {}
                4..8 => came.extend([cell.clone(), cell]),
                8..12 => {
                    let at = came.len().saturating_sub(random.next_u32() as usize % 4);
                    came.insert(at, cell);
                }
                12..14 => {
                    cell[random.next_u32() as usize % 2] ^= 1 << (random.next_u32() % 8);
                    came.push(cell);
                }
                _ => came.push(cell),
            }
        }
        let told = reassembled(limits, &came);
        assert_eq!(told, by_the_letter(limits, &came), "seed {seed}");
        assert_eq!(told.cells(), came.len());
        assert!(told.blocks.len() > 60 && told.blocks.len() < 200);
    }
}

#[test]
fn whatever_is_lost_of_three_blocks_what_comes_is_one_of_them() {
    let mut random = Pcg64Mcg::new(3);
    let blocks: Vec<_> = [160, 150, 100].map(|len| octets(len, &mut random)).into();
    let all: Vec<_> = (0..3)
        .flat_map(|n| segment(&blocks[n], n as u8, RING))
        .collect();
    assert_eq!(all.len(), 14);
    for lost in (0..1_u32 << all.len()).filter(|lost| lost.count_ones() <= 6) {
        let came = all.iter().enumerate().filter(|(n, _)| lost >> n & 1 == 0);
        let came: Vec<_> = came.map(|(_, cell)| cell.clone()).collect();
        let told = reassembled(limits(RING, 1), &came);
        assert_eq!(told.cells(), came.len());
        for block in &told.blocks {
            assert!(blocks.contains(block), "{lost:b}");
        }
    }
}

/// Identifiers come round after 64 blocks: what is lost between two cells of one hides, then, what
/// lies between.
#[test]
fn sixty_four_blocks_lost_in_a_row_join_two() {
    let mut random = Pcg64Mcg::new(4);
    let [first, second] = [(); 2].map(|()| octets(64, &mut random));
    let [one, other] = [&first, &second].map(|block| segment(block, 9, RING));
    let told = reassembled(limits(RING, 1), &[one[0].clone(), other[1].clone()]);
    assert_eq!(told.blocks, [[&first[..32], &second[32..]].concat()]);
}

#[test]
fn the_longest_block_has_255_cells() {
    assert_eq!(CELLS_MAX, 255);
    assert_eq!((block_max(RING), block_max(ATM)), (8_160, 11_730));
    assert_eq!(cells(8_160, RING), Some(255));
    assert_eq!(cells(8_161, RING), None);
    assert_eq!(cells(1, 0), None);
}
