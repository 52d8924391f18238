//! What the end of an order changes, who hears of it, and what nobody needs any more.

use super::records::{Asker, AttachmentRecord, Chore, Kept, Pending, VcMemory, VcRecord};
use super::{Answer, ConnectionId, ControlError, Done, Keeper, Making};
use crate::adapter::{AttachmentIndex, Outcome, PortIndex, VcId, VcIndex};
use crate::queue::AttachmentSizes;

type Result<T> = core::result::Result<T, ControlError>;

impl Keeper {
    pub(super) fn conclude(&mut self, pending: Pending, result: Result<Done>) {
        match pending {
            Pending::Plain { asker } | Pending::Loopback { asker } => {
                self.reply(asker, result.map(plain), Vec::new());
            }
            Pending::Connect { asker, files } => {
                self.reply(asker, result.map(plain), vec![files]);
                self.release(files);
            }
            Pending::Configure {
                asker,
                port,
                config,
            } => {
                let ports = &mut self.config.hello.config.ports;
                if let (Ok(_), Some(known)) = (&result, ports.get_mut(usize::from(port.0))) {
                    *known = config;
                }
                self.reply(asker, result.map(plain), Vec::new());
            }
            Pending::Close { asker, vc } => self.closed(asker, vc, result),
            Pending::Detach { asker, index } => self.detached(asker, index, result),
            Pending::Open {
                asker,
                attachment,
                memory,
                record,
            } => match result {
                Ok(Done::Outcome(Outcome::Vc(vc))) => {
                    self.opened(asker, (vc, attachment), memory, record);
                }
                other => {
                    self.free(memory);
                    self.reply(asker, other.map(plain), Vec::new());
                }
            },
            Pending::Modify {
                asker,
                index,
                memory,
                record,
            } => match result {
                Ok(Done::Outcome(Outcome::Vc(vc))) => {
                    self.modified(asker, (index, vc), memory, record);
                }
                other => {
                    memory.into_iter().for_each(|memory| self.free(memory));
                    self.reply(asker, other.map(plain), Vec::new());
                }
            },
            Pending::Reattach {
                asker,
                index,
                attachment,
                record,
            } => match result {
                Ok(_) => self.reattached(asker, index, attachment, record),
                Err(error) => {
                    self.reply(asker, Err(error), Vec::new());
                    self.doom_if_left(index);
                }
            },
            Pending::Attach {
                asker,
                keep,
                sizes,
                making,
                octets,
            } => match result {
                Ok(Done::Outcome(Outcome::Attached(index))) => {
                    self.attached(asker, index, keep, (sizes, making, octets));
                }
                other => {
                    self.used -= octets;
                    self.release(making.handle);
                    self.reply(asker, other.map(plain), Vec::new());
                }
            },
            Pending::Port {
                asker,
                port,
                transmit,
                reply,
            } => {
                if result.is_err() {
                    *self.end_mut(port, transmit) = None;
                }
                let Some((making, sizes)) = reply else {
                    return self.reply(asker, result.map(plain), Vec::new());
                };
                let answer = result.map(|_| Answer::Port {
                    sizes,
                    files_generation: making.files_generation,
                });
                let enclosed = answer.iter().map(|_| making.handle).collect();
                self.reply(asker, answer, enclosed);
                self.release(making.handle);
            }
            Pending::BothEnds {
                asker,
                port,
                before: [receive, transmit],
            } => {
                if let (Err(_), Some(ends)) = (&result, self.ports.get_mut(usize::from(port.0))) {
                    (ends.receive, ends.transmit) = (receive, transmit);
                }
                self.reply(asker, result.map(plain), Vec::new());
            }
            Pending::Unlink { asker, port } => {
                if let (Ok(_), Some(ends)) = (&result, self.ports.get_mut(usize::from(port.0))) {
                    (ends.receive, ends.transmit) = (None, None);
                }
                self.reply(asker, result.map(plain), Vec::new());
            }
        }
    }

    /// Who has one end of a port that there is.
    pub(super) fn end_mut(&mut self, port: PortIndex, transmit: bool) -> &mut Option<ConnectionId> {
        let ends = &mut self.ports[usize::from(port.0)];
        match transmit {
            true => &mut ends.transmit,
            false => &mut ends.receive,
        }
    }

    fn attached(
        &mut self,
        asker: Asker,
        attachment: AttachmentIndex,
        keep: bool,
        (sizes, making, octets): (AttachmentSizes, Making, u64),
    ) {
        let Making {
            handle: files,
            files_generation,
        } = making;
        let record = AttachmentRecord {
            owner: Some(asker.connection),
            files,
            sizes,
            files_generation,
            octets,
            kept: keep.then(Kept::default),
            leaving: false,
        };
        self.attachments.insert(attachment, record);
        let answer = Answer::Attached {
            attachment,
            sizes,
            files_generation,
        };
        self.reply(asker, Ok(answer), vec![files]);
        self.forget_if_alone(asker.connection);
    }

    fn opened(
        &mut self,
        asker: Asker,
        (vc, attachment): (VcId, AttachmentIndex),
        memory: VcMemory,
        record: Option<String>,
    ) {
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
            memory.into_iter().for_each(|memory| self.free(memory));
            return self.reply(asker, Err(ControlError::NotYours), Vec::new());
        };
        known.vc = vc;
        known.record = record.or(known.record.take());
        let renewed = memory.is_some();
        let former = memory.map(|memory| core::mem::replace(&mut known.memory, memory));
        let memory = known.memory.clone();
        self.answer_opened(asker, vc, &memory, renewed);
        former.into_iter().for_each(|memory| self.free(memory));
    }

    fn reattached(
        &mut self,
        asker: Asker,
        index: VcIndex,
        attachment: AttachmentIndex,
        record: Option<String>,
    ) {
        let Some(known) = self.vcs.get_mut(&index) else {
            return self.reply(asker, Err(ControlError::NotYours), Vec::new());
        };
        let former = core::mem::replace(&mut known.attachment, attachment);
        known.owner = Some(asker.connection);
        known.doomed = false;
        known.record = record.or(known.record.take());
        let (vc, memory) = (known.vc, known.memory.clone());
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
        let enclosed = if with_files {
            vec![memory.files]
        } else {
            Vec::new()
        };
        self.reply(asker, Ok(answer), enclosed);
    }

    /// A VC needs this memory no more.
    fn free(&mut self, memory: VcMemory) {
        for handle in memory.needs {
            let Some(region) = self.regions.get_mut(&handle) else {
                continue;
            };
            region.users -= 1;
            if region.users == 0 {
                self.used -= region.octets;
                self.regions.remove(&handle);
                self.release(handle);
            }
        }
    }

    fn closed(&mut self, asker: Option<Asker>, vc: VcId, result: Result<Done>) {
        let index = vc.index;
        if result.is_ok() {
            if let Some(record) = self.vcs.remove(&index) {
                self.free(record.memory);
                self.tidy_attachment(record.attachment);
            }
        } else if asker.is_none() {
            // If it was modified in between: once more, by its present name. If another client's
            // VC has the slot by now, that one is not doomed.
            self.chores.push_back(Chore::Close(index));
        }
        if let Some(asker) = asker {
            self.reply(asker, result.map(plain), Vec::new());
        }
    }

    fn detached(&mut self, asker: Option<Asker>, index: AttachmentIndex, result: Result<Done>) {
        if result.is_ok() {
            if let Some(record) = self.attachments.remove(&index) {
                self.used -= record.octets;
                self.release(record.files);
                let kept = record.kept.unwrap_or_default();
                kept.descriptors
                    .into_iter()
                    .for_each(|one| self.release(one));
            }
        } else if let Some(record) = self.attachments.get_mut(&index) {
            record.leaving = false;
            self.tidy_attachment(index);
        }
        if let Some(asker) = asker {
            self.reply(asker, result.map(plain), Vec::new());
        }
    }

    /// Frees what belongs to a connection that is no more. The end of an order calls this too, for
    /// what was on its way when the connection ended.
    pub(super) fn forget_if_alone(&mut self, id: ConnectionId) {
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
        for (index, record) in &mut self.attachments {
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

    /// Removes an attachment that has neither owner nor VCs, and with which nothing is kept for
    /// whoever takes it up.
    fn tidy_attachment(&mut self, index: AttachmentIndex) {
        let Some(record) = self.attachments.get(&index) else {
            return;
        };
        let in_use = self.vcs.values().any(|vc| vc.attachment == index);
        let kept = record.kept.as_ref();
        let keeps = kept.is_some_and(|kept| !kept.descriptors.is_empty());
        if record.owner.is_none() && !in_use && !keeps {
            self.chores.push_back(Chore::Detach(index));
        }
    }

    /// Does what is due of the keeper's own, as far as orders fit.
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

fn plain(done: Done) -> Answer {
    match done {
        Done::Answer(answer) => answer,
        Done::Outcome(Outcome::Closed(info)) => Answer::Closed(Box::new(info)),
        Done::Outcome(Outcome::State(state)) => Answer::State(Box::new(state)),
        Done::Outcome(Outcome::Returned { round_trip_ns }) => Answer::Returned { round_trip_ns },
        Done::Outcome(Outcome::Done | Outcome::Attached(_) | Outcome::Vc(_)) => Answer::Done,
    }
}
