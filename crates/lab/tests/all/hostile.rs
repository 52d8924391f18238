//! Scenarios of somebody who means no good: each is refused with a word that says why, before
//! anything large is made of it.

use std::collections::BTreeMap;

use cellgate_core::Effect;
use cellgate_core::adapter::Notification;
use cellgate_core::wire::VpiVci;
use cellgate_lab::world::scenario::{
    ApplicationSpec, Call, CallSpec, ConnectionSpec, CrashSpec, FaultSpec, HostSpec, LinkSpec,
    Scenario, ServerSpec, SourceSpec, SwitchSpec, Traffic,
};
use cellgate_lab::world::{Failure, Options, check, limits};

fn sane() -> Scenario {
    Scenario {
        duration_ns: 2_000_000,
        hosts: ["a", "b"].map(HostSpec::named).into(),
        switches: vec![SwitchSpec::named("s"), SwitchSpec::named("t")],
        links: [["a", "s"], ["s", "t"], ["t", "s"], ["t", "b"]]
            .map(|[one, other]| LinkSpec::between(one, other))
            .into(),
        connections: vec![ConnectionSpec::between(
            "one",
            ["a", "b"],
            VpiVci::new(0, 32).expect("an address"),
            "cbr,aal5:pcr=5000cps,max_sdu=400",
        )],
        sources: vec![SourceSpec {
            hazard: true,
            ..SourceSpec::on("one", Traffic::Paced { cell_s: 5_000 }, &[400])
        }],
        ..Scenario::default()
    }
}

fn guests(at_ns: u64, vcs: u16) -> FaultSpec {
    FaultSpec::Guests {
        host: "b".into(),
        at_ns,
        for_ns: 1,
        vcs,
    }
}

/// The adapter of `b` stands still in second `n`.
fn stall(n: u64) -> FaultSpec {
    FaultSpec::AdapterStall {
        host: "b".into(),
        at_ns: n * 1_000_000_000,
        for_ns: 1_000_000_000,
    }
}

fn effect(effect: Effect) -> FaultSpec {
    FaultSpec::Cell {
        link: 0,
        back: false,
        cell: 0,
        effect,
    }
}

fn clock_step(by_ns: u64) -> FaultSpec {
    FaultSpec::ClockStep {
        host: "b".into(),
        at_ns: 0,
        by_ns,
    }
}

fn modify(contract: &str) -> FaultSpec {
    FaultSpec::Modify {
        connection: "one".into(),
        at_ns: 0,
        contract: contract.into(),
        sender: false,
        memory: false,
    }
}

fn application(calls: &[(u64, Call)]) -> ApplicationSpec {
    let calls = calls.iter().map(|(at_ns, call)| CallSpec {
        at_ns: *at_ns,
        call: call.clone(),
    });
    ApplicationSpec {
        name: "reader".into(),
        host: "b".into(),
        connection: "one".into(),
        uid: 1_000,
        accepts: false,
        calls: calls.collect(),
    }
}

fn sends_all_day(scenario: &mut Scenario, traffic: Traffic) {
    scenario.duration_ns = limits::DURATION_MAX_NS;
    scenario.sources[0].traffic = traffic;
}

fn adapter_sends(scenario: &mut Scenario, traffic: Traffic) {
    scenario.sources[0].by_adapter = true;
    scenario.sources[0].traffic = traffic;
}

/// Cells on the line, as if they kept its rate and the contract.
fn sends_and_says_that_it_keeps(scenario: &mut Scenario, traffic: Traffic) {
    scenario.sources[0].hazard = false;
    scenario.sources[0].traffic = traffic;
}

/// Two connections of one contract.
fn adapter_sends_on_another(scenario: &mut Scenario) {
    scenario.sources[0].by_adapter = true;
    scenario.connections.push(ConnectionSpec {
        name: "two".into(),
        address: VpiVci::new(0, 33).expect("an address"),
        ..scenario.connections[0].clone()
    });
    scenario.sources.push(SourceSpec {
        connection: "two".into(),
        ..scenario.sources[0].clone()
    });
}

fn many<T: Clone>(one: &[T], count: usize) -> Vec<T> {
    vec![one[0].clone(); count]
}

#[test]
fn scenarios_beyond_their_bounds_are_told() {
    assert!(check(&sane(), Options::default()).is_ok());
    type Sabotage = fn(&mut Scenario);
    let cases: [(&str, Sabotage); 88] = [
        ("70000 connections: at most 16384", |s| {
            s.connections = many(&s.connections, 70_000);
        }),
        ("sources: at most", |s| {
            s.sources = many(&s.sources, limits::CONNECTIONS_MAX + 1)
        }),
        ("hosts: at most", |s| {
            s.hosts = many(&s.hosts, limits::NODES_MAX + 1)
        }),
        ("budget is 1 to 1,024", |s| s.hosts[0].budget = 0),
        ("budget is 1 to 1,024", |s| s.hosts[0].budget = 1_025),
        ("clump_cells is at least 1", |s| s.hosts[0].clump_cells = 0),
        ("switches: at most", |s| {
            s.switches = many(&s.switches, limits::NODES_MAX + 1)
        }),
        ("links: at most", |s| {
            s.links = many(&s.links, limits::LINKS_MAX + 1)
        }),
        ("faults: at most", |s| {
            s.faults = vec![guests(0, 0); limits::FAULTS_MAX + 1]
        }),
        ("applications: at most", |s| {
            s.applications = vec![application(&[]); limits::APPLICATIONS_MAX + 1];
        }),
        ("calls and crashes: at most", |s| {
            let calls = vec![(0, Call::Open); limits::FAULTS_MAX + 1];
            s.applications = vec![application(&calls)];
        }),
        ("belongs to an application", |s| {
            s.servers = vec![ServerSpec::on("b")];
            s.applications = vec![application(&[])];
            s.faults = vec![modify("cbr,aal5:pcr=1cps,max_sdu=40")];
        }),
        ("at most a day", |s| s.duration_ns = u64::MAX),
        ("heal_ns", |s| s.heal_ns = u64::MAX),
        ("step_ns", |s| s.hosts[0].step_ns = 0),
        ("step_ns", |s| s.hosts[0].step_ns = u64::MAX),
        ("event_slots", |s| s.hosts[0].event_slots = 3),
        ("event_slots", |s| s.hosts[0].event_slots = 1 << 31),
        ("fifo_cells", |s| s.hosts[0].fifo_cells = u32::MAX),
        ("fifo_cells", |s| s.hosts[1].fifo_cells = 0),
        ("wake_up_ns", |s| s.hosts[1].wake_up_ns = u64::MAX),
        ("gap_max_ns", |s| s.hosts[1].gap_max_ns = u64::MAX),
        ("clock_ns", |s| s.hosts[1].clock_ns = u64::MAX),
        ("host \"b\"", |s| s.hosts[1].spare_vcs = u16::MAX),
        ("queue_cells", |s| s.switches[0].queue_cells = u32::MAX),
        ("queue_cells", |s| s.switches[1].queue_cells = 0),
        ("octets are needed", |s| {
            s.switches[0].queue_cells = 1 << 20;
            s.links.extend(many(&s.links, 20));
        }),
        ("octets are needed", |s| {
            s.hosts[0].fifo_cells = 1 << 20;
            s.links.extend(many(&s.links, 20));
        }),
        ("two nodes", |s| {
            s.links[0].ends = ["a", "a"].map(String::from)
        }),
        ("bit_s", |s| s.links[0].bit_s = 0),
        ("bit_s", |s| s.links[0].bit_s = u64::MAX),
        ("along a line", |s| s.links[0].delay_ns = u64::MAX),
        ("stands still", |s| {
            s.duration_ns = 40_000_000_000;
            s.faults = (0..40).map(stall).collect();
        }),
        ("it is held", |s| {
            s.faults = vec![effect(Effect::Hold { ns: 20_000_000_000 })]
        }),
        ("stands still", |s| {
            s.links[3].bit_s = 100_000_000_000;
            s.hosts[1].step_ns = 100_000_000;
        }),
        ("octets are needed", |s| {
            s.links.extend(many(&s.links, 20));
            s.links
                .iter_mut()
                .for_each(|link| link.delay_ns = 10_000_000_000);
        }),
        ("no path", |s| s.connections[0].to = "a".into()),
        ("no path", |s| s.links.truncate(3)),
        ("nothing has the name \"s\"", |s| {
            s.connections[0].to = "s".into()
        }),
        ("client", |s| s.connections[0].client = u16::MAX),
        ("connection \"one\"", |s| {
            s.connections[0].contract = "cbr,aal5:pcr=-1cps".into()
        }),
        ("connection \"one\"", |s| {
            s.connections[0].contract = "cbr,aal5:pcr=max,cdvt=18446744073709551615ns".into();
        }),
        ("duration_ns is at least 1", |s| s.duration_ns = 0),
        ("before duration_ns", |s| {
            s.sources[0].start_ns = s.duration_ns
        }),
        ("before it ends (stop_ns)", |s| {
            (s.sources[0].start_ns, s.sources[0].stop_ns) = (1_000, 999);
        }),
        ("before it ends (stop_ns)", |s| {
            (s.sources[0].start_ns, s.sources[0].stop_ns) = (1_000, 1_000);
        }),
        ("cell_s", |s| {
            s.sources[0].traffic = Traffic::Paced { cell_s: 0 }
        }),
        ("on_ns", |s| {
            s.sources[0].traffic = Traffic::OnOff {
                cell_s: 1,
                on_ns: 0,
                off_ns: 0,
            };
        }),
        ("before its line", |s| {
            sends_all_day(s, Traffic::Paced { cell_s: u32::MAX });
        }),
        ("before its line", |s| {
            adapter_sends(s, Traffic::Paced { cell_s: u32::MAX });
        }),
        ("of its 353208 cells/s its line carries 353207", |s| {
            s.connections[0].contract = "ubr,aal5:max_sdu=400".into();
            sends_and_says_that_it_keeps(s, Traffic::Paced { cell_s: 353_208 });
        }),
        ("of its 5001 cells/s its contract lets pass 5000", |s| {
            sends_and_says_that_it_keeps(s, Traffic::Paced { cell_s: 5_001 });
        }),
        ("of its 353207 cells/s its contract lets pass 5000", |s| {
            sends_and_says_that_it_keeps(s, Traffic::Greedy);
        }),
        ("of its 20000 cells/s its contract lets pass 5000", |s| {
            let traffic = Traffic::OnOff {
                cell_s: 20_000,
                on_ns: 250_000,
                off_ns: 750_000,
            };
            // 5 cells of 200 us in 250 us: 600 us too early.
            s.connections[0].contract += ",cdvt=599us";
            sends_and_says_that_it_keeps(s, traffic);
        }),
        ("its contract lets pass 2000", |s| {
            s.connections[0].contract =
                "vbr,aal5:pcr=20000cps,scr=2000cps,mbs=10,max_sdu=400,cdvt=1ms".into();
            sends_and_says_that_it_keeps(s, Traffic::Paced { cell_s: 20_000 });
        }),
        ("its contract lets pass 4999", |s| {
            s.faults = vec![modify("cbr,aal5:pcr=4999cps,max_sdu=400")];
            sends_and_says_that_it_keeps(s, Traffic::Paced { cell_s: 5_000 });
        }),
        ("its line carries 353207", |s| {
            sends_and_says_that_it_keeps(s, Traffic::Scan { cell_s: 353_208 });
        }),
        ("an adapter sends SDUs", |s| {
            adapter_sends(s, Traffic::Cells(Vec::new()));
        }),
        ("an adapter sends SDUs", |s| {
            adapter_sends(s, Traffic::Scan { cell_s: 1_000 });
        }),
        ("of its steps", |s| {
            s.connections[0].contract = "ubr,aal5:max_sdu=60000".into();
            s.sources[0].by_adapter = true;
            s.links[0].bit_s = 424;
        }),
        ("adapters guarantee more", |s| {
            s.connections[0].contract = "cbr,aal5:pcr=180000cps,max_sdu=400".into();
            adapter_sends_on_another(s);
        }),
        ("adapters guarantee more", |s| {
            adapter_sends_on_another(s);
            s.faults = vec![FaultSpec::Modify {
                connection: "one".into(),
                at_ns: 0,
                contract: "cbr,aal5:pcr=350000cps,max_sdu=400".into(),
                sender: true,
                memory: false,
            }];
        }),
        ("an address is", |s| {
            s.connections[0].address = VpiVci::new(256, 32).expect("an address of an NNI");
        }),
        ("an address is", |s| {
            s.connections[0].address = VpiVci::default()
        }),
        ("VPI 254", |s| {
            s.connections[0].address = VpiVci::new(254, 32).expect("an address");
            s.faults = vec![guests(0, 1)];
        }),
        ("would cross lines", |s| sends_all_day(s, Traffic::Greedy)),
        ("would cross lines", |s| {
            sends_all_day(s, Traffic::Greedy);
            s.sources[0].by_adapter = true;
        }),
        ("would cross lines", |s| {
            let traffic = Traffic::OnOff {
                cell_s: 1_000_000_000,
                on_ns: 1,
                off_ns: 20_000,
            };
            sends_all_day(s, traffic);
        }),
        ("2^36 steps", |s| {
            s.duration_ns = limits::DURATION_MAX_NS;
            s.hosts[0].step_ns = 1;
        }),
        ("4 PDUs at once", |s| s.sources[0].mids = u16::MAX),
        ("within duration_ns", |s| {
            s.faults = vec![guests(u64::MAX, 1)]
        }),
        ("within heal_ns", |s| {
            s.heal_ns = 1_000_000;
            s.faults = vec![guests(1_000_000, 1)];
        }),
        ("a crash ends within duration_ns", |s| {
            let (at_ns, for_ns) = (s.duration_ns, 1);
            s.servers = vec![ServerSpec::on("b")];
            s.servers[0].crashes = vec![CrashSpec { at_ns, for_ns }];
        }),
        ("a call lies within duration_ns", |s| {
            s.servers = vec![ServerSpec::on("b")];
            s.applications = vec![application(&[(s.duration_ns + 1, Call::Open)])];
        }),
        ("4,096 guests", |s| s.faults = vec![guests(0, u16::MAX)]),
        ("octets are needed", |s| {
            s.faults = vec![guests(0, 4_096); 60_000]
        }),
        ("octets are needed", |s| {
            s.servers = vec![ServerSpec::on("b")];
            s.servers[0].memory = u64::MAX;
            let contract = "cbr,aal5:pcr=300000cps,max_sdu=60000,cdvt=10s";
            s.applications = vec![application(&[(0, Call::OpenWith(contract.into()))])];
        }),
        ("octets are needed", |s| {
            let named = |n: usize| HostSpec {
                spare_vcs: 16_000,
                ..HostSpec::named(&format!("h{n}"))
            };
            s.hosts.extend((0..100).map(named));
            let linked = |n: usize| LinkSpec::between(&format!("h{n}"), "s");
            s.links.extend((0..100).map(linked));
        }),
        ("flip.bit", |s| {
            s.faults = vec![effect(Effect::Flip { bit: 424 })]
        }),
        ("2^40", |s| s.faults = vec![clock_step(u64::MAX)]),
        ("keeps the AAL", |s| {
            s.faults = vec![modify("cbr,aal34:pcr=1cps,max_sdu=40")]
        }),
        ("connection \"one\"", |s| s.faults = vec![modify("cbr")]),
        ("SDUs have", |s| {
            adapter_sends(s, Traffic::Greedy);
            s.faults = vec![FaultSpec::Modify {
                connection: "one".into(),
                at_ns: 0,
                contract: "cbr,aal5:pcr=5000cps,max_sdu=40".into(),
                sender: true,
                memory: false,
            }];
        }),
        ("keeps the AAL", |s| {
            s.servers = vec![ServerSpec::on("b")];
            let call = Call::OpenWith("cbr,aal34:pcr=5000cps,max_sdu=400".into());
            s.applications = vec![application(&[(0, call)])];
        }),
        ("two sources", |s| {
            s.sources
                .push(SourceSpec::on("one", Traffic::Cells(Vec::new()), &[]));
        }),
        ("control_ns", |s| {
            s.servers = vec![ServerSpec::on("b")];
            s.servers[0].control_ns = 1 << 62;
        }),
        ("`memory = true`", |s| {
            s.faults = vec![modify("cbr,aal5:pcr=5000cps,max_sdu=60000")];
        }),
        ("10 s", |s| {
            s.faults = vec![FaultSpec::Lend {
                connection: "one".into(),
                at_ns: 0,
                for_ns: u64::MAX,
                pdus: 1,
            }];
        }),
    ];
    for (n, (expected, sabotage)) in cases.into_iter().enumerate() {
        let mut scenario = sane();
        sabotage(&mut scenario);
        match check(&scenario, Options::default()) {
            Err(Failure::Scenario(error)) => {
                let told = error.to_string();
                assert!(told.contains(expected), "case {n}: {expected}: {told}");
            }
            Err(failure) => panic!("case {n}: {expected}: {failure}"),
            Ok(_) => panic!("case {n}: {expected}: it ran"),
        }
    }
}

#[test]
fn odd_scenarios_that_make_a_world_come_to_an_end() {
    type Change = fn(&mut Scenario);
    let cases: [(&str, Change); 16] = [
        ("nobody is there", |s| {
            *s = Scenario {
                duration_ns: 1,
                ..Scenario::default()
            };
        }),
        ("silence between cells", |s| {
            s.duration_ns = 3_600_000_000_000;
            s.sources[0].traffic = Traffic::OnOff {
                cell_s: 1,
                on_ns: 1,
                off_ns: 0,
            };
        }),
        ("silence for ever", |s| {
            s.sources[0].traffic = Traffic::OnOff {
                cell_s: 100_000,
                on_ns: 1,
                off_ns: u64::MAX,
            };
        }),
        ("a cell that never comes", |s| {
            s.sources[0].traffic = Traffic::Cells(Vec::new());
        }),
        ("a FIFO of one cell, and a reader that settles", |s| {
            s.hosts[1].fifo_cells = 1;
            s.hosts[1].step_ns = 1_000_000;
            s.duration_ns = 20_000_000;
            s.heal_ns = 1_000_000;
            s.sources[0].hazard = false;
        }),
        ("SDUs faster than their line", |s| {
            s.duration_ns = 20_000_000;
            s.sources[0].traffic = Traffic::Paced {
                cell_s: 100_000_000,
            };
            s.sources[0].by_adapter = true;
        }),
        ("a reader that nobody tells", |s| {
            s.connections[0].notification = Notification::Polled;
            s.sources[0].hazard = false;
        }),
        ("more than the line before it carries", |s| {
            s.duration_ns = 20_000_000;
            s.links[0].bit_s = 424_000;
        }),
        ("bursts that the tolerances cover", |s| {
            s.duration_ns = 20_000_000;
            s.connections[0].contract += ",cdvt=600us";
            let traffic = Traffic::OnOff {
                cell_s: 20_000,
                on_ns: 250_000,
                off_ns: 750_000,
            };
            sends_and_says_that_it_keeps(s, traffic);
        }),
        ("bursts that a contract has room for", |s| {
            s.duration_ns = 20_000_000;
            s.connections[0].contract =
                "vbr,aal5:pcr=20000cps,scr=5000cps,mbs=5,max_sdu=400".into();
            let traffic = Traffic::OnOff {
                cell_s: 20_000,
                on_ns: 250_000,
                off_ns: 750_000,
            };
            sends_and_says_that_it_keeps(s, traffic);
        }),
        (
            "a stranger's cells, faster than a contract that nobody has opened",
            |s| {
                s.connections[0].open = false;
                sends_and_says_that_it_keeps(s, Traffic::Greedy);
            },
        ),
        ("cells of nobody's beside a flood", |s| {
            s.duration_ns = 20_000_000;
            s.sources[0].traffic = Traffic::Paced { cell_s: 20_000 };
            let traffic = Traffic::Scan { cell_s: 1_000 };
            s.sources.push(SourceSpec::on("one", traffic, &[]));
        }),
        ("an adapter that steps once in 10 ms", |s| {
            s.duration_ns = 20_000_000;
            s.hosts[0].step_ns = 10_000_000;
            s.sources[0].hazard = false;
            adapter_sends(s, Traffic::Greedy);
        }),
        ("a writer of AAL3/4 with credit", |s| {
            s.duration_ns = 20_000_000;
            s.connections[0].contract = "cbr,aal34:pcr=5000cps,max_sdu=400".into();
            adapter_sends(s, Traffic::Greedy);
            s.servers = vec![ServerSpec::on("a")];
            s.applications = vec![ApplicationSpec {
                host: "a".into(),
                ..application(&[(0, Call::Open)])
            }];
        }),
        ("a slow line behind an adapter", |s| {
            s.connections[0].contract = "ubr,aal5:max_sdu=400".into();
            s.sources[0].by_adapter = true;
            s.links[0].bit_s = 64_000;
        }),
        ("a lease of nothing", |s| {
            s.faults = vec![FaultSpec::Lend {
                connection: "one".into(),
                at_ns: 0,
                for_ns: 0,
                pdus: u32::MAX,
            }];
        }),
    ];
    for (what, change) in cases {
        let mut scenario = sane();
        change(&mut scenario);
        if let Err(failure) = check(&scenario, Options::default()) {
            panic!("{what}: {failure}");
        }
    }
}

/// As they are written in a file.
#[test]
fn what_the_document_says_of_effects_and_notifications_is_read() {
    fn read<T: serde::de::DeserializeOwned>(forms: &[&str]) {
        let document = include_str!("../../../../docs/scenarios.md");
        let words: Vec<&str> = document.split_whitespace().collect();
        for form in forms {
            assert!(words.join(" ").contains(&format!("`{form}`")), "{form}");
            let text = form.replace('N', "7").replace("VPI.VCI", "0.32");
            let one = toml::from_str::<BTreeMap<String, T>>(&format!("one = {text}"));
            assert!(one.is_ok(), "{form}: {:?}", one.err());
        }
    }
    read::<Effect>(&[
        "\"lose\"",
        "\"duplicate\"",
        "{ flip = { bit = N } }",
        "{ insert = { address = \"VPI.VCI\", last = true } }",
        "{ hold = { ns = N } }",
    ]);
    read::<Notification>(&[
        "\"every_cell\"",
        "\"first_cell\"",
        "\"last_cell\"",
        "\"first_and_last_cell\"",
        "\"polled\"",
        "{ silent = { threshold = N, longest_delay_ns = N } }",
    ]);
}
