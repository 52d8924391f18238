//! The report as people read it.

use cellgate_report::grouped;
use cellgate_report::output;

use super::verdict::guaranteed;
use crate::flood::plan::Connection;
use crate::flood::report::{ConnectionReport, PhaseReport, million};

/// 10^6 bit/s.
pub(super) fn mbit(bit_s: u64) -> String {
    format!("{:.1}", bit_s as f64 / 1e6)
}

fn us(ns: u64) -> String {
    format!("{:.0}", ns as f64 / 1e3)
}

fn counts(counts: &std::collections::BTreeMap<&'static str, u64>) -> String {
    let named: Vec<String> = counts
        .iter()
        .map(|(reason, n)| format!("{reason} {}", grouped(*n)))
        .collect();
    match named.is_empty() {
        true => "-".to_owned(),
        false => named.join(", "),
    }
}

/// What the senders of a phase do, in a few words.
pub(super) fn heading(phase: &PhaseReport) -> String {
    let what = match phase.name.as_str() {
        "quiet" => "C1 and C2 send at their contracts, nobody else does",
        "contract" => "all three send at their contracts",
        "flood" => "C3 sends far beyond its contract",
        "strangers" => "a stranger scans all addresses as fast as it can",
        _ => "C1 and C2 send at their contracts, C3 at the rate named",
    };
    format!("{}, {:.1} s: {what}", phase.name, phase.seconds)
}

/// All of a phase.
pub(super) fn phase(phase: &PhaseReport, connections: &[Connection]) -> String {
    let mut text = heading(phase) + "\n" + &judged(phase);
    let head = [
        "", "contract", "offered", "got", "sent", "got", "wrong", "p50", "p99", "max",
    ];
    let units = [
        "", "Mbit/s", "Mbit/s", "Mbit/s", "PDUs", "PDUs", "PDUs", "us", "us", "us",
    ];
    let mut rows = vec![head.map(str::to_owned), units.map(str::to_owned)];
    for (connection, report) in connections.iter().zip(&phase.connections) {
        rows.push(row(connection, report));
    }
    text += &indented(&output::columns(&rows));
    for (connection, report) in connections.iter().zip(&phase.connections) {
        if !report.discarded.is_empty() {
            let head = format!("  {:<7}  ", connection.name());
            let discarded = format!("PDUs discarded: {}", counts(&report.discarded));
            text += &output::wrapped(&head, &discarded);
        }
    }
    text += &totals(phase);
    text
}

/// Whether it was as it must be.
fn judged(phase: &PhaseReport) -> String {
    let faults = &phase.more.faults;
    if !faults.is_empty() {
        return output::wrapped("  bad      ", &faults.join(", "));
    }
    let (delivered, sent) = guaranteed(phase);
    let (delivered, sent) = (grouped(delivered), grouped(sent));
    let cpu_percent = phase.host.cpu_ns as f64 / 1e7 / phase.seconds;
    let words = format!(
        "C1 and C2 got {delivered} of {sent} PDUs; CPU time of the host {cpu_percent:.1} %"
    );
    output::wrapped("  good     ", &words)
}

fn row(connection: &Connection, report: &ConnectionReport) -> [String; 10] {
    let latency = |ns| match report.delivered_pdus {
        0 => "-".to_owned(),
        _ => us(ns),
    };
    [
        format!("{} {}", connection.name(), connection.address()),
        mbit(report.contract_bit_s),
        mbit(report.offered_bit_s),
        mbit(report.delivered_bit_s),
        grouped(report.sent_pdus),
        grouped(report.delivered_pdus),
        grouped(report.corrupt_pdus),
        latency(report.latency_ns.p50),
        latency(report.latency_ns.p99),
        latency(report.latency_ns.max),
    ]
}

fn totals(phase: &PhaseReport) -> String {
    let (host, gaps) = (&phase.host, &phase.gaps);
    let cpu_percent = host.cpu_ns as f64 / 1e7 / phase.seconds;
    let per_pdu = match phase.cpu_ns_per_pdu() {
        Some(ns) => format!("{:.1} us a PDU", ns as f64 / 1e3),
        None => "no PDU".to_owned(),
    };
    let received_s = phase.adapter.cells_received as f64 / phase.seconds;
    let lines = [
        (
            "host",
            format!(
                "CPU {cpu_percent:.2} %, {per_pdu}; {} events, {} wake-ups",
                grouped(host.events),
                grouped(host.wakeups),
            ),
        ),
        (
            "adapter",
            format!(
                "{} cells/s received, {} cells/s discarded; cells: {}",
                million(received_s as u64),
                million(phase.more.discarded_cell_s),
                counts(&phase.adapter.cells_discarded),
            ),
        ),
        (
            "link",
            format!(
                "at most {} cells queued on a port, {} cells found it full",
                grouped(phase.link.queued_max),
                grouped(phase.link.dropped),
            ),
        ),
        (
            "gaps",
            format!(
                "{} of the adapter of 0.1 ms or more, longest {:.2} ms, {:.2} ms in all",
                grouped(gaps.count),
                gaps.max_ns as f64 / 1e6,
                gaps.total_ns as f64 / 1e6,
            ),
        ),
        (
            "late",
            format!(
                "sources at most {:.2} ms, host at most {:.2} ms",
                phase.more.source_late_ns as f64 / 1e6,
                phase.more.reader_late_ns as f64 / 1e6,
            ),
        ),
    ];
    let lines = lines.iter();
    let lines = lines.map(|(name, words)| output::wrapped(&format!("  {name:<7}  "), words));
    lines.collect()
}

/// A phase in one line.
pub(super) fn line(phase: &PhaseReport) -> String {
    let delivered: Vec<String> = phase
        .connections
        .iter()
        .map(|c| format!("{} of {}", grouped(c.delivered_pdus), grouped(c.sent_pdus)))
        .collect();
    let words = format!(
        "delivered PDUs {}; {} cells/s discarded; host {} events; longest gap {:.1} ms",
        delivered.join(", "),
        million(phase.more.discarded_cell_s),
        grouped(phase.host.events),
        phase.gaps.max_ns as f64 / 1e6,
    );
    output::wrapped(&format!("{:<20} ", phase.name), &words)
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
