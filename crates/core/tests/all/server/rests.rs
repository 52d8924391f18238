//! Contracts beside an adapter that rests.

use cellgate_core::adapter::Notification;
use cellgate_core::server::{
    Caller, Confirm, Health, Histogram, Histograms, Idle, Open, Refused, Request, RestInfo,
};

use super::world::{FIRST, World, config, open, user};

/// With an adapter that rests like this, and whose wake-ups take 100 us at most.
fn world(idle: Idle) -> World {
    let mut config = config();
    config.adapters[0].idle = idle;
    config.adapters[0].late_ns = 100_000;
    World::with_wan(config).0
}

fn contract(cdvt_us: u64) -> String {
    format!("cbr,aal5:pcr=1000,cdvt={cdvt_us}us,max_sdu=1500")
}

#[test]
fn a_contract_shorter_than_a_rest_keeps_an_adaptive_adapter_awake_and_is_refused_by_a_sleeper() {
    for (idle, cdvt_us, expected) in [
        (Idle::Spin, 1, Some(false)),
        (Idle::Adaptive, 400, Some(false)),
        (Idle::Adaptive, 399, Some(true)),
        (Idle::Sleep, 400, Some(false)),
        (Idle::Sleep, 399, None),
    ] {
        let mut world = world(idle);
        if idle == Idle::Spin {
            world = World::with_wan(config()).0;
        }
        let client = world.hello(user(1));
        match (world.open(client, 100, &contract(cdvt_us)), expected) {
            (Ok(Confirm::Opened(_)), Some(awake)) => {
                let all = world.list(client);
                assert_eq!(all[0].keeps_awake, awake, "{idle} {cdvt_us}");
            }
            (Err(Refused::Unsupported(why)), None) => {
                assert!(
                    why.contains("cdvt=399us") && why.contains("cdvt=400us"),
                    "{why}"
                );
            }
            (other, _) => panic!("{idle} {cdvt_us}: {other:?}"),
        }
        // Who does not send at a rate of its own waits for nobody.
        let other = world.hello(user(2));
        for (vci, contract) in [
            (101, "cbr,aal5:tx:none,rx:pcr=1000,cdvt=1us,max_sdu=1500"),
            (102, "ubr,aal5:max_sdu=1500"),
        ] {
            let client = if vci == 101 {
                other
            } else {
                world.hello(user(3))
            };
            let opened = world.open(client, vci, contract);
            assert!(matches!(opened, Ok(Confirm::Opened(_))), "{opened:?}");
        }
    }
}

#[test]
fn the_delay_that_is_told_has_the_rest_the_silence_and_the_readers_lateness() {
    let silent = Notification::Silent {
        threshold: 8,
        longest_delay_ns: 3_000_000,
    };
    for (idle, contract, notification, rest_and_silence_ns) in [
        (Idle::Spin, contract(1_000), None, Some(0)),
        (Idle::Adaptive, contract(1_000), None, Some(100_000)),
        // It keeps the adapter awake.
        (Idle::Adaptive, contract(399), None, Some(0)),
        (Idle::Sleep, contract(1_000), Some(silent), Some(3_100_000)),
        (
            Idle::Adaptive,
            "ubr,aal5:max_sdu=1500".to_owned(),
            None,
            None,
        ),
        (
            Idle::Adaptive,
            format!("{},rx:none", contract(1_000)),
            None,
            None,
        ),
    ] {
        let mut world = world(idle);
        let client = world.hello(user(1));
        let open = Open {
            notification,
            ..open(100, &contract)
        };
        let opened = world.done(client, Request::Open(open));
        assert!(matches!(opened, Ok(Confirm::Opened(_))), "{opened:?}");
        let told = world.list(client)[0].delay_ns;
        let reader_ns = config().assumptions.wake_up_ns;
        let expected = rest_and_silence_ns.map(|ns| ns + reader_ns);
        assert_eq!(told, expected, "{idle} {contract}");
    }
}

#[test]
fn who_wakes_the_adapter_for_nothing_is_named() {
    let mut world = world(Idle::Adaptive);
    let client = world.hello(user(5));
    let Ok(Confirm::Opened(opened)) = world.open(client, 100, &contract(1_000)) else {
        panic!("not opened");
    };
    let attachment = opened.attachment;
    let rests = RestInfo {
        idle: Idle::Adaptive,
        rests: 9,
        for_nothing: 8,
        ..RestInfo::default()
    };
    let nobodys = cellgate_core::adapter::AttachmentIndex(999);
    let histograms = Histograms {
        steps: Histogram::of_logarithms(1_234, &[1, 2, 3]),
        ..Histograms::default()
    };
    let health = Health {
        pid: 0,
        cpu_ns: 0,
        unlocked: 0,
        gap_ns: 0,
        gaps: 0,
        gaps_total_ns: 0,
        rests: Some((rests.clone(), vec![(attachment, 7), (nobodys, 1)])),
        histograms: Some(Box::new(histograms)),
        ports: Vec::new(),
    };
    world.server.handle_health(world.now, FIRST, &health);
    world.drain();
    let Ok(Confirm::Adapters(infos)) = world.done(client, Request::Adapters) else {
        panic!("no answer");
    };
    let caller = Caller {
        address: "wan.0.100".parse().unwrap(),
        uid: 5,
        for_nothing: 7,
    };
    let callers = vec![caller];
    assert_eq!(infos[0].rests, Some(RestInfo { callers, ..rests }));
    assert_eq!(infos[0].histograms.as_deref(), Some(&histograms));
}

#[test]
fn the_longest_lateness_is_that_of_all_looks_until_there_is_another_adapter() {
    let mut world = world(Idle::Adaptive);
    let client = world.hello(user(5));
    let told = |world: &mut World, late_longest_ns| {
        let rests = RestInfo {
            late_longest_ns,
            ..RestInfo::default()
        };
        let health = Health {
            pid: 0,
            cpu_ns: 0,
            unlocked: 0,
            gap_ns: 0,
            gaps: 0,
            gaps_total_ns: 0,
            rests: Some((rests, Vec::new())),
            histograms: None,
            ports: Vec::new(),
        };
        world.server.handle_health(world.now, FIRST, &health);
        world.drain();
        let Ok(Confirm::Adapters(infos)) = world.done(client, Request::Adapters) else {
            panic!("no answer");
        };
        infos[0].rests.as_ref().unwrap().late_longest_ns
    };
    assert_eq!(told(&mut world, 7), 7);
    assert_eq!(told(&mut world, 0), 7);
    assert_eq!(told(&mut world, 9), 9);
    world.lose(FIRST);
    world.find_adapter();
    assert_eq!(told(&mut world, 1), 1);
}

#[test]
fn who_has_the_counters_or_a_monitor_watches() {
    let mut world = world(Idle::Adaptive);
    let mut watched = vec![world.server.is_watched()];
    let clients: Vec<_> = [Request::Counters, Request::Monitor]
        .into_iter()
        .map(|request| {
            let client = world.hello(user(1));
            world.done(client, request).unwrap();
            watched.push(world.server.is_watched());
            client
        })
        .collect();
    for client in clients {
        world.server.handle_hang_up(world.now, client);
        world.drain();
        watched.push(world.server.is_watched());
    }
    assert_eq!(watched, [false, true, true, true, false]);
}
