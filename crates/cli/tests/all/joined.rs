//! Two daemons that a memory link joins, and UNI lines: each daemon in a directory of its own.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, octets};
use cellgate_host::sys::peer_credentials;
use cellgate_shm::socket::dial;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const MODEST: &str = "[adapter]\npin = false\nnice = 0\nlock_memory = false\nidle = \"sleep\"\n\
                      ports = 2\n";
/// Sends from `a` and receives at `b`.
const CONTRACT: &str = "cbr,aal5:pcr=8Mbps,max_sdu=8192";

/// A daemon with an interface that meets another's at `socket`.
fn daemon(name: &str, socket: &Path, form: &str) -> Daemon {
    Daemon::start_beside(&format!("{MODEST}{}", interface(name, socket, form)))
}

fn interface(name: &str, socket: &Path, form: &str) -> String {
    format!(
        "[[interface]]\nname = \"{name}\"\nform = \"{form}\"\nlink.memory.socket = {socket:?}\n"
    )
}

/// A place for sockets of this test.
struct Place(std::path::PathBuf);

impl Place {
    fn new(test: &str) -> Self {
        let name = format!("cellgate-joined-{}-{test}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        Self(directory)
    }

    fn socket(&self) -> std::path::PathBuf {
        self.0.join("line.sock")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits until each has met the other.
fn await_both(a: &Daemon, b: &Daemon) {
    for one in [a, b] {
        await_state(one, "  up");
    }
}

/// Waits until `itf show` says so of the only interface.
fn await_state(daemon: &Daemon, words: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        // Between two daemons nobody answers.
        let output = daemon.run(&["itf", "show"]);
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        if shown.contains(words) {
            return shown;
        }
        assert!(Instant::now() < deadline, "{words}: {shown}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A file crosses from `a` of the one to `b` of the other, on a VC of this VPI.
fn carries(from: &Daemon, to: &Daemon, vpi: u16, len: usize) {
    let file = octets(len);
    let [a, b] = ["a", "b"].map(|name| format!("{name}.{vpi}.40"));
    let recv = ["recv", "--vc", &b, "--verify", "--contract", CONTRACT];
    let receiver = to.begin(&recv, &format!("receiving on {b}"));
    let send = ["send", "--vc", &a, "--verify", "--contract", CONTRACT];
    from.feed(&send, &file);
    assert!(receiver.stdout() == file, "not what was sent");
}

/// The process of a daemon's adapter.
fn adapter(daemon: &Daemon) -> Option<Pid> {
    let path = daemon.path("state/adapter.sock");
    let socket = dial(&path, Duration::from_secs(10)).ok()?;
    let (_, pid) = peer_credentials(&socket).unwrap();
    Pid::from_raw(pid.cast_signed())
}

/// Waits until another than `pid` is there in its place.
fn await_other(daemon: &Daemon, pid: Pid) {
    for _ in 0..6_000 {
        if adapter(daemon).is_some_and(|other| other != pid) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no adapter follows {pid:?}");
}

fn kill(pid: Pid) {
    kill_process(pid, Signal::KILL).unwrap();
}

#[test]
fn two_daemons_are_joined_and_whoever_dies_comes_back() {
    let place = Place::new("deaths");
    let a = daemon("a", &place.socket(), "uni");
    await_state(&a, "no peer seen");
    let mut b = daemon("b", &place.socket(), "uni");
    for one in [&a, &b] {
        let shown = await_state(one, "  up");
        assert!(shown.contains("form uni"), "{shown}");
    }
    carries(&a, &b, 200, 300_000);
    // A daemon may die: its adapter has the link.
    b.kill();
    await_state(&a, "  up");
    b.succeed();
    await_state(&b, "  up");
    carries(&a, &b, 200, 100_000);
    // Its adapter may die: the other end notices, and each finds the next.
    for (dying, other) in [(&b, &a), (&a, &b)] {
        // Its daemon, which would replace it at once, stands still.
        let pid = adapter(dying).unwrap();
        dying.signal(Signal::STOP);
        kill(pid);
        await_state(other, "no peer seen for");
        dying.signal(Signal::CONT);
        await_other(dying, pid);
        await_both(&a, &b);
        carries(&a, &b, 200, 100_000);
    }
    // Both may die, with their socket left behind.
    let both = [&a, &b].map(|one| (one, adapter(one).unwrap()));
    both.iter().for_each(|(_, pid)| kill(*pid));
    both.iter().for_each(|(one, pid)| await_other(one, *pid));
    await_both(&a, &b);
    carries(&a, &b, 200, 100_000);
    b.end();
    await_state(&a, "no peer seen for");
}

#[test]
fn who_does_not_fit_is_told_at_both_ends() {
    let place = Place::new("misfits");
    let socket = place.socket();
    let a = daemon("a", &socket, "uni");
    await_state(&a, "no peer seen");
    let b = daemon("b", &socket, "nni");
    await_state(
        &a,
        "no link: the other end is an NNI, this one a UNI: give both one `form`",
    );
    await_state(
        &b,
        "no link: the other end is a UNI, this one an NNI: give both one `form`",
    );
    // The mistake is mended while both run.
    let path = socket.to_str().unwrap();
    let add = [
        "itf", "add", "b", "type", "memory", "socket", path, "form", "uni",
    ];
    b.ok(&["itf", "del", "b"]);
    b.ok(&add);
    await_both(&a, &b);
    let c = daemon("c", &socket, "uni");
    await_state(&c, "no link: the other end is joined to a third");
    carries(&a, &b, 200, 50_000);
    drop(b);
    await_state(&c, "  up");
}

#[test]
fn an_nni_carries_the_vpis_that_a_uni_has_not() {
    let place = Place::new("nni");
    let [a, b] = ["a", "b"].map(|name| daemon(name, &place.socket(), "nni"));
    await_both(&a, &b);
    carries(&a, &b, 4_095, 50_000);
}

#[test]
fn a_uni_judges_the_headers_of_what_comes() {
    let place = Place::new("headers");
    let [a, b] = ["a", "b"].map(|name| daemon(name, &place.socket(), "uni"));
    await_both(&a, &b);
    b.ok(&["itf", "set", "b", "line", "ber", "0.5%", "seed", "7"]);
    // Nobody receives it: each cell whose header holds is of an unknown VC.
    a.feed(
        &["send", "--vc", "a.200.40", "--contract", CONTRACT],
        &octets(200_000),
    );
    let counts = || {
        let shown: Value = serde_json::from_str(&b.ok(&["itf", "show", "--json"])).unwrap();
        let counts = &shown["interfaces"][0]["counts"];
        let of = |path: &str| counts.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        [
            of("/line/cells_out"),
            of("/line/header_errors"),
            of("/cells/hec_error"),
            of("/cells/unknown_vc"),
        ]
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    let sent = 200_000 / 48;
    let [came, damaged, discarded, unknown] = loop {
        let counts = counts();
        if counts[0] >= sent && counts[0] == counts[2] + counts[3] {
            break counts;
        }
        assert!(Instant::now() < deadline, "{sent}: {counts:?}");
        std::thread::sleep(Duration::from_millis(50));
    };
    // Of those that are damaged by one bit, those that follow a good one are corrected.
    assert!(
        discarded > 0 && discarded < damaged,
        "{discarded} of {damaged}"
    );
    assert!(unknown > came - damaged, "{unknown} of {came}");
}

#[test]
fn what_is_no_place_for_a_socket_is_told_there() {
    let place = Place::new("places");
    let (socket, file) = (place.socket(), place.0.join("file"));
    fs::write(&file, "not a socket").unwrap();
    let b = daemon("b", &socket, "nni");
    let told = |path: &str| {
        let arguments = ["itf", "add", "x", "type", "memory", "socket", path];
        b.fails(1, &arguments)
    };
    let error = told(file.to_str().unwrap());
    assert!(error.contains("is there and is no socket"), "{error}");
    assert_eq!(fs::read(&file).unwrap(), b"not a socket");
    let error = told(place.0.join("nowhere/x.sock").to_str().unwrap());
    assert!(
        error.contains("nowhere/x.sock") && error.contains("No such file"),
        "{error}"
    );
    let error = told("here.sock");
    assert!(error.contains("expected a path from the root"), "{error}");
    let error = told(&format!("/{}", "x".repeat(107)));
    assert!(error.contains("108 octets: at most 107"), "{error}");
    // A listener that is no daemon's line.
    let error = {
        let control = b.socket();
        b.ok(&[
            "itf",
            "add",
            "x",
            "type",
            "memory",
            "socket",
            control.to_str().unwrap(),
        ]);
        let shown = await_state(&b, "speaks of no memory link");
        b.ok(&["itf", "del", "x"]);
        shown
    };
    assert!(error.contains("no link"), "{error}");
    // The socket goes with its interface.
    assert!(socket.exists());
    b.ok(&["itf", "del", "b"]);
    assert!(!socket.exists());
}

#[test]
fn a_uni_refuses_what_it_has_no_bits_for_at_its_place() {
    let place = Place::new("uni");
    let config = |text: &str| {
        let path = place.0.join("cellgate.toml");
        fs::write(&path, text).unwrap();
        let mut check = std::process::Command::new(env!("CARGO_BIN_EXE_cellgate"));
        let output = check.args(["config", "check"]).arg(&path).output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let uni = |name: &str, peer: &str| {
        format!("[[interface]]\nname = \"{name}\"\nform = \"uni\"\nlink.memory.peer = \"{peer}\"\n")
    };
    let (a, b) = (uni("a", "b"), uni("b", "a"));
    let connection = |vpi: u16| {
        format!("{a}{b}[[connection]]\naddress = \"a.{vpi}.40\"\ncontract = \"ubr,aal5\"\n")
    };
    for (text, parts) in [
        (
            connection(300),
            &[
                "line 10, column 11",
                "VPI 300: a UNI has VPIs from 0 to 255",
                "`form = \"nni\"`",
            ][..],
        ),
        (
            format!("{a}{}", b.replace("uni", "nni")),
            &[
                "line 7, column 8",
                "interface b: its peer a is a UNI, this one an NNI",
            ],
        ),
        (
            "[[interface]]\nname = \"w\"\nform = \"uni\"\nlink.udp = { local = \"127.0.0.1\", \
             peer = \"127.0.0.2\", label_out = 16, label_in = 16 }\n"
                .to_owned(),
            &["line 3, column 8", "VPIs of 12 bits and no GFC"],
        ),
        (
            a.replace("uni", "tin"),
            &["line 3, column 8", "`tin`", "`uni`"],
        ),
        (
            format!(
                "[[interface]]\nname = \"w\"\nlink.memory.socket = \"/{}\"\n",
                "x".repeat(107)
            ),
            &["line 3", "108 octets"],
        ),
        (
            "[[interface]]\nname = \"w\"\nlink.memory.socket = \"w.sock\"\n".to_owned(),
            &["line 3", "a path from the root"],
        ),
    ] {
        let error = config(&text);
        for part in parts {
            assert!(error.contains(part), "{text}: {part}: {error}");
        }
    }
    assert_eq!(config(&connection(255)), "");
    let daemon = Daemon::start_beside(&format!("{MODEST}{a}{b}"));
    let error = daemon.fails(1, &["vc", "add", "a.300.40", "contract", "ubr,aal5"]);
    assert!(
        error.contains("VPI 300: a UNI has VPIs from 0 to 255"),
        "{error}"
    );
    carries(&daemon, &daemon, 200, 100_000);
}
