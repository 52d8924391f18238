//! A film of H.264 and AAC over cells, in ffplay, on a screen that nobody sees.
//!
//! The screen is Xvfb's, whose memory is a file: pictures that were shown are looked at there.

use std::collections::HashSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use serde_json::Value;

use super::browser::{Process, film};
use super::{CONTRACT, INTERFACES};
use crate::daemon::Daemon;
use crate::gaps::{TRIES, Watch};

const NAME: &str = "video_ffplay";
const SECONDS: u64 = 8;
/// Pictures of which one needs no other. Those of the first second the player looks at and, having
/// no buffer, leaves out.
const GROUP: u64 = 12;
const FRAME_NS: u64 = 40_000_000;
/// From one look at the screen to the next: every other picture, at least, is seen.
const LOOK: Duration = Duration::from_millis(50);

/// A screen of Xvfb's.
struct Screen {
    _server: Process,
    display: String,
    memory: PathBuf,
}

impl Screen {
    /// None: there is no Xvfb.
    fn open(daemon: &Daemon) -> Option<Self> {
        let directory = daemon.path("screen");
        fs::create_dir(&directory).expect("a directory");
        let mut command = Command::new("Xvfb");
        command
            .args(["-displayfd", "1", "-screen", "0", "640x360x24"])
            .args(["-nolisten", "tcp", "-fbdir"])
            .arg(&directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut server = Process(command.spawn().ok()?);
        let told = server.0.stdout.take().expect("it is piped");
        let mut number = String::new();
        // It says the number once it is ready.
        BufReader::new(told).read_line(&mut number).expect("a line");
        Some(Self {
            _server: server,
            display: format!(":{}", number.trim()),
            memory: directory.join("Xvfb_screen0"),
        })
    }

    /// Looks until the player has ended: how many pictures were seen.
    fn watch(&self, player: &mut Child) -> usize {
        let hasher = RandomState::new();
        let mut seen = HashSet::new();
        while player.try_wait().expect("a child").is_none() {
            seen.insert(hasher.hash_one(fs::read(&self.memory).expect("a screen")));
            thread::sleep(LOOK);
        }
        seen.len()
    }
}

/// Nanoseconds that a process's threads have waited for a CPU; none: it has ended.
fn waited_ns(pid: u32) -> Option<u64> {
    let mut waited = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        // On the CPU, waiting for one, turns.
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        waited += text.split(' ').nth(1)?.parse::<u64>().ok()?;
    }
    Some(waited)
}

/// A film as ffplay has shown it.
#[derive(Debug)]
struct Played {
    /// Frames that the player has left out; none: it told nothing.
    dropped: Option<u64>,
    /// Pictures that the screen has shown.
    pictures: usize,
    /// All else that it said.
    said: String,
}

/// Frames that the player has left out, as its status line says again and again behind a carriage
/// return, and what else it said.
fn parsed(said: &str) -> (Option<u64>, String) {
    let (mut dropped, mut others) = (None, String::new());
    for line in said.split(['\r', '\n']).map(str::trim) {
        let status = line.split_once(" fd=").map(|(_, rest)| rest);
        let count = status.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        match count {
            Some(count) => dropped = Some(count),
            None if line.is_empty() => {}
            None => others += &format!("{line}\n"),
        }
    }
    (dropped, others)
}

/// Plays the film once: what the player and the receiver say, and why the player may have been
/// too slow.
fn play(
    daemon: &Daemon,
    film: &Path,
    screen: &Screen,
    pipe: &Path,
) -> (Played, Value, Option<String>) {
    let mut command = Command::new("ffplay");
    command
        .args(["-hide_banner", "-loglevel", "error", "-stats", "-autoexit"])
        .args(["-fflags", "nobuffer", "-analyzeduration", "1000000"])
        .arg(pipe)
        .env("DISPLAY", &screen.display)
        .env("SDL_AUDIODRIVER", "dummy")
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let mut player = Process(command.spawn().expect("ffplay starts"));
    let mut stderr = player.0.stderr.take().expect("it is piped");
    let said = thread::spawn(move || {
        let mut said = Vec::new();
        stderr.read_to_end(&mut said).expect("a pipe is read");
        String::from_utf8_lossy(&said).into_owned()
    });
    // A pipe is opened for writing once it is read, and a player that fails reads none.
    let reader = rustix::fs::open(pipe, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
    let to = pipe.to_str().expect("text");
    let words = ["stream", "recv", "--vc", "b.0.60", "--contract", CONTRACT];
    let words = [&words[..], &["--timeout", "1", "--json", "--to", to]].concat();
    let receiver = daemon.begin(&words, "latency");
    drop(reader.expect("a pipe"));
    let (pictures, waited) = thread::scope(|scope| {
        let pid = player.0.id();
        let seen = scope.spawn(|| screen.watch(&mut player.0));
        let film = film.to_str().expect("text");
        let words = ["stream", "send", "--vc", "a.0.60", "--contract", CONTRACT];
        daemon.ok(&[&words[..], &[film]].concat());
        let waited = waited_ns(pid);
        (seen.join().expect("it looks"), waited)
    });
    let (dropped, said) = parsed(&said.join().expect("it reads"));
    let told = serde_json::from_slice(&receiver.stdout()).expect("JSON");
    // A wait of two frames' time is enough for one to be dropped.
    let slow = waited.filter(|waited| *waited > 2 * FRAME_NS);
    let slow = slow.map(|waited| format!("ffplay waited {waited} ns for a CPU"));
    let played = Played {
        dropped,
        pictures,
        said,
    };
    (played, told, slow)
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn a_film_is_shown_by_ffplay_and_no_frame_is_dropped() {
    let version = Command::new("ffplay").arg("-version").output();
    if version.is_err() {
        return println!("skipped {NAME}: there is no ffplay");
    }
    let daemon = Daemon::start_told(INTERFACES);
    let Some(screen) = Screen::open(&daemon) else {
        return println!("skipped {NAME}: there is no Xvfb");
    };
    let film_path = daemon.path("film.ts");
    if !film(&film_path, SECONDS, GROUP) {
        return println!("skipped {NAME}: there is no ffmpeg that makes H.264 and AAC");
    }
    let pipe = daemon.path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo starts").success());
    let mut reason = String::new();
    for _ in 0..TRIES {
        let watch = Watch::begin(&daemon);
        let (played, told, slow) = play(&daemon, &film_path, &screen, &pipe);
        let stalls = watch.end();
        let counts = &told["counts"];
        let is_whole = ["lost_pdus", "late", "overruns", "continuity_errors"]
            .iter()
            .all(|key| counts[key] == 0);
        // It is looked at 20 times a second, and shows 25 pictures.
        let is_shown = played.dropped == Some(0) && played.pictures as u64 >= SECONDS * 10;
        match (is_whole && is_shown, stalls.excuse().or(slow)) {
            (true, _) => {
                println!("{} pictures were seen; {}", played.pictures, played.said);
                println!("ran {NAME}");
                return;
            }
            (false, Some(excuse)) => reason = format!("{excuse}: {played:?}"),
            (false, None) => panic!("{played:?} {told}"),
        }
    }
    println!("void {NAME}: {reason}");
}
