//! Whoever rests until the core says so misses nothing, and whoever does not rest has something to
//! do.

use cellgate_core::adapter::Notification;
use cellgate_core::wire::VpiVci;
use cellgate_lab::world::scenario::{
    ConnectionSpec, HostSpec, LinkSpec, Scenario, SourceSpec, Traffic,
};
use cellgate_lab::world::{
    ConnectionOutcome, Options, Outcome, WITH_RESTS, WITH_SERVERS, check, scenario_of,
};
use cellgate_lab::{Rested, kill_table_of_rests, plan_of, print_table, run_adapter_resting};

/// Seeds of the ordinary test; `CELLGATE_SEEDS` overrides it.
fn seeds() -> u64 {
    let given = std::env::var("CELLGATE_SEEDS").ok();
    let usual = if cfg!(debug_assertions) { 30 } else { 150 };
    given.map_or(usual, |text| {
        text.parse().expect("CELLGATE_SEEDS is a number of seeds")
    })
}

/// Seeds of worlds; `CELLGATE_WORLDS` overrides it.
fn worlds() -> u64 {
    let given = std::env::var("CELLGATE_WORLDS").ok();
    let usual = if cfg!(debug_assertions) { 24 } else { 600 };
    given.map_or(usual, |text| {
        text.parse().expect("CELLGATE_WORLDS is a number of seeds")
    })
}

/// Of a cell on a line of 149.76 Mbit/s, rounded up.
const CELL_NS: u64 = 2_832;

#[test]
fn whoever_rests_has_nothing_to_do_until_then() {
    let mut sum = Rested::default();
    for seed in 0..seeds() {
        match run_adapter_resting(&plan_of(seed), None) {
            Ok((_, rested)) => sum.add(rested),
            Err(failure) => panic!("{failure}"),
        }
    }
    let n = seeds();
    println!("{n} seeds: {sum:?}");
    assert!(sum.rests > 300 * n && sum.busy > 100 * n, "{sum:?}");
    assert!(
        sum.exact > 3 * n && sum.shaped > n && sum.held > 20 * n,
        "{sum:?}"
    );
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn every_bug_of_resting_is_found() {
    let kills = kill_table_of_rests(0..400);
    println!("{}", print_table(&kills));
    let alive = kills.iter().filter(|kill| kill.seed.is_none());
    let alive: Vec<&str> = alive.map(|kill| kill.bug.as_str()).collect();
    assert!(kills.len() >= 12 && alive.is_empty(), "survived: {alive:?}");
}

#[test]
fn worlds_in_which_adapters_rest_are_right() {
    let options = Options {
        reference: true,
        ..Options::default()
    };
    for first in [WITH_RESTS, WITH_RESTS + WITH_SERVERS] {
        for seed in first..first + worlds() / 4 {
            if let Err(failure) = check(&scenario_of(seed), options) {
                panic!("seed {seed}: {failure}");
            }
        }
    }
}

/// The same, without hazards and faults; its adapters rest, or none of them does.
fn calm(scenario: &Scenario, rests: bool) -> Scenario {
    let mut scenario = scenario.clone();
    scenario.faults.clear();
    scenario.sources.retain(|source| !source.hazard);
    for host in &mut scenario.hosts {
        host.rests = rests;
    }
    scenario
}

/// By how much a PDU is later at most because its sender rests: 128 cells of its line, and a step.
fn late_ns(scenario: &Scenario) -> u64 {
    let steps = scenario.hosts.iter().map(|host| host.step_ns);
    128 * CELL_NS + steps.max().unwrap_or(0)
}

#[test]
fn resting_and_not_resting_deliver_the_same() {
    let (mut compared, mut pdus, mut later_ns) = (0, 0, 0);
    for seed in 0..worlds() {
        let scenario = scenario_of(seed);
        let run = |rests| check(&calm(&scenario, rests), Options::default());
        let (with, without) = match (run(true), run(false)) {
            (Ok(with), Ok(without)) => (with, without),
            (with, without) => panic!("seed {seed}: {:?} {:?}", with.err(), without.err()),
        };
        for (name, here) in &with.connections {
            let there = &without.connections[name];
            // What meets others at a switch, or is given up for coming late, is chance.
            let spec = scenario.connections.iter().find(|spec| spec.name == *name);
            let gives_up = |one: &Outcome| {
                let reader = one
                    .hosts
                    .iter()
                    .find(|host| Some(&host.name) == spec.map(|s| &s.to));
                reader.is_some_and(|host| host.discarded_cells.contains_key("reassembly_timeout"))
            };
            let met = here.discarded_cells.max(there.discarded_cells) > 0;
            if met || gives_up(&with) || gives_up(&without) {
                continue;
            }
            let counts = |one: &ConnectionOutcome| {
                let read = [
                    one.delivered_pdus,
                    one.delivered_cells,
                    one.delivered_octets,
                ];
                (read, [one.lost_pdus, one.repeated_pdus, one.strange_pdus])
            };
            let at = format!("seed {seed}, connection {name}");
            let ((read, wrong), (read_there, wrong_there)) = (counts(here), counts(there));
            assert_eq!(wrong, wrong_there, "{at}");
            // VBR has more to send than its run is long: what is left at its end is chance.
            let is_vbr = spec.is_some_and(|spec| spec.contract.starts_with("vbr"));
            assert!(
                is_vbr || read == read_there,
                "{at}: {read:?} {read_there:?}"
            );
            let most = |one: &ConnectionOutcome| one.latency_max_ns.unwrap_or(0);
            let later = most(here).saturating_sub(most(there));
            let bound = late_ns(&scenario);
            assert!(
                later <= bound,
                "seed {seed}, {name}: {later} ns later, {bound} at most"
            );
            later_ns = later.max(later_ns);
            compared += 1;
            pdus += here.delivered_pdus;
        }
    }
    println!("{compared} connections, {pdus} PDUs, {later_ns} ns later at most");
    assert!(compared > worlds(), "{compared}");
}

#[test]
fn who_rests_takes_few_steps_and_shapes_in_time() {
    let address = VpiVci::new(0, 32).expect("an address");
    let contract = "cbr,aal5:pcr=20000cps,max_sdu=1000,cdvt=1ms";
    let scenario = Scenario {
        duration_ns: 50_000_000,
        hosts: ["a", "b"].map(HostSpec::named).into(),
        links: vec![LinkSpec::between("a", "b")],
        connections: vec![ConnectionSpec {
            notification: Notification::Silent {
                threshold: 8,
                longest_delay_ns: 2_000_000,
            },
            ..ConnectionSpec::between("one", ["a", "b"], address, contract)
        }],
        sources: vec![SourceSpec {
            by_adapter: true,
            ..SourceSpec::on("one", Traffic::Paced { cell_s: 20_000 }, &[1000])
        }],
        ..Scenario::default()
    };
    let run = |rests| check(&calm(&scenario, rests), Options::default()).expect("a right run");
    let (with, without) = (run(true), run(false));
    let (here, there) = (&with.connections["one"], &without.connections["one"]);
    assert_eq!(here.delivered_pdus, there.delivered_pdus);
    assert_eq!((here.lost_pdus, here.sent_pdus), (0, here.delivered_pdus));
    let later = here
        .latency_max_ns
        .unwrap_or(0)
        .saturating_sub(there.latency_max_ns.unwrap_or(0));
    // A quarter of the CDVT, and a step.
    assert!(later <= 260_000, "{later}");
    let steps = |outcome: &Outcome| outcome.hosts[0].steps;
    println!(
        "{} steps, {} without rests; {later} ns later",
        steps(&with),
        steps(&without)
    );
    assert!(3 * steps(&with) < 2 * steps(&without));
}
