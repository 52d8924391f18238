//! QUIC: one stream both ways on each connection.
//!
//! ```text
//!   a thread of the socket:   datagrams -> Endpoint -> the connection that each is for
//!   a thread a connection:    Quic: Connection <-> Stream <-> Session, datagrams -> the socket
//! ```
//!
//! Datagrams leave one by one, as the congestion control paces them: a burst that a network card
//! makes of a long one overruns a device that shapes.

mod identity;
mod octets;
mod socket;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, IdleTimeout, MtuDiscoveryConfig, ServerConfig, TransportConfig, VarInt,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::version::TLS13;

use super::Stream;
use identity::Pinned;
pub use identity::{Fingerprint, Identity};
pub use octets::Quic;
pub(super) use socket::Arrived;
use socket::Socket;

/// What certificates call a server.
const NAME: &str = "cellgate";
/// What both ends speak.
const PROTOCOL: &[u8] = b"cellgate-files/1";
/// Nothing for so long, and the other end is gone.
const IDLE: Duration = Duration::from_secs(10);
/// Octets of the stream that may be on their way, or wait to be read.
const WINDOW: u32 = 16 << 20;

/// The congestion control of who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// A loss is congestion (RFC 9438).
    Cubic,
    /// The rate is what has arrived of late: losses by bit errors cost it little.
    Bbr,
}

impl Congestion {
    fn factory(self) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self {
            Self::Cubic => Arc::new(CubicConfig::default()),
            Self::Bbr => Arc::new(BbrConfig::default()),
        }
    }
}

impl Quic {
    /// Connects to `HOST:PORT`, where a server with this certificate is.
    ///
    /// # Errors
    /// The name has no address, nobody there answers, or another server does.
    pub fn connect(
        to: &str,
        fingerprint: Fingerprint,
        congestion: Congestion,
    ) -> io::Result<Stream<Self>> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in to.to_socket_addrs()? {
            match Self::connect_to(address, fingerprint, congestion) {
                Ok(quic) => return Ok(Stream::new(quic)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn connect_to(
        to: SocketAddr,
        fingerprint: Fingerprint,
        congestion: Congestion,
    ) -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let pinned = Arc::new(Pinned {
            fingerprint,
            provider: provider.clone(),
            other: Mutex::new(None),
        });
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(pinned.clone())
            .with_no_client_auth();
        tls.alpn_protocols = vec![PROTOCOL.to_vec()];
        let tls = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::new(transport(congestion)?));
        let any = match to {
            SocketAddr::V4(_) => "0.0.0.0:0",
            SocketAddr::V6(_) => "[::]:0",
        };
        let socket = Arc::new(Socket::new(UdpSocket::bind(any)?, None)?);
        Self::begin(socket, config, to).map_err(|error| match pinned.other() {
            Some(other) => {
                io::Error::other(format!("the server there has another fingerprint: {other}"))
            }
            None => error,
        })
    }
}

/// Where connections of QUIC come in.
#[derive(Debug)]
pub struct QuicServer {
    socket: Arc<Socket>,
    fingerprint: Fingerprint,
}

impl QuicServer {
    /// Listens at `ADDRESS:PORT`, with the key in a file or with one of its own.
    ///
    /// # Errors
    /// The kernel refuses, or the file has no key.
    pub fn listen(at: &str, key: Option<&Path>, congestion: Congestion) -> io::Result<Self> {
        let identity = key.map_or_else(Identity::fresh, Identity::kept)?;
        let fingerprint = identity.fingerprint();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .and_then(|builder| {
                let key = PrivateKeyDer::Pkcs8(identity.key);
                let builder = builder.with_no_client_auth();
                builder.with_single_cert(vec![identity.certificate], key)
            })
            .map_err(io::Error::other)?;
        tls.alpn_protocols = vec![PROTOCOL.to_vec()];
        let tls = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
        let mut config = ServerConfig::with_crypto(Arc::new(tls));
        config.transport_config(Arc::new(transport(congestion)?));
        let socket = Socket::new(UdpSocket::bind(at)?, Some(config))?;
        Ok(Self {
            socket: Arc::new(socket),
            fingerprint,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.address()
    }

    /// By what its clients know it.
    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Takes what comes, and gives those who connect to `arrived`, until `ends`.
    pub(super) fn serve(self, ends: impl FnMut() -> bool, arrived: impl FnMut(Arrived)) {
        self.socket.receive(ends, arrived);
    }
}

fn transport(congestion: Congestion) -> io::Result<TransportConfig> {
    let mut transport = TransportConfig::default();
    let idle = IdleTimeout::try_from(IDLE).map_err(io::Error::other)?;
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(WINDOW.into())
        .max_idle_timeout(Some(idle))
        .congestion_controller_factory(congestion.factory())
        .mtu_discovery_config(Some(MtuDiscoveryConfig::default()))
        .enable_segmentation_offload(false);
    Ok(transport)
}
