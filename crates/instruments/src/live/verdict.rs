//! What a trial says, and how it ends.

use cellgate_report::output::{self, Exit};
use serde::Serialize;

/// Results go to standard output, or with `--json` the object alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Voice {
    pub(crate) json: bool,
}

impl Voice {
    /// Shows what is no result of its own.
    pub(crate) fn say(self, text: &str) -> anyhow::Result<()> {
        if self.json {
            eprint!("{text}");
            return Ok(());
        }
        output::print(text)
    }

    /// Prints the object, or the verdict: how the command ends.
    pub(crate) fn end(self, report: &impl Serialize, verdict: &Verdict) -> anyhow::Result<Exit> {
        match self.json {
            true => output::print_json(report)?,
            false => output::print(&format!("\n{}", output::wrapped("", &verdict.text())))?,
        }
        Ok(verdict.exit())
    }
}

/// What a run came to, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Every rule held.
    Pass(String),
    /// One did not.
    Fail(String),
    /// None was broken, but some part of it says nothing.
    Void(String),
}

impl Verdict {
    /// How the command ends: a run that says nothing has not passed.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Pass(_) => Exit::Ok,
            Self::Fail(_) | Self::Void(_) => Exit::Failed,
        }
    }

    /// As it is printed.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Pass(text) => format!("PASS: {text}"),
            Self::Fail(text) => format!("FAIL: {text}"),
            Self::Void(text) => format!("VOID: {text}"),
        }
    }
}
