//! `cellgate bench discard`: what a cell that nobody is to get costs.

use std::rc::Rc;

use anyhow::{Context, ensure};
use cellgate_core::adapter::Discard;
use cellgate_core::contract::CellRate;
use cellgate_core::wire::VpiVci;
use cellgate_report::output::Exit;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Args;
use super::measure::{Contestant, Sizes, Times};
use super::report::Report;
use super::rig::{Contract, Rig};
use super::train::{Order, Train, addresses, user_cell};
use crate::live::spread::Spread;

const SDU: u16 = 8192;

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut report = Report::new("discard", args.quick);
    let sizes = Sizes::new(args.quick);
    same_trains(&mut report, 1, Order::Contiguous, sizes)?;
    same_trains(&mut report, 64, Order::Interleaved, sizes)?;
    many_open(&mut report, sizes)?;
    scan(&mut report, sizes)?;
    report.note(
        "floor: the link's copy into the FIFO, which a port that is thrown away unread costs too; \
         accepting and discarding are compared without it",
    );
    report.finish(args.json)
}

/// What becomes of a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Accepted,
    Unread,
    Unknown,
    Full,
    Policed,
}

impl Fate {
    const ALL: [Self; 5] = [
        Self::Accepted,
        Self::Unread,
        Self::Unknown,
        Self::Full,
        Self::Policed,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Unread => "floor: thrown away unread",
            Self::Unknown => "unknown VC",
            Self::Full => "disabled VC (buffer full)",
            Self::Policed => "policed VC",
        }
    }

    fn rig(self, addresses: &[VpiVci], train: Rc<Train>) -> anyhow::Result<Rig> {
        let contract = Contract::policed(SDU);
        match self {
            Self::Accepted => Rig::receiving(addresses, contract, train),
            Self::Unread => Rig::unread(train),
            Self::Unknown => Rig::new(1, CellRate::OC3, train),
            Self::Full => {
                let mut rig = Rig::new(addresses.len(), CellRate::OC3, train)?;
                for &address in addresses {
                    let unpoliced = Contract {
                        receive_rate: None,
                        ..contract
                    };
                    rig.open_receiving(address, unpoliced, 2)?;
                }
                Ok(rig)
            }
            Self::Policed => {
                let slow = Contract {
                    receive_rate: CellRate::new(1),
                    ..contract
                };
                Rig::receiving(addresses, slow, train)
            }
        }
    }

    /// Fails unless nearly everything met this fate.
    fn ensure(self, rig: &Rig) -> anyhow::Result<()> {
        let stats = rig.stats();
        let met = match self {
            Self::Accepted => stats.cells_delivered,
            Self::Unread => stats.cells_unread,
            Self::Unknown => stats.cells_discarded.of(Discard::UnknownVc),
            Self::Full => {
                stats.cells_discarded.of(Discard::BufferFull)
                    + stats.cells_discarded.of(Discard::QueueFull)
            }
            Self::Policed => stats.cells_discarded.of(Discard::NonConforming),
        };
        let received = stats.cells_received;
        //  A VC takes its buffer full before it is disabled.
        let wanted = match self {
            Self::Full | Self::Policed => received / 2,
            _ => received,
        };
        ensure!(met >= wanted && met > 0, "{self:?}: {met} of {received}");
        Ok(())
    }
}

/// One train, five fates.
fn same_trains(report: &mut Report, vcs: usize, order: Order, sizes: Sizes) -> anyhow::Result<()> {
    let addresses = addresses(vcs);
    let train = Rc::new(Train::aal5(&addresses, SDU, order, sizes.cells));
    let rigs = Fate::ALL
        .iter()
        .map(|fate| fate.rig(&addresses, Rc::clone(&train)));
    let mut rigs = rigs.collect::<anyhow::Result<Vec<_>>>()?;
    let what = match order {
        Order::Contiguous => "runs".to_owned(),
        Order::Interleaved | Order::Staggered => format!("{vcs} addresses in turn"),
    };
    let contestants = rigs.iter_mut().zip(Fate::ALL).map(|(rig, fate)| {
        let name = format!("{what}: {}", fate.name());
        let cells = rig.cells();
        Contestant::new(name, cells, move || match fate {
            Fate::Full => rig.pass_unread(),
            _ => rig.pass(),
        })
    });
    let times = report.take_turns(contestants, sizes.repeats);
    for (rig, fate) in rigs.iter().zip(Fate::ALL) {
        fate.ensure(rig)?;
    }
    let [accepted, unread, refused @ ..] = &times[..] else {
        return Ok(());
    };
    for refused in refused {
        report.ratio(refused, accepted);
        let share = share(refused, accepted, unread).median;
        report.ratio_at_most(format!("{} over accepted", refused.name), share, 1.0 / 3.0);
        let median = refused.spread().median;
        report.cycles_at_most(format!("{}: cycles", refused.name), median, 12.0);
    }
    Ok(())
}

/// `mine` over `theirs`, both above `floor`.
fn share(mine: &Times, theirs: &Times, floor: &Times) -> Spread {
    let shares = mine.ticks.iter().zip(&theirs.ticks).zip(&floor.ticks);
    Spread::of(
        shares
            .map(|((mine, theirs), floor)| (mine - floor).max(0.0) / (theirs - floor))
            .collect(),
    )
}

/// Strangers among few and among many open VCs.
fn many_open(report: &mut Report, sizes: Sizes) -> anyhow::Result<()> {
    let strangers: Vec<_> = (0..64)
        .map(|at| VpiVci::from_bits((1 << 26) + at * 65_551))
        .collect();
    let train = Rc::new(Train::aal5(
        &strangers,
        SDU,
        Order::Interleaved,
        sizes.cells,
    ));
    let rig = |vcs| Rig::receiving(&addresses(vcs), Contract::policed(40), Rc::clone(&train));
    let (mut few, mut many) = (rig(1)?, rig(1024)?);
    let contestants = [("1 VC open", &mut few), ("1024 VCs open", &mut many)];
    let contestants = contestants.map(|(name, rig)| rig.contestant(format!("unknown VC, {name}")));
    let times = report.take_turns(contestants, sizes.repeats);
    let ratio = report.ratio(&times[1], &times[0]).median;
    report.ratio_at_most("unknown VC: 1024 VCs open over one", ratio, 1.1);
    Ok(())
}

/// Cells from all over the 28-bit space.
fn scan(report: &mut Report, sizes: Sizes) -> anyhow::Result<()> {
    let Sizes { cells, repeats } = sizes;
    let mut random = Pcg64Mcg::seed_from_u64(28);
    //  The top bit keeps clear of what is open.
    let headers = (0..cells).map(|_| {
        let bits = random.next_u32() | 1 << 27;
        user_cell(VpiVci::from_bits(bits), false, false)
    });
    let train = Rc::new(Train::of_headers(headers));
    let mut rig = Rig::receiving(&addresses(1024), Contract::policed(40), train)?;
    rig.pass();
    let mut chase = Chase::new(&mut random);
    let contestants = vec![
        rig.contestant("random scan of 28 bits"),
        Contestant::whole("one random load from L2", cells, || chase.pass(cells)),
    ];
    let times = report.take_turns(contestants, repeats);
    let ratio = report.ratio(&times[0], &times[1]).median;
    report.ratio_at_most("random scan over one random L2 load", ratio, 3.0);
    let (faults, grown) = Memory::more_after(|| {
        for _ in 0..repeats {
            rig.pass();
        }
    })?;
    let scanned = (repeats * cells) as f64;
    report.value("addresses scanned", "cells", scanned);
    report.count_at_most("page faults during the scan", faults, 0.0);
    report.count_at_most("pages of memory grown by the scan", grown, 0.0);
    let stats = rig.stats();
    let unknown = stats.cells_discarded.of(Discard::UnknownVc);
    ensure!(unknown == stats.cells_received, "{unknown} unknown cells");
    Ok(())
}

/// A chain of loads, each of an address that the one before it gives, all over 512 KB.
struct Chase {
    next: Vec<u32>,
    at: u32,
}

impl Chase {
    fn new(random: &mut Pcg64Mcg) -> Self {
        //  Sattolo's shuffle: one cycle through all entries.
        let mut next: Vec<u32> = (0..1 << 17).collect();
        for at in (1..next.len()).rev() {
            next.swap(at, random.next_u32() as usize % at);
        }
        Self { next, at: 0 }
    }

    fn pass(&mut self, loads: usize) {
        for _ in 0..loads {
            self.at = self.next[self.at as usize];
        }
        std::hint::black_box(self.at);
    }
}

/// What the kernel says of this process.
struct Memory {
    minor_faults: u64,
    resident_pages: u64,
}

impl Memory {
    fn look() -> anyhow::Result<Self> {
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        //  The second field, a name in parentheses, may hold anything; the tenth counts faults.
        let fields = stat.rsplit_once(')').context("/proc/self/stat")?.1;
        let faults = fields.split_whitespace().nth(7).context("minor faults")?;
        let statm = std::fs::read_to_string("/proc/self/statm")?;
        let resident = statm.split_whitespace().nth(1).context("resident pages")?;
        Ok(Self {
            minor_faults: faults.parse()?,
            resident_pages: resident.parse()?,
        })
    }

    /// Faults and pages more after `work`, less what looking itself costs.
    fn more_after(work: impl FnOnce()) -> anyhow::Result<(f64, f64)> {
        //  The first looks grow the heap to what a look takes.
        Self::look()?;
        let (first, second) = (Self::look()?, Self::look()?);
        let looking = second.minor_faults - first.minor_faults;
        work();
        let after = Self::look()?;
        let faults = (after.minor_faults - second.minor_faults).saturating_sub(looking);
        let grown = after.resident_pages.saturating_sub(second.resident_pages);
        Ok((faults as f64, grown as f64))
    }
}
