//! Figures 7 and 8 of paper 003: five guaranteed writers that come and go on a schedule, and one
//! best-effort writer that has what they leave.

use cellgate::CellRate;
use cellgate_core::Time;
use cellgate_core::contract::aal5_cells;
use cellgate_host::clock::MonotonicClock;
use cellgate_report::output::table;
use serde_json::json;

use super::actor::{Promise, Task};
use super::ground::Ground;
use super::pair::{Acted, Cast, Pair};
use super::precision::PREPARE_NS;
use super::rule::{Judgement, flaws};
use super::stalls::Stalls;
use super::{Args, Tried};

/// Octets/s, octets of each SDU, and from when to when in hundredths of the whole.
const WRITERS: [(u64, u16, u64, u64); 5] = [
    (2_000_000, 4_096, 5, 95),
    (4_000_000, 8_192, 15, 55),
    (1_000_000, 2_048, 25, 75),
    (3_000_000, 4_096, 35, 65),
    (2_000_000, 1_024, 45, 85),
];
const BEST_EFFORT_SDU: u16 = 8_192;
const SECONDS: f64 = 120.0;
/// From the opening of a writer to its first SDU.
const OPEN_NS: u64 = 200_000_000;
/// What best effort has to adapt.
const ADAPT_NS: u64 = 100_000_000;
/// The window at whose end best effort's rate is looked at.
const LOOK_NS: u64 = 200_000_000;
/// How exact best effort's share is in such a window, beside one credit.
const EXACT: f64 = 0.05;

pub(super) fn run(args: &Args, ground: &Ground) -> anyhow::Result<Tried> {
    let origin = MonotonicClock.now().plus_ns(PREPARE_NS);
    let whole_ns = args.ns(SECONDS);
    let at = |hundredths: u64| origin.plus_ns(whole_ns / 100 * hundredths);
    let task = |begin, end| Task { origin, begin, end };
    let mut pairs = Vec::new();
    for (number, (octet_s, sdu, from, to)) in (0..).zip(WRITERS) {
        let name = format!("W{}", number + 1);
        let cast = Cast {
            open_at: at(from),
            ..Cast::guaranteed(name, number, Promise::of(octet_s, sdu))
        };
        pairs.push((cast, task(at(from).plus_ns(OPEN_NS), at(to))));
    }
    let best_effort = Cast::best_effort("best effort", WRITERS.len() as u32, BEST_EFFORT_SDU);
    pairs.push((best_effort, task(origin, at(100))));
    let started = pairs.into_iter().map(|(cast, task)| {
        let mut pair = Pair::start(ground, cast)?;
        pair.tell(&task)?;
        Ok((pair, task))
    });
    let started = started.collect::<anyhow::Result<Vec<_>>>()?;
    super::wait_until(origin);
    let watch = ground.watch()?;
    let acted = started.into_iter().map(|(pair, task)| pair.acted(task));
    let acted = acted.collect::<anyhow::Result<Vec<Acted>>>();
    let stalls = watch.end()?;
    let acted = acted?;
    args.draw("Guaranteed writers come and go", &acted)?;
    judged(ground, &acted, &stalls)
}

fn judged(ground: &Ground, acted: &[Acted], stalls: &Stalls) -> anyhow::Result<Tried> {
    let mut rows = vec![head()];
    let mut writers = Vec::new();
    let mut judgements = Vec::new();
    for acted in acted {
        let judgement = acted.judge(stalls);
        rows.push(row(acted, judgement.as_ref()));
        writers.push(acted.with_counts(json!({
            "name": acted.cast.name,
            "sdu": acted.cast.sdu,
            "promised_octet_s": acted.cast.promise.map(|promise| promise.octet_s()),
            "received_octets": acted.received.octets,
            "dismissed_pdus": acted.received.dismissed,
            "windows": judgement.as_ref().map(|judgement| judgement.windows),
            "least": judgement.as_ref().map(|judgement| judgement.least),
            "most": judgement.as_ref().map(|judgement| judgement.most),
            "source_waited_ns": acted.sent.waited_ns,
        })));
        judgements.extend(judgement);
    }
    let line = line_rate(ground)?;
    let segments = segments(acted, line);
    let mut changes = vec![segment_head()];
    let mut shares = Vec::new();
    if let Some(best) = acted.last() {
        judgements.push(Judgement {
            errors: flaws("best effort", &best.received).into_iter().collect(),
            ..Judgement::default()
        });
        for segment in &segments {
            let look = segment.look(acted, best, stalls, line);
            changes.push(look.row(segment, acted[0].task.origin));
            shares.push(json!({
                "at_s": segment.from.since_ns(acted[0].task.origin) as f64 / 1e9,
                "share_octet_s": segment.share,
                "received_octet_s": look.octet_s,
                "settled_ms": look.settled_ms,
            }));
            judgements.push(look.judgement);
        }
    }
    let text = format!("{}\n{}", table(&rows), table(&changes));
    let figures = json!({ "connections": writers, "best_effort": shares });
    Ok(Tried::of(text, figures, judgements, stalls))
}

/// Cells/s of the line between both ends.
fn line_rate(ground: &Ground) -> anyhow::Result<u64> {
    let all = ground.admin()?.interfaces()?;
    let ends = all.iter().filter(|info| {
        info.spec.link.memory_peer().is_some() && ground.ends.contains(&info.spec.name)
    });
    let rates = ends.map(|info| info.spec.line_rate.unwrap_or(CellRate::OC3).cell_s());
    Ok(rates.min().unwrap_or(0).into())
}

/// A time in which the same connections are open.
struct Segment {
    from: Time,
    to: Time,
    /// Octets/s of SDU that best effort has.
    share: f64,
}

/// All of them, in which best effort has time to adapt and to be looked at.
fn segments(acted: &[Acted], line: u64) -> Vec<Segment> {
    let Some(best) = acted.last() else {
        return Vec::new();
    };
    let mut changes = vec![best.task.begin, best.task.end];
    for acted in acted.iter().filter(|acted| acted.cast.promise.is_some()) {
        changes.extend([acted.opened, acted.sent.closed.max(acted.received.closed)]);
    }
    changes.sort_unstable();
    let spans = changes.windows(2).map(|pair| (pair[0], pair[1]));
    let long = spans.filter(|(from, to)| to.since_ns(*from) >= ADAPT_NS + LOOK_NS);
    long.map(|(from, to)| {
        let there = acted.iter().filter(|acted| {
            let closed = acted.sent.closed.max(acted.received.closed);
            acted.opened <= from && closed >= to
        });
        let reserved: u64 = there
            .filter_map(|acted| acted.cast.promise)
            .map(|promise| promise.cell_s)
            .sum();
        let cells = f64::from(aal5_cells(BEST_EFFORT_SDU.into()));
        let share = line.saturating_sub(reserved) as f64 / cells * f64::from(BEST_EFFORT_SDU);
        Segment { from, to, share }
    })
    .collect()
}

/// Octets of best effort's SDUs for which the line has room in a window, beside what has arrived of
/// the guaranteed writers.
fn left(acted: &[Acted], line: u64, from: Time, to: Time) -> f64 {
    let taken = acted.iter().filter_map(|acted| {
        let promise = acted.cast.promise?;
        let octets = acted.received.bins.between(from, to) as f64;
        Some(octets / promise.octet_s() * promise.cell_s as f64)
    });
    let cells = line as f64 * to.since_ns(from) as f64 / 1e9 - taken.sum::<f64>();
    cells / f64::from(aal5_cells(BEST_EFFORT_SDU.into())) * f64::from(BEST_EFFORT_SDU)
}

/// What best effort received in a segment.
struct Look {
    octet_s: f64,
    /// From the change to the first window within the bounds; none: there is none.
    settled_ms: Option<u64>,
    judgement: Judgement,
}

impl Segment {
    /// From [`ADAPT_NS`] after the change, best effort has its share, and what the writers that
    /// are open leave of theirs.
    fn look(&self, acted: &[Acted], best: &Acted, stalls: &Stalls, line: u64) -> Look {
        let bins = &best.received.bins;
        let seconds = LOOK_NS as f64 / 1e9;
        let credit = 10.0 * f64::from(BEST_EFFORT_SDU);
        let off = |from: Time| {
            let to = from.plus_ns(LOOK_NS);
            let octets = bins.between(from, to) as f64;
            let stalled = stalls.within(from, to) as f64 / 1e9;
            let source = best.sent.bins.between(from, to) as f64;
            let ideal = self.share * seconds;
            let most = left(acted, line, from, to).max(ideal);
            let allowed = ideal * EXACT + credit + self.share * stalled;
            let fits = (ideal - allowed..=most + allowed).contains(&octets);
            (fits, octets, source < ideal - allowed)
        };
        let settled = bins
            .windows(self.from, self.to, LOOK_NS)
            .find(|from| off(*from).0);
        let settled_ms = settled.map(|at| at.since_ns(self.from) / 1_000_000);
        let from = self.from.plus_ns(ADAPT_NS);
        let mut judgement = Judgement::default();
        let mut windows = bins.windows(from, self.to, LOOK_NS);
        if let Some(begin) = windows.find(|begin| !off(*begin).0) {
            let (_, octets, source_late) = off(begin);
            let text = format!(
                "best effort had {octets:.0} octets in {seconds} s, {:.0} ms after a change; its \
                 share is {:.0}",
                begin.since_ns(self.from) as f64 / 1e6,
                self.share * seconds
            );
            let waited = best.sent.waited_ns + best.received.waited_ns;
            match source_late && waited > ADAPT_NS {
                true => judgement.void = Some(format!("{text}: its source waited for a CPU")),
                false => judgement.faults.push(text),
            }
        }
        let whole = self.to.since_ns(from) as f64 / 1e9;
        Look {
            octet_s: bins.between(from, self.to) as f64 / whole,
            settled_ms,
            judgement,
        }
    }
}

fn head() -> [String; 7] {
    [
        "writer",
        "SDU",
        "octets/s",
        "sent PDUs",
        "received",
        "worst s",
        "best s",
    ]
    .map(str::to_owned)
}

fn row(acted: &Acted, judgement: Option<&Judgement>) -> [String; 7] {
    let promise = acted.cast.promise;
    let part = |value: Option<f64>| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{:.2} %", value * 100.0))
    };
    [
        acted.cast.name.clone(),
        acted.cast.sdu.to_string(),
        promise.map_or_else(|| "the rest".to_owned(), |p| format!("{:.0}", p.octet_s())),
        acted.sent.pdus.to_string(),
        acted.received.pdus.to_string(),
        part(judgement.map(|judgement| judgement.least)),
        part(judgement.map(|judgement| judgement.most)),
    ]
}

fn segment_head() -> [String; 4] {
    [
        "best effort from s",
        "share octets/s",
        "received",
        "settled ms",
    ]
    .map(str::to_owned)
}

impl Look {
    fn row(&self, segment: &Segment, origin: Time) -> [String; 4] {
        [
            format!("{:.2}", segment.from.since_ns(origin) as f64 / 1e9),
            format!("{:.0}", segment.share),
            format!("{:.0}", self.octet_s),
            self.settled_ms
                .map_or_else(|| "never".to_owned(), |ms| ms.to_string()),
        ]
    }
}
