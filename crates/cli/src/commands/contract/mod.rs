//! `cellgate contract`: a contract in canonical form, and what follows from it.

mod implied;
mod mistake;

use cellgate_core::contract::{CellRate, Strictness, TrafficContract};
use cellgate_report::output::{self, Exit};

use implied::{Assumptions, Implied};
use mistake::Mistake;

/// Print a traffic contract in canonical form, and what follows from it.
///
/// Times are rounded up to a nanosecond; `-` stands where a direction has no such thing. The delay
/// is what an adapter that rests and the reader add to a PDU that is complete: 250 us at most for
/// the adapter, and what --wake-up says for the reader. Silent events and stalls come on top.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The contract, such as cbr,aal5:pcr=48Mbps,max_sdu=8192
    text: String,
    /// Take only what libatm takes, and read numbers as it does: beyond 32 bits they wrap
    #[arg(long)]
    strict: bool,
    /// Cells/s of the link: what `max` means [default: one way of an OC-3c]
    #[arg(long, value_name = "CELL_S", default_value_t = CellRate::OC3.cell_s(),
          hide_default_value = true, value_parser = clap::value_parser!(u32).range(1..))]
    line: u32,
    /// How late a reader may run, for the receive buffer and the delay [default: 30 ms]
    #[arg(
        long,
        value_name = "NS",
        default_value_t = 30_000_000,
        hide_default_value = true
    )]
    wake_up: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let strictness = match args.strict {
        true => Strictness::Strict,
        false => Strictness::Extended,
    };
    let assumptions = Assumptions {
        line: CellRate::new(args.line).unwrap_or(CellRate::OC3),
        wake_up_ns: args.wake_up,
    };
    let contract = TrafficContract::parse(&args.text, strictness);
    if let (true, Ok(contract)) = (args.strict, contract) {
        tell_of_wrapping(&args.text, &contract);
    }
    let implied = contract
        .map_err(|error| Mistake::at(error.at, error.kind.to_string()))
        .and_then(|contract| Implied::of(&contract, assumptions, &args.text));
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
