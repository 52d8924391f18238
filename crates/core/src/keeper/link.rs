//! What carries the cells of a port.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU16;
use core::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::TimeWord;
use crate::wire::{CellPseudowire, IpVersion, Label, VpiVci};

/// What carries the cells of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Link {
    /// Memory of this machine: what one end sends, the other receives.
    Memory(MemoryLink),
    /// A pseudowire over UDP (RFC 4717 in RFC 7510).
    Udp(UdpLink),
}

/// Whose the other end of a memory link is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryLink {
    /// That of the interface of this server that has this name. The one that is added first waits
    /// for it. With its own name: what it sends, it receives.
    Peer(String),
    /// That of another server's interface with the same path: whoever finds nobody there listens,
    /// the other connects.
    Socket(String),
}

/// The longest IP packet of Ethernet in octets.
const fn default_mtu() -> u16 {
    Link::MTU
}

fn read_end<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    Link::end(&String::deserialize(from)?).map_err(D::Error::custom)
}

impl Link {
    /// Octets of a pseudowire's longest IP packet where nothing else is said.
    pub const MTU: u16 = 1500;
    /// The UDP port of MPLS in UDP (RFC 7510), where an address names none.
    const MPLS_IN_UDP: u16 = 6635;

    /// Octets of a socket's path at most (`sun_path`, with the 0 at its end: 108).
    pub const SOCKET_LEN_MAX: usize = 107;

    /// Memory, to the interface of this server that has this name.
    pub fn peer(name: impl Into<String>) -> Self {
        Self::Memory(MemoryLink::Peer(name.into()))
    }

    /// The name of the interface of this server that has the other end, if one has.
    pub fn memory_peer(&self) -> Option<&str> {
        match self {
            Self::Memory(MemoryLink::Peer(peer)) => Some(peer),
            Self::Memory(MemoryLink::Socket(_)) | Self::Udp(_) => None,
        }
    }

    /// The end of a pseudowire that a text names: an IP address, with or without port.
    ///
    /// # Errors
    /// It names none; the error says so.
    pub fn end(text: &str) -> Result<SocketAddr, String> {
        let bare = text.parse::<IpAddr>();
        let bare = bare.map(|ip| (ip, Self::MPLS_IN_UDP).into());
        bare.or_else(|_| text.parse())
            .map_err(|_| format!("`{text}` is no IP address, with or without port"))
    }

    /// What it carries if it cannot carry cells of this VC.
    pub fn bars(&self, vc: VpiVci) -> Option<CellPseudowire> {
        match self {
            Self::Memory(_) => None,
            Self::Udp(udp) => (!udp.mode.carries(vc)).then_some(udp.mode),
        }
    }
}

impl Link {
    /// What no machine can have of it, if anything: a port 0, where nothing arrives, a peer that
    /// is not one host, or a path that no socket can have.
    pub fn mistake(&self) -> Option<String> {
        let UdpLink { local, peer, .. } = match self {
            Self::Udp(udp) => udp,
            Self::Memory(MemoryLink::Peer(_)) => return None,
            Self::Memory(MemoryLink::Socket(path)) => return socket_mistake(path),
        };
        for (name, address) in [("local", local), ("peer", peer)] {
            if address.port() == 0 {
                return Some(format!("{name} {address}: a port of 1 to 65535 is needed"));
            }
            let is_broadcast = address.ip() == core::net::Ipv4Addr::BROADCAST;
            if address.ip().is_multicast() || is_broadcast {
                return Some(format!(
                    "{name} {address}: a pseudowire has one host at each end"
                ));
            }
        }
        let nobody = peer.ip().is_unspecified();
        nobody.then(|| format!("peer {peer}: that is no host's address"))
    }

    /// Whether no machine can have both: their datagrams arrive at one address, and nothing tells
    /// whose they are.
    pub fn collides(&self, other: &Self) -> bool {
        let (
            Self::Udp(UdpLink {
                local,
                peer,
                peer_source_port,
                ..
            }),
            Self::Udp(UdpLink {
                local: there,
                peer: of,
                peer_source_port: from,
                ..
            }),
        ) = (self, other)
        else {
            return false;
        };
        let any = |address: &SocketAddr| address.ip().is_unspecified();
        let meets = local.port() == there.port()
            && local.is_ipv4() == there.is_ipv4()
            && (local.ip() == there.ip() || any(local) || any(there));
        let apart = match (peer_source_port, from) {
            (Some(one), Some(two)) => (peer.ip(), one) != (of.ip(), two),
            _ => false,
        };
        meets && !apart
    }
}

/// Octets of a socket's own name at most: it is bound by way of its directory's descriptor, whose
/// path in /proc is 27 octets long at most.
const NAME_LEN_MAX: usize = Link::SOCKET_LEN_MAX - 27;

fn socket_mistake(path: &str) -> Option<String> {
    let (_, name) = path.rsplit_once('/').unwrap_or_default();
    let most = Link::SOCKET_LEN_MAX;
    let names = path.starts_with('/') && !path.ends_with('/') && !path.contains('\0');
    match path.len() {
        len if len > most => Some(format!(
            "socket: a path of {len} octets: at most {most}, as names of sockets are short"
        )),
        _ if names && name.len() > NAME_LEN_MAX => Some(format!(
            "socket: a name of {} octets: at most {NAME_LEN_MAX}",
            name.len()
        )),
        _ if !names => Some(format!(
            "socket {path:?}: expected a path from the root to a socket, as /run/cellgate/a.sock"
        )),
        _ => None,
    }
}

/// One pseudowire, as both ends have agreed on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdpLink {
    /// Where its datagrams arrive; text without a port means 6635 (RFC 7510).
    #[serde(deserialize_with = "read_end")]
    pub local: SocketAddr,
    /// Where its datagrams go; text without a port means 6635.
    #[serde(deserialize_with = "read_end")]
    pub peer: SocketAddr,
    /// The source port of what is sent: one for each pseudowire (0: whichever is free).
    #[serde(default)]
    pub source_port: u16,
    /// The source port of what arrives. Without, any will do, and no other pseudowire of this
    /// machine can use `local`.
    #[serde(default)]
    pub peer_source_port: Option<u16>,
    /// The label of what is sent: 16 to 1,048,575.
    pub label_out: u32,
    /// The label of what arrives: 16 to 1,048,575.
    pub label_in: u32,
    /// How it packs cells, and whose they are where it does not send that.
    #[serde(default)]
    pub mode: CellPseudowire,
    /// The longest IP packet, in octets: 68 to 65,535; 1500 where nothing else is said.
    #[serde(default = "default_mtu")]
    pub mtu: u16,
    /// Cells of a datagram at most; none: as many as fit.
    #[serde(default)]
    pub pack: Option<NonZeroU16>,
    /// How long a datagram that is not full waits for more cells, in nanoseconds: at most
    /// [`UdpLink::TIMER_NS_MAX`].
    #[serde(default)]
    pub timer_ns: u64,
}

/// Why a pseudowire cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum UdpLinkError {
    /// A label is reserved, or has more than 20 bits.
    #[error("label {0} is not one of 16 to 1,048,575")]
    Label(u32),
    /// No cell fits.
    #[error("no cell fits an IP packet of {0} octets")]
    Mtu(u16),
    /// So many cells do not fit.
    #[error("an IP packet of {mtu} octets has {fit} cells, not {pack}")]
    Pack {
        /// Cells.
        pack: u16,
        /// Octets.
        mtu: u16,
        /// Cells.
        fit: usize,
    },
    /// Datagrams can bring more at once than the adapter tolerates.
    #[error(
        "{pack} cells a datagram: {clump} at once are tolerated; pack {clump}, or have more \
         `adapter.clump_cells`"
    )]
    Clump {
        /// Cells.
        pack: usize,
        /// Cells.
        clump: u16,
    },
    /// The timer is too long.
    #[error("a timer of {0} ns: at most 1,000,000,000")]
    Timer(u64),
    /// Its ends are of different versions of IP.
    #[error("{local} and {peer} are of different versions of IP")]
    Versions { local: SocketAddr, peer: SocketAddr },
}

impl UdpLink {
    /// The longest packing timer.
    pub const TIMER_NS_MAX: u64 = 1_000_000_000;

    /// Octets before the first cell of a datagram.
    pub const fn header_len(&self) -> usize {
        crate::wire::LABEL_ENTRY_LEN + self.mode.mode().header_len()
    }

    /// Cells of a full datagram.
    pub fn packed(&self) -> usize {
        let fit = self.cells_per_datagram();
        self.pack.map_or(fit, |pack| fit.min(pack.get().into()))
    }

    /// Cells that fit a datagram.
    pub const fn cells_per_datagram(&self) -> usize {
        let version = match self.peer {
            SocketAddr::V4(_) => IpVersion::V4,
            SocketAddr::V6(_) => IpVersion::V6,
        };
        version.cells_per_datagram(self.mtu as usize, self.mode.mode())
    }

    /// Whether an adapter can have it that tolerates `clump` cells at once (`Config::clump_cells`):
    /// the peer is taken to pack as many cells as this end.
    ///
    /// # Errors
    /// Both ends could not be, or its datagrams bring more.
    pub fn fits(&self, clump: u16) -> Result<(), UdpLinkError> {
        self.check()?;
        match self.packed() {
            pack if pack > clump.into() => Err(UdpLinkError::Clump { pack, clump }),
            _ => Ok(()),
        }
    }

    /// Whether both ends could be.
    ///
    /// # Errors
    /// They could not; why.
    pub fn check(&self) -> Result<(), UdpLinkError> {
        for label in [self.label_in, self.label_out] {
            if Label::new(label).is_none_or(Label::is_reserved) {
                return Err(UdpLinkError::Label(label));
            }
        }
        if self.local.is_ipv4() != self.peer.is_ipv4() {
            let (local, peer) = (self.local, self.peer);
            return Err(UdpLinkError::Versions { local, peer });
        }
        if self.timer_ns > Self::TIMER_NS_MAX {
            return Err(UdpLinkError::Timer(self.timer_ns));
        }
        match (self.cells_per_datagram(), self.pack.map(NonZeroU16::get)) {
            (0, _) => Err(UdpLinkError::Mtu(self.mtu)),
            (fit, Some(pack)) if usize::from(pack) > fit => {
                let mtu = self.mtu;
                Err(UdpLinkError::Pack { pack, mtu, fit })
            }
            _ => Ok(()),
        }
    }
}

/// Words that make no link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LinkError(String);

/// The `key value` words of a link.
struct Words<'a> {
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Result<Self, LinkError> {
        let mut words = text.split_whitespace();
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        while let Some(key) = words.next() {
            let value = words.next();
            let value = value.ok_or_else(|| LinkError(format!("`{key}` has no value")))?;
            if pairs.iter().any(|(other, _)| *other == key) {
                return Err(LinkError(format!("`{key}` comes twice")));
            }
            pairs.push((key, value));
        }
        Ok(Self { pairs })
    }

    /// The word behind `key`.
    fn text(&mut self, key: &str) -> Option<&'a str> {
        let at = self.pairs.iter().position(|(other, _)| *other == key)?;
        Some(self.pairs.remove(at).1)
    }

    fn required(&mut self, key: &str) -> Result<&'a str, LinkError> {
        let text = self.text(key);
        text.ok_or_else(|| LinkError(format!("`{key} VALUE` is missing")))
    }

    /// The value behind `key`, as `read` reads it.
    fn value<T, E: fmt::Display>(
        &mut self,
        key: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, LinkError> {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        let value = read(text);
        value
            .map(Some)
            .map_err(|error| LinkError(format!("`{key} {text}`: {error}")))
    }

    fn finish(self) -> Result<(), LinkError> {
        match self.pairs.first() {
            None => Ok(()),
            Some((key, _)) => Err(LinkError(format!("`{key}` is not known here"))),
        }
    }
}

/// `type memory peer NAME`, `type memory socket PATH`, or
/// `type udp local ADDR[:PORT] peer ADDR[:PORT] label OUT[:IN]
/// [source-port N] [peer-source-port N] [mtu N] [mode n1|n1-cw|vcc@VPI.VCI|vpc@VPI] [pack CELLS]
/// [timer TIME]`.
impl FromStr for Link {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        let mut words = Words::of(text)?;
        let link = match words.required("type")? {
            "memory" => Self::Memory(memory(&mut words)?),
            "udp" => Self::Udp(udp(&mut words)?),
            other => {
                let text = format!("`type {other}`: expected memory or udp");
                return Err(LinkError(text));
            }
        };
        words.finish()?;
        Ok(link)
    }
}

fn memory(words: &mut Words<'_>) -> Result<MemoryLink, LinkError> {
    match (words.text("peer"), words.text("socket")) {
        (Some(peer), None) => Ok(MemoryLink::Peer(peer.to_owned())),
        (None, Some(path)) => Ok(MemoryLink::Socket(path.to_owned())),
        (Some(_), Some(_)) => Err("`peer` and `socket`: a link has one other end"),
        (None, None) => Err("`peer NAME` or `socket PATH` is missing"),
    }
    .map_err(|why| LinkError(why.to_owned()))
}

fn udp(words: &mut Words<'_>) -> Result<UdpLink, LinkError> {
    let local = Link::end(words.required("local")?).map_err(LinkError)?;
    let peer = Link::end(words.required("peer")?).map_err(LinkError)?;
    let labels = words.required("label")?;
    let (label_out, label_in) = match labels.split_once(':') {
        Some((out, into)) => (label(out)?, label(into)?),
        None => (label(labels)?, label(labels)?),
    };
    let number = |text: &str| text.parse().map_err(|_| "expected 0 to 65535");
    let cells = |text: &str| text.parse().map_err(|_| "expected 1 to 65535");
    let timer = words.value("timer", str::parse::<TimeWord>)?;
    Ok(UdpLink {
        local,
        peer,
        source_port: words.value("source-port", number)?.unwrap_or(0),
        peer_source_port: words.value("peer-source-port", number)?,
        label_out,
        label_in,
        mode: words.value("mode", str::parse)?.unwrap_or_default(),
        mtu: words.value("mtu", number)?.unwrap_or(Link::MTU),
        pack: words.value("pack", cells)?,
        timer_ns: timer.map_or(0, |TimeWord(ns)| ns),
    })
}

fn label(text: &str) -> Result<u32, LinkError> {
    let label = text.parse().ok();
    let label = label.filter(|label| (16..1 << 20).contains(label));
    label.ok_or_else(|| LinkError(format!("`label {text}`: expected 16 to 1048575")))
}

/// The words that make it again, but for `type`.
impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UdpLink {
            local,
            peer,
            source_port,
            peer_source_port,
            label_out,
            label_in,
            mode,
            mtu,
            pack,
            timer_ns,
        } = match self {
            Self::Memory(MemoryLink::Peer(peer)) => return write!(f, "memory peer {peer}"),
            Self::Memory(MemoryLink::Socket(path)) => return write!(f, "memory socket {path}"),
            Self::Udp(udp) => udp,
        };
        write!(
            f,
            "udp local {local} peer {peer} label {label_out}:{label_in}"
        )?;
        if *source_port != 0 {
            write!(f, " source-port {source_port}")?;
        }
        if let Some(port) = peer_source_port {
            write!(f, " peer-source-port {port}")?;
        }
        if *mtu != Self::MTU {
            write!(f, " mtu {mtu}")?;
        }
        if *mode != CellPseudowire::default() {
            write!(f, " mode {mode}")?;
        }
        if let Some(pack) = pack {
            write!(f, " pack {pack}")?;
        }
        if *timer_ns != 0 {
            write!(f, " timer {}", TimeWord(*timer_ns))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_without_a_port_and_no_mtu_are_those_of_mpls_in_udp() {
        let udp = |local: &str| {
            let link = format!(
                r#"{{"udp":{{"local":"{local}","peer":"192.0.2.2:7001",
                    "label_out":16,"label_in":17}}}}"#
            );
            serde_json::from_str::<Link>(&link)
        };
        let Ok(Link::Udp(UdpLink {
            local, peer, mtu, ..
        })) = udp("2001:db8::1")
        else {
            panic!("no pseudowire");
        };
        assert_eq!(
            (local.to_string(), peer.to_string(), mtu),
            (
                "[2001:db8::1]:6635".to_owned(),
                "192.0.2.2:7001".to_owned(),
                1_500
            )
        );
        let error = udp("here").expect_err("no address").to_string();
        assert!(
            error.starts_with("`here` is no IP address, with or without port"),
            "{error}"
        );
    }

    fn link(text: &str) -> Result<Link, String> {
        text.parse().map_err(|error: LinkError| error.to_string())
    }

    #[test]
    fn words_make_a_link_and_a_link_its_words() {
        let all = "type udp local 10.0.0.1:1 peer 10.0.0.2:2 label 100:101 source-port 5 \
                   peer-source-port 6 mtu 900 mode n1-cw pack 8 timer 250us";
        for text in [
            all,
            "type udp local [::1]:1 peer [::1]:2 label 16:16",
            "type udp local [::1]:1 peer [::1]:2 label 16:16 mode vcc@4095.65535",
            "type udp local [::1]:1 peer [::1]:2 label 16:16 mode vpc@5 timer 1ms",
            "type memory peer b",
        ] {
            let made = link(text).expect(text);
            assert_eq!(format!("type {made}"), text);
        }
        let Ok(Link::Udp(UdpLink { pack, timer_ns, .. })) = link(all) else {
            panic!("a UDP link");
        };
        assert_eq!((pack.map(NonZeroU16::get), timer_ns), (Some(8), 250_000));
        let text = "type udp local 10.0.0.1 peer 10.0.0.2:7000 label 100:101 mode n1-cw";
        let Ok(Link::Udp(UdpLink {
            local, peer, mtu, ..
        })) = link(text)
        else {
            panic!("a UDP link");
        };
        assert_eq!(
            (local.to_string(), peer.to_string(), mtu),
            (
                "10.0.0.1:6635".to_owned(),
                "10.0.0.2:7000".to_owned(),
                1_500
            )
        );
    }

    #[test]
    fn a_socket_s_path_begins_at_the_root_and_is_short() {
        let mistake = |path: &str| Link::Memory(MemoryLink::Socket(path.to_owned())).mistake();
        let (longest, longer) = ("x".repeat(80), "x".repeat(81));
        for path in ["/run/cellgate/a.sock", "/a", &format!("/{longest}")] {
            assert_eq!(mistake(path), None, "{path}");
            let text = format!("type memory socket {path}");
            assert_eq!(format!("type {}", text.parse::<Link>().unwrap()), text);
        }
        for (path, part) in [
            ("", "from the root"),
            ("a.sock", "from the root"),
            ("/run/", "from the root"),
            ("/a\0b", "from the root"),
            (&format!("/{longer}"), "a name of 81 octets"),
            (&format!("/{longest}/{longest}"), "a path of 162 octets"),
        ] {
            let told = mistake(path).expect(path);
            assert!(told.contains(part), "{path:?}: {told}");
        }
    }

    #[test]
    fn words_that_make_no_link_are_said() {
        for (text, part) in [
            ("", "type VALUE"),
            ("type", "`type` has no value"),
            ("type tin", "memory or udp"),
            ("type memory", "`peer NAME` or `socket PATH`"),
            ("type memory peer a socket /b", "one other end"),
            ("type memory peer a peer b", "`peer` comes twice"),
            ("type memory peer b mtu 3", "`mtu` is not known"),
            ("type udp local x peer 10.0.0.2 label 100", "`x` is no IP"),
            ("type udp local ::1 peer ::1 label 15", "16 to 1048575"),
            (
                "type udp local ::1 peer ::1 label 16 pack 0",
                "`pack 0`: expected 1",
            ),
            (
                "type udp local ::1 peer ::1 label 16 mode vcc",
                "vcc@VPI.VCI",
            ),
            (
                "type udp local ::1 peer ::1 label 16 mode vpc@4096",
                "vpc@VPI",
            ),
            (
                "type udp local ::1 peer ::1 label 16 mode aal5-sdu@0.40",
                "n1-cw",
            ),
            ("type udp local ::1 peer ::1 label 16 timer 5", "250us"),
            ("type memory peer b timer 5ms", "`timer` is not known"),
        ] {
            let error = link(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
