use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use cellgate_core::adapter::{
    AdapterState, AdapterStats, OpenRequest, PortConfig, PortIndex, VcId, VcIndex, VcInfo,
};
use cellgate_core::line::LineSpec;
use cellgate_core::queue::{
    AttachmentGeometry, AttachmentSizes, ConnectionGeometry, ConnectionSizes, GeometryError,
    PortGeometry, PortSizes,
};
use cellgate_core::wire::{OamFlow, VpiVci};
use cellgate_shm::{Files, ReceiveBuffer, RouseFiles, socket};

use super::vc::Receiving;
use super::{Attached, ClientError, OpenVc};
use crate::control::{
    Answer, Ask, Hello, MESSAGE_MAX, NewRegion, PORTS_MAX, PortReport, ReceiveInto, Received,
    Reply, Request, VERSION, receive, send, take_stdin,
};
use crate::gap::GapReport;
use crate::link::udp::{UdpLink, UdpReport};
use crate::link::{CellReceiver, CellSender};

/// How long an adapter may take to let a caller in.
const PATIENCE: Duration = Duration::from_secs(30);

/// A control connection to an adapter. Each call asks and waits for the answer.
///
/// VCs, attachments and ports that were had over it go with it.
#[derive(Debug)]
pub struct Control {
    socket: OwnedFd,
    buffer: Vec<u8>,
    last_id: u64,
    hello: Hello,
}

impl Control {
    /// Says hello over `socket`.
    ///
    /// # Errors
    /// The adapter did not start, is gone, or speaks another version.
    pub fn new(socket: OwnedFd) -> Result<Self, ClientError> {
        let mut buffer = vec![0; MESSAGE_MAX];
        let ask = Ask::Hello { version: VERSION };
        let (answer, _) = exchange(&socket, &mut buffer, 1, ask, &[])?;
        let Answer::Hello(hello) = answer else {
            return Err(unexpected(&answer));
        };
        Ok(Self {
            socket,
            buffer,
            last_id: 1,
            hello,
        })
    }

    /// Says hello over the connection that a process has inherited as its standard input
    /// ([`Control::connect`] gives a parent what to pass on).
    ///
    /// # Errors
    /// As [`Control::new`].
    pub fn from_stdin() -> Result<Self, ClientError> {
        Self::new(take_stdin()?)
    }

    /// Says hello to an adapter that listens at `path` (`AdapterOptions::listen`).
    ///
    /// # Errors
    /// As [`Control::new`].
    pub fn at(path: &Path) -> Result<Self, ClientError> {
        Self::new(socket::dial(path, PATIENCE)?)
    }

    /// What the adapter said of itself when this connection began.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The socket, for a poll together with others: it becomes readable when the adapter is gone.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Asks anything.
    ///
    /// # Errors
    /// The adapter refuses, or is gone.
    pub fn ask(
        &mut self,
        ask: Ask,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(Answer, Vec<OwnedFd>), ClientError> {
        self.last_id += 1;
        exchange(&self.socket, &mut self.buffer, self.last_id, ask, fds)
    }

    /// Another control connection, for another process or thread.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn connect(&mut self) -> Result<OwnedFd, ClientError> {
        let (answer, fds) = self.ask(Ask::Connect, &[])?;
        let [fd] = take(fds, &answer)?;
        Ok(fd)
    }

    /// Makes an event queue and a doorbell queue. With `keep`, VCs of it outlive this connection.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn attach(&mut self, sizes: AttachmentSizes, keep: bool) -> Result<Attached, ClientError> {
        let (answer, fds) = {
            let user = rustix::process::getuid().as_raw();
            self.ask(Ask::Attach { sizes, user, keep }, &[])?
        };
        let Answer::Attached {
            attachment,
            sizes,
            files_generation,
        } = answer
        else {
            return Err(unexpected(&answer));
        };
        let [from_adapter, from_client, watch, page, bell] = take(fds, &answer)?;
        let files = Files {
            from_adapter,
            from_client,
        };
        let geometry = AttachmentGeometry::new(sizes).map_err(geometry_error)?;
        let rouse = RouseFiles { page, bell };
        let generation = files_generation;
        Ok(Attached::open(
            attachment, &files, &geometry, generation, watch, rouse,
        )?)
    }

    /// Removes an attachment; its VCs must be closed.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn detach(&mut self, attached: &Attached) -> Result<(), ClientError> {
        let attachment = attached.index();
        self.done(Ask::Detach { attachment }, &[])
    }

    /// Opens a VC with memory of its own.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn open(
        &mut self,
        request: OpenRequest,
        sizes: ConnectionSizes,
    ) -> Result<OpenVc, ClientError> {
        self.open_into(request, sizes, &Receiving::Own)
    }

    /// Opens a VC that receives into the transmit buffer of another VC of this connection: what
    /// arrives can be [forwarded](OpenVc::forward) without a copy.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn open_into_transmit_buffer(
        &mut self,
        request: OpenRequest,
        mut sizes: ConnectionSizes,
        other: &OpenVc,
    ) -> Result<OpenVc, ClientError> {
        sizes.receive_len = other.sizes().transmit_len;
        self.open_into(request, sizes, &Receiving::TransmitBufferOf(other))
    }

    /// Opens a VC that receives into a memory file, which must be sealed against shrinking.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn open_into_file(
        &mut self,
        request: OpenRequest,
        sizes: ConnectionSizes,
        file: BorrowedFd<'_>,
    ) -> Result<OpenVc, ClientError> {
        self.open_into(request, sizes, &Receiving::File(file))
    }

    fn open_into(
        &mut self,
        request: OpenRequest,
        sizes: ConnectionSizes,
        receiving: &Receiving<'_>,
    ) -> Result<OpenVc, ClientError> {
        let ask = Ask::Open {
            request,
            sizes,
            receive_into: receiving.wish(),
            record: None,
        };
        let reply = self.ask(ask, receiving.fds())?;
        opened(reply, receiving)
    }

    /// Changes the contract of a VC; its memory stays.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn modify(&mut self, vc: &mut OpenVc, request: OpenRequest) -> Result<(), ClientError> {
        let ask = Ask::Modify {
            vc: vc.id(),
            request,
            region: None,
            record: None,
        };
        let (answer, _) = self.ask(ask, &[])?;
        let Answer::Opened { vc: id, .. } = answer else {
            return Err(unexpected(&answer));
        };
        vc.rename(id);
        Ok(())
    }

    /// Changes the contract of a VC and gives it new memory at its next PDU boundary. The old
    /// memory can still be read: it holds what was received before.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn renew(
        &mut self,
        vc: VcId,
        request: OpenRequest,
        sizes: ConnectionSizes,
    ) -> Result<OpenVc, ClientError> {
        let region = NewRegion {
            sizes,
            receive_into: ReceiveInto::Own,
        };
        let ask = Ask::Modify {
            vc,
            request,
            region: Some(region),
            record: None,
        };
        let reply = self.ask(ask, &[])?;
        opened(reply, &Receiving::Own)
    }

    /// Closes a VC: its last counters.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn close(&mut self, vc: VcId) -> Result<VcInfo, ClientError> {
        match self.ask(Ask::Close { vc }, &[])? {
            (Answer::Closed(info), _) => Ok(*info),
            (answer, _) => Err(unexpected(&answer)),
        }
    }

    /// Counters of the adapter and of all VCs, in as many pages as that takes. The time and the
    /// adapter's counters are the first page's.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn enumerate(&mut self) -> Result<AdapterState, ClientError> {
        let mut state = self.enumerate_from(VcIndex(0))?;
        while let Some(from) = state.next {
            let page = self.enumerate_from(from)?;
            state.vcs.extend(page.vcs);
            state.next = page.next;
        }
        Ok(state)
    }

    fn enumerate_from(&mut self, from: VcIndex) -> Result<AdapterState, ClientError> {
        match self.ask(Ask::Enumerate { from }, &[])? {
            (Answer::State(state), _) => Ok(*state),
            (answer, _) => Err(unexpected(&answer)),
        }
    }

    /// Counters of the adapter.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn stats(&mut self) -> Result<AdapterStats, ClientError> {
        // A list from the last slot is the shortest.
        Ok(self.enumerate_from(VcIndex(u16::MAX))?.stats)
    }

    /// Takes a VC over, by right of the descriptor of the file that its client writes, or because
    /// it is this connection's already.
    ///
    /// Its queues stand where its former client left them. A new client gives it new memory with
    /// [`Control::renew`] before it reads.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn reattach(
        &mut self,
        vc: VcId,
        attached: &Attached,
        capability: Option<BorrowedFd<'_>>,
    ) -> Result<(), ClientError> {
        let ask = Ask::Reattach {
            vc,
            attachment: attached.index(),
            record: None,
        };
        match self.ask(ask, capability.as_slice())? {
            (Answer::Opened { .. }, _) => Ok(()),
            (answer, _) => Err(unexpected(&answer)),
        }
    }

    /// Lends `pdus` PDUs of host time to a VC, for `expires_in_ns` nanoseconds.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn lease(&mut self, vc: VcId, pdus: u32, expires_in_ns: u64) -> Result<(), ClientError> {
        let ask = Ask::Lease {
            vc,
            pdus,
            expires_in_ns,
        };
        self.done(ask, &[])
    }

    /// Sends an OAM loopback cell (I.610) in a flow of the VC `address`, of which only the VPI
    /// counts in F4, and waits at most `timeout_ns` (10^10 at most) for its return: nanoseconds of
    /// the round trip, by the adapter's clock.
    ///
    /// # Errors
    /// As [`Control::ask`]. The cell does not return: refused with
    /// [`Refusal::NoReturn`](cellgate_core::adapter::Refusal::NoReturn).
    pub fn loopback(
        &mut self,
        port: PortIndex,
        address: VpiVci,
        flow: OamFlow,
        timeout_ns: u64,
    ) -> Result<u64, ClientError> {
        let ask = Ask::Loopback {
            port,
            address,
            flow,
            timeout_ns,
        };
        match self.ask(ask, &[])? {
            (Answer::Returned { round_trip_ns }, _) => Ok(round_trip_ns),
            (answer, _) => Err(unexpected(&answer)),
        }
    }

    /// Changes a port.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn configure(&mut self, port: PortIndex, config: PortConfig) -> Result<(), ClientError> {
        self.done(Ask::Configure { port, config }, &[])
    }

    /// The sending end of a port that the adapter receives from.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn cell_sender(&mut self, port: PortIndex) -> Result<CellSender, ClientError> {
        let (files, rouse, sizes, generation) = self.receive_port(port)?;
        let geometry = PortGeometry::new(sizes).map_err(geometry_error)?;
        Ok(CellSender::open(&files, &geometry, generation)?.rousing(rouse)?)
    }

    /// The receiving end of a port that the adapter transmits into.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn cell_receiver(&mut self, port: PortIndex) -> Result<CellReceiver, ClientError> {
        let (answer, fds) = self.ask(Ask::TransmitPort { port }, &[])?;
        let (sizes, generation) = port_sizes(&answer)?;
        let [from_adapter, from_client] = take(fds, &answer)?;
        let files = Files {
            from_adapter,
            from_client,
        };
        let geometry = PortGeometry::new(sizes).map_err(geometry_error)?;
        Ok(CellReceiver::open(&files, &geometry, generation)?)
    }

    /// Has this adapter's `port` transmit into `other_port` of another adapter.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn join(
        &mut self,
        port: PortIndex,
        other: &mut Self,
        other_port: PortIndex,
    ) -> Result<(), ClientError> {
        let (files, rouse, sizes, files_generation) = other.receive_port(other_port)?;
        let ask = Ask::Join {
            port,
            sizes,
            files_generation,
        };
        self.done(ask, &[files.fds(), rouse.fds()].concat())
    }

    fn receive_port(
        &mut self,
        port: PortIndex,
    ) -> Result<(Files, RouseFiles, PortSizes, u32), ClientError> {
        let (answer, fds) = self.ask(Ask::ReceivePort { port }, &[])?;
        let (sizes, generation) = port_sizes(&answer)?;
        let [from_adapter, from_client, page, bell] = take(fds, &answer)?;
        let files = Files {
            from_adapter,
            from_client,
        };
        Ok((files, RouseFiles { page, bell }, sizes, generation))
    }

    /// Has a port receive from and transmit into a pseudowire over UDP: where it receives, and from
    /// where it sends.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn pseudowire(
        &mut self,
        port: PortIndex,
        options: UdpLink,
    ) -> Result<(SocketAddr, SocketAddr), ClientError> {
        match self.ask(Ask::Pseudowire { port, options }, &[])? {
            (
                Answer::Pseudowire {
                    receives_at,
                    sends_from,
                },
                _,
            ) => Ok((receives_at, sends_from)),
            (answer, _) => Err(unexpected(&answer)),
        }
    }

    /// What the pseudowire of a port counted, some milliseconds old at most.
    ///
    /// # Errors
    /// As [`Control::ask`]; the port never had one.
    pub fn pseudowire_report(&mut self, port: PortIndex) -> Result<UdpReport, ClientError> {
        match self.ask(Ask::PseudowireReport { port }, &[])? {
            (Answer::PseudowireReport(report), _) => Ok(report),
            (answer, _) => Err(unexpected(&answer)),
        }
    }

    /// Has the line on which a port receives be impaired from its next cell on, or clean.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn line(&mut self, port: PortIndex, line: LineSpec) -> Result<(), ClientError> {
        self.done(Ask::Line { port, line }, &[])
    }

    /// Queues and drops of all ports, a fraction of a millisecond old at most.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn ports(&mut self) -> Result<Vec<PortReport>, ClientError> {
        let mut all = Vec::new();
        loop {
            let from = PortIndex(u8::try_from(all.len()).unwrap_or(u8::MAX));
            let ports = match self.ask(Ask::Ports { from }, &[])? {
                (Answer::Ports(ports), _) => ports,
                (answer, _) => return Err(unexpected(&answer)),
            };
            let is_last = ports.len() < PORTS_MAX;
            all.extend(ports);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// What the gap detector saw; with `restart_maxima`, its maxima begin anew after that.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn gaps(&mut self, restart_maxima: bool) -> Result<GapReport, ClientError> {
        match self.ask(Ask::Gaps { restart_maxima }, &[])? {
            (Answer::Gaps(report), _) => Ok(report),
            (answer, _) => Err(unexpected(&answer)),
        }
    }

    /// Ends the adapter.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn shutdown(mut self) -> Result<(), ClientError> {
        self.done(Ask::Shutdown, &[])
    }

    fn done(&mut self, ask: Ask, fds: &[BorrowedFd<'_>]) -> Result<(), ClientError> {
        match self.ask(ask, fds)? {
            (Answer::Done, _) => Ok(()),
            (answer, _) => Err(unexpected(&answer)),
        }
    }
}

fn port_sizes(answer: &Answer) -> Result<(PortSizes, u32), ClientError> {
    match answer {
        Answer::Port {
            sizes,
            files_generation,
        } => Ok((*sizes, *files_generation)),
        other => Err(unexpected(other)),
    }
}

fn opened(
    (answer, fds): (Answer, Vec<OwnedFd>),
    receiving: &Receiving<'_>,
) -> Result<OpenVc, ClientError> {
    let Answer::Opened {
        vc,
        sizes,
        files_generation,
        ..
    } = answer
    else {
        return Err(unexpected(&answer));
    };
    let [from_adapter, from_client] = take(fds, &answer)?;
    let files = Files {
        from_adapter,
        from_client,
    };
    let geometry = ConnectionGeometry::new(sizes).map_err(geometry_error)?;
    let buffer: ReceiveBuffer<'_> = receiving.buffer()?;
    OpenVc::open(vc, files, &geometry, files_generation, buffer)
}

fn exchange(
    socket: &OwnedFd,
    buffer: &mut [u8],
    id: u64,
    ask: Ask,
    fds: &[BorrowedFd<'_>],
) -> Result<(Answer, Vec<OwnedFd>), ClientError> {
    let request = serde_json::to_vec(&Request { id, ask })?;
    // If the other end is gone, it may have said why before.
    let sent = send(socket, &request, fds, true);
    loop {
        let (len, fds) = match receive(socket, buffer, true)? {
            Received::Message(len, fds) => (len, fds),
            Received::TooLong(_) => return Err(ClientError::BadReply("too long".to_owned())),
            Received::Closed(_) => {
                sent?;
                return Err(ClientError::Closed);
            }
        };
        let reply: Reply = serde_json::from_slice(&buffer[..len])?;
        // 0: what was sent is no request, or the adapter did not even start.
        if reply.id == id || reply.id == 0 {
            return Ok((reply.result?, fds));
        }
    }
}

fn take<const N: usize>(fds: Vec<OwnedFd>, answer: &Answer) -> Result<[OwnedFd; N], ClientError> {
    <[OwnedFd; N]>::try_from(fds)
        .map_err(|fds| ClientError::BadReply(format!("{} descriptors with {answer:?}", fds.len())))
}

fn unexpected(answer: &Answer) -> ClientError {
    ClientError::BadReply(format!("{answer:?}"))
}

pub(super) fn geometry_error(error: GeometryError) -> ClientError {
    ClientError::BadReply(error.to_string())
}
