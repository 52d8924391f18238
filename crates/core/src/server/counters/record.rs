//! The words of each kind of record.

use super::{CounterRecord, InterfaceRecord};
use crate::adapter::{AbrStats, DiscardCounts, PortStats, VcStats};
use crate::contract::{RateReason, Slots};
use crate::queue::Words;
use crate::queue::layout::counters::{ADAPTER_LEN, INTERFACE_LEN, RECORD_LEN, RESOURCE_LEN};
use crate::server::{
    AdapterInfo, ConnectionSlots, Histogram, Histograms, Idle, InterfaceInfo, InterfaceState,
    Resource, ResourceInfo, RestInfo, SharedCpu,
};

/// Words of an address: a name of 15, two dots, 4 and 5 digits at most; the rest is 0.
const ADDRESS_WORDS: usize = 4;
/// Words of an interface's or an adapter's name.
const NAME_WORDS: usize = 2;

const GUARANTEED: u64 = 1;
const PERMANENT: u64 = 2;
const AT_RISK: u64 = 4;
const CAN_GROW: u64 = 8;
/// The record has what ABR has counted.
const ABR: u64 = 16;

const UP: u64 = 1;
const CARRIES: u64 = 2;

/// The adapter was seen.
const SEEN: u64 = 1;
/// The record has rests.
const RESTS: u64 = 2;
/// The record has histograms.
const HISTOGRAMS: u64 = 4;

/// Puts words down one after the other.
pub(super) struct Writer<'f, W> {
    file: &'f W,
    at: usize,
}

impl<'f, W: Words> Writer<'f, W> {
    pub(super) const fn new(file: &'f W, at: usize) -> Self {
        Self { file, at }
    }

    fn word(&mut self, value: u64) {
        self.file.store(self.at, value);
        self.at += 8;
    }

    fn words(&mut self, values: impl IntoIterator<Item = u64>) {
        values.into_iter().for_each(|value| self.word(value));
    }

    /// A text, filled up with 0.
    fn text(&mut self, text: &str, words: usize) {
        let mut octets = text.as_bytes().chunks(8);
        for _ in 0..words {
            let (mut word, octets) = ([0; 8], octets.next().unwrap_or_default());
            word[..octets.len()].copy_from_slice(octets);
            self.word(u64::from_le_bytes(word));
        }
    }
}

/// Takes words one after the other.
pub(super) struct Reader<'f, W> {
    file: &'f W,
    at: usize,
}

impl<'f, W: Words> Reader<'f, W> {
    pub(super) const fn new(file: &'f W, at: usize) -> Self {
        Self { file, at }
    }

    fn word(&mut self) -> u64 {
        let value = self.file.load(self.at);
        self.at += 8;
        value
    }

    fn words<const N: usize>(&mut self) -> [u64; N] {
        core::array::from_fn(|_| self.word())
    }

    fn text(&mut self, words: usize) -> String {
        let mut octets: Vec<u8> = (0..words).flat_map(|_| self.word().to_le_bytes()).collect();
        let len = octets.iter().position(|octet| *octet == 0);
        octets.truncate(len.unwrap_or(octets.len()));
        String::from_utf8_lossy(&octets).into_owned()
    }

    /// A name; none: it has no octets.
    fn name(&mut self) -> Option<String> {
        Some(self.text(NAME_WORDS)).filter(|name| !name.is_empty())
    }
}

/// Whatever a server shows as a record.
pub(super) trait Shows {
    /// Octets of a record.
    const LEN: usize;
    fn write<W: Words>(&self, to: &mut Writer<'_, W>);
}

impl<T: Shows> Shows for &T {
    const LEN: usize = T::LEN;
    fn write<W: Words>(&self, to: &mut Writer<'_, W>) {
        (**self).write(to);
    }
}

/// Whatever a reader makes of one.
pub(super) trait Record {
    /// Octets of a record.
    const LEN: usize;
    fn read<W: Words>(from: &mut Reader<'_, W>) -> Self;
}

fn flags<const N: usize>(flags: [(bool, u64); N]) -> u64 {
    let set = flags.iter().filter(|(is_set, _)| *is_set);
    set.map(|(_, flag)| flag).sum()
}

impl Shows for CounterRecord {
    const LEN: usize = RECORD_LEN;

    fn write<W: Words>(&self, to: &mut Writer<'_, W>) {
        to.text(&self.address, ADDRESS_WORDS);
        to.word(self.number.into());
        to.word(u64::from(self.uid) << 32 | u64::from(self.pid));
        to.word(flags([
            (self.guaranteed, GUARANTEED),
            (self.permanent, PERMANENT),
            (self.at_risk, AT_RISK),
            (self.can_grow, CAN_GROW),
            (self.stats.abr.is_some(), ABR),
        ]));
        to.words([self.transmit_cell_s, self.receive_cell_s]);
        let stats = &self.stats;
        to.words([
            stats.cells_transmitted,
            stats.pdus_transmitted,
            stats.pdus_crossed,
            stats.cells_received,
            stats.cells_delivered,
            stats.cells_held,
            stats.cells_answered,
            stats.pdus_delivered,
            stats.pdus_lent,
            stats.pdus_tagged,
            stats.client_faults,
            stats.delays.max_ns,
            stats.cells_transmitted_clp1,
            stats.cells_delivered_clp1,
        ]);
        for slots in [&self.slots.transmit, &self.slots.receive] {
            to.words([slots.reserved, slots.unoccupied]);
        }
        to.words(stats.delays.counts);
        to.words(stats.cells_discarded.iter().map(|(_, count)| count));
        to.words(stats.pdus_discarded.iter().map(|(_, count)| count));
        let abr = stats.abr.unwrap_or_default();
        let reason = RateReason::ALL.iter().position(|one| *one == abr.reason);
        to.words([
            abr.allowed_cell_s.into(),
            abr.floor_cell_s.into(),
            reason.unwrap_or(0) as u64,
            abr.changed_ns,
            abr.forward_sent,
            abr.backward_sent,
            abr.forward_received,
            abr.backward_received,
            abr.replaced,
            abr.crc_error,
            abr.wrong_protocol,
            abr.too_many,
            abr.unasked,
            abr.below_floor,
        ]);
    }
}

impl Record for CounterRecord {
    const LEN: usize = RECORD_LEN;

    fn read<W: Words>(from: &mut Reader<'_, W>) -> Self {
        let address = from.text(ADDRESS_WORDS);
        let [number, user, flags, transmit_cell_s, receive_cell_s] = from.words();
        Self {
            address,
            number: number as u32,
            uid: (user >> 32) as u32,
            pid: user as u32,
            guaranteed: flags & GUARANTEED != 0,
            permanent: flags & PERMANENT != 0,
            at_risk: flags & AT_RISK != 0,
            can_grow: flags & CAN_GROW != 0,
            transmit_cell_s,
            receive_cell_s,
            ..counted(from, flags & ABR != 0)
        }
    }
}

/// What has happened, and what ABR has counted if the connection `has_abr`.
fn counted<W: Words>(from: &mut Reader<'_, W>, has_abr: bool) -> CounterRecord {
    // In the order in which they are written.
    let mut stats = VcStats {
        cells_transmitted: from.word(),
        pdus_transmitted: from.word(),
        pdus_crossed: from.word(),
        cells_received: from.word(),
        cells_delivered: from.word(),
        cells_held: from.word(),
        cells_answered: from.word(),
        pdus_delivered: from.word(),
        pdus_lent: from.word(),
        pdus_tagged: from.word(),
        client_faults: from.word(),
        ..VcStats::default()
    };
    stats.delays.max_ns = from.word();
    stats.cells_transmitted_clp1 = from.word();
    stats.cells_delivered_clp1 = from.word();
    let [transmit, receive] = [from.words(), from.words()];
    stats.delays.counts = from.words();
    stats.cells_discarded = DiscardCounts::from(from.words());
    stats.pdus_discarded = DiscardCounts::from(from.words());
    stats.abr = has_abr.then(|| abr(from));
    let slots = |[reserved, unoccupied]: [u64; 2], cells: u64, clp1: u64| Slots {
        reserved,
        clp0: cells.saturating_sub(clp1),
        clp1,
        unoccupied,
    };
    CounterRecord {
        stats,
        slots: ConnectionSlots {
            transmit: slots(
                transmit,
                stats.cells_transmitted,
                stats.cells_transmitted_clp1,
            ),
            receive: slots(receive, stats.cells_delivered, stats.cells_delivered_clp1),
        },
        ..CounterRecord::default()
    }
}

fn abr<W: Words>(from: &mut Reader<'_, W>) -> AbrStats {
    let [allowed, floor, reason, changed_ns] = from.words();
    let reason = usize::try_from(reason).ok();
    let reason = reason.and_then(|reason| RateReason::ALL.get(reason));
    AbrStats {
        allowed_cell_s: allowed as u32,
        floor_cell_s: floor as u32,
        reason: reason.copied().unwrap_or_default(),
        changed_ns,
        forward_sent: from.word(),
        backward_sent: from.word(),
        forward_received: from.word(),
        backward_received: from.word(),
        replaced: from.word(),
        crc_error: from.word(),
        wrong_protocol: from.word(),
        too_many: from.word(),
        unasked: from.word(),
        below_floor: from.word(),
    }
}

impl Shows for InterfaceInfo {
    const LEN: usize = INTERFACE_LEN;

    fn write<W: Words>(&self, to: &mut Writer<'_, W>) {
        to.text(&self.spec.name, NAME_WORDS);
        to.word(flags([
            (self.up, UP),
            (self.state == InterfaceState::Up, CARRIES),
        ]));
        let cells = &self.counts.cells;
        to.words([
            self.connections.into(),
            self.dropped_cells,
            cells.unknown_vc,
            cells.hec_error,
            cells.idle,
        ]);
    }
}

impl Record for InterfaceRecord {
    const LEN: usize = INTERFACE_LEN;

    fn read<W: Words>(from: &mut Reader<'_, W>) -> Self {
        let name = from.text(NAME_WORDS);
        let [flags, connections, dropped_cells] = from.words();
        let [unknown_vc, hec_error, idle] = from.words();
        Self {
            name,
            up: flags & UP != 0,
            carries: flags & CARRIES != 0,
            connections: connections as u32,
            dropped_cells,
            cells: PortStats {
                unknown_vc,
                hec_error,
                idle,
                last_unknown: None,
            },
        }
    }
}

/// The resources by their numbers in a record.
const RESOURCES: [Resource; 6] = [
    Resource::TransmitBandwidth,
    Resource::ReceiveBandwidth,
    Resource::AdapterCpu,
    Resource::WorkerCpu,
    Resource::Memory,
    Resource::Connections,
];

impl Shows for ResourceInfo {
    const LEN: usize = RESOURCE_LEN;

    fn write<W: Words>(&self, to: &mut Writer<'_, W>) {
        let number = RESOURCES.iter().position(|one| *one == self.resource);
        to.word(number.unwrap_or(RESOURCES.len()) as u64);
        to.text(self.interface.as_deref().unwrap_or(""), NAME_WORDS);
        to.text(self.adapter.as_deref().unwrap_or(""), NAME_WORDS);
        to.words([self.capacity, self.reserved, self.expected, self.least_free]);
    }
}

impl Record for ResourceInfo {
    const LEN: usize = RESOURCE_LEN;

    fn read<W: Words>(from: &mut Reader<'_, W>) -> Self {
        let number = usize::try_from(from.word()).ok();
        let resource = number.and_then(|number| RESOURCES.get(number));
        let (interface, adapter) = (from.name(), from.name());
        let [capacity, reserved, expected, least_free] = from.words();
        Self {
            resource: resource.copied().unwrap_or(Resource::Connections),
            interface,
            adapter,
            capacity,
            reserved,
            expected,
            least_free,
            limit: None,
        }
    }
}

/// What adapters do while there is nothing to do, by its number in a record.
const IDLE: [Idle; 3] = [Idle::Spin, Idle::Adaptive, Idle::Sleep];

impl Shows for AdapterInfo {
    const LEN: usize = ADAPTER_LEN;

    fn write<W: Words>(&self, to: &mut Writer<'_, W>) {
        to.text(self.name.as_deref().unwrap_or(""), NAME_WORDS);
        to.word(flags([
            (self.seen_ns.is_some(), SEEN),
            (self.rests.is_some(), RESTS),
            (self.histograms.is_some(), HISTOGRAMS),
        ]));
        to.words([
            self.seen_ns.unwrap_or(0),
            self.pid.into(),
            self.cpu_ns,
            self.replaced,
            self.gaps,
            self.gaps_total_ns,
            self.gap_longest_ns,
            self.gap_admitted_ns,
        ]);
        let (cpu, others) = self
            .shared
            .as_ref()
            .map_or((0, 0), |of| (of.cpu, of.others));
        to.words([cpu.into(), others.into()]);
        let none = RestInfo::default();
        let rests = self.rests.as_ref().unwrap_or(&none);
        let idle = IDLE.iter().position(|one| *one == rests.idle);
        to.words([
            idle.unwrap_or(0) as u64,
            rests.late_allowed_ns,
            rests.late_longest_ns,
            rests.linger_ns,
            rests.rests,
            rests.rests_total_ns,
            rests.for_nothing,
        ]);
        let all = self.histograms.as_deref().copied().unwrap_or_default();
        for histogram in [&all.gaps, &all.lateness, &all.steps] {
            to.word(histogram.total_ns);
            to.words(histogram.counts);
        }
    }
}

impl Record for AdapterInfo {
    const LEN: usize = ADAPTER_LEN;

    fn read<W: Words>(from: &mut Reader<'_, W>) -> Self {
        let name = from.name();
        let [flags, seen_ns, pid, cpu_ns, replaced] = from.words();
        let [gaps, gaps_total_ns, gap_longest_ns, gap_admitted_ns] = from.words();
        let [cpu, others] = from.words();
        let [idle, late_allowed_ns, late_longest_ns, linger_ns] = from.words();
        let [rests, rests_total_ns, for_nothing] = from.words();
        let mut histogram = || {
            let ([total_ns], counts) = (from.words(), from.words());
            Histogram { total_ns, counts }
        };
        let [gaps_by_length, lateness, steps] = [histogram(), histogram(), histogram()];
        let idle = usize::try_from(idle).ok().and_then(|idle| IDLE.get(idle));
        Self {
            name,
            seen_ns: (flags & SEEN != 0).then_some(seen_ns),
            pid: pid as u32,
            cpu_ns,
            replaced,
            gaps,
            gaps_total_ns,
            gap_longest_ns,
            gap_admitted_ns,
            rests: (flags & RESTS != 0).then(|| RestInfo {
                idle: idle.copied().unwrap_or_default(),
                late_allowed_ns,
                late_longest_ns,
                linger_ns,
                rests,
                rests_total_ns,
                for_nothing,
                callers: Vec::new(),
            }),
            shared: (others > 0).then(|| SharedCpu {
                cpu: cpu as u32,
                others: others as u32,
                pids: Vec::new(),
            }),
            histograms: (flags & HISTOGRAMS != 0).then(|| {
                Box::new(Histograms {
                    gaps: gaps_by_length,
                    lateness,
                    steps,
                })
            }),
        }
    }
}
