//! Are the oracle's eyes open? Bugs in the adapter, and bugs in the world itself.

use std::ops::Range;

use cellgate_core::adapter::Planted;

use super::scenario::Scenario;
use super::{
    Canary, Failure, Options, ServerBug, WITH_SERVERS, check, check_determinism, scenario_of,
};
use crate::mutants::Kill;

/// Bugs of the adapter that no random scenario shows: what they are in does not occur there, as
/// AAL3/4, leases, overload, modified contracts, loopback tests, or buffers made too small. The
/// adapter's own judge finds all of them.
pub const OUT_OF_REACH: &[Planted] = &[
    Planted::WrongPortAccepted,
    Planted::SpaceWithoutPad,
    Planted::FixedSduByCell,
    Planted::FullEventOnce,
    Planted::ThresholdRepeats,
    Planted::LentCharged,
    Planted::LeaseAtExpiry,
    Planted::LeaseNotExpiring,
    Planted::LeaseNotCounted,
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
    Planted::OverloadIgnored,
    Planted::OverloadByOne,
    Planted::OverloadStays,
    Planted::OverloadOfOnePort,
    Planted::OverloadUnrelenting,
    Planted::OverloadRefusesAll,
    Planted::OverloadCharged,
    Planted::Crc10NotChecked,
    Planted::Aal34Unpoliced,
    Planted::Aal34ChargedOnce,
    Planted::ReassemblyNotTimed,
    Planted::TimeoutBeforeCells,
    Planted::MissingEomAsLength,
    Planted::SpaceNotReleased,
    Planted::MidLost,
    Planted::ProgressOfAllMids,
    Planted::Aal34FullSilent,
    Planted::Aal34LeaseNotCounted,
    Planted::TransmitMidLost,
    Planted::BtagKept,
    Planted::CutPdusForgotten,
    Planted::StaleGeneration,
    Planted::ModifyMaxSduNow,
    Planted::ModifyForgivesDebt,
    Planted::TransmitLenUnchecked,
    Planted::TransmitClpLost,
    Planted::TransmitUuLost,
    Planted::DoorbellUnchecked,
];

/// Plants each bug within reach in turn, runs random scenarios until one finds it, and tells of
/// each kill.
///
/// With the bugs of the adapter the reference is on; with those of the world it is off, for it
/// would find some of them first.
pub fn world_kills(seeds: Range<u64>, mut tell: impl FnMut(&Kill)) -> Vec<Kill> {
    let with_servers = seeds.clone().map(|seed| scenario_of(WITH_SERVERS + seed));
    let with_servers: Vec<Scenario> = with_servers.collect();
    let scenarios: Vec<Scenario> = seeds.map(scenario_of).collect();
    let planted = Planted::ALL
        .iter()
        .filter(|bug| !OUT_OF_REACH.contains(bug));
    let planted = planted.map(|&bug| {
        let options = Options {
            reference: true,
            planted: Some(bug),
            ..Options::default()
        };
        (format!("{bug:?}"), options)
    });
    let canaries = Canary::ALL.iter().map(|&bug| {
        let options = Options {
            canary: Some(bug),
            ..Options::default()
        };
        (format!("world: {bug:?}"), options)
    });
    let servers = ServerBug::ALL.iter().map(|&bug| {
        let options = Options {
            server_bug: Some(bug),
            ..Options::default()
        };
        (format!("server: {bug:?}"), options)
    });
    let all = planted.chain(canaries).map(|of| (of, &scenarios));
    let all = all.chain(servers.map(|of| (of, &with_servers)));
    let kills = all.map(|((bug, options), scenarios)| {
        let kill = kill(bug, scenarios, options);
        tell(&kill);
        kill
    });
    kills.collect()
}

fn kill(bug: String, scenarios: &[Scenario], options: Options) -> Kill {
    let remembers = options.canary == Some(Canary::RunRemembers);
    for (scenario, tried) in scenarios.iter().zip(1..) {
        let result = if remembers {
            check_determinism(scenario, options)
        } else {
            check(scenario, options)
        };
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
