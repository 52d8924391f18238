//! A daemon of a trial's own, in a directory of its own.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, bail};
use cellgate_host::sys::peer_credentials;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, Signal, kill_process};

use super::actor::this_program;

/// A running `cellgate serve`; it ends when it is dropped.
pub(crate) struct Daemon {
    child: Child,
    adapter: Option<Pid>,
    directory: PathBuf,
}

impl Daemon {
    /// One with this configuration, beside where it keeps what. What it says once it is ready goes
    /// to `words`.
    pub(crate) fn start(config: &str, words: impl Write + Send + 'static) -> anyhow::Result<Self> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("cellgate-live-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
        let file = directory.join("cellgate.toml");
        let shown = directory.display().to_string();
        let text = format!("[server]\nstate_dir = {shown:?}\n{config}");
        fs::write(&file, text)?;
        let child = this_program()?
            .args(["serve".as_ref(), "-c".as_ref(), file.as_os_str()])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start the daemon")?;
        let mut daemon = Self {
            child,
            adapter: None,
            directory,
        };
        daemon.await_ready(words)?;
        daemon.adapter = Some(adapter(&daemon.adapter_socket())?);
        Ok(daemon)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join("control.sock")
    }

    /// Where its adapter listens.
    pub(crate) fn adapter_socket(&self) -> PathBuf {
        self.directory.join("adapter.sock")
    }

    /// Its process and its adapter's.
    pub(crate) fn processes(&self) -> impl Iterator<Item = Pid> {
        [Some(Pid::from_child(&self.child)), self.adapter]
            .into_iter()
            .flatten()
    }

    /// Kills it; its adapter goes on.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Stops the adapter, which has a CPU to itself otherwise, or has it go on.
    pub(crate) fn let_adapter_run(&self, run: bool) -> anyhow::Result<()> {
        let signal = if run { Signal::CONT } else { Signal::STOP };
        let adapter = self.adapter.context("no adapter")?;
        Ok(kill_process(adapter, signal)?)
    }

    fn await_ready(&mut self, mut words: impl Write + Send + 'static) -> anyhow::Result<()> {
        let stderr = self.child.stderr.take().context("it is piped")?;
        let mut reader = BufReader::new(stderr);
        let mut said = String::new();
        while !said.lines().any(|line| line.ends_with("ready")) {
            if reader.read_line(&mut said)? == 0 {
                bail!("the daemon does not start: {said}");
            }
        }
        // Whether or not anybody reads it, it must find room.
        std::thread::spawn(move || std::io::copy(&mut reader, &mut words));
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // An adapter that is stopped could not end in order.
        let _ = self.let_adapter_run(true);
        let ended = matches!(self.child.try_wait(), Ok(Some(_)));
        if !ended {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            let _ = self.child.wait();
        } else if let Some(adapter) = self.adapter {
            let _ = kill_process(adapter, Signal::TERM);
        }
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
