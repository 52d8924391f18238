//! A daemon of its own for each test, in a directory of its own.

#![allow(dead_code, reason = "each test program uses what it needs")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

#[path = "../../../../client/tests/common/state.rs"]
mod state;

/// One daemon at a time: its adapter keeps a CPU busy.
static ALONE: Mutex<()> = Mutex::new(());

/// As long as this is kept, no other test has a daemon.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running `cellgate serve`; it ends when it is dropped.
pub(crate) struct Daemon {
    child: Child,
    directory: PathBuf,
    _alone: Option<MutexGuard<'static, ()>>,
}

impl Daemon {
    /// Starts one with these interfaces and connections. The first measures what cells cost, and
    /// those after it find that.
    pub(crate) fn start(contents: &str) -> Self {
        Self::start_by(&[], contents, Some(alone()))
    }

    /// Starts one that is told what cells and PDUs cost: it is ready at once, and admits the same
    /// on every machine.
    pub(crate) fn start_told(contents: &str) -> Self {
        Self::told(contents, Some(alone()))
    }

    /// The same beside others: its adapter is to take no CPU for itself.
    pub(crate) fn start_beside(contents: &str) -> Self {
        assert!(contents.contains("pin = false\n"), "{contents}");
        Self::told(contents, None)
    }

    fn told(contents: &str, alone: Option<MutexGuard<'static, ()>>) -> Self {
        let directory = Self::directory();
        let state = directory.join("state");
        fs::create_dir(&state).expect("a directory");
        state::write(&state, &state::calibration());
        Self::start_in(directory, &[], contents, alone)
    }

    /// Starts one behind the words of another command, as `ip netns exec NAME`.
    pub(crate) fn start_by(
        words: &[&str],
        contents: &str,
        alone: Option<MutexGuard<'static, ()>>,
    ) -> Self {
        let directory = Self::directory();
        // The other command may run the daemon as another user, who may not write here.
        if !words.is_empty() {
            return Self::start_in(directory, words, contents, alone);
        }
        static MEASURED: OnceLock<Vec<u8>> = OnceLock::new();
        let state = directory.join("state");
        if let Some(measured) = MEASURED.get() {
            fs::create_dir(&state).expect("a directory");
            state::write(&state, measured);
        }
        let daemon = Self::start_in(directory, words, contents, alone);
        MEASURED.get_or_init(|| fs::read(state.join("calibration.json")).expect("it measured"));
        daemon
    }

    fn directory() -> PathBuf {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cellgate-cli-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).expect("a directory");
        // Whoever it runs as makes the state directory, where nobody else may write.
        fs::set_permissions(&directory, PermissionsExt::from_mode(0o777)).expect("it is ours");
        directory
    }

    fn start_in(
        directory: PathBuf,
        words: &[&str],
        contents: &str,
        alone: Option<MutexGuard<'static, ()>>,
    ) -> Self {
        let config = directory.join("cellgate.toml");
        let state = directory.join("state");
        let head = format!("[server]\nstate_dir = {:?}\n", state.display().to_string());
        fs::write(&config, head + contents).expect("a file");
        Self {
            child: serve(words, &config),
            directory,
            _alone: alone,
        }
    }

    /// Ends it in order, and starts one with this configuration, which names the same places.
    pub(crate) fn begin_again(&mut self, config: &str) {
        self.end();
        let path = self.path("cellgate.toml");
        fs::write(&path, config).expect("a file");
        self.child = serve(&[], &path);
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Ends it in order, with all that it has.
    pub(crate) fn end(&mut self) {
        // One that was killed has no process that the signal could go to.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::TERM);
            let _ = ends(&mut self.child);
        }
    }

    /// Kills the daemon; its adapter and all connections go on.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Waits until it has ended of itself.
    pub(crate) fn await_end(&mut self) {
        ends(&mut self.child).expect("it ends");
    }

    /// Starts another in its place, and does not wait for it.
    pub(crate) fn succeed(&mut self) {
        let mut command = behind(&[]);
        command
            .arg("serve")
            .arg("-c")
            .arg(self.path("cellgate.toml"));
        self.child = command
            .stderr(Stdio::null())
            .spawn()
            .expect("cellgate starts");
    }

    /// The daemon's process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The control socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.path("state/control.sock")
    }

    /// A file of the daemon's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// `cellgate` as its user.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = behind(&[]);
        command
            .args(arguments)
            .env("CELLGATE_SOCKET", self.socket());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        command.stdin(Stdio::null()).output().expect("it starts")
    }

    /// What it prints; it must succeed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        succeeded(arguments, &self.run(arguments))
    }

    /// What it complains of; it must exit with `code`.
    pub(crate) fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        error
    }

    pub(crate) fn fed(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut stdin = child.stdin.take().expect("it is piped");
        // One that has failed reads no more of it.
        let _ = stdin.write_all(input);
        drop(stdin);
        child.wait_with_output().expect("it ends")
    }

    /// The same with something on standard input.
    pub(crate) fn feed(&self, arguments: &[&str], input: &[u8]) {
        succeeded(arguments, &self.fed(arguments, input));
    }

    pub(crate) fn feed_fails(&self, arguments: &[&str], input: &[u8]) -> String {
        let output = self.fed(arguments, input);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        stderr(&output)
    }

    /// Starts a command, and waits until it says `word` on standard error.
    pub(crate) fn begin(&self, arguments: &[&str], word: &str) -> Running {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut stdout = child.stdout.take().expect("it is piped");
        let printed = std::thread::spawn(move || {
            let mut printed = Vec::new();
            stdout.read_to_end(&mut printed).expect("a pipe is read");
            printed
        });
        let stderr = child.stderr.take().expect("it is piped");
        let said = await_line(stderr, word);
        Running {
            child,
            printed,
            said,
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Waits a minute until a process ends; kills one that does not.
pub(crate) fn ends(child: &mut Child) -> Option<ExitStatus> {
    for _ in 0..6_000 {
        if let Some(status) = child.try_wait().expect("a child") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// A daemon that is ready.
fn serve(words: &[&str], config: &Path) -> Child {
    let mut command = behind(words);
    command.arg("serve").arg("-c").arg(config);
    command.stderr(Stdio::piped());
    let mut child = command.spawn().expect("cellgate starts");
    let stderr = child.stderr.take().expect("it is piped");
    await_line(stderr, "ready");
    child
}

/// A command under way.
pub(crate) struct Running {
    child: Child,
    printed: std::thread::JoinHandle<Vec<u8>>,
    said: std::thread::JoinHandle<String>,
}

impl Running {
    /// What it printed; it must succeed.
    pub(crate) fn stdout(mut self) -> Vec<u8> {
        let code = self.child.wait().expect("it ends").code();
        let said = self.said.join().expect("a pipe is read");
        assert_eq!(code, Some(0), "{said}");
        self.printed.join().expect("a pipe is read")
    }

    /// Interrupts it; what it printed. It must succeed.
    pub(crate) fn interrupt(self) -> Vec<u8> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::INT).expect("it runs");
        self.stdout()
    }

    /// Kills it, and waits for its end.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Its exit code, and what it said behind the first line.
    pub(crate) fn end(mut self) -> (i32, String) {
        let code = self.child.wait().expect("it ends").code();
        (
            code.expect("no signal"),
            self.said.join().expect("a pipe is read"),
        )
    }
}

/// How a thread is scheduled, as the kernel says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scheduled {
    /// The priority of the class SCHED_FIFO; none: it is a common thread.
    pub(crate) fifo: Option<u64>,
    pub(crate) nice: i64,
    pub(crate) cpus: String,
}

/// The threads of a process by their names.
pub(crate) fn threads(pid: u32) -> BTreeMap<String, Scheduled> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let of = |task: std::io::Result<fs::DirEntry>| {
        let path = task.ok()?.path();
        // One that has ended meanwhile is none.
        let [stat, status] = ["stat", "status"].map(|name| fs::read_to_string(path.join(name)));
        let (stat, status) = (stat.ok()?, status.ok()?);
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        // proc(5): the third field is the first here.
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let fifo = fields[41 - 3] == "1";
        let cpus = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let scheduled = Scheduled {
            fifo: fifo.then(|| fields[40 - 3].parse().expect("a priority")),
            nice: fields[19 - 3].parse().expect("a nice value"),
            cpus: cpus.expect("CPUs").trim().to_owned(),
        };
        Some((name.to_owned(), scheduled))
    };
    // A thread that was just started has the name of the one that starts it: the first counts.
    let mut tasks: Vec<_> = tasks.collect();
    let number = |task: &std::io::Result<fs::DirEntry>| {
        let task = task.as_ref().ok()?;
        task.file_name().to_str()?.parse::<u32>().ok()
    };
    tasks.sort_by_key(|task| std::cmp::Reverse(number(task)));
    tasks.into_iter().filter_map(of).collect()
}

/// Waits for a line with `word`; the rest is read aside.
pub(crate) fn await_line(stderr: ChildStderr, word: &str) -> std::thread::JoinHandle<String> {
    let mut reader = BufReader::new(stderr);
    let mut said = String::new();
    loop {
        let mut line = String::new();
        let read = reader.read_line(&mut line).expect("a pipe is read");
        assert!(read > 0, "it ended before {word:?}: {said}");
        said += &line;
        if line.contains(word) {
            break;
        }
    }
    std::thread::spawn(move || {
        let mut rest = String::new();
        reader.read_to_string(&mut rest).expect("a pipe is read");
        rest
    })
}

fn behind(words: &[&str]) -> Command {
    let binary = env!("CARGO_BIN_EXE_cellgate");
    match words.split_first() {
        None => Command::new(binary),
        Some((program, rest)) => {
            let mut command = Command::new(program);
            command.args(rest).arg(binary);
            command
        }
    }
}

fn succeeded(arguments: &[&str], output: &Output) -> String {
    assert!(output.status.success(), "{arguments:?}: {}", stderr(output));
    stdout(output)
}

/// Copies the command to `path`. Another process does: a child that a test beside forked meanwhile
/// would still hold a file that this one had open for writing, and nobody could run it.
pub(crate) fn copy_command(path: &Path) {
    let mut cp = Command::new("cp");
    cp.arg(env!("CARGO_BIN_EXE_cellgate")).arg(path);
    assert!(cp.status().expect("cp is there").success(), "{path:?}");
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Octets that do not repeat.
pub(crate) fn octets(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut octets = Vec::with_capacity(len + 8);
    while octets.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        octets.extend_from_slice(&state.to_be_bytes());
    }
    octets.truncate(len);
    octets
}
