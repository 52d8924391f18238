//! `cellgate bench files`: files from one host to another over one line, by our terminals and by
//! the programs that people take instead.

mod movers;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use cellgate_host::sys::{Heard, Signals};
use cellgate_report::output::Exit;
use rustix::param::clock_ticks_per_second;
use rustix::process::geteuid;

use super::measure::calibration;
use super::report::Report;
use super::site::{LOOPBACK, Site};
use crate::live::process::write_file;
use crate::live::spread::Spread;
use movers::Mover;

/// Move files over one line in turns, beside rsync, scp, uftp and iperf3
///
/// Needs root, for network namespaces; programs that are not there are left out.
#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Args {
    #[command(flatten)]
    shared: super::Args,
    /// The measurements
    #[arg(value_enum, default_values_t = What::ALL)]
    what: Vec<What>,
    /// Bit error ratios of the line, each in turn
    #[arg(long, value_name = "BER", default_values = BIT_ERRORS)]
    ber: Vec<String>,
    /// Octets of a file
    #[arg(
        long,
        value_name = "OCTETS",
        default_value_t = 32 << 20,
        value_parser = clap::value_parser!(u64).range(1 << 12..=1 << 36)
    )]
    octets: u64,
    /// Times that each takes its turn
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Where files come from and go to [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// A file over a paced line of 10 ms, by bit errors
    Line,
    /// 10,000 files of 1 KiB, beside one file of as many octets
    Small,
    /// A file between two ports of one adapter, without a line's conditions
    Unpaced,
}

impl What {
    const ALL: [Self; 3] = [Self::Line, Self::Small, Self::Unpaced];
}

/// Cells per second of the line, and octets of payload in each.
const RATE: u32 = 353_207;
const PAYLOAD: f64 = 48.0;
/// The peak rate of contracts: a line that is sent more than it carries loses some.
const CONTRACT: u32 = 350_000;
const BIT_ERRORS: [&str; 3] = ["0", "1e-7", "1e-6"];
/// A line that is never waited for.
const UNPACED: &str = "line_rate.cell_s = 10000000";
const SMALL_FILES: u64 = 10_000;

const PACKET: Mover = Mover::Terminals { level: "packet" };

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    ensure!(
        geteuid().is_root(),
        "network namespaces need root: run it by sudo"
    );
    let quick = args.shared.quick;
    let temporary = std::env::temp_dir();
    let mut bench = Bench {
        report: Report::new("files", quick),
        octets: if quick { args.octets / 16 } else { args.octets },
        rounds: if quick { 1 } else { args.rounds.max(1) },
        bit_errors: match quick {
            true => args.ber.last().cloned().into_iter().collect(),
            false => args.ber.clone(),
        },
        directory: args.directory.clone().unwrap_or(temporary),
        // An early end leaves neither daemon nor namespaces.
        signals: Signals::listen()?,
    };
    for what in &args.what {
        match what {
            What::Line => bench.line()?,
            What::Small => bench.small(if quick { 500 } else { SMALL_FILES })?,
            What::Unpaced => bench.unpaced()?,
        }
    }
    bench.report.note(
        "Mbit/s: octets of the files over the time from the start of the program that sends to its \
         end, its server being there; share: of the payload of all cells that the line carries; \
         CPU: all that this machine did meanwhile, seconds for 10^9 octets. put syncs what it has \
         written, which none of the others does; iperf3 has memory alone, and ends when the last \
         octet is in its socket",
    );
    bench.report.finish(args.shared.json)
}

struct Bench {
    report: Report,
    octets: u64,
    rounds: usize,
    bit_errors: Vec<String>,
    directory: PathBuf,
    signals: Signals,
}

/// A mover's turns.
struct Turns {
    mover: Mover,
    /// Octets of files a second, and seconds of CPU for 10^9 of them.
    octets_s: Vec<f64>,
    cpu: Vec<f64>,
}

impl Turns {
    /// The median of a quantity of one over that of another, turn by turn.
    fn over(mine: &[f64], theirs: &[f64]) -> f64 {
        let pairs = mine.iter().zip(theirs);
        Spread::of(pairs.map(|(mine, theirs)| mine / theirs).collect()).median
    }
}

fn of(turns: &[Turns], mover: Mover) -> Option<&Turns> {
    turns.iter().find(|turns| turns.mover == mover)
}

/// The fastest of some.
fn fastest(turns: &[Turns], which: impl Fn(Mover) -> bool) -> Option<&Turns> {
    let some = turns.iter().filter(|turns| which(turns.mover));
    let median = |turns: &Turns| Spread::of(turns.octets_s.clone()).median;
    some.max_by(|a, b| median(a).total_cmp(&median(b)))
}

impl Bench {
    fn line(&mut self) -> anyhow::Result<()> {
        let movers = self.there(&Mover::all());
        if !cfg!(feature = "quic") {
            self.report
                .note("QUIC is left out: it takes a build with `--features quic`");
        }
        for ber in self.bit_errors.clone() {
            let errors = match &*ber {
                "0" => String::new(),
                ber => format!(" ber {ber} seed 7"),
            };
            let line = format!("line = \"rate {RATE} queue 20000 delay 10ms{errors}\"");
            let site = Site::new(&line, Some(CONTRACT), &self.directory)?;
            write_file(&site.path("from/file"), self.octets)?;
            let turns = self.turns(&site, &movers, "file", self.octets)?;
            self.rows(&turns, &format!("BER {ber}"));
            self.judge(&turns, &ber);
        }
        Ok(())
    }

    /// The goals of a line.
    fn judge(&mut self, turns: &[Turns], ber: &str) {
        let Some(ours) = of(turns, PACKET) else {
            return;
        };
        for control in ["cubic", "bbr"].into_iter().filter(|_| ber != "1e-7") {
            let is_by = |mover| matches!(mover, Mover::Iperf { by, .. } if by == control);
            let Some(tcp) = fastest(turns, is_by) else {
                continue;
            };
            let least = if ber == "0" { 1.0 } else { 4.0 };
            let name = format!("{} over {}, BER {ber}", PACKET.name(), tcp.mover.name());
            let ratio = Turns::over(&ours.octets_s, &tcp.octets_s);
            self.report.ratio_at_least(name, ratio, least);
        }
        if let Some(uftp) = of(turns, Mover::Uftp).filter(|_| ber == "1e-6") {
            let name = format!("{} over uftp, BER {ber}", PACKET.name());
            let ratio = Turns::over(&ours.octets_s, &uftp.octets_s);
            self.report.ratio_at_least(name, ratio, 0.98);
        }
        let same = fastest(
            turns,
            |mover| matches!(mover, Mover::Over { transport, .. } if transport == "tcp"),
        );
        if let Some(same) = same {
            let name = format!("its CPU over that of {}, BER {ber}", same.mover.name());
            let ratio = Turns::over(&ours.cpu, &same.cpu);
            self.report.ratio_at_most(name, ratio, 0.7);
        }
    }

    fn small(&mut self, files: u64) -> anyhow::Result<()> {
        let line = format!("line = \"rate {RATE} queue 20000 delay 10ms\"");
        let site = Site::new(&line, Some(CONTRACT), &self.directory)?;
        let octets = files << 10;
        write_file(&site.path("from/file"), octets)?;
        fs::create_dir(site.path("from/files"))?;
        for number in 0..files {
            write_file(&site.path(&format!("from/files/{number}")), 1 << 10)?;
        }
        let movers = self.there(&[PACKET, Mover::Rsync { mtu: 9_180 }]);
        let whole = self.turns(&site, &movers[..1], "file", octets)?;
        let each = self.turns(&site, &movers, "files", octets)?;
        self.rows(&whole, "one file");
        self.rows(&each, &format!("{files} files"));
        let slower = Turns::over(&whole[0].octets_s, &each[0].octets_s);
        let name = format!("time of {files} files over that of one");
        self.report.ratio_at_most(name, slower, 3.0);
        if let Some(rsync) = each.get(1) {
            let ratio = Turns::over(&each[0].octets_s, &rsync.octets_s);
            let name = format!(
                "{} over {}, {files} files",
                PACKET.name(),
                rsync.mover.name()
            );
            self.report.ratio_at_least(name, ratio, 1.0);
        }
        Ok(())
    }

    fn unpaced(&mut self) -> anyhow::Result<()> {
        let site = Site::new(UNPACED, None, &self.directory)?;
        let octets = 8 * self.octets;
        write_file(&site.path("from/file"), octets)?;
        let movers = self.there(&[PACKET, Mover::Rsync { mtu: LOOPBACK }]);
        let turns = self.turns(&site, &movers, "file", octets)?;
        self.rows(&turns, "unpaced");
        if let [ours, rsync] = &*turns {
            let ratio = Turns::over(&ours.octets_s, &rsync.octets_s);
            let name = format!("{} over {}", PACKET.name(), rsync.mover.name());
            self.report.ratio_at_least(name, ratio, 1.0);
        }
        Ok(())
    }

    /// Those whose programs are there; the others are named.
    fn there(&mut self, movers: &[Mover]) -> Vec<Mover> {
        let mut there = Vec::new();
        for mover in movers {
            let programs = mover.programs().iter();
            match programs.copied().find(|path| !Path::new(path).exists()) {
                None => there.push(*mover),
                Some(path) => {
                    let name = mover.name();
                    self.report
                        .note(format!("{name}: left out, there is no {path}"));
                }
            }
        }
        there
    }

    /// All take their turns. One that fails ends it.
    fn turns(
        &mut self,
        site: &Site,
        movers: &[Mover],
        name: &str,
        octets: u64,
    ) -> anyhow::Result<Vec<Turns>> {
        let turns = |mover: &Mover| Turns {
            mover: *mover,
            octets_s: Vec::new(),
            cpu: Vec::new(),
        };
        let mut all: Vec<_> = movers.iter().map(turns).collect();
        for round in 0..self.rounds {
            self.report.calibrations.push(calibration());
            for turns in &mut all {
                let is_ended = self.signals.heard().contains(&Heard::End);
                ensure!(!is_ended, "interrupted");
                let shown = turns.mover.name();
                eprintln!("round {} of {}: {shown}, {name}", round + 1, self.rounds);
                let before = busy()?;
                let took = turns.mover.carry(site, name, octets);
                let took = took.with_context(|| shown.clone())?;
                let cpu = busy()? - before;
                if turns.mover.writes() {
                    let [from, to] = ["from", "to"].map(|side| site.path(side).join(name));
                    ensure!(same(&from, &to)?, "{shown}: another file has come");
                }
                site.clear()?;
                turns.octets_s.push(octets as f64 / took.as_secs_f64());
                turns.cpu.push(cpu * 1e9 / octets as f64);
            }
        }
        Ok(all)
    }

    fn rows(&mut self, turns: &[Turns], what: &str) {
        for turns in turns {
            let mbit_s = Spread::of(turns.octets_s.clone()).times(8e-6);
            let share = mbit_s.median / (f64::from(RATE) * PAYLOAD * 8e-6);
            let cpu = Spread::of(turns.cpu.clone());
            self.report.row(
                &format!("{what}: {}", turns.mover.name()),
                &[
                    ("Mbit/s", mbit_s.median),
                    ("min", mbit_s.min),
                    ("max", mbit_s.max),
                    ("share", share),
                    ("CPU s/GB", cpu.median),
                    ("CPU min", cpu.min),
                    ("CPU max", cpu.max),
                ],
            );
        }
    }
}

/// Seconds that the CPUs of this machine have worked.
fn busy() -> anyhow::Result<f64> {
    let stat = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let all = stat.lines().next().unwrap_or_default();
    let mut ticks = all.split_whitespace().skip(1).map(str::parse::<u64>);
    let mut next = || ticks.next().and_then(Result::ok).context("/proc/stat");
    let (user, nice, system) = (next()?, next()?, next()?);
    // Neither idle nor waiting for a disk.
    next()?;
    next()?;
    let ticks = user + nice + system + next()? + next()?;
    Ok(ticks as f64 / clock_ticks_per_second() as f64)
}

/// Whether both are the same file, or directories of the same files.
fn same(one: &Path, other: &Path) -> anyhow::Result<bool> {
    if one.is_file() {
        return Ok(fs::read(one)? == fs::read(other)?);
    }
    let mut count = 0;
    for entry in fs::read_dir(one)? {
        let entry = entry?;
        count += 1;
        if !same(&entry.path(), &other.join(entry.file_name()))? {
            return Ok(false);
        }
    }
    Ok(fs::read_dir(other)?.count() == count)
}
