//! A server's state as OpenMetrics text, version 1.0.
//!
//! Units are base units: seconds, octets, cells, cores. Labels are the words of the JSON.

mod families;
#[cfg(test)]
pub(crate) mod tests;

use std::fmt;

use cellgate::{AbrStats, Address, ConnectionInfo, ConnectionSlots, VcStats};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;

use crate::Stats;

/// Connections that have samples of their own, unless somebody says another number.
pub const PER_VC: usize = 1_000;

/// The metrics of a server, of which `per_vc` connections have samples of their own: guaranteed
/// ones first, then those that were opened first. The others have one sum, whose address is
/// `others`.
pub fn text(stats: &Stats, per_vc: usize) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape::of(stats, per_vc)));
    let mut text = String::new();
    // Writing to a text cannot fail.
    let _ = text::encode(&mut text, &registry);
    text
}

/// The same in Prometheus' own text format, version 0.0.4, for those that read no OpenMetrics.
pub fn plain(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = "";
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
            // Samples have their family's name there.
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                other => ("", other),
            };
            let words = help.split_once(' ').map_or("", |(_, words)| words);
            text += &format!("# HELP {name}{suffix} {words}\n# TYPE {name}{suffix} {kind}\n");
        } else if !line.starts_with('#') {
            text += line;
            text.push('\n');
        }
    }
    text
}

/// What one scrape tells.
#[derive(Debug)]
struct Scrape {
    stats: Stats,
    /// Connections and their labels.
    connections: Vec<(families::Labels, ConnectionInfo)>,
}

impl Scrape {
    fn of(stats: &Stats, per_vc: usize) -> Self {
        let mut stats = stats.clone();
        let mut all = std::mem::take(&mut stats.connections);
        all.sort_by_key(|info| (!info.guaranteed, info.number));
        let rest = all.split_off(per_vc.min(all.len()));
        all.sort_by_key(|info| info.number);
        let mut connections: Vec<_> = all
            .into_iter()
            .map(|info| (families::of_connection(&info), info))
            .collect();
        if let Some(sum) = rest.into_iter().reduce(add) {
            connections.push((families::of_others(), sum));
        }
        Self { stats, connections }
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        families::server(&mut encoder, &self.stats.server)?;
        families::adapters(&mut encoder, &self.stats.adapters)?;
        families::resources(&mut encoder, &self.stats.resources)?;
        families::interfaces(&mut encoder, &self.stats.interfaces)?;
        families::connections(&mut encoder, &self.connections)
    }
}

/// What two connections have counted together.
fn add(one: ConnectionInfo, other: ConnectionInfo) -> ConnectionInfo {
    let rates = |one: Option<cellgate::CellRate>, other: Option<cellgate::CellRate>| {
        let sum = [one, other].into_iter().flatten().map(|rate| rate.cell_s());
        cellgate::CellRate::new(sum.fold(0, u32::saturating_add))
    };
    ConnectionInfo {
        transmit: rates(one.transmit, other.transmit),
        receive: rates(one.receive, other.receive),
        memory: one.memory + other.memory,
        risk: one.risk.filter(|risk| risk.now).or(other.risk),
        offer: one.offer.or(other.offer),
        stats: sum(&one.stats, &other.stats),
        slots: ConnectionSlots {
            transmit: one.slots.transmit.plus(other.slots.transmit),
            receive: one.slots.receive.plus(other.slots.receive),
        },
        address: Address::clone(&one.address),
        ..one
    }
}

fn sum(one: &VcStats, other: &VcStats) -> VcStats {
    let mut sum = VcStats {
        cells_received: one.cells_received + other.cells_received,
        cells_delivered: one.cells_delivered + other.cells_delivered,
        cells_delivered_clp1: one.cells_delivered_clp1 + other.cells_delivered_clp1,
        cells_held: one.cells_held + other.cells_held,
        pdus_delivered: one.pdus_delivered + other.pdus_delivered,
        pdus_lent: one.pdus_lent + other.pdus_lent,
        pdus_tagged: one.pdus_tagged + other.pdus_tagged,
        cells_answered: one.cells_answered + other.cells_answered,
        cells_transmitted: one.cells_transmitted + other.cells_transmitted,
        cells_transmitted_clp1: one.cells_transmitted_clp1 + other.cells_transmitted_clp1,
        pdus_transmitted: one.pdus_transmitted + other.pdus_transmitted,
        pdus_crossed: one.pdus_crossed + other.pdus_crossed,
        client_faults: one.client_faults + other.client_faults,
        abr: match (one.abr, other.abr) {
            (Some(one), Some(other)) => Some(sum_abr(&one, &other)),
            (one, other) => one.or(other),
        },
        ..*one
    };
    for (reason, count) in other.cells_discarded.iter() {
        sum.cells_discarded.add(reason, count);
    }
    for (reason, count) in other.pdus_discarded.iter() {
        sum.pdus_discarded.add(reason, count);
    }
    sum
}

fn sum_abr(one: &AbrStats, other: &AbrStats) -> AbrStats {
    AbrStats {
        allowed_cell_s: one.allowed_cell_s.saturating_add(other.allowed_cell_s),
        floor_cell_s: one.floor_cell_s.saturating_add(other.floor_cell_s),
        forward_sent: one.forward_sent + other.forward_sent,
        backward_sent: one.backward_sent + other.backward_sent,
        forward_received: one.forward_received + other.forward_received,
        backward_received: one.backward_received + other.backward_received,
        replaced: one.replaced + other.replaced,
        crc_error: one.crc_error + other.crc_error,
        wrong_protocol: one.wrong_protocol + other.wrong_protocol,
        too_many: one.too_many + other.too_many,
        unasked: one.unasked + other.unasked,
        below_floor: one.below_floor + other.below_floor,
        ..*one
    }
}
