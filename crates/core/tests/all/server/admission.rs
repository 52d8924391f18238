//! What is promised, what is refused, and what is offered instead.

use std::collections::BTreeMap;

use cellgate_core::contract::{CellRate, TrafficContract};
use cellgate_core::server::{
    AdapterSection, Book, Bound, ClientId, Confirm, Indication, Quota, Refused, Request, Resource,
    Response, Shortage, VERSION,
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::world::{FIRST, LINE, ROOT, World, config, open, user};

#[track_caller]
pub(super) fn shortage(result: Result<Confirm, Refused>) -> Shortage {
    match result {
        Err(Refused::Admission(shortage)) => shortage,
        other => panic!("{other:?}"),
    }
}

/// Opens connections of one contract until one is refused; that refusal.
fn fill(world: &mut World, uid: u32, contract: &str) -> (Shortage, ClientId) {
    for vci in 200.. {
        let client = world.hello(user(uid));
        let before = world.promised();
        match world.open(client, vci, contract) {
            Ok(_) => {}
            refused => {
                assert_eq!(world.promised(), before, "a refusal leaves a trace");
                return (shortage(refused), client);
            }
        }
    }
    unreachable!("there are more connections than VCIs")
}

#[test]
fn each_resource_can_be_used_up_and_is_named() {
    let roomy = || {
        let mut config = config();
        config.admission.quota = Quota::NONE;
        config.limits.clients = 1_000;
        config.limits.clients_per_user = 1_000;
        config
    };
    let mut transmit = roomy();
    transmit.admission.adapter_law.reserve = Default::default();
    let receive = transmit.clone();
    let mut cpu = roomy();
    cpu.admission.adapters[0].cpu_ppm = 500_000;
    let mut memory = roomy();
    memory.admission.adapters[0].memory = 4 << 20;
    let mut connections = roomy();
    connections.admission.adapters[0].connections = 3;
    let mut quota = transmit.clone();
    quota.admission.quota.cell_s = 100_000;
    let mut quota_memory = roomy();
    quota_memory.admission.quota.memory = 4 << 20;
    let mut quota_connections = roomy();
    quota_connections.admission.quota.connections = 2;
    // The line less 2 %: 346,142.
    let cases = [
        (
            transmit,
            "cbr:max_sdu=1500,tx:pcr=100000,rx:none",
            (Resource::TransmitBandwidth, 100_000, 46_142, None),
            Some("cbr:tx:pcr=46142,max_sdu=1500,rx:none"),
        ),
        (
            receive,
            "cbr:max_sdu=1500,tx:none,rx:pcr=100000",
            (Resource::ReceiveBandwidth, 100_000, 46_142, None),
            Some("cbr:tx:none,rx:pcr=46142,max_sdu=1500"),
        ),
        (
            // 30,000 cells/s in single cells: 1.1 us to send, 0.85 to receive, 10 % more.
            cpu,
            "cbr:pcr=30000,max_sdu=40",
            (Resource::AdapterCpu, 64_350, 490_000 % 64_350, None),
            Some("cbr:pcr=18437,max_sdu=40"),
        ),
        (
            connections,
            "cbr:pcr=10,max_sdu=40",
            (Resource::Connections, 1, 0, None),
            None,
        ),
        (
            quota,
            "cbr:max_sdu=1500,tx:pcr=30000,rx:none",
            (Resource::TransmitBandwidth, 30_000, 10_000, Some(5)),
            Some("cbr:tx:pcr=10000,max_sdu=1500,rx:none"),
        ),
        (
            quota_connections,
            "ubr:max_sdu=40",
            (Resource::Connections, 1, 0, Some(5)),
            None,
        ),
    ];
    for (config, contract, expected, offer) in cases {
        let (mut world, _) = World::with_wan(config);
        let (refused, client) = fill(&mut world, 5, contract);
        let found = (
            refused.resource,
            refused.needed,
            refused.free,
            refused.quota,
        );
        assert_eq!(found, expected, "{contract}");
        assert_eq!(refused.offer.as_deref(), offer, "{contract}");
        if let Some(offer) = offer {
            let opened = world.open(client, 99, offer);
            assert!(
                matches!(opened, Ok(Confirm::Opened(_))),
                "{offer}: {opened:?}"
            );
        }
    }
    for (config, quota) in [(memory, None), (quota_memory, Some(5))] {
        let (mut world, _) = World::with_wan(config);
        let (refused, client) = fill(&mut world, 5, "cbr:pcr=10000,max_sdu=9180,dvt=50ms");
        assert_eq!((refused.resource, refused.quota), (Resource::Memory, quota));
        if let Some(offer) = refused.offer {
            let opened = world.open(client, 99, &offer);
            assert!(
                matches!(opened, Ok(Confirm::Opened(_))),
                "{offer}: {opened:?}"
            );
        }
    }
}

#[test]
fn best_effort_keeps_its_minimum() {
    let (mut world, root) = World::with_wan(config());
    let all = world.open(root, 100, "cbr:max_sdu=9180,tx:pcr=346142,rx:none");
    assert!(matches!(all, Ok(Confirm::Opened(_))), "{all:?}");
    world.opened(user(3), 101, "ubr:max_sdu=1500");
    let (client, list) = (world.hello(ROOT), world.list(root));
    assert_eq!(
        list[1].transmit.map(|rate| rate.cell_s()),
        Some(LINE - 346_142)
    );
    let refused = shortage(world.open(client, 102, "cbr:max_sdu=40,tx:pcr=1,rx:none"));
    assert_eq!((refused.needed, refused.free, refused.offer), (1, 0, None));
}

#[test]
fn a_line_has_a_cell_for_each_of_best_effort() {
    let mut config = config();
    config.admission.best_effort_percent = 0;
    let (mut world, root) = World::with_wan(config);
    let all = format!("cbr:max_sdu=9180,tx:pcr={},rx:none", LINE - 1);
    assert!(matches!(
        world.open(root, 100, &all),
        Ok(Confirm::Opened(_))
    ));
    world.opened(user(3), 101, "ubr:max_sdu=1500");
    let client = world.hello(user(3));
    let refused = shortage(world.open(client, 102, "ubr:max_sdu=1500"));
    assert_eq!(
        (refused.resource, refused.free),
        (Resource::TransmitBandwidth, 0)
    );
}

#[test]
fn a_crowd_of_best_effort_keeps_a_cell_for_each() {
    let mut config = config();
    config.admission.best_effort_percent = 0;
    let (mut world, root) = World::with_wan(config);
    for vci in 100..103 {
        world.opened(user(3), vci, "ubr:max_sdu=1500");
    }
    let all = format!("cbr:max_sdu=9180,tx:pcr={LINE},rx:none");
    let refused = shortage(world.open(root, 103, &all));
    assert_eq!(
        (refused.needed, refused.free),
        (LINE.into(), u64::from(LINE) - 3)
    );
}

#[test]
fn vbr_takes_its_sustained_rate_and_memory_for_its_burst() {
    let (mut world, root) = World::with_wan(config());
    world.opened(
        user(3),
        100,
        "vbr:pcr=100000,scr=10000,mbs=500,max_sdu=1500",
    );
    world.opened(user(3), 101, "cbr:pcr=10000,max_sdu=1500");
    let list = world.list(root);
    let rate = list[0].receive.map(|rate| rate.cell_s());
    assert_eq!((rate, list[0].transmit), (Some(10_000), list[0].receive));
    assert_eq!(list[0].cpu_reserved_ppm, list[1].cpu_reserved_ppm);
    assert!(list[0].memory > list[1].memory);
    assert!(list[0].cpu_expected_ppm < list[0].cpu_reserved_ppm);
}

#[test]
fn peaks_of_vbr_may_add_up_to_more_than_the_line() {
    let (mut world, root) = World::with_wan(config());
    world.opened(user(3), 100, "cbr:pcr=100000,max_sdu=1500,cdvt=1us");
    let vbr = "vbr:pcr=300000,scr=20000,mbs=5000,max_sdu=1500";
    for vci in 101..105 {
        world.opened(user(3), vci, vbr);
    }
    let list = world.list(root);
    let sent = list
        .iter()
        .map(|one| one.transmit.map_or(0, |rate| rate.cell_s()));
    assert_eq!(sent.sum::<u32>(), 180_000);
    // What is sustained may not.
    let much = vbr.replace("scr=20000", "scr=200000");
    let refused = shortage(world.open(root, 105, &much));
    let of = (refused.resource, refused.needed, refused.free);
    assert_eq!(of, (Resource::TransmitBandwidth, 200_000, 166_142));
}

#[test]
fn a_default_adapter_has_memory_for_best_effort_on_each_of_its_vcs() {
    let adapter = AdapterSection::default();
    let mut config = config();
    config.adapters[0].gap_max_ns = adapter.gap_max_ns;
    config.adapters[0].clump_cells = adapter.clump_cells;
    let (mut world, root) = World::with_wan(config);
    world.opened(user(3), 100, "ubr,aal5:max_sdu=1500");
    let each = world.list(root)[0].memory;
    let all = u64::from(adapter.vcs) * each;
    assert!(all <= adapter.memory_max, "{each} octets each");
}

#[test]
fn cpu_is_reserved_for_short_sdus_if_so_configured() {
    let mut config = config();
    config.admission.sdu_floor = Some(40);
    let (mut world, root) = World::with_wan(config);
    world.opened(user(3), 100, "cbr:pcr=10000,max_sdu=1500");
    world.opened(user(3), 101, "cbr:pcr=10000,max_sdu=40");
    let list = world.list(root);
    assert_eq!(list[0].cpu_reserved_ppm, list[1].cpu_reserved_ppm);
    assert!(list[0].cpu_expected_ppm < list[1].cpu_expected_ppm);
}

#[test]
fn a_worker_takes_cpu_time_of_the_workers() {
    let (mut world, root) = World::with_wan(config());
    let worker = world.new_id();
    world.server.handle_connect_worker(world.now, worker, ROOT);
    world
        .done(worker, Request::Hello { version: VERSION })
        .expect("hello");
    let used = |world: &mut World| {
        let resources = world.resources(root);
        let workers = resources.iter().find(|r| r.resource == Resource::WorkerCpu);
        workers.map(|workers| workers.reserved)
    };
    world.opened(user(3), 100, "cbr:pcr=10000,max_sdu=1500");
    assert_eq!(used(&mut world), Some(0));
    let opened = world.open(worker, 101, "cbr:pcr=10000,max_sdu=1500");
    assert!(opened.is_ok(), "{opened:?}");
    let first = used(&mut world);
    assert!(first > Some(0));
    assert!(world.adapter.kept.values().any(|client| *client == worker));
}

#[test]
fn bad_contracts_are_refused_and_leave_no_trace() {
    let (mut world, client) = World::with_wan(config());
    let before = (world.promised(), world.list(client));
    for contract in [
        "",
        "cbr",
        "cbr:",
        "cbr:pcr=max",
        "cbr:pcr=0",
        "cbr:pcr=2147483647",
        "cbr:pcr=99999999999",
        "cbr:pcr=100,max_sdu=65536",
        "abr:pcr=100,tx:none",
        "abr:pcr=100,min_pcr=200",
        "abr,aal34:pcr=100",
        "abr:pcr=100,icr=200",
        "abr:pcr=100,excess=tag",
        "vbr:pcr=100",
        "vbr:pcr=100,scr=200,mbs=5",
        "ubr:tx:none,rx:none",
        "ubr:bogus=5",
        "aal0,cbr:pcr=5,max_sdu=53",
        "cbr:pcr=1000,max_sdu=9180,dvt=9999s",
    ] {
        let refused = world.open(client, 100, contract);
        let expected = match &refused {
            Err(Refused::Contract { .. } | Refused::Unsupported(_)) => true,
            Err(Refused::Admission(shortage)) => shortage.needed > shortage.free,
            _ => false,
        };
        assert!(expected, "{contract}: {refused:?}");
        assert!(world.asks.is_empty());
        assert_eq!((world.promised(), world.list(client)), before, "{contract}");
    }
    let opened = world.open(client, 100, "cbr:pcr=1000,max_sdu=1500");
    assert!(matches!(opened, Ok(Confirm::Opened(_))), "{opened:?}");
}

/// Also where best effort is left nothing, so that a line may be promised whole.
#[test]
fn nobody_is_promised_a_rate_of_nothing_or_above_the_line() {
    let mut whole = config();
    whole.admission.best_effort_percent = 0;
    whole.admission.quota.cell_s = u64::MAX;
    let (mut world, client) = World::with_wan(whole);
    let none = "a guaranteed connection states its rate: pcr=, at least one cell/s";
    for (contract, why) in [
        ("cbr:max_sdu=1500", none),
        ("cbr:pcr=0,max_sdu=1500", none),
        ("cbr:tx:pcr=5,rx:pcr=0", none),
        (
            "cbr:pcr=50,min_pcr=51",
            "min_pcr=51 is more than the peak rate of 50 cells/s",
        ),
    ] {
        let refused = world.open(client, 100, contract);
        let expected = Refused::Unsupported(why.to_owned());
        assert_eq!(refused, Err(expected), "{contract}");
    }
    let refused = world.open(client, 100, "cbr:pcr=353208,max_sdu=1500");
    let Err(Refused::Admission(shortage)) = &refused else {
        panic!("{refused:?}");
    };
    let told = (shortage.resource, shortage.needed, shortage.free);
    assert_eq!(told, (Resource::TransmitBandwidth, 353_208, 353_207));
    assert!(shortage.offer.is_some());
    let refused = world.open(client, 100, "vbr:pcr=400000,scr=353208,mbs=64");
    assert!(
        matches!(refused, Err(Refused::Unsupported(_))),
        "{refused:?}"
    );
    // A burst may come as fast as the line.
    for (vci, contract) in [
        (100, "vbr:pcr=353208,scr=9,mbs=64"),
        (101, "cbr:pcr=353198,max_sdu=1500"),
    ] {
        let client = world.hello(user(1));
        let opened = world.open(client, vci, contract);
        assert!(matches!(opened, Ok(Confirm::Opened(_))), "{opened:?}");
    }
}

/// Of what libatm refuses, all that is no text to us either.
#[test]
fn bad_texts_of_libatm_are_refused_and_leave_no_trace() {
    let (mut world, client) = World::with_wan(config());
    let before = (world.promised(), world.list(client));
    let (mut refused, mut only_ours) = (0, 0);
    for line in include_str!("../../data/text2qos-oracle.txt").lines() {
        let Some((text, _)) = line
            .split_once("  ")
            .filter(|(_, told)| told.trim() == "ERR")
        else {
            continue;
        };
        if text.parse::<TrafficContract>().is_ok() {
            only_ours += 1;
            continue;
        }
        refused += 1;
        let outcome = world.open(client, 100, text);
        let expected = matches!(outcome, Err(Refused::Contract { .. }));
        assert!(expected, "{text}: {outcome:?}");
        assert!(world.asks.is_empty(), "{text}");
        assert_eq!((world.promised(), world.list(client)), before, "{text}");
    }
    assert_eq!((refused, only_ours), (13, 2));
    let opened = world.open(client, 100, "cbr:pcr=1000,max_sdu=1500");
    assert!(matches!(opened, Ok(Confirm::Opened(_))), "{opened:?}");
}

fn random_contract(random: &mut Pcg64Mcg) -> String {
    let sdu = [40, 48, 512, 1_500, 9_180, 65_535][random.next_u32() as usize % 6];
    let rate = 1 + (random.next_u32() % (1 << (8 + random.next_u32() % 11)));
    let other = 1 + random.next_u32() % rate;
    let dvt = random.next_u32() % 20;
    match random.next_u32() % 4 {
        0 => format!("cbr:pcr={rate},max_sdu={sdu}"),
        1 => format!("cbr:max_sdu={sdu},dvt={dvt}ms,tx:pcr={rate},rx:pcr={other}"),
        2 => format!("vbr:pcr={rate},scr={other},mbs=20,max_sdu={sdu}"),
        _ => format!("nrt-vbr:max_sdu={sdu},tx:none,rx:pcr={rate},scr={other},mbs=9"),
    }
}

#[test]
fn an_offer_is_admitted_whatever_has_filled_the_machine() {
    let mut resources = std::collections::BTreeSet::new();
    let mut offered = [0; 3];
    for seed in 0..60 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut config = config();
        config.limits.clients = 1_000;
        config.limits.clients_per_user = 1_000;
        config.admission.quota = Quota::NONE;
        match seed % 3 {
            0 => config.admission.adapters[0].cpu_ppm = 200_000,
            1 => config.admission.adapters[0].memory = 4 << 20,
            _ => config.admission.adapter_law.headroom_percent = 0,
        }
        let (mut world, _) = World::with_wan(config);
        for vci in 100..164 {
            let contract = random_contract(&mut random);
            let client = world.hello(user(7));
            let before = world.promised();
            let refused = match world.open(client, vci, &contract) {
                Ok(_) => continue,
                refused => shortage(refused),
            };
            assert_eq!(world.promised(), before, "seed {seed}");
            assert!(refused.needed > refused.free, "seed {seed}");
            resources.insert(refused.resource);
            let Some(offer) = refused.offer else {
                continue;
            };
            let opened = world.open(client, vci, &offer);
            assert!(
                matches!(opened, Ok(Confirm::Opened(_))),
                "seed {seed}: {offer}: {opened:?}"
            );
            offered[seed as usize % 3] += 1;
        }
    }
    let all = [
        Resource::TransmitBandwidth,
        Resource::ReceiveBandwidth,
        Resource::AdapterCpu,
        Resource::Memory,
    ];
    assert!(
        all.iter().all(|one| resources.contains(one)),
        "{resources:?}"
    );
    assert!(offered.iter().all(|count| *count > 10), "{offered:?}");
}

#[test]
fn an_offer_is_the_highest_rate_that_fits() {
    let (mut world, root) = World::with_wan(config());
    assert!(world.open(root, 100, "cbr:pcr=300000,max_sdu=9180").is_ok());
    let client = world.hello(ROOT);
    let refused = shortage(world.open(client, 101, "cbr:pcr=200000,max_sdu=9180"));
    assert_eq!(refused.offer.as_deref(), Some("cbr:pcr=46142,max_sdu=9180"));
    let least = "cbr:pcr=200000,min_pcr=50000,max_sdu=9180";
    assert_eq!(shortage(world.open(client, 101, least)).offer, None);
}

#[test]
fn who_was_refused_is_told_once_that_it_can_grow() {
    let (mut world, _) = World::with_wan(config());
    let big = world.opened(ROOT, 100, "cbr:pcr=300000,max_sdu=9180");
    let client = world.hello(user(4));
    let wanted = "cbr:pcr=100000,max_sdu=9180";
    let offer = shortage(world.open(client, 101, wanted))
        .offer
        .expect("an offer");
    assert!(matches!(
        world.open(client, 101, &offer),
        Ok(Confirm::Opened(_))
    ));
    assert_eq!(world.indications(client), []);
    world.hang_up(big);
    world.finish();
    let told = world.indications(client);
    let [(id, Indication::CanGrow { contract })] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(contract, wanted);
    let offered = |world: &mut World| world.list(client)[0].offer.clone();
    assert_eq!(offered(&mut world).as_deref(), Some(wanted));
    let small = world.opened(ROOT, 102, "cbr:pcr=1000,max_sdu=9180");
    world.hang_up(small);
    world.finish();
    assert_eq!(world.indications(client), [], "once is enough");
    world.respond(client, *id, Response::Accept);
    world.finish();
    let modified = world.confirmed(client, *id);
    let Ok(Confirm::Modified { opened, memory }) = modified else {
        panic!("{modified:?}");
    };
    assert_eq!((opened.contract.as_str(), memory), (wanted, true));
    assert_eq!(offered(&mut world), None);
    // Nothing more is wanted, and the Indication is used up.
    let other = world.opened(ROOT, 102, "cbr:pcr=1000,max_sdu=9180");
    world.hang_up(other);
    world.finish();
    assert_eq!(world.indications(client), []);
    world.respond(client, *id, Response::Accept);
    assert!(matches!(
        world.confirmed(client, *id),
        Err(Refused::BadMessage(_))
    ));
}

#[test]
fn a_change_of_contract_takes_and_gives_back_the_difference() {
    let (mut world, client) = World::with_wan(config());
    let modify = |contract: &str| Request::Modify {
        contract: contract.to_owned(),
    };
    assert!(world.open(client, 100, "cbr:pcr=1000,max_sdu=9180").is_ok());
    let first = world.promised();
    let id = world.send(client, modify("cbr:pcr=340000,max_sdu=9180"));
    let during = world.promised();
    world.finish();
    assert!(matches!(
        world.confirmed(client, id),
        Ok(Confirm::Modified { .. })
    ));
    assert_eq!(world.promised(), during, "growing takes all at once");
    // The adapter refuses: it is as before.
    let before = world.promised();
    world.refuse_next = Some(cellgate_core::adapter::Refusal::Busy.into());
    let refused = world.done(client, modify("cbr:pcr=345000,max_sdu=9180"));
    assert!(matches!(refused, Err(Refused::Adapter(_))), "{refused:?}");
    assert_eq!(world.promised(), before);
    let refused = shortage(world.done(client, modify("cbr:pcr=350000,max_sdu=9180")));
    assert_eq!((refused.needed, refused.free), (350_000, 346_142));
    assert_eq!(
        refused.offer.as_deref(),
        Some("cbr:pcr=346142,max_sdu=9180")
    );
    assert_eq!(world.promised(), before);
    for shape in ["cbr:max_sdu=9180,tx:pcr=10,rx:none", "aal0,cbr:pcr=10"] {
        let refused = world.done(client, modify(shape));
        assert!(
            matches!(refused, Err(Refused::Unsupported(_))),
            "{refused:?}"
        );
    }
    // The memory stays: it is large enough.
    let smaller = world.done(client, modify("cbr:pcr=1000,max_sdu=9180"));
    assert!(
        matches!(smaller, Ok(Confirm::Modified { memory: false, .. })),
        "{smaller:?}"
    );
    assert_ne!(world.promised(), first);
    world.done(client, Request::Close).expect("it closes");
    assert!(world.open(client, 100, "cbr:pcr=1000,max_sdu=9180").is_ok());
    assert_eq!(world.promised(), first);
    let again = open(100, "ubr");
    assert_eq!(
        world.done(client, Request::Open(again)),
        Err(Refused::Occupied)
    );
}

/// Best effort keeps a cell/s for each of its connections: one that gives a whole line up for that
/// needs none beside what it has.
#[test]
fn who_has_a_whole_line_may_become_best_effort() {
    let mut config = config();
    config.admission.best_effort_percent = 0;
    let (mut world, _) = World::with_wan(config);
    let client = world.opened(ROOT, 100, &format!("cbr:pcr={LINE},max_sdu=1500,tx:none"));
    let other = world.hello(ROOT);
    let refused = shortage(world.open(other, 101, "ubr:max_sdu=1500,tx:none"));
    assert_eq!((refused.needed, refused.free), (1, 0));
    let contract = "ubr:max_sdu=1500,tx:none".to_owned();
    let modified = world.done(client, Request::Modify { contract });
    assert!(
        matches!(modified, Ok(Confirm::Modified { .. })),
        "{modified:?}"
    );
    assert!(world.open(other, 101, "ubr:max_sdu=1500,tx:none").is_ok());
}

#[test]
fn a_new_configuration_keeps_what_is_promised() {
    let (mut world, _) = World::with_wan(config());
    let client = world.opened(user(4), 100, "cbr:pcr=100000,max_sdu=9180");
    let wanted = "cbr:pcr=320000,max_sdu=9180".to_owned();
    let contract = wanted.clone();
    let refused = shortage(world.done(client, Request::Modify { contract }));
    assert_eq!((refused.free, refused.quota), (300_000, Some(4)));
    let promised = world.promised();
    let mut other = config();
    other.admission.adapters[0].connections = 1;
    other.admission.quota.cell_s = 330_000;
    other.notes = vec!["no real-time class".to_owned()];
    other.adapters[0].ports = 0;
    world.server.handle_config(world.now, other);
    world.drain();
    assert_eq!(world.promised(), promised);
    let told = world.indications(client);
    let can_grow = |one: &Indication| {
        *one == Indication::CanGrow {
            contract: wanted.clone(),
        }
    };
    assert!(told.len() == 1 && can_grow(&told[0].1), "{told:?}");
    let second = world.connect(user(5));
    let hello = world.done(second, Request::Hello { version: VERSION });
    let Ok(Confirm::Hello { notes, .. }) = hello else {
        panic!("{hello:?}");
    };
    assert_eq!(notes, ["no real-time class"]);
    let refused = shortage(world.open(second, 101, "ubr:max_sdu=40"));
    assert_eq!((refused.resource, refused.free), (Resource::Connections, 0));
}

#[test]
fn best_effort_of_libatm_opens_or_is_refused_for_its_reason() {
    let (mut world, _) = World::with_wan(config());
    let none = "a guaranteed connection states its rate: pcr=, at least one cell/s";
    let mut vci = 200;
    let mut named = 0;
    for line in include_str!("../../data/text2qos-oracle.txt").lines() {
        let text = line.split("  ").next().unwrap_or_default();
        if line.starts_with('#') || !text.to_lowercase().contains("ubr") {
            continue;
        }
        named += 1;
        vci += 1;
        let client = world.hello(user(3));
        let outcome = world.open(client, vci, text);
        let as_expected = match text {
            // No text at all to libatm and here, or text that only we read.
            "ubr:" | "ubr," | "ubr:tx:pcr=5," => {
                matches!(outcome, Err(Refused::Contract { .. }))
            }
            "ubr:tx:none,rx:none" => {
                let why = "a contract that neither transmits nor receives".to_owned();
                outcome == Err(Refused::Unsupported(why))
            }
            // The last class counts: CBR without a rate.
            "ubr,cbr" => outcome == Err(Refused::Unsupported(none.to_owned())),
            _ => matches!(outcome, Ok(Confirm::Opened(_))),
        };
        assert!(as_expected, "{text}: {outcome:?}");
        if text == "ubr:pcr=100kbps" {
            let kept = world.adapter.vcs.values();
            let peaks: Vec<_> = kept
                .filter_map(|kept| kept.request.transmit?.peak)
                .collect();
            assert_eq!(peaks.len(), 1);
            assert_eq!(peaks[0].cell_s(), 260);
        }
        world.hang_up(client);
    }
    assert_eq!(named, 10);
}

/// What the machine leaves counts where it is less than the configuration, also as it changes; what
/// is promised already stays.
#[test]
fn the_least_of_the_configuration_and_the_machine_is_promised_and_a_refusal_names_it() {
    let mut config = config();
    config.admission.quota = Quota::NONE;
    config.limits.clients = 1_000;
    config.limits.clients_per_user = 1_000;
    let by = "memory.max of /group is 1000";
    let small = "cbr:pcr=100,max_sdu=40";
    let bound = |world: &mut World, resource, capacity| {
        let bound = Bound {
            capacity,
            by: by.to_owned(),
        };
        let bounds = BTreeMap::from([(Book::of(resource, FIRST), bound)]);
        world.server.handle_bounds(world.now, bounds);
        world.drain();
    };
    let all = config.admission.adapters[0];
    for (resource, configured, less) in [
        (Resource::Memory, all.memory, 4 << 20),
        (Resource::AdapterCpu, all.cpu_ppm.into(), 20_000),
        (Resource::Connections, all.connections.into(), 3),
    ] {
        let (mut world, root) = World::with_wan(config.clone());
        let info = |world: &mut World| {
            let Ok(Confirm::Resources(all)) = world.done(root, Request::Resources) else {
                panic!("they are listed");
            };
            let info = all.into_iter().find(|info| info.resource == resource);
            info.expect("it is listed")
        };
        bound(&mut world, resource, configured);
        assert_eq!(
            info(&mut world).limit,
            None,
            "the configuration has no more"
        );
        bound(&mut world, resource, less);
        let (full, client) = fill(&mut world, 1, "cbr:pcr=2000,max_sdu=9180");
        assert_eq!((full.resource, full.quota), (resource, None));
        assert_eq!(full.limit.as_deref(), Some(by));
        assert!(full.to_string().contains(by), "{full}");
        if let Some(offer) = full.offer {
            world
                .open(client, 900, &offer)
                .expect("an offer is admitted");
        }
        let filled = info(&mut world);
        assert!(filled.reserved <= filled.capacity && filled.capacity <= less);
        assert_eq!(filled.limit.as_deref(), Some(by));
        // It shrinks below what is promised, which stays.
        let promised = world.promised();
        bound(&mut world, resource, 1);
        assert_eq!(world.promised(), promised);
        assert_eq!(info(&mut world).reserved, filled.reserved);
        let client = world.hello(user(1));
        assert_eq!(shortage(world.open(client, 901, small)).free, 0);
        // It grows again.
        bound(&mut world, resource, configured);
        world
            .open(client, 901, "ubr:max_sdu=40")
            .expect("there is room");
    }
}

#[test]
fn who_asks_for_more_than_a_line_is_offered_all_of_it() {
    let mut config = config();
    config.admission.best_effort_percent = 0;
    let (mut world, root) = World::with_wan(config);
    let refused = world.open(root, 100, "cbr:tx:pcr=5000000,max_sdu=1500,rx:none");
    let Err(Refused::Admission(shortage)) = refused else {
        panic!("{refused:?}");
    };
    let offer = shortage.offer.expect("an offer");
    assert_eq!(u64::from(CellRate::OC3.cell_s()), shortage.free);
    assert!(offer.contains(&format!("pcr={}", shortage.free)), "{offer}");
    world.open(root, 100, &offer).expect("what was offered");
}
