//! The attachment of an application at an adapter. All its connections there have it in common: one
//! event queue, one count of silent events and one descriptor to wait at (*Policing Offloaded*,
//! section 4.2). It comes with the first of them and goes with the last.

use super::connection::{Asker, Attached, Connection, Stage};
use super::machine::{Pending, Server};
use super::requests::Outcome;
use super::{
    AdapterAsk, AdapterIndex, Bugs, CONNECTIONS_PER_SOCKET, ClientId, Crowd, On, Refused, Request,
};
use crate::adapter::{AttachmentIndex, VcId};
use crate::keeper::Ask;

/// An application's attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joint {
    /// The adapter was asked for it, for one of the connections.
    Asked,
    At(Attached),
}

impl Connection {
    fn lives_at(&self, attachment: On<AttachmentIndex>) -> bool {
        let moves_to = match &self.stage {
            Stage::Moving(_, attached) => Some(attached.index),
            _ => None,
        };
        let at = self.attachment.map(|attached| attached.index);
        self.port.adapter == attachment.adapter && [at, moves_to].contains(&Some(attachment.id))
    }
}

impl<B: Bugs> Server<B> {
    /// The attachment of an application at an adapter; none: nothing was asked for.
    pub(super) fn joint(&self, client: ClientId, adapter: AdapterIndex) -> Option<Joint> {
        let client = self.clients.get(&client)?;
        client.attachments.get(&adapter).copied()
    }

    /// The order to an adapter at which an application has nothing.
    pub(super) fn ask_of_joint(
        &mut self,
        client: ClientId,
        adapter: AdapterIndex,
        user: u32,
    ) -> AdapterAsk {
        if let Some(client) = self.clients.get_mut(&client) {
            client.attachments.insert(adapter, Joint::Asked);
        }
        let sizes = self.config.attachment;
        let keep = true;
        AdapterAsk::from(Ask::Attach { sizes, user, keep })
    }

    /// The adapter has made it, or has not (none). Connections that wait for it go on.
    pub(super) fn joint_answered(
        &mut self,
        client: ClientId,
        adapter: AdapterIndex,
        attached: Option<Attached>,
    ) {
        let Some(state) = self.clients.get_mut(&client) else {
            return;
        };
        match attached {
            Some(attached) => state.attachments.insert(adapter, Joint::At(attached)),
            None => state.attachments.remove(&adapter),
        };
        let waits = |one: &&Connection| {
            let uses = one.user.is_some_and(|user| user.client == client);
            let asks = |(asker, ..): &(Asker, _, _)| asker.client == client;
            one.port.adapter == adapter && (uses || one.waiting.iter().any(asks))
        };
        let waiting = self.connections.values().filter(waits);
        self.work.settle.extend(waiting.map(|one| one.number));
    }

    /// Whether a connection lives at an attachment, beside `except`.
    pub(super) fn is_lived_in(&self, at: On<AttachmentIndex>, except: Option<u32>) -> bool {
        let mut others = self.connections.values();
        others.any(|one| Some(one.number) != except && one.lives_at(at))
    }

    /// An attachment is to go: whoever had it has it no more.
    pub(super) fn forget_joint(&mut self, at: On<AttachmentIndex>) {
        for client in self.clients.values_mut() {
            let joint = client.attachments.get(&at.adapter);
            if matches!(joint, Some(Joint::At(attached)) if attached.index == at.id) {
                client.attachments.remove(&at.adapter);
            }
        }
    }

    /// Removes an attachment at which no connection lives any more.
    pub(super) fn leave_joint(&mut self, at: On<AttachmentIndex>) {
        if !self.is_lived_in(at, None) {
            self.forget_joint(at);
            let attachment = at.id;
            self.ask(at.adapter, Pending::Leftover, Ask::Detach { attachment });
        }
    }

    /// Has an application that takes a connection use it: at its attachment, made first where there
    /// is none.
    pub(super) fn join(
        &mut self,
        asker: Asker,
        number: u32,
        (request, capability): (Request, Option<On<VcId>>),
    ) -> Outcome {
        self.check_socket(asker.client)?;
        let connection = self.connections.get(&number).ok_or(Refused::NotFound)?;
        let adapter = connection.port.adapter;
        match self.joint(asker.client, adapter) {
            Some(Joint::At(attached)) => self.has_joined(adapter, number, asker, attached),
            // For a connection that is opened again.
            Some(Joint::Asked) => self.wait_for(number, (asker, request, capability)),
            None => {
                let client = self.clients.get(&asker.client);
                let user = client.map_or(self.config.uid, |client| client.peer.uid);
                let ask = self.ask_of_joint(asker.client, adapter, user);
                self.begin(number, Stage::Joining(asker), ask);
            }
        }
        Ok(None)
    }

    /// Whether a control socket may have another connection.
    pub(super) fn check_socket(&self, client: ClientId) -> Result<(), Refused> {
        let has = self.clients.get(&client).map(|one| one.connections.len());
        let most = CONNECTIONS_PER_SOCKET;
        match has.is_some_and(|has| has as u64 >= most.into()) {
            true => Err(Refused::Full {
                of: Crowd::ConnectionsOfSocket,
                most,
                quota: None,
                holder: None,
            }),
            false => Ok(()),
        }
    }
}
