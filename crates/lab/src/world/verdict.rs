//! What is wrong with a run, if anything.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Ps;

/// What kind of wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Crash,
    /// Something that must happen did not.
    Liveness,
    /// Something happened that must not.
    Correctness,
    /// Two runs of one scenario differ.
    NonDeterminism,
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Its name: `I3`.
    pub invariant: String,
    /// What kind of wrong that is.
    pub kind: Kind,
    /// When it was noticed, virtual time.
    pub at_ns: u64,
    /// What was seen.
    pub text: String,
}

impl Violation {
    pub(crate) fn new(invariant: &str, at: Ps, text: String) -> Self {
        let kind = match invariant {
            "panic" => Kind::Crash,
            "I16" | "I18" | "I21" | "I22" | "I28" | "R11" => Kind::Liveness,
            "I20" => Kind::NonDeterminism,
            _ => Kind::Correctness,
        };
        Self {
            invariant: invariant.into(),
            kind,
            at_ns: at.ns(),
            text,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} ns: {}", self.invariant, self.at_ns, self.text)
    }
}

impl std::error::Error for Violation {}
