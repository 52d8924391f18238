//! What a request needs to be allowed, and which order it becomes.

use core::ops::RangeInclusive;

use super::memory::PrivateMemory;
use super::records::{Asker, Kept, Pending, PortRecord, Region, VcMemory, VcRecord};
use super::{
    Answer, Ask, ConnectionId, ControlError, Handle, Hello, KEPT_MAX, Keeper, Making, NewRegion,
    RECORD_MAX, ReceiveInto, VERSION,
};
use crate::adapter::{AttachmentIndex, OpenRequest, PortConfig, PortIndex, Refusal, VcId};
use crate::queue::{
    AttachmentGeometry, AttachmentSizes, ConnectionGeometry, ConnectionSizes, GeometryError,
    PortGeometry, PortSizes,
};
use crate::wire::CellFormat;

/// Loopback cells that one connection may await: its other requests go on meanwhile. The server is
/// one connection, and a user of it has a quarter.
pub const LOOPBACKS_MAX: usize = 8;

type Handled = Result<(), ControlError>;

/// Memory that is to be made.
struct New {
    making: Making,
    memory: VcMemory,
    into: Option<(Handle, ConnectionSizes)>,
}

impl Keeper {
    /// Handles one request: answers it, or gives an order whose end will. What is taken of `came`
    /// is kept.
    pub(super) fn handle(
        &mut self,
        asker: Asker,
        mut ask: Ask,
        came: &mut Vec<Handle>,
        proven: bool,
    ) -> Handled {
        let expected = descriptors_of(&ask);
        if !expected.contains(&came.len()) {
            return Err(ControlError::Descriptors {
                expected: *expected.end() as u32,
                got: came.len() as u32,
            });
        }
        if !self.greet(asker, &ask)? {
            return Err(ControlError::HelloFirst);
        }
        let connection = self.connections.get(&asker.connection);
        if concerns_everybody(&ask) && !connection.is_some_and(|connection| connection.governs) {
            return Err(ControlError::NotGoverning);
        }
        let record = ask.record().and_then(Option::take);
        if record
            .as_ref()
            .is_some_and(|record| record.len() > RECORD_MAX)
        {
            return Err(ControlError::RecordTooLong);
        }
        match ask {
            Ask::Hello { .. } => {
                let hello = Hello {
                    governor: self.other_governor(Some(asker.connection)),
                    ..self.config.hello.clone()
                };
                self.reply(asker, Ok(Answer::Hello(hello)), Vec::new());
            }
            Ask::Connect => {
                let making = self.making();
                let pending = Pending::Connect {
                    asker,
                    files: making.handle,
                };
                self.order(pending, ask, Some(making), Vec::new());
            }
            Ask::Attach { sizes, keep, .. } => self.attach(asker, sizes, keep, ask)?,
            Ask::Detach { attachment } => {
                self.own_attachment(asker.connection, attachment)?;
                self.detach_now(Some(asker), attachment);
            }
            Ask::Open {
                request,
                sizes,
                receive_into,
                ..
            } => {
                self.own_attachment(asker.connection, request.attachment)?;
                let region = NewRegion {
                    sizes,
                    receive_into,
                };
                let new = self.memory(asker.connection, &request, region)?;
                let pending = Pending::Open {
                    asker,
                    attachment: request.attachment,
                    memory: new.memory,
                    record,
                };
                let came = core::mem::take(came);
                self.order_into(pending, ask, Some(new.making), new.into, came);
            }
            Ask::Modify {
                vc,
                request,
                region,
                ..
            } => {
                // Another attachment is a matter of `Reattach`.
                if request.attachment != self.own_vc(asker.connection, vc)?.attachment {
                    return Err(ControlError::NotYours);
                }
                let new = region.map(|region| self.memory(asker.connection, &request, region));
                let new = new.transpose()?;
                let (making, into) = match &new {
                    Some(new) => (Some(new.making), new.into),
                    None => (None, None),
                };
                let pending = Pending::Modify {
                    asker,
                    index: vc.index,
                    memory: new.map(|new| new.memory),
                    record,
                };
                self.order_into(pending, ask, making, into, core::mem::take(came));
            }
            Ask::Close { vc } => {
                self.own_vc(asker.connection, vc)?;
                self.close(Some(asker), vc);
            }
            Ask::Reattach { vc, attachment, .. } => {
                self.reattach(asker, vc, attachment, proven, ask, record)?;
            }
            Ask::Keep { attachment, .. } => self.keep(asker, attachment, came, record)?,
            Ask::TakeUp => self.take_up(asker)?,
            Ask::KeepPort { port, .. } => {
                self.port_mut(port)?.record = record;
                self.reply(asker, Ok(Answer::Done), Vec::new());
            }
            Ask::PortRecord { port } => {
                let record = self.port_mut(port)?.record.clone();
                self.reply(asker, Ok(Answer::PortRecord(record)), Vec::new());
            }
            Ask::Lease { vc, .. } => {
                self.own_vc(asker.connection, vc)?;
                self.plain(asker, ask);
            }
            Ask::Loopback { .. } => self.loopback(asker, ask)?,
            Ask::Configure { port, config } => self.configure(asker, port, config, ask)?,
            Ask::ReceivePort { port } => self.port_end(asker, port, false, ask)?,
            Ask::TransmitPort { port } => self.port_end(asker, port, true, ask)?,
            Ask::Join { port, sizes, .. } => {
                self.join(asker, port, sizes, ask, core::mem::take(came))?;
            }
            Ask::Pseudowire { port, options } => {
                self.ensure_free(asker, port)?;
                if self.format(port)? != CellFormat::NoHec {
                    let reason = "a pseudowire's cells have no HEC";
                    return Err(ControlError::BadGeometry(reason.to_owned()));
                }
                let clump = self.config.hello.config.clump_cells;
                let fits = options.fits(clump);
                fits.map_err(|error| ControlError::Pseudowire(error.to_string()))?;
                self.take_both(asker, port, ask)?;
            }
            Ask::Meet { port, .. } => {
                self.ensure_free(asker, port)?;
                self.take_both(asker, port, ask)?;
            }
            Ask::Unlink { port } => {
                self.ensure_free(asker, port)?;
                self.order(Pending::Unlink { asker, port }, ask, None, Vec::new());
            }
            Ask::Line { port, .. } | Ask::PseudowireReport { port } => {
                self.port_mut(port)?;
                self.plain(asker, ask);
            }
            Ask::Enumerate { .. } | Ask::Ports { .. } | Ask::Gaps { .. } => self.plain(asker, ask),
            Ask::Shutdown => {
                self.stopping = true;
                self.reply(asker, Ok(Answer::Done), Vec::new());
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

    fn plain(&mut self, asker: Asker, ask: Ask) {
        self.order(Pending::Plain { asker }, ask, None, Vec::new());
    }

    fn attach(&mut self, asker: Asker, sizes: AttachmentSizes, keep: bool, ask: Ask) -> Handled {
        let geometry = AttachmentGeometry::new(sizes).map_err(bad)?;
        let octets = (geometry.from_adapter_len() + geometry.from_client_len()) as u64;
        self.charge(octets)?;
        let making = self.making();
        let pending = Pending::Attach {
            asker,
            keep,
            sizes,
            making,
            octets,
        };
        self.order(pending, ask, Some(making), Vec::new());
        Ok(())
    }

    /// Has an attachment removed, unless that is under way already.
    pub(super) fn detach_now(&mut self, asker: Option<Asker>, index: AttachmentIndex) {
        let Some(record) = self.attachments.get_mut(&index) else {
            return;
        };
        if core::mem::replace(&mut record.leaving, true) {
            return;
        }
        let ask = Ask::Detach { attachment: index };
        self.order(Pending::Detach { asker, index }, ask, None, Vec::new());
    }

    pub(super) fn close(&mut self, asker: Option<Asker>, vc: VcId) {
        self.order(
            Pending::Close { asker, vc },
            Ask::Close { vc },
            None,
            Vec::new(),
        );
    }

    fn reattach(
        &mut self,
        asker: Asker,
        vc: VcId,
        attachment: AttachmentIndex,
        proven: bool,
        ask: Ask,
        record: Option<String>,
    ) -> Handled {
        self.own_attachment(asker.connection, attachment)?;
        let known = self.vcs.get(&vc.index).filter(|known| known.vc == vc);
        let owner = known.ok_or(ControlError::NotYours)?.owner;
        if owner != Some(asker.connection) && !proven {
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
        self.order(pending, ask, None, Vec::new());
        Ok(())
    }

    /// Keeps descriptors with an attachment in place of those before, or none.
    fn keep(
        &mut self,
        asker: Asker,
        index: AttachmentIndex,
        came: &mut Vec<Handle>,
        record: Option<String>,
    ) -> Handled {
        self.own_attachment(asker.connection, index)?;
        let attachment = self.attachments.get_mut(&index);
        let kept = attachment.and_then(|record| record.kept.as_mut());
        let kept = kept.ok_or(ControlError::NotYours)?;
        let descriptors = core::mem::take(came);
        let former = core::mem::replace(
            kept,
            Kept {
                descriptors,
                record,
            },
        );
        // They are let go of before that is told: whoever asked may end a device then.
        for handle in former.descriptors {
            self.release(handle);
        }
        self.reply(asker, Ok(Answer::Done), Vec::new());
        Ok(())
    }

    fn loopback(&mut self, asker: Asker, ask: Ask) -> Handled {
        let mine = |pending: &&Pending| match pending {
            Pending::Loopback { asker: other } => other.connection == asker.connection,
            _ => false,
        };
        if self.awaited().filter(mine).count() == LOOPBACKS_MAX {
            return Err(ControlError::Refused(Refusal::LoopbacksInUse));
        }
        self.order(Pending::Loopback { asker }, ask, None, Vec::new());
        Ok(())
    }

    fn configure(
        &mut self,
        asker: Asker,
        port: PortIndex,
        config: PortConfig,
        ask: Ask,
    ) -> Handled {
        let other = config.format != self.format(port)?;
        let ends = self.port_mut(port)?;
        if other && (ends.receive.is_some() || ends.transmit.is_some()) {
            let reason = "the format of a port stays while it has a link";
            return Err(ControlError::BadGeometry(reason.to_owned()));
        }
        let pending = Pending::Configure {
            asker,
            port,
            config,
        };
        self.order(pending, ask, None, Vec::new());
        Ok(())
    }

    /// The other end of one direction of a port, if nobody has it who still lives.
    fn port_end(&mut self, asker: Asker, port: PortIndex, transmit: bool, ask: Ask) -> Handled {
        let sizes = PortSizes {
            cells: self.config.port_cells,
            format: self.format(port)?,
        };
        self.take_end(asker, port, transmit)?;
        PortGeometry::new(sizes).map_err(bad)?;
        let making = self.making();
        let pending = Pending::Port {
            asker,
            port,
            transmit,
            reply: Some((making, sizes)),
        };
        self.order(pending, ask, Some(making), Vec::new());
        Ok(())
    }

    fn join(
        &mut self,
        asker: Asker,
        port: PortIndex,
        sizes: PortSizes,
        ask: Ask,
        came: Vec<Handle>,
    ) -> Handled {
        let joined = self.join_checked(asker, port, sizes);
        if let Err(error) = joined {
            came.into_iter().for_each(|handle| self.release(handle));
            return Err(error);
        }
        let pending = Pending::Port {
            asker,
            port,
            transmit: true,
            reply: None,
        };
        self.order(pending, ask, None, came);
        Ok(())
    }

    fn join_checked(&mut self, asker: Asker, port: PortIndex, sizes: PortSizes) -> Handled {
        if sizes.format != self.format(port)? {
            let reason = "the ports' cells have different formats";
            return Err(ControlError::BadGeometry(reason.to_owned()));
        }
        PortGeometry::new(sizes).map_err(bad)?;
        self.take_end(asker, port, true)
    }

    /// Takes an end from now on, so that two requests in a row do not both get it.
    fn take_end(&mut self, asker: Asker, port: PortIndex, transmit: bool) -> Handled {
        let ends = self.port_mut(port)?;
        let taken_by = if transmit {
            ends.transmit
        } else {
            ends.receive
        };
        if taken_by.is_some_and(|id| self.connections.contains_key(&id)) {
            return Err(ControlError::PortTaken);
        }
        *self.end_mut(port, transmit) = Some(asker.connection);
        Ok(())
    }

    /// Takes both ends of a port for a link that is the adapter's own.
    fn take_both(&mut self, asker: Asker, port: PortIndex, ask: Ask) -> Handled {
        let ends = self.port_mut(port)?;
        let before = [ends.receive, ends.transmit];
        (ends.receive, ends.transmit) = (Some(asker.connection), Some(asker.connection));
        let pending = Pending::BothEnds {
            asker,
            port,
            before,
        };
        self.order(pending, ask, None, Vec::new());
        Ok(())
    }

    /// Whether nobody else who still lives has an end of a port.
    fn ensure_free(&mut self, asker: Asker, port: PortIndex) -> Handled {
        let ends = self.port_mut(port)?;
        let owners = [ends.receive, ends.transmit];
        let others = owners.into_iter().flatten();
        let mut others = others.filter(|id| *id != asker.connection);
        match others.any(|id| self.connections.contains_key(&id)) {
            true => Err(ControlError::PortTaken),
            false => Ok(()),
        }
    }

    /// The memory of a connection for `request`, which is charged.
    fn memory(
        &mut self,
        connection: ConnectionId,
        request: &OpenRequest,
        region: NewRegion,
    ) -> Result<New, ControlError> {
        let NewRegion {
            mut sizes,
            receive_into,
        } = region;
        sizes.receive_elsewhere = receive_into != ReceiveInto::Own;
        let geometry = ConnectionGeometry::new(sizes).map_err(bad)?;
        let (mut needs, mut into) = (Vec::new(), None);
        if let ReceiveInto::TransmitBufferOf(vc) = receive_into {
            let other = &self.own_vc(connection, vc)?.memory;
            into = Some((other.files, other.sizes));
            needs.clone_from(&other.needs);
        }
        let files = geometry.from_adapter_len() + geometry.from_client_len();
        let mut octets = (files + PrivateMemory::of(request, &geometry).octets()) as u64;
        if receive_into == ReceiveInto::File {
            // Its pages stay in memory as long as this region does.
            octets += u64::from(sizes.receive_len);
        }
        self.charge(octets)?;
        let making = self.making();
        for other in &needs {
            if let Some(region) = self.regions.get_mut(other) {
                region.users += 1;
            }
        }
        let users = 1;
        self.regions.insert(making.handle, Region { octets, users });
        needs.push(making.handle);
        let memory = VcMemory {
            files: making.handle,
            sizes,
            files_generation: making.files_generation,
            receive_into,
            needs,
        };
        Ok(New {
            making,
            memory,
            into,
        })
    }

    fn format(&self, port: PortIndex) -> Result<CellFormat, ControlError> {
        let ports = &self.config.hello.config.ports;
        let config = ports.get(usize::from(port.0));
        config
            .map(|config| config.format)
            .ok_or(ControlError::NotYours)
    }

    fn port_mut(&mut self, port: PortIndex) -> Result<&mut PortRecord, ControlError> {
        let record = self.ports.get_mut(usize::from(port.0));
        record.ok_or(ControlError::NotYours)
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
        let record = self.vcs.get(&vc.index);
        let own = record.filter(|record| record.vc == vc && record.owner == Some(connection));
        own.ok_or(ControlError::NotYours)
    }

    fn own_attachment(&self, connection: ConnectionId, index: AttachmentIndex) -> Handled {
        let record = self.attachments.get(&index);
        match record.is_some_and(|record| record.owner == Some(connection) && !record.leaving) {
            true => Ok(()),
            false => Err(ControlError::NotYours),
        }
    }
}

fn bad(error: GeometryError) -> ControlError {
    ControlError::BadGeometry(error.to_string())
}

/// Whether only those who govern may ask this.
fn concerns_everybody(ask: &Ask) -> bool {
    matches!(
        ask,
        Ask::Configure { .. }
            | Ask::Pseudowire { .. }
            | Ask::Meet { .. }
            | Ask::Unlink { .. }
            | Ask::Line { .. }
            | Ask::Loopback { .. }
            | Ask::TakeUp
            | Ask::KeepPort { .. }
            | Ask::Shutdown
    )
}

/// How many descriptors come along with a request.
fn descriptors_of(ask: &Ask) -> RangeInclusive<usize> {
    match ask {
        Ask::Open { receive_into, .. } if *receive_into == ReceiveInto::File => 1..=1,
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
