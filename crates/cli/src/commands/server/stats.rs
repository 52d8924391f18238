//! `cellgate stats`: counters of connections, interfaces and resources.

use cellgate::{AdapterInfo, CellRate};
use cellgate_page::{Stats, metrics};
use cellgate_report::output::{Exit, print, print_json_line, table};
use serde::Serialize;

use super::Server;

/// Print the server's counters
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
    /// As OpenMetrics text, for a scraper
    #[arg(long, conflicts_with = "json")]
    openmetrics: bool,
    /// Of so many connections one by one, guaranteed ones first; the others as one
    #[arg(long, value_name = "N", default_value_t = metrics::PER_VC, requires = "openmetrics")]
    per_vc: usize,
}

#[derive(Serialize)]
struct Json<'s> {
    /// The first, or the only one.
    adapter: Option<&'s AdapterInfo>,
    #[serde(flatten)]
    stats: &'s Stats,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let stats = Stats::ask(&mut args.server.admin()?)?;
    if args.openmetrics {
        print(&metrics::text(&stats, args.per_vc))?;
    } else if args.server.json {
        print_json_line(&Json {
            adapter: stats.adapters.first(),
            stats: &stats,
        })?;
    } else {
        print(&people(&stats))?;
    }
    Ok(Exit::Ok)
}

fn people(stats: &Stats) -> String {
    let mut text = format!("{}, process {}\n", stats.server, stats.pid);
    for note in &stats.notes {
        text += &format!("note: {note}\n");
    }
    for adapter in &stats.adapters {
        text += &gaps(adapter);
        text += &rests(adapter);
    }
    let head = [
        "resource",
        "interface",
        "all",
        "reserved",
        "expected",
        "unit",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(stats.resources.iter().map(|info| {
        [
            match &info.adapter {
                Some(name) => format!("{} ({name})", info.resource),
                None => info.resource.name().to_owned(),
            },
            info.interface.clone().unwrap_or_else(|| "-".to_owned()),
            info.capacity.to_string(),
            info.reserved.to_string(),
            info.expected.to_string(),
            info.resource.unit().to_owned(),
        ]
    }));
    text += &format!("\n{}\n", table(&rows));
    let limits = stats.resources.iter().filter_map(|info| {
        let limit = info.limit.as_ref()?;
        Some(format!("limit: {}: {limit}\n", info.resource))
    });
    text.extend(limits);
    let head = [
        "interface",
        "connections",
        "cells dropped",
        "unknown VC",
        "not sent",
        "state",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(stats.interfaces.iter().map(|info| {
        [
            info.spec.name.clone(),
            info.connections.to_string(),
            info.dropped_cells.to_string(),
            info.counts.cells.unknown_vc.to_string(),
            info.counts.datagrams.as_ref().map_or_else(
                || "-".to_owned(),
                |of| of.refused.values().sum::<u64>().to_string(),
            ),
            info.state.to_string(),
        ]
    }));
    text += &format!("{}\n", table(&rows));
    let head = [
        "connection",
        "PDUs sent",
        "PDUs received",
        "PDUs discarded",
        "cells discarded",
        "cells/s out of",
        "in of",
    ];
    let rate = |rate: Option<CellRate>| {
        rate.map_or_else(|| "-".to_owned(), |rate| rate.cell_s().to_string())
    };
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(stats.connections.iter().map(|info| {
        [
            info.address.to_string(),
            info.stats.pdus_transmitted.to_string(),
            info.stats.pdus_delivered.to_string(),
            info.stats.pdus_discarded.total().to_string(),
            info.stats.cells_discarded.total().to_string(),
            rate(info.transmit),
            rate(info.receive),
        ]
    }));
    text += &table(&rows);
    for info in &stats.connections {
        if let Some(risk) = &info.risk {
            let was = if risk.now { "is" } else { "was" };
            let (address, reason) = (&info.address, &risk.reason);
            text += &format!("connection {address} {was} at risk: {reason}\n");
        }
        if let Some(offer) = &info.offer {
            text += &format!("connection {} may grow to {offer}\n", info.address);
        }
    }
    text
}

/// How the adapter has rested, and who kept it from that for nothing.
fn rests(adapter: &AdapterInfo) -> String {
    let Some(rests) = &adapter.rests else {
        return String::new();
    };
    let us = |ns: u64| format!("{:.0} us", ns as f64 / 1e3);
    let mut text = format!(
        "idle {}: {} rests, {:.1} s in all; up again at most {} late, {} allowed for\n",
        rests.idle,
        rests.rests,
        rests.rests_total_ns as f64 / 1e9,
        us(rests.late_longest_ns),
        us(rests.late_allowed_ns),
    );
    for caller in &rests.callers {
        text += &format!(
            "connection {} of user {} woke the adapter {} times for nothing\n",
            caller.address, caller.uid, caller.for_nothing
        );
    }
    text
}

fn gaps(adapter: &AdapterInfo) -> String {
    let name = match &adapter.name {
        Some(name) => format!("adapter {name}"),
        None => "adapter".to_owned(),
    };
    if adapter.seen_ns.is_none() {
        return format!("{name}: not seen yet\n");
    }
    let ms = |ns: u64| format!("{:.1} ms", ns as f64 / 1e6);
    format!(
        "{name}: {} gaps, {} in all, longest {}, {} allowed for\n",
        adapter.gaps,
        ms(adapter.gaps_total_ns),
        ms(adapter.gap_longest_ns),
        ms(adapter.gap_admitted_ns),
    )
}
