//! The configuration file: TOML, every key optional, unknown keys refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cellgate_core::adapter::{Config as AdapterConfig, Interleaving, PortConfig};
use cellgate_core::contract::{CellRate, TrafficContract};
use cellgate_core::ring::AttachmentSizes;
use cellgate_core::server::{
    Address, AdmissionConfig, CpuLaw, InterfaceSpec, Limits, Link, Open, Refused,
    ServerAssumptions, ServerConfig,
};
use cellgate_core::wire::{CellFormat, HeaderForm};
use serde::{Deserialize, Serialize};

use super::QuotaSection;
use super::links::udp_options;
use crate::adapter::AdapterOptions;
use crate::sys::{Cpus, SchedulingRequest};

/// What a server is run with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The daemon.
    pub server: ServerSection,
    /// The adapter's process.
    pub adapter: AdapterSection,
    /// What there is to promise.
    pub admission: AdmissionSection,
    /// What users may have.
    pub quota: QuotaSection,
    /// Interfaces.
    #[serde(rename = "interface")]
    pub interfaces: Vec<InterfaceSpec>,
    /// Permanent connections.
    #[serde(rename = "connection")]
    pub connections: Vec<Open>,
}

/// The daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSection {
    /// The control socket; none: `control.sock` in the state directory.
    pub socket: Option<PathBuf>,
    /// Its permissions in octal.
    pub socket_mode: String,
    /// Its group, by name or number.
    pub socket_group: Option<String>,
    /// What a successor needs; none: `/run/cellgate`, or that of a user without privilege.
    pub state_dir: Option<PathBuf>,
    /// Whom to become once the socket is there, by name or number.
    pub user: Option<String>,
}

impl Default for ServerSection {
    fn default() -> Self {
        Self {
            socket: None,
            socket_mode: "0660".to_owned(),
            socket_group: None,
            state_dir: None,
            user: None,
        }
    }
}

/// The adapter's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdapterSection {
    /// VCs at once.
    pub vcs: u16,
    /// Blocks of 16,384 addresses in which VCs can be open at once, those of all interfaces
    /// together.
    pub leaves: u16,
    /// Applications at once.
    pub attachments: u16,
    /// Interfaces at once.
    pub ports: u8,
    /// Cells that each direction of an interface can have waiting: a power of two.
    pub port_cells: u32,
    /// Octets of memory for connections, applications and interfaces together.
    pub memory_max: u64,
    /// Pin the firmware thread.
    pub pin: bool,
    /// To this CPU; none: the last one allowed.
    pub cpu: Option<usize>,
    /// Its nice value.
    pub nice: i32,
    /// Give the CPU away after every idle step; none: only where there is one CPU.
    pub yield_when_idle: Option<bool>,
    /// Keep its memory in place.
    pub lock_memory: bool,
    /// The longest stall that must not cost a conforming sender anything, in nanoseconds.
    pub gap_max_ns: u64,
    /// Cells that a link may bring at once: the most that a pseudowire's datagram holds.
    pub clump_cells: u16,
    /// Cells taken from an interface without finding it empty after which best effort is refused
    /// (0: never).
    pub overload_cells: u32,
    /// How long it may leave a question unanswered before it is taken for dead, in nanoseconds (0:
    /// for ever).
    pub silence_max_ns: u64,
}

impl AdapterSection {
    /// The CPU that it will have for itself, where it may use `cpus`.
    pub(super) fn cpu_of(&self, cpus: &Cpus) -> Option<usize> {
        self.cpu.or(cpus.last()).filter(|_| self.pin)
    }
}

impl Default for AdapterSection {
    fn default() -> Self {
        Self {
            vcs: 1_024,
            leaves: 64,
            attachments: 1_024,
            ports: 16,
            port_cells: 16_384,
            memory_max: 1 << 30,
            pin: true,
            cpu: None,
            nice: -20,
            yield_when_idle: None,
            lock_memory: true,
            gap_max_ns: 30_000_000,
            clump_cells: 29,
            overload_cells: 262_144,
            silence_max_ns: 10_000_000_000,
        }
    }
}

/// What there is to promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdmissionSection {
    /// Of each interface and of the adapter's core, in percent, what is kept for best effort.
    pub best_effort_percent: u8,
    /// Reserved beyond the 99th percentile of the cost measured, in percent.
    pub headroom_percent: u32,
    /// Of the adapter's core, in millionths, what there is to promise.
    pub adapter_ppm: u32,
    /// Of one CPU, in millionths, what there is to promise to the workers together; none: 900,000
    /// of each CPU beside the adapter's, 100,000 where there is none.
    pub worker_ppm: Option<u32>,
    /// CPU time is reserved for SDUs of this many octets where a contract's largest is larger.
    pub sdu_floor: Option<u16>,
    /// CDVT where a contract gives none, in nanoseconds.
    pub cdvt_ns: u64,
    /// How late an application may be, in nanoseconds.
    pub wake_up_ns: u64,
}

impl Default for AdmissionSection {
    fn default() -> Self {
        Self {
            best_effort_percent: 5,
            headroom_percent: 25,
            adapter_ppm: 1_000_000,
            worker_ppm: None,
            sdu_floor: None,
            cdvt_ns: 1_000_000,
            wake_up_ns: 10_000_000,
        }
    }
}

impl Default for Config {
    /// One interface, `lo`, that receives what it sends.
    fn default() -> Self {
        Self {
            server: ServerSection::default(),
            adapter: AdapterSection::default(),
            admission: AdmissionSection::default(),
            quota: QuotaSection::default(),
            interfaces: vec![InterfaceSpec {
                name: "lo".to_owned(),
                link: Link::Memory {
                    peer: "lo".to_owned(),
                },
                line_rate: None,
            }],
            connections: Vec::new(),
        }
    }
}

/// What a running server can be asked for.
#[derive(Serialize)]
struct Contents<'a> {
    #[serde(rename = "interface")]
    interfaces: &'a [InterfaceSpec],
    #[serde(rename = "connection")]
    connections: &'a [Open],
}

/// Why a text is no configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It is no TOML, or a key or value does not belong; with line and column.
    #[error("{0}")]
    Text(String),
    /// A value is out of its range, or does not fit another.
    #[error("{0}")]
    Value(String),
}

impl Config {
    /// Reads and checks a text.
    ///
    /// # Errors
    /// It is no configuration; the message shows where.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let mut config: Self =
            toml::from_str(text).map_err(|error| ConfigError::Text(error.to_string()))?;
        config.check()?;
        config.canonical()?;
        Ok(config)
    }

    /// As a text that [`Config::parse`] reads.
    pub fn print(&self) -> String {
        // No map has keys other than texts, and no value is a null.
        toml::to_string(self).unwrap_or_default()
    }

    /// Interfaces and permanent connections alone, as a part of a text that [`Config::parse`]
    /// reads.
    pub fn print_contents(&self) -> String {
        toml::to_string(&Contents {
            interfaces: &self.interfaces,
            connections: &self.connections,
        })
        .unwrap_or_default()
    }

    /// The sections of the file that differ from `other`'s and take a restart.
    pub fn fixed_changes(&self, other: &Self) -> Vec<&'static str> {
        let mut changed = Vec::new();
        if self.server != other.server {
            changed.push("[server]");
        }
        if self.adapter != other.adapter {
            changed.push("[adapter]");
        }
        changed
    }

    fn check(&self) -> Result<(), ConfigError> {
        let wrong = |text: String| Err(ConfigError::Value(text));
        let (adapter, admission) = (&self.adapter, &self.admission);
        if !(1..=AdapterConfig::PORTS_MAX).contains(&usize::from(adapter.ports)) {
            return wrong(format!("adapter.ports: 1 to {}", AdapterConfig::PORTS_MAX));
        }
        if !(1..=AdapterConfig::VCS_MAX).contains(&adapter.vcs) {
            return wrong(format!("adapter.vcs: 1 to {}", AdapterConfig::VCS_MAX));
        }
        if !adapter.port_cells.is_power_of_two() {
            return wrong("adapter.port_cells: a power of two".to_owned());
        }
        if adapter.clump_cells == 0 {
            return wrong("adapter.clump_cells: 1 or more".to_owned());
        }
        if admission.best_effort_percent > 100 || admission.adapter_ppm > 1_000_000 {
            return wrong("admission: more than there is".to_owned());
        }
        if self.mode().is_none() {
            return wrong("server.socket_mode: octal digits, as 0660".to_owned());
        }
        let mut names = BTreeMap::new();
        for interface in &self.interfaces {
            if !Address::is_interface_name(&interface.name) {
                return wrong(format!("interface {:?}: not a name", interface.name));
            }
            if names.insert(&interface.name, interface).is_some() {
                return wrong(format!("interface {}: twice", interface.name));
            }
            let udp = udp_options(&interface.link);
            if let Some(Err(error)) = udp.map(|udp| udp.fits(adapter.clump_cells)) {
                return wrong(format!("interface {}: {error}", interface.name));
            }
        }
        if self.interfaces.len() > usize::from(adapter.ports) {
            return wrong("more interfaces than adapter.ports".to_owned());
        }
        let mut addresses = Vec::new();
        for connection in &self.connections {
            let address = &connection.address;
            if address
                .interface
                .as_ref()
                .is_some_and(|name| !names.contains_key(name))
            {
                return wrong(format!("connection {address}: no such interface"));
            }
            let mut on = names.values();
            let interface = match &address.interface {
                Some(name) => names.get(name),
                None => on.next().filter(|_| names.len() == 1),
            };
            if let Some(carried) = interface.and_then(|one| one.link.bars(address.vc)) {
                let refused = Refused::NotCarried { carried };
                return wrong(format!("connection {address}: {refused}"));
            }
            if addresses.contains(&address) {
                return wrong(format!("connection {address}: twice"));
            }
            addresses.push(address);
        }
        Ok(())
    }

    /// Brings contracts and addresses into the form in which the server tells them.
    fn canonical(&mut self) -> Result<(), ConfigError> {
        let only = match &self.interfaces[..] {
            [interface] => Some(interface.name.clone()),
            _ => None,
        };
        for connection in &mut self.connections {
            let address = &mut connection.address;
            if address.interface.is_none() {
                address.interface.clone_from(&only);
            }
            let contract: TrafficContract = connection.contract.parse().map_err(|error| {
                ConfigError::Value(format!("connection {address}: contract: {error}"))
            })?;
            connection.contract = contract.to_string();
        }
        Ok(())
    }

    /// The permissions of the socket.
    pub(super) fn mode(&self) -> Option<u32> {
        let mode = u32::from_str_radix(&self.server.socket_mode, 8).ok()?;
        (mode <= 0o777).then_some(mode)
    }

    /// The configuration of the adapter's process, which listens at `socket`.
    pub(super) fn adapter_options(&self, socket: &Path) -> AdapterOptions {
        let section = &self.adapter;
        let config = AdapterConfig {
            form: HeaderForm::Nni,
            vcs: section.vcs,
            leaves: section.leaves,
            attachments: section.attachments,
            ports: vec![self.port(); section.ports.into()],
            gap_max_ns: section.gap_max_ns,
            clump_cells: section.clump_cells,
            overload_cells: section.overload_cells,
        };
        AdapterOptions {
            scheduling: SchedulingRequest {
                pin: section.pin,
                cpu: section.cpu,
                nice: Some(section.nice).filter(|nice| *nice != 0),
                yield_when_idle: section.yield_when_idle,
                own_session: true,
                lock_memory: section.lock_memory,
            },
            port_cells: section.port_cells,
            memory_max: section.memory_max,
            die_with_parent: false,
            listen: Some(socket.to_owned()),
            ..AdapterOptions::new(config)
        }
    }

    /// What a port is before an interface is put on it.
    pub(super) fn port(&self) -> PortConfig {
        PortConfig {
            format: CellFormat::NoHec,
            budget: 256,
            discard_unread: false,
            line_rate: CellRate::OC3,
        }
    }

    /// The configuration of the server proper.
    pub(super) fn server_config(&self, laws: Laws) -> ServerConfig {
        let (adapter, admission) = (&self.adapter, &self.admission);
        ServerConfig {
            server: concat!("cellgate ", env!("CARGO_PKG_VERSION")).to_owned(),
            pid: std::process::id(),
            uid: rustix::process::geteuid().as_raw(),
            notes: Vec::new(),
            counters_len: None,
            ports: adapter.ports,
            attachment: AttachmentSizes {
                event_slots: 1_024,
                doorbell_slots: 64,
            },
            assumptions: ServerAssumptions {
                cdvt_ns: admission.cdvt_ns,
                interleaving: Interleaving {
                    mids: 8,
                    reassembly_timeout_ns: 1_000_000_000,
                },
                wake_up_ns: admission.wake_up_ns,
                gap_max_ns: adapter.gap_max_ns,
                clump_cells: adapter.clump_cells,
            },
            admission: AdmissionConfig {
                adapter_law: laws.adapter,
                adapter_ppm: admission.adapter_ppm,
                worker_law: laws.worker,
                worker_ppm: admission.worker_ppm.unwrap_or(laws.worker_ppm),
                memory: adapter.memory_max,
                connections: adapter.vcs.into(),
                best_effort_percent: admission.best_effort_percent,
                sdu_floor: admission.sdu_floor,
                quota: self.quota.of_all(),
                quotas: self.quota.of_users(),
            },
            limits: Limits {
                interfaces: adapter.ports.into(),
                ..Limits::default()
            },
        }
    }
}

/// What PDUs cost, and what of the workers' CPUs there is to promise where nothing is configured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Laws {
    pub(super) adapter: CpuLaw,
    pub(super) worker: CpuLaw,
    pub(super) worker_ppm: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r#"
        [server]
        socket = "/run/cg/control.sock"
        socket_mode = "0600"
        socket_group = "atm"
        state_dir = "/run/cg"
        user = "cellgate"
        [adapter]
        vcs = 64
        cpu = 1
        [admission]
        best_effort_percent = 10
        [quota]
        connections = 3
        [[interface]]
        name = "lo"
        link.memory.peer = "lo"
        [[interface]]
        name = "wan"
        line_rate.cell_s = 80000
        [interface.link.udp]
        local = "192.0.2.1:6635"
        peer = "192.0.2.2:6635"
        label_out = 16
        label_in = 17
        mtu = 1500
        [[connection]]
        address = "wan.0.100"
        contract = "aal5,cbr:tx:pcr=1000,max_sdu=100"
    "#;

    #[test]
    fn reads_what_it_prints() {
        for text in ["", FULL] {
            let config = Config::parse(text).unwrap();
            assert_eq!(Config::parse(&config.print()).unwrap(), config, "{text}");
        }
        assert_eq!(Config::parse("").unwrap(), Config::default());
        let full = Config::parse(FULL).unwrap();
        let contents = Config::parse(&full.print_contents()).unwrap();
        assert_eq!(contents.interfaces, full.interfaces);
        assert_eq!(contents.connections, full.connections);
        assert_eq!(contents.adapter, AdapterSection::default());
        assert_eq!(full.interfaces.len(), 2);
        assert_eq!((full.adapter.vcs, full.quota.connections), (64, 3));
        assert_eq!(full.mode(), Some(0o600));
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        let interface = "[[interface]]\nname = \"lo\"\nlink.memory.peer = \"lo\"\n";
        let twice = format!("{interface}{interface}");
        let wan = |rest: &str| {
            format!(
                "[[interface]]\nname = \"wan\"\n[interface.link.udp]\nlocal = \"127.0.0.1:1\"\n\
                 peer = \"127.0.0.1:2\"\nlabel_out = 16\n{rest}\n"
            )
        };
        for (text, parts) in [
            (
                "[server]\nsokcet = \"x\"\n",
                &["line 2", "sokcet", "socket"][..],
            ),
            ("[adapter]\nvcs = \"many\"\n", &["line 2", "column 7"]),
            ("[adapter\n", &["line 1"]),
            ("[adapter]\nvcs = 0\n", &["adapter.vcs"]),
            ("[adapter]\nports = 65\n", &["adapter.ports"]),
            ("[adapter]\nport_cells = 1000\n", &["power of two"]),
            ("[admission]\nbest_effort_percent = 101\n", &["admission"]),
            ("[server]\nsocket_mode = \"rw\"\n", &["socket_mode"]),
            ("[server]\nsocket_mode = \"1777\"\n", &["socket_mode"]),
            (&twice, &["interface lo: twice"]),
            (
                "[[connection]]\naddress = \"lo.0.32\"\ncontract = \"cbr,tx:pcr\"\n",
                &["connection lo.0.32", "contract"],
            ),
            (
                "[[connection]]\naddress = \"x.0.32\"\ncontract = \"ubr\"\n",
                &["connection x.0.32", "no such interface"],
            ),
            ("[adapter]\nclump_cells = 0\n", &["clump_cells"]),
            (
                &wan("mtu = 1500\nlabel_in = 15"),
                &["interface wan", "label 15"],
            ),
            (
                &wan("mtu = 80\nlabel_in = 16"),
                &["interface wan", "no cell fits"],
            ),
            (
                &wan("mtu = 9000\nlabel_in = 16"),
                &["172 cells", "pack 29", "clump_cells"],
            ),
            (
                &wan("mtu = 1500\nlabel_in = 16\nmode = \"aal5-sdu@0.32\""),
                &["line", "vcc@VPI.VCI"],
            ),
            (
                &format!(
                    "{}\n[[connection]]\naddress = \"0.33\"\ncontract = \"ubr\"\n",
                    wan("mtu = 1500\nlabel_in = 16\nmode = \"vcc@0.32\""),
                ),
                &["connection 0.33", "carries vcc@0.32 alone"],
            ),
        ] {
            let error = Config::parse(text).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{text}: {error}");
            }
        }
    }
}
