//! The real daemon, as a process of the test's own program.
//!
//! Interfaces `a` and `b` are each the other's peer: what one sends the other receives.

#![allow(dead_code, reason = "every test binary uses a part of it")]
#![allow(unreachable_pub, reason = "a module of several binaries")]

mod state;

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cellgate::{Admin, Builder, Connection, Indication};
use cellgate_host::adapter::run_as_child;
use cellgate_host::events::Log;
use cellgate_host::server::{Config, ServerOptions, serve};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, waitpid,
};

/// Long enough for anything on a busy machine; reached only by a failing test.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Cells/s of either interface: 1,000,000 for guarantees, the rest for best effort.
pub const LINE: u32 = 1_250_000;

/// Names the part that this executable plays when a test has started it.
const ROLE: &str = "CELLGATE_CLIENT_TEST_ROLE";
const CONFIG: &str = "CELLGATE_CLIENT_TEST_CONFIG";

fn program(role: &str) -> Command {
    let module = module_path!().split_once("::").map(|(_, module)| module);
    let test = format!("{}::plays_its_role", module.unwrap());
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", &test, "--nocapture"]);
    program.env(ROLE, role).stdout(Stdio::null());
    program
}

/// No test by itself: what the processes do that the tests start.
#[test]
fn plays_its_role() {
    match std::env::var(ROLE).as_deref() {
        Ok("adapter") => run_as_child().unwrap(),
        Ok("daemon") => {
            // Should the test be killed, nothing stays.
            set_parent_process_death_signal(Some(Signal::TERM)).unwrap();
            let path = PathBuf::from(std::env::var_os(CONFIG).unwrap());
            let text = std::fs::read_to_string(&path).unwrap();
            serve(ServerOptions {
                config: Config::parse(&text).unwrap(),
                path: Some(path),
                adapter: |_| Ok(program("adapter")),
                log: Log::saying(|line| eprintln!("{line}")),
            })
            .unwrap();
        }
        _ => {}
    }
}

/// A daemon with a directory of its own; its adapter ends with it.
pub struct Daemon {
    directory: PathBuf,
    /// None: it was killed.
    child: Option<Child>,
}

impl Daemon {
    pub fn start() -> Self {
        Self::start_with("", "")
    }

    /// One with more keys of its adapter, and with other sections and more keys of admission
    /// before them.
    pub fn start_with(adapter: &str, more: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cellgate-client-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let mut daemon = Self {
            directory,
            child: None,
        };
        let config = format!(
            "[server]\nstate_dir = {:?}\n[adapter]\npin = false\nnice = 0\nlock_memory = false\n\
             idle = \"sleep\"\nvcs = 512\nports = 4\nport_cells = 4096\n{adapter}\n\
             [admission]\nbest_effort_percent = 20\n{more}\n\
             [[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\nline_rate.cell_s = {LINE}\n\
             [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\nline_rate.cell_s = {LINE}\n",
            daemon.directory.to_str().unwrap()
        );
        std::fs::write(daemon.directory.join("config.toml"), config).unwrap();
        state::write(&daemon.directory, &state::calibration());
        daemon.restart();
        daemon
    }

    /// Starts a daemon where there is none: it is ready.
    pub fn restart(&mut self) {
        assert!(self.child.is_none());
        let path = self.directory.join("notify");
        let _ = std::fs::remove_file(&path);
        let notices = UnixDatagram::bind(&path).unwrap();
        let look = Duration::from_secs(1);
        notices.set_read_timeout(Some(look)).unwrap();
        let mut program = program("daemon");
        program.env(CONFIG, self.directory.join("config.toml"));
        program.env("NOTIFY_SOCKET", &path);
        let child = self.child.insert(program.spawn().unwrap());
        let deadline = Instant::now() + PATIENCE;
        let mut buffer = [0; 4_096];
        loop {
            let told = notices
                .recv(&mut buffer)
                .map_or(&[][..], |len| &buffer[..len]);
            if told.starts_with(b"READY=1") {
                return;
            }
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "the daemon has ended: {ended:?}");
            assert!(Instant::now() < deadline, "the daemon is not ready");
        }
    }

    /// Its control socket.
    pub fn path(&self) -> PathBuf {
        self.directory.join("control.sock")
    }

    pub fn admin(&self) -> Admin {
        Admin::at(self.path()).unwrap()
    }

    pub fn builder(&self, address: &str, contract: &str) -> Builder {
        let builder = Connection::builder().socket(self.path());
        builder.address(address).contract(contract)
    }

    pub fn open(&self, address: &str, contract: &str) -> Connection {
        self.builder(address, contract).open().unwrap()
    }

    /// Both ends of one connection.
    pub fn pair(&self, contract: &str) -> (Connection, Connection) {
        let ends = (
            self.open("a.0.100", contract),
            self.open("b.0.100", contract),
        );
        assert_eq!(ends.0.address().to_string(), "a.0.100");
        ends
    }

    /// Waits until all that `from`, a connection of `a`, was given has arrived at the other end:
    /// what is sent behind it has.
    pub fn delivers(&self, from: &Connection) {
        from.flush(PATIENCE).unwrap();
        let contract = "cbr,aal5:pcr=1000,max_sdu=40";
        let (a, b) = (self.open("a.0.99", contract), self.open("b.0.99", contract));
        a.send(b"behind").unwrap();
        b.recv_timeout(&mut [0; 40], PATIENCE).unwrap();
        for end in [a, b] {
            end.close(PATIENCE).unwrap();
        }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().unwrap())
    }

    /// All of its threads stand still until it is sent `CONT`.
    pub fn stop(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        waitpid(Some(self.pid()), WaitOptions::UNTRACED).unwrap();
    }

    /// Kills it without a word; its adapter goes on.
    pub fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Kills the adapter's process.
    pub fn kill_adapter(&self) {
        let adapter = self.adapter().expect("an adapter listens");
        kill_process(adapter, Signal::KILL).unwrap();
    }

    /// The adapter's process: the one that listens beside the daemon.
    fn adapter(&self) -> Option<Pid> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let path = SocketAddrUnix::new(self.directory.join("adapter.sock")).unwrap();
        connect(&socket, &path).ok()?;
        let pid = cellgate_host::sys::peer_credentials(&socket).unwrap().1;
        Pid::from_raw(pid.cast_signed())
    }

    /// Ends in order, and all connections and the adapter with it.
    pub fn end(&mut self) {
        let mut child = self.child.take().unwrap();
        let pid = Pid::from_child(&child);
        for signal in [Signal::TERM, Signal::CONT] {
            let _ = kill_process(pid, signal);
        }
        child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.end();
        }
        if let Some(adapter) = self.adapter() {
            let _ = kill_process(adapter, Signal::KILL);
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Waits for an indication, leaving others aside.
pub fn hears(connection: &Connection, wanted: impl Fn(&Indication) -> bool) -> Indication {
    loop {
        let told = connection.next_indication_timeout(PATIENCE).unwrap();
        if wanted(&told) {
            return told;
        }
    }
}

/// Repeats `attempt` until it gives something.
pub fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
