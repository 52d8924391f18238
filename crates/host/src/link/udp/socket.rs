use std::net::{IpAddr, SocketAddr, UdpSocket};

use quinn_udp::{UdpSockRef, UdpSocketState};
use rustix::net::sockopt::{
    set_socket_recv_buffer_size, set_socket_recv_buffer_size_force, set_socket_reuseport,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use super::{UdpError, UdpLink};
use crate::sys::tell_octets_only;

/// A socket that never waits, with what quinn-udp knows of it.
#[derive(Debug)]
pub(super) struct BatchSocket {
    pub(super) socket: UdpSocket,
    pub(super) state: UdpSocketState,
}

/// Octets asked for what waits to be received: 8,192 cells in datagrams of 28, each of which
/// takes 2,304 octets of the kernel's memory, and as much again; 128 ms of an OC-3.
pub(crate) const RECEIVE_BUFFER: usize = 4 << 20;

impl BatchSocket {
    /// What the receiving end of a pseudowire reads from.
    pub(super) fn receiving(options: &UdpLink) -> Result<Self, UdpError> {
        let socket = bound(options.local, options.peer_source_port.is_some())?;
        // Beyond the usual limit only with a privilege; the report says what was granted.
        if set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err() {
            set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER).map_err(kernel("memory"))?;
        }
        let this = Self::over(socket)?;
        tell_octets_only(&this.socket, options.local.is_ipv6()).map_err(io("an option"))?;
        if let Some(port) = options.peer_source_port {
            let peer = SocketAddr::new(options.peer.ip(), port);
            connect(&this.socket, &peer).map_err(kernel("the peer's address"))?;
        }
        Ok(this)
    }

    /// What the sending end of a pseudowire writes to.
    pub(super) fn sending(options: &UdpLink) -> Result<Self, UdpError> {
        let from = SocketAddr::new(options.local.ip(), options.source_port);
        let socket = bound(from, options.source_port != 0)?;
        // Nobody reads what others may send to it.
        let _ = set_socket_recv_buffer_size(&socket, 0);
        Self::over(socket)
    }

    fn over(socket: UdpSocket) -> Result<Self, UdpError> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket)).map_err(io("an option"))?;
        Ok(Self { socket, state })
    }

    pub(super) fn as_ref(&self) -> UdpSockRef<'_> {
        UdpSockRef::from(&self.socket)
    }
}

/// A socket with this address; with `shared`, this user's others may have it too.
fn bound(address: SocketAddr, shared: bool) -> Result<UdpSocket, UdpError> {
    let family = match address.ip() {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::DGRAM, flags, None).map_err(kernel("a socket"))?;
    set_socket_reuseport(&socket, shared).map_err(kernel("an option"))?;
    bind(&socket, &address).map_err(kernel("the local address"))?;
    Ok(UdpSocket::from(socket))
}

fn kernel(what: &'static str) -> impl Fn(rustix::io::Errno) -> UdpError {
    move |error| UdpError::Kernel {
        what,
        error: error.into(),
    }
}

fn io(what: &'static str) -> impl Fn(std::io::Error) -> UdpError {
    move |error| UdpError::Kernel { what, error }
}
