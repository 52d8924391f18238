//! What is asked, and asked again.

use cellgate_core::adapter::PortIndex;
use cellgate_core::server::{InterfaceCounts, InterfaceSpec, InterfaceState};

use super::*;

/// Ends what the operator asks next, which is `wanted`.
fn ends(operator: &mut Operator, wanted: &Request, result: Result<Confirm, Refused>) {
    let Some(FromClient::Request { id, request, .. }) = operator.next(Time::ZERO) else {
        panic!("{wanted:?} is not asked");
    };
    assert_eq!(request, *wanted);
    assert_eq!(
        operator.hear(FromServer::Confirm {
            connection: 0,
            id,
            result
        }),
        None
    );
}

/// The line that people have.
fn text(told: Option<Event>) -> Option<String> {
    told.map(|event| event.text().to_owned())
}

#[test]
fn what_an_adapter_died_over_is_asked_of_the_next() {
    let text = "[[interface]]\nname = \"a\"\nlink.memory.peer = \"a\"\n";
    let config = Config::parse(text).expect("a configuration");
    let add = Request::AddInterface(config.interfaces[0].clone());
    let mut operator = Operator::new(config);
    operator.begin();
    let version = VERSION;
    ends(
        &mut operator,
        &Request::Hello { version },
        Ok(Confirm::Done),
    );
    for (result, done) in [
        (Err(Refused::AdapterAway), false),
        (Ok(Confirm::Done), true),
    ] {
        let none = Confirm::Interfaces(Vec::new());
        ends(&mut operator, &Request::Interfaces, Ok(none));
        lists_connections(&mut operator);
        ends(&mut operator, &add, result);
        assert_eq!(operator.is_done(), done);
        assert!(operator.next(Time::ZERO).is_none());
        operator.finds_adapter();
    }
    assert!(operator.next(Time::ZERO).is_none());
}

/// Loops of these names; those of `slow` are slower.
fn loops(names: &[&str], slow: &[&str]) -> Config {
    let one = |name: &&str| {
        let rate = match slow.contains(name) {
            true => "line_rate.cell_s = 1000\n",
            false => "",
        };
        format!("[[interface]]\nname = {name:?}\n{rate}link.memory.peer = {name:?}\n")
    };
    let text = names.iter().map(one).collect::<String>();
    Config::parse(&format!("[adapter]\nports = 64\n{text}")).expect("a configuration")
}

fn interfaces(there: &Config) -> Confirm {
    let info = |spec: &InterfaceSpec| InterfaceInfo {
        spec: spec.clone(),
        port: PortIndex(0),
        up: true,
        connections: 0,
        dropped_cells: 0,
        state: InterfaceState::Up,
        counts: InterfaceCounts::default(),
    };
    Confirm::Interfaces(there.interfaces.iter().map(info).collect())
}

/// The operator is told that there are these, and no connection.
fn lists(operator: &mut Operator, there: &Config) {
    ends(operator, &Request::Interfaces, Ok(interfaces(there)));
    lists_connections(operator);
}

fn lists_connections(operator: &mut Operator) {
    let connections = Confirm::Connections {
        connections: Vec::new(),
        next: None,
    };
    ends(operator, &Request::List { from: 0 }, Ok(connections));
}

#[test]
fn what_an_earlier_change_was_to_remove_a_later_one_removes() {
    let first = loops(&["a", "b", "c"], &[]);
    let remove = |name: &str| Request::RemoveInterface {
        name: name.to_owned(),
    };
    for listed in [false, true] {
        let mut operator = Operator::new(first.clone());
        operator.change(loops(&["a", "b"], &[]));
        if listed {
            lists(&mut operator, &first);
        }
        operator.change(loops(&["a"], &[]));
        lists(&mut operator, &first);
        for name in ["b", "c"] {
            ends(&mut operator, &remove(name), Ok(Confirm::Done));
        }
        assert!(operator.is_done(), "{listed}");
    }
}

#[test]
fn what_is_changed_and_changed_back_stays() {
    let (usual, slow) = (loops(&["a"], &[]), loops(&["a"], &["a"]));
    let mut operator = Operator::new(usual.clone());
    operator.change(slow.clone());
    operator.change(usual.clone());
    lists(&mut operator, &usual);
    assert!(operator.is_done());
    // A change that comes while a list is under way.
    operator.change(slow.clone());
    let Some(FromClient::Request { id, .. }) = operator.next(Time::ZERO) else {
        panic!("the interfaces are asked for");
    };
    operator.change(usual.clone());
    let result = Ok(interfaces(&slow));
    operator.hear(FromServer::Confirm {
        connection: 0,
        id,
        result,
    });
    lists_connections(&mut operator);
    let name = "a".to_owned();
    let remove = Request::RemoveInterface { name };
    ends(&mut operator, &remove, Ok(Confirm::Done));
    let add = Request::AddInterface(usual.interfaces[0].clone());
    ends(&mut operator, &add, Ok(Confirm::Done));
    assert!(operator.is_done());
}

fn at_ms(ms: u64) -> Time {
    Time::ZERO.plus_ns(ms * 1_000_000)
}

/// Ends what the operator asks at `ms`; the request, and what it tells of it.
fn answers(
    operator: &mut Operator,
    ms: u64,
    result: Result<Confirm, Refused>,
) -> (Request, Option<String>) {
    let Some(FromClient::Request { id, request, .. }) = operator.next(at_ms(ms)) else {
        panic!("nothing is asked at {ms} ms");
    };
    (
        request,
        text(operator.hear(FromServer::Confirm {
            connection: 0,
            id,
            result,
        })),
    )
}

/// The operator looks at `ms` what there is.
fn looks(operator: &mut Operator, ms: u64, there: &Config) {
    let (asked, told) = answers(operator, ms, Ok(interfaces(there)));
    assert_eq!((asked, told), (Request::Interfaces, None));
    lists_connections(operator);
}

#[test]
fn what_is_refused_is_asked_again_until_it_is_there() {
    let none = Config {
        interfaces: Vec::new(),
        ..Config::default()
    };
    let mut operator = Operator::new(none.clone());
    let config = loops(&["a", "b"], &[]);
    operator.change(config.clone());
    lists(&mut operator, &none);
    let add = |n: usize| Request::AddInterface(loops(&["a", "b"], &[]).interfaces[n].clone());
    let refused = || Err(Refused::Interface("busy".to_owned()));
    let told = Some("interface a: the interface cannot be had: busy".to_owned());
    assert_eq!(answers(&mut operator, 0, refused()), (add(0), told.clone()));
    assert_eq!(answers(&mut operator, 0, Ok(Confirm::Done)), (add(1), None));
    assert!(operator.next(Time::ZERO).is_none());
    assert!(operator.is_done(), "others are served");
    let status = format!("missing: {}", told.clone().unwrap());
    assert_eq!(operator.news(), Some(status));
    assert_eq!(operator.news(), None);
    let mut at = 0;
    for wait in [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
        assert_eq!(operator.next_deadline(), Some(at_ms(at + wait)));
        assert!(operator.next(at_ms(at + wait - 1)).is_none());
        at += wait;
        looks(&mut operator, at, &loops(&["b"], &[]));
        assert_eq!(answers(&mut operator, at, refused()), (add(0), None));
        assert!(operator.next(at_ms(at)).is_none());
        assert_eq!(operator.news(), None);
    }
    // Whoever has the configuration read again hears of it again, and it is asked for soon.
    operator.change(config);
    lists(&mut operator, &loops(&["b"], &[]));
    assert_eq!(answers(&mut operator, at, refused()), (add(0), told));
    assert!(operator.next(at_ms(at)).is_none());
    at += 1_000;
    looks(&mut operator, at, &loops(&["b"], &[]));
    let there = Some("interface a: is there".to_owned());
    assert_eq!(
        answers(&mut operator, at, Ok(Confirm::Done)),
        (add(0), there)
    );
    assert!(operator.next(at_ms(at)).is_none());
    assert_eq!(operator.next_deadline(), None);
    let news = operator.news();
    assert_eq!(news.as_deref(), Some("all of the configuration is there"));
    // What somebody has added by hand is not asked for again.
    operator.change(loops(&["a", "b"], &[]));
    lists(&mut operator, &loops(&["b"], &[]));
    answers(&mut operator, at, refused());
    assert!(operator.next(at_ms(at)).is_none());
    assert!(
        operator
            .news()
            .is_some_and(|news| news.starts_with("missing"))
    );
    at += 1_000;
    looks(&mut operator, at, &loops(&["a", "b"], &[]));
    assert!(operator.next(at_ms(at)).is_none());
    assert_eq!(operator.next_deadline(), None);
    assert!(operator.news().is_some_and(|news| news.starts_with("all")));
    // What is wanted no more is forgotten.
    operator.change(loops(&["a", "b", "c"], &[]));
    lists(&mut operator, &loops(&["a", "b"], &[]));
    answers(&mut operator, at, refused());
    assert!(operator.next(at_ms(at)).is_none());
    operator.change(loops(&["a", "b"], &[]));
    lists(&mut operator, &loops(&["a", "b"], &[]));
    assert!(operator.next(at_ms(at + 60_000)).is_none());
    assert_eq!(
        (operator.next_deadline(), operator.missing.len()),
        (None, 0)
    );
}

/// The loop `a` with permanent connections.
fn with_connections(vcis: &[u16]) -> Config {
    let mut config = loops(&["a"], &[]);
    config.connections = vcis.iter().map(|vci| permanent(*vci)).collect();
    config
}

fn permanent(vci: u16) -> Open {
    let text = format!("address = \"a.0.{vci}\"\ncontract = \"ubr,aal5:max_sdu=1500\"\n");
    let text =
        format!("[[interface]]\nname = \"a\"\nlink.memory.peer = \"a\"\n[[connection]]\n{text}");
    let config = Config::parse(&text).expect("a configuration");
    config.connections[0].clone()
}

/// All that is asked at `ms`; connections are refused so, or added.
fn asked(operator: &mut Operator, ms: u64, refused: Option<&Refused>) -> Vec<Request> {
    let mut asked = Vec::new();
    while let Some(FromClient::Request { id, request, .. }) = operator.next(at_ms(ms)) {
        let result = match &request {
            Request::Interfaces => Ok(interfaces(&loops(&["a"], &[]))),
            Request::List { .. } => Ok(Confirm::Connections {
                connections: Vec::new(),
                next: None,
            }),
            Request::Hello { .. } => Ok(Confirm::Done),
            _ => refused.map_or(Ok(Confirm::Done), |refused| Err(refused.clone())),
        };
        let looks = matches!(request, Request::Interfaces | Request::List { .. });
        if !looks {
            asked.push(request);
        }
        operator.hear(FromServer::Confirm {
            connection: 0,
            id,
            result,
        });
    }
    asked
}

#[test]
fn what_a_new_adapter_refuses_is_asked_again_and_nothing_else() {
    let mut operator = Operator::new(with_connections(&[1, 2]));
    operator.begin();
    assert_eq!(asked(&mut operator, 0, None).len(), 3);
    let (add, why) = (
        [Request::Add(permanent(1))],
        Refused::Kernel("full".to_owned()),
    );
    let address = |vci| permanent(vci).address;
    // By hand.
    assert_eq!(operator.loses(&address(3), &why), None);
    assert_eq!((operator.news(), operator.next_deadline()), (None, None));
    let told = "connection a.0.1: the kernel refused: full";
    assert_eq!(
        text(operator.loses(&address(1), &why)).as_deref(),
        Some(told)
    );
    assert_eq!(operator.loses(&address(1), &why), None);
    assert_eq!(operator.news(), Some(format!("missing: {told}")));
    assert!(operator.is_done());
    // Connection 2, which is not there either, was deleted by hand.
    let mut at = 0;
    assert_eq!(asked(&mut operator, at, None), []);
    for (refused, wait) in [
        (Some(&why), 1_000),
        (Some(&Refused::AdapterAway), 2_000),
        (Some(&why), 4_000),
        (None, 8_000),
    ] {
        assert_eq!(asked(&mut operator, at + wait - 1, None), []);
        at += wait;
        assert_eq!(asked(&mut operator, at, refused), add, "{wait}");
        assert!(operator.is_done());
    }
    assert_eq!(operator.next_deadline(), None);
    let news = operator.news();
    assert_eq!(news.as_deref(), Some("all of the configuration is there"));
    // One more adapter, which dies as well: of the next it is asked soon, and nothing else.
    assert_eq!(
        text(operator.loses(&address(1), &why)).as_deref(),
        Some(told)
    );
    assert_eq!(asked(&mut operator, at, None), []);
    at += 1_000;
    assert_eq!(asked(&mut operator, at, Some(&Refused::AdapterAway)), add);
    operator.finds_adapter();
    assert_eq!(asked(&mut operator, at, None), []);
    at += 1_000;
    assert_eq!(asked(&mut operator, at, None), add);
    // What a reload removes is forgotten.
    assert!(operator.loses(&address(1), &why).is_some());
    operator.change(with_connections(&[]));
    assert_eq!(asked(&mut operator, at + 60_000, None), []);
    assert_eq!(
        (operator.next_deadline(), operator.missing.len()),
        (None, 0)
    );
}

#[test]
fn what_is_lost_while_it_is_listed_is_asked_once() {
    let mut operator = Operator::new(with_connections(&[1]));
    let why = Refused::NoReturn;
    operator.change(with_connections(&[1]));
    let (_, told) = answers(&mut operator, 0, Ok(interfaces(&loops(&["a"], &[]))));
    assert_eq!(told, None);
    assert!(operator.loses(&permanent(1).address, &why).is_some());
    let asked = asked(&mut operator, 0, None);
    assert_eq!(asked, [Request::Add(permanent(1))]);
    assert_eq!(operator.next_deadline(), None);
}

#[test]
fn of_many_that_are_refused_some_are_asked_again_at_a_time() {
    let names: Vec<_> = (0..60).map(|number| format!("a{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut operator = Operator::new(loops(&names, &[]));
    operator.change(loops(&names, &[]));
    operator.queue.clear();
    operator.plan();
    let mut refuse = |ms| {
        let mut count = 0;
        while let Some(FromClient::Request { id, request, .. }) = operator.next(at_ms(ms)) {
            let result = match request {
                Request::Interfaces => Ok(Confirm::Interfaces(Vec::new())),
                Request::List { .. } => Ok(Confirm::Connections {
                    connections: Vec::new(),
                    next: None,
                }),
                _ => Err(Refused::NoConnection),
            };
            count += u32::from(result.is_err());
            operator.hear(FromServer::Confirm {
                connection: 0,
                id,
                result,
            });
        }
        (
            count,
            operator.news().map_or(0, |news| news.len()),
            operator.next_deadline(),
        )
    };
    let (count, status_len, deadline) = refuse(0);
    assert_eq!((count, deadline), (60, Some(at_ms(1_000))));
    assert!(status_len < 500);
    assert_eq!(refuse(1_000), (32, 0, Some(at_ms(1_010))));
    assert_eq!(refuse(1_010), (28, 0, Some(at_ms(3_010))));
}

#[test]
fn what_was_left_out_is_asked_for_as_the_configuration_is_read_again_and_not_before() {
    let mut operator = Operator::new(with_connections(&[1]));
    operator.begin();
    assert_eq!(asked(&mut operator, 0, None).len(), 2);
    let why = Refused::LeftOut { deaths: 4 };
    let told = operator.loses(&permanent(1).address, &why);
    let told = text(told).expect("people hear of it");
    assert!(told.contains("4 adapters"), "{told}");
    assert_eq!(operator.news(), Some(format!("missing: {told}")));
    operator.finds_adapter();
    assert_eq!(asked(&mut operator, 60_000, None), []);
    assert_eq!(operator.next_deadline(), None);
    operator.change(with_connections(&[1]));
    assert_eq!(asked(&mut operator, 61_000, None).len(), 1);
}
