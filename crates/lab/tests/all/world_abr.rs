//! Connections of ABR between hosts of the world, through a switch that marks; and random worlds of
//! them, before a reference that shares nothing with the core.

use cellgate_lab::Silent;
use cellgate_lab::world::scenario::{
    ConnectionSpec, HostSpec, LinkSpec, Scenario, SourceSpec, SwitchSpec, Traffic,
};
use cellgate_lab::world::{
    Options, Outcome, QueueMark, WITH_ABR, WITH_RESTS, check, check_determinism, scenario_of,
    with_bug, within_reach, world_kill,
};

/// Seeds of the ordinary test; `CELLGATE_ABR` overrides it.
fn seeds() -> u64 {
    let given = std::env::var("CELLGATE_ABR").ok();
    let usual = if cfg!(debug_assertions) { 40 } else { 500 };
    given.map_or(usual, |text| {
        text.parse().expect("CELLGATE_ABR is a number of seeds")
    })
}

/// Two hosts that send whenever they may, over one link of 10 Mbit/s: 23,584 cells/s.
fn shared(mark: Option<QueueMark>) -> Scenario {
    let contract = "abr,aal5:pcr=20000cps,icr=500,max_sdu=400,cdvt=1ms";
    let hosts = ["a", "b", "reader"];
    let connection = |name: &str, vci: u16| {
        let address = format!("0.{vci}").parse().expect("an address");
        ConnectionSpec::between(name, [name, "reader"], address, contract)
    };
    let source = |name: &str| SourceSpec {
        by_adapter: true,
        ..SourceSpec::on(name, Traffic::Paced { cell_s: 20_000 }, &[400])
    };
    Scenario {
        duration_ns: 4_000_000_000,
        hosts: hosts.map(HostSpec::named).into(),
        switches: vec![SwitchSpec {
            queue_cells: 200,
            mark,
            ..SwitchSpec::named("s")
        }],
        links: vec![
            LinkSpec::between("a", "s"),
            LinkSpec::between("b", "s"),
            LinkSpec {
                bit_s: 10_000_000,
                ..LinkSpec::between("s", "reader")
            },
        ],
        connections: vec![connection("a", 60), connection("b", 61)],
        sources: ["a", "b"].map(source).into(),
        ..Scenario::default()
    }
}

fn run(mark: Option<QueueMark>) -> (Outcome, u64) {
    let options = Options {
        reference: true,
        ..Options::default()
    };
    let outcome = check(&shared(mark), options).unwrap_or_else(|wrong| panic!("{mark:?}: {wrong}"));
    let outputs = outcome.switches.iter().flat_map(|switch| &switch.outputs);
    let lost = outputs.map(|output| output.discarded).sum();
    (outcome, lost)
}

#[test]
fn sources_of_abr_share_a_link_and_lose_nothing_where_its_switch_marks() {
    let marks = [
        QueueMark::Efci(20),
        QueueMark::Ci(20),
        QueueMark::Er { target_percent: 95 },
    ];
    for mark in marks {
        let (outcome, lost) = run(Some(mark));
        let cells = ["a", "b"].map(|name| outcome.connections[name].delivered_cells);
        println!("{mark:?}: {cells:?} cells, {lost} lost");
        assert_eq!(lost, 0, "{mark:?}");
        // Of 94,336 cells of the link, RM cells among them.
        let [less, more] = [cells[0].min(cells[1]), cells[0].max(cells[1])];
        assert!(less * 10 >= more * 9, "{mark:?}: {cells:?}");
        assert!(less + more > 94_336 * 6 / 10, "{mark:?}: {cells:?}");
    }
    let (_, lost) = run(None);
    assert!(lost > 1_000, "without marks {lost} are lost");
}

/// Both ends fall to nothing at their first forward RM cell, and rise by what each turns round
/// for the other out of rate.
#[test]
fn two_ends_that_are_slow_do_not_wait_for_each_other() {
    let mut scenario = shared(None);
    scenario.duration_ns = 50_000_000;
    for connection in &mut scenario.connections {
        let words = "max_sdu=400,cdvt=1ms,cdf=1,tbe=0";
        connection.contract = format!("abr,aal5:pcr=20000cps,{words}");
    }
    let outcome = check(&scenario, Options::default()).expect("it ends");
    for name in ["a", "b"] {
        let connection = &outcome.connections[name];
        assert_eq!(connection.delivered_pdus, connection.sent_pdus, "{name}");
    }
}

#[test]
fn random_scenarios_of_abr_are_right() {
    for first in [WITH_ABR, WITH_RESTS + WITH_ABR] {
        for seed in first..first + seeds() {
            check(&scenario_of(seed), Options::default())
                .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        }
    }
}

#[test]
fn every_run_of_abr_is_the_same() {
    for seed in WITH_ABR..WITH_ABR + seeds().div_ceil(6) {
        check_determinism(&scenario_of(seed), Options::default(), &mut Silent)
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

/// Of all of them `sim mutants` tells.
#[test]
fn bugs_of_abr_that_show_soon_are_found() {
    let all = std::env::var("CELLGATE_ABR").is_ok();
    let of_abr = within_reach()
        .into_iter()
        .filter(|bug| bug.starts_with("abr: "));
    let quick = [
        "ForwardByOneLate",
        "CongestionIgnored",
        "MarkNotTold",
        "TurnedTwice",
    ];
    let is_quick = |bug: &String| quick.iter().any(|name| bug.ends_with(name));
    for bug in of_abr.filter(|bug| all || is_quick(bug)) {
        assert!(with_bug(&bug).is_some());
        let kill = world_kill(&bug, 0..seeds()).expect("a bug");
        println!("{bug}: {} seeds, {}", kill.tried, kill.text);
        assert!(all || kill.seed.is_some(), "{bug} survives");
    }
}
