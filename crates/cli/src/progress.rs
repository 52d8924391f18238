//! How far a run has come, for people who wait.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use cellgate_lab::Progress;

/// Nothing is shown before, nor more often.
const QUIET: Duration = Duration::from_secs(2);

/// Lines on standard error: one that changes on a terminal, else one every so often.
pub(crate) struct Shown {
    name: &'static str,
    terminal: bool,
    last: Instant,
    /// Characters that are on the terminal.
    wide: usize,
}

impl Shown {
    /// Progress of the experiment of this name, from now on.
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            terminal: std::io::stderr().is_terminal(),
            last: Instant::now(),
            wide: 0,
        }
    }

    /// Takes away what stands on the terminal.
    pub(crate) fn clear(&mut self) {
        if self.wide > 0 {
            eprint!("\r{:wide$}\r", "", wide = self.wide);
            self.wide = 0;
        }
    }
}

impl Progress for Shown {
    fn step(&mut self, done: u64, all: u64) {
        if self.last.elapsed() < QUIET && self.wide == 0 {
            return;
        }
        self.last = Instant::now();
        let text = format!("{}: {done} of {all}", self.name);
        if self.terminal {
            self.clear();
            eprint!("{text}");
            self.wide = text.chars().count();
            // Nobody waits for a line that cannot be shown.
            let _ = std::io::stderr().flush();
        } else {
            eprintln!("{text}");
        }
    }
}
