//! Needs in the world: a source as described, which an adapter sends under the contract that was
//! proposed and another polices under the same. Nothing is discarded, and no message takes longer
//! than was said; and no figure of the contract can be a twentieth less.

use cellgate_core::contract::{CellRate, Manner, Need, Peak, Proposal, TrafficContract};
use cellgate_core::contract::{TrafficDescriptor, aal5_cells};
use cellgate_core::wire::VpiVci;
use cellgate_lab::world::scenario::{
    ConnectionSpec, HostSpec, LinkSpec, Scenario, SourceSpec, Traffic,
};
use cellgate_lab::world::{Options, World};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Needs that are drawn.
const NEEDS: u64 = if cfg!(debug_assertions) { 40 } else { 200 };
/// Messages of a run.
const MESSAGES: u64 = 40;
/// From a message's being handed over to its last octet's being read, beside its cells at their
/// rate: two steps of 10 us at each adapter, a cell time, 5 us on the way, and 20 us until the
/// reader is up.
const BESIDE_NS: u64 = 70_000;

/// A need, and the messages of who has it: octets of each, so many nanoseconds apart.
struct Drawn {
    text: String,
    sizes: Vec<u16>,
    period_ns: u64,
}

/// What became of a run.
#[derive(Debug)]
struct Seen {
    non_conforming: u64,
    lost: u64,
    latency_max_ns: u64,
}

struct Draw(Pcg64Mcg);

impl Draw {
    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.next_u64() % (most - least + 1)
    }

    fn need(&mut self) -> Drawn {
        match self.between(0, 3) {
            0 => self.video(),
            1 => {
                let (octets, ms) = (self.between(20, 4_000), self.between(5, 40));
                let bit_s = octets * 8 * 1_000 / ms;
                let octets = (bit_s * ms).div_ceil(8_000);
                self.even(format!("voice {bit_s}bit/s {ms}ms"), octets, ms)
            }
            2 => {
                let (octets, ms) = (self.between(20, 4_000), self.between(5, 40));
                self.even(format!("sensor {octets}B every {ms}ms"), octets, ms)
            }
            _ => {
                // Packets of n octets each so many milliseconds.
                let (mtu, ms) = (self.between(500, 9_180), self.between(5, 20));
                let bit_s = mtu * 8 * 1_000 / ms;
                let text = format!("ip {bit_s}bit/s mtu {mtu}");
                Drawn {
                    text,
                    sizes: vec![(mtu + 8) as u16],
                    period_ns: (mtu * 8 * 1_000_000_000).div_ceil(bit_s),
                }
            }
        }
    }

    /// Messages of one size; half of them have less time than there is until the next.
    fn even(&mut self, mut text: String, octets: u64, ms: u64) -> Drawn {
        if self.between(0, 1) == 1 {
            text += &format!(" latency {}us", self.between(5_000, 15_000));
        }
        Drawn {
            text,
            sizes: vec![octets as u16],
            period_ns: ms * 1_000_000,
        }
    }

    /// The largest frame, and then those that are as large as they can be.
    fn video(&mut self) -> Drawn {
        let (mean, fps) = (self.between(300, 6_000), self.between(20, 60));
        let peak = self.between(1, 6);
        let mut text = format!("video {}bit/s {fps}fps", mean * 8 * fps);
        if peak > 1 {
            text += &format!(" peak {peak}x");
        }
        let ts = self.between(0, 2) == 0;
        if ts {
            text += " ts";
        }
        // What wastes most of a cell, within what is left of the mean and the burst.
        let waste = |most: u64| match ts {
            // A sixth pair of packets begins a cell.
            true if most > 1_880 => (most - 1_881) / 2_256 * 2_256 + 1_881,
            true => (most - 1) / 376 * 376 + 1,
            false => (most - 41) / 48 * 48 + 41,
        };
        let (mut left, mut sizes) = ((peak - 1) * mean, vec![mean * peak]);
        left = left + mean - mean * peak;
        while sizes.len() < MESSAGES as usize && peak > 1 {
            let size = waste(left + mean).min(left + mean);
            left = left + mean - size;
            sizes.push(size);
        }
        let units = |size: u64| if ts { size.next_multiple_of(376) } else { size };
        Drawn {
            text,
            sizes: sizes.into_iter().map(|size| units(size) as u16).collect(),
            period_ns: 1_000_000_000_u64.div_ceil(fps),
        }
    }
}

/// Two hosts, the source at one and a reader at the other.
fn run(drawn: &Drawn, contract: &TrafficContract) -> Seen {
    // The adapters' steps are within it.
    let tolerates = |way: TrafficDescriptor| TrafficDescriptor {
        cdvt_ns: Some(25_000),
        ..way
    };
    let contract = TrafficContract {
        transmit: contract.transmit.map(tolerates),
        receive: contract.receive.map(tolerates),
        ..*contract
    };
    let address = VpiVci::new(0, 100).expect("an address");
    let text = contract.to_string();
    let traffic = Traffic::OnOff {
        // One message begins in each period.
        cell_s: 100_000_000,
        on_ns: 1,
        off_ns: drawn.period_ns - 1,
    };
    let source = SourceSpec {
        by_adapter: true,
        hazard: true,
        ..SourceSpec::on("it", traffic, &drawn.sizes)
    };
    let scenario = Scenario {
        duration_ns: drawn.period_ns * MESSAGES,
        hosts: ["a", "b"].map(HostSpec::named).into(),
        links: vec![LinkSpec::between("a", "b")],
        connections: vec![ConnectionSpec::between("it", ["a", "b"], address, &text)],
        sources: vec![source],
        ..Scenario::default()
    };
    let world = World::new(&scenario, Options::default());
    let mut world = world.unwrap_or_else(|error| panic!("{}: {text}: {error:?}", drawn.text));
    world.run();
    let outcome = world.outcome(scenario.duration_ns);
    let connection = &outcome.connections["it"];
    assert!(connection.sent_pdus > 0, "{}: {text}", drawn.text);
    let discarded = outcome.hosts.iter().map(|host| &host.discarded_cells);
    let discarded = discarded.filter_map(|by_reason| by_reason.get("non_conforming"));
    Seen {
        non_conforming: discarded.sum(),
        lost: connection.lost_pdus + MESSAGES.saturating_sub(connection.sent_pdus),
        latency_max_ns: connection.latency_max_ns.unwrap_or(u64::MAX),
    }
}

fn pcr_of(contract: &TrafficContract) -> CellRate {
    match contract.transmit.and_then(|way| way.pcr) {
        Some(Peak::Rate(rate)) => rate,
        other => panic!("{contract}: {other:?}"),
    }
}

fn cell_ns(rate: CellRate) -> u64 {
    1_000_000_000 / u64::from(rate.cell_s())
}

/// A contract with one figure a twentieth less, rounded down, and what that is called. A burst may
/// still hold the largest message, or miss so little of it that nobody sees it.
fn lesser(proposal: &Proposal, largest: u64) -> Vec<(&'static str, TrafficContract)> {
    let less = |figure: u32| figure - figure.div_ceil(20);
    let both = |way: TrafficDescriptor| TrafficContract {
        transmit: Some(way),
        receive: Some(way),
        ..proposal.contract
    };
    let way = proposal.contract.transmit.expect("it sends");
    let peak = CellRate::new(less(pcr_of(&proposal.contract).cell_s()));
    let mut all = vec![(
        "pcr",
        both(TrafficDescriptor {
            pcr: peak.map(Peak::Rate),
            ..way
        }),
    )];
    if let (Some(scr), Some(mbs)) = (way.scr, way.mbs) {
        // The delay of the cells that are missing from the burst.
        let each_ns = cell_ns(scr) - cell_ns(pcr_of(&proposal.contract));
        let missing = largest.saturating_sub(less(mbs.get()).into());
        let late_ns = missing * each_ns;
        let scr = CellRate::new(less(scr.cell_s()));
        let mbs = core::num::NonZeroU32::new(less(mbs.get()));
        all.push(("scr", both(TrafficDescriptor { scr, ..way })));
        if late_ns > BESIDE_NS {
            all.push(("mbs", both(TrafficDescriptor { mbs, ..way })));
        }
    }
    all
}

#[test]
fn a_need_is_carried_by_its_contracts_and_by_no_less() {
    let mut draw = Draw(Pcg64Mcg::seed_from_u64(29));
    let (mut runs, mut bursty, mut by_mbs) = (0, 0, 0);
    for _ in 0..NEEDS {
        let drawn = draw.need();
        let need: Need = drawn.text.parse().expect(&drawn.text);
        let text = &drawn.text;
        let largest = need.largest_cells().expect(text);
        let sizes = drawn.sizes.iter();
        let sizes = sizes.map(|size| aal5_cells((*size).into()));
        assert_eq!(sizes.max().map(u64::from), Some(largest), "{text}");
        for proposal in need.proposals(BESIDE_NS).expect(text) {
            let (Some(way_ns), contract) = (proposal.way_ns, &proposal.contract) else {
                continue;
            };
            // An idle adapter sends a message's first cell at once.
            let said_ns = way_ns - cell_ns(pcr_of(contract)) + BESIDE_NS;
            let seen = run(&drawn, contract);
            let is_kept = |seen: &Seen| {
                seen.non_conforming + seen.lost == 0 && seen.latency_max_ns <= said_ns
            };
            assert!(
                is_kept(&seen),
                "{text}: {contract}: {said_ns} ns said: {seen:?}"
            );
            for (figure, lesser) in lesser(&proposal, largest) {
                let seen = run(&drawn, &lesser);
                assert!(
                    !is_kept(&seen),
                    "{text}: {contract}: {lesser}, with less {figure}, does as well: {seen:?}"
                );
                runs += 1;
                by_mbs += u64::from(figure == "mbs");
            }
            bursty += u64::from(proposal.manner == Manner::Bursty);
        }
    }
    println!("{NEEDS} needs, {bursty} of them with bursts, {runs} contracts that are too small");
    assert!(
        bursty > NEEDS / 5 && by_mbs > bursty / 2,
        "{bursty}, {by_mbs}"
    );
}
