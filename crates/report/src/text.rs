//! Outcomes as text.

use crate::table::side_by_side;
use crate::{Check, Class, Outcome};

/// Headings of the table of checks.
pub(super) const HEADINGS: [&str; 7] = ["id", "what", "class", "paper", "accepted", "ours", ""];

impl Check {
    /// `pass`, `FAIL`, or nothing where nothing is judged.
    pub fn verdict(&self) -> &'static str {
        match (self.class, self.pass) {
            (Class::Lost, true) => "-",
            (_, true) => "pass",
            (_, false) => "FAIL",
        }
    }

    /// What is compared, and in which reading.
    pub(super) fn subject(&self) -> String {
        match &self.reading {
            Some(reading) => format!("{} [{reading}]", self.what),
            None => self.what.clone(),
        }
    }

    pub(super) fn fields(&self) -> [String; 7] {
        [
            self.id.clone(),
            self.subject(),
            self.class.name().to_owned(),
            self.paper.clone(),
            self.accepted.clone(),
            self.ours.clone(),
            self.verdict().to_owned(),
        ]
    }
}

impl Outcome {
    /// Tables, checks and notes.
    pub fn to_text(&self) -> String {
        let mut parts: Vec<_> = self.tables.iter().map(crate::Table::to_text).collect();
        if !self.checks.is_empty() {
            let rows: Vec<_> = self
                .checks
                .iter()
                .map(|check| check.fields().into())
                .collect();
            let headings = HEADINGS.map(str::to_owned);
            parts.push(side_by_side(&headings, &rows, &[false; HEADINGS.len()]));
        }
        if !self.notes.is_empty() {
            let notes = self.notes.iter().map(|note| format!("note: {note}\n"));
            parts.push(notes.collect());
        }
        parts.join("\n")
    }
}
