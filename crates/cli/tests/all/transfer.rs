//! `send --verify` and `recv --verify` over a line that loses the end of a transfer: two interfaces
//! of a daemon with UDP pseudowires, and a relay between them.

use std::net::UdpSocket;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, octets};

const SENDS: &str = "cbr,aal5:pcr=20Mbps,max_sdu=8192";
/// A relay that the machine stops for a moment keeps no rate: none is policed.
const RECEIVES: &str = "ubr,aal5:max_sdu=8192";
/// What an end begins with; no data of a test has it.
const END: &[u8] = b"CGTE";

/// Forwards what comes to a port until its process ends, and spoils the first `spoiled` ends on the
/// way: AAL5's CRC is wrong then, and their adapter discards them.
struct Relay {
    /// Ends that came.
    ends: Arc<AtomicU32>,
    from: u16,
}

impl Relay {
    fn to(port: u16, spoiled: u32) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let from = port_of(&socket);
        let ends = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&ends);
        std::thread::spawn(move || {
            let mut octets = [0; 65_536];
            loop {
                // That the last one met no open port is said here.
                let Ok(len) = socket.recv(&mut octets) else {
                    continue;
                };
                let datagram = &mut octets[..len];
                for at in 0..len {
                    if datagram[at..].starts_with(END)
                        && counted.fetch_add(1, Ordering::Relaxed) < spoiled
                    {
                        datagram[at] ^= 1;
                    }
                }
                let _ = socket.send_to(datagram, ("127.0.0.1", port));
            }
        });
        Self { ends, from }
    }
}

fn port_of(socket: &UdpSocket) -> u16 {
    socket.local_addr().expect("it is bound").port()
}

/// A daemon with a relay from its interface `a` to `b`; nothing goes back. Datagrams are full where
/// they can be: of those of one cell a relay that the machine stops for 10 ms has no room for more.
fn lossy(spoiled: u32) -> (Daemon, Relay) {
    let free = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a port"));
    let ports = free.each_ref().map(port_of);
    drop(free);
    let relay = Relay::to(ports[1], spoiled);
    let interface = |name: &str, local: u16, peer: u16| {
        format!(
            "[[interface]]\nname = \"{name}\"\n[interface.link.udp]\n\
             local = \"127.0.0.1:{local}\"\npeer = \"127.0.0.1:{peer}\"\n\
             label_out = 100\nlabel_in = 100\nmtu = 1500\ntimer_ns = 1000000\n"
        )
    };
    let a = interface("a", ports[0], relay.from);
    let daemon = Daemon::start_beside(
        &("[adapter]\nidle = \"sleep\"\npin = false\n".to_owned()
            + &a
            + &interface("b", ports[1], ports[0])),
    );
    (daemon, relay)
}

/// Sends so many octets on an address while `recv` runs with these arguments too: its exit code,
/// what it said, and how long it ran on after the sender.
fn transfer(daemon: &Daemon, at: &str, len: usize, arguments: &[&str]) -> (i32, String, Duration) {
    let [from, to] = ["a", "b"].map(|interface| format!("{interface}.{at}"));
    let recv = ["recv", "--vc", &to, "--verify", "--contract", RECEIVES];
    let receiver = daemon.begin(&[&recv[..], arguments].concat(), "receiving");
    let send = ["send", "--vc", &from, "--verify", "--contract", SENDS];
    daemon.feed(&send, &octets(len));
    let sent = Instant::now();
    let (code, said) = receiver.end();
    (code, said, sent.elapsed())
}

/// All arrives, though the first four ends do not; false: the machine lost data.
fn arrives() -> bool {
    let (daemon, relay) = lossy(4);
    let arrived = |len| {
        let (code, said, _) = transfer(&daemon, "0.40", len, &[]);
        assert!(!said.contains("the end is missing"), "{len} octets: {said}");
        let lost = said.contains("PDUs are missing");
        assert!(code == 0 || lost, "{len} octets: {said}");
        if lost {
            println!("void: {said}");
        }
        code == 0
    };
    let first = arrived(20_000);
    assert_eq!(relay.ends.load(Ordering::Relaxed), 5);
    // No end is left for the next receiver: it would have nothing, or miss all.
    first && [500, 0, 1, 0].into_iter().all(arrived)
}

#[test]
fn an_end_that_is_lost_comes_again() {
    assert!((0..5).any(|_| arrives()), "data was lost in every try");
}

#[test]
fn a_receiver_gives_up_when_no_end_comes() {
    let (daemon, _relay) = lossy(u32::MAX);
    let gives_up = |at: &str, arguments: &[&str], waits: Range<u64>| {
        let (code, said, waited) = transfer(&daemon, at, 10_000, arguments);
        assert_eq!(code, 1, "{said}");
        assert!(
            said.contains("the end is missing, and all from PDU "),
            "{said}"
        );
        assert!(waits.contains(&waited.as_secs()), "{waited:?}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| gives_up("0.40", &[], 9..14));
        gives_up("0.41", &["--timeout", "1"], 0..5);
    });
}
