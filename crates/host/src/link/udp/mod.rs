//! The `udp` link: a port's cells in the datagrams of a pseudowire (RFC 4717) in MPLS-in-UDP
//! (RFC 7510).
//!
//! ```text
//!  IP 20 or 40 | UDP 8 | label 4 | [control word 4] | up to 28 cells of 52 octets at 1,500
//!                                | 0, sequence    3 | of one VC 29 of 49, of one VP 28 of 51
//! ```
//!
//! Each direction has a socket of its own. The receiving one is bound to port 6635 and connected to
//! the peer's source port, so that the kernel sorts pseudowires into different queues: what floods
//! one does not fill another's. The sending one is bound to the pseudowire's source port.
//!
//! Unlike the `memory` link, this one makes system calls on the firmware thread: `recvmmsg` when
//! its queue is looked at, at most every [`UdpReceiver::LOOK_EVERY_NS`] while nothing comes;
//! `sendmsg` at the end of a step that transmitted. Neither waits.
//!
//! A cell is copied out of its datagram once, into the adapter's FIFO, as on the `memory` link; the
//! kernel's copy of the datagram comes before it. What a pseudowire of one VC or path does not send
//! of a cell's address is filled in then.
//!
//! What a step transmits leaves with it, in as few datagrams as hold it, but for a datagram that is
//! not full: that one may wait for more cells, as long as the packing timer says. No encryption, no
//! fragments, no congestion control (RFC 7510 section 5: for networks that are managed, and traffic
//! that is shaped).

mod receive;
mod send;
mod socket;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

use cellgate_core::Time;
use cellgate_core::wire::{CellPseudowire, IpVersion, Label};
use serde::{Deserialize, Serialize};

pub use receive::UdpReceiver;
pub use send::UdpSender;
pub(crate) use socket::RECEIVE_BUFFER;

/// One pseudowire, as both ends have agreed on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdpOptions {
    /// Where its datagrams arrive. RFC 7510 has port 6635.
    pub local: SocketAddr,
    /// Where its datagrams go. RFC 7510 has port 6635.
    pub peer: SocketAddr,
    /// The source port of what is sent: one for each pseudowire (0: whichever is free).
    pub source_port: u16,
    /// The source port of what arrives. Without, any will do, and no other pseudowire of this
    /// machine can use `local`.
    pub peer_source_port: Option<u16>,
    /// The label of what is sent: 16 to 1,048,575.
    pub label_out: u32,
    /// The label of what arrives: 16 to 1,048,575.
    pub label_in: u32,
    /// How it packs cells, and whose they are where it does not send that.
    #[serde(default)]
    pub mode: CellPseudowire,
    /// The longest IP packet, in octets: 68 to 65,535.
    pub mtu: u16,
    /// Cells of a datagram at most; none: as many as fit.
    #[serde(default)]
    pub pack: Option<NonZeroU16>,
    /// How long a datagram that is not full waits for more cells, in nanoseconds: at most
    /// [`UdpOptions::TIMER_NS_MAX`].
    #[serde(default)]
    pub timer_ns: u64,
}

/// Why a pseudowire cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum UdpError {
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
    /// The kernel refused the socket.
    #[error("the kernel refused {what}: {error}")]
    Kernel {
        /// What was asked of it.
        what: &'static str,
        error: std::io::Error,
    },
}

/// What one end of a pseudowire counted. Cells in datagrams that did not arrive whole are in no
/// count of cells: nobody knows how many they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpReport {
    /// Datagrams that held cells.
    pub received_datagrams: u64,
    /// Cells in them.
    pub received_cells: u64,
    /// Datagrams that did not, by reason.
    pub discarded_datagrams: UdpDiscards,
    /// Numbers that no packet had; without control word always 0.
    pub missing_datagrams: u64,
    /// Entries of the socket's queue that found it full: datagrams, or several that came together.
    pub overflows: u64,
    /// Octets that may wait in the socket, the kernel's overhead included, as it granted them.
    pub receive_buffer_octets: u64,
    /// System calls that received something, or found nothing.
    pub receive_calls: u64,
    /// Errors of these.
    pub receive_errors: u64,
    /// Datagrams that the kernel took.
    pub sent_datagrams: u64,
    /// Cells in them.
    pub sent_cells: u64,
    /// System calls that sent something.
    pub send_calls: u64,
    /// Datagrams that it did not take: too long for a link on the way out, no route, and the like.
    pub send_errors: u64,
    /// Cells in these, those for which there was no room, and those of other VCs.
    pub dropped_cells: u64,
    /// Of these, cells of other VCs than the pseudowire is for.
    pub foreign_cells: u64,
    /// Why the kernel did not take datagrams.
    pub refusals: Refusals,
    /// The error of the last that the kernel refused; none: it has sent for a second since.
    pub last_refusal: Option<i32>,
    /// When a datagram with cells came last.
    pub heard: Option<Time>,
    /// Whose datagram was discarded last for not being the peer's.
    pub last_refused: Option<IpAddr>,
}

/// Datagrams that the kernel did not take, by error number: the first few that were met, and all
/// others under 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals([(i32, u64); Self::MOST]);

impl Refusals {
    /// Error numbers that are counted apart, and the others.
    const MOST: usize = 6;

    fn count(&mut self, errno: i32, datagrams: u64) {
        let [others, first @ ..] = &mut self.0;
        let own = |place: &&mut (i32, u64)| place.0 == errno || place.1 == 0;
        match first.iter_mut().find(own) {
            Some(place) => *place = (errno, place.1 + datagrams),
            None => others.1 += datagrams,
        }
    }

    /// Error numbers and how many datagrams met them.
    pub fn iter(&self) -> impl Iterator<Item = (i32, u64)> {
        self.0.into_iter().filter(|(_, count)| *count > 0)
    }
}

/// Why datagrams were discarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpDiscards {
    /// Not from the peer's address.
    pub wrong_source: u64,
    /// No label stack.
    pub bad_stack: u64,
    /// The label of something else.
    pub wrong_label: u64,
    /// A control word that is none, or whose length is wrong.
    pub bad_control_word: u64,
    /// No whole number of cells, or none, or of another mode.
    pub bad_length: u64,
    /// Older than one that came before.
    pub out_of_order: u64,
}

impl UdpDiscards {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.wrong_source
            + self.bad_stack
            + self.wrong_label
            + self.bad_control_word
            + self.bad_length
            + self.out_of_order
    }
}

impl UdpOptions {
    /// The longest packing timer.
    pub const TIMER_NS_MAX: u64 = 1_000_000_000;

    /// Octets before the first cell of a datagram.
    const fn header_len(&self) -> usize {
        cellgate_core::wire::LABEL_ENTRY_LEN + self.mode.mode().header_len()
    }

    /// Cells of a full datagram.
    fn packed(&self) -> usize {
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
    pub(crate) fn fits(&self, clump: u16) -> Result<(), UdpError> {
        self.check()?;
        match self.packed() {
            pack if pack > clump.into() => Err(UdpError::Clump { pack, clump }),
            _ => Ok(()),
        }
    }

    /// Whether both ends could be.
    fn check(&self) -> Result<(), UdpError> {
        for label in [self.label_in, self.label_out] {
            if Label::new(label).is_none_or(Label::is_reserved) {
                return Err(UdpError::Label(label));
            }
        }
        if self.local.is_ipv4() != self.peer.is_ipv4() {
            let (local, peer) = (self.local, self.peer);
            return Err(UdpError::Versions { local, peer });
        }
        if self.timer_ns > Self::TIMER_NS_MAX {
            return Err(UdpError::Timer(self.timer_ns));
        }
        match (self.cells_per_datagram(), self.pack.map(NonZeroU16::get)) {
            (0, _) => Err(UdpError::Mtu(self.mtu)),
            (fit, Some(pack)) if usize::from(pack) > fit => {
                let mtu = self.mtu;
                Err(UdpError::Pack { pack, mtu, fit })
            }
            _ => Ok(()),
        }
    }
}
