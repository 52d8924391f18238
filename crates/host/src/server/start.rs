use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cellgate_core::Time;
use cellgate_core::server::governor::News;
use cellgate_core::server::{AdapterIndex, Address, CpuLaw, Disk, Former, Keeping, ServerSection};
use cellgate_shm::socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{SocketType, sockopt};
use rustix::process::{Pid, Signal, kill_process};

use super::adapters::Adapters;
use super::calibration::Calibration;
use super::config::Laws;
use super::cpu_time::{self, CpuTimes};
use super::daemon::Daemon;
use super::daemon::adapter_socket;
use super::descriptors::Descriptors;
use super::idle::IdleWatch;
use super::listener::Listener;
use super::pages::PageWatch;
use super::privileges::{drop_to, group, user};
use super::voice::Voice;
use super::workers::Workers;
use super::{ServeError, ServerOptions};
use crate::adapter::{AdapterProcess, allow_descriptors};
use crate::clock::MonotonicClock;
use crate::control::{
    Answer, Ask, ControlError, Hello, MESSAGE_MAX, Received, Reply, Request, VERSION, receive, send,
};
use crate::events::{Event, Field, Kind};
use crate::place::{Actor, Directory, Entrance, Lock, acting_as};
use crate::sys::{
    AdapterCpus, Cpus, Duty, Lack, Scheduling, Signals, ThreadScheduling, activated_socket,
    name_thread, peer_credentials, take_duty,
};

/// The control socket's name in the state directory; the adapter's is shorter.
pub(super) const CONTROL_SOCKET: &str = "control.sock";

/// How long an adapter may take to start.
const START: Duration = Duration::from_secs(20);

/// How long one that was killed may take to be gone.
const END: Duration = Duration::from_secs(2);

/// How long one may take to say who governs it.
const WORD: Duration = Duration::from_secs(1);

/// What a server measured of its machine.
const CALIBRATION: &str = "calibration.json";
const CALIBRATION_MAX: u64 = 1 << 24;

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
    /// The state directory.
    pub(super) directory: Directory,
    /// It is this process's.
    pub(super) lock: Lock,
    /// What was known of the server before.
    former: Former,
    pub(super) calibration: Keeping,
    /// What is kept there.
    measured: Calibration,
    /// The numbers of threads that have CPU time reserved, and those that another server has left.
    pub(super) reserved: Keeping,
    reserved_left: Vec<u8>,
    /// All CPUs of this process.
    cpus: Cpus,
}

/// Runs a server in the calling thread, the process's only one, until SIGTERM or SIGINT ends it
/// with all its connections, or SIGUSR1 has it leave them to a successor. SIGHUP has it read its
/// configuration again.
///
/// # Errors
/// It did not start.
pub fn serve(options: ServerOptions) -> Result<(), ServeError> {
    name_thread("cg-service");
    let (places, listener) = settle(&options)?;
    let sockets = options.config.adapters.iter();
    let mut sockets = sockets.map(|one| places.socket(one.name.as_deref()));
    let there = sockets.any(|socket| socket.exists());
    let expected = options.config.adapter_cpus(&places.cpus, there);
    let service = places.duty(Duty::Service, &expected);
    if there {
        places.duty(Duty::TakeUp, &expected);
    }
    let mut voice = Voice::start(options.log.clone()).map_err(ServeError::of("threads"))?;
    allow_descriptors();
    let signals = Signals::listen().map_err(ServeError::of("signals"))?;
    let laws = laws(&options, &mut voice, &places)?;
    let watch = |_| PageWatch::start(places.cpus.clone()).map_err(ServeError::of("pages"));
    let pages = options.config.adapters.iter().map(watch);
    let pages = pages.collect::<Result<_, _>>()?;
    let mut adapters = Adapters::new(pages, options.config.port());
    end_leftovers(&options, &places, &mut voice)?;
    let first = first_words_of_all(&options, &mut voice, &places, &mut adapters)?;
    let descriptors = Descriptors::of_process();
    voice.say(Event::of(Kind::DescriptorsFit, descriptors.to_string()));
    let devices = descriptors.devices();
    let (workers, interrupts) = Workers::start(places.cpus.clone(), adapters.cpus(), devices)?;
    let cpu_times = CpuTimes::new(places.cpus.clone(), &places.reserved_left);
    let idle = IdleWatch::new(places.cpus.clone()).map_err(ServeError::of("idle CPUs"))?;
    let mut notes = Vec::new();
    for (thread, scheduling) in [("service", service), ("pseudo-interrupts", interrupts)] {
        let text = format!("{thread}: {scheduling}");
        voice.say(Event::of(Kind::ThreadScheduled, text).with(Field::Thread, thread));
        let of_thread = |note: &String| format!("{thread}: {note}");
        notes.extend(scheduling.notes.iter().map(of_thread));
    }
    let parts = (adapters, listener, signals);
    let mut daemon = Daemon::new(
        (options, voice),
        places,
        laws,
        parts,
        (workers, cpu_times, idle, notes),
        &first,
    )?;
    daemon.begin(first);
    daemon.run()
}

impl Places {
    /// How many CPUs this process may use; 0 if the kernel does not say.
    pub(super) fn cpus(&self) -> usize {
        self.cpus.count()
    }

    /// Has the calling thread do its duty on other CPUs than the adapters'.
    pub(super) fn duty(&self, duty: Duty, adapters: &AdapterCpus) -> ThreadScheduling {
        take_duty(duty, &self.cpus, adapters)
    }

    /// Where the adapter of this name listens.
    fn socket(&self, name: Option<&str>) -> PathBuf {
        self.directory.path().join(adapter_socket(name))
    }

    /// Keeps what an adapter has measured of its CPU.
    pub(super) fn keep_wake_up(&mut self, now: Time, scheduling: &Scheduling) {
        let (Some(cpu), Some(wake_up)) = (scheduling.pinned, scheduling.wake_up) else {
            return;
        };
        if self.measured.wake_ups.insert(cpu, wake_up) != Some(wake_up) {
            self.calibration.keep(now, self.measured.octets());
        }
    }

    /// The section that would find the same places.
    pub(super) fn found(&self, section: &ServerSection, made: Option<&Path>) -> ServerSection {
        let text = |path: &Path| path.to_str().map(str::to_owned);
        let made = made.and_then(text);
        ServerSection {
            socket: made.or_else(|| section.socket.clone()),
            state_dir: text(self.directory.path()),
            ..section.clone()
        }
    }
}

/// Makes the directory and the socket, and gives up what is needed for nothing else.
fn settle(options: &ServerOptions) -> Result<(Places, Listener), ServeError> {
    let config = &options.config;
    let section = &config.server;
    let becomes = section.user.as_deref().map(user).transpose();
    let becomes = becomes.map_err(ServeError::of("server.user"))?;
    let group = section.socket_group.as_deref().map(group).transpose();
    let group = group.map_err(ServeError::of("server.socket_group"))?;
    let path = config.state_dir();
    let shown = path.display().to_string();
    let mut directory = Directory::make(&path, becomes).map_err(ServeError::of(&*shown))?;
    let actor = becomes.map(|(uid, gid)| Actor {
        uid,
        gid,
        anywhere: false,
    });
    let taken = acting_as(actor, || {
        let (lock, former) = Lock::take(&directory)?;
        let kept = directory.read(CALIBRATION, CALIBRATION_MAX);
        let reserved = directory.read(cpu_time::NAMES, cpu_time::NAMES_MAX);
        let kept = [kept, reserved].map(Result::unwrap_or_default);
        Ok((lock, former, kept))
    });
    let (lock, former, [kept, reserved_left]) = taken.map_err(ServeError::of(&*shown))?;
    let socket = config.control_socket();
    let listener = match activated_socket().map_err(ServeError::of("LISTEN_FDS"))? {
        Some(listener) => {
            check_kind(&listener).map_err(ServeError::of("LISTEN_FDS"))?;
            rustix::io::ioctl_fionbio(&listener, true).map_err(ServeError::of("LISTEN_FDS"))?;
            Listener::Passed(listener)
        }
        None => {
            let mode = config.mode().unwrap_or(0o600);
            let owner = (
                becomes.map(|(uid, _)| uid),
                group.or(becomes.map(|(_, gid)| gid)),
            );
            let made = Entrance::make(&socket, mode, owner).or_else(|error| {
                // What a former server has left need not wait until the disk is mended.
                match is_of_disk(&error) && former != Former::Ended {
                    true => Entrance::later(&socket, mode, owner),
                    false => Err(error),
                }
            });
            Listener::Made(made.map_err(ServeError::of(socket.display().to_string()))?)
        }
    };
    let (calibration, new) = Calibration::of(&kept)?;
    drop_to(becomes, group).map_err(ServeError::of("giving privileges up"))?;
    let mut keeping = Keeping::new(CALIBRATION);
    if new {
        let now = MonotonicClock.now();
        keeping.keep(now, calibration.octets());
        keeping.look(now, &mut directory);
    }
    let places = Places {
        cpus: Cpus::present(),
        lock,
        former,
        calibration: keeping,
        measured: calibration,
        reserved: Keeping::new(cpu_time::NAMES),
        reserved_left,
        directory,
    };
    Ok((places, listener))
}

/// Whether it is the disk's fault that something cannot be made.
fn is_of_disk(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let kinds = [QuotaExceeded, ReadOnlyFilesystem, StorageFull];
    kinds.contains(&error.kind()) || error.raw_os_error() == Some(Errno::IO.raw_os_error())
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

fn laws(options: &ServerOptions, voice: &mut Voice, places: &Places) -> Result<Laws, ServeError> {
    let calibration = &places.measured;
    if let Some(why) = &calibration.without_tcp {
        let what = format!("what Linux's TCP/IP costs is not measured ({why})");
        let text = Lack::Devices.note(what);
        voice.say(Event::of(Kind::TcpCostUnknown, text).with(Field::Reason, &**why));
    }
    let headroom = options.config.admission.headroom_percent;
    let beside = u32::try_from(places.cpus.count()).unwrap_or(1).max(1) - 1;
    Ok(Laws {
        adapter: CpuLaw::fit(&calibration.samples, headroom)?,
        worker: CpuLaw::fit(&calibration.workers, headroom)?,
        worker_ppm: (beside * 900_000).max(100_000),
    })
}

/// The adapters that a former server has left, or new ones: what each said first.
fn first_words_of_all(
    options: &ServerOptions,
    voice: &mut Voice,
    places: &Places,
    adapters: &mut Adapters,
) -> Result<Vec<News>, ServeError> {
    // All of them start, or tell what they have, at the same time.
    let mut left = Vec::new();
    for adapter in adapters.indices() {
        let socket = adapter_left(&places.socket(options.config.adapter_name(adapter)), places);
        left.push(socket.is_some());
        match socket {
            Some(socket) => adapters.begin(adapter, socket, None),
            None => start_adapter(options, places, adapter, None, adapters)?,
        }
    }
    let mut all = Vec::new();
    for (adapter, left) in adapters.indices().zip(left) {
        let told = match first_words(adapters, adapter)? {
            News::Lost(why @ Some(ControlError::Governed { .. })) if left => {
                return Err(ServeError::Adapter(why));
            }
            News::Lost(why) if left => {
                let text = "the adapter that was left is of no use";
                let event = Event::because(Kind::AdapterLeftUseless, text, why);
                voice.say(event.with_any(Field::Adapter, options.config.adapter_name(adapter)));
                start_adapter(options, places, adapter, None, adapters)?;
                first_words(adapters, adapter)?
            }
            told => told,
        };
        match told {
            News::Lost(why) => return Err(ServeError::Adapter(why)),
            told => all.push(told),
        }
    }
    Ok(all)
}

/// Ends adapters that a former server had and the configuration does not name any more.
fn end_leftovers(
    options: &ServerOptions,
    places: &Places,
    voice: &mut Voice,
) -> Result<(), ServeError> {
    let wanted: Vec<_> = (options.config.adapters.iter())
        .map(|adapter| places.socket(adapter.name.as_deref()))
        .collect();
    let found = std::fs::read_dir(places.directory.path());
    for entry in found.into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let is_socket = name.to_str().is_some_and(is_adapter_socket);
        if is_socket && !wanted.contains(&path) && end_whoever_listens(&path, None)? {
            // Nobody listens there any more.
            let _ = std::fs::remove_file(&path);
            let path = path.display().to_string();
            let text = format!("{path}: ended, as the configuration has no such adapter");
            voice.say(Event::of(Kind::LeftoverEnded, text).with(Field::Path, path));
        }
    }
    Ok(())
}

/// Whether a file of the state directory is where an adapter listens.
pub(crate) fn is_adapter_socket(name: &str) -> bool {
    let rest = name
        .strip_prefix("adapter")
        .and_then(|rest| rest.strip_suffix(".sock"));
    let named = |rest: &str| {
        rest.strip_prefix('-')
            .is_some_and(Address::is_interface_name)
    };
    rest.is_some_and(|rest| rest.is_empty() || named(rest))
}

/// Dials an adapter that a former server has left. One whose socket somebody has removed makes it
/// again in a while, as soon as the disk has room; where something else lies, neither it nor
/// another can.
fn adapter_left(at: &Path, places: &Places) -> Option<OwnedFd> {
    let patience = Duration::from_nanos(places.former.patience_ns());
    let begun = Instant::now();
    let mut from = begun;
    loop {
        match socket::dial(at, START) {
            Ok(socket) => return Some(socket),
            Err(_) if patience.is_zero() || is_taken(at, places) => return None,
            Err(_) if begun.elapsed() < START && !places.directory.has_room() => {
                from = Instant::now();
            }
            Err(_) if from.elapsed() >= patience => return None,
            Err(_) => {}
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether what has the name of the adapter's socket is none.
fn is_taken(at: &Path, places: &Places) -> bool {
    let name = at.file_name();
    let found = name.and_then(|name| places.directory.find(name).ok().flatten());
    found.is_some_and(|found| FileType::from_raw_mode(found.st_mode) != FileType::Socket)
}

fn first_words(adapters: &mut Adapters, adapter: AdapterIndex) -> Result<News, ServeError> {
    let timeout = Timespec::try_from(START).ok();
    loop {
        if let Some(told) = adapters.next_of(adapter) {
            return Ok(told);
        }
        adapters.flush();
        let Some(fd) = adapters.poll_one(adapter) else {
            return Ok(News::Lost(None));
        };
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) => return Ok(News::Lost(None)),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(ServeError::of("poll")(error)),
        }
    }
}

/// Starts an adapter in place of any other at its socket, unless another server governs that. In
/// place of one that was taken up, it is built `like` that: what it had room for has been promised.
pub(super) fn start_adapter(
    options: &ServerOptions,
    places: &Places,
    adapter: AdapterIndex,
    like: Option<&Hello>,
    adapters: &mut Adapters,
) -> Result<(), ServeError> {
    let socket = places.socket(options.config.adapter_name(adapter));
    end_whoever_listens(&socket, like.map(|hello| hello.pid))?;
    let mut program =
        (options.adapter)(options.log.form()).map_err(ServeError::of("the adapter's program"))?;
    for name in NOT_INHERITED {
        program.env_remove(name);
    }
    let mut wanted = options.config.adapter_options(adapter, &socket);
    wanted.wake_ups.clone_from(&places.measured.wake_ups);
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
    adapters.begin(adapter, socket, Some(process));
    Ok(())
}

/// An adapter that listens in this server's directory is nobody else's, unless it says so. What
/// was this server's `own` is not asked: it may be silent. Whether there was one.
fn end_whoever_listens(path: &Path, own: Option<u32>) -> Result<bool, ServeError> {
    let Ok(socket) = socket::dial(path, END) else {
        return Ok(false);
    };
    let pid = peer_credentials(&socket).map_or(0, |(_, pid)| pid);
    let others = |pid: &u32| *pid != std::process::id();
    if own != Some(pid)
        && let Some(pid) = governor_of(&socket).filter(others)
    {
        return Err(ServeError::Adapter(Some(ControlError::Governed { pid })));
    }
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        // If it has ended meanwhile, so much the better.
        let _ = kill_process(pid, Signal::KILL);
        // Its end of this connection goes with what else it has, sockets that its successor needs.
        is_readable(&socket, END);
    }
    Ok(true)
}

/// Who governs an adapter, if it says so in time.
fn governor_of(socket: &OwnedFd) -> Option<u32> {
    let ask = Ask::Hello { version: VERSION };
    let hello = serde_json::to_vec(&Request { id: 1, ask }).ok()?;
    send(socket, &hello, &[], false).ok()?;
    if !is_readable(socket, WORD) {
        return None;
    }
    let mut buffer = vec![0; MESSAGE_MAX];
    let Ok(Received::Message(len, _)) = receive(socket, &mut buffer, false) else {
        return None;
    };
    match serde_json::from_slice::<Reply>(&buffer[..len]).ok()?.result {
        Ok(Answer::Hello(hello)) => hello.governor,
        _ => None,
    }
}

/// Whether there is something to read, or the end of it, in time.
fn is_readable(socket: &OwnedFd, patience: Duration) -> bool {
    let timeout = Timespec::try_from(patience).ok();
    let found = poll(&mut [PollFd::new(socket, PollFlags::IN)], timeout.as_ref());
    found.is_ok_and(|found| found > 0)
}
