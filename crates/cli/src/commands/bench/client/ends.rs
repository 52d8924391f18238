//! What both processes have of every way to carry SDUs.

use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, ensure};
use cellgate::{Connection, Notification};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::{Deserialize, Serialize};

use super::endpoint::{Cellgate, Endpoint, Events, Messages, PATIENCE};
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

/// PDUs that may be under way at once.
pub(super) fn window(sdu: u16) -> usize {
    ((1 << 20) / usize::from(sdu)).clamp(16, 256)
}

/// The descriptors of the kernel's ways.
pub(super) struct Descriptors {
    seqpacket: Rc<OwnedFd>,
    datagram: Rc<OwnedFd>,
    udp: Rc<OwnedFd>,
    out: Rc<OwnedFd>,
    into: Rc<OwnedFd>,
}

impl Descriptors {
    pub(super) const COUNT: usize = 5;

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
        let mine = Self {
            seqpacket: Rc::new(seqpacket),
            datagram: Rc::new(datagram),
            udp: Rc::new(udp.into()),
            out: Rc::clone(&out),
            into: Rc::clone(&into),
        };
        let others = Self {
            seqpacket: Rc::new(other_seqpacket),
            datagram: Rc::new(other_datagram),
            udp: Rc::new(other_udp.into()),
            out: into,
            into: out,
        };
        mine.be_patient()?;
        others.be_patient()?;
        Ok((mine, others))
    }

    fn be_patient(&self) -> anyhow::Result<()> {
        for socket in [&self.seqpacket, &self.datagram, &self.udp] {
            for timeout in [Timeout::Recv, Timeout::Send] {
                set_socket_timeout(socket, timeout, Some(PATIENCE))?;
            }
        }
        Ok(())
    }

    pub(super) fn all(&self) -> [BorrowedFd<'_>; Self::COUNT] {
        [
            &self.seqpacket,
            &self.datagram,
            &self.udp,
            &self.out,
            &self.into,
        ]
        .map(|fd| fd.as_fd())
    }

    pub(super) fn of(fds: Vec<OwnedFd>) -> anyhow::Result<Self> {
        let fds: [OwnedFd; Self::COUNT] = fds.try_into().ok().context("descriptors")?;
        let [seqpacket, datagram, udp, out, into] = fds.map(Rc::new);
        Ok(Self {
            seqpacket,
            datagram,
            udp,
            out,
            into,
        })
    }
}

/// The connections of one process for SDUs of one size.
struct Connections {
    polled: Rc<Connection>,
    asleep: Rc<Connection>,
    /// Receives what it sends.
    looped: Rc<Connection>,
}

impl Connections {
    /// Those on `interface`, of the size with this number.
    fn open(socket: &Path, interface: &str, sdu: u16, number: u16) -> anyhow::Result<Self> {
        let vci = 100 + 10 * number;
        let open = |interface: &str, vci: u16, notification| {
            let pdus = window(sdu) as u32;
            let connection = Connection::builder()
                .socket(socket)
                .address(format!("{interface}.0.{vci}"))
                .contract(format!("ubr,aal5:max_sdu={sdu}"))
                .notification(notification)
                .completions(false)
                .transmit_pdus(pdus)
                .receive_pdus(pdus)
                .open()
                .with_context(|| format!("{interface}.0.{vci}"))?;
            ensure!(connection.transmit_max_sdu() == Some(sdu), "a smaller SDU");
            Ok(Rc::new(connection))
        };
        // Each process has its own connection to itself.
        let own = vci + if interface == "a" { 2 } else { 3 };
        Ok(Self {
            polled: open(interface, vci, Notification::Polled)?,
            asleep: open(interface, vci + 1, Notification::LastCell)?,
            looped: open("loop", own, Notification::Polled)?,
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
        let Size {
            socket,
            sdu,
            number,
        } = size;
        let interface = if partner { "b" } else { "a" };
        Ok(Self {
            connections: Connections::open(socket, interface, *sdu, *number)?,
            descriptors,
            #[cfg(feature = "iceoryx2")]
            ports: {
                let way = |way| format!("{}/{sdu}/{way}", socket.display());
                let (mut out, mut into) = (way("there"), way("back"));
                if partner {
                    std::mem::swap(&mut out, &mut into);
                }
                Rc::new(super::iceoryx::Ports::open(
                    &out,
                    &into,
                    *sdu,
                    window(*sdu),
                )?)
            },
        })
    }

    pub(super) fn endpoint(&self, kind: Kind) -> Box<dyn Endpoint> {
        let (connections, descriptors) = (&self.connections, &self.descriptors);
        match kind {
            Kind::Cellgate { in_place, waits } => {
                let connection = match waits {
                    Waits::Spinning => &connections.looped,
                    Waits::Yielding => &connections.polled,
                    Waits::Sleeping => &connections.asleep,
                };
                Box::new(Cellgate::new(Rc::clone(connection), in_place, waits))
            }
            Kind::Socket { socket, waits } => {
                let fd = match socket {
                    Socket::SeqPacket => &descriptors.seqpacket,
                    Socket::UnixDatagram => &descriptors.datagram,
                    Socket::Udp => &descriptors.udp,
                };
                Box::new(Messages::new(Rc::clone(fd), waits))
            }
            Kind::EventFd => Box::new(Events {
                out: Rc::clone(&descriptors.out),
                into: Rc::clone(&descriptors.into),
            }),
            #[cfg(feature = "iceoryx2")]
            Kind::Iceoryx2 => Box::new(Rc::clone(&self.ports)),
        }
    }
}
