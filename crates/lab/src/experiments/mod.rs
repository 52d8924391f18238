//! The papers' tables and figures, one file each, named by paper and figure.
//!
//! ```text
//!  Settings (seed, parameters) -> run -> Outcome: tables, figures, checks, notes
//! ```
//!
//! Equal settings give equal outcomes.

mod cbn;
mod l4atm;
mod policing;
mod settings;
mod terminals;

pub use settings::{Kind, Parameter, SettingError, Settings};

use cellgate_report::Outcome;

use crate::Progress;

/// One table, figure or list of claims of a paper.
pub trait Experiment: Sync {
    /// Its name on the command line and in file names: letters, digits and hyphens.
    fn name(&self) -> &'static str;

    /// Where it stands: `Policing Offloaded, Figure 9`.
    fn source(&self) -> &'static str;

    /// What can be set.
    fn parameters(&self) -> &'static [Parameter] {
        &[]
    }

    /// Runs it. `settings` are of this experiment's parameters.
    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error>;
}

/// Why a run has no outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    text: String,
}

impl Error {
    /// Says what went wrong.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

/// All experiments, in the order of papers and figures.
pub fn all() -> &'static [&'static dyn Experiment] {
    ALL
}

/// The experiment of this name.
pub fn find(name: &str) -> Option<&'static dyn Experiment> {
    ALL.iter()
        .copied()
        .find(|experiment| experiment.name() == name)
}

const ALL: &[&dyn Experiment] = &[
    &policing::Arithmetic,
    &policing::Table1,
    &policing::Figure4,
    &policing::Figure5,
    &policing::Figure6,
    &policing::Figure8,
    &policing::Figure9,
    &policing::Section5,
    &l4atm::Example,
    &l4atm::LambdaLaw,
    &l4atm::Table1,
    &l4atm::Table2,
    &l4atm::Figure5,
    &l4atm::Figure6,
    &l4atm::Figure8,
    &l4atm::Figure9,
    &l4atm::Figure10,
    &cbn::Arithmetic,
    &cbn::Formats,
    &cbn::Tables,
    &cbn::Figure4,
    &cbn::Figure5,
    &cbn::Figure6,
    &cbn::Figure7,
    &cbn::Figure8,
    &cbn::Figure9,
    &cbn::Ram,
    &cbn::Slots,
    &cbn::Overflow,
    &cbn::Interrupts,
    &cbn::Stations,
    &cbn::Direct,
    &cbn::Duplex,
    &cbn::Load,
    &cbn::Foreseen,
    &terminals::Arithmetic,
    &terminals::Figure8,
    &terminals::HardwareCrc,
    &terminals::Polling,
    &terminals::Figure9,
    &terminals::Figure10,
    &terminals::Figure11,
    &terminals::Stacks,
    &terminals::Disk,
    &terminals::Figure12,
    &terminals::Abr,
];
