//! How far a transfer has come, for people who wait.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use cellgate_core::terminal::Entry;
use cellgate_report::output::print_json_line;
use serde_json::{Value, json};

use super::tally::{Tally, shown};

/// How often a terminal shows it, and how often a line is written where there is none.
const ON_TERMINAL: Duration = Duration::from_millis(200);
const IN_LINES: Duration = Duration::from_secs(10);

/// Progress on standard error, and a line for each file on standard output.
pub(super) struct Shown {
    verb: &'static str,
    json: bool,
    terminal: bool,
    begun: Option<Instant>,
    last: Instant,
    /// Characters that are on the terminal.
    wide: usize,
}

impl Shown {
    pub(super) fn new(verb: &'static str, json: bool) -> Self {
        Self {
            verb,
            json,
            terminal: std::io::stderr().is_terminal(),
            begun: None,
            last: Instant::now(),
            wide: 0,
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
    pub(super) fn clear(&mut self) {
        if self.wide > 0 {
            eprint!("\r{:wide$}\r", "", wide = self.wide);
            self.wide = 0;
        }
    }

    /// Tells of a file.
    pub(super) fn tell(&mut self, told: &Value) -> anyhow::Result<()> {
        if self.json {
            print_json_line(told)?;
        } else if let (Some(digest), Some(path)) = (told["blake3"].as_str(), told["path"].as_str())
        {
            self.clear();
            println!("{digest}  {path}");
        }
        Ok(())
    }

    /// Shows how far it has come, now and then.
    pub(super) fn progress(&mut self, tally: &Tally, under_way: impl Fn() -> Vec<(Entry, u64)>) {
        let often = if self.terminal { ON_TERMINAL } else { IN_LINES };
        let Some(begun) = self.begun else { return };
        if self.last.elapsed() < often || self.verb == "ls" {
            return;
        }
        self.last = Instant::now();
        let under_way = under_way();
        let octets = tally.octets + under_way.iter().map(|(_, octets)| octets).sum::<u64>();
        let rate = octets as f64 / begun.elapsed().as_secs_f64().max(1e-9);
        let present = under_way.first().map(|(entry, octets)| {
            let left = (entry.octets() - octets.min(&entry.octets())) as f64 / rate.max(1.0);
            (
                shown(&entry.path),
                100 * octets / entry.octets().max(1),
                left,
            )
        });
        if self.json {
            let present = present.map(|(path, percent, left)| {
                json!({ "path": path, "percent": percent, "seconds_left": left })
            });
            let line = json!({
                "progress": {
                    "files": tally.files,
                    "octets": octets,
                    "octets_s": rate,
                    "present": present,
                }
            });
            let _ = print_json_line(&line);
            return;
        }
        let mut text = format!(
            "{}: {} files, {:.1} x 10^6 octets, {:.1} x 10^6 a second",
            self.verb,
            tally.files,
            octets as f64 / 1e6,
            rate / 1e6
        );
        if let Some((path, percent, left)) = present {
            text += &format!("; {path} {percent} %, {left:.0} s left");
        }
        if self.terminal {
            self.clear();
            let text: String = text.chars().take(78).collect();
            eprint!("{text}");
            self.wide = text.chars().count();
            // Nobody waits for a line that cannot be shown.
            let _ = std::io::stderr().flush();
        } else {
            eprintln!("{text}");
        }
    }
}
