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

mod ends;
mod receive;
mod send;
mod socket;
#[cfg(test)]
mod tests;

pub use cellgate_core::keeper::{Refusals, UdpDiscards, UdpLink, UdpLinkError, UdpReport};

pub(crate) use ends::{UdpSink, UdpSource};
pub use receive::UdpReceiver;
pub use send::UdpSender;
pub(crate) use socket::RECEIVE_BUFFER;

/// Why a pseudowire cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum UdpError {
    /// No machine could have it.
    #[error(transparent)]
    Link(#[from] UdpLinkError),
    /// The kernel refused the socket.
    #[error("the kernel refused {what}: {error}")]
    Kernel {
        /// What was asked of it.
        what: &'static str,
        error: std::io::Error,
    },
}
