//! What is known of the machine. Everything that was read may be odd, and says nothing then.

mod machine;
mod network;
mod place;

use std::path::{Path, PathBuf};

use cellgate_core::server::{AdapterIndex, AdapterSection, Book, Bound, Resource};
use cellgate_simd::Level as CpuLevel;

use super::UnknownAdapter;
use super::ask::{self, Daemon, Left};
use super::look::{self, Look, Looker};
use crate::server::{
    Config, adapter_socket, bounds_of_machine, connections_within, state_dir_default,
};
use crate::sys::{expected_cpu, has_cpu};
pub use machine::steal;
pub(crate) use machine::{Adapters, Rights, Threads};
#[cfg(test)]
pub(crate) use machine::{OtherAdapter, list};
pub(super) use machine::{text, wanted_ns};
#[cfg(test)]
pub(crate) use network::taken_by;
pub(crate) use network::{Offloads, Pseudowire, Tun};
pub(crate) use place::Places;

/// All that is judged.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Facts {
    /// What the server runs with, or would.
    pub(crate) config: Config,
    /// The daemon, if there is one.
    pub(crate) daemon: Daemon,
    /// The adapter in its state directory.
    pub(crate) left: Left,
    /// This program's version.
    pub(crate) version: String,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// What the CPU can do.
    pub(crate) level: CpuLevel,
    /// Whether it is one that could do more.
    pub is_x86: bool,
    /// Of the daemon, or else of the caller, who would start one.
    pub(crate) rights: Rights,
    /// Connections that the limit on descriptors leaves.
    pub(crate) connections: u32,
    /// How the kernel schedules.
    pub(crate) threads: Threads,
    /// The CPU that the adapter has or would have; none: any.
    pub(crate) cpu: Option<usize>,
    /// The adapter that is looked at.
    pub(crate) adapter: AdapterSection,
    /// The adapters of this machine.
    pub(crate) adapters: Adapters,
    /// What a limit of the machine leaves of the adapter's CPU to promise, in millionths.
    pub(crate) cpu_limit: Option<Bound>,
    /// The same of memory, in octets.
    pub(crate) memory_limit: Option<Bound>,
    /// Octets of memory that the machine has left.
    pub(crate) memory_available: Option<u64>,
    /// The clock that the kernel uses, and those that it could.
    pub(crate) clock: (String, String),
    /// A second of the adapter's CPU.
    pub(crate) look: Look,
    /// Pseudowires of the configuration.
    pub(crate) pseudowires: Vec<Pseudowire>,
    /// What UDP sockets can do.
    pub(crate) offloads: Offloads,
    /// Whether network devices can be made.
    pub(crate) tun: Tun,
    /// Directories and sockets.
    pub(crate) places: Places,
}

/// Finds all of it out, of the adapter with this name.
pub(crate) fn gather(
    config: &Config,
    socket: &Path,
    name: Option<&str>,
    program: Looker,
) -> Result<Facts, UnknownAdapter> {
    let root = Path::new("/");
    let daemon = ask::daemon(socket);
    let config = with(config, &daemon);
    let directory = match hides_places(&daemon) {
        // What is beside its socket is as good a guess as any.
        true => socket.parent().map(Path::to_owned),
        false => config.server.state_dir.as_ref().map(PathBuf::from),
    };
    let directory = directory.unwrap_or_else(state_dir_default);
    let adapter = looked_at(&config, name)?;
    let left = ask::left(&directory.join(adapter_socket(adapter.name.as_deref())));
    let pid = daemon.said().map(|said| said.pid).filter(|pid| *pid > 0);
    let rights = Rights::of(root, pid).unwrap_or_default();
    let mut threads = Threads::of(root);
    let governed = match &left {
        Left::There(hello) => Some(hello.pid),
        _ => None,
    };
    let mut adapters = Adapters::of(root, governed, pid);
    let cpu = match (&left, &daemon) {
        (Left::There(hello), _) => hello.scheduling.pinned,
        (_, Daemon::There(_)) if adapters.own().is_some() => adapters.own().and_then(|own| own.cpu),
        _ if !adapter.pin => None,
        _ => adapter.cpu.or_else(|| expected_cpu(&threads.allowed)),
    };
    let there = |cpu: &usize| threads.online.is_empty() || has_cpu(&threads.online, *cpu);
    let cpu = cpu.filter(there);
    threads.look_at(root, cpu);
    let look = look::look(root, socket, (cpu, &adapter), program, &mut adapters);
    let (cpu_limit, memory_limit) = limits(&daemon, adapter.name.as_deref());
    Ok(Facts {
        adapter,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: machine::text(root, "proc/sys/kernel/osrelease").unwrap_or_default(),
        level: CpuLevel::chosen(),
        is_x86: cfg!(target_arch = "x86_64"),
        connections: connections_within(rights.descriptors),
        clock: machine::clock(root),
        memory_available: machine::memory_available(root),
        pseudowires: network::pseudowires(root, &config, &daemon),
        offloads: Offloads::of_sockets(),
        tun: Tun::of(root),
        places: Places::of(&config.server, &directory),
        daemon,
        left,
        rights,
        threads,
        cpu,
        adapters,
        cpu_limit,
        memory_limit,
        look,
        config,
    })
}

/// The adapter of this name; without a name the first.
fn looked_at(config: &Config, name: Option<&str>) -> Result<AdapterSection, UnknownAdapter> {
    let mut all = config.adapters.iter();
    let found = all.find(|one| name.is_none_or(|name| one.name.as_deref() == Some(name)));
    found.cloned().ok_or_else(|| UnknownAdapter {
        name: name.unwrap_or_default().to_owned(),
        known: config
            .adapters
            .iter()
            .filter_map(|one| one.name.clone())
            .collect(),
    })
}

/// Whether the daemon does not tell this user where it has what.
pub(super) fn hides_places(daemon: &Daemon) -> bool {
    *daemon == Daemon::Closed || daemon.said().is_some_and(|said| said.section.is_none())
}

/// The configuration as the daemon has it, if there is one.
pub(super) fn with(config: &Config, daemon: &Daemon) -> Config {
    let Some(said) = daemon.said() else {
        return config.clone();
    };
    let specs = said.interfaces.iter().map(|info| info.spec.clone());
    Config {
        server: said
            .section
            .clone()
            .unwrap_or_else(|| config.server.clone()),
        adapters: said.adapter_sections.clone(),
        admission: said.admission.clone(),
        interfaces: specs.collect(),
        ..config.clone()
    }
}

/// The limits on an adapter's CPU time and on memory, as a daemon sees them, or would.
fn limits(daemon: &Daemon, name: Option<&str>) -> (Option<Bound>, Option<Bound>) {
    let Some(said) = daemon.said() else {
        let mut all = bounds_of_machine(1);
        let mut of = |resource| all.remove(&Book::of(resource, AdapterIndex::FIRST));
        return (of(Resource::AdapterCpu), of(Resource::Memory));
    };
    let of = |resource: Resource| {
        let info = said
            .resources
            .iter()
            .find(|info| info.resource == resource && info.adapter.as_deref() == name)?;
        let by = info.limit.clone()?;
        Some(Bound {
            capacity: info.capacity,
            by,
        })
    };
    (of(Resource::AdapterCpu), of(Resource::Memory))
}
