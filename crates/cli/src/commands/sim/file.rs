//! Scenarios in files.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use cellgate_capture::{Content, InterfaceId, Recorder};
use cellgate_core::wire::{Cell, HeaderForm};
use cellgate_host::server::{at_place, place_of};
use cellgate_lab::world::scenario::{Scenario, TimedCell, Traffic};
use cellgate_lab::world::{CellTrace, Flying, Refusal, Refusals, scenario_of};
use cellgate_report::output::same_file;
use cellgate_report::whole::{create, write_whole};
use serde_json::{Value, json};

use crate::captured::pseudowire::Labels;
use crate::captured::source::Source as Capture;
use crate::captured::train::{Shunter, Way};
use crate::input::read_text;

/// Cells of captures in one scenario.
const CAPTURED_MAX: usize = 4_000_000;
/// Octets of a file: so many cells, written out, fit.
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
    let mut captures = Vec::new();
    let read = if let Some(mut value) = with_captures(path, &text) {
        captures = take_captures(&mut value).with_context(|| name.to_string())?;
        serde_json::from_value(value).map_err(|error| error.to_string())
    } else if is_json(path) {
        serde_json::from_str(&text).map_err(|error| error.to_string())
    } else {
        toml::from_str(&text).map_err(|error| error.to_string())
    };
    let mut scenario: Scenario = read.map_err(|error| anyhow!("{name}: {error}"))?;
    let mut room = CAPTURED_MAX;
    for named in captures {
        let Named {
            source,
            file,
            interface,
        } = named;
        let file = path.parent().unwrap_or(Path::new("")).join(file);
        spare(&file, outs)?;
        let cells = captured(&file, interface, room)?;
        room -= cells.len();
        scenario.sources[source].traffic = Traffic::Cells(cells);
    }
    Ok(scenario)
}

/// The file, if it may name captures: what is wrong in others is told with its place.
fn with_captures(path: &Path, text: &str) -> Option<Value> {
    let value: Value = match is_json(path) {
        true => serde_json::from_str(text).ok()?,
        false => toml::from_str(text).ok()?,
    };
    let sources = value.get("sources")?.as_array()?;
    let named = |source: &Value| source["traffic"]["capture"].is_string();
    sources.iter().any(named).then_some(value)
}

/// A capture that a source names.
struct Named {
    source: usize,
    file: String,
    /// The only interface whose records are sent; none: of all.
    interface: Option<u32>,
}

/// Has each source that names a capture send nothing, and tells what they name.
fn take_captures(value: &mut Value) -> anyhow::Result<Vec<Named>> {
    let sources = value["sources"].as_array_mut();
    let traffics = sources.into_iter().flatten().enumerate();
    let named = traffics.filter_map(|(n, source)| {
        let traffic = source.get_mut("traffic")?;
        let file = traffic.get("capture")?.as_str()?.to_owned();
        let interface = traffic.get("interface");
        let number = interface.and_then(Value::as_u64);
        let number = number.and_then(|number| u32::try_from(number).ok());
        let keys = 1 + usize::from(number.is_some());
        let known = traffic.as_object().is_some_and(|all| all.len() == keys);
        *traffic = json!({ "cells": [] });
        Some(match known {
            true => Ok(Named {
                source: n,
                file,
                interface: number,
            }),
            false => Err(anyhow!(
                "sources.{n}.traffic: other keys than `capture` and the number of an `interface`"
            )),
        })
    });
    named.collect()
}

/// The cells of a capture, from the first one's time on; SDUs and PDUs are cut into cells. Where
/// several interfaces have cells, these may be the same ones at several places: one must be chosen.
fn captured(path: &Path, interface: Option<u32>, room: usize) -> anyhow::Result<Vec<TimedCell>> {
    let name = path.display();
    let mut shunter = Shunter::new(Way::Both, HeaderForm::Nni, None, Labels::default());
    let mut cells = Vec::new();
    let (mut first, mut last) = (None, 0);
    let mut cells_on = None;
    for record in Capture::new(path).open()? {
        let record = record.map_err(|error| anyhow!("{name}: {error}"))?;
        let on = record.interface;
        if interface.is_some_and(|interface| interface != on) {
            continue;
        }
        if matches!(record.content, Content::Cell(_) | Content::CellWithHec(_)) {
            let other = *cells_on.get_or_insert(on);
            if other != on {
                return Err(anyhow!(
                    "{name}: cells on the interfaces {other} and {on}, perhaps the same ones; \
                     `interface = N` chooses one"
                ));
            }
        }
        shunter.shunt(&record);
        // A capture of several interfaces need not be in order; some records have no time.
        last = last.max(record.time_ns.unwrap_or(last));
        for octets in shunter.cells() {
            let at_ns = last - *first.get_or_insert(last);
            let [a, b, c, d, _, payload @ ..] = octets;
            let octets = [&[*a, *b, *c, *d][..], payload].concat();
            cells.push(TimedCell { at_ns, octets });
        }
        if cells.len() > room {
            return Err(anyhow!(
                "{name}: more than {CAPTURED_MAX} cells of captures"
            ));
        }
    }
    match cells.is_empty() {
        true => Err(anyhow!("{name}: no cells")),
        false => Ok(cells),
    }
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
