//! The daemon as a process, applications of the client library, and some that speak JSON.

use cellgate_core::adapter::Marks;
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cellgate::{Admin, Builder, Connection};
use cellgate_core::server::{
    Confirm, FromClient, FromServer, HeaderForm, Indication, InterfaceSpec, Link, Open, Opened,
    Priority, Refused, Request, Response, VERSION,
};
use cellgate_host::events::Log;
use cellgate_host::server::{Config, ServerOptions, serve};
use cellgate_shm::socket::{MESSAGE_MAX, Received, receive, send};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, Signal, kill_process};

use super::raw::{Parts, RawVc};
use super::{PATIENCE, ROLE, in_role};

#[path = "../../../../client/tests/common/state.rs"]
mod state;

pub const PATH: &str = "CELLGATE_TEST_PATH";

/// This executable as a daemon or an adapter.
pub fn program(role: &str) -> Command {
    let mut program = in_role(module_path!(), role);
    program.stdin(Stdio::null());
    program
}

/// No test by itself: what the processes do that the tests start.
#[test]
fn plays_its_role() {
    play();
}

/// The life of a process that [`program`] started as a daemon or an adapter.
pub fn play() -> bool {
    match std::env::var(ROLE).as_deref() {
        Ok("adapter") => cellgate_host::adapter::run_as_child().unwrap(),
        Ok("daemon") => {
            let path = PathBuf::from(std::env::var_os(PATH).unwrap());
            let text = std::fs::read_to_string(&path).unwrap();
            serve(ServerOptions {
                config: Config::parse(&text).unwrap(),
                path: Some(path),
                adapter: |_| {
                    let mut program = program("adapter");
                    program.stderr(Stdio::inherit());
                    Ok(program)
                },
                log: Log::saying(|line| eprintln!("{line}")),
            })
            .unwrap();
        }
        _ => return false,
    }
    true
}

/// A daemon with a directory of its own; the adapter ends with it.
pub struct Daemon {
    child: RefCell<Option<Child>>,
    pub directory: PathBuf,
    line: String,
    /// Its adapters' names; none: it has one.
    adapters: Vec<String>,
}

impl Daemon {
    /// Of a name that no other test of this process has. `more` is appended to the configuration.
    pub fn start(name: &str, more: &str) -> Self {
        Self::start_as(name, "", more)
    }

    /// The same with another line in the section of the server.
    pub fn start_as(name: &str, line: &str, more: &str) -> Self {
        Self::begin(name, line, &[], more)
    }

    /// The same with adapters of these names.
    pub fn start_with(name: &str, adapters: &[&str], more: &str) -> Self {
        Self::begin(name, "", adapters, more)
    }

    fn begin(name: &str, line: &str, adapters: &[&str], more: &str) -> Self {
        let directory = directory(name);
        std::fs::create_dir_all(&directory).unwrap();
        state::write(&directory, &state::calibration());
        let mut daemon = Self {
            child: RefCell::new(None),
            directory,
            line: line.to_owned(),
            adapters: Vec::new(),
        };
        daemon.has(adapters);
        daemon.configure(more);
        daemon.restart();
        daemon
    }

    /// Its next configuration has these adapters.
    pub fn has(&mut self, adapters: &[&str]) {
        self.adapters = adapters.iter().map(|name| (*name).to_owned()).collect();
    }

    /// One that `program` is, with this directory.
    pub fn of(directory: PathBuf, mut program: Command) -> Self {
        let child = RefCell::new(Some(program.spawn().unwrap()));
        drop(program);
        let line = String::new();
        Self {
            child,
            directory,
            line,
            adapters: Vec::new(),
        }
    }

    /// Writes another configuration.
    pub fn configure(&self, more: &str) {
        const ADAPTER: &str = "pin = false\nnice = 0\nlock_memory = false\nidle = \"sleep\"\n\
                               vcs = 128\nports = 4\nport_cells = 4096\n";
        let several = self.adapters.iter();
        let several = several.map(|name| format!("[[adapter]]\nname = {name:?}\n{ADAPTER}"));
        let adapters = match self.adapters.is_empty() {
            true => format!("[adapter]\n{ADAPTER}"),
            false => several.collect(),
        };
        let text = format!(
            "[server]\nstate_dir = {:?}\n{}\n{adapters}{more}",
            self.directory.to_str().unwrap(),
            self.line
        );
        std::fs::write(self.directory.join("config.toml"), text).unwrap();
    }

    /// Starts a daemon where there is none.
    pub fn restart(&mut self) {
        assert!(self.child.get_mut().is_none());
        let mut program = program("daemon");
        program.env(PATH, self.directory.join("config.toml"));
        *self.child.get_mut() = Some(program.spawn().unwrap());
    }

    pub fn pid(&self) -> u32 {
        self.child.borrow().as_ref().unwrap().id()
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal);
    }

    /// Kills it without a word.
    pub fn kill(&mut self) {
        let mut child = self.child.get_mut().take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Waits until it has ended in order.
    pub fn wait(&mut self) {
        let mut child = self.child.get_mut().take().unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// The adapter's process.
    pub fn adapter(&self) -> u32 {
        listens_at(&self.directory.join("adapter.sock")).expect("an adapter listens")
    }

    /// The process of the adapter of this name; none: nobody listens.
    pub fn adapter_named(&self, name: &str) -> Option<u32> {
        listens_at(&self.directory.join(format!("adapter-{name}.sock")))
    }

    /// Connects and says hello, as soon as somebody answers.
    pub fn connect(&self) -> Application {
        let deadline = Instant::now() + PATIENCE;
        let path = self.directory.join("control.sock");
        loop {
            if let Ok(socket) = dial(&path) {
                let mut application = Application::new(socket);
                let hello = application.ask(Request::Hello { version: VERSION });
                assert!(matches!(hello, Ok(Confirm::Hello { .. })), "{hello:?}");
                return application;
            }
            let mut child = self.child.borrow_mut();
            let ended = child.as_mut().and_then(|child| child.try_wait().unwrap());
            assert!(ended.is_none(), "the daemon has ended: {ended:?}");
            assert!(
                Instant::now() < deadline,
                "nobody listens at {}",
                path.display()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asks through the library, as soon as somebody answers.
    pub fn admin(&self) -> Admin {
        drop(self.connect());
        Admin::at(self.directory.join("control.sock")).unwrap()
    }

    /// Opens a connection through the library, as soon as somebody answers.
    pub fn open(&self, address: &str, contract: &str) -> Connection {
        drop(self.connect());
        self.builder(address, contract).open().unwrap()
    }

    /// A connection of the library.
    pub fn builder(&self, address: &str, contract: &str) -> Builder {
        let builder = Connection::builder().socket(self.directory.join("control.sock"));
        let builder = builder.address(address).contract(contract);
        builder.transmit_pdus(16).receive_pdus(64)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.get_mut().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let found = std::fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        let sockets = found.filter(|entry| {
            let name = entry.file_name();
            name.to_str()
                .is_some_and(|name| name.starts_with("adapter"))
        });
        for pid in sockets.filter_map(|entry| listens_at(&entry.path())) {
            kill(pid, Signal::KILL);
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Of a name that no other test of this process has.
fn directory(name: &str) -> PathBuf {
    let name = format!("cellgate-{name}-{}", std::process::id());
    std::env::temp_dir().join(name)
}

/// The process that listens at a socket.
fn listens_at(path: &Path) -> Option<u32> {
    let socket = dial(path).ok()?;
    Some(cellgate_host::sys::peer_credentials(&socket).unwrap().1)
}

pub fn kill(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).unwrap();
    let _ = kill_process(pid, signal);
}

pub fn dial(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Sends an SDU, and receives it at the other end, or at the same.
pub fn crosses(from: &Connection, to: &Connection, sdu: &[u8]) {
    let mut buffer = [0; 2_000];
    from.send(sdu).unwrap();
    let received = to.recv_timeout(&mut buffer, PATIENCE).unwrap();
    assert_eq!(&buffer[..received.len], sdu);
}

/// Waits for an indication, leaving others aside; the connection goes on.
pub fn hears(connection: &Connection, wanted: impl Fn(&Indication) -> bool) {
    loop {
        let told = connection.next_indication_timeout(PATIENCE).unwrap();
        if wanted(&told) {
            return;
        }
        assert!(!matches!(told, Indication::Ended(_)), "{told:?}");
    }
}

/// The names of the interfaces.
pub fn interface_names(admin: &mut Admin) -> Vec<String> {
    let all = admin.interfaces().unwrap().into_iter();
    all.map(|info| info.spec.name).collect()
}

/// An interface that receives what it sends.
pub fn own_peer(name: &str) -> InterfaceSpec {
    InterfaceSpec {
        adapter: None,
        name: name.to_owned(),
        link: Link::peer(name),
        form: HeaderForm::Nni,
        priority: Priority::Normal,
        line_rate: None,
        line: None,
    }
}

/// The end of a control socket of an application that says what no library does, or looks at what
/// none shows.
pub struct Application {
    pub socket: OwnedFd,
    last_id: u64,
    buffer: Vec<u8>,
    /// What came while something else was waited for.
    early: Vec<(FromServer, Vec<OwnedFd>)>,
}

impl Application {
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            last_id: 0,
            buffer: vec![0; MESSAGE_MAX],
            early: Vec::new(),
        }
    }

    /// Asks and waits for the Confirm.
    pub fn ask(&mut self, request: Request) -> Result<Confirm, Refused> {
        self.ask_with(request, &[]).0
    }

    /// The same with descriptors either way.
    pub fn ask_with(
        &mut self,
        request: Request,
        fds: &[BorrowedFd<'_>],
    ) -> (Result<Confirm, Refused>, Vec<OwnedFd>) {
        let id = self.say(request, fds);
        self.wait_for(|message| match message {
            FromServer::Confirm { id: of, result, .. } if *of == id => Some(result.clone()),
            _ => None,
        })
    }

    /// Asks without waiting: the request's number.
    pub fn say(&mut self, request: Request, fds: &[BorrowedFd<'_>]) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(
            &FromClient::Request {
                connection: 0,
                id,
                request,
            },
            fds,
        );
        id
    }

    fn send(&self, message: &FromClient, fds: &[BorrowedFd<'_>]) {
        let octets = serde_json::to_vec(message).unwrap();
        send(&self.socket, &octets, fds, true).unwrap();
    }

    /// Opens a connection and its memory.
    pub fn open(&mut self, open: Open) -> Result<(Opened, RawVc), Refused> {
        let (result, fds) = self.ask_with(Request::Open(open), &[]);
        let Confirm::Opened(opened) = result? else {
            panic!("opened");
        };
        let vc = raw(&opened, fds);
        Ok((opened, vc))
    }

    /// Waits for an Indication like this, and its descriptors.
    pub fn indication<T>(&mut self, like: impl Fn(&Indication) -> Option<T>) -> (T, Vec<OwnedFd>) {
        self.wait_for(|message| match message {
            FromServer::Indication { indication, .. } => like(indication),
            FromServer::Confirm { .. } => None,
        })
    }

    fn wait_for<T>(&mut self, like: impl Fn(&FromServer) -> Option<T>) -> (T, Vec<OwnedFd>) {
        let mut found = self.early.iter().enumerate();
        if let Some((at, found)) = found.find_map(|(at, (m, _))| Some((at, like(m)?))) {
            return (found, self.early.remove(at).1);
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (message, fds) = self.next(deadline).expect("the server has hung up");
            match like(&message) {
                Some(found) => return (found, fds),
                None => self.early.push((message, fds)),
            }
        }
    }

    /// The next message; none: the server has hung up.
    pub fn next(&mut self, deadline: Instant) -> Option<(FromServer, Vec<OwnedFd>)> {
        loop {
            match receive(&self.socket, &mut self.buffer, false) {
                Ok(Received::Message(len, fds)) => {
                    let octets = &self.buffer[..len];
                    let message = serde_json::from_slice(octets).unwrap_or_else(|error| {
                        panic!("{error}: {}", String::from_utf8_lossy(octets))
                    });
                    if let FromServer::Indication {
                        id,
                        indication: Indication::Restarted,
                        ..
                    } = message
                    {
                        let response = Response::Heard;
                        self.send(
                            &FromClient::Response {
                                connection: 0,
                                id,
                                response,
                            },
                            &[],
                        );
                    }
                    return Some((message, fds));
                }
                Ok(Received::Closed(_)) => return None,
                Err(Errno::AGAIN) => {}
                other => panic!("{other:?}"),
            }
            assert!(Instant::now() < deadline, "the server says nothing");
            let tick = Timespec {
                tv_sec: 0,
                tv_nsec: 10_000_000,
            };
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            let _ = poll(&mut fds, Some(&tick));
        }
    }
}

/// The memory of an open connection.
pub fn raw(opened: &Opened, fds: Vec<OwnedFd>) -> RawVc {
    let parts = Parts {
        vc: opened.vc,
        sizes: opened.sizes,
        files_generation: opened.files_generation,
        attachment: opened.attachment,
        attachment_sizes: opened.attachment_sizes,
        attachment_generation: opened.attachment_generation,
    };
    RawVc::new(&parts, fds)
}

/// A connection to open at `address`.
pub fn open(address: &str, contract: &str) -> Open {
    Open {
        marks: Marks::None,
        address: address.parse().unwrap(),
        contract: contract.to_owned(),
        notification: None,
        transmit_pdus: Some(16),
        receive_pdus: Some(64),
        queue_threshold: None,
        completions: false,
        receive_into: None,
    }
}

/// What a poll of the socket says: it is open and has nothing to read.
pub fn is_quiet(socket: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&socket, PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut fds, Some(&at_once)).unwrap() == 0
}
