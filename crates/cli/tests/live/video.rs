//! A film of H.264 and AAC between two hosts, beside a transfer of files that takes the rest of
//! their line.
//!
//! Long form: `CELLGATE_VIDEO_SECONDS=600`, and stress-ng on all CPUs, if there is one.

mod browser;
mod ffplay;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::daemon::{Daemon, alone, octets, stderr, stdout};
use crate::gaps::{Watch, excuse, or_void};
use crate::netns::joined;
use crate::two_hosts::{ADDRESSES, daemons};

/// For players, on one host.
const INTERFACES: &str = "[[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
                          [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n";
/// 10 Mbit/s of payload in PDUs of eight cells, for a film of 8.
const CONTRACT: &str = "cbr,aal5:pcr=28000,max_sdu=376";
/// Octets of a file that is put again and again.
const FILE: usize = 4_000_000;

/// Seconds of the film that are asked for; none: the short form.
fn asked() -> Option<u64> {
    let asked = std::env::var("CELLGATE_VIDEO_SECONDS").ok();
    asked.and_then(|text| text.parse().ok())
}

/// Work for all CPUs, until it is dropped.
struct Stress(Option<Child>);

impl Stress {
    fn begin() -> Self {
        let mut command = Command::new("stress-ng");
        let command = command.args(["--quiet", "--cpu", "0"]);
        let stress = asked().and_then(|_| command.spawn().ok());
        println!("stress-ng beside it: {}", stress.is_some());
        Self(stress)
    }
}

impl Drop for Stress {
    fn drop(&mut self) {
        if let Some(stress) = &mut self.0 {
            // It ends its workers.
            let _ = kill_process(Pid::from_child(stress), Signal::TERM);
            let _ = stress.wait();
        }
    }
}

fn ffmpeg(words: &[&str]) -> Option<Output> {
    let mut command = Command::new("ffmpeg");
    command.args(["-loglevel", "error", "-nostdin"]).args(words);
    command.output().ok()
}

/// A film of so many seconds at 8 Mbit/s; none: this machine cannot make one.
fn film(path: &Path, seconds: u64) -> bool {
    let seconds = seconds.to_string();
    let path = path.to_str().expect("text");
    let input = "testsrc2=size=1280x720:rate=25";
    let made = ffmpeg(&[
        "-f",
        "lavfi",
        "-i",
        input,
        "-f",
        "lavfi",
        "-i",
        "sine=frequency=440",
        "-t",
        &seconds,
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-b:v",
        "7500k",
        "-minrate",
        "7500k",
        "-maxrate",
        "7500k",
        "-bufsize",
        "1500k",
        "-nal-hrd",
        "cbr",
        "-c:a",
        "aac",
        "-muxrate",
        "8M",
        "-f",
        "mpegts",
        path,
    ]);
    made.is_some_and(|made| made.status.success())
}

/// The MD5 of each frame, of picture and sound.
fn frames(path: &Path) -> String {
    let path = path.to_str().expect("text");
    let output = ffmpeg(&["-i", path, "-f", "framemd5", "-"]).expect("it ran before");
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

/// Puts files until `over`: how many.
fn puts(daemon: &Daemon, over: &AtomicBool) -> u64 {
    let file = daemon.path("file");
    fs::write(&file, octets(FILE)).unwrap();
    let file = file.to_str().unwrap();
    let mut files = 0;
    while !over.load(Ordering::Relaxed) {
        let name = format!("file-{files}");
        daemon.ok(&["put", file, &name, "--vc", "wan.0.70"]);
        files += 1;
    }
    files
}

/// Plays the film once: what the receiver says, and how many files were put beside it.
fn play([left, right]: &[Daemon; 2], film: &Path, out: &Path) -> (Value, u64) {
    let to = out.to_str().expect("text");
    let recv = [
        "stream",
        "recv",
        "--vc",
        "wan.0.60",
        "--contract",
        CONTRACT,
        "--timeout",
        "2",
        "--json",
        "--to",
        to,
    ];
    let receiver = right.begin(&recv, "latency");
    let over = AtomicBool::new(false);
    let files = std::thread::scope(|scope| {
        let files = scope.spawn(|| puts(left, &over));
        let film = film.to_str().expect("text");
        left.ok(&[
            "stream",
            "send",
            "--vc",
            "wan.0.60",
            "--contract",
            CONTRACT,
            film,
        ]);
        over.store(true, Ordering::Relaxed);
        files.join().expect("it puts files")
    });
    let told = receiver.stdout();
    (serde_json::from_slice(&told).expect("JSON"), files)
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn a_film_is_played_whole_and_in_time_beside_a_transfer_of_files() {
    let _alone = alone();
    let namespaces = match joined(["film-left", "film-right"], ADDRESSES) {
        Ok(namespaces) => namespaces,
        Err(reason) => return println!("skipped video: {reason}"),
    };
    let hosts = daemons(&namespaces, &[]);
    let [left, right] = &hosts;
    let (film_path, out) = (left.path("film.ts"), right.path("out.ts"));
    if !film(&film_path, asked().unwrap_or(8)) {
        println!("skipped video: there is no ffmpeg that makes H.264 and AAC");
        return;
    }
    let place = right.path("put");
    fs::create_dir(&place).unwrap();
    let place = place.to_str().unwrap();
    let serve = ["serve-files", place, "--writable", "--vc", "wan.0.70"];
    let server = right.begin(&serve, "serving");
    let _stress = Stress::begin();
    let whole = or_void(|| played_whole(&hosts, &film_path, &out));
    server.kill();
    match whole {
        Ok(()) => println!("ran video"),
        Err(reason) => println!("void video: {reason}"),
    }
}

/// Plays the film, which must arrive whole and in time; why, if an adapter stood still.
fn played_whole(hosts: &[Daemon; 2], film: &Path, out: &Path) -> Result<(), String> {
    let watches = hosts.each_ref().map(Watch::begin);
    let (told, files) = play(hosts, film, out);
    let excuse = excuse(watches);
    let counts = &told["counts"];
    let off = [
        "lost_pdus",
        "late",
        "underruns",
        "overruns",
        "continuity_errors",
        "jumps",
    ];
    if off.iter().any(|key| counts[key] != 0) {
        return Err(format!(
            "{}: {counts}",
            excuse.unwrap_or_else(|| panic!("{told}"))
        ));
    }
    assert!(fs::read(film).unwrap() == fs::read(out).unwrap(), "{told}");
    assert_eq!(frames(film), frames(out));
    assert!(files > 0, "no file was put beside it");
    println!(
        "{} packets, at most {} us behind their due time; {files} files beside them",
        counts["packets"],
        told["released_late_max_ns"].as_u64().unwrap_or(0) / 1_000
    );
    Ok(())
}
