//! What lies in the file system is taken away, replaced and planted while a daemon serves; and
//! whoever reads its log does not.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::application::*;
use crate::common::*;
use cellgate_core::server::{FromClient, Indication, Request, VERSION};
use cellgate_shm::socket::{MESSAGE_MAX, receive, send};
use rustix::process::{Signal, geteuid};

const CBR: &str = "aal5,cbr:pcr=20000cps,max_sdu=1000";
const LO: &str = "[[interface]]\nname = \"lo\"\nlink.memory.peer = \"lo\"\n";

/// Where a second daemon, or a flood of sockets, has its directory.
const OF: &str = "CELLGATE_TEST_OF";

/// A user that no machine has.
const OTHER: u32 = 419_992;

/// No test by itself: the flood of sockets.
#[test]
fn plays_its_role() {
    if std::env::var(ROLE).as_deref() == Ok("flood") {
        flood(Path::new(&std::env::var_os(OF).unwrap()));
    }
}

/// What is in a directory, but the configuration.
fn empty(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap() != "config.toml" {
            fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn what_becomes_of_the_state_directory_costs_a_successor_nothing() {
    type Harm = fn(&Path);
    let nothing: Harm = |_| ();
    // What is missing may be made again meanwhile.
    let all: Harm = |directory| {
        while let Err(error) = fs::remove_dir_all(directory) {
            assert_eq!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty);
        }
    };
    for (name, harm) in [("kept", nothing), ("emptied", empty), ("removed", all)] {
        let mut daemon = Daemon::start(&format!("places-{name}"), LO);
        daemon.admin().add_interface(own_peer("hand")).unwrap();
        let connection = daemon.open("hand.0.100", CBR);
        let adapter = daemon.adapter();
        harm(&daemon.directory);
        daemon.kill();
        fs::create_dir_all(&daemon.directory).unwrap();
        daemon.configure(LO);
        daemon.restart();
        hears(&connection, |told| *told == Indication::Restarted);
        assert_eq!(daemon.adapter(), adapter, "{name}");
        let names = interface_names(&mut daemon.admin());
        assert_eq!(names, ["hand", "lo"], "{name}");
        assert_eq!(connection.address().to_string(), "hand.0.100");
        crosses(&connection, &connection, &[7; 500]);
    }
}

#[test]
fn a_link_that_a_dead_server_took_off_stays_off() {
    let mut daemon = Daemon::start("places-unlinked", LO);
    let mut admin = daemon.admin();
    admin.add_interface(own_peer("hand")).unwrap();
    admin.remove_interface("hand").unwrap();
    daemon.kill();
    daemon.restart();
    assert_eq!(interface_names(&mut daemon.admin()), ["lo"]);
}

/// Another daemon of the same state directory, at a socket of its own.
fn second(daemon: &Daemon) -> Command {
    let config = fs::read_to_string(daemon.directory.join("config.toml")).unwrap();
    let socket = daemon.directory.join("second.sock");
    let line = format!("[server]\nsocket = {socket:?}\n");
    let path = daemon.directory.join("second.toml");
    fs::write(&path, config.replace("[server]\n", &line)).unwrap();
    let mut program = program("daemon");
    program.env(PATH, path).stderr(Stdio::piped());
    program
}

#[test]
fn two_daemons_never_govern_one_adapter() {
    let daemon = Daemon::start("places-two", LO);
    let connection = daemon.open("lo.0.100", CBR);
    let adapter = daemon.adapter();
    let lock = daemon.directory.join("lock");
    for removed in [false, true, true] {
        if removed {
            // Who comes at once meets the adapter, who comes later a lock that is there again.
            fs::remove_file(&lock).unwrap();
        }
        let output = second(&daemon).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{told}");
        assert!(told.contains(&daemon.pid().to_string()), "{told}");
        assert_eq!(daemon.adapter(), adapter, "{removed}");
        crosses(&connection, &connection, &[7; 500]);
        eventually("the lock stays away", || lock.exists().then_some(()));
    }
}

#[test]
fn an_adapter_that_nobody_will_find_ends() {
    let mut daemon = Daemon::start("places-orphan", LO);
    drop(daemon.connect());
    let adapter = daemon.adapter();
    let path = daemon.directory.join("adapter.sock");
    let is_there = || Path::new(&format!("/proc/{adapter}/task")).exists();
    // While its server is there, and where nothing is in its place, it stays.
    daemon.kill();
    fs::remove_file(&path).unwrap();
    eventually("it does not listen again", || dial(&path).ok());
    assert!(is_there());
    fs::remove_file(&path).unwrap();
    let theirs = cellgate_shm::socket::listen(&path, 0o600).unwrap();
    eventually("it does not end", || (!is_there()).then_some(()));
    assert!(path.exists());
    drop(theirs);
}

#[test]
fn a_control_socket_that_is_removed_comes_back() {
    let mut daemon = Daemon::start("places-socket", LO);
    let path = daemon.directory.join("control.sock");
    drop(daemon.connect());
    let mode = path.metadata().unwrap().mode();
    fs::remove_file(&path).unwrap();
    assert_eq!(interface_names(&mut daemon.admin()), ["lo"]);
    assert_eq!(path.metadata().unwrap().mode(), mode);
    // What another has put there stays, until that one takes it away.
    eventually("the socket is always there", || {
        let _ = fs::remove_file(&path);
        fs::write(&path, "planted").ok()
    });
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(fs::read(&path).unwrap(), b"planted");
    fs::remove_file(&path).unwrap();
    assert_eq!(interface_names(&mut daemon.admin()), ["lo"]);
    fs::remove_file(&path).unwrap();
    let theirs = UnixDatagram::bind(&path);
    daemon.signal(Signal::TERM);
    daemon.wait();
    // Whose it is at the end, has it still.
    assert_eq!(path.exists(), theirs.is_ok());
}

#[test]
fn who_does_not_read_the_log_holds_nobody_up() {
    let place = Daemon::start("places-log", LO);
    let (reads, writes) = rustix::pipe::pipe().unwrap();
    let mut program = second(&place);
    let directory = place.directory.join("second");
    let config = fs::read_to_string(place.directory.join("second.toml")).unwrap();
    let own = config.replace(
        place.directory.to_str().unwrap(),
        directory.to_str().unwrap(),
    );
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join("config.toml");
    fs::write(&path, own.replace("second.sock", "control.sock")).unwrap();
    program.env(PATH, &path).stderr(writes);
    let daemon = Daemon::of(directory, program);
    let mut admin = daemon.admin();
    fs::write(&path, "nonsense").unwrap();
    for _ in 0..5_000 {
        daemon.signal(Signal::HUP);
        let from = Instant::now();
        assert_eq!(interface_names(&mut admin), ["lo"]);
        assert!(from.elapsed() < Duration::from_secs(5));
    }
    // Beyond what the pipe and the queue hold, something is lost; who reads again, hears it.
    let mut said = BufReader::new(fs::File::from(reads)).lines();
    let lost = "lines were not read in time";
    assert!(said.any(|line| line.unwrap().contains(lost)));
}

const SOCKETS: usize = 200;

/// The life of a process that asks over many sockets at once, and ends with its standard input.
fn flood(path: &Path) {
    let sockets: Vec<_> = (0..SOCKETS).map(|_| hello(path)).collect();
    let asks = |id| FromClient::Request {
        connection: 0,
        id,
        request: Request::Describe,
    };
    let ended = std::thread::spawn(|| std::io::stdin().read_to_end(&mut Vec::new()));
    println!("there");
    std::io::stdout().flush().unwrap();
    let (mut id, mut buffer) = (1, vec![0; MESSAGE_MAX]);
    while !ended.is_finished() {
        id += 1;
        let octets = serde_json::to_vec(&asks(id)).unwrap();
        for socket in &sockets {
            while send(socket, &octets, &[], false).is_ok() {}
            while receive(socket, &mut buffer, false).is_ok() {}
        }
    }
}

fn hello(path: &Path) -> OwnedFd {
    let socket = dial(path).unwrap();
    let request = Request::Hello { version: VERSION };
    let octets = serde_json::to_vec(&FromClient::Request {
        connection: 0,
        id: 1,
        request,
    })
    .unwrap();
    send(&socket, &octets, &[], true).unwrap();
    receive(&socket, &mut vec![0; MESSAGE_MAX], true).unwrap();
    socket
}

#[test]
fn what_one_user_asks_over_many_sockets_makes_no_other_wait() {
    if !geteuid().is_root() {
        println!("skipped turns_of_two_users: only root can be two users");
        return;
    }
    println!("ran turns_of_two_users");
    let line = "socket_mode = \"0666\"";
    let daemon = Daemon::start_as("places-flood", line, LO);
    let mut admin = daemon.admin();
    let mut program = in_role(module_path!(), "flood");
    program.env(OF, daemon.directory.join("control.sock"));
    program.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut flood = program.uid(OTHER).gid(OTHER).spawn().unwrap();
    let mut lines = BufReader::new(flood.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("there")));
    let mut waits: Vec<_> = (0..100)
        .map(|_| {
            let from = Instant::now();
            assert_eq!(interface_names(&mut admin), ["lo"]);
            std::thread::sleep(Duration::from_millis(5));
            from.elapsed()
        })
        .collect();
    drop(flood.stdin.take());
    flood.kill().unwrap();
    flood.wait().unwrap();
    waits.sort();
    // Beside 800 answers it was more than a second.
    assert!(waits[50] < Duration::from_millis(100), "{waits:?}");
}
