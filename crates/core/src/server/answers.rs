//! What follows from the adapter's answers.

use super::adapters::Home;
use super::awaiting::Lacking;
use super::connection::{Asker, Attached, Change, GivingBack, OpenVc, Owed, Stage, User};
use super::machine::{Pending, Server};
use super::plan::Share;
use super::requests::change_request;
use super::{
    AdapterAnswer, AdapterAsk, AdapterIndex, AdapterRefusal, Bugs, ClientId, Confirm,
    ConnectionInfo, Done, Enclosed, EndReason, Indication, On, Planted, Refused, Reopens, Request,
    Shortage,
};
use crate::adapter::AttachmentIndex;
use crate::keeper::{Answer, Ask};

type Answered = Result<AdapterAnswer, AdapterRefusal>;

/// What an application is told of a refusal of the adapter.
pub(super) fn refused(refusal: AdapterRefusal) -> Refused {
    match refusal {
        AdapterRefusal::Refused(refusal) => Refused::Adapter(refusal),
        AdapterRefusal::Memory {
            needed,
            free,
            limit,
        } => Refused::Admission(Shortage {
            resource: super::Resource::Memory,
            needed,
            free,
            quota: None,
            offer: None,
            others: Vec::new(),
            limit,
        }),
        AdapterRefusal::NoReturn => Refused::NoReturn,
        AdapterRefusal::Away => Refused::AdapterAway,
        AdapterRefusal::Link(reason) | AdapterRefusal::Other(reason) => Refused::Kernel(reason),
    }
}

fn something_else() -> AdapterRefusal {
    AdapterRefusal::Other("the adapter answered to something else".to_owned())
}

fn attached(answer: Answered) -> Result<Attached, AdapterRefusal> {
    match answer? {
        AdapterAnswer::Keeper(Answer::Attached {
            attachment,
            sizes,
            files_generation,
        }) => Ok(Attached {
            index: attachment,
            sizes,
            files_generation,
        }),
        _ => Err(something_else()),
    }
}

fn opened(answer: Answered) -> Result<OpenVc, AdapterRefusal> {
    match answer? {
        AdapterAnswer::Keeper(Answer::Opened {
            vc,
            sizes,
            files_generation,
            ..
        }) => Ok(OpenVc {
            vc,
            sizes,
            files_generation,
        }),
        _ => Err(something_else()),
    }
}

impl<B: Bugs> Server<B> {
    pub(super) fn answered(&mut self, adapter: AdapterIndex, pending: Pending, answer: Answered) {
        match pending {
            Pending::Connection(number) => self.connection_answered(adapter, number, answer),
            Pending::Home => self.home_answered(adapter, answer),
            Pending::Leftover => self.has_come_back(),
            // Idle time passes, whoever had it.
            Pending::Lending(_) => {}
            Pending::Orphan(attachment) => {
                self.has_come_back();
                let mut others = self.tickets.values();
                let same = |(of, other): &(AdapterIndex, Pending)| {
                    *of == adapter && matches!(other, Pending::Orphan(a) if *a == attachment)
                };
                if !others.any(same) {
                    self.detach_leftover(adapter.on(attachment));
                }
            }
            Pending::Interface(name) => self.link_answered(&name, answer),
            Pending::Request(asker) | Pending::Loopback(asker, _) => {
                let result = answer.map_err(refused).map(|answer| match answer {
                    AdapterAnswer::Keeper(Answer::Returned { round_trip_ns }) => {
                        Confirm::Returned { round_trip_ns }
                    }
                    _ => Confirm::Done,
                });
                self.confirm(asker, result);
            }
        }
    }

    /// Removes an attachment that no connection has.
    pub(super) fn detach_leftover(&mut self, attachment: On<AttachmentIndex>) {
        let On { adapter, id } = attachment;
        let ask = Ask::Detach { attachment: id };
        self.ask(adapter, Pending::Leftover, ask);
    }

    fn home_answered(&mut self, adapter: AdapterIndex, answer: Answered) {
        let waiting = self.connections.values();
        let waiting = waiting.filter(|one| one.port.adapter == adapter);
        let waiting: Vec<u32> = waiting.map(|one| one.number).collect();
        match attached(answer) {
            Ok(attached) => {
                self.set_home(adapter, Some(Home::At(attached)));
                // In the order in which they are opened again.
                for number in self.batch_of(adapter) {
                    self.settle(number);
                }
                self.work.settle.extend(waiting);
            }
            Err(refusal) => {
                self.set_home(adapter, Some(Home::None));
                for number in waiting {
                    self.fail_at_home(number, &refusal);
                }
            }
        }
    }

    fn connection_answered(&mut self, adapter: AdapterIndex, number: u32, answer: Answered) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        self.work.settle.insert(number);
        match core::mem::replace(&mut connection.stage, Stage::Resting) {
            Stage::Resting => {}
            Stage::Attaching => {
                let user = connection.user;
                let attached = attached(answer);
                if let Ok(attached) = attached {
                    connection.attachment = Some(attached);
                    if let Some(user) = user {
                        let reopens = self.reopens(user.client, adapter);
                        self.keep(user.client, adapter.on(attached.index), reopens);
                    }
                }
                if let Some(user) = user {
                    self.joint_answered(user.client, adapter, attached.as_ref().ok().copied());
                }
                if let Err(refusal) = attached {
                    self.fail_open(number, refused(refusal));
                }
            }
            Stage::Opening => match opened(answer) {
                Ok(open) => self.has_opened(adapter, number, open),
                Err(refusal) => self.fail_open(number, refused(refusal)),
            },
            Stage::Modifying(change) => self.has_modified(number, *change, opened(answer)),
            Stage::Joining(asker) => {
                let attached = attached(answer);
                let joint = attached.as_ref().ok().copied();
                self.joint_answered(asker.client, adapter, joint);
                match attached {
                    Ok(attached) => self.has_joined(adapter, number, asker, attached),
                    Err(refusal) => self.confirm(asker, Err(refused(refusal))),
                }
            }
            Stage::Moving(asker, attached) => match opened(answer) {
                Ok(open) => self.has_moved(adapter, number, asker, attached, open),
                Err(refusal) => {
                    self.leave_joint(adapter.on(attached.index));
                    self.confirm(asker, Err(refused(refusal)));
                }
            },
            Stage::Renewing => match opened(answer) {
                Ok(open) => {
                    connection.vc = Some(open);
                    connection.giving_back = GivingBack::Renewed;
                }
                Err(_) => connection.giving_back = GivingBack::Refused,
            },
            Stage::Returning => match opened(answer) {
                Ok(open) => {
                    connection.vc = Some(open);
                    self.has_returned(number);
                }
                Err(_) => connection.giving_back = GivingBack::Refused,
            },
            // An adapter that does not close what it opened has no such VC, or is beyond help.
            Stage::Closing => {
                connection.vc = None;
                if let Ok(AdapterAnswer::Keeper(Answer::Closed(info))) = answer {
                    connection.hear_stats(self.now, info.stats);
                }
                self.has_come_back();
            }
            Stage::Detaching => {
                connection.attachment = None;
                connection.giving_back = GivingBack::Begun;
                self.has_come_back();
            }
        }
    }

    /// The VC is at the server's own attachment: it leaves the application's.
    fn has_returned(&mut self, number: u32) {
        let connection = self.connections.get(&number);
        let at = connection.and_then(|one| Some(one.port.adapter.on(one.attachment?.index)));
        if let Some(at) = at {
            self.detach(number, at);
        }
    }

    /// The connections of an application that are to be open again at an adapter.
    fn reopens(&self, client: ClientId, adapter: AdapterIndex) -> Reopens {
        let own = self.clients.get(&client).map(|client| &client.connections);
        let is_away = |number: &u32| {
            let connection = self.connections.get(number);
            connection.is_some_and(|one| {
                one.port.adapter == adapter && one.vc.is_none() && one.opener.is_none()
            })
        };
        let own = own.into_iter().flatten();
        let away = own.filter(|(_, number)| is_away(number));
        Reopens(away.map(|(own, _)| *own).collect())
    }

    /// The connection cannot be opened, or opened again: it ends.
    pub(super) fn fail_open(&mut self, number: u32, refused: Refused) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        if connection.opener.is_none() && self.waits_for_memory(number, &refused) {
            self.work.settle.insert(number);
            return;
        }
        let into = self.connections.get(&number).and_then(|one| one.into);
        let capability = into.and_then(|into| self.capability(into));
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        connection.ending.get_or_insert(EndReason::NotReopened);
        if let Some(asker) = connection.opener.take() {
            let request = match connection.permanent {
                true => Request::Add(connection.open.clone()),
                false => Request::Open(connection.open.clone()),
            };
            let lacking = Lacking {
                capability,
                uid: connection.uid,
                port: connection.port,
                demand: connection.plan.demand,
                opens: Some(connection.address.vc),
                refused: true,
            };
            let waits = refused != Refused::AdapterAway
                && self.awaits(asker, request, lacking, Some(number));
            let Some(connection) = self.connections.get_mut(&number) else {
                return;
            };
            if !waits {
                let result = Err(refused);
                connection.owed.push(Owed { asker, result });
            }
            // It hears a Confirm, and no Indication.
            if let Some(user) = connection.user.take() {
                self.unlink(user);
            }
        } else if connection.permanent {
            connection.lost = Some(refused);
        }
        self.work.settle.insert(number);
    }

    /// The client has this connection no more.
    pub(super) fn unlink(&mut self, user: User) {
        if let Some(client) = self.clients.get_mut(&user.client) {
            client.connections.remove(&user.connection);
        }
    }

    fn has_opened(&mut self, adapter: AdapterIndex, number: u32, open: OpenVc) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        connection.vc = Some(open);
        let opener = connection.opener.take();
        if opener.is_some() {
            self.note_new(adapter, number);
        }
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let news = !core::mem::replace(&mut connection.announced, true);
        let opened = connection.opened();
        let contract = connection.open.contract.clone();
        match (opener, opened) {
            (Some(asker), _) if connection.permanent => {
                connection.done = Some(Done {
                    id: asker.id,
                    modified: None,
                });
                self.confirm(asker, Ok(Confirm::Added { contract }));
            }
            (Some(asker), Some(opened)) => {
                connection.done = Some(Done {
                    id: asker.id,
                    modified: None,
                });
                let client = self.clients.get_mut(&asker.client);
                let wanted = client.and_then(|client| client.wanted.take());
                let here = wanted.filter(|(address, _)| *address == connection.address);
                connection.wanted = here.map(|(_, contract)| contract);
                let enclosed = Enclosed::connection(connection.port.adapter, &opened);
                self.confirm_with(asker, Ok(Confirm::Opened(opened)), enclosed);
            }
            _ => self.tell_reopened(number),
        }
        if news {
            self.announce(number, super::Change::Added);
        }
    }

    /// Tells who uses a connection, if anybody does, of its new memory.
    pub(super) fn tell_reopened(&mut self, number: u32) {
        let connection = self.connections.get(&number);
        let told = connection.and_then(|one| Some((one.port.adapter, one.user?, one.opened()?)));
        let Some((adapter, user, opened)) = told else {
            return;
        };
        let enclosed = Enclosed::connection(adapter, &opened);
        self.tell(user, Indication::Reopened(opened), enclosed);
    }

    fn has_modified(
        &mut self,
        number: u32,
        change: Change,
        answer: Result<OpenVc, AdapterRefusal>,
    ) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return self.admission.release(change.more);
        };
        let Change {
            asker,
            plan,
            more,
            memory,
            set,
            slots,
        } = change;
        self.work.divide.insert(connection.port);
        self.work.freed = true;
        let open = match answer {
            Ok(open) => open,
            Err(refusal) => {
                let lacking = Lacking {
                    capability: None,
                    uid: connection.uid,
                    port: connection.port,
                    demand: *more.demand(),
                    opens: None,
                    refused: true,
                };
                let request = change_request(connection, &plan.contract.to_string(), set);
                if !self.bugs.planted(Planted::RefusedChangeKept) {
                    self.admission.release(more);
                }
                let away = refusal == AdapterRefusal::Away;
                if !away && self.awaits(asker, request, lacking, Some(number)) {
                    return;
                }
                return self.confirm(asker, Err(refused(refusal)));
            }
        };
        self.returned += 1;
        if let Some(held) = connection.grant.take() {
            connection.grant = Some(self.admission.settle(held, more, plan.demand));
        }
        if plan.is_guaranteed() {
            connection.share = Share::default();
            connection.told = None;
        }
        connection.vc = Some(open);
        if !self.bugs.planted(Planted::ChangeNotNoted) {
            connection.open.contract = plan.contract.to_string();
        }
        connection.plan = plan;
        connection.clocks = slots;
        connection.wanted = None;
        connection.offered = None;
        connection.done = (!set).then_some(Done {
            id: asker.id,
            modified: Some(memory),
        });
        let enclosed = match memory {
            true => Enclosed::Memory {
                adapter: connection.port.adapter,
                vc: open.vc,
            },
            false => Enclosed::Nothing,
        };
        match connection.opened() {
            Some(opened) if !set => {
                let confirm = Confirm::Modified { opened, memory };
                self.confirm_with(asker, Ok(confirm), enclosed);
            }
            _ => self.confirm(asker, Ok(Confirm::Done)),
        }
        self.announce(number, super::Change::Changed);
    }

    /// Hands a connection to an application that has its attachment.
    pub(super) fn has_joined(
        &mut self,
        adapter: AdapterIndex,
        number: u32,
        asker: Asker,
        attached: Attached,
    ) {
        let peer = self.clients.get(&asker.client).map(|client| client.peer);
        let Some(connection) = self.connections.get_mut(&number) else {
            return self.leave_joint(adapter.on(attached.index));
        };
        let (Some(peer), None, Some(open)) = (peer, connection.ending, connection.vc) else {
            self.leave_joint(adapter.on(attached.index));
            return self.confirm(asker, Err(Refused::NotFound));
        };
        let user = User {
            client: asker.client,
            pid: peer.pid,
            connection: asker.connection,
        };
        let done = Done {
            id: asker.id,
            modified: None,
        };
        let is_new = !self.is_lived_in(adapter.on(attached.index), None);
        if is_new {
            let reopens = self.reopens(asker.client, adapter);
            self.keep(asker.client, adapter.on(attached.index), reopens);
        }
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        connection.stage = Stage::Moving(asker, attached);
        let ask = Ask::Reattach {
            vc: open.vc,
            attachment: attached.index,
            record: None,
        };
        let record = connection.record(&connection.plan, connection.clocks, Some(user), Some(done));
        let ask = AdapterAsk::Keeper(ask, Some(record));
        self.ask_for(number, ask);
    }

    fn has_moved(
        &mut self,
        adapter: AdapterIndex,
        number: u32,
        asker: Asker,
        attached: Attached,
        open: OpenVc,
    ) {
        let client = self.clients.get_mut(&asker.client);
        let user = client.map(|client| {
            client.connections.insert(asker.connection, number);
            client.may_have_closed = false;
            User {
                client: asker.client,
                pid: client.peer.pid,
                connection: asker.connection,
            }
        });
        let Some(connection) = self.connections.get_mut(&number) else {
            return self.leave_joint(adapter.on(attached.index));
        };
        connection.vc = Some(open);
        connection.done = Some(Done {
            id: asker.id,
            modified: None,
        });
        connection.repeatable = false;
        connection.wanted = None;
        connection.offered = None;
        let before = connection.attachment.replace(attached);
        let user_before = core::mem::replace(&mut connection.user, user);
        let opened = connection.opened();
        if let Some(before) = before
            && !self.bugs.planted(Planted::LeftoverKept)
        {
            self.leave_joint(adapter.on(before.index));
        }
        if let Some(before) = user_before {
            self.unlink(before);
            let ended = Indication::Ended(EndReason::TakenOver);
            self.tell(before, ended, Enclosed::Nothing);
        }
        if let Some(opened) = opened {
            let enclosed = Enclosed::connection(adapter, &opened);
            self.confirm_with(asker, Ok(Confirm::Opened(opened)), enclosed);
        }
        self.announce(number, super::Change::Changed);
    }

    /// Tells monitors of a connection, as it is.
    pub(super) fn announce(&mut self, number: u32, change: super::Change) {
        let connection = self.connections.get(&number);
        let info: Option<ConnectionInfo> = connection
            .filter(|connection| connection.announced)
            .map(super::connection::Connection::info);
        if let Some(info) = info {
            let info = Box::new(info);
            self.tell_monitors(&Indication::Connection { change, info });
        }
    }
}
