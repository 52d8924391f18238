//! Between a server's governors and the keeper of its adapter: what either wants done, in a run.

use cellgate_core::adapter::{AdapterState, Outcome, Refusal, VcIndex, VcInfo};
use cellgate_core::keeper::{
    Answer, Ask, ControlError, Done, ENUMERATE_MAX, GapReport, Order, Output, PORTS_MAX, PortReport,
};
use cellgate_core::server::AdapterIndex;
use cellgate_core::server::governor::{Governed, Governors, News};

use super::ServerBug;
use super::daemon::{FROM_ADAPTER, Parcel, Served, TO_ADAPTER};
use super::process::{Heard, region_sizes};
use crate::world::host::{Host, info};
use crate::world::net::Net;
use crate::world::oracle::Audit;

impl Host {
    /// A server has the descriptors of no other adapter than the present one.
    pub(super) fn server_finds_adapter(&mut self, adapter: u32, net: &mut Net) {
        let Some(served) = &mut self.served else {
            return;
        };
        if served.server.is_none() {
            // It begins with this one.
            return;
        }
        served.known_adapter = adapter;
        if !net.has(ServerBug::NothingReopened) {
            self.with_governors(net, |governors| governors.begin(AdapterIndex::FIRST, false));
        }
    }

    /// Has a server's governors do something, if it has a process.
    pub(super) fn with_governors(&mut self, net: &mut Net, input: impl FnOnce(&mut Governors)) {
        let served = self.served.as_mut();
        if let Some(governors) = served.and_then(|served| served.governors.as_mut()) {
            input(governors);
            self.governors_go_on(net);
        }
    }

    /// The keeper's reply has come.
    pub(super) fn governors_hear(&mut self, heard: Heard, net: &mut Net) {
        let Some(served) = &mut self.served else {
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
        self.governors_go_on(net);
    }

    /// Does what a server's governors want, until they want nothing.
    pub(super) fn governors_go_on(&mut self, net: &mut Net) {
        let now = self.time(net.now);
        // What a server asks while it hears of an answer has its turn after what is wanted already.
        let is_going_on =
            |served: &mut Box<Served>| std::mem::replace(&mut served.governors_go_on, true);
        if self.served.as_mut().is_none_or(is_going_on) {
            return;
        }
        while let Some(served) = &mut self.served
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
                    self.post(TO_ADAPTER, ask, net);
                }
                Governed::Release(handle) => drop(served.files.remove(&handle)),
                Governed::News(_, news) => self.server_hears_of_adapter(news, net),
            }
        }
        if let Some(served) = &mut self.served {
            served.governors_go_on = false;
        }
    }

    fn server_hears_of_adapter(&mut self, news: News, net: &mut Net) {
        let adapter = AdapterIndex::FIRST;
        let Some(served) = &mut self.served else {
            return;
        };
        let begins = served.server.is_none();
        match news {
            News::Lost(_) if begins => {
                served.governors = None;
                served.files.clear();
                self.begins_later(net);
            }
            News::Ready(_) if begins => {
                self.is_server(net);
                self.bounds_are_told(net);
                self.serve_any(net, |server, now| server.handle_adapter_ready(now, adapter));
                self.operator_begins(net);
                self.channels_go_on(net);
            }
            News::Ready(_) => {
                net.log.audit(self.number).finds_adapter(net.now);
                self.serve_any(net, |server, now| server.handle_adapter_ready(now, adapter));
                self.operator_adds(net);
            }
            News::TakenUp(_, interfaces, left) => {
                self.is_server(net);
                self.server_takes_up(interfaces, left, net);
                self.bounds_are_told(net);
                self.operator_begins(net);
                self.channels_go_on(net);
            }
            News::Answer(ticket, answer) => self.server_is_answered(ticket, answer, net),
            News::State(state) => {
                self.serve_any(net, |server, now| {
                    server.handle_report(now, adapter, &state)
                });
                self.is_judged(net, Audit::is_told);
            }
            News::Health(health) => {
                self.serve_any(net, |server, now| {
                    server.handle_health(now, adapter, &health)
                });
            }
            News::Lost(_) => {
                served.asked.clear();
                self.serve_any(net, |server, now| server.handle_adapter_lost(now, adapter));
            }
            // No server of worlds has workers.
            News::LetGo(_) => {}
        }
    }

    /// The control connection of a server that has died has ended.
    pub(super) fn keeper_loses(&mut self, adapter: u32, asker: u32, net: &mut Net) {
        let served = self.served.as_mut();
        let is_there =
            |served: &&mut Box<Served>| served.is_adapter_up && served.adapter_life == adapter;
        if let Some(served) = served.filter(is_there) {
            served.process.hangs_up(asker);
            self.keeper_goes_on(net);
        }
    }

    /// Does what the keeper of a host wants, until it wants nothing.
    pub(super) fn keeper_goes_on(&mut self, net: &mut Net) {
        while let Some(served) = &mut self.served
            && let Some(output) = served.process.poll()
        {
            match output {
                Output::Release(handle) => served.process.release(handle),
                Output::Reply {
                    to,
                    reply,
                    enclosed,
                } => {
                    let info = |vc| info(&self.adapter, vc);
                    let heard = served.process.heard(to, reply, &enclosed, info);
                    if let Some((heard, ask)) = heard {
                        self.is_heard(heard, &ask, net);
                    }
                }
                Output::Order(order) => self.is_ordered(order, net),
            }
        }
        if let Some(served) = &mut self.served {
            served.process.look(|vc| info(&self.adapter, vc));
        }
    }

    fn is_ordered(&mut self, order: Order, net: &mut Net) {
        self.catch_up(net);
        let commanded = self.commands(&order.ask, region_sizes);
        let done = self.done_at_once(&order.ask, net);
        if let Some(served) = &mut self.served {
            match commanded {
                Some((command, brought)) => served.process.is_ordered(command, order, brought),
                None => served.process.is_done(&order, done),
            }
        }
        self.after_step(net);
    }

    /// What comes of an order that is none for the adapter of a world: its ports are what they are.
    fn done_at_once(&mut self, ask: &Ask, net: &mut Net) -> Result<Done, ControlError> {
        match *ask {
            Ask::Loopback { .. } => Err(Refusal::NoReturn.into()),
            Ask::Enumerate { from } => Ok(Done::Outcome(Outcome::State(self.state(from, net)))),
            Ask::Ports { from } => {
                let ports = self.config.ports.len();
                let ports = ports.saturating_sub(from.0.into()).min(PORTS_MAX);
                let ports = vec![PortReport::default(); ports];
                Ok(Done::Answer(Answer::Ports(ports)))
            }
            Ask::Gaps { restart_maxima } => {
                let served = self.served.as_mut();
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
    fn state(&self, from: VcIndex, net: &mut Net) -> AdapterState {
        let vcs = self
            .served
            .iter()
            .flat_map(|served| served.process.vcs.keys());
        let vcs = vcs.filter(|vc| vc.index >= from);
        let mut vcs: Vec<VcInfo> = vcs.filter_map(|vc| self.info(*vc)).collect();
        let next = vcs.get(ENUMERATE_MAX).map(|info| info.vc.index);
        vcs.truncate(ENUMERATE_MAX);
        AdapterState {
            time: self.time(net.now),
            stats: *self.adapter.stats(),
            vcs,
            next,
        }
    }

    /// A server is to hear of what it has asked.
    fn is_heard(&mut self, heard: Heard, ask: &Ask, net: &mut Net) {
        let served = self.served.as_ref();
        let of_server = served.is_some_and(|served| served.life == heard.life);
        if let (Ask::Open { .. }, Some(request), true) = (ask, heard.opened, of_server) {
            self.has_opened(request.address, net);
        }
        self.post(FROM_ADAPTER, Parcel::Reply(Box::new(heard)), net);
    }
}
