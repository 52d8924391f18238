//! `cellgate lab list`.

use cellgate_lab::experiments::{Experiment, all};
use cellgate_report::output::{Exit, folded, print, print_json};
use serde::Serialize;

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate lab list")]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct List {
    experiments: Vec<Listed>,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    source: &'static str,
    parameters: Vec<ListedParameter>,
}

#[derive(Serialize)]
struct ListedParameter {
    key: &'static str,
    what: &'static str,
    default: String,
    range: String,
}

impl Listed {
    fn of(experiment: &dyn Experiment) -> Self {
        let parameters = experiment.parameters().iter();
        Self {
            name: experiment.name(),
            source: experiment.source(),
            parameters: parameters
                .map(|parameter| ListedParameter {
                    key: parameter.key,
                    what: parameter.what,
                    default: parameter.default_text(),
                    range: parameter.range_text(),
                })
                .collect(),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{:24} {}\n", self.name, self.source);
        for parameter in &self.parameters {
            let ListedParameter {
                key,
                what,
                default,
                range,
            } = parameter;
            text += &format!("    {key}={default}  [{range}]  {what}\n");
        }
        text
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let experiments: Vec<_> = all().iter().map(|one| Listed::of(*one)).collect();
    if args.json {
        print_json(&List { experiments })?;
    } else {
        print(&folded(
            &experiments.iter().map(Listed::text).collect::<String>(),
        ))?;
    }
    Ok(Exit::Ok)
}
