//! `cellgate run`: a program with CPU time of its own.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::Context;
use cellgate::{Address, Admin};
use cellgate_core::TimeWord;
use cellgate_host::sys::{Heard, Signals, demote};
use cellgate_report::output::Exit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use super::{Server, usage};

/// From one try to have a server that has come back reserve the time again to the next.
const AGAIN: Duration = Duration::from_millis(500);

/// Run a program with CPU time of its own
///
/// The server admits the time out of what it has for its workers, or refuses, and PROGRAM is not
/// begun. Within it PROGRAM's main thread is real-time, and comes before whatever has nothing
/// reserved; beyond it the thread is scheduled as any other until it has credit again. Its other
/// threads and the programs that it starts have nothing of it. The time is given back when PROGRAM
/// ends, or the connection of --vc closes. Exit code that of PROGRAM, 128 and the signal's number
/// if a signal has ended it.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate run --reserve 5% --vc wan.0.100 -- ./player
  $ cellgate run --reserve 2ms --period 20ms -- ./player")]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
    /// How much of each period, as 5% of a CPU or as a time (500us)
    #[arg(long, value_name = "SHARE")]
    reserve: Share,
    /// The period that --reserve is a part of, from 1ms to 1s
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    period: TimeWord,
    /// The connection that the time ends with: [interface.]vpi.vci
    #[arg(long, value_name = "ADDRESS")]
    vc: Option<Address>,
    /// The program to run, and its arguments
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// A part of a period.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Share {
    Percent(f64),
    Time(TimeWord),
}

impl std::str::FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "expected a share of a CPU, as 5%, or a time, as 500us".to_owned();
        match text.strip_suffix('%') {
            Some(percent) => match percent.parse() {
                Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(Self::Percent(percent)),
                _ => Err("expected more than 0% and 100% at most".to_owned()),
            },
            None => match text.parse() {
                Ok(TimeWord(0)) | Err(_) => Err(wrong()),
                Ok(time) => Ok(Self::Time(time)),
            },
        }
    }
}

impl Share {
    fn of(self, period: Duration) -> Duration {
        match self {
            Self::Percent(percent) => period.mul_f64(percent / 100.0),
            Self::Time(TimeWord(ns)) => Duration::from_nanos(ns),
        }
    }
}

/// The CPU time that a server is asked for.
struct Wanted<'a> {
    args: &'a Args,
    times: (Duration, Duration),
}

impl Wanted<'_> {
    fn ask(&self, admin: &mut Admin, thread: u32) -> Result<String, cellgate::Error> {
        admin.reserve_cpu(thread, self.times, self.args.vc.clone())
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let period = Duration::from_nanos(args.period.0);
    let wanted = Wanted {
        args,
        times: (args.reserve.of(period), period),
    };
    if wanted.times.0 > period {
        let text = format!(
            "--reserve is longer than --period, which is {}",
            args.period
        );
        usage(Err(text))?;
    }
    let mut admin = args.server.admin()?;
    let signals = Signals::listen()?;
    // A refusal comes before the program begins: this thread has the time first, and a process that
    // it starts has nothing of it.
    wanted.ask(&mut admin, std::process::id())?;
    let (program, arguments) = args.program.split_first().context("nothing to run")?;
    let begun = Command::new(program).args(arguments).spawn();
    let name = program.to_string_lossy();
    let mut child = begun.with_context(|| format!("running {name}"))?;
    let scheduled = wanted.ask(&mut admin, child.id());
    let scheduled = scheduled.inspect_err(|_| drop(child.kill()))?;
    eprintln!("cellgate: {name} has {}: {scheduled}", args.words());
    let status = watch(&wanted, admin, &mut child, &signals)?;
    Ok(code(status))
}

impl Args {
    fn words(&self) -> String {
        match self.reserve {
            Share::Percent(percent) => format!("{percent}% of a CPU, each {}", self.period),
            Share::Time(time) => format!("{time} of a CPU in each {}", self.period),
        }
    }
}

/// Waits for the program's end. A server that comes back is asked again.
fn watch(
    wanted: &Wanted<'_>,
    admin: Admin,
    child: &mut Child,
    signals: &Signals,
) -> anyhow::Result<ExitStatus> {
    let mut server = Some(admin);
    let mut asked = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
        fds.extend(
            server
                .iter()
                .map(|admin| PollFd::from_borrowed_fd(admin.as_fd(), PollFlags::IN)),
        );
        let timeout = server.is_none().then_some(AGAIN);
        let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
        // A wait that a signal ends is over.
        let _ = poll(&mut fds, timeout.as_ref());
        let has_gone = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        if has_gone {
            // The next server knows nothing of what this one has promised, and nobody holds the
            // program to its budget now.
            server = None;
            demote(child.id());
            eprintln!(
                "cellgate: the server has gone, and the CPU time with it, until one is there again"
            );
        }
        if server.is_none() && asked.elapsed() >= AGAIN {
            asked = Instant::now();
            server = again(wanted, child.id());
        }
        if signals.heard().iter().any(|heard| *heard != Heard::Child)
            && let Some(id) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
        {
            // It fails when the program has ended.
            let _ = kill_process(id, Signal::TERM);
        }
    }
}

fn again(wanted: &Wanted<'_>, thread: u32) -> Option<Admin> {
    let mut admin = wanted.args.server.admin().ok()?;
    match wanted.ask(&mut admin, thread) {
        Ok(scheduled) => {
            eprintln!("cellgate: the server is there again: {scheduled}");
            Some(admin)
        }
        // It may have room later.
        Err(_) => None,
    }
}

fn code(status: ExitStatus) -> Exit {
    let signal = status.signal().map_or(1, |signal| 128 + signal);
    let code = status.code().unwrap_or(signal);
    Exit::Program(u8::try_from(code).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage_or_a_time() {
        let of = |text: &str| {
            text.parse::<Share>()
                .map(|share| share.of(Duration::from_millis(10)))
        };
        assert_eq!(of("5%"), Ok(Duration::from_micros(500)));
        assert_eq!(of("0.5%"), Ok(Duration::from_micros(50)));
        assert_eq!(of("100%"), Ok(Duration::from_millis(10)));
        assert_eq!(of("2ms"), Ok(Duration::from_millis(2)));
        for text in ["", "5", "0%", "-1%", "101%", "NaN%", "0ms", "5 %", "five"] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
