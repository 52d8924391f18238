//! `cellgate guarantee`: what a daemon promises, tried on this machine.
//!
//! ```text
//!  writers --a--> +--------+  memory  +--------+ --b--> readers: check every octet
//!  (processes)    | adapter process, one firmware |     (processes)
//!                 +-------------------------------+
//!                        gap detector --> void or not
//! ```
//! Each experiment is a table or figure of L4ATM on today's machine. A run whose adapter stood
//! still for too long, or whose sources had no CPU, is void and tried again.

mod actor;
mod admission;
mod bins;
mod fill;
mod ground;
mod pair;
mod plot;
mod precision;
mod reader;
mod rule;
mod schedule;
mod separation;
mod spinner;
mod stalls;
mod stress;
mod writer;

use std::path::PathBuf;
use std::time::Duration;

use cellgate::SharedCpu;
use cellgate_core::Time;
use cellgate_core::server::Idle;
use cellgate_host::clock::MonotonicClock;
use cellgate_report::output::{self, Exit};
use serde::Serialize;
use serde_json::Value;

use crate::live::verdict::{Verdict, Voice};
use crate::live::weather::{TRIES_MAX, until_sound};

use ground::{Ground, OC3};
use pair::Acted;
pub(crate) use reader::run as reader;
use rule::{Judgement, Weather};
pub(crate) use spinner::run as spinner;
use stalls::Stalls;
pub(crate) use writer::run as writer;

/// Try what the daemon promises: rates, their schedule, their separation, and admission
///
/// Starts a daemon, and writers and readers as processes. Every octet is checked. Exits with 0 if
/// every rule held, with 1 if one was broken or the machine was too busy to tell in three tries.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Two greedy writers with 8,000,000 and 3,000,000 octets/s: the rates that they get
    #[command(after_long_help = "\
Examples:
  $ cellgate guarantee precision --seconds 60")]
    Precision(Args),
    /// Five guaranteed writers that come and go, best effort beside them
    #[command(after_long_help = "\
Examples:
  $ cellgate guarantee schedule --seconds 60")]
    Schedule(Args),
    /// A connection of 40 x 10^6 bit/s while processes take all CPU time that they can get
    #[command(after_long_help = "\
Examples:
  $ cellgate guarantee separation --seconds 60")]
    Separation(separation::Args),
    /// As many connections as admission allows, on a line or of the machine, and one more
    #[command(after_long_help = "\
Examples:
  $ cellgate guarantee admission --resource cpu --seconds 60")]
    Admission(admission::Args),
}

/// What all experiments take.
#[derive(clap::Args)]
pub struct Args {
    /// How long it lasts, in seconds [default: 60; schedule 120; separation 600]
    #[arg(long, value_name = "N", value_parser = seconds)]
    seconds: Option<f64>,
    /// The control socket of a daemon whose first two memory interfaces are joined [default: a
    /// daemon of its own]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The idle mode of that daemon's adapter: spin, adaptive or sleep
    #[arg(long, value_name = "HOW", default_value_t = Idle::Spin, conflicts_with = "socket")]
    idle: Idle,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Draw the rates over time
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (2.0..=36_000.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected 2 to 36000 seconds".to_owned()),
    }
}

impl Args {
    fn ns(&self, default_s: f64) -> u64 {
        (self.seconds.unwrap_or(default_s) * 1e9) as u64
    }

    /// Draws what these readers received, if it is to be drawn.
    fn draw(&self, title: &str, readers: &[Acted]) -> anyhow::Result<()> {
        match &self.plot {
            Some(path) => output::write_svg(path, &plot::received(title, readers)),
            None => Ok(()),
        }
    }
}

/// Runs an experiment.
///
/// # Errors
/// A daemon or a process that cannot be started, or that has ended too early.
pub fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Precision(args) => experiment("precision", args, OC3, precision::run),
        Command::Schedule(args) => experiment("schedule", args, OC3, schedule::run),
        Command::Separation(args) => experiment("separation", &args.common, OC3, |_, ground| {
            separation::run(args, ground)
        }),
        Command::Admission(args) => {
            experiment("admission", &args.common, &args.config(), |_, ground| {
                admission::run(args, ground)
            })
        }
    }
}

/// What one try of an experiment showed.
struct Tried {
    /// For people, lines.
    text: String,
    weather: Weather,
    /// The experiment's own figures.
    figures: Value,
    judgement: Judgement,
}

impl Tried {
    /// Puts together what was seen of the connections and of the adapter.
    fn of(
        text: String,
        figures: Value,
        judgements: impl IntoIterator<Item = Judgement>,
        stalls: &Stalls,
    ) -> Self {
        let mut all = Judgement::default();
        for judgement in judgements {
            all.faults.extend(judgement.faults);
            all.errors.extend(judgement.errors);
            all.lost.extend(judgement.lost);
            all.void = all.void.or(judgement.void);
            all.windows += judgement.windows;
        }
        let weather = Weather::of(stalls);
        all.void = weather.void().or(all.void);
        match weather.is_silent() {
            true => all.faults.append(&mut all.lost),
            false => all.errors.append(&mut all.lost),
        }
        // Whatever else the machine did, it has done none of these.
        all.void = all.void.filter(|_| all.errors.is_empty());
        Self {
            text,
            weather,
            figures,
            judgement: all,
        }
    }
}

/// What an experiment prints with `--json`.
#[derive(Serialize)]
struct Report {
    experiment: &'static str,
    tries: u32,
    /// Of each void try, why.
    void: Vec<String>,
    weather: Weather,
    windows: u64,
    figures: Value,
    /// Rates that were missed.
    faults: Vec<String>,
    /// What no machine excuses: PDUs that are lost, wrong or out of order, and wrong answers.
    errors: Vec<String>,
    verdict: String,
    /// Who shares the adapter's CPU, where a rule was broken or nothing can be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    shared: Option<SharedCpu>,
}

/// Tries an experiment until a try is not void, and shows each. A daemon of its own has `config`.
fn experiment(
    name: &'static str,
    args: &Args,
    config: &str,
    try_once: impl Fn(&Args, &Ground) -> anyhow::Result<Tried>,
) -> anyhow::Result<Exit> {
    let ground = Ground::new(args.socket.as_deref(), args.idle, config)?;
    let voice = Voice { json: args.json };
    let say = |text: &str| voice.say(text);
    say(&format!("adapter   {}\n", ground.scheduling))?;
    let mut void = Vec::new();
    let show_try = |number| {
        let tried = try_once(args, &ground)?;
        say(&tried.text)?;
        say(&tried.weather.text())?;
        if let Some(reason) = &tried.judgement.void {
            void.push(reason.clone());
            say(&format!(
                "void      try {number} of {TRIES_MAX}: {reason}\n"
            ))?;
        }
        Ok(tried)
    };
    let tried = until_sound(show_try, |tried| tried.judgement.void.is_some())?;
    let Judgement {
        faults,
        errors,
        void: reason,
        windows,
        ..
    } = tried.judgement;
    let broken = [&errors[..], &faults[..]].concat();
    let is_kept = reason.is_none();
    let verdict = verdict(name, windows, reason, &broken, &tried.weather);
    let shared = match verdict {
        Verdict::Pass(_) => None,
        _ => Some(ground.shared()?),
    };
    if let Some(shared) = &shared {
        say(&beside(shared.as_ref(), ground.scheduling.pinned))?;
    }
    let report = Report {
        shared: shared.flatten(),
        experiment: name,
        tries: void.len() as u32 + u32::from(is_kept),
        void,
        weather: tried.weather,
        windows,
        figures: tried.figures,
        faults,
        errors,
        verdict: verdict.text(),
    };
    voice.end(&report, &verdict)
}

/// Who else is on the adapter's CPU, for people.
fn beside(shared: Option<&SharedCpu>, pinned: Option<usize>) -> String {
    let who = match (shared, pinned) {
        (Some(shared), _) => shared.to_string(),
        (None, Some(cpu)) => format!("no other adapter is seen on CPU {cpu}"),
        (None, None) => "the adapter is not pinned to a CPU".to_owned(),
    };
    format!("beside    {who}\n")
}

/// What a try came to. Rates that were missed name the gaps.
fn verdict(
    name: &str,
    windows: u64,
    void: Option<String>,
    broken: &[String],
    weather: &Weather,
) -> Verdict {
    match (void, broken.is_empty()) {
        (Some(reason), _) => Verdict::Void(reason),
        (None, true) => Verdict::Pass(format!("{name}: {windows} windows")),
        (None, false) => {
            let gaps = weather.text();
            let gaps = gaps.trim_start_matches("gaps").trim();
            Verdict::Fail(format!("{}; gaps: {gaps}", broken.join("; ")))
        }
    }
}

/// Sleeps until `instant`.
fn wait_until(instant: Time) {
    let left_ns = instant.since_ns(MonotonicClock.now());
    std::thread::sleep(Duration::from_nanos(left_ns));
}

/// Keeps the CPU busy until `instant`.
fn spin_until(instant: Time, state: &mut u64) {
    while MonotonicClock.now() < instant {
        for _ in 0..1_000 {
            *state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
        }
        std::hint::black_box(*state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_missed_is_exit_code_1_and_names_gaps_and_neighbours() {
        let mut stalls = Stalls::default();
        (stalls.count, stalls.longest_ns) = (51, 384_100_000);
        let weather = Weather::of(&stalls);
        let broken = ["a: too little".to_owned()];
        let missed = verdict("x", 7, None, &broken, &weather);
        assert_eq!(missed.exit(), Exit::Failed);
        let text = missed.text();
        let told = "FAIL: a: too little; gaps: 51 of ";
        assert!(
            text.starts_with(told) && text.contains("longest 384.10 ms"),
            "{text}"
        );
        let void = verdict("x", 7, Some("why".to_owned()), &broken, &weather);
        assert_eq!((&*void.text(), void.exit()), ("VOID: why", Exit::Failed));
        let kept = verdict("x", 7, None, &[], &weather);
        assert_eq!(
            (&*kept.text(), kept.exit()),
            ("PASS: x: 7 windows", Exit::Ok)
        );
        let shared = SharedCpu {
            cpu: 1,
            others: 1,
            pids: vec![7],
        };
        let there =
            "beside    another adapter uses CPU 1, too (process 7), as far as can be seen\n";
        assert_eq!(beside(Some(&shared), Some(1)), there);
        let none = "beside    no other adapter is seen on CPU 1\n";
        assert_eq!(beside(None, Some(1)), none);
    }

    #[test]
    fn a_missed_rate_can_be_void_and_an_error_cannot() {
        let tried = |lost: &[&str], errors: &[&str], stalled_ns| {
            let mut stalls = Stalls::default();
            stalls.longest_ns = stalled_ns;
            let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
            let late = Judgement {
                faults: vec!["too late".to_owned()],
                void: Some("no CPU".to_owned()),
                ..Judgement::default()
            };
            let other = Judgement {
                lost: texts(lost),
                errors: texts(errors),
                ..Judgement::default()
            };
            let tried = Tried::of(String::new(), Value::Null, [other, late], &stalls);
            (tried.judgement.errors.len(), tried.judgement.void.is_some())
        };
        const LONG: u64 = 1_000_000_000;
        const SHORT: u64 = 100_000_000;
        assert_eq!(tried(&[], &[], LONG), (0, true));
        assert_eq!(tried(&[], &["1 PDUs wrong"], LONG), (1, false));
        assert_eq!(tried(&["1 PDUs sent, 0 received"], &[], SHORT), (1, false));
        assert_eq!(
            tried(&["1 PDUs sent, 0 received"], &[], LONG),
            (0, true),
            "its reader left"
        );
    }
}
