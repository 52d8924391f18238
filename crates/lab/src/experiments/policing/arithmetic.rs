use cellgate_core::adapter::{RECEIVE_STATE_LEN, REGION_HANDLE_MAX, VC_COLD_LEN, VC_LEN};
use cellgate_core::contract::aal5_cells;
use cellgate_report::{Check, Claim, Figure, Outcome, Rational, Tolerance, Value, dec};

use super::model::{Addresses, Discarding, Latency, Shaped};
use super::{Error, Experiment, Progress, Settings, cells, line_cell_s, line_sdu_bit_s};
use crate::machine::{BURST_CYCLES, BoardConfig, Costs, I960_CYCLE_S};

/// Numbers in the text.
pub(in crate::experiments) struct Arithmetic;

/// Host time of a packet of 512 octets in the Linux driver, in seconds, and the CPU's cycles/s.
const DRIVER_S: Rational = dec("0.000032");
const PENTIUM_CYCLE_S: Rational = dec("100000000");
const SMALL: u16 = 512;
const LARGE: u16 = 8_192;
const MEGABIT: Rational = dec("1000000");

impl Experiment for Arithmetic {
    fn name(&self) -> &'static str {
        "policing-arithmetic"
    }

    fn source(&self) -> &'static str {
        "Policing Offloaded, numbers in the text (P0.1 to P0.17)"
    }

    fn run(&self, _: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let mut checks = driver();
        checks.extend(memory());
        checks.extend(cycles());
        checks.extend(addresses(&Addresses::run()?));
        progress.step(1, 4);
        checks.extend(discarding(&Discarding::of_one(BoardConfig::PAPER)?));
        progress.step(2, 4);
        checks.extend(two_constants());
        checks.extend(rates());
        checks.extend(shaping(&Shaped::run()));
        progress.step(3, 4);
        checks.push(latency(&Latency::run()?));
        progress.step(4, 4);
        Ok(Outcome {
            figures: vec![Figure::of_claims("claims", "Numbers in the text", &checks)],
            checks,
            notes: vec![
                "P0.5: the i960's call and return (16 registers, 4 cycles, a cache of 16 sets, up \
                 to two instructions beside it) are inside the cycles of the tasks, not a part \
                 of the model."
                    .to_owned(),
                "P0.7 is policing-figure-4, P0.6 policing-table-1, P0.12 policing-figure-6, P0.13 \
                 to P0.15 policing-figure-9, where the model is run."
                    .to_owned(),
            ],
            ..Outcome::default()
        })
    }
}

fn percent(share: Rational, decimals: u32) -> Value {
    Value::new(share * Rational::whole(100), decimals, "%")
}

fn near(percent: &str) -> Tolerance {
    Tolerance::Percent(dec(percent))
}

/// PDU/s at so many bit/s of SDU.
fn pdu_s(bit_s: Rational, sdu: u16) -> Rational {
    bit_s / Rational::from(8 * u32::from(sdu))
}

/// P0.1.
fn driver() -> Vec<Check> {
    let claim = |what: &str, paper: &str| Claim::derived("P0.1", what, paper);
    let cpu = |bit_s: Rational| pdu_s(bit_s, SMALL) * DRIVER_S;
    let full = MEGABIT / cpu(MEGABIT);
    vec![
        claim("driver's cycles for a packet", "32 us on 100 MHz").number(
            dec("3200"),
            Tolerance::Exact,
            &Value::new(DRIVER_S * PENTIUM_CYCLE_S, 0, "cycles"),
        ),
        claim("CPU for 10^6 bit/s of 512 octets", "0.8 %")
            .prints(dec("0.8"))
            .number(dec("0.781"), near("0.1"), &percent(cpu(MEGABIT), 3)),
        claim("CPU for 125 x 10^6 bit/s", "100 %")
            .prints(dec("100"))
            .reading("0.8 % rounded up before it is multiplied")
            .number(
                dec("97.7"),
                near("0.1"),
                &percent(cpu(dec("125") * MEGABIT), 1),
            ),
        claim("rate that takes all of the CPU", "125 MBit/s")
            .prints(dec("125"))
            .number(
                dec("128"),
                near("0.1"),
                &Value::new(full / MEGABIT, 1, "x 10^6 bit/s"),
            ),
        claim("CPU for a full line of 512 octets", "").number(
            dec("102.8"),
            near("0.1"),
            &percent(cpu(line_sdu_bit_s(SMALL)), 1),
        ),
    ]
}

/// P0.2.
fn memory() -> Vec<Check> {
    const KB: u64 = 1_024;
    const VCS: u64 = 1_024;
    let (sram, shadowed, debugger, code) = (256 * KB, KB, 20 * KB, 32 * KB);
    let free = sram - shadowed - debugger;
    let per_vc = (free - code) / VCS;
    let claim = |what: &str, paper: &str| Claim::derived("P0.2", what, paper);
    let per_vc_claim = |what: &str| claim(what, "nearly 200 octets").prints(dec("200"));
    let kb = |octets: u64| Value::new(Rational::from(octets) / KB.into(), 0, "KB");
    let octets = |octets: u64| Value::new(octets, 0, "octets");
    let state = (RECEIVE_STATE_LEN + REGION_HANDLE_MAX) as u64;
    let counted = "with its memory's handle, without transmit state";
    vec![
        claim("memory left for the firmware", "about 234 KB")
            .prints(dec("234"))
            .reading("256 - 1 - 20")
            .number(dec("235"), Tolerance::Exact, &kb(free)),
        per_vc_claim("state per VC, code of 32 KB")
            .reading("235 - 32 KB for 1,024 VCs")
            .number(dec("203"), Tolerance::Exact, &octets(per_vc)),
        per_vc_claim("state per VC, code of 32 KB")
            .reading("200 KB for 1,024 VCs")
            .number(dec("200"), Tolerance::Exact, &octets(200 * KB / VCS)),
        per_vc_claim("receive state of a VC of this adapter")
            .reading(counted)
            .number(dec("200"), Tolerance::AtMost, &octets(state)),
        claim("the same for 1,024 VCs", "200 KB")
            .prints(dec("204800"))
            .reading(counted)
            .number(dec("204800"), Tolerance::AtMost, &octets(state * VCS)),
        Claim::lost(
            "P0.2",
            "state of a VC of this adapter, both ways, with its memory's handle",
            "nearly 200 octets",
            &octets(VC_LEN as u64),
        ),
        Claim::lost(
            "P0.2",
            "the same for 1,024 VCs",
            "200 KB",
            &kb(VC_LEN as u64 * VCS),
        ),
        Claim::lost(
            "P0.2",
            "beside it: a VC's request, counters, lease, sustained rate",
            "",
            &octets(VC_COLD_LEN as u64),
        ),
    ]
}

/// P0.3 and P0.4.
fn cycles() -> Vec<Check> {
    let both = Rational::whole(2 * line_cell_s().floor());
    let left = Rational::from(I960_CYCLE_S) / both - BURST_CYCLES.into();
    let duplex = |what: &str| {
        let claim = Claim::derived("P0.3", what, "706414 cells/s");
        claim.prints(dec("706414"))
    };
    let cells_s = |number: Rational| Value::new(number, 0, "cells/s");
    vec![
        duplex("saturated line, both ways")
            .reading("each way rounded down")
            .number(dec("706414"), Tolerance::Exact, &cells_s(both)),
        duplex("saturated line, both ways").reading("exact").number(
            dec("706415"),
            Tolerance::Absolute(dec("0.1")),
            &cells_s(line_cell_s() * dec("2")),
        ),
        Claim::derived("P0.4", "cycles left of a cell beside its burst", "23")
            .prints(dec("23"))
            .number(
                dec("23.39"),
                Tolerance::Absolute(dec("0.005")),
                &Value::new(left, 2, "cycles"),
            ),
    ]
}

/// P0.8 and P0.10.
fn addresses(run: &Addresses) -> Vec<Check> {
    let claim = |what: &str, paper: &str| Claim::derived("P0.8", what, paper);
    let value = |number: u64, unit: &str| Value::new(number, 0, unit);
    let cycles = |cycles: Rational| Value::new(cycles, 1, "cycles");
    vec![
        claim(
            "addresses of 10 significant bits, all open: hits",
            "10 bits",
        )
        .number(dec("1024"), Tolerance::Exact, &value(run.hits, "addresses")),
        claim("as many others: misses", "").number(
            dec("1024"),
            Tolerance::Exact,
            &value(run.misses, "addresses"),
        ),
        claim("look-ups of one cell, the most of any address", "constant").number(
            Rational::ONE,
            Tolerance::Exact,
            &value(run.lookups_most, ""),
        ),
        claim("spread of the cycles of a hit", "equally expensive").number(
            Rational::ZERO,
            Tolerance::Exact,
            &cycles(run.hit_most - run.hit_least),
        ),
        claim("cycles of a miss over those of a hit", "very cheap").number(
            Rational::ONE,
            Tolerance::AtMost,
            &Value::new(run.miss_most / run.hit_least, 2, "times"),
        ),
    ]
}

/// P0.9.
fn discarding(run: &Discarding) -> Vec<Check> {
    let claim = |what: &str| Claim::derived("P0.9", what, "12 cycles/cell");
    vec![
        claim("cells/s that the i960 can discard, by the cycles of a run").number(
            dec("2083333"),
            Tolerance::Absolute(Rational::ONE),
            &Value::ratio(run.ceiling, 0, "cells/s"),
        ),
        claim("i960 that a line of strangers takes, run").number(
            dec("16.95"),
            Tolerance::Absolute(dec("0.005")),
            &percent(run.share, 2),
        ),
        claim("cells of strangers lost before they are discarded, run").number(
            Rational::ZERO,
            Tolerance::Exact,
            &Value::new(run.overflowed, 0, "cells"),
        ),
    ]
}

/// P0.11: what the two statements of section 6.4 ask of the i960.
fn two_constants() -> Vec<Check> {
    let cycle_s = Rational::from(I960_CYCLE_S);
    // 3 c_cell + c_pdu <= three_cells, 22 c_cell + c_pdu = knee.
    let three_cells = cycle_s * dec("3") / dec("100000");
    let knee_cells = Rational::from(aal5_cells(1_024));
    let knee = cycle_s * knee_cells / line_cell_s();
    let c_cell = (knee - three_cells) / (knee_cells - dec("3"));
    let c_pdu = three_cells - dec("3") * c_cell;
    let burst = Rational::from(BURST_CYCLES);
    let slot = cycle_s / line_cell_s();
    let burst_pdu = three_cells - dec("3") * burst;
    let cycles = |number: Rational, decimals| Value::new(number, decimals, "cycles");
    let claim = |what: &str, paper: &str| Claim::calibrated("P0.11", what, paper);
    let only = "a cell costs its burst, 12 cycles";
    let both = "both statements tight";
    vec![
        claim(
            "PDU: most that 3-cell PDUs at 100,000 cells/s allow",
            "100000 cells/s, 3 cells",
        )
        .reading(only)
        .number(dec("714"), Tolerance::Exact, &cycles(burst_pdu, 0)),
        claim(
            "PDU: what a knee at 1,024 octets takes",
            "less than 1024 octets",
        )
        .reading(only)
        .number(
            dec("1293"),
            near("0.1"),
            &cycles(knee - knee_cells * burst, 0),
        ),
        claim("where the knee would be", "less than 1024 octets")
            .reading(only)
            .number(
                dec("12.15"),
                near("0.1"),
                &Value::new(burst_pdu / (slot - burst), 2, "cells"),
            ),
        claim("cycles of a cell", "").reading(both).number(
            Costs::PAPER.cell.number(),
            near("0.5"),
            &cycles(c_cell, 2),
        ),
        claim("cycles of a PDU", "").reading(both).number(
            Costs::PAPER.pdu.number(),
            near("0.5"),
            &cycles(c_pdu, 1),
        ),
    ]
}

/// P0.12 to P0.14, what follows without a model.
fn rates() -> Vec<Check> {
    let mbit = |bit_s: Rational| Value::new(bit_s / MEGABIT, 1, "x 10^6 bit/s");
    let stream = dec("20") * MEGABIT;
    let rest = line_cell_s() - dec("24000") - dec("48000");
    let by_cells = line_cell_s() * dec("424") - dec("2") * stream;
    let by_sdus = line_sdu_bit_s(LARGE) - dec("2") * stream;
    let saturates = || {
        let what = "hazard that saturates the port";
        Claim::derived("P0.14", what, "(20 + 20 + 100) MBit/s").prints(dec("100"))
    };
    vec![
        Claim::derived("P0.12", "cells/s left for C1 and C4", "").number(
            dec("281207.5"),
            Tolerance::Absolute(dec("0.1")),
            &Value::new(rest, 1, "cells/s"),
        ),
        Claim::derived("P0.13", "cells of a PDU of 8,192 octets", "").number(
            dec("171"),
            Tolerance::Exact,
            &Value::new(cells(LARGE), 0, "cells"),
        ),
        Claim::derived("P0.13", "PDUs of 8,192 octets at 20 x 10^6 bit/s", "").number(
            dec("305.2"),
            near("0.1"),
            &Value::new(pdu_s(stream, LARGE), 1, "PDU/s"),
        ),
        Claim::derived("P0.13", "the same at 20 + 20 + 40", "").number(
            dec("1220.7"),
            near("0.1"),
            &Value::new(pdu_s(dec("4") * stream, LARGE), 1, "PDU/s"),
        ),
        saturates()
            .reading("rates of SDU")
            .number(dec("95.4"), near("0.1"), &mbit(by_sdus)),
        saturates()
            .reading("rates of cells")
            .number(dec("109.8"), near("0.1"), &mbit(by_cells)),
    ]
}

/// P0.16.
fn shaping(run: &Shaped) -> Vec<Check> {
    let claim = |what: &str| Claim::derived("P0.16", what, "reference [10]: up to 1000");
    let vcs = Value::new(run.vcs, 0, "VCs");
    let off = Value::new(run.off_most, 0, "cells");
    vec![
        claim("VCs shaped cell by cell at once, run")
            .prints(dec("1000"))
            .number(dec("1000"), Tolerance::AtLeast, &vcs),
        claim("cells that any of them is off its rate").number(
            Rational::ONE,
            Tolerance::AtMost,
            &off,
        ),
    ]
}

/// P0.17.
fn latency(run: &Latency) -> Check {
    Claim::lost(
        "P0.17",
        "model: last cell at the board to the interrupt, 8,192 octets at line speed",
        "not measured",
        &Value::new(Rational::from(run.delay.ps()) / dec("1000000"), 1, "us"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::Ps;

    #[track_caller]
    fn all_fail(checks: &[Check]) {
        let passed: Vec<_> = checks.iter().filter(|check| check.pass).collect();
        assert!(passed.is_empty(), "{passed:#?}");
    }

    #[test]
    fn runs_that_came_out_otherwise_fail_their_checks() {
        all_fail(&addresses(&Addresses {
            hits: 1_023,
            misses: 1_023,
            lookups_most: 2,
            hit_least: dec("20"),
            hit_most: dec("30"),
            miss_most: dec("21"),
        }));
        all_fail(&discarding(&Discarding {
            ceiling: Some(dec("2000000")),
            share: dec("0.17"),
            sent_cell_s: Rational::ZERO,
            arrived: 1,
            overflowed: 1,
        }));
        all_fail(&shaping(&Shaped {
            vcs: 999,
            off_most: 2,
        }));
        assert!(
            latency(&Latency { delay: Ps::ZERO }).pass,
            "a lost value is not judged"
        );
    }
}
