//! Two connections in a chain: what the first receives leaves by the second from where it lies.

use std::time::Duration;

use crate::common::{Daemon, PATIENCE, eventually, hears};
use cellgate::{Builder, Chain, Connection, EndReason, Error, Indication, Refused, Resource};
use cellgate_core::server::ResourceInfo;

const SENDS: &str = "cbr,aal5:tx:pcr=20000,max_sdu=1000,rx:none";
const RECEIVES: &str = "cbr,aal5:tx:none,rx:pcr=20000,max_sdu=1000";

/// The connection that sends, with room for what is received.
fn to(daemon: &Daemon) -> Connection {
    daemon
        .builder("a.0.70", SENDS)
        .transmit_pdus(64)
        .open()
        .unwrap()
}

/// The connection that receives into that.
fn into(daemon: &Daemon, to: &Connection) -> Builder {
    daemon.builder("a.0.60", RECEIVES).receive_into(to).unwrap()
}

fn chain(daemon: &Daemon) -> Chain {
    let to = to(daemon);
    let from = into(daemon, &to).open().unwrap();
    Chain::new(from, to).unwrap()
}

fn sdu(i: u32) -> Vec<u8> {
    (0..1 + i * 37 % 1_000).map(|k| (i + k * 7) as u8).collect()
}

/// Sends SDUs at one end of the line, and takes them at the other behind the chain.
fn crosses(daemon: &Daemon, chain: &mut Chain, sdus: std::ops::Range<u32>) {
    let (source, sink) = (
        daemon.open("b.0.60", SENDS),
        daemon.open("b.0.70", RECEIVES),
    );
    let mut buffer = [0; 1_000];
    for i in sdus {
        source.send(&sdu(i)).unwrap();
        assert_eq!(chain.forward_timeout(PATIENCE).unwrap(), sdu(i).len());
        let received = sink.recv_timeout(&mut buffer, PATIENCE).unwrap();
        assert_eq!(buffer[..received.len], sdu(i), "{i}");
    }
}

fn refusal(result: Result<Connection, Error>) -> String {
    match result {
        Err(Error::Refused(refused @ (Refused::Unsupported(_) | Refused::Descriptors(_)))) => {
            refused.to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_chain_copies_nothing_but_what_wraps() {
    let daemon = Daemon::start();
    let mut chain = chain(&daemon);
    crosses(&daemon, &mut chain, 0..1_000);
    let counters = chain.counters();
    assert_eq!((counters.pdus, counters.unsendable), (1_000, 0));
    assert_eq!(
        counters.octets,
        (0..1_000).map(|i| sdu(i).len() as u64).sum::<u64>()
    );
    // Each PDU takes whole lines of cache of a buffer that has 60 KiB for them.
    let turns = 1_000 * 1_088 / (60 << 10) + 1;
    assert!((1..=turns).contains(&counters.copies), "{counters:?}");
    assert_eq!(chain.from().counters().receive_copies, 0);
    assert_eq!(chain.to().counters().send_copies, 0);
    let (from, to) = chain.close(PATIENCE).unwrap();
    assert_eq!((from.pdus_delivered, to.pdus_transmitted), (1_000, 1_000));
    assert_eq!(from.pdus_discarded.total(), 0);
}

#[test]
fn a_pdu_is_written_once_and_leaves_from_there() {
    let daemon = Daemon::start();
    let to = to(&daemon);
    let from = into(&daemon, &to).open().unwrap();
    let source = daemon.open("b.0.60", SENDS);
    source.send(b"once").unwrap();
    // The reader sees it in the file that the other connection sends from.
    let capability = to.capability().unwrap();
    let octets = eventually("it did not come", || {
        let file = std::fs::File::from(capability.try_clone().unwrap());
        let len = file.metadata().unwrap().len();
        let mut octets = vec![0; usize::try_from(len).unwrap()];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut octets, 0).unwrap();
        octets
            .windows(4)
            .any(|four| four == b"once")
            .then_some(octets)
    });
    assert_eq!(octets.windows(4).filter(|four| *four == b"once").count(), 1);
    let mut chain = Chain::new(from, to).unwrap();
    let sink = daemon.open("b.0.70", RECEIVES);
    chain.forward_timeout(PATIENCE).unwrap();
    assert_eq!(&*sink.next_pdu_timeout(PATIENCE).unwrap(), b"once");
    assert_eq!(chain.counters().copies, 0);
}

#[test]
fn a_chain_hands_on_sdus_of_each_aal() {
    let daemon = Daemon::start();
    for aal in ["aal34", "aal0"] {
        let max_sdu = if aal == "aal0" { "" } else { ",max_sdu=1000" };
        let sends = format!("cbr,{aal}:tx:pcr=20000{max_sdu},rx:none");
        let receives = format!("cbr,{aal}:tx:none,rx:pcr=20000{max_sdu}");
        let to = daemon.builder("a.0.70", &sends).transmit_pdus(2_000);
        let to = to.open().unwrap();
        let from = daemon.builder("a.0.60", &receives);
        let from = from.receive_into(&to).unwrap().open().unwrap();
        let mut chain = Chain::new(from, to).unwrap();
        let source = daemon.open("b.0.60", &sends);
        let sink = daemon.open("b.0.70", &receives);
        let mut buffer = [0; 1_000];
        for i in 0..100_u8 {
            let mut sdu = vec![i; 52];
            // The header of VPI 0, VCI 60.
            sdu[..4].copy_from_slice(&[0, 0, 3, 0xc0]);
            source.send(&sdu).unwrap();
            chain.forward_timeout(PATIENCE).unwrap();
            let received = sink.recv_timeout(&mut buffer, PATIENCE).unwrap();
            assert_eq!(buffer[4..received.len], sdu[4..], "{aal} {i}");
        }
        chain.close(PATIENCE).unwrap();
        source.close(PATIENCE).unwrap();
        sink.close(PATIENCE).unwrap();
    }
}

#[test]
fn a_connection_that_is_received_into_sends_nothing_of_its_own() {
    let daemon = Daemon::start();
    let to = to(&daemon);
    let sink = daemon.open("b.0.70", RECEIVES);
    let from = into(&daemon, &to).open().unwrap();
    assert!(matches!(to.send(b"own"), Err(Error::Fed)));
    drop(from);
    to.send(b"own").unwrap();
    assert_eq!(&*sink.next_pdu_timeout(PATIENCE).unwrap(), b"own");
    let (other, apart) = (
        daemon.open("a.0.61", RECEIVES),
        daemon.open("a.0.71", SENDS),
    );
    assert!(matches!(Chain::new(other, apart), Err(Error::NoChain)));
}

#[test]
fn what_cannot_be_a_chain_is_refused_by_name() {
    let daemon = Daemon::start();
    let to = to(&daemon);
    let builder = into(&daemon, &to);
    let says = |builder: &Builder, what: &str, helps: &str| {
        let text = refusal(builder.open());
        assert!(text.contains(what) && text.contains(helps), "{text}");
    };
    let of = |contract: &str| builder.clone().contract(contract);
    says(
        &of("cbr,aal0:tx:none,rx:pcr=20000"),
        "another adaptation layer",
        "aal5 would do",
    );
    says(
        &of("cbr,aal5:tx:none,rx:pcr=20000,max_sdu=1001"),
        "1001",
        "max_sdu=1000 would do",
    );
    says(&of(SENDS), "receives nothing", "rx:");
    says(
        &builder.clone().receive_pdus(500),
        "are needed",
        "transmit_pdus",
    );
    says(
        &builder.clone().address("a.0.70"),
        "itself",
        "another address",
    );
    // Nothing of that is left, and the first that can be is.
    let from = builder.open().unwrap();
    says(
        &builder.clone().address("a.0.61"),
        "a.0.60 receives there already",
        "close that",
    );
    let text = refusal(from_capability(&daemon, &from));
    assert!(text.contains("open it anew"), "{text}");
    let modified = from.set_contract("cbr,aal5:tx:none,rx:pcr=20000,max_sdu=60000");
    assert!(
        matches!(modified, Err(Error::Refused(Refused::Unsupported(_)))),
        "{modified:?}"
    );
    let modified = to.set_contract("cbr,aal5:tx:pcr=20000,max_sdu=60000,rx:none");
    assert!(
        matches!(modified, Err(Error::Refused(Refused::Unsupported(_)))),
        "{modified:?}"
    );
    to.close(PATIENCE).unwrap();
    hears(&from, |told| {
        *told == Indication::Ended(EndReason::BufferGone)
    });
    says(&builder, "no such connection", "open it first");
}

/// What another process would ask.
fn from_capability(daemon: &Daemon, from: &Connection) -> Result<Connection, Error> {
    let builder = daemon.builder("a.0.60", RECEIVES);
    builder.reattach(from.capability().unwrap())
}

fn memory_used(daemon: &Daemon) -> u64 {
    let is_memory = |info: &ResourceInfo| info.resource == Resource::Memory;
    let all = daemon.admin().resources().unwrap();
    all.into_iter().find(is_memory).unwrap().reserved
}

#[test]
fn a_buffer_that_two_share_is_charged_once() {
    let daemon = Daemon::start();
    let before = memory_used(&daemon);
    let to = to(&daemon);
    let first = memory_used(&daemon) - before;
    let from = into(&daemon, &to).open().unwrap();
    let second = memory_used(&daemon) - before - first;
    from.close(PATIENCE).unwrap();
    assert_eq!(memory_used(&daemon) - before, first);
    // One with a buffer of its own, as large as what it shared, costs that beside the rest.
    let own = daemon
        .builder("a.0.60", RECEIVES)
        .receive_pdus(60)
        .open()
        .unwrap();
    let apart = memory_used(&daemon) - before - first;
    assert!(
        second + (60 << 10) <= apart,
        "{second} shared, {apart} apart"
    );
    drop(own);
    to.close(PATIENCE).unwrap();
    eventually("what is closed is charged", || {
        (memory_used(&daemon) == before).then_some(())
    });
}

#[test]
fn a_chain_outlives_a_daemon_and_ends_in_order_under_the_next() {
    let mut daemon = Daemon::start();
    let mut chain = chain(&daemon);
    crosses(&daemon, &mut chain, 0..50);
    daemon.kill();
    daemon.restart();
    crosses(&daemon, &mut chain, 50..100);
    // The next server knows who receives where.
    let again = into_elsewhere(&daemon, chain.to());
    assert!(again.contains("receives there already"), "{again}");
    let (from, to) = chain.close(PATIENCE).unwrap();
    assert_eq!((from.pdus_delivered, to.pdus_transmitted), (100, 100));
    eventually("the addresses are not free", || {
        let list = daemon.admin().list().unwrap();
        list.iter()
            .all(|one| one.address.to_string() != "a.0.60")
            .then_some(())
    });
}

fn into_elsewhere(daemon: &Daemon, to: &Connection) -> String {
    let builder = daemon.builder("a.0.62", RECEIVES);
    refusal(builder.receive_into(to).unwrap().open())
}

#[test]
fn after_an_adapters_death_the_first_has_ended_and_the_second_goes_on() {
    let daemon = Daemon::start();
    let to = to(&daemon);
    let from = into(&daemon, &to).open().unwrap();
    daemon.kill_adapter();
    hears(&from, |told| {
        *told == Indication::Ended(EndReason::BufferGone)
    });
    hears(&to, |told| matches!(told, Indication::Reopened(_)));
    drop(from);
    let from = eventually("the address is not free", || into(&daemon, &to).open().ok());
    let mut chain = Chain::new(from, to).unwrap();
    crosses(&daemon, &mut chain, 0..20);
    assert!(matches!(chain.try_forward(), Err(Error::WouldBlock(_))));
    assert!(matches!(
        chain.forward_timeout(Duration::from_millis(5)),
        Err(Error::TimedOut)
    ));
}
