//! What a user asks for that makes no sense, and unfinished files.

use std::fs;
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use super::ends::{End, Place};
use super::{CONTRACT, daemon};
use crate::daemon::{octets, stderr};

/// `cellgate` where no daemon is.
fn alone(place: &Place, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cellgate"))
        .args(words)
        .current_dir(place.at("."))
        .env("CELLGATE_SOCKET", place.at("nobody"))
        .stdin(Stdio::null())
        .output()
        .expect("it starts")
}

#[test]
fn what_makes_no_sense_is_told_before_anything_is_begun() {
    let place = Place::new("users");
    fs::create_dir_all(place.at("d/x")).unwrap();
    for file in ["f", "d/f"] {
        fs::write(place.at(file), file).unwrap();
    }
    rustix::fs::mkfifoat(rustix::fs::CWD, place.at("p"), rustix::fs::Mode::RWXU).unwrap();
    let cases: [(&[&str], &str); 22] = [
        (&["put", "gone"], "gone is not there"),
        (&["put", "gone", "f", "x"], "gone is not there"),
        (&["put", "d"], "d is a directory: -r"),
        (&["put", "p"], "p is no file, directory or link"),
        (
            &["put", "-r", "f", "d/f", "x"],
            "two of what is to be put are called f",
        ),
        (&["put", "-"], "has no name"),
        (&["put", "-", "."], "has no name"),
        (&["put", "-", "x/"], "has no name"),
        (&["put", "-", "f", "x"], "is put by itself"),
        (&["put", "-", "x", "-r"], "leave -r out"),
        (&["put", "-", "x", "--checksum"], "leave --checksum out"),
        (&["put", "-", "../x"], "\"..\""),
        (&["put", "f", "--skip", "--checksum"], "cannot be used with"),
        (
            &["put", "f", "--skip", "--overwrite"],
            "cannot be used with",
        ),
        (
            &["put", "f", "--contract", "ubr,aal5:tx:none"],
            "one way only",
        ),
        (
            &["put", "f", "--pdu", "9000", "--contract", CONTRACT],
            "--pdu 9000",
        ),
        (&["put", "f", "--contract", "nonsense"], "no contract"),
        (&["get", "a", "b", "nowhere"], "nowhere is no directory"),
        (&["get", "a", "nowhere/b"], "nowhere is no directory"),
        (&["serve-files", "f"], "f is no directory"),
        (
            &["serve-files", "d", "--vc", "0.9..0.1"],
            "the lower one first",
        ),
        (&["ls", "--discard", "all"], "--partial"),
    ];
    for (words, says) in cases {
        let told = alone(&place, words);
        assert_eq!(told.status.code(), Some(2), "{words:?}: {}", stderr(&told));
        assert!(stderr(&told).contains(says), "{words:?}: {}", stderr(&told));
    }
    // What makes sense finds no daemon.
    assert_eq!(alone(&place, &["put", "f"]).status.code(), Some(4));
}

#[test]
fn who_interrupts_is_told_how_to_go_on_and_the_other_end_hears_of_it() {
    let (daemon, place) = (daemon(), Place::new("interrupts"));
    let to = place.directory("to");
    fs::write(place.at("long"), octets(5 << 20)).unwrap();
    let words = ["--vc", "b.0.101", "--writable", "--contract", CONTRACT];
    let server = End::serve(&daemon, &to, &words);
    let from = place.text("long");
    let put = ["put", &from, "--vc", "a.0.101", "--contract", CONTRACT];
    let sender = End::begin(&daemon, &put);
    sender.sent(3 << 20);
    sender.signal(Signal::INT);
    let (code, lines, told) = sender.end();
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("the same command goes on"), "{told}");
    assert_eq!(lines.last().unwrap()["done"], false);
    server.until("word of the end", |line| {
        let told = line["told"].as_str()?;
        told.contains("has stopped: interrupted").then_some(())
    });

    // What came is listed, and kept.
    let to_text = place.text("to");
    let list = |words: &[&str]| {
        let told = daemon.ok(&[&["ls", "--partial", &to_text, "--json"], words].concat());
        let lines = told.lines().map(serde_json::from_str::<Value>);
        lines.collect::<Result<Vec<_>, _>>().expect("JSON")
    };
    let found = list(&[]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["path"], "long");
    assert_eq!(found[0]["octets"], 5 << 20);
    assert_eq!(found[0]["in_use"], false);
    let shown = daemon.ok(&["ls", "--partial", &to_text]);
    assert!(shown.contains("5242880 long"), "{shown}");
    let (code, lines, told) = End::begin(&daemon, &put).end();
    assert_eq!(code, 0, "{told}");
    let sent = lines.last().unwrap()["sent"].as_u64().unwrap();
    assert!(sent < 4 << 20, "{sent}");
    assert!(fs::read(to.join("long")).unwrap() == octets(5 << 20));
    assert!(list(&[]).is_empty());

    // One that is begun anew has all to send, and one that is thrown away is gone.
    fs::write(place.at("long"), octets(4 << 20)).unwrap();
    let again = [&put[..], &["--overwrite"]].concat();
    let interrupted = || {
        let sender = End::begin(&daemon, &again);
        sender.sent(3 << 20);
        sender.signal(Signal::TERM);
        assert_eq!(sender.end().0, 1);
        assert_eq!(list(&[]).len(), 1);
    };
    interrupted();
    let anew = [&again[..], &["--no-resume"]].concat();
    let (code, lines, told) = End::begin(&daemon, &anew).end();
    assert_eq!(code, 0, "{told}");
    assert!(lines.last().unwrap()["sent"].as_u64().unwrap() >= 4 << 20);
    fs::remove_file(to.join("long")).unwrap();
    interrupted();
    let other = daemon.fails(2, &["ls", "--partial", &to_text, "--discard", "other"]);
    assert!(other.contains("no unfinished file"), "{other}");
    assert_eq!(list(&["--discard", "long"])[0]["path"], "long");
    assert!(list(&[]).is_empty());
    assert!(list(&["--discard", "all"]).is_empty());
    assert!(fs::read_dir(&to).unwrap().next().is_none());
}
