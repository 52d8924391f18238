//! `cellgate bench police`: what policing adds to a cell, and a check of two buckets alone.

use std::ffi::{OsStr, OsString};
use std::rc::Rc;

use anyhow::{Context, ensure};
use cellgate_core::Time;
use cellgate_core::contract::{CellRate, Gcra, Increment};
use cellgate_report::output::Exit;
use cellgate_simd::{Fold, Kernel, with_features};

use super::measure::{Contestant, Sizes};
use super::process::Process;
use super::report::Report;
use super::rig::{Contract, Rig};
use super::train::{Order, Train, addresses};

/// Measure the data path's policing, and GCRA with two buckets beside DPDK's trTCM
#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Args {
    #[command(flatten)]
    shared: super::Args,
    /// Program that checks DPDK's meters, built from peers/rte_meter.c
    #[arg(long, value_name = "PROGRAM")]
    peer: Option<OsString>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut report = Report::new("police", args.shared.quick);
    let sizes = Sizes::new(args.shared.quick);
    frames(&mut report, sizes)?;
    for load in Load::ALL {
        load.measure(&mut report, sizes, args.peer.as_deref())?;
    }
    report.note(
        "by frame: F-GCRA (from 8,192 octets on dual: peak and sustained rate) at the first cell \
         of each PDU and a charge for each of its cells, at a rate that is not exceeded; every \
         cell passes the FIFO copy that the memory link makes",
    );
    report.note(
        "by cell: two buckets of each of 1,024 VCs in turn, which are given the time, every 64 \
         cells a later one; GCRA is exact, trTCM rounds its period down to whole ticks for a byte, \
         counts bytes and tells three colours",
    );
    report.finish(args.shared.json)
}

/// The same traffic with and without a contract.
fn frames(report: &mut Report, sizes: Sizes) -> anyhow::Result<()> {
    for sdu in [8192, 40] {
        let addresses = addresses(1);
        let train = Train::aal5(&addresses, sdu, Order::Contiguous, sizes.cells);
        let train = Rc::new(train);
        let rig = |contract| Rig::receiving(&addresses, contract, Rc::clone(&train));
        let mut policed = rig(Contract::policed(sdu))?;
        let mut free = rig(Contract {
            receive_rate: None,
            ..Contract::policed(sdu)
        })?;
        let contestants = [
            policed.contestant(format!("{sdu} octets, policed")),
            free.contestant(format!("{sdu} octets, not policed")),
        ];
        let times = report.take_turns(contestants, sizes.repeats);
        policed.ensure_delivered()?;
        free.ensure_delivered()?;
        let less = times[0].less(&times[1]).median;
        let name = format!("policing, {sdu} octets");
        report.value(name.clone(), "cycles/cell", less);
        if sdu == 8192 {
            report.cycles_at_most(format!("{name}: cycles a cell"), less, 2.0);
        }
    }
    Ok(())
}

const VCS: usize = 1024;
/// Checks between two readings of the clock.
const CHECKS_A_CLOCK: usize = 64;
/// Neither rate has a whole number of nanoseconds between two cells.
const PEAK_CELL_S: u32 = 390_001;
const SUSTAINED_CELL_S: u32 = 190_003;
const TOLERANCE_NS: u64 = 100_000;

/// How fast the cells of each VC come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    /// Six sevenths of the sustained rate.
    Conforming,
    /// Five times the sustained rate, all VCs passing and failing together.
    Failing,
    /// As fast, each VC on its own.
    Mixed,
}

impl Load {
    const ALL: [Self; 3] = [Self::Conforming, Self::Failing, Self::Mixed];

    fn name(self) -> &'static str {
        match self {
            Self::Conforming => "all conform",
            Self::Failing => "4 of 5 fail, VCs in step",
            Self::Mixed => "4 of 5 fail, VCs out of step",
        }
    }

    /// Time from one check to the next.
    fn check_ns(self) -> u64 {
        match self {
            Self::Conforming => 6,
            Self::Failing | Self::Mixed => 1,
        }
    }

    /// Fails unless about as many checks passed as the load's name says.
    fn ensure(self, passed: u64, checks: usize, who: &str) -> anyhow::Result<()> {
        let part = passed as f64 / checks as f64;
        let holds = match self {
            Self::Conforming => passed == checks as u64,
            Self::Failing | Self::Mixed => (0.15..0.26).contains(&part),
        };
        let name = self.name();
        ensure!(holds, "{name}: of {who}'s checks {part:.3} passed");
        Ok(())
    }

    /// DPDK's meters under this load; what comes of a round is how many checks came out green.
    fn peer(self, program: &OsStr, checks: usize) -> anyhow::Result<Process> {
        let args = [
            checks as u64,
            PEAK_CELL_S.into(),
            SUSTAINED_CELL_S.into(),
            TOLERANCE_NS,
            self.check_ns(),
            u64::from(self == Self::Mixed),
        ];
        Process::spawn(program, &args.map(|number| number.to_string()))
    }

    /// Both meters in turn, or ours alone.
    fn measure(
        self,
        report: &mut Report,
        sizes: Sizes,
        program: Option<&OsStr>,
    ) -> anyhow::Result<()> {
        let checks = sizes.cells;
        let mut meter = Meter::new(self)?;
        let mut peer = program
            .map(|program| self.peer(program, checks))
            .transpose()?;
        let name = format!("dual GCRA, 1024 VCs, {}", self.name());
        let mut contestants = vec![Contestant::whole(name, checks, || meter.round(checks))];
        if let Some(peer) = &mut peer {
            let name = format!("DPDK trTCM, 1024 meters, {}", self.name());
            contestants.push(Contestant::new(name, checks, || peer.round()));
        }
        let times = report.take_turns(contestants, sizes.repeats);
        self.ensure(meter.passed, checks, "GCRA")?;
        if let (Some(peer), [mine, theirs]) = (peer, &times[..]) {
            self.ensure(peer.end()?, checks, "trTCM")?;
            let ratio = report.ratio(mine, theirs).median;
            let name = format!("dual GCRA over trTCM, {}", self.name());
            report.ratio_at_most(name, ratio, 0.5);
        }
        Ok(())
    }
}

/// Judges a cell at `now` as the adapter judges one of AAL0: it is charged to both buckets if it
/// conforms to both.
#[inline(always)]
fn police(buckets: &mut [Gcra; 2], now: Time) -> bool {
    let conforms = buckets.iter().all(|bucket| bucket.conforms(now));
    if conforms {
        for bucket in buckets {
            bucket.catch_up(now);
            bucket.charge(1);
        }
    }
    conforms
}

/// Two buckets for each of many VCs, a cell of each in turn.
struct Meter {
    vcs: Vec<[Gcra; 2]>,
    now: Time,
    check_ns: u64,
    /// Checks of the last round that passed.
    passed: u64,
}

impl Meter {
    fn new(load: Load) -> anyhow::Result<Self> {
        let rate = |cell_s| CellRate::new(cell_s).context("a rate");
        let (peak, sustained) = (rate(PEAK_CELL_S)?, rate(SUSTAINED_CELL_S)?);
        let buckets = [peak, sustained].map(|rate| Gcra::new(rate, TOLERANCE_NS));
        let mut vcs = vec![buckets; VCS];
        let period_ns = Increment::of(sustained).times_ns(1);
        if load == Load::Mixed {
            for (at, vc) in (0..).zip(&mut vcs) {
                //  Coprime with their number: all parts of a cell's time occur.
                let part = at * 389 % VCS as u64;
                let sent = Time::from_ns(period_ns * part / VCS as u64);
                police(vc, sent);
            }
        }
        Ok(Self {
            vcs,
            now: Time::from_ns(period_ns),
            check_ns: load.check_ns(),
            passed: 0,
        })
    }

    /// With the CPU's best instructions, as the adapter's loop has them.
    fn round(&mut self, checks: usize) {
        self.passed = with_features(Round {
            meter: self,
            checks,
        });
    }
}

/// So many checks; the output is how many passed.
struct Round<'a> {
    meter: &'a mut Meter,
    checks: usize,
}

impl Kernel for Round<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<F: Fold>(self, _fold: F) -> u64 {
        let meter = self.meter;
        let mut passed = 0;
        for at in (0..self.checks).step_by(CHECKS_A_CLOCK) {
            meter.now = meter.now.plus_ns(CHECKS_A_CLOCK as u64 * meter.check_ns);
            for vc in &mut meter.vcs[at % VCS..][..CHECKS_A_CLOCK] {
                passed += u64::from(police(vc, meter.now));
            }
        }
        passed
    }
}
