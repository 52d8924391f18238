//! The daemon with applications: data, kills, garbage.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::application::*;
use crate::common::*;
use cellgate::{Admin, Error};
use cellgate_core::server::{
    Confirm, ConnectionInfo, EndReason, FromClient, FromServer, Indication, MessageKind, Refused,
    Request, Resource, VERSION,
};
use cellgate_shm::socket::{MESSAGE_MAX, pair, send};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use rustix::cmsg_space;
use rustix::io::{Errno, IoSlice};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Resource as Limited, Rlimit, Signal, prlimit};

/// Two interfaces, each the other's peer.
const PAIR: &str = "[[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
                    [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n";

const SENDS: &str = "aal5,cbr:tx:pcr=20000cps,max_sdu=1000,rx:none";
const RECEIVES: &str = "aal5,cbr:tx:none,rx:pcr=20000cps,max_sdu=1000";
const CBR: &str = "aal5,cbr:pcr=20000cps,max_sdu=1000";

fn reserved(admin: &mut Admin) -> Vec<(Resource, Option<String>, u64)> {
    let all = admin.resources().unwrap().into_iter();
    all.map(|info| (info.resource, info.interface, info.reserved))
        .collect()
}

fn vcs_of(admin: &mut Admin) -> usize {
    admin.list().unwrap().len()
}

#[test]
fn octets_cross_a_memory_link_between_two_applications() {
    let daemon = Daemon::start("pair", PAIR);
    let sender = daemon.open("a.0.100", SENDS);
    let receiver = daemon.open("b.0.100", RECEIVES);
    assert_eq!(sender.address().to_string(), "a.0.100");
    for sdu in Sdus::new(1, 1_000).take(300) {
        crosses(&sender, &receiver, &sdu);
    }
    let taken = daemon.builder("a.0.100", SENDS).open().unwrap_err();
    assert!(matches!(taken, Error::Refused(Refused::AddressInUse)));
    assert_eq!(vcs_of(&mut daemon.admin()), 2);
    let stats = sender.close(PATIENCE).unwrap();
    assert_eq!((stats.pdus_transmitted, stats.client_faults), (300, 0));
    let stats = receiver.close(PATIENCE).unwrap();
    assert_eq!(stats.pdus_delivered, 300);
    assert_eq!(stats.cells_received, stats.cells_delivered);
}

#[test]
fn both_ends_of_a_memory_link_may_have_the_same_address() {
    let daemon = Daemon::start("namesakes", PAIR);
    let (here, there) = (daemon.open("a.0.100", CBR), daemon.open("b.0.100", CBR));
    let sdus = Sdus::new(2, 1_000).zip(Sdus::new(3, 1_000));
    for (out, back) in sdus.take(100) {
        here.send(&out).unwrap();
        crosses(&there, &here, &back);
        let mut buffer = [0; 1_000];
        let received = there.recv_timeout(&mut buffer, PATIENCE).unwrap();
        assert_eq!(buffer[..received.len], out);
    }
    for connection in [here, there] {
        let stats = connection.close(PATIENCE).unwrap();
        assert_eq!((stats.pdus_transmitted, stats.pdus_delivered), (100, 100));
        assert_eq!(stats.cells_discarded.total(), 0);
    }
}

#[test]
fn a_killed_daemon_stops_no_data_and_its_successor_takes_all_up() {
    let mut daemon = Daemon::start("kill", "");
    let mut connections = [100, 101, 102].map(|vci| daemon.open(&format!("0.{vci}"), CBR));
    let mut watcher = daemon.admin();
    let before = reserved(&mut watcher);
    let ended = AtomicBool::new(false);
    for round in 0..3 {
        ended.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            for connection in &mut connections {
                let ended = &ended;
                scope.spawn(move || {
                    let mut number = 0_u32;
                    while !ended.load(Ordering::Relaxed) || number < 100 {
                        crosses(connection, connection, &number.to_be_bytes());
                        number += 1;
                    }
                    hears(connection, |told| *told == Indication::Restarted);
                });
            }
            daemon.kill();
            let from = Instant::now();
            daemon.restart();
            // Ready again when it answers; how long that takes is printed, not judged.
            watcher = daemon.admin();
            println!("taken up {:?} after the start ({round})", from.elapsed());
            ended.store(true, Ordering::Relaxed);
        });
        assert_eq!(reserved(&mut watcher), before);
        assert_eq!(vcs_of(&mut watcher), 3);
    }
    // The sockets are served as before.
    for connection in connections {
        let stats = connection.close(PATIENCE).unwrap();
        assert_eq!(stats.cells_discarded.total(), 0);
        assert_eq!(stats.pdus_delivered, stats.pdus_transmitted);
    }
    assert_eq!(vcs_of(&mut watcher), 0);
}

#[test]
fn what_died_while_no_daemon_was_there_is_given_back() {
    let mut daemon = Daemon::start("orphan", "");
    let mut watcher = daemon.admin();
    let before = reserved(&mut watcher);
    let connection = daemon.open("0.100", CBR);
    let staying = daemon.open("0.101", CBR);
    daemon.kill();
    drop(connection);
    daemon.restart();
    let mut watcher = daemon.admin();
    eventually("the dead one's connection stays", || {
        (vcs_of(&mut watcher) == 1).then_some(())
    });
    crosses(&staying, &staying, b"on");
    drop(staying);
    eventually("resources do not come back", || {
        (reserved(&mut watcher) == before).then_some(())
    });
}

#[test]
fn a_killed_adapter_is_followed_by_another_with_all_connections() {
    let daemon = Daemon::start("adapter", PAIR);
    let sender = daemon.open("a.0.100", SENDS);
    let receiver = daemon.open("b.0.100", RECEIVES);
    for round in 0..3_u32 {
        crosses(&sender, &receiver, &round.to_be_bytes());
        kill(daemon.adapter(), Signal::KILL);
        for connection in [&sender, &receiver] {
            hears(connection, |told| matches!(told, Indication::Reopened(_)));
        }
    }
    crosses(&sender, &receiver, b"again");
}

/// Lets a process have so many octets of address space.
fn limit(pid: u32, octets: Option<u64>) {
    let pid = Pid::from_raw(pid.cast_signed());
    let limits = Rlimit {
        current: octets,
        maximum: None,
    };
    prlimit(pid, Limited::As, limits).unwrap();
}

#[test]
fn a_connection_that_a_new_adapter_refuses_is_there_again_when_it_can_be() {
    const LARGE: &str = "[[interface]]\nname = \"a\"\nlink.memory.peer = \"a\"\n\
                         [[connection]]\naddress = \"a.0.100\"\n\
                         contract = \"aal5,cbr:tx:none,rx:pcr=20000cps,max_sdu=9180\"\n\
                         receive_pdus = 30000\n\
                         [[connection]]\naddress = \"a.0.101\"\n\
                         contract = \"aal5,ubr:max_sdu=1500\"\n";
    let daemon = Daemon::start("refused", LARGE);
    let mut watcher = daemon.admin();
    // By hand: nobody wants it back.
    watcher.delete("a.0.101").unwrap();
    let mut listed = || {
        let of = |info: ConnectionInfo| (info.address.vc.vci(), info.memory);
        watcher
            .list()
            .unwrap()
            .into_iter()
            .map(of)
            .collect::<Vec<_>>()
    };
    let there = listed();
    let [(100, memory)] = there[..] else {
        panic!("{there:?}");
    };
    // The adapter maps what it receives into twice in a row: room for all but half of that.
    let first = daemon.adapter();
    let status = std::fs::read_to_string(format!("/proc/{first}/status")).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = size.and_then(|size| size.trim().strip_suffix(" kB"));
    let room = kib.unwrap().trim().parse::<u64>().unwrap() * 1_024 - memory;
    limit(daemon.pid(), Some(room));
    kill(first, Signal::KILL);
    eventually("the connection stays", || listed().is_empty().then_some(()));
    let next = daemon.adapter();
    assert_ne!(next, first);
    limit(daemon.pid(), None);
    // It is asked for, and refused once more.
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(listed(), []);
    // Who asks by hand hears once who it is that has no room.
    let large = "aal5,cbr:tx:none,rx:pcr=20000cps,max_sdu=9180";
    let large = daemon.builder("a.0.103", large).receive_pdus(30_000);
    let refused = daemon.admin().add(&large).unwrap_err();
    let said = refused.to_string();
    assert_eq!(said.matches("refused").count(), 1, "{said}");
    limit(next, None);
    eventually("the connection stays away", || {
        (listed() == there).then_some(())
    });
    assert_eq!(daemon.adapter(), next);
}

#[test]
fn a_thousand_opens_and_closes_leak_nothing() {
    let daemon = Daemon::start("leak", "");
    let mut watcher = daemon.admin();
    let before = reserved(&mut watcher);
    let descriptors = |pid: u32| {
        let path = format!("/proc/{pid}/fd");
        std::fs::read_dir(path).unwrap().count()
    };
    let count = || (descriptors(daemon.pid()), descriptors(daemon.adapter()));
    let settled = eventually("descriptors come and go", || {
        let first = count();
        std::thread::sleep(std::time::Duration::from_millis(50));
        (first == count()).then_some(first)
    });
    let mut opens = |n: usize| {
        for i in 0..n {
            let connection = daemon.builder("0.100", CBR).open().unwrap();
            // Half of them in order, half by their end.
            if i % 2 == 0 {
                connection.close(PATIENCE).unwrap();
            } else {
                drop(connection);
                eventually("the address stays in use", || {
                    (vcs_of(&mut watcher) == 0).then_some(())
                });
            }
        }
    };
    opens(1_000);
    eventually("descriptors leak", || (count() <= settled).then_some(()));
    assert_eq!(reserved(&mut watcher), before);
}

#[test]
fn garbage_on_the_socket_is_answered_and_hurts_nobody() {
    let daemon = Daemon::start("garbage", "");
    let steady = daemon.open("0.100", CBR);
    let (mut admin, other) = (daemon.admin(), daemon.connect());
    let mut rng = Pcg64Mcg::new(5);
    let samples = [
        format!(r#"{{"request":{{"id":1,"request":{{"hello":{{"version":{VERSION}}}}}}}}}"#),
        r#"{"request":{"id":2,"request":{"list":{"from":0}}}}"#.to_owned(),
        r#"{"request":{"id":3,"request":{"open":{"address":"0.101","contract":"CBR"}}}}"#
            .replace("CBR", CBR),
        r#"{"response":{"id":9,"response":"accept"}}"#.to_owned(),
        "[".repeat(60_000),
    ];
    for i in 0..600 {
        let mut wild = daemon.connect();
        let mut octets = samples[i % samples.len()].clone().into_bytes();
        for _ in 0..rng.next_u32() % 4 {
            let at = rng.next_u32() as usize % octets.len();
            octets[at] = b"{}[]\",:-e019x"[rng.next_u32() as usize % 13];
        }
        octets.truncate(1 + rng.next_u32() as usize % (octets.len() + 8));
        let fds = vec![other.socket.as_fd(); i % 9];
        send(&wild.socket, &octets, &fds, true).unwrap();
        // It is still served, or was hung up on; the others are.
        if i % 50 == 0 {
            let _ = wild.next(Instant::now() + PATIENCE);
            crosses(&steady, &steady, &i.to_be_bytes());
            assert!(vcs_of(&mut admin) >= 1);
        }
    }
}

/// Sends what no application does: any octets, any number of descriptors.
fn shout(socket: &OwnedFd, octets: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(16))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(fds)));
    let octets = &[IoSlice::new(octets)];
    sendmsg(socket, octets, &mut ancillary, SendFlags::empty()).unwrap();
}

#[test]
fn what_a_client_sends_holds_nobody_up_when_it_is_closed() {
    let mut daemon = Daemon::start("linger", "");
    daemon.connect();
    let long = vec![b'x'; MESSAGE_MAX + 1];
    let mut silent = Vec::new();
    for round in 0..20 {
        let (socket, listener) = lingering();
        let wild = dial(&daemon.directory.join("control.sock")).unwrap();
        // All is there before anything is read.
        daemon.signal(Signal::STOP);
        eventually("it goes on", || {
            let state = status(daemon.pid(), "cg-service", "State:");
            state.starts_with('T').then_some(())
        });
        match round % 5 {
            0 => shout(&wild, b"x", &[socket.as_fd()]),
            1 => shout(&wild, &long, &[socket.as_fd()]),
            // More than anybody asks for.
            2 => {
                let mut fds = [listener.as_fd(); 16];
                fds[15] = socket.as_fd();
                shout(&wild, b"x", &fds);
            }
            // It lies unread in what is closed: in the control socket, and in another one.
            3 => {
                shout(&wild, b"", &[listener.as_fd()]);
                shout(&wild, b"x", &[socket.as_fd()]);
            }
            _ => {
                let (mine, theirs) = pair().unwrap();
                send(&mine, b"x", &[socket.as_fd()], true).unwrap();
                shout(&wild, b"x", &[theirs.as_fd()]);
            }
        }
        drop(socket);
        silent.push((wild, listener));
        daemon.signal(Signal::CONT);
        let from = Instant::now();
        vcs_of(&mut daemon.admin());
        let waited = from.elapsed();
        assert!(waited < LINGER / 5, "{round}: {waited:?}");
    }
    let from = Instant::now();
    daemon.signal(Signal::TERM);
    daemon.wait();
    assert!(from.elapsed() < LINGER / 2, "{:?}", from.elapsed());
}

#[test]
fn a_configuration_is_read_again_and_a_bad_one_is_not_taken() {
    let connection = "[[connection]]\naddress = \"b.0.40\"\n\
                      contract = \"aal5,cbr:pcr=1000cps,max_sdu=100\"\n";
    let mut daemon = Daemon::start("reload", PAIR);
    let mut admin = daemon.admin();
    let mut state = || {
        let rates = admin.list().unwrap().into_iter().map(|info| info.contract);
        let rates: Vec<_> = rates.collect();
        let names = interface_names(&mut admin);
        (names.join(" "), rates.len(), rates.concat())
    };
    eventually("no interfaces", || (state().0 == "a b").then_some(()));
    daemon.configure(&format!("{PAIR}{connection}"));
    daemon.signal(Signal::HUP);
    eventually("no permanent connection", || (state().1 == 1).then_some(()));
    daemon.configure("[[interface]]\nnam = 1\n");
    daemon.signal(Signal::HUP);
    let changed = connection.replace("1000cps", "2000cps");
    daemon.configure(&format!("{PAIR}{changed}"));
    daemon.signal(Signal::HUP);
    eventually("the contract stays", || {
        state().2.contains("2000").then_some(())
    });
    daemon.configure("[[interface]]\nname = \"c\"\nlink.memory.peer = \"c\"\n");
    daemon.signal(Signal::HUP);
    eventually("the interfaces stay", || {
        (state() == ("c".to_owned(), 0, String::new())).then_some(())
    });
    daemon.signal(Signal::TERM);
    daemon.wait();
}

#[test]
fn who_does_not_read_its_answers_is_not_heard_and_gets_all_of_them() {
    let daemon = Daemon::start("slow", "");
    let (mut steady, mut slow) = (daemon.connect(), daemon.connect());
    let (first, mut id, mut refused) = (100, 100, 0);
    // Until nothing is taken from it for a while.
    while refused < 20 {
        let request = Request::Describe;
        let octets = serde_json::to_vec(&FromClient::Request {
            connection: 0,
            id,
            request,
        })
        .unwrap();
        match send(&slow.socket, &octets, &[], false) {
            Ok(()) => (id, refused) = (id + 1, 0),
            Err(Errno::AGAIN) => {
                refused += 1;
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => panic!("after {} requests: {error}", id - first),
        }
    }
    assert!(steady.ask(Request::Interfaces).is_ok());
    for expected in first..id {
        let (answer, _) = slow.next(Instant::now() + PATIENCE).expect("an answer");
        assert!(matches!(answer, FromServer::Confirm { id, result: Ok(_), .. } if id == expected));
    }
    assert!(slow.ask(Request::Interfaces).is_ok());
}

#[test]
fn what_a_daemon_encloses_is_as_described() {
    let daemon = Daemon::start("describe", "");
    let (mut first, mut second) = (daemon.connect(), daemon.connect());
    let Ok(Confirm::Description(all)) = first.ask(Request::Describe) else {
        panic!("no description");
    };
    let described = |kind, name| {
        let one = all
            .iter()
            .find(|one| (one.kind, &one.name[..]) == (kind, name));
        one.unwrap().descriptors.len()
    };
    let confirmed = |(result, fds): (Result<Confirm, Refused>, Vec<OwnedFd>), name| {
        let confirm = result.unwrap();
        assert_eq!(confirm.name(), name);
        assert_eq!(fds.len(), described(MessageKind::Confirm, name), "{name}");
        fds
    };
    let fds = confirmed(
        first.ask_with(Request::Open(open("0.100", CBR)), &[]),
        "opened",
    );
    let counters = first.ask_with(Request::Counters, &[]);
    confirmed(counters, "counters");
    confirmed(first.ask_with(Request::Resources, &[]), "resources");
    let contract = CBR.replace("max_sdu=", "max_sdu=1");
    let files = confirmed(
        first.ask_with(Request::Modify { contract }, &[]),
        "modified",
    );
    let address = "0.100".parse().unwrap();
    let reattach = Request::Reattach { address };
    assert_eq!(described(MessageKind::Request, reattach.name()), 1);
    // The second of them, as told.
    let (result, _) = second.ask_with(reattach.clone(), &[files[0].as_fd()]);
    assert!(matches!(result, Err(Refused::Descriptors(_))), "{result:?}");
    let (result, _) = second.ask_with(reattach.clone(), &[fds[1].as_fd()]);
    assert!(matches!(result, Err(Refused::Descriptors(_))), "{result:?}");
    confirmed(second.ask_with(reattach, &[files[1].as_fd()]), "opened");
}

#[test]
fn a_daemon_that_ends_takes_all_with_it_and_one_that_leaves_does_not() {
    let mut daemon = Daemon::start("end", "");
    let mut application = daemon.connect();
    let (_, mut vc) = application.open(open("0.100", CBR)).unwrap();
    daemon.signal(Signal::USR1);
    daemon.wait();
    vc.send(b"alone");
    assert_eq!(vc.receive(), b"alone");
    assert!(is_quiet(&application.socket));
    daemon.restart();
    application.indication(|i| (*i == Indication::Restarted).then_some(()));
    // What was added at run time is still there.
    let adapter = daemon.adapter();
    daemon.signal(Signal::TERM);
    let end = Indication::Ended(EndReason::ShuttingDown);
    application.indication(|i| (*i == end).then_some(()));
    assert!(application.next(Instant::now() + PATIENCE).is_none());
    daemon.wait();
    eventually("the adapter stays", || {
        (!std::path::Path::new(&format!("/proc/{adapter}")).exists()).then_some(())
    });
}

#[test]
fn interfaces_added_at_run_time_outlive_the_daemon() {
    let mut daemon = Daemon::start("itf", "");
    daemon.admin().add_interface(own_peer("x")).unwrap();
    let connection = daemon.open("x.0.100", CBR);
    daemon.kill();
    daemon.restart();
    hears(&connection, |told| *told == Indication::Restarted);
    crosses(&connection, &connection, b"through x");
    let mut operator = daemon.admin();
    let there = operator.remove_interface("x");
    assert!(there.is_err(), "it has a connection");
    connection.close(PATIENCE).unwrap();
    operator.remove_interface("x").unwrap();
}

/// Whether every user can reach a file.
fn is_public(path: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let open = |path: &std::path::Path| {
        path.metadata()
            .is_ok_and(|found| found.permissions().mode() & 0o001 != 0)
    };
    path.ancestors().all(open)
}

/// A line of the status of a process's thread of this name: the harness has another one beside the
/// daemon's only thread.
fn status(pid: u32, thread: &str, key: &str) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let texts =
        tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).ok());
    let name = format!("Name:\t{thread}\n");
    let text = texts
        .into_iter()
        .find(|text| text.starts_with(&name))
        .unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.unwrap()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn a_daemon_of_root_becomes_its_user_and_keeps_what_the_adapter_needs() {
    const NAME: &str = "server_privileges";
    if !rustix::process::geteuid().is_root() {
        return println!("skipped {NAME}: not root");
    }
    if !is_public(&std::env::current_exe().unwrap()) {
        return println!("skipped {NAME}: other users cannot run this test's program");
    }
    let daemon = Daemon::start_as("user", "user = \"65534\"", PAIR);
    let mut admin = daemon.admin();
    let nobody = "65534 65534 65534 65534";
    for (pid, thread) in [
        (daemon.pid(), "cg-service"),
        (daemon.adapter(), "cg-firmware"),
    ] {
        assert_eq!(status(pid, thread, "Uid:"), nobody);
        assert_eq!(status(pid, thread, "Gid:"), nobody);
        assert_eq!(status(pid, thread, "NoNewPrivs:"), "1");
        let kept = u64::from_str_radix(&status(pid, thread, "CapEff:"), 16).unwrap();
        // CAP_IPC_LOCK is number 14, CAP_SYS_NICE 23; a container may have neither.
        assert_eq!(kept & !(1 << 14 | 1 << 23), 0, "{kept:x}");
    }
    assert!(!admin.resources().unwrap().is_empty());
    // So it may connect to itself.
    let owner = |daemon: &Daemon| {
        let socket = std::fs::metadata(daemon.directory.join("control.sock")).unwrap();
        (socket.uid(), socket.gid(), socket.mode() & 0o777)
    };
    assert_eq!(owner(&daemon), (65_534, 65_534, 0o660));
    let more = "user = \"65534\"\nsocket_group = \"12345\"";
    let daemon = Daemon::start_as("group", more, PAIR);
    daemon.connect();
    assert_eq!(owner(&daemon), (65_534, 12_345, 0o660));
    println!("ran {NAME}");
}
