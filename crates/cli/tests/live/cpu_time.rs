//! CPU time that an application has reserved: its thread is on time beside whoever takes all CPUs,
//! and takes no more before others than it has reserved.

use std::path::Path;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use cellgate::Connection;

use crate::daemon::Daemon;
use crate::gaps::Watch;
use crate::spinners::Spinners;

const CONTENTS: &str = "[[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
     [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n";
/// 250 PDUs a second of 2 cells.
const CONTRACT: &str = "cbr,aal5:pcr=500,max_sdu=80";
const PDUS: usize = 750;
const TRIES_MAX: u32 = 3;
/// A reader is late from here on: half of the shortest time slice of a thread (EEVDF's is 3 ms,
/// CFS's was 0.75 ms and more by the CPUs there are).
const LATE: Duration = Duration::from_millis(1);

fn open(socket: &Path, address: &str) -> Connection {
    let builder = Connection::builder().socket(socket).address(address);
    builder.contract(CONTRACT).open().expect("there is room")
}

/// How late each of so many PDUs was read, from the adapter's time on, sorted.
fn lateness(socket: &Path, budget: Option<Duration>) -> Vec<Duration> {
    let [a, b] = ["a.0.80", "b.0.80"].map(|end| open(socket, end));
    let writer = spawn(move || {
        for _ in 0..PDUS {
            if a.send_timeout(&[1; 80], Duration::from_secs(5)).is_err() {
                break;
            }
        }
        let _ = a.flush(Duration::from_secs(5));
    });
    if let Some(budget) = budget {
        let scheduling = b.reserve_cpu(budget, Duration::from_millis(10));
        println!("reserved: {}", scheduling.expect("there is as much"));
    }
    let mut late = Vec::new();
    while late.len() < PDUS {
        let Ok(pdu) = b.next_pdu_timeout(Duration::from_secs(5)) else {
            break;
        };
        let now = cellgate_host::clock::MonotonicClock.now();
        late.push(Duration::from_nanos(now.since_ns(pdu.received().time)));
    }
    writer.join().expect("it does not panic");
    assert!(late.len() > PDUS / 2, "{} of {PDUS} PDUs", late.len());
    late.sort();
    late
}

/// Whether the daemon may make somebody real-time; says so if not.
fn may(daemon: &Daemon, name: &str) -> bool {
    let tried = daemon.run(&["run", "--reserve", "1%", "--", "true"]);
    let may = tried.status.success();
    if !may {
        println!(
            "skipped {name}: {}",
            String::from_utf8_lossy(&tried.stderr).trim_end()
        );
    }
    may
}

fn p99(sorted: &[Duration]) -> Duration {
    sorted[sorted.len() * 99 / 100]
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn who_has_reserved_cpu_time_reads_on_time_beside_spinners() {
    for _ in 0..TRIES_MAX {
        let daemon = Daemon::start(CONTENTS);
        if !may(&daemon, "reserved_reader") {
            return;
        }
        let socket = daemon.socket();
        let watch = Watch::begin(&daemon);
        let spinners = Spinners::begin();
        let read = |budget| {
            let socket = socket.clone();
            // A thread of its own: what it has reserved ends with it.
            spawn(move || lateness(&socket, budget))
                .join()
                .expect("it reads")
        };
        let without = read(None);
        let with = read(Some(Duration::from_millis(1)));
        drop(spinners);
        let [without, with] = [p99(&without), p99(&with)];
        println!("lateness p99: {without:?} without, {with:?} with 1 of each 10 ms reserved");
        // Where a kernel lets a sleeper by as soon as it wakes, nobody is late without either.
        let better = with * 2 < without || without < LATE;
        match (
            better && with < Duration::from_millis(5),
            watch.end().excuse(),
        ) {
            (true, _) => return println!("ran reserved_reader"),
            (false, Some(excuse)) => println!("void reserved_reader: {excuse}"),
            (false, None) => panic!("not on time"),
        }
    }
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn a_program_has_its_time_or_is_not_begun() {
    let daemon = Daemon::start(CONTENTS);
    if !may(&daemon, "reserved_run") {
        return;
    }
    let run = |words: &[&str]| daemon.run(&[&["run"], words].concat());
    // Field 41 is the class: 1 is SCHED_FIFO, 6 SCHED_DEADLINE.
    // The program has begun a moment before it has its time.
    let class = "sleep 0.2; read -r stat < /proc/$$/stat; set -- $stat; shift 40; echo class $1";
    // Enough for a program to begin with.
    let shell = |text| ["--reserve", "50%", "--", "sh", "-c", text];
    let ended = run(&shell(class));
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(
        ["class 1\n", "class 6\n"].contains(&&*said),
        "{said} {ended:?}"
    );
    // A program that it starts has nothing of it, and its exit code is told.
    let ended = run(&shell(
        "sh -c 'read -r stat < /proc/$$/stat; set -- $stat; shift 40; exit $1'",
    ));
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(run(&shell("exit 7")).status.code(), Some(7));
    assert_eq!(run(&shell("kill -9 $$")).status.code(), Some(137));
    for (words, code, says) in [
        (
            &["--reserve", "95%"][..],
            3,
            "not enough CPU time of the workers",
        ),
        (&["--reserve", "20ms"], 2, "longer than --period"),
        (&["--reserve", "0%"], 2, "more than 0%"),
        (
            &["--reserve", "5%", "--period", "1us"],
            1,
            "it is from 1ms to 1s",
        ),
        (
            &["--reserve", "5%", "--vc", "a.0.99"],
            1,
            "no such connection",
        ),
    ] {
        let ended = run(&[words, &["--", "sh", "-c", "echo begun"]].concat());
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(code), "{told}");
        assert!(told.contains(says), "{told}");
        assert!(
            ended.stdout.is_empty(),
            "a program that was refused has begun"
        );
    }
    println!("ran reserved_run");
}

/// The class of a process's main thread (proc_pid_stat(5), field 41); 0 is SCHED_OTHER.
fn class(pid: &str) -> Option<u8> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(38)?.parse().ok()
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn who_takes_more_than_it_has_reserved_takes_that_from_nobody() {
    let daemon = Daemon::start(CONTENTS);
    if !may(&daemon, "reserved_greedy") {
        return;
    }
    let file = daemon.path("pid");
    let at = file.to_str().expect("a path");
    // It outlives whoever kills `run`, and ends when it has used so much CPU time.
    let program = "ulimit -t 4; echo $$ > \"$0\"; while :; do :; done";
    let words = ["run", "--reserve", "5%", "--", "sh", "-c", program, at];
    let greedy = daemon.begin(&words, "has 5% of a CPU");
    let pid = std::fs::read_to_string(&file).expect("it has begun");
    let begun = Instant::now();
    let mut counts = [0_u32; 2];
    while begun.elapsed() < Duration::from_secs(2) {
        let class = class(pid.trim()).expect("it runs");
        counts[usize::from(class != 0)] += 1;
        sleep(Duration::from_millis(1));
    }
    let ended = std::process::Command::new("kill")
        .args(["-9", pid.trim()])
        .status();
    assert!(ended.expect("a shell has it").success());
    drop(greedy);
    let [plain, real_time] = counts;
    println!(
        "{real_time} looks of {} found it real-time",
        plain + real_time
    );
    // The kernel counts what a thread uses in steps of up to 10 ms.
    assert!(real_time > 0 && real_time * 5 < plain);
    println!("ran reserved_greedy");
}
