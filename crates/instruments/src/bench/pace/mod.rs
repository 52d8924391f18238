//! `cellgate bench pace`: how late what is paced leaves.
//!
//! ```text
//! SDUs that wait --> adapter's process, last CPU --+
//!                                                  +-- memory link --> observer, first CPU
//! a thread that sleeps until each is due, last CPU +                   stamps what it sees
//! ```

mod lateness;
mod observer;
mod sources;

use std::time::Duration;

use anyhow::Context;
use cellgate_core::contract::CellRate;
use cellgate_core::server::Idle;
use cellgate_report::output::Exit;

use super::Args;
use super::cpus::Cpus;
use super::measure::{Times, calibration};
use super::report::Report;
use crate::live::spread::Spread;
use crate::live::weather::until_sound;

use self::observer::Each;
use self::sources::{By, SDU, Source, Turn};

/// Bit/s of SDU.
const SDU_BIT_S: u64 = 40_000_000;
/// The usual CDVT.
const CDVT_NS: u64 = 1_000_000;
/// One that lets no adapter rest.
const CDVT_SMALL_NS: u64 = 100_000;

/// The bounds: of p99 lateness and CPU over the thread's, of the mean rate in parts of 10^6, and of
/// the full line's p99 lateness in microseconds.
const LATE_RATIO: f64 = 0.5;
const CPU_RATIO: f64 = 3.0;
const RATE_ERROR_PPM: f64 = 100.0;
const LINE_LATE_US: f64 = 20.0;

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut report = Report::new("pace", args.quick);
    let cpus = Cpus::allowed()?;
    if !cpus.are_two() {
        report
            .note("skipped: this machine has one CPU, and who paces has one without its observer");
        return report.finish(args.json);
    }
    let (window, repeats) = match args.quick {
        true => (Duration::from_millis(300), 1),
        false => (Duration::from_secs(3), 5),
    };
    let mut measured: Vec<_> = sources()?.into_iter().map(Measured::new).collect();
    for _ in 0..repeats {
        report.calibrations.push(calibration());
        for one in &mut measured {
            one.take_turn(window, cpus)?;
        }
    }
    measured.iter().for_each(|one| one.tell(&mut report));
    for one in measured.iter().filter(|one| one.is_any()) {
        one.tell_spread(&mut report);
    }
    judge(&measured, &mut report);
    report.note(
        "lateness: when the observer saw the last cell of a PDU (on the full line: a cell), less \
         when it was due, where the least late of a turn was not late; medians of the turns",
    );
    report.note(
        "an adapter spreads the cells of a PDU over its time; the thread sends all of them at \
         once, and paces nothing but PDUs",
    );
    report.note(
        "left out: what the observer found about a time of 100 us without a look; void: an \
         adapter's gap of more than 1 ms (a late end of its rests is none), or a CPU that other \
         machines had",
    );
    report.finish(args.json)
}

fn sources() -> anyhow::Result<Vec<Source>> {
    let rate = CellRate::for_sdu_rate(SDU_BIT_S, SDU.into()).context("a rate")?;
    let source = |name, by| Source {
        name,
        by,
        rate,
        each: Each::Pdu,
    };
    let adapter = |idle, cdvt_ns| By::Adapter { idle, cdvt_ns };
    Ok(vec![
        source("a thread that sleeps", By::Thread),
        source("adaptive, CDVT 1 ms", adapter(Idle::Adaptive, CDVT_NS)),
        source(
            "adaptive, CDVT 100 us",
            adapter(Idle::Adaptive, CDVT_SMALL_NS),
        ),
        source("spin", adapter(Idle::Spin, CDVT_NS)),
        Source {
            rate: CellRate::OC3,
            each: Each::Cell,
            ..source("spin, full OC-3", adapter(Idle::Spin, CDVT_NS))
        },
    ])
}

/// A source, and its turns.
struct Measured {
    source: Source,
    /// By repeat; none: void in all tries.
    turns: Vec<Option<Turn>>,
    /// Why tries were void.
    voids: Vec<String>,
}

impl Measured {
    fn new(source: Source) -> Self {
        Self {
            source,
            turns: Vec::new(),
            voids: Vec::new(),
        }
    }

    /// One turn, tried again while it is void.
    fn take_turn(&mut self, window: Duration, cpus: Cpus) -> anyhow::Result<()> {
        let try_once = |_| {
            let turn = self.source.turn(window, cpus).context(self.source.name)?;
            self.voids.extend(turn.void.clone());
            Ok(turn)
        };
        let turn = until_sound(try_once, |turn| turn.void.is_some())?;
        self.turns
            .push(Some(turn).filter(|turn| turn.void.is_none()));
        Ok(())
    }

    /// Whether any turn was not void.
    fn is_any(&self) -> bool {
        self.turns.iter().any(Option::is_some)
    }

    fn spread(&self, of: impl Fn(&Turn) -> f64) -> Spread {
        Spread::of(self.turns.iter().flatten().map(of).collect())
    }

    fn tell(&self, report: &mut Report) {
        let name = self.source.name;
        if let Some(last) = self.voids.last() {
            let count = self.voids.len();
            report.note(format!("{name}: {count} void tries, the last as {last}"));
        }
        let Some(last) = self.turns.iter().flatten().last() else {
            return report.note(format!("{name}: void in all turns, nothing is judged"));
        };
        report.note(format!("{name}: {}", last.paced.scheduling));
        let median = |of: &dyn Fn(&Turn) -> f64| self.spread(of).median;
        let late = |part: f64| median(&|turn: &Turn| turn.lateness.us(part));
        let values = [
            ("p50 us", late(0.5)),
            ("p99 us", late(0.99)),
            ("p99.9 us", late(0.999)),
            ("max us", late(1.0)),
            ("rate ppm", median(&|turn| turn.lateness.rate_error_ppm)),
            ("CPU %", median(&|turn| turn.paced.cpu_percent)),
            ("rests/s", median(&|turn| turn.paced.rests_s)),
            ("stalls", median(&|turn| turn.paced.seen.stalls as f64)),
            ("left out", median(&|turn| turn.paced.seen.left_out as f64)),
        ];
        report.row(name, &values);
    }

    /// The 99th percentile over the turns.
    fn tell_spread(&self, report: &mut Report) {
        let p99 = self.spread(|turn| turn.lateness.us(0.99));
        let values = [
            ("min", p99.min),
            ("q1", p99.q1),
            ("median", p99.median),
            ("q3", p99.q3),
            ("max", p99.max),
        ];
        report.row(&format!("{}: p99 us", self.source.name), &values);
    }

    /// The median ratio of this one's to `theirs` over the turns in which neither was void; none
    /// if there is no such turn.
    fn over(
        &self,
        theirs: &Self,
        what: &str,
        of: impl Fn(&Turn) -> f64,
        report: &mut Report,
    ) -> Option<f64> {
        let pairs = self.turns.iter().zip(&theirs.turns);
        let sound = pairs.filter_map(|(mine, theirs)| Some((mine.as_ref()?, theirs.as_ref()?)));
        let (mine, others): (Vec<_>, Vec<_>) =
            sound.map(|(mine, theirs)| (of(mine), of(theirs))).unzip();
        let times = |source: &Source, ticks| Times {
            name: format!("{what}: {}", source.name),
            ticks,
        };
        let is_any = !mine.is_empty();
        let (mine, others) = (times(&self.source, mine), times(&theirs.source, others));
        is_any.then(|| report.ratio(&mine, &others).median)
    }
}

fn judge(measured: &[Measured], report: &mut Report) {
    let [thread, wide, narrow, spin, line] = measured else {
        return;
    };
    for one in [wide, narrow, spin] {
        let name = one.source.name;
        let is_judged = !std::ptr::eq(one, spin);
        let late = one.over(
            thread,
            "p99 lateness",
            |turn| turn.lateness.us(0.99),
            report,
        );
        let cpu = one.over(thread, "CPU", |turn| turn.paced.cpu_percent, report);
        for (what, ratio, bound) in [("p99 lateness", late, LATE_RATIO), ("CPU", cpu, CPU_RATIO)] {
            if let Some(ratio) = ratio.filter(|_| is_judged) {
                report.ratio_at_most(format!("{name}: {what} over the thread's"), ratio, bound);
            }
        }
    }
    let all = [wide, narrow, spin, line];
    for one in all.into_iter().filter(|one| one.is_any()) {
        let error = one.spread(|turn| turn.lateness.rate_error_ppm).median;
        let name = format!("{}: mean rate error, 10^-6", one.source.name);
        report.rate_at_most(name, error, RATE_ERROR_PPM);
    }
    if line.is_any() {
        let late = line.spread(|turn| turn.lateness.us(0.99)).median;
        let name = format!("{}: p99 lateness, us", line.source.name);
        report.rate_at_most(name, late, LINE_LATE_US);
    }
}
