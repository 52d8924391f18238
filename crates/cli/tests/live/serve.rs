//! `cellgate serve` and `cellgate config` as a user runs them.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::daemon::{Scheduled, copy_command, threads};
use cellgate_host::client::Control;
use cellgate_host::sys::allowed_cpus;
use rustix::process::{Pid, Signal, geteuid, kill_process, test_kill_process};

const PATIENCE: Duration = Duration::from_secs(60);

fn cellgate(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cellgate"))
        .args(args)
        .output()
        .unwrap()
}

/// A directory that goes with its test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let name = format!("cellgate-cli-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A daemon that ends with its test, and its adapter with it.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.0.id().cast_signed()).unwrap();
        let _ = kill_process(pid, Signal::TERM);
        let _ = self.0.wait();
    }
}

fn configuration(directory: &Path) -> String {
    format!(
        "[server]\nstate_dir = {directory:?}\n[adapter]\npin = false\nnice = 0\n\
         lock_memory = false\nidle = \"sleep\"\nports = 2\n\
         [[interface]]\nname = \"x\"\nlink.memory.peer = \"x\"\n\
         [[connection]]\naddress = \"0.40\"\ncontract = \"aal5,cbr:pcr=1000,max_sdu=100\"\n"
    )
}

#[test]
fn a_configuration_is_checked_without_a_daemon() {
    let directory = Directory::new("check");
    let good = directory.write("good.toml", &configuration(&directory.0));
    assert_eq!(cellgate(&["config", "check", &good]).status.code(), Some(0));
    // All that it leaves out is shown, and makes the same.
    let shown = cellgate(&["config", "show", &good]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("#gap_max_ns = 30000000"), "{shown}");
    let whole = directory.write("whole.toml", &shown);
    let again = cellgate(&["config", "show", &whole]);
    assert_eq!(String::from_utf8(again.stdout).unwrap(), shown);
    // Of this machine something is said, and refused is nothing: it may be meant for another.
    let elsewhere = directory.write("cpu.toml", "[adapter]\ncpu = 1000000\n");
    let told = cellgate(&["config", "check", &elsewhere]);
    let text = String::from_utf8(told.stdout).unwrap();
    assert_eq!(told.status.code(), Some(0), "{text}");
    let note = "note: cpu = 1000000: this machine has CPUs 0";
    assert!(text.lines().any(|line| line.starts_with(note)), "{text}");
    let bad = directory.write("bad.toml", "[server]\nsokcet = 1\n");
    for args in [["config", "check", &bad], ["serve", "-c", &bad]] {
        let told = cellgate(&args);
        assert_eq!(told.status.code(), Some(1), "{args:?}");
        let text = String::from_utf8(told.stderr).unwrap();
        for part in ["bad.toml", "line 2, column 1", "sokcet", "`socket`"] {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[test]
fn what_a_daemon_would_meet_at_its_places_is_noted() {
    let directory = Directory::new("places");
    let open = directory.0.join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
    std::os::unix::fs::symlink("open", directory.0.join("link")).unwrap();
    let file = directory.write("file", "");
    let at = |name: &str| directory.path(name);
    let cases = [
        (at("new"), at("new/control.sock"), None),
        (at("open"), at("x"), Some("chmod go-w")),
        (at("link"), at("x"), Some("is a link")),
        (file.clone(), at("x"), Some("file")),
        (at("new"), file, Some("is no socket")),
        (at("new"), at("no/such.sock"), Some("no such directory")),
    ];
    for (state, socket, part) in cases {
        let text = format!("[server]\nstate_dir = {state:?}\nsocket = {socket:?}\n");
        let config = directory.write("config.toml", &text);
        let told = cellgate(&["config", "check", &config]);
        let out = String::from_utf8(told.stdout).unwrap();
        assert_eq!(told.status.code(), Some(0), "{out}");
        let notes: Vec<_> = out
            .lines()
            .filter(|line| line.starts_with("note: "))
            .collect();
        assert_eq!(notes.len(), usize::from(part.is_some()), "{out}");
        assert!(part.is_none_or(|part| notes[0].contains(part)), "{out}");
        let told = cellgate(&["config", "check", &config, "--json"]);
        let out = String::from_utf8(told.stdout).unwrap();
        assert_eq!(out.contains("notes"), part.is_some(), "{out}");
    }
}

#[test]
fn a_mistake_is_told_with_its_line_and_column() {
    let directory = Directory::new("place");
    let link = "[[interface]]\nname = \"x\"\n[interface.link.udp]\nlocal = \"127.0.0.1:1\"\n\
                peer = \"127.0.0.1:2\"\nlabel_out = 16\nlabel_in = 16\nmtu = 1500\n";
    let connection = "[[connection]]\naddress = \"0.40\"\ncontract = \"ubr\"\n";
    let contract = |contract| connection.replace("ubr", contract);
    for (text, place, key) in [
        (format!("{link}  labl = 5\n"), (9, 3), "labl"),
        (format!("{link}mode = \"n2\"\n"), (9, 8), "n1-cw"),
        (link.replace("mtu = 1500", "mtu = \"x\""), (8, 7), "mtu"),
        (
            format!("{connection}{connection}  adress = 1\n"),
            (7, 3),
            "adress",
        ),
        (connection.replace("0.40", "0.40.x.1"), (2, 11), "address"),
        ("[quota]\nconections = 1\n".to_owned(), (2, 1), "conections"),
        (
            "[quota]\n[quota.0]\n memroy = 1\n".to_owned(),
            (3, 2),
            "memroy",
        ),
        ("[quota.no-such-user]\n".to_owned(), (1, 8), "no-such-user"),
        ("[adapter]\nvcs = 70000\n".to_owned(), (2, 7), "70000"),
        ("[[interface]]\nnam = 1\n".to_owned(), (2, 1), "nam"),
        // Well-formed, and of no use to a server.
        (
            "[adapter]\nleaves = 0\n".to_owned(),
            (2, 10),
            "adapter.leaves",
        ),
        (
            "[adapter]\nattachments = 0\n".to_owned(),
            (2, 15),
            "adapter.attachments",
        ),
        (
            "[adapter]\nmemory_max = 0\n".to_owned(),
            (2, 14),
            "adapter.memory_max",
        ),
        ("[adapter]\nnice = -21\n".to_owned(), (2, 8), "adapter.nice"),
        (
            "adapter = { nice = 20 }\n".to_owned(),
            (1, 20),
            "adapter.nice",
        ),
        (
            "[server]\nuser = \"no-such-user\"\n".to_owned(),
            (2, 8),
            "server.user",
        ),
        (
            "[server]\nsocket_group = \"no-such-group\"\n".to_owned(),
            (2, 16),
            "server.socket_group",
        ),
        (
            link.replace("mtu = 1500", "mtu = 9000"),
            (3, 12),
            "clump_cells",
        ),
        // A server starts without these.
        (
            "[[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n".to_owned(),
            (3, 20),
            "link.memory.peer: no interface b",
        ),
        (
            format!("{link}[[interface]]\nname = \"a\"\nlink.memory.peer = \"x\"\n"),
            (11, 20),
            "x is not linked with a",
        ),
        (contract("cbr,aal5:pcr=0"), (3, 12), "contract: "),
        (
            contract("cbr,aal5:pcr=353208,max_sdu=100"),
            (3, 12),
            "bandwidth",
        ),
        (
            contract("cbr,aal5:pcr=200000,max_sdu=100")
                + &contract("cbr,aal5:pcr=200000,max_sdu=100").replace("0.40", "0.41"),
            (6, 12),
            "lo.0.41",
        ),
        (
            "[[interface]]\nname = \"a\"\nlink.memory.peer = \"a\"\n\
             [[interface]]\nname = \"b\"\nlink.memory.peer = \"b\"\n"
                .to_owned()
                + connection,
            (8, 11),
            "name one of: a, b",
        ),
    ] {
        let file = directory.write("config.toml", &text);
        let told = cellgate(&["config", "check", &file]);
        assert_eq!(told.status.code(), Some(1), "{text}");
        let said = String::from_utf8(told.stderr).unwrap();
        let (line, column) = place;
        let place = format!("line {line}, column {column}\n");
        assert!(
            said.contains(&place) && said.contains(key),
            "{text}: {said}"
        );
        let told = cellgate(&["config", "check", "--json", &file]);
        let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
        let error = told["error"].as_str().unwrap();
        assert!(error.contains(place.trim_end()), "{error}");
    }
}

#[test]
fn a_running_daemon_shows_what_makes_it_again() {
    let directory = Directory::new("show");
    let socket = directory.path("control.sock");
    let show = || cellgate(&["config", "show", "--socket", &socket]);
    assert_eq!(show().status.code(), Some(4), "there is no daemon");
    let config = directory.write("config.toml", &configuration(&directory.0));
    let mut program = Command::new(env!("CARGO_BIN_EXE_cellgate"));
    program.args(["serve", "-c", &config]).stderr(Stdio::null());
    let mut daemon = Daemon(program.spawn().unwrap());
    let deadline = Instant::now() + PATIENCE;
    let shown = loop {
        let told = show();
        if told.status.success() {
            break String::from_utf8(told.stdout).unwrap();
        }
        assert!(daemon.0.try_wait().unwrap().is_none(), "it has ended");
        assert!(Instant::now() < deadline, "{told:?}");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(shown.contains("x.0.40"), "{shown}");
    let again = directory.write("again.toml", &shown);
    assert_eq!(
        cellgate(&["config", "check", &again]).status.code(),
        Some(0)
    );
    let second = cellgate(&["serve", "-c", &config]);
    assert_eq!(second.status.code(), Some(1));
    let text = String::from_utf8(second.stderr).unwrap();
    let holder = format!("another server, process {}, has it", daemon.0.id());
    assert!(text.contains(&holder), "{text}");
    let pid = Pid::from_raw(daemon.0.id().cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert!(daemon.0.wait().unwrap().success());
    assert!(!Path::new(&socket).exists());
    assert_eq!(show().status.code(), Some(4));
}

impl Daemon {
    /// Starts one, and waits until it is ready: what it has said.
    fn start(words: &[&str], config: &str) -> (Self, Vec<String>) {
        Self::start_program(&[words, &[env!("CARGO_BIN_EXE_cellgate")]].concat(), config)
    }

    fn start_program(words: &[&str], config: &str) -> (Self, Vec<String>) {
        let mut program = Command::new(words[0]);
        program.args(&words[1..]).args(["serve", "-c", config]);
        program.stderr(Stdio::piped());
        let mut child = program.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        while said
            .last()
            .is_none_or(|line: &String| !line.ends_with(": ready"))
        {
            match lines.next() {
                Some(line) => said.push(line.unwrap()),
                None => break,
            }
        }
        std::thread::spawn(move || lines.count());
        (Self(child), said)
    }
}

/// The adapter's process, and the VCs that it has.
fn adapter(directory: &Directory) -> Option<(u32, usize)> {
    let mut control = Control::at(Path::new(&directory.path("adapter.sock"))).ok()?;
    let vcs = control.enumerate().ok()?.vcs.len();
    Some((control.hello().pid, vcs))
}

/// What the line of a thread says of it: `fifo N` or `nice N`, then `on CPU ...`.
fn is_as_told(thread: &Scheduled, said: &[String], name: &str) {
    let begin = format!("cellgate: {name}: ");
    let line = said.iter().find_map(|line| line.strip_prefix(&begin));
    let line = line.unwrap_or_else(|| panic!("nothing is said of {name}: {said:?}"));
    let class = match thread.fifo {
        Some(priority) => format!("fifo {priority}, "),
        None => format!("nice {}, ", thread.nice),
    };
    assert!(line.starts_with(&class), "{line}: it is {thread:?}");
}

#[test]
fn threads_have_the_classes_that_are_told() {
    let directory = Directory::new("threads");
    let state = directory.path("state");
    let text = format!("[server]\nstate_dir = {state:?}\n[adapter]\nports = 2\n");
    let config = directory.write("config.toml", &text);
    let (daemon, said) = Daemon::start(&[], &config);
    let own = threads(daemon.0.id());
    let (service, interrupt) = (&own["cg-service"], &own["cg-interrupt"]);
    is_as_told(service, &said, "service");
    is_as_told(interrupt, &said, "pseudo-interrupts");
    assert_eq!(service.fifo, None, "nobody is starved by requests");
    let control = Control::at(&Path::new(&state).join("adapter.sock")).unwrap();
    let scheduling = control.hello().scheduling.clone();
    let firmware = &threads(control.hello().pid)["cg-firmware"];
    let untouched = scheduling.rt_runtime_us == Some(-1);
    let privileged = geteuid().is_root() && scheduling.notes.is_empty();
    if let (Some(cpu), 2..) = (scheduling.pinned, allowed_cpus().len()) {
        assert_eq!(firmware.cpus, cpu.to_string());
        let beside =
            |thread: &Scheduled| !thread.cpus.split([',', '-']).any(|n| *n == firmware.cpus);
        assert!(beside(service) && beside(interrupt), "{own:?}");
    }
    if !privileged || allowed_cpus().len() < 2 {
        return println!("skipped thread_classes: {:?}", scheduling.notes);
    }
    let expected = if untouched { Some(40) } else { None };
    assert_eq!((firmware.fifo, firmware.nice), (expected, -20));
    assert_eq!((interrupt.fifo, service.nice), (Some(20), -10), "{said:?}");
    println!("ran thread_classes");
}

#[test]
fn a_daemon_in_the_temporary_directory_is_found_there() {
    const NAME: &str = "temporary_socket";
    if Path::new("/run/cellgate/control.sock").exists() {
        return println!("skipped {NAME}: this machine has a daemon");
    }
    let directory = Directory::new("tmp");
    std::fs::set_permissions(&directory.0, PermissionsExt::from_mode(0o777)).unwrap();
    let config = directory.write("config.toml", "[adapter]\nports = 2\n");
    let temporary = format!("TMPDIR={}", directory.0.display());
    let mut words = vec!["env", "-u", "XDG_RUNTIME_DIR", "-u", "CELLGATE_SOCKET"];
    words.push(&temporary);
    if geteuid().is_root() {
        words.extend([
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ]);
    }
    let run = |args: &[&str]| {
        let mut program = Command::new(words[0]);
        program
            .args(&words[1..])
            .arg(env!("CARGO_BIN_EXE_cellgate"));
        program.args(args).output().unwrap()
    };
    let probe = run(&["--version"]);
    if !probe.status.success() {
        return println!("skipped {NAME}: {probe:?}");
    }
    let (_daemon, said) = Daemon::start(&words, &config);
    let shown = run(&["config", "show"]);
    assert!(shown.status.success(), "{said:?}: {shown:?}");
    println!("ran {NAME}");
}

#[test]
fn without_privilege_it_serves_and_says_what_is_missing() {
    let directory = Directory::new("plain");
    std::fs::set_permissions(&directory.0, PermissionsExt::from_mode(0o777)).unwrap();
    let state = directory.path("state");
    let text = format!("[server]\nstate_dir = {state:?}\n[adapter]\nports = 2\n");
    let config = directory.write("config.toml", &text);
    let nobody = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--",
    ];
    let words = if geteuid().is_root() {
        &nobody[..]
    } else {
        &[]
    };
    let probe = Command::new("setpriv")
        .args(&nobody[1..])
        .args([env!("CARGO_BIN_EXE_cellgate"), "--version"])
        .output();
    if !words.is_empty() && !probe.as_ref().is_ok_and(|probe| probe.status.success()) {
        return println!("skipped thread_classes_plain: {probe:?}");
    }
    let (daemon, said) = Daemon::start(words, &config);
    let own = threads(daemon.0.id());
    for (name, thread) in [
        ("service", "cg-service"),
        ("pseudo-interrupts", "cg-interrupt"),
    ] {
        is_as_told(&own[thread], &said, name);
        assert_eq!((own[thread].fifo, own[thread].nice), (None, 0), "{said:?}");
        let missing = |line: &&String| line.contains(name) && line.contains("setcap");
        assert!(said.iter().any(|line| missing(&line)), "{said:?}");
    }
    let socket = Path::new(&state).join("control.sock");
    let admin = cellgate::Admin::at(&socket).unwrap();
    let notes = admin.server().notes.join("; ");
    for part in ["service: not nice -10", "not nice -20: ", "LimitNICE="] {
        assert!(notes.contains(part), "{notes}");
    }
    assert!(!notes.contains("os error"), "{notes}");
    let open = cellgate::Connection::builder()
        .socket(&socket)
        .address("0.40");
    let connection = open
        .contract("cbr,aal5:pcr=1000cps,max_sdu=100")
        .open()
        .unwrap();
    connection.send(b"it works").unwrap();
    let mut buffer = [0; 100];
    let received = connection.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..received.len], b"it works");
    println!("ran thread_classes_plain");
}

/// What a process has of the kernel's capability sets (`CapEff`, `CapBnd`, ...).
fn capabilities(pid: u32, set: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(set));
    u64::from_str_radix(line.unwrap().trim_start_matches(':').trim(), 16).unwrap()
}

#[test]
fn root_without_a_user_keeps_what_the_adapter_needs_and_no_more() {
    const NAME: &str = "privileges";
    // CAP_IPC_LOCK and CAP_SYS_NICE.
    const KEPT: u64 = 1 << 14 | 1 << 23;
    if !geteuid().is_root() {
        return println!("skipped {NAME}: not root");
    }
    let directory = Directory::new("privileges");
    let config = directory.write("config.toml", &configuration(&directory.0));
    // Where nobody but another user can go: root could, with what it gives up.
    let home = directory.path("home");
    std::fs::create_dir(&home).unwrap();
    let program = format!("{home}/cellgate");
    copy_command(Path::new(&program));
    std::fs::set_permissions(&home, PermissionsExt::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(&home, Some(65_534), Some(65_534)).unwrap();
    let (daemon, said) = Daemon::start_program(&[&program], &config);
    assert!(
        said.iter().any(|line| line.ends_with(": ready")),
        "{said:?}"
    );
    let (first, vcs) = adapter(&directory).expect("it listens");
    assert_eq!(vcs, 1);
    let within = |pid| {
        for set in ["CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd"] {
            let has = capabilities(pid, set);
            assert_eq!(has & !KEPT, 0, "{set} of {pid}: {has:x}");
        }
        capabilities(pid, "CapEff")
    };
    let given = capabilities(std::process::id(), "CapPrm") & KEPT;
    assert_eq!(within(daemon.0.id()), given);
    assert_eq!(within(first), given);
    // What it has is enough for another adapter.
    let pid = Pid::from_raw(first.cast_signed()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let second = loop {
        match adapter(&directory) {
            Some((second, 1)) if second != first => break second,
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
        assert!(Instant::now() < deadline, "it is not replaced");
    };
    assert_eq!(within(second), given);
    println!("ran {NAME}");
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn an_adapter_that_stands_still_is_replaced() {
    let directory = Directory::new("still");
    let text = configuration(&directory.0);
    let text = text.replace("ports = 2", "ports = 2\nsilence_max_ns = 3000000000");
    let config = directory.write("config.toml", &text);
    let (_daemon, _) = Daemon::start(&[], &config);
    let (first, vcs) = adapter(&directory).expect("it listens");
    assert_eq!(vcs, 1);
    let signal = |signal| {
        let pid = Pid::from_raw(first.cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
        pid
    };
    // For a while: nothing comes of it, unless the machine made more of it.
    let from = Instant::now();
    signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(300));
    signal(Signal::CONT);
    let short = from.elapsed() < Duration::from_secs(2);
    std::thread::sleep(Duration::from_secs(1));
    let after = adapter(&directory);
    match short {
        true => assert_eq!(after, Some((first, 1))),
        false => return println!("skipped still_adapter: the machine stood still, too"),
    }
    let pid = signal(Signal::STOP);
    let deadline = Instant::now() + PATIENCE;
    loop {
        // One that stands still answers nobody, and would have us wait.
        let gone = test_kill_process(pid).is_err();
        if gone && adapter(&directory).is_some_and(|(other, vcs)| other != first && vcs == 1) {
            break;
        }
        assert!(Instant::now() < deadline, "it is not replaced");
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("ran still_adapter");
}

#[test]
fn an_adapter_in_place_of_one_that_was_taken_up_has_room_for_what_was_promised() {
    let directory = Directory::new("taken");
    let narrow = configuration(&directory.0);
    let section = "[adapter]\n";
    let wide = narrow.replace(section, "[adapter]\nmemory_max = 100000000\nvcs = 300\n");
    let narrow = narrow.replace(section, "[adapter]\nmemory_max = 50000000\nvcs = 200\n");
    let (mut daemon, _) = Daemon::start(&[], &directory.write("wide.toml", &wide));
    daemon.0.kill().unwrap();
    daemon.0.wait().unwrap();
    let (_daemon, _) = Daemon::start(&[], &directory.write("narrow.toml", &narrow));
    let (first, _) = adapter(&directory).unwrap();
    kill_process(Pid::from_raw(first.cast_signed()).unwrap(), Signal::KILL).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while adapter(&directory).is_none_or(|(pid, vcs)| pid == first || vcs != 1) {
        assert!(Instant::now() < deadline, "it is not replaced");
        std::thread::sleep(Duration::from_millis(10));
    }
    let control = Control::at(Path::new(&directory.path("adapter.sock"))).unwrap();
    let hello = control.hello();
    assert_eq!((hello.memory_max, hello.config.vcs), (100_000_000, 300));
}
