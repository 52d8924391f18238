use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cellgate_core::server::{CpuLaw, ServerSection};
use cellgate_shm::socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketType, sockopt};
use rustix::process::{Pid, Signal, kill_process};

use super::adapter::{AdapterSide, Told};
use super::calibration::Calibration;
use super::config::Laws;
use super::daemon::Daemon;
use super::descriptors::Descriptors;
use super::links::Links;
use super::listener::{ensure_directory, listen_at, lock, state_dir_default};
use super::privileges::{drop_to, group, user};
use super::workers::Workers;
use super::{ServeError, ServerOptions};
use crate::adapter::{AdapterProcess, allow_descriptors};
use crate::control::Hello;
use crate::sys::{
    Cpus, Duty, Signals, ThreadScheduling, activated_socket, name_thread, peer_credentials,
    take_duty,
};

/// The control socket's name in the state directory; the adapter's is shorter.
pub(super) const CONTROL_SOCKET: &str = "control.sock";

/// How long an adapter may take to start.
const START: Duration = Duration::from_secs(20);

/// How long one that was killed may take to be gone.
const END: Duration = Duration::from_secs(2);

/// What a service manager tells its service, and not the service's children.
const NOT_INHERITED: [&str; 6] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
];

/// Where a server has what.
pub(super) struct Places {
    /// The control socket; none: a service manager has made it.
    pub(super) socket: Option<PathBuf>,
    /// The state directory.
    directory: PathBuf,
    pub(super) adapter: PathBuf,
    /// The links that there are.
    links: PathBuf,
    /// All CPUs of this process.
    cpus: Cpus,
    /// The state directory is this process's.
    _lock: File,
}

/// Runs a server in the calling thread, the process's only one, until SIGTERM or SIGINT ends it
/// with all its connections, or SIGUSR1 has it leave them to a successor. SIGHUP has it read its
/// configuration again.
///
/// # Errors
/// It did not start.
pub fn serve(options: ServerOptions) -> Result<(), ServeError> {
    name_thread("cg-service");
    let (places, listener, calibration) = settle(&options)?;
    let expected = options.config.adapter_cpu(&places.cpus);
    let service = places.duty(Duty::Service, expected);
    if places.adapter.exists() {
        places.duty(Duty::TakeUp, expected);
    }
    allow_descriptors();
    let signals = Signals::listen().map_err(ServeError::of("signals"))?;
    let laws = laws(&options, &places, &calibration)?;
    let links = Links::new(options.config.port(), places.links.clone());
    let mut adapter = AdapterSide::new(links);
    let first = first_adapter(&options, &places, &mut adapter)?;
    let cpu = match &first {
        Told::Ready(hello) | Told::TakenUp(hello, ..) => hello.scheduling.pinned,
        _ => None,
    };
    let descriptors = Descriptors::of_process();
    (options.say)(&descriptors.to_string());
    let devices = descriptors.devices();
    let (workers, interrupts) = Workers::start(places.cpus.clone(), cpu, devices)?;
    let mut notes = Vec::new();
    for (thread, scheduling) in [("service", service), ("pseudo-interrupts", interrupts)] {
        (options.say)(&format!("{thread}: {scheduling}"));
        let of_thread = |note: &String| format!("{thread}: {note}");
        notes.extend(scheduling.notes.iter().map(of_thread));
    }
    let parts = (adapter, listener, signals);
    let mut daemon = Daemon::new(options, places, laws, parts, (workers, notes), &first)?;
    daemon.begin(first);
    daemon.run()
}

impl Places {
    /// How many CPUs this process may use; 0 if the kernel does not say.
    pub(super) fn cpus(&self) -> usize {
        self.cpus.count()
    }

    /// Has the calling thread do its duty on other CPUs than the adapter's.
    pub(super) fn duty(&self, duty: Duty, adapter: Option<usize>) -> ThreadScheduling {
        take_duty(duty, &self.cpus, adapter)
    }

    /// The section that would find the same places.
    pub(super) fn found(&self, section: &ServerSection) -> ServerSection {
        let text = |path: &PathBuf| path.to_str().map(str::to_owned);
        let made = self.socket.as_ref().and_then(text);
        ServerSection {
            socket: made.or_else(|| section.socket.clone()),
            state_dir: text(&self.directory),
            ..section.clone()
        }
    }
}

/// Makes the directory and the socket, and gives up what is needed for nothing else.
fn settle(options: &ServerOptions) -> Result<(Places, OwnedFd, Calibration), ServeError> {
    let config = &options.config;
    let section = &config.server;
    let becomes = section.user.as_deref().map(user).transpose();
    let becomes = becomes.map_err(ServeError::of("server.user"))?;
    let group = section.socket_group.as_deref().map(group).transpose();
    let group = group.map_err(ServeError::of("server.socket_group"))?;
    let directory = section.state_dir.as_ref().map(PathBuf::from);
    let directory = directory.unwrap_or_else(state_dir_default);
    let shown = directory.display().to_string();
    ensure_directory(&directory, becomes).map_err(ServeError::of(&*shown))?;
    let lock = lock(&directory).map_err(ServeError::of(&*shown))?;
    // Where applications look first, unless the configuration says where they shall.
    let wished = std::env::var_os("CELLGATE_SOCKET").filter(|path| !path.is_empty());
    let wished = wished
        .filter(|_| section.state_dir.is_none())
        .map(PathBuf::from);
    let socket = section.socket.as_ref().map(PathBuf::from).or(wished);
    let socket = socket.unwrap_or_else(|| directory.join(CONTROL_SOCKET));
    let (listener, made) = match activated_socket() {
        Some(listener) => {
            check_kind(&listener).map_err(ServeError::of("LISTEN_FDS"))?;
            rustix::io::ioctl_fionbio(&listener, true).map_err(ServeError::of("LISTEN_FDS"))?;
            (listener, None)
        }
        None => {
            let mode = config.mode().unwrap_or(0o600);
            let owner = (
                becomes.map(|(uid, _)| uid),
                group.or(becomes.map(|(_, gid)| gid)),
            );
            let made = listen_at(&socket, mode, owner);
            let made = made.map_err(ServeError::of(socket.display().to_string()))?;
            (made, Some(socket))
        }
    };
    let (calibration, problem) = Calibration::at(&directory.join("calibration.json"))?;
    if let Some(problem) = problem {
        (options.say)(&format!("the calibration is not kept: {problem}"));
    }
    drop_to(becomes).map_err(ServeError::of("giving privileges up"))?;
    let places = Places {
        socket: made,
        adapter: directory.join("adapter.sock"),
        links: directory.join("links.json"),
        cpus: Cpus::present(),
        _lock: lock,
        directory,
    };
    Ok((places, listener, calibration))
}

/// Whether a socket that was passed on is one that applications can come by.
fn check_kind(listener: &OwnedFd) -> std::io::Result<()> {
    let packets = sockopt::socket_type(listener)? == SocketType::SEQPACKET;
    match packets && sockopt::socket_acceptconn(listener)? {
        true => Ok(()),
        false => Err(std::io::Error::other(
            "not a listening socket of sequenced packets (ListenSequentialPacket=)",
        )),
    }
}

fn laws(
    options: &ServerOptions,
    places: &Places,
    calibration: &Calibration,
) -> Result<Laws, ServeError> {
    if let Some(why) = &calibration.without_tcp {
        (options.say)(&format!(
            "what Linux's TCP/IP costs behind a network device is not in what is admitted: {why}"
        ));
    }
    let headroom = options.config.admission.headroom_percent;
    let beside = u32::try_from(places.cpus.count()).unwrap_or(1).max(1) - 1;
    Ok(Laws {
        adapter: CpuLaw::fit(&calibration.samples, headroom)?,
        worker: CpuLaw::fit(&calibration.workers, headroom)?,
        worker_ppm: (beside * 900_000).max(100_000),
    })
}

/// The adapter that a former server has left, or a new one: what it said first.
fn first_adapter(
    options: &ServerOptions,
    places: &Places,
    adapter: &mut AdapterSide,
) -> Result<Told, ServeError> {
    if let Ok(socket) = socket::dial(&places.adapter, START) {
        adapter.begin(socket, None);
        match first_words(adapter)? {
            Told::Lost(why) => {
                let why = why.map_or_else(String::new, |why| format!(": {why}"));
                (options.say)(&format!("the adapter that was left is of no use{why}"));
            }
            told => return Ok(told),
        }
    }
    start_adapter(options, places, None, adapter)?;
    match first_words(adapter)? {
        Told::Lost(why) => Err(ServeError::Adapter(why)),
        told => Ok(told),
    }
}

fn first_words(adapter: &mut AdapterSide) -> Result<Told, ServeError> {
    let timeout = Timespec::try_from(START).ok();
    loop {
        if let Some(told) = adapter.next() {
            return Ok(told);
        }
        adapter.flush();
        let Some((fd, _)) = adapter.poll() else {
            return Ok(Told::Lost(None));
        };
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) => return Ok(Told::Lost(None)),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(ServeError::of("poll")(error)),
        }
    }
}

/// Starts an adapter in place of any other at its socket. In place of one that was taken up, it is
/// built `like` that: what it had room for has been promised.
pub(super) fn start_adapter(
    options: &ServerOptions,
    places: &Places,
    like: Option<&Hello>,
    adapter: &mut AdapterSide,
) -> Result<(), ServeError> {
    end_whoever_listens(&places.adapter);
    // There is none if the last one ended in order.
    let _ = std::fs::remove_file(&places.adapter);
    let mut program = (options.adapter)().map_err(ServeError::of("the adapter's program"))?;
    for name in NOT_INHERITED {
        program.env_remove(name);
    }
    let mut wanted = options.config.adapter_options(&places.adapter);
    if let Some(hello) = like {
        wanted.config = hello.config.clone();
        wanted.memory_max = hello.memory_max;
    }
    // It gets the CPUs of the thread that starts it.
    let own = Cpus::present();
    places.cpus.use_only();
    let started = AdapterProcess::start(program, &wanted);
    own.use_only();
    let (process, socket) = started.map_err(|error| {
        let error = std::io::Error::other(error.to_string());
        ServeError::of("the adapter's program")(error)
    })?;
    adapter.begin(socket, Some(process));
    Ok(())
}

/// An adapter that listens in this server's directory is nobody else's.
fn end_whoever_listens(path: &Path) {
    let Ok(socket) = socket::dial(path, END) else {
        return;
    };
    let pid = peer_credentials(&socket).map_or(0, |(_, pid)| pid);
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        // If it has ended meanwhile, so much the better.
        let _ = kill_process(pid, Signal::KILL);
        // Its end of this connection goes with what else it has, sockets that its successor needs.
        let timeout = Timespec::try_from(END).ok();
        let _ = poll(&mut [PollFd::new(&socket, PollFlags::IN)], timeout.as_ref());
    }
}
