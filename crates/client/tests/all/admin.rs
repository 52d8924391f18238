//! What concerns the server as a whole.

use std::time::Duration;

use crate::common::{Fake, PATIENCE};
use cellgate::{
    Admin, Change, Connection, Error, Indication, MessageKind, PingFlow, Refused, Resource,
};

#[test]
fn permanent_connections_are_added_changed_taken_and_deleted() {
    let fake = Fake::start();
    let mut admin = Admin::at(fake.path()).unwrap();
    let builder = fake.builder("a.0.7", "CBR,aal5:max_sdu=100,pcr=1000");
    assert_eq!(
        admin.add(&builder).unwrap(),
        "cbr,aal5:pcr=1000,max_sdu=100"
    );
    admin.set("a.0.7", "cbr,aal5:pcr=2000,max_sdu=100").unwrap();
    let taken = Connection::builder()
        .socket(fake.path())
        .address("a.0.7")
        .take()
        .unwrap();
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
    let fake = Fake::start();
    let open: Vec<_> = (100..105)
        .map(|vci| fake.open(&format!("a.0.{vci}"), "cbr,aal5:pcr=1000,max_sdu=100"))
        .collect();
    let mut admin = Admin::at(fake.path()).unwrap();
    let listed: Vec<_> = admin
        .list()
        .unwrap()
        .into_iter()
        .map(|info| info.address)
        .collect();
    let opened: Vec<_> = open.iter().map(Connection::address).collect();
    assert_eq!(listed, opened);
    assert_eq!(open[4].info().unwrap().address, opened[4]);
}

#[test]
fn the_server_is_asked_for_all_it_knows() {
    let fake = Fake::start();
    let mut admin = Admin::at(fake.path()).unwrap();
    assert_eq!(admin.server().notes, ["no real-time classes"]);
    assert_eq!(admin.adapters().unwrap()[0].gaps, 2);
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
    assert_eq!(admin.counters().unwrap().len, 4096);
    let settings = admin.settings().unwrap();
    let users: Vec<_> = settings.users.iter().map(|user| user.uid).collect();
    assert_eq!((users, settings.next), (vec![0, 1, 2], None));
    assert_eq!(settings.reserves.len(), 1);
    let spec = admin.interfaces().unwrap().remove(0).spec;
    admin.add_interface(spec.clone()).unwrap();
    let other = cellgate::InterfaceSpec {
        name: "c".to_owned(),
        ..spec
    };
    let refused = admin.add_interface(other).unwrap_err();
    assert!(matches!(refused, Error::Refused(Refused::NotPermitted)));
    admin.remove_interface("a").unwrap();
    assert!(admin.remove_interface("c").is_err());
    let address = "a.0.5".parse().unwrap();
    let round_trip = admin.ping(&address, PingFlow::F5EndToEnd, Duration::from_secs(1));
    assert_eq!(round_trip.unwrap(), Duration::from_millis(500));
}

#[test]
fn a_monitor_tells_changes_until_the_server_hangs_up() {
    let fake = Fake::start();
    let mut monitor = Admin::at(fake.path()).unwrap().monitor().unwrap();
    let Some(Ok(Indication::Interface { change, info })) = monitor.next() else {
        panic!("no change was told");
    };
    assert_eq!((change, info.spec.name.as_str()), (Change::Added, "a"));
    assert!(monitor.try_next().unwrap().is_none());
    fake.tell(Indication::Restarted);
    fake.hang_up();
    assert!(matches!(monitor.next(), Some(Ok(Indication::Restarted))));
    assert!(monitor.next().is_none());
    assert!(monitor.next().is_none());
}
