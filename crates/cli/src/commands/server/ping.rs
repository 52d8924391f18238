//! `cellgate ping`: OAM loopback (I.610).

use std::time::{Duration, Instant};

use cellgate::{Address, Error, PingFlow, Refused};
use cellgate_host::sys::Signals;
use cellgate_report::output::{Exit, print, print_json_line};
use clap::ValueEnum;
use serde::Serialize;

use super::recv::seconds;
use super::{Server, interrupted};

/// Send OAM loopback cells and time their return
///
/// Cells of an F5 flow are answered by the adapter at the other end if the connection is open
/// there; it must be open here, too. Exit code 1 if none comes back. With --json the summary alone
/// is printed.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate ping wan.0.100 -c 5
  $ cellgate ping wan.7.0 --flow f4 --seg")]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
    /// [interface.]vpi.vci; of an F4 flow the VPI counts
    address: Address,
    /// Cells to send [default: until it is interrupted]
    #[arg(short, value_name = "N")]
    count: Option<u64>,
    /// From one cell to the next
    #[arg(short, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// How long a cell may take, at most 10
    #[arg(short = 'W', value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    wait: Duration,
    /// The flow: of the virtual channel or of its path
    #[arg(long, default_value = "f5")]
    flow: Flow,
    /// Within the segment instead of end to end
    #[arg(long)]
    seg: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Flow {
    F4,
    F5,
}

fn flow(flow: Flow, segment: bool) -> (PingFlow, &'static str) {
    match (flow, segment) {
        (Flow::F4, true) => (PingFlow::F4Segment, "F4, segment"),
        (Flow::F4, false) => (PingFlow::F4EndToEnd, "F4, end to end"),
        (Flow::F5, true) => (PingFlow::F5Segment, "F5, segment"),
        (Flow::F5, false) => (PingFlow::F5EndToEnd, "F5, end to end"),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let (flow, words) = flow(args.flow, args.seg);
    let mut admin = args.server.admin()?;
    let signals = Signals::listen()?;
    let json = args.server.json;
    let say = |text: &str| if json { Ok(()) } else { print(text) };
    let mut summary = Summary::default();
    // What the server refuses has no head.
    let head = |sent: u64| match sent {
        0 => say(&format!(
            "PING {} ({words}): OAM loopback cells of I.610\n",
            args.address
        )),
        _ => Ok(()),
    };
    let count = args.count.unwrap_or(u64::MAX);
    for number in 1..=count {
        let began = Instant::now();
        match admin.ping(&args.address, flow, args.wait) {
            Ok(round_trip) => {
                head(summary.sent)?;
                summary.add(Some(round_trip));
                let ms = format!("{:.3}", round_trip.as_secs_f64() * 1e3);
                say(&format!(
                    "cell {number} back from {} in {ms} ms\n",
                    args.address
                ))?;
            }
            Err(Error::Refused(Refused::NoReturn)) => {
                head(summary.sent)?;
                summary.add(None);
                say(&format!(
                    "cell {number} did not come back within {:?}\n",
                    args.wait
                ))?;
            }
            Err(error) => return Err(error.into()),
        }
        if number == count
            || interrupted(
                &signals,
                None,
                args.interval.saturating_sub(began.elapsed()),
            )
        {
            break;
        }
    }
    match json {
        true => print_json_line(&summary.report(&args.address))?,
        false => print(&summary.text(&args.address))?,
    }
    Ok(if summary.returned.is_empty() {
        Exit::Failed
    } else {
        Exit::Ok
    })
}

#[derive(Default)]
struct Summary {
    sent: u64,
    /// Round trips in nanoseconds.
    returned: Vec<u64>,
}

#[derive(Serialize)]
struct Report {
    address: Address,
    cells_sent: u64,
    cells_returned: u64,
    /// None if nothing returned.
    round_trip_ns: Option<RoundTrip>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct RoundTrip {
    min: u64,
    mean: u64,
    max: u64,
}

impl Summary {
    fn add(&mut self, round_trip: Option<Duration>) {
        self.sent += 1;
        let ns = round_trip.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.returned.extend(ns);
    }

    fn round_trip(&self) -> Option<RoundTrip> {
        let sum: u128 = self.returned.iter().copied().map(u128::from).sum();
        Some(RoundTrip {
            min: *self.returned.iter().min()?,
            // A mean is no more than the largest.
            mean: (sum / self.returned.len() as u128) as u64,
            max: *self.returned.iter().max()?,
        })
    }

    fn report(&self, address: &Address) -> Report {
        Report {
            address: address.clone(),
            cells_sent: self.sent,
            cells_returned: self.returned.len() as u64,
            round_trip_ns: self.round_trip(),
        }
    }

    fn text(&self, address: &Address) -> String {
        let returned = self.returned.len() as u64;
        let lost_percent = 100.0 * (self.sent - returned) as f64 / self.sent.max(1) as f64;
        let mut text = format!(
            "--- {address} ---\n{} cells sent, {returned} returned, {lost_percent:.1} % lost\n",
            self.sent
        );
        if let Some(RoundTrip { min, mean, max }) = self.round_trip() {
            let [min, mean, max] = [min, mean, max].map(milliseconds);
            text += &format!("round trip min/mean/max {min}/{mean}/{max} ms\n");
        }
        text
    }
}

fn milliseconds(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_up() {
        let address = "lo.0.32".parse().unwrap();
        let mut summary = Summary::default();
        summary.add(None);
        assert_eq!(summary.round_trip(), None);
        assert!(
            summary
                .text(&address)
                .ends_with("1 cells sent, 0 returned, 100.0 % lost\n")
        );
        for us in [40, 10, 20] {
            summary.add(Some(Duration::from_micros(us)));
        }
        let expected = "--- lo.0.32 ---\n4 cells sent, 3 returned, 25.0 % lost\n\
                        round trip min/mean/max 0.010/0.023/0.040 ms\n";
        assert_eq!(summary.text(&address), expected);
        let report = serde_json::to_value(summary.report(&address)).unwrap();
        assert_eq!(report["round_trip_ns"]["mean"], 23_333);
    }
}
