use std::time::{Duration, Instant};

use cellgate_host::sys::Signals;
use cellgate_msna::{Address, Call, Liaison, Notify};
use cellgate_report::output::{Exit, print, print_json_line};
use clap::ValueEnum;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use super::super::recv::seconds;
use super::super::{Server, interrupted};
use super::times::Times;
use super::{Place, told, us};

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate msna ping 10.0.0.2:7 --itf a -c 100")]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// HOST:SAP; access point 7 of `msna serve` sends all back
    to: Address,
    /// Blocks to send
    #[arg(short, value_name = "N", default_value = "10")]
    count: u64,
    /// Octets of a block
    #[arg(
        short,
        value_name = "OCTETS",
        default_value = "64",
        conflicts_with = "cells"
    )]
    size: usize,
    /// Cells of a block, of 46 octets each
    #[arg(long, value_name = "1..255", value_parser = clap::value_parser!(u8).range(1..))]
    cells: Option<u8>,
    /// From one block to the next [default: 0]
    #[arg(short, value_name = "SECONDS", value_parser = seconds)]
    interval: Option<Duration>,
    /// Time for a block to come back
    #[arg(short = 'W', value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    wait: Duration,
    /// The traffic contract, without AAL
    #[arg(long, value_name = "TEXT", default_value = "ubr")]
    contract: String,
    /// The cells of a block that wake its reader, at both ends; polled: none wakes this one
    #[arg(long, default_value = "last")]
    notify: NotifyWord,
    /// Look for so long before sleeping
    #[arg(long, value_name = "US", value_parser = us, default_value = "0")]
    dally: Duration,
}

#[derive(Clone, Copy, ValueEnum)]
enum NotifyWord {
    Every,
    First,
    Last,
    Both,
    Polled,
}

impl Args {
    fn call(&self) -> Call {
        Call {
            contract: self.contract.clone(),
            notify: match self.notify {
                NotifyWord::Every => Notify::Every,
                NotifyWord::First => Notify::First,
                NotifyWord::Last | NotifyWord::Polled => Notify::Last,
                NotifyWord::Both => Notify::Both,
            },
            polled: matches!(self.notify, NotifyWord::Polled),
            from: None,
        }
    }

    fn octets(&self) -> usize {
        self.cells
            .map_or(self.size, |cells| 46 * usize::from(cells))
    }
}

pub(super) fn run(server: &Server, args: &Args) -> anyhow::Result<Exit> {
    let signals = Signals::listen()?;
    let mut node = args.place.node(server, Some(args.to))?;
    let mut liaison = node.connect(args.to, &args.call()).map_err(told)?;
    if !matches!(args.notify, NotifyWord::Polled) {
        liaison.dally(args.dally);
    }
    let mut tally = Tally::new()?;
    let (interval, cpu) = (args.interval.unwrap_or_default(), thread_ns());
    for number in 0..args.count {
        tally.turn(&mut liaison, args, number)?;
        if number + 1 < args.count && interrupted(&signals, None, interval) {
            break;
        }
    }
    let cpu_ns = thread_ns() - cpu;
    let report = tally.report(&liaison, args, cpu_ns);
    match server.json() {
        true => print_json_line(&report)?,
        false => print(&tally.text(&report, args))?,
    }
    drop(liaison);
    Ok(match tally.returned.count() {
        0 => Exit::Failed,
        _ if tally.wrong > 0 => Exit::Failed,
        _ => Exit::Ok,
    })
}

/// The fates of blocks.
struct Tally {
    sent: u64,
    returned: Times,
    lost: u64,
    late: u64,
    wrong: u64,
    block: Vec<u8>,
}

/// Blocks that are known again when they come late.
const LATE: u64 = 64;

/// Octets of a block, which no two blocks in a row share.
fn pattern(number: u64, len: usize) -> impl Iterator<Item = u8> {
    let from = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..len as u64).map(move |at| (from.wrapping_add(at * 0x0101_0101) >> 24) as u8 ^ at as u8)
}

impl Tally {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            sent: 0,
            returned: Times::new()?,
            lost: 0,
            late: 0,
            wrong: 0,
            block: Vec::new(),
        })
    }

    /// Sends a block and waits for it.
    fn turn(&mut self, liaison: &mut Liaison, args: &Args, number: u64) -> anyhow::Result<()> {
        let len = args.octets();
        let sent: Vec<u8> = pattern(number, len).collect();
        let began = Instant::now();
        liaison.send(&sent).map_err(told)?;
        self.sent += 1;
        loop {
            let left = args.wait.saturating_sub(began.elapsed());
            if !liaison.recv(&mut self.block, Some(left)).map_err(told)? {
                self.lost += 1;
                return Ok(());
            }
            if self.block == sent {
                return self.returned.record(began.elapsed());
            }
            let mut before = number.saturating_sub(LATE)..number;
            if before.any(|number| pattern(number, len).eq(self.block.iter().copied())) {
                self.late += 1;
            } else {
                self.wrong += 1;
            }
        }
    }

    fn report(&self, liaison: &Liaison, args: &Args, cpu_ns: u64) -> Value {
        let counters = liaison.counters();
        let each = |total: u64| total as f64 / self.sent.max(1) as f64;
        let mut report = json!({
            "to": args.to.to_string(),
            "access": args.place.access.name(),
            "octets": args.octets(),
            "sent": self.sent,
            "returned": self.returned.count(),
            "lost": self.lost,
            "late": self.late,
            "wrong": self.wrong,
            "sleeps_per_block": each(counters.sleeps),
            "cpu_ns_per_block": each(cpu_ns),
            "cells_discarded": counters.discarded.total(),
        });
        if let Some(report) = report.as_object_mut() {
            report.extend(self.returned.json());
        }
        report
    }

    fn text(&self, report: &Value, args: &Args) -> String {
        let float = |key: &str| report[key].as_f64().unwrap_or_default();
        let mut text = format!(
            "{} blocks of {} octets to {} over {}: {} back, {} lost\n",
            self.sent,
            args.octets(),
            args.to,
            args.place.access.name(),
            self.returned.count(),
            self.lost,
        );
        if self.late + self.wrong > 0 {
            let (late, wrong) = (self.late, self.wrong);
            text += &format!("{late} late, {wrong} with other octets than were sent\n");
        }
        text += &self.returned.text();
        text + &format!(
            "a block: {:.2} sleeps of the reader, {:.1} us of its CPU\n",
            float("sleeps_per_block"),
            float("cpu_ns_per_block") / 1e3
        )
    }
}

/// Time that this thread has run.
fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
