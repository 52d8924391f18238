//! Hostile and unlucky clients, daemons and adapters, while connections that conform are under way.
//! Long forms: `CELLGATE_KILLS=100` and `CELLGATE_OPENS=100000`.

use cellgate_core::adapter::Marks;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::daemon;
use crate::daemon::Daemon;
use crate::gaps::Watch;
use crate::load::{Held, LEAST, Load, PATIENCE, Rate, eventually};
use cellgate::{Admin, Connection, Discard, Error, Resource};
use cellgate_core::server::{Confirm, FromClient, FromServer, Open, Request, VERSION};
use cellgate_host::client::Control;
use cellgate_host::sys::peer_credentials;
use cellgate_shm::socket::{MESSAGE_MAX, Received, receive, send};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use rustix::fs::{fstat, ftruncate};
use rustix::io::{Errno, pread, pwrite};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, Signal, kill_process};

/// Names the part that this executable plays when a test has started it, and its daemon.
const ROLE: &str = "CELLGATE_KILLS_TEST_ROLE";
const SOCKET: &str = "CELLGATE_KILLS_TEST_SOCKET";

/// Writes of a client that writes garbage.
const GARBAGE: u32 = 20_000;

const JOINED: &str = "[adapter]\ngap_max_ns = 30000000\n\
     [[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
     [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n";

/// No test by itself: what the clients do that the tests here start.
#[test]
fn plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let socket = PathBuf::from(std::env::var_os(SOCKET).expect("the daemon's"));
    match role.as_str() {
        "greedy" => greedy(&socket),
        "reader" => reader(&socket),
        "hostile" => hostile(&socket),
        other => panic!("{other}"),
    }
}

/// Says on standard error that it has come so far.
fn say(what: &str) {
    eprintln!("so far: {what}");
}

/// The VCI of a greedy writer.
const GREEDY: u16 = 300;

/// Sends as fast as it can, until it is killed.
fn greedy(socket: &Path) {
    let builder = Connection::builder()
        .socket(socket)
        .address(format!("a.0.{GREEDY}"));
    let contract = "cbr,aal5:tx:pcr=20000cps,max_sdu=9000,rx:pcr=1000cps,max_sdu=9000";
    let connection = builder.contract(contract).open().expect("there is room");
    say("open");
    loop {
        connection.send(&[7; 9_000]).expect("it is open");
    }
}

/// Reads what the greedy one sends, until it is killed.
fn reader(socket: &Path) {
    let builder = Connection::builder()
        .socket(socket)
        .address(format!("b.0.{GREEDY}"));
    let contract = "cbr,aal5:tx:none,rx:pcr=20000cps,max_sdu=9000";
    let connection = builder.contract(contract).open().expect("there is room");
    say("open");
    loop {
        let pdu = connection.next_pdu().expect("it is open");
        assert!(*pdu == [7; 9_000], "other octets");
    }
}

/// A client that speaks the protocol itself, so that it has all descriptors.
struct Raw {
    socket: OwnedFd,
    buffer: Vec<u8>,
    id: u64,
}

impl Raw {
    fn new(path: &Path) -> Self {
        let mut raw = Self {
            socket: connected(path),
            buffer: vec![0; MESSAGE_MAX],
            id: 0,
        };
        raw.ask(Request::Hello { version: VERSION });
        raw
    }

    fn ask(&mut self, request: Request) -> (Confirm, Vec<OwnedFd>) {
        self.id += 1;
        let message = FromClient::Request {
            connection: 0,
            id: self.id,
            request,
        };
        let octets = serde_json::to_vec(&message).expect("JSON");
        send(&self.socket, &octets, &[], true).expect("the daemon is there");
        loop {
            let received = receive(&self.socket, &mut self.buffer, true);
            let Ok(Received::Message(len, fds)) = received else {
                panic!("{received:?}");
            };
            match serde_json::from_slice(&self.buffer[..len]).expect("JSON") {
                FromServer::Confirm { id, result, .. } if id == self.id => {
                    return (result.expect("there is room"), fds);
                }
                _ => {}
            }
        }
    }
}

fn connected(path: &Path) -> OwnedFd {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).expect("a socket");
    let path = SocketAddrUnix::new(path).expect("a path");
    connect(&socket, &path).expect("somebody listens");
    socket
}

/// Writes into every word that it can write, and tries to resize and to write what is not its own.
/// It takes no pages away: for that it would be ended before it has done its worst.
fn hostile(socket: &Path) {
    let mut clients = Vec::new();
    let (mut files, mut doorbells) = (Vec::new(), Vec::new());
    let contracts = [
        ("a", "cbr,aal5:pcr=5000cps,max_sdu=1000"),
        ("b", "ubr,aal5:max_sdu=4000"),
    ];
    for (end, contract) in contracts {
        let mut raw = Raw::new(socket);
        let open = Open {
            marks: Marks::None,
            address: format!("{end}.0.310").parse().expect("an address"),
            contract: contract.to_owned(),
            notification: None,
            transmit_pdus: None,
            receive_pdus: None,
            queue_threshold: None,
            completions: true,
            receive_into: None,
        };
        let (confirm, fds) = raw.ask(Request::Open(open));
        let Confirm::Opened(opened) = confirm else {
            panic!("{confirm:?}");
        };
        doorbells.push(u64::from(opened.vc.index.0) | u64::from(opened.vc.generation) << 32);
        let mut fds = fds.into_iter();
        for _ in 0..2 {
            files.extend(fds.next().zip(fds.next()));
        }
        clients.push((raw, fds.next()));
    }
    for (theirs, _) in &files {
        assert_eq!(pwrite(theirs, &[1; 8], 128).unwrap_err(), Errno::PERM);
        assert_eq!(ftruncate(theirs, 0).unwrap_err(), Errno::PERM);
    }
    let mut rng = Pcg64Mcg::new(29);
    for _ in 0..GARBAGE {
        spoil(&mut rng, &files, &doorbells);
    }
    say("spoilt");
    loop {
        spoil(&mut rng, &files, &doorbells);
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// One write into a file of its own; beside each, the one that the adapter writes.
fn spoil(rng: &mut Pcg64Mcg, files: &[(OwnedFd, OwnedFd)], doorbells: &[u64]) {
    let (theirs, mine) = &files[rng.next_u32() as usize % files.len()];
    let len = fstat(mine).expect("a file").st_size as u64;
    let index_at = 128 * u64::from(1 + rng.next_u32() % 3);
    let (word, at) = match rng.next_u32() % 20 {
        0 => return assert_eq!(ftruncate(mine, 0).unwrap_err(), Errno::PERM),
        1..5 => (word(rng), index_at),
        // An index that can be, over slots that are not filled as they should.
        5..12 => {
            let mut octets = [0; 8];
            pread(theirs, &mut octets, index_at).expect("it may be read");
            let more = u64::from(rng.next_u32() % 5);
            (u64::from_le_bytes(octets).wrapping_add(more), index_at)
        }
        // Among the first slots.
        12..14 => (word(rng), 4_096 + 8 * (rng.next_u64() % 64)),
        14..17 => {
            let doorbell = doorbells[rng.next_u32() as usize % doorbells.len()];
            (doorbell, 4_096 + 8 * (rng.next_u64() % 64))
        }
        _ => (word(rng), rng.next_u64() % (len / 8) * 8),
    };
    pwrite(mine, &word.to_le_bytes(), at).expect("its own file");
}

fn word(rng: &mut Pcg64Mcg) -> u64 {
    match rng.next_u32() % 5 {
        0 => rng.next_u64(),
        1 => u64::from(rng.next_u32() % 16),
        2 => u64::MAX - u64::from(rng.next_u32() % 16),
        // A doorbell that may be valid, a plausible descriptor.
        3 => u64::from(rng.next_u32() % 8) | u64::from(rng.next_u32() % 8) << 32,
        _ => u64::from(rng.next_u32() % 4_096) | u64::from(rng.next_u32() % 1_000) << 32,
    }
}

/// A client of its own process.
struct Client(Child);

impl Client {
    /// Starts one, and waits until it says `word`.
    fn start(daemon: &Daemon, role: &str, word: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command
            .args(["--exact", "kills::plays_its_role", "--nocapture"])
            .env(ROLE, role)
            .env(SOCKET, daemon.socket())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let stderr = child.stderr.take().expect("it is piped");
        daemon::await_line(stderr, word);
        Self(child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it runs");
    }

    fn kill(mut self) {
        let ended = self.0.try_wait().expect("a child");
        assert!(ended.is_none(), "it has ended");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Both fail only if it has ended and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

type Reserved = BTreeMap<(Resource, Option<String>), (u64, u64)>;

fn reserved(daemon: &Daemon) -> Reserved {
    let resources = admin(daemon).resources().expect("the daemon is there");
    let of = |info: cellgate::ResourceInfo| {
        let key = (info.resource, info.interface);
        (key, (info.reserved, info.capacity))
    };
    resources.into_iter().map(of).collect()
}

/// As soon as somebody answers.
fn admin(daemon: &Daemon) -> Admin {
    eventually("no daemon answers", || match Admin::at(daemon.socket()) {
        Ok(admin) => Some(admin),
        Err(Error::NoServer { .. } | Error::Closed) => None,
        Err(error) => panic!("{error}"),
    })
}

fn adapter_socket(daemon: &Daemon) -> PathBuf {
    daemon.path("state/adapter.sock")
}

pub(crate) fn adapter_pid(daemon: &Daemon) -> u32 {
    let socket = connected(&adapter_socket(daemon));
    peer_credentials(socket.as_fd()).expect("credentials").1
}

/// Tries, the void ones included.
const TRIES_MAX: u32 = 3;
/// Runs `act` beside a load, which must lose nothing and keep its rate. Where the adapter did not
/// run for longer than it admits, or a source had no CPU, that says nothing, and is tried again.
fn beside_a_load(name: &str, daemon: &mut Daemon, mut act: impl FnMut(&mut Daemon)) {
    for _ in 0..TRIES_MAX {
        // First, so that no stall of the load's beginning is missed.
        let watch = Watch::begin(daemon);
        let load = Load::begin(&daemon.socket());
        let begin = Instant::now();
        act(daemon);
        std::thread::sleep(LEAST.saturating_sub(begin.elapsed()));
        let runs = load.end();
        let stalls = watch.end();
        let (mut lost, mut unsaid) = (0, Vec::new());
        for run in &runs {
            assert_eq!(run.received.wrong, 0);
            lost += run.lost().len();
            match run.rate(&stalls) {
                Rate::Kept => {}
                Rate::Void(reason) => unsaid.push(reason),
                // What a stall takes is allowed for, however long it is.
                Rate::Missed(flaw) => panic!("{name}: {flaw}"),
            }
        }
        match (lost, stalls.excuse()) {
            (0, _) if unsaid.is_empty() => return println!("ran {name}"),
            (0, _) => println!("void {name}: {}", unsaid.join("; ")),
            (_, Some(excuse)) => println!("void {name}: {lost} PDUs lost: {excuse}"),
            (_, None) => panic!("{name}: {lost} PDUs were lost"),
        }
    }
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn a_killed_a_stopped_and_a_hostile_client_hurt_nobody() {
    let mut daemon = Daemon::start(JOINED);
    beside_a_load("unlucky_clients", &mut daemon, |daemon| {
        let before = reserved(daemon);
        let back = || {
            eventually("resources do not come back", || {
                (reserved(daemon) == before).then_some(())
            })
        };
        for _ in 0..3 {
            let client = Client::start(daemon, "greedy", "open");
            assert_ne!(reserved(daemon), before);
            std::thread::sleep(Duration::from_millis(100));
            client.kill();
            back();
        }
        let client = Client::start(daemon, "greedy", "open");
        client.signal(Signal::STOP);
        std::thread::sleep(Duration::from_millis(500));
        client.signal(Signal::CONT);
        std::thread::sleep(Duration::from_millis(200));
        client.kill();
        back();
        let client = Client::start(daemon, "hostile", "spoilt");
        let mut control = Control::at(&adapter_socket(daemon)).expect("the adapter listens");
        let vcs = control.enumerate().expect("the adapter answers").vcs;
        let faults: u64 = vcs.iter().map(|vc| vc.stats.client_faults).sum();
        let doorbells = control
            .stats()
            .expect("the adapter answers")
            .doorbell_faults;
        assert!(
            faults > 0 && doorbells > 0,
            "the garbage was none: {faults}, {doorbells}"
        );
        client.kill();
        back();
    });
    eventually("connections stay", || {
        let left = admin(&daemon).list().expect("the daemon is there");
        left.is_empty().then_some(())
    });
}

/// PDUs that a reader's VC had delivered, that a full buffer cost it, and that it cost others.
fn delivered_and_full(daemon: &Daemon) -> [u64; 3] {
    let mut control = Control::at(&adapter_socket(daemon)).expect("the adapter listens");
    let mut sums = [0; 3];
    for vc in control.enumerate().expect("the adapter answers").vcs {
        let full = vc.stats.pdus_discarded.of(Discard::BufferFull);
        if vc.request.address.vci() != GREEDY {
            sums[2] += full;
        } else if vc.request.transmit.is_none() {
            sums[0] += vc.stats.pdus_delivered;
            sums[1] += full;
        }
    }
    sums
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn a_stopped_reader_costs_itself_alone_and_goes_on() {
    const DISCARDED: u64 = 50;
    let mut daemon = Daemon::start(JOINED);
    beside_a_load("stopped_reader", &mut daemon, |daemon| {
        let resources = reserved(daemon);
        let reader = Client::start(daemon, "reader", "open");
        let writer = Client::start(daemon, "greedy", "open");
        for dead in [false, true] {
            if dead {
                daemon.kill();
            }
            let [before, _, _] = delivered_and_full(daemon);
            eventually("nothing comes", || {
                (delivered_and_full(daemon)[0] > before).then_some(())
            });
            let [before, full, _] = delivered_and_full(daemon);
            reader.signal(Signal::STOP);
            let stopped = eventually("its buffer is not full", || {
                let counts = delivered_and_full(daemon);
                (counts[1] >= full + DISCARDED).then_some(counts)
            });
            assert_eq!(stopped[2], 0, "PDUs of others were discarded");
            reader.signal(Signal::CONT);
            // More than there was room for while nobody read.
            let more = 2 * (stopped[0] - before) + 10;
            eventually("it does not go on", || {
                (delivered_and_full(daemon)[0] >= stopped[0] + more).then_some(())
            });
            if dead {
                daemon.succeed();
                assert_eq!(admin(daemon).list().expect("the daemon is there").len(), 6);
            }
        }
        reader.kill();
        writer.kill();
        eventually("resources do not come back", || {
            (reserved(daemon) == resources).then_some(())
        });
    });
}

/// Kills from which on the successors' times are judged.
const JUDGED_FROM: usize = 100;
/// What 99 of 100 successors keep.
const TAKEN_UP_P99: Duration = Duration::from_millis(100);

fn times(variable: &str, default: usize) -> usize {
    let given = std::env::var(variable).ok();
    given.map_or(default, |text| text.parse().expect("a number"))
}

/// The time below which so many percent of these are; they are in order.
fn at(took: &[Duration], percent: usize) -> Duration {
    took[(took.len() * percent).div_ceil(100) - 1]
}

/// Whether successors take all up in time, where there are enough of them to tell.
fn is_quick(took: &[Duration]) -> bool {
    took.len() < JUDGED_FROM || at(took, 99) <= TAKEN_UP_P99
}

#[test]
fn many_successors_are_held_to_their_time_and_few_are_not() {
    let took = |quick: usize, slow: usize| {
        let slow = vec![TAKEN_UP_P99 + Duration::from_nanos(1); slow];
        [vec![TAKEN_UP_P99; quick], slow].concat()
    };
    assert!(is_quick(&took(99, 1)));
    assert!(!is_quick(&took(98, 2)));
    assert!(!is_quick(&took(989, 11)));
    assert!(is_quick(&took(0, 99)), "too few to tell");
}

#[test]
fn a_killed_daemon_costs_nothing_and_its_successor_takes_all_up() {
    let kills = times("CELLGATE_KILLS", 5);
    let mut daemon = Daemon::start(JOINED);
    beside_a_load("killed_daemons", &mut daemon, |daemon| {
        let before = reserved(daemon);
        let mut took = Vec::new();
        for _ in 0..kills {
            daemon.kill();
            std::thread::sleep(Duration::from_millis(20));
            let begin = Instant::now();
            daemon.succeed();
            let mut admin = admin(daemon);
            assert_eq!(admin.list().expect("the daemon is there").len(), 4);
            took.push(begin.elapsed());
            assert_eq!(reserved(daemon), before);
            // Its successor finds it at work, not at its beginning.
            std::thread::sleep(Duration::from_millis(50));
        }
        took.sort_unstable();
        let [p50, p99, max] = [50, 99, 100].map(|percent| at(&took, percent));
        println!("{kills} kills: taken up after p50 {p50:.1?}, p99 {p99:.1?}, max {max:.1?}");
        assert!(is_quick(&took), "a successor takes too long: p99 {p99:?}");
    });
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn a_killed_adapter_costs_what_was_sent_in_the_gap() {
    for _ in 0..TRIES_MAX {
        match kill_adapters() {
            None => {
                println!("ran killed_adapters");
                return;
            }
            // A stall of the machine costs as much, and the dead adapters took their gap detectors
            // with them: nobody can tell.
            Some(after) => println!("void killed_adapters: a loss {after:?} after the first kill"),
        }
    }
    panic!("PDUs were lost outside of the gaps in every try");
}

/// Kills three adapters under load: when something was lost outside of the gaps, from the first
/// kill on.
fn kill_adapters() -> Option<Duration> {
    let mut outside = None;
    let daemon = Daemon::start(JOINED);
    let before = reserved(&daemon);
    let load = Load::begin(&daemon.socket());
    std::thread::sleep(Duration::from_millis(500));
    let mut kills = Vec::new();
    let mut took = Vec::new();
    for _ in 0..3 {
        let pid = adapter_pid(&daemon);
        let killed = Instant::now();
        let raw = Pid::from_raw(pid.cast_signed()).expect("a process");
        kill_process(raw, Signal::KILL).expect("it runs");
        eventually("no other adapter", || {
            let there = std::os::unix::fs::FileTypeExt::is_socket;
            let path = adapter_socket(&daemon);
            let file = std::fs::metadata(&path).ok()?;
            let open = admin(&daemon).list().ok()?;
            let all = there(&file.file_type()) && open.len() == 4;
            let control = all.then(|| Control::at(&path).ok()).flatten()?;
            let vcs = { control }.enumerate().ok()?.vcs.len();
            (vcs == 4).then_some(())
        });
        took.push(killed.elapsed());
        std::thread::sleep(Duration::from_secs(1));
        kills.push((killed, Instant::now()));
    }
    println!("3 kills: all open again after {took:.1?}");
    for run in load.end() {
        assert_eq!(run.received.wrong, 0);
        for seen in [&run.sent, &run.received] {
            assert_eq!(seen.reopened.len(), kills.len());
        }
        let mut gaps = Vec::new();
        for (i, (killed, _)) in kills.iter().enumerate() {
            // The queue goes with all that waited in it; both ends have to hear of the new memory.
            let from = *killed - Duration::from_millis(200);
            let to = run.sent.reopened[i].max(run.received.reopened[i]);
            gaps.push((from, to + Duration::from_millis(50)));
        }
        let lost = run.lost();
        println!(
            "{} PDUs sent, {} lost in three gaps",
            run.sent.pdus.len(),
            lost.len()
        );
        for at in lost {
            if !gaps.iter().any(|(from, to)| (*from..=*to).contains(&at)) {
                outside = Some(at.saturating_duration_since(kills[0].0));
            }
        }
        let after = run.received.pdus.last().expect("something came").1;
        assert!(after > kills[2].0, "nothing came after the last kill");
    }
    eventually("resources do not come back", || {
        (reserved(&daemon) == before).then_some(())
    });
    outside
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn opens_and_closes_under_load_leak_nothing() {
    let opens = times("CELLGATE_OPENS", 2_000);
    let mut daemon = Daemon::start(JOINED);
    beside_a_load("opens", &mut daemon, |daemon| {
        let processes = [daemon.pid(), adapter_pid(daemon)];
        let resources = reserved(daemon);
        let held = || processes.map(Held::by);
        let settle = || {
            eventually("resources do not come back", || {
                (reserved(daemon) == resources).then_some(())
            });
        };
        open_and_close(daemon, opens / 4);
        settle();
        let before = held();
        open_and_close(daemon, opens - opens / 4);
        settle();
        eventually("descriptors do not come back", || {
            let same = held()
                .iter()
                .zip(&before)
                .all(|(now, then)| now.descriptors <= then.descriptors);
            same.then_some(())
        });
        for (who, (now, then)) in ["daemon", "adapter"].iter().zip(held().iter().zip(&before)) {
            println!("{opens} opens and closes: the {who} had {then:?}, has {now:?}");
            let more = now.memory.saturating_sub(then.memory);
            // A leak of a page each would be six times as much in the short form.
            assert!(more <= 1 << 20, "the {who} has {more} octets more");
        }
    });
}

/// Some closed in order, some by hanging up, some after an SDU.
fn open_and_close(daemon: &Daemon, n: usize) {
    let contracts = ["cbr,aal5:pcr=2000cps,max_sdu=1000", "ubr,aal5:max_sdu=9000"];
    for i in 0..n {
        let builder = Connection::builder()
            .socket(daemon.socket())
            .address(format!("{}.0.{}", ["a", "b"][i % 2], 400 + i % 7))
            .contract(contracts[i / 2 % 2]);
        let connection = eventually("the address stays in use", || match builder.open() {
            Ok(connection) => Some(connection),
            // The former one's hang-up is not noticed yet.
            Err(Error::Refused(cellgate::Refused::AddressInUse)) => None,
            Err(error) => panic!("open {i}: {error}"),
        });
        if i % 3 == 0 {
            connection.send(&[1; 500]).expect("it is open");
        }
        if i % 2 == 0 {
            connection.close(PATIENCE).expect("it closes");
        }
        if i % 5_000 == 4_999 {
            let held = [daemon.pid(), adapter_pid(daemon)].map(Held::by);
            println!("{} of {n} opens: {held:?}", i + 1);
        }
    }
}
