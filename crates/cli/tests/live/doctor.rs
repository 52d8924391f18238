//! `cellgate doctor` where something is wrong on purpose, and where nothing is.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, stderr, stdout};
use crate::upgrade::foreign_daemon;
use cellgate_host::sys::{allowed_cpus, name_thread, pin_thread};
use rustix::process::{Signal, geteuid};
use serde_json::Value;

/// A directory that goes with its test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let name = format!("cellgate-doctor-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// A configuration whose state directory is in here.
    fn config(&self, text: &str) -> String {
        let state = self.path("state");
        let path = self.path("cellgate.toml");
        fs::write(&path, format!("[server]\nstate_dir = {state:?}\n{text}")).unwrap();
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `cellgate doctor`, behind other words.
fn called(words: &[&str], arguments: &[&str]) -> Output {
    let binary = env!("CARGO_BIN_EXE_cellgate");
    let mut all = words.to_vec();
    all.extend([binary, "doctor"]);
    all.extend(arguments);
    let mut command = Command::new(all[0]);
    command.args(&all[1..]).env_remove("CELLGATE_SOCKET");
    command.output().unwrap()
}

/// What it finds, which is to be as bad as its exit code says.
fn found(words: &[&str], arguments: &[&str]) -> Value {
    let mut with_json = arguments.to_vec();
    with_json.push("--json");
    let output = called(words, &with_json);
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", stdout(&output), stderr(&output)));
    let code = if report["worst"] == "fail" { 1 } else { 0 };
    assert_eq!(output.status.code(), Some(code), "{report}");
    report
}

fn findings(report: &Value) -> &[Value] {
    report["findings"].as_array().unwrap()
}

/// It tells each of these: subject, level, a part of the text, and one of the cure.
fn tells(report: &Value, conditions: &[(&str, &str, &str, &str)]) {
    for (subject, level, text, cure) in conditions {
        let is_it = |one: &&Value| {
            let has = |key: &str, part: &str| one[key].as_str().is_some_and(|of| of.contains(part));
            one["subject"] == **subject
                && one["level"] == **level
                && has("text", text)
                && has("cure", cure)
                && has("promise", "")
        };
        let told = findings(report).iter().any(|one| is_it(&one));
        assert!(told, "{subject}: {text}: {cure}: {report:#}");
    }
}

/// What concerns other programs of the machine, not its make.
const OF_OTHERS: [&str; 5] = ["neighbours", "orphans", "steal_time", "wake_up", "gaps"];

#[test]
fn a_good_machine_has_no_warning() {
    const NAME: &str = "doctor_good";
    if !geteuid().is_root() || allowed_cpus().len() < 2 {
        return println!("skipped {NAME}: no root with two CPUs");
    }
    let directory = Directory::new("good");
    let config = directory.config("");
    let idle = found(&[], &["-c", &config]);
    let daemon = Daemon::start("");
    let socket = daemon.socket().display().to_string();
    let busy = found(&[], &["--socket", &socket]);
    for report in [&idle, &busy] {
        for one in findings(report) {
            let subject = one["subject"].as_str().unwrap();
            let is_good = one["level"] == "ok" || one["level"] == "note";
            assert!(is_good || OF_OTHERS.contains(&subject), "{one}");
            assert_eq!(one["level"] == "ok", one.get("cure").is_none(), "{one}");
        }
    }
    let versions = findings(&busy)
        .iter()
        .find(|one| one["subject"] == "versions")
        .unwrap();
    assert!(
        versions["text"]
            .as_str()
            .unwrap()
            .contains(env!("CARGO_PKG_VERSION"))
    );
    assert!(busy["cpu"].is_u64(), "{busy}");
    // It changes nothing: neither a directory, nor the daemon's adapter.
    assert!(!Path::new(&directory.path("state")).exists());
    let after = found(&[], &["--socket", &socket]);
    assert_eq!(after["cpu"], busy["cpu"]);
    println!("ran {NAME}");
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn it_takes_less_than_three_seconds_and_80_columns() {
    let directory = Directory::new("time");
    let config = directory.config("");
    let took = (0..3).map(|_| {
        let before = Instant::now();
        let report = found(&[], &["-c", &config]);
        assert!(report["took_ms"].is_u64(), "{report}");
        before.elapsed()
    });
    assert!(took.min().unwrap() < Duration::from_secs(3));
    let text = stdout(&called(&[], &["-c", &config]));
    // The longest words are paths.
    let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(
        longest <= 80 || text.contains(&directory.path("")),
        "{text}"
    );
    assert!(text.contains(" ok\n") && text.contains("wake_up"), "{text}");
}

#[test]
fn what_a_configuration_asks_for_in_vain_is_named_with_its_cure() {
    let directory = Directory::new("vain");
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let wire = |name: &str, local: &str, more: &str| {
        format!(
            "[[interface]]\nname = \"{name}\"\n{more}[interface.link.udp]\nlocal = \"{local}\"\n\
             peer = \"127.0.0.1:9\"\nlabel_out = 16\nlabel_in = 17\n"
        )
    };
    let config = directory.config(
        &[
            "user = \"no-such-user\"\n[adapter]\ncpu = 1023\nmemory_max = 1125899906842624\n",
            &wire("far", "192.0.2.77:6635", ""),
            &wire("taken", &format!("127.0.0.1:{port}"), ""),
            &wire("low", "127.0.0.1:81", ""),
            &wire("fat", "127.0.0.1:6639", "line_rate.cell_s = 400000000\n"),
        ]
        .concat(),
    );
    let state = directory.path("state");
    fs::create_dir(&state).unwrap();
    fs::set_permissions(&state, PermissionsExt::from_mode(0o777)).unwrap();
    let report = found(&["env", "CELLGATE_CPU_LEVEL=baseline"], &["-c", &config]);
    assert_eq!(report["worst"], "fail");
    tells(
        &report,
        &[
            ("users", "fail", "no user no-such-user", "[server]"),
            ("state_directory", "fail", "written by others", "chmod go-w"),
            (
                "adapter_cpu",
                "warn",
                "CPU 1023 of [adapter]",
                "another cpu",
            ),
            (
                "memory",
                "warn",
                "memory_max is 1048576.0 GiB",
                "memory_max = ",
            ),
            ("pseudowire", "fail", "192.0.2.77", "ip address add"),
            ("pseudowire", "fail", "taken: a socket of user", "ss -ulnp"),
            ("socket_buffers", "warn", "fat: ", "net.core.rmem_max="),
        ],
    );
    if cfg!(target_arch = "x86_64") {
        tells(
            &report,
            &[("cpu_level", "warn", "tables", "CELLGATE_CPU_LEVEL")],
        );
    }
    let first = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    if first.is_ok_and(|first| first.trim().parse().is_ok_and(|first: u16| first > 81)) {
        let low = "low: ports below";
        tells(
            &report,
            &[("pseudowire", "fail", low, "ip_unprivileged_port_start=81")],
        );
    }
    drop(taken);
}

#[test]
fn who_has_no_privilege_is_told_what_that_costs() {
    const NAME: &str = "doctor_plain";
    let directory = Directory::new("plain");
    let config = directory.config("[adapter]\nvcs = 1024\n");
    let limits = "ulimit -l 64; ulimit -n 256; exec \"$@\"";
    let mut words = vec!["sh", "-c", limits, "sh"];
    if geteuid().is_root() {
        let nobody = [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ];
        words = [&nobody[..], &["--inh-caps=-all", "--"], &words].concat();
    }
    let probe = [&words[1..], &["true"]].concat();
    let probe = Command::new(words[0]).args(probe).output();
    if !probe.as_ref().is_ok_and(|probe| probe.status.success()) {
        return println!("skipped {NAME}: {probe:?}");
    }
    let report = found(&words, &["-c", &config]);
    tells(
        &report,
        &[
            ("nice", "warn", "RLIMIT_NICE", "LimitNICE=-20"),
            ("real_time", "warn", "RLIMIT_RTPRIO", "LimitRTPRIO=40"),
            (
                "memory_lock",
                "warn",
                "RLIMIT_MEMLOCK is 64 KiB",
                "LimitMEMLOCK=infinity",
            ),
            ("descriptors", "warn", "16 connections", "LimitNOFILE="),
        ],
    );
    // A limit does instead of a capability.
    if geteuid().is_root() {
        tells(
            &report,
            &[("state_directory", "fail", "may not write", "state_dir")],
        );
        let mut raised = vec!["prlimit", "--nice=40", "--rtprio=40", "--memlock=unlimited"];
        raised.extend(&words[..words.len() - 4]);
        let probe = Command::new(raised[0])
            .args(&raised[1..])
            .arg("true")
            .output();
        if !probe.is_ok_and(|probe| probe.status.success()) {
            return println!("ran {NAME} without limits that this root may not raise");
        }
        let report = found(&raised, &["-c", &config]);
        for subject in ["nice", "real_time", "memory_lock"] {
            let one = findings(&report)
                .iter()
                .find(|one| one["subject"] == subject);
            assert_eq!(one.unwrap()["level"], "ok", "{report:#}");
        }
    }
    println!("ran {NAME}");
}

#[test]
fn who_is_on_the_cpu_already_is_named_and_makes_figures_void() {
    let directory = Directory::new("neighbour");
    let last = *allowed_cpus().last().unwrap();
    let config = directory.config(&format!("[adapter]\ncpu = {last}\n"));
    let (spins, there) = (AtomicBool::new(true), AtomicBool::new(false));
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            name_thread("cg-firmware");
            pin_thread(last).unwrap();
            there.store(true, Ordering::Relaxed);
            while spins.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        while !there.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let report = std::panic::catch_unwind(|| found(&[], &["-c", &config]));
        spins.store(false, Ordering::Relaxed);
        report.unwrap()
    });
    let me = std::process::id().to_string();
    let also = format!("CPU {last} is also that of adapter");
    let cure = if allowed_cpus().len() > 1 { "" } else { "kill" };
    tells(&report, &[("neighbours", "warn", &also, cure)]);
    let neighbours = findings(&report)
        .iter()
        .find(|one| one["subject"] == "neighbours");
    assert!(
        neighbours.unwrap()["text"].as_str().unwrap().contains(&me),
        "{report:#}"
    );
    let gaps = findings(&report)
        .iter()
        .find(|one| one["subject"] == "gaps")
        .unwrap();
    assert!(
        gaps["text"].as_str().unwrap().starts_with("void: "),
        "{gaps}"
    );
    assert_eq!(report["gap_longest_ns"], Value::Null);
}

#[test]
fn one_cpu_for_all_is_too_few() {
    const NAME: &str = "doctor_one_cpu";
    let directory = Directory::new("one");
    let config = directory.config("");
    let cpu = allowed_cpus()[0].to_string();
    let words = ["taskset", "-c", &cpu];
    let probe = Command::new(words[0])
        .args(&words[1..])
        .arg("true")
        .output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        return println!("skipped {NAME}: no taskset");
    }
    let report = found(&words, &["-c", &config]);
    tells(
        &report,
        &[("adapter_cpu", "warn", "one CPU", "AllowedCPUs=")],
    );
    println!("ran {NAME}");
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn an_orphan_and_a_daemon_that_is_stopped_are_named() {
    let mut daemon = Daemon::start("[adapter]\nnice = 0\n");
    let config = daemon.path("cellgate.toml").display().to_string();
    let ask = || found(&[], &["-c", &config]);
    daemon.signal(Signal::STOP);
    let before = Instant::now();
    let stopped = ask();
    assert!(before.elapsed() < Duration::from_secs(20));
    daemon.signal(Signal::CONT);
    daemon.kill();
    let orphan = ask();
    daemon.succeed();
    let before = Instant::now();
    let again = loop {
        // Until the successor answers.
        let report = ask();
        let is_there = |one: &Value| {
            one["subject"] == "daemon" && one["text"].as_str().unwrap().starts_with("cellgate ")
        };
        if findings(&report).iter().any(is_there) {
            break report;
        }
        assert!(before.elapsed() < Duration::from_secs(60), "{report:#}");
    };
    tells(
        &stopped,
        &[("daemon", "fail", "does not answer", "kill -CONT")],
    );
    tells(
        &orphan,
        &[(
            "orphans",
            "warn",
            "has no daemon",
            "cellgate serve takes it up",
        )],
    );
    let own = daemon.path("state").display().to_string();
    let orphans = |report: &Value| {
        let mut orphans = findings(report)
            .iter()
            .filter(|one| one["subject"] == "orphans");
        orphans.any(|one| one["text"].as_str().unwrap().contains(&own))
    };
    assert!(orphans(&orphan) && !orphans(&again), "{again:#}");
    assert_eq!(again["cpu"], orphan["cpu"]);
}

#[test]
fn a_daemon_of_another_version_is_named() {
    let directory = Directory::new("version");
    let config = directory.config("");
    fs::create_dir(directory.path("state")).unwrap();
    let path = directory.path("state/control.sock");
    foreign_daemon(Path::new(&path));
    let report = found(&[], &["-c", &config]);
    tells(
        &report,
        &[("daemon", "fail", "version 999", "systemctl restart")],
    );
}

#[test]
fn without_the_device_of_devices_none_can_be_added() {
    const NAME: &str = "doctor_tun";
    let directory = Directory::new("tun");
    let config = directory.config("");
    let hide = "mount -t tmpfs none /dev/net && exec \"$@\"";
    let words = ["unshare", "-m", "sh", "-c", hide, "sh"];
    let probe = Command::new(words[0])
        .args(&words[1..])
        .arg("true")
        .output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        return println!("skipped {NAME}: no mount namespace with /dev/net");
    }
    let report = found(&words, &["-c", &config]);
    tells(
        &report,
        &[("tun_device", "note", "no /dev/net/tun", "modprobe tun")],
    );
    println!("ran {NAME}");
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn of_several_adapters_the_one_that_is_named_is_looked_at() {
    let daemon = Daemon::start("[[adapter]]\nname = \"west\"\n[[adapter]]\nname = \"east\"\n");
    let config = daemon.path("cellgate.toml").display().to_string();
    let process = |arguments: &[&str]| {
        let report = found(&[], &[&["-c", &config], arguments].concat());
        let all = findings(&report).iter();
        let texts = all.filter_map(|one| one["text"].as_str());
        let mut processes = texts.filter_map(|text| text.split_once(", adapter "));
        processes.next().map(|(_, process)| process.to_owned())
    };
    let west = process(&[]);
    assert!(west.is_some());
    assert_eq!(process(&["--adapter", "west"]), west);
    let east = process(&["--adapter", "east"]);
    assert!(east.is_some() && east != west, "{east:?} {west:?}");
    let unknown = called(&[], &["-c", &config, "--adapter", "north"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(stderr(&unknown).contains("no adapter north, but west, east"));
}
