//! The other end of the line: what leaves is stamped when it is seen.

use std::hint::spin_loop;

use cellgate_core::wire::{CELL_LEN_NO_HEC, Header, Pti};
use cellgate_host::clock::MonotonicClock;
use cellgate_host::link::CellReceiver;

use super::lateness::Stamp;

/// A look that ends later than this after the one before, and the next one, may find cells that
/// came long ago.
const STALL_NS: u64 = 100_000;
/// Nothing takes as long to come: where the line was full, it was lost.
const LOST_NS: u64 = 1_000_000_000;

/// The cells that the observer stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Each {
    /// Every cell.
    Cell,
    /// The last cell of each AAL5 PDU.
    Pdu,
}

impl Each {
    fn is(self, cell: &[u8; CELL_LEN_NO_HEC]) -> bool {
        let [a, b, c, d, ..] = *cell;
        let last = |header: Header| matches!(header.pti(), Pti::User { last: true, .. });
        self == Self::Cell || last(Header::parse([a, b, c, d]))
    }
}

/// The row as the observer saw it.
#[derive(Debug)]
pub(super) struct Seen {
    /// Without those that were found about a stall.
    pub(super) stamps: Vec<Stamp>,
    /// Times that the observer itself stood still.
    pub(super) stalls: u64,
    /// Those that it found about one.
    pub(super) left_out: u64,
    /// Those that did not come.
    pub(super) lost: u64,
}

/// Looks at the line until `count` have come, or nothing comes any more, without a rest.
pub(super) fn observe(line: &mut CellReceiver, each: Each, count: u64) -> Seen {
    let mut seen = Seen {
        stamps: Vec::with_capacity(count as usize),
        stalls: 0,
        left_out: 0,
        lost: 0,
    };
    let mut cells = vec![[0; CELL_LEN_NO_HEC]; 1_024];
    let (mut came, mut last) = (0, MonotonicClock.now());
    // Cells that the first look finds have waited for it.
    let (mut came_last, mut stalled) = (last, true);
    while came < count {
        let waits = line.poll();
        let now = MonotonicClock.now();
        let before = std::mem::replace(&mut stalled, now.since_ns(last) > STALL_NS);
        last = now;
        seen.stalls += u64::from(stalled);
        if waits == 0 {
            if now.since_ns(came_last) > LOST_NS {
                break;
            }
            spin_loop();
            continue;
        }
        came_last = now;
        let mut left = waits;
        while left > 0 {
            let taken = line.take(cells.as_flattened_mut());
            left -= taken;
            for _ in cells[..taken].iter().filter(|cell| each.is(cell)) {
                match stalled || before {
                    true => seen.left_out += 1,
                    false => seen.stamps.push(Stamp {
                        at: came,
                        ns: now.ns(),
                    }),
                }
                came += 1;
            }
        }
    }
    seen.lost = count - came;
    seen
}
