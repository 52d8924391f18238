//! Another simulator: a program that runs the same network.

use std::ffi::OsStr;

use anyhow::ensure;

use super::super::process::Process;
use super::network::{BIT_S, DELAY_NS, Network};

/// A simulator, and how much faster than it the lab is to be.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) option: &'static str,
    /// What its program is told before the numbers.
    word: Option<&'static str>,
    pub(super) at_least: Option<f64>,
}

pub(super) static KINDS: [Kind; 4] = [
    Kind {
        name: "ns-3, point-to-point devices",
        option: "--ns3",
        word: Some("devices"),
        at_least: Some(10.0),
    },
    Kind {
        name: "ns-3, nothing but its scheduler",
        option: "--ns3",
        word: Some("events"),
        at_least: None,
    },
    Kind {
        name: "NeXosim",
        option: "--nexosim",
        word: None,
        at_least: Some(8.0),
    },
    Kind {
        name: "SimPy, callbacks",
        option: "--simpy",
        word: None,
        at_least: Some(25.0),
    },
];

/// A simulator that runs.
pub(super) struct Peer {
    pub(super) kind: &'static Kind,
    process: Process,
}

impl Peer {
    pub(super) fn spawn(
        kind: &'static Kind,
        program: &OsStr,
        network: &Network,
    ) -> anyhow::Result<Self> {
        let numbers = [
            network.cells(),
            BIT_S,
            1_000 * DELAY_NS,
            network.queue_cells().into(),
        ];
        let word = kind.word.map(str::to_owned);
        let numbers = numbers.into_iter().map(|number| number.to_string());
        let args: Vec<String> = word.into_iter().chain(numbers).collect();
        Ok(Self {
            kind,
            process: Process::spawn(program, &args)?,
        })
    }

    /// Simulates all cells once: the CPU time it took, in ticks.
    pub(super) fn round(&mut self, ns_per_tick: f64) -> u64 {
        (self.process.round() as f64 / ns_per_tick) as u64
    }

    /// Ends it.
    ///
    /// # Errors
    /// It failed, or simulated other than `cells` cells.
    pub(super) fn end(self, cells: u64) -> anyhow::Result<()> {
        let got = self.process.end()?;
        let name = self.kind.name;
        ensure!(
            got == cells,
            "{name}: {got} cells of {cells} reached the sink"
        );
        Ok(())
    }
}
