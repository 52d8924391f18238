//! What is wrong with a configuration that is well-formed TOML, and where.

use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::adapter::{Config as AdapterConfig, Marks, PortIndex};
use cellgate_core::contract::{CellRate, TrafficContract};
use cellgate_core::queue::AttachmentGeometry;
use cellgate_core::server::{
    AdapterIndex, AdapterSection, Address, Idle, InterfaceSpec, Link, Open, Possible, Precedence,
    Prospect, Refused, Span,
};
use cellgate_core::wire::VpiVci;
use toml::de::{DeTable, DeValue};

use super::reserve::{NAMES_MAX, RESERVES_MAX};
use super::{ATTACHMENT, Config, ConfigError, Laws, TEXT_LEN_MAX};
use crate::server::privileges::{group, user};
use crate::server::start::CONTROL_SOCKET;

/// The highest VPI, at an NNI.
const VPI_MAX: u16 = 4_095;

/// A VC like any other.
const ANY_VC: VpiVci = VpiVci::from_bits(32);

/// Where a connection would be.
#[derive(Clone, Copy, Debug)]
pub struct Onto {
    /// One that the configuration has.
    pub adapter: AdapterIndex,
    /// Of its interface.
    pub line: CellRate,
    /// How late that adapter may be after a rest, in nanoseconds; none: as on any machine.
    pub late_ns: Option<u64>,
    /// Cells of the interface's other guaranteed connections that go first.
    pub others: Precedence,
}

/// A connection with a contract, and nothing else that matters.
fn any(contract: &TrafficContract) -> Open {
    Open {
        marks: Marks::None,
        address: Address {
            interface: None,
            vc: ANY_VC,
        },
        contract: contract.to_string(),
        notification: None,
        transmit_pdus: None,
        receive_pdus: None,
        queue_threshold: None,
        completions: false,
        receive_into: None,
    }
}

/// What is wrong with the value at `key`: names and numbers from the file's top, between dots.
#[derive(Debug)]
pub(super) struct Mistake {
    key: String,
    text: String,
}

impl Mistake {
    pub(super) fn new(key: impl Into<String>, text: impl Into<String>) -> Self {
        let (key, text) = (key.into(), text.into());
        Self { key, text }
    }

    /// A value of a section with one key.
    fn of(key: &str, text: impl std::fmt::Display) -> Self {
        Self::new(key, format!("{key}: {text}"))
    }

    /// With its place in the text, as far as the text has it.
    pub(super) fn place(self, text: &str) -> ConfigError {
        let Some(at) = place_of(text, &self.key) else {
            return ConfigError::Value(self.text);
        };
        ConfigError::Value(at_place(text, at, &self.text))
    }
}

/// A mistake at the octet `at` of a text: its line and column, the line, and what is wrong.
pub fn at_place(text: &str, at: usize, what: &str) -> String {
    let before = text.get(..at).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    let shown = text.lines().nth(line - 1).unwrap_or_default();
    let (margin, pad) = (" ".repeat(line.to_string().len()), " ".repeat(column - 1));
    format!(
        "mistake at line {line}, column {column}\n{margin} |\n{line} | {shown}\n\
         {margin} | {pad}^\n{what}\n"
    )
}

/// Where the value at `key` of a TOML text begins, or what would hold it: names and numbers from
/// the text's top, between dots.
pub fn place_of(text: &str, key: &str) -> Option<usize> {
    let all = DeTable::parse(text).ok()?.into_inner();
    let all = DeValue::Table(all);
    let (mut value, mut at) = (&all, None);
    for step in key.split('.') {
        let next = match step.parse::<usize>() {
            Ok(number) if value.is_array() => value.get(number),
            // A table stands for an array of one.
            Ok(0) if value.get(step).is_none() => continue,
            _ => value.get(step),
        };
        let Some(next) = next else {
            break;
        };
        at = Some(next.span().start);
        value = next.get_ref();
    }
    at
}

/// What no adapter can be; with its key.
fn check_adapter(adapter: &AdapterSection) -> Result<(), (&'static str, String)> {
    let wrong = |key, text: String| Err((key, text));
    if !(1..=AdapterConfig::PORTS_MAX).contains(&usize::from(adapter.ports)) {
        return wrong("ports", format!("1 to {}", AdapterConfig::PORTS_MAX));
    }
    if !(1..=AdapterConfig::VCS_MAX).contains(&adapter.vcs) {
        return wrong("vcs", format!("1 to {}", AdapterConfig::VCS_MAX));
    }
    for (key, count) in [
        ("leaves", adapter.leaves),
        ("attachments", adapter.attachments),
        ("clump_cells", adapter.clump_cells),
    ] {
        if count == 0 {
            return wrong(key, "1 or more".to_owned());
        }
    }
    let own = AttachmentGeometry::new(ATTACHMENT);
    let own = own.map_or(0, |own| own.from_adapter_len() + own.from_client_len()) as u64;
    if adapter.memory_max < own {
        let text = format!("{own} octets or more, which the daemon itself has");
        return wrong("memory_max", text);
    }
    if !adapter.port_cells.is_power_of_two() {
        return wrong("port_cells", "a power of two".to_owned());
    }
    if adapter.idle.rests() && adapter.gap_max_ns < Idle::LATE_NS_MAX {
        let late = Idle::LATE_NS_MAX;
        let text = format!("{late} or more: an adapter that rests may be late by as much");
        return wrong("gap_max_ns", text);
    }
    if adapter.linger_ns.is_some_and(|ns| ns > adapter.gap_max_ns) {
        let text = format!("more than adapter.gap_max_ns, {}", adapter.gap_max_ns);
        return wrong("linger_ns", text);
    }
    Ok(())
}

impl Config {
    /// What no server can start with.
    pub(super) fn check(&self) -> Result<(), Mistake> {
        self.check_sections()?;
        self.check_reserves()?;
        let names = self.check_interfaces()?;
        self.check_connections(&names)
    }

    fn check_sections(&self) -> Result<(), Mistake> {
        let wrong = |key, text: &str| Err(Mistake::of(key, text));
        let (server, admission) = (&self.server, &self.admission);
        self.check_adapters()?;
        if admission.best_effort_percent > 100 {
            return wrong("admission.best_effort_percent", "more than there is");
        }
        if admission.adapter_ppm > 1_000_000 {
            return wrong("admission.adapter_ppm", "more than there is");
        }
        if self.mode().is_none() {
            return wrong("server.socket_mode", "octal digits, as 0660");
        }
        for (key, text) in [
            ("server.socket", server.socket.as_deref()),
            ("server.socket_mode", Some(&*server.socket_mode)),
            ("server.socket_group", server.socket_group.as_deref()),
            ("server.state_dir", server.state_dir.as_deref()),
            ("server.user", server.user.as_deref()),
        ] {
            if text.is_some_and(|text| text.len() > TEXT_LEN_MAX) {
                return wrong(key, &format!("at most {TEXT_LEN_MAX} octets"));
            }
            if text.is_some_and(str::is_empty) {
                return wrong(key, "empty; without the key the default is taken");
            }
        }
        for (key, text, len_max) in [
            ("server.socket", &server.socket, Link::SOCKET_LEN_MAX),
            (
                "server.state_dir",
                &server.state_dir,
                Link::SOCKET_LEN_MAX - "/".len() - CONTROL_SOCKET.len(),
            ),
        ] {
            if text.as_ref().is_some_and(|text| text.len() > len_max) {
                let text = format!("at most {len_max} octets, as names of sockets are short");
                return wrong(key, &text);
            }
        }
        Ok(())
    }

    fn check_adapters(&self) -> Result<(), Mistake> {
        let mut names = BTreeSet::new();
        for (number, adapter) in self.adapters.iter().enumerate() {
            let wrong = |key: &str, text: &str| {
                let text = match &adapter.name {
                    Some(name) => format!("adapter {name}: {key}: {text}"),
                    None => format!("adapter.{key}: {text}"),
                };
                Err(Mistake::new(format!("adapter.{number}.{key}"), text))
            };
            match &adapter.name {
                Some(name) if !Address::is_interface_name(name) => {
                    return wrong("name", "1 to 15 of the characters a-z A-Z 0-9 _ -");
                }
                Some(name) if !names.insert(name) => return wrong("name", "twice"),
                None if self.adapters.len() > 1 => {
                    return wrong("name", "each of several adapters has one");
                }
                _ => {}
            }
            if let Err((key, text)) = check_adapter(adapter) {
                return wrong(key, &text);
            }
        }
        Ok(())
    }

    fn check_reserves(&self) -> Result<(), Mistake> {
        let mut names = 0;
        for (number, reserve) in self.reserves.iter().enumerate() {
            let wrong = |key: &str, text: String| {
                let key = format!("reserve.{number}.{key}");
                Err(Mistake::new(key, text))
            };
            if number >= RESERVES_MAX {
                return wrong("", format!("reserve: {RESERVES_MAX} at most"));
            }
            let mut interface = reserve.interface.iter();
            if let Some(name) = interface.find(|name| !Address::is_interface_name(name)) {
                return wrong("interface", format!("interface {name:?}: not a name"));
            }
            // All that there are, where the file says nothing.
            if reserve.vpi != Span::default() && reserve.vpi.last > VPI_MAX {
                return wrong("vpi", format!("reserve: vpi: 0 to {VPI_MAX}"));
            }
            names += reserve.users.len() + reserve.groups.len();
            if names > NAMES_MAX {
                let text = format!("reserve: {NAMES_MAX} users and groups at most, in all of them");
                return wrong(
                    if reserve.users.is_empty() {
                        "groups"
                    } else {
                        "users"
                    },
                    text,
                );
            }
        }
        Ok(())
    }

    fn check_interfaces(&self) -> Result<BTreeMap<&str, &InterfaceSpec>, Mistake> {
        let mut names = BTreeMap::new();
        for (number, interface) in self.interfaces.iter().enumerate() {
            let name = &*interface.name;
            let wrong = |key: &str, text: String| {
                let key = format!("interface.{number}.{key}");
                Err(Mistake::new(key, text))
            };
            if !Address::is_interface_name(name) {
                return wrong("name", format!("interface {name:?}: not a name"));
            }
            if names.insert(name, interface).is_some() {
                return wrong("name", format!("interface {name}: twice"));
            }
            if let Some((key, mistake)) = interface.mistake() {
                return wrong(key, format!("interface {name}: {mistake}"));
            }
            let before = &self.interfaces[..number];
            let is_peer = |one: &&InterfaceSpec| interface.link.memory_peer() == Some(&one.name);
            let peer = before.iter().find(is_peer);
            if let Some(why) = peer.and_then(|peer| interface.differs(peer)) {
                return wrong("form", format!("interface {name}: {why}"));
            }
            if let Some(other) = before.iter().find(|one| one.link.collides(&interface.link)) {
                let other = &other.name;
                let text = format!(
                    "interface {name}: {other} has its local address: give both a \
                     peer_source_port, or another address"
                );
                return wrong("link", text);
            }
            let Some(adapter) = self.adapter_of(interface) else {
                let adapter = interface.adapter.as_deref().unwrap_or_default();
                return wrong("adapter", format!("interface {name}: no adapter {adapter}"));
            };
            let section = &self.adapters[adapter.place()];
            if let Link::Udp(udp) = &interface.link
                && let Err(error) = udp.fits(section.clump_cells)
            {
                return wrong("link", format!("interface {name}: {error}"));
            }
            let beside = before
                .iter()
                .filter(|one| self.adapter_of(one) == Some(adapter));
            if beside.count() >= usize::from(section.ports) {
                let text = "more interfaces than adapter.ports";
                return Err(Mistake::new(format!("interface.{number}"), text));
            }
        }
        Ok(names)
    }

    fn check_connections(&self, names: &BTreeMap<&str, &InterfaceSpec>) -> Result<(), Mistake> {
        let mut addresses = BTreeSet::new();
        for (number, Open { address, .. }) in self.connections.iter().enumerate() {
            let wrong = |text: &str| {
                let text = format!("connection {address}: {text}");
                Err(Mistake::new(format!("connection.{number}.address"), text))
            };
            let interface = match &address.interface {
                Some(name) => match names.get(&**name) {
                    None => return wrong("no such interface"),
                    Some(found) => Some(*found),
                },
                None => self.unnamed(),
            };
            if let Some(refused) = interface.and_then(|one| one.bars(address.vc)) {
                return wrong(&refused.to_string());
            }
            // With and without its interface's name an address is the same.
            let name = interface.map(|one| &*one.name);
            if !addresses.insert((name.or(address.interface.as_deref()), address.vc)) {
                return wrong("twice");
            }
        }
        Ok(())
    }

    /// What a server starts without, and whatever the machine and its other users, never has.
    pub(super) fn check_whole(&self) -> Result<(), Mistake> {
        let wrong = |key, text: &str| Err(Mistake::of(key, text));
        let mut adapters = self.adapters.iter();
        if let Some(number) = adapters.position(|one| !(-20..=19).contains(&one.nice)) {
            let key = format!("adapter.{number}.nice");
            return Err(Mistake::new(key, "adapter.nice: -20 to 19"));
        }
        if let Some(Err(error)) = self.server.user.as_deref().map(user) {
            return wrong("server.user", &error.to_string());
        }
        if let Some(Err(error)) = self.server.socket_group.as_deref().map(group) {
            return wrong("server.socket_group", &error.to_string());
        }
        self.check_peers()?;
        self.check_reserved_interfaces()?;
        let mut possible = self.possible();
        let mut lines = BTreeMap::new();
        let mut ports = BTreeMap::new();
        for interface in &self.interfaces {
            let line = interface.line_rate.unwrap_or(CellRate::OC3);
            let adapter = self.adapter_of(interface).unwrap_or_default();
            let next = ports.entry(adapter).or_insert(0);
            let port = adapter.on(PortIndex(*next));
            *next += 1;
            possible.add_line(port, line);
            lines.insert(&*interface.name, (port, line));
        }
        // Where the file has none, somebody else may add them.
        let connections = self.connections.iter().filter(|_| !lines.is_empty());
        for (number, open) in connections.enumerate() {
            let wrong = |key: &str, refused: Refused| {
                let text = format!("connection {}: {key}: {refused}", open.address);
                Mistake::new(format!("connection.{number}.{key}"), text)
            };
            let name = open.address.interface.as_deref();
            let Some((port, line)) = name.and_then(|name| lines.get(name)) else {
                let names = lines.keys().map(|name| (*name).to_owned()).collect();
                return Err(wrong("address", Refused::InterfaceUnnamed { names }));
            };
            let admitted = possible.admit(*port, *line, open);
            admitted.map_err(|refused| wrong("contract", refused))?;
        }
        Ok(())
    }

    /// What this promises where cells cost no time: no machine is as fast.
    fn possible(&self) -> Possible {
        Possible::new(self.server_config(Laws::default()))
    }

    /// Whether a server of this configuration could ever open a connection with this contract, on
    /// an interface of the rate `line` of one of its adapters, that has no other.
    ///
    /// # Errors
    /// As a server refuses it; nothing is offered instead.
    pub fn could_open(
        &self,
        adapter: AdapterIndex,
        line: CellRate,
        contract: &TrafficContract,
    ) -> Result<(), Refused> {
        let mut possible = self.possible();
        let port = adapter.on(PortIndex(0));
        possible.add_line(port, line);
        possible.admit(port, line, &any(contract))
    }

    /// The connection that a server of this configuration makes of a contract.
    ///
    /// # Errors
    /// The contract cannot be served, however much room there is.
    pub fn prospect(&self, on: Onto, contract: &TrafficContract) -> Result<Prospect, Refused> {
        let mut config = self.server_config(Laws::default());
        let adapter = config.adapters.get_mut(on.adapter.place());
        if let (Some(adapter), Some(late_ns)) = (adapter, on.late_ns) {
            adapter.late_ns = late_ns;
        }
        let possible = Possible::new(config);
        possible.prospect(on.adapter, on.line, on.others, &any(contract))
    }

    /// Somebody may add an interface later; a name that is mistyped is more likely.
    fn check_reserved_interfaces(&self) -> Result<(), Mistake> {
        for (number, reserve) in self.reserves.iter().enumerate() {
            let mut interfaces = self.interfaces.iter();
            if let Some(name) = &reserve.interface
                && !interfaces.any(|interface| interface.name == *name)
            {
                let key = format!("reserve.{number}.interface");
                return Err(Mistake::new(key, format!("reserve: no interface {name}")));
            }
        }
        Ok(())
    }

    /// Memory links have two ends.
    fn check_peers(&self) -> Result<(), Mistake> {
        for (number, InterfaceSpec { name, link, .. }) in self.interfaces.iter().enumerate() {
            let Some(peer) = link.memory_peer() else {
                continue;
            };
            let mut all = self.interfaces.iter();
            let back = Link::peer(name);
            let why = match all.find(|other| other.name == peer) {
                None => format!("no interface {peer}"),
                Some(other) if other.link != back => format!("{peer} is not linked with {name}"),
                Some(_) => continue,
            };
            let text = format!("interface {name}: link.memory.peer: {why}");
            let key = format!("interface.{number}.link.memory.peer");
            return Err(Mistake::new(key, text));
        }
        Ok(())
    }
}
