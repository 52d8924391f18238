//! How far a transfer has come, for people who wait.

use std::time::{Duration, Instant};

use cellgate_core::terminal::{Entry, Offers, SenderCounts};
use cellgate_report::output::{print, print_json_line};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use super::tally::Tally;
use super::words::shown;

/// How often it is looked at for a terminal and for programs, and how often a line is written where
/// there is neither.
const LOOK: Duration = Duration::from_millis(200);
const IN_LINES: Duration = Duration::from_secs(10);

const ALL: &str = "{prefix} [{bar:30}] {binary_bytes} of {binary_total_bytes}, \
                   {binary_bytes_per_sec}, {eta} left";
const PRESENT: &str = "  {wide_msg}";

/// How far it is.
pub(super) struct Far {
    pub(super) under_way: Vec<(Entry, u64)>,
    pub(super) offers: Offers,
    /// What this try has sent.
    pub(super) sent: SenderCounts,
}

/// Bars on a terminal: for all, and for the file that is under way.
struct Bars {
    all: ProgressBar,
    present: ProgressBar,
}

impl Bars {
    /// None where nobody sees them.
    fn new(verb: &'static str) -> Option<Self> {
        let target = ProgressDrawTarget::stderr();
        if target.is_hidden() {
            return None;
        }
        let style = |template| ProgressStyle::with_template(template).ok();
        let both = MultiProgress::with_draw_target(target);
        let all = both.add(ProgressBar::new(0).with_prefix(verb));
        let present = both.add(ProgressBar::new(0));
        all.set_style(style(ALL)?);
        present.set_style(style(PRESENT)?);
        Some(Self { all, present })
    }

    fn clear(&self) {
        self.present.finish_and_clear();
        self.all.finish_and_clear();
    }
}

/// Progress on standard error, and a line for each file on standard output.
pub(super) struct Shown {
    verb: &'static str,
    json: bool,
    bars: Option<Bars>,
    begun: Option<Instant>,
    last: Instant,
}

impl Shown {
    pub(super) fn new(verb: &'static str, json: bool) -> Self {
        let bars = (!json && verb != "ls").then(|| Bars::new(verb));
        Self {
            verb,
            json,
            bars: bars.flatten(),
            begun: None,
            last: Instant::now(),
        }
    }

    /// A try begins.
    pub(super) fn begins(&mut self) {
        self.begun.get_or_insert_with(Instant::now);
    }

    /// Whether one has.
    pub(super) const fn is_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Takes away what stands on the terminal.
    pub(super) fn clear(&self) {
        if let Some(bars) = &self.bars {
            bars.clear();
        }
    }

    /// Tells of a file.
    pub(super) fn tell(&self, told: &Value) -> anyhow::Result<()> {
        if self.json {
            return print_json_line(told);
        }
        let (Some(digest), Some(path)) = (told["blake3"].as_str(), told["path"].as_str()) else {
            return Ok(());
        };
        let line = format!("{digest}  {path}\n");
        match &self.bars {
            Some(bars) => bars.all.suspend(|| print(&line)),
            None => print(&line),
        }
    }

    /// Shows how far it has come, now and then.
    pub(super) fn progress(&mut self, tally: &Tally, far: impl Fn() -> Far) {
        let is_looked_at = self.bars.is_some() || self.json;
        let often = if is_looked_at { LOOK } else { IN_LINES };
        let Some(begun) = self.begun else { return };
        if self.last.elapsed() < often || self.verb == "ls" {
            return;
        }
        self.last = Instant::now();
        let far = far();
        let under_way = far.under_way.iter().map(|(_, octets)| octets).sum::<u64>();
        let octets = tally.octets + under_way;
        let rate = octets as f64 / begun.elapsed().as_secs_f64().max(1e-9);
        let first = far.under_way.first();
        if self.json {
            let mut sent = tally.sent;
            sent += far.sent;
            let present = first.map(|(entry, octets)| {
                json!({ "path": shown(&entry.path), "octets": octets, "of": entry.octets() })
            });
            // Whoever does not read it any more is told of by the next file.
            let _ = print_json_line(&json!({
                "progress": {
                    "files": tally.files,
                    "octets": octets,
                    "offered": far.offers.octets,
                    "offered_all": far.offers.is_all,
                    "octets_s": rate,
                    "sent": sent.octets,
                    "sent_again": sent.octets_again,
                    "present": present,
                }
            }));
            return;
        }
        let present = first.map(|(entry, octets)| present(entry, *octets));
        if let Some(bars) = &self.bars {
            let there = octets + tally.there_octets;
            bars.all.set_length(far.offers.octets.max(there));
            bars.all.set_position(there);
            bars.present.set_message(present.unwrap_or_default());
            return;
        }
        let mut text = format!(
            "{}: {} files, {:.1} x 10^6 octets, {:.1} x 10^6 a second",
            self.verb,
            tally.files,
            octets as f64 / 1e6,
            rate / 1e6
        );
        if far.offers.is_all && far.offers.octets > octets {
            let left = (far.offers.octets - octets) as f64 / rate.max(1.0);
            text += &format!(", {left:.0} s left");
        }
        if let Some(present) = present {
            text += &format!("; {present}");
        }
        eprintln!("{text}");
    }
}

/// A file, and how much of it is there.
fn present(entry: &Entry, octets: u64) -> String {
    let path = shown(&entry.path);
    match entry.octets() {
        0 => format!("{path}, {:.1} x 10^6 octets", octets as f64 / 1e6),
        of => format!("{path} {} %", u128::from(octets) * 100 / u128::from(of)),
    }
}
