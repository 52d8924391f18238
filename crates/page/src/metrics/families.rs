//! The families: their names, units, helps and values.

use std::fmt;

use cellgate::{
    AbrStats, AdapterInfo, ConnectionInfo, DiscardCounts, Histogram, Histograms, InterfaceInfo,
    InterfaceState, Resource, ResourceInfo,
};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// Labels of a sample.
pub(super) type Labels = Vec<(&'static str, String)>;

const NS_PER_S: f64 = 1e9;
const PPM: f64 = 1e6;

/// Of a family.
#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}
use Kind::{Counter, Gauge};

/// A family: kind, name, unit (appended to the name), help.
type Family = (Kind, &'static str, &'static str, &'static str);

/// Families of things of one sort, with the value of each of them; none: it has no sample.
type Families<T, const N: usize> = [(Family, fn(&T) -> Option<f64>); N];

const CELLS: &str = "cells";
const PDUS: &str = "pdus";
const SECONDS: &str = "seconds";
const CELLS_PER_S: &str = "cells_per_second";

#[rustfmt::skip]
const OF_ADAPTER: Families<AdapterInfo, 14> = [
    ((Gauge, "up", "", "1 where the adapter answers"),
        |info| Some(flag(info.seen_ns.is_some()))),
    ((Counter, "cpu", SECONDS, "CPU time of its process"),
        |info| Some(seconds(info.cpu_ns))),
    ((Counter, "replaced", "", "Adapters that have gone before it"),
        |info| Some(info.replaced as f64)),
    ((Gauge, "neighbours", "", "Other adapters pinned to its CPU, as far as can be seen"),
        |info| Some(info.shared.as_ref().map_or(0.0, |shared| shared.others.into()))),
    ((Counter, "gaps", "", "Times that it stood still for longer than its threshold"),
        |info| Some(info.gaps as f64)),
    ((Counter, "gap_time", SECONDS, "How long it stood still"),
        |info| Some(seconds(info.gaps_total_ns))),
    ((Gauge, "gap_longest", SECONDS, "The longest time that it stood still"),
        |info| Some(seconds(info.gap_longest_ns))),
    ((Gauge, "gap_admitted", SECONDS, "The longest time that costs nobody who conforms"),
        |info| Some(seconds(info.gap_admitted_ns))),
    ((Counter, "rests", "", "Times that it rested"),
        |info| Some(info.rests.as_ref()?.rests as f64)),
    ((Counter, "rests_ended_for_nothing", "", "Rests that somebody ended for nothing"),
        |info| Some(info.rests.as_ref()?.for_nothing as f64)),
    ((Counter, "rest_time", SECONDS, "How long it rested"),
        |info| Some(seconds(info.rests.as_ref()?.rests_total_ns))),
    ((Gauge, "late_longest", SECONDS, "The most that it was late for what was due"),
        |info| Some(seconds(info.rests.as_ref()?.late_longest_ns))),
    ((Gauge, "late_allowed", SECONDS, "The most that it may be late"),
        |info| Some(seconds(info.rests.as_ref()?.late_allowed_ns))),
    ((Gauge, "linger", SECONDS, "How long it looks on before it rests"),
        |info| Some(seconds(info.rests.as_ref()?.linger_ns))),
];

#[rustfmt::skip]
const OF_RESOURCE: Families<ResourceInfo, 4> = [
    ((Gauge, "capacity", "", "All there is: cells/s, cores, octets or connections"),
        |info| Some(amount(info, info.capacity))),
    ((Gauge, "reserved", "", "What is promised of it"),
        |info| Some(amount(info, info.reserved))),
    ((Gauge, "expected", "", "What the promises are expected to use"),
        |info| Some(amount(info, info.expected))),
    ((Gauge, "least_free", "", "The least that was ever free"),
        |info| Some(amount(info, info.least_free))),
];

#[rustfmt::skip]
const OF_INTERFACE: Families<InterfaceInfo, 4> = [
    ((Gauge, "up", "", "1 where the link is there"),
        |info| Some(flag(info.up))),
    ((Gauge, "carries", "", "1 where it carries cells, as far as this end can know"),
        |info| Some(flag(info.state == InterfaceState::Up))),
    ((Gauge, "connections", "", "Connections on it"),
        |info| Some(info.connections.into())),
    ((Counter, "dropped", CELLS, "Cells that the queue to the adapter had no room for"),
        |info| Some(info.dropped_cells as f64)),
];

#[rustfmt::skip]
const OF_CONNECTION: Families<ConnectionInfo, 24> = [
    ((Gauge, "at_risk", "", "1 where a guarantee cannot be kept for the time being"),
        |info| Some(flag(info.at_risk()))),
    ((Gauge, "can_grow", "", "1 where more was offered and not answered"),
        |info| Some(flag(info.offer.is_some()))),
    ((Gauge, "memory", "octets", "Memory charged to it"),
        |info| Some(info.memory as f64)),
    ((Gauge, "transmit_rate", CELLS_PER_S, "What it may send: promised, or its share"),
        |info| Some(info.transmit?.cell_s().into())),
    ((Gauge, "receive_rate", CELLS_PER_S, "What it may receive: promised, or its share"),
        |info| Some(info.receive?.cell_s().into())),
    ((Counter, "received", CELLS, "Cells that arrived"),
        |info| Some(info.stats.cells_received as f64)),
    ((Counter, "delivered", CELLS, "Cells of delivered PDUs"),
        |info| Some(info.stats.cells_delivered as f64)),
    ((Gauge, "held", CELLS, "Cells of PDUs in progress"),
        |info| Some(info.stats.cells_held as f64)),
    ((Counter, "answered", CELLS, "OAM loopback cells answered or returned"),
        |info| Some(info.stats.cells_answered as f64)),
    ((Counter, "transmitted", CELLS, "Cells sent"),
        |info| Some(info.stats.cells_transmitted as f64)),
    ((Counter, "delivered", PDUS, "PDUs delivered"),
        |info| Some(info.stats.pdus_delivered as f64)),
    ((Counter, "lent", PDUS, "PDUs delivered beyond the contract on a lease"),
        |info| Some(info.stats.pdus_lent as f64)),
    ((Counter, "tagged", PDUS, "PDUs delivered beyond the contract with low priority"),
        |info| Some(info.stats.pdus_tagged as f64)),
    ((Counter, "transmitted", PDUS, "PDUs sent"),
        |info| Some(info.stats.pdus_transmitted as f64)),
    ((Counter, "crossed", PDUS, "PDUs sent that crossed to another port as a whole"),
        |info| Some(info.stats.pdus_crossed as f64)),
    ((Counter, "delivered_clp1", CELLS, "Cells of delivered PDUs that came with CLP 1"),
        |info| Some(info.stats.cells_delivered_clp1 as f64)),
    ((Counter, "transmitted_clp1", CELLS, "Cells sent with CLP 1"),
        |info| Some(info.stats.cells_transmitted_clp1 as f64)),
    ((Counter, "transmit_reserved", CELLS, "Slots of the reserved rate to send, used or not"),
        |info| Some(info.slots.transmit.reserved as f64)),
    ((Counter, "transmit_unoccupied", CELLS, "Reserved slots to send without a cell"),
        |info| Some(info.slots.transmit.unoccupied as f64)),
    ((Counter, "receive_reserved", CELLS, "Slots of the reserved rate to receive, used or not"),
        |info| Some(info.slots.receive.reserved as f64)),
    ((Counter, "receive_unoccupied", CELLS, "Reserved slots to receive without a cell"),
        |info| Some(info.slots.receive.unoccupied as f64)),
    ((Gauge, "allowed_rate", CELLS_PER_S, "ABR: the rate that the network allows now (ACR)"),
        |info| Some(info.stats.abr?.allowed_cell_s.into())),
    ((Gauge, "floor_rate", CELLS_PER_S, "ABR: the rate below which that never falls (MCR)"),
        |info| Some(info.stats.abr?.floor_cell_s.into())),
    ((Counter, "client_faults", "", "Descriptors and indices that cannot be"),
        |info| Some(info.stats.client_faults as f64)),
];

fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / NS_PER_S
}

/// In base units: CPU time in cores.
fn amount(info: &ResourceInfo, amount: u64) -> f64 {
    match info.resource {
        Resource::AdapterCpu | Resource::WorkerCpu => amount as f64 / PPM,
        _ => amount as f64,
    }
}

pub(super) fn server(encoder: &mut DescriptorEncoder<'_>, name: &str) -> Result<(), fmt::Error> {
    let kind = MetricType::Info;
    let mut family = encoder.encode_descriptor("cellgate_server", "The server.", None, kind)?;
    family.encode_info(&vec![("version", name.to_owned())])
}

pub(super) fn adapters(
    encoder: &mut DescriptorEncoder<'_>,
    all: &[AdapterInfo],
) -> Result<(), fmt::Error> {
    let labels = |info: &AdapterInfo| -> Labels {
        let name = info.name.clone();
        name.into_iter().map(|name| ("adapter", name)).collect()
    };
    let all: Vec<_> = all.iter().map(|info| (labels(info), info)).collect();
    write_all(encoder, "adapter", &OF_ADAPTER, &all)?;
    histograms(encoder, &all)
}

type HistogramOf = (&'static str, &'static str, fn(&Histograms) -> &Histogram);

#[rustfmt::skip]
const HISTOGRAMS: [HistogramOf; 3] = [
    ("gap", "Times that it stood still for longer than its threshold, by length",
        |all| &all.gaps),
    ("wake_up_lateness", "Rests whose time was over, by how late it was for what was due",
        |all| &all.lateness),
    ("step", "Timed steps that were not interrupted, by length",
        |all| &all.steps),
];

fn histograms(
    encoder: &mut DescriptorEncoder<'_>,
    all: &[(Labels, &AdapterInfo)],
) -> Result<(), fmt::Error> {
    let told: Vec<_> = all
        .iter()
        .filter_map(|(labels, info)| Some((labels, info.histograms.as_deref()?)))
        .collect();
    if told.is_empty() {
        return Ok(());
    }
    for (name, help, of) in HISTOGRAMS {
        let (name, unit) = (format!("cellgate_adapter_{name}"), unit_of(SECONDS));
        let (help, kind) = (format!("{help}."), MetricType::Histogram);
        let mut family = encoder.encode_descriptor(&name, &help, unit.as_ref(), kind)?;
        for (labels, histograms) in &told {
            let histogram = of(histograms);
            let end = |end: Option<u64>| end.map_or(f64::INFINITY, seconds);
            let buckets: Vec<_> = histogram.ends().map(|(at, n)| (end(at), n)).collect();
            let count = histogram.counts.iter().sum();
            let sum = seconds(histogram.total_ns);
            let put = |encoder: &mut MetricEncoder<'_>| {
                encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
            };
            match labels.is_empty() {
                true => put(&mut family)?,
                false => put(&mut family.encode_family(*labels)?)?,
            }
        }
    }
    Ok(())
}

pub(super) fn resources(
    encoder: &mut DescriptorEncoder<'_>,
    all: &[ResourceInfo],
) -> Result<(), fmt::Error> {
    let labels = |info: &ResourceInfo| -> Labels {
        let interface = info.interface.clone().map(|name| ("interface", name));
        let adapter = info.adapter.clone().map(|name| ("adapter", name));
        let resource = ("resource", word(&info.resource));
        [resource]
            .into_iter()
            .chain(interface)
            .chain(adapter)
            .collect()
    };
    let all: Vec<_> = all.iter().map(|info| (labels(info), info)).collect();
    write_all(encoder, "resource", &OF_RESOURCE, &all)
}

/// A value's word in JSON.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or("").to_owned()
}

pub(super) fn interfaces(
    encoder: &mut DescriptorEncoder<'_>,
    all: &[InterfaceInfo],
) -> Result<(), fmt::Error> {
    let name = |info: &InterfaceInfo| -> Labels { vec![("interface", info.spec.name.clone())] };
    let named: Vec<_> = all.iter().map(|info| (name(info), info)).collect();
    write_all(encoder, "interface", &OF_INTERFACE, &named)?;
    for unit in [CELLS, "datagrams"] {
        let help = "What was of no VC, or not of the peer, by reason.";
        let (name_of_family, unit_of_it) = ("cellgate_interface_discarded", unit_of(unit));
        let mut family = encoder.encode_descriptor(
            name_of_family,
            help,
            unit_of_it.as_ref(),
            MetricType::Counter,
        )?;
        for info in all {
            for loss in info.counts.losses().iter().filter(|loss| loss.unit == unit) {
                let mut labels = name(info);
                labels.push(("reason", loss.reason.to_owned()));
                sample(&mut family, Counter, &labels, loss.count as f64)?;
            }
        }
    }
    Ok(())
}

/// What tells a connection from all others: its number is never used twice.
pub(super) fn of_connection(info: &ConnectionInfo) -> Labels {
    vec![
        ("number", info.number.to_string()),
        ("address", info.address.to_string()),
        ("uid", info.uid.to_string()),
    ]
}

/// Of all that have no samples of their own.
pub(super) fn of_others() -> Labels {
    vec![("address", "others".to_owned())]
}

pub(super) fn connections(
    encoder: &mut DescriptorEncoder<'_>,
    all: &[(Labels, ConnectionInfo)],
) -> Result<(), fmt::Error> {
    let those: Vec<_> = all
        .iter()
        .map(|(labels, info)| (labels.clone(), info))
        .collect();
    write_all(encoder, "connection", &OF_CONNECTION, &those)?;
    type Counts = fn(&ConnectionInfo) -> &DiscardCounts;
    let families: [(&str, &str, Counts); 2] = [
        (CELLS, "Cells discarded, by reason.", |info| {
            &info.stats.cells_discarded
        }),
        (PDUS, "PDUs discarded, by reason.", |info| {
            &info.stats.pdus_discarded
        }),
    ];
    for (unit, help, counts) in families {
        let (name, unit) = ("cellgate_connection_discarded", unit_of(unit));
        let kind = MetricType::Counter;
        let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for (labels, info) in all {
            for (reason, count) in counts(info).iter() {
                let mut labels = labels.clone();
                labels.push(("reason", reason.name().to_owned()));
                sample(&mut family, Counter, &labels, count as f64)?;
            }
        }
    }
    of_abr(encoder, all)
}

/// A family of RM cells: name, help, label, and the counts of each word of it.
type RmFamily = (
    &'static str,
    &'static str,
    &'static str,
    fn(&AbrStats) -> Vec<(&'static str, u64)>,
);

#[rustfmt::skip]
const OF_ABR: [RmFamily; 3] = [
    ("rm_transmitted", "ABR: RM cells sent", "direction",
        |abr| vec![("forward", abr.forward_sent), ("backward", abr.backward_sent)]),
    ("rm_received", "ABR: RM cells taken", "direction",
        |abr| vec![("forward", abr.forward_received), ("backward", abr.backward_received)]),
    ("rm_distrusted", "ABR: RM cells thrown away, or that had no say beyond the contract", "reason",
        |abr| vec![
            ("crc_error", abr.crc_error),
            ("wrong_protocol", abr.wrong_protocol),
            ("too_many", abr.too_many),
            ("unasked", abr.unasked),
            ("below_floor", abr.below_floor),
        ]),
];

/// The RM cells of connections that have some.
fn of_abr(
    encoder: &mut DescriptorEncoder<'_>,
    all: &[(Labels, ConnectionInfo)],
) -> Result<(), fmt::Error> {
    let those = all.iter();
    let those = those.filter_map(|(labels, info)| Some((labels, info.stats.abr.as_ref()?)));
    let those: Vec<_> = those.collect();
    if those.is_empty() {
        return Ok(());
    }
    for (name, help, label, counts) in OF_ABR {
        let (name, unit) = (format!("cellgate_connection_{name}"), unit_of(CELLS));
        let (help, kind) = (format!("{help}."), MetricType::Counter);
        let mut family = encoder.encode_descriptor(&name, &help, unit.as_ref(), kind)?;
        for (labels, abr) in &those {
            for (word, count) in counts(abr) {
                let mut labels = (*labels).clone();
                labels.push((label, word.to_owned()));
                sample(&mut family, Counter, &labels, count as f64)?;
            }
        }
    }
    Ok(())
}

fn unit_of(unit: &str) -> Option<Unit> {
    (!unit.is_empty()).then(|| Unit::Other(unit.to_owned()))
}

/// Families of which nothing has a sample are left out.
fn write_all<T, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    sort: &str,
    families: &Families<T, N>,
    all: &[(Labels, &T)],
) -> Result<(), fmt::Error> {
    for ((kind, name, unit, help), value) in families {
        let mut samples = all
            .iter()
            .filter_map(|(labels, of)| Some((labels, value(of)?)))
            .peekable();
        if samples.peek().is_none() {
            continue;
        }
        let (name, unit) = (format!("cellgate_{sort}_{name}"), unit_of(unit));
        let metric_type = match kind {
            Counter => MetricType::Counter,
            Gauge => MetricType::Gauge,
        };
        let mut family =
            encoder.encode_descriptor(&name, &format!("{help}."), unit.as_ref(), metric_type)?;
        for (labels, value) in samples {
            sample(&mut family, *kind, labels, value)?;
        }
    }
    Ok(())
}

fn sample(
    family: &mut MetricEncoder<'_>,
    kind: Kind,
    labels: &Labels,
    value: f64,
) -> Result<(), fmt::Error> {
    let put = |encoder: &mut MetricEncoder<'_>| match kind {
        Counter => encoder.encode_counter::<NoLabelSet, _, f64>(&value, None),
        Gauge => encoder.encode_gauge(&value),
    };
    match labels.is_empty() {
        // No braces with nothing in them.
        true => put(family),
        false => put(&mut family.encode_family(labels)?),
    }
}
