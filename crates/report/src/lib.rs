//! What an experiment leaves behind: tables, figures, and checks against a paper; as text, CSV,
//! SVG, and one HTML page. JSON comes from the types themselves.
//!
//! Checks decide with exact numbers; floats are for drawing only. Commands print and write files
//! with `output` and `whole`; nothing else here does I/O.
#![forbid(unsafe_code)]

mod bands;
mod bars;
pub mod bitrate;
mod check;
mod claims;
mod figure;
mod html;
#[cfg(feature = "output")]
pub mod output;
mod rational;
mod svg;
mod table;
mod text;
#[cfg(feature = "output")]
pub mod whole;

use serde::Serialize;

pub use bands::{Band, BandPanel, Owner};
pub use bars::{Bar, BarGroup};
pub use check::{Check, Claim, Class, Tolerance};
pub use claims::{ClaimRow, Place};
pub use figure::{At, Axis, Content, Figure, Look, Mark, Panel, Scale, Series};
pub use html::{Section, page};
pub use rational::{NotANumber, Rational, dec, grouped};
pub use table::{Column, Entry, Table, Value};

/// What came out of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    pub tables: Vec<Table>,
    pub figures: Vec<Figure>,
    /// The paper's claims against ours.
    pub checks: Vec<Check>,
    /// What a reader must know: calibrated constants, readings, limits.
    pub notes: Vec<String>,
}

impl Outcome {
    /// Whether every check passed.
    pub fn passes(&self) -> bool {
        self.checks.iter().all(|check| check.pass)
    }
}
