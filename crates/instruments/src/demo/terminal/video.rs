//! The video of the demo: the stand-ins of a camera and of a display, by the command's own
//! `stream send` and `stream recv`.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use cellgate::{Admin, Discard};
use cellgate_core::line::LineCounts;
use cellgate_core::server::{Accounts, Difference, OneWay};
use cellgate_core::terminal::video::PACK;
use cellgate_core::wire::{PAYLOAD_LEN, TS_LEN};
use cellgate_report::grouped;
use serde::Serialize;
use serde_json::Value;

use super::Line;
use crate::live::actor::this_program;
use crate::live::daemon::Daemon;
use crate::live::process::Process;

/// Frames a second, and in all: the camera's clock is known after eight seconds. The last is as
/// small as the one before it, as the packets behind the last clock reference are played no faster
/// than those before it.
const FPS: u64 = 25;
const FRAMES: u64 = 255;
/// Bit/s of its transport packets, and by how much its clock is fast.
pub(super) const BIT_S: u64 = 6_000_000;
pub(super) const PPM: i64 = 100;
/// A clock that is found to be off by more was found by packets that the machine has delayed.
const CLOCK_PPB_MAX: i64 = 90_000;
/// From the arrival of a packet to when it is played.
const LATENCY: &str = "1s";
/// Cells per second of the contract: pictures that need no other are almost four mean ones.
const RATE: u64 = 24_000;
/// Octets of a PDU, which fills its cells.
const PDU: u64 = (PACK * TS_LEN) as u64;
const CELLS_OF_PDU: u64 = (PDU + 8).div_ceil(PAYLOAD_LEN as u64);
/// PDUs that may wait to be read: more than come in a second.
const WAITING: u64 = 4_096;
/// The ends of the connection.
const FROM: &str = "a.0.60";
const TO: &str = "b.0.60";
/// What they are.
#[cfg(feature = "page")]
pub(super) const ROLES: [(&str, &str); 2] = [(FROM, "the camera"), (TO, "the display")];
/// How long the server's counters may take to have all that happened.
const SETTLE: Duration = Duration::from_secs(5);
/// From one look to the next.
const LOOK: Duration = Duration::from_millis(100);
/// What an adapter throws away that does not keep up, or under a contract that is not kept: no bit
/// error does that.
const OWN_FAULTS: [Discard; 4] = [
    Discard::NonConforming,
    Discard::BufferFull,
    Discard::QueueFull,
    Discard::Overload,
];

/// The connection, which counts on when both programs have ended.
pub(super) fn config() -> String {
    let common = format!("cbr,aal5:pcr={RATE},max_sdu={PDU}");
    format!(
        "[[connection]]\naddress = \"{FROM}\"\ncontract = \"{common},rx:none\"\n\
         [[connection]]\naddress = \"{TO}\"\ncontract = \"{common},tx:none\"\n\
         receive_pdus = {WAITING}\n"
    )
}

/// What became of it.
#[derive(Debug, Serialize)]
pub(super) struct VideoReport {
    /// Frames that were sent.
    frames: u64,
    /// Whole when they were to be shown; whole too late; with packets that are missing.
    frames_on_time: u64,
    frames_late: u64,
    frames_missing: u64,
    packets_sent: u64,
    packets_lost: u64,
    /// Packets that were missed by the PDUs' numbers, and by the display.
    packets_missed: u64,
    packets_missed_by_display: u64,
    /// Packets that came after they were due.
    packets_late: u64,
    /// How much faster the camera's clock was found to be, in parts of 10^9.
    clock_ppb: i64,
    /// Its cells, by the accounts of both ends, and why some were not delivered.
    cells: OneWay,
    /// What the line did to the cells of both connections.
    line: LineCounts,
}

/// A video on its way.
pub(super) struct Stream {
    sender: Process,
    receiver: Process,
    /// The newest line of the receiver.
    told: Arc<Mutex<String>>,
    /// What had been counted before.
    before: Counted,
}

/// What both ends of the connection have counted, and the line.
type Counted = (OneWay, LineCounts);

fn stream(daemon: &Daemon, verb: &str, vc: &str) -> anyhow::Result<Command> {
    let mut command = this_program()?;
    command
        .args(["stream", verb, "--vc", vc, "--take", "--json", "--socket"])
        .arg(daemon.socket())
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    Ok(command)
}

impl Stream {
    pub(super) fn begin(daemon: &Daemon) -> anyhow::Result<Self> {
        let before = counted(&mut Admin::at(daemon.socket())?)?;
        let mut receiver = stream(daemon, "recv", TO)?
            .args(["--to", &format!("test:{FPS}"), "--latency", LATENCY])
            .args(["--timeout", "1", "--interval", "0.25"])
            .stderr(Stdio::piped())
            .spawn()
            .map(Process)?;
        let said = receiver.0.stderr.take().context("it is piped")?;
        let mut said = BufReader::new(said).lines();
        let mut last = String::new();
        loop {
            match said.next().transpose()? {
                Some(line) if line.starts_with("latency") => break,
                Some(line) => last = line,
                None => bail!("the display does not start: {last}"),
            }
        }
        let told = Arc::new(Mutex::new(String::new()));
        let newest = Arc::clone(&told);
        std::thread::spawn(move || {
            for line in said.map_while(Result::ok) {
                if line.starts_with("frames") {
                    *newest.lock().unwrap_or_else(PoisonError::into_inner) = line;
                }
            }
        });
        let camera = format!("test:{FPS},{BIT_S},{PPM}");
        let seconds = FRAMES as f64 / FPS as f64;
        let sender = stream(daemon, "send", FROM)?
            .args(["--time", &seconds.to_string(), &camera])
            .stderr(Stdio::null())
            .spawn()
            .map(Process)?;
        Ok(Self {
            sender,
            receiver,
            told,
            before,
        })
    }

    /// How it is, in words.
    pub(super) fn told(&self) -> String {
        let told = self.told.lock();
        told.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether both programs have ended.
    pub(super) fn is_over(&mut self) -> io::Result<bool> {
        let sender = self.sender.0.try_wait()?;
        Ok(self.receiver.0.try_wait()?.is_some() && sender.is_some())
    }

    /// What became of it, once both programs have ended.
    pub(super) fn report(&mut self, daemon: &Daemon) -> anyhow::Result<VideoReport> {
        let sent = object(&mut self.sender).context("the camera")?;
        let received = object(&mut self.receiver).context("the display")?;
        let of = |value: &Value, key: &str| {
            let number = value[key].as_u64();
            number.with_context(|| format!("an end says nothing of {key}: {value}"))
        };
        let (counts, display) = (&received["counts"], &received["display"]);
        let packets_sent = of(&sent["counts"], "packets")?;
        let packets = of(counts, "packets")?;
        let cells = |packets: u64| packets / PACK as u64 * CELLS_OF_PDU;
        let (sent_cells, delivered) = (cells(packets_sent), cells(packets));
        let (cells, line) = self.settled(daemon, sent_cells, delivered)?;
        Ok(VideoReport {
            frames: FRAMES,
            frames_on_time: of(display, "on_time")?,
            frames_late: of(display, "late")?,
            frames_missing: of(display, "missing")?,
            packets_sent,
            packets_lost: packets_sent.saturating_sub(packets),
            packets_missed: of(counts, "lost_packets")?,
            packets_missed_by_display: of(display, "missing_packets")?,
            packets_late: of(counts, "late")?,
            clock_ppb: received["clock_ppb"].as_i64().unwrap_or(0),
            cells,
            line,
        })
    }

    /// What has been counted since it began, once the server knows of all that was sent and
    /// delivered.
    fn settled(&self, daemon: &Daemon, sent: u64, delivered: u64) -> anyhow::Result<Counted> {
        let mut admin = Admin::at(daemon.socket())?;
        let begun = Instant::now();
        loop {
            let counted = since(counted(&mut admin)?, &self.before);
            let is_settled = counted.0.sent >= sent && counted.0.delivered >= delivered;
            if is_settled || begun.elapsed() >= SETTLE {
                return Ok(counted);
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// What a program has printed at its end.
fn object(process: &mut Process) -> anyhow::Result<Value> {
    let mut text = String::new();
    let printed = process.0.stdout.as_mut().context("it is piped")?;
    printed.read_to_string(&mut text)?;
    ensure!(process.0.wait()?.success(), "it has failed: {text}");
    Ok(serde_json::from_str(&text)?)
}

/// What is counted now.
fn counted(admin: &mut Admin) -> anyhow::Result<Counted> {
    let told = Accounts::of(&admin.list()?, &admin.interfaces()?, None);
    // The server has not asked yet what the line did, at first.
    let line = told.interfaces.iter().find_map(|one| one.line);
    let mut ways = told.ways_to(&told).into_iter().flat_map(|way| way.vcs);
    let cells = ways.find(|vc| vc.from.to_string() == FROM && vc.to.to_string() == TO);
    Ok((cells.context("a connection")?, line.unwrap_or_default()))
}

/// What has been counted since `before`. An adapter that has been replaced counts from 0.
fn since((cells, line): Counted, (cells_before, line_before): &Counted) -> Counted {
    let known = &cells_before.differences;
    let differences = cells.differences.into_iter().map(|one| {
        let before = known.iter().find(|before| before.reason == one.reason);
        Difference {
            cells: one.cells - before.map_or(0, |before| before.cells),
            ..one
        }
    });
    let cells = OneWay {
        sent: cells.sent.saturating_sub(cells_before.sent),
        delivered: cells.delivered.saturating_sub(cells_before.delivered),
        differences: differences.filter(|one| one.cells != 0).collect(),
        missing: cells.missing - cells_before.missing,
        ..cells
    };
    let line = LineCounts {
        cells_in: line.cells_in.saturating_sub(line_before.cells_in),
        cells_out: line.cells_out.saturating_sub(line_before.cells_out),
        lost: line.lost.saturating_sub(line_before.lost),
        bit_errors: line.bit_errors.saturating_sub(line_before.bit_errors),
        header_errors: line.header_errors.saturating_sub(line_before.header_errors),
        payload_errors: line
            .payload_errors
            .saturating_sub(line_before.payload_errors),
        ..line
    };
    (cells, line)
}

impl VideoReport {
    /// Cells that were sent and not delivered.
    fn cells_lost(&self) -> u64 {
        self.cells.sent.saturating_sub(self.cells.delivered)
    }

    /// PDUs that the line's faults explain: a wrong payload takes one; a cell that does not come,
    /// or comes as another, may be the end of a PDU, and takes the next one, too.
    fn explained(&self) -> u64 {
        self.line.payload_errors + 2 * (self.line.header_errors + self.line.lost)
    }

    pub(super) fn packets_lost(&self) -> u64 {
        self.packets_lost
    }

    /// Its part of the table.
    pub(super) fn rows(&self) -> Vec<Line> {
        let mut rows = vec![
            ("frames", grouped(self.frames)),
            ("shown in time", grouped(self.frames_on_time)),
            ("late", grouped(self.frames_late)),
            ("damaged by the line", grouped(self.frames_missing)),
            ("packets", grouped(self.packets_sent)),
            ("lost", grouped(self.packets_lost)),
            ("cells not delivered", grouped(self.cells_lost())),
        ];
        let way = [("on the line".to_owned(), self.cells.missing)];
        let why = self.cells.differences.iter();
        let why = why.map(|one| (one.reason.replace('_', " "), one.cells));
        let why = why.chain(way).filter(|(_, cells)| *cells != 0);
        rows.extend(why.map(|(reason, cells)| ("of these", format!("{reason} {cells}"))));
        let ppm = self.clock_ppb as f64 / 1e3;
        rows.push(("the camera's clock is fast by", format!("{ppm:.0} ppm")));
        rows
    }

    /// The part of the line, which both have shared.
    pub(super) fn line_rows(&self) -> Vec<Line> {
        vec![
            ("cells", grouped(self.line.cells_in)),
            ("with a wrong payload", grouped(self.line.payload_errors)),
            ("with a wrong header", grouped(self.line.header_errors)),
        ]
    }

    /// The rules, and what is said where one is broken.
    pub(super) fn rules(&self) -> [(bool, &'static str); 5] {
        let shown = self.frames_on_time + self.frames_late + self.frames_missing;
        let named: i64 = self.cells.differences.iter().map(|one| one.cells).sum();
        let on_the_line = u64::try_from(self.cells.missing);
        [
            (shown == self.frames, "frames are neither shown nor missing"),
            (
                self.packets_lost / PACK as u64 * CELLS_OF_PDU == self.cells_lost()
                    && self.packets_missed == self.packets_missed_by_display
                    && self.packets_missed <= self.packets_lost,
                "the video's lost packets are others than the cells that were not delivered",
            ),
            (
                i128::from(named) + i128::from(self.cells.missing) == i128::from(self.cells_lost()),
                "cells of the video are gone without a reason",
            ),
            (
                on_the_line
                    .is_ok_and(|missing| missing <= self.line.header_errors + self.line.lost),
                "more cells of the video have not come than the line has damaged",
            ),
            (
                self.packets_lost / PACK as u64 <= self.explained(),
                "more of the video is lost than the line's faults explain",
            ),
        ]
    }

    /// What of it the machine was too busy for.
    pub(super) fn disturbed(&self) -> Option<String> {
        let late = (self.frames_late > 0 || self.packets_late > 0)
            .then(|| format!("{} frames were late", self.frames_late));
        let off_ppb = self.clock_ppb - 1_000 * PPM;
        let lost = (off_ppb.abs() >= CLOCK_PPB_MAX)
            .then(|| format!("the camera's clock was found {} ppm off", off_ppb / 1_000));
        let own = OWN_FAULTS.map(Discard::name);
        let thrown = self.cells.differences.iter();
        let mut thrown = thrown.filter(|one| own.contains(&&*one.reason));
        late.or(lost).or_else(|| {
            thrown
                .next()
                .map(|one| format!("the adapter threw cells away ({one})"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differ(reason: &str, cells: i64) -> Difference {
        Difference {
            reason: reason.to_owned(),
            cells,
        }
    }

    /// Three PDUs that a wrong payload has taken, and one of which a cell did not come.
    fn sound() -> VideoReport {
        VideoReport {
            frames: FRAMES,
            frames_on_time: FRAMES - 4,
            frames_late: 0,
            frames_missing: 4,
            packets_sent: 2_000,
            packets_lost: 8,
            packets_missed: 8,
            packets_missed_by_display: 8,
            packets_late: 0,
            clock_ppb: 100_000,
            cells: OneWay {
                from: FROM.parse().unwrap(),
                to: TO.parse().unwrap(),
                sent: 8_000,
                delivered: 7_968,
                differences: vec![differ("crc_error", 31)],
                missing: 1,
            },
            line: LineCounts {
                header_errors: 1,
                payload_errors: 3,
                ..LineCounts::default()
            },
        }
    }

    fn holds(report: &VideoReport) -> bool {
        report.rules().iter().all(|(holds, _)| *holds)
    }

    #[test]
    fn each_lost_packet_is_one_that_the_line_has_damaged() {
        assert!(holds(&sound()) && sound().disturbed().is_none());
        let bad: [fn(&mut VideoReport); 8] = [
            |report| report.frames_on_time -= 1,
            |report| report.packets_lost += 2,
            |report| report.packets_missed_by_display -= 2,
            |report| report.packets_missed += 2,
            |report| report.cells.delivered += 8,
            |report| report.cells.differences[0].cells -= 1,
            |report| report.line.header_errors = 0,
            |report| report.line.payload_errors = 0,
        ];
        for (at, bad) in bad.iter().enumerate() {
            let mut report = sound();
            bad(&mut report);
            assert!(!holds(&report), "{at}: {report:?}");
        }
    }

    #[test]
    fn what_the_machine_was_too_busy_for_is_told() {
        let mut late = sound();
        late.packets_late = 1;
        assert!(late.disturbed().is_some());
        let mut clock = sound();
        clock.clock_ppb = -400_000;
        assert!(clock.disturbed().is_some());
        let mut thrown = sound();
        thrown.cells.differences = vec![differ("crc_error", 23), differ("buffer_full", 8)];
        assert!(holds(&thrown));
        let why = thrown.disturbed().expect("a reason");
        assert!(why.contains("buffer_full: 8"), "{why}");
    }
}
