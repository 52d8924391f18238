//! Many connections of one control socket.

use std::collections::BTreeSet;

use cellgate_core::adapter::AttachmentIndex;
use cellgate_core::server::{
    CONNECTIONS_PER_SOCKET, ClientId, Confirm, Crowd, EndReason, FromServer, Indication, Refused,
    Request, Response,
};

use super::world::{ROOT, World, address, config, open, user};

const CBR: &str = "cbr:pcr=1000,max_sdu=1500";
const SMALL: &str = "cbr:pcr=1,max_sdu=40";

/// Asks about the connection that the client calls so.
fn about(
    world: &mut World,
    client: ClientId,
    connection: u32,
    request: Request,
) -> Result<Confirm, Refused> {
    world.naming = connection;
    world.done(client, request)
}

/// A client with connections 1, 2 and 3 at VCIs 101 to 103.
fn with_three() -> (World, ClientId) {
    let (mut world, _) = World::with_wan(config());
    let client = world.hello(user(1));
    for number in 1..=3 {
        let opened = about(&mut world, client, number, at(number, CBR));
        assert!(matches!(opened, Ok(Confirm::Opened(_))), "{opened:?}");
    }
    (world, client)
}

fn at(number: u32, contract: &str) -> Request {
    Request::Open(open(100 + number as u16, contract))
}

fn modify() -> Request {
    Request::Modify {
        contract: "cbr:pcr=900,max_sdu=1500".to_owned(),
    }
}

/// The attachments at which the adapter's VCs are.
fn lived_in(world: &World) -> BTreeSet<AttachmentIndex> {
    let vcs = world.adapter.vcs.values();
    vcs.map(|kept| kept.request.attachment).collect()
}

/// The Indications that a client has heard, with the connections that they name.
fn told(world: &mut World, client: ClientId) -> Vec<(u32, Indication)> {
    let heard = world.heard.remove(&client).unwrap_or_default();
    let told = heard.into_iter().filter_map(|(message, _)| match message {
        FromServer::Indication {
            connection,
            indication,
            ..
        } => Some((connection, indication)),
        FromServer::Confirm { .. } => None,
    });
    told.collect()
}

#[test]
fn connections_of_a_socket_have_one_attachment_in_common_which_goes_with_the_last() {
    let (mut world, client) = with_three();
    assert_eq!(world.adapter.vcs.len(), 3);
    assert_eq!(lived_in(&world).len(), 1);
    assert_eq!(world.adapter.kept.len(), 1);
    for number in [2, 1, 3] {
        assert_eq!(lived_in(&world).len(), 1);
        let closed = about(&mut world, client, number, Request::Close);
        assert!(matches!(closed, Ok(Confirm::Closed { .. })), "{closed:?}");
    }
    assert!(world.adapter.vcs.is_empty() && world.adapter.attachments.is_empty());
    let opened = about(&mut world, client, 2, at(2, CBR));
    assert!(matches!(opened, Ok(Confirm::Opened(_))), "{opened:?}");
    world.hang_up(client);
    world.finish();
    assert!(world.adapter.vcs.is_empty() && world.adapter.attachments.is_empty());
}

#[test]
fn a_number_is_given_once_and_an_unknown_one_is_refused() {
    let (mut world, client) = with_three();
    let twice = about(&mut world, client, 2, at(9, CBR));
    assert_eq!(twice, Err(Refused::Occupied));
    for request in [modify(), Request::Close] {
        let unknown = about(&mut world, client, 4, request);
        assert_eq!(unknown, Err(Refused::NoConnection));
    }
    // Another's numbers are its own.
    let other = world.hello(user(1));
    for request in [modify(), Request::Close] {
        let others = about(&mut world, other, 2, request);
        assert_eq!(others, Err(Refused::NoConnection));
    }
    let own = about(&mut world, other, 2, at(4, CBR));
    assert!(matches!(own, Ok(Confirm::Opened(_))), "{own:?}");
    assert_eq!(lived_in(&world).len(), 2);
    assert!(about(&mut world, client, 2, modify()).is_ok());
}

#[test]
fn a_socket_has_so_many_connections_and_no_more() {
    let mut config = config();
    config.admission.quota.connections = CONNECTIONS_PER_SOCKET + 1;
    config.admission.adapters[0].connections = CONNECTIONS_PER_SOCKET + 1;
    let (mut world, _) = World::with_wan(config);
    let client = world.hello(user(1));
    for number in 1..=CONNECTIONS_PER_SOCKET {
        let opened = about(&mut world, client, number, at(number, SMALL));
        assert!(matches!(opened, Ok(Confirm::Opened(_))), "{opened:?}");
    }
    let next = CONNECTIONS_PER_SOCKET + 1;
    let full = about(&mut world, client, next, at(next, SMALL)).unwrap_err();
    let of = Crowd::ConnectionsOfSocket;
    assert!(
        matches!(&full, Refused::Full { of: crowd, most, .. }
            if (*crowd, *most) == (of, CONNECTIONS_PER_SOCKET)),
        "{full}"
    );
    assert!(
        full.to_string().contains("open more on another socket"),
        "{full}"
    );
    about(&mut world, client, 1, Request::Close).unwrap();
    let opened = about(&mut world, client, next, at(next, SMALL));
    assert!(matches!(opened, Ok(Confirm::Opened(_))), "{opened:?}");
}

#[test]
fn what_ends_or_is_refused_leaves_the_others_as_they_are() {
    let (mut world, client) = with_three();
    let before: Vec<_> = world.adapter.vcs.keys().copied().collect();
    let huge = about(&mut world, client, 4, at(4, "cbr:pcr=9999999,max_sdu=1500"));
    assert!(matches!(huge, Err(Refused::Admission(_))), "{huge:?}");
    assert!(world.adapter.vcs.keys().eq(&before));
    // One is taken over by another socket.
    let (vc, kept) = world.adapter.vcs.iter().nth(1).unwrap();
    let (vc, address) = (*vc, kept.record.address.clone());
    let other = world.hello(user(1));
    world.naming = 5;
    world.send_with(other, Request::Reattach { address }, Some(vc));
    world.finish();
    let ended = (2, Indication::Ended(EndReason::TakenOver));
    assert_eq!(told(&mut world, client), [ended]);
    assert_eq!(lived_in(&world).len(), 2);
    let gone = about(&mut world, client, 2, modify());
    assert_eq!(gone, Err(Refused::NoConnection));
    for (client, number) in [(client, 1), (client, 3), (other, 5)] {
        assert!(about(&mut world, client, number, modify()).is_ok());
    }
}

#[test]
fn a_permanent_connection_joins_those_of_a_socket_and_is_given_back_alone() {
    let (mut world, client) = with_three();
    let root = world.hello(ROOT);
    about(&mut world, root, 0, Request::Add(open(110, CBR))).unwrap();
    let opened = about(&mut world, root, 3, at(11, CBR));
    assert!(matches!(opened, Ok(Confirm::Opened(_))), "{opened:?}");
    let address = address(110);
    let taken = about(&mut world, root, 4, Request::Take { address });
    assert!(matches!(taken, Ok(Confirm::Opened(_))), "{taken:?}");
    // The client's, root's, and the server's own, which is empty.
    assert_eq!(
        (lived_in(&world).len(), world.adapter.attachments.len()),
        (2, 3)
    );
    let closed = about(&mut world, root, 4, Request::Close);
    assert!(matches!(closed, Ok(Confirm::Closed { .. })), "{closed:?}");
    assert_eq!(lived_in(&world).len(), 3);
    assert!(about(&mut world, root, 3, modify()).is_ok());
    assert!(about(&mut world, client, 3, modify()).is_ok());
}

#[test]
fn a_new_adapter_gets_all_connections_of_a_socket_at_one_attachment() {
    let (mut world, client) = with_three();
    world.lose_adapter();
    world.find_adapter();
    world.finish();
    assert_eq!((world.adapter.vcs.len(), lived_in(&world).len()), (3, 1));
    let reopened = told(&mut world, client);
    let numbers: Vec<_> = reopened.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let is_reopened = |(_, told): &(_, _)| matches!(told, Indication::Reopened(_));
    assert!(reopened.iter().all(is_reopened), "{reopened:?}");
}

#[test]
fn a_new_server_knows_each_connection_of_a_socket_by_its_number() {
    let (mut world, client) = with_three();
    // A Close is carried out, and the server dies before it hears so.
    world.naming = 2;
    world.send(client, Request::Close);
    world.naming = 4;
    world.send(client, at(4, CBR));
    world.restart(1);
    assert_eq!(world.adapter.vcs.len(), 2);
    assert_eq!(told(&mut world, client), [(0, Indication::Restarted)]);
    world.send_again();
    world.finish();
    let heard = world.heard.remove(&client).unwrap_or_default();
    let confirmed = heard.into_iter().filter_map(|(message, _)| match message {
        FromServer::Confirm {
            connection, result, ..
        } => Some((connection, result)),
        FromServer::Indication { .. } => None,
    });
    let confirmed: Vec<_> = confirmed.collect();
    let [(2, Ok(Confirm::Closed { .. })), (4, Ok(Confirm::Opened(_)))] = &confirmed[..] else {
        panic!("{confirmed:?}");
    };
    for number in [1, 3, 4] {
        assert!(about(&mut world, client, number, modify()).is_ok());
    }
    assert_eq!((world.adapter.vcs.len(), lived_in(&world).len()), (3, 1));
}

#[test]
fn who_is_told_of_no_new_memory_is_told_of_its_end_by_number() {
    let (mut world, client) = with_three();
    world.lose_adapter();
    world.find_adapter();
    // The first is open again, and the server dies.
    while world.adapter.vcs.is_empty() {
        world.answer(0);
    }
    world.heard.remove(&client);
    world.restart(0);
    world.finish();
    let told = told(&mut world, client);
    let ended = |number| (number, Indication::Ended(EndReason::NotReopened));
    assert_eq!(told[0], (0, Indication::Restarted));
    let is_reopened = |(_, told): &&(u32, _)| matches!(told, Indication::Reopened(_));
    let reopened: Vec<_> = told.iter().filter(is_reopened).map(|one| one.0).collect();
    assert_eq!(reopened, [1]);
    assert!(
        told.contains(&ended(2)) && told.contains(&ended(3)),
        "{told:?}"
    );
    assert!(about(&mut world, client, 1, modify()).is_ok());
}

#[test]
fn an_offer_is_answered_for_the_connection_that_it_names() {
    let (mut world, client) = with_three();
    let half = "cbr:pcr=200000,max_sdu=1500";
    let other = world.opened(user(2), 120, half);
    let more = Request::Modify {
        contract: half.to_owned(),
    };
    let refused = about(&mut world, client, 3, more);
    assert!(matches!(refused, Err(Refused::Admission(_))), "{refused:?}");
    world.hang_up(other);
    world.finish();
    let (id, number) = world.offer(client).expect("an offer");
    assert_eq!(number, 3);
    // Not to another's.
    world.naming = 1;
    world.respond(client, id, Response::Decline);
    world.naming = 3;
    world.respond(client, id, Response::Accept);
    world.finish();
    let list = world.list(client);
    let of = |vci| {
        list.iter()
            .find(|info| info.address == address(vci))
            .unwrap()
    };
    assert_eq!(of(103).contract, half);
    assert_ne!(of(101).contract, half);
}
