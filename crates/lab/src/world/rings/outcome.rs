//! Rings in numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::block::Seen;
pub use super::figures::Percentiles;
use super::promises::{begun, came};
use super::run::Run;
use crate::world::{Outcome, Ps};

/// A ring's channels, and what became of its cells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingOutcome {
    pub sent_cells: u64,
    pub taken_cells: u64,
    pub untaken_cells: u64,
    /// Cells that faults have taken or spoilt, and that the monitor has removed.
    pub lost_cells: u64,
    pub damaged_cells: u64,
    pub cleared_cells: u64,
    /// Of the slots of each channel that came by until `duration_ns`, millionths that were filled.
    pub channels_use_ppm: Vec<u64>,
    /// From a cell's being whole in an access chip to its slot.
    pub access: Option<Percentiles>,
}

/// A station, and its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StationOutcome {
    pub ring: String,
    pub sent_blocks: u64,
    pub received_blocks: u64,
    pub sent_cells: u64,
    /// Cells of its circuits that passed; that found the FIFO full; that its host has read.
    pub passed_cells: u64,
    pub overflowed_cells: u64,
    pub read_cells: u64,
    /// Cells that its host threw away, by reason; those that are not zero.
    pub discarded_cells: BTreeMap<String, u64>,
    /// Cells that were lost since they were asked for while another was copied.
    pub bus_errors: u64,
    pub interrupts: u64,
    /// Thousandths.
    pub interrupts_a_block: Option<u64>,
    /// Cells that had a place in the receive FIFO, at most.
    pub fifo_high_water: u64,
    /// Of the run, millionths that the CPU was busy.
    pub cpu_ppm: u64,
    pub access: Option<Percentiles>,
}

/// Blocks from station to station.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssociationOutcome {
    /// Of its own traffic: who answers, or goes on from a bridge, begins none. Of `rpc` they are
    /// calls, and what was received are replies.
    pub sent_blocks: u64,
    pub received_blocks: u64,
    pub received_octets: u64,
    /// Blocks that nobody has sent so.
    pub strange_blocks: u64,
    /// Bit/s of blocks read, over the whole `duration_ns`.
    pub data_bit_s: u64,
    /// From a block's being handed over, where it came from first, to its being read here.
    pub delay: Option<Percentiles>,
}

impl Run<'_> {
    /// The run in numbers.
    pub(super) fn outcome(&self) -> Outcome {
        let sent = self
            .networks
            .iter()
            .map(|network| network.ring().counts().sent);
        Outcome {
            ended_ns: self.now.ns(),
            events: self.events,
            cells: sent.sum(),
            judged_cells: self.judged(),
            trace_hash: self.hash,
            rings: self.rings(),
            stations: self.stations(),
            associations: self.associations(),
            ..Outcome::default()
        }
    }

    fn rings(&self) -> BTreeMap<String, RingOutcome> {
        let rings = self.scenario.rings.iter().enumerate();
        let one = |(n, spec): (usize, &super::scenario::RingSpec)| {
            let ring = self.networks[n].ring();
            let counts = ring.counts();
            let rotations = self.scenario.duration_ns.max(self.now.ns()) / spec.rotation_ns;
            let slots = (rotations * u64::from(spec.frames)).max(1);
            let use_ppm = |channel| ring.filled(channel) * 1_000_000 / slots;
            let waits = (0..self.plan.seated[n].len()).flat_map(|seat| self.laws[n].waits(seat));
            let outcome = RingOutcome {
                sent_cells: counts.sent,
                taken_cells: counts.taken,
                untaken_cells: counts.untaken,
                lost_cells: counts.lost,
                damaged_cells: counts.damaged,
                cleared_cells: counts.cleared,
                channels_use_ppm: (0..spec.channels).map(use_ppm).collect(),
                access: Percentiles::of(waits.copied().collect()),
            };
            (spec.name.clone(), outcome)
        };
        rings.map(one).collect()
    }

    fn stations(&self) -> BTreeMap<String, StationOutcome> {
        let specs = self.scenario.stations.iter().zip(&self.plan.seats);
        let one = |(spec, (ring, seat)): (&super::scenario::StationSpec, &(usize, usize))| {
            let network = &self.networks[*ring];
            let (station, host) = (&network.stations()[*seat], &network.hosts()[*seat]);
            let (counts, work) = (station.counts(), host.counts());
            let discarded = host.msdl().counts().discarded.iter();
            let discarded = discarded.filter(|(_, cells)| *cells > 0);
            let blocks = work.received_blocks;
            let outcome = StationOutcome {
                ring: spec.ring.clone(),
                sent_blocks: work.sent_blocks,
                received_blocks: blocks,
                sent_cells: counts.sent,
                passed_cells: counts.passed,
                overflowed_cells: counts.overflowed,
                read_cells: counts.read,
                discarded_cells: discarded
                    .map(|(reason, cells)| (reason.name().to_string(), cells))
                    .collect(),
                bus_errors: work.bus_errors,
                interrupts: counts.interrupts,
                interrupts_a_block: (counts.interrupts * 1_000).checked_div(blocks),
                fifo_high_water: counts.high_water as u64,
                cpu_ppm: work.busy.ns() * 1_000 / (self.now.ns() / 1_000).max(1),
                access: Percentiles::of(self.laws[*ring].waits(*seat).to_vec()),
            };
            (spec.name.clone(), outcome)
        };
        specs.map(one).collect()
    }

    fn associations(&self) -> BTreeMap<String, AssociationOutcome> {
        let begun: BTreeMap<(u32, u64), Ps> = begun(self)
            .into_iter()
            .map(|one| ((one.association, one.serial), one.at))
            .collect();
        let specs = self.scenario.associations.iter();
        let mut all: Vec<AssociationOutcome> = specs
            .clone()
            .map(|_| AssociationOutcome::default())
            .collect();
        let mut delays = vec![Vec::new(); all.len()];
        for (association, _) in begun.keys() {
            all[*association as usize].sent_blocks += 1;
        }
        for one in came(self) {
            let outcome = &mut all[one.association];
            outcome.received_blocks += 1;
            outcome.received_octets += u64::from(one.read.len);
            match one.read.seen {
                Seen::Whole(block) => {
                    let sent = begun.get(&(block.association, block.serial));
                    delays[one.association].extend(sent.map(|sent| one.read.at.since(*sent)));
                }
                Seen::Strange => outcome.strange_blocks += 1,
            }
        }
        let networks = self.networks.iter();
        let hosts = networks.flat_map(|network| network.hosts());
        for node in hosts.filter_map(|host| host.application().node.as_ref()) {
            for caller in &node.callers {
                let n = caller.association as usize;
                let (calls, replies) = node.book.replies(caller.association);
                all[n].sent_blocks += calls;
                for (octets, delay) in replies {
                    all[n].received_blocks += 1;
                    all[n].received_octets += u64::from(octets);
                    delays[n].push(delay);
                }
            }
        }
        let named = specs.zip(all).zip(delays);
        let told = named.map(|((spec, mut outcome), delays)| {
            let bits = u128::from(outcome.received_octets) * 8 * 1_000_000_000;
            let duration = u128::from(self.scenario.duration_ns.max(1));
            outcome.data_bit_s = (bits / duration) as u64;
            outcome.delay = Percentiles::of(delays);
            (spec.name.clone(), outcome)
        });
        told.collect()
    }
}
