//! `stream send` and `stream recv` through a daemon whose two interfaces are joined.

use std::fs;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cellgate_core::Time;
use cellgate_core::terminal::video::{Camera, CameraTerms};
use cellgate_core::wire::{TS_LEN, TsHeader};
use serde_json::Value;

use crate::daemon::{Daemon, octets, stderr, stdout};

const DAEMON: &str = "[adapter]\npin = false\nidle = \"sleep\"\n\
                      [[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
                      [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n";
/// Eight cells a PDU, and 6 Mbit/s of payload.
const CONTRACT: &str = "cbr,aal5:pcr=20000,max_sdu=376";
/// A machine that others keep busy is late by less.
const LATENCY: &str = "2s";
/// Runs of which one must not be disturbed by whatever else the machine does.
const TRIES: usize = 5;

/// A camera's stream as a file has it: so many frames of 3 Mbit/s.
fn film(frames: u64) -> Vec<u8> {
    let terms = CameraTerms {
        fps: 25,
        bit_s: 3_000_000,
        ppm: 0,
        pack: 2,
        frames: Some(frames),
    };
    let mut camera = Camera::new(Time::ZERO, terms);
    let mut octets = Vec::new();
    while let Some(made) = camera.next_deadline() {
        while let Some(packet) = camera.poll(made) {
            octets.extend_from_slice(&packet);
        }
    }
    octets
}

struct Way<'d> {
    daemon: &'d Daemon,
    vc: &'static str,
    recv: Vec<&'d str>,
    send: Vec<&'d str>,
}

/// What both ends say of a stream that has ended.
struct Told {
    sent: Value,
    received: Value,
}

impl Way<'_> {
    /// Sends `source`, and plays it at `to`.
    fn play(&self, source: &str, to: &str) -> Told {
        let (a, b) = (format!("a.{}", self.vc), format!("b.{}", self.vc));
        let recv = [
            "stream",
            "recv",
            "--vc",
            &b,
            "--contract",
            CONTRACT,
            "--latency",
            LATENCY,
            "--timeout",
            "2",
            "--json",
            "--to",
            to,
        ];
        let receiver = self
            .daemon
            .begin(&[&recv[..], &self.recv].concat(), "latency");
        let send = [
            "stream",
            "send",
            "--vc",
            &a,
            "--contract",
            CONTRACT,
            "--json",
        ];
        let sent = self.daemon.ok(&[&send[..], &self.send, &[source]].concat());
        let received = receiver.stdout();
        Told {
            sent: serde_json::from_str(&sent).expect("JSON"),
            received: serde_json::from_slice(&received).expect("JSON"),
        }
    }
}

/// A way through a daemon.
fn way<'d>(daemon: &'d Daemon, vc: &'static str) -> Way<'d> {
    Way {
        daemon,
        vc,
        recv: Vec::new(),
        send: Vec::new(),
    }
}

/// Whether nothing was late; what else must hold does.
fn is_in_time(told: &Told) -> bool {
    let counts = &told.received["counts"];
    let none = [
        "lost_pdus",
        "lost_packets",
        "continuity_errors",
        "errors",
        "not_ts",
        "early",
        "jumps",
        "restarts",
        "untimed",
        "overruns",
    ];
    for key in none {
        assert_eq!(counts[key], 0, "{key}: {counts}");
    }
    assert_eq!(
        counts["packets"], told.sent["counts"]["packets"],
        "{counts}"
    );
    assert_eq!(counts["released"], counts["packets"], "{counts}");
    let in_time = counts["late"] == 0 && counts["underruns"] == 0;
    if !in_time {
        println!("void: {counts}");
    }
    in_time
}

#[test]
fn a_file_arrives_as_it_was_and_in_time() {
    let daemon = Daemon::start_beside(DAEMON);
    let (file, out) = (daemon.path("film.ts"), daemon.path("out.ts"));
    let film = film(75);
    fs::write(&file, &film).unwrap();
    let [file, to] = [&file, &out].map(|path| path.to_str().unwrap());
    let arrives = |clock: &str, vc| {
        let mut way = way(&daemon, vc);
        way.recv = vec!["--clock", clock];
        let begun = Instant::now();
        let told = way.play(file, to);
        // 74 steps of 40 ms, and what lies behind them: a file leaves no faster than it plays.
        assert!(
            begun.elapsed() > Duration::from_millis(2_900),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(told.received["clock"], clock);
        let is_the_same = fs::read(&out).unwrap() == film;
        assert!(is_the_same, "other octets: {}", told.received);
        is_in_time(&told)
    };
    assert!(
        (0..TRIES).any(|_| arrives("pcr", "0.40")),
        "late in every try"
    );
    assert!(
        (0..TRIES).any(|_| arrives("occupancy", "0.41")),
        "late in every try"
    );
}

#[test]
fn each_frame_of_a_camera_is_shown_in_time() {
    let daemon = Daemon::start_beside(DAEMON);
    let shown = || {
        let mut way = way(&daemon, "0.42");
        way.send = vec!["--time", "2"];
        let told = way.play("test:25,3M,-80", "test");
        let display = &told.received["display"];
        let (on_time, late) = (&display["on_time"], &display["late"]);
        assert_eq!(
            on_time.as_u64().unwrap() + late.as_u64().unwrap(),
            50,
            "{display}"
        );
        for key in ["missing", "missing_packets", "strange"] {
            assert_eq!(display[key], 0, "{key}: {display}");
        }
        // It is played the latency behind its arrival, or a little more than that.
        assert!(
            display["delay_min_ns"].as_u64() >= Some(1_000_000_000),
            "{display}"
        );
        is_in_time(&told) && *late == 0
    };
    assert!((0..TRIES).any(|_| shown()), "late in every try");
}

#[test]
fn what_a_line_loses_is_named_exactly_and_marked() {
    let daemon = Daemon::start_beside(DAEMON);
    // Some 15 of 6,000 PDUs.
    daemon.ok(&["itf", "set", "b", "line", "ber", "1e-6", "seed", "7"]);
    let mut way = way(&daemon, "0.43");
    way.send = vec!["--time", "4"];
    way.recv = vec!["--lost", "mark"];
    let told = way.play("test:25,3M", "test");
    let (counts, display) = (&told.received["counts"], &told.received["display"]);
    let of = |value: &Value| value.as_u64().expect("a number");
    let pdus = of(&counts["lost_pdus"]);
    assert!(pdus >= 5, "{counts}");
    for (key, value) in [
        ("lost_packets", counts),
        ("marked", counts),
        ("missing_packets", display),
    ] {
        assert_eq!(value[key], 2 * pdus, "{key}: {} {}", counts, display);
    }
    // By name: pairs, each a PDU.
    let named = display["named"].as_array().unwrap();
    let mut packets = 0;
    for range in named {
        let (from, to) = (of(&range[0]), of(&range[1]));
        assert!(
            from.is_multiple_of(2) && !to.is_multiple_of(2) && from < to,
            "{display}"
        );
        packets += to - from + 1;
    }
    assert_eq!(packets, 2 * pdus);
    // Nothing else is missing, and what the adapter threw away was that.
    assert_eq!(
        of(&counts["packets"]) + 2 * pdus,
        of(&told.sent["counts"]["packets"])
    );
    let discarded = told.received["discarded"].as_object().unwrap();
    // A header that is damaged takes a cell to no VC, which is no PDU of this one.
    let thrown: u64 = discarded.values().map(of).sum();
    assert!(thrown <= pdus && thrown > 0, "{discarded:?}");

    // A file has as many packets that say that they are wrong.
    let out = daemon.path("out.ts");
    let told = way.play("test:25,3M", out.to_str().unwrap());
    let marked = of(&told.received["counts"]["marked"]);
    let octets = fs::read(out).unwrap();
    let (packets, rest) = octets.as_chunks::<TS_LEN>();
    let wrong = packets
        .iter()
        .filter(|packet| TsHeader::parse(packet).unwrap().0.error);
    assert!(marked > 0 && rest.is_empty());
    assert_eq!(wrong.count() as u64, marked);
    assert_eq!(packets.len() as u64, of(&told.sent["counts"]["packets"]));
}

#[test]
fn what_a_pipe_brings_leaves_as_it_comes_and_reaches_a_socket() {
    let daemon = Daemon::start_beside(DAEMON);
    let player = UdpSocket::bind("127.0.0.1:0").unwrap();
    let limit = Some(Duration::from_secs(30));
    player.set_read_timeout(limit).unwrap();
    let to = format!("udp:{}", player.local_addr().unwrap());
    let recv = [
        "stream",
        "recv",
        "--vc",
        "b.0.44",
        "--contract",
        CONTRACT,
        "--timeout",
        "1",
        "--to",
        &to,
    ];
    let receiver = daemon.begin(&recv, "latency");
    let film = film(5);
    let len = film.len();
    let reader = std::thread::spawn(move || {
        let mut played = Vec::new();
        let mut datagram = [0; 2_048];
        while played.len() < len {
            let len = player.recv(&mut datagram).expect("all of it comes");
            assert!(len <= 7 * TS_LEN && len.is_multiple_of(TS_LEN), "{len}");
            played.extend_from_slice(&datagram[..len]);
        }
        played
    });
    let send = [
        "stream",
        "send",
        "--vc",
        "a.0.44",
        "--contract",
        CONTRACT,
        "-",
    ];
    daemon.feed(&send, &film);
    receiver.stdout();
    assert!(reader.join().unwrap() == film);
}

#[test]
fn what_a_socket_brings_is_sent() {
    let daemon = Daemon::start_beside(DAEMON);
    let free = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let out = daemon.path("out.ts");
    let to = out.to_str().unwrap();
    let recv = [
        "stream",
        "recv",
        "--vc",
        "b.0.45",
        "--contract",
        CONTRACT,
        "--timeout",
        "4",
        "--to",
        to,
    ];
    let receiver = daemon.begin(&recv, "latency");
    let source = format!("udp:{free}");
    let send = [
        "stream",
        "send",
        "--vc",
        "a.0.45",
        "--contract",
        CONTRACT,
        "--time",
        "3",
        &source,
    ];
    let sender = daemon.begin(&send, "sending on");
    let film = film(3);
    let camera = UdpSocket::bind("127.0.0.1:0").unwrap();
    for datagram in film.chunks(7 * TS_LEN) {
        camera.send_to(datagram, free).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    sender.stdout();
    receiver.stdout();
    assert!(fs::read(out).unwrap() == film);
}

#[test]
fn json_tells_all_of_both_ends() {
    let daemon = Daemon::start_beside(DAEMON);
    let mut way = way(&daemon, "0.46");
    way.send = vec!["--time", "1", "--cpu", "0s"];
    let told = way.play("test:10,1M", "test:10");
    let keys = |value: &Value| -> Vec<String> {
        value
            .as_object()
            .expect("an object")
            .keys()
            .cloned()
            .collect()
    };
    assert_eq!(
        keys(&told.sent),
        [
            "address",
            "behind_max_ns",
            "contract",
            "counts",
            "scheduling"
        ]
    );
    assert_eq!(
        keys(&told.sent["counts"]),
        [
            "jumps",
            "packets",
            "pdus",
            "references",
            "skipped_octets",
            "untimed"
        ]
    );
    assert_eq!(
        keys(&told.received),
        [
            "address",
            "bursts_ns",
            "clock",
            "clock_ppb",
            "contract",
            "counts",
            "discarded",
            "dismissed",
            "display",
            "fill_ns",
            "latency_ns",
            "page",
            "player_dropped",
            "player_gone",
            "rate_ppb",
            "released_late_max_ns",
            "scheduling",
        ]
    );
    assert_eq!(
        keys(&told.received["counts"]),
        [
            "anchors",
            "continuity_errors",
            "discontinuities",
            "early",
            "errors",
            "jumps",
            "late",
            "lost_packets",
            "lost_pdus",
            "marked",
            "not_ts",
            "overruns",
            "packets",
            "pdus",
            "released",
            "restarts",
            "underruns",
            "untimed",
        ]
    );
    assert_eq!(
        keys(&told.received["display"]),
        [
            "delay_max_ns",
            "delay_min_ns",
            "late",
            "margin_min_ns",
            "missing",
            "missing_packets",
            "named",
            "on_time",
            "packets",
            "strange",
        ]
    );
    // Each end has a class: one that asks for nothing that of any program.
    let [sent, received] =
        [&told.sent, &told.received].map(|told| told["scheduling"].as_str().unwrap());
    assert!(sent.starts_with("class other, nice "), "{sent}");
    assert!(
        sent.ends_with("no CPU time of its own was asked for"),
        "{sent}"
    );
    let classes = ["class fifo 5", "class deadline ", "class other, nice "];
    assert!(
        classes.iter().any(|class| received.starts_with(class)) && received.contains("CPU time"),
        "{received}"
    );
}

#[test]
fn bursts_of_the_contract_are_part_of_the_latency() {
    let daemon = Daemon::start_beside(DAEMON);
    let mut way = way(&daemon, "0.47");
    // (MBS - 1)(1/SCR - 1/PCR) = 399 (100 us - 25 us).
    let vbr = "vbr,aal5:pcr=40000,scr=10000,mbs=400,max_sdu=376";
    way.recv = vec!["--contract", vbr];
    let recv = [
        "stream",
        "recv",
        "--vc",
        "b.0.47",
        "--contract",
        vbr,
        "--timeout",
        "1",
    ];
    let receiver = daemon.begin(&recv, "latency 200ms, and 29925us for bursts");
    assert_eq!(receiver.stdout(), b"");
}

#[test]
fn bad_input_is_told_once_with_what_to_do() {
    let daemon = Daemon::start_beside(DAEMON);
    let send = |words: &[&'static str]| {
        let all = ["stream", "send", "--vc", "a.0.48", "--contract", CONTRACT];
        [&all[..], words].concat()
    };
    let error = daemon.feed_fails(&send(&["-"]), &octets(10_000));
    assert!(error.contains("expected MPEG-TS"), "{error}");
    let told = error.matches("octets that are no transport packets are left out");
    assert_eq!(told.count(), 1, "{error}");
    let error = daemon.feed_fails(&send(&["-"]), &[]);
    assert!(error.contains("no transport packet came"), "{error}");
    let error = daemon.fails(2, &send(&["--pack", "3", "test"]));
    assert!(
        error.contains("PDUs of 564 octets are longer than the contract's 376"),
        "{error}"
    );
    for (words, text) in [
        (["--pack", "0", "test"], "expected 1 to 348 packets"),
        (["--cpu", "11ms", "test"], "expected 10ms at most"),
        (
            ["--time", "9", "test:0"],
            "expected 1 to 1000 frames a second",
        ),
        (
            ["--time", "9", "test:25,8M,0,1"],
            "expected test:FPS,BIT_S,PPM",
        ),
        (["--time", "9", "udp:5004"], "expected ADDRESS:PORT"),
    ] {
        let error = daemon.fails(2, &send(&words));
        assert!(error.contains(text), "{words:?}: {error}");
    }
    let error = daemon.fails(1, &send(&["nothing-here.ts"]));
    assert!(error.contains("nothing-here.ts"), "{error}");
    let aal0 = [
        "stream",
        "send",
        "--vc",
        "a.0.48",
        "--contract",
        "ubr,aal0",
        "test",
    ];
    let error = daemon.fails(2, &aal0);
    assert!(error.contains("name aal5 in it"), "{error}");

    let recv = ["stream", "recv", "--vc", "b.0.48"];
    let error = daemon.fails(2, &[&recv[..], &["--json"]].concat());
    assert!(error.contains("--json needs --to"), "{error}");
    let error = daemon.fails(2, &[&recv[..], &["--latency", "61s"]].concat());
    assert!(error.contains("expected 1ms to 60s"), "{error}");
    let error = daemon.fails(1, &[&recv[..], &["--to", "/nowhere/film.ts"]].concat());
    assert!(error.contains("/nowhere/film.ts"), "{error}");
}

#[test]
fn what_is_no_transport_stream_is_left_out_and_the_rest_is_played() {
    let daemon = Daemon::start_beside(DAEMON);
    let out = daemon.path("out.ts");
    let to = out.to_str().unwrap();
    let recv = [
        "stream",
        "recv",
        "--vc",
        "b.0.49",
        "--contract",
        CONTRACT,
        "--timeout",
        "2",
        "--plain",
        "--json",
        "--to",
        to,
    ];
    let receiver = daemon.begin(&recv, "latency");
    let send = [
        "send",
        "--vc",
        "a.0.49",
        "--contract",
        CONTRACT,
        "--block",
        "376",
    ];
    let film = film(10);
    let mixed = [octets(376 * 3), film.clone(), octets(100)].concat();
    daemon.feed(&send, &mixed);
    let told: Value = serde_json::from_slice(&receiver.stdout()).unwrap();
    // Two packets each of three PDUs, and one PDU that is too short.
    assert_eq!(told["counts"]["not_ts"], 7, "{told}");
    assert_eq!(told["counts"]["lost_pdus"], 0, "{told}");
    assert!(fs::read(out).unwrap() == film);
}

#[test]
fn a_player_that_goes_away_ends_the_receiver_with_a_word() {
    let daemon = Daemon::start_beside(DAEMON);
    let recv = ["stream", "recv", "--vc", "b.0.50", "--contract", CONTRACT];
    let mut receiver = daemon.command(&recv);
    receiver
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut receiver = receiver.spawn().unwrap();
    // The player ends before it has read anything.
    drop(receiver.stdout.take());
    let send = [
        "stream",
        "send",
        "--vc",
        "a.0.50",
        "--contract",
        CONTRACT,
        "--time",
        "60",
        "test:25,3M",
    ];
    let mut sender = daemon.command(&send).stderr(Stdio::null()).spawn().unwrap();
    let ended = receiver.wait_with_output().unwrap();
    let said = stderr(&ended);
    assert_eq!(ended.status.code(), Some(0), "{said}");
    assert!(said.contains("the player has gone"), "{said}");
    // The sender goes on.
    assert!(sender.try_wait().unwrap().is_none());
    sender.kill().unwrap();
    sender.wait().unwrap();
}

#[test]
fn a_source_that_outruns_its_contract_is_told_once_and_sent_whole() {
    let daemon = Daemon::start_beside(DAEMON);
    // Two seconds of 15 Mbit/s take five at 6.
    let send = [
        "stream",
        "send",
        "--vc",
        "a.0.54",
        "--contract",
        CONTRACT,
        "--time",
        "2",
        "--json",
        "test:25,15M",
    ];
    let output = daemon.run(&send);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(
        said.matches("outruns the contract: give more by pcr=")
            .count(),
        1,
        "{said}"
    );
    let told: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(
        told["behind_max_ns"].as_u64() > Some(1_000_000_000),
        "{told}"
    );
    let packets = told["counts"]["packets"].as_u64().unwrap();
    assert!(packets > 2 * 15_000_000 / 8 / 188 * 95 / 100, "{told}");
}

#[test]
fn a_stream_goes_on_while_its_daemon_is_replaced() {
    let mut daemon = Daemon::start_beside(DAEMON);
    let recv = [
        "stream",
        "recv",
        "--vc",
        "b.0.52",
        "--contract",
        CONTRACT,
        "--latency",
        LATENCY,
        "--timeout",
        "3",
        "--json",
        "--to",
        "test",
    ];
    let receiver = daemon.begin(&recv, "latency");
    let send = [
        "stream",
        "send",
        "--vc",
        "a.0.52",
        "--contract",
        CONTRACT,
        "--time",
        "8",
        "test:25,3M",
    ];
    let sender = daemon.begin(&send, "sending on");
    std::thread::sleep(Duration::from_secs(1));
    daemon.kill();
    daemon.succeed();
    let (code, said) = sender.end();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("the server is a new one"), "{said}");
    let told: Value = serde_json::from_slice(&receiver.stdout()).unwrap();
    let (counts, display) = (&told["counts"], &told["display"]);
    assert_eq!(
        (&counts["lost_pdus"], &counts["jumps"]),
        (&0.into(), &0.into()),
        "{counts}"
    );
    assert_eq!(
        (&display["missing"], &display["missing_packets"]),
        (&0.into(), &0.into())
    );
    let shown = [&display["on_time"], &display["late"]].map(|frames| frames.as_u64().unwrap());
    assert_eq!(shown.iter().sum::<u64>(), 200, "{display}");
}

#[test]
fn a_player_that_reads_nothing_costs_its_packets_and_nothing_else() {
    let daemon = Daemon::start_beside(DAEMON);
    let fifo = daemon.path("player");
    let path = fifo.to_str().unwrap();
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
    // It opens the pipe, and reads nothing for as long as the receiver runs.
    let player = std::thread::spawn({
        let fifo = fifo.clone();
        move || fs::File::open(fifo).unwrap()
    });
    let recv = [
        "stream",
        "recv",
        "--vc",
        "b.0.53",
        "--contract",
        "ubr,aal5:max_sdu=376",
        "--latency",
        "20ms",
        "--timeout",
        "1",
        "--json",
        "--to",
        path,
    ];
    let receiver = daemon.begin(&recv, "latency");
    let player = player.join().unwrap();
    // 10 MB wait in chunks of few packets, more than there is room for.
    let send = [
        "stream",
        "send",
        "--vc",
        "a.0.53",
        "--contract",
        "ubr,aal5:max_sdu=376",
        "--time",
        "4",
        "test:1000,9M",
    ];
    daemon.ok(&send);
    let told: Value = serde_json::from_slice(&receiver.stdout()).unwrap();
    drop(player);
    assert_eq!(told["counts"]["lost_pdus"], 0, "{told}");
    assert!(told["player_dropped"].as_u64() > Some(0), "{told}");
    assert_eq!(told["player_gone"], false, "{told}");
}

#[test]
fn what_ffmpeg_makes_arrives_as_it_was() {
    let version = Command::new("ffmpeg").arg("-version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        println!("skipped what_ffmpeg_makes_arrives_as_it_was: there is no ffmpeg");
        return;
    }
    let daemon = Daemon::start_beside(DAEMON);
    let (file, out) = (daemon.path("film.ts"), daemon.path("out.ts"));
    let [from, to] = [&file, &out].map(|path| path.to_str().unwrap());
    let input = "testsrc2=size=320x240:rate=25";
    let made = Command::new("ffmpeg")
        .args([
            "-loglevel",
            "error",
            "-f",
            "lavfi",
            "-i",
            input,
            "-f",
            "lavfi",
            "-i",
            "sine",
        ])
        .args([
            "-t",
            "3",
            "-c:v",
            "mpeg2video",
            "-c:a",
            "mp2",
            "-b:v",
            "1M",
            "-f",
            "mpegts",
            from,
        ])
        .output()
        .unwrap();
    assert!(made.status.success(), "{} {}", stdout(&made), stderr(&made));
    let arrives = || {
        let told = way(&daemon, "0.51").play(from, to);
        assert!(
            fs::read(&file).unwrap() == fs::read(&out).unwrap(),
            "{}",
            told.received
        );
        is_in_time(&told)
    };
    assert!((0..TRIES).any(|_| arrives()), "late in every try");
    println!("ran what_ffmpeg_makes_arrives_as_it_was");
}
