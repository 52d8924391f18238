//! The lives of servers in a run: they begin, take up what is there, and die.

use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::keeper::Ask;
use cellgate_core::server::governor::{Governors, Left};
use cellgate_core::server::{AdapterIndex, ClientId, Reopens, TakenInterface, TakenUp, Ticket};

use super::daemon::{Parcel, Serving, TO_ADAPTER, to_client};
use super::process::Held;
use super::{ServerBug, ServerTurn};
use crate::world::Ps;
use crate::world::host::Host;
use crate::world::net::Net;

/// From one look of a new server whether it can take up to the next.
const PATIENCE: Ps = Ps::from_ns(50_000);

impl Host {
    /// A server's process ends.
    pub(super) fn server_dies(&mut self, net: &mut Net) {
        let Some(served) = &mut self.served else {
            return;
        };
        served.places.process_ends();
        net.log.audit(self.number).dies();
        served.server = None;
        if served.governors.take().is_none() {
            return;
        }
        let under_way = std::mem::take(&mut served.asked);
        let under_way = under_way.values().map(|asked| asked.stage);
        let seen = &mut net.log.seen;
        seen.died("server_died_in", under_way);
        seen.add(
            "server_died_in",
            "no_adapter",
            (!served.is_adapter_up).into(),
        );
        let kept = served.kept();
        let gone = Parcel::Gone(served.known_adapter, served.life);
        served.life += 1;
        served.files.clear();
        served.requests.clear();
        served.deadline = None;
        let lost: Vec<ClientId> = served.clients.keys().copied().collect();
        self.post(TO_ADAPTER, gone, net);
        for client in lost {
            if !kept.contains(&client) {
                self.loses_socket(client, net);
            }
        }
    }

    /// A socket that nobody keeps is closed with the process that had it.
    fn loses_socket(&mut self, client: ClientId, net: &mut Net) {
        let Some(served) = &mut self.served else {
            return;
        };
        let number = served.clients.remove(&client);
        net.log.seen.note("hung_up", "with_server");
        let channel = super::daemon::to_server(client);
        served.channels.remove(&channel);
        self.post(to_client(client), Parcel::HungUp, net);
        let application = number.map(|n| &self.applications[n]);
        let held = application.and_then(|one| one.held.as_ref().map(|held| (one, held)));
        let is_adapter_up = self.served.as_ref().is_some_and(|s| s.is_adapter_up);
        if let (Some((one, held)), true) = (held, is_adapter_up)
            && held.in_use
            && one.client == Some(client)
            && let Some(info) = self.info(held.vc)
            // On an adapter that it is not attached to yet, the name it knows can be another's.
            && info.request.address == one.address
        {
            let name = &one.spec.name;
            let text = format!("application {name}: its socket went with the server");
            net.violate("I19", text);
        }
    }

    /// The process of a server begins: it asks its adapter what it is and has.
    pub(super) fn server_begins(&mut self, net: &mut Net) {
        let Some(served) = &self.served else {
            return;
        };
        if served.governors.is_some() {
            return;
        }
        if !served.is_adapter_up {
            return self.begins_later(net);
        }
        if !self.finds_places(net) {
            return;
        }
        let template = self.config.ports[0];
        let Some(served) = &mut self.served else {
            return;
        };
        let is_first = served.life == 0;
        served.life = served.life.max(1);
        served.known_adapter = served.adapter_life;
        let mut governors = Governors::new(1, template, |errno| errno.to_string());
        governors.begin(AdapterIndex::FIRST, !is_first);
        served.governors = Some(governors);
        let kept = served.kept();
        let clients = served.clients.keys().copied();
        let (awaited, lost): (BTreeSet<ClientId>, BTreeSet<ClientId>) =
            clients.partition(|client| kept.contains(client));
        served.awaited = awaited;
        for client in lost.into_iter().filter(|_| !is_first) {
            self.loses_socket(client, net);
        }
        self.governors_go_on(net);
    }

    /// Its adapter has told what it is: there is a server.
    pub(super) fn is_server(&mut self, net: &mut Net) {
        let bug = net.options.server_bug.and_then(ServerBug::inside);
        let Some(served) = &mut self.served else {
            return;
        };
        served.server = Some(Serving::with_bugs(served.config.clone(), bug));
        let is_first = served.life <= 1;
        net.log.audit(self.number).begins(net.now, is_first);
    }

    /// A new server looks again in a while.
    pub(super) fn begins_later(&mut self, net: &mut Net) {
        self.turn_at(net.now.plus(PATIENCE), ServerTurn::TakesUp, net);
    }

    pub(super) fn server_takes_up(
        &mut self,
        interfaces: Vec<TakenInterface>,
        left: Vec<Left>,
        net: &mut Net,
    ) {
        let taken: Vec<TakenUp> = left.into_iter().map(|left| self.taken(left)).collect();
        let Some(served) = &mut self.served else {
            return;
        };
        let vcs = taken.iter().filter_map(|taken| taken.vc.as_ref());
        let vcs: BTreeMap<_, _> = vcs
            .map(|one| (one.vc.index, (one.vc, one.request)))
            .collect();
        served.counts.take_ups += 1;
        served.counts.taken_up += vcs.len() as u64;
        served.requests = vcs;
        let found = taken.iter().filter_map(|taken| taken.client);
        let found: Vec<ClientId> = found.map(|(client, _)| client).collect();
        let awaited = std::mem::take(&mut served.awaited);
        for client in awaited.into_iter().filter(|one| !found.contains(one)) {
            self.loses_socket(client, net);
        }
        let mut taken = taken;
        net.log.seen.taken_up(&taken);
        if net.has(ServerBug::FileBelieved)
            && let Some(served) = &self.served
        {
            taken.retain(|one| one.vc.as_ref().is_none_or(|vc| served.places.names(vc)));
        }
        let first = taken.iter().position(|one| one.vc.is_some());
        match (net.options.server_bug, first) {
            (Some(ServerBug::VcNotTakenUp), Some(first)) => drop(taken.remove(first)),
            (Some(ServerBug::TakenVcClosed), Some(first)) => {
                let vc = taken[first].vc.as_ref().map(|taken| taken.vc);
                if let Some(vc) = vc {
                    self.ask(Ticket(u64::MAX), Ask::Close { vc }.into(), net);
                }
            }
            _ => {}
        }
        self.serve_any(net, |server, now| {
            server.take_up(now, AdapterIndex::FIRST, interfaces, taken)
        });
    }

    /// What another server has left, with the application's socket if somebody is there.
    fn taken(&mut self, left: Left) -> TakenUp {
        let mut client = None;
        if let Some(served) = &mut self.served {
            for handle in &left.kept {
                let Some(Held::Socket(id)) = served.files.remove(handle) else {
                    continue;
                };
                let number = served.clients.get(&id);
                let one = number.map(|n| &self.applications[*n]);
                // Whoever has died in the meantime has hung up.
                let one = one.filter(|one| one.client == Some(id));
                client = one.map(|one| (id, one.peer()));
            }
        }
        TakenUp {
            client,
            reopens: Reopens::parse(left.record.as_deref()),
            attachment: left.attachment,
            attachment_sizes: left.sizes,
            attachment_generation: left.files_generation,
            vc: left.vc,
        }
    }

    /// What has waited for a server comes at once.
    pub(super) fn channels_go_on(&mut self, net: &mut Net) {
        let Some(served) = &mut self.served else {
            return;
        };
        let mut events = Vec::new();
        for (channel, to) in &mut served.channels {
            let waiting = std::mem::take(&mut to.waiting);
            events.extend((0..waiting).map(|_| *channel));
        }
        for channel in events {
            let rank = self
                .served
                .as_ref()
                .map_or(0, |served| served.rank(channel));
            let event = ServerTurn::Parcel(rank, channel);
            self.turn_at(net.now, event, net);
        }
    }
}
