//! `cellgate tun`: Linux's own TCP/IP between two network namespaces over one connection. What the
//! machine lacks is said, and the test skipped.

mod daemon;
mod netns;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use cellgate::Connection;
use cellgate_core::upper::{Encapsulation, InAtmArp};
use cellgate_host::sys::enter_network_namespace;
use daemon::{Daemon, await_line, octets};
use netns::{Namespace, ip};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, sockopt};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Long enough for anything on a busy machine; reached only by a failing test.
const PATIENCE: Duration = Duration::from_secs(60);

/// One daemon at a time.
static ALONE: Mutex<()> = Mutex::new(());

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 166, 70, 1), Ipv4Addr::new(10, 166, 70, 2)];

/// Two daemons, each with the interface `wan` to the other, a pseudowire on this host.
fn daemons() -> [Daemon; 2] {
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    let ends = [71, 72].map(|side| format!("127.{side}.{high}.{}", low | 1));
    [0, 1].map(|side| {
        let contents = format!(
            "[adapter]\npin = false\nnice = 0\nlock_memory = false\nyield_when_idle = true\n\
             memory_max = 268435456\n[[interface]]\nname = \"wan\"\n[interface.link.udp]\n\
             local = \"{}:6635\"\npeer = \"{}:6635\"\nlabel_out = {}\nlabel_in = {}\nmtu = 1500\n",
            ends[side],
            ends[1 - side],
            100 + side,
            101 - side,
        );
        Daemon::start_by(&[], &contents, None)
    })
}

/// A namespace where a network device can be made.
fn namespace(name: &str) -> Result<Namespace, String> {
    let namespace = Namespace::make(name)?;
    ip(&["-n", &namespace.0, "tuntap", "add", "probe", "mode", "tun"])?;
    ip(&["-n", &namespace.0, "link", "del", "probe"])?;
    Ok(namespace)
}

/// `work` of a thread that lies in the namespace.
fn inside<T: Send + 'static>(
    namespace: &Namespace,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let name = namespace.0.clone();
    std::thread::spawn(move || {
        enter_network_namespace(&name).expect("a namespace");
        work()
    })
}

/// A running `cellgate tun`, its device up.
struct Tunnel {
    child: Child,
    said: JoinHandle<String>,
}

impl Tunnel {
    fn start(daemon: &Daemon, namespace: &Namespace, side: usize, encapsulation: &str) -> Self {
        let address = format!("{}/24", ADDRESSES[side]);
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            &namespace.0,
            env!("CARGO_BIN_EXE_cellgate"),
        ]);
        command.arg("tun").arg("--socket").arg(daemon.socket());
        command.args(["add", "cell0", "vc", "wan.0.100", "encap", encapsulation]);
        command.args(["address", &address, "--json"]);
        let pipes = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().expect("ip starts");
        let stderr = child.stderr.take().expect("a pipe");
        let said = await_line(stderr, "cell0: ");
        Self { child, said }
    }

    /// Its exit code, what it complained of and what it carried, as soon as it has ended.
    fn ended(mut self) -> (Option<i32>, String, Value) {
        let mut text = String::new();
        let mut stdout = self.child.stdout.take().expect("a pipe");
        stdout.read_to_string(&mut text).expect("text");
        let code = self.child.wait().expect("a child").code();
        let said = self.said.join().expect("a pipe is read");
        let counts = serde_json::from_str(&text);
        let counts = counts.unwrap_or_else(|error| panic!("{error}: {text} {said}"));
        (code, said, counts)
    }

    fn end(self) -> Value {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("a child");
        let (code, said, counts) = self.ended();
        assert_eq!((code, &*said), (Some(0), ""));
        counts
    }
}

/// RFC 1071.
fn checksum(octets: &[u8]) -> u16 {
    let words = octets
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// Echo requests one after the other; how many of `count` come back within a time each.
fn ping(to: Ipv4Addr, count: u16) -> u16 {
    let icmp = Some(ipproto::ICMP);
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::RAW, icmp).unwrap();
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE)).unwrap();
    let to = std::net::SocketAddr::from((to, 0));
    let mut answered = 0;
    for number in 1..=count {
        // Echo request, checksum, identifier, number; an even number of octets.
        let mut request = vec![8, 0, 0, 0, 0x35, 0x33, 0, number as u8];
        request.extend(0..56);
        let sum = checksum(&request).to_be_bytes();
        request[2..4].copy_from_slice(&sum);
        rustix::net::sendto(&socket, &request, SendFlags::empty(), &to).unwrap();
        let mut packet = [0; 1_500];
        loop {
            let received = rustix::net::recv(&socket, &mut packet[..], RecvFlags::empty());
            let Ok((len, _)) = received else { break };
            // Behind an IPv4 header without options.
            let reply = &packet[20..len];
            if reply[0] == 0 && reply[4..] == request[4..] {
                answered += 1;
                break;
            }
        }
    }
    answered
}

fn sum(counts: &Value) -> u64 {
    let counts = counts.as_object().expect("counts").values();
    counts.map(|n| n.as_u64().expect("a count")).sum()
}

fn count(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no count"))
}

/// Both ways, and 5 MB by TCP: identical.
fn carries(encapsulation: &str, namespaces: &[Namespace; 2]) {
    let daemons = daemons();
    let tunnels =
        [0, 1].map(|side| Tunnel::start(&daemons[side], &namespaces[side], side, encapsulation));
    for side in [0, 1] {
        let ping = inside(&namespaces[side], move || ping(ADDRESSES[1 - side], 5));
        assert_eq!(ping.join().unwrap(), 5, "{encapsulation} from side {side}");
    }
    let listener = inside(&namespaces[1], || {
        TcpListener::bind((ADDRESSES[1], 7_000)).unwrap()
    });
    let listener = listener.join().unwrap();
    let sender = inside(&namespaces[0], || {
        let mut stream = TcpStream::connect((ADDRESSES[1], 7_000)).unwrap();
        stream.write_all(&octets(5_000_000)).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        // Until the other side has everything.
        stream.read_to_end(&mut Vec::new()).unwrap();
    });
    let mut received = Vec::new();
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.read_to_end(&mut received).unwrap();
    drop(stream);
    sender.join().unwrap();
    assert!(
        received == octets(5_000_000),
        "{} octets came",
        received.len()
    );

    let [a, b] = tunnels;
    let a = a.end();
    // A device that somebody removes ends its command, too.
    ip(&["-n", &namespaces[1].0, "link", "del", "cell0"]).unwrap();
    let (code, said, b) = b.ended();
    assert_eq!(code, Some(1));
    assert!(said.contains("network device"), "{said}");
    let both = [(&a, &b, ADDRESSES[1]), (&b, &a, ADDRESSES[0])];
    for (this, other, peer) in both {
        assert_eq!(count(&this["copies"]), 0, "{this}");
        assert_eq!(sum(&this["not_sent"]), 0, "{this}");
        assert_eq!(sum(&this["not_received"]), 0, "{this}");
        let (from, to) = (&other["inatmarp"], &this["inatmarp"]);
        let sent = [&other["sent_pdus"], &from["asked"], &from["answered"]];
        let received = [&this["received_pdus"], &to["received"]];
        let total = |counts: &[&Value]| counts.iter().map(|n| count(n)).sum::<u64>();
        assert!(total(&received) <= total(&sent), "{this} {other}");
        let peer = (encapsulation == "ipoa-llcsnap").then(|| peer.to_string());
        assert_eq!(to["peer"].as_str(), peer.as_deref(), "{this}");
    }
    // 5 MB in packets that fit.
    let least = 5_000_000 / count(&a["mtu_octets"]);
    assert!(count(&b["received_pdus"]) > least, "{b}");
}

#[test]
fn linux_talks_to_itself_over_a_connection() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for encapsulation in ["ipoa-llcsnap", "bridged-vcmux"] {
        match (namespace("tun-a"), namespace("tun-b")) {
            (Ok(a), Ok(b)) => carries(encapsulation, &[a, b]),
            (Err(reason), _) | (_, Err(reason)) => return println!("skipped tun_ping: {reason}"),
        }
    }
    println!("ran tun_ping");
}

/// What of a connection is ATMARP; the kernel's own IPv6 beside it is left aside.
fn next_atmarp(connection: &Connection) -> Vec<u8> {
    loop {
        let pdu = connection.next_pdu_timeout(PATIENCE).unwrap();
        if pdu[6..8] == [0x08, 0x06] {
            return pdu[8..].to_vec();
        }
    }
}

#[test]
fn who_is_there_is_asked_and_answered_and_what_does_not_fit_is_counted() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let namespace = match namespace("tun-c") {
        Ok(namespace) => namespace,
        Err(reason) => return println!("skipped tun_inatmarp: {reason}"),
    };
    let [raw, device] = daemons();
    let builder = Connection::builder()
        .socket(raw.socket())
        .address("wan.0.100");
    let connection = builder.contract("ubr,aal5:max_sdu=9188").open().unwrap();
    let tunnel = Tunnel::start(&device, &namespace, 1, "ipoa-llcsnap");

    let asked = InAtmArp::request(ADDRESSES[1]);
    assert_eq!(next_atmarp(&connection), *asked.emit());
    let question = InAtmArp::request(ADDRESSES[0]);
    let header = Encapsulation::IpoaLlcsnap.emit_atmarp().unwrap();
    let question_sdu = [&header[..], &question.emit()].concat();
    let answer = question.answer(ADDRESSES[1]).unwrap();
    connection.send(&question_sdu).unwrap();
    assert_eq!(next_atmarp(&connection), *answer.emit());

    let mut atmarp = question_sdu.clone();
    // ARP_REQUEST.
    atmarp[15] = 1;
    let llc_ipv4 = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    for sdu in [
        &[0x45; 40][..],
        &[0xfe, 0xfe, 3, 0xcf, 0xc0, 0x21],
        &[&llc_ipv4[..], &[0x60; 40]].concat(),
        &llc_ipv4,
        // An IPv4 packet for the kernel to throw away.
        &[&llc_ipv4[..], &[0x45; 40]].concat(),
        &atmarp,
        &question_sdu,
    ] {
        connection.send(sdu).unwrap();
    }
    // PDUs stay in order: all of them have been looked at.
    assert_eq!(next_atmarp(&connection), *answer.emit());

    // Somebody sets an MTU that the contract has no room for.
    ip(&["-n", &namespace.0, "link", "set", "cell0", "mtu", "9500"]).unwrap();
    let send = inside(&namespace, || {
        let socket = UdpSocket::bind((ADDRESSES[1], 7)).unwrap();
        for len in [9_400, 9_152, 9_153] {
            socket.send_to(&vec![1; len], (ADDRESSES[0], 7)).unwrap();
        }
        socket.send_to(b"last", (ADDRESSES[0], 7)).unwrap();
    });
    send.join().unwrap();
    loop {
        let pdu = connection.next_pdu_timeout(PATIENCE).unwrap();
        if pdu.ends_with(b"last") {
            break;
        }
    }

    let pid = Pid::from_raw(device.pid().cast_signed()).expect("a process");
    kill_process(pid, Signal::TERM).expect("a child");
    let (code, said, counts) = tunnel.ended();
    assert_eq!(code, Some(1));
    assert!(said.contains("the server ends"), "{said}");
    let wanted = serde_json::json!({
        "peer": ADDRESSES[0], "received": 2, "asked": 1, "answered": 2, "unanswered": 0,
    });
    assert_eq!(counts["inatmarp"], wanted);
    let refused = &counts["not_received"];
    let expected = [
        ("unknown_llc", 1),
        ("other_protocol", 1),
        ("ip_version", 1),
        ("too_short", 1),
        ("bad_inatmarp", 1),
    ];
    for (reason, n) in expected {
        assert_eq!(count(&refused[reason]), n, "{reason}: {counts}");
    }
    assert_eq!(sum(refused), 5, "{counts}");
    assert_eq!(count(&counts["received_pdus"]), 1, "{counts}");
    assert_eq!(count(&counts["not_sent"]["too_long"]), 2, "{counts}");
    assert_eq!(sum(&counts["not_sent"]), 2, "{counts}");
    assert_eq!(count(&counts["copies"]), 0, "{counts}");
    println!("ran tun_inatmarp");
}

#[test]
fn wrong_calls_exit_with_2_and_without_a_server_with_4() {
    let vc = [
        "tun",
        "--socket",
        "/nonexistent/socket",
        "add",
        "x",
        "vc",
        "0.100",
    ];
    for (words, code) in [
        (&["encap", "ipoa"][..], 2),
        (&["encap", "ipoa-vcmux", "address", "10.0.0.1"], 2),
        (&["encap", "ipoa-vcmux"], 4),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellgate"));
        let output = command
            .args(vc)
            .args(words)
            .output()
            .expect("cellgate starts");
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
    }
}
