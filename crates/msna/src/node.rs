use core::net::Ipv4Addr;
use std::collections::{BTreeSet, VecDeque};
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cellgate::{Notification, Refused, TrafficContract};
use cellgate_core::upper::msna::{
    Address, Asked, Connect, Event as Told, Msnl, MsnlConfig, MsnlCounts, Notify, Refusal,
    SIGNALLING_VCI, Sap,
};

use crate::call::{Access, BLOCK_MAX, Call, mirrored};
use crate::circuits::Circuits;
use crate::liaison::{End, Ended, Liaison};
use crate::path::Path;
use crate::{Error, NodeConfig, now};

/// The UDP port of messages where blocks are packets: MSDL's type on Ethernet, 0x6660.
pub const PORT: u16 = 0x6660;

/// A change that a node hears of.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// Another has called a service access point that is served here, and was admitted.
    Connected {
        /// The caller.
        from: Address,
        /// The access point.
        to: Sap,
        /// This end.
        liaison: Liaison,
    },
    /// Octets for an access point, without an association.
    Datagram {
        /// The sender.
        from: Address,
        /// The access point.
        to: Sap,
        /// Its octets.
        octets: Vec<u8>,
    },
    /// Nothing more comes on this circuit: its [`Liaison`] may go.
    Released {
        /// [`Liaison::circuit`].
        circuit: u16,
    },
    /// A host has begun anew: liaisons with it may go.
    Restarted {
        /// The host.
        host: Ipv4Addr,
    },
}

/// A host of MSNA: it calls others and is called, on circuit 32 of its interface.
#[derive(Debug)]
pub struct Node {
    config: NodeConfig,
    incarnation: u64,
    msnl: Msnl,
    signalling: Path,
    circuits: Circuits,
    served: BTreeSet<Sap>,
    events: VecDeque<Event>,
    /// The answer to the call that waits.
    answer: Option<Told>,
    ended: Ended,
    /// A message in hand.
    block: Vec<u8>,
}

impl Node {
    /// Begins a host. An interface has one node at a time.
    ///
    /// # Errors
    /// There is no daemon, or circuit 32 is not to be had.
    pub fn open(config: NodeConfig) -> Result<Self, Error> {
        let signalling = match config.access {
            Access::Packets => bound(config.host, PORT, SocketAddrV4::new(config.host, 0))?,
            access => {
                let contract = access.fit("ubr")?;
                config.open(SIGNALLING_VCI, &contract, Notification::LastCell)?
            }
        };
        // A greater number each time that the host begins, if its clock does not go back.
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let incarnation = since.unwrap_or_default().as_nanos() as u64;
        Ok(Self {
            incarnation,
            msnl: Msnl::new(MsnlConfig {
                host: config.host,
                incarnation,
                retry_ns: 250_000_000,
                tries: 8,
                waiting_max: 64,
                hosts_max: 256,
            }),
            signalling,
            circuits: Circuits::new(incarnation),
            served: BTreeSet::new(),
            events: VecDeque::new(),
            answer: None,
            ended: Ended::default(),
            block: Vec::new(),
            config,
        })
    }

    /// Has calls of a service access point admitted from now on.
    pub fn serve(&mut self, sap: Sap) {
        self.served.insert(sap);
    }

    /// A greater number each time that the host begins.
    pub const fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Messages that came and were thrown away.
    pub const fn counts(&self) -> &MsnlCounts {
        self.msnl.counts()
    }

    /// Calls another host, and waits for its answer: 2 s at most. Others may call meanwhile. An
    /// event that was heard during a call is of liaisons before it.
    ///
    /// # Errors
    /// Admission refuses here or there, with an offer; nobody answers.
    pub fn connect(&mut self, to: Address, call: &Call) -> Result<Liaison, Error> {
        self.turn()?;
        let contract = self.config.access.fit(&call.contract)?;
        let notification = match call.polled {
            true => Notification::Polled,
            false => notification(call.notify),
        };
        let host = self.config.host;
        let (path, vci) = if self.config.access == Access::Packets {
            let path = bound(host, 0, SocketAddrV4::new(to.host, 0))?;
            let vci = port_of(&path)?;
            (path, vci)
        } else {
            let vci = self.circuits.take(now(), host, to.host);
            let vci = vci.ok_or(Error::NoCircuit(Circuits::COUNT))?;
            let opened = self.config.open(vci, &contract, notification);
            (
                opened.inspect_err(|_| self.circuits.release(now(), vci))?,
                vci,
            )
        };
        // It ends as a liaison does, whatever comes.
        let mut liaison = self.liaison(path, (vci, vci), to.host, call.notify);
        liaison.end.is_own = self.config.access != Access::Packets;
        if call.polled {
            liaison.dally(Duration::MAX);
        }
        let connect = Connect {
            from: call.from.unwrap_or(Sap(vci.into())),
            to: to.sap,
            vci,
            notify: call.notify,
            contract: contract.to_string(),
        };
        self.answer = None;
        let _ = self.msnl.connect(now(), to.host, connect);
        loop {
            self.turn()?;
            match self.answer.take() {
                None => self.sleep(None)?,
                Some(Told::Accepted { vci, .. }) => {
                    liaison.end.sends = vci;
                    if let Path::Packets { to, .. } = &mut liaison.path {
                        to.set_port(vci);
                    }
                    return Ok(liaison);
                }
                Some(Told::Refused { reason, offer, .. }) => {
                    return Err(Error::Refused { to, reason, offer });
                }
                Some(_) => return Err(Error::Silent(to)),
            }
        }
    }

    /// Sends octets to an access point. Nobody tells whether they come.
    ///
    /// # Errors
    /// They do not fit into a block; the connection has ended.
    pub fn datagram(&mut self, from: Sap, to: Address, octets: &[u8]) -> Result<(), Error> {
        // A message's own octets, and two access points.
        let (len, max) = (octets.len(), BLOCK_MAX - 42);
        if len > max {
            return Err(Error::TooLong { len, max });
        }
        self.msnl.datagram(from, to, octets.to_vec());
        self.turn()
    }

    /// What the node hears of next; none: nothing within `timeout` (none: for ever).
    ///
    /// # Errors
    /// The connection of circuit 32 has ended.
    pub fn next_event(&mut self, timeout: Option<Duration>) -> Result<Option<Event>, Error> {
        let began = Instant::now();
        loop {
            self.turn()?;
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            let left = timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            self.sleep(left)?;
        }
    }

    /// For a caller that waits elsewhere: as [`cellgate::Connection::arm`] for messages. A node has
    /// times to keep, too: look at [`Node::next_event`] a few times a second at least.
    ///
    /// # Errors
    /// As [`Node::next_event`].
    pub fn arm(&mut self) -> Result<bool, Error> {
        self.turn()?;
        Ok(self.events.is_empty() && self.signalling.arm()?)
    }

    fn sleep(&self, timeout: Option<Duration>) -> Result<(), Error> {
        let due = self.msnl.next_deadline();
        let due = due.map(|due| Duration::from_nanos(due.since_ns(now()).max(1)));
        let until = [timeout, due].into_iter().flatten().min();
        self.signalling.sleep(until).map(drop)
    }

    fn liaison(
        &self,
        path: Path,
        (receives, sends): (u16, u16),
        peer: Ipv4Addr,
        notify: Notify,
    ) -> Liaison {
        let end = End {
            receives,
            sends,
            is_own: false,
            peer,
        };
        Liaison::new(path, end, self.ended.clone(), notify)
    }

    /// All that is to be done now.
    fn turn(&mut self) -> Result<(), Error> {
        let time = now();
        for end in self.ended.take() {
            if end.is_own {
                self.circuits.release(time, end.receives);
            }
            self.msnl.release(end.peer, end.sends);
        }
        self.msnl.handle_deadline(time);
        while self.signalling.try_recv(time, &mut self.block)? {
            self.msnl.handle(time, &self.block);
        }
        while let Some(told) = self.msnl.poll_event() {
            self.is_told(told);
        }
        while let Some((host, block)) = self.msnl.poll_out() {
            if let Path::Packets { to, .. } = &mut self.signalling {
                *to = SocketAddrV4::new(host, PORT).into();
            }
            self.signalling.send(&block)?;
            if let Path::Packets { to, .. } = &mut self.signalling {
                // Messages come from anybody.
                to.set_port(0);
            }
        }
        Ok(())
    }

    fn is_told(&mut self, told: Told) {
        match told {
            Told::Asked { asked, connect } => self.is_asked(asked, &connect),
            Told::Released { vci } => self.events.push_back(Event::Released { circuit: vci }),
            Told::Restarted { host } => self.events.push_back(Event::Restarted { host }),
            Told::Datagram { from, to, octets } => {
                self.events.push_back(Event::Datagram { from, to, octets });
            }
            Told::Accepted { .. } | Told::Refused { .. } | Told::Silent { .. } => {
                self.answer = Some(told);
            }
        }
    }

    /// Admits a call, or refuses it.
    fn is_asked(&mut self, asked: Asked, connect: &Connect) {
        let time = now();
        if !self.served.contains(&connect.to) {
            let (reason, offer) = (Refusal::NoSap, String::new());
            return self.msnl.refuse(time, asked, reason, offer);
        }
        match self.answers(asked.host(), connect) {
            Ok(liaison) => {
                if self.msnl.accept(time, asked, liaison.end.receives) {
                    let from = Address {
                        host: asked.host(),
                        sap: connect.from,
                    };
                    let to = connect.to;
                    self.events
                        .push_back(Event::Connected { from, to, liaison });
                }
            }
            Err((reason, offer)) => self.msnl.refuse(time, asked, reason, offer),
        }
    }

    /// This end of a call of another's.
    fn answers(&self, peer: Ipv4Addr, connect: &Connect) -> Result<Liaison, (Refusal, String)> {
        let bad = || (Refusal::BadContract, String::new());
        let vci = connect.vci;
        if self.config.access == Access::Packets {
            let path = bound(self.config.host, 0, SocketAddrV4::new(peer, vci));
            let path = path.map_err(|_| (Refusal::Busy, String::new()))?;
            let receives = port_of(&path).map_err(|_| (Refusal::Busy, String::new()))?;
            return Ok(self.liaison(path, (receives, vci), peer, connect.notify));
        }
        if vci <= SIGNALLING_VCI {
            return Err(bad());
        }
        let contract = self.config.access.fit(&connect.contract);
        let contract = mirrored(&contract.map_err(|_| bad())?);
        let opened = self
            .config
            .open(vci, &contract, notification(connect.notify));
        match opened {
            Ok(path) => Ok(self.liaison(path, (vci, vci), peer, connect.notify)),
            Err(Error::Atm(cellgate::Error::Refused(Refused::Admission(shortage)))) => {
                let offer: Option<TrafficContract> =
                    shortage.offer.and_then(|offer| offer.parse().ok());
                let offer = offer.map(|offer| mirrored(&offer).to_string());
                Err((Refusal::NotAdmitted, offer.unwrap_or_default()))
            }
            Err(Error::Atm(cellgate::Error::Refused(Refused::Unsupported(_)))) => Err(bad()),
            Err(_) => Err((Refusal::Busy, String::new())),
        }
    }
}

impl AsFd for Node {
    /// Readable when a message may have come, after [`Node::arm`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signalling.as_fd()
    }
}

impl Drop for Node {
    /// Tells the other ends of liaisons that have ended.
    fn drop(&mut self) {
        let _ = self.turn();
    }
}

const fn notification(notify: Notify) -> Notification {
    match notify {
        Notify::Every => Notification::EveryCell,
        Notify::First => Notification::FirstCell,
        Notify::Last => Notification::LastCell,
        Notify::Both => Notification::FirstAndLastCell,
    }
}

/// A socket of packets.
fn bound(host: Ipv4Addr, port: u16, to: SocketAddrV4) -> Result<Path, Error> {
    let socket = UdpSocket::bind(SocketAddrV4::new(host, port))?;
    socket.set_nonblocking(true)?;
    let to = SocketAddr::V4(to);
    Ok(Path::Packets { socket, to })
}

/// The port of a socket of packets: its circuit.
fn port_of(path: &Path) -> Result<u16, Error> {
    match path {
        Path::Packets { socket, .. } => Ok(socket.local_addr()?.port()),
        Path::Cells(_) | Path::Pdus(_) => Ok(0),
    }
}
