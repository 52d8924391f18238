//! The page in a browser, and the demo that a visitor steers.
//!
//! The browser is Debian's Chromium, driven by what `npm ci` has put into `crates/page/browser`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::daemon::{Daemon, await_line, ends};

const BROWSER: &str = "/usr/bin/chromium";

/// Cells to `a` pass a bottleneck, which ABR has to follow.
const CONNECTIONS: &str = r#"
[[interface]]
name = "a"
link.memory.peer = "b"
line = "rate 20000 queue 4000 efci 100"
[[interface]]
name = "b"
link.memory.peer = "a"
[[connection]]
address = "a.0.40"
contract = "cbr,aal5:pcr=20Mbps,max_sdu=1500,rx:none"
[[connection]]
address = "b.0.40"
contract = "cbr,aal5:pcr=20Mbps,max_sdu=1500,tx:none"
[[connection]]
address = "a.0.41"
contract = "ubr,aal5:max_sdu=1500"
[[connection]]
address = "b.0.41"
contract = "ubr,aal5:max_sdu=1500"
[[connection]]
address = "a.0.42"
contract = "abr,aal5:pcr=100000,min_pcr=1000,icr=5000,rif=1/512,rdf=1/32,max_sdu=1496"
[[connection]]
address = "b.0.42"
contract = "abr,aal5:pcr=100000,min_pcr=1000,icr=5000,rif=1/512,rdf=1/32,max_sdu=1496"
"#;

/// A port that nobody listens at.
fn port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

/// A process that ends with its test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The page of a daemon, once it listens.
fn page(daemon: &Daemon, address: SocketAddr) -> Process {
    let mut child = daemon
        .command(&["page", "--listen", &address.to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    await_line(child.stderr.take().expect("it is piped"), "page at");
    Process(child)
}

/// What is asked by one request, and answered.
fn ask(address: SocketAddr, head: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let len = body.len();
    let request =
        format!("{head} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {len}\r\n\r\n{body}");
    stream
        .write_all(request.replace('\u{1}', "\r\n").as_bytes())
        .expect("it hears");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    (status.expect("a status"), body.to_owned())
}

fn state(address: SocketAddr) -> Value {
    let (status, body) = ask(address, "GET /api/state", "");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

/// The scripts that drive a browser, where there is one.
fn browser(name: &str) -> Option<PathBuf> {
    let scripts = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../page/browser"));
    for needed in [
        Path::new(BROWSER),
        &scripts.join("node_modules/playwright-core"),
    ] {
        if !needed.exists() {
            let needed = needed.display();
            println!("skipped {name}: {needed} is not there (docs/page.md says how)");
            return None;
        }
    }
    Some(scripts.to_owned())
}

#[test]
fn a_browser_sees_what_the_daemon_tells() {
    let Some(scripts) = browser("page_numbers") else {
        return;
    };
    let mut daemon = Daemon::start(CONNECTIONS);
    let address = port();
    let mut page_of_it = Some(page(&daemon, address));
    let shots = std::env::var_os("CELLGATE_SCREENSHOTS")
        .map_or_else(|| daemon.path("shots"), PathBuf::from);
    std::fs::create_dir_all(&shots).expect("a directory");
    let script = Command::new("node")
        .arg(scripts.join("look.mjs"))
        .env("CELLGATE", env!("CARGO_BIN_EXE_cellgate"))
        .env("CELLGATE_SOCKET", daemon.socket())
        .env("PAGE", format!("http://{address}/"))
        .env("CHROMIUM", BROWSER)
        .env("SHOTS", shots)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node starts");
    let mut script = Process(script);
    let mut answer: ChildStdin = script.0.stdin.take().expect("it is piped");
    let asked = BufReader::new(script.0.stdout.take().expect("it is piped"));
    for line in asked.lines() {
        let line = line.expect("a line");
        match line.as_str() {
            "> daemon dies" => daemon.kill(),
            "> daemon is followed" => daemon.succeed(),
            "> page dies" => drop(page_of_it.take()),
            "> page is followed" => page_of_it = Some(page(&daemon, address)),
            other => {
                println!("{other}");
                continue;
            }
        }
        writeln!(answer).expect("it hears");
    }
    let status = script.0.wait().expect("it ends");
    assert!(status.success(), "{status}");
}

#[test]
fn what_is_no_page_is_refused_and_costs_nobody_else() {
    let daemon = Daemon::start(CONNECTIONS);
    let address = port();
    let _page = page(&daemon, address);
    let long = "x".repeat(9_000);
    for (head, status) in [
        ("GET /", 200),
        ("HEAD /", 200),
        ("GET /healthz", 200),
        ("GET /metrics", 200),
        ("GET /api/state", 200),
        (
            "GET /api/try?address=a&contract=cbr%2Caal5%3Apcr%3D1Mbps%2Cmax_sdu%3D1500",
            200,
        ),
        ("GET /api/try", 400),
        ("GET /etc/passwd", 404),
        ("GET /../../etc/passwd", 404),
        ("POST /", 405),
        ("DELETE /api/state", 405),
        ("POST /steer", 400),
        (&format!("GET /{long}"), 431),
        (&format!("GET / HTTP/1.1\u{1}X-Long: {long}\u{1}X:"), 431),
    ] {
        assert_eq!(
            ask(address, head, "").0,
            status,
            "{}",
            &head[..head.len().min(60)]
        );
    }
    assert_eq!(ask(address, "POST /steer", r#"{"flood":1}"#).0, 403);
    let (_, tried) = ask(
        address,
        "GET /api/try?address=a&contract=cbr%2Caal5%3Apcr%3D900Mbps",
        "",
    );
    let tried: Value = serde_json::from_str(&tried).expect("JSON");
    assert!(
        tried["refused"]["admission"]["offer"].is_string(),
        "{tried}"
    );
    // As many viewers as may, and one more; connections that say nothing.
    let mut viewers: Vec<TcpStream> = (0..32)
        .map(|_| {
            let mut viewer = TcpStream::connect(address).expect("it listens");
            write!(viewer, "GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("it hears");
            let mut first = [0; 12];
            viewer.read_exact(&mut first).expect("it answers");
            assert_eq!(&first, b"HTTP/1.1 200");
            viewer
        })
        .collect();
    assert_eq!(ask(address, "GET /events", "").0, 503);
    let _silent: Vec<TcpStream> = (0..31)
        .map(|_| TcpStream::connect(address).expect("it listens"))
        .collect();
    assert_eq!(ask(address, "GET /healthz", "").0, 200);
    viewers.pop();
    std::thread::sleep(Duration::from_millis(600));
    let mut viewer = TcpStream::connect(address).expect("it listens");
    write!(viewer, "GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("it hears");
    let mut first = [0; 12];
    viewer.read_exact(&mut first).expect("it answers");
    assert_eq!(&first, b"HTTP/1.1 200", "a place is free again");
    // Somebody else's name for this address.
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n").expect("it hears");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
}

#[test]
fn promtool_finds_nothing_wrong_with_metrics_and_rules() {
    const NAME: &str = "promtool";
    let rules = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/grafana"));
    let promtool = |words: &[&str], input: &str| {
        let child = Command::new("promtool")
            .args(words)
            .current_dir(rules)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.ok()?;
        let mut stdin = child.stdin.take().expect("it is piped");
        stdin.write_all(input.as_bytes()).expect("it hears");
        drop(stdin);
        Some(child.wait_with_output().expect("it ends"))
    };
    for words in [
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts.test.yml"],
    ] {
        let Some(output) = promtool(&words, "") else {
            return println!("skipped {NAME}: promtool is not there");
        };
        assert!(output.status.success(), "{output:?}");
    }
    let daemon = Daemon::start(CONNECTIONS);
    let address = port();
    let _page = page(&daemon, address);
    let (_, metrics) = ask(address, "GET /metrics", "");
    let output = promtool(&["check", "metrics"], &metrics).expect("it is there");
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    let accept = "application/openmetrics-text;version=1.0.0";
    let head = &format!("GET /metrics HTTP/1.1\u{1}Accept: {accept}\u{1}X:");
    let (_, metrics) = ask(address, head, "");
    assert!(metrics.ends_with("\n# EOF\n"), "{metrics}");
    println!("ran {NAME}");
}

/// PDUs that C1 and C2 have delivered, and lost; when.
fn streams(address: SocketAddr) -> (u64, [u64; 2], u64) {
    let state = state(address);
    let stats = [0, 1].map(|i| state["connections"][i]["stats"].clone());
    let delivered = stats
        .each_ref()
        .map(|stats| stats["pdus_delivered"].as_u64().expect("a count"));
    let lost = stats.iter().flat_map(|stats| {
        let lost = stats["pdus_discarded"].as_object().expect("counts");
        lost.values().filter_map(Value::as_u64).collect::<Vec<_>>()
    });
    (
        state["time_ns"].as_u64().expect("a time"),
        delivered,
        lost.sum(),
    )
}

/// PDUs/s of the streams by contract: 20 Mbit/s of SDUs of 8,192 octets.
const PDU_S: f64 = 20e6 / (8.0 * 8_192.0);

#[test]
fn the_slider_changes_nothing_of_the_two_streams() {
    const NAME: &str = "page_demo";
    let _alone = crate::daemon::alone();
    let mut why = String::new();
    for _ in 0..3 {
        match steered() {
            Ok(()) => return println!("ran {NAME}"),
            // A machine that is busy with something else keeps senders and readers from running.
            Err(void) => why = void,
        }
    }
    println!("skipped {NAME}: void {NAME}: {why}");
}

/// A demo, and what it prints.
fn demo(arguments: &[&str]) -> (Process, BufReader<ChildStdout>) {
    let demo = Command::new(env!("CARGO_BIN_EXE_cellgate"))
        .arg("demo")
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut demo = Process(demo);
    let printed = demo.0.stdout.take().expect("it is piped");
    (demo, BufReader::new(printed))
}

/// The next line that begins so.
fn line_of(printed: &mut impl BufRead, begin: &str) -> String {
    let mut line = String::new();
    while !line.starts_with(begin) {
        line.clear();
        let read = printed.read_line(&mut line).expect("a line");
        assert!(read > 0, "it has ended before `{begin}`");
    }
    line
}

#[test]
fn a_browser_sees_the_file_and_the_video_of_the_demo() {
    const NAME: &str = "page_terminal";
    let Some(scripts) = browser(NAME) else {
        return;
    };
    let _alone = crate::daemon::alone();
    let (mut demo, mut printed) = demo(&["--terminal", "--page", "127.0.0.1:0"]);
    let line = line_of(&mut printed, "open ");
    let url = line.trim().trim_start_matches("open ");
    let url = url.split(';').next().expect("an address");
    let shots = std::env::var_os("CELLGATE_SCREENSHOTS");
    let shots = shots.map_or_else(std::env::temp_dir, PathBuf::from);
    let status = Command::new("node")
        .arg(scripts.join("both.mjs"))
        .envs([("PAGE", url), ("CHROMIUM", BROWSER)])
        .env("SHOTS", shots)
        .status();
    assert!(status.expect("node starts").success());
    // It begins again, until somebody ends it, and says how it was.
    line_of(&mut printed, "the line");
    let said = line_of(&mut printed, "  with a wrong header");
    assert!(said.contains(char::is_numeric), "{said}");
    kill_process(Pid::from_child(&demo.0), Signal::INT).expect("it runs");
    let mut verdict = String::new();
    printed.read_to_string(&mut verdict).expect("what it says");
    let status = ends(&mut demo.0).expect("it ends");
    let Some((_, why)) = verdict.split_once("VOID: ") else {
        assert!(verdict.contains("PASS: the file arrived"), "{verdict}");
        assert!(status.success(), "{status}");
        return println!("ran {NAME}");
    };
    println!("void {NAME}: {}", why.replace('\n', " "));
}

/// A demo that is steered: what must not be, and is no fault of the adapter.
fn steered() -> Result<(), String> {
    let (mut demo, mut printed) = demo(&["--page", "127.0.0.1:0"]);
    let line = line_of(&mut printed, "open ");
    let url = line
        .trim()
        .strip_prefix("open http://")
        .expect("an address");
    let (address, token) = url.split_once("/#token=").expect("a token");
    let address: SocketAddr = address.parse().expect("an address");
    let steer = |what: Value| {
        let head = format!("POST /steer HTTP/1.1\u{1}X-Token: {token}\u{1}X:");
        ask(address, &head, &what.to_string())
    };
    assert_eq!(ask(address, "POST /steer", r#"{"flood":50}"#).0, 403);
    assert_eq!(steer(json!({ "flood": 101 })).0, 403);
    for what in [
        json!({ "flood": 0 }),
        json!({ "flood": 50 }),
        json!({ "flood": 100 }),
        json!({ "scan": true }),
        json!({ "stop": true }),
    ] {
        assert_eq!(steer(what.clone()).0, 200, "{what}");
        std::thread::sleep(Duration::from_millis(500));
        let before = streams(address);
        std::thread::sleep(Duration::from_millis(1_500));
        let after = streams(address);
        let seconds = (after.0 - before.0) as f64 / 1e9;
        for (before, after) in before.1.into_iter().zip(after.1) {
            let rate = (after - before) as f64 / seconds;
            if (rate / PDU_S - 1.0).abs() > 0.05 {
                return Err(format!("{what}: {rate:.1} of {PDU_S:.1} PDUs/s"));
            }
        }
        if after.2 > 0 {
            return Err(format!("{what}: {} PDUs discarded", after.2));
        }
    }
    let state = state(address);
    assert_eq!(state["demo"]["scan"], true);
    assert_eq!(state["demo"]["flood"], "as fast as it can");
    let of_third = &state["connections"][2]["stats"]["pdus_discarded"];
    assert!(of_third["non_conforming"].as_u64() > Some(0), "{of_third}");
    assert!(of_third["buffer_full"].as_u64() > Some(0), "{of_third}");
    assert!(state["interfaces"][3]["counts"]["cells"]["unknown_vc"].as_u64() > Some(0));
    kill_process(Pid::from_child(&demo.0), Signal::INT).expect("it runs");
    let mut verdict = String::new();
    printed.read_to_string(&mut verdict).expect("what it says");
    let status = ends(&mut demo.0).expect("it ends");
    assert!(
        verdict.contains("PASS: two guaranteed connections"),
        "{verdict}"
    );
    assert!(status.success(), "{status}");
    Ok(())
}
