//! Quotas of two users before a daemon. What the machine lacks is skipped, and said.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, copy_command, stderr, stdout};
use cellgate_core::server::{FromClient, Request, VERSION};
use cellgate_shm::socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};

/// Users that no machine has.
const POOR: u32 = 419_991;
const OTHER: u32 = 419_992;

/// A program that both can start, wherever the tests were built.
fn program(daemon: &Daemon) -> PathBuf {
    let program = daemon.path("cellgate");
    copy_command(&program);
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("its permissions");
    program
}

fn run_as(daemon: &Daemon, uid: u32, arguments: &[&str]) -> Output {
    Command::new(daemon.path("cellgate"))
        .args(arguments)
        .env("CELLGATE_SOCKET", daemon.socket())
        .stdin(Stdio::null())
        .uid(uid)
        .gid(uid)
        .output()
        .expect("it starts")
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn one_user_at_its_quota_does_not_hinder_another() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped quota_of_two_users: only root can be two users");
        return;
    }
    let daemon = Daemon::start(&format!(
        "socket_mode = \"0666\"\n[quota]\ncell_s = 300000\n\
         [quota.{POOR}]\nconnections = 4\nmemory = 3000000\ncell_s = 20000\n\
         [quota.{OTHER}]\nadapter_ppm = 1000000\n\
         [[interface]]\nname = \"a\"\nlink.memory.peer = \"a\"\n"
    ));
    program(&daemon);
    let add = |uid: u32, vci: u32, contract: &str| {
        let address = format!("a.0.{vci}");
        let output = run_as(&daemon, uid, &["vc", "add", &address, "contract", contract]);
        (output.status.code(), stderr(&output))
    };
    let quota = format!("in the quota of user {POOR}");
    let refused = |vci: u32, contract: &str, resource: &str| {
        let (code, said) = add(POOR, vci, contract);
        let named = said.contains(&quota) && said.contains(resource);
        assert!(code == Some(3) && named, "{contract}: {code:?} {said}");
    };
    let small = "cbr,aal5:pcr=1000,max_sdu=1500";
    assert_eq!(add(POOR, 40, "cbr,aal5:pcr=18000,max_sdu=1500").0, Some(0));
    refused(41, "cbr,aal5:pcr=3000,max_sdu=1500", "transmit bandwidth");
    refused(41, "cbr,aal5:pcr=1500,max_sdu=65535,dvt=40s", "memory");
    for vci in 41..44 {
        assert_eq!(add(POOR, vci, "ubr,aal5:max_sdu=40,rx:pcr=10").0, Some(0));
    }
    refused(44, "ubr,aal5:max_sdu=40,rx:pcr=10", "connections");
    // The other has the rest of the line, and as many as it likes.
    assert_eq!(
        add(OTHER, 50, "cbr,aal5:pcr=250000,max_sdu=9180").0,
        Some(0)
    );
    for vci in 51..61 {
        assert_eq!(add(OTHER, vci, small), (Some(0), String::new()));
    }
    let seen = run_as(&daemon, POOR, &["config", "show"]);
    let seen = stdout(&seen);
    for part in ["[adapter]", "[admission]", "cell_s = 300000", "a.0.50"] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    assert!(
        seen.contains(&format!("[quota.{POOR}]\nconnections = 4\n")),
        "{seen}"
    );
    assert!(
        !seen.contains("[server]\n") && !seen.contains(&format!("[quota.{OTHER}]")),
        "{seen}"
    );
    let file = daemon.path("seen.toml");
    fs::write(&file, &seen).expect("a file");
    daemon.ok(&["config", "check", file.to_str().expect("a name")]);
    let all = daemon.ok(&["config", "show"]);
    assert!(
        all.contains("[server]\n") && all.contains(&format!("[quota.{OTHER}]")),
        "{all}"
    );
    // Root has no quota; a user's connections are its own.
    assert_eq!(add(0, 70, small).0, Some(0));
    assert!(
        !run_as(&daemon, POOR, &["vc", "del", "a.0.50"])
            .status
            .success()
    );
    assert!(
        run_as(&daemon, POOR, &["vc", "del", "a.0.40"])
            .status
            .success()
    );
    assert_eq!(add(POOR, 40, "cbr,aal5:pcr=20000,max_sdu=1500").0, Some(0));
    println!("ran quota_of_two_users");
}

#[test]
fn one_who_leaves_descriptors_unread_keeps_nobody_from_getting_any() {
    const NAME: &str = "unread_descriptors";
    if !rustix::process::geteuid().is_root() {
        return println!("skipped {NAME}: only root can be two users");
    }
    // The kernel counts what is on its way against this user, who has nothing that exempts it.
    let plain = "prlimit --nofile=400:400 setpriv --reuid=65534 --regid=65534 --clear-groups";
    let words: Vec<&str> = plain.split(' ').collect();
    let probe = Command::new(words[0])
        .args(&words[1..])
        .args([env!("CARGO_BIN_EXE_cellgate"), "--version"])
        .output();
    if !probe.as_ref().is_ok_and(|probe| probe.status.success()) {
        return println!("skipped {NAME}: {probe:?}");
    }
    let daemon = Daemon::start_by(
        &words,
        "socket_mode = \"0666\"\n[[interface]]\nname = \"a\"\nlink.memory.peer = \"a\"\n",
        None,
    );
    program(&daemon);
    let patience = Duration::from_secs(10);
    let asked = |id: u64| {
        let version = VERSION;
        let request = match id {
            1 => Request::Hello { version },
            _ => Request::Counters,
        };
        serde_json::to_vec(&FromClient::Request {
            connection: 0,
            id,
            request,
        })
        .expect("it has a form in JSON")
    };
    // Those that say no more are hung up on, and what they were sent is as unread as before.
    let mut hoarders = Vec::new();
    for _ in 0..40 {
        let socket = socket::dial(&daemon.socket(), patience).expect("it listens");
        for id in 1..=16 {
            socket::send(&socket, &asked(id), &[], true).expect("it is taken");
        }
        shutdown(&socket, Shutdown::Write).expect("it is connected");
        // One that is not answered whole is not hung up on.
        let mut hung_up = [PollFd::new(&socket, PollFlags::empty())];
        let while_ms = Timespec::try_from(Duration::from_millis(50)).expect("it is short");
        poll(&mut hung_up, Some(&while_ms)).expect("it is a socket");
        hoarders.push(socket);
    }
    let others = (0..8).map(|_| {
        let socket = socket::dial(&daemon.socket(), patience).expect("it listens");
        let took =
            (1..=200).take_while(|id| socket::send(&socket, &asked(*id), &[], false).is_ok());
        assert!(took.count() > 20);
        socket
    });
    hoarders.extend(others);
    std::thread::sleep(Duration::from_millis(200));
    let from = Instant::now();
    let contract = "cbr,aal5:pcr=1000,max_sdu=1500";
    for _ in 0..3 {
        let sent = run_as(
            &daemon,
            OTHER,
            &["send", "--vc", "a.0.50", "--contract", contract],
        );
        assert!(sent.status.success(), "{}", stderr(&sent));
    }
    assert!(from.elapsed() < patience, "{:?}", from.elapsed());
    // Who reads gets all that it has asked for, where its user has nothing else unread.
    let reader = hoarders.pop().expect("a hoarder");
    drop(hoarders);
    let mut buffer = vec![0; socket::MESSAGE_MAX];
    let fds =
        (1..20).map(
            |_| match socket::receive(&reader, &mut buffer, true).expect("an answer") {
                socket::Received::Message(_, fds) => fds.len(),
                other => panic!("{other:?}"),
            },
        );
    assert_eq!(fds.sum::<usize>(), 18);
    println!("ran {NAME}");
}
