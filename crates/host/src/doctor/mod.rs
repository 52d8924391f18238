//! What of this machine keeps a server from its promises, found without changing anything.
//!
//! ```text
//!  ask     the daemon and its adapter, if there are any  --+
//!  facts   texts of /proc and /sys, limits, sockets      --+-> Facts -- judge --> findings
//!  look    one second of the adapter's CPU, wake-ups     --+
//! ```
//!
//! Only `judge` has an opinion, and it sees nothing but the facts: each of its rules is a function
//! of them. Nothing is found that changes no promise, or that nobody could change.

pub(crate) mod ask;
mod facts;
mod judge;
mod look;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use crate::server::Config;
use crate::sys::WakeUp;

use facts::Facts;
pub use facts::steal;
pub use look::{Looker, look_as_adapter};

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It could be better.
    Note,
    /// A promise may not be kept.
    Warn,
    /// Something that the configuration asks for does not work.
    Fail,
}

impl Level {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One line of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at; names do not change.
    pub subject: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What was found, for people.
    pub text: String,
    /// What of the promises it touches; none where all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promise: Option<String>,
    /// What cures it; none where all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

impl Finding {
    fn ok(subject: &'static str, text: impl Into<String>) -> Self {
        Self {
            subject,
            level: Level::Ok,
            text: text.into(),
            promise: None,
            cure: None,
        }
    }

    fn new(
        level: Level,
        subject: &'static str,
        text: impl Into<String>,
        promise: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        Self {
            subject,
            level,
            text: text.into(),
            promise: Some(promise.into()),
            cure: Some(cure.into()),
        }
    }
}

/// No adapter has the name that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no adapter {name}, but {}", names(known))]
pub struct UnknownAdapter {
    name: String,
    known: Vec<String>,
}

fn names(known: &[String]) -> String {
    match known {
        [] => "one without a name".to_owned(),
        all => all.join(", "),
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The worst of the findings.
    pub worst: Level,
    /// In the order of what they are about.
    pub findings: Vec<Finding>,
    /// The CPU that the adapter has, or would have.
    pub cpu: Option<usize>,
    /// What a wake-up there takes; none: it was not measured.
    pub wake_up: Option<WakeUp>,
    /// The longest that a thread, or the adapter, stood still there within a second.
    pub gap_longest_ns: Option<u64>,
    /// What a look at the clock costs, in nanoseconds.
    pub clock_look_ns: u64,
    /// Of a second of that CPU, in millionths, what other virtual machines had.
    pub steal_ppm: Option<u64>,
    /// How long all of it took.
    pub took_ms: u64,
}

/// Examines this machine for a server with this configuration, or for the one that answers at
/// `socket`, whose configuration counts then. Of several adapters it looks at the one with a name,
/// or at the first. It takes two seconds, about. `program` looks at the adapter's CPU as an adapter
/// would.
pub fn examine(
    config: &Config,
    socket: &Path,
    adapter: Option<&str>,
    program: Looker,
) -> Result<Report, UnknownAdapter> {
    let begun = Instant::now();
    let facts = facts::gather(config, socket, adapter, program)?;
    let findings = judge::judge(&facts);
    Ok(Report {
        worst: findings
            .iter()
            .map(|finding| finding.level)
            .max()
            .unwrap_or(Level::Ok),
        findings,
        cpu: facts.cpu,
        wake_up: facts.look.wake_up.as_ref().ok().copied(),
        gap_longest_ns: facts.look.gap_ns.as_ref().ok().copied(),
        clock_look_ns: facts.look.clock_ns,
        steal_ppm: facts.look.steal_ppm,
        took_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}
