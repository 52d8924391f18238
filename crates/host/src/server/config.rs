//! The configuration file: TOML, every key optional, unknown keys refused.

mod adapters;
mod annotated;
mod check;
mod keys;
mod reserve;

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cellgate_core::adapter::{Config as AdapterConfig, Interleaving, PortConfig};
use cellgate_core::contract::{CellRate, TrafficContract};
use cellgate_core::queue::AttachmentSizes;
use cellgate_core::server::{
    AdapterBooks, AdapterIndex, AdapterSection, AdmissionConfig, AdmissionSection, CpuLaw, Idle,
    InterfaceSpec, LOOP, Limits, Link, Open, Priority, Reserve, ServerAdapter, ServerAssumptions,
    ServerConfig, ServerSection,
};
use cellgate_core::wire::{CellFormat, HeaderForm};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::QuotaSection;
use super::listener::state_dir_default;
use super::start::CONTROL_SOCKET;
use crate::adapter::AdapterOptions;
use crate::sys::{AdapterCpus, Cpus, SchedulingRequest, expected_cpu};
pub use adapters::serialize as serialize_adapters;
pub use annotated::{annotated, new as new_config};
use check::Mistake;
pub use check::{Onto, at_place, place_of};
pub use keys::{Key, SECTIONS, Section, Unset, plain};
#[cfg(test)]
pub(super) use reserve::{NAMES_MAX, RESERVES_MAX};

/// Octets of a name or path. Sockets and users have shorter ones; with it a message can tell them.
pub(super) const TEXT_LEN_MAX: usize = 256;

/// Where a key has another name by now.
const RENAMED: &str = "in its place: `idle = \"spin\"`, `\"adaptive\"` or `\"sleep\"`";

/// The memory that the adapter shares with each client.
const ATTACHMENT: AttachmentSizes = AttachmentSizes {
    event_slots: 1_024,
    doorbell_slots: 64,
};

/// What a server is run with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub server: ServerSection,
    /// The adapters' processes: one, or several with names.
    #[serde(
        rename = "adapter",
        serialize_with = "serialize_adapters",
        deserialize_with = "adapters::one_or_more"
    )]
    pub adapters: Vec<AdapterSection>,
    /// What there is to promise.
    pub admission: AdmissionSection,
    /// What users may have.
    pub quota: QuotaSection,
    /// Addresses that not everybody may open.
    #[serde(rename = "reserve", deserialize_with = "reserve::sections")]
    pub reserves: Vec<Reserve>,
    #[serde(rename = "interface")]
    pub interfaces: Vec<InterfaceSpec>,
    #[serde(rename = "connection")]
    pub connections: Vec<Open>,
}

impl Default for Config {
    /// The interface `lo`, which receives what it sends, and `a` and `b`, which are joined.
    fn default() -> Self {
        let memory = |name: &str, peer: &str| InterfaceSpec {
            name: name.to_owned(),
            adapter: None,
            link: Link::peer(peer),
            form: HeaderForm::Nni,
            priority: Priority::Normal,
            line_rate: None,
            line: None,
        };
        Self {
            server: ServerSection::default(),
            adapters: vec![AdapterSection::default()],
            admission: AdmissionSection::default(),
            quota: QuotaSection::default(),
            reserves: Vec::new(),
            interfaces: vec![memory(LOOP, LOOP), memory("a", "b"), memory("b", "a")],
            connections: Vec::new(),
        }
    }
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
    /// Octets of a text at most.
    pub const LEN_MAX: u64 = 16 << 20;

    /// Reads and checks a file while others wait: what is no file and may never end, as a pipe or a
    /// device, is not read.
    ///
    /// # Errors
    /// It is no file, too long, or no configuration.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let told = |error: std::io::Error| error.to_string();
        let opened = File::options()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(path);
        let file = opened.map_err(told)?;
        if !file.metadata().map_err(told)?.is_file() {
            return Err("not a regular file, and not read while others wait".to_owned());
        }
        let mut text = String::new();
        let read = file.take(Self::LEN_MAX + 1).read_to_string(&mut text);
        if read.map_err(told)? as u64 > Self::LEN_MAX {
            return Err(format!("more than {} octets", Self::LEN_MAX));
        }
        Self::parse(&text).map_err(|error| error.to_string())
    }

    /// Reads and checks a text.
    ///
    /// # Errors
    /// It is no configuration; the message shows where.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let mut config: Self = toml::from_str(text).map_err(|error| {
            let told = error.to_string();
            ConfigError::Text(match error.message().contains("`yield_when_idle`") {
                true => format!("{told}{RENAMED}\n"),
                false => told,
            })
        })?;
        let ports = config.adapters.first().map(|adapter| adapter.ports);
        if ports.is_some_and(|ports| usize::from(ports) < config.interfaces.len())
            && toml::from_str::<toml::Table>(text).is_ok_and(|all| !all.contains_key("interface"))
        {
            // Nobody has asked for those that are joined.
            config.interfaces.truncate(1);
        }
        let made = config.check().and_then(|()| config.canonical());
        made.map_err(|mistake| mistake.place(text))?;
        Ok(config)
    }

    /// Reads and checks a text that nobody serves yet: it has no interface or connection either
    /// that a server would start without, and wait for in vain.
    ///
    /// # Errors
    /// It is no configuration, or one that cannot be had as a whole; the message shows where.
    pub fn parse_whole(text: &str) -> Result<Self, ConfigError> {
        let config = Self::parse(text)?;
        let checked = config.check_whole();
        checked.map_err(|mistake| mistake.place(text))?;
        Ok(config)
    }

    /// As a text that [`Config::parse`] reads.
    pub fn print(&self) -> String {
        // No map has keys other than texts, and no value is a null.
        toml::to_string(self).unwrap_or_default()
    }

    /// The sections of the file that differ from `other`'s and take a restart.
    pub fn fixed_changes(&self, other: &Self) -> Vec<&'static str> {
        let mut changed = Vec::new();
        if self.server != other.server {
            changed.push("[server]");
        }
        if self.adapters != other.adapters {
            changed.push("[adapter]");
        }
        changed
    }

    /// Brings contracts and addresses into the form in which the server tells them.
    fn canonical(&mut self) -> Result<(), Mistake> {
        let unnamed = self.unnamed().map(|interface| interface.name.clone());
        for (number, connection) in self.connections.iter_mut().enumerate() {
            let address = &mut connection.address;
            if address.interface.is_none() {
                address.interface.clone_from(&unnamed);
            }
            let contract: TrafficContract = connection.contract.parse().map_err(|error| {
                Mistake::new(
                    format!("connection.{number}.contract"),
                    format!("connection {address}: contract: {error}"),
                )
            })?;
            connection.contract = contract.to_string();
        }
        Ok(())
    }

    /// The interface of an address that names none: the only one, else `lo`.
    fn unnamed(&self) -> Option<&InterfaceSpec> {
        match &self.interfaces[..] {
            [interface] => Some(interface),
            all => all.iter().find(|interface| interface.name == LOOP),
        }
    }

    /// The name of an adapter; none: it is the only one.
    pub fn adapter_name(&self, adapter: AdapterIndex) -> Option<&str> {
        self.adapters[adapter.place()].name.as_deref()
    }

    /// The place of the adapter that an interface names; without a name the first.
    pub fn adapter_of(&self, interface: &InterfaceSpec) -> Option<AdapterIndex> {
        let Some(name) = &interface.adapter else {
            return Some(AdapterIndex::FIRST);
        };
        let mut all = self.adapters.iter().zip((0..).map(AdapterIndex));
        let found = all.find(|(one, _)| one.name.as_ref() == Some(name));
        found.map(|(_, index)| index)
    }

    /// The CPUs that the adapters will have, where they may use `cpus`, as far as that is known
    /// before they have; those that a former server has left are `there`, and have taken their own.
    pub(super) fn adapter_cpus(&self, cpus: &Cpus, there: bool) -> AdapterCpus {
        let mut free = cpus.list();
        AdapterCpus::of(self.adapters.iter().map(|adapter| {
            let chosen = || match there {
                true => free.last().copied(),
                false => expected_cpu(&free),
            };
            let cpu = adapter.cpu.or_else(chosen).filter(|_| adapter.pin)?;
            if free.len() > 1 {
                free.retain(|one| *one != cpu);
            }
            Some(cpu)
        }))
    }

    /// Where a server keeps what it needs.
    pub(super) fn state_dir(&self) -> PathBuf {
        let directory = self.server.state_dir.as_ref().map(PathBuf::from);
        directory.unwrap_or_else(state_dir_default)
    }

    /// The control socket, unless a service manager has made another one.
    pub fn control_socket(&self) -> PathBuf {
        let section = &self.server;
        // Where applications look first, unless the configuration says where they shall.
        let wished = std::env::var_os("CELLGATE_SOCKET").filter(|path| !path.is_empty());
        let wished = wished
            .filter(|_| section.state_dir.is_none())
            .map(PathBuf::from);
        let socket = section.socket.as_ref().map(PathBuf::from).or(wished);
        socket.unwrap_or_else(|| self.state_dir().join(CONTROL_SOCKET))
    }

    /// The permissions of the socket.
    pub(super) fn mode(&self) -> Option<u32> {
        let mode = u32::from_str_radix(&self.server.socket_mode, 8).ok()?;
        (mode <= 0o777).then_some(mode)
    }

    /// The configuration of an adapter's process, which listens at `socket`.
    pub(super) fn adapter_options(&self, adapter: AdapterIndex, socket: &Path) -> AdapterOptions {
        let section = &self.adapters[adapter.place()];
        let config = AdapterConfig {
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
                idle: section.idle,
                linger_ns: section.linger_ns,
                own_session: true,
                lock_memory: section.lock_memory,
            },
            port_cells: section.port_cells,
            memory_max: section.memory_max,
            die_with_parent: false,
            headroom_percent: self.admission.headroom_percent,
            listen: Some(socket.to_owned()),
            ..AdapterOptions::new(config)
        }
    }

    /// What a port is before an interface is put on it.
    pub(super) fn port(&self) -> PortConfig {
        PortConfig {
            form: HeaderForm::Nni,
            format: CellFormat::NoHec,
            budget: 256,
            discard_unread: false,
            real_time: false,
            line_rate: CellRate::OC3,
        }
    }

    /// The configuration of the server proper.
    pub(super) fn server_config(&self, laws: Laws) -> ServerConfig {
        let admission = &self.admission;
        let ports = self.adapters.iter().map(|adapter| u32::from(adapter.ports));
        ServerConfig {
            server: concat!("cellgate ", env!("CARGO_PKG_VERSION")).to_owned(),
            pid: std::process::id(),
            uid: rustix::process::geteuid().as_raw(),
            notes: Vec::new(),
            counters_len: None,
            adapters: self.adapters.iter().map(server_adapter).collect(),
            attachment: ATTACHMENT,
            assumptions: ServerAssumptions {
                cdvt_ns: admission.cdvt_ns,
                interleaving: Interleaving {
                    mids: 8,
                    reassembly_timeout_ns: 1_000_000_000,
                },
                wake_up_ns: admission.wake_up_ns,
            },
            admission: AdmissionConfig {
                adapter_law: laws.adapter,
                adapters: (self.adapters.iter())
                    .map(|adapter| AdapterBooks {
                        cpu_ppm: admission.adapter_ppm,
                        memory: adapter.memory_max,
                        connections: adapter.vcs.into(),
                    })
                    .collect(),
                worker_law: laws.worker,
                worker_ppm: admission.worker_ppm.unwrap_or(laws.worker_ppm),
                best_effort_percent: admission.best_effort_percent,
                sdu_floor: admission.sdu_floor,
                quota: self.quota.of_all(),
                quotas: self.quota.of_users(),
            },
            limits: Limits {
                interfaces: ports.sum(),
                ..Limits::default()
            },
            reserves: self.reserves.clone(),
        }
    }
}

fn server_adapter(section: &AdapterSection) -> ServerAdapter {
    ServerAdapter {
        name: section.name.clone(),
        ports: section.ports,
        blocks: section.leaves.into(),
        gap_max_ns: section.gap_max_ns,
        clump_cells: section.clump_cells,
        idle: section.idle,
        late_ns: match section.idle.rests() {
            true => Idle::LATE_NS_MAX,
            false => 0,
        },
    }
}

/// What PDUs cost, and what of the workers' CPUs there is to promise where nothing is configured.
#[derive(Clone, Copy, Debug, Default)]
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
        socket_group = "0"
        state_dir = "/run/cg"
        user = "65534"
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
        let unnamed = "[[connection]]\naddress = \"0.40\"\ncontract = \"ubr\"\n";
        let unnamed = Config::parse_whole(unnamed).unwrap();
        assert_eq!(unnamed.connections[0].address.to_string(), "lo.0.40");
        let small = Config::parse("[adapter]\nports = 2\n").unwrap();
        assert_eq!(small.interfaces, Config::default().interfaces[..1]);
        let full = Config::parse(FULL).unwrap();
        assert_eq!(full.interfaces.len(), 2);
        assert_eq!((full.adapters[0].vcs, full.quota.connections), (64, 3));
        assert_eq!(full.mode(), Some(0o600));
    }

    const SEVERAL: &str = "[[adapter]]\nname = \"west\"\nvcs = 64\n[[adapter]]\nname = \"east\"\n\
                           [[interface]]\nname = \"w\"\nlink.memory.peer = \"w\"\n\
                           [[interface]]\nname = \"e\"\nadapter = \"east\"\n\
                           link.memory.peer = \"e\"\n";

    #[test]
    fn one_adapter_is_a_table_and_several_are_named() {
        let one = Config::parse("[adapter]\nvcs = 64\n").unwrap();
        assert_eq!((one.adapters.len(), one.adapters[0].vcs), (1, 64));
        assert!(one.print().contains("[adapter]\n"), "{}", one.print());
        // An array of one is one.
        assert_eq!(Config::parse("[[adapter]]\nvcs = 64\n").unwrap(), one);
        let several = Config::parse(SEVERAL).unwrap();
        assert_eq!(Config::parse(&several.print()).unwrap(), several);
        let places = several.interfaces.iter().map(|one| several.adapter_of(one));
        assert_eq!(
            places.collect::<Vec<_>>(),
            [0, 1].map(|n| Some(AdapterIndex(n)))
        );
        assert_eq!(several.adapter_name(AdapterIndex(1)), Some("east"));
        Config::parse_whole(SEVERAL).unwrap();
        let mut other = several.clone();
        other.adapters[1].vcs = 7;
        assert_eq!(other.fixed_changes(&several), ["[adapter]"]);
    }

    #[test]
    fn a_file_is_read_if_it_has_an_end() {
        let path = std::env::temp_dir().join(format!("cellgate-config-{}", std::process::id()));
        std::fs::write(&path, FULL).unwrap();
        assert_eq!(Config::read(&path), Ok(Config::parse(FULL).unwrap()));
        let len = usize::try_from(Config::LEN_MAX).unwrap();
        std::fs::write(&path, " ".repeat(len)).unwrap();
        assert_eq!(Config::read(&path), Ok(Config::default()));
        std::fs::write(&path, " ".repeat(len + 1)).unwrap();
        assert_eq!(
            Config::read(&path).unwrap_err(),
            "more than 16777216 octets"
        );
        std::fs::remove_file(&path).unwrap();
        let gone = Config::read(&path).unwrap_err();
        assert!(gone.contains("No such file"), "{gone}");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        for endless in [&*path, Path::new("/dev/zero"), Path::new("/")] {
            let error = Config::read(endless).unwrap_err();
            assert!(error.contains("not a regular file"), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
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
        let long = format!("[quota.{}]\n", "0".repeat(257));
        for (text, parts) in [
            (
                "[server]\nsokcet = \"x\"\n",
                &["line 2", "sokcet", "socket"][..],
            ),
            ("[adapter]\nvcs = \"many\"\n", &["line 2", "column 7"]),
            (
                "[adapter]\nyield_when_idle = true\n",
                &[
                    "line 2",
                    "column 1",
                    "`yield_when_idle`",
                    "`idle = \"spin\"`",
                ],
            ),
            (
                "[adapter]\nidle = \"lazy\"\n",
                &["line 2", "column 8", "`lazy`", "`adaptive`"],
            ),
            (
                "[adapter]\nlinger_ns = 30000001\n",
                &["line 2", "adapter.linger_ns", "gap_max_ns"],
            ),
            (
                &SEVERAL.replace("vcs = 64", "vcs = \"x\""),
                &["line 3", "column 7"],
            ),
            (
                &SEVERAL.replace("vcs = 64", "vcs = 0"),
                &["line 3", "column 7", "adapter west: vcs"],
            ),
            (
                &SEVERAL.replace("vcs = 64", "idle = \"lazy\""),
                &["line 3", "column 8", "`lazy`"],
            ),
            (
                &SEVERAL.replace("name = \"east\"", "name = \"west\""),
                &["line 5", "column 8", "adapter west: name: twice"],
            ),
            (
                &SEVERAL.replace("name = \"east\"\n[[i", "ports = 3\n[[i"),
                &["line 4", "adapter.name: each of several"],
            ),
            (
                &SEVERAL.replace("name = \"east\"", "name = \"a/b\""),
                &["line 5", "column 8", "characters a-z"],
            ),
            (
                &SEVERAL.replace("adapter = \"east\"", "adapter = \"north\""),
                &["line 11", "column 11", "interface e: no adapter north"],
            ),
            (
                "adapter = []\n",
                &["line 1", "column 11", "one adapter at least"],
            ),
            ("adapter = 3\n", &["line 1", "[adapter] or [[adapter]]"]),
            ("[adapter\n", &["line 1"]),
            ("[adapter]\nvcs = 0\n", &["adapter.vcs"]),
            ("[adapter]\nports = 65\n", &["adapter.ports"]),
            ("[adapter]\nport_cells = 1000\n", &["power of two"]),
            ("[admission]\nbest_effort_percent = 101\n", &["admission"]),
            ("[server]\nsocket_mode = \"rw\"\n", &["socket_mode"]),
            ("[server]\nsocket_mode = \"1777\"\n", &["socket_mode"]),
            (
                &format!("[server]\nstate_dir = \"/{}\"\n", "x".repeat(256)),
                &["server.state_dir", "256 octets"],
            ),
            (
                &format!("[server]\nstate_dir = \"/{}\"\n", "x".repeat(94)),
                &["line 2", "server.state_dir", "94 octets"],
            ),
            (
                &format!("[server]\nsocket = \"/{}\"\n", "x".repeat(107)),
                &["line 2", "server.socket", "107 octets"],
            ),
            (
                "[server]\nstate_dir = \"\"\n",
                &["server.state_dir", "empty"],
            ),
            (
                "[[connection]]\naddress = \"lo.0.0\"\ncontract = \"ubr\"\n",
                &["line 2", "0.0 is no VC"],
            ),
            (
                "[[connection]]\naddress = \"lo.0.32\"\ncontract = \"ubr\"\n\
                 [[connection]]\naddress = \"0.32\"\ncontract = \"ubr\"\n",
                &["line 5", "connection 0.32: twice"],
            ),
            (&long, &["line 1", "256 octets"]),
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
