//! `cellgate stats`: counters of connections, interfaces and resources.

use cellgate::{AdapterInfo, CellRate, Resource};
use cellgate_core::contract::mbit_s;
use cellgate_page::{Stats, metrics};
use cellgate_report::output::{Exit, print, print_json_line, table_by_worth, wrapped};
use serde::Serialize;

use super::Server;

/// Print the server's counters
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate stats
  $ cellgate stats --openmetrics")]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
    /// As OpenMetrics text, for a scraper
    #[arg(long, conflicts_with = "json")]
    openmetrics: bool,
    /// Of so many connections one by one, guaranteed ones first; the others as one
    #[arg(long, value_name = "N", default_value_t = metrics::PER_VC, requires = "openmetrics")]
    per_vc: usize,
    /// Have all columns, however wide the terminal is
    #[arg(long, conflicts_with = "json")]
    wide: bool,
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
        print(&people(&stats, args.wide))?;
    }
    Ok(Exit::Ok)
}

fn people(stats: &Stats, wide: bool) -> String {
    let mut text = format!("{}, process {}\n", stats.server, stats.pid);
    for note in &stats.notes {
        text += &wrapped("note: ", note);
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
            amount(info.resource, info.capacity),
            amount(info.resource, info.reserved),
            amount(info.resource, info.expected),
            unit(info.resource).to_owned(),
        ]
    }));
    text += &format!("\n{}\n", table_by_worth(&rows, &[4], wide));
    let limits = stats.resources.iter().filter_map(|info| {
        let limit = info.limit.as_ref()?;
        Some(wrapped("limit: ", &format!("{}: {limit}", info.resource)))
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
    text += &format!("{}\n", table_by_worth(&rows, &[3, 4], wide));
    let head = [
        "connection",
        "PDUs sent",
        "PDUs received",
        "PDUs discarded",
        "cells discarded",
        "Mbit/s out of",
        "Mbit/s in of",
    ];
    let rate = |rate: Option<CellRate>| {
        rate.map_or_else(|| "-".to_owned(), |rate| mbit_s(rate.cell_s().into()))
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
    text += &table_by_worth(&rows, &[4], wide);
    for info in &stats.connections {
        if let Some(risk) = &info.risk {
            let was = if risk.now { "is" } else { "was" };
            let (address, reason) = (&info.address, &risk.reason);
            text += &wrapped("", &format!("connection {address} {was} at risk: {reason}"));
        }
        if let Some(offer) = &info.offer {
            text += &wrapped(
                "",
                &format!("connection {} may grow to {offer}", info.address),
            );
        }
    }
    text
}

/// An amount of a resource as people read it, in its [`unit`].
fn amount(resource: Resource, amount: u64) -> String {
    match unit(resource) {
        "Mbit/s" => mbit_s(amount),
        "% of a core" => format!("{}.{}", amount / 10_000, amount / 1_000 % 10),
        "MiB" => format!("{:.1}", amount as f64 / f64::from(1 << 20)),
        _ => amount.to_string(),
    }
}

fn unit(resource: Resource) -> &'static str {
    match resource.unit() {
        "cells/s" => "Mbit/s",
        "ppm of a core" => "% of a core",
        "octets" => "MiB",
        other => other,
    }
}

/// How the adapter has rested, and who kept it from that for nothing.
fn rests(adapter: &AdapterInfo) -> String {
    let Some(rests) = &adapter.rests else {
        return String::new();
    };
    let us = |ns: u64| format!("{:.0} us", ns as f64 / 1e3);
    let rested = format!(
        "{} rests, {:.1} s in all; up again at most {} late, {} allowed for",
        rests.rests,
        rests.rests_total_ns as f64 / 1e9,
        us(rests.late_longest_ns),
        us(rests.late_allowed_ns),
    );
    let mut text = wrapped(&format!("idle {}: ", rests.idle), &rested);
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
