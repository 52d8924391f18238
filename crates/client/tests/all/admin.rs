//! What concerns the server as a whole.

use std::time::Duration;

use crate::common::{Daemon, PATIENCE};
use cellgate::{
    Admin, Change, Connection, Error, HeaderForm, Indication, InterfaceSpec, Link, MessageKind,
    PingFlow, Priority, Refused, Resource,
};

#[test]
fn permanent_connections_are_added_changed_taken_and_deleted() {
    let daemon = Daemon::start();
    let mut admin = daemon.admin();
    let builder = daemon.builder("a.0.7", "CBR,aal5:max_sdu=100,pcr=1000");
    assert_eq!(
        admin.add(&builder).unwrap(),
        "cbr,aal5:pcr=1000,max_sdu=100"
    );
    admin.set("a.0.7", "cbr,aal5:pcr=2000,max_sdu=100").unwrap();
    let taken = daemon.builder("a.0.7", "").take().unwrap();
    assert_eq!(taken.contract(), "cbr,aal5:pcr=2000,max_sdu=100");
    taken.send(b"taken").unwrap();
    taken.flush(PATIENCE).unwrap();
    admin.delete("a.0.7").unwrap();
    let gone = admin.delete("a.0.7").unwrap_err();
    assert!(matches!(gone, Error::Refused(Refused::NotFound)), "{gone}");
    assert!(matches!(admin.set("x", "ubr"), Err(Error::Address(_))));
}

#[test]
fn lists_come_page_by_page() {
    let daemon = Daemon::start();
    // More than twice what one page holds.
    let open: Vec<_> = (100..140)
        .map(|vci| daemon.open(&format!("a.0.{vci}"), "cbr,aal5:pcr=1000,max_sdu=100"))
        .collect();
    let mut admin = daemon.admin();
    let listed: Vec<_> = admin
        .list()
        .unwrap()
        .into_iter()
        .map(|info| info.address)
        .collect();
    let opened: Vec<_> = open.iter().map(Connection::address).collect();
    assert_eq!(listed, opened);
    assert_eq!(open[39].info().unwrap().address, opened[39]);
}

#[test]
fn settings_come_page_by_page() {
    let users = |connections| {
        (70_000..70_040).map(move |uid| format!("[quota.{uid}]\nconnections = {connections}\n"))
    };
    let reserve = "[[reserve]]\ninterface = \"a\"\nvci = \"40-49\"\n";
    let more: String = users(5).chain([reserve.to_owned()]).collect();
    let daemon = Daemon::start_with("", &more);
    let settings = daemon.admin().settings().unwrap();
    let users: Vec<_> = settings.users.iter().map(|user| user.uid).collect();
    assert_eq!(users, Vec::from_iter(70_000..70_040));
    assert_eq!((settings.reserves.len(), settings.next), (1, None));
    assert_eq!(settings.admission.best_effort_percent, 20);
}

/// An interface that receives what it sends.
fn own_peer(name: &str) -> InterfaceSpec {
    InterfaceSpec {
        name: name.to_owned(),
        adapter: None,
        link: Link::peer(name),
        form: HeaderForm::Nni,
        priority: Priority::Normal,
        line_rate: None,
        line: None,
    }
}

#[test]
fn the_server_is_asked_for_all_it_knows() {
    let daemon = Daemon::start();
    let mut admin = daemon.admin();
    assert_eq!(admin.server().pid, daemon.pid().as_raw_pid() as u32);
    assert!(admin.server().server.starts_with("cellgate "));
    let adapters = admin.adapters().unwrap();
    assert_eq!((adapters.len(), &adapters[0].name), (1, &None));
    assert_eq!(
        admin.resources().unwrap()[0].resource,
        Resource::TransmitBandwidth
    );
    let described = admin.describe().unwrap();
    let of = |kind, name| {
        let mut all = described.iter();
        all.find(|one| one.kind == kind && one.name == name)
            .unwrap()
    };
    let opened = of(MessageKind::Confirm, "opened");
    assert!(opened.example.starts_with(r#"{"confirm":"#));
    assert_eq!(opened.descriptors.len(), 7);
    assert!(of(MessageKind::Request, "open").descriptors.is_empty());
    admin.counters().unwrap().map().unwrap();
}

#[test]
fn interfaces_are_added_listed_and_removed() {
    let daemon = Daemon::start();
    let mut admin = daemon.admin();
    let names = |admin: &mut Admin| {
        let all = admin.interfaces().unwrap().into_iter();
        all.map(|info| info.spec.name).collect::<Vec<_>>()
    };
    admin.add_interface(own_peer("c")).unwrap();
    assert_eq!(names(&mut admin), ["a", "b", "c"]);
    let refused = admin.add_interface(own_peer("c")).unwrap_err();
    assert!(matches!(refused, Error::Refused(Refused::Interface(_))));
    admin.remove_interface("c").unwrap();
    let gone = admin.remove_interface("c").unwrap_err();
    assert!(matches!(gone, Error::Refused(Refused::NoInterface)));
    assert_eq!(names(&mut admin), ["a", "b"]);
}

#[test]
fn a_ping_comes_back_where_the_connection_ends() {
    let daemon = Daemon::start();
    let mut admin = daemon.admin();
    let contract = "cbr,aal5:pcr=1000,max_sdu=100";
    let (a, _b) = daemon.pair(contract);
    let mut ping = |timeout| admin.ping(&a.address(), PingFlow::F5EndToEnd, timeout);
    let round_trip = ping(Duration::from_secs(10)).unwrap();
    assert!(round_trip > Duration::ZERO && round_trip < Duration::from_secs(10));
    drop(_b);
    let lost = ping(Duration::from_millis(20)).unwrap_err();
    assert!(matches!(lost, Error::Refused(_)), "{lost}");
}

#[test]
fn a_monitor_tells_changes_until_the_server_hangs_up() {
    let mut daemon = Daemon::start();
    let mut admin = daemon.admin();
    let mut monitor = daemon.admin().monitor().unwrap();
    admin.add_interface(own_peer("c")).unwrap();
    let told = monitor.next();
    let Some(Ok(Indication::Interface { change, info })) = told else {
        panic!("no change was told: {told:?}");
    };
    assert_eq!((change, info.spec.name.as_str()), (Change::Added, "c"));
    assert!(monitor.try_next().unwrap().is_none());
    let a = daemon.open("a.0.100", "ubr,aal5");
    let told = monitor.next();
    let Some(Ok(Indication::Connection { change, info })) = told else {
        panic!("no change was told: {told:?}");
    };
    assert_eq!((change, info.address), (Change::Added, a.address()));
    daemon.end();
    let last = std::iter::from_fn(|| monitor.next()).last();
    let ended = Indication::Ended(cellgate::EndReason::ShuttingDown);
    assert_eq!(last.unwrap().unwrap(), ended);
    assert!(monitor.next().is_none());
}
