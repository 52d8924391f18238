//! `cellgate lab report`.

use std::path::PathBuf;

use anyhow::Context;
use cellgate_report::output::{Exit, has_folder, print};
use cellgate_report::whole::write_whole;
use cellgate_report::{Section, page};

use super::choice::choose;
use super::run::{Ran, exit};

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate lab report --out lab.html")]
pub(crate) struct Args {
    /// Where to write the page, over an old one
    #[arg(long, value_name = "FILE.html", default_value = "cellgate-lab.html")]
    out: PathBuf,
    /// Of these experiments only; `all`, or its name
    #[arg(default_value = "all")]
    name: String,
    /// What random numbers follow from [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let chosen = match choose(&args.name, &[], args.seed) {
        Ok(chosen) => chosen,
        Err(message) => {
            eprintln!("cellgate: {message}");
            return Ok(Exit::Usage);
        }
    };
    has_folder(&args.out)?;
    let ran: Result<Vec<Ran>, _> = chosen.iter().map(|one| one.run()).collect();
    let ran = ran?;
    let sections: Vec<_> = ran
        .iter()
        .map(|one| Section {
            name: one.name,
            source: one.source,
            outcome: &one.outcome,
        })
        .collect();
    let path = args.out.display();
    let html = page("Cellgate: the papers' experiments", &sections);
    write_whole(&args.out, html).with_context(|| path.to_string())?;
    print(&format!("{path}\n"))?;
    Ok(exit(&ran))
}
