//! `cellgate sim mutants`.

use cellgate_lab::Kill;
use cellgate_lab::world::{OUT_OF_REACH, world_kills};
use serde::Serialize;

use super::seeds::{Seeds, quiet_panics};
use crate::output::{Exit, print, print_json};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seeds that each bug is given: A..B, or N for 0..N
    #[arg(long, value_name = "A..B", default_value = "500")]
    seeds: Seeds,
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
    let tell = |kill: &Kill| {
        if !args.json {
            let tried = kill.seed.map_or("-".into(), |_| kill.tried.to_string());
            let why = kill.text.lines().next().unwrap_or("");
            // Whoever does not listen gets the exit code.
            let _ = print(&format!("{:<30} {tried:>5}  {why:.100}\n", kill.bug));
        }
    };
    let kills = world_kills(args.seeds.0.clone(), tell);
    let out_of_reach: Vec<String> = OUT_OF_REACH.iter().map(|bug| format!("{bug:?}")).collect();
    let alive = kills.iter().filter(|kill| kill.seed.is_none());
    let survived: Vec<String> = alive
        .map(|kill| kill.bug.clone())
        .filter(|bug| !out_of_reach.contains(bug))
        .collect();
    let killed = kills.iter().filter(|kill| kill.seed.is_some()).count();
    let exit = if survived.is_empty() {
        Exit::Ok
    } else {
        Exit::Failed
    };
    let planted = kills.len();
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
            kills,
        })?;
    } else {
        let beyond = out_of_reach.len();
        let survived = survived.join(", ");
        print(&format!(
            "{killed} of {planted} found, {beyond} out of reach, survived: [{survived}]\n"
        ))?;
    }
    Ok(exit)
}
