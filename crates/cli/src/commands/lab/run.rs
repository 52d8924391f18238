//! `cellgate lab run`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use cellgate_report::output::{Exit, folded, print, print_json, write_svg};
use cellgate_report::whole::write_whole;
use cellgate_report::{Check, Outcome};
use serde::Serialize;

use super::choice::{Chosen, change, choose};
use crate::progress::Shown;

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate lab run policing-figure-6
  $ cellgate lab run all --out results")]
pub(crate) struct Args {
    /// An experiment, or `all`
    name: String,
    /// Write tables (CSV), figures (SVG, CSV), and everything (text, JSON) into this directory,
    /// over old files
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Change a parameter; `lab list` names them
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = change)]
    changes: Vec<(String, String)>,
    /// What random numbers follow from [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What one experiment left behind.
#[derive(Serialize)]
pub(super) struct Ran {
    pub(super) name: &'static str,
    pub(super) source: &'static str,
    seed: u64,
    pass: bool,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
}

#[derive(Serialize)]
struct Report<'a> {
    experiments: &'a [Ran],
    failed: Vec<Failed<'a>>,
}

/// An experiment with checks that failed.
#[derive(Serialize)]
struct Failed<'a> {
    name: &'static str,
    checks: Vec<&'a str>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let chosen = match choose(&args.name, &args.changes, args.seed) {
        Ok(chosen) => chosen,
        Err(message) => {
            eprintln!("cellgate: {message}");
            return Ok(Exit::Usage);
        }
    };
    if let Some(directory) = &args.out {
        let name = directory.display();
        fs::create_dir_all(directory).with_context(|| name.to_string())?;
    }
    let mut ran = Vec::new();
    for one in &chosen {
        let one = one.run()?;
        if let Some(directory) = &args.out {
            one.write(directory)?;
        }
        if !args.json {
            print(&folded(&one.text()))?;
        }
        ran.push(one);
    }
    let failed = failed(&ran);
    if args.json {
        print_json(&Report {
            experiments: &ran,
            failed,
        })?;
    } else {
        print(&failed_text(&failed))?;
    }
    Ok(exit(&ran))
}

/// Failed if any check of any of them did.
pub(super) fn exit(ran: &[Ran]) -> Exit {
    match ran.iter().all(|one| one.pass) {
        true => Exit::Ok,
        false => Exit::Failed,
    }
}

fn failed(ran: &[Ran]) -> Vec<Failed<'_>> {
    let failed = ran.iter().filter(|one| !one.pass).map(|one| {
        let checks = one.outcome.checks.iter().filter(|check| !check.pass);
        let mut checks: Vec<_> = checks.map(|check: &Check| &*check.id).collect();
        checks.dedup();
        Failed {
            name: one.name,
            checks,
        }
    });
    failed.collect()
}

fn failed_text(failed: &[Failed<'_>]) -> String {
    let lines = failed
        .iter()
        .map(|one| format!("failed: {} ({})\n", one.name, one.checks.join(", ")));
    lines.collect()
}

impl Chosen {
    /// Runs it, and shows how far it has come.
    pub(super) fn run(&self) -> anyhow::Result<Ran> {
        let mut shown = Shown::new(self.experiment.name());
        let outcome = self.experiment.run(&self.settings, &mut shown);
        shown.clear();
        let name = self.experiment.name();
        let outcome = outcome.map_err(|error| anyhow!("{name}: {error}"))?;
        Ok(Ran {
            name,
            source: self.experiment.source(),
            seed: self.settings.seed,
            pass: outcome.passes(),
            outcome,
        })
    }
}

impl Ran {
    fn text(&self) -> String {
        let Self {
            name,
            source,
            outcome,
            ..
        } = self;
        format!("{name}: {source}\n\n{}\n", outcome.to_text())
    }

    /// Writes `NAME.txt`, `NAME.json`, `NAME-TABLE.csv`, `NAME-FIGURE.svg` and
    /// `NAME-FIGURE-figure.csv`.
    fn write(&self, directory: &Path) -> anyhow::Result<()> {
        let name = self.name;
        let put = |file: &str, text: &str| {
            let path = directory.join(file);
            write_whole(&path, text).with_context(|| path.display().to_string())
        };
        put(&format!("{name}.txt"), &self.text())?;
        let json = serde_json::to_string_pretty(self).context("JSON")?;
        put(&format!("{name}.json"), &(json + "\n"))?;
        for table in &self.outcome.tables {
            put(&format!("{name}-{}.csv", table.name), &table.to_csv())?;
        }
        for figure in &self.outcome.figures {
            write_svg(
                &directory.join(format!("{name}-{}.svg", figure.name)),
                figure,
            )?;
            put(
                &format!("{name}-{}-figure.csv", figure.name),
                &figure.to_csv(),
            )?;
        }
        Ok(())
    }
}
