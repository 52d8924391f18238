//! `cellgate perf`: what a connection carries, in the manner of iperf3.
//!
//! ```text
//!  client                      ADDRESS                         server
//!  begin, data, end  ----------------------------------------> tally
//!  report            <---------------------------------------- ready, report
//!                              VCI + 1
//! ```

mod client;
mod pdu;
mod report;
mod server;
mod tally;
mod verdict;

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use cellgate::{Address, Admin, Builder, Connection, TrafficContract};
use cellgate_core::wire::VpiVci;
use cellgate_host::clock::MonotonicClock;
use cellgate_report::bitrate;
use cellgate_report::output::Exit;

use super::recv::seconds;
use super::transfer::{CONTRACT, Way, one_way, to_send};
use super::{Misuse, Server, growth};
use verdict::Seen;

/// What reports are returned under. They hold less than 1,600 octets.
const REPORT_CONTRACT: &str = "ubr,aal5:max_sdu=2048";

/// Measure rate, loss, delay and jitter of a connection
///
/// Start `perf -s` at one end, then `perf -c ADDRESS` at the other. Reports come back on the next
/// VCI. One-way delay means something only where both ends read one clock: on one machine. Between
/// two it is not shown; jitter is. A client without --bitrate is ahead of its contract: the delay
/// includes the wait for it, which `jitter=low` in the contract makes short. With --json the report
/// of each run is printed, and no lines. Ends with 1 where PDUs were lost, or where a guaranteed
/// rate was missed (that of --bitrate, if it is less), and says then how the adapters of both ends
/// have run. What the receiver's end has thrown away is told by reason.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("end").required(true).args(["serve", "client"])))]
#[command(after_long_help = "\
Examples:
  $ cellgate perf --server --vc b.0.60
  $ cellgate perf -c a.0.60 --contract cbr,aal5:pcr=20Mbps,max_sdu=1500")]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
    /// Be the server, which receives
    #[arg(short, long = "server")]
    serve: bool,
    /// Be the client, and send on this connection
    #[arg(short, long, value_name = "ADDRESS")]
    client: Option<Address>,
    /// The connection that the server receives on
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "0.100",
        conflicts_with = "client"
    )]
    vc: Address,
    /// The connection that reports return on [default: the next VCI]
    #[arg(long, value_name = "ADDRESS")]
    report_vc: Option<Address>,
    /// The contract, the same at both ends
    #[arg(long, value_name = "TEXT", default_value = CONTRACT)]
    contract: String,
    /// How long the client sends
    #[arg(short, long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    time: Duration,
    /// Octets of each SDU, at least 32 [default: as many as the contract allows]
    #[arg(
        short,
        long = "length",
        value_name = "OCTETS",
        conflicts_with = "serve"
    )]
    length: Option<usize>,
    /// Bit/s of SDUs, as 20M [default: what the contract gives]
    #[arg(
        short,
        long,
        value_name = "BIT_S",
        value_parser = bitrate::bit_s,
        conflicts_with = "serve"
    )]
    bitrate: Option<u64>,
    /// Where the client's contract is refused for want of something, begin under what is offered
    /// instead, and take more as soon as there is; what is promised is what it begins with
    #[arg(long, conflicts_with = "serve")]
    grow: bool,
    /// From one line to the next
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// Serve one client, then end
    #[arg(short = '1', long, conflicts_with = "client")]
    one_off: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.client {
        Some(address) => client::run(args, address),
        None => server::run(args),
    }
}

impl Args {
    /// The connections to send and to receive on, opened in this order: first those that receive.
    fn open(&self, data: &Address, way: Way) -> anyhow::Result<Ends> {
        let report = match &self.report_vc {
            Some(address) => address.clone(),
            None => next_vci(data).map_err(Misuse)?,
        };
        let (data, report) = (data.to_string(), report.to_string());
        let contract = one_way(&self.contract, way).map_err(Misuse)?;
        let back = match way {
            Way::Transmit => Way::Receive,
            Way::Receive => Way::Transmit,
        };
        let report_contract = one_way(REPORT_CONTRACT, back).map_err(Misuse)?;
        let connection = |address, contract: TrafficContract| {
            Connection::builder()
                .address(address)
                .contract(contract)
                .socket(self.server.path())
        };
        Ok(match way {
            Way::Transmit => {
                let incoming = connection(report, report_contract).open()?;
                let waiting = to_send(&self.contract);
                let with = |builder: Builder| builder.transmit_pdus(waiting);
                let outgoing = match self.grow {
                    true => growth::open(&contract, |text| {
                        with(connection(data.clone(), contract).contract(text))
                    })?,
                    false => with(connection(data, contract)).open()?,
                };
                Ends { outgoing, incoming }
            }
            Way::Receive => {
                let outgoing = connection(report, report_contract).open()?;
                let incoming = connection(data, contract)
                    .receive_pdus(WAITING_PDUS)
                    .open()?;
                Ends { outgoing, incoming }
            }
        })
    }
}

/// PDUs that may wait for the server.
const WAITING_PDUS: u32 = 256;

struct Ends {
    outgoing: Connection,
    incoming: Connection,
}

fn next_vci(address: &Address) -> Result<Address, String> {
    let next = address.vc.vci().checked_add(1);
    let vc = next.and_then(|vci| VpiVci::new(address.vc.vpi(), vci));
    let vc = vc.ok_or_else(|| format!("{address} has no next VCI; give --report-vc"))?;
    Ok(Address {
        interface: address.interface.clone(),
        vc,
    })
}

/// From one look at what the daemon has seen to the next.
const LOOK: Duration = Duration::from_millis(50);
/// A daemon looks at its adapter once a second at least.
const LOOKS_MAX: u32 = 60;

/// How the adapter of an interface has run, as its daemon saw it when it looked last.
fn seen(admin: &mut Admin, interface: Option<&str>) -> Option<Seen> {
    admin.adapter_of(interface).ok().map(Seen::new)
}

/// The same of a look that began at `at` or later, if that is soon. Connections' counters are as
/// new then.
fn seen_at(admin: &mut Admin, interface: Option<&str>, at: u64) -> Option<Seen> {
    // The first that ends later may have begun before.
    let mut under_way = None;
    for _ in 0..LOOKS_MAX {
        let after = admin.adapter_of(interface).ok()?;
        let ended = after.seen_ns.filter(|seen| *seen >= at);
        if under_way.is_some() && ended > under_way {
            return Some(Seen::new(after));
        }
        under_way = under_way.or(ended);
        sleep(LOOK);
    }
    seen(admin, interface)
}

fn now_ns() -> u64 {
    MonotonicClock.now().ns()
}

/// A number of this machine since it was started; 0 if there is none.
fn machine() -> u64 {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = id
        .chars()
        .filter(char::is_ascii_hexdigit)
        .take(16)
        .collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_return_on_the_next_vci() {
        let next = |text: &str| next_vci(&text.parse().unwrap());
        assert_eq!(next("lo.3.100").unwrap().to_string(), "lo.3.101");
        assert!(next("0.65535").unwrap_err().contains("--report-vc"));
    }
}
