//! Adapters of several daemons on one machine. A thread that has a firmware thread's name and a CPU
//! stands for another daemon's: it takes no time from anybody. Other daemons may be there besides.

use std::collections::BTreeSet;
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, alone, stderr, threads};
use cellgate::{Admin, Resource, ResourceInfo};
use cellgate_host::client::Control;
use cellgate_host::sys::{
    FIRMWARE, Scheduling, Walk, allowed_cpus, name_thread, others_on, pin_thread,
};
use serde_json::Value;

/// Two interfaces that are joined, as what a daemon is started with.
const JOINED: &str = "[[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
                      [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n";
/// A daemon walks over /proc every five seconds.
const NOTICED: Duration = Duration::from_secs(20);

/// Something with the name of a firmware thread, pinned; it ends when it is dropped.
struct Stranger {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Stranger {
    fn on(cpu: usize) -> Self {
        let (end, ended) = channel::<()>();
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || {
            name_thread(FIRMWARE);
            pin_thread(cpu).expect("an allowed CPU");
            tell.send(()).expect("it waits");
            let _ = ended.recv();
        });
        told.recv().expect("it is there");
        Self {
            end: Some(end),
            thread: Some(thread),
        }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        drop(self.end.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn scheduling(daemon: &Daemon) -> (u32, Scheduling) {
    let control = Control::at(&daemon.path("state/adapter.sock")).expect("the adapter listens");
    (control.hello().pid, control.hello().scheduling.clone())
}

/// How many others are on this CPU.
fn others(cpu: usize, pid: u32) -> usize {
    others_on(&Walk::begin().finish(), cpu, pid).len()
}

fn adapter_cpu(daemon: &Daemon) -> ResourceInfo {
    let mut admin = Admin::at(daemon.socket()).expect("the daemon is there");
    let mut all = admin.resources().expect("it tells").into_iter();
    all.find(|info| info.resource == Resource::AdapterCpu)
        .expect("each has one")
}

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + NOTICED;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} is not so in {NOTICED:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn an_adapter_takes_the_last_cpu_that_no_other_has() {
    let _alone = alone();
    let cpus = allowed_cpus();
    let [.., before, last] = cpus[..] else {
        return println!("skipped neighbours_apart: one CPU");
    };
    if cpus.iter().any(|cpu| others(*cpu, 0) > 0) {
        return println!("void neighbours_apart: adapters of others are here");
    }
    let stranger = Stranger::on(last);
    let daemon = Daemon::start_by(&[], JOINED, None);
    let (_, taken) = scheduling(&daemon);
    assert_eq!((taken.pinned, taken.neighbours), (Some(before), 0));
    if cpus.len() == 2 {
        let service = &threads(daemon.pid())["cg-service"];
        assert_eq!(service.cpus, last.to_string(), "it keeps off the other");
    }
    assert!(!daemon.ok(&["stats"]).contains("adapters use"));
    drop((stranger, daemon));
    let daemon = Daemon::start_by(&[], JOINED, None);
    assert_eq!(scheduling(&daemon).1.pinned, Some(last));
    println!("ran neighbours_apart");
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn where_all_are_taken_an_adapter_shares_and_says_so_while_it_lasts() {
    let _alone = alone();
    let cpus = allowed_cpus();
    let strangers: Vec<_> = cpus.iter().map(|cpu| Stranger::on(*cpu)).collect();
    let daemon = Daemon::start_by(&[], JOINED, None);
    let (pid, taken) = scheduling(&daemon);
    let cpu = taken.pinned.expect("a CPU");
    let count = others(cpu, pid);
    assert!(count > 0 && taken.neighbours > 0, "{taken}");
    assert!(taken.to_string().contains("beside"), "{taken}");
    // Five per cent are kept for best effort.
    let part = |others: usize| {
        let part = 1_000_000 / (others as u64 + 1);
        part - (part * 5).div_ceil(100)
    };
    let of_cpu = adapter_cpu(&daemon);
    assert_eq!(of_cpu.capacity, part(count));
    let limit = of_cpu.limit.expect("a limit of the machine");
    let own = std::process::id().to_string();
    let told = format!("CPU {cpu}, too");
    for part in [&*told, &*own, "as far as can be seen"] {
        assert!(limit.contains(part), "{limit}");
    }
    let stats = daemon.ok(&["stats"]);
    assert!(stats.contains("note: ") && stats.contains(&told), "{stats}");
    let json: Value = serde_json::from_str(&daemon.ok(&["stats", "--json"])).expect("JSON");
    assert_eq!(json["adapter"]["shared"]["others"], count);
    let page = daemon.ok(&["stats", "--openmetrics"]);
    let line = format!("cellgate_adapter_neighbours {count}.0\n");
    assert!(page.contains(&line), "{page}");
    let contract = "cbr,aal5:pcr=1Mbps,max_sdu=1500";
    let added = daemon.run(&["vc", "add", "a.0.50", "contract", contract]);
    assert!(added.status.success());
    let note = stderr(&added);
    assert!(note.starts_with("note: ") && note.contains(&told), "{note}");
    let words = ["vc", "add", "a.0.51", "contract", contract, "--json"];
    let added: Value = serde_json::from_str(&daemon.ok(&words)).expect("JSON");
    assert_eq!(added["shared"]["cpu"], cpu);
    // What is promised stays promised when others go, and the whole is there again.
    drop(strangers);
    let rest = others(cpu, pid);
    until("the whole is there again", || {
        adapter_cpu(&daemon).capacity == part(rest)
    });
    let stranger = Stranger::on(cpu);
    until("a part is left", || {
        adapter_cpu(&daemon).capacity == part(rest + 1)
    });
    assert_eq!(daemon.ok(&["vc", "show"]).matches("permanent").count(), 2);
    drop(stranger);
    println!("ran neighbours_share");
}

#[test]
fn a_cpu_that_is_asked_for_is_taken_whoever_is_there() {
    let _alone = alone();
    let first = allowed_cpus()[0];
    let _stranger = Stranger::on(first);
    let little = "[admission]\nadapter_ppm = 1000\n";
    let contents = format!("[adapter]\ncpu = {first}\n{little}{JOINED}");
    let manager = std::env::temp_dir().join(format!("cellgate-manager-{}", std::process::id()));
    let notified = UnixDatagram::bind(&manager).expect("a socket");
    let manager = format!("NOTIFY_SOCKET={}", manager.display());
    let daemon = Daemon::start_by(&["env", &manager], &contents, None);
    let (_, taken) = scheduling(&daemon);
    assert_eq!(taken.pinned, Some(first));
    assert!(taken.neighbours > 0, "{taken}");
    let note = daemon.ok(&["stats"]);
    let told = format!("CPU {first}, too");
    assert!(note.contains(&told), "{note}");
    let mut octets = [0; 4_096];
    let len = notified.recv(&mut octets).expect("it is ready");
    let status = String::from_utf8_lossy(&octets[..len]);
    let is_status = |line: &str| line.starts_with("STATUS=") && line.contains(&told);
    assert!(status.lines().any(is_status), "{status}");
    let _ = notified
        .local_addr()
        .map(|at| at.as_pathname().map(std::fs::remove_file));
    // What the part has no room for is refused, and why.
    let contract = "cbr,aal5:pcr=100Mbps,max_sdu=1500";
    let refused = daemon.fails(3, &["vc", "add", "a.0.50", "contract", contract]);
    for part in ["CPU time of the adapter", &*told] {
        assert!(refused.contains(part), "{refused}");
    }
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn daemons_that_start_together_have_different_cpus_and_their_sessions_nice_values() {
    let _alone = alone();
    let cpus = allowed_cpus();
    let count = cpus.len().min(3);
    if count < 2 {
        return println!("skipped neighbours_together: one CPU");
    }
    for round in 0..3 {
        if cpus.iter().any(|cpu| others(*cpu, 0) > 0) {
            return println!("void neighbours_together: adapters of others are here");
        }
        let here = Arc::new(Barrier::new(count));
        let start = |here: Arc<Barrier>| {
            let daemon = Daemon::start_by(&[], JOINED, None);
            let scheduling = scheduling(&daemon).1;
            here.wait();
            scheduling
        };
        let starting: Vec<_> = (0..count)
            .map(|_| {
                let here = Arc::clone(&here);
                std::thread::spawn(move || start(here))
            })
            .collect();
        let all = starting.into_iter();
        let all: Vec<_> = all.map(|one| one.join().expect("it starts")).collect();
        let taken: BTreeSet<_> = all.iter().map(|one| one.pinned).collect();
        assert_eq!(taken.len(), count, "round {round}: {all:?}");
        for one in &all {
            assert_eq!(one.neighbours, 0, "{one}");
            // Who may have its nice value gets its session's, too, however many ask at once.
            let is_late = one
                .notes
                .iter()
                .any(|note| note.contains("of the session not had"));
            let has = one.session_nice.is_none_or(|nice| nice == one.nice);
            assert!(!is_late && (has || one.nice != -20), "{one}");
        }
    }
    println!("ran neighbours_together");
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn an_adapter_that_is_replaced_may_take_another_cpu_and_the_daemon_keeps_off_that() {
    let _alone = alone();
    let cpus = allowed_cpus();
    let [.., _, last] = cpus[..] else {
        return println!("skipped neighbours_replaced: one CPU");
    };
    let daemon = Daemon::start_by(&[], JOINED, None);
    let (pid, taken) = scheduling(&daemon);
    let cpu = taken.pinned.expect("a CPU");
    // It will find its CPU taken, and all but one other.
    let next = if cpu == last { cpus[0] } else { last };
    let most = cpus.iter().map(|cpu| others(*cpu, pid)).max().unwrap_or(0) + 1;
    let crowd = cpus.iter().filter(|one| **one != next);
    let crowd: Vec<_> = crowd
        .flat_map(|cpu| (0..most).map(|_| Stranger::on(*cpu)))
        .collect();
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it runs");
    until("another adapter is there", || {
        let control = Control::at(&daemon.path("state/adapter.sock"));
        control.is_ok_and(|control| control.hello().scheduling.pinned == Some(next))
    });
    let keeps_off = |cpus: &str| cpus.split(['-', ',']).all(|cpu| cpu != next.to_string());
    until("all threads of the daemon keep off it", || {
        let all = threads(daemon.pid());
        let mut own = ["cg-service", "cg-interrupt", "cg-pages"].into_iter();
        own.all(|name| keeps_off(&all[name].cpus))
    });
    drop(crowd);
    println!("ran neighbours_replaced");
}
