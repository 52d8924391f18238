use std::sync::Arc;

use cellgate_core::adapter::{AttachmentIndex, Completion, Outcome, Refusal, VcId, VcIndex};
use rustix::net::{Shutdown, shutdown};

use super::board::{HostCompletion, PortEnd};
use super::memory::{HostAttachment, HostRegion};
use super::records::{
    Asker, AttachmentRecord, Chore, ConnectionId, Enclosed, EndRecord, KeptAttachment, Pending,
    PortReply, VcMemory, VcRecord,
};
use super::service::Service;
use crate::clock::MonotonicClock;
use crate::control::{Answer, ControlError};

impl Service {
    /// Takes the end of a command: frees what the firmware thread gave back, and answers.
    pub(super) fn complete(&mut self, completion: HostCompletion) {
        match completion {
            HostCompletion::Adapter(completion, bell) => {
                let Completion { ticket, result, .. } = completion;
                // Unmapped here, off the firmware thread, before the budget gets it back.
                drop::<(Option<HostRegion>, Option<HostAttachment>)>((
                    completion.region,
                    completion.attachment,
                ));
                drop(bell);
                self.wakers.forget_absent();
                if let Some(pending) = self.settle(ticket) {
                    self.conclude(pending, result);
                }
            }
            HostCompletion::Port { ticket, former } => {
                // First off the list of what ends a rest, then closed.
                for socket in former.iter().flatten().filter_map(PortEnd::socket) {
                    self.channels.sources.forget(socket);
                }
                drop(former);
                if let Some(pending) = self.settle(ticket) {
                    self.conclude(pending, Ok(Outcome::Done));
                }
            }
            HostCompletion::Faults { ticket, former } => {
                drop(former);
                if let Some(pending) = self.settle(ticket) {
                    self.conclude(pending, Ok(Outcome::Done));
                }
            }
        }
    }

    fn conclude(&mut self, pending: Pending, result: Result<Outcome, Refusal>) {
        match pending {
            Pending::Plain { asker } | Pending::Loopback { asker } => {
                let answer = result.map_err(ControlError::from).map(plain);
                self.reply(asker, answer, Enclosed::Nothing);
            }
            Pending::Configure {
                asker,
                port,
                config,
            } => {
                let known = self.options.config.ports.get_mut(usize::from(port.0));
                if let (Ok(_), Some(known)) = (&result, known) {
                    *known = config;
                }
                self.reply_refused(asker, result);
            }
            Pending::Close { asker, vc } => self.closed(asker, vc, result),
            Pending::Detach { asker, index } => self.detached(asker, index, result),
            Pending::Open {
                asker,
                attachment,
                memory,
                record,
            } => match result {
                Ok(Outcome::Vc(vc)) => self.opened(asker, (vc, attachment), memory, record),
                other => self.reply_refused(asker, other),
            },
            Pending::Modify {
                asker,
                index,
                memory,
                record,
            } => match result {
                Ok(Outcome::Vc(vc)) => self.modified(asker, (index, vc), memory, record),
                other => self.reply_refused(asker, other),
            },
            Pending::Reattach {
                asker,
                index,
                attachment,
                record,
            } => match result {
                Ok(_) => self.reattached(asker, index, attachment, record),
                other => {
                    self.reply_refused(asker, other);
                    self.doom_if_left(index);
                }
            },
            Pending::Attach { .. } => self.attached(pending, result),
            Pending::Port { .. } => self.connected(pending),
            Pending::Pseudowire {
                asker,
                port,
                ends: [receive, transmit],
                shown,
                answer,
            } => {
                if let Some(record) = self.ports.get_mut(usize::from(port.0)) {
                    (record.receive, record.transmit) = (receive, transmit);
                    record.pseudowire = Some(shown);
                }
                self.reply(asker, Ok(answer), Enclosed::Nothing);
            }
            Pending::Unlink { asker, port, line } => {
                if let Some(record) = self.ports.get_mut(usize::from(port.0)) {
                    (record.receive, record.transmit) = (EndRecord::default(), line);
                    record.pseudowire = None;
                }
                self.reply(asker, Ok(Answer::Done), Enclosed::Nothing);
            }
            Pending::Faults {
                asker,
                port,
                counters,
            } => {
                if let Some(port) = self.ports.get_mut(usize::from(port.0)) {
                    port.faults = counters;
                }
                self.reply(asker, Ok(Answer::Done), Enclosed::Nothing);
            }
        }
    }

    fn attached(&mut self, pending: Pending, result: Result<Outcome, Refusal>) {
        let Pending::Attach {
            asker,
            keep,
            sizes,
            files_generation,
            files,
            watch,
            bell,
            rouse,
            charge,
        } = pending
        else {
            return;
        };
        let Ok(Outcome::Attached(attachment)) = result else {
            return self.reply_refused(asker, result);
        };
        let record = AttachmentRecord {
            owner: Some(asker.connection),
            kept: keep.then(|| KeptAttachment {
                sizes,
                files_generation,
                files: Arc::clone(&files),
                watch: Arc::clone(&watch),
                rouse: Arc::clone(&rouse),
                descriptors: Vec::new(),
                record: None,
            }),
            leaving: false,
            bell,
            _charge: charge,
        };
        self.attachments.insert(attachment, record);
        let answer = Answer::Attached {
            attachment,
            sizes,
            files_generation,
        };
        let enclosed = Enclosed::Attachment(files, watch, rouse, Vec::new());
        self.reply(asker, Ok(answer), enclosed);
        self.forget_if_alone(asker.connection);
    }

    fn connected(&mut self, pending: Pending) {
        let Pending::Port {
            asker,
            port,
            transmit,
            mut end,
            bell,
            reply,
        } = pending
        else {
            return;
        };
        if let Some(record) = self.ports.get_mut(usize::from(port.0)) {
            let place = match transmit {
                true => &mut record.transmit,
                false => &mut record.receive,
            };
            end.bell = bell;
            *place = end;
        }
        match reply {
            Some(PortReply {
                sizes,
                files_generation,
                files,
                rouse,
            }) => {
                let answer = Answer::Port {
                    sizes,
                    files_generation,
                };
                let enclosed = match rouse {
                    Some(rouse) => Enclosed::Port(files, rouse),
                    None => Enclosed::Two(files),
                };
                self.reply(asker, Ok(answer), enclosed);
            }
            None => self.reply(asker, Ok(Answer::Done), Enclosed::Nothing),
        }
    }

    fn reply_refused(&mut self, asker: Asker, result: Result<Outcome, Refusal>) {
        let answer = match result {
            Ok(outcome) => Ok(plain(outcome)),
            Err(refusal) => Err(refusal.into()),
        };
        self.reply(asker, answer, Enclosed::Nothing);
    }

    fn opened(
        &mut self,
        asker: Asker,
        (vc, attachment): (VcId, AttachmentIndex),
        memory: VcMemory,
        record: Option<String>,
    ) {
        let memory = Arc::new(memory);
        self.answer_opened(asker, vc, &memory, true);
        let record = VcRecord {
            vc,
            owner: Some(asker.connection),
            attachment,
            doomed: false,
            memory,
            record,
        };
        self.vcs.insert(vc.index, record);
        self.forget_if_alone(asker.connection);
    }

    fn modified(
        &mut self,
        asker: Asker,
        (index, vc): (VcIndex, VcId),
        memory: Option<VcMemory>,
        record: Option<String>,
    ) {
        let Some(known) = self.vcs.get_mut(&index) else {
            return self.reply(asker, Err(ControlError::NotYours), Enclosed::Nothing);
        };
        known.vc = vc;
        let renewed = memory.is_some();
        if let Some(memory) = memory {
            known.memory = Arc::new(memory);
        }
        known.record = record.or(known.record.take());
        let memory = Arc::clone(&known.memory);
        self.answer_opened(asker, vc, &memory, renewed);
    }

    fn reattached(
        &mut self,
        asker: Asker,
        index: VcIndex,
        attachment: AttachmentIndex,
        record: Option<String>,
    ) {
        let Some(known) = self.vcs.get_mut(&index) else {
            return self.reply(asker, Err(ControlError::NotYours), Enclosed::Nothing);
        };
        let former = std::mem::replace(&mut known.attachment, attachment);
        known.owner = Some(asker.connection);
        known.doomed = false;
        known.record = record.or(known.record.take());
        let (vc, memory) = (known.vc, Arc::clone(&known.memory));
        self.answer_opened(asker, vc, &memory, true);
        self.tidy_attachment(former);
        self.forget_if_alone(asker.connection);
    }

    fn answer_opened(&mut self, asker: Asker, vc: VcId, memory: &VcMemory, with_files: bool) {
        let answer = Answer::Opened {
            vc,
            sizes: memory.sizes,
            receive_into: memory.receive_into,
            files_generation: memory.files_generation,
        };
        let enclosed = match with_files {
            true => Enclosed::Two(Arc::clone(&memory.files)),
            false => Enclosed::Nothing,
        };
        self.reply(asker, Ok(answer), enclosed);
    }

    fn closed(&mut self, asker: Option<Asker>, vc: VcId, result: Result<Outcome, Refusal>) {
        let index = vc.index;
        if result.is_ok() {
            if let Some(record) = self.vcs.remove(&index) {
                self.tidy_attachment(record.attachment);
            }
        } else if asker.is_none() {
            // If it was modified in between: once more, by its present name. If another client's
            // VC has the slot by now, that one is not doomed.
            self.chores.push_back(Chore::Close(index));
        }
        if let Some(asker) = asker {
            self.reply_refused(asker, result);
        }
    }

    fn detached(
        &mut self,
        asker: Option<Asker>,
        index: AttachmentIndex,
        result: Result<Outcome, Refusal>,
    ) {
        if result.is_ok() {
            self.attachments.remove(&index);
        } else if let Some(record) = self.attachments.get_mut(&index) {
            record.leaving = false;
            self.tidy_attachment(index);
        }
        if let Some(asker) = asker {
            self.reply_refused(asker, result);
        }
    }

    /// A control connection has ended: its VCs are closed, or kept for whoever can prove a right
    /// to them; its ports are free.
    pub(super) fn disconnect(&mut self, id: ConnectionId) {
        // Who governed it may be followed by somebody who looks for it.
        self.next_look = MonotonicClock.now();
        if let Some(connection) = self.connections.remove(&id) {
            // Its other end sees this one closed before it is. Fails only if it has closed itself.
            let _ = shutdown(&connection.socket, Shutdown::Both);
        }
        self.forget_if_alone(id);
    }

    /// Frees what belongs to a connection that is no more. Completions call this too, for what
    /// was on its way when the connection ended.
    fn forget_if_alone(&mut self, id: ConnectionId) {
        if self.connections.contains_key(&id) {
            return;
        }
        let mine = |owner: Option<ConnectionId>| owner == Some(id);
        let mut left = Vec::new();
        for record in self.vcs.values_mut().filter(|vc| mine(vc.owner)) {
            record.owner = None;
            left.push(record.vc.index);
        }
        for index in left {
            self.doom_if_left(index);
        }
        let mut orphans = Vec::new();
        for (index, record) in self.attachments.iter_mut() {
            if mine(record.owner) {
                record.owner = None;
                orphans.push(*index);
            }
        }
        for index in orphans {
            self.tidy_attachment(index);
        }
    }

    /// Has a VC without owner closed, unless it is to be kept or somebody takes it over just now.
    fn doom_if_left(&mut self, index: VcIndex) {
        let taken = self.awaits(|pending| {
            matches!(pending, Pending::Reattach { asker, index: at, .. }
                if *at == index && self.connections.contains_key(&asker.connection))
        });
        let Some(record) = self.vcs.get_mut(&index) else {
            return;
        };
        let attachment = self.attachments.get(&record.attachment);
        let kept = attachment.is_some_and(|attachment| attachment.kept.is_some());
        if record.owner.is_none() && !kept && !taken {
            record.doomed = true;
            self.chores.push_back(Chore::Close(index));
        }
    }

    /// Removes an attachment that has neither owner nor VCs.
    fn tidy_attachment(&mut self, index: AttachmentIndex) {
        let Some(record) = self.attachments.get(&index) else {
            return;
        };
        let in_use = self.vcs.values().any(|vc| vc.attachment == index);
        if record.owner.is_none() && !in_use {
            self.chores.push_back(Chore::Detach(index));
        }
    }

    /// Does what is due of the service thread's own, as far as commands fit.
    pub(super) fn do_chores(&mut self) {
        while self.has_room() {
            match self.chores.pop_front() {
                Some(Chore::Close(index)) => {
                    if let Some(record) = self.vcs.get(&index).filter(|record| record.doomed) {
                        self.close(None, record.vc);
                    }
                }
                Some(Chore::Detach(index)) => {
                    let idle = |record: &AttachmentRecord| record.owner.is_none();
                    if self.attachments.get(&index).is_some_and(idle) {
                        self.detach_now(None, index);
                    }
                }
                None => break,
            }
        }
    }
}

fn plain(outcome: Outcome) -> Answer {
    match outcome {
        Outcome::Closed(info) => Answer::Closed(Box::new(info)),
        Outcome::State(state) => Answer::State(Box::new(state)),
        Outcome::Returned { round_trip_ns } => Answer::Returned { round_trip_ns },
        Outcome::Done | Outcome::Attached(_) | Outcome::Vc(_) => Answer::Done,
    }
}
