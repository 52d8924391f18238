//! The counters that a server shows: a file that it writes and anybody reads, without a question.
//!
//! One writer changes it all at a time: the sequence is odd meanwhile. A reader that met the writer
//! reads again.

mod record;

use super::{AdapterInfo, ConnectionSlots, InterfaceInfo, ResourceInfo};
use crate::Time;
use crate::adapter::{PortStats, VcStats};
use crate::queue::layout::counters::{
    ADAPTER_LEN, ADAPTERS, INTERFACE_LEN, INTERFACES, RECORD_LEN, RECORDS, RESOURCE_LEN, RESOURCES,
    SEQUENCE, TIME,
};
use crate::queue::layout::{PAGE_LEN, SLOTS};
use crate::queue::{FileKind, Header, Words};
use record::Record;

/// A connection's counters.
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
    /// What happened on it.
    pub stats: VcStats,
    /// The slots of its contract.
    pub slots: ConnectionSlots,
}

/// An interface's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct InterfaceRecord {
    pub name: String,
    /// Whether its link is there.
    pub up: bool,
    /// Whether it carries cells, as far as this end can know.
    pub carries: bool,
    /// Connections on it.
    pub connections: u32,
    /// Cells that its queue to the adapter had no room for.
    pub dropped_cells: u64,
    /// Cells of no VC.
    pub cells: PortStats,
}

/// What the file held at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterSnapshot {
    /// When it was written, `CLOCK_MONOTONIC`.
    pub time: Time,
    /// How the adapters have run, but for who called them for nothing and who shares their CPU.
    pub adapters: Vec<AdapterInfo>,
    pub interfaces: Vec<InterfaceRecord>,
    /// The resources, but for the machine's limits.
    pub resources: Vec<ResourceInfo>,
    pub records: Vec<CounterRecord>,
}

/// What a server shows in its counters at one moment.
pub struct Shown<C> {
    pub adapters: Vec<AdapterInfo>,
    pub interfaces: Vec<InterfaceInfo>,
    pub resources: Vec<ResourceInfo>,
    pub connections: C,
}

/// What a counters' file has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountersRoom {
    pub adapters: u8,
    pub interfaces: u16,
    pub connections: u16,
}

impl CountersRoom {
    /// The least that a server has.
    pub const LEAST: Self = Self {
        adapters: 1,
        interfaces: 1,
        connections: 1,
    };
    /// The most.
    pub const MOST: Self = Self {
        adapters: u8::MAX,
        interfaces: u16::MAX,
        connections: u16::MAX,
    };

    /// Octets of the file: whole pages.
    pub const fn octets(self) -> usize {
        let (adapters, interfaces) = (self.adapters as usize, self.interfaces as usize);
        // Two of each interface, three of each adapter, and the workers' CPU time.
        let resources = 2 * interfaces + 3 * adapters + 1;
        let len = SLOTS
            + adapters * ADAPTER_LEN
            + interfaces * INTERFACE_LEN
            + resources * RESOURCE_LEN
            + self.connections as usize * RECORD_LEN;
        len.next_multiple_of(PAGE_LEN)
    }
}

/// What the file's header says.
pub const fn counters_header(generation: u32) -> Header {
    Header {
        kind: FileKind::Counters,
        generation,
        geometry: [
            ADAPTER_LEN as u64,
            INTERFACE_LEN as u64,
            RESOURCE_LEN as u64,
            RECORD_LEN as u64,
            0,
        ],
    }
}

/// Writes all counters into a file of `len` octets; records beyond its room are left out.
pub fn write_counters<W: Words>(
    file: &W,
    len: usize,
    now: Time,
    shown: Shown<impl Iterator<Item = CounterRecord>>,
) {
    let sequence = file.load(SEQUENCE) | 1;
    file.store(SEQUENCE, sequence);
    file.fence();
    let mut at = SLOTS;
    let counts = [
        (
            ADAPTERS,
            write_all(file, len, &mut at, shown.adapters.iter()),
        ),
        (
            INTERFACES,
            write_all(file, len, &mut at, shown.interfaces.iter()),
        ),
        (
            RESOURCES,
            write_all(file, len, &mut at, shown.resources.iter()),
        ),
        (RECORDS, write_all(file, len, &mut at, shown.connections)),
    ];
    for (offset, count) in counts {
        file.store(offset, count);
    }
    file.store(TIME, now.ns());
    file.store(SEQUENCE, sequence.wrapping_add(1));
}

/// Writes records from `at` on, as far as there is room: how many.
fn write_all<W: Words, R: record::Shows>(
    file: &W,
    len: usize,
    at: &mut usize,
    records: impl Iterator<Item = R>,
) -> u64 {
    let mut count = 0;
    for record in records {
        if *at + R::LEN > len {
            break;
        }
        let mut words = record::Writer::new(file, *at);
        record.write(&mut words);
        *at += R::LEN;
        count += 1;
    }
    count
}

/// Reads all counters of a file of `len` octets; none: the writer was at work.
pub fn read_counters<W: Words>(file: &W, len: usize) -> Option<CounterSnapshot> {
    let sequence = file.load(SEQUENCE);
    if !sequence.is_multiple_of(2) {
        return None;
    }
    let mut at = SLOTS;
    let snapshot = CounterSnapshot {
        time: Time::from_ns(file.load(TIME)),
        adapters: read_all(file, len, &mut at, ADAPTERS),
        interfaces: read_all(file, len, &mut at, INTERFACES),
        resources: read_all(file, len, &mut at, RESOURCES),
        records: read_all(file, len, &mut at, RECORDS),
    };
    file.fence();
    (file.load(SEQUENCE) == sequence).then_some(snapshot)
}

/// Reads as many records from `at` on as the word at `count` says, within the file.
fn read_all<W: Words, R: Record>(file: &W, len: usize, at: &mut usize, count: usize) -> Vec<R> {
    let room = len.saturating_sub(*at) / R::LEN;
    let count = usize::try_from(file.load(count)).map_or(room, |count| count.min(room));
    let from = *at;
    *at += count * R::LEN;
    (0..count)
        .map(|i| R::read(&mut record::Reader::new(file, from + i * R::LEN)))
        .collect()
}

#[cfg(test)]
mod tests {
    use core::cell::{Cell, RefCell};

    use super::*;
    use crate::adapter::{AbrStats, Discard, PortIndex};
    use crate::contract::{RateReason, Slots};
    use crate::server::{
        Histogram, Histograms, Idle, InterfaceCounts, InterfaceSpec, InterfaceState, Link,
        Resource, RestInfo, SharedCpu,
    };

    /// Memory whose writer can be met at work.
    struct File {
        words: RefCell<Vec<u64>>,
        loads: Cell<u32>,
        /// After so many loads, somebody writes.
        meets_at: u32,
    }

    impl File {
        fn new() -> Self {
            Self {
                words: RefCell::new(vec![0; CountersRoom::LEAST.octets() / 8]),
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
                write_counters(self, self.len(), Time::from_ns(9), of([9]));
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

    fn abr() -> AbrStats {
        AbrStats {
            allowed_cell_s: 60,
            floor_cell_s: 61,
            reason: RateReason::Silence,
            changed_ns: 62,
            forward_sent: 63,
            backward_sent: 64,
            forward_received: 65,
            backward_received: 66,
            replaced: 67,
            crc_error: 68,
            wrong_protocol: 69,
            too_many: 70,
            unasked: 71,
            below_floor: 72,
        }
    }

    fn record(number: u32) -> CounterRecord {
        let mut stats = VcStats {
            cells_received: 1,
            cells_delivered: 2,
            cells_held: 3,
            pdus_delivered: 4,
            pdus_lent: 5,
            pdus_tagged: 6,
            cells_answered: 7,
            cells_transmitted: 8,
            pdus_transmitted: 9,
            pdus_crossed: 10,
            client_faults: 11,
            cells_transmitted_clp1: 3,
            cells_delivered_clp1: 1,
            abr: (number == 1).then(abr),
            ..VcStats::default()
        };
        stats.delays.max_ns = 12;
        stats.delays.counts[23] = 13;
        for (reason, n) in Discard::ALL.into_iter().zip(20..) {
            stats.cells_discarded.add(reason, n);
            stats.pdus_discarded.add(reason, 20 + n);
        }
        CounterRecord {
            address: "a_name_of_15-at.4095.65535".into(),
            number,
            uid: u32::MAX,
            pid: if number == 1 { u32::MAX - 1 } else { 0 },
            guaranteed: number == 1,
            permanent: number != 1,
            at_risk: number == 1,
            can_grow: number != 1,
            transmit_cell_s: 8,
            receive_cell_s: 0,
            stats,
            slots: ConnectionSlots {
                transmit: Slots::of(100, 8, 3),
                receive: Slots::of(1, 2, 1),
            },
        }
    }

    /// What is shown of connections alone.
    fn of(numbers: impl IntoIterator<Item = u32>) -> Shown<impl Iterator<Item = CounterRecord>> {
        Shown {
            adapters: Vec::new(),
            interfaces: Vec::new(),
            resources: Vec::new(),
            connections: numbers.into_iter().map(record),
        }
    }

    fn histogram(first: u64) -> Histogram {
        Histogram {
            total_ns: first,
            counts: core::array::from_fn(|at| first + 1 + at as u64),
        }
    }

    fn adapter(name: Option<&str>) -> AdapterInfo {
        AdapterInfo {
            name: name.map(str::to_owned),
            seen_ns: Some(1),
            pid: 2,
            cpu_ns: 3,
            replaced: 4,
            gaps: 5,
            gaps_total_ns: 6,
            gap_longest_ns: 7,
            gap_admitted_ns: 8,
            rests: Some(RestInfo {
                idle: Idle::Sleep,
                late_allowed_ns: 9,
                late_longest_ns: 10,
                linger_ns: 11,
                rests: 12,
                rests_total_ns: 13,
                for_nothing: 14,
                callers: Vec::new(),
            }),
            shared: Some(SharedCpu {
                cpu: 15,
                others: 16,
                pids: Vec::new(),
            }),
            histograms: Some(Box::new(Histograms {
                gaps: histogram(17),
                lateness: histogram(50),
                steps: histogram(100),
            })),
        }
    }

    fn interface(state: InterfaceState) -> InterfaceInfo {
        InterfaceInfo {
            spec: InterfaceSpec {
                name: "a_name_of_15-at".to_owned(),
                adapter: None,
                link: Link::peer("b"),
                form: Default::default(),
                priority: Default::default(),
                line_rate: None,
                line: None,
            },
            port: PortIndex(0),
            up: true,
            connections: 1,
            dropped_cells: 2,
            state,
            counts: InterfaceCounts {
                cells: PortStats {
                    unknown_vc: 3,
                    hec_error: 4,
                    idle: 5,
                    last_unknown: None,
                },
                ..InterfaceCounts::default()
            },
        }
    }

    fn resource(resource: Resource, interface: Option<&str>) -> ResourceInfo {
        ResourceInfo {
            resource,
            interface: interface.map(str::to_owned),
            adapter: (resource == Resource::Memory).then(|| "east".to_owned()),
            capacity: 1,
            reserved: 2,
            expected: 3,
            least_free: 4,
            limit: None,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let room = CountersRoom {
            adapters: 2,
            interfaces: 2,
            connections: 2,
        };
        let file = File {
            words: RefCell::new(vec![0; room.octets() / 8]),
            ..File::new()
        };
        assert_eq!(
            read_counters(&file, file.len()),
            Some(CounterSnapshot::default())
        );
        let shown = Shown {
            adapters: vec![adapter(Some("a_name_of_15-at")), AdapterInfo::default()],
            interfaces: [InterfaceState::Up, InterfaceState::Down]
                .map(interface)
                .to_vec(),
            resources: vec![
                resource(Resource::TransmitBandwidth, Some("a_name_of_15-at")),
                resource(Resource::ReceiveBandwidth, Some("b")),
                resource(Resource::AdapterCpu, None),
                resource(Resource::WorkerCpu, None),
                resource(Resource::Memory, None),
                resource(Resource::Connections, None),
            ],
            connections: (1..3).map(record),
        };
        let (adapters, resources) = (shown.adapters.clone(), shown.resources.clone());
        write_counters(&file, file.len(), Time::from_ns(5), shown);
        let snapshot = read_counters(&file, file.len()).unwrap();
        assert_eq!(snapshot.time, Time::from_ns(5));
        assert_eq!(snapshot.adapters, adapters);
        assert_eq!(snapshot.resources, resources);
        let first = InterfaceRecord {
            name: "a_name_of_15-at".into(),
            up: true,
            carries: true,
            connections: 1,
            dropped_cells: 2,
            cells: interface(InterfaceState::Up).counts.cells,
        };
        let second = InterfaceRecord {
            carries: false,
            ..first.clone()
        };
        assert_eq!(snapshot.interfaces, [first, second]);
        assert_eq!(snapshot.records, [record(1), record(2)]);
    }

    #[test]
    fn connections_without_room_are_left_out() {
        let file = File::new();
        let room = (file.len() - SLOTS) / RECORD_LEN;
        write_counters(&file, file.len(), Time::ZERO, of(0..1_000));
        assert_eq!(
            read_counters(&file, file.len()).unwrap().records.len(),
            room
        );
        // Whatever the file says, the reader stays within it.
        for count in [RECORDS, ADAPTERS, INTERFACES, RESOURCES] {
            file.store(count, u64::MAX);
            let snapshot = read_counters(&file, file.len()).unwrap();
            assert!(snapshot.records.len() <= room);
        }
    }

    #[test]
    fn a_reader_that_meets_the_writer_has_nothing() {
        // Two words and four counts, then those of the record; the writer loads one itself.
        for meets_at in 2..=100 {
            let file = File::new();
            write_counters(&file, file.len(), Time::ZERO, of([1]));
            file.loads.set(0);
            let file = File { meets_at, ..file };
            assert_eq!(read_counters(&file, file.len()), None, "load {meets_at}");
            assert_eq!(
                read_counters(&file, file.len()).unwrap().records[0].number,
                9
            );
        }
        let file = File::new();
        file.store(SEQUENCE, 7);
        assert_eq!(read_counters(&file, file.len()), None);
        // A successor of a writer that died at work.
        write_counters(&file, file.len(), Time::ZERO, of([1]));
        assert!(read_counters(&file, file.len()).is_some());
    }
}
