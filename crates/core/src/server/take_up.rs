//! A server takes up what the one before it left at the adapter.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::adapters::Home;
use super::connection::{Attached, Connection, OpenVc, User};
use super::interfaces::{Interface, LinkStage};
use super::joint::Joint;
use super::machine::{Client, Pending, Server};
use super::{
    AdapterIndex, Bugs, ClientId, Enclosed, EndReason, FromServer, Indication, InterfaceCounts,
    InterfaceState, On, Peer, Planted, Record, SlotClocks, TakenInterface, TakenUp, TakenVc,
};
use crate::Time;
use crate::adapter::AttachmentIndex;
use crate::contract::TrafficContract;
use crate::keeper::Ask;

impl<B: Bugs> Server<B> {
    pub(super) fn take_up_all(
        &mut self,
        now: Time,
        adapter: AdapterIndex,
        interfaces: Vec<TakenInterface>,
        taken: Vec<TakenUp>,
    ) {
        self.set_home(adapter, Some(Home::None));
        let name = self.adapter_name(adapter).map(str::to_owned);
        for TakenInterface { mut spec, port, up } in interfaces {
            let port = adapter.on(port);
            spec.adapter.clone_from(&name);
            let interface = Interface {
                spec: spec.clone(),
                port,
                up,
                linked: true,
                stage: LinkStage::There,
                dropped_cells: None,
                state: InterfaceState::Down,
                counts: InterfaceCounts::default(),
            };
            self.admission.add_line(port, interface.line().cell_s());
            self.interfaces.insert(spec.name.clone(), interface);
            if up {
                // At both ends, of which another adapter may have one.
                self.set_up(&spec.name, up);
            }
        }
        // An attachment is detached once its VCs are; where others live there, it stays.
        let mut lived_in = BTreeSet::new();
        let mut orphans = Vec::new();
        let mut clients = BTreeMap::new();
        // Whose opening was under way, and has come to nothing.
        let mut reopening = BTreeSet::new();
        for one in taken {
            let attached = Attached {
                index: one.attachment,
                sizes: one.attachment_sizes,
                files_generation: one.attachment_generation,
            };
            if let Some((client, peer)) = one.client {
                self.take_up_client(now, client, peer);
                clients.insert(attached.index, (client, peer));
            }
            let reopens = one.client.into_iter().flat_map(|(client, _)| {
                let own = one.reopens.0.iter();
                own.map(move |own| (client, *own))
            });
            let Some(vc) = one.vc else {
                reopens.for_each(|(client, own)| self.tell_not_reopened(client, own));
                orphans.push((attached.index, None));
                continue;
            };
            reopening.extend(reopens);
            let id = vc.vc;
            let client = clients.get(&attached.index).copied();
            if let Some((client, _)) = client {
                reopening.remove(&(client, vc.record.connection));
            }
            if self.take_up_vc(adapter, client, attached, vc) {
                lived_in.insert(attached.index);
            } else {
                orphans.push((attached.index, Some(id)));
            }
        }
        for (client, own) in reopening {
            self.tell_not_reopened(client, own);
        }
        self.link_chains();
        for (attachment, vc) in orphans {
            let lived_in = lived_in.contains(&attachment);
            self.close_orphan(adapter.on(attachment), vc, lived_in);
        }
        for (id, client) in &mut self.clients {
            client.may_have_closed = true;
            self.work.turn.insert(*id);
        }
        self.work
            .divide
            .extend(self.interfaces.values().map(|one| one.port));
        self.work.settle.extend(self.connections.keys());
    }

    /// Tells an application of a connection, by its own number, that has no VC any more.
    fn tell_not_reopened(&mut self, client: ClientId, connection: u32) {
        let user = User {
            client,
            pid: 0,
            connection,
        };
        let ended = Indication::Ended(EndReason::NotReopened);
        self.tell(user, ended, Enclosed::Nothing);
    }

    fn take_up_client(&mut self, now: Time, client: ClientId, peer: Peer) {
        if let Entry::Vacant(entry) = self.clients.entry(client) {
            // No server before can have used this number.
            let id = now.ns();
            entry.insert(Client::taken_up(peer, id));
            let indication = Indication::Restarted;
            let message = FromServer::Indication {
                id,
                connection: 0,
                indication,
            };
            self.say(client, message, Enclosed::Nothing);
        }
    }

    /// Closes what belongs to nobody, then its attachment if nobody else lives there.
    fn close_orphan(
        &mut self,
        attachment: On<AttachmentIndex>,
        vc: Option<crate::adapter::VcId>,
        lived_in: bool,
    ) {
        let On { adapter, id } = attachment;
        match (vc, lived_in) {
            _ if self.bugs.planted(Planted::OrphansStay) => {}
            (Some(vc), true) => self.ask(adapter, Pending::Leftover, Ask::Close { vc }),
            (Some(vc), false) => {
                self.ask(adapter, Pending::Orphan(id), Ask::Close { vc });
            }
            (None, true) => {}
            (None, false) => self.detach_leftover(attachment),
        }
    }

    /// Whether the VC is a connection again. One whose record makes no sense here is not.
    fn take_up_vc(
        &mut self,
        adapter: AdapterIndex,
        client: Option<(ClientId, Peer)>,
        attached: Attached,
        taken: TakenVc,
    ) -> bool {
        let Record {
            number,
            address,
            open,
            permanent,
            uid,
            worker,
            pid,
            connection: own,
            demand,
            slots,
            done,
            reopened,
        } = taken.record;
        let at_home = permanent && pid.is_none();
        let client = client.filter(|_| !at_home);
        let busy = client.is_some_and(|(client, _)| {
            let client = self.clients.get(&client);
            client.is_some_and(|client| client.connections.contains_key(&own))
        });
        let end = |server: &mut Self, reason: EndReason| {
            if let Some((client, _)) = client.filter(|_| !busy) {
                let user = User {
                    client,
                    pid: 0,
                    connection: own,
                };
                server.tell(user, Indication::Ended(reason), Enclosed::Nothing);
            }
            false
        };
        let (Ok(found), false) = (self.find_interface(&address), busy) else {
            return end(self, EndReason::InterfaceRemoved);
        };
        let port = found.port;
        let contract = open.contract.parse::<TrafficContract>().ok();
        let plan = contract.map(|one| self.circumstances(&open, port, worker).plan(&one));
        let taken_already = self.addresses.contains_key(&(port, address.vc))
            || self.connections.contains_key(&number);
        let (Some(Ok(mut plan)), false) = (plan, taken_already || number == 0) else {
            return end(self, EndReason::NotReopened);
        };
        plan.demand = demand;
        plan.sizes = taken.sizes;
        let granted = match self.bugs.planted(Planted::TakenNotGranted) {
            true => super::Demand::default(),
            false => demand,
        };
        let mut connection = Connection::new(number, found.address, port, open, plan);
        connection.grant = Some(self.admission.take(uid, port, granted));
        connection.permanent = permanent;
        connection.uid = uid;
        connection.clocks = match self.bugs.planted(Planted::AccountLost) {
            true => SlotClocks::begin(self.now, &demand),
            false => slots,
        };
        connection.worker = worker;
        connection.vc = Some(OpenVc {
            vc: taken.vc,
            sizes: taken.sizes,
            files_generation: taken.files_generation,
        });
        connection.done = done.filter(|_| !self.bugs.planted(Planted::DoneForgotten));
        connection.repeatable = true;
        connection.announced = true;
        if at_home {
            self.set_home(adapter, Some(Home::At(attached)));
        } else {
            connection.attachment = Some(attached);
        }
        if let Some((id, peer)) = client {
            connection.user = Some(User {
                client: id,
                pid: peer.pid,
                connection: own,
            });
            if let Some(client) = self.clients.get_mut(&id) {
                client.connections.insert(own, number);
                client.attachments.insert(adapter, Joint::At(attached));
                client.worker = worker;
            }
        }
        if !self.bugs.planted(Planted::NumbersAgain) {
            self.last_number = self.last_number.max(number);
        }
        self.insert(connection);
        if reopened {
            self.tell_reopened(number);
        }
        true
    }
}
