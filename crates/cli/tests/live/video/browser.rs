//! A film of H.264 and AAC over cells, in a browser, beside a viewer that never reads.
//!
//! The browser is Debian's Chromium, driven by what `npm ci` has put into `crates/page/browser`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::{CONTRACT, INTERFACES, ffmpeg};
use crate::daemon::Daemon;
use crate::gaps::{TRIES, Watch};

const NAME: &str = "video_http";
const BROWSER: &str = "/usr/bin/chromium";
/// More than the browser watches.
const SECONDS: u64 = 90;
/// One in ten seconds.
const GROUP: u64 = 250;

/// A film of so many seconds at 4 Mbit/s, in which a picture of so many needs no other; none: this
/// machine cannot make one.
pub(super) fn film(path: &Path, seconds: u64, group: u64) -> bool {
    let [seconds, group] = [seconds, group].map(|number| number.to_string());
    let path = path.to_str().expect("text");
    let input = "testsrc2=size=640x360:rate=25";
    let mut words = vec!["-f", "lavfi", "-i", input];
    words.extend(["-f", "lavfi", "-i", "sine=frequency=440", "-t", &seconds]);
    words.extend(["-c:v", "libx264", "-preset", "ultrafast"]);
    words.extend(["-pix_fmt", "yuv420p", "-g", &group, "-b:v", "3500k"]);
    words.extend(["-minrate", "3500k", "-maxrate", "3500k", "-bufsize", "1M"]);
    words.extend(["-nal-hrd", "cbr", "-c:a", "aac", "-muxrate", "4M"]);
    words.extend(["-f", "mpegts", path]);
    ffmpeg(&words).is_some_and(|made| made.status.success())
}

/// A process that ends with its test.
pub(super) struct Process(pub(super) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn send(daemon: &Daemon, film: &Path) -> Process {
    let film = film.to_str().expect("text");
    let words = ["stream", "send", "--vc", "a.0.60", "--contract", CONTRACT];
    let mut command = daemon.command(&words);
    command.arg(film).stderr(Stdio::null());
    Process(command.spawn().expect("it starts"))
}

/// A port that nobody listens at.
fn port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

/// Watches once: whether the browser was content, and what the receiver says.
fn watch(daemon: &Daemon, film: &Path) -> (Result<bool, String>, Value) {
    let address = port();
    let to = format!("http:{address}");
    let words = ["stream", "recv", "--vc", "b.0.60", "--contract", CONTRACT];
    let words = [&words[..], &["--json", "--to", &to]].concat();
    let receiver = daemon.begin(&words, "latency");
    let mut sender = send(daemon, film);
    let shots = std::env::var_os("CELLGATE_SCREENSHOTS")
        .map_or_else(|| daemon.path("shots"), PathBuf::from);
    std::fs::create_dir_all(&shots).expect("a directory");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../page/browser/watch.mjs");
    let script = Command::new("node")
        .arg(script)
        .env("PAGE", format!("http://{address}/"))
        .env("CHROMIUM", BROWSER)
        .env("SHOTS", shots)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("node starts");
    let mut script = Process(script);
    let mut answer = script.0.stdin.take().expect("it is piped");
    let asked = BufReader::new(script.0.stdout.take().expect("it is piped"));
    let mut ran = false;
    for line in asked.lines() {
        let line = line.expect("a line");
        match line.as_str() {
            "> film begins anew" => {
                drop(sender);
                sender = send(daemon, film);
                writeln!(answer).expect("it hears");
            }
            other if other == format!("ran {NAME}") => ran = true,
            other => println!("{other}"),
        }
    }
    let mut why = String::new();
    let mut stderr = script.0.stderr.take().expect("it is piped");
    stderr.read_to_string(&mut why).expect("text");
    let status = script.0.wait().expect("it ends");
    drop(sender);
    let told = receiver.interrupt();
    let told = serde_json::from_slice(&told).expect("JSON");
    match status.success() {
        true => (Ok(ran), told),
        false => (Err(why), told),
    }
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn a_browser_shows_what_arrives_and_no_viewer_hurts_another() {
    let driver = Path::new(env!("CARGO_MANIFEST_DIR"));
    let driver = driver.join("../page/browser/node_modules/playwright-core");
    for needed in [Path::new(BROWSER), &driver] {
        if !needed.exists() {
            let needed = needed.display();
            return println!("skipped {NAME}: {needed} is not there (docs/page.md says how)");
        }
    }
    let daemon = Daemon::start_told(INTERFACES);
    let film_path = daemon.path("film.ts");
    if !film(&film_path, SECONDS, GROUP) {
        return println!("skipped {NAME}: there is no ffmpeg that makes H.264 and AAC");
    }
    let mut reason = String::new();
    for _ in 0..TRIES {
        let gaps = Watch::begin(&daemon);
        let (verdict, told) = watch(&daemon, &film_path);
        let stalls = gaps.end();
        let late = &told["released_late_max_ns"];
        match (verdict, stalls.excuse()) {
            (Ok(ran), _) => {
                assert_eq!(told["counts"]["lost_packets"], 0, "{told}");
                assert!(told["page"]["viewers"].is_u64(), "{told}");
                if ran {
                    println!("ran {NAME}");
                }
                return;
            }
            (Err(why), Some(excuse)) => reason = format!("{excuse}: {why}"),
            // The receiver has asked for CPU time and had none: what a browser shows is late, too.
            (Err(why), None) if late.as_u64().is_some_and(|late| late > 200_000_000) => {
                reason = format!("the receiver was {late} ns late: {why}");
            }
            // By the kernel's accounts.
            (Err(why), None) if why.starts_with("disturbed: ") => reason = why,
            (Err(why), None) => panic!("{why}\n{told}"),
        }
    }
    println!("void {NAME}: {}", reason.replace('\n', " "));
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn as_many_watch_as_may_and_nobody_by_another_name() {
    let daemon = Daemon::start(INTERFACES);
    let address = port();
    let to = format!("http:{address}");
    let words = ["stream", "recv", "--vc", "b.0.60", "--contract", CONTRACT];
    let words = [&words[..], &["--json", "--to", &to]].concat();
    let receiver = daemon.begin(&words, "latency");
    let ask = |head: &str, host: &str| {
        let mut stream = TcpStream::connect(address).expect("it listens");
        write!(stream, "{head} HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("it hears");
        let mut status = [0; 12];
        stream.read_exact(&mut status).expect("it answers");
        let status = String::from_utf8_lossy(&status[9..]).into_owned();
        (status, stream)
    };
    let own = address.to_string();
    for (head, host, status) in [
        ("GET /", own.as_str(), "200"),
        ("HEAD /stream.ts", &own, "200"),
        ("HEAD /events", &own, "200"),
        ("GET /licence", &own, "200"),
        ("GET /mpegts.js", "localhost", "200"),
        ("GET /mpegts.js.map", &own, "404"),
        ("POST /", &own, "405"),
        ("GET /", "evil.example", "421"),
        ("GET /stream.ts", "evil.example", "421"),
    ] {
        assert_eq!(ask(head, host).0, status, "{head} {host}");
    }
    let mut viewers: Vec<_> = (0..8).map(|_| ask("GET /stream.ts", &own)).collect();
    assert!(viewers.iter().all(|(status, _)| status == "200"));
    assert_eq!(ask("GET /stream.ts", &own).0, "503");
    // A place is free again as soon as the page has noticed.
    viewers.pop();
    let is_free = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        ask("GET /stream.ts", &own).0 == "200"
    });
    assert!(is_free, "nobody watches any more, and there is no place");
    let told: Value = serde_json::from_slice(&receiver.interrupt()).expect("JSON");
    assert_eq!(told["page"]["viewers_behind"], 0, "{told}");
    let public = ["stream", "recv", "--vc", "b.0.60", "--contract", CONTRACT];
    let why = daemon.fails(2, &[&public[..], &["--to", "http:0.0.0.0:0"]].concat());
    assert!(why.contains("--public"), "{why}");
    let why = daemon.fails(2, &[&public[..], &["--to", "test", "--public"]].concat());
    assert!(why.contains("--to http:"), "{why}");
}
