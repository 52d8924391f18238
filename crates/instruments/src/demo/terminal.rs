//! `cellgate demo --terminal`: a file over a line with bit errors, its receiver killed on the way.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use cellgate_report::grouped;
use cellgate_report::output::Exit;
use serde::Serialize;
use serde_json::Value;

use crate::live::actor::this_program;
use crate::live::daemon::Daemon;
use crate::live::process::{Process, write_file};
use crate::live::verdict::{Verdict, Voice};

/// Octets of the file, of it in each PDU, and that may be on their way.
const FILE: u64 = 16 << 20;
const PDU: u64 = 1_984;
const WINDOW: u64 = 1 << 20;
/// Cells per second of the contract: a slow adapter on a busy machine has the time for them.
const RATE: u64 = 75_000;
/// Bits that errors hit, of 10^6, and those of a cell that it does not outlive.
const ERRORS: f64 = 1.0;
const EXPOSED: f64 = 416.0;
/// Of the file, when its receiver is killed.
const KILL_AT: u64 = FILE * 2 / 5;

/// The result.
#[derive(Debug, Serialize)]
struct Report {
    octets: u64,
    seconds: f64,
    octets_s: f64,
    /// PDUs of which the sender heard what became of them, those that were lost, and how many bit
    /// errors lose by their law.
    pdus: u64,
    pdus_lost: u64,
    pdus_lost_by_law: f64,
    /// Octets that were sent again for them.
    sent_again: u64,
    /// Octets that were sent before the kill, and again after it.
    sent_twice: u64,
    /// Of `sent_twice`: a window, and 1.3 s of the contract's rate, as old as the journal may be.
    sent_twice_max: u64,
    /// The file had its name only when all of it was there.
    is_never_half: bool,
    /// It is, octet for octet, what was sent, and nothing else is left.
    is_whole: bool,
    verdict: String,
}

/// A directory that goes with the demo.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs it.
///
/// # Errors
/// A process does not start, or ends before its time.
pub(super) fn run(voice: Voice) -> anyhow::Result<Exit> {
    let name = format!("cellgate-demo-{}", std::process::id());
    let scratch = Scratch(std::env::temp_dir().join(name));
    let to = scratch.0.join("to");
    fs::create_dir_all(&to)?;
    let from = scratch.0.join("file");
    write_file(&from, FILE)?;
    let daemon = Daemon::start(
        "[adapter]\nidle = \"adaptive\"\n\
         [[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
         [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n\
         line = \"ber 1e-6 delay 5ms seed 7\"\n",
        io::sink(),
    )?;
    voice.say(&format!(
        "a file of {} octets, over AAL5 at {} cells/s;\nits line is 5 ms long, and damages a bit \
         of 10^6\n\n",
        grouped(FILE),
        grouped(RATE)
    ))?;
    let begun = Instant::now();
    let server = serve(&daemon, &to)?;
    let mut put = put(&daemon, &from)?;
    let said = BufReader::new(put.0.stdout.take().context("it is piped")?);
    let mut server = Some(server);
    let (mut is_never_half, mut before) = (true, 0);
    let mut summary = Value::Null;
    for line in said.lines() {
        let line: Value = serde_json::from_str(&line?)?;
        if line["pdus"].is_u64() {
            summary = line;
            continue;
        }
        let Some(sent) = line["progress"]["sent"].as_u64() else {
            continue;
        };
        let come = to.join("file");
        is_never_half &= !come.exists() || fs::read(&come)? == fs::read(&from)?;
        if before == 0 && sent >= KILL_AT {
            before = sent;
            let receiver = server.take().context("it is there until now")?;
            drop(receiver);
            voice.say(&format!(
                "{:6.1} s  {} octets were sent; its receiver is killed\n",
                begun.elapsed().as_secs_f64(),
                grouped(sent)
            ))?;
            std::thread::sleep(Duration::from_millis(300));
            server = Some(serve(&daemon, &to)?);
            voice.say(&format!(
                "{:6.1} s  another receiver is there\n",
                begun.elapsed().as_secs_f64()
            ))?;
        }
    }
    ensure!(put.0.wait()?.success(), "the file was not put");
    ensure!(
        before > 0,
        "the file was there before its receiver was killed"
    );
    let report = report(&summary, begun.elapsed(), is_never_half, same(&from, &to)?)?;
    voice.say(&text(&report))?;
    let verdict = verdict(&report);
    let report = Report {
        verdict: verdict.text(),
        ..report
    };
    voice.end(&report, &verdict)
}

fn terminal(daemon: &Daemon, word: &str, vc: &str) -> anyhow::Result<Command> {
    let mut command = this_program()?;
    command
        .args([word, "--vc", vc, "--json", "--socket"])
        .arg(daemon.socket())
        .arg("--contract")
        .arg(format!("cbr,aal5:pcr={RATE},max_sdu=9180"))
        .args(["--window", &WINDOW.to_string(), "--pdu", &PDU.to_string()])
        .stdin(Stdio::null());
    Ok(command)
}

/// A receiver, once it serves.
fn serve(daemon: &Daemon, to: &Path) -> anyhow::Result<Process> {
    let mut server = terminal(daemon, "serve-files", "b.0.100")?
        .arg("--writable")
        .arg(to)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map(Process)?;
    let mut said = BufReader::new(server.0.stderr.take().context("it is piped")?);
    let mut line = String::new();
    said.read_line(&mut line)?;
    if !line.starts_with("serving") {
        said.read_to_string(&mut line)?;
        bail!("the receiver does not start: {line}");
    }
    // Whatever else it says finds room.
    std::thread::spawn(move || io::copy(&mut said, &mut io::sink()));
    Ok(server)
}

fn put(daemon: &Daemon, from: &Path) -> anyhow::Result<Process> {
    let put = terminal(daemon, "put", "a.0.100")?
        .arg(from)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(Process(put))
}

/// Whether a directory has this file, as it is, and nothing else.
fn same(from: &Path, to: &Path) -> anyhow::Result<bool> {
    let entries = fs::read_dir(to)?.count();
    Ok(entries == 1 && fs::read(from)? == fs::read(to.join("file"))?)
}

fn report(
    summary: &Value,
    took: Duration,
    is_never_half: bool,
    is_whole: bool,
) -> anyhow::Result<Report> {
    let number = |key: &str| {
        let number = summary[key].as_u64();
        number.with_context(|| format!("a summary without {key}"))
    };
    let (sent, sent_again) = (number("sent")?, number("sent_again")?);
    let pdus = number("pdus_heard")?;
    let cells = ((PDU + 32) / 48) as f64;
    let lost = 1.0 - (1.0 - ERRORS / 1e6).powf(EXPOSED * cells);
    let seconds = took.as_secs_f64();
    Ok(Report {
        octets: FILE,
        seconds,
        octets_s: FILE as f64 / seconds,
        pdus,
        pdus_lost: number("pdus_lost")?,
        pdus_lost_by_law: lost * pdus as f64,
        sent_again,
        sent_twice: (sent - sent_again).saturating_sub(FILE),
        sent_twice_max: WINDOW + RATE * 48 * 13 / 10,
        is_never_half,
        is_whole,
        verdict: String::new(),
    })
}

fn text(report: &Report) -> String {
    let rows = [
        ("PDUs that were heard of", grouped(report.pdus)),
        ("lost to bit errors", grouped(report.pdus_lost)),
        ("by their law", format!("{:.0}", report.pdus_lost_by_law)),
        ("octets sent again for them", grouped(report.sent_again)),
        ("octets sent twice for the kill", grouped(report.sent_twice)),
        ("at most, as promised", grouped(report.sent_twice_max)),
        (
            "octets of the file, a second",
            format!("{:.1} x 10^6", report.octets_s / 1e6),
        ),
    ];
    let rows = rows.map(|(what, number)| format!("{what:31}{number:>14}\n"));
    format!(
        "{:6.1} s  the file is there\n\n{}",
        report.seconds,
        rows.concat()
    )
}

fn verdict(report: &Report) -> Verdict {
    let rules = [
        (report.is_whole, "the file is another than was sent"),
        (report.is_never_half, "half of the file had its name"),
        (
            report.sent_twice <= report.sent_twice_max,
            "more was sent twice than a window and 1.3 seconds' worth",
        ),
    ];
    match rules.iter().find(|(holds, _)| !holds) {
        Some((_, broken)) => Verdict::Fail((*broken).to_owned()),
        None => Verdict::Pass(format!(
            "the file arrived, every octet right, over a line that lost {} of {} PDUs, and by a \
             receiver that went on where a killed one had been. Until it was whole nobody saw it.",
            grouped(report.pdus_lost),
            grouped(report.pdus)
        )),
    }
}
