use cellgate_core::contract::{AbrParameters, CellRate, Part, PrcaParameters};
use cellgate_report::{Check, Claim, Entry, Figure, Outcome, Rational, Table, Value, dec};

use super::{Error, Experiment, Parameter, Progress, Settings};
use crate::machine::abr::{AbrConfig, AbrCounts, Mark, Network, Scheme};
use crate::world::Ps;

/// Greedy sources of ABR that share a link.
pub(in crate::experiments) struct Abr;

/// An E3 line by G.832: 33.92 Mbit/s of cells.
const LINE_CELL_S: u32 = 80_000;
const SOURCES: [u64; 3] = [2, 10, 50];
const MS: u64 = 1_000_000;
/// A round trip, the longest of them.
const ROUND_TRIP_MS: u64 = 20;
/// Round trips until rates are judged.
const SETTLED: u64 = 20;
const QUEUE: u64 = 4_096;
/// Cells before the network answers: of 50 sources the queue has room for them.
const TBE: u32 = 64;
/// Where the switch marks.
const THRESHOLD: u64 = 64;

const TARGET: Parameter = Parameter::whole(
    "target_percent",
    "of the link, for explicit rates (ERICA)",
    95,
    (50, 100),
);
const MILLISECONDS: Parameter = Parameter::whole(
    "milliseconds",
    "virtual time that is judged, per point, ms",
    1_000,
    (200, 20_000),
);

/// Sources with one kind of marks.
struct Point {
    name: &'static str,
    sources: u64,
    counts: AbrCounts,
    span: Ps,
    /// Cells lost and waiting before that.
    begun: AbrCounts,
    /// What they share, in cells/s.
    line: Rational,
    /// Cells that the queue may reach, by arithmetic; none: no bound.
    bound: Option<u64>,
}

impl Point {
    fn rate(&self, cells: u64) -> Rational {
        Rational::from(cells) * dec("1000000000000") / Rational::from(self.span.ps())
    }

    /// The share of the link that is used.
    fn used(&self) -> Rational {
        let used = self.rate(self.counts.taken.iter().sum()) / self.line;
        (used * dec("100")).rounded(2)
    }

    /// How far the sources are from their equal shares, in percent: the farthest, and the mean.
    fn apart(&self) -> [Rational; 2] {
        let share = self.line / Rational::from(self.sources);
        let apart = |cells: &u64| {
            let rate = self.rate(*cells);
            let far = if rate < share {
                share - rate
            } else {
                rate - share
            };
            far / share * dec("100")
        };
        let all: Vec<Rational> = self.counts.taken.iter().map(apart).collect();
        let most = all.iter().copied().fold(Rational::ZERO, Rational::max);
        let sum = all.iter().fold(Rational::ZERO, |sum, one| sum + *one);
        [
            most.rounded(2),
            (sum / Rational::from(self.sources)).rounded(2),
        ]
    }

    fn lost(&self) -> u64 {
        self.begun.lost + self.counts.lost
    }

    fn longest(&self) -> u64 {
        self.begun.longest_queue.max(self.counts.longest_queue)
    }
}

impl Experiment for Abr {
    fn name(&self) -> &'static str {
        "terminals-abr"
    }

    fn source(&self) -> &'static str {
        "High Performance ATM Terminals, sections 2.1 and 5: ABR, made measurable"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const ALL: &[Parameter] = &[TARGET, MILLISECONDS];
        ALL
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let span = Ps::from_ns(settings.whole("milliseconds") * MS);
        let percent = settings.whole("target_percent");
        let mut points = Vec::new();
        for (at, sources) in SOURCES.into_iter().enumerate() {
            points.push(of_explicit_rates(sources, percent, TBE, SETTLED, span));
            points.push(of_marks("EFCI", sources, Mark::Efci(THRESHOLD), span));
            points.push(of_marks("CI", sources, Mark::Ci(THRESHOLD), span));
            points.push(of_prca(sources, span));
            progress.step(at as u64 + 1, SOURCES.len() as u64 + 1);
        }
        let exposed = of_explicit_rates(50, percent, AbrParameters::TBE, 5 * SETTLED, span);
        let silence = Silence::run();
        let checks = checks(&points, &exposed, &silence);
        let tables = vec![table(&points, &exposed), silence_table(&silence)];
        Ok(Outcome {
            tables,
            figures: vec![Figure::of_claims("claims", "ABR", &checks)],
            checks,
            notes: vec![
                "The paper names ABR, its rate that falls and is restored by an FRM cell, and \
                 gives no number. That reads as PRCA (1994); TM 4.0's ABR came after the paper. \
                 The switch, its queue and its marks are ours."
                    .to_owned(),
            ],
        })
    }
}

fn rate(cell_s: u32) -> CellRate {
    CellRate::new(cell_s).unwrap_or(CellRate::OC3)
}

/// Each source is a little nearer than the one before.
fn delays(sources: u64) -> Vec<Ps> {
    let half = ROUND_TRIP_MS * MS / 2;
    let delay = |source| Ps::from_ns(half - half / 2 * source / sources.max(1));
    (0..sources).map(delay).collect()
}

fn config(sources: u64, scheme: Scheme, mark: Mark) -> AbrConfig {
    AbrConfig {
        delays: delays(sources),
        scheme,
        line_cell_s: LINE_CELL_S,
        queue: QUEUE,
        mark,
        silent_from: None,
    }
}

fn parameters(tbe: u32) -> AbrParameters {
    let pcr = rate(LINE_CELL_S);
    AbrParameters {
        icr: AbrParameters::icr_for(pcr, None, tbe, ROUND_TRIP_MS * MS),
        tbe,
        ..AbrParameters::new(pcr)
    }
}

fn point(name: &'static str, config: AbrConfig, share: Rational, settled: u64, span: Ps) -> Point {
    let sources = config.delays.len() as u64;
    let mut network = Network::new(config);
    let begun = network.run(Ps::from_ns(settled * ROUND_TRIP_MS * MS));
    let counts = network.run(span);
    Point {
        name,
        sources,
        counts,
        span,
        begun,
        line: Rational::from(LINE_CELL_S) * share,
        bound: None,
    }
}

fn of_explicit_rates(sources: u64, percent: u64, tbe: u32, settled: u64, span: Ps) -> Point {
    let scheme = Scheme::Tm4(parameters(tbe));
    let share = Rational::from(percent) / dec("100");
    let config = config(sources, scheme, Mark::Er(percent));
    Point {
        bound: Some(QUEUE).filter(|queue| sources * u64::from(tbe) <= *queue),
        ..point("ER", config, share, settled, span)
    }
}

/// Sources that begin with half of the link, and change slowly: all of them together by some
/// sixteenth of it in a round trip, up or down.
fn of_marks(name: &'static str, sources: u64, mark: Mark, span: Ps) -> Point {
    let per_trip = u64::from(LINE_CELL_S) * ROUND_TRIP_MS / 1_000 / 32;
    let parts = |rm_cells: u64| (16 * rm_cells).max(1).next_power_of_two().min(1 << 15);
    let (up, down) = (parts(per_trip), parts(per_trip / sources));
    let tm4 = AbrParameters {
        rif: Part::one_of(up as u32).unwrap_or(Part::LEAST),
        rdf: Part::one_of(down as u32).unwrap_or(Part::SIXTEENTH),
        icr: rate(LINE_CELL_S / 2 / sources as u32),
        ..parameters(AbrParameters::TBE)
    };
    let config = config(sources, Scheme::Tm4(tm4), mark);
    let mut point = point(name, config, dec("1"), 5 * SETTLED, span);
    let heard_ms = match mark {
        Mark::Ci(_) => ROUND_TRIP_MS / 2,
        Mark::Efci(_) | Mark::Er(_) => ROUND_TRIP_MS,
    };
    point.bound = Some(queue_bound(sources, heard_ms, [up, down]));
    point
}

/// How long the queue of marks becomes, by arithmetic, in cells.
///
/// All rates together rise by `a` cells/s in a second. The queue reaches the threshold, and goes on
/// to grow until the marks are heard: after what they take to the sources and back, what waits, and
/// a source's time from one RM cell to the next. Then the rates fall by `b`, and the queue grows on
/// until they are the link's.
fn queue_bound(sources: u64, heard_ms: u64, [up, down]: [u64; 2]) -> u64 {
    let line = f64::from(LINE_CELL_S);
    let per_trip = line * ROUND_TRIP_MS as f64 / 1e3 / 32.0;
    let trip = ROUND_TRIP_MS as f64 / 1e3;
    let a = line * per_trip / up as f64 / trip;
    let b = line * (per_trip / sources as f64) / down as f64 / trip;
    let reached = (2.0 * THRESHOLD as f64 / a).sqrt();
    let mut queue = THRESHOLD as f64;
    // What waits makes the marks later: a few turns settle it.
    for _ in 0..20 {
        let heard = heard_ms as f64 / 1e3 + queue / line + 32.0 * sources as f64 / line;
        let time = reached + heard;
        queue = a * time * time / 2.0 + (a * time) * (a * time) / (2.0 * b);
    }
    queue.ceil() as u64
}

fn of_prca(sources: u64, span: Ps) -> Point {
    let prca = PrcaParameters {
        pcr: rate(LINE_CELL_S),
        mcr: None,
        icr: AbrParameters::icr_for(rate(LINE_CELL_S), None, TBE, ROUND_TRIP_MS * MS),
        n: 32,
        air: Part::LEAST,
        mdf: Part::one_of(4_096).unwrap_or(Part::LEAST),
    };
    let config = config(sources, Scheme::Prca(prca), Mark::Efci(THRESHOLD));
    point("PRCA", config, dec("1"), 5 * SETTLED, span)
}

/// A source whose RM cells do not come back any more.
struct Silence {
    floor_cell_s: u64,
    /// Until it was at its floor, as it was, and by rule 6 alone.
    took_us: u64,
    law_us: u64,
    /// Cells/s a second later.
    after: f64,
}

impl Silence {
    const FLOOR: u32 = 1_000;

    fn run() -> Self {
        let tm4 = AbrParameters {
            mcr: CellRate::new(Self::FLOOR),
            ..parameters(TBE)
        };
        let begin = Ps::from_ns(500 * MS);
        let mut network = Network::new(AbrConfig {
            silent_from: Some(begin),
            ..config(1, Scheme::Tm4(tm4), Mark::Er(95))
        });
        network.run(begin);
        // What is on its way from the switch still comes.
        network.run(Ps::from_ns(ROUND_TRIP_MS * MS / 4));
        let begun = network.allowed(0);
        let law_us = Self::law_us(&tm4, begun);
        let step = Ps::from_ns(100_000);
        let mut took = Ps::ZERO;
        while network.allowed(0) > f64::from(Self::FLOOR) && took < Ps::from_ns(10_000 * MS) {
            network.run(step);
            took = took.plus(step);
        }
        network.run(Ps::from_ns(1_000 * MS));
        Self {
            floor_cell_s: Self::FLOOR.into(),
            took_us: took.ns() / 1_000,
            law_us,
            after: network.allowed(0),
        }
    }

    /// CRM forward RM cells at the rate that was, then a sixteenth less with each: a forward RM
    /// cell is one of 32 cells, or comes after Trm.
    fn law_us(tm4: &AbrParameters, begun: f64) -> u64 {
        let trm = tm4.trm_ns as f64 / 1e9;
        let apart = |rate: f64| (f64::from(tm4.nrm) / rate).min(trm.max(2.0 / rate));
        let mut seconds = f64::from(tm4.crm()) * apart(begun);
        let mut rate = begun;
        while rate > f64::from(Self::FLOOR) {
            rate -= rate / 16.0;
            if rate > f64::from(Self::FLOOR) {
                seconds += apart(rate);
            }
        }
        (seconds * 1e6) as u64
    }
}

fn table(points: &[Point], exposed: &Point) -> Table {
    let mut table = Table::new(
        "shares",
        "Greedy sources on an E3 line, behind 20 round trips of 20 ms (ER), or 100",
        &[
            ("marks", ""),
            ("sources", "sources"),
            ("used_percent", "used, %"),
            ("farthest_percent", "farthest from its share, %"),
            ("mean_percent", "mean, %"),
            ("longest_queue", "longest queue"),
            ("bound", "its bound"),
            ("lost", "lost"),
        ],
    );
    for point in points.iter().chain([exposed]) {
        let [most, mean] = point.apart();
        let default = std::ptr::eq(point, exposed);
        table.row([
            Entry::text(if default {
                "ER, TBE 2^24 - 1"
            } else {
                point.name
            }),
            Entry::number(point.sources, 0),
            Entry::number(point.used(), 1),
            Entry::number(most, 1),
            Entry::number(mean, 1),
            Entry::number(point.longest(), 0),
            match point.bound {
                Some(bound) => Entry::number(bound, 0),
                None => Entry::Empty,
            },
            Entry::number(point.lost(), 0),
        ]);
    }
    table
}

fn silence_table(silence: &Silence) -> Table {
    let mut table = Table::new(
        "silence",
        "A source whose RM cells do not come back",
        &[("what", ""), ("ms", "ms")],
    );
    let ms = |us: u64| Entry::number(Rational::from(us) / dec("1000"), 1);
    table.row([
        Entry::text("until it sends no more than MCR"),
        ms(silence.took_us),
    ]);
    table.row([Entry::text("by CRM and CDF"), ms(silence.law_us)]);
    table
}

fn checks(points: &[Point], exposed: &Point, silence: &Silence) -> Vec<Check> {
    let mut checks = Vec::new();
    for point in points {
        let (name, sources) = (point.name, point.sources);
        let [most, mean] = point.apart();
        let about = |what: &str| format!("{name}, {sources} sources: {what}");
        let claim = |what: &str| Claim::derived("S", &about(what), "");
        let within = |percent: Rational, bound: &str| {
            (
                percent <= dec(bound),
                format!("{}", Value::new(percent, 1, "%")),
            )
        };
        let (used, far) = match name {
            "ER" => ("95", within(most, "5")),
            "PRCA" => continue,
            _ => ("90", within(mean, "10")),
        };
        let enough = point.used() >= dec(used);
        let told = Value::new(point.used(), 1, "%");
        checks
            .push(claim(&format!("at least {used} % are used")).holds(enough, &format!("{told}")));
        let what = match name {
            "ER" => "each within 5 % of its share",
            _ => "within 10 % of their shares in the mean",
        };
        checks.push(claim(what).holds(far.0, &far.1));
        let bound = point.bound.unwrap_or(0);
        let queue = point.longest() <= bound && point.lost() == 0;
        let told = format!("{} of {bound}, {} lost", point.longest(), point.lost());
        checks.push(claim("the queue keeps its bound, no cell is lost").holds(queue, &told));
    }
    let loses = exposed.begun.lost > 0 && exposed.counts.lost == 0;
    let told = format!("{} lost, then {}", exposed.begun.lost, exposed.counts.lost);
    checks.push(
        Claim::shape(
            "S",
            "with TBE 2^24 - 1 all begin at PCR: the queue overflows, and then no more",
            "",
        )
        .holds(loses, &told),
    );
    let near = silence.took_us.abs_diff(silence.law_us) * 100 <= silence.law_us * 5 + 10_000;
    let told = format!("{} us, {} by arithmetic", silence.took_us, silence.law_us);
    checks.push(
        Claim::derived("S", "silence brings a source to MCR by CRM and CDF", "")
            .reading("within 5 %")
            .holds(near, &told),
    );
    let kept = (silence.after - silence.floor_cell_s as f64).abs() < 1.0;
    checks.push(
        Claim::derived("S", "and no lower", "").holds(kept, &format!("{} cells/s", silence.after)),
    );
    checks
}
