//! Figures 9 and 10 of paper 003: a guaranteed connection while best-effort work takes all CPU time
//! that it can get, and what the connection costs that work.
//!
//! In the first half, slices with and without the connection alternate while ever more processes
//! count loops. An adapter that spins has its CPU for itself, so that the connection costs
//! best-effort work the CPU time of its writer and reader; one that yields costs what admission
//! expects beside. In the second half, all processes and best effort at the rate of the line are
//! there at once, with ever more load of stress-ng (memory, I/O): every reader still progresses.

use std::process::Stdio;

use anyhow::Context;
use cellgate_core::Time;
use cellgate_host::clock::{MonotonicClock, process_cpu_ns};
use cellgate_host::sys::allowed_cpus;
use cellgate_report::output::table;
use rustix::param::clock_ticks_per_second;
use serde_json::json;

use super::Tried;
use super::actor::{Loops, Promise, Task};
use super::ground::Ground;
use super::pair::{Acted, Cast, Pair};
use super::rule::{Judgement, WINDOW_NS, flaws};
use super::stalls::Stalls;
use super::stress::Ramp;
use crate::live::actor::{Actor, Role};
use crate::live::sdu::HEADER;
use crate::live::spread::Spread;

/// Octets/s of SDU: 40 x 10^6 bit/s.
const OCTET_S: u64 = 5_000_000;
/// Octets of best effort's SDU.
const SDU: u16 = 8_192;
const SECONDS: f64 = 600.0;
/// A slice, unless the whole is too short for it.
const SLICE_NS: u64 = 10_000_000_000;
/// Pairs of slices, at least.
const PAIRS_MIN: u64 = 2;
/// From a decision to the beginning of a slice.
const PREPARE_NS: u64 = 300_000_000;
/// By how much of what is expected best-effort work, and what it loses, may miss it.
const EXACT: f64 = 0.10;
/// From this part of a CPU on, slices can tell what the connection takes from what they differ by.
const TELLING: f64 = 0.08;
/// CPU time of others, as a part of one CPU, from which on it may be they who slow it.
const OTHERS_MAX: f64 = 0.05;

/// `cellgate guarantee separation`.
#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    pub(super) common: super::Args,
    /// Octets of the connection's SDUs: the shorter, the more CPU time it takes from others
    #[arg(long, value_name = "N", default_value_t = 8_192,
          value_parser = clap::value_parser!(u16).range(HEADER as i64..))]
    sdu: u16,
    /// No load of stress-ng (memory, I/O) beside the own processes, even if it is installed
    #[arg(long)]
    no_stress_ng: bool,
}

/// What happened in a slice.
struct Sliced {
    spinners: usize,
    seconds: f64,
    loops: u64,
    /// CPU time of all that is none of ours, as a part of one CPU.
    others: f64,
}

/// A slice with the connection and one without.
struct Compared {
    with: Sliced,
    without: Sliced,
    acted: Acted,
    /// Of the adapter's core, in millionths, as admission expects.
    expected_ppm: u32,
}

pub(super) fn run(args: &Args, ground: &Ground) -> anyhow::Result<Tried> {
    let half_ns = args.common.ns(SECONDS) / 2;
    let slice_ns = SLICE_NS.min(half_ns / (2 * PAIRS_MIN));
    let pairs = half_ns / slice_ns / 2;
    let cpus = allowed_cpus().len();
    let mut work = Work::start(2 * cpus, args.sdu, ground)?;
    let watch = ground.watch()?;
    let mut compared = Vec::new();
    for pair in 0..pairs {
        // From one process to two for each CPU.
        let spinners = 1 + (2 * cpus - 1) * (pair + 1) as usize / pairs as usize;
        compared.push(work.compare(ground, spinners, slice_ns)?);
    }
    let stages = if args.no_stress_ng { 0 } else { 2 * cpus };
    let (overload, stressors) = work.overload(ground, half_ns, stages)?;
    let stalls = watch.end()?;
    args.common
        .draw("Receive overload on a loaded machine", &overload)?;
    let mut tried = judged(ground, &compared, &overload, cpus, &stalls);
    let processes = 2 * cpus;
    tried.text += &match stressors {
        0 => format!("overload  {processes} processes, without stress-ng\n"),
        n => format!("overload  {processes} processes; stress-ng: memory 1 to {n}, I/O 1 to {n}\n"),
    };
    Ok(tried)
}

/// Best-effort work: processes that count loops.
struct Work {
    spinners: Vec<Actor>,
    /// Octets of the connection's SDUs.
    sdu: u16,
    /// CPUs that the adapter has for itself.
    spinning: f64,
}

impl Work {
    fn start(spinners: usize, sdu: u16, ground: &Ground) -> anyhow::Result<Self> {
        let alone = !ground.scheduling.gives_way();
        let spinners = (0..spinners).map(|_| Actor::start(Role::Spinner, Stdio::null(), &alone));
        Ok(Self {
            spinners: spinners.collect::<anyhow::Result<_>>()?,
            sdu,
            spinning: f64::from(u8::from(!ground.scheduling.gives_way())),
        })
    }

    /// A slice with the connection, and one without.
    fn compare(
        &mut self,
        ground: &Ground,
        spinners: usize,
        slice_ns: u64,
    ) -> anyhow::Result<Compared> {
        let mut pair = guaranteed(ground, self.sdu)?;
        let all = ground.admin()?.list()?;
        let expected_ppm = all.iter().map(|info| info.cpu_expected_ppm).sum();
        let (begin, end) = soon(slice_ns);
        let task = Task::new(begin, end);
        pair.tell(&task)?;
        let mut with = self.slice(spinners, begin, end)?;
        let acted = pair.done(task, begin)?;
        with.others -= used(&acted) / with.seconds;
        let (begin, end) = soon(slice_ns);
        let without = self.slice(spinners, begin, end)?;
        Ok(Compared {
            with,
            without,
            acted,
            expected_ppm,
        })
    }

    fn slice(&mut self, spinners: usize, begin: Time, end: Time) -> anyhow::Result<Sliced> {
        let slice = Task::new(begin, end);
        for spinner in &mut self.spinners[..spinners] {
            spinner.say(&slice)?;
        }
        super::wait_until(begin);
        let (own, busy) = (process_cpu_ns(), busy_s()?);
        super::wait_until(end);
        let (own, busy) = (process_cpu_ns() - own, busy_s()? - busy);
        let (mut loops, mut spun_ns) = (0, 0);
        for spinner in &mut self.spinners[..spinners] {
            let counted: Loops = spinner.hear()?;
            loops += counted.loops;
            spun_ns += counted.cpu_ns;
        }
        let seconds = end.since_ns(begin) as f64 / 1e9;
        let ours = (spun_ns + own) as f64 / 1e9 / seconds + self.spinning;
        Ok(Sliced {
            spinners,
            seconds,
            loops,
            others: busy / seconds - ours,
        })
    }

    /// The connection, best effort as fast as the line, all processes, and memory and I/O load that
    /// grows by so many stages: what they did, and the stages that came.
    fn overload(
        &mut self,
        ground: &Ground,
        slice_ns: u64,
        stages: usize,
    ) -> anyhow::Result<(Vec<Acted>, usize)> {
        let flood = Pair::open(ground, Cast::best_effort("best effort", 1, SDU))?;
        let flood = flood.map_err(|no_room| anyhow::anyhow!("best effort: {}", no_room.text))?;
        let mut pairs = [guaranteed(ground, self.sdu)?, flood];
        let (begin, end) = soon(slice_ns);
        let task = Task::new(begin, end);
        for pair in &mut pairs {
            pair.tell(&task)?;
        }
        let all = self.spinners.len();
        let ramp = Ramp::start(stages, begin, end);
        self.slice(all, begin, end)?;
        let stressors = ramp.end();
        let acted = pairs.into_iter().map(|pair| pair.done(task, begin));
        Ok((acted.collect::<anyhow::Result<_>>()?, stressors))
    }
}

fn soon(slice_ns: u64) -> (Time, Time) {
    let begin = MonotonicClock.now().plus_ns(PREPARE_NS);
    (begin, begin.plus_ns(slice_ns))
}

fn guaranteed(ground: &Ground, sdu: u16) -> anyhow::Result<Pair> {
    let cast = Cast::guaranteed("40 x 10^6 bit/s", 0, Promise::of(OCTET_S, sdu));
    let pair = Pair::open(ground, cast)?;
    pair.map_err(|no_room| anyhow::anyhow!("the connection: {}", no_room.text))
}

/// Seconds of CPU time that all processes and interrupts of the machine had, and what the machine
/// below it took.
fn busy_s() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let line = stat.lines().next().unwrap_or_default();
    let ticks = line.split_ascii_whitespace().skip(1);
    let ticks = ticks.map(|text| text.parse().unwrap_or(0)).take(8);
    //  user nice system idle iowait irq softirq steal (proc_stat(5))
    let busy = ticks
        .enumerate()
        .filter(|(column, _)| ![3, 4].contains(column));
    let busy: u64 = busy.map(|(_, ticks)| ticks).sum();
    Ok(busy as f64 / clock_ticks_per_second() as f64)
}

/// Seconds of CPU time of both actors.
fn used(acted: &Acted) -> f64 {
    (acted.sent.cpu_ns + acted.received.cpu_ns) as f64 / 1e9
}

fn median(values: Vec<f64>) -> f64 {
    Spread::of(values).median
}

fn judged(
    ground: &Ground,
    compared: &[Compared],
    overload: &[Acted],
    cpus: usize,
    stalls: &Stalls,
) -> Tried {
    let mut judgements: Vec<Judgement> = compared
        .iter()
        .filter_map(|slices| slices.acted.judge(stalls))
        .collect();
    judgements.extend(overload.iter().filter_map(|acted| acted.judge(stalls)));
    judgements.extend(overload.iter().map(|acted| progress(acted, stalls)));
    let yields = ground.scheduling.gives_way();
    let cpus_left = cpus.saturating_sub(usize::from(!yields)).max(1) as f64;
    let mut rows = vec![head()];
    let (mut ratios, mut taken, mut uses) = (Vec::new(), Vec::new(), Vec::new());
    for slices in compared {
        let left = slices.with.loops as f64 / slices.without.loops.max(1) as f64;
        let adapter = match yields {
            true => f64::from(slices.expected_ppm) / 1e6,
            false => 0.0,
        };
        let actors = used(&slices.acted) / slices.with.seconds;
        let expected = 1.0 - (actors + adapter) / cpus_left;
        rows.push([
            slices.with.spinners.to_string(),
            slices.expected_ppm.to_string(),
            percent(actors),
            percent(left),
            percent(expected),
            percent(slices.with.others.max(slices.without.others)),
        ]);
        ratios.push(left / expected);
        taken.push((1.0 - left) / (1.0 - expected));
        uses.push(1.0 - expected);
    }
    let (ratio, taken, used) = (median(ratios), median(taken), median(uses));
    let others = compared
        .iter()
        .flat_map(|slices| [slices.with.others, slices.without.others]);
    let others = median(others.collect());
    let mut judgement = Judgement::default();
    let telling = used >= TELLING;
    let mut work = format!(
        "best-effort work: {} of what is expected, the median",
        percent(ratio)
    );
    if telling {
        let (taken, used) = (percent(taken), percent(used));
        work.push_str(&format!(
            "; slower by {taken} of the {used} that is expected"
        ));
    }
    let slower = telling && (taken - 1.0).abs() > EXACT;
    if (ratio - 1.0).abs() > EXACT || slower {
        let text = work.clone();
        // What others take in one slice and not in the next is no doing of the connection.
        match others > OTHERS_MAX {
            true => {
                let others = percent(others);
                judgement.void = Some(format!("{text}; others took {others} of a CPU"));
            }
            false => judgement.faults.push(text),
        }
    }
    judgements.push(judgement);
    let slices: Vec<_> = compared.iter().map(figures).collect();
    let figures = json!({
        "slices": slices,
        "work_to_expected": ratio,
        "use_to_expected": telling.then_some(taken),
        "expected_use": used,
        "others": others,
        "overload": overload.iter().map(counts).collect::<Vec<_>>(),
    });
    let text = format!(
        "{}{work}\n{}",
        table(&rows),
        overload.iter().map(overloaded).collect::<String>(),
    );
    Tried::of(text, figures, judgements, stalls)
}

fn figures(slices: &Compared) -> serde_json::Value {
    slices.acted.with_counts(json!({
        "spinners": slices.with.spinners,
        "seconds": slices.with.seconds,
        "loops_with": slices.with.loops,
        "loops_without": slices.without.loops,
        "others_with": slices.with.others,
        "others_without": slices.without.others,
        "expected_ppm": slices.expected_ppm,
        "actors_cpu_ns": slices.acted.sent.cpu_ns + slices.acted.received.cpu_ns,
    }))
}

fn overloaded(acted: &Acted) -> String {
    let seconds = acted.task.end.since_ns(acted.task.begin) as f64 / 1e9;
    format!(
        "overload  {}: {} PDUs sent, {} received, {:.3} x 10^6 SDU bit/s\n",
        acted.cast.name,
        acted.sent.pdus,
        acted.received.pdus,
        acted.received.octets as f64 * 8.0 / seconds / 1e6
    )
}

fn counts(acted: &Acted) -> serde_json::Value {
    acted.with_counts(json!({
        "name": acted.cast.name,
    }))
}

/// In each second, a reader gets something.
fn progress(acted: &Acted, stalls: &Stalls) -> Judgement {
    let (from, to) = (acted.task.begin, acted.task.end);
    let stuck = acted
        .received
        .bins
        .windows(from, to, WINDOW_NS)
        .find(|from| {
            let to = from.plus_ns(WINDOW_NS);
            acted.received.bins.between(*from, to) == 0 && stalls.within(*from, to) < WINDOW_NS / 2
        });
    let fault = stuck.map(|at| {
        let s = at.since_ns(from) as f64 / 1e9;
        format!(
            "{}: nothing received in the second from {s:.2} s on",
            acted.cast.name
        )
    });
    // What has a contract is judged by it.
    let flaws = match acted.cast.promise {
        Some(_) => None,
        None => flaws(&acted.cast.name, &acted.received),
    };
    Judgement {
        faults: fault.into_iter().collect(),
        errors: flaws.into_iter().collect(),
        ..Judgement::default()
    }
}

fn percent(part: f64) -> String {
    format!("{:.2} %", part * 100.0)
}

fn head() -> [String; 6] {
    [
        "spinners",
        "adapter expected ppm",
        "actors' CPU",
        "work left",
        "expected",
        "others",
    ]
    .map(str::to_owned)
}
