//! `cellgate top`: connections by what they carry, from the counters that the server shows.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{anyhow, bail};
use cellgate::{Admin, CounterRecord, CounterSnapshot, CountersView};
use cellgate_core::contract::mbit_s;
use cellgate_host::sys::Signals;
use cellgate_report::grouped;
use cellgate_report::output::{Exit, is_terminal, json_line, print_on, table_by_worth};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use super::recv::seconds;
use super::{Server, interrupted};

/// Moves to the upper left corner, and clears what is below.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Watch what each connection carries
///
/// Reads memory that the server shows, and asks it nothing: looking costs the server nothing. The
/// server renews the counters four times a second. Ends when it is interrupted, and with exit code
/// 1 when the server ends.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate top
  $ cellgate top --once --interval 5 --json")]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
    /// From one table to the next
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// End after so many tables
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// One table of one interval, then end: as it is, for a file
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// Have all columns, however wide the terminal is
    #[arg(long, conflicts_with = "json")]
    wide: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut admin = args.server.admin()?;
    let view = admin.counters()?.map()?;
    let signals = Signals::listen()?;
    let mut before = read(&view)?;
    let clears = !args.once && is_terminal();
    let mut left = if args.once { Some(1) } else { args.count };
    while left != Some(0) && !interrupted(&signals, Some(admin.as_fd()), args.interval) {
        if has_ended(&admin)? {
            bail!("the server has hung up");
        }
        let after = read(&view)?;
        let table = Table::between(&before, &after);
        let text = match args.server.json {
            true => json_line(&table)?,
            false if clears => format!("{CLEAR}{}", table.text(args.wide)),
            false => table.text(args.wide),
        };
        if !print_on(&text)? {
            break;
        }
        left = left.map(|left| left - 1);
        before = after;
    }
    Ok(Exit::Ok)
}

/// Whether the server has hung up: it says nothing to somebody who has no connection.
fn has_ended(admin: &Admin) -> io::Result<bool> {
    let found = poll(
        &mut [PollFd::new(admin, PollFlags::IN)],
        Some(&Timespec::default()),
    )?;
    Ok(found > 0)
}

fn read(view: &CountersView) -> anyhow::Result<CounterSnapshot> {
    let snapshot = view.read();
    snapshot.ok_or_else(|| anyhow!("the server has died; start `cellgate serve` again, then this"))
}

/// What happened between two looks.
#[derive(Debug, Serialize)]
struct Table {
    interval_ns: u64,
    connections: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    record: CounterRecord,
    transmitted_cell_s: u64,
    transmitted_pdu_s: u64,
    received_cell_s: u64,
    delivered_pdu_s: u64,
    discarded_cell_s: u64,
}

impl Table {
    /// Those that send and receive most come first; those that were not there before have no rate.
    fn between(before: &CounterSnapshot, after: &CounterSnapshot) -> Self {
        let interval_ns = after.time.since_ns(before.time);
        let old: BTreeMap<u32, &CounterRecord> = before
            .records
            .iter()
            .map(|record| (record.number, record))
            .collect();
        let row = |record: &CounterRecord| {
            let old = old.get(&record.number).copied().unwrap_or(record);
            let rate = |of: fn(&CounterRecord) -> u64| {
                let count = u128::from(of(record).saturating_sub(of(old)));
                let per_s = (count * 1_000_000_000).checked_div(interval_ns.into());
                u64::try_from(per_s.unwrap_or(0)).unwrap_or(u64::MAX)
            };
            Row {
                transmitted_cell_s: rate(|of| of.stats.cells_transmitted),
                transmitted_pdu_s: rate(|of| of.stats.pdus_transmitted),
                received_cell_s: rate(|of| of.stats.cells_received),
                delivered_pdu_s: rate(|of| of.stats.pdus_delivered),
                discarded_cell_s: rate(|of| of.stats.cells_discarded.total()),
                record: record.clone(),
            }
        };
        let mut connections: Vec<Row> = after.records.iter().map(row).collect();
        connections.sort_by_key(|row| {
            let carried = row.transmitted_cell_s.saturating_add(row.received_cell_s);
            (std::cmp::Reverse(carried), row.record.number)
        });
        Self {
            interval_ns,
            connections,
        }
    }

    fn text(&self, wide: bool) -> String {
        let seconds = self.interval_ns as f64 / 1e9;
        let count = self.connections.len();
        let sum = |of: fn(&Row) -> u64| self.connections.iter().map(of).sum::<u64>();
        let head = [
            "connection",
            "Mbit/s out",
            "of",
            "Mbit/s in",
            "of",
            "cells/s discarded",
            "PDUs/s out",
            "PDUs/s in",
            "cells/s out",
            "cells/s in",
            "process",
            "promise",
        ];
        let mut rows = vec![head.map(str::to_owned)];
        rows.extend(self.connections.iter().map(Row::columns));
        let stale = match self.interval_ns {
            0 => "not renewed meanwhile: is the server there?\n",
            _ => "",
        };
        format!(
            "{count} connection{} over {seconds:.2} s: {} Mbit/s out, {} in; {} cells/s discarded\n\
             {stale}\n{}",
            if count == 1 { "" } else { "s" },
            mbit_s(sum(|row| row.transmitted_cell_s)),
            mbit_s(sum(|row| row.received_cell_s)),
            grouped(sum(|row| row.discarded_cell_s)),
            // From the one of least worth on.
            table_by_worth(&rows, &[9, 8, 10, 7, 6, 11], wide)
        )
    }
}

impl Row {
    fn columns(&self) -> [String; 12] {
        let record = &self.record;
        let bound = |cell_s: u64| match cell_s {
            0 => "-".to_owned(),
            _ => mbit_s(cell_s),
        };
        [
            record.address.clone(),
            mbit_s(self.transmitted_cell_s),
            bound(record.transmit_cell_s),
            mbit_s(self.received_cell_s),
            bound(record.receive_cell_s),
            self.discarded_cell_s.to_string(),
            self.transmitted_pdu_s.to_string(),
            self.delivered_pdu_s.to_string(),
            self.transmitted_cell_s.to_string(),
            self.received_cell_s.to_string(),
            match (record.pid, record.permanent) {
                (0, true) => "permanent".to_owned(),
                (0, false) => "-".to_owned(),
                (pid, _) => pid.to_string(),
            },
            promise(record),
        ]
    }
}

/// What is promised, and how it stands; `vc show` tells a risk's reason, and what is offered.
fn promise(record: &CounterRecord) -> String {
    let promise = match record.guaranteed {
        true => "guaranteed",
        false => "best effort",
    };
    let risk = if record.at_risk { ", at risk" } else { "" };
    let grows = if record.can_grow { ", may grow" } else { "" };
    format!("{promise}{risk}{grows}")
}

#[cfg(test)]
mod tests {
    use cellgate::{Time, VcStats};

    use super::*;

    fn snapshot(time_ms: u64, cells: &[(u32, u64)]) -> CounterSnapshot {
        let record = |(number, cells): &(u32, u64)| CounterRecord {
            address: format!("lo.0.{number}"),
            number: *number,
            stats: VcStats {
                cells_transmitted: *cells,
                ..VcStats::default()
            },
            ..CounterRecord::default()
        };
        CounterSnapshot {
            time: Time::from_ns(time_ms * 1_000_000),
            records: cells.iter().map(record).collect(),
            ..CounterSnapshot::default()
        }
    }

    #[test]
    fn rates_are_those_of_the_interval() {
        let before = snapshot(1_000, &[(1, 100), (2, 100), (3, 7)]);
        let after = snapshot(1_500, &[(1, 150), (2, 300), (4, 1_000)]);
        let table = Table::between(&before, &after);
        let rates = table.connections.iter();
        let rates: Vec<_> = rates
            .map(|row| (row.record.number, row.transmitted_cell_s))
            .collect();
        assert_eq!(rates, [(2, 400), (1, 100), (4, 0)]);
        let text = table.text(false);
        assert!(
            text.starts_with("3 connections over 0.50 s: 0.192 Mbit/s out, 0 in; 0 cells/s"),
            "{text}"
        );
        let json = serde_json::to_value(&table).unwrap();
        assert_eq!(json["connections"][0]["address"], "lo.0.2");
        assert_eq!(json["connections"][0]["stats"]["cells_transmitted"], 300);
        assert_eq!(json["interval_ns"], 500_000_000);
    }

    #[test]
    fn two_looks_at_the_same_counters_make_no_rate() {
        let same = snapshot(1_000, &[(1, 100)]);
        let table = Table::between(&same, &same);
        assert_eq!(table.connections[0].transmitted_cell_s, 0);
        assert!(table.text(false).contains("is the server there?"));
        let earlier = snapshot(900, &[(1, 200)]);
        assert_eq!(
            Table::between(&same, &earlier).connections[0].transmitted_cell_s,
            0
        );
    }
}
