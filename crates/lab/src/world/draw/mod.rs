//! From a seed to a scenario. Only here is anything drawn.

mod abr;
mod contracts;
mod faults;
mod plain;
mod rings;
mod rough;
mod served;
mod streams;
mod transfers;

use super::scenario::{HostSpec, LinkSpec, Scenario};
use crate::generate::Draw;

/// Cells per second of the links.
const LINE: u64 = 353_207;
/// Tolerance that covers the queues of two switches.
const CDVT: &str = "2ms";

/// What draws scenarios: a digest of those of its first seeds. Another one draws others from the
/// same seeds.
pub const GENERATOR: &str = "1ca7df604b51b697";

/// Seeds from here on are those of scenarios with servers.
pub const WITH_SERVERS: u64 = 1 << 32;

/// Seeds from here on, and below those of files, are those of slotted rings.
pub const WITH_RINGS: u64 = 1 << 33;

/// Seeds from here on, and below those of streams, are those of files that terminals move.
pub const WITH_TRANSFERS: u64 = 1 << 36;

/// Seeds from here on, and below those of ABR, are those of streams of video.
pub const WITH_STREAMS: u64 = 1 << 37;

/// Seeds from here on, and below those with rests, are those of sources of ABR.
pub const WITH_ABR: u64 = 1 << 38;

/// From this seed on adapters rest; all else is drawn as for the remainder by it.
pub const WITH_RESTS: u64 = 1 << 40;

/// The scenario of a seed: equal seeds, equal scenarios.
pub fn scenario_of(seed: u64) -> Scenario {
    let former = seed % WITH_RESTS;
    let mut draw = Draw::new(former);
    let mut scenario = match former {
        0..WITH_SERVERS => plain::scenario(&mut draw),
        // Every fourth scenario has events that are too rare otherwise.
        WITH_SERVERS..WITH_RINGS => served::scenario(&mut draw, former % 4 == 3),
        WITH_RINGS..WITH_TRANSFERS => rings::scenario(&mut draw),
        WITH_TRANSFERS..WITH_STREAMS => transfers::scenario(&mut draw),
        WITH_STREAMS..WITH_ABR => streams::scenario(&mut draw),
        _ => abr::scenario(&mut draw),
    };
    if seed >= WITH_RESTS && !(WITH_RINGS..WITH_STREAMS).contains(&former) {
        rests(&mut Draw::new(seed), &mut scenario);
    }
    scenario.seed = seed;
    scenario
}

/// Three of four adapters rest, one at least.
fn rests(draw: &mut Draw, scenario: &mut Scenario) {
    let one = draw.below(scenario.hosts.len() as u64) as usize;
    for (n, host) in scenario.hosts.iter_mut().enumerate() {
        host.rests = draw.percent(75) || n == one;
    }
}

/// What a clock says at the beginning.
fn clock(draw: &mut Draw) -> u64 {
    match draw.below(6) {
        // A power of two comes within the run.
        0 => (1 << 32) - draw.below(20_000_000),
        1 => (1 << 48) - draw.below(20_000_000),
        2 => HostSpec::CLOCK_MAX_NS,
        _ => 0,
    }
}

/// A host that is linked to a switch.
fn link(draw: &mut Draw, scenario: &mut Scenario, host: HostSpec, switch: &str) {
    scenario.links.push(LinkSpec {
        delay_ns: draw.pick(&[100, 5_000, 50_000]),
        ..LinkSpec::between(&host.name, switch)
    });
    scenario.hosts.push(host);
}

/// Names of the hosts that begin so.
fn names(scenario: &Scenario, begin: &str) -> Vec<String> {
    let names = scenario.hosts.iter().map(|host| host.name.clone());
    names.filter(|name| name.starts_with(begin)).collect()
}

fn pick(draw: &mut Draw, names: &[String]) -> String {
    names[draw.below(names.len() as u64) as usize].clone()
}

/// Times before the healing, in `percent` of the scenarios.
fn spans(
    draw: &mut Draw,
    percent: u64,
    most: u64,
    (least_ns, longest_ns): (u64, u64),
    heal_ns: u64,
) -> Vec<(u64, u64)> {
    if !draw.percent(percent) {
        return Vec::new();
    }
    let count = draw.between(1, most);
    let span = |_| {
        let for_ns = draw.between(least_ns, longest_ns).min(heal_ns);
        (draw.below(heal_ns.saturating_sub(for_ns).max(1)), for_ns)
    };
    (0..count).map(span).collect()
}
