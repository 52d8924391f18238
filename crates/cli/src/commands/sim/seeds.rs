//! Many seeds: which, by how many threads, for how long.

use std::ops::{ControlFlow, Range};
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use cellgate_lab::Progress;
use cellgate_lab::world::{Failure, Options, with_bug};
use clap::value_parser;

use crate::progress::Shown;

/// `A..B`: A to B - 1; `N`: 0 to N - 1. All are below 2^63.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seeds(pub(super) Range<u64>);

impl FromStr for Seeds {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let number = |text: &str| {
            text.replace('_', "")
                .parse::<u64>()
                .context("a whole number")
        };
        let range = match text.split_once("..") {
            Some((from, to)) => number(from)?..number(to)?,
            None => 0..number(text)?,
        };
        if range.is_empty() || range.end > 1 << 63 {
            bail!("expected A..B with A below B, and B at most 2^63");
        }
        Ok(Self(range))
    }
}

/// Which seeds, by whom, and how that is told.
#[derive(clap::Args)]
pub(super) struct Many {
    /// Seeds: A..B, or N for 0..N
    #[arg(long, value_name = "A..B")]
    pub(super) seeds: Seeds,
    #[command(flatten)]
    jobs: Jobs,
    /// Stop after so long: 90s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = span)]
    budget: Option<Duration>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) bug: Bug,
}

/// By how many threads.
#[derive(clap::Args)]
pub(super) struct Jobs {
    /// Threads, 1 to 256
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = value_parser!(u16).range(1..=256)
    )]
    pub(super) jobs: u16,
}

impl Jobs {
    /// Calls `one` with each of `numbers`, from the lowest on, until it breaks.
    pub(super) fn each(&self, numbers: &Range<u64>, one: impl Fn(u64) -> ControlFlow<()> + Sync) {
        let next = AtomicU64::new(numbers.start);
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= numbers.end || one(number).is_break() {
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                scope.spawn(work);
            }
        });
    }
}

impl Many {
    /// Runs `one` for each seed until one fails or the time is up.
    pub(super) fn sweep(
        &self,
        name: &'static str,
        one: impl Fn(u64) -> Result<u64, Failure> + Sync,
    ) -> anyhow::Result<Swept> {
        let swept = sweep(name, &self.seeds.0, &self.jobs, self.budget, one);
        ensure!(swept.seeds > 0, "no seed was run within the budget");
        Ok(swept)
    }
}

/// A bug on purpose.
#[derive(clap::Args)]
pub(super) struct Bug {
    /// Plant this bug, one of those that `sim mutants` lists
    #[arg(long, value_name = "BUG", value_parser = plant)]
    plant: Option<Plant>,
}

#[derive(Clone)]
struct Plant {
    name: String,
    options: Options,
}

impl Bug {
    /// How a scenario is run: with the bug if there is one.
    pub(super) fn options(&self, reference: bool) -> Options {
        let plain = Options {
            reference: true,
            ..Options::default()
        };
        let options = self.plant.as_ref().map_or(plain, |plant| plant.options);
        Options {
            reference: reference && options.reference,
            ..options
        }
    }

    /// The options of `sim run` that have a scenario run so, each with a space before it.
    pub(super) fn words(&self, reference: bool) -> String {
        let fast = if reference { "" } else { " --fast" };
        let plant = self.plant.as_ref();
        let plant = plant.map(|plant| format!(" --plant {}", plant.name));
        fast.to_owned() + &plant.unwrap_or_default()
    }
}

fn plant(name: &str) -> anyhow::Result<Plant> {
    Ok(Plant {
        options: with_bug(name).context("there is no such bug")?,
        name: name.replace(' ', ""),
    })
}

/// A span with a unit: `90s`, `10m`, `2h`.
pub(super) fn span(text: &str) -> anyhow::Result<Duration> {
    let units = [('s', 1), ('m', 60), ('h', 3_600)];
    let mut found = units
        .into_iter()
        .filter_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let Some((digits, seconds)) = found.next() else {
        bail!("expected a number and one of s, m, h");
    };
    let number: u64 = digits.parse().context("a whole number")?;
    let seconds = number.checked_mul(seconds);
    Ok(Duration::from_secs(seconds.context("a shorter span")?))
}

/// How a sweep ended.
pub(super) struct Swept {
    /// Seeds that were run.
    pub(super) seeds: u64,
    /// Whether those were all.
    pub(super) complete: bool,
    /// Sum of what the runs returned.
    pub(super) cells: u64,
    /// The lowest seed that failed.
    pub(super) failed: Option<(u64, Failure)>,
}

impl Swept {
    /// What people are told of it.
    pub(super) fn verdict(&self) -> &'static str {
        match (&self.failed, self.complete) {
            (Some(_), _) => "stopped",
            (None, true) => "all right",
            (None, false) => "stopped by the budget",
        }
    }
}

/// Runs `one` for each seed until one fails or the time is up.
fn sweep(
    name: &'static str,
    seeds: &Range<u64>,
    jobs: &Jobs,
    budget: Option<Duration>,
    one: impl Fn(u64) -> Result<u64, Failure> + Sync,
) -> Swept {
    let began = Instant::now();
    let (done, cells) = (AtomicU64::new(0), AtomicU64::new(0));
    let failed: Mutex<Option<(u64, Failure)>> = Mutex::new(None);
    let shown = Mutex::new(Shown::new(name));
    jobs.each(seeds, |seed| {
        let late = budget.is_some_and(|budget| began.elapsed() > budget);
        // Lower seeds are still looked at, so that the lowest failure is told.
        let beyond = failed.lock().is_ok_and(|failed| failed.is_some());
        if late || beyond {
            return ControlFlow::Break(());
        }
        match one(seed) {
            Ok(more) => {
                cells.fetch_add(more, Ordering::Relaxed);
            }
            Err(failure) => {
                if let Ok(mut failed) = failed.lock()
                    && failed.as_ref().is_none_or(|(lowest, _)| seed < *lowest)
                {
                    *failed = Some((seed, failure));
                }
            }
        }
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if let Ok(mut shown) = shown.try_lock() {
            shown.step(done, seeds.end - seeds.start);
        }
        ControlFlow::Continue(())
    });
    if let Ok(mut shown) = shown.lock() {
        shown.clear();
    }
    let done = done.into_inner();
    Swept {
        seeds: done,
        complete: done == seeds.end - seeds.start,
        cells: cells.into_inner(),
        failed: failed.into_inner().ok().flatten(),
    }
}

/// Panics are counted, not shown.
pub(super) fn quiet_panics() {
    std::panic::set_hook(Box::new(|_| {}));
}

#[cfg(test)]
mod tests {
    use cellgate_lab::world::checked;
    use cellgate_lab::world::scenario::Scenario;

    use super::*;

    #[test]
    fn seeds_and_spans_are_read() {
        let seeds = |text: &str| text.parse::<Seeds>().map(|seeds| seeds.0).ok();
        assert_eq!(seeds("3..7"), Some(3..7));
        assert_eq!(seeds("1_000"), Some(0..1_000));
        for bad in [
            "",
            "x",
            "7..7",
            "7..3",
            "-1",
            "1..x",
            "0",
            "1..9223372036854775809",
        ] {
            assert_eq!(seeds(bad), None, "{bad}");
        }
        assert_eq!(span("90s").ok(), Some(Duration::from_secs(90)));
        assert_eq!(span("10m").ok(), Some(Duration::from_secs(600)));
        for bad in [
            "",
            "s",
            "10",
            "10d",
            "1.5h",
            "-1s",
            "1e3s",
            "1\u{b5}",
            "s\u{b5}s",
            "18446744073709551616s",
            "18446744073709551615m",
        ] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_sweep_runs_every_seed_once_and_tells_the_failure() {
        let all = sweep("test", &(5..25), &Jobs { jobs: 3 }, None, Ok);
        assert_eq!((all.seeds, all.cells), (20, (5..25).sum()));
        assert!(all.failed.is_none());
        let fails = |seed| match seed {
            9 => Ok(checked(&Scenario::default()).map(|_| 0)?),
            _ => Ok(0),
        };
        let some = sweep("test", &(5..25), &Jobs { jobs: 1 }, None, fails);
        assert_eq!(
            (some.seeds, some.failed.map(|(seed, _)| seed)),
            (5, Some(9))
        );
        let none = sweep(
            "test",
            &(5..25),
            &Jobs { jobs: 2 },
            Some(Duration::ZERO),
            Ok,
        );
        assert!(none.seeds < 20 && all.complete && !none.complete);
    }

    #[test]
    fn the_reference_is_on_where_it_is_asked_for_and_knows_the_bug() {
        for (name, on) in [("MidLost", true), ("world: LineLoses", false)] {
            let plant = Some(plant(name).expect("a bug"));
            let bug = Bug { plant };
            assert_eq!(bug.options(true).reference, on, "{name}");
            assert!(!bug.options(false).reference, "{name}");
        }
    }
}
