use cellgate_core::Time;
use cellgate_core::contract::aal5_cells;
use cellgate_core::terminal::Stack;
use cellgate_core::terminal::video::{Camera, CameraTerms, PACK};
use cellgate_core::wire::TS_LEN;
use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    Value, dec,
};

use super::{
    Error, Experiment, PAPER, PairConfig, PairError, Parameter, Pc386Costs, Progress, Settings,
    config, octet_s, thousands,
};
use crate::machine::pc386::{OtherWork, VideoConfig, VideoCounts, video};
use crate::world::Ps;

/// A file and a video on a terminal whose processor has other work.
pub(in crate::experiments) struct Figure12;

const MS: u64 = 1_000_000;
/// Shares of the processor that the terminal has, in percent.
const SHARES: [u64; 6] = [40, 50, 60, 70, 85, 100];
/// Playout buffers that are tried, in ms.
const LATENCIES_MS: [u64; 10] = [10, 20, 40, 60, 80, 120, 160, 200, 250, 300];
/// A buffer deeper than any that is needed, in us.
const MOST_US: u64 = 1_000_000;
/// The playout begins anew where a packet is early by so much.
const EARLY_MS: u64 = 100;
const FPS: u32 = 25;
const PDU_LEN: u16 = 8_192;

const RATE: Parameter = Parameter::whole(
    "video_bit_s",
    "the video, bit/s of transport packets (ours)",
    1_000_000,
    (100_000, 2_500_000),
);
const PERIOD: Parameter = Parameter::whole(
    "period_ms",
    "the other work comes once in so many ms (ours)",
    500,
    (1, 1_000),
);
const MILLISECONDS: Parameter = Parameter::whole(
    "milliseconds",
    "virtual time per point, ms",
    20_000,
    (4_000, 1_000_000),
);

/// A terminal with a share of its processor.
struct Point {
    share: u64,
    /// Octets of the file per second, and what the processor has left for it.
    file: Rational,
    file_law: Rational,
    /// Frames that were late, by the playout buffer, of so many.
    late: Vec<u64>,
    frames: u64,
    /// The shallowest buffer behind which none is late, in us; by arithmetic, and as it was.
    law_us: u64,
    boundary_us: u64,
}

impl Experiment for Figure12 {
    fn name(&self) -> &'static str {
        "terminals-figure-12"
    }

    fn source(&self) -> &'static str {
        "High Performance ATM Terminals, section 7 and Figure 12: a file and a video"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const ALL: &[Parameter] = &[RATE, PERIOD, MILLISECONDS];
        ALL
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let camera = CameraTerms {
            fps: FPS,
            bit_s: settings.whole("video_bit_s"),
            ppm: 0,
            pack: PACK,
            frames: None,
        };
        let length = Ps::from_ns(settings.whole("milliseconds") * MS);
        let alone = alone(length)?;
        let mut points = Vec::new();
        for (at, share) in SHARES.into_iter().enumerate() {
            let other = other_work(settings.whole("period_ms"), share);
            let run = run(camera, other, length)?;
            points.push(Point::of(share, camera, other, &run, alone));
            progress.step(at as u64 + 1, SHARES.len() as u64);
        }
        Ok(Outcome {
            tables: vec![table(&points), late_table(&points)],
            figures: vec![late_figure(&points), file_figure(&points)],
            checks: checks(&points),
            notes: vec![
                "The paper draws Figure 12 without numbers. Here the terminal sends both; its \
                 other work has the processor at the beginning of each period. A display shows a \
                 frame two frames' time behind its first packet, so a buffer of 0 forgives that \
                 much."
                    .to_owned(),
            ],
        })
    }
}

fn other_work(period_ms: u64, share: u64) -> OtherWork {
    let period = Ps::from_ns(period_ms * MS);
    OtherWork {
        period,
        takes: Ps::new(period.ps() / 100 * (100 - share)),
    }
}

fn terminal() -> PairConfig {
    PairConfig {
        stack: Stack::Aal5,
        window: 16 * u64::from(PDU_LEN),
        ..config(Pc386Costs::final_ones(), PAPER, PDU_LEN)
    }
}

fn run(camera: CameraTerms, other: OtherWork, length: Ps) -> Result<VideoCounts, Error> {
    let config = VideoConfig {
        camera,
        file: terminal(),
        with_file: true,
        other,
    };
    video(&config, length).map_err(|error: PairError| Error::new(error.to_string()))
}

/// Octets of the file per second, where it has all of the processor.
fn alone(length: Ps) -> Result<Rational, Error> {
    let config = VideoConfig {
        camera: CameraTerms {
            fps: 1,
            bit_s: 1,
            ppm: 0,
            pack: PACK,
            frames: Some(0),
        },
        file: terminal(),
        with_file: true,
        other: OtherWork::NONE,
    };
    let counts = video(&config, length);
    let counts = counts.map_err(|error: PairError| Error::new(error.to_string()))?;
    Ok(octet_s(&counts.file).rounded(1))
}

/// Work of a PDU of the video, in picoseconds.
fn pdu_ps() -> u64 {
    let costs = Pc386Costs::final_ones();
    let cells = aal5_cells((PACK * TS_LEN) as u32);
    let us = costs.cell * Rational::from(u64::from(cells)) + costs.pdu;
    u64::try_from((us * dec("1000000")).floor()).unwrap_or(0)
}

impl Point {
    fn of(
        share: u64,
        camera: CameraTerms,
        other: OtherWork,
        run: &VideoCounts,
        alone: Rational,
    ) -> Self {
        let late = |us: u64| run.displayed(us * 1_000).late;
        let deepest = run.displayed(MOST_US * 1_000);
        let frames = deepest.on_time + deepest.late;
        // Frames are late at the one, none is at the other.
        let (mut less, mut more) = (0, MOST_US);
        while more - less > 100 {
            let between = (less + more) / 2;
            match late(between) {
                0 => more = between,
                _ => less = between,
            }
        }
        Self {
            share,
            file: octet_s(&run.file).rounded(1),
            file_law: file_law(share, camera, alone),
            late: LATENCIES_MS.map(|ms| late(ms * 1_000)).into(),
            frames,
            law_us: law_us(camera, other, run.begun, frames),
            boundary_us: if deepest.late == 0 { more } else { u64::MAX },
        }
    }

    fn percent_late(&self, at: usize) -> Rational {
        let late = self.late.get(at).copied().unwrap_or(0);
        let share = Rational::from(late * 100).over(Rational::from(self.frames));
        share.unwrap_or(Rational::ZERO).rounded(2)
    }
}

/// What the processor's share leaves to the file, once the video has what it needs.
fn file_law(share: u64, camera: CameraTerms, alone: Rational) -> Rational {
    let group = 12;
    let counting = Camera::new(Time::ZERO, camera);
    let packets: u64 = (0..group)
        .map(|frame| u64::from(counting.packets(frame)))
        .sum();
    let pdus = Rational::from(packets * u64::from(camera.fps));
    let work = pdus * Rational::from(pdu_ps()) / dec("1000000000000");
    let used = work / Rational::from(group * PACK as u64);
    let left = Rational::from(share) / dec("100") - used;
    (alone * left.max(Rational::ZERO)).rounded(1)
}

/// The shallowest buffer that suffices, by arithmetic: each frame's work is done in the order of
/// the frames, as the processor is there for it; and the anchor is what comes soonest before
/// anything is played.
fn law_us(camera: CameraTerms, other: OtherWork, begun: Ps, frames: u64) -> u64 {
    let counting = Camera::new(Time::ZERO, camera);
    let pdu = pdu_ps();
    let mut done = Ps::ZERO;
    let (mut shortest, mut longest) = (Ps::MAX, Ps::ZERO);
    // When each frame was made, and how long its first PDU took.
    let mut firsts = Vec::new();
    for frame in 0..frames {
        let made = frame * 1_000_000_000 / u64::from(camera.fps);
        let made = begun.plus(Ps::from_ns(made));
        let turn = other.done(done.max(made), Ps::ZERO);
        let pdus = u64::from(counting.packets(frame)) / PACK as u64;
        let first = other.done(turn, Ps::new(pdu)).since(made);
        shortest = shortest.min(first);
        firsts.push((made, first));
        done = other.done(turn, Ps::new(pdus * pdu));
        longest = longest.max(done.since(made));
    }
    let forgiven = Ps::from_ns(2 * 1_000_000_000 / u64::from(camera.fps));
    let suffices = |latency: Ps| {
        let mut anchor = Ps::MAX;
        for (made, first) in &firsts {
            let played = begun.plus(anchor).plus(latency);
            if made.plus(*first) >= played {
                break;
            }
            anchor = anchor.min(*first);
        }
        // What comes so much sooner than the anchor is early, and the anchor from then on.
        if anchor.since(shortest) > latency.max(Ps::from_ns(EARLY_MS * MS)) {
            anchor = shortest;
        }
        longest.since(anchor).since(forgiven) <= latency
    };
    let steps = (0..MOST_US).step_by(250);
    let least = steps
        .into_iter()
        .find(|us| suffices(Ps::from_ns(us * 1_000)));
    least.unwrap_or(MOST_US)
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "shares",
        "A file and a video, by the processor's share",
        &[
            ("share_percent", "share, %"),
            ("file_1000_s", "file, 1000/s"),
            ("file_law_1000_s", "its law"),
            ("boundary_ms", "no frame late from, ms"),
            ("boundary_law_ms", "its law"),
        ],
    );
    for point in points {
        let us = |us: u64| Entry::number(Rational::from(us) / dec("1000"), 1);
        table.row([
            Entry::number(point.share, 0),
            Entry::number(point.file / dec("1000"), 1),
            Entry::number(point.file_law / dec("1000"), 1),
            us(point.boundary_us),
            us(point.law_us),
        ]);
    }
    table
}

fn late_table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "late",
        "Frames that are late, %, by playout buffer and share",
        &[
            ("latency_ms", "buffer, ms"),
            ("late_40", "40 %"),
            ("late_50", "50 %"),
            ("late_60", "60 %"),
            ("late_70", "70 %"),
            ("late_85", "85 %"),
            ("late_100", "100 %"),
        ],
    );
    for (at, latency_ms) in LATENCIES_MS.into_iter().enumerate() {
        let late = |of: usize| {
            let point = points.get(of);
            point.map_or(Entry::Empty, |point| {
                Entry::number(point.percent_late(at), 1)
            })
        };
        table.row([
            Entry::number(latency_ms, 0),
            late(0),
            late(1),
            late(2),
            late(3),
            late(4),
            late(5),
        ]);
    }
    table
}

fn late_figure(points: &[Point]) -> Figure {
    let looks = [Look::Dotted, Look::Dashed, Look::Expected];
    let series = [0, 2, 4].into_iter().zip(looks).filter_map(|(of, look)| {
        let point = points.get(of)?;
        let at = |(at, ms): (usize, &u64)| (*ms as f64, point.percent_late(at).to_f64());
        let shown = LATENCIES_MS.iter().enumerate();
        Some(Series::new(
            &format!("{} %", point.share),
            look,
            shown.map(at).collect(),
        ))
    });
    let panel = Panel {
        x: Axis::linear("playout buffer, ms"),
        y: Axis::linear("frames late, %"),
        series: series.collect(),
        marks: Vec::new(),
    };
    Figure::single(
        "late",
        "Frames late, by buffer and share of the processor",
        panel,
    )
}

fn file_figure(points: &[Point]) -> Figure {
    let line = |name: &str, look, of: fn(&Point) -> Rational| {
        let at = |point: &Point| (point.share as f64, thousands(of(point)));
        Series::new(name, look, points.iter().map(at).collect())
    };
    let panel = Panel {
        x: Axis::linear("share of the processor, %"),
        y: Axis::linear("file, 1,000 octets/s"),
        series: vec![
            line("measured", Look::Dotted, |point| point.file),
            line("what is left for it", Look::Expected, |point| {
                point.file_law
            }),
        ],
        marks: Vec::new(),
    };
    Figure::single("file", "The file has what is left", panel)
}

fn checks(points: &[Point]) -> Vec<Check> {
    let mut checks = Vec::new();
    for point in points {
        let share = point.share;
        checks.push(
            Claim::derived(
                "Figure 12.a",
                &format!("the file, of its bottleneck at {share} %"),
                "",
            )
            .reading("determined by the bottleneck, the resources for the stack")
            .number(
                dec("100"),
                Tolerance::Percent(dec("3")),
                &Value::ratio(
                    point.file.over(point.file_law).map(|of| of * dec("100")),
                    1,
                    "%",
                ),
            ),
        );
        let near = point.boundary_us.abs_diff(point.law_us) <= 2_000;
        checks.push(
            Claim::derived(
                "Figure 12.b",
                &format!("the buffer from which no frame is late, at {share} %"),
                "",
            )
            .reading("what the frames' work waits for the processor, within 2 ms")
            .holds(
                near,
                &format!("{} us, {} by arithmetic", point.boundary_us, point.law_us),
            ),
        );
    }
    let vanish = points.iter().all(|point| {
        let mut tried = LATENCIES_MS.iter().zip(&point.late);
        tried.all(|(ms, late)| (*late == 0) == (ms * 1_000 >= point.boundary_us))
    });
    let deeper = points.windows(2).all(|pair| {
        let [less, more] = pair else {
            return true;
        };
        less.boundary_us >= more.boundary_us
    });
    let told = |holds: bool| if holds { "they do" } else { "they do not" };
    checks.push(
        Claim::shape(
            "Figure 12.b",
            "late frames vanish behind that buffer, and not before",
            "fluctuations have to be smoothed out by internal buffering",
        )
        .holds(vanish, told(vanish)),
    );
    checks.push(
        Claim::shape(
            "Figure 12.b",
            "the less of the processor, the deeper the buffer",
            "the matching between resources is critical for the video application",
        )
        .holds(deeper, told(deeper)),
    );
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(share: u64, boundary_us: u64) -> Point {
        Point {
            share,
            file: dec("1000"),
            file_law: dec("1000"),
            late: LATENCIES_MS
                .map(|ms| u64::from(ms * 1_000 < boundary_us))
                .into(),
            frames: 100,
            law_us: boundary_us,
            boundary_us,
        }
    }

    fn failed(change: impl FnOnce(&mut Vec<Point>)) -> Vec<String> {
        let mut points = vec![point(40, 150_000), point(70, 50_000)];
        change(&mut points);
        let checks = checks(&points);
        let failed = checks.iter().filter(|check| !check.pass);
        failed.map(|check| check.what.clone()).collect()
    }

    #[test]
    fn each_claim_fails_when_what_it_judges_is_broken() {
        assert_eq!(failed(|_| {}), [""; 0]);
        let of_file = failed(|points| points[0].file = dec("960"));
        assert!(of_file[0].starts_with("the file, of its bottleneck at 40 %"));
        let of_buffer = failed(|points| points[1].law_us = 53_000);
        assert!(of_buffer[0].starts_with("the buffer from which no frame is late, at 70 %"));
        let vanish = ["late frames vanish behind that buffer, and not before"];
        assert_eq!(failed(|points| points[0].late[9] = 1), vanish);
        assert_eq!(failed(|points| points[0].late[0] = 0), vanish);
        let deeper = ["the less of the processor, the deeper the buffer"];
        assert_eq!(failed(|points| points[0] = point(40, 40_000)), deeper);
    }
}
