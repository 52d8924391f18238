//! The CPU law, and the paper's.

use cellgate_core::contract::aal5_cells;
use cellgate_core::server::lambda::{Flow, Lambda, Ratio};
use cellgate_core::server::{Cost, CpuLaw, Direction, LawError, Sample};

const SIZES: [u32; 6] = [40, 128, 512, 1500, 9180, 65_535];

/// Slices of about 2 ms, whose times are `times` percent of what the costs say.
fn samples(direction: Direction, cost: Cost, sizes: &[u32], times: &[u64]) -> Vec<Sample> {
    let mut samples = Vec::new();
    for sdu in sizes {
        let pdu_cells = u64::from(aal5_cells(*sdu));
        let pdus = (20_000 / pdu_cells).max(10);
        let cells = pdus * pdu_cells;
        let ps = cells * cost.cell_ps + pdus * cost.pdu_ps;
        samples.extend(times.iter().map(|percent| Sample {
            direction,
            sdu: *sdu,
            cells,
            pdus,
            ns: ps * percent / 100_000,
        }));
    }
    samples
}

const TRANSMIT: Cost = Cost {
    cell_ps: 61_000,
    pdu_ps: 410_000,
};
const RECEIVE: Cost = Cost {
    cell_ps: 45_500,
    pdu_ps: 233_000,
};

fn both_ways(times: &[u64]) -> Vec<Sample> {
    let mut all = samples(Direction::Transmit, TRANSMIT, &SIZES, times);
    all.extend(samples(Direction::Receive, RECEIVE, &SIZES, times));
    all
}

#[track_caller]
fn assert_near(actual: u64, expected: u64, per_mille: u64) {
    let off = actual.abs_diff(expected) * 1_000;
    assert!(
        off <= expected * per_mille,
        "{actual} instead of {expected}"
    );
}

#[test]
fn a_law_without_noise_is_found() {
    let law = CpuLaw::fit(&both_ways(&[100]), 0).expect("a law");
    for costs in [law.reserve, law.expected] {
        assert_near(costs.transmit.cell_ps, TRANSMIT.cell_ps, 1);
        assert_near(costs.transmit.pdu_ps, TRANSMIT.pdu_ps, 1);
        assert_near(costs.receive.cell_ps, RECEIVE.cell_ps, 1);
        assert_near(costs.receive.pdu_ps, RECEIVE.pdu_ps, 1);
    }
}

#[test]
fn use_is_expected_at_the_median_and_reserved_at_the_99th_percentile() {
    // Of 100 slices the 50th takes 100 % and the 99th 150 %; the last, 1000 %, is nobody's.
    let mut times = vec![100; 90];
    times.extend([150; 9]);
    times.push(1_000);
    let law = CpuLaw::fit(&both_ways(&times), 0).expect("a law");
    assert_near(law.expected.transmit.cell_ps, TRANSMIT.cell_ps, 1);
    assert_near(law.reserve.transmit.cell_ps, TRANSMIT.cell_ps * 3 / 2, 1);
    assert_near(law.reserve.receive.pdu_ps, RECEIVE.pdu_ps * 3 / 2, 1);
}

#[test]
fn no_99th_percentile_lies_above_what_is_reserved() {
    let mut all = both_ways(&[100]);
    // One size is slower than the line through the others.
    let slow = |sample: &&mut Sample| sample.sdu == 1500;
    all.iter_mut()
        .filter(slow)
        .for_each(|s| s.ns = s.ns * 13 / 10);
    let law = CpuLaw::fit(&all, 0).expect("a law");
    for s in &all {
        let cost = law.reserve.of(s.direction);
        let ps = s.cells * cost.cell_ps + s.pdus * cost.pdu_ps;
        assert!(ps >= s.ns * 1_000, "{s:?}: {ps} ps");
    }
}

#[test]
fn a_cost_is_never_negative() {
    // Long PDUs dearer per cell than short ones: the best line would pay for PDUs.
    let mut all = Vec::new();
    for direction in [Direction::Transmit, Direction::Receive] {
        for (sdu, cells, ns) in [(40, 1, 100), (1_000, 21, 4_000), (9_000, 188, 60_000)] {
            all.push(Sample {
                direction,
                sdu,
                cells,
                pdus: 1,
                ns,
            });
        }
    }
    let law = CpuLaw::fit(&all, 0).expect("a law");
    assert_eq!(law.expected.transmit.pdu_ps, 0);
    assert!(law.expected.transmit.cell_ps > 100_000);
}

#[test]
fn shares_of_the_core_are_exact_and_rounded_up() {
    let cost = Cost {
        cell_ps: 100_000,
        pdu_ps: 300_000,
    };
    // 3 cells of 100 ns and a PDU of 300 ns: 200 ns a cell.
    assert_eq!(cost.ppm(1_000_000, 3), 200_000);
    assert_eq!(cost.ppm(1, 3), 1);
    assert_eq!(cost.ppm(0, 3), 0);
    let law = CpuLaw {
        headroom_percent: 10,
        ..CpuLaw::fit(&both_ways(&[100]), 0).expect("a law")
    };
    let plain = law.reserve.receive.ppm(100_000, 32);
    let with_headroom = law.reserve_ppm(Direction::Receive, 100_000, 32);
    assert_eq!(with_headroom, (plain * 110).div_ceil(100));
    assert!(law.expected_ppm(Direction::Receive, 100_000, 32) <= plain);
    // Shorter PDUs cost more.
    assert!(law.reserve_ppm(Direction::Receive, 100_000, 1) > with_headroom);
}

#[test]
fn samples_that_show_no_law_are_refused() {
    use Direction::{Receive, Transmit};
    let few = samples(Transmit, TRANSMIT, &SIZES[..2], &[100]);
    assert_eq!(
        CpuLaw::fit(&few, 0),
        Err(LawError::TooFewSizes(Transmit, 2))
    );
    let one_way = samples(Transmit, TRANSMIT, &SIZES, &[100]);
    assert_eq!(
        CpuLaw::fit(&one_way, 0),
        Err(LawError::TooFewSizes(Receive, 0))
    );
    let with = |change: fn(&mut Sample)| {
        let mut all = both_ways(&[100]);
        change(&mut all[0]);
        CpuLaw::fit(&all, 0)
    };
    assert_eq!(with(|s| s.ns = 0), Err(LawError::Empty));
    assert_eq!(with(|s| s.cells = 0), Err(LawError::Empty));
    assert_eq!(with(|s| s.pdus = 1 << 32), Err(LawError::TooLarge));
    let many: Vec<u32> = (1..=65).map(|i| i * 40).collect();
    let many = samples(Transmit, TRANSMIT, &many, &[100]);
    assert_eq!(CpuLaw::fit(&many, 0), Err(LawError::TooManySizes));
}

#[test]
fn absurd_samples_give_a_law_and_no_panic() {
    let extremes = [1, 2, 1_000, u64::from(u32::MAX)];
    for cells in extremes {
        for pdus in extremes {
            for ns in extremes {
                let all: Vec<Sample> = [Direction::Transmit, Direction::Receive]
                    .into_iter()
                    .flat_map(|direction| {
                        [(1, cells), (2, 1), (3, ns)].map(|(sdu, cells)| Sample {
                            direction,
                            sdu,
                            cells,
                            pdus,
                            ns,
                        })
                    })
                    .collect();
                let law = CpuLaw::fit(&all, u32::MAX).expect("a law");
                let _ = law.reserve_ppm(Direction::Transmit, u64::MAX, u32::MAX);
            }
        }
    }
}

#[test]
fn lambda_as_printed_has_the_gaps_of_the_paper() {
    let printed = |sdu| Lambda::Printed.of(sdu).ppm();
    // 4096 octets: 1; one less: 1.057. 1024 octets: 2.693; one less: 2.152.
    assert_eq!(printed(4_096), Some(1_000_000));
    assert_eq!(printed(4_095), Some(1_057_489));
    assert_eq!(printed(1_024), Some(2_692_739));
    assert_eq!(printed(1_023), Some(2_151_515));
    assert_eq!(printed(0), Some(0));
    // Packets of 818 to 1023 octets are cheaper than those of 1024.
    let cheaper = (1..1_024).find(|sdu| printed(*sdu) < printed(1_024));
    assert_eq!(cheaper, Some(818));
}

#[test]
fn lambda_made_continuous_never_rises() {
    let mut before = Lambda::Continuous.of(1).ppm();
    for sdu in 2..5_000 {
        let next = Lambda::Continuous.of(sdu).ppm();
        assert!(next <= before, "at {sdu}");
        before = next;
    }
    assert_eq!(Lambda::Continuous.of(4_096), Ratio::ONE);
    assert_eq!(
        Lambda::Continuous.of(1_024),
        Ratio::new(2_201, 1_024).expect("a ratio")
    );
    // Within 2 millionths of the line -s / 2673 + 2.533 halfway.
    assert_eq!(Lambda::Continuous.of(2_560).ppm(), Some(1_574_707));
}

#[test]
fn the_load_of_40_mbps_is_the_papers() {
    let flow = |bit_s, sdu| [Flow { bit_s, sdu }];
    let load = |bit_s, sdu| {
        let flow = flow(bit_s, sdu);
        let load = Lambda::Printed.utilisation(&flow, 133_000_000, &[], 90_000_000);
        load.and_then(Ratio::ppm)
    };
    // 10^6 and 2^20 bit/s.
    assert_eq!(load(40_000_000, 8_192), Some(300_752));
    assert_eq!(load(40 << 20, 8_192), Some(315_361));
    // It uses the machine up at 662 octets.
    assert!(load(40_000_000, 661) > Some(1_000_000));
    assert!(load(40_000_000, 662) < Some(1_000_000));
    let both = Lambda::Printed.utilisation(
        &flow(40_000_000, 8_192),
        133_000_000,
        &flow(45_000_000, 4_096),
        90_000_000,
    );
    assert_eq!(both.and_then(Ratio::ppm), Some(800_752));
    let nothing = Lambda::Printed.utilisation(&flow(1, 1), 0, &[], 1);
    assert_eq!(nothing, None);
}
