//! `cellgate contract`: a contract in canonical form, and what follows from it.

mod assumed;
mod facts;
mod implied;
mod mistake;
mod need;
mod trial;

use std::path::PathBuf;

use cellgate_core::contract::{CellRate, ContractError, Need, Strictness, TrafficContract};
use cellgate_report::output::{self, Exit};

use assumed::{Assumed, Said};
use implied::Implied;
use mistake::Mistake;
use need::{Answer, Failure};
use trial::Trial;

/// Print a traffic contract in canonical form, and what follows from it; or, with `for`, contracts
/// for what is to be sent.
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
    /// The contract, such as cbr,aal5:pcr=48Mbit/s,max_sdu=8192; or `for`
    text: String,
    /// Behind `for` what is to be sent: video 8Mbit/s 25fps [peak 4x] [latency 100ms] [ts], voice
    /// 64kbit/s 20ms, sensor 100B every 10ms, file 2GB within 60s, ip 10Mbit/s mtu 1500. Then, or
    /// behind a contract, `on INTERFACE`: as on this interface of the server, which is asked
    /// whether there is room
    #[arg(value_name = "NEED... | on INTERFACE")]
    words: Vec<String>,
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

/// What the words say.
enum Asked {
    /// This contract, on an interface or not.
    Contract(Option<String>),
    /// Contracts for this need, likewise.
    For(String, Option<String>),
}

impl Args {
    fn asked(&self) -> Result<Asked, String> {
        let at = self.words.iter().position(|word| word == "on");
        let (words, on) = self.words.split_at(at.unwrap_or(self.words.len()));
        let interface = match on {
            [] => None,
            [_, interface] => Some(interface.clone()),
            _ => return Err("`on` is followed by an interface, and nothing else".to_owned()),
        };
        match (self.text.as_str(), words) {
            ("for", words) => Ok(Asked::For(words.join(" "), interface)),
            (_, []) => Ok(Asked::Contract(interface)),
            (_, [word, ..]) => Err(format!(
                "`{word}`: after the contract, `on INTERFACE` alone is known"
            )),
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let asked = match args.asked() {
        Ok(asked) => asked,
        Err(misuse) => {
            eprintln!("cellgate: contract: {misuse}");
            return Ok(Exit::Usage);
        }
    };
    let (Asked::Contract(interface) | Asked::For(_, interface)) = &asked;
    let (assumed, trial) = Assumed::find(&Said {
        socket: args.socket.clone(),
        interface: interface.clone(),
        line: args.line.and_then(CellRate::new),
        wake_up_ns: args.wake_up,
    })?;
    match asked {
        Asked::Contract(_) => explain(args, &assumed, trial),
        Asked::For(need, _) => match Answer::to(&need, &assumed, trial) {
            Ok(answer) if args.json => output::print_json(&answer).map(|()| Exit::Ok),
            Ok(answer) => output::print(&answer.to_text()).map(|()| Exit::Ok),
            Err(Failure::Mistake(mistake)) => tell(args, &need, &mistake),
            Err(Failure::Other(error)) => Err(error),
        },
    }
}

fn explain(args: &Args, assumed: &Assumed, mut trial: Option<Trial>) -> anyhow::Result<Exit> {
    let strictness = match args.strict {
        true => Strictness::Strict,
        false => Strictness::Extended,
    };
    let contract = TrafficContract::parse(&args.text, strictness);
    if let (true, Ok(contract)) = (args.strict, contract) {
        tell_of_wrapping(&args.text, &contract);
    }
    let implied = match contract {
        Ok(contract) => Implied::of(&contract, assumed, trial.as_mut(), &args.text)?,
        Err(error) => Err(Mistake::at(error.at, meant(&args.text, error))),
    };
    match implied {
        Ok(implied) if args.json => output::print_json(&implied)?,
        Ok(implied) => output::print(&implied.to_text())?,
        Err(mistake) => return tell(args, &args.text, &mistake),
    }
    Ok(Exit::Ok)
}

/// What is wrong, and what was meant where that is a need.
fn meant(text: &str, error: ContractError) -> String {
    let first = text.split_whitespace().next().unwrap_or_default();
    match Need::KINDS.contains(&first) {
        true => format!(
            "{}; did you mean `cellgate contract for {text}`?",
            error.kind
        ),
        false => error.reason(),
    }
}

fn tell(args: &Args, text: &str, mistake: &Mistake) -> anyhow::Result<Exit> {
    match args.json {
        true => output::print_json(&serde_json::json!({ "error": mistake }))?,
        false => eprint!("{}", mistake.under(text)),
    }
    Ok(Exit::Usage)
}

/// That libatm reads something else than is written.
fn tell_of_wrapping(text: &str, libatm: &TrafficContract) {
    match TrafficContract::parse(text, Strictness::Extended) {
        Ok(written) if written == *libatm => {}
        Ok(written) => eprintln!("cellgate: contract: numbers wrap with --strict; else {written}"),
        Err(error) => eprintln!("cellgate: contract: numbers wrap with --strict; else {error}"),
    }
}
