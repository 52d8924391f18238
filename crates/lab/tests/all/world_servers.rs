//! The protocol server in the deterministic world: admission, take-up, pace, and what applications
//! are promised.

use cellgate_core::wire::VpiVci;
use cellgate_lab::Silent;
use cellgate_lab::world::scenario::{
    ApplicationSpec, Call, CallSpec, ConnectionSpec, CrashSpec, FaultSpec, HostSpec, LinkSpec,
    Scenario, ServerSpec, SourceSpec, Traffic, Whose,
};
use cellgate_lab::world::{
    Options, Outcome, ServerBug, ServerOutcome, WITH_SERVERS, check, check_determinism,
    check_isolation, check_marked, scenario_of,
};
use cellgate_lab::{Shrink, shrink};

const CBR: &str = "cbr,aal5:pcr=20000cps,max_sdu=200,cdvt=2ms";

fn judged() -> Options {
    Options {
        reference: true,
        ..Options::default()
    }
}

fn application(host: &str, calls: &[(u64, Call)]) -> ApplicationSpec {
    ApplicationSpec {
        name: format!("one@{host}"),
        host: host.into(),
        connection: "one".into(),
        uid: 1_000,
        accepts: false,
        calls: calls
            .iter()
            .map(|(at_ns, call)| CallSpec {
                at_ns: *at_ns,
                call: call.clone(),
            })
            .collect(),
    }
}

/// A writer as fast as it may at `a`, a reader at `b`, a server at each.
fn pair() -> Scenario {
    Scenario {
        duration_ns: 40_000_000,
        hosts: ["a", "b"].map(HostSpec::named).into(),
        links: vec![LinkSpec::between("a", "b")],
        connections: vec![ConnectionSpec::between(
            "one",
            ["a", "b"],
            VpiVci::new(0, 32).expect("an address"),
            CBR,
        )],
        sources: vec![SourceSpec {
            by_adapter: true,
            ..SourceSpec::on("one", Traffic::Greedy, &[200])
        }],
        servers: ["a", "b"].map(ServerSpec::on).into(),
        applications: ["b", "a"]
            .map(|host| application(host, &[(0, Call::Open)]))
            .into(),
        ..Scenario::default()
    }
}

fn right(scenario: &Scenario) -> Outcome {
    check(scenario, judged()).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn what_was_admitted_is_sent_at_its_rate_and_arrives() {
    let outcome = right(&pair());
    let one = &outcome.connections["one"];
    // 20,000 cells/s, 5 cells a PDU, for 40 ms less what opening takes; and a credit at once.
    assert!((150..=180).contains(&one.delivered_pdus), "{one:?}");
    assert_eq!(one.lost_pdus + one.strange_pdus, 0, "{one:?}");
    let (a, b) = (&outcome.servers["a"], &outcome.servers["b"]);
    assert!(a.suspended > 5 && b.kept_pdus > 100, "{a:?} {b:?}");
}

#[test]
fn a_dead_server_costs_no_cell_and_its_successor_finds_everything() {
    let mut scenario = pair();
    for server in &mut scenario.servers {
        server.crashes = vec![CrashSpec {
            at_ns: 15_000_000,
            for_ns: 10_000_000,
        }];
    }
    let (calm, outcome) = (right(&pair()), right(&scenario));
    assert_eq!(
        outcome.connections["one"].delivered_pdus,
        calm.connections["one"].delivered_pdus
    );
    for (name, server) in &outcome.servers {
        assert_eq!((server.take_ups, server.taken_up), (1, 1), "{name}");
    }
}

#[test]
fn a_server_can_die_after_the_healing_and_up_to_the_end() {
    let end_ns = pair().duration_ns;
    for (at_ns, for_ns) in [
        (20_000_000, 1_000_000),
        (24_999_000, 2_000),
        (30_000_000, 10_000_000),
        (end_ns - 1, 1),
        (end_ns, 0),
    ] {
        let mut scenario = pair();
        scenario.heal_ns = end_ns / 2;
        for server in &mut scenario.servers {
            server.crashes = vec![CrashSpec { at_ns, for_ns }];
        }
        let outcome = right(&scenario);
        assert!(outcome.connections["one"].delivered_pdus > 140, "{at_ns}");
    }
}

#[test]
fn a_dead_adapter_is_opened_everything_at_again() {
    let mut scenario = pair();
    scenario.faults = vec![FaultSpec::AdapterCrash {
        host: "b".into(),
        at_ns: 15_000_000,
        for_ns: 500_000,
    }];
    let outcome = right(&scenario);
    let one = &outcome.connections["one"];
    assert!(one.lost_pdus > 0 && one.delivered_pdus > 140, "{one:?}");
}

/// The server dies at each moment of opening everything again: its successor goes on from there.
#[test]
fn a_server_that_dies_over_a_dead_adapter_leaves_nobody_behind() {
    for late_ns in (0..400_000).step_by(20_000) {
        let mut scenario = pair();
        scenario.faults = vec![FaultSpec::AdapterCrash {
            host: "b".into(),
            at_ns: 15_000_000,
            for_ns: 500_000,
        }];
        scenario.servers[1].crashes = vec![CrashSpec {
            at_ns: 15_400_000 + late_ns,
            for_ns: 300_000,
        }];
        check(&scenario, judged()).unwrap_or_else(|failure| panic!("{late_ns} ns: {failure}"));
    }
}

/// At each end the server, the adapter with its keeper, and the application die in turn, each soon
/// after the one before: the connection is there again each time, and at the end nothing is left.
#[test]
fn keeper_server_and_application_live_through_the_deaths_of_each() {
    for gap_ns in [0, 30_000, 200_000, 1_500_000] {
        for reader_first in [false, true] {
            let mut scenario = pair();
            (scenario.duration_ns, scenario.heal_ns) = (80_000_000, 50_000_000);
            for (n, host) in ["a", "b"].into_iter().enumerate() {
                let turn = if reader_first { 1 - n } else { n };
                let at_ns = 10_000_000 + 15_000_000 * turn as u64;
                scenario.servers[n].crashes = vec![CrashSpec {
                    at_ns,
                    for_ns: 400_000,
                }];
                scenario.faults.push(FaultSpec::AdapterCrash {
                    host: host.into(),
                    at_ns: at_ns + gap_ns,
                    for_ns: 300_000,
                });
                let mut ends = scenario.applications.iter_mut();
                let end = ends.find(|one| one.host == host).expect("one at each host");
                // What finds no adapter is refused, and asked for again.
                for (late_ns, call) in [
                    (2 * gap_ns, Call::Crash),
                    (3 * gap_ns + 1, Call::Open),
                    (3 * gap_ns + 4_000_000, Call::Open),
                ] {
                    let at_ns = at_ns + late_ns;
                    end.calls.push(CallSpec { at_ns, call });
                }
            }
            let what = format!("{gap_ns} ns, reader first: {reader_first}");
            let outcome = check(&scenario, judged());
            let outcome = outcome.unwrap_or_else(|failure| panic!("{what}: {failure}"));
            let one = &outcome.connections["one"];
            // 800 cells in each 40 ms, 5 a PDU: all but what falls into the deaths.
            assert!(one.delivered_pdus > 250, "{what}: {one:?}");
            for (name, server) in &outcome.servers {
                assert_eq!(server.take_ups, 1, "{what}: {name}");
                assert!(server.confirmed >= 4, "{what}: {name}: {server:?}");
            }
        }
    }
}

/// Best effort without a share is received at 1 cell/s: a PDU that comes then is not paid for at
/// that rate when there is another.
#[test]
fn a_reader_that_was_best_effort_for_a_while_receives_again() {
    let mut scenario = pair();
    let modify = |contract: &str| Call::Modify(contract.into());
    let calls = [
        (0, Call::Open),
        (10_000_000, modify("ubr,aal5:max_sdu=200")),
        (13_000_000, modify(CBR)),
    ];
    scenario.applications[0] = application("b", &calls);
    // Long enough for a PDU to come between the change and the share.
    scenario.servers[1].control_ns = 200_000;
    let outcome = right(&scenario);
    let one = &outcome.connections["one"];
    assert!(one.delivered_pdus > 140, "{one:?}");
}

#[test]
fn a_writer_that_is_woken_early_waits_on() {
    let mut scenario = pair();
    let calm = right(&scenario);
    let early = |n: u64| FaultSpec::EarlyTimers {
        host: "a".into(),
        at_ns: 10_000_000 + n * 20_000,
    };
    scenario.faults = (0..500).map(early).collect();
    let woken = right(&scenario);
    let sent = |outcome: &Outcome| outcome.connections["one"].sent_pdus;
    assert_eq!(sent(&woken), sent(&calm));
    let (woken, calm) = (&woken.servers["a"], &calm.servers["a"]);
    assert!(woken.suspended > calm.suspended + 10, "{woken:?} {calm:?}");

    // Where adapters shape, a writer that trusts early wake-ups finds no room: it is best effort
    // that sends too much.
    let trusting = Options {
        server_bug: Some(ServerBug::EarlyWakeTrusted),
        ..Options::default()
    };
    let mut scenario = scenario_of(WITH_SERVERS + 36);
    right(&scenario);
    let failure = check(&scenario, trusting).expect_err("it sends more than its credit");
    assert!(failure.to_string().starts_with("I14 "), "{failure}");
    let is_early = |fault: &FaultSpec| matches!(fault, FaultSpec::EarlyTimers { .. });
    scenario.faults.retain(|fault| !is_early(fault));
    check(&scenario, trusting).expect("nobody is woken early");
}

#[test]
fn what_is_too_much_is_refused_and_what_is_offered_instead_is_not() {
    let mut scenario = pair();
    scenario.connections[0].contract = "cbr,aal5:pcr=353207cps,max_sdu=200,cdvt=2ms".into();
    let refused = right(&scenario);
    assert_eq!(refused.connections["one"].delivered_pdus, 0);
    assert_eq!(refused.servers["a"].offered, 1);
    for application in &mut scenario.applications {
        application.accepts = true;
    }
    let accepted = right(&scenario);
    assert!(accepted.connections["one"].delivered_pdus > 1_000);
}

fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let given = std::env::var("CELLGATE_SEEDS").ok();
    let count = given.map_or(count, |text| text.parse().expect("a number of seeds"));
    (WITH_SERVERS..).take(count as usize)
}

#[test]
fn random_scenarios_with_servers_are_right() {
    let mut sum = ServerOutcome::default();
    for seed in seeds(12) {
        let outcome = check(&scenario_of(seed), judged());
        let outcome = outcome.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        for server in outcome.servers.values() {
            sum.refused += server.refused;
            sum.taken_up += server.taken_up;
            sum.audits += server.audits;
            sum.kept_pdus += server.kept_pdus;
        }
    }
    println!("{sum:?}");
    // An oracle of nothing would be content as well.
    assert!(sum.refused > 20 && sum.taken_up > 5 && sum.audits > 50 && sum.kept_pdus > 200);
}

#[test]
fn equal_scenarios_with_servers_run_equally() {
    for seed in seeds(if cfg!(debug_assertions) { 2 } else { 4 }) {
        let scenario = scenario_of(seed);
        assert_eq!(scenario, scenario_of(seed));
        check_determinism(&scenario, Options::default(), &mut Silent)
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

#[test]
fn a_flood_takes_nothing_from_what_servers_have_admitted() {
    for seed in seeds(if cfg!(debug_assertions) { 2 } else { 6 }) {
        check_isolation(&scenario_of(seed), Options::default(), &mut Silent)
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

#[test]
fn a_failing_scenario_with_servers_is_made_small() {
    let options = Options {
        server_bug: Some(ServerBug::VcNotTakenUp),
        ..Options::default()
    };
    let fails = |scenario: &Scenario| check(scenario, options).is_err();
    let mut scenario = pair();
    scenario.servers[1].crashes = vec![
        CrashSpec {
            at_ns: 5_000_000,
            for_ns: 1_000_000,
        };
        3
    ];
    assert!(fails(&scenario));
    let small = shrink(&scenario, 500, fails);
    assert_eq!((small.applications.len(), small.sources.len()), (1, 0));
    assert_eq!((small.len_of(4), small.len_of(5)), (1, 1), "{small:?}");
}

#[test]
fn servers_and_applications_that_cannot_be_are_told() {
    type Sabotage = fn(&mut Scenario);
    let cases: [(&str, Sabotage); 6] = [
        ("two of the name", |s| s.servers.push(ServerSpec::on("a"))),
        ("nothing has the name", |s| s.servers[0].host = "x".into()),
        ("no server", |s| s.servers.truncate(1)),
        ("at no end", |s| {
            s.hosts.push(HostSpec::named("c"));
            s.servers.push(ServerSpec::on("c"));
            s.applications[0].host = "c".into();
        }),
        ("control_ns", |s| s.servers[0].control_ns = 0),
        ("belongs to an application", |s| {
            s.faults = vec![FaultSpec::ReaderCrash {
                connection: "one".into(),
                at_ns: 0,
                for_ns: 1,
            }];
        }),
    ];
    for (expected, sabotage) in cases {
        let mut scenario = pair();
        sabotage(&mut scenario);
        let told = check(&scenario, Options::default()).expect_err(expected);
        assert!(told.to_string().contains(expected), "{told}");
    }
}

/// A PDU on AAL3/4 that comes slower than its reader waits for it is given up, and promised by
/// nobody.
#[test]
fn a_reader_gives_up_slow_pdus_after_its_hosts_time() {
    let mut scenario = pair();
    scenario.connections[0].contract = "cbr,aal34:pcr=20000cps,max_sdu=200,cdvt=2ms".into();
    let patient = right(&scenario);
    assert!(patient.connections["one"].delivered_pdus > 140);
    // Five cells take 0.25 ms, but for those of the burst after each pause of the writer.
    scenario.hosts[1].reassembly_timeout_ns = 100_000;
    let hasty = right(&scenario);
    assert!(hasty.connections["one"].delivered_pdus < 60, "{hasty:?}");
}

#[test]
fn servers_and_writers_go_by_the_clock_of_their_host() {
    let calm = right(&pair());
    let mut scenario = pair();
    scenario.hosts[0].clock_ns = HostSpec::CLOCK_MAX_NS;
    scenario.hosts[1].clock_ns = (1 << 32) - 15_000_000;
    let sent = |outcome: &Outcome| outcome.connections["one"].sent_pdus;
    assert_eq!(sent(&right(&scenario)), sent(&calm));
    // The clock that its credit goes by is put forward by eight of its intervals.
    scenario.faults = (0..8)
        .map(|n| FaultSpec::ClockStep {
            host: "a".into(),
            at_ns: 10_000_000 + n * 1_000_000,
            by_ns: 2_000_000,
        })
        .collect();
    let stepped = right(&scenario);
    assert!(sent(&stepped) > sent(&calm) + 20, "{stepped:?} {calm:?}");
}

#[test]
fn what_is_not_read_for_want_of_interrupts_is_read_later() {
    let mut scenario = pair();
    scenario.faults = vec![FaultSpec::InterruptsLost {
        host: "b".into(),
        at_ns: 10_000_000,
        for_ns: 25_000_000,
    }];
    let outcome = right(&scenario);
    let one = &outcome.connections["one"];
    assert!(one.lost_pdus > 0 && one.delivered_pdus > 60, "{one:?}");
    assert!(one.latency_max_ns > Some(1_000_000), "{one:?}");
}

/// Four times as much as its contract, and more of it on leases than without.
#[test]
fn an_application_lends_its_connection_time() {
    let mut scenario = pair();
    let modest = "cbr,aal5:excess=when-idle,pcr=5000cps,max_sdu=200,cdvt=2ms";
    let calls = |lends: bool| {
        let lend = Call::Lend {
            pdus: 20,
            for_ns: 5_000_000,
        };
        let opens = (0, Call::OpenWith(modest.into()));
        let lent = (1..6).map(|n| (n * 5_000_000, lend.clone()));
        let calls: Vec<(u64, Call)> = std::iter::once(opens)
            .chain(lent.filter(|_| lends))
            .collect();
        application("b", &calls)
    };
    let mut read = |lends| {
        scenario.applications[0] = calls(lends);
        right(&scenario).connections["one"].delivered_pdus
    };
    let (without, with) = (read(false), read(true));
    assert!(with > without + 50, "{with} with leases, {without} without");
    // Its server says that it is none.
    let mut scenario = pair();
    let too_long = Call::Lend {
        pdus: 1,
        for_ns: 10_000_001,
    };
    scenario.applications[0] = application("b", &[(0, Call::Open), (5_000_000, too_long)]);
    assert_eq!(right(&scenario).servers["b"].refused, 1);
}

#[test]
fn where_others_have_taken_all_vcs_what_is_opened_is_refused() {
    let mut scenario = pair();
    scenario.faults = vec![FaultSpec::Guests {
        host: "b".into(),
        at_ns: 1_000_000,
        for_ns: 10_000_000,
        vcs: 40,
    }];
    let calls = [2_000_000, 20_000_000].map(|at_ns| (at_ns, Call::Open));
    scenario.applications[0] = application("b", &calls);
    let outcome = right(&scenario);
    let server = &outcome.servers["b"];
    // The hello, too.
    assert_eq!((server.refused, server.confirmed), (1, 3), "{server:?}");
    let delivered = outcome.connections["one"].delivered_pdus;
    assert!((50..110).contains(&delivered), "{delivered}");
}

/// Two readers at one host: what the one writes where it should not costs the other nothing.
#[test]
fn an_application_that_lies_harms_itself_alone() {
    let mut scenario = pair();
    let mut other = scenario.connections[0].clone();
    (other.name, other.address) = ("two".into(), VpiVci::new(0, 33).expect("an address"));
    scenario.connections.push(other);
    let mut source = scenario.sources[0].clone();
    source.connection = "two".into();
    scenario.sources.push(source);
    for n in 0..2 {
        let one = scenario.applications[n].clone();
        scenario.applications.push(ApplicationSpec {
            name: one.name.replace("one", "two"),
            connection: "two".into(),
            ..one
        });
    }
    let calm = right(&scenario);
    let end_ns = 30_000_000;
    for (whose, word, value) in [
        (Whose::Reader, 16, 1 << 40),
        (Whose::Sender, 32, 1 << 40),
        (Whose::ReadersClient, 16, 1 << 40),
        (Whose::SendersClient, 48, 200),
    ] {
        scenario.faults = (5_000_000..end_ns)
            .step_by(500_000)
            .map(|at_ns| FaultSpec::Write {
                connection: "one".into(),
                at_ns,
                whose,
                word,
                value,
            })
            .collect();
        let (lied, marks) = check_marked(&scenario, judged()).expect("nobody else is harmed");
        let two = |outcome: &Outcome| {
            let two = &outcome.connections["two"];
            [two.delivered_pdus, two.lost_pdus, two.strange_pdus]
        };
        assert_eq!(two(&lied), two(&calm), "{whose:?}");
        // Where there is room its adapter does not look at what a reader says.
        let mut marks = marks.iter();
        let noticed = marks.any(|mark| mark.name.starts_with("bad_") && mark.count > 0);
        let sends = matches!(whose, Whose::Sender | Whose::SendersClient);
        assert_eq!(noticed, sends, "{whose:?}");
        check_isolation(&scenario, Options::default(), &mut Silent)
            .unwrap_or_else(|failure| panic!("{whose:?}: {failure}"));
    }
}
