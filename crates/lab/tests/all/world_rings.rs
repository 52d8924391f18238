//! Rings of scenarios: the examples, what is told of bad files, what random ones bring, and bugs.

use std::fs;
use std::path::Path;

use cellgate_lab::cbn::{CbnBug, Reuse};
use cellgate_lab::machine::v1s::Order;
use cellgate_lab::world::scenario::{
    AssociationSpec, BridgeBy, BridgeSpec, FaultSpec, Load, MessageEffect, MessageKind, RingHarm,
    RingSpec, Scenario, SlotEffect, StationHarm, StationSpec, TrafficSpec,
};
use cellgate_lab::world::{
    Failure, Options, Outcome, WITH_RINGS, check, check_determinism, checked, scenario_of,
    world_kill,
};
use cellgate_lab::{Silent, shrink};

const JUDGED: Options = Options {
    reference: true,
    planted: None,
    canary: None,
    server_bug: None,
    ring_bug: None,
    file_bug: None,
    stream_bug: None,
    cbn_bug: None,
    abr_bug: None,
    charge_bug: None,
};

/// Seeds of the ordinary tests; `CELLGATE_RINGS` overrides it.
fn seeds() -> u64 {
    let given = std::env::var("CELLGATE_RINGS").ok();
    let usual = if cfg!(debug_assertions) { 12 } else { 1_000 };
    given.map_or(usual, |text| {
        text.parse().expect("CELLGATE_RINGS is a number of seeds")
    })
}

/// Two stations, and blocks of 1,500 octets from the first to the second.
fn pair() -> Scenario {
    let mut east = StationSpec::named("east", "ring", 128);
    east.channel = 1;
    Scenario {
        duration_ns: 10_000_000,
        rings: vec![RingSpec::named("ring")],
        stations: vec![StationSpec::named("west", "ring", 0), east],
        associations: vec![AssociationSpec {
            name: "one".into(),
            from: "west".into(),
            to: "east".into(),
            vci: 7,
            notify: cellgate_core::upper::msna::Notify::Every,
        }],
        traffic: vec![TrafficSpec::on(
            "one",
            Load::Paced { block_s: 500 },
            &[1_500],
        )],
        ..Scenario::default()
    }
}

fn run(scenario: &Scenario) -> Outcome {
    check(scenario, JUDGED).unwrap_or_else(|failure| panic!("{failure}"))
}

fn example(name: &str) -> Outcome {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let text = fs::read_to_string(folder.join(name)).expect(name);
    let scenario: Scenario = toml::from_str(&text).expect(name);
    run(&scenario)
}

#[test]
fn sixteen_stations_carry_three_loads() {
    let outcome = example("ring.toml");
    for (name, one) in &outcome.associations {
        let is_answer = name == "pong";
        assert!(
            is_answer || one.sent_blocks == one.received_blocks,
            "{name}"
        );
        assert!(one.received_blocks > 20, "{name}");
    }
    let bulk = &outcome.associations["bulk0"];
    assert!(bulk.data_bit_s.abs_diff(14_000_000) < 300_000, "{bulk:?}");
    assert_eq!(outcome.stations["s12"].interrupts_a_block, Some(1_000));
    let access = outcome.rings["cbn"].access.expect("waits");
    assert!(access.max_ns < 5 * 22_700, "{access:?}");
}

#[test]
fn in_turn_both_ways_have_about_half() {
    let outcome = example("ring-duplex.toml");
    for one in outcome.associations.values() {
        assert!(one.data_bit_s.abs_diff(7_540_000) < 500_000, "{one:?}");
    }
}

#[test]
fn a_frame_that_is_lost_costs_the_block_whose_cell_it_had() {
    let mut scenario = pair();
    scenario.heal_ns = 2_000_000;
    for frame in 0..7 {
        scenario.faults.push(FaultSpec::Slot {
            ring: "ring".into(),
            at_ns: 500_000,
            frame,
            channel: None,
            effect: SlotEffect::Lose,
        });
    }
    let outcome = run(&scenario);
    let (ring, one) = (&outcome.rings["ring"], &outcome.associations["one"]);
    assert!((1..=2).contains(&ring.lost_cells), "{ring:?}");
    assert_eq!((one.sent_blocks, one.received_blocks), (5, 4));
    let discarded: u64 = outcome.stations["east"].discarded_cells.values().sum();
    assert_eq!(discarded + ring.lost_cells, 47);
}

#[test]
fn a_header_that_is_flipped_is_nobody_s_and_its_slot_is_emptied() {
    let mut scenario = pair();
    scenario.heal_ns = 2_000_000;
    for frame in 0..7 {
        scenario.faults.push(FaultSpec::Slot {
            ring: "ring".into(),
            at_ns: 490_000,
            frame,
            channel: Some(1),
            effect: SlotEffect::Flip { bit: 3 },
        });
    }
    let outcome = run(&scenario);
    let ring = &outcome.rings["ring"];
    assert!(ring.damaged_cells <= 2, "{ring:?}");
    assert_eq!(
        outcome.associations["one"].received_blocks,
        5 - u64::from(ring.damaged_cells > 0)
    );
}

/// The pair, whose first station's node calls the second's.
fn callers() -> Scenario {
    let mut scenario = pair();
    scenario.duration_ns = 40_000_000;
    for station in &mut scenario.stations {
        station.cpu_hz = 100_000_000;
    }
    let mut back = scenario.associations[0].clone();
    (back.from, back.to) = (back.to, back.from);
    (back.name, back.vci) = ("back".into(), 8);
    scenario.associations.push(back);
    let load = Load::Rpc {
        back: "back".into(),
        call_s: 200,
        work_ns: 100_000,
    };
    scenario.traffic = vec![TrafficSpec::on("one", load, &[12, 1_500])];
    scenario
}

#[test]
fn calls_come_to_their_replies_and_nothing_is_left() {
    let one = &run(&callers()).associations["one"];
    assert_eq!((one.sent_blocks, one.received_blocks), (8, 8));
}

/// Who is called dies amid calls: R10 sees that none is executed twice, and calls go on.
#[test]
fn a_node_that_dies_costs_the_calls_that_it_had() {
    let mut scenario = callers();
    scenario.heal_ns = 9_000_000;
    scenario.faults.push(FaultSpec::Station {
        station: "east".into(),
        at_ns: 5_200_000,
        for_ns: 3_000_000,
        harm: StationHarm::NodeKilled,
    });
    let one = &run(&scenario).associations["one"];
    assert_eq!(one.sent_blocks, 8);
    assert!((4..8).contains(&one.received_blocks), "{one:?}");
}

#[test]
fn messages_that_are_lost_are_said_again() {
    let mut scenario = callers();
    scenario.heal_ns = 3_000_000;
    for (station, of) in [("west", MessageKind::Msnl), ("east", MessageKind::Rex)] {
        scenario.faults.push(FaultSpec::Messages {
            station: station.into(),
            at_ns: 0,
            for_ns: 1_500_000,
            of,
            every: 1,
            effect: MessageEffect::Lose,
        });
    }
    let one = &run(&scenario).associations["one"];
    assert_eq!((one.sent_blocks, one.received_blocks), (8, 8));
}

/// Blocks cross from a ring to another: by cell they are there sooner.
#[test]
fn a_bridge_by_cell_is_sooner_than_one_by_block() {
    let delay = |by| {
        let mut scenario = pair();
        scenario.rings.push(RingSpec::named("other"));
        let bridge = StationSpec::named("bridge", "other", 3);
        let far = StationSpec::named("far", "other", 90);
        scenario.stations.extend([bridge, far]);
        let mut two = scenario.associations[0].clone();
        (two.name, two.from, two.to) = ("two".into(), "bridge".into(), "far".into());
        scenario.associations.push(two);
        scenario.bridges.push(BridgeSpec {
            from: "one".into(),
            to: "two".into(),
            by,
        });
        let outcome = run(&scenario);
        let two = &outcome.associations["two"];
        assert_eq!((two.received_blocks, two.strange_blocks), (5, 0), "{by:?}");
        two.delay.expect("blocks have come").p50_ns
    };
    let (by_cell, by_block) = (delay(BridgeBy::Cell), delay(BridgeBy::Block));
    assert!(by_cell + 500_000 < by_block, "{by_cell} {by_block}");
}

#[test]
fn a_slot_that_is_stuck_carries_nothing_and_is_the_monitor_s_behind_it() {
    let mut scenario = pair();
    scenario.rings[0].frames = 1;
    scenario.rings[0].channels = 2;
    scenario.heal_ns = 6_000_000;
    scenario.faults.push(FaultSpec::Ring {
        ring: "ring".into(),
        at_ns: 0,
        for_ns: 6_000_000,
        harm: RingHarm::SlotStuck {
            frame: 0,
            channel: 1,
        },
    });
    let outcome = run(&scenario);
    let (ring, one) = (&outcome.rings["ring"], &outcome.associations["one"]);
    assert_eq!((one.sent_blocks, one.received_blocks), (5, 5));
    let access = ring.access.expect("waits");
    assert!(access.max_ns > 5_500_000, "{access:?}");
}

/// A cut costs a cell, and from then on each of three busy sources empties another's slot.
#[test]
fn sources_that_count_rob_each_other_when_one_has_lost_its_cell() {
    let file = "tests/corpus/sources_that_count_rob_each_other.json";
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file));
    let mut scenario: Scenario = serde_json::from_str(&text.expect(file)).expect(file);
    let robbed = &run(&scenario).associations["a4"];
    assert_eq!((robbed.sent_blocks, robbed.received_blocks), (53, 7));
    scenario.faults.clear();
    let whole = &run(&scenario).associations["a4"];
    assert_eq!((whole.sent_blocks, whole.received_blocks), (30, 30));
}

#[test]
fn a_reset_costs_what_the_station_holds() {
    let mut scenario = pair();
    scenario.heal_ns = 2_000_000;
    scenario.faults.push(FaultSpec::Station {
        station: "east".into(),
        at_ns: 700_000,
        for_ns: 0,
        harm: StationHarm::Reset,
    });
    let one = &run(&scenario).associations["one"];
    assert_eq!((one.sent_blocks, one.received_blocks), (5, 4));
}

/// The shift register of the reference, slot by slot, beside the ring that knows when each frame
/// passes where. `cargo test --release -p cellgate-lab --test all shift_register -- --ignored`
#[test]
#[ignore = "long: 10,000 seeds"]
fn the_fast_ring_is_a_shift_register_on_10_000_seeds() {
    for seed in WITH_RINGS..WITH_RINGS + 10_000 {
        let outcome = check(&scenario_of(seed), JUDGED);
        let outcome = outcome.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        assert!(
            outcome.cells == 0 || outcome.judged_cells > outcome.cells,
            "seed {seed}"
        );
    }
}

#[test]
fn random_rings_are_right() {
    for seed in WITH_RINGS..WITH_RINGS + seeds() {
        check(&scenario_of(seed), JUDGED)
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

#[test]
fn every_run_of_a_ring_is_the_same() {
    for seed in WITH_RINGS..WITH_RINGS + seeds().div_ceil(6) {
        check_determinism(&scenario_of(seed), Options::default(), &mut Silent)
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

#[test]
fn bad_files_are_told_where() {
    type Change = fn(&mut Scenario);
    let cases: [(&str, Change); 14] = [
        ("another station is at its place", |all| {
            all.stations[1].at = 0
        }),
        ("its ring has no such channel", |all| {
            all.stations[0].channel = 4
        }),
        ("vci is 1 to 4096", |all| all.associations[0].vci = 0),
        ("its vci has a receiver", |all| {
            let mut other = all.associations[0].clone();
            other.name = "other".into();
            all.associations.push(other);
        }),
        ("nothing has the name \"north\"", |all| {
            all.stations[0].ring = "north".into()
        }),
        ("stations: at most 256", |all| {
            all.stations = vec![all.stations[0].clone(); 257];
        }),
        ("2^16 slots", |all| all.rings[0].frames = 1 << 15),
        ("2^36 slots pass", |all| {
            all.duration_ns = 86_400_000_000_000;
            all.rings[0].rotation_ns = 1_000;
        }),
        ("a reset takes no time", |all| {
            all.faults.push(FaultSpec::Station {
                station: "east".into(),
                at_ns: 0,
                for_ns: 1,
                harm: StationHarm::Reset,
            });
        }),
        ("no node is there", |all| {
            all.faults.push(FaultSpec::Station {
                station: "east".into(),
                at_ns: 0,
                for_ns: 1,
                harm: StationHarm::NodeKilled,
            });
        }),
        ("its ring has no such frame", |all| {
            let harm = RingHarm::SlotStuck {
                frame: 7,
                channel: 0,
            };
            all.faults.push(FaultSpec::Ring {
                ring: "ring".into(),
                at_ns: 0,
                for_ns: 1,
                harm,
            });
        }),
        ("it does not come back to its sender", |all| {
            *all = callers();
            let one = all.associations[0].clone();
            (all.associations[1].from, all.associations[1].to) = (one.from, one.to);
        }),
        ("its associations are for nothing else", |all| {
            *all = callers();
            let load = Load::Greedy;
            all.traffic.push(TrafficSpec::on("back", load, &[64]));
        }),
        ("octets are 12 to 8160", |all| {
            all.traffic[0].octets = vec![11]
        }),
    ];
    for (told, change) in cases {
        let mut scenario = pair();
        change(&mut scenario);
        let refusals = checked(&scenario).map(drop).expect_err(told).to_string();
        assert!(refusals.contains(told), "{told}: {refusals}");
    }
    assert!(checked(&pair()).is_ok());
}

/// Slots that are reused at once starve who comes late; passed on, they do not.
#[test]
fn who_comes_late_starves_where_slots_are_reused() {
    let received = |reuse| {
        let mut scenario = pair();
        scenario.rings[0].frames = 1;
        scenario.rings[0].reuse = reuse;
        for (name, at) in [("north", 10), ("south", 20)] {
            let mut station = StationSpec::named(name, "ring", at);
            station.channel = 1;
            scenario.stations.push(station);
        }
        scenario.traffic = vec![TrafficSpec {
            start_ns: 2_000_000,
            stop_ns: 3_000_000,
            ..TrafficSpec::on("one", Load::Paced { block_s: 2_000 }, &[64])
        }];
        scenario.traffic.push(TrafficSpec::on(
            "south",
            Load::False {
                every_ns: 1_000,
                channels: 2,
            },
            &[],
        ));
        scenario.duration_ns = 3_000_000;
        run(&scenario).stations["west"]
            .access
            .map(|access| access.max_ns)
    };
    let (passed_on, at_once) = (received(Reuse::PassedOn), received(Reuse::AtOnce));
    assert!(
        passed_on.is_some_and(|ns| ns <= 3 * 22_700),
        "{passed_on:?}"
    );
    assert!(at_once.is_none_or(|ns| ns > 500_000), "{at_once:?}");
}

/// The bug, and in how many seeds it is to be found.
#[test]
fn bugs_are_found_and_shrunk() {
    for bug in [
        CbnBug::SlotKept,
        CbnBug::WordsSwapped,
        CbnBug::InterruptsForAll,
        CbnBug::ChargedTwice,
        CbnBug::CellTwice,
    ] {
        let kill = world_kill(&format!("ring: {bug:?}"), 0..40).expect("a bug");
        assert!(kill.seed.is_some(), "{bug:?} survives");
    }
    let mut scenario = pair();
    scenario.stations[1].order = Order::InTurn;
    scenario
        .traffic
        .push(TrafficSpec::on("one", Load::Greedy, &[64]));
    let bug = Options {
        cbn_bug: Some(CbnBug::ChargedTwice),
        ..JUDGED
    };
    let fails = |one: &Scenario| matches!(check(one, bug), Err(Failure::Violation(_)));
    let small = shrink(&scenario, 50, fails);
    assert_eq!(small.traffic.len(), 1);
}

/// All that `sim mutants` plants in rings, each until a seed finds it.
#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn each_bug_of_rings_is_found() {
    let mut survived = Vec::new();
    for bug in CbnBug::ALL {
        let kill = world_kill(&format!("ring: {bug:?}"), 0..500).expect("a bug");
        println!("{:<30} {:>5}  {:.100}", kill.bug, kill.tried, kill.text);
        if kill.seed.is_none() {
            survived.push(*bug);
        }
    }
    assert_eq!(survived, []);
}
