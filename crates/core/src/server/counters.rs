//! The counters that a server shows: a file that it writes and anybody reads, without a question.
//!
//! One writer changes it all at a time: the sequence is odd meanwhile. A reader that met the writer
//! reads again.

use super::ConnectionInfo;
use crate::Time;
use crate::queue::layout::counters::{RECORD_LEN, RECORDS, SEQUENCE, TIME};
use crate::queue::layout::{PAGE_LEN, SLOTS};
use crate::queue::{FileKind, Header, Words};

/// Words of a record.
const WORDS: usize = RECORD_LEN / 8;
/// Octets of an address: a name of 15, two dots, 4 and 5 digits at most; the rest is 0.
const ADDRESS_LEN: usize = 32;

const GUARANTEED: u64 = 1;
const PERMANENT: u64 = 2;
const AT_RISK: u64 = 4;
const CAN_GROW: u64 = 8;

#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CounterRecord {
    pub address: String,
    /// Its number, never used twice.
    pub number: u32,
    /// The user it belongs to.
    pub uid: u32,
    /// The process that uses it; 0: nobody does.
    pub pid: u32,
    /// Whether its rate is guaranteed.
    pub guaranteed: bool,
    /// Whether it stays without an application.
    pub permanent: bool,
    /// Whether its guarantee cannot be kept for the time being.
    pub at_risk: bool,
    /// Whether it was offered more and has not answered.
    pub can_grow: bool,
    /// Cells/s that it may send; 0: none.
    pub transmit_cell_s: u64,
    /// Cells/s that it may receive; 0: none, or without bound.
    pub receive_cell_s: u64,
    /// Cells sent.
    pub cells_transmitted: u64,
    /// PDUs sent.
    pub pdus_transmitted: u64,
    /// Cells that arrived.
    pub cells_received: u64,
    /// Cells of delivered PDUs.
    pub cells_delivered: u64,
    /// PDUs delivered.
    pub pdus_delivered: u64,
    /// Cells discarded.
    pub cells_discarded: u64,
    /// PDUs discarded.
    pub pdus_discarded: u64,
}

/// What the file held at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterSnapshot {
    /// When it was written, `CLOCK_MONOTONIC`.
    pub time: Time,
    pub records: Vec<CounterRecord>,
}

/// Octets of a file for so many connections: whole pages.
pub const fn counters_len(connections: u16) -> usize {
    (SLOTS + connections as usize * RECORD_LEN).next_multiple_of(PAGE_LEN)
}

/// What the file's header says.
pub const fn counters_header(generation: u32) -> Header {
    Header {
        kind: FileKind::Counters,
        generation,
        geometry: [0; 5],
    }
}

/// Writes all counters into a file of `len` octets; connections beyond its room are left out.
pub fn write_counters<W: Words>(
    file: &W,
    len: usize,
    now: Time,
    connections: impl Iterator<Item = ConnectionInfo>,
) {
    let sequence = file.load(SEQUENCE) | 1;
    file.store(SEQUENCE, sequence);
    file.fence();
    let mut count = 0;
    for (i, info) in connections.take(room(len)).enumerate() {
        for (word, value) in words(&info).into_iter().enumerate() {
            file.store(SLOTS + i * RECORD_LEN + 8 * word, value);
        }
        count = i as u64 + 1;
    }
    file.store(RECORDS, count);
    file.store(TIME, now.ns());
    file.store(SEQUENCE, sequence.wrapping_add(1));
}

/// Reads all counters of a file of `len` octets; none: the writer was at work.
pub fn read_counters<W: Words>(file: &W, len: usize) -> Option<CounterSnapshot> {
    let sequence = file.load(SEQUENCE);
    let count = usize::try_from(file.load(RECORDS)).unwrap_or(usize::MAX);
    let record = |i: usize| {
        let words = core::array::from_fn(|word| file.load(SLOTS + i * RECORD_LEN + 8 * word));
        CounterRecord::of(words)
    };
    let snapshot = CounterSnapshot {
        time: Time::from_ns(file.load(TIME)),
        records: (0..count.min(room(len))).map(record).collect(),
    };
    file.fence();
    (sequence.is_multiple_of(2) && file.load(SEQUENCE) == sequence).then_some(snapshot)
}

const fn room(len: usize) -> usize {
    len.saturating_sub(SLOTS) / RECORD_LEN
}

fn words(info: &ConnectionInfo) -> [u64; WORDS] {
    let mut address = [0; ADDRESS_LEN];
    for (octet, of) in address.iter_mut().zip(info.address.to_string().bytes()) {
        *octet = of;
    }
    let (texts, _) = address.as_chunks::<8>();
    let text = |i: usize| u64::from_le_bytes(texts[i]);
    let flags = [
        (info.guaranteed, GUARANTEED),
        (info.permanent, PERMANENT),
        (info.risk.as_ref().is_some_and(|risk| risk.now), AT_RISK),
        (info.offer.is_some(), CAN_GROW),
    ];
    let flags = flags.map(|(is_set, flag)| u64::from(is_set) * flag);
    let flags = flags.into_iter().sum();
    let stats = &info.stats;
    [
        text(0),
        text(1),
        text(2),
        text(3),
        info.number.into(),
        u64::from(info.uid) << 32 | u64::from(info.pid.unwrap_or(0)),
        flags,
        info.transmit.map_or(0, |rate| rate.cell_s().into()),
        info.receive.map_or(0, |rate| rate.cell_s().into()),
        stats.cells_transmitted,
        stats.pdus_transmitted,
        stats.cells_received,
        stats.cells_delivered,
        stats.pdus_delivered,
        stats.cells_discarded.total(),
        stats.pdus_discarded.total(),
    ]
}

impl CounterRecord {
    fn of(words: [u64; WORDS]) -> Self {
        let text = words[..4].iter().flat_map(|word| word.to_le_bytes());
        let text: Vec<u8> = text.take_while(|octet| *octet != 0).collect();
        Self {
            address: String::from_utf8_lossy(&text).into_owned(),
            number: words[4] as u32,
            uid: (words[5] >> 32) as u32,
            pid: words[5] as u32,
            guaranteed: words[6] & GUARANTEED != 0,
            permanent: words[6] & PERMANENT != 0,
            at_risk: words[6] & AT_RISK != 0,
            can_grow: words[6] & CAN_GROW != 0,
            transmit_cell_s: words[7],
            receive_cell_s: words[8],
            cells_transmitted: words[9],
            pdus_transmitted: words[10],
            cells_received: words[11],
            cells_delivered: words[12],
            pdus_delivered: words[13],
            cells_discarded: words[14],
            pdus_discarded: words[15],
        }
    }
}

#[cfg(test)]
mod tests {
    use core::cell::{Cell, RefCell};

    use super::*;
    use crate::adapter::{Discard, Marks, VcStats};
    use crate::contract::CellRate;
    use crate::server::{Buffers, DelayBounds};

    /// Memory whose writer can be met at work.
    struct File {
        words: RefCell<Vec<u64>>,
        loads: Cell<u32>,
        /// After so many loads, somebody writes.
        meets_at: u32,
    }

    impl File {
        fn new(connections: u16) -> Self {
            Self {
                words: RefCell::new(vec![0; counters_len(connections) / 8]),
                loads: Cell::new(0),
                meets_at: u32::MAX,
            }
        }

        fn len(&self) -> usize {
            8 * self.words.borrow().len()
        }
    }

    impl Words for File {
        fn load(&self, offset: usize) -> u64 {
            self.loads.set(self.loads.get() + 1);
            if self.loads.get() == self.meets_at {
                write_counters(self, self.len(), Time::from_ns(9), [info(9)].into_iter());
            }
            self.words.borrow()[offset / 8]
        }

        fn store(&self, offset: usize, value: u64) {
            self.words.borrow_mut()[offset / 8] = value;
        }

        fn fence(&self) {}

        fn copy_in(&self, _: usize, _: &[u8]) {
            unreachable!("words only")
        }

        fn copy_out(&self, _: usize, _: &mut [u8]) {
            unreachable!("words only")
        }
    }

    fn info(number: u32) -> ConnectionInfo {
        let mut stats = VcStats {
            cells_transmitted: 1,
            pdus_transmitted: 2,
            cells_received: 3,
            cells_delivered: 4,
            pdus_delivered: 5,
            ..VcStats::default()
        };
        stats.cells_discarded.add(Discard::Oversized, 6);
        stats.pdus_discarded.add(Discard::Oversized, 7);
        ConnectionInfo {
            number,
            address: "a_name_of_15-at.4095.65535".parse().unwrap(),
            contract: "ubr,aal5".into(),
            notification: None,
            marks: Marks::None,
            transmit_pdus: None,
            receive_pdus: None,
            queue_threshold: None,
            completions: false,
            guaranteed: number == 1,
            permanent: number != 1,
            uid: u32::MAX,
            pid: (number == 1).then_some(u32::MAX - 1),
            transmit: CellRate::new(8),
            receive: None,
            memory: 0,
            cpu_reserved_ppm: 0,
            cpu_expected_ppm: 0,
            keeps_awake: false,
            delay_ns: None,
            risk: None,
            offer: None,
            buffers: Buffers::default(),
            bound: DelayBounds::default(),
            stats,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let file = File::new(2);
        assert_eq!(
            read_counters(&file, file.len()),
            Some(CounterSnapshot::default())
        );
        write_counters(&file, file.len(), Time::from_ns(5), (1..3).map(info));
        let snapshot = read_counters(&file, file.len()).unwrap();
        assert_eq!(snapshot.time, Time::from_ns(5));
        let first = CounterRecord {
            address: "a_name_of_15-at.4095.65535".into(),
            number: 1,
            uid: u32::MAX,
            pid: u32::MAX - 1,
            guaranteed: true,
            permanent: false,
            at_risk: false,
            can_grow: false,
            transmit_cell_s: 8,
            receive_cell_s: 0,
            cells_transmitted: 1,
            pdus_transmitted: 2,
            cells_received: 3,
            cells_delivered: 4,
            pdus_delivered: 5,
            cells_discarded: 6,
            pdus_discarded: 7,
        };
        let second = CounterRecord {
            number: 2,
            pid: 0,
            guaranteed: false,
            permanent: true,
            ..first.clone()
        };
        assert_eq!(snapshot.records, [first, second]);
    }

    #[test]
    fn connections_without_room_are_left_out() {
        let file = File::new(1);
        let room = room(file.len());
        write_counters(&file, file.len(), Time::ZERO, (0..1_000).map(info));
        assert_eq!(
            read_counters(&file, file.len()).unwrap().records.len(),
            room
        );
        // Whatever the file says, the reader stays within it.
        file.store(RECORDS, u64::MAX);
        assert_eq!(
            read_counters(&file, file.len()).unwrap().records.len(),
            room
        );
    }

    #[test]
    fn a_reader_that_meets_the_writer_has_nothing() {
        // Two words, then sixteen of the record; the writer loads one itself.
        for meets_at in 2..=20 {
            let file = File::new(1);
            write_counters(&file, file.len(), Time::ZERO, [info(1)].into_iter());
            file.loads.set(0);
            let file = File { meets_at, ..file };
            assert_eq!(read_counters(&file, file.len()), None, "load {meets_at}");
            assert_eq!(
                read_counters(&file, file.len()).unwrap().records[0].number,
                9
            );
        }
        let file = File::new(1);
        file.store(SEQUENCE, 7);
        assert_eq!(read_counters(&file, file.len()), None);
        // A successor of a writer that died at work.
        write_counters(&file, file.len(), Time::ZERO, [info(1)].into_iter());
        assert!(read_counters(&file, file.len()).is_some());
    }
}
