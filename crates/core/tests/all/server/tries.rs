//! A connection that is only tried: what would be reserved, and that nothing is.

use cellgate_core::server::{
    Bandwidth, ClientId, Confirm, Open, Refused, Request, Resource, Shortage, Tried,
};

use super::world::{LINE, ROOT, World, config, open, user};

fn tries(world: &mut World, client: ClientId, asked: Open) -> Result<Tried, Refused> {
    let before = (world.promised(), world.asks.len());
    let id = world.send(client, Request::Try(asked));
    assert_eq!(before, (world.promised(), world.asks.len()), "a trace");
    match world.confirmed(client, id)? {
        Confirm::Tried(tried) => Ok(*tried),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_tried_is_what_the_list_says_once_it_is_open() {
    let contracts = [
        "cbr,aal5:pcr=10000,max_sdu=1500",
        "vbr,aal5:pcr=40000,scr=10000,mbs=320,max_sdu=8000",
        "cbr,aal34:max_sdu=500,tx:pcr=100,rx:none",
        "ubr,aal5:max_sdu=9180",
        "ubr,aal5:pcr=700,max_sdu=9180",
    ];
    for contract in contracts {
        let (mut world, root) = World::with_wan(config());
        let another = world.opened(user(2), 90, "cbr,aal5:pcr=300,max_sdu=900,tx:cdvt=2ms");
        world.opened(user(2), 91, "ubr");
        let client = world.hello(user(1));
        let tried = tries(&mut world, client, open(100, contract)).expect(contract);
        assert_eq!(tried.address.interface.as_deref(), Some("wan"));
        assert!(!tried.waits, "{contract}");
        let opened = world.open(client, 100, contract);
        assert!(matches!(opened, Ok(Confirm::Opened(_))), "{opened:?}");
        let list = world.list(root);
        let info = list.iter().find(|info| info.address == tried.address);
        let info = info.expect("it is open");
        assert_eq!(tried.contract, info.contract);
        assert_eq!(
            (tried.transmit, tried.receive),
            (info.transmit, info.receive),
            "{contract}"
        );
        assert_eq!(tried.demand.memory, info.memory, "{contract}");
        let ppm = (tried.demand.adapter_ppm, tried.demand.adapter_expected_ppm);
        let shown = (info.cpu_reserved_ppm, info.cpu_expected_ppm);
        assert_eq!(ppm, (shown.0.into(), shown.1.into()), "{contract}");
        assert_eq!(
            (tried.buffers, tried.bound),
            (info.buffers, info.bound),
            "{contract}"
        );
        assert_eq!(tried.keeps_awake, info.keeps_awake);
        world.hang_up(another);
    }
}

#[test]
fn what_does_not_fit_is_refused_with_the_offer_that_does() {
    let (mut world, _root) = World::with_wan(config());
    let client = world.hello(user(1));
    let asked = |rate: u32| open(100, &format!("cbr,aal5:pcr={rate},max_sdu=1500"));
    let Err(Refused::Admission(Shortage {
        resource: Resource::TransmitBandwidth,
        needed: 400_000,
        offer: Some(offer),
        quota: Some(1),
        ..
    })) = tries(&mut world, client, asked(400_000))
    else {
        panic!("more than a quota of 300,000 cells/s");
    };
    let tried = tries(&mut world, client, open(100, &offer)).expect("what is offered fits");
    assert_eq!(tried.contract, offer);
    assert_eq!(
        tried.demand.transmit,
        Bandwidth {
            guaranteed: 300_000,
            best_effort: 0
        }
    );
    // Nothing was wanted: nobody hears that there is more by now.
    world.hang_up(client);
    world.finish();
    let client = world.hello(ROOT);
    let refused = tries(&mut world, client, asked(LINE)).expect_err("best effort keeps 2 %");
    assert!(matches!(refused, Refused::Admission(_)), "{refused:?}");
    world.finish();
    assert_eq!(world.indications(client), []);
}

#[test]
fn whoever_may_not_open_hears_so() {
    let (mut world, _root) = World::with_wan(config());
    let holder = world.opened(user(2), 100, "ubr");
    let client = world.hello(user(1));
    let says = |world: &mut World, vci, contract: &str| {
        tries(world, client, open(vci, contract)).expect_err("it is refused")
    };
    assert_eq!(says(&mut world, 100, "ubr"), Refused::AddressInUse);
    let reserved = says(&mut world, 5, "ubr");
    assert!(matches!(reserved, Refused::Reserved { .. }), "{reserved:?}");
    let contract = says(&mut world, 101, "cbr:max_sdu=9");
    assert!(matches!(contract, Refused::Unsupported(_)), "{contract:?}");
    let contract = says(&mut world, 101, "c");
    assert!(
        matches!(contract, Refused::Contract { at: 0, .. }),
        "{contract:?}"
    );
    // What is being closed can be had: it is waited for.
    world.send(holder, Request::Close);
    let tried = tries(&mut world, client, open(100, "ubr")).expect("as Open, which waits");
    assert!(tried.waits);
    world.lose_adapter();
    assert_eq!(says(&mut world, 101, "ubr"), Refused::AdapterAway);
}
