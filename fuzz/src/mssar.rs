//! MSSAR: cells of blocks, and a decoder by the letter.

use std::collections::VecDeque;

use cellgate_core::Time;
use cellgate_core::aal::mssar::{
    CELLS_MAX, Discard, Failed, Limits, Outcome, Reassembler, Segmenter, Verdict, block_max, cells,
};

use crate::take::Take;

/// A block through segmenter and reassembler: what comes out went in.
fn round_trip(take: &mut Take<'_>, data_len: u8) {
    let (len, rid) = (usize::from(take.u16()), take.u8());
    let mut block = take.slice(len).to_vec();
    block.resize(len, rid);
    let Some(mut segmenter) = Segmenter::new(len, rid, data_len) else {
        assert!(len > usize::from(block_max(data_len)));
        return;
    };
    let mut reassembler = Reassembler::new(Limits {
        data_len,
        max_block: len as u16,
        blocks: 1,
        timeout_ns: 0,
    });
    let mut cell = vec![0; 2 + usize::from(data_len)];
    let mut delivered = None;
    for left in (1..=cells(len, data_len).unwrap_or(0)).rev() {
        assert_eq!((segmenter.left(), &delivered), (left, &None));
        assert!(segmenter.emit_cell(&block, &mut cell));
        let outcome = reassembler.handle(Time::ZERO, &cell);
        assert_eq!(outcome.failed, None);
        if let Verdict::Delivered(block) = outcome.cell {
            delivered = Some(block);
        }
    }
    assert!(!segmenter.emit_cell(&block, &mut cell));
    assert_eq!(delivered.map(|delivered| delivered.octets), Some(block));
}

/// A block of which not all has come: its cells as they came.
struct Open {
    rid: u8,
    cells: Vec<Vec<u8>>,
    began_ns: u64,
}

impl Open {
    fn octets(&self) -> Vec<u8> {
        let valid = |cell: &Vec<u8>| match cell[1] & 2 {
            0 => cell[2..].to_vec(),
            _ => cell[2..2 + usize::from(cell[cell.len() - 1])].to_vec(),
        };
        self.cells.iter().flat_map(valid).collect()
    }
}

/// The decoder by the letter.
struct Letter {
    limits: Limits,
    /// In the order in which they began.
    open: VecDeque<Open>,
}

impl Letter {
    fn ends(&mut self, at: Option<usize>, reason: Discard) -> Option<Failed> {
        let open = self.open.remove(at?)?;
        let cells = open.cells.len() as u8;
        let rid = open.rid;
        Some(Failed { rid, reason, cells })
    }

    /// The block that failed, and what was delivered, or why the cell was thrown away.
    fn handle(
        &mut self,
        now_ns: u64,
        cell: &[u8],
    ) -> (Option<Failed>, Result<Option<Vec<u8>>, Discard>) {
        let lost = Discard::LostCell;
        let [sequence, flags, ..] = *cell else {
            return (None, Err(Discard::LengthError));
        };
        let last = cell[cell.len() - 1];
        let rid = flags >> 2;
        let is_shared = self.limits.blocks > 1;
        let at = self
            .open
            .iter()
            .position(|open| open.rid == rid || !is_shared);
        let data_len = usize::from(self.limits.data_len);
        let is_bad = sequence == 0
            || cell.len() != 2 + data_len
            || flags & 2 != 0 && usize::from(last) >= data_len;
        if is_bad {
            let reason = Discard::LengthError;
            return (self.ends(at, reason), Err(reason));
        }
        let (mut failed, mut at) = (None, at);
        if flags & 1 != 0 {
            failed = self.ends(at, lost);
            let most = cells(self.limits.max_block.into(), self.limits.data_len);
            if sequence > most.unwrap_or(CELLS_MAX) {
                return (failed, Err(Discard::Oversized));
            }
            if self.open.len() >= self.limits.blocks.into() {
                return (failed, Err(Discard::TooManyBlocks));
            }
            at = Some(self.open.len());
            self.open.push_back(Open {
                rid,
                cells: Vec::new(),
                began_ns: now_ns,
            });
        }
        let goes_on = at.and_then(|at| self.open.get(at)).is_some_and(|open| {
            let all = open.cells.first().map_or(sequence, |first| first[0]);
            open.rid == rid && usize::from(all) == usize::from(sequence) + open.cells.len()
        });
        let Some(at) = at.filter(|_| goes_on) else {
            return (self.ends(at, lost), Err(lost));
        };
        self.open[at].cells.push(cell.to_vec());
        let octets = self.open[at].octets();
        if octets.len() > self.limits.max_block.into() {
            let reason = Discard::Oversized;
            self.open[at].cells.pop();
            let ended = self.ends(Some(at), reason);
            return (
                failed.or(ended.filter(|ended| ended.cells > 0)),
                Err(reason),
            );
        }
        if sequence > 1 {
            return (failed, Ok(None));
        }
        self.open.remove(at);
        (failed, Ok(Some(octets)))
    }

    fn held(&self) -> usize {
        self.open.iter().map(|open| open.cells.len()).sum()
    }
}

/// Cells by octets of what to do, most of which go on with a block of one of a few senders: each
/// does what it does by the letter, and every cell is delivered, held or thrown away.
pub fn mssar(data: &[u8]) {
    let mut take = Take::new(data);
    let data_len = take.pick(&[32, 46, 1, 2, 255]);
    if take.flag() {
        return round_trip(&mut take, data_len);
    }
    let limits = Limits {
        data_len,
        max_block: take.pick(&[0, 1, 40, 100, 1_000, u16::MAX]),
        blocks: take.pick(&[1, 2, 3, 64, 0]),
        timeout_ns: take.pick(&[0, 1, 100, u64::MAX]),
    };
    let mut letter = Letter {
        limits,
        open: VecDeque::new(),
    };
    let mut reassembler = Reassembler::new(limits);
    let (mut now_ns, mut came, mut gone) = (0_u64, 0, 0);
    // What each sender's next cell says.
    let mut next = [0_u8; 4];
    while !take.is_empty() {
        let what = take.u8();
        let sender = usize::from(what & 3);
        let header = match what >> 2 & 7 {
            0..5 => {
                let is_start = next[sender] == 0;
                if is_start {
                    next[sender] = 1 + take.below(6);
                }
                let sequence = next[sender];
                next[sender] -= 1;
                let part = u8::from(what & 0x40 != 0) << 1;
                [sequence, (sender as u8) << 2 | part | u8::from(is_start)]
            }
            5 => take.octets(),
            6 => {
                now_ns = now_ns.saturating_add(take.u8().into());
                while let Some(first) = letter.open.front() {
                    let due = first.began_ns.saturating_add(limits.timeout_ns);
                    assert_eq!(reassembler.next_deadline(), Some(Time::from_ns(due)));
                    if due > now_ns {
                        break;
                    }
                    let failed = letter.ends(Some(0), Discard::ReassemblyTimeout);
                    assert_eq!(reassembler.handle_deadline(Time::from_ns(now_ns)), failed);
                    gone += failed.map_or(0, |failed| usize::from(failed.cells));
                }
                assert_eq!(reassembler.handle_deadline(Time::from_ns(now_ns)), None);
                continue;
            }
            _ => {
                next[sender] = next[sender].saturating_sub(1);
                continue;
            }
        };
        let mut cell = header.to_vec();
        cell.resize(2 + usize::from(data_len), what);
        if what & 0x80 != 0 {
            let last = cell.len() - 1;
            cell[last] = take.u8();
            if cell[last] == 0xff {
                cell.truncate(usize::from(take.u8()));
            }
        }
        came += 1;
        let (failed, verdict) = letter.handle(now_ns, &cell);
        let outcome = reassembler.handle(Time::from_ns(now_ns), &cell);
        gone += outcome.failed.map_or(0, |failed| usize::from(failed.cells));
        let Outcome { failed: ours, cell } = outcome;
        assert_eq!(ours, failed);
        match (cell, verdict) {
            (Verdict::Held, Ok(None)) => {}
            (Verdict::Delivered(block), Ok(Some(octets))) => {
                assert_eq!(block.octets, octets);
                gone += usize::from(block.cells);
                reassembler.recycle(block.octets);
            }
            (Verdict::Discarded(ours), Err(reason)) => {
                assert_eq!(ours, reason);
                gone += 1;
            }
            (ours, letter) => panic!("{ours:?} and by the letter {letter:?}"),
        }
        assert_eq!(reassembler.held_cells() as usize, letter.held());
        assert_eq!(came, gone + letter.held());
    }
}
