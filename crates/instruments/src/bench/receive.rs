//! `cellgate bench receive`: cells in, PDUs out.

use std::rc::Rc;

use anyhow::ensure;
use cellgate_core::adapter::Notification;
use cellgate_core::contract::{CellRate, aal5_cells};
use cellgate_core::queue::layout::PAGE_LEN;
use cellgate_core::wire::{PAYLOAD_LEN, VpiVci};
use cellgate_report::output::Exit;

use super::Args;
use super::measure::{Contestant, Sizes, Times};
#[cfg(feature = "crc-fast")]
use super::peers::CrcFast;
use super::peers::{
    BareCopy, ByCall, Checksum, CopyAndCrc, DefaultTable, PlainReceiver, SixteenTables,
};
use super::report::Report;
use super::rig::{Contract, Rig};
use super::train::{Order, Train, addresses, user_cell};
use crate::live::spread::Spread;

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut report = Report::new("receive", args.quick);
    let sizes = Sizes::new(args.quick);
    one_vc(&mut report, sizes)?;
    one_cell(&mut report, sizes)?;
    many_vcs(&mut report, sizes)?;
    lookups(&mut report, sizes)?;
    report.note(
        "policing is F-GCRA (from 8,192 octets on dual: peak and sustained rate) at the first \
         cell of each PDU and a charge for each of its cells, at a rate that is not exceeded; \
         every cell passes the FIFO copy that the memory link makes",
    );
    report.finish(args.json)
}

/// A train, and how much memory its VCs have.
struct Load {
    train: Rc<Train>,
    addresses: Vec<VpiVci>,
    pdu_cells: usize,
    /// Of each VC.
    len: usize,
}

impl Load {
    fn new(sdu: u16, vcs: usize, order: Order, cells: usize) -> Self {
        let addresses = addresses(vcs);
        let pdu_cells = aal5_cells(sdu.into()) as usize;
        let pdus = 2 + 1024usize.div_ceil(vcs * pdu_cells);
        let pdu_len = (pdu_cells * PAYLOAD_LEN).next_multiple_of(64);
        Self {
            train: Rc::new(Train::aal5(&addresses, sdu, order, cells)),
            addresses,
            pdu_cells,
            len: (pdus * pdu_len).next_multiple_of(PAGE_LEN),
        }
    }

    fn rig(&self, contract: Contract) -> anyhow::Result<Rig> {
        Rig::receiving(&self.addresses, contract, Rc::clone(&self.train))
    }

    /// The adapter with one call of a library a PDU in place of its fold.
    fn rig_by<C: Checksum>(&self, contract: Contract) -> anyhow::Result<Rig<ByCall<C>>> {
        Rig::receiving_by(&self.addresses, contract, Rc::clone(&self.train))
    }

    fn cells(&self) -> usize {
        self.train.cells()
    }

    fn bare_copy(&self) -> Contestant<'static> {
        let len = self.len * self.addresses.len();
        let mut copy = BareCopy::new(Rc::clone(&self.train), len);
        Contestant::whole("bare copy 52 -> 48", self.cells(), move || copy.pass())
    }

    fn limit(&self) -> Contestant<'static> {
        let len = self.len * self.addresses.len();
        let mut copy = CopyAndCrc::new(Rc::clone(&self.train), len, self.pdu_cells);
        Contestant::whole("machine limit: copy + CRC", self.cells(), move || {
            copy.pass();
        })
    }

    fn plain<C: Checksum>(&self, name: &str) -> Contestant<'static> {
        let train = Rc::clone(&self.train);
        let mut plain = PlainReceiver::new(train, self.addresses.len(), self.len.max(1 << 17));
        let pdu_cells = self.pdu_cells;
        Contestant::whole(name, self.cells(), move || plain.pass::<C>(pdu_cells))
    }
}

/// One VC with long PDUs: what a cell costs.
fn one_vc(report: &mut Report, sizes: Sizes) -> anyhow::Result<()> {
    for (sdu, bound) in [(8192, 5.0), (1500, 8.0)] {
        let load = Load::new(sdu, 1, Order::Contiguous, sizes.cells);
        let mut rig = load.rig(Contract::policed(sdu))?;
        let mut contestants = vec![
            rig.contestant(format!("adapter, {sdu} octets, 1 VC")),
            load.bare_copy(),
            load.limit(),
        ];
        if sdu == 8192 {
            contestants.push(load.plain::<SixteenTables>("plain receiver, crc Table<16>"));
            contestants.push(load.plain::<DefaultTable>("plain receiver, crc default table"));
        }
        let times = report.take_turns(contestants, sizes.repeats);
        rig.ensure_delivered()?;
        let copy = report.ratio(&times[0], &times[1]).median;
        report.ratio(&times[0], &times[2]);
        report.ratio_at_most(format!("{sdu} octets: over bare copy"), copy, bound);
        if sdu == 8192 {
            report.cycles_at_most("8192 octets: cycles", times[0].spread().median, 23.0);
            let sixteen = report.ratio(&times[3], &times[0]).median;
            report.ratio_at_least("8192 octets: crc Table<16> over this", sixteen, 3.0);
            let default = report.ratio(&times[4], &times[0]).median;
            report.ratio_at_least("8192 octets: crc default table over this", default, 20.0);
        }
    }
    Ok(())
}

/// PDUs of one cell: what a PDU costs.
fn one_cell(report: &mut Report, sizes: Sizes) -> anyhow::Result<()> {
    let load = Load::new(40, 1, Order::Contiguous, sizes.cells);
    let mut rig = load.rig(Contract::policed(40))?;
    let mut told = load.rig(Contract {
        notification: Notification::Silent {
            threshold: 256,
            longest_delay_ns: 1_000_000,
        },
        ..Contract::policed(40)
    })?;
    let mut by_table = load.rig_by::<SixteenTables>(Contract::policed(40))?;
    #[cfg(feature = "crc-fast")]
    let mut by_crc_fast = load.rig_by::<CrcFast>(Contract::policed(40))?;
    let contestants = vec![
        rig.contestant("adapter, PDUs of one cell, polled"),
        told.contestant("adapter, PDUs of one cell, a silent event each"),
        by_table.contestant("the adapter with one crc Table<16> call a PDU"),
        #[cfg(feature = "crc-fast")]
        by_crc_fast.contestant("the adapter with one crc-fast call a PDU"),
        load.plain::<SixteenTables>("plain receiver, one crc Table<16> call a PDU"),
        #[cfg(feature = "crc-fast")]
        load.plain::<CrcFast>("plain receiver, one crc-fast call a PDU"),
    ];
    let times = report.take_turns(contestants, sizes.repeats);
    rig.ensure_delivered()?;
    told.ensure_delivered()?;
    by_table.ensure_delivered()?;
    for peer in &times[2..] {
        report.ratio(peer, &times[0]);
    }
    #[cfg(feature = "crc-fast")]
    {
        by_crc_fast.ensure_delivered()?;
        let fast = times[3].over(&times[0]).median;
        report.ratio_at_least("one cell: crc-fast over this", fast, 2.0);
    }
    report.cycles_at_most("one cell: cycles", times[0].spread().median, 45.0);
    Ok(())
}

/// Many VCs, a cell of each in turn: what a VC that is not in the cache costs.
fn many_vcs(report: &mut Report, sizes: Sizes) -> anyhow::Result<()> {
    let one = Load::new(8192, 1, Order::Contiguous, sizes.cells);
    let many = Load::new(8192, 1024, Order::Interleaved, sizes.cells);
    let staggered = Load::new(8192, 1024, Order::Staggered, sizes.cells);
    let (mut one, mut many, mut staggered) = (
        one.rig(Contract::policed(8192))?,
        many.rig(Contract::policed(8192))?,
        staggered.rig(Contract::policed(8192))?,
    );
    let contestants = vec![
        one.contestant("adapter, 8192 octets, 1 VC (again)"),
        many.contestant("adapter, 8192 octets, 1024 VCs cell by cell"),
        staggered.contestant("the same, PDUs out of step"),
    ];
    let times = report.take_turns(contestants, sizes.repeats);
    one.ensure_delivered()?;
    many.ensure_delivered()?;
    let ratio = report.ratio(&times[1], &times[0]).median;
    report.ratio(&times[2], &times[0]);
    report.ratio_at_most("1024 VCs cell by cell over one VC", ratio, 4.0);
    Ok(())
}

/// What one VC's cells cost, VC by VC, where every cell is looked up; and as much for addresses
/// under which nothing is open.
fn lookups(report: &mut Report, sizes: Sizes) -> anyhow::Result<()> {
    const PER_VC: usize = 256;
    let open = addresses(1024);
    let closed: Vec<_> = open
        .iter()
        .map(|address| VpiVci::from_bits(address.bits() + (1 << 27)))
        .collect();
    //  Congestion comes and goes, so that no two headers in a row are equal.
    let train = |address| {
        let headers = (0..PER_VC).map(|at| user_cell(address, true, at % 2 == 0));
        Rc::new(Train::of_small_pdus(headers))
    };
    let (hits, misses): (Vec<_>, Vec<_>) = (
        open.iter().map(|&address| train(address)).collect(),
        closed.iter().map(|&address| train(address)).collect(),
    );
    let mut rig = Rig::new(1024, CellRate::OC3, Rc::clone(&hits[0]))?;
    for &address in &open {
        rig.open_receiving(address, Contract::policed(40), PER_VC as u32)?;
    }
    let mut medians = [Vec::new(), Vec::new()];
    let repeats = sizes.repeats.min(9);
    let mut samples = vec![[Vec::new(), Vec::new()]; open.len()];
    for _ in 0..=repeats {
        for (at, samples) in samples.iter_mut().enumerate() {
            for (train, samples) in [&hits[at], &misses[at]].into_iter().zip(samples) {
                rig.set_train(Rc::clone(train));
                samples.push(rig.pass_unread() as f64 / PER_VC as f64);
            }
            let vc = &mut rig.vcs[at];
            while let Some(pdu) = vc.memory.next_pdu() {
                vc.memory.release(pdu);
            }
        }
    }
    for samples in samples {
        for (medians, samples) in medians.iter_mut().zip(samples) {
            medians.push(Spread::of(samples[1..].to_vec()).median);
        }
    }
    let delivered = rig.stats().cells_delivered;
    let expected = (open.len() * PER_VC * (repeats + 1)) as u64;
    ensure!(delivered == expected, "{delivered} of {expected} delivered");
    let names = ["a look-up and a PDU, by VC", "a miss, by address"];
    let mut spreads = [Spread::default(); 2];
    for ((name, ticks), spread) in names.into_iter().zip(medians).zip(&mut spreads) {
        let name = name.to_owned();
        let times = Times { name, ticks };
        report.figure(&times);
        *spread = times.spread();
    }
    let [hit, miss] = spreads;
    report.value("look-up over 1024 VCs: q3/q1", "ratio", hit.q3 / hit.q1);
    report.value("look-up over 1024 VCs: max/min", "ratio", hit.max / hit.min);
    report.ratio_at_most("look-up over 1024 VCs: q3/q1", hit.q3 / hit.q1, 1.25);
    report.ratio_at_most("a miss over a hit", miss.median / hit.median, 1.0);
    Ok(())
}
