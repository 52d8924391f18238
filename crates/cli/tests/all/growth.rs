//! `send --grow`: less than was asked for at first, then all of it.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use crate::daemon::Daemon;
use serde_json::Value;

#[test]
fn who_grows_begins_with_less_and_takes_more_when_it_is_there() {
    let daemon = Daemon::start_told(
        "[[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
         [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n",
    );
    let held = "cbr,aal5:tx:pcr=200000,max_sdu=8192,rx:none";
    daemon.ok(&["vc", "add", "a.0.41", "contract", held]);
    let wanted = "cbr,aal5:tx:pcr=300000,max_sdu=8192,rx:none";
    let words = ["send", "--line", "--vc", "a.0.40", "--contract", wanted];
    let refused = daemon.fails(3, &words);
    assert!(refused.contains("this would fit: cbr"), "{refused}");
    let mut command = daemon.command(&[&words[..], &["--grow", "--json"]].concat());
    let command = command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let opened = said.next().unwrap().unwrap();
    assert!(
        opened.ends_with("opened under that until there is more"),
        "{opened}"
    );
    let shown: Value = serde_json::from_str(&daemon.ok(&["vc", "show", "a.0.40", "-J"])).unwrap();
    let less = shown["connections"][0]["transmit"]["cell_s"]
        .as_u64()
        .unwrap();
    assert!((1..300_000).contains(&less), "{less}");
    daemon.ok(&["vc", "del", "a.0.41"]);
    // It looks for an offer where it sends.
    let mut stdin = child.stdin.take().unwrap();
    let (stop, stops) = std::sync::mpsc::channel::<()>();
    let writer = std::thread::spawn(move || {
        while stops.try_recv().is_err() {
            stdin.write_all(b"a line\n").unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let grown = said.next().unwrap().unwrap();
    assert_eq!(grown, format!("note: grown to {wanted}"));
    stop.send(()).unwrap();
    writer.join().unwrap();
    let output = child.wait_with_output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&told["contract"], output.status.code()),
        (&wanted.into(), Some(0))
    );
}
