//! Files over TCP, and over QUIC where the command has it: a tree arrives as it is, a transfer that
//! was cut or whose process was killed goes on where it was.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Octets of the longest file.
const LONG: usize = 12 << 20;

/// A directory that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("cellgate-over-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a directory");
        Self(path)
    }

    fn join(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn octets(seed: u32, len: usize) -> Vec<u8> {
    let mut state = u64::from(seed) << 1 | 1;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(7);
        (state >> 33) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// A tree with all that there can be in one.
fn tree(at: &Path) {
    fs::create_dir_all(at.join("in/deep")).unwrap();
    for n in 0..120 {
        let len = [0, 1, 700, 5_000, 65_536, 65_537][n as usize % 6];
        fs::write(at.join(format!("in/{n}")), octets(n, len)).unwrap();
    }
    fs::write(at.join("in/deep/long"), octets(7, LONG)).unwrap();
    fs::write(at.join("in/deep/other"), octets(8, 3_000_001)).unwrap();
    fs::set_permissions(at.join("in/7"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink("deep/long", at.join("in/link")).unwrap();
    symlink("nowhere", at.join("in/deep/nowhere")).unwrap();
    let holes = fs::File::create(at.join("holes")).unwrap();
    holes.set_len(200 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&holes, &octets(9, 100_000), 77 << 20).unwrap();
}

/// What is at a path, and below it: names, kinds, times and octets.
fn all(at: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![at.to_owned()];
    while let Some(path) = open.pop() {
        let is = fs::symlink_metadata(&path).unwrap();
        let name = path.strip_prefix(at).unwrap().display().to_string();
        let what = if is.is_dir() {
            open.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            "directory".to_owned()
        } else if is.is_symlink() {
            fs::read_link(&path).unwrap().display().to_string()
        } else {
            // Of a hole the kernel makes zeros.
            let digest = fs::read(&path).unwrap().iter().fold(0_u64, |sum, octet| {
                sum.wrapping_mul(31).wrapping_add((*octet).into())
            });
            format!("{} {digest}", is.len())
        };
        let time = if is.is_symlink() { 0 } else { is.mtime_nsec() };
        found.push(format!("{name} {what} {:o} {time}", is.mode()));
    }
    found.sort();
    found
}

fn cellgate() -> Command {
    Command::new(env!("CARGO_BIN_EXE_cellgate"))
}

/// `serve-files`, until it is dropped.
struct Server {
    child: Child,
    /// What follows `--over`, and where it listens.
    over: Vec<String>,
    port: u16,
}

impl Server {
    fn start(kind: &str, directory: &Path) -> Self {
        Self::start_by(kind, &[], directory)
    }

    /// One that has these options, and whoever asks it, too.
    fn start_by(kind: &str, options: &[&str], directory: &Path) -> Self {
        let mut child = cellgate()
            .args([
                "serve-files",
                "--writable",
                &format!("--{kind}"),
                "127.0.0.1:0",
            ])
            .args(options)
            .arg(directory)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.next().expect("it says where it listens").unwrap();
        let words: Vec<_> = line.split_whitespace().collect();
        let behind = |word: &str| {
            let at = words.iter().position(|found| *found == word)?;
            words.get(at + 1).map(|found| (*found).to_owned())
        };
        let address = behind("on").unwrap_or_else(|| panic!("{line}"));
        let mut over = vec![format!("{kind}:{address}")];
        if let Some(fingerprint) = behind("fingerprint") {
            over.extend(["--fingerprint".to_owned(), fingerprint]);
        }
        over.extend(options.iter().map(|option| (*option).to_owned()));
        let port = address.rsplit(':').next().unwrap().parse().unwrap();
        // It would wait for who reads what it says.
        thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self { child, over, port }
    }

    fn ask(&self, verb: &str) -> Command {
        let mut command = cellgate();
        command.arg(verb).arg("--over").args(&self.over);
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn done(command: &mut Command) -> Output {
    let output = command.output().expect("the command starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    output
}

fn there_and_back(kind: &str) {
    let scratch = Scratch::new(&format!("{kind}-tree"));
    for name in ["given", "served", "got"] {
        fs::create_dir(scratch.join(name)).unwrap();
    }
    tree(&scratch.join("given"));
    let server = Server::start(kind, &scratch.join("served"));
    done(
        server
            .ask("put")
            .arg("-r")
            .args([scratch.join("given/in"), scratch.join("given/holes")])
            .arg("."),
    );
    let given = all(&scratch.join("given"));
    let is_entry = |line: &&String| !line.starts_with(' ') && !line.starts_with(".");
    let entries = |at: &str| -> Vec<String> {
        all(&scratch.join(at))
            .iter()
            .filter(is_entry)
            .cloned()
            .collect()
    };
    let given: Vec<_> = given.iter().filter(is_entry).cloned().collect();
    assert_eq!(entries("served"), given);
    let blocks = |at: &str| scratch.join(at).join("holes").metadata().unwrap().blocks();
    assert!(blocks("served") < 2 * blocks("given") + 4_096);
    let listed = done(server.ask("ls").arg("in/deep")).stdout;
    let listed = String::from_utf8(listed).unwrap();
    assert_eq!(listed.lines().count(), 3, "{listed}");
    // Several clients at a time.
    let gets = ["in", "holes"].map(|what| {
        server
            .ask("get")
            .arg(what)
            .arg(scratch.join("got"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    });
    for mut get in gets {
        assert!(get.wait().unwrap().success());
    }
    assert_eq!(entries("got"), given);
    // What is there already is not sent again.
    let again = done(
        server
            .ask("get")
            .args(["-J", "in"])
            .arg(scratch.join("got")),
    )
    .stdout;
    let again = String::from_utf8(again).unwrap();
    assert!(again.contains("\"files\":0"), "{again}");
}

fn killed(kind: &str, options: &[&str]) {
    let scratch = Scratch::new(&format!("{kind}-killed"));
    for name in ["given", "served"] {
        fs::create_dir(scratch.join(name)).unwrap();
    }
    tree(&scratch.join("given"));
    let server = Server::start_by(kind, options, &scratch.join("served"));
    let put = || {
        let mut put = server.ask("put");
        put.args(["-J", "-r"])
            .arg(scratch.join("given/in"))
            .arg(".");
        put
    };
    let mut first = put().stdout(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(first.stdout.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    first.kill().unwrap();
    first.wait().unwrap();
    let output = String::from_utf8(done(&mut put()).stdout).unwrap();
    let summary = output.lines().last().unwrap();
    assert!(summary.contains("\"failed\":0"), "{summary}");
    assert!(!summary.contains("\"there_already\":0"), "{summary}");
    let (given, served) = (scratch.join("given/in"), scratch.join("served/in"));
    assert_eq!(all(&served), all(&given));
}

#[test]
fn a_tree_goes_there_and_back_over_tcp() {
    there_and_back("tcp");
}

#[test]
fn who_was_killed_goes_on_over_tcp() {
    killed("tcp", &[]);
}

/// Forwards connections to a port, and cuts the first when so many octets have come.
fn relay(port: u16, cut: u64) -> (u16, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let from = listener.local_addr().unwrap().port();
    let octets = Arc::new(AtomicU64::new(0));
    let counted = octets.clone();
    thread::spawn(move || {
        for (n, client) in listener.incoming().enumerate() {
            let client = client.unwrap();
            let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || forward(back.0, back.1, |_| true));
            forward(client, server, |some| {
                let before = counted.fetch_add(some, Ordering::Relaxed);
                n > 0 || before + some < cut
            });
        }
    });
    (from, octets)
}

fn forward(mut from: TcpStream, mut to: TcpStream, mut goes_on: impl FnMut(u64) -> bool) {
    let mut octets = vec![0; 65_536];
    while let Ok(len @ 1..) = from.read(&mut octets) {
        if !goes_on(len as u64) {
            let _ = from.shutdown(Shutdown::Both);
            break;
        }
        if to.write_all(&octets[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[test]
fn a_connection_of_tcp_that_is_cut_costs_no_more_than_what_was_under_way() {
    let scratch = Scratch::new("tcp-cut");
    fs::create_dir(scratch.join("served")).unwrap();
    fs::write(scratch.join("long"), octets(3, 3 * LONG)).unwrap();
    let server = Server::start("tcp", &scratch.join("served"));
    let (port, octets) = relay(server.port, 2 * LONG as u64);
    let over = format!("tcp:127.0.0.1:{port}");
    done(
        cellgate()
            .args(["put", "--over", &over])
            .arg(scratch.join("long"))
            .arg("."),
    );
    let (given, served) = (scratch.join("long"), scratch.join("served/long"));
    assert!(fs::read(given).unwrap() == fs::read(served).unwrap());
    let octets = octets.load(Ordering::Relaxed);
    // Whole disk-PDUs go again, and what the kernel had taken and not passed on.
    assert!(octets > 3 * LONG as u64);
    assert!(octets < 3 * LONG as u64 + (LONG as u64) / 2, "{octets}");
}

#[test]
fn whoever_is_no_terminal_or_one_too_many_is_sent_away() {
    let scratch = Scratch::new("tcp-strangers");
    fs::create_dir(scratch.join("served")).unwrap();
    let server = Server::start("tcp", &scratch.join("served"));
    let mut stranger = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    // It ends, whatever it says before.
    let _ = stranger.read_to_end(&mut Vec::new());
    let idle: Vec<_> = (0..16)
        .map(|_| {
            let mut idle = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
            idle.read_exact(&mut [0; 8]).unwrap();
            idle
        })
        .collect();
    let output = server
        .ask("ls")
        .args(["--retry", "0.001"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    drop(idle);
    done(server.ask("ls").args(["--retry", "10"]));
}

#[cfg(feature = "quic")]
mod quic {
    use super::*;

    #[test]
    fn a_tree_goes_there_and_back_over_quic() {
        there_and_back("quic");
    }

    #[test]
    fn who_was_killed_goes_on_over_quic() {
        killed("quic", &["--congestion", "bbr"]);
    }

    #[test]
    fn nobody_is_trusted_over_quic_without_a_fingerprint_or_with_another() {
        let scratch = Scratch::new("quic-trust");
        fs::create_dir(scratch.join("served")).unwrap();
        let server = Server::start("quic", &scratch.join("served"));
        let over = &server.over[0];
        let fails = |fingerprint: &[&str]| {
            let mut ls = cellgate();
            ls.args(["ls", "--retry", "0.001", "--over", over])
                .args(fingerprint);
            let output = ls.output().unwrap();
            assert!(!output.status.success());
            String::from_utf8(output.stderr).unwrap()
        };
        let said = fails(&[]);
        assert!(said.contains("--fingerprint"), "{said}");
        let said = fails(&["--fingerprint", &"0".repeat(64)]);
        assert!(said.contains("fingerprint"), "{said}");
        fails(&["--fingerprint", "0"]);
        done(&mut server.ask("ls"));
    }
}
