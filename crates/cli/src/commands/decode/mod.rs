//! `cellgate decode`: what is in a capture, one line for each cell or PDU.

mod aal34;
mod cell;
mod frame;
mod held;
mod line;
mod message;
mod mssar;
mod pdu;
mod report;
mod rex;
mod ring;
mod sdu;
mod sink;
mod stream;

use std::path::PathBuf;

use cellgate_capture::Error;
use cellgate_core::wire::HeaderForm;
use cellgate_report::output::Exit;

use crate::captured::aal::AalChoice;
use crate::captured::pseudowire::{Labels, PwOption};
use crate::captured::source::Source;

use report::Report;
use sink::Sink;

/// Print what is in a capture, one line for each cell or PDU.
///
/// Reads pcapng, pcap, ERF and EyeSDN files: SunATM, ERF, classical IP and RFC 2684, and
/// pseudowires over Ethernet (with VLAN tags), Linux cooked frames, raw IP, PPP and loopback, in
/// MPLS, UDP or GRE. The cells of AAL5 and AAL3/4, and of AAL2, are also put together: a line tells
/// of each PDU or packet. So are those of MSSAR, in ATM cells and in cells of the Cambridge ring
/// (link type 147): a line tells of each block, with what it says in MSNL or REX. A broken record
/// is named and the rest is read; then the exit code is 1.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate decode capture.pcapng
  $ cellgate decode capture.pcap --pw 100=n1-cw --aal 0.101=aal34")]
pub(crate) struct Args {
    /// The capture; - is standard input
    file: PathBuf,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// Cells have 12 bits of VPI and no GFC [default: 8 bits, but in pseudowires]
    #[arg(long)]
    nni: bool,
    /// What a pseudowire carries: n1, n1-cw, vcc, vpc, aal5-sdu or aal5-pdu [default: a guess]
    #[arg(long, value_name = "LABEL=MODE[@VPI.VCI]")]
    pw: Vec<PwOption>,
    /// A UDP port that carries MPLS, either way, beside 6635
    #[arg(long, value_name = "PORT")]
    udp_port: Vec<u16>,
    /// The AAL of a VC, or of all that are not named: aal0, aal1, aal2, aal34, aal5 or mssar
    /// [default: aal5]
    #[arg(long, value_name = "[VPI.VCI=]AAL")]
    aal: Vec<AalChoice>,
    /// Octets of the longest block of MSSAR [default: those of 255 cells]
    #[arg(long, value_name = "OCTETS")]
    max_block: Option<u16>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let source = Source::new(&args.file);
    let mut sink = Sink::new(args.json, source.is_stdin());
    let reader = match source.open() {
        Ok(reader) => reader,
        Err(error) if args.json => {
            sink.refused(&format!("{error:#}"))?;
            return Ok(Exit::Failed);
        }
        Err(error) => return Err(error),
    };
    let form = match args.nni {
        true => HeaderForm::Nni,
        false => HeaderForm::Uni,
    };
    let mut report = Report::new(form, Labels::new(&args.pw, &args.udp_port), &args.aal);
    if let Some(max_block) = args.max_block {
        report.blocks.max_block = max_block;
    }
    let mut exit = Exit::Ok;
    for (number, record) in (1..).zip(reader) {
        let lines = match record {
            Ok(record) => report.record(number, &record),
            Err(error) => {
                exit = Exit::Failed;
                let offset = match &error {
                    Error::Broken { offset, .. } | Error::Io { offset, .. } => *offset,
                    Error::Refused(_) => 0,
                };
                sink.broken(&source.name(), number, offset, &error)?;
                continue;
            }
        };
        if !sink.lines(&lines)? {
            return Ok(exit);
        }
    }
    sink.lines(&report.rest())?;
    sink.finish()?;
    Ok(exit)
}
