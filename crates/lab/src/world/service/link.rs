//! Between a server's governors and the keeper of its adapter: what either wants done, in a run.

use cellgate_core::adapter::{AdapterState, Outcome, Refusal, VcIndex, VcInfo};
use cellgate_core::keeper::{
    Answer, Ask, ControlError, Done, ENUMERATE_MAX, GapReport, Order, Output, PORTS_MAX, PortReport,
};
use cellgate_core::server::AdapterIndex;
use cellgate_core::server::governor::{Governed, Governors, News};

use super::ServerBug;
use super::daemon::{Again, FROM_ADAPTER, Parcel, Served, TO_ADAPTER};
use super::process::{Heard, region_sizes};
use crate::world::run::World;

impl World {
    /// A server has the descriptors of no other adapter than the present one.
    pub(super) fn server_finds_adapter(&mut self, host: usize, adapter: u32) {
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        if served.server.is_none() {
            // It begins with this one.
            return;
        }
        served.known_adapter = adapter;
        if !self.service.has(ServerBug::NothingReopened) {
            self.with_governors(host, |governors| {
                governors.begin(AdapterIndex::FIRST, false)
            });
        }
    }

    /// Has a server's governors do something, if it has a process.
    pub(super) fn with_governors(&mut self, host: usize, input: impl FnOnce(&mut Governors)) {
        let served = self.service.hosts.get_mut(&host);
        if let Some(governors) = served.and_then(|served| served.governors.as_mut()) {
            input(governors);
            self.governors_go_on(host);
        }
    }

    /// The keeper's reply has come.
    pub(super) fn governors_hear(&mut self, host: usize, heard: Heard) {
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        let Some(governors) = served
            .governors
            .as_mut()
            .filter(|_| served.life == heard.life)
        else {
            return;
        };
        if let (Ok(Answer::Opened { vc, .. }), Some(request)) = (&heard.reply.result, heard.opened)
        {
            served.requests.insert(vc.index, (*vc, request));
        }
        let came = heard.came.into_iter().map(|held| {
            let handle = governors.new_handle();
            served.files.insert(handle, held);
            handle
        });
        let came = came.collect();
        governors.handle_reply(AdapterIndex::FIRST, heard.reply, came);
        self.governors_go_on(host);
    }

    /// Does what a server's governors want, until they want nothing.
    pub(super) fn governors_go_on(&mut self, host: usize) {
        let now = self.time_at(host);
        // What a server asks while it hears of an answer has its turn after what is wanted already.
        let is_going_on =
            |served: &mut Served| std::mem::replace(&mut served.governors_go_on, true);
        if self.service.hosts.get_mut(&host).is_none_or(is_going_on) {
            return;
        }
        while let Some(served) = self.service.hosts.get_mut(&host)
            && let Some(governors) = &mut served.governors
            && let Some(wanted) = governors.poll(now)
        {
            match wanted {
                Governed::Send(_, request, handles) => {
                    let sent = handles.iter();
                    let sent = sent.filter_map(|handle| served.files.remove(handle));
                    let ask = Parcel::Ask {
                        adapter: served.known_adapter,
                        asker: served.life,
                        request: Box::new(request),
                        sent: sent.collect(),
                    };
                    self.post(host, TO_ADAPTER, ask);
                }
                Governed::Release(handle) => drop(served.files.remove(&handle)),
                Governed::News(_, news) => self.server_hears_of_adapter(host, news),
            }
        }
        if let Some(served) = self.service.hosts.get_mut(&host) {
            served.governors_go_on = false;
        }
    }

    fn server_hears_of_adapter(&mut self, host: usize, news: News) {
        let adapter = AdapterIndex::FIRST;
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        let begins = served.server.is_none();
        match news {
            News::Lost(_) if begins => {
                served.governors = None;
                served.files.clear();
                self.begins_later(host);
            }
            News::Ready(_) if begins => {
                self.is_server(host);
                self.bounds_are_told(host);
                self.serve_any(host, |server, now| {
                    server.handle_adapter_ready(now, adapter)
                });
                self.operator_begins(host);
                self.channels_go_on(host);
            }
            News::Ready(_) => {
                served.again = Again {
                    since: self.now,
                    ..Again::default()
                };
                self.serve_any(host, |server, now| {
                    server.handle_adapter_ready(now, adapter)
                });
                self.operator_adds(host);
            }
            News::TakenUp(_, interfaces, left) => {
                self.is_server(host);
                self.server_takes_up(host, interfaces, left);
                self.bounds_are_told(host);
                self.operator_begins(host);
                self.channels_go_on(host);
            }
            News::Answer(ticket, answer) => self.server_is_answered(host, ticket, answer),
            News::State(state) => {
                self.serve_any(host, |server, now| {
                    server.handle_report(now, adapter, &state)
                });
            }
            News::Health(health) => {
                self.serve_any(host, |server, now| {
                    server.handle_health(now, adapter, &health)
                });
            }
            News::Lost(_) => {
                served.asked.clear();
                self.serve_any(host, |server, now| server.handle_adapter_lost(now, adapter));
            }
            // No server of worlds has workers.
            News::LetGo(_) => {}
        }
    }

    /// The control connection of a server that has died has ended.
    pub(super) fn keeper_loses(&mut self, host: usize, adapter: u32, asker: u32) {
        let served = self.service.hosts.get_mut(&host);
        let is_there =
            |served: &&mut Served| served.is_adapter_up && served.adapter_life == adapter;
        if let Some(served) = served.filter(is_there) {
            served.process.hangs_up(asker);
            self.keeper_goes_on(host);
        }
    }

    /// Does what the keeper of a host wants, until it wants nothing.
    pub(super) fn keeper_goes_on(&mut self, host: usize) {
        while let Some(served) = self.service.hosts.get_mut(&host)
            && let Some(output) = served.process.poll()
        {
            match output {
                Output::Release(handle) => served.process.release(handle),
                Output::Reply {
                    to,
                    reply,
                    enclosed,
                } => {
                    let node = &self.hosts[host];
                    let heard = served
                        .process
                        .heard(to, reply, &enclosed, |vc| node.info(vc));
                    if let Some((heard, ask)) = heard {
                        self.is_heard(host, heard, &ask);
                    }
                }
                Output::Order(order) => self.is_ordered(host, order),
            }
        }
        if let Some(served) = self.service.hosts.get_mut(&host) {
            let node = &self.hosts[host];
            served.process.look(|vc| node.info(vc));
        }
    }

    fn is_ordered(&mut self, host: usize, order: Order) {
        let node = &mut self.hosts[host];
        node.catch_up(self.now, &mut self.lines, &mut self.woken);
        let commanded = node.ask(&order.ask, region_sizes);
        let done = self.done_at_once(host, &order.ask);
        if let Some(served) = self.service.hosts.get_mut(&host) {
            match commanded {
                Some((command, brought)) => served.process.is_ordered(command, order, brought),
                None => served.process.is_done(&order, done),
            }
        }
        self.after_step(host);
    }

    /// What comes of an order that is none for the adapter of a world: its ports are what they are.
    fn done_at_once(&mut self, host: usize, ask: &Ask) -> Result<Done, ControlError> {
        match *ask {
            Ask::Loopback { .. } => Err(Refusal::NoReturn.into()),
            Ask::Enumerate { from } => Ok(Done::Outcome(Outcome::State(self.state(host, from)))),
            Ask::Ports { from } => {
                let ports = self.hosts[host].config().ports.len();
                let ports = ports.saturating_sub(from.0.into()).min(PORTS_MAX);
                let ports = vec![PortReport::default(); ports];
                Ok(Done::Answer(Answer::Ports(ports)))
            }
            Ask::Gaps { restart_maxima } => {
                let served = self.service.hosts.get_mut(&host);
                let gaps = served.map_or_else(GapReport::default, |served| {
                    let gaps = served.gaps.clone();
                    if restart_maxima {
                        served.gaps.max_ns = 0;
                    }
                    gaps
                });
                Ok(Done::Answer(Answer::Gaps(gaps)))
            }
            _ => Ok(Done::Answer(Answer::Done)),
        }
    }

    /// A page of an adapter's state.
    fn state(&self, host: usize, from: VcIndex) -> AdapterState {
        let node = &self.hosts[host];
        let vcs = self.service.hosts[&host].process.vcs.keys();
        let vcs = vcs.filter(|vc| vc.index >= from);
        let mut vcs: Vec<VcInfo> = vcs.filter_map(|vc| node.info(*vc)).collect();
        let next = vcs.get(ENUMERATE_MAX).map(|info| info.vc.index);
        vcs.truncate(ENUMERATE_MAX);
        AdapterState {
            time: node.time(self.now),
            stats: *node.adapter.stats(),
            vcs,
            next,
        }
    }

    /// A server is to hear of what it has asked.
    fn is_heard(&mut self, host: usize, heard: Heard, ask: &Ask) {
        let of_server = self.service.hosts[&host].life == heard.life;
        if let (Ask::Open { .. }, Some(request), true) = (ask, heard.opened, of_server) {
            self.has_opened(host, request.address);
        }
        self.post(host, FROM_ADAPTER, Parcel::Reply(Box::new(heard)));
    }
}
