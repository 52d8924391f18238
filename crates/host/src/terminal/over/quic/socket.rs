//! The socket of an end, and who of those that it is connected with each datagram is for.

use std::collections::HashMap;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto::{
    Connection, ConnectionEvent, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint,
    EndpointConfig, Incoming, ServerConfig, Transmit,
};
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSockRef, UdpSocketState};
use rustix::event::{EventfdFlags, PollFlags, eventfd};

use crate::clock::MonotonicClock;
use crate::terminal::over::Stream;
use crate::terminal::over::quic::Quic;
use crate::terminal::over::tcp::wait_for;

/// Datagrams that wait for a connection, at most: those behind are lost on their last step.
const WAITING: usize = 4_096;
/// Octets that the kernel keeps of what has come, and of what is to leave.
const SOCKET_BUFFER: usize = 4 << 20;
/// What came together in one entry.
const ENTRY: usize = 1 << 16;
/// The thread looks so often at whether it is to end.
const LOOK_NS: u64 = 100_000_000;

/// Who has connected.
pub(in crate::terminal::over) struct Arrived {
    pub(in crate::terminal::over) stream: Stream<Quic>,
    pub(in crate::terminal::over) from: SocketAddr,
}

/// Wakes whoever waits for a connection.
#[derive(Debug)]
pub(super) struct Bell(OwnedFd);

impl Bell {
    fn new() -> io::Result<Self> {
        Ok(Self(eventfd(
            0,
            EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC,
        )?))
    }

    pub(super) fn ring(&self) {
        // A bell that cannot count further rings already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    pub(super) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What comes in for a connection.
pub(super) struct Mailbox {
    pub(super) events: Receiver<ConnectionEvent>,
    pub(super) bell: Arc<Bell>,
}

#[derive(Debug)]
struct Addressee {
    events: SyncSender<ConnectionEvent>,
    bell: Arc<Bell>,
}

/// The socket, and what all connections on it share.
#[derive(Debug)]
pub(super) struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    endpoint: Mutex<Endpoint>,
    addressees: Mutex<HashMap<ConnectionHandle, Addressee>>,
}

impl Socket {
    pub(super) fn new(socket: UdpSocket, server: Option<ServerConfig>) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // As much as the kernel allows.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER);
        let finds_mtu = !state.may_fragment();
        let config = Arc::new(EndpointConfig::default());
        let endpoint = Endpoint::new(config, server.map(Arc::new), finds_mtu, None);
        Ok(Self {
            socket,
            state,
            endpoint: Mutex::new(endpoint),
            addressees: Mutex::default(),
        })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    pub(super) fn endpoint(&self) -> MutexGuard<'_, Endpoint> {
        self.endpoint.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn addressees(&self) -> MutexGuard<'_, HashMap<ConnectionHandle, Addressee>> {
        let addressees = self.addressees.lock();
        addressees.unwrap_or_else(PoisonError::into_inner)
    }

    /// Has what comes for a connection be put into a mailbox.
    pub(super) fn open(&self, handle: ConnectionHandle) -> io::Result<Mailbox> {
        let (events, mail) = sync_channel(WAITING);
        let bell = Arc::new(Bell::new()?);
        let addressee = Addressee {
            events,
            bell: bell.clone(),
        };
        self.addressees().insert(handle, addressee);
        Ok(Mailbox { events: mail, bell })
    }

    pub(super) fn close(&self, handle: ConnectionHandle) {
        self.addressees().remove(&handle);
    }

    /// Sends a datagram.
    pub(super) fn send(&self, transmit: &Transmit, octets: &[u8]) -> io::Result<()> {
        let datagram = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit
                .ecn
                .and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: octets.get(..transmit.size).unwrap_or(octets),
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        self.state
            .try_send(UdpSockRef::from(&self.socket), &datagram)
    }

    /// Takes what comes, until `ends`. Connections that others begin go to `arrived`.
    pub(super) fn receive(
        self: &Arc<Self>,
        mut ends: impl FnMut() -> bool,
        mut arrived: impl FnMut(Arrived),
    ) {
        let mut octets = vec![0; ENTRY * BATCH_SIZE];
        let mut answer = Vec::new();
        while !ends() {
            let until = MonotonicClock.now().plus_ns(LOOK_NS);
            if wait_for(&self.socket, PollFlags::IN, until).is_err() {
                return;
            }
            let mut metas = [RecvMeta::default(); BATCH_SIZE];
            let mut slices: Vec<_> = octets.chunks_mut(ENTRY).map(IoSliceMut::new).collect();
            let socket = UdpSockRef::from(&self.socket);
            // An error tells of what was sent before, or that there is nothing.
            let Ok(entries) = self.state.recv(socket, &mut slices, &mut metas) else {
                continue;
            };
            drop(slices);
            for (entry, meta) in octets.chunks(ENTRY).zip(&metas[..entries]) {
                let stride = meta.stride.max(1);
                for datagram in entry[..meta.len].chunks(stride) {
                    let incoming = self.takes(meta, datagram, &mut answer);
                    if let Some(come) = incoming.and_then(|come| self.accept(come, &mut answer)) {
                        arrived(come);
                    }
                }
            }
        }
    }

    /// A datagram: who begins a connection with it.
    fn takes(&self, meta: &RecvMeta, datagram: &[u8], answer: &mut Vec<u8>) -> Option<Incoming> {
        answer.clear();
        let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
        let (now, octets) = (Instant::now(), BytesMut::from(datagram));
        let event = self
            .endpoint()
            .handle(now, meta.addr, meta.dst_ip, ecn, octets, answer);
        match event? {
            DatagramEvent::ConnectionEvent(handle, event) => {
                if let Some(addressee) = self.addressees().get(&handle)
                    && addressee.events.try_send(event).is_ok()
                {
                    addressee.bell.ring();
                }
                None
            }
            DatagramEvent::NewConnection(incoming) => Some(incoming),
            DatagramEvent::Response(transmit) => {
                // What is lost on its way is asked for again.
                let _ = self.send(&transmit, answer);
                None
            }
        }
    }

    /// Whoever has shown that it is where it says gets a connection.
    fn accept(self: &Arc<Self>, incoming: Incoming, answer: &mut Vec<u8>) -> Option<Arrived> {
        answer.clear();
        let from = incoming.remote_address();
        if !incoming.remote_address_validated() {
            if let Ok(transmit) = self.endpoint().retry(incoming, answer) {
                let _ = self.send(&transmit, answer);
            }
            return None;
        }
        let accepted = self
            .endpoint()
            .accept(incoming, Instant::now(), answer, None);
        match accepted {
            Ok((handle, connection)) => {
                let stream = self.quic(handle, connection).ok()?;
                let stream = Stream::new(stream);
                Some(Arrived { stream, from })
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    let _ = self.send(&transmit, answer);
                }
                None
            }
        }
    }

    /// One of its connections.
    pub(super) fn quic(
        self: &Arc<Self>,
        handle: ConnectionHandle,
        connection: Connection,
    ) -> io::Result<Quic> {
        let mailbox = self.open(handle)?;
        Ok(Quic::new(self.clone(), handle, connection, mailbox))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether a datagram is to be sent again later.
pub(super) fn is_blocked(error: &io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock
}
