//! Nodes, daemons and adapters that are killed amid calls, and a peer that floods.
//! Long form: `CELLGATE_CONNECTS=1000000`.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cellgate::Marks;
use cellgate_core::aal::mssar::Segmenter;
use cellgate_core::upper::msna::{Body, Connect, Message};
use cellgate_core::wire::MSSAR_ATM_LEN;
use cellgate_msna::rex::{Event, Outcome};
use cellgate_msna::{Access, Address, Call, Exchanger, Node, NodeConfig, Notify, Sap};

use crate::common::{Daemon, PATIENCE, eventually};
use crate::echo::{self, ECHO, octets};

const SERVER: Address = Address {
    host: Ipv4Addr::new(10, 0, 0, 2),
    sap: Sap(20),
};

/// The sockets and the file of a server that a test has started.
const SOCKET: &str = "CELLGATE_MSNA_TEST_SOCKET";
const EXECUTED: &str = "CELLGATE_MSNA_TEST_EXECUTED";

const CALLS: u32 = 1_000;

/// No test by itself: the server of the tests here. It writes each call's number down, then
/// replies with it.
#[test]
fn plays_the_server() {
    let Some(socket) = std::env::var_os(SOCKET).map(PathBuf::from) else {
        return;
    };
    let executed = PathBuf::from(std::env::var_os(EXECUTED).unwrap());
    let executed = std::fs::OpenOptions::new().append(true).open(executed);
    let mut executed = executed.unwrap();
    let mut server = loop {
        // The one before may not be gone yet.
        if let Ok(node) = Node::open(host(SERVER.host, "b", &socket)) {
            break Exchanger::new(node, Call::default()).unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    server.serve(SERVER.sap);
    loop {
        let Ok(event) = server.next_event(Some(Duration::from_millis(100))) else {
            return;
        };
        if let Some(Event::Called { exchange, octets }) = event {
            let number = u32::from_be_bytes(octets.as_slice().try_into().unwrap());
            executed.write_all(&number.to_be_bytes()).unwrap();
            server.reply(exchange, octets).unwrap();
        }
    }
}

fn host(host: Ipv4Addr, itf: &str, socket: &Path) -> NodeConfig {
    NodeConfig::new(host, Access::Cells).on(itf).at(socket)
}

/// A server that is a process.
struct Server(Child);

impl Server {
    fn start(daemon: &Daemon, executed: &Path) -> Self {
        let server = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kills::plays_the_server", "--nocapture"])
            .env(SOCKET, daemon.path())
            .env(EXECUTED, executed)
            .stdout(Stdio::null())
            .spawn();
        Self(server.unwrap())
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Calls with a number, again where it cannot be called at all.
fn called(caller: &mut Exchanger, number: u32) -> cellgate_msna::rex::Call {
    eventually("nobody can be called", || {
        caller.call(SERVER, number.to_be_bytes().to_vec()).ok()
    })
}

#[test]
fn amid_a_thousand_calls_all_are_killed_and_none_is_executed_twice() {
    let mut daemon = Daemon::start();
    let file = daemon.path().with_file_name("executed");
    std::fs::write(&file, []).unwrap();
    let mut server = Server::start(&daemon, &file);
    let node = eventually("a node", || {
        Node::open(host(Ipv4Addr::new(10, 0, 0, 1), "a", &daemon.path())).ok()
    });
    let mut caller = Exchanger::new(node, Call::default()).unwrap();
    let (mut replied, mut failed) = (BTreeSet::new(), 0);
    for number in 0..CALLS {
        let call = called(&mut caller, number);
        let began = Instant::now();
        match number {
            150 | 750 => {
                server.kill();
                server = Server::start(&daemon, &file);
            }
            350 => {
                daemon.kill();
                daemon.restart();
            }
            550 => daemon.kill_adapter(),
            _ => {}
        }
        let outcome = loop {
            let event = caller.next_event(Some(PATIENCE)).unwrap();
            match event.expect("nobody tells what became of a call") {
                Event::Ended { call: of, outcome } if of == call => break outcome,
                _ => {}
            }
        };
        match outcome {
            Outcome::Reply(octets) => {
                assert_eq!(octets, number.to_be_bytes());
                replied.insert(number);
            }
            outcome => {
                println!("call {number}: {outcome:?} after {:?}", began.elapsed());
                failed += 1;
            }
        }
    }
    // A kill fails the call that is under way, and a server's successor the first that still goes
    // to its predecessor.
    assert!(failed <= 8, "{failed} calls failed");
    drop(caller);
    server.kill();
    let executed = std::fs::read(&file).unwrap();
    let executed: Vec<u32> = executed
        .chunks_exact(4)
        .map(|number| u32::from_be_bytes(number.try_into().unwrap()))
        .collect();
    let once: BTreeSet<u32> = executed.iter().copied().collect();
    assert_eq!(once.len(), executed.len(), "a call was executed twice");
    assert!(replied.is_subset(&once), "a reply to a call not executed");
    eventually("connections stay", || {
        daemon.admin().list().unwrap().is_empty().then_some(())
    });
}

/// A Connect of some host's, as a block on circuit 32.
fn connect(number: u32, to: Sap) -> Vec<u8> {
    let message = Message {
        call: number,
        incarnation: u64::from(number),
        from: Ipv4Addr::from(0x0a01_0000 + number % 4_096),
        to: SERVER.host,
        body: Body::Connect(Connect {
            from: Sap(1),
            to,
            vci: 1_000 + (number % 30_000) as u16,
            notify: Notify::Last,
            contract: "ubr".to_owned(),
        }),
    };
    message.emit()
}

/// Octets of this process's memory that are there.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

#[test]
fn a_flood_of_connects_costs_other_liaisons_nothing() {
    let connects = std::env::var("CELLGATE_CONNECTS");
    let connects: u32 = connects.map_or(10_000, |count| count.parse().unwrap());
    let daemon = Daemon::start();
    let echo = echo::echo(host(SERVER.host, "b", &daemon.path()));
    let node = Node::open(host(Ipv4Addr::new(10, 0, 0, 1), "a", &daemon.path()));
    let mut node = node.unwrap();
    let to = Address {
        host: SERVER.host,
        sap: ECHO,
    };
    let mut liaison = node.connect(to, &Call::default()).unwrap();
    // Its circuit is of the flood from now on.
    drop(node);
    let raw = daemon.builder("a.0.32", "ubr,aal0").marks(Marks::Mssar);
    let raw = raw.completions(false).open().unwrap();
    let mut block = Vec::new();
    let before = resident();
    let mut pinged = 0;
    for number in 0..connects {
        // One in a thousand calls what is served.
        let to = if number % 1_000 == 999 { ECHO } else { Sap(99) };
        let message = connect(number, to);
        let segmenter = Segmenter::new(message.len(), number as u8, MSSAR_ATM_LEN as u8);
        let mut segmenter = segmenter.unwrap();
        while segmenter.left() > 0 {
            let mut sdu = [0; 52];
            assert!(segmenter.emit_cell(&message, &mut sdu[4..]));
            raw.send_timeout(&sdu, PATIENCE).unwrap();
        }
        if number % 500 == 0 {
            let sent = octets(1_000, number as usize);
            liaison.send(&sent).unwrap();
            assert!(liaison.recv(&mut block, Some(PATIENCE)).unwrap());
            assert_eq!(block, sent);
            pinged += 1;
        }
    }
    assert!(pinged >= connects / 500);
    // Each is two cells at least, and was heard.
    eventually("the flood does not come", || {
        let all = daemon.admin().list().unwrap();
        let heard = all.iter().find(|vc| vc.address.to_string() == "b.0.32");
        (heard?.stats.pdus_delivered >= u64::from(2 * connects)).then_some(())
    });
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} octets more");
    drop(echo);
}
