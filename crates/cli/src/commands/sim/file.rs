//! Scenarios in files.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use cellgate_capture::{InterfaceId, Recorder};
use cellgate_core::wire::Cell;
use cellgate_host::server::{at_place, place_of};
use cellgate_lab::world::scenario::Scenario;
use cellgate_lab::world::{CellTrace, Flying, Refusal, Refusals, scenario_of};
use cellgate_report::output::same_file;
use cellgate_report::whole::{create, write_whole};
use serde_json::Value;

use super::recorded;
use crate::input::read_text;

/// Octets of a file: as many cells of captures as a scenario may have, written out, fit.
const PLAN_LEN_MAX: u64 = 1 << 30;

/// Mistakes of a scenario that are told.
const TOLD_MAX: usize = 20;

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
    /// Reads it, but no file that one of `outs` leads to.
    pub(super) fn scenario(&self, outs: &[&Path]) -> anyhow::Result<Scenario> {
        match &self.plan {
            Some(path) => read(path, outs),
            None => Ok(scenario_of(self.seed.unwrap_or(0))),
        }
    }

    /// The error that tells all mistakes, a line each, with their places in a file of TOML. Of one
    /// mistake it shows the line.
    pub(super) fn mistakes(&self, refusals: &Refusals) -> anyhow::Error {
        let Some(path) = &self.plan else {
            return anyhow!("{refusals}");
        };
        let name = path.display();
        let text = read_text(path, PLAN_LEN_MAX).unwrap_or_default();
        let all: Vec<&Refusal> = refusals.iter().collect();
        if let [one] = all[..] {
            return match place(&text, one) {
                Some(at) => anyhow!("{name}: {}", at_place(&text, at, &one.to_string())),
                None => anyhow!("{name}: {one}"),
            };
        }
        let told = all
            .iter()
            .take(TOLD_MAX)
            .map(|one| match place(&text, one) {
                Some(at) => format!("{name}:{}: {one}", text[..at].matches('\n').count() + 1),
                None => format!("{name}: {one}"),
            });
        let mut told: Vec<String> = told.collect();
        if let Some(more) = all.len().checked_sub(TOLD_MAX).filter(|more| *more > 0) {
            told.push(format!("and {more} more"));
        }
        anyhow!("{}", told.join("\n"))
    }

    /// The options that name it.
    pub(super) fn words(&self) -> String {
        match (&self.plan, self.seed) {
            (Some(path), _) => format!("--plan {}", word(path)),
            (None, seed) => format!("--seed {}", seed.unwrap_or(0)),
        }
    }
}

/// Where a mistake is in a text: the entry that has it, or the name there that is wrong.
fn place(text: &str, refusal: &Refusal) -> Option<usize> {
    let (list, number) = refusal.key()?;
    let at = place_of(text, &format!("{list}.{number}"))?;
    let name = refusal.name().map(|name| format!("{name:?}"));
    let named = name.and_then(|name| text[at..].find(&name));
    Some(at + named.unwrap_or(0))
}

/// A path as a shell takes it.
pub(super) fn word(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-".contains(c);
    match path.chars().all(plain) {
        true => path,
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

fn is_json(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "json")
}

/// What is read must not be written over.
fn spare(path: &Path, outs: &[&Path]) -> anyhow::Result<()> {
    match outs.iter().find(|out| same_file(path, out)) {
        Some(out) => Err(anyhow!("{}: the scenario is read from it", out.display())),
        None => Ok(()),
    }
}

fn read(path: &Path, outs: &[&Path]) -> anyhow::Result<Scenario> {
    let name = path.display();
    spare(path, outs)?;
    let text = read_text(path, PLAN_LEN_MAX)?;
    let mut value: Value = match is_json(path) {
        true => serde_json::from_str(&text).unwrap_or_default(),
        false => toml::from_str(&text).unwrap_or_default(),
    };
    let captures = recorded::take(&mut value).with_context(|| name.to_string())?;
    // Mistakes in a text are told with their places, which a value has lost.
    let read = match (captures.is_empty(), is_json(path)) {
        (false, _) => serde_json::from_value(value).map_err(|error| error.to_string()),
        (true, true) => serde_json::from_str(&text).map_err(|error| error.to_string()),
        (true, false) => toml::from_str(&text).map_err(|error| error.to_string()),
    };
    let mut scenario: Scenario = read.map_err(|error| anyhow!("{name}: {error}"))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    recorded::put(&mut scenario, &captures, |file| {
        let file = folder.join(file);
        spare(&file, outs).map(|()| file)
    })?;
    Ok(scenario)
}

/// Writes a scenario as `read` reads it.
pub(super) fn write(path: &Path, scenario: &Scenario) -> anyhow::Result<()> {
    let text = if is_json(path) {
        serde_json::to_string_pretty(scenario)?
    } else {
        toml::to_string(scenario)?
    };
    write_whole(path, text).with_context(|| path.display().to_string())
}

/// A file of what the lines carry, each cell when it arrives, virtual time from 1970 on. It is
/// written as the run goes.
pub(super) struct TapeFile<'a> {
    path: &'a Path,
    recorder: Recorder<BufWriter<File>>,
    /// Of each line, in order.
    lines: Vec<InterfaceId>,
    /// The first error: nothing is written from then on.
    failed: Option<io::Error>,
}

impl<'a> TapeFile<'a> {
    pub(super) fn create(path: &'a Path, scenario: &Scenario) -> anyhow::Result<Self> {
        let name = || path.display().to_string();
        let file = BufWriter::new(create(path).with_context(name)?);
        let mut recorder = Recorder::new(file, "cellgate sim").with_context(name)?;
        let names = scenario.links.iter().flat_map(|link| {
            let [one, other] = &link.ends;
            [format!("{one} -> {other}"), format!("{other} -> {one}")]
        });
        let lines: io::Result<_> = names.map(|line| recorder.line(&line)).collect();
        Ok(Self {
            path,
            recorder,
            lines: lines.with_context(name)?,
            failed: None,
        })
    }

    /// Whether all of it was written.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let written = match self.failed {
            Some(error) => Err(error),
            None => self.recorder.finish().map(drop),
        };
        written.with_context(|| self.path.display().to_string())
    }
}

impl CellTrace for TapeFile<'_> {
    fn arrives(&mut self, line: usize, flying: &Flying) {
        if self.failed.is_some() {
            return;
        }
        let [a, b, c, d, _, payload @ ..] = flying.octets;
        let mut octets = [0; 52];
        octets[..4].copy_from_slice(&[a, b, c, d]);
        octets[4..].copy_from_slice(&payload);
        let cell = Cell::parse_without_hec(&octets);
        let written = self
            .recorder
            .record_on(self.lines[line], flying.at.ns(), &cell);
        self.failed = written.err();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use cellgate_capture::{Direction, Item};
    use cellgate_lab::world::scenario::Traffic;

    use super::*;

    const CAPTURED: &str = "duration_ns = 3_000_000\n\
        hosts = [{ name = 'a' }, { name = 'b' }]\n\
        links = [{ ends = ['a', 'b'] }]\n\
        connections = [{ name = 'x', from = 'a', to = 'b', address = '0.32', \
            contract = 'ubr,aal5:max_sdu=1000' }]\n\
        sources = [{ connection = 'x', sdus = [], traffic = { capture = 'x.pcapng' } }]\n";

    #[test]
    fn what_a_capture_has_is_sent_again_at_its_times() {
        let directory = std::env::temp_dir().join(format!("cg-captured-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let plan = directory.join("plan.toml");
        fs::write(&plan, CAPTURED).unwrap();
        let missing = read(&plan, &[]).unwrap_err();
        assert!(format!("{missing:#}").contains("x.pcapng"), "{missing:#}");

        let file = File::create(directory.join("x.pcapng")).unwrap();
        let mut recorder = Recorder::new(file, "a test").unwrap();
        let octets: [u8; 52] = std::array::from_fn(|n| n as u8);
        let cell = Cell::parse_without_hec(&octets);
        for ns in [0, 10_000, 10_000, 70_000] {
            let (at, way) = (5_000_000 + ns, Direction::Unknown);
            recorder.record(at, way, Item::Cell(&cell), None).unwrap();
        }
        recorder.finish().unwrap();
        let over = read(&plan, &[&plan, &directory.join("x.pcapng")]).unwrap_err();
        assert!(over.to_string().contains("is read from it"), "{over:#}");
        assert!(read(&plan, &[&plan]).is_err());
        let read = read(&plan, &[&directory.join("y.pcapng")]).unwrap();
        let Traffic::Cells(cells) = &read.sources[0].traffic else {
            panic!("{:?}", read.sources[0]);
        };
        let times: Vec<u64> = cells.iter().map(|cell| cell.at_ns).collect();
        assert_eq!(times, [0, 10_000, 10_000, 70_000]);
        assert!(cells.iter().all(|cell| cell.octets == octets));

        for beside in [
            "greedy = {}",
            "interface = -1",
            "interface = 0, greedy = {}",
        ] {
            let beside = CAPTURED.replace("capture =", &format!("{beside}, capture ="));
            fs::write(&plan, beside).unwrap();
            let told = super::read(&plan, &[]).unwrap_err();
            assert!(format!("{told:#}").contains("sources.0"), "{told:#}");
        }
        fs::remove_dir_all(&directory).unwrap();
    }

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
