//! Events of the adapter, and losses that the server tells.

use cellgate::{
    Discard, Error, EventKind, Indication, Interest, Notification, QueueThreshold, Wait,
};

use super::common::{Daemon, PATIENCE, hears};

const RATE: &str = "cbr,aal5:pcr=100000,max_sdu=1000";

fn threshold(text: &str) -> QueueThreshold {
    text.parse().unwrap()
}

/// Three cells: their first, each, and the last of their PDU.
#[test]
fn events_come_in_the_order_of_what_happens() {
    let daemon = Daemon::start();
    let a = daemon.builder("a.0.100", RATE).events(16).open().unwrap();
    let b = daemon
        .builder("b.0.100", RATE)
        .notification(Notification::EveryCell)
        .queue_threshold(threshold("2"))
        .events(16)
        .open()
        .unwrap();
    assert_eq!(b.next_event(), None);
    let told = |kind| (kind, 0);
    let mut of_b = Vec::new();
    for _ in 0..2 {
        a.send(&[7; 100]).unwrap();
        let sent = a.next_event_timeout(PATIENCE).unwrap();
        assert_eq!(sent.kind, EventKind::TransmitCompleted);
        for _ in 0..3 {
            of_b.push(b.next_event_timeout(PATIENCE).unwrap());
        }
    }
    of_b.push(b.next_event_timeout(PATIENCE).unwrap());
    let seen: Vec<_> = of_b.iter().map(|event| (event.kind, event.cells)).collect();
    let received = |cells| (EventKind::PduReceived, cells);
    let pdu = [received(1), received(2), received(3)];
    let full = [told(EventKind::ReceiveQueueOverThreshold)];
    assert_eq!(seen, [&pdu[..], &pdu, &full].concat());
    assert!(of_b.is_sorted_by_key(|event| event.time));
    assert_eq!(of_b[6].value, 2);
    // What the events told of is there, and nothing more is told.
    assert_eq!(&*b.next_pdu_timeout(PATIENCE).unwrap(), &[7; 100]);
    assert_eq!(b.next_event(), None);
    assert!(b.arm(Interest::EVENT).unwrap());
    let none = b.next_event_timeout(core::time::Duration::ZERO);
    assert!(matches!(none, Err(Error::TimedOut)));
    assert_eq!((a.events_lost(), b.events_lost()), (0, 0));
}

#[test]
fn events_without_room_are_counted_and_without_a_wish_are_none() {
    let daemon = Daemon::start();
    let a = daemon.open("a.0.100", RATE);
    let b = daemon.builder("b.0.100", RATE).events(3).open().unwrap();
    for _ in 0..5 {
        a.send(&[1; 40]).unwrap();
        b.recv(&mut [0; 40]).unwrap();
    }
    let kept: Vec<_> = core::iter::from_fn(|| b.next_event()).collect();
    assert_eq!(kept.len(), 3);
    assert_eq!(b.events_lost(), 2);
    assert_eq!((a.next_event(), a.events_lost()), (None, 0));
    let none = a.next_event_timeout(core::time::Duration::from_millis(1));
    assert!(matches!(none, Err(Error::TimedOut)));
    assert_eq!(Wait::Event.to_string(), "the adapter has told nothing");
}

/// A reader that reads nothing, and a sender that knows no contract.
#[test]
fn a_reader_hears_that_it_loses_and_why() {
    let daemon = Daemon::start();
    let best = "ubr,aal5:max_sdu=1000";
    let a = daemon.open("a.0.100", best);
    let b = daemon
        .builder("b.0.100", best)
        .notification(Notification::Polled)
        .events(8)
        .open()
        .unwrap();
    assert_eq!(b.stats().unwrap().pdus_discarded.total(), 0);
    for _ in 0..4_000 {
        a.send(&[1; 1_000]).unwrap();
    }
    a.flush(PATIENCE).unwrap();
    let full = core::iter::from_fn(|| b.next_event()).map(|event| event.kind);
    assert!(full.eq([EventKind::ReceiveQueueFull]));
    let told = hears(&b, |told| matches!(told, Indication::Losing { .. }));
    let lost = b.stats().unwrap().pdus_discarded;
    let Indication::Losing { reason, pdus } = told else {
        unreachable!("as it was asked for");
    };
    assert!(matches!(reason, Discard::BufferFull | Discard::QueueFull));
    assert!(0 < pdus && pdus <= lost.of(reason), "{pdus} of {lost:?}");
}

#[test]
fn a_threshold_that_is_none_is_refused_by_name() {
    let daemon = Daemon::start();
    let refusal = |contract: &str, text: &str| {
        let builder = daemon.builder("b.0.100", contract);
        let refused = builder.queue_threshold(threshold(text)).open();
        refused.unwrap_err().to_string()
    };
    let said = refusal(RATE, "70000");
    assert!(
        said.contains("queue-threshold: 70000 PDUs are more than the"),
        "{said}"
    );
    let said = refusal("cbr,aal5:tx:pcr=1000,max_sdu=100,rx:none", "50%");
    assert!(
        said.contains("queue-threshold: the connection receives nothing"),
        "{said}"
    );
    let b = daemon.builder("b.0.100", RATE);
    let b = b.queue_threshold(threshold("75%")).open().unwrap();
    assert_eq!(b.info().unwrap().queue_threshold, Some(threshold("75%")));
}
