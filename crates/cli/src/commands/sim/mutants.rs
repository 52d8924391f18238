//! `cellgate sim mutants`.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use cellgate_lab::Kill;
use cellgate_lab::Progress;
use cellgate_lab::world::{OUT_OF_REACH, within_reach, world_kills};
use serde::Serialize;

use super::seeds::{Seeds, quiet_panics, span};
use crate::commands::lab::progress::Shown;
use crate::output::{Exit, print, print_json};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seeds that each bug is given: A..B, or N for 0..N
    #[arg(long, value_name = "A..B", default_value = "500")]
    seeds: Seeds,
    /// Stop after so long: 90s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = span)]
    budget: Option<Duration>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    planted: usize,
    killed: usize,
    out_of_reach: Vec<String>,
    survived: Vec<String>,
    /// Alive when the budget was over, before they were given all seeds.
    untried: Vec<String>,
    kills: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    bug: String,
    seeds: Option<u64>,
    found_because: String,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    quiet_panics();
    let shown = RefCell::new(Shown::new("sim mutants"));
    let (done, planted) = (Cell::new(0), within_reach().len());
    let tell = |kill: &Kill| {
        done.set(done.get() + 1);
        if !args.json {
            shown.borrow_mut().clear();
            let tried = kill.seed.map_or("-".into(), |_| kill.tried.to_string());
            let why = kill.text.lines().next().unwrap_or("");
            // Whoever does not listen gets the exit code.
            let _ = print(&format!("{:<30} {tried:>5}  {why:.100}\n", kill.bug));
        }
    };
    let began = Instant::now();
    let late = || args.budget.is_some_and(|budget| began.elapsed() > budget);
    let seeds = args.seeds.0.clone();
    let all = seeds.end - seeds.start;
    let seeds = seeds.take_while(|_| {
        shown.borrow_mut().step(done.get(), planted as u64);
        !late()
    });
    let kills = world_kills(seeds, tell);
    shown.borrow_mut().clear();
    let out_of_reach: Vec<String> = OUT_OF_REACH.iter().map(|bug| format!("{bug:?}")).collect();
    let alive = kills.iter().filter(|kill| kill.seed.is_none());
    let (survived, untried): (Vec<_>, Vec<_>) = alive.partition(|kill| kill.tried == all);
    let names = |kills: Vec<&Kill>| -> Vec<String> {
        kills.into_iter().map(|kill| kill.bug.clone()).collect()
    };
    let (survived, untried) = (names(survived), names(untried));
    let killed = kills.iter().filter(|kill| kill.seed.is_some()).count();
    let exit = if killed == planted {
        Exit::Ok
    } else {
        Exit::Failed
    };
    if args.json {
        let row = |kill: Kill| Row {
            bug: kill.bug,
            seeds: kill.seed.map(|_| kill.tried),
            found_because: kill.text,
        };
        let kills = kills.into_iter().map(row).collect();
        print_json(&Report {
            planted,
            killed,
            out_of_reach,
            survived,
            untried,
            kills,
        })?;
    } else {
        let beyond = out_of_reach.len();
        let survived = survived.join(", ");
        let untried = match untried.is_empty() {
            true => String::new(),
            false => format!("the budget was over for: [{}]\n", untried.join(", ")),
        };
        print(&format!(
            "{untried}{killed} of {planted} found, survived: [{survived}]\n\
             {beyond} more of the adapter's were not planted: no random scenario shows them\n"
        ))?;
    }
    Ok(exit)
}
