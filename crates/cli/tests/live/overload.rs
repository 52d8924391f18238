//! An interface on which more arrives than the adapter can take: best effort gives way, guaranteed
//! connections lose nothing, and the readers of best effort still progress.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::daemon::Daemon;
use crate::gaps::Watch;
use crate::load::{Load, eventually};
use cellgate::{Admin, Connection, Discard, Error};

/// A line that is faster than any adapter, and overload after the cells of four steps.
const CONTENTS: &str = "[adapter]\ngap_max_ns = 30000000\noverload_cells = 1024\n\
     [[interface]]\nname = \"a\"\nline_rate.cell_s = 100000000\nlink.memory.peer = \"b\"\n\
     [[interface]]\nname = \"b\"\nline_rate.cell_s = 100000000\nlink.memory.peer = \"a\"\n";

const FLOODS: u16 = 2;
/// PDUs that each reader must get after the first that gave way.
const PROGRESS: u64 = 50;
/// Tries, the void ones included.
const TRIES_MAX: u32 = 3;

fn open(socket: &Path, address: String, contract: &str) -> Connection {
    let builder = Connection::builder().socket(socket).address(address);
    builder.contract(contract).open().expect("there is room")
}

/// Best effort that sends as fast as it can, and who reads it.
struct Floods {
    stop: Arc<AtomicBool>,
    received: Vec<Arc<AtomicU64>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Floods {
    fn begin(socket: &Path) -> Self {
        let mut floods = Self {
            stop: Arc::default(),
            received: Vec::new(),
            threads: Vec::new(),
        };
        for flood in 0..FLOODS {
            let vci = 200 + flood;
            let reader = open(
                socket,
                format!("b.0.{vci}"),
                "ubr,aal5:max_sdu=9180,tx:none",
            );
            let writer = open(
                socket,
                format!("a.0.{vci}"),
                "ubr,aal5:max_sdu=9180,rx:none",
            );
            let received = Arc::new(AtomicU64::new(0));
            floods.received.push(Arc::clone(&received));
            let stop = Arc::clone(&floods.stop);
            floods.threads.push(std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    match reader.next_pdu_timeout(Duration::from_millis(50)) {
                        Ok(pdu) => {
                            assert!(pdu.iter().all(|octet| *octet == 7), "a wrong octet");
                            received.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(Error::TimedOut) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }));
            let stop = Arc::clone(&floods.stop);
            floods.threads.push(std::thread::spawn(move || {
                let sdu = vec![7; 9_180];
                while !stop.load(Ordering::Relaxed) {
                    match writer.send_timeout(&sdu, Duration::from_millis(50)) {
                        Ok(()) | Err(Error::TimedOut) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }));
        }
        floods
    }

    fn counts(&self) -> Vec<u64> {
        let counts = self.received.iter();
        counts.map(|count| count.load(Ordering::Relaxed)).collect()
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("it does not panic");
        }
    }
}

/// PDUs that gave way, on the connections that are guaranteed and on the others.
fn gave_way(daemon: &Daemon) -> [u64; 2] {
    let mut admin = Admin::at(daemon.socket()).expect("the daemon is there");
    let mut sums = [0; 2];
    for info in admin.list().expect("a list") {
        sums[usize::from(!info.guaranteed)] += info.stats.pdus_discarded.of(Discard::Overload);
    }
    sums
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn best_effort_gives_way_and_its_readers_still_progress() {
    let daemon = Daemon::start(CONTENTS);
    for _ in 0..TRIES_MAX {
        let watch = Watch::begin(&daemon);
        let load = Load::begin(&daemon.socket());
        let floods = Floods::begin(&daemon.socket());
        let first = eventually("nothing gave way", || {
            let [_, best_effort] = gave_way(&daemon);
            (best_effort > 0).then_some(best_effort)
        });
        let then = floods.counts();
        eventually("the readers stand still", || {
            let counts = floods.counts();
            let progress = counts.iter().zip(&then).map(|(now, then)| now - then);
            progress.min().filter(|least| *least >= PROGRESS)
        });
        let [guaranteed, best_effort] = eventually("no more gave way", || {
            Some(gave_way(&daemon)).filter(|[_, now]| *now > first)
        });
        assert_eq!(guaranteed, 0);
        floods.end();
        let runs = load.end();
        let stalls = watch.end();
        let lost: usize = runs.iter().map(|run| run.lost().len()).sum();
        assert!(runs.iter().all(|run| run.received.wrong == 0));
        assert!(runs.iter().all(|run| !run.sent.pdus.is_empty()));
        match (lost, stalls.excuse()) {
            (0, _) => {
                println!("{best_effort} PDUs gave way");
                println!("ran receive_overload");
                return;
            }
            (_, Some(excuse)) => println!("void receive_overload: {lost} PDUs lost: {excuse}"),
            (_, None) => panic!("{lost} guaranteed PDUs were lost"),
        }
    }
    println!("skipped receive_overload: void");
}
