//! `cellgate tun`: Linux's own TCP/IP between two network namespaces over one connection. What the
//! machine lacks is said, and the test skipped.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, alone, octets, threads};
use crate::gaps::{Watch, excuse, or_void};
use crate::iperf3;
use crate::netns::{Namespace, ip};
use cellgate::{Admin, Connection, DeviceSpec, Error, Refused, Resource};
use cellgate_core::upper::{Encapsulation, InAtmArp};
use cellgate_host::client::Control;
use cellgate_host::sys::{Tun, TunKind, enter_network_namespace};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, sockopt};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Long enough for anything on a busy machine; reached only by a failing test.
const PATIENCE: Duration = Duration::from_secs(60);

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 166, 70, 1), Ipv4Addr::new(10, 166, 70, 2)];

/// Two daemons, each with the interface `wan` to the other, a pseudowire on this host.
fn daemons() -> [Daemon; 2] {
    [0, 1].map(|side| daemon(side, ""))
}

/// One of them, with more in its configuration.
fn daemon(side: usize, more: &str) -> Daemon {
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    let ends = [71, 72].map(|side| format!("127.{side}.{high}.{}", low | 1));
    let contents = format!(
        "[adapter]\npin = false\nnice = 0\nlock_memory = false\nidle = \"sleep\"\n\
         memory_max = 268435456\n{more}[[interface]]\nname = \"wan\"\n[interface.link.udp]\n\
         local = \"{}:6635\"\npeer = \"{}:6635\"\nlabel_out = {}\nlabel_in = {}\nmtu = 1500\n",
        ends[side],
        ends[1 - side],
        100 + side,
        101 - side,
    );
    Daemon::start_by(&[], &contents, None)
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

/// Has a daemon carry a network device `cell0` of a namespace.
fn begin(daemon: &Daemon, namespace: &Namespace, side: usize, words: &[&str]) {
    let address = format!("{}/24", ADDRESSES[side]);
    let output = add(daemon, namespace, &[words, &["address", &address]].concat());
    assert!(output.status.success(), "{output:?}");
    let info: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(info["device"], "cell0");
}

/// What the daemon's device is and has carried; none: there is none.
fn shown(daemon: &Daemon) -> Option<Value> {
    let shown = daemon.ok(&["tun", "show", "--json"]);
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    shown["devices"]
        .as_array()
        .expect("a list")
        .first()
        .cloned()
}

fn carried(daemon: &Daemon) -> Value {
    shown(daemon).expect("a device")["carried"].clone()
}

fn is_there(namespace: &Namespace) -> bool {
    ip(&["-n", &namespace.0, "link", "show", "cell0"]).is_ok()
}

fn eventually<T>(complaint: &str, mut what: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(it) = what() {
            return it;
        }
        assert!(Instant::now() < deadline, "{complaint}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// `cellgate tun add cell0` in a namespace.
fn add(daemon: &Daemon, namespace: &Namespace, words: &[&str]) -> Output {
    let mut command = Command::new("ip");
    let binary = env!("CARGO_BIN_EXE_cellgate");
    command.args(["netns", "exec", &namespace.0, binary]);
    command.arg("tun").arg("--socket").arg(daemon.socket());
    command
        .args(["add", "cell0", "vc", "wan.0.100"])
        .args(words);
    command.arg("--json");
    command.output().expect("ip starts")
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn one_name_in_two_network_namespaces_is_two_devices() {
    let _alone = alone();
    let namespaces = match (namespace("tun-g"), namespace("tun-h")) {
        (Ok(one), Ok(other)) => [one, other],
        (Err(reason), _) | (_, Err(reason)) => return println!("skipped tun_names: {reason}"),
    };
    let daemon = daemon(0, "");
    let add_at = |namespace: &Namespace, vc: &str| {
        let socket = daemon.socket();
        let binary = env!("CARGO_BIN_EXE_cellgate");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespace.0, binary, "tun", "--socket"]);
        command
            .arg(socket)
            .args(["add", "cell0", "vc", vc, "encap", "ipoa-llcsnap"]);
        command.output().expect("ip starts")
    };
    let first = add_at(&namespaces[0], "wan.0.100");
    assert!(first.status.success(), "{first:?}");
    let second = add_at(&namespaces[1], "wan.0.101");
    assert!(second.status.success(), "{second:?}");
    // A name in one of them is still one.
    let twice = add_at(&namespaces[0], "wan.0.102");
    assert!(!twice.status.success(), "{twice:?}");
    // Which of them is to go is told by its connection.
    let which = daemon.fails(1, &["tun", "del", "cell0"]);
    assert!(
        which.contains("wan.0.100") && which.contains("wan.0.101"),
        "{which}"
    );
    daemon.ok(&["tun", "del", "wan.0.100"]);
    eventually("the device stays", || {
        (!is_there(&namespaces[0])).then_some(())
    });
    assert!(is_there(&namespaces[1]));
    daemon.ok(&["tun", "del", "cell0"]);
    println!("ran tun_names");
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
    echo(to, count, PATIENCE)
}

/// One, that may be lost.
fn ping_within(to: Ipv4Addr, patience: Duration) -> u16 {
    echo(to, 1, patience)
}

fn echo(to: Ipv4Addr, count: u16, patience: Duration) -> u16 {
    let icmp = Some(ipproto::ICMP);
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::RAW, icmp).unwrap();
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(patience)).unwrap();
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
    for side in [0, 1] {
        let words = ["encap", encapsulation];
        begin(&daemons[side], &namespaces[side], side, &words);
    }
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

    // What one has received, the other has sent before.
    let [early, a, late] = [1, 0, 1].map(|side| carried(&daemons[side]));
    let mtu = shown(&daemons[0]).expect("a device")["mtu_octets"].clone();
    daemons[0].ok(&["tun", "del", "cell0"]);
    assert!(!is_there(&namespaces[0]) && shown(&daemons[0]).is_none());
    daemons[0].fails(1, &["tun", "del", "cell0"]);
    // Somebody else can remove a device, too.
    ip(&["-n", &namespaces[1].0, "link", "del", "cell0"]).unwrap();
    eventually("its worker stays", || {
        shown(&daemons[1]).is_none().then_some(())
    });
    let both = [(&a, &late, ADDRESSES[1]), (&early, &a, ADDRESSES[0])];
    for (this, other, peer) in both {
        assert_eq!(count(&this["copies"]), 0, "{this}");
        assert_eq!(sum(&this["not_sent"]), 0, "{this}");
        // What came before the device was up, when its MTU was not known yet, is nobody's.
        let early = count(&this["not_received"]["device_down"]);
        assert_eq!(sum(&this["not_received"]), early, "{this}");
        let (from, to) = (&other["inatmarp"], &this["inatmarp"]);
        let sent = [&other["sent_pdus"], &from["asked"], &from["answered"]];
        let received = [&this["received_pdus"], &to["received"]];
        let total = |counts: &[&Value]| counts.iter().map(|n| count(n)).sum::<u64>();
        assert!(total(&received) <= total(&sent), "{this} {other}");
        let peer = (encapsulation == "ipoa-llcsnap").then(|| peer.to_string());
        assert_eq!(to["peer"].as_str(), peer.as_deref(), "{this}");
    }
    // 5 MB in packets that fit.
    let least = 5_000_000 / count(&mtu);
    assert!(count(&late["received_pdus"]) > least, "{late}");
}

#[test]
fn linux_talks_to_itself_over_a_connection() {
    let _alone = alone();
    for encapsulation in [
        "ipoa-llcsnap",
        "ipoa-vcmux",
        "bridged-llcsnap",
        "bridged-vcmux",
    ] {
        match (namespace("tun-a"), namespace("tun-b")) {
            (Ok(a), Ok(b)) => carries(encapsulation, &[a, b]),
            (Err(reason), _) | (_, Err(reason)) => return println!("skipped tun_ping: {reason}"),
        }
    }
    println!("ran tun_ping");
}

/// What the client of `iperf3` tells of a run of two seconds. It waits for ever where one of its
/// first datagrams is lost, so it is given a time.
fn measure(namespaces: &[Namespace; 2], more: &[&str]) -> Result<Value, String> {
    let command = |namespace: &Namespace, words: &[&str]| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespace.0, "timeout", "20", "iperf3"]);
        command.args(words).stdout(Stdio::piped());
        command
    };
    let to = ADDRESSES[1].to_string();
    let words = [&["-c", &to, "-J", "-t", "2"][..], more].concat();
    let mut server = command(&namespaces[1], &["-s", "-1"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let output = command(&namespaces[0], &words).output().unwrap();
    // It may have ended with its only client.
    let _ = kill_process(Pid::from_child(&server), Signal::TERM);
    server.wait().unwrap();
    match output.status.success() {
        true => serde_json::from_slice(&output.stdout).map_err(|error| error.to_string()),
        false => Err("no answer".to_owned()),
    }
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn iperf3_measures_what_the_contract_allows() {
    const CELL_S: u64 = 100_000;
    let _alone = alone();
    let namespaces = match (namespace("tun-a"), namespace("tun-b")) {
        (Ok(a), Ok(b)) => [a, b],
        (Err(reason), _) | (_, Err(reason)) => return println!("skipped tun_iperf3: {reason}"),
    };
    if Command::new("iperf3").arg("--version").output().is_err() {
        return println!("skipped tun_iperf3: iperf3 is not installed");
    }
    let daemons = daemons();
    let contract = format!("cbr,aal5:pcr={CELL_S}cps,max_sdu=1508");
    for side in [0, 1] {
        let words = ["encap", "ipoa-llcsnap", "contract", &contract];
        begin(&daemons[side], &namespaces[side], side, &words);
    }
    for (more, asked_octet_s) in [(&[][..], u64::MAX), (&["-u", "-b", "20M"], 2_500_000)] {
        let run = or_void(|| {
            let before = iperf3::missing(&daemons);
            let watches = daemons.each_ref().map(Watch::begin);
            let told = measure(&namespaces, more)?;
            let lost = iperf3::missing(&daemons).saturating_sub(before);
            iperf3::judge(&told, CELL_S, asked_octet_s, excuse(watches), lost)
        });
        if let Err(reason) = run {
            return println!("void tun_iperf3: {reason}");
        }
    }
    println!("ran tun_iperf3");
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
    let _alone = alone();
    let namespace = match namespace("tun-c") {
        Ok(namespace) => namespace,
        Err(reason) => return println!("skipped tun_atmarp: {reason}"),
    };
    let [raw, device] = daemons();
    let builder = Connection::builder()
        .socket(raw.socket())
        .address("wan.0.100");
    let connection = builder.contract("ubr,aal5:max_sdu=9188").open().unwrap();
    begin(&device, &namespace, 1, &["encap", "ipoa-llcsnap"]);

    // Nobody answers: it asks again.
    let asked = InAtmArp::request(ADDRESSES[1]).emit();
    let mut questions = 2;
    for _ in 0..questions {
        assert_eq!(next_atmarp(&connection), *asked);
    }
    let question = InAtmArp::request(ADDRESSES[0]);
    let header = Encapsulation::IpoaLlcsnap.emit_atmarp().unwrap();
    let question_sdu = [&header[..], &question.emit()].concat();
    let answer = question.answer(ADDRESSES[1]).unwrap();
    connection.send(&question_sdu).unwrap();
    loop {
        let told = next_atmarp(&connection);
        if told == *answer.emit() {
            break;
        }
        assert_eq!(told, *asked);
        questions += 1;
    }

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

    let counts = eventually("the last packet is not counted", || {
        let counts = carried(&device);
        (count(&counts["not_sent"]["too_long"]) == 2).then_some(counts)
    });
    let wanted = serde_json::json!({
        "peer": ADDRESSES[0], "received": 2, "asked": questions, "answered": 2, "unanswered": 0,
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
    // A server that ends takes its devices with it.
    let pid = Pid::from_raw(device.pid().cast_signed()).expect("a process");
    kill_process(pid, Signal::TERM).expect("a child");
    eventually("the device stays", || (!is_there(&namespace)).then_some(()));
    println!("ran tun_atmarp");
}

/// An echo request whose answer is waited for.
fn ask(from: &Namespace, to: Ipv4Addr) -> JoinHandle<u16> {
    inside(from, move || ping(to, 1))
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn a_device_outlives_its_server_and_its_adapter() {
    let _alone = alone();
    let namespaces = match (namespace("tun-d"), namespace("tun-e")) {
        (Ok(a), Ok(b)) => [a, b],
        (Err(reason), _) | (_, Err(reason)) => return println!("skipped tun_kills: {reason}"),
    };
    let [mut near, far] = daemons();
    let contract = "contract cbr,aal5:pcr=20000cps,max_sdu=1508";
    let words: Vec<_> = format!("encap ipoa-llcsnap {contract}")
        .split(' ')
        .map(str::to_owned)
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    begin(&near, &namespaces[0], 0, &words);
    begin(&far, &namespaces[1], 1, &words);
    let to = ADDRESSES[1];
    assert_eq!(ask(&namespaces[0], to).join().unwrap(), 1);
    let number = |daemon: &Daemon| {
        let mut admin = Admin::at(daemon.socket()).ok()?;
        Some(admin.list().ok()?.first()?.number)
    };
    let before = number(&near);
    assert!(before.is_some());
    for _ in 0..3 {
        near.kill();
        // Nobody carries it, and the kernel keeps it in the device's queue.
        let late = ask(&namespaces[0], to);
        std::thread::sleep(Duration::from_millis(50));
        assert!(is_there(&namespaces[0]) && !late.is_finished());
        near.succeed();
        assert_eq!(late.join().unwrap(), 1);
        assert_eq!(number(&near), before, "it is another connection");
        assert_eq!(ask(&namespaces[1], ADDRESSES[0]).join().unwrap(), 1);
    }
    let adapter = Control::at(&near.path("state/adapter.sock")).expect("it listens");
    let pid = Pid::from_raw(adapter.hello().pid.cast_signed()).expect("a process");
    kill_process(pid, Signal::KILL).expect("it runs");
    drop(adapter);
    eventually("nothing passes a new adapter", || {
        let socket = near.path("state/adapter.sock");
        let anew = Control::at(&socket).ok()?.hello().pid.cast_signed();
        (anew != pid.as_raw_nonzero().get()).then_some(())
    });
    // What was on its way is lost with the adapter.
    eventually("nothing passes a new adapter", || {
        let answered = inside(&namespaces[0], move || {
            ping_within(to, Duration::from_secs(1))
        });
        (answered.join().unwrap() == 1).then_some(())
    });
    // The new one keeps the device as the former did.
    near.kill();
    near.succeed();
    assert_eq!(ask(&namespaces[0], to).join().unwrap(), 1);
    near.ok(&["tun", "del", "cell0"]);
    assert!(!is_there(&namespaces[0]));
    assert_eq!(number(&near), None);
    println!("ran tun_kills");
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn a_guaranteed_device_takes_time_of_the_workers_and_an_unfit_one_nothing() {
    let _alone = alone();
    let namespace = match namespace("tun-f") {
        Ok(namespace) => namespace,
        Err(reason) => return println!("skipped tun_admission: {reason}"),
    };
    let daemon = daemon(0, "[admission]\nworker_ppm = 50000\n");
    let reserved = || {
        let resources = Admin::at(daemon.socket()).unwrap().resources().unwrap();
        let workers = |info: &cellgate::ResourceInfo| info.resource == Resource::WorkerCpu;
        let found = resources.into_iter().find(workers);
        found.map(|info| (info.reserved, info.capacity))
    };
    let (nothing, capacity) = reserved().expect("workers");
    assert_eq!((nothing, capacity), (0, 50_000));
    let refused = |words: &[&str], code: i32| {
        let output = add(&daemon, &namespace, words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        // Its worker ends a moment later.
        eventually("the device stays", || (!is_there(&namespace)).then_some(()));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let encap = ["encap", "ipoa-llcsnap"];
    let with = |more: &[&'static str]| [&encap[..], more].concat();
    // One cell a PDU: too many on any machine, and below so few that none is too slow for them.
    let why = refused(&with(&["contract", "cbr,aal5:pcr=100000cps,max_sdu=40"]), 3);
    assert!(why.contains("CPU time of the workers"), "{why}");
    // 5: no room for what goes in front of a packet.
    for contract in ["cbr,aal5:pcr=1cps,max_sdu=20", "ubr,aal5:max_sdu=5"] {
        let why = refused(&with(&["contract", contract]), 1);
        assert!(why.contains("too short"), "{why}");
    }
    refused(&with(&["contract", "ubr,aal0:max_sdu=52"]), 2);
    refused(&with(&["contract", "nonsense"]), 2);
    refused(
        &with(&["contract", "ubr,aal5:max_sdu=1508", "mtu", "9000"]),
        2,
    );
    refused(
        &with(&["contract", "cbr,aal5:tx:pcr=9cps,max_sdu=99,rx:none"]),
        1,
    );
    refused(&with(&["take"]), 1);
    let admin = || Admin::at(daemon.socket()).unwrap();
    assert_eq!(admin().list().unwrap(), []);
    let contract = ["contract", "cbr,aal5:pcr=100cps,max_sdu=1508"];
    begin(&daemon, &namespace, 0, &[&encap[..], &contract].concat());
    let one = reserved().expect("workers").0;
    assert!(one > 0);
    daemon.ok(&["tun", "del", "cell0"]);
    eventually("its time does not come back", || {
        (reserved().expect("workers").0 == 0).then_some(())
    });
    // A permanent connection is given back.
    daemon.ok(&[
        "vc",
        "add",
        "wan.0.100",
        "contract",
        "ubr,aal5:max_sdu=1508",
    ]);
    begin(&daemon, &namespace, 0, &with(&["take"]));
    daemon.ok(&["tun", "del", "cell0"]);
    eventually("the permanent connection stays in use", || {
        let all = admin().list().unwrap();
        (all.len() == 1 && all[0].pid.is_none()).then_some(())
    });
    println!("ran tun_admission");
}

#[test]
fn a_guaranteed_worker_is_real_time_beside_the_adapter() {
    let _alone = alone();
    let namespace = match namespace("tun-g") {
        Ok(namespace) => namespace,
        Err(reason) => return println!("skipped tun_class: {reason}"),
    };
    let loops = "[[interface]]\nname = \"wan\"\nlink.memory.peer = \"wan\"\n";
    let daemon = Daemon::start_by(&[], loops, None);
    let worker = |contract: &str| {
        let words = ["encap", "ipoa-llcsnap", "contract", contract];
        begin(&daemon, &namespace, 0, &words);
        let told = shown(&daemon).expect("a device")["scheduling"].clone();
        let worker = threads(daemon.pid())["cg-worker"].clone();
        daemon.ok(&["tun", "del", "cell0"]);
        (told.as_str().expect("a text").to_owned(), worker)
    };
    let (told, guaranteed) = worker("cbr,aal5:pcr=5000cps,max_sdu=1508");
    let (_, best_effort) = worker("ubr,aal5:max_sdu=1508");
    assert_eq!(best_effort.fifo, None);
    let class = match guaranteed.fifo {
        Some(priority) => format!("fifo {priority}, on CPU "),
        None => format!("nice {}, on CPU ", guaranteed.nice),
    };
    assert!(told.starts_with(&class), "{told}: it is {guaranteed:?}");
    let adapter = Control::at(&daemon.path("state/adapter.sock")).expect("it listens");
    let scheduling = &adapter.hello().scheduling;
    let (Some(cpu), true) = (scheduling.pinned, scheduling.cpus.len() > 1) else {
        return println!("skipped tun_class: {scheduling}");
    };
    for thread in [&guaranteed, &best_effort] {
        let mut cpus = thread.cpus.split([',', '-']);
        assert!(cpus.all(|other| *other != cpu.to_string()), "{thread:?}");
    }
    let interrupt = &threads(daemon.pid())["cg-interrupt"];
    match (guaranteed.fifo, interrupt.fifo) {
        (Some(30), Some(20)) => println!("ran tun_class"),
        (None, None) => println!("skipped tun_class: {told}"),
        other => panic!("{other:?}: {told}"),
    }
}

/// What calls itself a device and is none.
#[test]
fn descriptors_that_are_no_device_are_refused() {
    let _alone = alone();
    let daemon = daemon(0, "");
    let mut admin = Admin::at(daemon.socket()).unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let spec = |encapsulation: &str| DeviceSpec {
        address: "wan.0.100".parse().unwrap(),
        contract: Some("ubr,aal5".to_owned()),
        encapsulation: encapsulation.to_owned(),
    };
    let mut refused = |encapsulation: &str, device: BorrowedFd<'_>| {
        let added = admin.add_device(spec(encapsulation), device, socket.as_fd());
        match added {
            Err(Error::Refused(refused)) => refused,
            other => panic!("{other:?}"),
        }
    };
    for device in [null.as_fd(), socket.as_fd()] {
        let why = refused("ipoa-llcsnap", device);
        assert!(matches!(why, Refused::Descriptors(_)), "{why}");
    }
    if let Ok(bare) = std::fs::File::open("/dev/net/tun") {
        let why = refused("ipoa-llcsnap", bare.as_fd());
        assert!(matches!(why, Refused::Descriptors(_)), "{why}");
    }
    let why = refused("ethernet", null.as_fd());
    assert!(matches!(why, Refused::Unsupported(_)), "{why}");
    assert_eq!(shown(&daemon), None);
}

/// A network device of this thread's namespace, and a socket there.
fn device(name: &str) -> (Tun, UdpSocket) {
    let device = Tun::open(name, TunKind::Routed).unwrap();
    (device, UdpSocket::bind("0.0.0.0:0").unwrap())
}

#[test]
fn a_device_with_a_contract_of_blanks_hurts_nobody() {
    let _alone = alone();
    let namespace = match namespace("tun-h") {
        Ok(namespace) => namespace,
        Err(reason) => return println!("skipped tun_blanks: {reason}"),
    };
    let daemon = daemon(0, "");
    let adapter = daemon.path("state/adapter.sock");
    let pid = || Control::at(&adapter).expect("it listens").hello().pid;
    let before = pid();
    let mut admin = Admin::at(daemon.socket()).unwrap();
    let (device, socket) = inside(&namespace, || device("cell0")).join().unwrap();
    let blanks = "\t".repeat(30_000);
    let spec = DeviceSpec {
        address: "wan.0.100".parse().unwrap(),
        contract: Some(format!("ubr,aal5:max_sdu={blanks}1508")),
        encapsulation: "ipoa-llcsnap".to_owned(),
    };
    let [wire, _] = device.descriptors();
    let info = admin.add_device(spec, wire, socket.as_fd()).unwrap();
    assert!(info.contract.len() < 100, "{}", info.contract);
    // It was kept before it was confirmed, or the adapter is another one soon.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(pid(), before);
    admin.remove_device("cell0").unwrap();
    println!("ran tun_blanks");
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
