//! Idle time of the host is lent to who takes more than its contract, and taken back when load
//! returns; who keeps to its contract loses nothing (*Policing Offloaded*, section 7.3).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use cellgate::{Connection, Error, Time};

use crate::daemon::Daemon;
use crate::gaps::Watch;
use crate::load::Load;
use crate::spinners::Spinners;

const CONTENTS: &str = "[[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
     [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n";

/// 100 PDUs of 21 cells a second conform; ten times as many are sent.
const BORROWS: &str = "cbr,aal5:excess=when-idle,tx:none,rx:pcr=2100,max_sdu=1000";
const SENDS: &str = "ubr,aal5:tx:max_sdu=1000,rx:none";
const PAUSE: Duration = Duration::from_millis(1);
const CONFORM_S: usize = 100;

/// How long the machine is left alone, and loaded.
const PHASE: Duration = Duration::from_secs(2);
/// A lease is over 8 ms after it was given, and none is given 14 ms after idle time was counted
/// last.
const TAKEN_BACK: Duration = Duration::from_millis(25);
const TRIES_MAX: u32 = 3;

fn open(socket: &Path, address: &str, contract: &str) -> Connection {
    let builder = Connection::builder().socket(socket).address(address);
    let builder = builder.contract(contract).receive_pdus(64);
    builder.open().expect("there is room")
}

fn now() -> Time {
    cellgate_host::clock::MonotonicClock.now()
}

/// Threads that run until they are told not to.
struct Threads<T> {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<T>>,
}

impl<T: Send + 'static> Threads<T> {
    fn begin<F>(count: usize, mut each: impl FnMut(Arc<AtomicBool>) -> F) -> Self
    where
        F: FnOnce() -> T + Send + 'static,
    {
        let stop = Arc::<AtomicBool>::default();
        let threads = (0..count).map(|_| spawn(each(Arc::clone(&stop))));
        Self {
            threads: threads.collect(),
            stop,
        }
    }

    fn end(self) -> Vec<T> {
        self.stop.store(true, Ordering::Relaxed);
        let threads = self.threads.into_iter();
        threads
            .map(|one| one.join().expect("it does not panic"))
            .collect()
    }
}

/// Ten times the contract, and when each PDU was received, lent or not.
fn exceeds(socket: &Path) -> (Threads<()>, Threads<Vec<(Time, bool)>>) {
    let (a, b) = (
        open(socket, "a.0.90", SENDS),
        open(socket, "b.0.90", BORROWS),
    );
    let (mut a, mut b) = (Some(a), Some(b));
    let reads = Threads::begin(1, |stop| {
        let b = b.take().expect("there is one reader");
        move || {
            let mut received = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                match b.next_pdu_timeout(Duration::from_millis(50)) {
                    Ok(pdu) => received.push((pdu.received().time, pdu.received().lent)),
                    Err(Error::TimedOut) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            received
        }
    });
    let writes = Threads::begin(1, |stop| {
        let a = a.take().expect("there is one writer");
        move || {
            while !stop.load(Ordering::Relaxed) {
                let _ = a.send_timeout(&[1; 1_000], Duration::from_millis(50));
                sleep(PAUSE);
            }
        }
    });
    (writes, reads)
}

/// Idle hundredths of a second of all CPUs so far (proc_stat(5)).
fn idle_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("this is Linux");
    let all = stat.lines().next().expect("the sum of all CPUs");
    let idle = all.split_whitespace().nth(4).expect("its idle time");
    idle.parse().expect("a number")
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn idle_time_is_lent_and_taken_back() {
    for _ in 0..TRIES_MAX {
        let daemon = Daemon::start(CONTENTS);
        let watch = Watch::begin(&daemon);
        let load = Load::begin(&daemon.socket());
        let (writes, reads) = exceeds(&daemon.socket());
        let idle_before = idle_ticks();
        let begun = now();
        sleep(PHASE);
        let idle = idle_ticks() - idle_before;
        let spinners = Spinners::begin();
        let loaded = now();
        sleep(PHASE);
        let ended = now();
        drop(spinners);
        writes.end();
        let received = reads.end().concat();
        let runs = load.end();
        let excuse = watch.end().excuse();

        let count = |from: Time, to: Time, lent: bool| {
            let found = received
                .iter()
                .filter(|(at, is_lent)| (from..to).contains(at) && *is_lent == lent);
            found.count()
        };
        let back = loaded.plus_ns(TAKEN_BACK.as_nanos() as u64);
        let lent = [count(begun, loaded, true), count(back, ended, true)];
        let conform = [count(begun, loaded, false), count(loaded, ended, false)];
        let lost: usize = runs.iter().map(|run| run.lost().len()).sum();
        println!(
            "{lent:?} PDUs lent, {conform:?} within the contract, {lost} lost of others, \
             {idle} ticks idle"
        );
        // All of two seconds of one CPU were free: others leave too little to lend half of it.
        let excuse = excuse.or((idle < 200).then(|| format!("only {idle} ticks were idle")));
        let least = PHASE.as_secs() as usize * CONFORM_S - 5;
        let as_promised = conform.iter().all(|count| *count >= least) && lost == 0;
        let as_lent = lent[0] >= PHASE.as_secs() as usize * CONFORM_S && lent[1] == 0;
        match (as_promised && as_lent, excuse) {
            (true, _) => return println!("ran idle_time_lent"),
            (false, Some(excuse)) => println!("void idle_time_lent: {excuse}"),
            (false, None) => panic!("not as promised"),
        }
    }
}

/// Who lends by hand has what it lent, idle or not.
#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn who_lends_by_hand_takes_all() {
    let daemon = Daemon::start(CONTENTS);
    let file = daemon.path("copy");
    let mut words = vec!["recv", "--vc", "b.0.90", "--contract", BORROWS];
    words.extend(["--timeout", "2", "--json", "--lend", "64"]);
    words.extend(["-o", file.to_str().expect("a path")]);
    let receiver = daemon.begin(&words, "receiving on b.0.90");
    let a = open(&daemon.socket(), "a.0.90", SENDS);
    let begun = Instant::now();
    for _ in 0..500 {
        a.send(&[1; 1_000]).expect("there is room");
        sleep(PAUSE);
    }
    let took = begun.elapsed();
    let told = String::from_utf8(receiver.stdout()).expect("JSON");
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    // Without leases a hundred a second come. A busy machine has some of them be late.
    let came = told["sdus"].as_u64().expect("a number");
    assert!(came >= 400, "{told}");
    assert!(
        took < Duration::from_secs(5),
        "too slow to exceed: {took:?}"
    );
    println!("ran lent_by_hand");
}
