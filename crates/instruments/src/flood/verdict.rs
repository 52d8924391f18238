//! How a run with a flood ends.

use cellgate_report::output::Exit;

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
