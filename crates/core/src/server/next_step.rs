//! What comes next for a connection at rest, and what its coming and going does to others.

use super::adapters::Home;
use super::connection::{Connection, GivingBack, Stage, Step};
use super::joint::Joint;
use super::losses::Losses;
use super::machine::{Pending, Server};
use super::plan::Plan;
use super::rates::Rates;
use super::share::{Claim, divide};
use super::{
    AdapterAsk, AdapterIndex, AdapterInfo, AdapterRefusal, Bugs, Caller, Change, Direction, Done,
    Enclosed, EndReason, Health, Indication, InterfaceState, On, Planted, Refused, RestInfo,
    RiskInfo, SlotClocks, Ticket,
};
use crate::adapter::{AdapterState, AttachmentIndex, PortIndex, VcId};
use crate::contract::CellRate;
use crate::keeper::Ask;

impl<B: Bugs> Server<B> {
    /// The next step of a connection, if nothing is under way.
    pub(super) fn settle(&mut self, number: u32) {
        self.tell_ended(number);
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        if !connection.is_resting() {
            return;
        }
        let (step, adapter) = (connection.step(), connection.port.adapter);
        if matches!(step, Step::OpenAtHome | Step::Share | Step::Rest) {
            self.settle_owed(number);
        }
        match step {
            // The memory that others receive into is there as long as they are.
            Step::Close(_) if self.ends_its_feeder(number) => {}
            Step::Close(vc) => {
                self.begin(number, Stage::Closing, Ask::Close { vc });
            }
            Step::Renew(vc) => self.renew(number, vc),
            Step::Return(vc) => self.give_back(number, vc),
            Step::Detach(attachment) => self.detach(number, adapter.on(attachment)),
            Step::Remove => self.remove(number),
            Step::Attach | Step::Open(_) | Step::OpenAtHome
                if self.is_away(adapter) || self.reopening_holds(adapter, number) =>
            {
                self.resume_waiting(number);
            }
            Step::Attach => self.attach(number, adapter),
            Step::Open(attachment) => self.open_at(number, attachment),
            Step::OpenAtHome => self.open_at_home(number, adapter),
            Step::Share => self.tell_share(number),
            Step::Rest => self.resume_waiting(number),
        }
    }

    /// A connection gets the attachment of its application.
    fn attach(&mut self, number: u32, adapter: AdapterIndex) {
        let user = self.connections.get(&number).and_then(|one| one.user);
        let Some(client) = user.map(|user| user.client) else {
            return;
        };
        match self.joint(client, adapter) {
            Some(Joint::At(attached)) => {
                if let Some(connection) = self.connections.get_mut(&number) {
                    connection.attachment = Some(attached);
                }
                self.work.settle.insert(number);
            }
            Some(Joint::Asked) => {}
            None => {
                let user = self.user_of(number);
                let ask = self.ask_of_joint(client, adapter, user);
                self.begin(number, Stage::Attaching, ask);
            }
        }
    }

    /// A connection leaves the attachment of its application, which goes with the last.
    pub(super) fn detach(&mut self, number: u32, at: On<AttachmentIndex>) {
        if !self.is_lived_in(at, Some(number)) {
            self.forget_joint(at);
            let attachment = at.id;
            return self.begin(number, Stage::Detaching, Ask::Detach { attachment });
        }
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.attachment = None;
            connection.giving_back = GivingBack::Begun;
            self.work.settle.insert(number);
        }
    }

    /// The user that a connection is attached for: whoever uses it, else whose it is.
    fn user_of(&self, number: u32) -> u32 {
        let connection = self.connections.get(&number);
        let user = connection.and_then(|connection| connection.user);
        let client = user.and_then(|user| self.clients.get(&user.client));
        let uid = client.map(|client| client.peer.uid);
        uid.or(connection.map(|connection| connection.uid))
            .unwrap_or(self.config.uid)
    }

    pub(super) fn begin(&mut self, number: u32, stage: Stage, ask: impl Into<AdapterAsk>) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.stage = stage;
            self.ask_for(number, ask);
        }
    }

    /// Tells the application of a connection that is to end that it has.
    fn tell_ended(&mut self, number: u32) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        if !connection.is_resting() {
            return;
        }
        if let (Some(reason), Some(user)) = (connection.ending, connection.user) {
            connection.user = None;
            self.unlink(user);
            self.tell(user, Indication::Ended(reason), Enclosed::Nothing);
        }
    }

    /// A permanent connection was given back.
    fn settle_owed(&mut self, number: u32) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let owed = connection.settle_owed();
        if !owed.is_empty() {
            connection.done = None;
            self.announce(number, Change::Changed);
        }
        for (asker, result) in owed {
            self.confirm(asker, result);
        }
    }

    /// Requests that waited for the connection to rest.
    fn resume_waiting(&mut self, number: u32) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        for (asker, request, capability) in core::mem::take(&mut connection.waiting) {
            self.dispatch(asker, request, capability);
        }
    }

    fn open_at_home(&mut self, number: u32, adapter: AdapterIndex) {
        match self.home_attachment(adapter) {
            Some(home) => self.open_at(number, home),
            None => self.ask_home(adapter),
        }
    }

    /// Asks for the server's own attachment, unless that was done.
    fn ask_home(&mut self, adapter: AdapterIndex) {
        if self.home(adapter) == Some(Home::None) {
            self.set_home(adapter, Some(Home::Asked));
            let sizes = self.config.attachment;
            let user = self.config.uid;
            self.ask(
                adapter,
                Pending::Home,
                Ask::Attach {
                    sizes,
                    user,
                    keep: true,
                },
            );
        }
    }

    /// A connection that is given back gets new memory first: whoever had it keeps the old one
    /// mapped. Until it is returned it counts as used, for a server that takes it up then. It is
    /// not closed on the way: at every moment the adapter keeps its record.
    fn renew(&mut self, number: u32, vc: VcId) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let Some(attached) = connection.attachment else {
            return;
        };
        let plan = &connection.plan;
        let at = connection.address.vc;
        let ask = Ask::Modify {
            vc,
            request: plan.request(at, connection.port.id, attached.index),
            region: Some(plan.region()),
            record: None,
        };
        let record = connection.record(plan, connection.clocks, Some(connection.gone), None);
        let ask = AdapterAsk::Keeper(ask, Some(record));
        self.begin(number, Stage::Renewing, ask);
    }

    fn give_back(&mut self, number: u32, vc: VcId) {
        let Some(connection) = self.connections.get(&number) else {
            return;
        };
        let adapter = connection.port.adapter;
        let Some(attachment) = self.home_attachment(adapter) else {
            return self.ask_home(adapter);
        };
        let ask = Ask::Reattach {
            vc,
            attachment,
            record: None,
        };
        let record = connection.record(&connection.plan, connection.clocks, None, None);
        let ask = AdapterAsk::Keeper(ask, Some(record));
        self.begin(number, Stage::Returning, ask);
    }

    /// The server's own attachment cannot be had.
    pub(super) fn fail_at_home(&mut self, number: u32, refusal: &AdapterRefusal) {
        let connection = self.connections.get_mut(&number);
        let Some(connection) = connection.filter(|connection| connection.is_resting()) else {
            return;
        };
        match connection.step() {
            Step::OpenAtHome => {
                self.fail_open(number, super::answers::refused(refusal.clone()));
            }
            Step::Return(_) => {
                connection.giving_back = GivingBack::Refused;
                self.work.settle.insert(number);
            }
            _ => {}
        }
    }

    fn open_at(&mut self, number: u32, attachment: AttachmentIndex) {
        let Some(receive_into) = self.receive_into(number) else {
            return self.lose_buffer(number);
        };
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        connection.told = Some(connection.share);
        let done = connection.opener.map(|asker| Done {
            id: asker.id,
            modified: None,
        });
        let plan = &connection.plan;
        connection.clocks = SlotClocks::begin(self.now, &plan.demand);
        let done = done.or(connection.done);
        let mut record = connection.record(plan, connection.clocks, connection.user, done);
        record.reopened = connection.opener.is_none() && connection.user.is_some();
        let mut request = plan.request(connection.address.vc, connection.port.id, attachment);
        if let (Some(receive), Some(share)) = (&mut request.receive, connection.share.receive)
            && self.bugs.planted(Planted::SharePoliced)
        {
            receive.rate = receive.rate.or(CellRate::new(share.cell_s() / 4));
        }
        let ask = Ask::Open {
            request,
            sizes: plan.sizes,
            receive_into,
            record: None,
        };
        let ask = AdapterAsk::Keeper(ask, Some(record));
        self.begin(number, Stage::Opening, ask);
    }

    /// Tells an application its share of best effort. It paces what the application sends by it;
    /// the adapter divides its lines by itself.
    fn tell_share(&mut self, number: u32) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let share = connection.share;
        connection.told = Some(share);
        self.work.settle.insert(number);
        let is_heard = connection.repeatable && self.bugs.planted(Planted::ShareNotTold);
        if let (Some(user), false) = (connection.user, is_heard) {
            let indication = Indication::Share {
                transmit: share.transmit,
                transmit_credit: connection.plan.credit(Direction::Transmit, share.transmit),
                receive: share.receive,
            };
            self.tell(user, indication, Enclosed::Nothing);
        }
        self.announce(number, Change::Changed);
    }

    fn remove(&mut self, number: u32) {
        let Some(mut connection) = self.connections.remove(&number) else {
            return;
        };
        let port = connection.port;
        if !self.bugs.planted(Planted::AddressKept) {
            self.addresses.remove(&(port, connection.address.vc));
        }
        if let Some(grant) = connection.grant.take()
            && !self.bugs.planted(Planted::GrantKept)
        {
            self.admission.release(grant);
        }
        if !self.bugs.planted(Planted::NotDividedAnew) {
            self.work.divide.insert(port);
        }
        if let Some(into) = connection.into {
            self.work.settle.insert(into);
        }
        self.work.freed = true;
        if connection.announced {
            let info = Box::new(connection.info());
            let change = Change::Removed;
            self.tell_monitors(&Indication::Connection { change, info });
        }
        if let Some(refused) = connection.loss() {
            self.tell_lost(&connection, refused);
        }
        for (asker, result) in connection.settle_owed() {
            self.confirm(asker, result);
        }
        for (asker, request, capability) in connection.waiting {
            self.dispatch(asker, request, capability);
        }
    }

    /// Divides what is not guaranteed on a port among best effort.
    pub(super) fn divide_rest(&mut self, port: On<PortIndex>) {
        let all = self.precedence_on(port);
        for connection in self.connections.values_mut().filter(|c| c.port == port) {
            let others = all.without(connection.plan.precedence());
            connection.others = connection.others.or(others);
        }
        for direction in [Direction::Transmit, Direction::Receive] {
            let on_port = self.connections.values_mut().filter(|c| c.port == port);
            let claiming = on_port.filter_map(|c| {
                let mut claim = c.plan.claim(direction)?;
                if self.bugs.planted(Planted::WeightForgotten) {
                    claim.weight = 1;
                }
                Some((claim, c))
            });
            let (claims, claiming): (Vec<Claim>, Vec<&mut Connection>) = claiming.unzip();
            let rest = self.admission.rest(port, direction);
            for (connection, cell_s) in claiming.into_iter().zip(divide(rest, &claims)) {
                let share = connection.plan.share(direction, cell_s);
                match direction {
                    Direction::Transmit => connection.share.transmit = share,
                    Direction::Receive => connection.share.receive = share,
                }
                if connection.told != Some(connection.share) {
                    self.work.settle.insert(connection.number);
                }
            }
        }
    }

    /// Offers the contracts that were refused where they would fit.
    pub(super) fn offer_growth(&mut self) {
        let mut fitting = Vec::new();
        if self.connections.values().all(|one| one.wanted.is_none()) {
            return;
        }
        let promised = self.promised();
        for connection in self.connections.values() {
            let Connection {
                wanted,
                user,
                vc,
                grant,
                ..
            } = connection;
            let (Some(contract), Some(user), Some(open), Some(held)) = (wanted, user, vc, grant)
            else {
                continue;
            };
            let port = connection.port;
            let with = self.circumstances(&connection.open, port, connection.worker);
            let plan = with.plan(contract);
            let plan = plan.and_then(|plan| with.keep_memory(plan, open.sizes));
            let fits = |plan: Plan| {
                let mut books = [&self.admission, &promised].into_iter();
                books.all(|books| books.check_change(held, &plan.demand).is_ok())
            };
            if connection.is_resting() && plan.is_ok_and(fits) {
                fitting.push((connection.number, *user, *contract));
            }
        }
        for (number, user, contract) in fitting {
            let text = contract.to_string();
            let id = self.invite(user, Indication::CanGrow { contract: text });
            if let Some(connection) = self.connections.get_mut(&number) {
                connection.wanted = None;
                connection.offered = Some((id, contract));
            }
            self.announce(number, Change::Changed);
        }
    }

    pub(super) fn report(&mut self, adapter: AdapterIndex, state: &AdapterState) {
        let now = self.now;
        let (mut losing, mut rated) = (Vec::new(), Vec::new());
        let connections = self.connections.values_mut();
        for connection in connections.filter(|one| one.port.adapter == adapter) {
            let vc = connection.vc.map(|open| open.vc);
            let Some(info) = state.vcs.iter().find(|info| Some(info.vc) == vc) else {
                continue;
            };
            connection.hear_stats(now, info.stats);
            let lost = &info.stats.pdus_discarded;
            match connection.user {
                None => connection.losses.pass(lost),
                Some(user) => {
                    let told = connection.losses.next(now, lost);
                    losing.extend(told.map(|told| (user, told)));
                    let told = connection.rates.next(now, info.stats.abr.as_ref());
                    rated.extend(told.map(|told| (connection.number, user, told)));
                }
            }
        }
        for (user, (reason, pdus)) in losing {
            let indication = Indication::Losing { reason, pdus };
            self.tell(user, indication, Enclosed::Nothing);
        }
        for (number, user, rate) in rated {
            self.tell(user, rate, Enclosed::Nothing);
            self.announce(number, Change::Changed);
        }
    }

    /// Whose attachments at an adapter these are.
    fn callers(&self, adapter: AdapterIndex, callers: &[(AttachmentIndex, u64)]) -> Vec<Caller> {
        let of = |(attachment, for_nothing): &(AttachmentIndex, u64)| {
            let mut connections = self.connections.values();
            let caller = connections.find(|one| {
                let at = one.attachment.map(|at| at.index);
                one.port.adapter == adapter && at == Some(*attachment)
            })?;
            Some(Caller {
                address: caller.address.clone(),
                uid: caller.uid,
                for_nothing: *for_nothing,
            })
        };
        callers.iter().filter_map(of).collect()
    }

    pub(super) fn assess(&mut self, adapter: AdapterIndex, health: &Health) {
        let Some(one) = self.adapters.get(adapter.place()) else {
            return;
        };
        let before = one.health.rests.as_ref();
        let late_before_ns = before.map_or(0, |rests| rests.late_longest_ns);
        let rests = health.rests.as_ref().map(|(rests, callers)| RestInfo {
            callers: self.callers(adapter, callers),
            late_longest_ns: rests.late_longest_ns.max(late_before_ns),
            ..rests.clone()
        });
        let one = &mut self.adapters[adapter.place()];
        one.health = AdapterInfo {
            seen_ns: Some(self.now.ns()),
            pid: health.pid,
            cpu_ns: health.cpu_ns,
            gaps: health.gaps,
            gaps_total_ns: health.gaps_total_ns,
            gap_longest_ns: one.health.gap_longest_ns.max(health.gap_ns),
            rests,
            histograms: health.histograms.clone(),
            ..AdapterInfo::default()
        };
        let longest = self.config.adapter(adapter).gap_max_ns;
        let late = (health.gap_ns > longest).then(|| {
            let gap_ns = health.gap_ns;
            format!("the adapter did not run for {gap_ns} ns; {longest} ns are allowed for")
        });
        let overdrawn = self.admission.overdrawn(adapter);
        let mut down = Vec::new();
        let mut dropping = Vec::new();
        let mut unsendable = Vec::new();
        for port in &health.ports {
            let mut all = self.interfaces.values_mut();
            let on = adapter.on(port.port);
            let Some(interface) = all.find(|interface| interface.port == on) else {
                continue;
            };
            let before = interface.dropped_cells.replace(port.dropped_cells);
            if before.is_some_and(|before| port.dropped_cells > before) {
                dropping.push(on);
            }
            if !port.up {
                down.push(on);
            }
            if let InterfaceState::CannotSend { reason } = &port.state {
                unsendable.push((on, reason.clone()));
            }
            interface.counts.clone_from(&port.counts);
            // How long a peer has been silent is no change.
            let is_other =
                core::mem::discriminant(&interface.state) != core::mem::discriminant(&port.state);
            interface.state.clone_from(&port.state);
            if interface.up != port.up || is_other {
                let name = interface.spec.name.clone();
                interface.up = port.up;
                self.announce_interface(&name, Change::Changed);
            }
        }
        let (mut told, mut changed, now) = (Vec::new(), Vec::new(), self.now);
        let connections = self.connections.values_mut();
        for connection in connections.filter(|one| one.port.adapter == adapter) {
            let receives = connection.plan.max_sdu(Direction::Receive).is_some();
            let reason = if down.contains(&connection.port) {
                Some("the link of its interface is down".to_owned())
            } else if receives && dropping.contains(&connection.port) {
                Some("cells of its interface were dropped before the adapter".to_owned())
            } else if let Some((_, why)) = unsendable
                .iter()
                .find(|(port, _)| *port == connection.port && connection.plan.sends())
            {
                Some(format!("its interface cannot send: {why}"))
            } else {
                late.clone().or_else(|| overdrawn.clone())
            };
            if !connection.plan.is_guaranteed() {
                connection.risk = None;
                continue;
            }
            let was = connection.risk.as_ref().is_some_and(|risk| risk.now);
            if was != reason.is_some() {
                changed.push(connection.number);
            }
            if let (Some(reason), Some(user), false) = (&reason, connection.user, was) {
                told.push((user, reason.clone()));
            }
            match (reason, &mut connection.risk) {
                (Some(reason), risk) => {
                    *risk = Some(RiskInfo {
                        reason,
                        seen_ns: now.ns(),
                        now: true,
                    });
                }
                (None, Some(risk)) => risk.now = false,
                (None, None) => {}
            }
        }
        for (user, reason) in told {
            self.tell(user, Indication::AtRisk { reason }, Enclosed::Nothing);
        }
        for number in changed {
            self.announce(number, Change::Changed);
        }
    }

    pub(super) fn lose_adapter(&mut self, adapter: AdapterIndex) {
        if let Some(one) = self.adapters.get_mut(adapter.place()) {
            one.replaced += u64::from(one.home.is_some());
            (one.home, one.health) = (None, AdapterInfo::default());
        }
        let of_it = |_: &Ticket, (of, _): &mut (AdapterIndex, Pending)| *of == adapter;
        let tickets: Vec<_> = self.tickets.extract_if(.., of_it).collect();
        for (_, (_, pending)) in tickets {
            if let Pending::Request(asker) | Pending::Loopback(asker, _) = pending {
                self.confirm(asker, Err(Refused::AdapterAway));
            }
        }
        self.lose_links(adapter);
        for client in self.clients.values_mut() {
            client.attachments.remove(&adapter);
        }
        self.work.freed = true;
        let connections = self.connections.values();
        let connections = connections.filter(|one| one.port.adapter == adapter);
        let numbers: Vec<_> = connections.map(|one| one.number).collect();
        for number in numbers {
            self.lose_connection(number);
        }
    }

    fn lose_connection(&mut self, number: u32) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        connection.vc = None;
        connection.attachment = None;
        if connection.into.is_some() {
            connection.ending.get_or_insert(EndReason::BufferGone);
        }
        connection.losses = Losses::default();
        connection.rates = Rates::default();
        connection.giving_back = GivingBack::Begun;
        connection.repeatable = false;
        let opens = connection.opener.is_some();
        self.work.settle.insert(number);
        self.work.divide.insert(connection.port);
        match core::mem::replace(&mut connection.stage, Stage::Resting) {
            Stage::Modifying(change) => {
                self.admission.release(change.more);
                self.confirm(change.asker, Err(Refused::AdapterAway));
            }
            Stage::Joining(asker) | Stage::Moving(asker, _) => {
                self.confirm(asker, Err(Refused::AdapterAway));
            }
            _ if opens => self.fail_open(number, Refused::AdapterAway),
            _ => {}
        }
    }

    /// An adapter is there, and nothing on it.
    pub(super) fn find_adapter(&mut self, adapter: AdapterIndex) {
        self.set_home(adapter, Some(Home::None));
        self.find_links(adapter);
        self.begin_reopening(adapter);
        self.work.settle.extend(self.connections.keys());
    }
}
