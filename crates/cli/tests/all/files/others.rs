//! Sources that change, disks that are full, pipes, and others on the same server.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cellgate::Connection;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::Value;

use super::ends::{End, Place, sent};
use super::tree::PARTIAL;
use super::{CONTRACT, daemon};
use crate::daemon::{Daemon, octets};

/// An address of each test: `a` puts, `b` serves.
fn ends(vci: u16) -> [String; 2] {
    ["a", "b"].map(|interface| format!("{interface}.0.{vci}"))
}

fn serve(daemon: &Daemon, to: &Path, vc: &str) -> End {
    End::serve(
        daemon,
        to,
        &["--vc", vc, "--writable", "--contract", CONTRACT],
    )
}

fn put(daemon: &Daemon, vc: &str, words: &[&str]) -> End {
    let at = ["put", "--vc", vc, "--contract", CONTRACT];
    End::begin(daemon, &[&at[..], words].concat())
}

/// What is said of a file that failed.
fn error(lines: &[Value], path: &str) -> String {
    let found = lines
        .iter()
        .find(|line| line["path"] == path && line["error"].is_string());
    let found = found.unwrap_or_else(|| panic!("{path} did not fail: {lines:?}"));
    found["error"].as_str().expect("text").to_owned()
}

#[test]
fn a_source_that_changes_is_sent_anew_three_times_at_most() {
    let (daemon, place) = (daemon(), Place::new("changes"));
    let [a, b] = ends(110);
    let to = place.directory("to");
    let _server = serve(&daemon, &to, &b);
    let path = place.at("grows");
    fs::write(&path, octets(1_500_000)).unwrap();
    let append = || {
        let file = OpenOptions::new().append(true).open(&path);
        file.and_then(|mut file| file.write_all(b"more")).unwrap();
    };
    let sender = put(&daemon, &a, &[&place.text("grows")]);
    sender.sent(700_000);
    append();
    let (code, lines, told) = sender.end();
    assert_eq!(code, 0, "{told}");
    assert!(fs::read(to.join("grows")).unwrap() == fs::read(&path).unwrap());
    assert!(
        (2_900_000..3_300_000).contains(&sent(&lines).0),
        "{lines:?}"
    );

    // Rewritten in place, of the same length.
    let sender = put(&daemon, &a, &[&place.text("grows"), "--overwrite"]);
    append();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let sender = {
        sender.end();
        fs::remove_file(to.join("grows")).unwrap();
        put(&daemon, &a, &[&place.text("grows")])
    };
    sender.sent(700_000);
    file.write_all_at(b"other", 100).unwrap();
    let (code, _, told) = sender.end();
    assert_eq!(code, 0, "{told}");
    assert!(fs::read(to.join("grows")).unwrap() == fs::read(&path).unwrap());

    fs::remove_file(to.join("grows")).unwrap();
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                append();
                thread::sleep(Duration::from_millis(20));
            }
        });
        let (code, lines, told) = put(&daemon, &a, &[&place.text("grows")]).end();
        ends.store(true, Ordering::Relaxed);
        assert_eq!(code, 1, "{told}");
        let error = error(&lines, "grows");
        assert!(error.contains("changed 3 times"), "{error}");
        assert!(sent(&lines).0 < 5_000_000);
    });
    assert!(fs::read_dir(&to).unwrap().next().is_none());
}

#[test]
fn files_of_one_length_are_compared_by_their_digests() {
    let (daemon, place) = (daemon(), Place::new("digests"));
    let [a, b] = ends(111);
    let to = place.directory("to");
    let _server = serve(&daemon, &to, &b);
    let from = place.directory("from");
    for (name, len) in [("long", 700_000), ("short", 700)] {
        for kind in ["same", "other"] {
            let mut octets = octets(len);
            fs::write(from.join(format!("{kind}-{name}")), &octets).unwrap();
            octets[len - 1] ^= u8::from(kind == "other");
            fs::create_dir_all(to.join("from")).unwrap();
            fs::write(to.join("from").join(format!("{kind}-{name}")), &octets).unwrap();
        }
    }
    let words = ["-r", &place.text("from"), "--checksum"];
    // Without --overwrite others are refused.
    let (code, lines, _) = put(&daemon, &a, &words).end();
    assert_eq!(code, 1);
    for name in ["long", "short"] {
        let error = error(&lines, &format!("from/other-{name}"));
        assert!(error.contains("is there already"), "{error}");
    }
    assert_eq!(lines.last().unwrap()["there_already"], 2);
    let (code, lines, told) = put(&daemon, &a, &[&words[..], &["--overwrite"]].concat()).end();
    assert_eq!(code, 0, "{told}");
    assert_eq!(lines.last().unwrap()["files"], 2);
    assert!(sent(&lines).0 < 1_000_000);
    for name in fs::read_dir(&from).unwrap() {
        let name = name.unwrap().file_name();
        let both = [&from, &to.join("from")].map(|root| fs::read(root.join(&name)).unwrap());
        assert!(both[0] == both[1], "{name:?}");
    }
    // The same from the other side.
    let get = [
        "get",
        "--vc",
        &a,
        "--contract",
        CONTRACT,
        "--checksum",
        "from",
    ];
    let (code, lines, told) = End::begin(&daemon, &[&get[..], &[&place.text(".")]].concat()).end();
    assert_eq!(code, 0, "{told}");
    assert_eq!(lines.last().unwrap()["there_already"], 4);
}

#[test]
fn a_pipe_is_put_whole_and_not_gone_on_with() {
    let (daemon, place) = (daemon(), Place::new("pipes"));
    let [a, b] = ends(112);
    let to = place.directory("to");
    let server = serve(&daemon, &to, &b);
    for len in [0, 1, 1 << 16, 1 << 20, (2 << 20) + 77] {
        let name = format!("of-{len}");
        let mut sender = put(&daemon, &a, &["-", &name]);
        let mut stdin = sender.stdin();
        let octets = octets(len);
        // What comes late comes, too.
        let (first, rest) = octets.split_at(len / 3);
        stdin.write_all(first).unwrap();
        thread::sleep(Duration::from_millis(150));
        stdin.write_all(rest).unwrap();
        drop(stdin);
        let (code, lines, told) = sender.end();
        assert_eq!(code, 0, "{len}: {told}");
        assert_eq!(lines.last().unwrap()["octets"], len);
        assert!(fs::read(to.join(&name)).unwrap() == octets, "{len}");
    }
    // Whoever serves dies: nobody has the octets any more.
    let mut sender = put(&daemon, &a, &["-", "lost"]);
    let mut stdin = sender.stdin();
    stdin.write_all(&octets(3 << 20)).unwrap();
    sender.sent(1 << 20);
    server.kill();
    let _server = serve(&daemon, &to, &b);
    let (code, _, told) = sender.end();
    assert_eq!(code, 1, "{told}");
    assert!(
        told.contains("standard input cannot be read again"),
        "{told}"
    );
    assert!(!to.join("lost").exists());
    let mut sender = put(&daemon, &a, &["-", "lost"]);
    sender.stdin().write_all(&octets(200_000)).unwrap();
    assert_eq!(sender.end().0, 0);
    assert!(fs::read(to.join("lost")).unwrap() == octets(200_000));
    assert!(!to.join(PARTIAL).exists());
}

/// A file system in memory, as long as this stands.
struct Small(Place);

impl Drop for Small {
    fn drop(&mut self) {
        let _ = unmount(self.0.at("."), UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk_is_told_with_its_file_and_what_is_missing_and_the_others_go_on() {
    let small = Place::new("small");
    if let Err(error) = mount(
        "none",
        small.at("."),
        "tmpfs",
        MountFlags::empty(),
        c"size=8m",
    ) {
        println!("skipped files_disk_full: no file system can be mounted: {error}");
        return;
    }
    let small = Small(small);
    let (daemon, place) = (daemon(), Place::new("full"));
    let [a, b] = ends(113);
    let to = small.0.directory("to");
    let _server = serve(&daemon, &to, &b);
    let from = place.directory("from");
    fs::write(from.join("big"), octets(12 << 20)).unwrap();
    fs::write(from.join("fits"), octets(300_000)).unwrap();
    fs::write(from.join("small"), b"fits, too").unwrap();
    let words = ["-r", &place.text("from")];
    let (code, lines, told) = put(&daemon, &a, &words).end();
    assert_eq!(code, 1, "{told}");
    let error_of = error(&lines, "from/big");
    let missing = error_of
        .split(": ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let missing: u64 = missing
        .and_then(|number| number.parse().ok())
        .expect(&error_of);
    assert!((4 << 20..6 << 20).contains(&missing), "{error_of}");
    assert!(told.contains("from/big: no room on the disk"), "{told}");
    // Not an octet of it was sent.
    assert!(sent(&lines).0 < 400_000, "{lines:?}");
    assert!(to.join("from/fits").exists() && to.join("from/small").exists());

    // One with holes takes blocks as they come: the disk is full in the middle of it.
    fs::remove_file(from.join("big")).unwrap();
    let sparse = fs::File::create(from.join("sparse")).unwrap();
    sparse.set_len(40 << 20).unwrap();
    sparse.write_all_at(&octets(5 << 20), 0).unwrap();
    let sender = put(&daemon, &a, &words);
    sender.sent(3_500_000);
    let filler = small.0.at("filler");
    let mut file = fs::File::create(&filler).unwrap();
    while file.write_all(&[1; 4_096]).is_ok() {}
    drop(file);
    let (code, lines, told) = sender.end();
    assert_eq!(code, 1, "{told}");
    println!("a disk that fills up: {}", error(&lines, "from/sparse"));
    assert!(!to.join("from/sparse").exists());
    fs::remove_file(&filler).unwrap();
    let (code, lines, told) = put(&daemon, &a, &words).end();
    assert_eq!(code, 0, "{told}");
    assert!(sent(&lines).0 < 4 << 20, "{}", sent(&lines).0);
    let both = [&from, &to.join("from")].map(|root| fs::read(root.join("sparse")).unwrap());
    assert!(both[0] == both[1]);
    assert!(!to.join(PARTIAL).exists());
    println!("ran files_disk_full");
}

#[test]
fn who_misbehaves_on_one_connection_costs_the_others_nothing() {
    let (daemon, place) = (daemon(), Place::new("several"));
    let to = place.directory("to");
    let words = [
        "--vc",
        "b.0.120..b.0.123",
        "--writable",
        "--contract",
        CONTRACT,
    ];
    let _server = End::serve(&daemon, &to, &words);
    let ends = AtomicBool::new(false);
    let said = thread::scope(|scope| {
        scope.spawn(|| {
            let builder = Connection::builder().socket(daemon.socket());
            let hostile = builder
                .address("a.0.120")
                .contract(CONTRACT)
                .open()
                .unwrap();
            let garbage = octets(8_000);
            let mut at = 0;
            while !ends.load(Ordering::Relaxed) {
                at = (at + 77) % 7_000;
                hostile.send(&garbage[at..][..24 + at % 900]).unwrap();
            }
        });
        let all: Vec<_> = (121..124)
            .map(|vci| {
                let name = format!("of-{vci}");
                fs::write(place.at(&name), octets(1_000_000 + vci)).unwrap();
                put(&daemon, &format!("a.0.{vci}"), &[&place.text(&name)])
            })
            .collect();
        let said: Vec<_> = all.into_iter().map(End::end).collect();
        ends.store(true, Ordering::Relaxed);
        said
    });
    for ((code, lines, told), vci) in said.into_iter().zip(121..) {
        assert_eq!(code, 0, "{told}");
        // An answer that is late on a busy machine has a PDU or two said again.
        assert!(sent(&lines).1 < 50_000, "what was said alone: {lines:?}");
        let octets = octets(1_000_000 + vci);
        assert!(fs::read(to.join(format!("of-{vci}"))).unwrap() == octets);
    }
}
