//! All senders on one port, as in *Policing Offloaded*: one process makes all streams and merges
//! them cell by cell into one FIFO, which drops at its tail what it cannot hold, whosever it is.
//!
//! A port has one sender, so a switch is needed; this is the part of it that matters, without the
//! cost of handing every cell from a sender's process to the switch's first.

use std::collections::BTreeSet;

use cellgate_core::Time;
use cellgate_host::clock::MonotonicClock;

use super::pace::{Next, sleep_until};
use super::plan::{Connection, FORMAT, PDU_CELLS, Strange};
use super::sender::{Sent, Source, Task};
use super::stranger::Stranger;
use super::wire::SendPort;

/// Cells handed to the port at once.
const BLOCK: usize = 256;

/// How long the port may stay full once nobody sends.
const ROOM_MAX_NS: u64 = 1_000_000_000;

/// What becomes of a stream's PDUs at the port.
#[derive(Default)]
struct Fate {
    /// Whether the PDU under way lacks a cell, or comes with what is left of an earlier one.
    damaged: bool,
    /// Whether cells were taken since the last one that ends a PDU.
    unended: bool,
}

impl Fate {
    /// Counts a cell. At the last one of a PDU: whether it is whole at the adapter, which takes one
    /// whose last cell is lost for a part of the next.
    fn count(&mut self, taken: bool, last: bool) -> Option<bool> {
        self.damaged |= !taken;
        if taken {
            self.unended = !last;
        }
        last.then(|| !std::mem::replace(&mut self.damaged, self.unended))
    }
}

/// One of the streams that are merged.
struct Stream {
    source: Source,
    /// Cells of the PDU in progress that are already merged; all of them: none is in progress.
    merged: usize,
    fate: Fate,
    over: bool,
    wait_until: Option<Time>,
}

impl Stream {
    fn new(source: Source) -> Self {
        Self {
            source,
            merged: PDU_CELLS,
            fate: Fate::default(),
            over: false,
            wait_until: None,
        }
    }

    /// Releases a PDU if none is in progress and one is due.
    fn release(&mut self, now: Time) {
        if self.merged < PDU_CELLS || self.over {
            return;
        }
        self.wait_until = None;
        match self.source.pace.next(now) {
            Next::Release { late_ns } => {
                self.source.release(now, late_ns);
                self.merged = 0;
            }
            Next::Wait(instant) => self.wait_until = Some(instant),
            Next::Over => self.over = true,
        }
    }

    /// The next cell, if a PDU is in progress.
    fn cell(&mut self) -> Option<&[u8]> {
        let at = self.merged * FORMAT.stride();
        let cell = self.source.maker.made().get(at..at + FORMAT.stride())?;
        self.merged += 1;
        Some(cell)
    }

    /// Counts what became of a cell; the PDU's last one decides what became of it.
    fn count(&mut self, taken: bool, last: bool) {
        let sent = &mut self.source.sent;
        sent.sent_cells += u64::from(taken);
        if let Some(whole) = self.fate.count(taken, last) {
            sent.sent_pdus += u64::from(whole);
            sent.damaged_pdus += u64::from(!whole);
        }
    }

    /// Sends a last cell after a PDU that lacks its own: the next stream of the VC begins afresh.
    fn end(&mut self, mut send: impl FnMut(&[u8]) -> usize) {
        let begin = MonotonicClock.now();
        let at = (PDU_CELLS - 1) * FORMAT.stride();
        let last = &self.source.maker.made()[at..];
        while self.fate.unended && MonotonicClock.now().since_ns(begin) < ROOM_MAX_NS {
            if send(last) == 1 {
                self.fate.unended = false;
                self.source.sent.sent_cells += 1;
            } else {
                std::thread::yield_now();
            }
        }
    }
}

/// Whose cell of a block it is: a stream's, whether the last of its PDU; or the stranger's.
type Owner = Option<(usize, bool)>;

/// Sends all streams; each one's record, the stranger's last.
pub(crate) fn run(connections: &[Connection], task: &Task, port: &mut SendPort) -> Vec<Sent> {
    let sources = connections.iter().map(|c| Source::new(c, task));
    let mut streams: Vec<Stream> = sources.map(Stream::new).collect();
    let open = connections.iter().map(Connection::address);
    let mut stranger = Stranger::new(BTreeSet::from_iter(open));
    let scan = task.strange == Strange::Scan;
    let mut strangers = Sent::default();
    let mut block = Vec::with_capacity((BLOCK + connections.len()) * FORMAT.stride());
    let mut owners: Vec<Owner> = Vec::with_capacity(BLOCK + connections.len());
    loop {
        let now = MonotonicClock.now();
        let strange = scan && now >= task.begin && now < task.end;
        let foreign = if strange { stranger.block() } else { &[] };
        merge(&mut streams, now, foreign, &mut block, &mut owners);
        if owners.is_empty() {
            let later = streams.iter().filter_map(|stream| stream.wait_until).min();
            match later {
                Some(instant) => sleep_until(instant),
                None if scan && now < task.begin => sleep_until(task.begin),
                None => break,
            }
            continue;
        }
        let taken = port.send(&block);
        for (i, owner) in owners.iter().enumerate() {
            match *owner {
                Some((stream, last)) => streams[stream].count(i < taken, last),
                None => strangers.sent_cells += u64::from(i < taken),
            }
        }
    }
    for stream in &mut streams {
        stream.end(|cell| port.send(cell));
    }
    let sources = streams.into_iter().map(|stream| stream.source.sent);
    sources.chain([strangers]).collect()
}

/// Fills `block` with one cell of each stream in turn, and one of the foreign ones, until it is
/// full or nobody has a cell.
fn merge(
    streams: &mut [Stream],
    now: Time,
    foreign: &[u8],
    block: &mut Vec<u8>,
    owners: &mut Vec<Owner>,
) {
    block.clear();
    owners.clear();
    let mut foreign = foreign.chunks(FORMAT.stride());
    while owners.len() < BLOCK {
        let before = owners.len();
        for (i, stream) in streams.iter_mut().enumerate() {
            stream.release(now);
            if let Some(cell) = stream.cell() {
                block.extend_from_slice(cell);
                owners.push(Some((i, stream.merged == PDU_CELLS)));
            }
        }
        if let Some(cell) = foreign.next() {
            block.extend_from_slice(cell);
            owners.push(None);
        }
        if owners.len() == before {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Hazard, connections};
    use super::*;

    #[test]
    fn a_stream_ends_a_pdu_that_lacks_its_last_cell_and_no_other() {
        let task = Task {
            steered: false,
            run: 1,
            begin: Time::ZERO,
            end: Time::from_ns(1_000_000_000),
            hazard: Hazard::BitS(0),
            strange: Strange::Nothing,
        };
        let mut stream = Stream::new(Source::new(&connections(true)[0], &task));
        stream.release(Time::ZERO);
        let mut cells = Vec::new();
        while let Some(cell) = stream.cell() {
            cells.push(cell.to_vec());
        }
        let last = cells.pop().expect("a PDU");
        stream.end(|_| panic!("nothing of it was taken"));
        cells.iter().for_each(|_| stream.count(true, false));
        stream.count(false, true);
        let (mut asked, mut sent) = (0, Vec::new());
        let mut port = |cell: &[u8]| {
            asked += 1;
            // It has been full twice.
            let has_room = asked == 3;
            sent.extend(has_room.then(|| cell.to_vec()));
            usize::from(has_room)
        };
        stream.end(&mut port);
        stream.end(&mut port);
        assert_eq!((asked, sent), (3, vec![last]));
        let record = stream.source.sent;
        assert_eq!((record.sent_pdus, record.damaged_pdus), (0, 1));
        assert_eq!(record.sent_cells, PDU_CELLS as u64);
    }

    #[test]
    fn a_pdu_is_whole_if_all_its_cells_and_the_last_one_before_them_were_taken() {
        let mut fate = Fate::default();
        let mut pdu = |cells: &str| {
            let count = |(i, cell)| fate.count(cell == '+', i + 1 == cells.len());
            let whole: Vec<bool> = cells.chars().enumerate().filter_map(count).collect();
            (whole, fate.unended)
        };
        for (cells, whole, unended) in [
            ("+++", true, false),
            ("-++", false, false),
            ("+++", true, false),
            // Nothing of it came: it hurts nobody.
            ("---", false, false),
            ("+++", true, false),
            // Its end is missing, and what it left is missing an end until somebody's comes.
            ("++-", false, true),
            ("---", false, true),
            ("+++", false, false),
            ("+++", true, false),
            ("+--", false, true),
            ("--+", false, false),
            ("+++", true, false),
        ] {
            assert_eq!(pdu(cells), (vec![whole], unended), "{cells}");
        }
    }
}
