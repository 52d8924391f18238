//! `cellgate relay`: what comes on one connection leaves on another, without a copy.

use std::time::{Duration, Instant};

use anyhow::Context;
use cellgate::{Address, Chain, ChainCounters, Connection, Error};
use cellgate_host::sys::Signals;
use cellgate_report::output::{Exit, print_json_line};
use serde_json::json;

use super::lost::Lost;
use super::recv::seconds;
use super::transfer::{CONTRACT, Way, one_way};
use super::{Misuse, Server, interrupted};
use crate::completion;

/// How long what was handed to the adapter may take to leave.
const LINGER: Duration = Duration::from_secs(30);
/// How long a wait is that looks for signals between.
const LOOK: Duration = Duration::from_millis(50);
/// PDUs that come without a wait from one look for signals to the next.
const LOOK_PDUS: u64 = 256;

/// Send on one connection what is received on another, PDU by PDU, without a copy
///
/// The adapter puts each PDU together in the transmit buffer of the second connection, which it
/// leaves from. Only a PDU that wraps around the buffer's end is copied, about one in a turn of the
/// buffer. Both connections exist as long as the command runs: until --timeout, or until it is
/// interrupted. Then it is told what was sent on, what was copied, and which PDUs were thrown away,
/// by reason. Exit code 1 with --strict where one was thrown away.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate relay b.0.60 a.0.70 cbr,aal5:pcr=40Mbps,max_sdu=8192 --strict")]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
    /// The connection that receives: [interface.]vpi.vci
    #[arg(add = completion::addresses())]
    from: Address,
    /// The connection that sends, at the same adapter
    #[arg(add = completion::addresses())]
    to: Address,
    /// The contract of both: the first receives under it, the second sends
    #[arg(default_value = CONTRACT, value_name = "TEXT")]
    contract: String,
    /// End when nothing has come for so long
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Fail if a PDU was thrown away
    #[arg(long)]
    strict: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut chain = open(args)?;
    let signals = Signals::listen()?;
    // For whoever starts the sender.
    eprintln!(
        "relaying from {} to {} under {}",
        args.from,
        args.to,
        chain.from().contract()
    );
    let relayed = relay(&mut chain, args.timeout, &signals);
    let counters = chain.counters();
    if let Err(error) = relayed {
        eprintln!("cellgate: {}", words(&counters));
        return Err(error.into());
    }
    let dismissed = chain.from().dismissed();
    let (from, _) = chain.close(LINGER)?;
    let lost = Lost {
        discarded: from.pdus_discarded,
        dismissed,
    };
    match args.server.json() {
        true => print_json_line(&json!({
            "from": args.from,
            "to": args.to,
            "pdus": counters.pdus,
            "octets": counters.octets,
            "copies": counters.copies,
            "unsendable": counters.unsendable,
            "discarded": lost.discarded,
            "dismissed": lost.dismissed,
        }))?,
        false => eprintln!("{}", words(&counters)),
    }
    if lost.pdus() > 0 {
        eprintln!("cellgate: {}", lost.words());
    }
    let is_whole = lost.pdus() + counters.unsendable == 0;
    Ok(match args.strict && !is_whole {
        true => Exit::Failed,
        false => Exit::Ok,
    })
}

fn words(counters: &ChainCounters) -> String {
    let ChainCounters {
        pdus,
        octets,
        copies,
        unsendable,
        ..
    } = counters;
    format!("{pdus} PDUs of {octets} octets sent on, {copies} copied, {unsendable} unsendable")
}

/// Joins the two. The room that the first needs is what the daemon gives it for itself.
fn open(args: &Args) -> anyhow::Result<Chain> {
    let receives = one_way(&args.contract, Way::Receive).map_err(Misuse)?;
    let sends = one_way(&args.contract, Way::Transmit).map_err(Misuse)?;
    let builder = || Connection::builder().socket(args.server.path());
    let from = builder().address(&args.from).contract(receives);
    let alone = from.open().with_context(|| args.from.to_string())?;
    let room = alone.info()?.buffers.receive_octets;
    let max_sdu = u64::from(alone.receive_max_sdu().ok_or(Error::DoesNotReceive)?);
    alone.close(Duration::ZERO)?;
    // Of its buffer the second keeps room for a PDU that wraps, in whole pages.
    let pdus = room.div_ceil(max_sdu) + PAGES.div_ceil(max_sdu) + 2;
    let to = builder().address(&args.to).contract(sends);
    let to = to.transmit_pdus(u32::try_from(pdus).unwrap_or(u32::MAX));
    let to = to.open().with_context(|| args.to.to_string())?;
    let from = from.receive_into(&to)?.open();
    Ok(Chain::new(
        from.with_context(|| args.from.to_string())?,
        to,
    )?)
}

/// Two pages: that of the PDU that wraps, and that of the buffer, are filled up.
const PAGES: u64 = 2 << 12;

fn relay(chain: &mut Chain, timeout: Option<Duration>, signals: &Signals) -> Result<(), Error> {
    let is_interrupted = || interrupted(signals, None, Duration::ZERO);
    let mut since = Instant::now();
    loop {
        match chain.forward_timeout(LOOK) {
            Ok(_) => {
                since = Instant::now();
                if chain.counters().pdus.is_multiple_of(LOOK_PDUS) && is_interrupted() {
                    return Ok(());
                }
            }
            Err(Error::TimedOut) => {
                let is_over = timeout.is_some_and(|timeout| since.elapsed() >= timeout);
                if is_over || is_interrupted() {
                    return Ok(());
                }
            }
            Err(error) => return Err(error),
        }
    }
}
