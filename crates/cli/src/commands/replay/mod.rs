//! `cellgate replay`: the cells of a capture through an adapter.

mod board;
mod contract;
mod host;
mod outcome;
mod recording;
mod survey;
mod twice;

use std::path::PathBuf;

use anyhow::anyhow;
use cellgate_capture::{Error, Record};
use cellgate_core::wire::{HeaderForm, VpiVci};
use cellgate_report::output::{self, Exit};

use crate::captured::aal::AalOption;
use crate::captured::pseudowire::{Labels, PwOption};
use crate::captured::source::Source;
use crate::captured::train::{Shunter, Way};

use contract::{Contracts, Tolerance, VcOption};
use host::Host;
use outcome::Outcome;
use recording::Recording;
use survey::Survey;
use twice::Twice;

/// Send the cells of a capture through an adapter: what a host would have got of them.
///
/// Each VC that the capture names is opened with an idle host behind it, which tolerates what a
/// daemon does: with AAL3/4 if most of its cells look like that, else with AAL5. SDUs and PDUs are
/// cut into cells; the adapter's clock is that of the capture. The exit code is 1 if a record was
/// broken.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate replay capture.pcapng
  $ cellgate replay capture.erf --vc 0.100=cbr:pcr=1000,max_sdu=9180")]
pub(crate) struct Args {
    /// The capture; - is standard input. Of what is no file, at most 1 GiB is replayed
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The contract of every VC, such as cbr:pcr=1000,max_sdu=9180 [default: best effort]
    #[arg(long, value_name = "CONTRACT")]
    contract: Option<String>,
    /// The contract of one VC
    #[arg(long, value_name = "VPI.VCI=CONTRACT")]
    vc: Vec<VcOption>,
    /// What a VC carries: aal0, aal34 or aal5 [default: its contract's, else a guess]
    #[arg(long, value_name = "VPI.VCI=AAL")]
    aal: Vec<AalOption>,
    /// How early cells may be where a contract gives no cdvt=, such as 1ms [default: the daemon's,
    /// 1ms]
    #[arg(long, value_name = "TIME", value_parser = contract::time_ns)]
    cdvt: Option<u64>,
    /// Cells that may come at once though they were sent one by one [default: the daemon's, 29]
    #[arg(long, value_name = "CELLS", value_parser = clap::value_parser!(u16).range(1..))]
    clump: Option<u16>,
    /// Which way the cells went
    #[arg(long, value_enum, default_value_t = Way::Both)]
    way: Way,
    /// Cells have 12 bits of VPI and no GFC [default: 8 bits, but in pseudowires]
    #[arg(long)]
    nni: bool,
    /// What a pseudowire carries: n1, n1-cw, vcc, vpc, aal5-sdu or aal5-pdu [default: a guess]
    #[arg(long, value_name = "LABEL=MODE[@VPI.VCI]")]
    pw: Vec<PwOption>,
    /// A UDP port that carries MPLS, either way, beside 6635
    #[arg(long, value_name = "PORT")]
    udp_port: Vec<u16>,
    /// The VC of SDUs whose capture does not name it
    #[arg(long, value_name = "VPI.VCI")]
    address: Option<VpiVci>,
    /// Write the received SDUs, and the cells at which something was discarded, as pcapng, over an
    /// old file that is not the capture
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let usual = Tolerance::default();
    let tolerance = Tolerance {
        cdvt_ns: args.cdvt.unwrap_or(usual.cdvt_ns),
        clump_cells: args.clump.unwrap_or(usual.clump_cells),
    };
    let contract = args.contract.as_deref();
    let contracts = match Contracts::new(contract, &args.vc, &args.aal, tolerance) {
        Ok(contracts) => contracts,
        Err(message) => {
            eprintln!("cellgate: {message}");
            return Ok(Exit::Usage);
        }
    };
    let form = match args.nni {
        true => HeaderForm::Nni,
        false => HeaderForm::Uni,
    };
    let source = Source::new(&args.file);
    if let Some(out) = args.out.as_deref().filter(|out| source.is_at(out)) {
        return Err(anyhow!("{}: this is the capture itself", out.display()));
    }
    let capture = Twice::new(&source)?;
    let shunter = || {
        Shunter::new(
            args.way,
            form,
            args.address,
            Labels::new(&args.pw, &args.udp_port),
        )
    };
    let survey = survey(&capture, shunter())?;
    let mut host = Host::new(&survey, &contracts)?;
    let mut recording = args.out.as_deref().map(Recording::create).transpose()?;
    let (shunter, broken) = replay(&capture, shunter(), &mut host, &mut recording)?;
    if let Some(recording) = recording {
        recording.finish()?;
    }
    let outcome = Outcome::of(&mut host, &survey, &shunter, tolerance, broken)?;
    match args.json {
        true => output::print_json(&outcome)?,
        false => output::print(&outcome.to_text())?,
    }
    if !outcome.conserved() {
        eprintln!("cellgate: the adapter's counters do not add up");
    }
    let is_empty = outcome.replayed_nothing();
    if is_empty {
        eprintln!(
            "cellgate: nothing was replayed; `cellgate decode` shows what the capture has, `--vc` \
             and `--pw` name what is not known"
        );
    }
    let is_right = broken == 0 && outcome.conserved() && !is_empty;
    Ok(if is_right { Exit::Ok } else { Exit::Failed })
}

/// The VCs of the capture.
fn survey(capture: &Twice, mut shunter: Shunter) -> anyhow::Result<Survey> {
    let mut survey = Survey::default();
    for record in capture.open()?.flatten() {
        shunter.shunt(&record);
        survey.look(shunter.cells(), record.time_ns);
    }
    Ok(survey)
}

/// Sends every record through; the broken ones are named and counted.
fn replay(
    capture: &Twice,
    mut shunter: Shunter,
    host: &mut Host,
    recording: &mut Option<Recording>,
) -> anyhow::Result<(Shunter, u64)> {
    let mut broken = 0;
    for record in capture.open()? {
        match record {
            Ok(record) => one(&record, &mut shunter, host, recording)?,
            Err(error @ (Error::Broken { .. } | Error::Refused(_) | Error::Io { .. })) => {
                broken += 1;
                eprintln!("cellgate: {}: {error}", capture.name());
            }
        }
    }
    host.end();
    Ok((shunter, broken))
}

fn one(
    record: &Record,
    shunter: &mut Shunter,
    host: &mut Host,
    recording: &mut Option<Recording>,
) -> anyhow::Result<()> {
    shunter.shunt(record);
    if shunter.cells().is_empty() {
        return Ok(());
    }
    host.arrive(record.time_ns, shunter.cells(), |arrived| {
        match recording.as_mut() {
            Some(recording) => recording.record(&arrived),
            None => Ok(()),
        }
    })
}
