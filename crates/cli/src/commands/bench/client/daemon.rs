//! A daemon of the bench's own, in a directory of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use cellgate_host::sys::peer_credentials;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, Signal, kill_process};

/// `a` and `b` are each other's peer; `loop` receives what it sends.
///
/// The line rate is more than any adapter can do. The tolerances are small so that buffers, which
/// have room for what arrives within them, are no larger than those of the peers. A flow that keeps
/// the adapter busy is no overload here.
const INTERFACES: &str = "\
[adapter]
vcs = 16
attachments = 16
ports = 3
gap_max_ns = 2500
overload_cells = 0
[admission]
cdvt_ns = 0
wake_up_ns = 0
[[interface]]
name = \"a\"
link.memory.peer = \"b\"
line_rate.cell_s = 4000000000
[[interface]]
name = \"b\"
link.memory.peer = \"a\"
line_rate.cell_s = 4000000000
[[interface]]
name = \"loop\"
link.memory.peer = \"loop\"
line_rate.cell_s = 4000000000
";

/// A running `cellgate serve`; it ends when it is dropped.
pub(super) struct Daemon {
    child: Child,
    adapter: Option<Pid>,
    directory: PathBuf,
}

impl Daemon {
    pub(super) fn start() -> anyhow::Result<Self> {
        let name = format!("cellgate-bench-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
        let config = directory.join("cellgate.toml");
        let shown = directory.display().to_string();
        fs::write(
            &config,
            format!("[server]\nstate_dir = {shown:?}\n{INTERFACES}"),
        )?;
        let child = Command::new(std::env::current_exe()?)
            .args(["serve".as_ref(), "-c".as_ref(), config.as_os_str()])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut daemon = Self {
            child,
            adapter: None,
            directory,
        };
        daemon.await_ready()?;
        daemon.adapter = Some(adapter(&daemon.directory.join("adapter.sock"))?);
        Ok(daemon)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.directory.join("control.sock")
    }

    /// Stops the adapter, which has a CPU to itself otherwise, or has it go on.
    pub(super) fn let_adapter_run(&self, run: bool) -> anyhow::Result<()> {
        let signal = if run { Signal::CONT } else { Signal::STOP };
        let adapter = self.adapter.context("no adapter")?;
        Ok(kill_process(adapter, signal)?)
    }

    fn await_ready(&mut self) -> anyhow::Result<()> {
        let stderr = self.child.stderr.take().context("it is piped")?;
        let mut reader = BufReader::new(stderr);
        let mut said = String::new();
        while !said.lines().any(|line| line.ends_with("ready")) {
            if reader.read_line(&mut said)? == 0 {
                bail!("the daemon does not start: {said}");
            }
        }
        // What it says later is nobody's concern, but must find room.
        std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // An adapter that is stopped could not end in order.
        let _ = self.let_adapter_run(true);
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The process that listens at the adapter's socket.
fn adapter(socket: &Path) -> anyhow::Result<Pid> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let dialled = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    connect(&dialled, &SocketAddrUnix::new(socket)?)?;
    let (_, pid) = peer_credentials(dialled.as_fd())?;
    Pid::from_raw(pid.cast_signed()).context("an adapter outside of this process's view")
}
