//! `cellgate sim run`.

use std::path::PathBuf;

use anyhow::ensure;
use cellgate_lab::world::scenario::Scenario;
use cellgate_lab::world::{CellTrace, Outcome, check_recorded, checked};
use cellgate_report::grouped;
use cellgate_report::output::{Exit, print, print_json, same_file, table};
use serde::Serialize;

use super::file::{Source, TapeFile, write};
use super::seeds::Bug;
use super::slots::{Drawn, SlotFile};
use super::verdict::{Compared, exit, line};
use crate::progress::Shown;

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate sim run --seed 7
  $ cellgate sim run --plan examples/flood.toml --trace flood.pcapng")]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Write what the lines or slots have carried into this file, over an old one that is not read
    #[arg(long, value_name = "FILE.pcapng", conflicts_with_all = ["det", "isolation"])]
    trace: Option<PathBuf>,
    /// Draw the slots of rings over time into this file, over an old one that is not read: eight
    /// rotations from the first slot that is filled
    #[arg(long, value_name = "FILE.svg", conflicts_with_all = ["det", "isolation"])]
    slots: Option<PathBuf>,
    /// Draw them from this time on
    #[arg(long, value_name = "NS", requires = "slots")]
    slots_from: Option<u64>,
    /// Write the scenario into this file (TOML, or JSON if its name ends so), over an old one that
    /// is not read
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Let no reference run beside the adapters
    #[arg(long)]
    fast: bool,
    #[command(flatten)]
    compared: Compared,
    #[command(flatten)]
    bug: Bug,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    seed: u64,
    pass: bool,
    failure: Option<String>,
    /// Faults of the scenario that never happened, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unmet_faults: Vec<String>,
    #[serde(flatten)]
    outcome: Option<&'a Outcome>,
}

/// Faults that never happened, by their number in the scenario, from 0.
fn unmet(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let faults = scenario.faults.iter().enumerate();
    let unmet = faults.filter_map(|(number, fault)| {
        let why = fault.unmet(&outcome.lines)?;
        Some(format!("fault {number} never happened: {why}"))
    });
    unmet.collect()
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let outs = args.trace.iter().chain(&args.slots).chain(&args.save);
    let outs: Vec<_> = outs.map(PathBuf::as_path).collect();
    let scenario = args.source.scenario(&outs)?;
    let options = args.bug.options(!args.fast);
    // What makes no world leaves old files as they are.
    if let Err(refusals) = checked(&scenario) {
        return Err(args.source.mistakes(&refusals));
    }
    let has_slots = args.slots.is_none() || !scenario.rings.is_empty();
    ensure!(has_slots, "--slots: the scenario has no rings");
    apart(args)?;
    if let Some(path) = &args.save {
        write(path, &scenario)?;
        // What it leads to may be there only now.
        apart(args)?;
    }
    let mut shown = Shown::new("sim run, virtual ms");
    let mut drawn = args
        .slots
        .as_deref()
        .map(|path| Drawn::new(path, &scenario, args.slots_from));
    let result = match &args.trace {
        Some(path) if !scenario.rings.is_empty() => {
            let beside = drawn.as_mut().map(|drawn| drawn as &mut dyn CellTrace);
            let mut trace = SlotFile::create(path, &scenario, beside)?;
            let result = check_recorded(&scenario, options, &mut shown, &mut trace);
            trace.finish()?;
            result
        }
        Some(path) => {
            let mut trace = TapeFile::create(path, &scenario)?;
            let result = check_recorded(&scenario, options, &mut shown, &mut trace);
            trace.finish()?;
            result
        }
        None => match &mut drawn {
            Some(drawn) => check_recorded(&scenario, options, &mut shown, drawn),
            None => args.compared.check(&scenario, options, &mut shown),
        },
    };
    shown.clear();
    if let Some(drawn) = drawn {
        drawn.finish()?;
    }
    let told = result.as_ref().err();
    let how = args.bug.words(!args.fast) + &args.compared.words();
    let told = told.map(|failure| line(failure, &args.source.words(), &how));
    let unmet_faults = result.as_ref().map(|outcome| unmet(&scenario, outcome));
    let unmet_faults = unmet_faults.unwrap_or_default();
    if args.json {
        print_json(&Report {
            seed: scenario.seed,
            pass: result.is_ok(),
            failure: told,
            unmet_faults,
            outcome: result.as_ref().ok(),
        })?;
    } else {
        match (&result, told) {
            (Ok(outcome), _) => {
                let unmet = unmet_faults.into_iter().map(|line| line + "\n");
                print(&(text(outcome) + &unmet.collect::<String>()))?;
            }
            (_, told) => print(&format!("{}\n", told.unwrap_or_default()))?,
        }
    }
    result.as_ref().err().map_or(Ok(Exit::Ok), exit)
}

/// No two files that are written are one.
fn apart(args: &Args) -> anyhow::Result<()> {
    let outs = [
        ("--save", &args.save),
        ("--trace", &args.trace),
        ("--slots", &args.slots),
    ];
    let outs = outs
        .iter()
        .filter_map(|(name, path)| Some((name, path.as_ref()?)));
    let outs: Vec<_> = outs.collect();
    for (n, (name, path)) in outs.iter().enumerate() {
        for (other, there) in &outs[n + 1..] {
            let is_one = path == there || same_file(path, there);
            ensure!(!is_one, "{}: {name} and {other} lead to it", path.display());
        }
    }
    Ok(())
}

/// A time in microseconds, if there is one.
fn measured(ns: Option<u64>) -> String {
    ns.map_or("-".into(), |ns| {
        format!("{}.{}", grouped(ns / 1_000), ns / 100 % 10)
    })
}

fn text(outcome: &Outcome) -> String {
    if !outcome.rings.is_empty() {
        return super::rings::text(outcome);
    }
    let heads = [
        "connection",
        "sent",
        "read",
        "lost",
        "not sent",
        "SDU Mbit/s",
        "mean us",
        "max us",
    ];
    let mut rows = vec![heads.map(String::from)];
    for (name, one) in &outcome.connections {
        rows.push([
            name.clone(),
            grouped(one.sent_pdus),
            grouped(one.delivered_pdus),
            grouped(one.lost_pdus),
            grouped(one.strange_pdus),
            format!(
                "{}.{:03}",
                one.sdu_bit_s / 1_000_000,
                one.sdu_bit_s / 1_000 % 1_000
            ),
            measured(one.latency_mean_ns),
            measured(one.latency_max_ns),
        ]);
    }
    let mut text = table(&rows);
    for host in &outcome.hosts {
        let discarded: Vec<String> = (host.discarded_cells.iter())
            .map(|(reason, cells)| format!("{reason} {cells}"))
            .collect();
        text += &format!(
            "host {}: {} cells received, {} delivered, {} sent; discarded: {}\n",
            host.name,
            host.received_cells,
            host.delivered_cells,
            host.transmitted_cells,
            if discarded.is_empty() {
                "none".into()
            } else {
                discarded.join(", ")
            },
        );
    }
    for (name, stream) in &outcome.streams {
        text += &format!(
            "stream on {name}: {} frames on time, {} late, {} missing; of {} packets {} released, \
             {} of them late\n",
            stream.frames_on_time,
            stream.frames_late,
            stream.frames_missing,
            grouped(stream.sent_packets),
            grouped(stream.released),
            grouped(stream.late),
        );
    }
    for (name, server) in &outcome.servers {
        text += &format!(
            "server of {name}: {} requests, {} confirmed, {} refused; take-ups {}, of connections \
             {}\n",
            server.requests, server.confirmed, server.refused, server.take_ups, server.taken_up,
        );
    }
    let (cells, events) = (outcome.cells, outcome.events);
    let (judged, hash) = (outcome.judged_cells, outcome.trace_hash);
    text += &format!("{cells} cells, {judged} judged, {events} events, trace {hash:016x}\n");
    text
}
