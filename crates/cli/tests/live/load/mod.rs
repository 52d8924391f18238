//! Conforming connections under way: writers that number their SDUs, readers that check every
//! octet.

#![allow(dead_code, reason = "each test program uses what it needs")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cellgate::{Builder, Connection, Error, Indication};
use cellgate_host::clock::MonotonicClock;
use rustix::param::clock_ticks_per_second;

use crate::gaps::{Stalls, within};

const SDU: usize = 1_500;
/// Half a million octets/s, in cells of 48 octets.
const CONTRACT: &str = "pcr=10667cps,max_sdu=1500";
/// PDUs/s of it: 32 cells each.
const PDU_S: f64 = 10_667.0 / 32.0;
/// PDUs that a writer may send at once.
const CREDITS: f64 = 10.0;
/// PDUs that may be sent in a window and come after it: the credits, the one on its way to the line
/// and the one on it.
const AHEAD: f64 = CREDITS + 2.0;
/// PDUs by which a window may be off: 0.5 %, and the credits at both its edges.
const TOLERANCE: f64 = PDU_S * 0.005 + 2.0 * CREDITS;
const WINDOW: Duration = Duration::from_secs(1);
/// From the beginning of a window to that of the next one.
const STEP: Duration = Duration::from_millis(50);
/// How long after a stall what was missed can come.
const CATCH_UP: Duration = Duration::from_millis(100);
/// The shortest load whose rate is judged in some windows.
pub(crate) const LEAST: Duration = Duration::from_millis(1_500);
/// PDUs that a reader may be late by: three seconds.
const LATE_PDUS: u32 = 1_000;
/// Long enough for anything on a busy machine; reached only by a failing test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// From the last PDU to the end of reading, once all is sent.
const SILENCE: Duration = Duration::from_millis(500);

/// What a writer, or a reader, saw.
#[derive(Debug)]
pub(crate) struct Seen {
    /// From when to when it was at work.
    from: Instant,
    to: Instant,
    /// Sequence numbers, each with when it was handed over, or the adapter had its last cell.
    pub(crate) pdus: Vec<(u64, Instant)>,
    /// Instants, and nanoseconds that a writer had no CPU before them.
    waited: Vec<(Instant, u64)>,
    /// PDUs with a wrong octet or out of order.
    pub(crate) wrong: u64,
    /// When the connection got new memory.
    pub(crate) reopened: Vec<Instant>,
    /// How often another daemon said that it is there.
    pub(crate) restarted: u64,
}

impl Seen {
    fn new() -> Self {
        Self {
            from: Instant::now(),
            to: Instant::now(),
            pdus: Vec::new(),
            waited: Vec::new(),
            wrong: 0,
            reopened: Vec::new(),
            restarted: 0,
        }
    }

    fn between(&self, from: Instant, to: Instant) -> f64 {
        let before = |instant| self.pdus.partition_point(|(_, at)| *at < instant);
        (before(to) - before(from)) as f64
    }
}

/// Whether a connection had its rate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    Kept,
    /// Its source had no CPU.
    Void(String),
    Missed(String),
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

    /// Looks at each second of the writer's work: as many PDUs as promised must have been sent and
    /// received, but for what a stalled adapter could not carry; so much more may come afterwards.
    pub(crate) fn rate(&self, stalls: &Stalls) -> Rate {
        let mut from = self.sent.from;
        assert!(from + WINDOW <= self.sent.to, "too short to have a rate");
        let mut whole = Rate::Kept;
        while from + WINDOW <= self.sent.to {
            match self.window(from, from + WINDOW, stalls) {
                Rate::Kept => {}
                missed @ Rate::Missed(_) => return missed,
                void => whole = void,
            }
            from += STEP;
        }
        whole
    }

    fn window(&self, from: Instant, to: Instant, stalls: &Stalls) -> Rate {
        let ideal = PDU_S * WINDOW.as_secs_f64();
        let at = from - self.sent.from;
        for (what, seen) in [("sent", &self.sent), ("received", &self.received)] {
            let pdus = seen.between(from, to);
            let since = if pdus < ideal { from } else { from - CATCH_UP };
            let stalled = PDU_S * stalls.within(since, to).as_secs_f64();
            let allowed = TOLERANCE + stalled;
            if (pdus - ideal).abs() <= allowed {
                continue;
            }
            let text = format!(
                "{what} {pdus} PDUs in the second from {at:.2?} on, {ideal:.0} are promised, \
                 {allowed:.0} may be missing or too many"
            );
            // A source without a CPU excuses what was not sent; what was sent has to come, but for
            // what may still be under way.
            let missing = ideal - pdus - allowed;
            let sent = self.sent.between(from, to);
            let carried = pdus >= sent - AHEAD - stalled;
            let waited = within(&self.sent.waited, from, to).as_secs_f64();
            return match carried && (0.0..PDU_S * waited).contains(&missing) {
                true => Rate::Void(format!("{text}; its source waited {waited:.2} s for a CPU")),
                false => Rate::Missed(text),
            };
        }
        Rate::Kept
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
    let mut seen = Seen::new();
    let mut sequence = 0;
    let mut sdu = vec![0; SDU];
    seen.waited.push((seen.from, waited_ns()));
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
        seen.waited.push((Instant::now(), waited_ns()));
    }
    seen.to = Instant::now();
    connection.flush(PATIENCE).expect("what is sent leaves");
    note(connection, &mut seen);
    seen
}

/// How long this thread waited for a CPU, and the machine for another that runs on the same one.
fn waited_ns() -> u64 {
    let word = |path: &str, index: usize| -> u64 {
        let told = std::fs::read_to_string(path).unwrap_or_default();
        let word = told.split_ascii_whitespace().nth(index);
        word.and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    // The eighth number of the line `cpu` (proc_stat(5)).
    let stolen_ns = word("/proc/stat", 8) * (1_000_000_000 / clock_ticks_per_second());
    word("/proc/thread-self/schedstat", 1) + stolen_ns
}

fn read(connection: &Connection, number: u64, sent: &AtomicBool) -> Seen {
    let mut seen = Seen::new();
    let (begin, begin_time) = (Instant::now(), MonotonicClock.now());
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
                let later_ns = pdu.received().time.since_ns(begin_time);
                seen.pdus
                    .push((sequence, begin + Duration::from_nanos(later_ns)));
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

#[test]
fn a_rate_is_kept_or_missed_or_its_source_had_no_cpu() {
    let begin = Instant::now() + CATCH_UP;
    let ms = |ms: u64| begin + Duration::from_millis(ms);
    // A PDU each 3 ms for three seconds, but those of `skipped` milliseconds.
    let seen = |skipped: std::ops::Range<u64>, waited_ms: u64| {
        let instants = (0..1_000).map(|i| (i, ms(3 * i)));
        let mut seen = Seen::new();
        (seen.from, seen.to) = (ms(0), ms(3_000));
        let skipped = ms(skipped.start)..ms(skipped.end);
        seen.pdus = instants.filter(|(_, at)| !skipped.contains(at)).collect();
        seen.waited = vec![
            (ms(0), 0),
            (ms(1_400), 0),
            (ms(1_500), waited_ms * 1_000_000),
        ];
        seen
    };
    let rate = |sent: Seen, received: Seen| {
        let rate = Run { sent, received }.rate(&Stalls::none(begin));
        std::mem::discriminant(&rate)
    };
    let [kept, void, missed] = [
        Rate::Kept,
        Rate::Void(String::new()),
        Rate::Missed(String::new()),
    ]
    .map(|rate| std::mem::discriminant(&rate));
    let whole = || seen(0..0, 0);
    assert_eq!(rate(whole(), whole()), kept);
    assert_eq!(rate(seen(1_400..1_460, 0), seen(1_400..1_460, 0)), kept);
    assert_eq!(rate(seen(1_400..1_500, 0), seen(1_400..1_500, 0)), missed);
    assert_eq!(rate(whole(), seen(1_400..1_500, 0)), missed);
    // One that was late: its credits made up for what was sent, not for what came.
    let late = |to| rate(seen(1_400..1_460, 90), seen(1_400..to, 0));
    assert_eq!([late(1_480), late(1_520)], [void, missed]);
    // It waited in these seconds; not so long; before.
    assert_eq!(rate(seen(1_400..1_500, 90), seen(1_400..1_500, 0)), void);
    assert_eq!(rate(seen(1_400..1_900, 90), seen(1_400..1_900, 0)), missed);
    assert_eq!(rate(seen(2_900..3_000, 90), seen(2_900..3_000, 0)), missed);
    // One PDU, and nothing more.
    assert_eq!(rate(seen(3..3_000, 0), seen(3..3_000, 0)), missed);
    let mut more = whole();
    more.pdus.extend((0..50).map(|i| (1_000 + i, ms(1_500))));
    more.pdus.sort_by_key(|(_, at)| *at);
    assert_eq!(rate(more, whole()), missed);
}
