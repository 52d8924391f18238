//! A user whose programs take pages of their connections' memory away again and again has no
//! connections for a while.

use cellgate_core::adapter::VcId;
use cellgate_core::server::{
    ClientId, Confirm, EndReason, Indication, PagesOf, Refused, Request, Server,
};

use super::world::{FIRST, ROOT, World, address, config, open, user};

const CBR: &str = "cbr:pcr=10000,max_sdu=1500";
const MS: u64 = 1_000_000;

/// The VC of the connection at `vci`, and its attachment.
fn memory_at(world: &World, vci: u16) -> [PagesOf; 2] {
    let vc = address(vci).vc;
    let mut vcs = world.adapter.vcs.iter();
    let found: (&VcId, _) = vcs.find(|(_, of)| of.request.address == vc).unwrap();
    [
        PagesOf::Vc(*found.0),
        PagesOf::Attachment(found.1.request.attachment),
    ]
}

fn find(world: &mut World, gone: &[(PagesOf, u32)]) {
    world.server.handle_pages_taken(world.now, FIRST, gone);
    world.drain();
    world.finish();
}

fn ended(world: &mut World, client: ClientId) -> bool {
    let end = Indication::Ended(EndReason::PagesTaken);
    let told = world.indications(client).contains(&(0, end));
    assert_eq!(told, world.hung_up.contains(&client));
    told
}

fn seconds(refused: Result<Confirm, Refused>) -> u32 {
    match refused {
        Err(Refused::PagesTaken { seconds }) => seconds,
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_takes_pages_away_again_and_again_has_no_connections_for_a_while() {
    let (mut world, _) = World::with_wan(config());
    let before = world.promised();
    let (bad, good) = (user(1_001), user(1_002));
    let honest = world.opened(good, 200, CBR);
    for (doubled, seconds_barred) in [10, 20, 40, 80, 160, 320, 640, 640].into_iter().enumerate() {
        let taker = world.opened(bad, 100, CBR);
        let beside = world.opened(bad, 101, CBR);
        let [vc, attachment] = memory_at(&world, 100);
        let [_, other] = memory_at(&world, 101);
        let [honest_vc, _] = memory_at(&world, 200);
        // In its attachment or its VC: it is all the same, and so is which of its connections.
        find(&mut world, &[(vc, 20)]);
        find(&mut world, &[(attachment, 1), (other, 1)]);
        assert!(!ended(&mut world, taker) && !ended(&mut world, beside));
        find(&mut world, &[(vc, 1), (honest_vc, 3)]);
        find(&mut world, &[(attachment, 1)]);
        assert!(ended(&mut world, taker), "{doubled}");
        // Each is ended for its own pages; what was found before counts for all.
        assert!(!ended(&mut world, beside));
        find(&mut world, &[(other, 1)]);
        assert!(ended(&mut world, beside));
        let waiting = world.hello(bad);
        assert_eq!(seconds(world.open(waiting, 100, CBR)), seconds_barred);
        world.wait(u64::from(seconds_barred) * 1_000 * MS - 1);
        assert_eq!(seconds(world.open(waiting, 100, CBR)), 1);
        world.wait(1);
        assert!(world.open(waiting, 100, CBR).is_ok());
        world.hang_up(waiting);
        world.finish();
        assert!(!ended(&mut world, honest));
    }
    world.hang_up(honest);
    world.finish();
    assert_eq!(world.promised(), before, "nothing is left of it");
}

#[test]
fn a_page_now_and_then_costs_nobody_a_connection() {
    let (mut world, _) = World::with_wan(config());
    let client = world.opened(user(1_001), 100, CBR);
    let [vc, _] = memory_at(&world, 100);
    for _ in 0..10_000 {
        find(&mut world, &[(vc, 1)]);
        world.wait(4_000 * MS);
    }
    find(&mut world, &[(vc, 48)]);
    assert!(!ended(&mut world, client));
    find(&mut world, &[(vc, 17)]);
    assert!(ended(&mut world, client));
}

#[test]
fn a_permanent_connection_is_given_back_with_other_memory() {
    let (mut world, root) = World::with_wan(config());
    let added = world.done(root, Request::Add(open(100, CBR)));
    assert!(matches!(added, Ok(Confirm::Added { .. })), "{added:?}");
    let client = world.hello(ROOT);
    let address = address(100);
    let take = |address| Request::Take { address };
    assert!(world.done(client, take(address.clone())).is_ok());
    let [vc, _] = memory_at(&world, 100);
    find(&mut world, &[(vc, 65)]);
    assert!(ended(&mut world, client));
    assert_ne!(memory_at(&world, 100)[0], vc);
    // The old memory is nobody's, and its pages cost nobody anything.
    find(&mut world, &[(vc, 65)]);
    let list = world.list(root);
    assert_eq!(list.len(), 1);
    let again = world.hello(ROOT);
    assert_eq!(seconds(world.done(again, take(address.clone()))), 10);
    world.wait(10_000 * MS);
    assert!(world.done(again, take(address)).is_ok());
}

#[test]
fn a_server_that_knows_no_such_memory_takes_no_notice() {
    let mut server = Server::new(config());
    let vc = PagesOf::Attachment(cellgate_core::adapter::AttachmentIndex(7));
    server.handle_pages_taken(cellgate_core::Time::ZERO, FIRST, &[(vc, u32::MAX)]);
    assert_eq!(server.poll_output(), None);
}
