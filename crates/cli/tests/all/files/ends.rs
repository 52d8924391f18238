//! Both ends of a transfer, as processes that are killed if their test ends before them.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::daemon::{Daemon, await_line};

/// So long something may take that comes at once.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a process says in lines of JSON, as it says them.
#[derive(Default)]
struct Said {
    lines: Mutex<Vec<Value>>,
    more: Condvar,
}

/// A command under way that prints JSON.
pub(super) struct End {
    child: Child,
    said: Arc<Said>,
    readers: Option<(JoinHandle<()>, JoinHandle<String>)>,
}

impl End {
    /// `cellgate` with these words, and `--json`.
    pub(super) fn begin(daemon: &Daemon, words: &[&str]) -> Self {
        Self::told(daemon, words, |mut stderr| {
            std::thread::spawn(move || {
                let mut told = Vec::new();
                let _ = stderr.read_to_end(&mut told);
                String::from_utf8_lossy(&told).into_owned()
            })
        })
    }

    fn told(
        daemon: &Daemon,
        words: &[&str],
        reads: impl FnOnce(ChildStderr) -> JoinHandle<String>,
    ) -> Self {
        let mut child = daemon
            .command(words)
            .arg("--json")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let said = Arc::new(Said::default());
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let hears = Arc::clone(&said);
        let reader = std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // The last line of one that was killed may be half of one.
                if let Ok(line) = serde_json::from_str(&line) {
                    hears
                        .lines
                        .lock()
                        .expect("nobody panics with it")
                        .push(line);
                    hears.more.notify_all();
                }
            }
            hears.more.notify_all();
        });
        let stderr = reads(child.stderr.take().expect("it is piped"));
        Self {
            child,
            said,
            readers: Some((reader, stderr)),
        }
    }

    /// Serves a directory, and waits until it does.
    pub(super) fn serve(daemon: &Daemon, directory: &Path, words: &[&str]) -> Self {
        let directory = directory.to_str().expect("text");
        let words = [&["serve-files", directory], words].concat();
        Self::told(daemon, &words, |stderr| await_line(stderr, "serving"))
    }

    /// Waits until a line is as `is_so` wants it, and gives what that finds.
    pub(super) fn until<T>(&self, what: &str, is_so: impl Fn(&Value) -> Option<T>) -> T {
        let begun = Instant::now();
        let mut lines = self.said.lines.lock().expect("nobody panics with it");
        loop {
            if let Some(found) = lines.iter().find_map(&is_so) {
                return found;
            }
            assert!(begun.elapsed() < PATIENCE, "no {what}: {lines:?}");
            let look = Duration::from_millis(50);
            let waited = self.said.more.wait_timeout(lines, look);
            lines = waited.expect("nobody panics with it").0;
        }
    }

    /// Waits until it has sent so many octets.
    pub(super) fn sent(&self, octets: u64) {
        self.until("progress", |line| {
            let sent = line["progress"]["sent"].as_u64()?;
            (sent >= octets).then_some(())
        });
    }

    /// All lines so far.
    pub(super) fn lines(&self) -> Vec<Value> {
        self.said
            .lines
            .lock()
            .expect("nobody panics with it")
            .clone()
    }

    pub(super) fn stdin(&mut self) -> ChildStdin {
        self.child
            .stdin
            .take()
            .expect("it is piped, and taken once")
    }

    pub(super) fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// Kills it: what it had said.
    pub(super) fn kill(mut self) -> Vec<Value> {
        let _ = self.child.kill();
        self.wait().1
    }

    /// Waits until it ends: its exit code, what it printed, and what it complained of.
    pub(super) fn end(mut self) -> (i32, Vec<Value>, String) {
        let begun = Instant::now();
        while !self.has_ended() {
            let is_late = begun.elapsed() > 3 * PATIENCE;
            assert!(!is_late, "it does not end: {:?}", self.lines().last());
            std::thread::sleep(Duration::from_millis(5));
        }
        let (code, lines, told) = self.wait();
        (code.unwrap_or(-1), lines, told)
    }

    fn wait(&mut self) -> (Option<i32>, Vec<Value>, String) {
        let code = self.child.wait().expect("a child").code();
        let mut told = String::new();
        if let Some((reader, stderr)) = self.readers.take() {
            reader.join().expect("a pipe is read");
            told = stderr.join().expect("a pipe is read");
        }
        (code, self.lines(), told)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Octets that a process has sent, as it said last, and how many of them again.
pub(super) fn sent(lines: &[Value]) -> (u64, u64) {
    let of = |line: &Value| Some((line["sent"].as_u64()?, line["sent_again"].as_u64()?));
    let found = lines
        .iter()
        .rev()
        .find_map(|line| of(line).or_else(|| of(&line["progress"])));
    found.unwrap_or((0, 0))
}

/// A directory that goes with its test, in memory if there is such a place: syncing takes no time.
pub(super) struct Place(PathBuf);

impl Place {
    pub(super) fn new(name: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let above = match memory.is_dir() {
            true => memory.to_owned(),
            false => std::env::temp_dir(),
        };
        let path = above.join(format!("cellgate-files-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).expect("a directory");
        Self(path)
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The path of what is in it, for a command.
    pub(super) fn text(&self, name: &str) -> String {
        self.at(name).to_str().expect("text").to_owned()
    }

    /// A directory in it.
    pub(super) fn directory(&self, name: &str) -> PathBuf {
        let path = self.at(name);
        std::fs::create_dir(&path).expect("a directory");
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
