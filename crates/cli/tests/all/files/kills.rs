//! Whoever is killed at any moment of a transfer, the same command goes on. The long form:
//! `CELLGATE_FILE_KILLS=1000`; `CELLGATE_SEED` is taken back.

use std::os::fd::AsFd;
use std::time::{Duration, SystemTime};

use cellgate_host::sys::peer_credentials;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, Signal, kill_process};

use super::ends::{End, Place, sent};
use super::tree::{self, PARTIAL, Watcher};
use super::{CONTRACT, RATE, daemon};
use crate::daemon::Daemon;

const WINDOW: u64 = 1 << 18;
/// What a sender has sent that it did not say before it was killed: it says it five times a second.
const UNSAID: u64 = RATE / 2;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn serve(daemon: &Daemon, place: &Place) -> End {
    let words = ["--vc", "b.0.100", "--writable", "--contract", CONTRACT];
    let window = WINDOW.to_string();
    let words = [&words[..], &["--window", &window]].concat();
    End::serve(daemon, &place.at("to"), &words)
}

fn put(daemon: &Daemon, place: &Place) -> End {
    let (from, window) = (place.text("from"), WINDOW.to_string());
    let words = [
        "put",
        "-r",
        &from,
        "--vc",
        "a.0.100",
        "--contract",
        CONTRACT,
    ];
    End::begin(daemon, &[&words[..], &["--window", &window]].concat())
}

/// Whose process listens as the adapter.
fn adapter(daemon: &Daemon) -> Option<u32> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).expect("a socket");
    let path = SocketAddrUnix::new(daemon.path("state/adapter.sock")).expect("a path");
    connect(&socket, &path).ok()?;
    Some(peer_credentials(socket.as_fd()).expect("credentials").1)
}

/// Whoever begins while there is no daemon, or no adapter, is told so at once: that comes first.
fn eventually(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..3_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}");
}

fn kill_daemon(daemon: &mut Daemon) {
    daemon.kill();
    daemon.succeed();
    eventually("no daemon", || daemon.run(&["vc", "show"]).status.success());
}

fn kill_adapter(daemon: &Daemon) {
    let before = adapter(daemon).expect("the adapter listens");
    let pid = Pid::from_raw(before.cast_signed()).expect("a process");
    kill_process(pid, Signal::KILL).expect("it runs");
    eventually("no adapter", || {
        adapter(daemon).is_some_and(|pid| pid != before)
    });
}

#[test]
fn whoever_is_killed_the_same_command_goes_on_and_nothing_is_half() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seed = number("CELLGATE_SEED").unwrap_or(now.expect("a clock").as_nanos() as u64);
    println!("CELLGATE_SEED={seed}");
    let kills = number("CELLGATE_FILE_KILLS").unwrap_or(20);
    let mut rng = Pcg64Mcg::new(u128::from(seed) << 1 | 1);
    let mut below = |bound: u64| rng.next_u64() % bound;
    let mut daemon = daemon();
    let place = Place::new("kills");
    let data = tree::make(&place.at("from"));
    let to = place.directory("to");
    let (mut killed, mut rounds, mut most) = (0, 0, 0);
    while killed < kills {
        let watcher = Watcher::new(&place.at("from"), &to.join("from"));
        let mut server = serve(&daemon, &place);
        let mut sender = put(&daemon, &place);
        let (mut octets, mut killed_now) = (0, 0);
        loop {
            // A moment of the transfer: by then a journal may have been written, or not.
            let until = Duration::from_millis(50 + below(1_800));
            let begun = SystemTime::now();
            while !sender.has_ended() && begun.elapsed().unwrap_or(until) < until {
                std::thread::sleep(Duration::from_millis(2));
            }
            if sender.has_ended() {
                let (code, lines, told) = sender.end();
                assert_eq!(code, 0, "{told} {:?}", lines.last());
                octets += sent(&lines).0;
                break;
            }
            if killed >= kills {
                continue;
            }
            (killed, killed_now) = (killed + 1, killed_now + 1);
            println!("kill {killed} after {} ms", until.as_millis());
            match killed {
                7 => kill_daemon(&mut daemon),
                13 => kill_adapter(&daemon),
                _ if below(2) == 0 => {
                    octets += sent(&sender.kill()).0 + UNSAID;
                    sender = put(&daemon, &place);
                }
                _ => {
                    server.kill();
                    server = serve(&daemon, &place);
                }
            }
        }
        watcher.end();
        tree::assert_same(&place.at("from"), &to.join("from"));
        server.signal(Signal::TERM);
        assert_eq!(server.end().0, 0);
        assert!(!to.join(PARTIAL).exists());
        // What is said besides, and what a second of the line's rate has beyond files.
        let most_now = data + data / 20 + killed_now * (WINDOW + RATE + UNSAID);
        assert!(
            octets <= most_now,
            "{octets} for {data}, {killed_now} kills"
        );
        most = most.max((octets - data) / killed_now.max(1));
        rounds += 1;
        std::fs::remove_dir_all(to.join("from")).expect("it is ours");
    }
    println!("{killed} kills in {rounds} transfers, at most {most} octets more for each");
}
