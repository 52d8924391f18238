//! A service manager's part, played by hand: readiness, reloads, the watchdog, a socket passed on.

use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::daemon::copy_command;
use cellgate::Admin;
use rustix::fs::OFlags;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use rustix::process::{Pid, Signal, kill_process};

/// Long enough for anything on a busy machine; reached only by a failing test.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the watchdog must be fed.
const WATCHDOG: Duration = Duration::from_millis(400);

/// Holds the thread of this number (PTRACE_SEIZE, PTRACE_INTERRUPT) until its input ends.
const HOLD: &str = "\
import ctypes, sys
ptrace = ctypes.CDLL(None).ptrace
thread = int(sys.argv[1])
if ptrace(0x4206, thread, None, None) == 0 and ptrace(0x4207, thread, None, None) == 0:
    print('held', flush=True)
    sys.stdin.read()
";

/// A service manager: a directory, and the socket that its services tell it things by.
struct Manager {
    directory: PathBuf,
    notified: UnixDatagram,
}

impl Manager {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cellgate-systemd-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).expect("a directory");
        let notified = UnixDatagram::bind(directory.join("notify")).expect("a socket");
        Self {
            directory,
            notified,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn configuration(&self) -> String {
        let state = self.path("state");
        format!(
            "[server]\nstate_dir = {state:?}\n[adapter]\npin = false\nnice = 0\n\
             lock_memory = false\nidle = \"sleep\"\nports = 2\n\
             [[interface]]\nname = \"x\"\nlink.memory.peer = \"x\"\n\
             [[connection]]\naddress = \"0.40\"\ncontract = \"aal5,cbr:pcr=1000,max_sdu=100\"\n"
        )
    }

    /// A service in whose environment `more` is.
    fn service(&self, more: &[(&str, &str)], listener: Option<OwnedFd>) -> Service {
        let (reader, writer) = io::pipe().expect("a pipe");
        let mut service = self.unheard(more, listener, writer);
        service.said = Some(read(reader));
        service
    }

    /// One whose words go into this pipe.
    fn unheard(
        &self,
        more: &[(&str, &str)],
        listener: Option<OwnedFd>,
        words: PipeWriter,
    ) -> Service {
        let config = self.path("cellgate.toml");
        if !config.exists() {
            fs::write(&config, self.configuration()).expect("a file");
        }
        // What is passed on is descriptor 3; the process that it is for is named by its number.
        let script = match listener {
            Some(_) => {
                "if [ $LISTEN_FDS = 2 ]; then exec 4<&0 3</dev/null; else exec 3<&0; fi; \
                 LISTEN_PID=${WHOSE:-$$} exec \"$0\" \"$@\" 0</dev/null"
            }
            None => "exec \"$0\" \"$@\"",
        };
        let mut command = Command::new("sh");
        command
            .args(["-c", script, env!("CARGO_BIN_EXE_cellgate"), "serve", "-c"])
            .arg(&config)
            .env("NOTIFY_SOCKET", self.path("notify"))
            .envs(more.iter().copied())
            .stdin(listener.map_or_else(Stdio::null, Stdio::from))
            .stderr(words);
        let child = command.spawn().expect("a shell");
        Service { child, said: None }
    }

    /// The next thing that a service tells; none: it tells nothing for so long.
    fn told(&self, patience: Duration) -> Option<String> {
        self.notified
            .set_read_timeout(Some(patience))
            .expect("a time");
        let mut octets = [0; 4_096];
        let len = self.notified.recv(&mut octets).ok()?;
        Some(String::from_utf8_lossy(&octets[..len]).into_owned())
    }

    /// Waits until a service tells `what`.
    fn await_told(&self, what: &str) {
        loop {
            let told = self.told(PATIENCE);
            let told = told.unwrap_or_else(|| panic!("{what} is not told"));
            if told.lines().any(|line| line == what) {
                return;
            }
        }
    }

    fn socket(&self) -> PathBuf {
        self.path("state/control.sock")
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Reads to the end.
fn read(words: PipeReader) -> JoinHandle<String> {
    std::thread::spawn(move || io::read_to_string(words).unwrap_or_default())
}

/// Writes until there is no more room; whoever else writes there waits.
fn fill(words: &PipeWriter) {
    let again = format!("/proc/self/fd/{}", words.as_raw_fd());
    let flags = OFlags::NONBLOCK.bits() as i32;
    let options = File::options().write(true).custom_flags(flags).open(again);
    let mut again = options.expect("a pipe");
    for len in [4_096, 1] {
        while again.write(&[b'\n'; 4_096][..len]).is_ok() {}
    }
}

struct Service {
    child: Child,
    said: Option<JoinHandle<String>>,
}

impl Service {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Ends it; what it has said.
    fn end(mut self) -> String {
        self.signal(Signal::TERM);
        assert!(self.child.wait().expect("a child").success());
        let said = self.said.take().expect("it is asked once");
        said.join().expect("it does not panic")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // Without it its adapter would stay.
            self.signal(Signal::CONT);
            self.signal(Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

/// Addresses of the connections there.
fn connections(socket: &Path) -> Vec<String> {
    let mut admin = Admin::at(socket).expect("the daemon is there");
    let all = admin.list().expect("a list");
    all.iter().map(|info| info.address.to_string()).collect()
}

#[test]
fn ready_is_told_when_all_is_there_and_reloads_begin_and_end() {
    let manager = Manager::new();
    let service = manager.service(&[], None);
    manager.await_told("READY=1");
    assert_eq!(connections(&manager.socket()), ["x.0.40"]);
    let more = "[[connection]]\naddress = \"0.41\"\ncontract = \"aal5,cbr:pcr=1,max_sdu=100\"\n";
    let config = manager.configuration() + more;
    fs::write(manager.path("cellgate.toml"), config).expect("a file");
    service.signal(Signal::HUP);
    manager.await_told("RELOADING=1");
    manager.await_told("READY=1");
    assert_eq!(connections(&manager.socket()), ["x.0.40", "x.0.41"]);
    service.end();
    manager.await_told("STOPPING=1");
    // Nobody feeds a watchdog that there is not.
    assert_eq!(manager.told(Duration::from_millis(1)), None);
}

#[test]
fn what_is_missing_is_told_and_asked_for_again_until_it_is_there() {
    let manager = Manager::new();
    let holder = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let local = holder.local_addr().expect("it is bound");
    let more = format!(
        "[[interface]]\nname = \"wan\"\n[interface.link.udp]\nlocal = \"{local}\"\n\
         peer = \"127.0.0.1:9\"\nlabel_out = 16\nlabel_in = 16\nmtu = 1500\n\
         [[connection]]\naddress = \"wan.0.41\"\ncontract = \"ubr\"\n"
    );
    let config = manager.configuration().replace("\"0.40", "\"x.0.40") + &more;
    fs::write(manager.path("cellgate.toml"), config).expect("a file");
    let service = manager.service(&[], None);
    let ready = manager.told(PATIENCE).expect("it is ready");
    let status = "STATUS=missing: connection wan.0.41: no such interface; interface wan: ";
    assert!(
        ready.contains("READY=1\n") && ready.contains(status),
        "{ready}"
    );
    assert_eq!(
        connections(&manager.socket()),
        ["x.0.40"],
        "others are served"
    );
    drop(holder);
    manager.await_told("STATUS=all of the configuration is there");
    assert_eq!(connections(&manager.socket()), ["x.0.40", "wan.0.41"]);
    let said = service.end();
    for (what, times) in [
        ("interface wan: ", 2),
        ("connection wan.0.41: ", 2),
        (": is there", 2),
    ] {
        assert_eq!(said.matches(what).count(), times, "{said}");
    }
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn the_watchdog_is_fed_until_the_service_thread_hangs() {
    let manager = Manager::new();
    let interval = WATCHDOG.as_micros().to_string();
    let service = manager.service(&[("WATCHDOG_USEC", &interval)], None);
    manager.await_told("READY=1");
    for _ in 0..5 {
        manager.await_told("WATCHDOG=1");
    }
    // A debugger holds the service thread, which is the process's first; the others go on.
    let mut holder = Command::new("python3");
    holder.args(["-c", HOLD, &service.child.id().to_string()]);
    let holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let held = holder.and_then(|mut holder| {
        let mut word = [0; 5];
        let out = holder.stdout.as_mut().expect("a pipe");
        out.read_exact(&mut word).map(|()| holder)
    });
    match held {
        Ok(mut holder) => {
            println!("ran watchdog_of_a_thread_that_hangs");
            while manager.told(WATCHDOG).is_some() {}
            assert_eq!(manager.told(10 * WATCHDOG), None, "it does not hang");
            drop(holder.stdin.take());
            holder.wait().expect("its end");
        }
        Err(error) => println!("skipped watchdog_of_a_thread_that_hangs: {error}"),
    }
    manager.await_told("WATCHDOG=1");
    service.end();
}

#[test]
fn who_does_not_read_the_log_does_not_starve_the_watchdog() {
    let manager = Manager::new();
    let interval = WATCHDOG.as_micros().to_string();
    let (reader, writer) = io::pipe().expect("a pipe");
    let words = writer.try_clone().expect("a descriptor");
    let mut service = manager.unheard(&[("WATCHDOG_USEC", &interval)], None, words);
    manager.await_told("READY=1");
    fill(&writer);
    fs::write(manager.path("cellgate.toml"), "wrong = 1\n").expect("a file");
    service.signal(Signal::HUP);
    manager.await_told("RELOADING=1");
    for _ in 0..5 {
        manager.await_told("WATCHDOG=1");
    }
    drop(writer);
    service.said = Some(read(reader));
    service.end();
}

#[test]
fn a_watchdog_of_another_process_is_not_fed() {
    let manager = Manager::new();
    let interval = WATCHDOG.as_micros().to_string();
    let environment = [("WATCHDOG_USEC", &*interval), ("WATCHDOG_PID", "1")];
    let service = manager.service(&environment, None);
    manager.await_told("READY=1");
    assert_eq!(manager.told(4 * WATCHDOG), None);
    service.end();
}

/// A socket as a service manager makes it.
fn listener(path: &Path, kind: SocketType) -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    let socket = socket.expect("a socket");
    bind(&socket, &SocketAddrUnix::new(path).expect("a path")).expect("a name");
    listen(&socket, 16).expect("it listens");
    socket
}

#[test]
fn a_socket_that_is_passed_on_is_served_and_left_in_place() {
    let manager = Manager::new();
    let path = manager.path("passed.sock");
    let passed = listener(&path, SocketType::SEQPACKET);
    for _ in 0..2 {
        let copy = passed.try_clone().expect("a descriptor");
        let service = manager.service(&[("LISTEN_FDS", "1")], Some(copy));
        // Who comes early waits.
        assert_eq!(connections(&path), ["x.0.40"]);
        manager.await_told("READY=1");
        assert!(!manager.socket().exists());
        service.end();
        assert!(path.exists());
    }
    // One for another process is none of this one's.
    let copy = passed.try_clone().expect("a descriptor");
    let service = manager.service(&[("LISTEN_FDS", "1"), ("WHOSE", "1")], Some(copy));
    manager.await_told("READY=1");
    assert_eq!(connections(&manager.socket()), ["x.0.40"]);
    service.end();
}

#[test]
fn of_several_that_are_passed_on_the_one_named_control_is_served() {
    let manager = Manager::new();
    let path = manager.path("passed.sock");
    let passed = listener(&path, SocketType::SEQPACKET);
    let service = |names| {
        let copy = passed.try_clone().expect("a descriptor");
        let variables = [("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", names)];
        manager.service(&variables, Some(copy))
    };
    let named = service("web:control");
    assert_eq!(connections(&path), ["x.0.40"]);
    named.end();
    for names in ["web:other", "control:control"] {
        let mut service = service(names);
        assert!(!service.child.wait().expect("a child").success());
        let said = service.said.take().expect("it is asked once");
        let said = said.join().expect("it does not panic");
        assert!(said.contains("FileDescriptorName=control"), "{said}");
    }
}

#[test]
fn a_socket_of_the_wrong_kind_is_refused() {
    let manager = Manager::new();
    let stream = listener(&manager.path("stream.sock"), SocketType::STREAM);
    let mut service = manager.service(&[("LISTEN_FDS", "1")], Some(stream));
    assert!(!service.child.wait().expect("a child").success());
    let said = service.said.take().expect("it is asked once");
    let said = said.join().expect("it does not panic");
    assert!(said.contains("ListenSequentialPacket"), "{said}");
}

/// A file of docs/systemd.
fn shipped(name: &str) -> PathBuf {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/systemd");
    all.join(name)
}

/// The value of a unit's only line with this key.
fn setting(unit: &str, key: &str) -> String {
    let text = fs::read_to_string(shipped(unit)).expect("a unit");
    let of_key = |line: &str| Some(line.strip_prefix(key)?.strip_prefix('=')?.to_owned());
    let mut values = text.lines().filter_map(of_key);
    let value = values.next();
    assert_eq!(values.next(), None, "{unit}: {key}");
    value.unwrap_or_else(|| panic!("{unit} has no {key}"))
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    let manager = Manager::new();
    let mut command = Command::new("systemd-analyze");
    command.arg("verify");
    for name in [
        "cellgate.service",
        "cellgate.socket",
        "cellgate-page.service",
        "cellgate-page.socket",
    ] {
        let text = fs::read_to_string(shipped(name)).expect("a unit");
        // The program need not be installed.
        let program = env!("CARGO_BIN_EXE_cellgate");
        let copy = manager.path(name);
        fs::write(&copy, text.replace("/usr/bin/cellgate", program)).expect("a file");
        command.arg(copy);
    }
    match command.output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{said}");
            println!("ran systemd_units");
        }
        Err(error) => println!("skipped systemd_units: {error}"),
    }
}

#[test]
fn what_the_units_name_is_shipped_and_told() {
    let user = setting("cellgate.service", "User");
    let users = fs::read_to_string(shipped("cellgate.sysusers")).expect("a file");
    assert!(users.contains(&format!("\nu {user} - ")), "{users}");
    for (unit, key) in [
        ("cellgate.service", "Group"),
        ("cellgate-page.service", "Group"),
        ("cellgate.socket", "SocketUser"),
        ("cellgate.socket", "SocketGroup"),
    ] {
        assert_eq!(setting(unit, key), user, "{unit}: {key}");
    }
    let config = setting("cellgate.service", "AssertPathExists");
    let start = setting("cellgate.service", "ExecStart");
    assert!(start.ends_with(&format!("serve -c {config}")), "{start}");
    let told = fs::read_to_string(shipped("../server.md")).expect("a document");
    assert!(told.contains(&format!("install -m 644 cellgate.toml {config}")));
    for file in fs::read_dir(shipped("")).expect("a directory") {
        let name = file.expect("a file").file_name();
        let name = name.to_str().expect("a name");
        assert!(told.contains(name), "nobody is told of {name}");
    }
}

/// As the service is started: another user with the unit's capabilities, and its configuration.
#[test]
fn the_service_has_all_that_it_needs() {
    const NAME: &str = "systemd_service";
    if !rustix::process::geteuid().is_root() {
        return println!("skipped {NAME}: not root");
    }
    let manager = Manager::new();
    let state = manager.path("state");
    fs::create_dir(&state).expect("a directory");
    std::os::unix::fs::chown(&state, Some(65_534), Some(65_534)).expect("a user");
    let shipped = fs::read_to_string(shipped("cellgate.toml")).expect("a configuration");
    let config = manager.path("cellgate.toml");
    let own = format!("[server]\nstate_dir = {state:?}\n");
    let text = shipped.replace("[server]\n", &own);
    fs::write(&config, text).expect("a file");
    // Others cannot go where this program lies.
    let program = manager.path("cellgate");
    copy_command(&program);
    let only = |key| {
        let all = setting("cellgate.service", key).to_ascii_lowercase();
        let names = all.split(' ').map(|name| name.replace("cap_", "+"));
        format!("-all,{}", names.collect::<Vec<_>>().join(","))
    };
    let (ambient, bounding) = (only("AmbientCapabilities"), only("CapabilityBoundingSet"));
    let as_service = || {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(format!("--inh-caps={ambient}"))
            .arg(format!("--ambient-caps={ambient}"))
            .arg(format!("--bounding-set={bounding}"))
            .arg(&program);
        command
    };
    let probe = as_service().arg("--version").output();
    if !probe.as_ref().is_ok_and(|probe| probe.status.success()) {
        return println!("skipped {NAME}: {probe:?}");
    }
    fs::set_permissions(manager.path("notify"), PermissionsExt::from_mode(0o666)).expect("mine");
    let (reader, writer) = io::pipe().expect("a pipe");
    let mut command = as_service();
    command
        .args(["serve", "-c"])
        .arg(&config)
        .env("NOTIFY_SOCKET", manager.path("notify"))
        .stdin(Stdio::null())
        .stderr(writer);
    let child = command.spawn().expect("a program");
    drop(command);
    let said = Some(read(reader));
    let service = Service { child, said };
    manager.await_told("READY=1");
    let said = service.end();
    for missing in [
        "refused",
        "not locked",
        "not fifo",
        "not nice",
        "not pinned",
    ] {
        assert!(!said.contains(missing), "{said}");
    }
    println!("ran {NAME}");
}
