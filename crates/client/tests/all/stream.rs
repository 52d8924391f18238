//! The stream interface: released by time, not by the reader.

use std::time::Duration;

use crate::common::Daemon;
use cellgate::{Error, StreamReader, StreamWriter};

const CONTRACT: &str = "cbr,aal5:pcr=400000,max_sdu=100";
/// Longer than any test.
const LONG: Duration = Duration::from_secs(3_600);

#[test]
fn what_is_held_is_read_in_order_again_and_out_of_order() {
    let daemon = Daemon::start();
    let a = daemon.open("a.0.100", CONTRACT);
    let b = daemon
        .builder("b.0.100", CONTRACT)
        .receive_pdus(64)
        .open()
        .unwrap();
    let mut stream = StreamReader::new(&b, LONG, 64).unwrap();
    let mut buffer = [0; 100];
    assert!(stream.try_read(&mut buffer).unwrap_err().is_would_block());
    let nothing = stream.read_timeout(&mut buffer, Duration::from_millis(1));
    assert!(matches!(nothing, Err(Error::TimedOut)));
    for i in 0..10_u8 {
        a.send(&[i; 10]).unwrap();
    }
    for i in 0..10_u8 {
        assert_eq!(stream.read(&mut buffer).unwrap(), 10);
        assert_eq!(buffer[..10], [i; 10]);
    }
    for i in [3, 0, 9] {
        assert_eq!(stream.read_at(i, &mut buffer[..4]).unwrap(), 10);
        assert_eq!(buffer[..4], [i as u8; 4]);
    }
    assert!(
        stream
            .read_at(10, &mut buffer)
            .unwrap_err()
            .is_would_block()
    );
    assert_eq!(
        (stream.oldest(), stream.end(), stream.released_unread()),
        (0, 10, 0)
    );
    // A read is a copy, the same PDU's second one, too.
    let counted = b.counters();
    assert_eq!((counted.received, counted.receive_copies), (10, 13));
}

#[test]
fn what_is_released_before_it_is_read_is_late_and_counted() {
    let daemon = Daemon::start();
    let a = daemon.open("a.0.100", CONTRACT);
    let b = daemon
        .builder("b.0.100", CONTRACT)
        .receive_pdus(64)
        .open()
        .unwrap();
    // Nothing is held for any time: whatever has arrived is too old.
    let mut stream = StreamReader::new(&b, Duration::ZERO, 64).unwrap();
    for i in 0..20_u8 {
        a.send(&[i; 10]).unwrap();
    }
    let mut buffer = [0; 100];
    let mut missed = 0;
    while missed < 20 {
        match stream.try_read(&mut buffer) {
            Err(Error::Late { missed: more }) => missed += more,
            Err(error) => assert!(error.is_would_block(), "{error}"),
            Ok(_) => panic!("it was held for no time"),
        }
    }
    assert_eq!(
        (missed, stream.released_unread(), stream.oldest()),
        (20, 20, 20)
    );
    assert!(matches!(
        stream.read_at(18, &mut buffer),
        Err(Error::Late { missed: 2 })
    ));
}

#[test]
fn the_oldest_goes_where_there_is_no_room_for_all() {
    let daemon = Daemon::start();
    let a = daemon.open("a.0.100", CONTRACT);
    let b = daemon
        .builder("b.0.100", CONTRACT)
        .receive_pdus(64)
        .open()
        .unwrap();
    let mut stream = StreamReader::new(&b, LONG, 4).unwrap();
    for i in 0..7_u8 {
        a.send(&[i; 10]).unwrap();
    }
    daemon.delivers(&a);
    let mut buffer = [0; 100];
    // What is taken in one call is bounded, too.
    while stream.end() < 7 {
        let _ = stream.read_at(u64::MAX, &mut buffer);
    }
    assert!(matches!(
        stream.read(&mut buffer),
        Err(Error::Late { missed: 3 })
    ));
    assert_eq!(stream.read(&mut buffer).unwrap(), 10);
    assert_eq!(buffer[..10], [3; 10]);
    // Its space is the adapter's again: the reader can go on for ever.
    drop(stream);
    for i in 0..500_u16 {
        a.send(&i.to_be_bytes()).unwrap();
        while b.recv(&mut buffer).unwrap().len != 2 {}
    }
}

#[test]
fn a_connection_that_does_not_receive_is_no_stream() {
    let daemon = Daemon::start();
    let a = daemon.open("a.0.100", "cbr,aal5:tx:pcr=1000,max_sdu=100,rx:none");
    let refused = StreamReader::new(&a, LONG, 4).map(|_| ());
    assert!(matches!(refused, Err(Error::DoesNotReceive)));
}

#[test]
fn a_writer_never_waits_and_what_finds_no_room_is_dropped() {
    let daemon = Daemon::start();
    let a = daemon.open("a.0.100", "cbr,aal5:pcr=100,max_sdu=100");
    let b = daemon.open("b.0.100", "ubr,aal5:max_sdu=100");
    assert!(matches!(
        StreamWriter::new(&daemon.open("a.0.101", "ubr,aal5:tx:none,rx:max_sdu=9")),
        Err(Error::DoesNotSend)
    ));
    let mut stream = StreamWriter::new(&a).unwrap();
    let written: Vec<_> = (0..=255_u8)
        .filter(|i| stream.write(&[*i; 10]).unwrap())
        .collect();
    assert!(stream.dropped() > 0 && !written.is_empty());
    assert_eq!(stream.dropped() + written.len() as u64, 256);
    let mut buffer = [0; 100];
    for i in written {
        assert_eq!(b.recv_timeout(&mut buffer, LONG).unwrap().len, 10);
        assert_eq!(buffer[..10], [i; 10]);
    }
    assert!(stream.write(&[0; 101]).is_err());
}
