//! Are the oracle's eyes open? Bugs in the adapter, and bugs in the world itself.

use cellgate_core::adapter::Planted;
use cellgate_core::contract::{AbrPlanted, charging};
use cellgate_core::queue;

use super::{
    Canary, Failure, FileBug, Options, ServerBug, StreamBug, WITH_ABR, WITH_RESTS, WITH_RINGS,
    WITH_SERVERS, WITH_STREAMS, WITH_TRANSFERS, check, check_determinism, check_isolation,
    scenario_of,
};
use crate::Silent;
use crate::cbn::CbnBug;
use crate::mutants::{Kill, OF_ABR, OF_RESTS};

/// Bugs of the adapter that no random scenario shows: what they are in does not occur there, as
/// loopback tests, other MIDs than 0 on transmit, reserves for what conforms, hosts of seventeen
/// clients, shapers of little CDVT, lines that take nothing when a slot of theirs is due, or occurs
/// too seldom, as queues that are full again and again. The adapter's own judge finds all of them,
/// and a test of its own those of ABR.
pub const OUT_OF_REACH: &[Planted] = &[
    Planted::ProbeBraked,
    Planted::RestLooksAtSixteen,
    Planted::RestForgetsLoopbacks,
    Planted::RestForgetsNoReturn,
    Planted::RestShapesLate,
    Planted::RestSpinsOnHeld,
    Planted::FixedSduByCell,
    Planted::StartMissed,
    Planted::LastAtSequence0,
    Planted::EitherMarkAsBoth,
    Planted::MarkOfHeader,
    Planted::FullEventOnce,
    Planted::InterruptClassLost,
    Planted::PortsInOrder,
    Planted::ThresholdRepeats,
    Planted::ReserveIgnored,
    Planted::ClpScopeIgnored,
    Planted::LowPriorityReserveIgnored,
    Planted::LowPriorityStays,
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
    Planted::TransmitLenUnchecked,
    Planted::TransmitClpLost,
    Planted::DoorbellUnchecked,
    Planted::RmProtocolNotChecked,
    Planted::RmUnpoliced,
    Planted::FloorNotKept,
    Planted::LossNotNoticed,
    Planted::FloorGivesWay,
    Planted::FloorNotCharged,
];

/// Bugs of sources and destinations of ABR that no random scenario has shown: 400 were tried. Tests
/// of the machines find them.
const ABR_OUT_OF_REACH: &[AbrPlanted] = &[
    AbrPlanted::InitialRateForgotten,
    AbrPlanted::PeakExceeded,
    AbrPlanted::DataOutOfNothing,
    AbrPlanted::NoticeBreaksSilence,
    AbrPlanted::NoIncreaseIgnored,
];

/// How a run is told to have the bug of this name, as [`within_reach`] names it: one of the
/// adapter's, of the queues', of the world's (`world: LineLoses`), of servers
/// (`server: ConfirmLost`), of charging (`charge: PartLost`), of terminals
/// (`files: JournalBeforeOctets`), of streams (`video: ReleasedLate`), or of rings
/// (`ring: SlotKept`). The reference is off with those of all but the adapter and rings, for it
/// would find some of them first; that of rings is asked last.
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
        "queue" => named(queue::Planted::ALL, name).map(|bug| Options {
            ring_bug: Some(bug),
            ..options
        }),
        "server" => {
            let bug = ServerBug::all().find(|bug| bug.to_string() == name);
            bug.map(|bug| Options {
                server_bug: Some(bug),
                ..options
            })
        }
        "files" => {
            let bug = FileBug::all().find(|bug| bug.to_string() == name);
            bug.map(|bug| Options {
                file_bug: Some(bug),
                ..options
            })
        }
        "abr" => named(AbrPlanted::ALL, name).map(|bug| Options {
            abr_bug: Some(bug),
            ..options
        }),
        "charge" => named(charging::Planted::ALL, name).map(|bug| Options {
            charge_bug: Some(bug),
            ..options
        }),
        "video" => {
            let bug = StreamBug::all().find(|bug| bug.to_string() == name);
            bug.map(|bug| Options {
                stream_bug: Some(bug),
                ..options
            })
        }
        "ring" => named(CbnBug::ALL, name).map(|bug| Options {
            reference: true,
            cbn_bug: Some(bug),
            ..options
        }),
        _ => None,
    }
}

fn named<B: std::fmt::Debug + Copy>(all: &[B], name: &str) -> Option<B> {
    let mut all = all.iter().copied();
    all.find(|bug| format!("{bug:?}") == name)
}

/// Names of the bugs that random scenarios find.
pub fn within_reach() -> Vec<String> {
    let planted = Planted::ALL.iter();
    let planted = planted.filter(|bug| !OUT_OF_REACH.contains(bug));
    let planted = planted.map(|bug| format!("{bug:?}"));
    let canaries = Canary::ALL.iter().map(|bug| format!("world: {bug:?}"));
    let queues = queue::Planted::ALL.iter();
    let queues = queues.map(|bug| format!("queue: {bug:?}"));
    let servers = ServerBug::all().map(|bug| format!("server: {bug}"));
    let charges = charging::Planted::ALL.iter();
    let charges = charges.map(|bug| format!("charge: {bug:?}"));
    let abr = AbrPlanted::ALL.iter();
    let abr = abr.filter(|bug| !ABR_OUT_OF_REACH.contains(bug));
    let abr = abr.map(|bug| format!("abr: {bug:?}"));
    let files = FileBug::within_reach().map(|bug| format!("files: {bug}"));
    let streams = StreamBug::within_reach().map(|bug| format!("video: {bug}"));
    let rings = CbnBug::ALL.iter().map(|bug| format!("ring: {bug:?}"));
    planted
        .chain(queues)
        .chain(canaries)
        .chain(servers)
        .chain(charges)
        .chain(abr)
        .chain(files)
        .chain(streams)
        .chain(rings)
        .collect()
}

/// Plants the bug of this name and runs random scenarios until one finds it: those of `seeds`, from
/// the first one on, drawn one by one. For a bug of servers all have servers, for one of the queues
/// every second; for one of rests adapters rest in all; for one of terminals all move files; for
/// one of streams all have these, for one of rings all are rings. None: there is no such bug.
pub fn world_kill(bug: &str, seeds: impl IntoIterator<Item = u64>) -> Option<Kill> {
    let options = with_bug(bug)?;
    let is_served = |seed: u64| match options.ring_bug {
        Some(_) => seed % 2 == 1,
        None => options.server_bug.is_some(),
    };
    let is_of_rests = options.planted.is_some_and(|bug| OF_RESTS.contains(&bug));
    let is_of_probes = options.planted == Some(Planted::RestForgetsProbes);
    let is_of_abr = options.planted.is_some_and(|bug| OF_ABR.contains(&bug))
        || options.abr_bug.is_some()
        || options.charge_bug == Some(charging::Planted::ManagingForgotten);
    let from = |seed| match is_served(seed) {
        _ if is_of_rests => WITH_RESTS,
        _ if options.file_bug.is_some() => WITH_TRANSFERS,
        _ if is_of_probes => WITH_RESTS + WITH_ABR,
        _ if is_of_abr => WITH_ABR,
        _ if options.stream_bug.is_some() => WITH_STREAMS,
        _ if options.cbn_bug.is_some() => WITH_RINGS,
        true => WITH_SERVERS,
        false => 0,
    };
    let seeds = seeds.into_iter().map(|seed| from(seed) + seed);
    Some(kill(bug.to_owned(), seeds, options))
}

fn kill(bug: String, seeds: impl Iterator<Item = u64>, options: Options) -> Kill {
    let mut kill = Kill {
        bug,
        seed: None,
        tried: 0,
        text: String::new(),
    };
    for seed in seeds {
        kill.tried += 1;
        let scenario = scenario_of(seed);
        let result = match options.canary {
            _ if options.cbn_bug == Some(CbnBug::RunRemembers) => {
                check_determinism(&scenario, options, &mut Silent)
            }
            Some(Canary::RunRemembers | Canary::RunCounts) => {
                check_determinism(&scenario, options, &mut Silent)
            }
            Some(
                Canary::SourceYields
                | Canary::YieldsToStalls
                | Canary::SourceSlows
                | Canary::WriteSpills,
            ) => check_isolation(&scenario, options, &mut Silent),
            _ => check(&scenario, options),
        };
        if let Err(Failure::Violation(violation)) = result {
            (kill.seed, kill.text) = (Some(seed), violation.to_string());
            break;
        }
    }
    kill
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cellgate sim mutants --jobs 2`, as it was printed.
    const TABLE: &str = include_str!("../../tests/data/kill_table.txt");

    #[test]
    fn the_table_has_every_bug_that_is_planted() {
        let mut lines = TABLE.lines();
        let mut seeds = Vec::new();
        for bug in within_reach() {
            let line = lines.next().unwrap_or_default();
            let row = line.strip_prefix(&*bug).map(str::split_whitespace);
            let tried = row.and_then(|mut row| row.next()?.parse::<u64>().ok());
            seeds.push(tried.unwrap_or_else(|| panic!("{bug}: {line}")));
        }
        seeds.sort_unstable();
        let (all, beyond) = (seeds.len(), OUT_OF_REACH.len());
        let (median, most) = (seeds[(all - 1) / 2], seeds[all - 1]);
        let told: Vec<String> = lines.map(str::to_owned).collect();
        assert_eq!(told[0], format!("{all} of {all} found, survived: []"));
        assert!(told[1].starts_with(&format!("{beyond} more of the adapter's")));
        assert!(told[2].ends_with(&format!(": {median} at the median, {most} at most")));
    }
}
