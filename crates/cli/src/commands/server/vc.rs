//! `cellgate vc`: the server's connections.

use cellgate::{
    AbrStats, Builder, CellRate, Connection, ConnectionInfo, Notification, QueueThreshold,
    TrafficContract, Tried,
};
use cellgate_core::contract::mbit_s;
use cellgate_report::output::{Exit, columns, described, print, print_json_line, table_by_worth};
use clap::Subcommand;
use serde_json::json;

use super::quantity::{MarksWord, NotifyWord};
use super::{Server, monitor};
use crate::words::WORDS;

/// Connections: add, set, del, show, monitor.
#[derive(clap::Args)]
pub(crate) struct Command {
    #[command(flatten)]
    server: Server,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Open a permanent connection
    ///
    /// Words stand in any order behind the address; hyphens before them are optional.
    #[command(override_usage = "cellgate vc add [OPTIONS] ADDRESS contract TEXT [WORD VALUE]...")]
    #[command(after_long_help = "\
Examples:
  $ cellgate vc add a.0.100 contract cbr,aal5:pcr=20Mbps,max_sdu=1500
  $ cellgate vc add a.0.101 contract ubr,aal5 notify silent:8:1ms")]
    Add {
        /// [interface.]vpi.vci
        address: String,
        #[command(flatten)]
        words: AddWords,
        /// Say what would be reserved, or why it would be refused, and open nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Change the contract of a permanent connection that nobody uses
    #[command(override_usage = "cellgate vc set [OPTIONS] ADDRESS contract TEXT")]
    #[command(after_long_help = "\
Examples:
  $ cellgate vc set a.0.100 contract cbr,aal5:pcr=10Mbps,max_sdu=1500")]
    Set {
        /// [interface.]vpi.vci
        address: String,
        /// The contract, as `cellgate contract` explains them
        #[arg(long, value_name = "TEXT", help_heading = WORDS)]
        contract: String,
    },
    /// Delete a permanent connection
    #[command(after_long_help = "\
Examples:
  $ cellgate vc del a.0.100")]
    Del {
        /// [interface.]vpi.vci
        address: String,
    },
    /// List connections, or tell all of one
    #[command(visible_aliases = ["list", "ls", "sh"])]
    #[command(after_long_help = "\
Examples:
  $ cellgate vc show
  $ cellgate vc show a.0.100")]
    Show {
        /// [interface.]vpi.vci
        address: Option<String>,
        /// Have all columns, however wide the terminal is
        #[arg(long, conflicts_with = "json")]
        wide: bool,
    },
    /// Tell of connections and interfaces that come, change and go
    #[command(after_long_help = "\
Examples:
  $ cellgate vc monitor --json")]
    Monitor,
}

/// The words of a permanent connection.
#[derive(clap::Args)]
#[command(next_help_heading = WORDS)]
struct AddWords {
    /// The contract, as `cellgate contract` explains them
    #[arg(long, value_name = "TEXT")]
    contract: String,
    /// PDUs that may wait to be sent [default: by contract]
    #[arg(long, value_name = "PDUS")]
    transmit_pdus: Option<u32>,
    /// PDUs that may wait to be read [default: by contract]
    #[arg(long, value_name = "PDUS")]
    receive_pdus: Option<u32>,
    /// The fill of the receive queue that wakes the reader: 12 (PDUs) or 75%
    #[arg(long, value_name = "PDUS|PERCENT%")]
    queue_threshold: Option<QueueThreshold>,
    /// When events tell of cells: every-cell, first-cell, last-cell, first-and-last-cell, polled or
    /// silent:EVENTS:TIME [default: last-cell]
    #[arg(long, value_name = "WHEN")]
    notify: Option<NotifyWord>,
    /// The cells of AAL0 carry blocks, whose first and last events tell of [default: none]
    #[arg(long, value_name = "mssar|none")]
    marks: Option<MarksWord>,
    /// No event tells that a PDU has been sent
    #[arg(long)]
    no_completions: bool,
}

impl AddWords {
    fn builder(&self, address: &str) -> Builder {
        let mut builder = Connection::builder()
            .address(address)
            .contract(&*self.contract)
            .completions(!self.no_completions);
        if let Some(pdus) = self.transmit_pdus {
            builder = builder.transmit_pdus(pdus);
        }
        if let Some(pdus) = self.receive_pdus {
            builder = builder.receive_pdus(pdus);
        }
        if let Some(threshold) = self.queue_threshold {
            builder = builder.queue_threshold(threshold);
        }
        if let Some(NotifyWord(notification)) = self.notify {
            builder = builder.notification(notification);
        }
        if let Some(MarksWord(marks)) = self.marks {
            builder = builder.marks(marks);
        }
        builder
    }
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    let json = command.server.json;
    match &command.verb {
        Verb::Add {
            address,
            words,
            dry_run,
        } => {
            let builder = words.builder(address);
            let mut admin = command.server.admin()?;
            if *dry_run {
                return tried(&admin.try_open(&builder)?, json);
            }
            let contract = admin.add(&builder)?;
            let at: Option<cellgate::Address> = address.parse().ok();
            let interface = at.and_then(|at| at.interface);
            let shared = admin.adapter_of(interface.as_deref())?.shared;
            if json {
                let mut added = json!({ "address": address, "contract": contract });
                if let Some(shared) = &shared {
                    added["shared"] = json!(shared);
                }
                print_json_line(&added)?;
            } else {
                print(&format!("{address} contract {contract}\n"))?;
                if let Some(shared) = &shared {
                    eprintln!("note: {}", shared.note());
                }
            }
        }
        Verb::Set { address, contract } => {
            command.server.admin()?.set(address, contract)?;
            if json {
                // In canonical form, as it is shown.
                let contract: TrafficContract = contract.parse()?;
                let contract = contract.to_string();
                print_json_line(&json!({ "address": address, "contract": contract }))?;
            }
        }
        Verb::Del { address } => {
            command.server.admin()?.delete(address)?;
            if json {
                print_json_line(&json!({ "address": address }))?;
            }
        }
        Verb::Show { address, wide } => {
            return show(&command.server, address.as_deref(), *wide);
        }
        Verb::Monitor => return monitor::run(command.server.admin()?, json),
    }
    Ok(Exit::Ok)
}

/// A connection as it would be opened.
fn tried(tried: &Tried, json: bool) -> anyhow::Result<Exit> {
    match json {
        true => print_json_line(tried)?,
        false => print(&columns(&as_it_would_be(tried)))?,
    }
    Ok(Exit::Ok)
}

/// As the adapter has it, and as people type it.
fn rate_words(rate: CellRate) -> String {
    format!(
        "{} cells/s ({} Mbit/s)",
        rate.cell_s(),
        mbit_s(rate.cell_s().into())
    )
}

fn as_it_would_be(tried: &Tried) -> Vec<[String; 2]> {
    let row = |label: &str, text: String| [label.to_owned(), text];
    let demand = &tried.demand;
    let rate = |guaranteed: bool, rate: Option<CellRate>| match (guaranteed, rate) {
        (_, None) => "-".to_owned(),
        (true, Some(rate)) => format!("{}, reserved", rate_words(rate)),
        (false, Some(rate)) => format!("{}, its share as things are", rate_words(rate)),
    };
    let mut rows = vec![
        row(&tried.address.to_string(), tried.contract.clone()),
        row(
            "transmit",
            rate(demand.transmit.guaranteed > 0, tried.transmit),
        ),
        row(
            "receive",
            rate(demand.receive.guaranteed > 0, tried.receive),
        ),
        row("memory", format!("{} octets", demand.memory)),
        row(
            "adapter CPU",
            format!(
                "{} ppm reserved, {} ppm expected",
                demand.adapter_ppm, demand.adapter_expected_ppm
            ),
        ),
    ];
    let us = |ns: u64| ns.div_ceil(1_000);
    if let Some(bound) = tried.bound.transmit {
        let text = format!(
            "{} us at most, a stall of {} us included",
            us(bound.delay_ns),
            us(bound.stall_ns)
        );
        rows.push(row("delay of sending", text));
    }
    if let Some(bound) = tried.bound.receive {
        let text = format!(
            "{} us at most, a stall of {} us included",
            us(bound.delay_ns),
            us(bound.stall_ns)
        );
        rows.push(row("delay of receiving", text));
    }
    if tried.keeps_awake {
        rows.push(row("keeps awake", "the adapter would not rest".to_owned()));
    }
    let answer = match tried.waits {
        true => "it would be opened once what is being closed has gone",
        false => "it would be opened; nothing was reserved",
    };
    rows.push(row("answer", answer.to_owned()));
    rows
}

fn show(server: &Server, address: Option<&str>, wide: bool) -> anyhow::Result<Exit> {
    let mut all = server.admin()?.list()?;
    if let Some(address) = address {
        let address: cellgate::Address = address.parse().map_err(cellgate::Error::from)?;
        all.retain(|info| {
            let interface =
                address.interface.is_none() || info.address.interface == address.interface;
            interface && info.address.vc == address.vc
        });
        if all.is_empty() {
            anyhow::bail!("no connection has the address {address}");
        }
    }
    if server.json {
        let all = all.iter().map(with_seen).collect::<Result<Vec<_>, _>>()?;
        print_json_line(&json!({ "connections": all }))?;
    } else if address.is_some() {
        all.iter().try_for_each(|info| print(&in_full(info)))?;
    } else {
        print(&list(&all, wide))?;
    }
    Ok(Exit::Ok)
}

/// A connection, and what its PDUs have taken to leave.
fn with_seen(info: &ConnectionInfo) -> serde_json::Result<serde_json::Value> {
    let mut shown = serde_json::to_value(info)?;
    let delays = &info.stats.delays;
    shown["seen"] = match delays.within_ns(99) {
        None => json!({ "transmit": null }),
        Some(p99_ns) => json!({ "transmit": {
            "pdus": delays.pdus(),
            "delay_max_ns": delays.max_ns,
            "delay_p99_ns": p99_ns,
        }}),
    };
    Ok(shown)
}

/// One line each.
fn list(all: &[ConnectionInfo], wide: bool) -> String {
    let mut rows = vec![
        [
            "address",
            "Mbit/s out",
            "Mbit/s in",
            "PDUs sent",
            "PDUs received",
            "PDUs discarded",
            "user",
            "process",
            "contract",
        ]
        .map(str::to_owned),
    ];
    let of = |rate: Option<CellRate>| {
        rate.map_or_else(|| "-".to_owned(), |rate| mbit_s(rate.cell_s().into()))
    };
    rows.extend(all.iter().map(|info| {
        [
            info.address.to_string(),
            of(info.transmit),
            of(info.receive),
            info.stats.pdus_transmitted.to_string(),
            info.stats.pdus_delivered.to_string(),
            info.stats.pdus_discarded.total().to_string(),
            info.uid.to_string(),
            match (info.pid, info.permanent) {
                (Some(pid), _) => pid.to_string(),
                (None, true) => "permanent".to_owned(),
                (None, false) => "-".to_owned(),
            },
            info.contract.clone(),
        ]
    }));
    // From the one of least worth on.
    table_by_worth(&rows, &[6, 7, 8, 2], wide)
}

/// How long PDUs take at most, and have taken.
fn delays(info: &ConnectionInfo) -> Vec<[String; 2]> {
    let us = |ns: u64| ns.div_ceil(1_000);
    let mut rows = Vec::new();
    if let Some(bound) = info.bound.transmit {
        let (delay, jitter) = (us(bound.delay_ns), us(bound.jitter_ns));
        let text = format!(
            "{delay} us at most from a PDU's turn to its last cell, jitter {jitter} us, a stall of \
             {} us included; behind a full buffer {} us more",
            us(bound.stall_ns),
            us(bound.queue_ns)
        );
        rows.push(["delay of sending".to_owned(), text]);
    }
    let delays = &info.stats.delays;
    if let Some(p99_ns) = delays.within_ns(99) {
        let (max, p99) = (us(delays.max_ns), us(p99_ns));
        let text = format!(
            "{max} us at most, 99 % within {p99} us, of {} PDUs",
            delays.pdus()
        );
        rows.push(["seen of it".to_owned(), text]);
    }
    if let Some(bound) = info.bound.receive {
        let (delay, jitter) = (us(bound.delay_ns), us(bound.jitter_ns));
        let text = format!(
            "{delay} us at most from a PDU's last cell to its reader, jitter {jitter} us, a stall \
             of {} us included",
            us(bound.stall_ns)
        );
        rows.push(["delay of receiving".to_owned(), text]);
    }
    rows
}

/// The rate that the network allows, and the RM cells that say so.
fn available(abr: &AbrStats) -> Vec<[String; 2]> {
    let words = |cell_s: u32| CellRate::new(cell_s).map_or("0 cells/s".to_owned(), rate_words);
    let AbrStats {
        forward_sent,
        backward_sent,
        forward_received,
        backward_received,
        ..
    } = abr;
    let thrown_away = abr.crc_error + abr.wrong_protocol + abr.too_many;
    vec![
        [
            "allowed (ACR)".to_owned(),
            format!("{}: {}", words(abr.allowed_cell_s), abr.reason.meaning()),
        ],
        ["floor (MCR)".to_owned(), words(abr.floor_cell_s)],
        [
            "RM cells sent".to_owned(),
            format!("{forward_sent} forward, {backward_sent} backward"),
        ],
        [
            "RM cells received".to_owned(),
            format!(
                "{forward_received} forward, {backward_received} backward; {thrown_away} thrown \
                 away, {} unasked",
                abr.unasked
            ),
        ],
    ]
}

/// Everything about one.
fn in_full(info: &ConnectionInfo) -> String {
    let stats = &info.stats;
    let rate = |rate: Option<cellgate::CellRate>| rate.map_or("-".to_owned(), rate_words);
    let promise = match (info.guaranteed, stats.abr) {
        (true, _) => "guaranteed".to_owned(),
        (false, Some(abr)) if abr.floor_cell_s > 0 => {
            format!("{} cells/s guaranteed, best effort above", abr.floor_cell_s)
        }
        (false, _) => "best effort".to_owned(),
    };
    let share = if info.guaranteed { "" } else { ", its share" };
    let notify = NotifyWord(info.notification.unwrap_or(Notification::LastCell));
    let pdus = |pdus: Option<u32>| pdus.map_or("by contract".to_owned(), |pdus| pdus.to_string());
    let threshold = info.queue_threshold;
    let threshold = threshold.map_or("none".to_owned(), |threshold| threshold.to_string());
    let buffer = |pdus: u64, octets: u64| match pdus {
        0 => "-".to_owned(),
        _ => format!("{pdus} PDUs of the largest size, {octets} octets"),
    };
    let completions = if info.completions { "each PDU" } else { "none" };
    let mut rows = vec![
        ["address".to_owned(), info.address.to_string()],
        ["contract".to_owned(), info.contract.clone()],
        ["promise".to_owned(), promise],
        [format!("transmit{share}"), rate(info.transmit)],
        [format!("receive{share}"), rate(info.receive)],
        ["events of reception".to_owned(), notify.to_string()],
        ["marks".to_owned(), MarksWord(info.marks).to_string()],
        ["transmit PDUs".to_owned(), pdus(info.transmit_pdus)],
        ["receive PDUs".to_owned(), pdus(info.receive_pdus)],
        ["queue threshold".to_owned(), threshold],
        ["events of sending".to_owned(), completions.to_owned()],
        ["memory".to_owned(), format!("{} octets", info.memory)],
        [
            "transmit buffer".to_owned(),
            buffer(info.buffers.transmit_pdus, info.buffers.transmit_octets),
        ],
        [
            "receive buffer".to_owned(),
            buffer(info.buffers.receive_pdus, info.buffers.receive_octets),
        ],
        [
            "adapter CPU".to_owned(),
            format!(
                "{} ppm reserved, {} ppm expected",
                info.cpu_reserved_ppm, info.cpu_expected_ppm
            ),
        ],
        ["slots to send".to_owned(), slots(&info.slots.transmit)],
        ["slots to receive".to_owned(), slots(&info.slots.receive)],
        ["cells sent".to_owned(), stats.cells_transmitted.to_string()],
        ["PDUs sent".to_owned(), stats.pdus_transmitted.to_string()],
        [
            "of these, not cut".to_owned(),
            stats.pdus_crossed.to_string(),
        ],
        [
            "cells received".to_owned(),
            stats.cells_received.to_string(),
        ],
        [
            "PDUs delivered".to_owned(),
            stats.pdus_delivered.to_string(),
        ],
        ["of these, lent".to_owned(), stats.pdus_lent.to_string()],
        ["of these, tagged".to_owned(), stats.pdus_tagged.to_string()],
    ];
    rows.splice(11..11, delays(info));
    rows.splice(5..5, stats.abr.as_ref().map(available).unwrap_or_default());
    if let Some(offer) = &info.offer {
        rows.insert(3, ["may grow to".to_owned(), offer.clone()]);
    }
    if let Some(risk) = &info.risk {
        let label = if risk.now { "at risk" } else { "was at risk" };
        rows.insert(3, [label.to_owned(), risk.reason.clone()]);
    }
    if info.keeps_awake {
        let why = "its CDVT is shorter than a rest, so the adapter does not rest while it is open";
        rows.insert(11, ["keeps awake".to_owned(), why.to_owned()]);
    }
    for reason in cellgate::Discard::ALL {
        let pdus = stats.pdus_discarded.of(reason);
        let cells = stats.cells_discarded.of(reason);
        if pdus + cells > 0 {
            let counts = format!("{pdus} PDUs, {cells} cells");
            rows.push([format!("discarded: {}", reason.name()), counts]);
        }
    }
    described(&rows)
}

pub(super) fn slots(slots: &cellgate::Slots) -> String {
    let cellgate::Slots {
        clp0,
        clp1,
        unoccupied,
        ..
    } = slots;
    format!("{clp0} with cells of CLP 0, {clp1} of CLP 1, {unoccupied} unoccupied")
}
