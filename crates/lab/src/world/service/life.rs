//! The lives of servers in a run: they begin, take up what is there, and die.

use cellgate_core::keeper::Ask;
use cellgate_core::server::{AdapterIndex, ClientId, TakenInterface, TakenUp, TakenVc, Ticket};

use super::daemon::{Again, Parcel, Serving, TO_ADAPTER, to_client};
use super::{ServerBug, ServiceEvent};
use crate::world::run::{Event, World};
use crate::world::{Ps, Violation};

/// From one look of a new server whether it can take up to the next.
const PATIENCE: Ps = Ps::from_ns(50_000);

impl World {
    /// A server's process ends.
    pub(super) fn server_dies(&mut self, host: usize) {
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        served.places.process_ends();
        served.killers.are_forgotten();
        if served.server.take().is_none() {
            return;
        }
        let under_way = std::mem::take(&mut served.asked);
        let seen = &mut self.service.seen;
        seen.died("server_died_in", under_way.values());
        seen.add(
            "server_died_in",
            "no_adapter",
            (!served.is_adapter_up).into(),
        );
        let kept = served.kept();
        let gone = Parcel::Gone(served.known_adapter, served.life);
        served.life += 1;
        served.vcs.clear();
        served.attachments.clear();
        served.offered.clear();
        served.deadline = None;
        let lost: Vec<ClientId> = served.clients.keys().copied().collect();
        self.post(host, TO_ADAPTER, gone);
        for client in lost {
            if !kept.contains(&client) {
                self.loses_socket(host, client);
            }
        }
    }

    /// A socket that nobody keeps is closed with the process that had it.
    fn loses_socket(&mut self, host: usize, client: ClientId) {
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        let number = served.clients.remove(&client);
        self.service.seen.note("hung_up", "with_server");
        let channel = super::daemon::to_server(client);
        served.channels.remove(&channel);
        self.post(host, to_client(client), Parcel::HungUp);
        let application = number.map(|n| &self.service.applications[n]);
        let held = application.and_then(|one| one.held.as_ref().map(|held| (one, held)));
        let is_adapter_up = self
            .service
            .hosts
            .get(&host)
            .is_some_and(|s| s.is_adapter_up);
        if let (Some((one, held)), true) = (held, is_adapter_up)
            && held.in_use
            && one.client == Some(client)
            && let Some(info) = self.hosts[host].info(held.vc)
            // On an adapter that it is not attached to yet, the name it knows can be another's.
            && info.request.address == one.address
        {
            let name = &one.spec.name;
            let text = format!("application {name}: its socket went with the server");
            self.violate(Violation::new("I19", self.now, text));
        }
    }

    /// A server begins: with its adapter's first words, or when what the server before has asked
    /// is done.
    pub(super) fn server_begins(&mut self, host: usize) {
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        if served.server.is_some() {
            return;
        }
        let asked = served
            .channels
            .get(&TO_ADAPTER)
            .map_or(0, |to| to.parcels.len());
        if asked + served.process.waiting() > 0 || !served.is_adapter_up {
            return self.begins_later(host);
        }
        if !self.finds_places(host) {
            return;
        }
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        let config = self.hosts[host].config();
        let is_first = served.life == 0;
        served.life = served.life.max(1);
        if !served.process.connects(served.life, config, !is_first) {
            return self.begins_later(host);
        }
        let bug = self.service.bug.and_then(ServerBug::inside);
        served.server = Some(Serving::with_bugs(served.config.clone(), bug));
        served.known_adapter = served.adapter_life;
        served.again = Again {
            since: self.now,
            // What the server before has asked again has an order of its own.
            is_excused: !is_first,
            ..Again::default()
        };
        self.bounds_are_told(host);
        if is_first {
            self.serve_any(host, |server, now| {
                server.handle_adapter_ready(now, AdapterIndex::FIRST)
            });
        } else {
            self.server_takes_up(host);
        }
        self.operator_begins(host);
        self.channels_go_on(host);
    }

    /// A new server looks again in a while.
    pub(super) fn begins_later(&mut self, host: usize) {
        let event = Event::Service(ServiceEvent::TakesUp(host as u32));
        self.queue.push(self.now.plus(PATIENCE), event);
    }

    fn server_takes_up(&mut self, host: usize) {
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        let kept = served.kept();
        let lost: Vec<ClientId> = served.clients.keys().copied().collect();
        for client in lost.into_iter().filter(|client| !kept.contains(client)) {
            self.loses_socket(host, client);
        }
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        for (vc, kept) in &served.process.vcs {
            let news = (*vc, kept.files.clone(), kept.request);
            served.vcs.insert(vc.index, news);
        }
        let clients = served.process.attachments.iter();
        let clients = clients.map(|(index, one)| (*index, one.client));
        served.attachments = clients.collect();
        let interfaces = served.process.links.iter();
        let interfaces = interfaces.map(|(port, spec)| TakenInterface {
            spec: spec.clone(),
            port: *port,
            up: true,
        });
        let interfaces = interfaces.collect();
        served.counts.take_ups += 1;
        served.counts.taken_up += served.process.vcs.len() as u64;
        let mut taken = self.taken_up(host);
        self.service.seen.taken_up(&taken);
        if self.service.has(ServerBug::FileBelieved)
            && let Some(served) = self.service.hosts.get(&host)
        {
            taken.retain(|one| one.vc.as_ref().is_none_or(|vc| served.places.names(vc)));
        }
        let first = taken.iter().position(|one| one.vc.is_some());
        match (self.service.bug, first) {
            (Some(ServerBug::VcNotTakenUp), Some(first)) => drop(taken.remove(first)),
            (Some(ServerBug::TakenVcClosed), Some(first)) => {
                let vc = taken[first].vc.as_ref().map(|taken| taken.vc);
                if let Some(vc) = vc {
                    self.ask(host, Ticket(u64::MAX), Ask::Close { vc }.into());
                }
            }
            _ => {}
        }
        self.serve_any(host, |server, now| {
            server.take_up(now, AdapterIndex::FIRST, interfaces, taken)
        });
    }

    /// What the process of the adapter has: one for each VC, and for each attachment without one.
    fn taken_up(&self, host: usize) -> Vec<TakenUp> {
        let Some(served) = self.service.hosts.get(&host) else {
            return Vec::new();
        };
        let mut taken = Vec::new();
        for (index, attachment) in &served.process.attachments {
            let kept = served.process.kept.get(index);
            let reopens = kept.is_some_and(|(_, reopens)| *reopens);
            let client = kept.and_then(|(id, _)| {
                let n = *served.clients.get(id)?;
                let one = &self.service.applications[n];
                // Whoever has died in the meantime has hung up.
                (one.client == Some(*id)).then(|| (*id, one.peer(n)))
            });
            let one = |vc| TakenUp {
                client,
                reopens,
                attachment: *index,
                attachment_sizes: attachment.sizes,
                attachment_generation: attachment.files_generation,
                vc,
            };
            let before = taken.len();
            for (vc, kept) in &served.process.vcs {
                if kept.request.attachment == *index {
                    taken.push(one(Some(TakenVc {
                        vc: *vc,
                        request: kept.request,
                        sizes: kept.sizes,
                        files_generation: kept.files.generation,
                        record: kept.record.clone(),
                    })));
                }
            }
            if taken.len() == before {
                taken.push(one(None));
            }
        }
        taken
    }

    /// What has waited for a server comes at once.
    fn channels_go_on(&mut self, host: usize) {
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        let mut events = Vec::new();
        for (channel, to) in &mut served.channels {
            let waiting = std::mem::take(&mut to.waiting);
            events.extend((0..waiting).map(|_| *channel));
        }
        for channel in events {
            let rank = self
                .service
                .hosts
                .get(&host)
                .map_or(0, |served| served.rank(channel));
            let event = ServiceEvent::Parcel(host as u32, rank, channel);
            self.queue.push(self.now, Event::Service(event));
        }
    }
}
