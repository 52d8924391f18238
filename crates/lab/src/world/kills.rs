//! Are the oracle's eyes open? Bugs in the adapter, and bugs in the world itself.

use cellgate_core::adapter::Planted;

use super::scenario::Scenario;
use super::{
    Canary, Failure, Options, ServerBug, WITH_SERVERS, check, check_determinism, check_isolation,
    scenario_of,
};
use crate::mutants::Kill;

/// Bugs of the adapter that no random scenario shows: what they are in does not occur there, as
/// loopback tests, other MIDs than 0 on transmit, reserves for what conforms, or occurs too seldom,
/// as queues that are full again and again. The adapter's own judge finds all of them.
pub const OUT_OF_REACH: &[Planted] = &[
    Planted::FixedSduByCell,
    Planted::FullEventOnce,
    Planted::ThresholdRepeats,
    Planted::ReserveIgnored,
    Planted::ClpScopeIgnored,
    Planted::PeakForgotten,
    Planted::PathUnpoliced,
    Planted::PathKept,
    Planted::TestedPathKept,
    Planted::EveryPathAnswers,
    Planted::TransmitterDeaf,
    Planted::TransmitterOnAnyPort,
    Planted::ReturnTagIgnored,
    Planted::ReturnInOtherFlow,
    Planted::ReturnOnOtherPort,
    Planted::RequestTakenBack,
    Planted::LoopbackNotTimed,
    Planted::LoopbackTagKept,
    Planted::OverloadCharged,
    Planted::TransmitMidLost,
    Planted::TransmitLenUnchecked,
    Planted::TransmitClpLost,
    Planted::TransmitUuLost,
    Planted::DoorbellUnchecked,
];

/// How a run is told to have the bug of this name, as [`world_kills`] names it: one of the
/// adapter's, of the world's (`world: LineLoses`), or of servers (`server: ConfirmLost`). The
/// reference is off with those of the latter two, for it would find some of them first.
pub fn with_bug(name: &str) -> Option<Options> {
    let (whose, name) = name.split_once(':').unwrap_or(("", name));
    let name = name.trim_start();
    let options = Options::default();
    match whose {
        "" => named(Planted::ALL, name).map(|bug| Options {
            reference: true,
            planted: Some(bug),
            ..options
        }),
        "world" => named(Canary::ALL, name).map(|bug| Options {
            canary: Some(bug),
            ..options
        }),
        "server" => named(ServerBug::ALL, name).map(|bug| Options {
            server_bug: Some(bug),
            ..options
        }),
        _ => None,
    }
}

fn named<B: std::fmt::Debug + Copy>(all: &[B], name: &str) -> Option<B> {
    let mut all = all.iter().copied();
    all.find(|bug| format!("{bug:?}") == name)
}

/// Plants each bug within reach in turn, runs random scenarios until one finds it, and tells of
/// each kill.
pub fn world_kills(seeds: impl IntoIterator<Item = u64>, mut tell: impl FnMut(&Kill)) -> Vec<Kill> {
    let both = |seed| (scenario_of(seed), scenario_of(WITH_SERVERS + seed));
    let (scenarios, with_servers): (Vec<_>, Vec<_>) = seeds.into_iter().map(both).unzip();
    let planted = Planted::ALL
        .iter()
        .filter(|bug| !OUT_OF_REACH.contains(bug));
    let planted = planted.map(|bug| format!("{bug:?}"));
    let canaries = Canary::ALL.iter().map(|bug| format!("world: {bug:?}"));
    let servers = ServerBug::ALL.iter().map(|bug| format!("server: {bug:?}"));
    let all = planted.chain(canaries).map(|bug| (bug, &scenarios));
    let all = all.chain(servers.map(|bug| (bug, &with_servers)));
    let kills = all.filter_map(|(bug, scenarios)| {
        let kill = kill(bug.clone(), scenarios, with_bug(&bug)?);
        tell(&kill);
        Some(kill)
    });
    kills.collect()
}

fn kill(bug: String, scenarios: &[Scenario], options: Options) -> Kill {
    let judge = match options.canary {
        Some(Canary::RunRemembers | Canary::RunCounts) => check_determinism,
        Some(Canary::SourceYields) => check_isolation,
        _ => check,
    };
    for (scenario, tried) in scenarios.iter().zip(1..) {
        let result = judge(scenario, options);
        if let Err(Failure::Violation(violation)) = result {
            return Kill {
                bug,
                seed: Some(scenario.seed),
                tried,
                text: violation.to_string(),
            };
        }
    }
    Kill {
        bug,
        seed: None,
        tried: scenarios.len() as u64,
        text: String::new(),
    }
}
