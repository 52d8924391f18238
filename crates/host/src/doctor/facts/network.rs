//! What sockets and network devices can do here.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;

use cellgate_core::contract::CellRate;
use cellgate_core::keeper::UdpLink;
use cellgate_core::server::{InterfaceState, Link};
use quinn_udp::{UdpSockRef, UdpSocketState};

use super::machine::text;
use crate::doctor::ask::Daemon;
use crate::link::udp::RECEIVE_BUFFER;
use crate::server::Config;

/// Octets of the kernel's memory that a datagram of a pseudowire takes.
const DATAGRAM: u64 = 2_304;

/// An interface that is a pseudowire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pseudowire {
    pub(crate) name: String,
    /// Where its datagrams arrive.
    pub(crate) local: SocketAddr,
    /// Whether the machine has that address.
    pub(crate) is_here: bool,
    /// The user that has the port already, and is not the server.
    pub(crate) taken_by: Option<u32>,
    /// The first port that is for everybody, if this one is below.
    pub(crate) reserved_below: Option<u16>,
    /// Octets that wait in the socket where the adapter stands still for as long as it may.
    pub(crate) needed: u64,
    /// That of its adapter.
    pub(crate) gap_max_ns: u64,
    /// Octets that can wait.
    pub(crate) granted: u64,
    /// As the daemon has it.
    pub(crate) state: Option<InterfaceState>,
}

/// All pseudowires of a configuration.
pub(crate) fn pseudowires(root: &Path, config: &Config, daemon: &Daemon) -> Vec<Pseudowire> {
    let number = |path: &str| text(root, path).and_then(|text| text.parse::<u64>().ok());
    let most = number("proc/sys/net/core/rmem_max").unwrap_or(u64::MAX);
    // The kernel grants twice what is asked for.
    let granted = most.min(RECEIVE_BUFFER as u64).saturating_mul(2);
    let first = number("proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap_or(1_024);
    let sockets = ["proc/net/udp", "proc/net/udp6"].map(|path| text(root, path));
    let sockets = sockets.map(Option::unwrap_or_default).join("\n");
    let state = |name: &str| {
        let of = |said: &super::super::ask::Said| {
            let infos = said.interfaces.iter();
            infos
                .clone()
                .find(|info| info.spec.name == name)
                .map(|info| info.state.clone())
        };
        daemon.said().and_then(of)
    };
    let of = |spec: &cellgate_core::server::InterfaceSpec| {
        let Link::Udp(UdpLink {
            local,
            peer_source_port,
            ..
        }) = &spec.link
        else {
            return None;
        };
        let rate = spec.line_rate.unwrap_or(CellRate::OC3);
        let adapter = &config.adapters[config.adapter_of(spec)?.place()];
        let cells = u128::from(adapter.gap_max_ns) * u128::from(rate.cell_s());
        let cells = u64::try_from(cells / 1_000_000_000).unwrap_or(u64::MAX);
        let clump = u64::from(adapter.clump_cells).max(1);
        let state = state(&spec.name);
        let free = peer_source_port.is_some() || state.is_some();
        let reserved = u64::from(local.port()) < first;
        Some(Pseudowire {
            name: spec.name.clone(),
            local: *local,
            is_here: is_here(local.ip()),
            taken_by: taken_by(&sockets, *local).filter(|_| !free),
            reserved_below: reserved.then(|| u16::try_from(first).unwrap_or(u16::MAX)),
            gap_max_ns: adapter.gap_max_ns,
            needed: cells.div_ceil(clump).saturating_mul(DATAGRAM),
            granted,
            state,
        })
    };
    config.interfaces.iter().filter_map(of).collect()
}

/// Whether a socket can have this address: nothing but that keeps one from any free port.
fn is_here(address: IpAddr) -> bool {
    match UdpSocket::bind((address, 0)) {
        Ok(_) => true,
        Err(error) => error.kind() != ErrorKind::AddrNotAvailable,
    }
}

/// The user whose socket keeps another from a local address, by /proc/net/udp and udp6.
pub(crate) fn taken_by(sockets: &str, wanted: SocketAddr) -> Option<u32> {
    let of = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (address, port) = fields.nth(1)?.split_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        let uid = fields.nth(5)?.parse().ok()?;
        let address = address_of(address)?;
        // One of IPv6 that takes any address takes those of IPv4 as well.
        let meets = address == wanted.ip()
            || wanted.ip().is_unspecified()
            || address.is_unspecified() && (address.is_ipv6() || wanted.is_ipv4());
        (port == wanted.port() && meets).then_some(uid)
    };
    sockets.lines().find_map(of)
}

/// An address as the kernel prints it: words of 32 bits in this machine's order.
fn address_of(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = u32::from_str_radix(hex.get(at * 8..at * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    match hex.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut octets = [0; 16];
            for (at, four) in octets.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(at)?);
            }
            Some(Ipv6Addr::from(octets).into())
        }
        _ => None,
    }
}

/// How many datagrams a UDP socket takes in one system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offloads {
    /// On their way out.
    pub(crate) send: usize,
    /// On their way in.
    pub(crate) receive: usize,
}

impl Offloads {
    /// Of this machine's sockets.
    pub(crate) fn of_sockets() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
            .or_else(|_| UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)));
        let state = socket.and_then(|socket| UdpSocketState::new(UdpSockRef::from(&socket)));
        // A machine without any address has no pseudowires.
        state.map_or(
            Self {
                send: 64,
                receive: 64,
            },
            |state| Self {
                send: state.max_gso_segments(),
                receive: state.gro_segments(),
            },
        )
    }
}

/// Whether network devices can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tun {
    There,
    /// There is no /dev/net/tun.
    Missing,
    /// This user may not open it.
    Denied,
}

impl Tun {
    pub(crate) fn of(root: &Path) -> Self {
        let path = root.join("dev/net/tun");
        // To open it makes no device.
        match std::fs::File::options().read(true).write(true).open(path) {
            Ok(_) => Self::There,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Self::Denied,
            Err(_) => Self::Missing,
        }
    }
}
