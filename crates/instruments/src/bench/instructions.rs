//! `cellgate bench instructions`: instructions per cell, counted by callgrind, so that a machine
//! whose times cannot be trusted still sees the data path grow.
//!
//! Valgrind has no AVX-512: what is counted is the level below.

use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;

use anyhow::{Context, ensure};
use cellgate_core::contract::CellRate;
use cellgate_core::wire::VpiVci;
use cellgate_report::output::{self, Exit, table};
use clap::ValueEnum;
use serde::Serialize;

use super::rig::{Contract, Rig};
use super::train::{Order, Train, addresses};
use crate::live::rig::transmit;

/// Count instructions per cell under valgrind's callgrind
#[derive(clap::Args)]
pub(super) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Do this work and print how many cells it was: what runs under callgrind
    #[arg(long, hide = true)]
    work: Option<Work>,
    /// Passes of the work
    #[arg(long, hide = true, default_value_t = 2)]
    passes: u32,
}

/// Deterministic work.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Work {
    /// PDUs of 8,192 octets on one VC.
    Receive8192,
    /// PDUs of one cell on one VC.
    Receive40,
    /// PDUs of 8,192 octets on 16 VCs, cell by cell.
    ReceiveInterleaved,
    /// Cells of 64 addresses under which nothing is open, in turn.
    DiscardUnknown,
    /// A VC whose PDUs are all refused.
    DiscardPoliced,
    /// SDUs of 8,192 octets on one VC.
    Segment8192,
}

/// The function that callgrind counts in: [`Rig::timed_step`].
const COUNTED: &str = "*Rig*timed_step*";

const CELLS: usize = 16_384;

#[derive(Serialize)]
struct Count {
    work: Work,
    cells: u64,
    instructions: u64,
    instructions_per_cell: f64,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    if let Some(work) = args.work {
        let cells = work.carry_out(args.passes)?;
        output::print(&format!("{cells}\n"))?;
        return Ok(Exit::Ok);
    }
    let counts = Work::value_variants()
        .iter()
        .map(|&work| count(work))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if args.json {
        output::print_json(&serde_json::json!({ "instructions": counts }))?;
        return Ok(Exit::Ok);
    }
    let mut rows = vec![["", "instructions/cell", "cells"].map(str::to_owned)];
    rows.extend(counts.iter().map(|count| {
        [
            count.work.name(),
            format!("{:.2}", count.instructions_per_cell),
            count.cells.to_string(),
        ]
    }));
    output::print(&table(&rows))?;
    Ok(Exit::Ok)
}

/// Runs this program under callgrind.
fn count(work: Work) -> anyhow::Result<Count> {
    let profile = std::env::temp_dir().join(format!("cellgate-callgrind.{}", std::process::id()));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(std::env::current_exe()?)
        .args(["bench", "instructions", "--work", &work.name()])
        .stderr(Stdio::null())
        .output()
        .context("valgrind cannot be run")?;
    let counted = total(&profile);
    //  A profile that was never written is told below.
    let _ = std::fs::remove_file(&profile);
    ensure!(
        output.status.success(),
        "callgrind failed: {}",
        output.status
    );
    let cells: u64 = String::from_utf8(output.stdout)?.trim().parse()?;
    let instructions = counted?;
    ensure!(instructions > 0, "callgrind found no function {COUNTED}");
    Ok(Count {
        work,
        cells,
        instructions,
        instructions_per_cell: instructions as f64 / cells as f64,
    })
}

/// The instructions that a callgrind profile sums up.
fn total(profile: &Path) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(profile).context("callgrind's profile")?;
    let total = text.lines().find_map(|line| {
        let rest = line
            .strip_prefix("totals:")
            .or_else(|| line.strip_prefix("summary:"))?;
        rest.trim().parse().ok()
    });
    total.context("callgrind's profile has no total")
}

impl Work {
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Does it `passes` times; how many cells that was.
    fn carry_out(self, passes: u32) -> anyhow::Result<u64> {
        let receiving = |sdu, vcs, order| {
            let addresses = addresses(vcs);
            let train = Rc::new(Train::aal5(&addresses, sdu, order, CELLS));
            Rig::receiving(&addresses, Contract::policed(sdu), train)
        };
        let mut rig = match self {
            Self::Receive8192 => receiving(8192, 1, Order::Contiguous)?,
            Self::Receive40 => receiving(40, 1, Order::Contiguous)?,
            Self::ReceiveInterleaved => receiving(8192, 16, Order::Interleaved)?,
            Self::DiscardUnknown => {
                let strangers: Vec<_> = (0..64)
                    .map(|at| VpiVci::from_bits((1 << 20) + at * 4099))
                    .collect();
                let train = Train::aal5(&strangers, 8192, Order::Interleaved, CELLS);
                Rig::receiving(&addresses(1), Contract::policed(8192), Rc::new(train))?
            }
            Self::DiscardPoliced => {
                let train = Train::aal5(&addresses(1), 8192, Order::Contiguous, CELLS);
                let contract = Contract {
                    receive_rate: CellRate::new(1),
                    ..Contract::policed(8192)
                };
                Rig::receiving(&addresses(1), contract, Rc::new(train))?
            }
            Self::Segment8192 => return segment(passes),
        };
        (0..passes).for_each(|_| {
            rig.pass();
        });
        Ok(u64::from(passes) * rig.cells() as u64)
    }
}

fn segment(passes: u32) -> anyhow::Result<u64> {
    let line = CellRate::new(1_000_000_000).context("a rate")?;
    let train = Rc::new(Train::of_headers([]));
    let mut rig = Rig::new(1, line, train)?;
    rig.open_transmitting(addresses(1)[0], transmit(None, 0, 8192), 32)?;
    while rig.stats().cells_transmitted < u64::from(passes) * CELLS as u64 {
        rig.fill_transmit(0, 8192);
        rig.now = rig.now.plus_ns(1_000);
        rig.timed_step();
    }
    Ok(rig.stats().cells_transmitted)
}
