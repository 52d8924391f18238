//! What files go over: a [`Port`](super::Port) of cells, or a stream of octets.
//!
//! ```text
//!   Session <-> Transport:  Port      carries by an Exchange
//!                           Stream    carries by an OctetStream, over Octets: TCP, QUIC
//! ```

mod clients;
mod octets;
#[cfg(feature = "quic")]
mod quic;
mod stream;
mod tcp;

use std::time::Duration;

use cellgate_core::Time;
use cellgate_core::terminal::Carrier;

use super::place::Receiving;
use super::port::Looked;
use super::sending::Sending;
use super::session::Over;
use super::terms::Terms;
pub use clients::{CLIENTS_MAX, Clients};
pub use octets::Octets;
#[cfg(feature = "quic")]
pub use quic::{Congestion, Fingerprint, Identity, Quic, QuicServer};
pub use stream::Stream;
pub use tcp::{Tcp, TcpServer};

/// What a terminal sends and receives by, and what it carries files with there.
pub trait Transport {
    type Carrier: Carrier<Source = Sending, Store = Receiving>;

    /// Another terminal can begin at the other end when one has ended.
    const OUTLASTS_TERMINALS: bool;

    /// A carrier that has carried nothing.
    fn carrier(terms: &Terms, begins: bool) -> Self::Carrier;

    /// Hands what has come to the carrier, and to the transport what the carrier has to send.
    ///
    /// # Errors
    /// The transport has ended, or the other end says what cannot be.
    fn look(&mut self, carrier: &mut Self::Carrier) -> Result<Looked, Over>;

    /// Waits until something comes, until room is there again if it `waits` for that, or `until`.
    ///
    /// # Errors
    /// The kernel refuses, or the transport has ended.
    fn wait(&mut self, waits: bool, until: Time) -> Result<(), Over>;

    /// Waits until what was handed over has left, for so long at most. Nothing is sent behind it.
    fn flush(&mut self, timeout: Duration);
}
