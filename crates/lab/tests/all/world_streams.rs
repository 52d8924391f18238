//! Video over connections of the world: every packet is accounted for, and played in time.

use cellgate_lab::Silent;
use cellgate_lab::world::scenario::{
    ClockSpec, ConnectionSpec, FaultSpec, HostSpec, LinkSpec, LostSpec, Scenario, StreamSpec,
};
use cellgate_lab::world::{
    Marks, Options, StreamBug, WITH_STREAMS, check, check_determinism, check_marked, checked,
    scenario_of, world_kill,
};

const MS: u64 = 1_000_000;

/// Seeds of the ordinary test; `CELLGATE_STREAMS` overrides it.
fn seeds() -> u64 {
    let given = std::env::var("CELLGATE_STREAMS").ok();
    let usual = if cfg!(debug_assertions) { 40 } else { 1_000 };
    given.map_or(usual, |text| {
        text.parse().expect("CELLGATE_STREAMS is a number of seeds")
    })
}

fn judged() -> Options {
    Options {
        reference: true,
        ..Options::default()
    }
}

#[test]
fn random_scenarios_with_streams_are_right() {
    for seed in WITH_STREAMS..WITH_STREAMS + seeds() {
        check(&scenario_of(seed), judged())
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

#[test]
fn every_run_of_a_stream_is_the_same() {
    for seed in WITH_STREAMS..WITH_STREAMS + seeds().div_ceil(6) {
        check_determinism(&scenario_of(seed), Options::default(), &mut Silent)
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

/// A second of 2 Mbit/s at 50 frames, over a contract that is a fifth faster.
fn plain() -> Scenario {
    let address = "0.60".parse().expect("an address");
    let contract = "cbr,aal5:pcr=6400cps,max_sdu=376,cdvt=5ms";
    Scenario {
        duration_ns: 1_000 * MS,
        hosts: ["camera", "display"].map(HostSpec::named).into(),
        links: vec![LinkSpec::between("camera", "display")],
        connections: vec![ConnectionSpec::between(
            "video",
            ["camera", "display"],
            address,
            contract,
        )],
        streams: vec![StreamSpec::on("video", 50, 2_000_000)],
        ..Scenario::default()
    }
}

#[test]
fn a_stream_that_nothing_disturbs_is_whole_and_in_time() {
    for clock in [ClockSpec::Pcr, ClockSpec::Occupancy, ClockSpec::None] {
        let mut scenario = plain();
        scenario.streams[0].clock = clock;
        let outcome = check(&scenario, judged()).expect("nothing disturbs it");
        let stream = outcome.streams["video"];
        assert_eq!(stream.frames_on_time, 50, "{stream:?}");
        assert_eq!(stream.packets, stream.sent_packets);
        assert_eq!(stream.released, stream.packets);
        assert_eq!(outcome.connections["video"].lost_pdus, 0);
    }
}

#[test]
fn lost_packets_are_named_and_marked() {
    let mut scenario = plain();
    scenario.links[0].line = "loss 1e-2 seed 3".parse().ok();
    scenario.streams[0].lost = LostSpec::Mark;
    let outcome = check(&scenario, judged()).expect("all is accounted for");
    let stream = outcome.streams["video"];
    assert!(stream.lost_pdus > 20, "{stream:?}");
    assert_eq!(stream.lost_packets, 2 * stream.lost_pdus);
    assert_eq!(stream.marked, stream.lost_packets);
    assert_eq!(stream.packets + stream.lost_packets, stream.sent_packets);
}

#[test]
fn a_host_that_stands_still_for_longer_than_the_latency_is_late() {
    let mut scenario = plain();
    scenario.streams[0].latency_ns = 80 * MS;
    // What comes meanwhile has room.
    scenario.hosts[1].gap_max_ns = 200 * MS;
    let at_ns = 300 * MS;
    scenario.faults = vec![FaultSpec::HostStall {
        host: "display".into(),
        at_ns,
        for_ns: 150 * MS,
    }];
    let outcome = check(&scenario, judged()).expect("the fault excuses it");
    let stream = outcome.streams["video"];
    assert_eq!(stream.released, stream.sent_packets);
    assert!(stream.frames_late > 0, "{stream:?}");
}

/// A clock that goes forward at either end makes the stream begin anew, and loses nothing.
#[test]
fn a_clock_that_goes_forward_is_followed() {
    for host in ["camera", "display"] {
        let mut scenario = plain();
        scenario.duration_ns = 4_000 * MS;
        scenario.faults = vec![FaultSpec::ClockStep {
            host: host.into(),
            at_ns: 700 * MS,
            by_ns: 900 * MS,
        }];
        let outcome = check(&scenario, judged()).expect("all is accounted for");
        let stream = outcome.streams["video"];
        assert_eq!(stream.released, stream.sent_packets, "{host}");
        assert!(stream.anchors > 1, "{host}: {stream:?}");
    }
}

#[test]
fn a_table_that_makes_no_sense_is_refused_by_its_key() {
    type Spoil = fn(&mut Scenario);
    let cases: [(&str, Spoil); 9] = [
        ("fps", |all| all.streams[0].fps = 0),
        ("bit_s", |all| all.streams[0].bit_s = 4_000_000),
        ("ppm", |all| all.streams[0].ppm = 401),
        ("pack", |all| all.streams[0].pack = 3),
        ("latency_ns", |all| all.streams[0].latency_ns = 1 << 40),
        ("packets_max", |all| all.streams[0].packets_max = 1 << 18),
        ("start_ns", |all| all.streams[0].start_ns = 2_000 * MS),
        ("aal5", |all| {
            all.connections[0].contract = "cbr,aal34:pcr=6400cps,max_sdu=376".into();
        }),
        ("nothing else", |all| {
            all.streams.push(all.streams[0].clone())
        }),
    ];
    assert!(checked(&plain()).is_ok());
    for (word, spoil) in cases {
        let mut scenario = plain();
        spoil(&mut scenario);
        let told = checked(&scenario).map(drop).expect_err(word).to_string();
        assert!(
            told.contains(word) && told.contains("stream"),
            "{word}: {told}"
        );
    }
}

/// Of all of them `sim mutants` tells.
#[test]
fn bugs_of_streams_that_show_soon_are_found() {
    let bugs: Vec<String> = StreamBug::within_reach()
        .map(|bug| bug.to_string())
        .collect();
    let quick = [
        "ReadTwice",
        "LooksSeldom",
        "ReleasedLate",
        "ReleasedEarly",
        "NumberKept",
        "LateUncounted",
        "GapMiscounted",
    ];
    let all = std::env::var("CELLGATE_STREAMS").is_ok();
    for bug in bugs
        .iter()
        .filter(|bug| all || quick.contains(&bug.as_str()))
    {
        let kill = world_kill(&format!("video: {bug}"), 0..seeds()).expect("a bug");
        println!("{bug}: {} seeds, {}", kill.tried, kill.text);
        assert!(all || kill.seed.is_some(), "{bug} survives");
    }
    assert!(
        quick
            .iter()
            .all(|bug| bugs.iter().any(|other| other == bug))
    );
}

#[test]
fn random_scenarios_with_streams_reach_every_mark() {
    if std::env::var("CELLGATE_STREAMS").is_err() {
        return;
    }
    let mut marks = Marks::default();
    for seed in WITH_STREAMS..WITH_STREAMS + seeds() {
        let (_, more) = check_marked(&scenario_of(seed), judged())
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        marks.add(&more);
    }
    marks.iter().for_each(|mark| println!("{mark:?}"));
    assert_eq!(marks.missing().count(), 0);
}
