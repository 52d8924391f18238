use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::sync::Arc;

use cellgate_core::adapter::{
    AttachmentIndex, Command, OpenRequest, PortConfig, PortIndex, Refusal, VcId, VcIndex,
};
use cellgate_core::queue::{
    AttachmentGeometry, AttachmentSizes, ConnectionGeometry, ConnectionSizes, PortGeometry,
    PortSizes,
};
use cellgate_core::server::LOOPBACKS_PER_USER;
use cellgate_core::wire::{OamFlow, VpiVci};
use cellgate_shm::{Files, ReceiveBuffer, ShmError, Waker, is_same_file};

use super::board::{HostCommand, PortEnd};
use super::memory::{
    HostRegion, PrivateMemory, make_attachment, make_receive_port, make_region, make_transmit_port,
};
use super::records::{
    Asker, ConnectionId, Enclosed, EndRecord, Pending, PortRecord, PortReply, VcMemory, VcRecord,
};
use super::service::{CONNECTIONS_MAX, Service};
use super::sources::Source;
use crate::closer::Closer;
use crate::control::{
    Answer, Ask, ControlError, ENUMERATE_MAX, Hello, KEPT_MAX, PORTS_MAX, RECORD_MAX, ReceiveInto,
    VERSION, pair,
};
use crate::gap::GapReport;
use crate::link::{CellSender, ReceiveEnd, Rousing, TransmitEnd};

/// Loopback cells that one connection may await: its other requests go on meanwhile.
const LOOPBACKS_MAX: usize = 8;
// The server is one connection, and a user of it has a quarter.
const _: () = assert!(LOOPBACKS_MAX == 4 * LOOPBACKS_PER_USER);

type Handled = Result<(), ControlError>;

impl Service {
    /// Handles one request: answers it, or sends a command whose completion will.
    pub(super) fn handle(&mut self, asker: Asker, ask: Ask, fds: Vec<Closer>) -> Handled {
        let expected = descriptors_of(&ask);
        if !expected.contains(&fds.len()) {
            return Err(ControlError::Descriptors {
                expected: *expected.end() as u32,
                got: fds.len() as u32,
            });
        }
        if !self.greet(asker, &ask)? {
            return Err(ControlError::HelloFirst);
        }
        let everybodys = matches!(
            ask,
            Ask::Configure { .. }
                | Ask::Pseudowire { .. }
                | Ask::Unlink { .. }
                | Ask::Faults { .. }
                | Ask::Loopback { .. }
                | Ask::TakeUp
                | Ask::KeepPort { .. }
                | Ask::Shutdown
        );
        let connection = self.connections.get(&asker.connection);
        if everybodys && !connection.is_some_and(|connection| connection.governs) {
            return Err(ControlError::NotGoverning);
        }
        if record_of(&ask).is_some_and(|record| record.len() > RECORD_MAX) {
            return Err(ControlError::RecordTooLong);
        }
        match ask {
            Ask::Hello { .. } => self.hello(asker),
            Ask::Connect => self.connect(asker)?,
            Ask::Attach { sizes, user, keep } => self.attach(asker, sizes, user, keep)?,
            Ask::Detach { attachment } => self.detach(asker, attachment)?,
            Ask::Open {
                request,
                sizes,
                receive_into,
                record,
            } => self.open(asker, request, (sizes, receive_into), fds, record)?,
            Ask::Modify {
                vc,
                request,
                region,
                record,
            } => {
                let region = region.map(|region| (region.sizes, region.receive_into));
                self.modify(asker, vc, request, region, fds, record)?;
            }
            Ask::Close { vc } => {
                self.own_vc(asker.connection, vc)?;
                self.close(Some(asker), vc);
            }
            Ask::Enumerate { from } => self.enumerate(asker, from),
            Ask::Reattach {
                vc,
                attachment,
                record,
            } => self.reattach(asker, vc, attachment, fds.first(), record)?,
            Ask::Keep { attachment, record } => self.keep(asker, attachment, fds, record)?,
            Ask::TakeUp => self.take_up(asker)?,
            Ask::KeepPort { port, record } => self.keep_port(asker, port, record)?,
            Ask::PortRecord { port } => {
                let record = self.port(port)?.record.clone();
                self.reply(asker, Ok(Answer::PortRecord(record)), Enclosed::Nothing);
            }
            Ask::Lease {
                vc,
                pdus,
                expires_in_ns,
            } => {
                self.own_vc(asker.connection, vc)?;
                self.post(Pending::Plain { asker }, |ticket| {
                    HostCommand::Adapter(Command::Lease {
                        ticket,
                        vc,
                        pdus,
                        expires_in_ns,
                    })
                });
            }
            Ask::Loopback {
                port,
                address,
                flow,
                timeout_ns,
            } => self.loopback(asker, port, address, flow, timeout_ns)?,
            Ask::Configure { port, config } => self.configure(asker, port, config)?,
            Ask::ReceivePort { port } => self.receive_port(asker, port)?,
            Ask::TransmitPort { port } => self.transmit_port(asker, port)?,
            Ask::Join {
                port,
                sizes,
                files_generation,
            } => self.join(asker, port, sizes, files_generation, fds)?,
            Ask::Pseudowire { port, options } => self.pseudowire(asker, port, &options)?,
            Ask::Unlink { port } => self.unlink(asker, port)?,
            Ask::PseudowireReport { port } => self.report_pseudowire(asker, port)?,
            Ask::Faults { port, rates } => self.faults(asker, port, rates)?,
            Ask::FaultReport { port } => self.report_faults(asker, port)?,
            Ask::Ports { from } => self.report_ports(asker, from),
            Ask::Gaps { restart_maxima } => {
                let client = |place| {
                    let mut all = self.attachments.iter();
                    let found = all.find(|(_, record)| record.bell.place() == Some(place));
                    found.map(|(index, _)| *index)
                };
                let report = GapReport {
                    rests: self.gaps.rests.report(client),
                    ..self.gaps.report()
                };
                if restart_maxima {
                    self.gaps.restart_maxima();
                }
                self.reply(asker, Ok(Answer::Gaps(report)), Enclosed::Nothing);
            }
            Ask::Shutdown => {
                self.stopping = true;
                self.reply(asker, Ok(Answer::Done), Enclosed::Nothing);
            }
        }
        Ok(())
    }

    /// Whether the connection has said hello, now or before.
    fn greet(&mut self, asker: Asker, ask: &Ask) -> Result<bool, ControlError> {
        let Some(connection) = self.connections.get_mut(&asker.connection) else {
            return Ok(false);
        };
        if let Ask::Hello { version } = ask {
            if *version != VERSION {
                return Err(ControlError::Version { speaks: VERSION });
            }
            connection.greeted = true;
        }
        Ok(connection.greeted)
    }

    fn hello(&mut self, asker: Asker) {
        let hello = Hello {
            version: VERSION,
            pid: std::process::id(),
            config: self.options.config.clone(),
            scheduling: self.scheduling.clone(),
            memory_max: self.options.memory_max,
            governor: self.other_governor(asker.connection),
        };
        self.reply(asker, Ok(Answer::Hello(hello)), Enclosed::Nothing);
    }

    fn connect(&mut self, asker: Asker) -> Handled {
        if self.connections.len() >= CONNECTIONS_MAX {
            return Err(ControlError::ConnectionsInUse);
        }
        let (mine, theirs) = pair().map_err(kernel)?;
        self.adopt(mine.into(), false)
            .map_err(|_| ControlError::ConnectionsInUse)?;
        self.reply(asker, Ok(Answer::Done), Enclosed::One(Arc::new(theirs)));
        Ok(())
    }

    fn attach(&mut self, asker: Asker, sizes: AttachmentSizes, user: u32, keep: bool) -> Handled {
        let geometry = AttachmentGeometry::new(sizes)
            .map_err(|error| ControlError::BadGeometry(error.to_string()))?;
        let octets = geometry.from_adapter_len() + geometry.from_client_len();
        let charge = self.budget.charge(octets as u64)?;
        let files_generation = self.generation();
        let made = make_attachment(&geometry, files_generation)?;
        let call = self.wakers.client(user, made.bell, made.asleep);
        let call = call.map_err(kernel)?;
        let (bell, rouse) = self.channels.sources.client().map_err(kernel)?;
        if let Some(place) = bell.place() {
            self.gaps.rests.begin_client(place);
        }
        let pending = Pending::Attach {
            asker,
            keep,
            sizes,
            files_generation,
            files: made.files,
            watch: made.watch,
            bell,
            rouse: Arc::new(rouse),
            charge,
        };
        let attachment = made.attachment;
        self.post(pending, |ticket| HostCommand::Attach {
            ticket,
            attachment,
            bell: call,
        });
        Ok(())
    }

    fn detach(&mut self, asker: Asker, index: AttachmentIndex) -> Handled {
        self.own_attachment(asker.connection, index)?;
        self.detach_now(Some(asker), index);
        Ok(())
    }

    /// Has an attachment removed, unless that is under way already.
    pub(super) fn detach_now(&mut self, asker: Option<Asker>, index: AttachmentIndex) {
        let Some(record) = self.attachments.get_mut(&index) else {
            return;
        };
        if std::mem::replace(&mut record.leaving, true) {
            return;
        }
        self.post(Pending::Detach { asker, index }, |ticket| {
            HostCommand::Adapter(Command::Detach { ticket, index })
        });
    }

    fn open(
        &mut self,
        asker: Asker,
        request: OpenRequest,
        (sizes, into): (ConnectionSizes, ReceiveInto),
        fds: Vec<Closer>,
        record: Option<String>,
    ) -> Handled {
        self.own_attachment(asker.connection, request.attachment)?;
        let (region, memory) = self.make(asker.connection, &request, sizes, into, fds)?;
        let pending = Pending::Open {
            asker,
            attachment: request.attachment,
            memory,
            record,
        };
        self.post(pending, |ticket| {
            HostCommand::Adapter(Command::Open {
                ticket,
                request,
                region,
            })
        });
        Ok(())
    }

    fn modify(
        &mut self,
        asker: Asker,
        vc: VcId,
        request: OpenRequest,
        region: Option<(ConnectionSizes, ReceiveInto)>,
        fds: Vec<Closer>,
        record: Option<String>,
    ) -> Handled {
        let attachment = self.own_vc(asker.connection, vc)?.attachment;
        // Another attachment is a matter of `Reattach`.
        if request.attachment != attachment {
            return Err(ControlError::NotYours);
        }
        let (region, memory) = match region {
            Some((sizes, into)) => {
                let (region, memory) = self.make(asker.connection, &request, sizes, into, fds)?;
                (Some(region), Some(memory))
            }
            None => (None, None),
        };
        let pending = Pending::Modify {
            asker,
            index: vc.index,
            memory,
            record,
        };
        self.post(pending, |ticket| {
            HostCommand::Adapter(Command::Modify {
                ticket,
                vc,
                request,
                region,
            })
        });
        Ok(())
    }

    pub(super) fn close(&mut self, asker: Option<Asker>, vc: VcId) {
        self.post(Pending::Close { asker, vc }, |ticket| {
            HostCommand::Adapter(Command::Close { ticket, vc })
        });
    }

    fn enumerate(&mut self, asker: Asker, from: VcIndex) {
        self.post(Pending::Plain { asker }, |ticket| {
            HostCommand::Adapter(Command::Enumerate {
                ticket,
                from,
                into: Vec::with_capacity(ENUMERATE_MAX),
            })
        });
    }

    fn reattach(
        &mut self,
        asker: Asker,
        vc: VcId,
        attachment: AttachmentIndex,
        capability: Option<&Closer>,
        record: Option<String>,
    ) -> Handled {
        self.own_attachment(asker.connection, attachment)?;
        let known = self.vcs.get(&vc.index).filter(|known| known.vc == vc);
        let known = known.ok_or(ControlError::NotYours)?;
        let owned = known.owner == Some(asker.connection);
        let proven = match capability {
            Some(fd) => is_same_file(fd, &known.memory.files.from_client),
            None => false,
        };
        if !owned && !proven {
            return Err(ControlError::NotYours);
        }
        // The memory that the modification brings would be its asker's, not the new owner's.
        let modified = |pending: &Pending| match pending {
            Pending::Modify { index, memory, .. } => *index == vc.index && memory.is_some(),
            _ => false,
        };
        if self.awaits(modified) {
            return Err(ControlError::Refused(Refusal::Busy));
        }
        let pending = Pending::Reattach {
            asker,
            index: vc.index,
            attachment,
            record,
        };
        self.post(pending, |ticket| {
            HostCommand::Adapter(Command::Reattach {
                ticket,
                vc,
                attachment,
            })
        });
        Ok(())
    }

    fn loopback(
        &mut self,
        asker: Asker,
        port: PortIndex,
        address: VpiVci,
        flow: OamFlow,
        timeout_ns: u64,
    ) -> Handled {
        let mine = |pending: &&Pending| match pending {
            Pending::Loopback { asker: other } => other.connection == asker.connection,
            _ => false,
        };
        if self.awaited().filter(mine).count() == LOOPBACKS_MAX {
            return Err(ControlError::Refused(Refusal::LoopbacksInUse));
        }
        self.post(Pending::Loopback { asker }, |ticket| {
            HostCommand::Adapter(Command::Loopback {
                ticket,
                port,
                address,
                flow,
                timeout_ns,
            })
        });
        Ok(())
    }

    fn configure(&mut self, asker: Asker, port: PortIndex, config: PortConfig) -> Handled {
        let known = self.options.config.ports.get(usize::from(port.0));
        let format = known.ok_or(ControlError::NotYours)?.format;
        if config.format != format {
            return Err(ControlError::BadGeometry(
                "the format of a port stays".to_owned(),
            ));
        }
        let pending = Pending::Configure {
            asker,
            port,
            config,
        };
        self.post(pending, |ticket| {
            HostCommand::Adapter(Command::Configure {
                ticket,
                port,
                config,
            })
        });
        Ok(())
    }

    /// The geometry of a new queue of `port`, whose end nobody has who still lives.
    fn port_geometry(&self, port: PortIndex, transmit: bool) -> Result<PortGeometry, ControlError> {
        let index = usize::from(port.0);
        let (Some(config), Some(record)) =
            (self.options.config.ports.get(index), self.ports.get(index))
        else {
            return Err(ControlError::NotYours);
        };
        let end = if transmit {
            &record.transmit
        } else {
            &record.receive
        };
        if end
            .taken_by
            .is_some_and(|id| self.connections.contains_key(&id))
        {
            return Err(ControlError::PortTaken);
        }
        PortGeometry::new(PortSizes {
            cells: self.options.port_cells,
            format: config.format,
        })
        .map_err(|error| ControlError::BadGeometry(error.to_string()))
    }

    fn receive_port(&mut self, asker: Asker, port: PortIndex) -> Handled {
        let geometry = self.port_geometry(port, false)?;
        let generation = self.generation();
        let (receiver, files) = make_receive_port(&geometry, generation)?;
        let end = EndRecord {
            taken_by: Some(asker.connection),
            ..EndRecord::default()
        };
        let counters = Arc::clone(&end.counters);
        // Taken from now on, so that two requests in a row do not both get it.
        self.ports[usize::from(port.0)].receive.taken_by = Some(asker.connection);
        let (bell, rouse) = self.channels.sources.bell(Source::Link).map_err(kernel)?;
        let reply = Some(PortReply {
            sizes: geometry.sizes(),
            files_generation: generation,
            files,
            rouse: Some(Arc::new(rouse)),
        });
        let pending = Pending::Port {
            asker,
            port,
            transmit: false,
            end,
            bell: Some(bell),
            reply,
        };
        self.post(pending, |ticket| HostCommand::Port {
            ticket,
            port,
            ends: [
                Some(PortEnd::Receive(ReceiveEnd::Memory(receiver), counters)),
                None,
            ],
        });
        Ok(())
    }

    fn transmit_port(&mut self, asker: Asker, port: PortIndex) -> Handled {
        let geometry = self.port_geometry(port, true)?;
        let generation = self.generation();
        let (sender, files) = make_transmit_port(&geometry, generation)?;
        let reply = Some(PortReply {
            sizes: geometry.sizes(),
            files_generation: generation,
            files,
            rouse: None,
        });
        self.transmit_into(asker, port, (sender, None), reply);
        Ok(())
    }

    fn join(
        &mut self,
        asker: Asker,
        port: PortIndex,
        sizes: PortSizes,
        generation: u32,
        fds: Vec<Closer>,
    ) -> Handled {
        if sizes.format != self.port_geometry(port, true)?.sizes().format {
            return Err(ControlError::BadGeometry(
                "the ports' cells have different formats".to_owned(),
            ));
        }
        let geometry = PortGeometry::new(sizes)
            .map_err(|error| ControlError::BadGeometry(error.to_string()))?;
        let [from_adapter, from_client, page, bell] = <[Closer; 4]>::try_from(fds)
            .map_err(|_| ControlError::BadDescriptor("four are needed".to_owned()))?
            .map(Closer::into_inner);
        let files = Files {
            from_adapter,
            from_client,
        };
        let sender = CellSender::open(&files, &geometry, generation);
        let is_own = self.channels.sources.is_page(&page);
        let asleep = Waker::of_adapter(&page);
        // They may have been no memory files at all.
        drop([files.from_adapter, files.from_client, page].map(Closer::from));
        let bell = Closer::from(bell);
        let bad = |error: ShmError| ControlError::BadDescriptor(error.to_string());
        let (sender, asleep) = (sender.map_err(bad)?, asleep.map_err(bad)?);
        // A write to what somebody has given may take its time: a thread for that user does it.
        let others = asleep.filter(|_| !is_own);
        let call = others.map(|asleep| self.wakers.adapter(asker.connection, bell, asleep));
        let call = call.transpose().map_err(kernel)?;
        self.transmit_into(
            asker,
            port,
            (sender, call.map(Rousing::new).map(Box::new)),
            None,
        );
        Ok(())
    }

    fn transmit_into(
        &mut self,
        asker: Asker,
        port: PortIndex,
        (sender, rousing): (CellSender, Option<Box<Rousing>>),
        reply: Option<PortReply>,
    ) {
        let end = EndRecord {
            taken_by: Some(asker.connection),
            ..EndRecord::default()
        };
        let counters = Arc::clone(&end.counters);
        self.ports[usize::from(port.0)].transmit.taken_by = Some(asker.connection);
        let pending = Pending::Port {
            asker,
            port,
            transmit: true,
            end,
            bell: None,
            reply,
        };
        self.post(pending, |ticket| HostCommand::Port {
            ticket,
            port,
            ends: [
                None,
                Some(PortEnd::Transmit(
                    TransmitEnd::Memory(sender, rousing),
                    counters,
                )),
            ],
        });
    }

    fn report_ports(&mut self, asker: Asker, from: PortIndex) {
        let reports = self.ports.iter().skip(from.0.into()).take(PORTS_MAX);
        let reports = reports.map(PortRecord::report);
        let answer = Answer::Ports(reports.collect());
        self.reply(asker, Ok(answer), Enclosed::Nothing);
    }

    /// Makes the memory of a connection for `request`.
    fn make(
        &mut self,
        connection: ConnectionId,
        request: &OpenRequest,
        mut sizes: ConnectionSizes,
        into: ReceiveInto,
        fds: Vec<Closer>,
    ) -> Result<(HostRegion, VcMemory), ControlError> {
        sizes.receive_elsewhere = into != ReceiveInto::Own;
        let geometry = ConnectionGeometry::new(sizes)
            .map_err(|error| ControlError::BadGeometry(error.to_string()))?;
        let private = PrivateMemory::of(request, &geometry);
        let files = geometry.from_adapter_len() + geometry.from_client_len();
        let octets = files + private.octets();
        let mut charges = vec![self.budget.charge(octets as u64)?];
        let generation = self.generation();
        let buffer = match (into, fds.first()) {
            (ReceiveInto::TransmitBufferOf(vc), _) => {
                let other = &self.own_vc(connection, vc)?.memory;
                charges.extend(other.charges.iter().cloned());
                ReceiveBuffer::TransmitBufferOf {
                    from_client: other.files.from_client.as_fd(),
                    geometry: ConnectionGeometry::new(other.sizes)
                        .map_err(|error| ControlError::BadGeometry(error.to_string()))?,
                }
            }
            (ReceiveInto::File, Some(fd)) => {
                // Its pages stay in memory as long as this region does.
                charges.push(self.budget.charge(u64::from(sizes.receive_len))?);
                ReceiveBuffer::File(fd.as_fd())
            }
            _ => ReceiveBuffer::Own,
        };
        let (region, files) = make_region(&geometry, generation, &private, buffer)?;
        let memory = VcMemory {
            files,
            sizes,
            files_generation: generation,
            receive_into: into,
            charges,
        };
        Ok((region, memory))
    }

    fn own_vc(&self, connection: ConnectionId, vc: VcId) -> Result<&VcRecord, ControlError> {
        let taken = |pending: &Pending| match pending {
            Pending::Reattach { asker, index, .. } => {
                *index == vc.index && asker.connection != connection
            }
            _ => false,
        };
        if self.awaits(taken) {
            return Err(ControlError::NotYours);
        }
        self.vcs
            .get(&vc.index)
            .filter(|record| record.vc == vc && record.owner == Some(connection))
            .ok_or(ControlError::NotYours)
    }

    pub(super) fn own_attachment(
        &self,
        connection: ConnectionId,
        index: AttachmentIndex,
    ) -> Result<(), ControlError> {
        let record = self.attachments.get(&index);
        match record.is_some_and(|record| record.owner == Some(connection) && !record.leaving) {
            true => Ok(()),
            false => Err(ControlError::NotYours),
        }
    }
}

/// How many descriptors come along with a request.
fn descriptors_of(ask: &Ask) -> RangeInclusive<usize> {
    match ask {
        Ask::Open {
            receive_into: ReceiveInto::File,
            ..
        } => 1..=1,
        Ask::Modify {
            region: Some(region),
            ..
        } if region.receive_into == ReceiveInto::File => 1..=1,
        Ask::Join { .. } => 4..=4,
        Ask::Reattach { .. } => 0..=1,
        Ask::Keep { .. } => 0..=KEPT_MAX,
        _ => 0..=0,
    }
}

/// The record that comes along with a request.
fn record_of(ask: &Ask) -> Option<&String> {
    match ask {
        Ask::Open { record, .. }
        | Ask::Modify { record, .. }
        | Ask::Reattach { record, .. }
        | Ask::Keep { record, .. }
        | Ask::KeepPort { record, .. } => record.as_ref(),
        _ => None,
    }
}

pub(super) fn kernel(error: impl std::fmt::Display) -> ControlError {
    ControlError::Kernel(error.to_string())
}
