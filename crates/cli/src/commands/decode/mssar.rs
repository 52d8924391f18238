//! Blocks of MSSAR, put together from cells by their circuits and judged.

use std::iter;

use cellgate_core::Time;
use cellgate_core::aal::mssar::{Block, Discard, Failed, Limits, Reassembler, Verdict};
use cellgate_core::upper::msna::SIGNALLING_VCI;
use cellgate_core::wire::{MSSAR_ATM_LEN, MSSAR_LEN, MSSAR_RING_LEN, Mssar};

use super::cell::hex;
use super::held::{Held, Occupies};
use super::line::{Line, Stamp};
use super::pdu::{Path, Thread};
use super::report::count;
use super::{message, rex};

/// Octets of a block that are shown.
const SHOWN: usize = 8;
/// Senders on the circuit of messages, which all stations of a ring have in common; of others one.
const SENDERS_MAX: u8 = Mssar::RIDS;

/// One circuit whose blocks are in progress.
#[derive(Debug)]
struct Circuit(Reassembler);

impl Occupies for Circuit {
    fn octets(&self) -> usize {
        self.0.held_cells() as usize * MSSAR_ATM_LEN
    }
}

/// Blocks in progress. No time ends one: a capture may be slow.
#[derive(Debug)]
pub(super) struct Blocks {
    circuits: Held<Thread, Circuit>,
    /// Octets of the longest block.
    pub(super) max_block: u16,
}

impl Default for Blocks {
    fn default() -> Self {
        Self {
            circuits: Held::default(),
            max_block: u16::MAX,
        }
    }
}

impl Blocks {
    /// The lines of the block that a cell ends, of the one that it completes, and of those that are
    /// given up. The last of `lines` is the cell's.
    pub(super) fn push(
        &mut self,
        thread: Thread,
        cell: &[u8],
        stamp: Stamp,
        lines: &mut Vec<Line>,
    ) {
        let limits = self.limits(thread);
        let mut outcome = None;
        self.circuits.change(
            thread,
            || Circuit(Reassembler::new(limits)),
            |Circuit(circuit)| outcome = Some(circuit.handle(Time::default(), cell)),
        );
        let vacant = |circuit: &Circuit| circuit.0.held_cells() == 0;
        if self.circuits.get(thread).is_some_and(vacant) {
            self.circuits.end(thread);
        }
        let Some(outcome) = outcome else { return };
        if let Some(line) = lines.last_mut() {
            judge(line, &outcome.cell);
        }
        let stamp = thread.at(stamp);
        if let Some(failed) = outcome.failed {
            lines.push(failed_line(stamp, thread, failed, Some(failed.reason)));
        }
        if let Verdict::Delivered(block) = outcome.cell {
            lines.push(block_line(stamp, thread, &block));
        }
        for (thread, circuit) in iter::from_fn(|| self.circuits.give_up()) {
            lines.extend(unfinished(thread, circuit));
        }
    }

    /// Blocks whose last cell never came.
    pub(super) fn rest(&mut self) -> Vec<Line> {
        let threads: Vec<_> = self.circuits.iter().map(|(thread, _)| thread).collect();
        let ended = threads.into_iter().filter_map(|thread| {
            let circuit = self.circuits.end(thread)?;
            Some(unfinished(thread, circuit))
        });
        ended.flatten().collect()
    }

    fn limits(&self, thread: Thread) -> Limits {
        let data_len = match thread.path {
            Path::Ring { .. } => MSSAR_RING_LEN,
            Path::Interface(_) | Path::Label(..) => MSSAR_ATM_LEN,
        };
        Limits {
            data_len: data_len as u8,
            max_block: self.max_block,
            blocks: match is_signalling(thread) {
                true => SENDERS_MAX,
                false => 1,
            },
            timeout_ns: u64::MAX,
        }
    }
}

fn is_signalling(thread: Thread) -> bool {
    thread.known.1 && thread.address.vci() == SIGNALLING_VCI
}

/// Says what the fragmentation header of a cell tells.
pub(super) fn describe(line: &mut Line, cell: &[u8]) {
    let Some((header, data)) = cell.split_first_chunk::<MSSAR_LEN>() else {
        return;
    };
    let header = Mssar::parse(*header);
    line.field("mssar_sequence", header.sequence);
    line.field("mssar_rid", header.rid);
    line.field("mssar_part", header.part);
    line.field("mssar_start", header.start);
    line.say(format!("mssar seq {} rid {}", header.sequence, header.rid));
    if header.start {
        line.say("start");
    }
    if let (true, Some(octets)) = (header.part, data.last()) {
        line.field("mssar_count", *octets);
        line.say(format!("part of {octets} octets"));
    }
}

/// Says what became of a cell.
fn judge(line: &mut Line, verdict: &Verdict) {
    let word = match verdict {
        Verdict::Held => "held",
        Verdict::Delivered(_) => "delivered",
        Verdict::Discarded(reason) => {
            line.say(format!("DISCARDED {}", word(*reason)));
            word(*reason)
        }
    };
    line.field("mssar_verdict", word);
}

const fn word(reason: Discard) -> &'static str {
    match reason {
        Discard::LostCell => "lost_cell",
        Discard::LengthError => "length_error",
        Discard::Oversized => "oversized",
        Discard::TooManyBlocks => "too_many_blocks",
        Discard::ReassemblyTimeout => "reassembly_timeout",
    }
}

fn block_line(stamp: Stamp, thread: Thread, block: &Block) -> Line {
    let octets = &block.octets;
    let mut line = Line::new(stamp, "block", thread.place(), octets.len());
    line.field("aal", "mssar");
    line.field("reassembled", true);
    line.field("mssar_block_rid", block.rid);
    line.field("mssar_block_cells", block.cells);
    line.field("mssar_block_length", octets.len());
    line.field("mssar_block_octets", hex(octets));
    let cells = count(block.cells.into(), "cell");
    line.say(format!("mssar rid {}, {cells}", block.rid));
    let is_told = match is_signalling(thread) {
        true => message::describe(&mut line, octets),
        false => rex::describe(&mut line, octets),
    };
    if !is_told && !octets.is_empty() {
        let shown = octets.get(..SHOWN).unwrap_or(octets);
        let more = if octets.len() > SHOWN { "..." } else { "" };
        line.say(format!("data {}{more}", hex(shown)));
    }
    line
}

/// A block that failed, for a `reason`, or that never ended. Its length is that of its cells.
fn failed_line(stamp: Stamp, thread: Thread, failed: Failed, reason: Option<Discard>) -> Line {
    let cell_len = match thread.path {
        Path::Ring { .. } => MSSAR_LEN + MSSAR_RING_LEN,
        Path::Interface(_) | Path::Label(..) => MSSAR_LEN + MSSAR_ATM_LEN,
    };
    let cells = usize::from(failed.cells);
    let mut line = Line::new(stamp, "part", thread.place(), cells * cell_len);
    line.field("aal", "mssar");
    line.field("mssar_failed_rid", failed.rid);
    line.field("mssar_failed_cells", failed.cells);
    line.field("mssar_failed_reason", reason.map(word));
    let cells = count(cells, "cell");
    let why = reason.map_or("without its last".into(), |reason| {
        format!("that failed: {}", word(reason))
    });
    line.say(format!(
        "mssar rid {}, {cells} of a block {why}",
        failed.rid
    ));
    line
}

fn unfinished(thread: Thread, circuit: Circuit) -> Vec<Line> {
    let Circuit(mut circuit) = circuit;
    let late = Time::default().plus_ns(u64::MAX);
    let failed = iter::from_fn(|| circuit.handle_deadline(late));
    failed
        .map(|failed| failed_line(thread.after_all(), thread, failed, None))
        .collect()
}
