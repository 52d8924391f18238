//! The adapter dies, or the server does.

use cellgate_core::adapter::Refusal;
use cellgate_core::keeper::Ask;
use cellgate_core::server::{
    AdapterAsk, AdapterRefusal, ClientId, Confirm, EndReason, FromClient, Health, Indication,
    Refused, Request, Response, TakenInterface,
};

use super::world::{FIRST, ROOT, World, address, config, open, user, wan};

const CBR: &str = "cbr:pcr=1000,max_sdu=1500";
const LARGE: &str = "cbr:pcr=200000,max_sdu=9180";

fn modify(contract: &str) -> Request {
    Request::Modify {
        contract: contract.to_owned(),
    }
}

#[test]
fn a_new_adapter_gets_all_that_the_old_one_had() {
    let (mut world, root) = World::with_wan(config());
    let client = world.opened(user(1), 100, CBR);
    let best_effort = world.opened(user(1), 101, "ubr:max_sdu=1500");
    world
        .done(root, Request::Add(open(102, CBR)))
        .expect("added");
    let taker = world.hello(ROOT);
    let take = Request::Take {
        address: address(102),
    };
    world.done(taker, take).expect("taken");
    world
        .done(root, Request::Add(open(103, CBR)))
        .expect("added");
    let promised = world.promised();
    world.indications(best_effort);
    world.lose_adapter();
    for request in [modify(CBR), Request::Open(open(109, CBR))] {
        assert!(matches!(
            world.done(client, request),
            Err(Refused::AdapterAway | Refused::Occupied)
        ));
    }
    assert_eq!(world.promised(), promised);
    world.find_adapter();
    world.finish();
    assert_eq!(world.promised(), promised);
    assert_eq!(world.adapter.vcs.len(), 4);
    assert_eq!(
        world.adapter.attachments.len(),
        4,
        "three applications', and the server's own"
    );
    assert_eq!(world.adapter.kept.len(), 3);
    assert_eq!(world.adapter.links.len(), 1);
    for client in [client, best_effort, taker] {
        let told = world.indications(client);
        let [(0, Indication::Reopened(opened))] = &told[..] else {
            panic!("{told:?}");
        };
        assert!(world.adapter.vcs.contains_key(&opened.vc));
    }
}

#[test]
fn a_link_that_a_new_adapter_is_refused_is_asked_for_again() {
    let (mut world, root) = World::with_wan(config());
    world.lose_adapter();
    world.find_adapter();
    let link = |(_, ask): &(_, AdapterAsk)| matches!(ask, AdapterAsk::Link { .. });
    for _ in 0..3 {
        let at = world.asks.iter().position(link).expect("it is asked for");
        world.refuse_next = Some(AdapterRefusal::Link("not yet".to_owned()));
        world.answer(at);
        world.finish();
        assert!(world.adapter.links.is_empty());
        for later in [0, 1_000_000_000, 4_000_000_000] {
            assert!(world.asks.is_empty());
            world.now = world.now.plus_ns(later);
            world
                .server
                .handle_health(world.now, FIRST, &Health::default());
            world.drain();
        }
    }
    world.finish();
    assert_eq!(world.adapter.links.len(), 1);
    let Ok(Confirm::Interfaces(interfaces)) = world.done(root, Request::Interfaces) else {
        panic!("they are listed");
    };
    assert!(interfaces.iter().all(|info| info.up), "{interfaces:?}");
    // One that is there is not made again.
    world
        .server
        .handle_health(world.now, FIRST, &Health::default());
    world.drain();
    assert!(world.asks.is_empty());
}

/// Its link is asked for again, and it is removed: whatever becomes of the link, it goes.
#[test]
fn an_interface_is_removed_while_its_link_is_asked_for_again() {
    for (refused, lost) in [(false, false), (true, false), (false, true)] {
        let (mut world, root) = World::with_wan(config());
        let (other, client) = (world.hello(ROOT), world.hello(user(1)));
        world.lose_adapter();
        world.find_adapter();
        // The server's own attachment comes first.
        let link = |(_, ask): &(_, AdapterAsk)| matches!(ask, AdapterAsk::Link { .. });
        while let Some(at) = world.asks.iter().position(|ask| !link(ask)) {
            world.answer(at);
        }
        assert_eq!(world.asks.len(), 1);
        let remove = Request::RemoveInterface {
            name: "wan".to_owned(),
        };
        let id = world.send(root, remove.clone());
        for (who, request) in [(other, remove), (client, Request::Open(open(100, CBR)))] {
            let refused = world.send(who, request);
            assert_eq!(world.confirmed(who, refused), Err(Refused::NoInterface));
        }
        if refused {
            world.refuse_next = Some(AdapterRefusal::Link("no".to_owned()));
        }
        if lost {
            world.lose_adapter();
            world.find_adapter();
        }
        world.finish();
        assert_eq!(world.confirmed(root, id), Ok(Confirm::Done));
        assert!(world.adapter.links.is_empty(), "{:?}", world.adapter.links);
        let listed = world.done(root, Request::Interfaces);
        assert_eq!(listed, Ok(Confirm::Interfaces(Vec::new())));
    }
}

#[test]
fn what_cannot_be_opened_again_ends() {
    let (mut world, root) = World::with_wan(config());
    let empty = world.promised();
    let client = world.opened(user(1), 100, CBR);
    world.lose_adapter();
    world.find_adapter();
    while world.adapter.attachments.is_empty() {
        world.answer(0);
    }
    world.refuse_next = Some(Refusal::NoVc.into());
    world.finish();
    let ended = Indication::Ended(EndReason::NotReopened);
    assert_eq!(world.indications(client), [(0, ended)]);
    assert_eq!(world.promised(), empty);
    assert!(world.list(root).is_empty() && world.adapter.attachments.is_empty());
}

/// Permanent ones, that is; and of these none that somebody deletes meanwhile.
#[test]
fn what_is_lost_is_told_and_can_be_added_again() {
    for (used, deleted) in [(false, false), (true, false), (false, true)] {
        let (mut world, root) = World::with_wan(config());
        let owner = world.hello(user(1));
        let added = world.done(owner, Request::Add(open(100, CBR)));
        assert!(matches!(added, Ok(Confirm::Added { .. })), "{added:?}");
        let application = world.hello(user(1));
        if used {
            let taken = world.done(
                application,
                Request::Take {
                    address: address(100),
                },
            );
            assert!(matches!(taken, Ok(Confirm::Opened(_))), "{taken:?}");
        }
        let other = world.opened(user(2), 101, CBR);
        world.lose_adapter();
        world.find_adapter();
        while world.adapter.attachments.len() < 2 {
            world.answer(0);
        }
        let is_open =
            |(_, ask): &(_, AdapterAsk)| matches!(ask, AdapterAsk::Keeper(Ask::Open { .. }, _));
        let delete = deleted.then(|| {
            let address = address(100);
            world.send(root, Request::Delete { address })
        });
        let mut refusals = 0;
        while !world.asks.is_empty() {
            let at = world.asks.iter().position(is_open).unwrap_or(0);
            if is_open(&world.asks[at]) {
                world.refuse_next = Some(Refusal::NoVc.into());
                refusals += 1;
            }
            world.answer(at);
        }
        assert_eq!(refusals, 2);
        let ended = Indication::Ended(EndReason::NotReopened);
        let heard = if used {
            vec![(0, ended.clone())]
        } else {
            Vec::new()
        };
        assert_eq!(world.indications(application), heard);
        assert_eq!(world.indications(other), [(0, ended)]);
        let lost = (address(100), 1, Refused::Adapter(Refusal::NoVc));
        match delete {
            Some(id) => {
                assert_eq!(world.confirmed(root, id), Err(Refused::NotFound));
                assert_eq!(world.lost, []);
            }
            None => assert_eq!(world.lost, [lost]),
        }
        // Who asks is told by the Confirm alone.
        let told = core::mem::take(&mut world.lost).len();
        world.refuse_next = Some(Refusal::NoVc.into());
        let refused = world.done(owner, Request::Add(open(100, CBR)));
        assert_eq!(refused, Err(Refused::Adapter(Refusal::NoVc)));
        let added = world.done(owner, Request::Add(open(100, CBR)));
        assert!(matches!(added, Ok(Confirm::Added { .. })), "{added:?}");
        let address = address(100);
        assert_eq!(
            world.done(root, Request::Delete { address }),
            Ok(Confirm::Done)
        );
        assert!(world.lost.is_empty(), "{told} before");
    }
}

/// The adapter is lost after each number of answers: every request is confirmed, what was refused
/// is as before, what was closed is closed.
#[test]
fn a_lost_adapter_leaves_no_request_without_its_confirm() {
    for answers in 0..14 {
        let (mut world, root) = World::with_wan(config());
        let empty = world.promised();
        world
            .done(root, Request::Add(open(90, CBR)))
            .expect("added");
        let with_permanent = world.promised();
        let client = world.hello(user(1));
        let script = [
            Request::Open(open(100, CBR)),
            modify(LARGE),
            Request::Lease {
                pdus: 1,
                expires_in_ns: 1,
            },
            Request::Close,
        ];
        for request in script {
            world.send(client, request);
        }
        let taker = world.hello(ROOT);
        let address = address(90);
        world.send(taker, Request::Take { address });
        world.send(taker, Request::Close);
        world.send(root, Request::AddInterface(wan("lan")));
        world.send(
            root,
            Request::RemoveInterface {
                name: "lan".to_owned(),
            },
        );
        for _ in 0..answers {
            if !world.asks.is_empty() {
                world.answer(0);
            }
        }
        world.lose_adapter();
        for (client, waiting) in &world.unconfirmed {
            assert!(
                waiting.is_empty(),
                "{answers} answers: {client:?} waits for {waiting:?}"
            );
        }
        world.find_adapter();
        world.finish();
        world.hang_up(client);
        world.hang_up(taker);
        world.finish();
        let promised = world.promised();
        let no = r#"{"guaranteed":0,"best_effort":0}"#;
        let lan = format!(r#","1":{{"cell_s":353207,"transmit":{no},"receive":{no}}}"#);
        assert_eq!(
            promised.replace(&lan, ""),
            with_permanent,
            "{answers} answers"
        );
        let delete = Request::Delete {
            address: "wan.0.90".parse().expect("an address"),
        };
        assert_eq!(world.done(root, delete), Ok(Confirm::Done));
        assert_eq!(world.promised().replace(&lan, ""), empty);
    }
}

#[test]
fn a_new_server_takes_up_what_the_old_one_left() {
    let (mut world, root) = World::with_wan(config());
    let client = world.opened(user(1), 100, CBR);
    let best_effort = world.opened(user(2), 101, "ubr:max_sdu=1500");
    world
        .done(root, Request::Add(open(102, CBR)))
        .expect("added");
    let taker = world.opened(user(3), 103, CBR);
    world.hang_up(taker);
    world.finish();
    world
        .done(root, Request::Add(open(104, CBR)))
        .expect("added");
    let take = |vci| Request::Take {
        address: address(vci),
    };
    let taker = world.hello(ROOT);
    world.done(taker, take(104)).expect("taken");
    let (promised, list) = (world.promised(), world.list(root));
    for kept in [client, best_effort, taker] {
        world.indications(kept);
    }
    world.restart(0);
    assert_eq!(world.promised(), promised);
    for kept in [client, best_effort, taker] {
        let told = world.indications(kept);
        assert_eq!(told[0], (0, Indication::Restarted), "{kept:?}");
    }
    world.finish();
    let root = world.hello(ROOT);
    assert_eq!(world.list(root), list);
    assert_eq!(
        (world.adapter.vcs.len(), world.adapter.attachments.len()),
        (4, 4)
    );
    // Everything goes on.
    assert!(matches!(
        world.done(client, modify(LARGE)),
        Ok(Confirm::Modified { .. })
    ));
    assert!(matches!(
        world.done(client, Request::Close),
        Ok(Confirm::Closed { .. })
    ));
    assert!(matches!(
        world.done(root, take(102)),
        Ok(Confirm::Opened(_))
    ));
    let next = world.opened(user(1), 105, CBR);
    let numbers: Vec<u32> = world.list(next).iter().map(|info| info.number).collect();
    assert_eq!(numbers, [2, 3, 5, 6]);
}

/// The server dies while it opens all again on a new adapter: nobody else can tell the application
/// where its memory is.
#[test]
fn who_was_not_told_that_it_is_open_again_hears_it_of_the_next_server() {
    for carried_out in 0..2 {
        let (mut world, _) = World::with_wan(config());
        let client = world.opened(user(1), 100, CBR);
        world.lose_adapter();
        world.find_adapter();
        // Its attachment is there, and its VC is asked for.
        while world.adapter.attachments.is_empty() {
            world.answer(0);
        }
        world.restart(carried_out);
        let told = world.indications(client);
        let vc = world.adapter.vcs.keys().next().copied();
        let [(0, Indication::Restarted), rest @ ..] = &told[..] else {
            panic!("{told:?}");
        };
        match (vc, rest) {
            (None, [(0, Indication::Ended(EndReason::NotReopened))]) => assert_eq!(carried_out, 0),
            (Some(vc), [(0, Indication::Reopened(opened))]) => assert_eq!(opened.vc, vc),
            other => panic!("{other:?}"),
        }
        // What has changed since shows that it has heard.
        if vc.is_some() {
            world.done(client, modify(LARGE)).expect("modified");
            world.restart(0);
            assert_eq!(world.indications(client), [(0, Indication::Restarted)]);
        }
    }
}

#[test]
fn what_nobody_is_left_for_is_closed_or_given_back() {
    let (mut world, root) = World::with_wan(config());
    let empty = world.promised();
    let gone = world.opened(user(1), 100, CBR);
    world
        .done(root, Request::Add(open(101, CBR)))
        .expect("added");
    let permanent = world.list(root)[1].clone();
    let taker = world.hello(ROOT);
    let address = address(101);
    world.done(taker, Request::Take { address }).expect("taken");
    for client in [gone, taker] {
        // They die while no server is there to notice.
        world.clients.remove(&client);
        world.adapter.kept.retain(|_, kept| *kept != client);
    }
    world.restart(0);
    world.finish();
    let root = world.hello(ROOT);
    assert_eq!(world.list(root), [permanent]);
    assert_eq!(
        (world.adapter.vcs.len(), world.adapter.attachments.len()),
        (1, 1)
    );
    let delete = Request::Delete {
        address: "wan.0.101".parse().expect("an address"),
    };
    world.done(root, delete).expect("deleted");
    assert_eq!(world.promised(), empty);
    // A VC on an interface that is not there any more.
    let client = world.opened(user(1), 100, CBR);
    world.adapter.links.clear();
    world.restart(0);
    world.finish();
    let told = world.indications(client);
    let ended = Indication::Ended(EndReason::InterfaceRemoved);
    assert_eq!(told, [(0, Indication::Restarted), (0, ended)]);
    assert!(world.adapter.vcs.is_empty());
}

/// The server dies after each number of answers, with each number of later asks carried out; the
/// application sends again what was not confirmed.
#[test]
fn a_request_sent_again_is_not_done_twice() {
    let take = || Request::Take {
        address: address(90),
    };
    let scripts: [(&str, Vec<Request>); 2] = [
        (
            "open",
            vec![
                Request::Open(open(100, CBR)),
                modify(LARGE),
                modify(CBR),
                Request::Close,
            ],
        ),
        ("take", vec![take(), Request::Close]),
    ];
    let mut repeated = 0;
    for (name, script) in scripts {
        for answers in 0..9 {
            for carried_out in 0..2 {
                let (mut world, root) = World::with_wan(config());
                world
                    .done(root, Request::Add(open(90, CBR)))
                    .expect("added");
                let before = world.promised();
                let client = world.hello(ROOT);
                let ids: Vec<u64> = script
                    .iter()
                    .map(|request| world.send(client, request.clone()))
                    .collect();
                for _ in 0..answers {
                    if !world.asks.is_empty() {
                        world.answer(0);
                    }
                }
                world.restart(carried_out);
                let case = format!("{name}: {answers} answers, {carried_out} carried out");
                if world.clients.contains_key(&client) {
                    assert!(restarted(&mut world, client), "{case}");
                    repeated += 1;
                    world.send_again();
                    world.finish();
                    for id in ids {
                        let confirmed = world.confirmed(client, id);
                        assert!(confirmed.is_ok(), "{case}: {id}: {confirmed:?}");
                    }
                }
                world.finish();
                assert_eq!(world.promised(), before, "{case}");
                assert_eq!(world.adapter.vcs.len(), 1, "{case}");
            }
        }
    }
    assert!(repeated > 12, "{repeated} cases only");
}

/// The server dies before it can confirm an Open, and the adapter before the next server is asked
/// again, or has opened the connection again.
#[test]
fn an_open_that_outlives_its_server_and_its_adapter_is_confirmed() {
    for is_back in [false, true] {
        let (mut world, _) = World::with_wan(config());
        let client = world.hello(user(1));
        let id = world.send(client, Request::Open(open(100, CBR)));
        while world.adapter.attachments.is_empty() {
            world.answer(0);
        }
        world.restart(1);
        assert_eq!(world.adapter.vcs.len(), 1);
        world.lose_adapter();
        if is_back {
            world.find_adapter();
            world.finish();
        }
        world.hear_of_restarts();
        world.send_again();
        world.finish();
        if !is_back {
            assert!(
                world.unconfirmed.contains_key(&client),
                "there is no adapter"
            );
            world.find_adapter();
            world.finish();
        }
        let confirmed = world.confirmed(client, id);
        let Ok(Confirm::Opened(opened)) = confirmed else {
            panic!("{confirmed:?}");
        };
        assert!(world.adapter.vcs.contains_key(&opened.vc));
        assert_eq!(world.list(client).len(), 1);
        // Another Open on this socket is none of this one's business.
        let another = world.done(client, Request::Open(open(101, CBR)));
        assert_eq!(another, Err(Refused::Occupied));
    }
}

/// What a server left unread on the socket comes before what is sent again.
#[test]
fn a_request_that_was_left_unread_is_not_done_twice() {
    let (mut world, _) = World::with_wan(config());
    let client = world.opened(user(1), 100, CBR);
    world.is_slow = true;
    world.restart(0);
    let requests = [Request::Close, Request::Open(open(101, CBR))];
    let ids = requests.clone().map(|request| world.send(client, request));
    world.finish();
    assert_eq!(world.unconfirmed[&client].len(), 2);
    world.hear_of_restarts();
    world.send_again();
    world.finish();
    for id in ids {
        // Confirmed once: `drain` complains of a second time.
        assert!(world.confirmed(client, id).is_ok());
    }
    assert_eq!(world.list(client)[0].address, address(101));
}

/// It heard of the second server before what that refused, and asked again; there was room when a
/// third one came.
#[test]
fn what_a_server_has_refused_the_next_does_not_carry_out() {
    let (mut world, _) = World::with_wan(config());
    let client = world.opened(user(1), 100, CBR);
    let rival = world.opened(user(2), 101, "cbr:pcr=200000cps,max_sdu=1500");
    world.restart(0);
    let growth = modify("cbr:pcr=200000cps,max_sdu=1500");
    let id = world.send(client, growth.clone());
    assert!(world.confirmed(client, id).is_err());
    world.done(rival, Request::Close).expect("closed");
    world.now = world.now.plus_ns(1);
    world.is_slow = true;
    world.restart(0);
    let promised = world.promised();
    let request = growth.clone();
    let again = FromClient::Request {
        connection: 0,
        id,
        request,
    };
    world.server.handle_message(world.now, client, again, None);
    world.hear_of_restarts();
    world.drain();
    world.finish();
    assert_eq!(world.promised(), promised);
    assert!(world.done(client, growth).is_ok());
}

/// Who has heard of one server has not heard of the next.
#[test]
fn a_server_waits_until_it_is_heard_of_itself() {
    let (mut world, _) = World::with_wan(config());
    let client = world.opened(user(1), 100, CBR);
    world.is_slow = true;
    world.restart(0);
    let stale = world.now.ns();
    world.now = world.now.plus_ns(1);
    world.restart(0);
    world.respond(client, stale, Response::Heard);
    let id = world.send(client, Request::Close);
    world.finish();
    assert_eq!(world.adapter.vcs.len(), 1);
    let reason = "no JSON".to_owned();
    world.server.handle_bad_message(world.now, client, reason);
    world.drain();
    world.hear_of_restarts();
    world.send_again();
    world.finish();
    assert!(world.confirmed(client, id).is_ok());
    assert_eq!(world.adapter.vcs.len(), 0);
}

#[test]
fn an_add_sent_again_is_not_done_twice() {
    let (mut world, _) = World::with_wan(config());
    let client = world.opened(user(1), 100, CBR);
    let id = world.send(client, Request::Add(open(101, CBR)));
    world.answer(0);
    world.restart(1);
    world.send_again();
    world.finish();
    let contract = CBR.to_owned();
    assert_eq!(world.confirmed(client, id), Ok(Confirm::Added { contract }));
    let again = world.done(client, Request::Add(open(101, CBR)));
    assert_eq!(again, Err(Refused::AddressInUse));
}

fn restarted(world: &mut World, client: ClientId) -> bool {
    let heard = world.heard.get(&client);
    heard.is_some_and(|heard| {
        let restarted = |message: &_| {
            matches!(
                message,
                cellgate_core::server::FromServer::Indication {
                    indication: Indication::Restarted,
                    ..
                }
            )
        };
        heard.iter().any(|(message, _)| restarted(message))
    })
}

#[test]
fn whose_record_makes_no_sense_any_more_hears_of_the_end() {
    let (mut world, _) = World::with_wan(config());
    let client = world.opened(user(1), 100, CBR);
    for kept in world.adapter.vcs.values_mut() {
        kept.record.open.contract = "cbr:pcr=1000,max_sdu=1500,of=another-version".to_owned();
    }
    world.restart(0);
    world.finish();
    let ended = Indication::Ended(EndReason::NotReopened);
    let told = world.indications(client);
    assert_eq!(told, [(0, Indication::Restarted), (0, ended)]);
    assert!(world.adapter.vcs.is_empty());
}

#[test]
fn nonsense_that_is_taken_up_is_closed() {
    let (mut world, _) = World::with_wan(config());
    world.opened(user(1), 100, CBR);
    let kept = world.adapter.vcs.values().next().expect("a VC").clone();
    // The same number and address once more, and a contract that is none.
    let attachment = kept.request.attachment;
    for (generation, contract) in [(1_000, CBR), (1_001, "nonsense")] {
        let mut twin = kept.clone();
        twin.record.open.contract = contract.to_owned();
        let vc = cellgate_core::adapter::VcId {
            index: cellgate_core::adapter::VcIndex(generation as u16),
            generation,
        };
        world.adapter.vcs.insert(vc, twin);
    }
    world.restart(0);
    world.finish();
    assert_eq!(world.adapter.vcs.len(), 1);
    assert!(world.adapter.attachments.contains_key(&attachment));
    // Later calls find an adapter there already.
    let interface = TakenInterface {
        spec: wan("lan"),
        port: cellgate_core::adapter::PortIndex(1),
        up: true,
    };
    let before = world.promised();
    world
        .server
        .take_up(world.now, FIRST, vec![interface], Vec::new());
    world.server.handle_adapter_ready(world.now, FIRST);
    assert_eq!(world.server.poll_output(), None);
    assert_eq!(world.promised(), before);
}
