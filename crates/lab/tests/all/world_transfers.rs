//! Files between two terminals that die, over a line that loses, to a disk that forgets.

use cellgate_lab::world::scenario::{
    Death, DeathAt, DeathSpec, FileSpec, HostSpec, LinkSpec, Scenario, TransferSpec,
};
use cellgate_lab::world::{
    Failure, FileBug, Options, WITH_TRANSFERS, check, check_determinism, scenario_of, world_kill,
};
use cellgate_lab::{Shrink, Silent, shrink};

/// Seeds of the ordinary test; `CELLGATE_TRANSFERS` overrides it.
fn seeds() -> u64 {
    let given = std::env::var("CELLGATE_TRANSFERS").ok();
    let usual = if cfg!(debug_assertions) { 60 } else { 2_000 };
    given.map_or(usual, |text| {
        text.parse()
            .expect("CELLGATE_TRANSFERS is a number of seeds")
    })
}

/// A long file and a short one, over a slow line.
fn plain() -> Scenario {
    let mut transfer = TransferSpec::between("west", "east");
    transfer.files = vec![FileSpec::of("long", 300_000), FileSpec::of("short", 700)];
    Scenario {
        duration_ns: 1_000_000_000,
        hosts: ["west", "east"].map(HostSpec::named).into(),
        links: vec![LinkSpec {
            bit_s: 1_000_000,
            ..LinkSpec::between("west", "east")
        }],
        transfers: vec![transfer],
        ..Scenario::default()
    }
}

fn death(whose: Death, at: DeathAt) -> DeathSpec {
    DeathSpec {
        whose,
        at,
        back_ns: 50_000_000,
        keeps: 7,
        spoils: false,
    }
}

#[test]
fn random_scenarios_with_transfers_are_right() {
    for seed in WITH_TRANSFERS..WITH_TRANSFERS + seeds() {
        check(&scenario_of(seed), Options::default())
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

#[test]
fn every_run_of_a_transfer_is_the_same() {
    for seed in WITH_TRANSFERS..WITH_TRANSFERS + seeds().div_ceil(6) {
        check_determinism(&scenario_of(seed), Options::default(), &mut Silent)
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

/// Each operation of the disk in turn is the one in whose place the machine loses its power.
#[test]
fn power_fails_in_every_operation_of_the_disk() {
    let mut scenario = plain();
    for operations in 0..60 {
        let at = DeathAt::AfterOperations(operations);
        scenario.transfers[0].deaths = vec![death(Death::Power, at)];
        let outcome = check(&scenario, Options::default())
            .unwrap_or_else(|failure| panic!("operation {operations}: {failure}"));
        assert_eq!(outcome.transfers[0].there, 2);
    }
}

#[test]
fn what_was_safe_before_a_power_failure_is_not_sent_again() {
    let mut scenario = plain();
    let whole = check(&scenario, Options::default()).expect("a transfer");
    let at = DeathAt::AfterNs(2_500_000_000);
    scenario.transfers[0].deaths = vec![death(Death::Power, at)];
    let interrupted = check(&scenario, Options::default()).expect("a transfer");
    let transfer = &interrupted.transfers[0];
    assert_eq!((transfer.deaths, transfer.resumed), ([0, 0, 1], 1));
    // Of 2.5 s that had passed, those since the last sync, a window and a disk-PDU.
    let again = transfer.sent_octets - whole.transfers[0].sent_octets;
    assert!(again < 125_000 + (1 << 17) + (1 << 16), "{again}");
}

/// Of all of them `sim mutants` tells.
#[test]
fn bugs_of_files_that_show_soon_are_found() {
    let bugs: Vec<String> = FileBug::all().map(|bug| format!("files: {bug}")).collect();
    assert!(bugs.len() > 25);
    let quick = [
        "RunKept",
        "SyncLies",
        "HolesSent",
        "FileNotSynced",
        "TraitsAfterName",
        "NameNotSynced",
        "JournalStays",
        "GroupNotSynced",
        "GroupNamesNotSynced",
        "GroupTraitsForgotten",
        "SettledBeforePut",
        "DamagedHeld",
    ];
    for bug in quick.map(|bug| format!("files: {bug}")) {
        assert!(bugs.contains(&bug), "{bug}");
        let kill = world_kill(&bug, 0..40).expect("a bug");
        assert!(kill.seed.is_some(), "{bug} survives");
    }
}

#[test]
fn what_fails_gets_small() {
    let bug = FileBug::all().find(|bug| bug.to_string() == "NameNotSynced");
    let options = Options {
        file_bug: bug,
        ..Options::default()
    };
    let fails = |scenario: &Scenario| match check(scenario, options) {
        Err(Failure::Violation(found)) => found.invariant == "I24",
        _ => false,
    };
    let seed = (WITH_TRANSFERS..).find(|seed| fails(&scenario_of(*seed)));
    let small = shrink(&scenario_of(seed.expect("a seed")), 200, fails);
    let left: usize = (0..Scenario::LISTS).map(|list| small.len_of(list)).sum();
    assert!(left <= 2, "{small:?}");
}
