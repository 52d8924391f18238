//! The file of the demo: who puts it, and who receives it.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use cellgate_core::terminal::unfinished::Digest;
use cellgate_report::grouped;
use serde::Serialize;
use serde_json::Value;

use super::{ERRORS, Line};
use crate::live::actor::this_program;
use crate::live::daemon::Daemon;
use crate::live::process::{Process, write_file};

/// Octets of the file, of it in each PDU, and that may be on their way.
pub(super) const FILE: u64 = 16 << 20;
const PDU: u64 = 1_984;
const WINDOW: u64 = 1 << 20;
/// Cells per second of the contract: a slow adapter on a busy machine has the time for them.
pub(super) const RATE: u64 = 75_000;
/// Bits of a cell that it does not outlive if one of them is wrong.
const EXPOSED: f64 = 416.0;
/// Of the file, when its receiver is killed.
const KILL_AT: u64 = FILE * 2 / 5;
/// The ends of the connection.
const FROM: &str = "a.0.100";
const TO: &str = "b.0.100";
/// What they are.
#[cfg(feature = "page")]
pub(super) const ROLES: [(&str, &str); 2] = [(FROM, "puts the file"), (TO, "receives the file")];

/// What became of it.
#[derive(Debug, Serialize)]
pub(super) struct FileReport {
    octets: u64,
    seconds: f64,
    pub(super) octets_s: f64,
    /// PDUs of which the sender heard what became of them, those that were lost, and how many bit
    /// errors lose by their law.
    pub(super) pdus: u64,
    pub(super) pdus_lost: u64,
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
    /// Of what was sent and of what is there.
    blake3_sent: String,
    blake3_there: String,
}

/// A file on its way.
pub(super) struct Transfer<'d> {
    daemon: &'d Daemon,
    from: PathBuf,
    to: PathBuf,
    server: Option<Process>,
    put: Process,
    said: BufReader<ChildStdout>,
    /// Octets that were sent before the kill.
    before: u64,
    is_never_half: bool,
    summary: Value,
}

/// What a transfer has told.
pub(super) enum Told {
    /// How far it is, in words.
    Far(String),
    /// Its receiver has to be killed: so many octets were sent.
    Kill(u64),
    /// It is over.
    Done,
}

impl<'d> Transfer<'d> {
    /// Makes a file in `scratch`, where one may be of a transfer before, and has it put.
    pub(super) fn begin(daemon: &'d Daemon, scratch: &Path) -> anyhow::Result<Self> {
        let (from, to) = (scratch.join("file"), scratch.join("to"));
        let _ = fs::remove_dir_all(&to);
        fs::create_dir_all(&to)?;
        write_file(&from, FILE)?;
        let server = serve(daemon, &to)?;
        let put = terminal(daemon, "put", FROM)?
            .arg(&from)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut put = Process(put);
        let said = BufReader::new(put.0.stdout.take().context("it is piped")?);
        Ok(Self {
            daemon,
            from,
            to,
            server: Some(server),
            put,
            said,
            before: 0,
            is_never_half: true,
            summary: Value::Null,
        })
    }

    /// Waits for what it tells next.
    pub(super) fn next(&mut self) -> anyhow::Result<Told> {
        loop {
            let mut line = String::new();
            if self.said.read_line(&mut line)? == 0 {
                ensure!(self.put.0.wait()?.success(), "the file was not put");
                ensure!(
                    self.before > 0,
                    "the file was there before its receiver was killed"
                );
                return Ok(Told::Done);
            }
            let line: Value = serde_json::from_str(&line)?;
            if line["pdus"].is_u64() {
                self.summary = line;
                continue;
            }
            let progress = &line["progress"];
            let Some(sent) = progress["sent"].as_u64() else {
                continue;
            };
            let come = self.to.join("file");
            self.is_never_half &= !come.exists() || fs::read(&come)? == fs::read(&self.from)?;
            if self.before == 0 && sent >= KILL_AT {
                self.before = sent;
                return Ok(Told::Kill(sent));
            }
            return Ok(Told::Far(words(progress)));
        }
    }

    /// Kills its receiver.
    pub(super) fn kill(&mut self) {
        self.server = None;
    }

    /// Starts another one.
    pub(super) fn go_on(&mut self) -> anyhow::Result<()> {
        self.server = Some(serve(self.daemon, &self.to)?);
        Ok(())
    }

    /// What became of it, after so long.
    pub(super) fn report(&self, took: Duration) -> anyhow::Result<FileReport> {
        let number = |key: &str| {
            let number = self.summary[key].as_u64();
            number.with_context(|| format!("a summary without {key}"))
        };
        let (sent, sent_again) = (number("sent")?, number("sent_again")?);
        let pdus = number("pdus_heard")?;
        let cells = ((PDU + 32) / 48) as f64;
        let lost = 1.0 - (1.0 - ERRORS / 1e6).powf(EXPOSED * cells);
        let seconds = took.as_secs_f64();
        let there = self.to.join("file");
        let entries = fs::read_dir(&self.to)?.count();
        let (sent_octets, there) = (fs::read(&self.from)?, fs::read(there).unwrap_or_default());
        Ok(FileReport {
            octets: FILE,
            seconds,
            octets_s: FILE as f64 / seconds,
            pdus,
            pdus_lost: number("pdus_lost")?,
            pdus_lost_by_law: lost * pdus as f64,
            sent_again,
            sent_twice: (sent - sent_again).saturating_sub(FILE),
            sent_twice_max: WINDOW + RATE * 48 * 13 / 10,
            is_never_half: self.is_never_half,
            is_whole: entries == 1 && sent_octets == there,
            blake3_sent: Digest::of_file(&sent_octets).to_string(),
            blake3_there: Digest::of_file(&there).to_string(),
        })
    }
}

impl FileReport {
    /// Its part of the table.
    pub(super) fn rows(&self) -> Vec<Line> {
        let digest = |text: &str| format!("{}...", text.get(..8).unwrap_or(text));
        vec![
            ("digest of what was sent", digest(&self.blake3_sent)),
            ("digest of what is there", digest(&self.blake3_there)),
            (
                "goodput, octets a second",
                format!("{:.1} x 10^6", self.octets_s / 1e6),
            ),
            ("PDUs that were heard of", grouped(self.pdus)),
            ("lost to bit errors", grouped(self.pdus_lost)),
            ("by their law", format!("{:.0}", self.pdus_lost_by_law)),
            ("octets sent again for them", grouped(self.sent_again)),
            ("octets sent twice for the kill", grouped(self.sent_twice)),
            ("at most, as promised", grouped(self.sent_twice_max)),
        ]
    }

    /// The rules, and what is said where one is broken.
    pub(super) fn rules(&self) -> [(bool, &'static str); 3] {
        [
            (
                self.is_whole && self.blake3_sent == self.blake3_there,
                "the file is another than was sent",
            ),
            (self.is_never_half, "half of the file had its name"),
            (
                self.sent_twice <= self.sent_twice_max,
                "more was sent twice than a window and 1.3 seconds' worth",
            ),
        ]
    }
}

/// How far a transfer is.
fn words(progress: &Value) -> String {
    let of = |value: &Value| value.as_u64().unwrap_or(0);
    let octets = of(&progress["octets"]);
    format!(
        "{} % of {}, {:.1} x 10^6 octets a second, {} octets sent again",
        octets * 100 / FILE,
        grouped(FILE),
        progress["octets_s"].as_f64().unwrap_or(0.0) / 1e6,
        grouped(of(&progress["sent_again"])),
    )
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
    let mut server = terminal(daemon, "serve-files", TO)?
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
