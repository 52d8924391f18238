//! Some addresses are for governors, and for whom the configuration names.

use cellgate_core::server::{ClientId, Confirm, Open, Refused, Request, Reserve, ServerConfig};

use super::world::{ROOT, SERVER_UID, World, config, open, user};

/// 0.40 to 1.49 of `wan` are for user 11 and group 70, 0.5 of each interface for user 12.
fn reserving() -> ServerConfig {
    let mut config = config();
    config.reserves = vec![
        Reserve {
            interface: Some("wan".to_owned()),
            vpi: "0-1".parse().unwrap(),
            vci: "40-49".parse().unwrap(),
            users: vec![11],
            groups: vec![70],
        },
        Reserve {
            vpi: "0".parse().unwrap(),
            vci: "5".parse().unwrap(),
            users: vec![12],
            ..Reserve::default()
        },
    ];
    config
}

fn at(address: &str) -> Open {
    Open {
        address: address.parse().expect("an address"),
        ..open(32, "ubr:max_sdu=40")
    }
}

fn ask(world: &mut World, client: ClientId, address: &str) -> Result<Confirm, Refused> {
    world.done(client, Request::Open(at(address)))
}

fn close(world: &mut World, client: ClientId) {
    world.done(client, Request::Close).expect("it closes");
}

#[test]
fn vcis_below_32_are_for_governors_on_every_path() {
    let (mut world, _) = World::with_wan(config());
    let somebody = world.hello(user(11));
    let refused = Refused::Reserved {
        users: vec![0, SERVER_UID],
        groups: Vec::new(),
    };
    for address in [
        "wan.0.1", "wan.0.3", "wan.0.4", "0.5", "0.16", "wan.0.31", "7.4", "4095.3",
    ] {
        let opened = ask(&mut world, somebody, address);
        assert_eq!(opened, Err(refused.clone()), "{address}");
        let added = world.done(somebody, Request::Add(at(address)));
        assert_eq!(added, Err(refused.clone()), "{address}");
    }
    assert!(
        refused
            .to_string()
            .contains("only root, user 900 may open it")
    );
    for address in ["0.32", "7.32", "7.65535"] {
        assert!(ask(&mut world, somebody, address).is_ok(), "{address}");
        close(&mut world, somebody);
    }
    for peer in [ROOT, user(SERVER_UID)] {
        let governor = world.hello(peer);
        for address in ["0.5", "7.4"] {
            assert!(ask(&mut world, governor, address).is_ok(), "{address}");
            close(&mut world, governor);
        }
    }
}

#[test]
fn what_is_reserved_is_for_those_named_and_each_that_names_them_counts() {
    let (mut world, _) = World::with_wan(reserving());
    let [eleven, twelve, member, stranger] = [11, 12, 13, 14].map(|uid| world.hello(user(uid)));
    world.server.handle_groups(member, vec![70]);
    world.server.handle_groups(stranger, vec![71]);
    for (client, address, may) in [
        (eleven, "wan.0.40", true),
        (eleven, "wan.1.49", true),
        (eleven, "wan.0.5", false),
        (eleven, "wan.1.5", false),
        (twelve, "wan.0.5", true),
        (twelve, "wan.1.5", false),
        (twelve, "wan.0.40", false),
        (member, "wan.0.40", true),
        (member, "wan.0.5", false),
        (stranger, "wan.0.40", false),
        (stranger, "wan.0.49", false),
        (stranger, "wan.0.50", true),
        (stranger, "wan.2.40", true),
    ] {
        let opened = ask(&mut world, client, address);
        assert_eq!(opened.is_ok(), may, "{client:?} {address}: {opened:?}");
        match opened {
            Ok(_) => close(&mut world, client),
            Err(refused) => assert!(matches!(refused, Refused::Reserved { .. }), "{refused}"),
        }
    }
    assert_eq!(
        ask(&mut world, stranger, "wan.0.40"),
        Err(Refused::Reserved {
            users: vec![0, 11, SERVER_UID],
            groups: vec![70],
        })
    );
}

#[test]
fn what_is_open_stays_open_when_it_is_reserved() {
    let (mut world, _) = World::with_wan(config());
    let somebody = world.hello(user(14));
    assert!(ask(&mut world, somebody, "wan.0.40").is_ok());
    let now = world.now;
    world.config = reserving();
    world.server.handle_config(now, reserving());
    world.drain();
    let modify = Request::Modify {
        contract: "ubr:max_sdu=40,tx:min_pcr=5".to_owned(),
    };
    assert!(world.done(somebody, modify).is_ok());
    world.restart(0);
    world.send_again();
    world.finish();
    let probe = world.hello(ROOT);
    assert_eq!(world.list(probe).len(), 1, "a successor takes it up");
    world.lose_adapter();
    world.find_adapter();
    world.finish();
    assert_eq!(world.list(probe).len(), 1, "it is opened again");
    close(&mut world, somebody);
    assert!(ask(&mut world, somebody, "wan.0.40").is_err());
}
