//! The life of connections and interfaces, as applications hear it.

use cellgate_core::Time;
use cellgate_core::adapter::{
    AdapterState, AdapterStats, PortIndex, Refusal, VcId, VcIndex, VcInfo, VcStats,
};
use cellgate_core::server::{
    AdapterInfo, AdapterRefusal, Change, Confirm, Crowd, Enclosed, EndReason, FromClient,
    FromServer, Health, Indication, PingFlow, PortHealth, Refused, Request, Response, SharedCpu,
    VERSION,
};

use super::world::{FIRST, ROOT, World, address, config, open, user};

const CBR: &str = "cbr:pcr=1000,max_sdu=1500";
const UBR: &str = "ubr:max_sdu=1500";

#[test]
fn the_first_request_is_hello_of_this_version() {
    let mut world = World::new(config());
    let client = world.connect(user(1));
    assert_eq!(
        world.done(client, Request::List { from: 0 }),
        Err(Refused::HelloFirst)
    );
    let other = world.done(
        client,
        Request::Hello {
            version: VERSION + 1,
        },
    );
    assert_eq!(other, Err(Refused::Version { speaks: VERSION }));
    assert_eq!(world.done(client, Request::Close), Err(Refused::HelloFirst));
    let hello = world.done(client, Request::Hello { version: VERSION });
    assert!(
        matches!(hello, Ok(Confirm::Hello { pid: 77, .. })),
        "{hello:?}"
    );
    assert_eq!(
        world.done(client, Request::Close),
        Err(Refused::NoConnection)
    );
}

#[test]
fn who_says_nothing_is_hung_up_in_time() {
    let mut world = World::new(config());
    let silent = world.connect(user(1));
    let due = world.server.next_deadline().expect("a deadline");
    assert_eq!(due, Time::from_ns(1_000_000_000));
    let polite = world.hello(user(1));
    world.now = due.minus_ns(1);
    world.server.handle_deadline(world.now);
    world.drain();
    assert!(world.hung_up.is_empty());
    world.now = due;
    world.server.handle_deadline(world.now);
    world.drain();
    assert_eq!(world.hung_up.iter().collect::<Vec<_>>(), [&silent]);
    assert_eq!(world.server.next_deadline(), None);
    assert!(world.done(polite, Request::Resources).is_ok());
}

#[test]
fn sockets_waiting_requests_and_monitors_are_bounded() {
    let (mut world, root) = World::with_wan(config());
    let mut clients = Vec::new();
    for _ in 0..12 {
        clients.push(world.hello(user(1)));
    }
    let crowded = world.connect(user(1));
    assert!(world.hung_up.contains(&crowded));
    world.opened(user(2), 100, CBR);
    let roots: Vec<_> = (0..10).map(|_| world.hello(ROOT)).collect();
    let full = world.connect(ROOT);
    assert!(world.hung_up.contains(&full));

    let client = clients[0];
    world.send(client, Request::Open(open(101, CBR)));
    for _ in 0..3 {
        world.send(client, Request::Close);
    }
    let over = world.send(client, Request::Resources);
    let full = Refused::Full {
        of: Crowd::Requests,
        most: 4,
        quota: None,
        holder: None,
    };
    assert_eq!(world.confirmed(client, over), Err(full));
    world.finish();
    assert!(world.unconfirmed[&client].is_empty());

    assert_eq!(world.done(clients[1], Request::Monitor), Ok(Confirm::Done));
    assert_eq!(world.done(clients[2], Request::Monitor), Ok(Confirm::Done));
    assert_eq!(world.done(clients[2], Request::Monitor), Ok(Confirm::Done));
    let third = world.done(clients[3], Request::Monitor);
    assert_eq!(third, Err(Refused::full_of_user(Crowd::Monitors, 2, 1)));
    for root in &roots[..6] {
        assert_eq!(world.done(*root, Request::Monitor), Ok(Confirm::Done));
    }
    let users = [0; 6].into_iter().chain([1; 2]);
    let full = Refused::full(Crowd::Monitors, 8, users);
    assert!(
        full.to_string()
            .contains("8 monitors, as many as there may be, 6 of them of user 0")
    );
    assert_eq!(world.done(root, Request::Monitor), Err(full));
}

#[test]
fn users_leave_a_socket_to_those_who_govern() {
    let (mut world, _) = World::with_wan(config());
    for uid in [1, 2] {
        for _ in 0..11 {
            world.hello(user(uid));
        }
    }
    // With root's there are 23 of 24.
    let crowded = world.connect(user(3));
    let refused = Refused::Full {
        of: Crowd::ControlSockets,
        most: 23,
        quota: None,
        holder: Some((2, 11)),
    };
    assert!(world.hung_up.contains(&crowded));
    let told = world.heard[&crowded]
        .back()
        .map(|(message, _)| message.clone());
    let result = Err(refused);
    assert_eq!(
        told,
        Some(FromServer::Confirm {
            connection: 0,
            id: 0,
            result
        })
    );
    world.hello(ROOT);
}

#[test]
fn a_tolerance_brings_the_credit_of_its_interval() {
    let (mut world, _) = World::with_wan(config());
    // A PDU takes a millisecond.
    for (vci, words, pdus) in [
        (100, "dvt=50ms", 50),
        (101, "dvt=49ms", 10),
        (102, "dvt=9ms", 2),
        (103, "dvt=50ms,jitter=low", 2),
        (104, "tx:jitter=high,rx:jitter=low", 50),
    ] {
        let client = world.hello(user(1));
        let contract = format!("cbr:pcr=1000,max_sdu=40,{words}");
        let Ok(Confirm::Opened(opened)) = world.open(client, vci, &contract) else {
            panic!("{contract}");
        };
        let credit = opened.transmit_credit.map(|credit| credit.octets());
        assert_eq!(credit, Some(pdus * 40), "{contract}");
    }
}

#[test]
fn a_connection_opens_and_closes_and_leaves_nothing() {
    let (mut world, root) = World::with_wan(config());
    let empty = world.promised();
    let client = world.hello(user(1));
    let id = world.send(client, Request::Open(open(100, "CBR:sdu=1500,pcr=1000")));
    world.finish();
    let (confirm, enclosed) = world.confirmed_with(client, id);
    let Ok(Confirm::Opened(opened)) = confirm else {
        panic!("{confirm:?}");
    };
    assert_eq!(opened.contract, CBR);
    assert_eq!(opened.transmit_max_sdu, Some(1500));
    assert_eq!(
        opened.transmit_credit.map(|credit| credit.octets()),
        Some(15_000)
    );
    let expected = Enclosed::Connection {
        adapter: FIRST,
        vc: opened.vc,
        attachment: opened.attachment,
    };
    assert_eq!(enclosed, expected);
    assert_eq!(world.adapter.kept.get(&opened.attachment), Some(&client));
    let record = world.adapter.vcs[&opened.vc].record.clone();
    assert_eq!((record.number, record.uid, record.pid), (1, 1, Some(1_001)));
    let other = world.hello(user(2));
    assert_eq!(world.open(other, 100, CBR), Err(Refused::AddressInUse));
    let listed = world.list(root);
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].pid, Some(1_001));
    let closed = world.done(client, Request::Close);
    let Ok(Confirm::Closed { stats }) = closed else {
        panic!("{closed:?}");
    };
    assert_eq!(stats.cells_received, 7);
    assert_eq!(world.promised(), empty);
    assert!(world.adapter.vcs.is_empty() && world.adapter.attachments.is_empty());
    assert!(world.open(other, 100, CBR).is_ok());
    assert_eq!(
        world.list(root)[0].number,
        2,
        "a number is never used twice"
    );
}

/// A hang-up after each number of answers.
#[test]
fn a_hang_up_in_every_state_cleans_up() {
    let last = Request::Modify {
        contract: "cbr:pcr=300000,max_sdu=9180".to_owned(),
    };
    for contract in [CBR, UBR] {
        for answers in 0..6 {
            let (mut world, _) = World::with_wan(config());
            let empty = world.promised();
            let client = world.hello(user(1));
            world.send(client, Request::Open(open(100, contract)));
            world.send(client, last.clone());
            world.send(client, Request::Close);
            for _ in 0..answers {
                if !world.asks.is_empty() {
                    world.answer(0);
                }
            }
            world.hang_up(client);
            world.finish();
            assert_eq!(world.promised(), empty, "{contract}: {answers} answers");
            assert!(world.adapter.vcs.is_empty() && world.adapter.attachments.is_empty());
        }
    }
}

/// One who comes after an application that ended finds its address, whatever is left to do there.
#[test]
fn an_address_that_is_being_closed_is_waited_for() {
    for answers in 0..2 {
        for permanent in [false, true] {
            let (mut world, _) = World::with_wan(config());
            let client = world.opened(user(1), 100, CBR);
            let (next, late) = (world.hello(user(2)), world.hello(user(3)));
            world.hang_up(client);
            let request = match permanent {
                false => Request::Open(open(100, CBR)),
                true => Request::Add(open(100, CBR)),
            };
            let first = world.send(next, request);
            let second = world.send(late, Request::Open(open(100, UBR)));
            for _ in 0..answers {
                world.answer(0);
            }
            assert_eq!(world.unconfirmed[&next].len(), 1);
            world.finish();
            assert!(world.confirmed(next, first).is_ok());
            let refused = world.confirmed(late, second);
            assert_eq!(refused, Err(Refused::AddressInUse));
        }
    }
    // Nor is it waited for in vain.
    let (mut world, _) = World::with_wan(config());
    let client = world.opened(user(1), 100, CBR);
    let next = world.hello(user(2));
    world.hang_up(client);
    let first = world.send(next, Request::Open(open(100, CBR)));
    world.lose_adapter();
    let away = world.confirmed(next, first);
    assert_eq!(away, Err(Refused::AdapterAway));
}

#[test]
fn a_refusal_of_the_adapter_is_passed_on_and_leaves_nothing() {
    for (at, refusal, expected) in [
        (
            0,
            AdapterRefusal::Refused(Refusal::AttachmentsInUse),
            Refused::Adapter(Refusal::AttachmentsInUse),
        ),
        (
            1,
            AdapterRefusal::Refused(Refusal::NoVc),
            Refused::Adapter(Refusal::NoVc),
        ),
        (
            1,
            AdapterRefusal::Other("ENFILE".to_owned()),
            Refused::Kernel("ENFILE".to_owned()),
        ),
    ] {
        let (mut world, root) = World::with_wan(config());
        let empty = world.promised();
        let client = world.hello(user(1));
        let id = world.send(client, Request::Open(open(100, CBR)));
        for _ in 0..at {
            world.answer(0);
        }
        world.refuse_next = Some(refusal);
        world.finish();
        assert_eq!(world.confirmed(client, id), Err(expected));
        assert_eq!(world.indications(client), []);
        assert_eq!(world.promised(), empty);
        assert!(world.list(root).is_empty() && world.adapter.attachments.is_empty());
        assert!(world.open(client, 100, CBR).is_ok());
    }
}

#[test]
fn a_connection_that_is_an_applications_own_is_no_permanent_one() {
    let (mut world, root) = World::with_wan(config());
    let owner = world.hello(user(1));
    assert!(world.done(owner, Request::Open(open(100, CBR))).is_ok());
    let other = world.hello(user(1));
    let take = Request::Take {
        address: address(100),
    };
    assert_eq!(world.done(other, take), Err(Refused::NotPermanent));
    let set = Request::Set {
        address: address(100),
        contract: CBR.to_owned(),
    };
    assert_eq!(world.done(root, set), Err(Refused::NotPermanent));
    let delete = || Request::Delete {
        address: address(100),
    };
    assert_eq!(world.done(root, delete()), Err(Refused::NotPermanent));
    // A stranger does not even hear that there is one.
    let stranger = world.hello(user(2));
    assert_eq!(world.done(stranger, delete()), Err(Refused::NotFound));
}

#[test]
fn a_permanent_connection_is_taken_and_given_back() {
    let (mut world, root) = World::with_wan(config());
    let owner = world.hello(user(1));
    let added = world.done(owner, Request::Add(open(100, CBR)));
    let contract = CBR.to_owned();
    assert_eq!(added, Ok(Confirm::Added { contract }));
    world.hang_up(owner);
    let promised = world.promised();
    let take = || Request::Take {
        address: address(100),
    };
    let stranger = world.hello(user(2));
    assert_eq!(world.done(stranger, take()), Err(Refused::NotFound));
    let client = world.hello(user(1));
    let taken = world.done(client, take());
    let Ok(Confirm::Opened(opened)) = taken else {
        panic!("{taken:?}");
    };
    assert_eq!(world.done(root, take()), Err(Refused::InUse));
    let set = |contract: &str| Request::Set {
        address: address(100),
        contract: contract.to_owned(),
    };
    assert_eq!(world.done(root, set(CBR)), Err(Refused::InUse));
    // Given back: its memory is new, so that who had it cannot write there.
    assert!(matches!(
        world.done(client, Request::Close),
        Ok(Confirm::Closed { .. })
    ));
    assert!(!world.adapter.vcs.contains_key(&opened.vc));
    assert_eq!(world.adapter.vcs.len(), 1);
    assert_eq!(
        world.adapter.attachments.len(),
        1,
        "only the server's own is left"
    );
    assert_eq!(world.promised(), promised);
    assert_eq!(
        world.done(root, set("cbr:pcr=1001,max_sdu=1500")),
        Ok(Confirm::Done)
    );
    assert!(matches!(world.done(root, take()), Ok(Confirm::Opened(_))));
    let delete = || Request::Delete {
        address: address(100),
    };
    assert_eq!(world.done(stranger, delete()), Err(Refused::NotFound));
    assert_eq!(world.done(client, delete()), Ok(Confirm::Done));
    assert_eq!(
        world.indications(root),
        [(0, Indication::Ended(EndReason::Deleted))]
    );
    assert_eq!(world.done(root, Request::Close), Err(Refused::NoConnection));
    assert!(world.adapter.vcs.is_empty() && world.list(root).is_empty());
}

#[test]
fn a_capability_takes_a_connection_over() {
    let (mut world, _) = World::with_wan(config());
    let old = world.opened(user(1), 100, CBR);
    let vc = *world.adapter.vcs.keys().next().expect("a VC");
    let promised = world.promised();
    let reattach = || Request::Reattach {
        address: address(100),
    };
    let new = world.hello(user(1));
    let ask = |world: &mut World, client, capability| {
        let id = world.send_with(client, reattach(), capability);
        world.finish();
        world.confirmed(client, id)
    };
    assert!(matches!(
        ask(&mut world, new, None),
        Err(Refused::Descriptors(_))
    ));
    let other = VcId {
        generation: vc.generation + 1,
        ..vc
    };
    assert!(matches!(
        ask(&mut world, new, Some(other)),
        Err(Refused::Descriptors(_))
    ));
    let stranger = world.hello(user(2));
    assert_eq!(ask(&mut world, stranger, Some(vc)), Err(Refused::NotFound));
    assert_eq!(ask(&mut world, old, Some(vc)), Err(Refused::Occupied));
    let taken = ask(&mut world, new, Some(vc));
    let Ok(Confirm::Opened(opened)) = taken else {
        panic!("{taken:?}");
    };
    assert_eq!(opened.vc, vc);
    assert_eq!(
        world.indications(old),
        [(0, Indication::Ended(EndReason::TakenOver))]
    );
    assert_eq!(world.done(old, Request::Close), Err(Refused::NoConnection));
    assert_eq!(world.adapter.attachments.len(), 1);
    world.hang_up(old);
    world.finish();
    assert_eq!((world.adapter.vcs.len(), world.promised()), (1, promised));
    // A take-over that fails leaves the connection where it is.
    let third = world.hello(user(1));
    let id = world.send_with(third, reattach(), Some(vc));
    world.answer(0);
    world.refuse_next = Some(Refusal::Busy.into());
    world.finish();
    assert_eq!(
        world.confirmed(third, id),
        Err(Refused::Adapter(Refusal::Busy))
    );
    assert!(matches!(
        world.done(new, Request::Close),
        Ok(Confirm::Closed { .. })
    ));
    assert!(world.adapter.attachments.is_empty());
}

#[test]
fn requests_that_wait_are_about_what_their_socket_has_then() {
    let (mut world, _) = World::with_wan(config());
    let old = world.opened(user(1), 100, CBR);
    let vc = *world.adapter.vcs.keys().next().expect("a VC");
    let new = world.hello(user(1));
    let address = address(100);
    world.send_with(new, Request::Reattach { address }, Some(vc));
    // Under way; the old socket's Close comes too late.
    let close = world.send(old, Request::Close);
    world.finish();
    assert_eq!(world.confirmed(old, close), Err(Refused::NoConnection));
    assert_eq!(world.adapter.vcs.len(), 1);
}

#[test]
fn monitors_hear_of_each_change() {
    let (mut world, root) = World::with_wan(config());
    world.done(root, Request::Monitor).expect("it monitors");
    let client = world.opened(user(1), 100, CBR);
    let contract = "cbr:pcr=2000,max_sdu=1500".to_owned();
    world
        .done(client, Request::Modify { contract })
        .expect("it changes");
    world.hang_up(client);
    world.finish();
    let changes: Vec<_> = world
        .indications(root)
        .into_iter()
        .map(|(_, indication)| match indication {
            Indication::Connection { change, info } => (change, info.transmit, info.stats),
            other => panic!("{other:?}"),
        })
        .map(|(change, rate, stats)| (change, rate.map(|r| r.cell_s()), stats.cells_received))
        .collect();
    let expected = [
        (Change::Added, Some(1_000), 0),
        (Change::Changed, Some(2_000), 0),
        (Change::Removed, Some(2_000), 7),
    ];
    assert_eq!(changes, expected);
}

#[test]
fn the_list_comes_in_pages_with_counters() {
    let mut config = config();
    config.limits.clients = 100;
    config.limits.clients_per_user = 100;
    let (mut world, root) = World::with_wan(config);
    for vci in 100..135 {
        world.opened(user(1), vci, UBR);
    }
    let (vc, kept) = world.adapter.vcs.iter().next().expect("a VC");
    let info = VcInfo {
        vc: *vc,
        request: kept.request,
        stats: VcStats {
            pdus_delivered: 5,
            ..VcStats::default()
        },
    };
    let state = AdapterState {
        time: world.now,
        stats: AdapterStats::default(),
        vcs: vec![info],
        next: Some(VcIndex(9)),
    };
    world.server.handle_report(world.now, FIRST, &state);
    world.drain();
    let list = world.list(root);
    let numbers: Vec<u32> = list.iter().map(|info| info.number).collect();
    assert_eq!(numbers, (1..=35).collect::<Vec<_>>());
    assert_eq!(
        (list[0].stats.pdus_delivered, list[1].stats.pdus_delivered),
        (5, 0)
    );
}

#[test]
fn pings_and_leases_are_passed_on_within_bounds() {
    let (mut world, root) = World::with_wan(config());
    let client = world.opened(user(1), 100, CBR);
    let ping = |vci, flow, timeout_ns| Request::Ping {
        address: address(vci),
        flow,
        timeout_ns,
    };
    let (f4, f5) = (PingFlow::F4EndToEnd, PingFlow::F5Segment);
    let back = Ok(Confirm::Returned {
        round_trip_ns: 5_000,
    });
    assert_eq!(world.done(client, ping(100, f5, 1)), back);
    assert_eq!(world.done(client, ping(101, f5, 1)), Err(Refused::NotFound));
    assert_eq!(
        world.done(client, ping(100, f4, 1)),
        Err(Refused::NotPermitted)
    );
    assert_eq!(world.done(root, ping(999, f4, 1)), back);
    let long = world.done(root, ping(100, f5, 10_000_000_001));
    assert!(matches!(long, Err(Refused::BadMessage(_))), "{long:?}");
    world.refuse_next = Some(AdapterRefusal::NoReturn);
    assert_eq!(world.done(root, ping(100, f5, 1)), Err(Refused::NoReturn));
    // Those of a socket that has hung up are still on their way.
    let (gone, other) = (world.hello(user(1)), world.opened(user(2), 102, CBR));
    for _ in 0..2 {
        world.send(gone, ping(100, f5, 1));
    }
    world.hang_up(gone);
    let third = world.send(client, ping(100, f5, 1));
    let full = Refused::full_of_user(Crowd::LoopbackCells, 2, 1);
    assert_eq!(world.confirmed(client, third), Err(full));
    assert_eq!(world.done(other, ping(102, f5, 1)), back);
    // Nobody learns of another user's VC whether it is there.
    assert_eq!(world.done(other, ping(100, f5, 1)), Err(Refused::NotFound));
    assert_eq!(world.done(client, ping(100, f5, 1)), back);
    let lease = |expires_in_ns| Request::Lease {
        pdus: 1,
        expires_in_ns,
    };
    assert_eq!(world.done(client, lease(10_000_000)), Ok(Confirm::Done));
    let long = world.done(client, lease(10_000_001));
    assert!(matches!(long, Err(Refused::BadMessage(_))), "{long:?}");
    assert_eq!(world.done(root, lease(1)), Err(Refused::NoConnection));
}

#[test]
fn guarantees_at_risk_are_told_once_until_all_is_well() {
    let (mut world, _) = World::with_wan(config());
    let guaranteed = world.opened(user(1), 100, CBR);
    let best_effort = world.opened(user(1), 101, UBR);
    world.indications(best_effort);
    let info = |world: &mut World| match world.done(guaranteed, Request::Adapters) {
        Ok(Confirm::Adapters(mut infos)) => infos.remove(0),
        other => panic!("{other:?}"),
    };
    assert_eq!(info(&mut world).seen_ns, None);
    let tell = |world: &mut World, gap_ns, up, dropped_cells| {
        let port = PortHealth {
            port: PortIndex(0),
            up,
            dropped_cells,
            ..PortHealth::well(PortIndex(0))
        };
        let ports = vec![port];
        let now = world.now;
        let (gaps, gaps_total_ns) = (3, 4 * gap_ns);
        let health = Health {
            pid: 0,
            cpu_ns: 0,
            unlocked: 0,
            gap_ns,
            gaps,
            gaps_total_ns,
            rests: None,
            histograms: None,
            ports,
        };
        world.server.handle_health(now, FIRST, &health);
        world.drain();
        let told = world.indications(guaranteed);
        assert_eq!(world.indications(best_effort), []);
        let risk = |one: &Indication| matches!(one, Indication::AtRisk { .. });
        assert!(told.iter().all(|(_, one)| risk(one)), "{told:?}");
        told.len()
    };
    // What was dropped before the server looked is no news.
    assert_eq!(tell(&mut world, 30_000_000, true, 5), 0);
    assert_eq!(tell(&mut world, 30_000_001, true, 5), 1);
    assert_eq!(tell(&mut world, 90_000_000, true, 5), 0);
    // Whoever asks is told why, and that it was so when it is over.
    let shown = |world: &mut World| {
        let mut all = world.list(guaranteed).into_iter();
        let risk = all.find(|info| info.guaranteed).and_then(|info| info.risk);
        let risk = risk.expect("it was at risk");
        assert!(
            risk.reason.contains("did not run for 90000000 ns"),
            "{risk:?}"
        );
        risk.now
    };
    assert!(shown(&mut world));
    assert_eq!(tell(&mut world, 0, true, 5), 0);
    assert!(!shown(&mut world));
    assert_eq!(tell(&mut world, 0, true, 6), 1);
    assert_eq!(tell(&mut world, 0, true, 6), 0);
    assert_eq!(tell(&mut world, 0, false, 6), 1);
    let all = AdapterInfo {
        seen_ns: Some(world.now.ns()),
        gaps: 3,
        gaps_total_ns: 0,
        gap_longest_ns: 90_000_000,
        gap_admitted_ns: 30_000_000,
        ..AdapterInfo::default()
    };
    assert_eq!(info(&mut world), all);
    let shared = SharedCpu {
        cpu: 1,
        others: 2,
        pids: vec![7, 9],
    };
    world.server.handle_shared_cpu(FIRST, Some(shared.clone()));
    assert_eq!(info(&mut world).shared, Some(shared));
    world.server.handle_shared_cpu(FIRST, None);
    // Another adapter's gaps are its own.
    world.server.handle_adapter_lost(world.now, FIRST);
    world.drain();
    assert_eq!(info(&mut world).gap_longest_ns, 0);
}

#[test]
fn messages_out_of_place_do_nothing() {
    let (mut world, client) = World::with_wan(config());
    let stranger = world.new_id();
    let request = Request::Resources;
    let message = FromClient::Request {
        connection: 0,
        id: 1,
        request,
    };
    world
        .server
        .handle_message(world.now, stranger, message, None);
    world.server.handle_hang_up(world.now, stranger);
    world
        .server
        .handle_bad_message(world.now, stranger, String::new());
    assert_eq!(world.server.poll_output(), None);
    world.respond(client, 3, Response::Decline);
    world
        .server
        .handle_bad_message(world.now, client, "{".to_owned());
    world.drain();
    let bad = Err(Refused::BadMessage("{".to_owned()));
    assert_eq!(world.confirmed(client, 0), bad);
    let ticket = cellgate_core::server::Ticket(99_999);
    let answer = Err(AdapterRefusal::Away);
    world.server.handle_answer(world.now, ticket, answer);
    assert_eq!(world.server.poll_output(), None);
    assert_eq!(
        world.done(client, Request::Counters),
        Ok(Confirm::Counters { len: 4096 })
    );
}
