//! What both processes have of every way to carry SDUs.

use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::Context;
use cellgate::{Connection, Notification};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::{Deserialize, Serialize};

use super::endpoint::{Cellgate, Endpoint, Events, Messages, PATIENCE, Ways};
use super::kind::{Kind, Socket, Waits};

/// The most octets that UDP carries over IPv4.
pub(super) const UDP_MAX: usize = 65_507;

/// SDUs of one size, and where the daemon listens.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Size {
    pub(super) socket: PathBuf,
    pub(super) sdu: u16,
    /// Among the sizes of a run.
    pub(super) number: u16,
}

impl Size {
    fn connection(
        &self,
        interface: &str,
        vci: u16,
        rest: &str,
        notification: Notification,
    ) -> anyhow::Result<Rc<Connection>> {
        let pdus = window(self.sdu) as u32;
        let address = format!("{interface}.0.{vci}");
        let connection = Connection::builder()
            .socket(&self.socket)
            .address(&address)
            .contract(format!("ubr,aal5:{rest}"))
            .notification(notification)
            .completions(false)
            .transmit_pdus(pdus)
            .receive_pdus(pdus)
            .open();
        Ok(Rc::new(connection.context(address)?))
    }
}

/// PDUs that may be under way at once.
pub(super) fn window(sdu: u16) -> usize {
    ((1 << 20) / usize::from(sdu)).clamp(16, 256)
}

/// The descriptors of the kernel's ways: a socket of each kind, and the eventfds out and in.
pub(super) struct Descriptors([Rc<OwnedFd>; 5]);

impl Descriptors {
    /// Those of both processes.
    pub(super) fn pair() -> anyhow::Result<(Self, Self)> {
        let unix = |kind| socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
        let (seqpacket, other_seqpacket) = unix(SocketType::SEQPACKET)?;
        let (datagram, other_datagram) = unix(SocketType::DGRAM)?;
        let (udp, other_udp) = (
            UdpSocket::bind("127.0.0.1:0")?,
            UdpSocket::bind("127.0.0.1:0")?,
        );
        udp.connect(other_udp.local_addr()?)?;
        other_udp.connect(udp.local_addr()?)?;
        let event = || Ok::<_, rustix::io::Errno>(Rc::new(eventfd(0, EventfdFlags::CLOEXEC)?));
        let (out, into) = (event()?, event()?);
        let of = |sockets: [OwnedFd; 3], events: [&Rc<OwnedFd>; 2]| {
            for socket in &sockets {
                for timeout in [Timeout::Recv, Timeout::Send] {
                    set_socket_timeout(socket, timeout, Some(PATIENCE))?;
                }
            }
            let [seqpacket, datagram, udp] = sockets.map(Rc::new);
            let [out, into] = events.map(Rc::clone);
            anyhow::Ok(Self([seqpacket, datagram, udp, out, into]))
        };
        Ok((
            of([seqpacket, datagram, udp.into()], [&out, &into])?,
            of(
                [other_seqpacket, other_datagram, other_udp.into()],
                [&into, &out],
            )?,
        ))
    }

    pub(super) fn all(&self) -> [BorrowedFd<'_>; 5] {
        self.0.each_ref().map(|fd| fd.as_fd())
    }

    pub(super) fn of(fds: Vec<OwnedFd>) -> anyhow::Result<Self> {
        let fds: [OwnedFd; 5] = fds.try_into().ok().context("descriptors")?;
        Ok(Self(fds.map(Rc::new)))
    }
}

/// The connections of one process for SDUs of one size.
struct Connections {
    polled: Ways,
    asleep: Ways,
    /// One that receives what it sends.
    looped: Ways,
}

impl Connections {
    fn open(size: &Size, partner: bool) -> anyhow::Result<Self> {
        let first = 100 + 10 * size.number;
        let ways = |first: u16, notification| {
            let [there, back] = [first, first + 1];
            let (interface, out, into) = match partner {
                false => ("a", there, back),
                true => ("b", back, there),
            };
            let sdu = size.sdu;
            let sends = format!("tx:max_sdu={sdu},rx:none");
            let receives = format!("tx:none,rx:max_sdu={sdu}");
            anyhow::Ok(Ways {
                out: size.connection(interface, out, &sends, notification)?,
                into: size.connection(interface, into, &receives, notification)?,
            })
        };
        let vci = first + 4 + u16::from(partner);
        let sdu = format!("max_sdu={}", size.sdu);
        let looped = size.connection("loop", vci, &sdu, Notification::Polled)?;
        Ok(Self {
            polled: ways(first, Notification::Polled)?,
            asleep: ways(first + 2, Notification::LastCell)?,
            looped: Ways {
                out: Rc::clone(&looped),
                into: looped,
            },
        })
    }
}

/// One process's end of every way, for SDUs of one size.
pub(super) struct Ends {
    connections: Connections,
    descriptors: Rc<Descriptors>,
    #[cfg(feature = "iceoryx2")]
    ports: Rc<super::iceoryx::Ports>,
}

impl Ends {
    /// Those of the bench itself, or of its partner.
    pub(super) fn open(
        size: &Size,
        partner: bool,
        descriptors: Rc<Descriptors>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            connections: Connections::open(size, partner)?,
            descriptors,
            #[cfg(feature = "iceoryx2")]
            ports: {
                let way = |way| format!("{}/{}/{way}", size.socket.display(), size.sdu);
                let (mut out, mut into) = (way("there"), way("back"));
                if partner {
                    std::mem::swap(&mut out, &mut into);
                }
                Rc::new(super::iceoryx::Ports::open(
                    &out,
                    &into,
                    size.sdu,
                    window(size.sdu),
                )?)
            },
        })
    }

    pub(super) fn endpoint(&self, kind: Kind) -> Box<dyn Endpoint> {
        let connections = &self.connections;
        let [seqpacket, datagram, udp, out, into] = &self.descriptors.0;
        match kind {
            Kind::Cellgate { in_place, waits } => {
                let ways = match waits {
                    Waits::Spinning => &connections.looped,
                    Waits::Yielding => &connections.polled,
                    Waits::Sleeping => &connections.asleep,
                };
                Box::new(Cellgate::new(ways.clone(), in_place, waits))
            }
            Kind::Socket { socket, waits } => {
                let fd = match socket {
                    Socket::SeqPacket => seqpacket,
                    Socket::UnixDatagram => datagram,
                    Socket::Udp => udp,
                };
                Box::new(Messages::new(Rc::clone(fd), waits))
            }
            Kind::EventFd => Box::new(Events {
                out: Rc::clone(out),
                into: Rc::clone(into),
            }),
            #[cfg(feature = "iceoryx2")]
            Kind::Iceoryx2 => Box::new(Rc::clone(&self.ports)),
        }
    }
}
