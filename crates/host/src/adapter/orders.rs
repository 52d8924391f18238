//! What the keeper wants done: memory is made, links are, and the firmware is told.

use std::os::fd::AsFd;
use std::sync::Arc;

use cellgate_core::adapter::{Command, Completion, OpenRequest, PortIndex};
use cellgate_core::keeper::{
    Answer, Ask, ConnectionId, ControlError, Done, ENUMERATE_MAX, GapReport, Handle, Making,
    NewRegion, Order, PrivateMemory, ReceiveInto, UdpLink,
};
use cellgate_core::line::{ImpairedLine, LineSpec};
use cellgate_core::queue::{
    AttachmentGeometry, AttachmentSizes, ConnectionGeometry, ConnectionSizes, GeometryError,
    PortGeometry, PortSizes,
};
use cellgate_shm::{Files, ReceiveBuffer, ShmError, Waker};

use super::board::{HostCommand, HostCompletion, PortEnd};
use super::memory::{
    HostAttachment, HostRegion, make_attachment, make_receive_port, make_region, make_transmit_port,
};
use super::ports::{End, NewEnds};
use super::service::Service;
use super::sockets::{Held, Shared};
use super::sources::Source;
use super::wakers::Whose;
use crate::clock::MonotonicClock;
use crate::closer::Closer;
use crate::control::pair;
use crate::link::udp::{UdpError, UdpReceiver, UdpSender, UdpSink, UdpSource};
use crate::link::{CellSender, MemorySink, MemorySource, PortLine, ReceiveEnd, TransmitEnd};

/// How an order has begun.
pub(super) enum Begun {
    /// The firmware ends it.
    Sent,
    /// It is done.
    Answer(Box<Answer>),
}

impl Begun {
    pub(super) fn now(answer: Answer) -> Begun {
        Begun::Answer(Box::new(answer))
    }
}

pub(super) type Result<T> = std::result::Result<T, ControlError>;

impl Service {
    pub(super) fn carry_out(&mut self, order: Order) {
        let ticket = order.ticket;
        let done = match self.begin(order) {
            Ok(Begun::Sent) => return,
            Ok(Begun::Answer(answer)) => Ok(Done::Answer(*answer)),
            Err(error) => Err(error),
        };
        self.keeper.handle_done(ticket, done);
    }

    fn begin(&mut self, order: Order) -> Result<Begun> {
        let Order {
            ticket,
            from,
            ask,
            making,
            into,
            came,
        } = order;
        let command = match ask {
            Ask::Connect => return self.connect(making),
            Ask::Attach { sizes, user, .. } => {
                let command = self.attach(ticket, sizes, user, needed(making)?)?;
                return Ok(self.post(command));
            }
            Ask::Detach { attachment } => Command::Detach {
                ticket,
                index: attachment,
            },
            Ask::Open {
                request,
                sizes,
                receive_into,
                ..
            } => {
                let new = NewRegion {
                    sizes,
                    receive_into,
                };
                let region = self.region(&request, new, needed(making)?, into, &came);
                self.drop_given(&came);
                Command::Open {
                    ticket,
                    request,
                    region: region?,
                }
            }
            Ask::Modify {
                vc,
                request,
                region,
                ..
            } => {
                let region =
                    region.map(|new| self.region(&request, new, needed(making)?, into, &came));
                self.drop_given(&came);
                Command::Modify {
                    ticket,
                    vc,
                    request,
                    region: region.transpose()?,
                }
            }
            Ask::Close { vc } => Command::Close { ticket, vc },
            Ask::Enumerate { from } => Command::Enumerate {
                ticket,
                from,
                into: Vec::with_capacity(ENUMERATE_MAX),
            },
            Ask::Reattach { vc, attachment, .. } => Command::Reattach {
                ticket,
                vc,
                attachment,
            },
            Ask::Lease {
                vc,
                pdus,
                expires_in_ns,
            } => Command::Lease {
                ticket,
                vc,
                pdus,
                expires_in_ns,
            },
            Ask::Loopback {
                port,
                address,
                flow,
                timeout_ns,
            } => Command::Loopback {
                ticket,
                port,
                address,
                flow,
                timeout_ns,
            },
            Ask::Configure { port, config } => Command::Configure {
                ticket,
                port,
                config,
            },
            Ask::ReceivePort { port } => {
                self.meetings.end(port);
                return self.receive_port(ticket, port, needed(making)?);
            }
            Ask::TransmitPort { port } => {
                self.meetings.end(port);
                return self.transmit_port(ticket, port, needed(making)?);
            }
            Ask::Join {
                port,
                sizes,
                files_generation,
            } => {
                self.meetings.end(port);
                let joined = self.joined(from, sizes, files_generation, came)?;
                return Ok(self.transmit_into(ticket, port, joined));
            }
            Ask::Pseudowire { port, options } => {
                self.meetings.end(port);
                return self.pseudowire(ticket, port, &options);
            }
            Ask::Meet { port, path } => return self.meet(port, path),
            Ask::Unlink { port } => {
                self.meetings.end(port);
                return Ok(self.unlink(ticket, port));
            }
            Ask::Line { port, line } => return self.line(ticket, port, line),
            Ask::PseudowireReport { port } => {
                let report = self.ports.get(port)?.pseudowire_report();
                let report = report.ok_or(ControlError::NotYours)?;
                return Ok(Begun::now(Answer::PseudowireReport(report)));
            }
            Ask::Ports { from } => {
                let now = MonotonicClock.now();
                let of = |port| self.meetings.report(now, port);
                return Ok(Begun::now(self.ports.reports(from, of)));
            }
            Ask::Gaps { restart_maxima } => {
                return Ok(Begun::now(Answer::Gaps(self.gap_report(restart_maxima))));
            }
            // The keeper does these alone.
            Ask::Hello { .. }
            | Ask::Keep { .. }
            | Ask::TakeUp
            | Ask::KeepPort { .. }
            | Ask::PortRecord { .. }
            | Ask::Shutdown => return Ok(Begun::now(Answer::Done)),
        };
        Ok(self.post(HostCommand::Adapter(command)))
    }

    fn gap_report(&self, restart_maxima: bool) -> GapReport {
        let client = |place| {
            let at = |handle: &Handle| self.held.get(handle)?.bell.as_ref()?.place();
            let mut all = self.keeper.attachments();
            let found = all.find(|(_, handle)| at(handle) == Some(place));
            found.map(|(index, _)| index)
        };
        let report = GapReport {
            rests: self.gaps.rests.report(client),
            unlocked: self.unlocked,
            ..self.gaps.report()
        };
        if restart_maxima {
            self.gaps.restart_maxima();
        }
        report
    }

    fn connect(&mut self, making: Option<Making>) -> Result<Begun> {
        let Making { handle, .. } = needed(making)?;
        let (mine, theirs) = pair().map_err(kernel)?;
        self.adopt(mine.into(), false)
            .map_err(|_| ControlError::ConnectionsInUse)?;
        let theirs = Held::of(vec![Shared::One(Arc::new(theirs))]);
        self.held.insert(handle, theirs);
        Ok(Begun::now(Answer::Done))
    }

    fn attach(
        &mut self,
        ticket: u64,
        sizes: AttachmentSizes,
        user: u32,
        making: Making,
    ) -> Result<HostCommand> {
        let geometry = AttachmentGeometry::new(sizes).map_err(bad)?;
        let made = make_attachment(&geometry, making.files_generation)?;
        let call = self.wakers.client(user, made.bell, made.asleep);
        let call = call.map_err(kernel)?;
        let (bell, rouse) = self.channels.sources.client().map_err(kernel)?;
        if let Some(place) = bell.place() {
            self.gaps.rests.begin_client(place);
        }
        let held = Held {
            shared: vec![
                Shared::Files(made.files),
                Shared::One(made.watch),
                Shared::Rouse(Arc::new(rouse)),
            ],
            bell: Some(bell),
        };
        self.held.insert(making.handle, held);
        Ok(HostCommand::Attach {
            ticket,
            attachment: made.attachment,
            bell: call,
        })
    }

    fn drop_given(&mut self, came: &[Handle]) {
        for handle in came {
            self.held.remove(handle);
        }
    }

    fn region(
        &mut self,
        request: &OpenRequest,
        new: NewRegion,
        making: Making,
        into: Option<(Handle, ConnectionSizes)>,
        came: &[Handle],
    ) -> Result<HostRegion> {
        let NewRegion {
            mut sizes,
            receive_into,
        } = new;
        sizes.receive_elsewhere = receive_into != ReceiveInto::Own;
        let geometry = ConnectionGeometry::new(sizes).map_err(bad)?;
        let private = PrivateMemory::of(request, &geometry);
        let shared = |handle| self.held.get(handle).map(|held| &held.shared[..]);
        let buffer = match (into, came.first().and_then(shared)) {
            (Some((other, sizes)), _) => match shared(&other) {
                Some([Shared::Files(files)]) => ReceiveBuffer::TransmitBufferOf {
                    from_client: files.from_client.as_fd(),
                    geometry: ConnectionGeometry::new(sizes).map_err(bad)?,
                },
                _ => return Err(ControlError::NotYours),
            },
            (None, Some([Shared::Given(fd)])) => ReceiveBuffer::File(fd.as_fd()),
            _ => ReceiveBuffer::Own,
        };
        let (mut region, files) =
            make_region(&geometry, making.files_generation, &private, buffer)?;
        // Memory without a lock serves as well while the kernel has no need of it.
        if self.options.scheduling.lock_memory {
            let _ = region.lock();
            self.unlocked += region.unlocked();
        }
        let held = Held::of(vec![Shared::Files(files)]);
        self.held.insert(making.handle, held);
        Ok(region)
    }

    pub(super) fn port_geometry(&self, port: PortIndex) -> Result<PortGeometry> {
        let config = self.keeper.port(port).ok_or(ControlError::NotYours)?;
        let sizes = PortSizes {
            cells: self.options.port_cells,
            format: config.format,
        };
        PortGeometry::new(sizes).map_err(bad)
    }

    fn receive_port(&mut self, ticket: u64, port: PortIndex, making: Making) -> Result<Begun> {
        let geometry = self.port_geometry(port)?;
        let (receiver, files) = make_receive_port(&geometry, making.files_generation)?;
        let (bell, rouse) = self.channels.sources.bell(Source::Link).map_err(kernel)?;
        let shared = vec![Shared::Files(files), Shared::Rouse(Arc::new(rouse))];
        self.held.insert(making.handle, Held::of(shared));
        let end = End {
            _bell: Some(bell),
            ..End::default()
        };
        let counters = Arc::clone(&end.counters);
        let receive = PortEnd::Receive(ReceiveEnd::Memory(MemorySource(receiver)), counters);
        let new = NewEnds::One {
            transmit: false,
            end,
        };
        Ok(self.post_ends(ticket, port, [Some(receive), None], new))
    }

    fn transmit_port(&mut self, ticket: u64, port: PortIndex, making: Making) -> Result<Begun> {
        let geometry = self.port_geometry(port)?;
        let (sender, files) = make_transmit_port(&geometry, making.files_generation)?;
        let held = Held::of(vec![Shared::Files(files)]);
        self.held.insert(making.handle, held);
        Ok(self.transmit_into(
            ticket,
            port,
            TransmitEnd::Memory(MemorySink::new(sender, None)),
        ))
    }

    /// The receive port of another adapter, whose descriptors came.
    fn joined(
        &mut self,
        from: Option<ConnectionId>,
        sizes: PortSizes,
        files_generation: u32,
        came: Vec<Handle>,
    ) -> Result<TransmitEnd> {
        let came = came.into_iter();
        let given = came.filter_map(|handle| self.take_given(handle)).collect();
        let whose = from.map(Whose::Joined);
        self.far_end(whose, sizes, files_generation, given)
    }

    /// The receive port of another adapter, which `whose` thread wakes (none: nobody need be
    /// woken), by the descriptors that the other adapter has made.
    pub(super) fn far_end(
        &mut self,
        whose: Option<Whose>,
        sizes: PortSizes,
        files_generation: u32,
        given: Vec<Closer>,
    ) -> Result<TransmitEnd> {
        let geometry = PortGeometry::new(sizes).map_err(bad)?;
        let [from_adapter, from_client, page, bell] = <[Closer; 4]>::try_from(given)
            .map_err(|_| ControlError::BadDescriptor("four are needed".to_owned()))?
            .map(Closer::into_inner);
        let files = Files {
            from_adapter,
            from_client,
        };
        let sender = CellSender::open(&files, &geometry, files_generation);
        let is_own = self.channels.sources.is_page(&page);
        let asleep = Waker::of_adapter(&page);
        // They may have been no memory files at all.
        drop([files.from_adapter, files.from_client, page].map(Closer::from));
        let bell = Closer::from(bell);
        let unusable = |error: ShmError| ControlError::BadDescriptor(error.to_string());
        let (sender, asleep) = (sender.map_err(unusable)?, asleep.map_err(unusable)?);
        // A write to what somebody has given may take its time: a thread for that user does it.
        let others = asleep.filter(|_| !is_own).zip(whose);
        let call = others.map(|(asleep, whose)| self.wakers.adapter(whose, bell, asleep));
        let call = call.transpose().map_err(kernel)?;
        Ok(TransmitEnd::Memory(MemorySink::new(sender, call)))
    }

    fn transmit_into(&mut self, ticket: u64, port: PortIndex, to: TransmitEnd) -> Begun {
        let end = End::default();
        let transmit = PortEnd::Transmit(to, Arc::clone(&end.counters));
        let new = NewEnds::One {
            transmit: true,
            end,
        };
        self.post_ends(ticket, port, [None, Some(transmit)], new)
    }

    /// Makes both ends of a pseudowire and hands them to the firmware thread.
    fn pseudowire(&mut self, ticket: u64, port: PortIndex, options: &UdpLink) -> Result<Begun> {
        let refused = |error: UdpError| match error {
            error @ UdpError::Kernel { .. } => kernel(error),
            other => ControlError::Pseudowire(other.to_string()),
        };
        let receiver = UdpReceiver::open(options).map_err(refused)?;
        let sender = UdpSender::open(options).map_err(refused)?;
        let sources = &self.channels.sources;
        if self.options.scheduling.idle.rests() {
            sources.add_receiving(receiver.socket()).map_err(kernel)?;
            sources.add_sending(sender.socket()).map_err(kernel)?;
        }
        let answer = Box::new(Answer::Pseudowire {
            receives_at: receiver.local_address().map_err(kernel)?,
            sends_from: sender.local_address().map_err(kernel)?,
        });
        let (ends, shown) = (
            [End::default(), End::default()],
            [Arc::default(), Arc::default()],
        );
        let [receive, transmit] = ends.each_ref().map(|end| Arc::clone(&end.counters));
        let [receive_shown, transmit_shown] = shown.each_ref().map(Arc::clone);
        let source = UdpSource {
            receiver,
            shown: receive_shown,
        };
        let sink = UdpSink {
            sender,
            shown: transmit_shown,
        };
        let new = [
            Some(PortEnd::Receive(ReceiveEnd::Udp(Box::new(source)), receive)),
            Some(PortEnd::Transmit(
                TransmitEnd::Udp(Box::new(sink)),
                transmit,
            )),
        ];
        Ok(self.post_ends(ticket, port, new, NewEnds::Pseudowire(ends, shown, answer)))
    }

    /// Makes the line on which a port receives, and hands it to the firmware thread.
    fn line(&mut self, ticket: u64, port: PortIndex, line: LineSpec) -> Result<Begun> {
        let format = self.port_geometry(port)?.sizes().format;
        let counters = (!line.is_clean()).then(Arc::default);
        let new = counters.as_ref().map(|counters| PortLine {
            impaired: ImpairedLine::new(line, format),
            counters: Arc::clone(counters),
        });
        self.changing
            .insert(ticket, (port, NewEnds::Line(counters)));
        let line = new.map(Box::new);
        Ok(self.post(HostCommand::Line { ticket, port, line }))
    }

    /// A port has no link any more.
    pub(super) fn unlink(&mut self, ticket: u64, port: PortIndex) -> Begun {
        let line = End::default();
        let dead = PortEnd::DeadLine(0, Arc::clone(&line.counters));
        let ends = [Some(PortEnd::Silence), Some(dead)];
        self.post_ends(ticket, port, ends, NewEnds::Nothing(line))
    }

    pub(super) fn post_ends(
        &mut self,
        ticket: u64,
        port: PortIndex,
        ends: [Option<PortEnd>; 2],
        new: NewEnds,
    ) -> Begun {
        self.changing.insert(ticket, (port, new));
        self.post(HostCommand::Port { ticket, port, ends })
    }

    fn post(&mut self, command: HostCommand) -> Begun {
        self.send_command(command);
        Begun::Sent
    }

    /// Frees what the firmware thread gave back, and tells the keeper.
    pub(super) fn complete(&mut self, completion: HostCompletion) {
        match completion {
            HostCompletion::Adapter(completion, bell) => {
                let Completion { ticket, result, .. } = completion;
                if let (true, Some(region)) =
                    (self.options.scheduling.lock_memory, &completion.region)
                {
                    self.unlocked = self.unlocked.saturating_sub(region.unlocked());
                }
                // Unmapped here, off the firmware thread, before the budget gets it back.
                drop::<(Option<HostRegion>, Option<HostAttachment>)>((
                    completion.region,
                    completion.attachment,
                ));
                drop(bell);
                self.wakers.forget_absent();
                let done = result.map(Done::Outcome).map_err(ControlError::from);
                self.keeper.handle_done(ticket, done);
            }
            HostCompletion::Port { ticket, former } => {
                // First off the list of what ends a rest, then closed.
                for socket in former.iter().flatten().filter_map(PortEnd::socket) {
                    self.channels.sources.forget(socket);
                }
                drop(former);
                self.changed(ticket);
            }
            HostCompletion::Line { ticket, former } => {
                drop(former);
                self.changed(ticket);
            }
        }
    }

    /// A port has got what was sent to the firmware.
    fn changed(&mut self, ticket: u64) {
        if let Some((port, new)) = self.changing.remove(&ticket) {
            let answer = self.ports.change(port, new);
            self.keeper.handle_done(ticket, Ok(Done::Answer(answer)));
        }
    }
}

/// What the keeper names with each order that needs something made.
fn needed(making: Option<Making>) -> Result<Making> {
    making.ok_or_else(|| ControlError::BadMessage("nothing to make".to_owned()))
}

pub(super) fn bad(error: GeometryError) -> ControlError {
    ControlError::BadGeometry(error.to_string())
}

pub(super) fn kernel(error: impl std::fmt::Display) -> ControlError {
    ControlError::Kernel(error.to_string())
}
