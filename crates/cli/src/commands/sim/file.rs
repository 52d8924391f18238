//! Scenarios in files.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use cellgate_capture::{Direction, Item, Recorder};
use cellgate_core::wire::Cell;
use cellgate_lab::world::scenario::Scenario;
use cellgate_lab::world::{Tape, scenario_of};

/// Where a scenario comes from.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct Source {
    /// The scenario that is drawn from this number
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// The scenario in this file (TOML, or JSON if its name ends so)
    #[arg(long, value_name = "FILE")]
    pub(super) plan: Option<PathBuf>,
}

impl Source {
    pub(super) fn scenario(&self) -> anyhow::Result<Scenario> {
        match &self.plan {
            Some(path) => read(path),
            None => Ok(scenario_of(self.seed.unwrap_or(0))),
        }
    }

    /// The options that name it.
    pub(super) fn words(&self) -> String {
        match (&self.plan, self.seed) {
            (Some(path), _) => format!("--plan {}", path.display()),
            (None, seed) => format!("--seed {}", seed.unwrap_or(0)),
        }
    }
}

fn is_json(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "json")
}

fn read(path: &Path) -> anyhow::Result<Scenario> {
    let name = path.display();
    let text = fs::read_to_string(path).with_context(|| name.to_string())?;
    let read = if is_json(path) {
        serde_json::from_str(&text).map_err(|error| error.to_string())
    } else {
        toml::from_str(&text).map_err(|error| error.to_string())
    };
    read.map_err(|error| anyhow!("{name}: {error}"))
}

/// Writes a scenario as `read` reads it.
pub(super) fn write(path: &Path, scenario: &Scenario) -> anyhow::Result<()> {
    let text = if is_json(path) {
        serde_json::to_string_pretty(scenario)?
    } else {
        toml::to_string(scenario)?
    };
    fs::write(path, text).with_context(|| path.display().to_string())
}

/// Writes what the lines have carried, each cell when it arrived, virtual time from 1970 on.
pub(super) fn write_tape(path: &Path, scenario: &Scenario, tape: &Tape) -> anyhow::Result<()> {
    let name = || path.display().to_string();
    let file = BufWriter::new(File::create(path).with_context(name)?);
    let mut recorder = Recorder::new(file, "cellgate sim").with_context(name)?;
    let names: Vec<[String; 2]> = (scenario.links.iter())
        .map(|link| {
            let [one, other] = &link.ends;
            [format!("{one} -> {other}"), format!("{other} -> {one}")]
        })
        .collect();
    for (line, flying) in tape {
        let [a, b, c, d, _, payload @ ..] = flying.octets;
        let mut octets = [0; 52];
        octets[..4].copy_from_slice(&[a, b, c, d]);
        octets[4..].copy_from_slice(&payload);
        let cell = Cell::parse_without_hec(&octets);
        let item = Item::Cell(&cell);
        let line = names.get(line / 2).map(|names| names[line % 2].as_str());
        recorder
            .record(flying.at.ns(), Direction::Unknown, item, line)
            .with_context(name)?;
    }
    recorder.finish().with_context(name)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_survive_both_kinds_of_file() {
        for seed in 0..40 {
            let scenario = scenario_of(seed);
            let text = toml::to_string(&scenario).expect("a scenario can be written");
            assert_eq!(
                toml::from_str::<Scenario>(&text).as_ref(),
                Ok(&scenario),
                "{text}"
            );
            let text = serde_json::to_string(&scenario).expect("a scenario can be written");
            let read = serde_json::from_str::<Scenario>(&text).expect("what was written");
            assert_eq!(read, scenario);
        }
    }
}
