//! `cellgate sim mutants`.

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cellgate_lab::Kill;
use cellgate_lab::Progress;
use cellgate_lab::world::{OUT_OF_REACH, within_reach, world_kill};
use cellgate_report::output::{Exit, print, print_json};
use serde::Serialize;

use super::seeds::{Jobs, Seeds, quiet_panics, span};
use crate::progress::Shown;

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate sim mutants --jobs 2")]
pub(crate) struct Args {
    /// Seeds that each bug is given: A..B, or N for 0..N
    #[arg(long, value_name = "A..B", default_value = "2000")]
    seeds: Seeds,
    #[command(flatten)]
    jobs: Jobs,
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
    /// Half of those that were found were found by so many seeds; none was found: none.
    seeds_median: Option<u64>,
    /// The most that one took.
    seeds_max: Option<u64>,
    kills: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    bug: String,
    seeds: Option<u64>,
    found_because: String,
}

/// Plants each of `bugs` by `one`; `tell` hears of them in their order, whichever ends first.
fn kills(
    bugs: &[String],
    jobs: &Jobs,
    one: impl Fn(&str) -> Option<Kill> + Sync,
    mut tell: impl FnMut(&Kill) + Send,
) -> Vec<Kill> {
    struct Ended<T> {
        kills: Vec<Option<Kill>>,
        told: usize,
        tell: T,
    }
    let ended = Mutex::new(Ended {
        kills: vec![None; bugs.len()],
        told: 0,
        tell: &mut tell,
    });
    jobs.each(&(0..bugs.len() as u64), |n| {
        let n = n as usize;
        // Runs that remember others remember those of their thread.
        let own = std::thread::scope(|scope| scope.spawn(|| one(&bugs[n])).join());
        let kill = own.unwrap_or_else(|panic| resume_unwind(panic));
        if let Ok(mut ended) = ended.lock() {
            let ended = &mut *ended;
            ended.kills[n] = kill;
            while let Some(Some(kill)) = ended.kills.get(ended.told) {
                (ended.tell)(kill);
                ended.told += 1;
            }
        }
        ControlFlow::Continue(())
    });
    let kills = ended.into_inner().map_or(Vec::new(), |ended| ended.kills);
    kills.into_iter().flatten().collect()
}

/// How many seeds the bugs took that were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Effort {
    /// Half of them took no more.
    median: u64,
    max: u64,
}

impl Effort {
    /// None: none was found.
    fn of(kills: &[Kill]) -> Option<Self> {
        let found = kills.iter().filter(|kill| kill.seed.is_some());
        let mut tried: Vec<u64> = found.map(|kill| kill.tried).collect();
        tried.sort_unstable();
        Some(Self {
            median: *tried.get(tried.len().checked_sub(1)? / 2)?,
            max: *tried.last()?,
        })
    }

    fn text(self) -> String {
        let Self { median, max } = self;
        format!("seeds until a bug was found: {median} at the median, {max} at most\n")
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    quiet_panics();
    let shown = Mutex::new(Shown::new("sim mutants"));
    let clear = || {
        if let Ok(mut shown) = shown.lock() {
            shown.clear();
        }
    };
    let tell = |kill: &Kill| {
        if !args.json {
            clear();
            let tried = kill.seed.map_or("-".into(), |_| kill.tried.to_string());
            let why = kill.text.lines().next().unwrap_or("");
            let line = format!("{:<30} {tried:>5}  {why:.100}", kill.bug);
            // Whoever does not listen gets the exit code.
            let _ = print(&format!("{}\n", line.trim_end()));
        }
    };
    let began = Instant::now();
    let late = || args.budget.is_some_and(|budget| began.elapsed() > budget);
    let seeds = &args.seeds.0;
    let all = seeds.end - seeds.start;
    let bugs = within_reach();
    let (done, planted) = (AtomicU64::new(0), bugs.len());
    let one = |bug: &str| {
        let seeds = seeds.clone().take_while(|_| {
            if let Ok(mut shown) = shown.try_lock() {
                shown.step(done.load(Ordering::Relaxed), planted as u64);
            }
            !late()
        });
        let kill = world_kill(bug, seeds);
        done.fetch_add(1, Ordering::Relaxed);
        kill
    };
    let kills = kills(&bugs, &args.jobs, one, tell);
    clear();
    let out_of_reach: Vec<String> = OUT_OF_REACH.iter().map(|bug| format!("{bug:?}")).collect();
    let alive = kills.iter().filter(|kill| kill.seed.is_none());
    let (survived, untried): (Vec<_>, Vec<_>) = alive.partition(|kill| kill.tried == all);
    let seeds = Effort::of(&kills);
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
            seeds_median: seeds.map(|seeds| seeds.median),
            seeds_max: seeds.map(|seeds| seeds.max),
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
             {beyond} more of the adapter's were not planted: no random scenario shows them\n{}",
            seeds.map_or_else(String::new, Effort::text)
        ))?;
    }
    Ok(exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries some bugs by so many threads: what was told, and what came of it.
    fn tried(bugs: &[String], jobs: u16, seeds: u64) -> (Vec<String>, Vec<Kill>) {
        let mut told = Vec::new();
        let one = |bug: &str| world_kill(bug, 0..seeds);
        let kills = kills(bugs, &Jobs { jobs }, one, |kill| {
            told.push(kill.bug.clone());
        });
        (told, kills)
    }

    #[test]
    fn half_of_what_was_found_took_no_more_than_the_median() {
        let kill = |seed: Option<u64>, tried| Kill {
            bug: String::new(),
            seed,
            tried,
            text: String::new(),
        };
        let of = |tried: &[u64]| {
            let found = tried.iter().map(|&tried| kill(Some(0), tried));
            let effort = Effort::of(&found.chain([kill(None, 500)]).collect::<Vec<_>>());
            effort.map(|effort| (effort.median, effort.max))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[7]), Some((7, 7)));
        assert_eq!(of(&[9, 1]), Some((1, 9)));
        assert_eq!(of(&[9, 1, 2]), Some((2, 9)));
    }

    #[test]
    fn the_table_is_the_same_whoever_ends_first() {
        // The first one survives all its seeds, the last two remember runs.
        let bugs = [
            "FullEventOnce",
            "MidLost",
            "world: RunCounts",
            "world: RunRemembers",
        ];
        let bugs = bugs.map(str::to_owned);
        let alone = tried(&bugs, 1, 9);
        let names = alone.1.iter().map(|kill| kill.bug.clone());
        assert_eq!((&alone.0, names.collect()), (&bugs.to_vec(), bugs.to_vec()));
        let found = alone.1.iter().filter(|kill| kill.seed.is_some()).count();
        assert_eq!(found, 3, "{:?}", alone.1);
        for jobs in [2, 4] {
            assert_eq!(tried(&bugs, jobs, 9), alone, "{jobs} threads");
        }
    }
}
