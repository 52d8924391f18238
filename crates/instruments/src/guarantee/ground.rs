//! Where an experiment takes place: a daemon with two interfaces that are each other's peer.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use anyhow::{Context, bail};
use cellgate::{Admin, Link, SharedCpu};
use cellgate_core::server::Idle;
use cellgate_host::client::Control;
use cellgate_host::sys::Scheduling;
use rustix::process::{Pid, Signal, kill_process};

/// Two interfaces that are each other's peer, at the rate of an OC-3.
pub(super) const OC3: &str = "[[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
                              [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n";

/// A daemon, and which two of its interfaces are joined.
pub(super) struct Ground {
    socket: PathBuf,
    adapter: PathBuf,
    pub(super) ends: [String; 2],
    /// How its adapter runs.
    pub(super) scheduling: Scheduling,
    /// None: it is somebody else's.
    _own: Option<Own>,
}

impl Ground {
    /// The daemon at `socket`, or without one a daemon of its own with this configuration, whose
    /// `[adapter]`, if it has that, comes first.
    pub(super) fn new(socket: Option<&Path>, idle: Idle, config: &str) -> anyhow::Result<Self> {
        let rest = config.strip_prefix("[adapter]\n").unwrap_or(config);
        let config = format!("[adapter]\nidle = \"{idle}\"\n{rest}");
        let own = match socket {
            Some(_) => None,
            None => Some(Own::start(&config)?),
        };
        let socket = match (&own, socket) {
            (_, Some(socket)) => socket.to_owned(),
            (Some(own), _) => own.directory.join("control.sock"),
            (None, None) => bail!("no daemon"),
        };
        let adapter = socket.with_file_name("adapter.sock");
        let ends = joined(&mut Admin::at(&socket)?)?;
        let control = Control::at(&adapter)
            .with_context(|| format!("the adapter's socket {}", adapter.display()))?;
        Ok(Self {
            scheduling: control.hello().scheduling.clone(),
            socket,
            adapter,
            ends,
            _own: own,
        })
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Where the adapter's process listens.
    pub(super) fn adapter(&self) -> &Path {
        &self.adapter
    }

    /// Who shares its adapter's CPU; none: nobody that the daemon sees.
    pub(super) fn shared(&self) -> anyhow::Result<Option<SharedCpu>> {
        Ok(self.admin()?.adapter_of(None)?.shared)
    }

    pub(super) fn admin(&self) -> anyhow::Result<Admin> {
        Ok(Admin::at(&self.socket)?)
    }
}

/// The first two interfaces that are each other's peer.
fn joined(admin: &mut Admin) -> anyhow::Result<[String; 2]> {
    let all = admin.interfaces()?;
    for info in &all {
        if let Link::Memory { peer } = &info.spec.link
            && *peer != info.spec.name
            && all.iter().any(|other| other.spec.name == *peer)
        {
            return Ok([info.spec.name.clone(), peer.clone()]);
        }
    }
    bail!("the daemon has no two interfaces that are joined by memory")
}

/// A daemon that ends when it is dropped.
struct Own {
    child: Child,
    directory: PathBuf,
}

impl Own {
    fn start(contents: &str) -> anyhow::Result<Self> {
        let name = format!("cellgate-guarantee-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory)?;
        let config = directory.join("cellgate.toml");
        let directory_text = directory.display().to_string();
        let text = format!("[server]\nstate_dir = {directory_text:?}\n{contents}");
        fs::write(&config, text)?;
        let program = std::env::current_exe().context("where is this program?")?;
        let mut child = Command::new(program)
            .arg("serve")
            .arg("-c")
            .arg(&config)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start the daemon")?;
        let stderr = child.stderr.take();
        let own = Self { child, directory };
        stderr.context("the daemon's words").and_then(await_ready)?;
        Ok(own)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // All of it fails only if the daemon has ended by itself.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Waits until the daemon is ready; what it says afterwards is passed on.
fn await_ready(stderr: ChildStderr) -> anyhow::Result<()> {
    let mut lines = BufReader::new(stderr).lines();
    let mut said = String::new();
    loop {
        let Some(line) = lines.next().transpose()? else {
            bail!("the daemon has ended: {said}");
        };
        if line.contains("ready") {
            break;
        }
        said = said + &line + "\n";
    }
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            eprintln!("{line}");
        }
    });
    Ok(())
}
