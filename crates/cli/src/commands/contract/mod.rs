//! `cellgate contract`: a contract in canonical form, and what follows from it.

mod assumed;
mod implied;
mod mistake;

use std::path::PathBuf;

use cellgate_core::contract::{CellRate, Strictness, TrafficContract};
use cellgate_report::output::{self, Exit};

use assumed::{Assumed, Said};
use implied::Implied;
use mistake::Mistake;

/// Print a traffic contract in canonical form, and what follows from it.
///
/// What a contract leaves open is as the server has it that runs, on the interface that `on` names,
/// or its only one; else as documented (docs/server.md). The end of what is printed says which.
///
/// Times are rounded up to a nanosecond; `-` stands where a direction has no such thing. Delay and
/// jitter are at most: of the transmit side from a PDU's turn to its last cell, of the receive side
/// from its last cell to its reader (docs/contract.md). They hold while the adapter stands still no
/// longer than is admitted.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The contract, such as cbr,aal5:pcr=48Mbps,max_sdu=8192
    text: String,
    /// `on INTERFACE`: as on this interface of the server
    #[arg(num_args = 0..=2, value_names = ["on", "INTERFACE"])]
    on: Vec<String>,
    /// The server's control socket [default: as for `cellgate vc`]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Take only what libatm takes, and read numbers as it does: beyond 32 bits they wrap
    #[arg(long)]
    strict: bool,
    /// Cells/s of the link: what `max` means [default: the interface's, else one way of an OC-3c]
    #[arg(long, value_name = "CELL_S", value_parser = clap::value_parser!(u32).range(1..))]
    line: Option<u32>,
    /// How late a reader may run, for the receive buffer and the delay [default: wake_up_ns of the
    /// server, else 10 ms]
    #[arg(long, value_name = "NS")]
    wake_up: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let strictness = match args.strict {
        true => Strictness::Strict,
        false => Strictness::Extended,
    };
    let interface = match &args.on[..] {
        [] => None,
        [on, interface] if on == "on" => Some(interface.clone()),
        _ => {
            eprintln!("cellgate: contract: after the contract, `on INTERFACE` alone is known");
            return Ok(Exit::Usage);
        }
    };
    let assumed = Assumed::find(&Said {
        socket: args.socket.clone(),
        interface,
        line: args.line.and_then(CellRate::new),
        wake_up_ns: args.wake_up,
    })?;
    let contract = TrafficContract::parse(&args.text, strictness);
    if let (true, Ok(contract)) = (args.strict, contract) {
        tell_of_wrapping(&args.text, &contract);
    }
    let implied = contract
        .map_err(|error| Mistake::at(error.at, error.kind.to_string()))
        .and_then(|contract| Implied::of(&contract, &assumed, &args.text));
    match implied {
        Ok(implied) if args.json => output::print_json(&implied)?,
        Ok(implied) => output::print(&implied.to_text())?,
        Err(mistake) if args.json => {
            output::print_json(&serde_json::json!({ "error": mistake }))?;
            return Ok(Exit::Usage);
        }
        Err(mistake) => {
            eprint!("{}", mistake.under(&args.text));
            return Ok(Exit::Usage);
        }
    }
    Ok(Exit::Ok)
}

/// That libatm reads something else than is written.
fn tell_of_wrapping(text: &str, libatm: &TrafficContract) {
    match TrafficContract::parse(text, Strictness::Extended) {
        Ok(written) if written == *libatm => {}
        Ok(written) => eprintln!("cellgate: contract: numbers wrap with --strict; else {written}"),
        Err(error) => eprintln!("cellgate: contract: numbers wrap with --strict; else {error}"),
    }
}
