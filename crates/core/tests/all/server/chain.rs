//! Connections that receive into the transmit buffers of others.

use cellgate_core::adapter::VcId;
use cellgate_core::server::{
    ClientId, Confirm, EndReason, Indication, Open, Refused, Request, Resource,
};

use super::world::{ROOT, World, address, config, open, user};

const OUT: &str = "cbr:tx:pcr=1000,max_sdu=1500,rx:none";
const IN: &str = "cbr:tx:none,rx:pcr=1000,max_sdu=1500";
/// PDUs of room in what is sent from: enough to receive there.
const ROOM: u32 = 400;

/// A request for a connection at `vci` that receives into the one at `into`.
fn into(vci: u16, contract: &str, into: u16) -> Open {
    Open {
        receive_into: Some(address(into)),
        ..open(vci, contract)
    }
}

/// A user's connection at 100 that sends, and its VC at the adapter.
fn with_room(contract: &str) -> (World, ClientId, VcId) {
    let (mut world, _) = World::with_wan(config());
    let client = world.hello(user(1));
    let asked = Open {
        transmit_pdus: Some(ROOM),
        ..open(100, contract)
    };
    let opened = world.done(client, Request::Open(asked));
    assert!(matches!(opened, Ok(Confirm::Opened(_))), "{opened:?}");
    let vc = *world.adapter.vcs.keys().next().expect("it is open");
    (world, client, vc)
}

/// A new socket of the user asks for it, with a capability.
fn ask(world: &mut World, asked: Open, capability: Option<VcId>) -> Result<Confirm, Refused> {
    let client = world.hello(user(1));
    let id = world.send_with(client, Request::Open(asked), capability);
    world.finish();
    world.confirmed(client, id)
}

fn memory(world: &mut World) -> u64 {
    let root = world.hello(ROOT);
    let all = world.resources(root);
    let memory = all.iter().find(|one| one.resource == Resource::Memory);
    memory.map_or(0, |one| one.reserved)
}

#[test]
fn what_is_received_into_is_charged_once_and_ends_before_the_buffer_goes() {
    let (mut world, sender, room) = with_room(OUT);
    let before = memory(&mut world);
    let asked = Open {
        receive_pdus: Some(ROOM),
        ..open(102, IN)
    };
    let opened = ask(&mut world, asked, None);
    assert!(matches!(opened, Ok(Confirm::Opened(_))), "{opened:?}");
    let own = memory(&mut world) - before;

    let reader = world.hello(user(1));
    let asked = Request::Open(into(101, IN, 100));
    let id = world.send_with(reader, asked, Some(room));
    world.finish();
    assert!(matches!(
        world.confirmed(reader, id),
        Ok(Confirm::Opened(_))
    ));
    let first = world.adapter.vcs.values().find(|kept| kept.into.is_some());
    let first = first.expect("it has the other's buffer");
    assert_eq!(first.into, Some(room));
    assert!(first.sizes.receive_elsewhere);
    // It has a queue alone; who has as much room of its own has the PDUs beside.
    let joined = memory(&mut world) - before - own;
    let pdus = u64::from(ROOM) * 1_500;
    assert!(joined + pdus <= own, "{joined} of {own}");

    // The adapter stops whoever closes the buffer first.
    let closed = world.done(sender, Request::Close);
    assert!(matches!(closed, Ok(Confirm::Closed { .. })), "{closed:?}");
    world.finish();
    let told = world.indications(reader);
    let gone = Indication::Ended(EndReason::BufferGone);
    assert!(told.iter().any(|(_, one)| *one == gone), "{told:?}");
    assert!(world.adapter.vcs.values().all(|kept| kept.into.is_none()));
    assert_eq!(memory(&mut world), own);
}

#[test]
fn a_chain_that_cannot_be_is_refused_by_name() {
    let (mut world, _, room) = with_room(OUT);
    let cases = [
        (into(100, IN, 100), "it is the connection itself"),
        (into(101, IN, 105), "this user has no such connection"),
        (into(101, OUT, 100), "the contract receives nothing"),
        (
            into(101, "cbr,aal34:tx:none,rx:pcr=1000,max_sdu=1500", 100),
            "it has another adaptation layer; aal5 would do",
        ),
        (
            into(101, "cbr:tx:none,rx:pcr=1000,max_sdu=1501", 100),
            "max_sdu=1500 would do",
        ),
        (
            into(101, "cbr:tx:none,rx:pcr=100000,max_sdu=1500,dvt=9s", 100),
            "would do there",
        ),
    ];
    for (asked, why) in cases {
        let refused = ask(&mut world, asked.clone(), Some(room)).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains(why), "{asked:?}: {text}");
    }
    // Whoever names it shows that it has it.
    let without = ask(&mut world, into(101, IN, 100), None).unwrap_err();
    assert!(without.to_string().contains("is missing"), "{without}");
    let other = VcId {
        generation: room.generation + 1,
        ..room
    };
    let others = ask(&mut world, into(101, IN, 100), Some(other)).unwrap_err();
    assert!(matches!(others, Refused::Descriptors(_)), "{others}");
    // One receives there.
    let first = ask(&mut world, into(101, IN, 100), Some(room));
    assert!(matches!(first, Ok(Confirm::Opened(_))), "{first:?}");
    let second = ask(&mut world, into(102, IN, 100), Some(room)).unwrap_err();
    assert!(
        second.to_string().contains("receives there already"),
        "{second}"
    );
}

#[test]
fn a_connection_that_sends_nothing_has_no_room_for_others() {
    let (mut world, _, vc) = with_room("cbr:tx:none,rx:pcr=1000,max_sdu=1500");
    let refused = ask(&mut world, into(101, IN, 100), Some(vc)).unwrap_err();
    assert!(
        refused.to_string().contains("it sends nothing"),
        "{refused}"
    );
}
