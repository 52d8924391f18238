//! Conforming connections under way: writers that number their SDUs, readers that check every
//! octet.

#![allow(dead_code, reason = "each test program uses what it needs")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cellgate::{Builder, Connection, Error, Indication};

const SDU: usize = 1_500;
/// Half a million octets/s, in cells of 48 octets.
const CONTRACT: &str = "pcr=10667cps,max_sdu=1500";
/// PDUs that a reader may be late by: three seconds.
const LATE_PDUS: u32 = 1_000;
/// Long enough for anything on a busy machine; reached only by a failing test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// From the last PDU to the end of reading, once all is sent.
const SILENCE: Duration = Duration::from_millis(500);

/// What a writer, or a reader, saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Sequence numbers, each with when it was handed over.
    pub(crate) pdus: Vec<(u64, Instant)>,
    /// PDUs with a wrong octet or out of order.
    pub(crate) wrong: u64,
    /// When the connection got new memory.
    pub(crate) reopened: Vec<Instant>,
    /// How often another daemon said that it is there.
    pub(crate) restarted: u64,
}

/// One connection's run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) sent: Seen,
    pub(crate) received: Seen,
}

impl Run {
    /// When what is lost was sent.
    pub(crate) fn lost(&self) -> Vec<Instant> {
        let mut received = self
            .received
            .pdus
            .iter()
            .map(|(sequence, _)| *sequence)
            .peekable();
        let sent = self.sent.pdus.iter();
        let lost = sent.filter(|(sequence, _)| received.next_if_eq(sequence).is_none());
        lost.map(|(_, at)| *at).collect()
    }
}

/// Two connections, one each way.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    writers: Vec<JoinHandle<Seen>>,
    readers: Vec<JoinHandle<Seen>>,
    sent: Arc<AtomicBool>,
}

impl Load {
    pub(crate) fn begin(socket: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(AtomicBool::new(false));
        let mut load = Self {
            stop,
            writers: Vec::new(),
            readers: Vec::new(),
            sent,
        };
        for (number, [from, to]) in [(1, ["a", "b"]), (2, ["b", "a"])] {
            let builder = |end: &str, contract: String| {
                let address = format!("{end}.0.{}", 100 + number);
                let builder = Connection::builder().socket(socket).address(address);
                builder.contract(format!("cbr,aal5:{contract}"))
            };
            let reader = builder(to, format!("tx:none,rx:{CONTRACT}"));
            let reader = open(&reader.receive_pdus(LATE_PDUS));
            let writer = open(&builder(from, format!("tx:{CONTRACT},rx:none")));
            let sent = Arc::clone(&load.sent);
            load.readers
                .push(std::thread::spawn(move || read(&reader, number, &sent)));
            let stop = Arc::clone(&load.stop);
            load.writers
                .push(std::thread::spawn(move || write(&writer, number, &stop)));
        }
        load
    }

    /// Ends the writers, then the readers.
    pub(crate) fn end(self) -> Vec<Run> {
        self.stop.store(true, Ordering::Relaxed);
        let join = |threads: Vec<JoinHandle<Seen>>| -> Vec<Seen> {
            let seen = threads.into_iter().map(JoinHandle::join);
            seen.map(|seen| seen.expect("it does not panic")).collect()
        };
        let sent = join(self.writers);
        self.sent.store(true, Ordering::Relaxed);
        let received = join(self.readers);
        let both = sent.into_iter().zip(received);
        both.map(|(sent, received)| Run { sent, received })
            .collect()
    }
}

fn open(builder: &Builder) -> Connection {
    builder.open().expect("there is room")
}

fn octet(number: u64, sequence: u64, at: usize) -> u8 {
    (sequence
        .wrapping_mul(31)
        .wrapping_add(at as u64 * 7 + number * 13)
        >> 2) as u8
}

fn note(connection: &Connection, seen: &mut Seen) {
    while let Some(indication) = connection.next_indication().expect("the socket is there") {
        match indication {
            Indication::Reopened(_) => seen.reopened.push(Instant::now()),
            Indication::Restarted => seen.restarted += 1,
            Indication::Ended(reason) => panic!("{}: {reason:?}", connection.address()),
            _ => {}
        }
    }
}

fn write(connection: &Connection, number: u64, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut sequence = 0;
    let mut sdu = vec![0; SDU];
    while !stop.load(Ordering::Relaxed) {
        sdu[..8].copy_from_slice(&u64::to_be_bytes(sequence));
        for (at, octet_at) in sdu.iter_mut().enumerate().skip(8) {
            *octet_at = octet(number, sequence, at);
        }
        match connection.send_timeout(&sdu, Duration::from_millis(20)) {
            Ok(()) => {
                seen.pdus.push((sequence, Instant::now()));
                sequence += 1;
            }
            Err(Error::TimedOut | Error::SpaceLost) => {}
            Err(error) => panic!("{}: {error}", connection.address()),
        }
        note(connection, &mut seen);
    }
    connection.flush(PATIENCE).expect("what is sent leaves");
    note(connection, &mut seen);
    seen
}

fn read(connection: &Connection, number: u64, sent: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut due = 0;
    loop {
        match connection.next_pdu_timeout(SILENCE) {
            Ok(pdu) => {
                let sequence = pdu
                    .first_chunk()
                    .map_or(0, |head| u64::from_be_bytes(*head));
                let right = |(at, got): (usize, &u8)| *got == octet(number, sequence, at);
                let right = pdu.len() == SDU && pdu.iter().enumerate().skip(8).all(right);
                if !right || sequence < due {
                    seen.wrong += 1;
                    continue;
                }
                due = sequence + 1;
                seen.pdus.push((sequence, Instant::now()));
            }
            Err(Error::TimedOut) if sent.load(Ordering::Relaxed) => return seen,
            Err(Error::TimedOut) => {}
            Err(error) => panic!("{}: {error}", connection.address()),
        }
        note(connection, &mut seen);
    }
}

/// Descriptors, and octets of memory, of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) descriptors: usize,
    pub(crate) memory: u64,
}

impl Held {
    pub(crate) fn by(pid: u32) -> Self {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let descriptors = std::fs::read_dir(process.join("fd"))
            .expect("it runs")
            .count();
        let status = std::fs::read_to_string(process.join("status")).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib = line.and_then(|line| line.split_ascii_whitespace().nth(1));
        let kib: u64 = kib.and_then(|kib| kib.parse().ok()).expect("it has memory");
        Self {
            descriptors,
            memory: kib << 10,
        }
    }
}

/// Waits until `what` gives something.
pub(crate) fn eventually<T>(complaint: &str, mut what: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(it) = what() {
            return it;
        }
        assert!(Instant::now() < deadline, "{complaint}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
