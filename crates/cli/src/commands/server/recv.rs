//! `cellgate recv`: SDUs, to standard output or a file.

use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use cellgate::{Connection, Error, Pdu, StreamReader};
use cellgate_core::TimeWord;
use cellgate_core::adapter::DiscardCounts;
use cellgate_host::sys::Signals;
use cellgate_report::output::{Exit, print_json_line};
use cellgate_report::whole::create;
use serde_json::json;

use super::frame::{Assembly, ENDS, PAUSE, Taken, is_end};
use super::lost::Lost;
use super::transfer::Endpoint;
use super::{Misuse, interrupted};

/// How long a sender that has begun, and has not said its end, may be silent.
const SILENCE: Duration = Duration::from_secs(10);

/// Write what is received on a connection to a file or to standard output
///
/// The connection exists as long as the command runs: until --count or --timeout, until the
/// sender's end or its silence with --verify, until it is interrupted. At the end the PDUs are told
/// that came and were thrown away, by reason; with --json, which needs --output, what was received,
/// too. Exit code 1 where fewer came than --count, or with --strict where one was thrown away.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate recv --vc b.0.100 --count 1
  $ cellgate recv --vc b.0.100 --verify -o film")]
pub(crate) struct Args {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Write to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// End after so many SDUs
    #[arg(long, value_name = "N", conflicts_with = "verify")]
    count: Option<u64>,
    /// End when nothing has come for so long; with --verify, fail [default: with --verify, 10 s
    /// from the first SDU on]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Put a line feed behind each SDU that ends without
    #[arg(long, conflicts_with = "verify")]
    line: bool,
    /// With `excess=when-idle`: take N PDUs beyond the contract in each 5 ms, idle or not
    #[arg(long, value_name = "N")]
    lend: Option<u32>,
    /// Read as a stream without flow control: SDUs that were there for --hold and that nobody has
    /// read are skipped, and counted
    #[arg(long, conflicts_with_all = ["verify", "lend"])]
    stream: bool,
    /// With --stream: for how long an SDU waits to be read
    #[arg(long, value_name = "TIME", default_value = "40ms", requires = "stream")]
    hold: TimeWord,
    /// Fail if a PDU was thrown away, or skipped
    #[arg(long)]
    strict: bool,
    /// Take what `send --verify` sends: write identical octets, or fail and name what is missing
    #[arg(long)]
    verify: bool,
}

/// A time of 1 ms to a year.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    const RANGE: std::ops::RangeInclusive<f64> = 0.001..=366.0 * 86_400.0;
    match text.parse::<f64>() {
        Ok(seconds) if RANGE.contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected seconds, as 2 or 0.5: 0.001 to 31622400".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let json = args.endpoint.server.json;
    if json && args.output.is_none() {
        let both = "--json needs --output: standard output has what is received without";
        return Err(Misuse(both.to_owned()).into());
    }
    let connection = args.endpoint.receive()?;
    if connection.receive_max_sdu().is_none() {
        return Err(Error::DoesNotReceive.into());
    }
    let before = match args.endpoint.is_taken() {
        true => connection.stats()?.pdus_discarded,
        false => DiscardCounts::default(),
    };
    let name = match &args.output {
        None => "standard output".to_owned(),
        Some(path) => path.display().to_string(),
    };
    let out: Box<dyn Write> = match &args.output {
        None => Box::new(io::stdout().lock()),
        Some(path) => Box::new(create(path).with_context(|| name.clone())?),
    };
    // Who is told that it receives may end it at once.
    let signals = Signals::listen()?;
    // For whoever starts the sender.
    eprintln!(
        "receiving on {} under {}",
        connection.address(),
        connection.contract()
    );
    let lender = args.lend.map(|pdus| Lender {
        pdus,
        due: Instant::now(),
    });
    let mut sink = Sink {
        out: io::BufWriter::new(out),
        name,
        sdus: 0,
        octets: 0,
        signals,
        lender,
    };
    let (mut verdict, mut late) = (Ok(()), 0);
    if args.stream {
        late = streamed(&connection, args, &mut sink)?;
    } else if args.verify {
        verdict = verified(&connection, args.timeout, &mut sink)?;
    } else {
        plain(&connection, args, &mut sink)?;
    }
    let (address, contract) = (connection.address(), connection.contract());
    let lost = Lost::at_the_end_of(connection, &before)?;
    if lost.pdus() > 0 {
        eprintln!("cellgate: {}", lost.words());
    }
    if late > 0 {
        let hold = args.hold;
        eprintln!("cellgate: {late} SDUs were skipped, which nobody had read within {hold}");
    }
    verdict.map_err(|wrong| anyhow!("{} is not what was sent: {wrong}", sink.name))?;
    if json {
        print_json_line(&json!({
            "address": address,
            "contract": contract,
            "file": sink.name,
            "sdus": sink.sdus,
            "octets": sink.octets,
            "verified": args.verify,
            "late": late,
            "discarded": lost.discarded,
            "dismissed": lost.dismissed,
        }))?;
    }
    let missing = args
        .count
        .map_or(0, |count| count.saturating_sub(sink.sdus));
    if missing > 0 {
        eprintln!("cellgate: {missing} of the SDUs that were asked for did not come");
        return Ok(Exit::Failed);
    }
    Ok(match args.strict && lost.pdus() + late > 0 {
        true => Exit::Failed,
        false => Exit::Ok,
    })
}

/// How long a wait is that looks for signals between.
const LOOK: Duration = Duration::from_millis(50);
/// SDUs that come without a wait from one look for signals to the next.
const LOOK_SDUS: u64 = 256;

struct Sink {
    out: io::BufWriter<Box<dyn Write>>,
    name: String,
    /// Written so far, and their octets.
    sdus: u64,
    octets: u64,
    signals: Signals,
    lender: Option<Lender>,
}

/// Host time that the user lends by hand.
struct Lender {
    pdus: u32,
    due: Instant,
}

impl Lender {
    /// The longest lease.
    const LEASE: Duration = Duration::from_millis(10);
    /// From one to the next: the next comes before it is over.
    const PAUSE: Duration = Duration::from_millis(5);

    fn lend(&mut self, connection: &Connection) -> anyhow::Result<()> {
        if Instant::now() >= self.due {
            self.due = Instant::now() + Self::PAUSE;
            connection.lease(self.pdus, Self::LEASE).context("--lend")?;
        }
        Ok(())
    }
}

impl Sink {
    /// Whether somebody wants the command to end.
    fn is_interrupted(&self) -> bool {
        interrupted(&self.signals, None, Duration::ZERO)
    }

    /// Writes an SDU; whether somebody still reads it.
    fn write(&mut self, sdu: &[u8]) -> anyhow::Result<bool> {
        self.sdus += 1;
        self.octets += sdu.len() as u64;
        self.done(|out| out.write_all(sdu))
    }

    fn flush(&mut self) -> anyhow::Result<bool> {
        self.done(Write::flush)
    }

    fn done(
        &mut self,
        write: impl FnOnce(&mut io::BufWriter<Box<dyn Write>>) -> io::Result<()>,
    ) -> anyhow::Result<bool> {
        match write(&mut self.out) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(error).with_context(|| self.name.clone()),
        }
    }
}

/// The next PDU; none: nothing has come for `timeout`, or the command is to end. What is written is
/// seen before it waits.
fn next<'c>(
    connection: &'c Connection,
    timeout: Option<Duration>,
    sink: &mut Sink,
) -> anyhow::Result<Option<Pdu<'c>>> {
    if let Some(lender) = &mut sink.lender {
        lender.lend(connection)?;
    }
    match connection.try_next_pdu() {
        Err(Error::WouldBlock(_)) => {}
        Ok(_) if sink.sdus.is_multiple_of(LOOK_SDUS) && sink.is_interrupted() => return Ok(None),
        done => return Ok(Some(done?)),
    }
    if !sink.flush()? {
        return Ok(None);
    }
    let begun = Instant::now();
    loop {
        let mut look = LOOK;
        if let Some(lender) = &mut sink.lender {
            lender.lend(connection)?;
            look = Lender::PAUSE;
        }
        let left = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
        if left == Some(Duration::ZERO) || sink.is_interrupted() {
            return Ok(None);
        }
        match connection.next_pdu_timeout(left.unwrap_or(look).min(look)) {
            Err(Error::TimedOut) => {}
            done => return Ok(Some(done?)),
        }
    }
}

fn plain(connection: &Connection, args: &Args, sink: &mut Sink) -> anyhow::Result<()> {
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(pdu) = next(connection, args.timeout, sink)? else {
            break;
        };
        let feed = args.line && pdu.last() != Some(&b'\n');
        if !sink.write(&pdu)? || feed && !sink.done(|out| out.write_all(b"\n"))? {
            return Ok(());
        }
        left -= 1;
    }
    sink.flush()?;
    Ok(())
}

/// SDUs as they come, live; how many were skipped.
fn streamed(connection: &Connection, args: &Args, sink: &mut Sink) -> anyhow::Result<u64> {
    let hold = Duration::from_nanos(args.hold.0);
    let mut stream = StreamReader::new(connection, hold, usize::MAX)?;
    let mut buffer = vec![0; connection.receive_max_sdu().unwrap_or(u16::MAX).into()];
    let (mut late, mut heard) = (0, Instant::now());
    while args.count.is_none_or(|count| sink.sdus < count) && !sink.is_interrupted() {
        let left = args
            .timeout
            .map(|timeout| timeout.saturating_sub(heard.elapsed()));
        if left == Some(Duration::ZERO) {
            break;
        }
        match stream.read_timeout(&mut buffer, left.unwrap_or(LOOK).min(LOOK)) {
            Ok(len) => {
                heard = Instant::now();
                let feed = args.line && buffer[..len].last() != Some(&b'\n');
                if !sink.write(&buffer[..len])?
                    || feed && !sink.done(|out| out.write_all(b"\n"))?
                    || !sink.flush()?
                {
                    break;
                }
            }
            Err(Error::Late { missed }) => {
                heard = Instant::now();
                late += missed;
            }
            Err(Error::TimedOut) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(late)
}

/// The verdict; errors are those of the connection and the file.
fn verified(
    connection: &Connection,
    timeout: Option<Duration>,
    sink: &mut Sink,
) -> anyhow::Result<Result<(), String>> {
    let mut assembly = Assembly::new();
    let mut silence = timeout;
    let mut ended = false;
    while let Some(pdu) = next(connection, silence, sink)? {
        silence = Some(timeout.unwrap_or(SILENCE));
        match assembly.take(&pdu) {
            Taken::Payload(payload) => {
                if !sink.write(payload)? {
                    anyhow::bail!("{}: nobody reads it", sink.name);
                }
            }
            Taken::Nothing => {}
            Taken::End => {
                ended = true;
                break;
            }
        }
    }
    if !sink.flush()? {
        anyhow::bail!("{}: nobody reads it", sink.name);
    }
    if ended {
        await_ends(connection);
    }
    Ok(assembly.verdict())
}

/// Takes the other ends, which the next receiver here would else take for its own.
fn await_ends(connection: &Connection) {
    let mut left = ENDS - 1;
    while left > 0 {
        match connection.next_pdu_timeout(ENDS * PAUSE) {
            Ok(pdu) if is_end(&pdu) => left -= 1,
            Ok(_) => {}
            // They are lost, or the connection is.
            Err(_) => break,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_times() {
        assert_eq!(seconds("2"), Ok(Duration::from_secs(2)));
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        assert_eq!(seconds("0.001"), Ok(Duration::from_millis(1)));
        for text in ["", "0", "0.0009", "1e-10", "-1", "inf", "nan", "1e99", "2s"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
