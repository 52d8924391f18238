//! Where an experiment takes place: a daemon with two interfaces that are each other's peer.

use std::io::stderr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use cellgate::{Admin, SharedCpu};
use cellgate_core::server::Idle;
use cellgate_host::client::Control;
use cellgate_host::sys::Scheduling;

use super::stalls::Watch;
use crate::live::daemon::Daemon;

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
    _own: Option<Daemon>,
}

impl Ground {
    /// The daemon at `socket`, or without one a daemon of its own with this configuration, whose
    /// `[adapter]`, if it has that, comes first.
    pub(super) fn new(socket: Option<&Path>, idle: Idle, config: &str) -> anyhow::Result<Self> {
        let rest = config.strip_prefix("[adapter]\n").unwrap_or(config);
        let config = format!("[adapter]\nidle = \"{idle}\"\n{rest}");
        let own = match socket {
            Some(_) => None,
            None => Some(Daemon::start(&config, stderr())?),
        };
        let socket = match (&own, socket) {
            (_, Some(socket)) => socket.to_owned(),
            (Some(own), _) => own.socket(),
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

    /// Begins to read the adapter's gap detector.
    pub(super) fn watch(&self) -> anyhow::Result<Watch> {
        Watch::begin(self.adapter.clone())
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
        if let Some(peer) = info.spec.link.memory_peer()
            && peer != info.spec.name
            && all.iter().any(|other| other.spec.name == peer)
        {
            return Ok([info.spec.name.clone(), peer.to_owned()]);
        }
    }
    bail!("the daemon has no two interfaces that are joined by memory")
}
