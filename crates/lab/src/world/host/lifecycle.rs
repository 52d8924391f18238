//! What a host opens and closes, and how its adapter dies and begins again.

use cellgate_core::adapter::{Notification, OpenRequest, Outcome, Refusal, Transmit, VcId};
use cellgate_core::contract::CellRate;

use super::change::GUEST;
use super::{Host, Opening, Ordered, board};
use crate::board::{LabCommand, LabCompletion};
use crate::judge::Judge;
use crate::memory::LabRegion;
use crate::mutants::LabAdapter;
use crate::world::Ps;
use crate::world::canary::Canary;
use crate::world::endpoint::{Client, Endpoint, Handles};
use crate::world::line::address_of;
use crate::world::net::Net;

impl Host {
    pub(super) fn attach(&mut self) {
        for client in 0..self.own_clients {
            let attachment = self.clients[client].memory.clone();
            let ticket = self.ticket(Ordered::Attach(client));
            self.clients[client].ticket = ticket;
            if let Some(judge) = &mut self.judge {
                judge.attaches(ticket, &attachment);
            }
            let command = LabCommand::Attach { ticket, attachment };
            self.order(ticket, command);
        }
    }

    pub(super) fn ticket(&mut self, ordered: Ordered) -> u64 {
        let ticket = self.tickets;
        self.tickets += 1;
        self.ordered.insert(ticket, ordered);
        ticket
    }

    /// Gives the adapter a command, or tries to: where its queue is full the host waits, and gives
    /// what has waited first.
    pub(super) fn order(&mut self, ticket: u64, command: LabCommand) {
        if self.full_until.is_none() {
            self.rests.is_ordered = true;
            return self.board.order(ticket, command);
        }
        self.counts.waited += 1;
        if self.options.canary != Some(Canary::CommandDropped) {
            self.waiting.push_back((ticket, command));
        }
    }

    /// The adapter's queue of commands is full until then.
    pub(crate) fn fill_queue(&mut self, until: Ps) {
        if !self.is_down {
            self.full_until = self.full_until.max(Some(until));
        }
    }

    /// It has room, unless it is full for longer.
    pub(crate) fn empty_queue(&mut self, now: Ps) {
        if self.full_until.is_some_and(|until| until <= now) {
            self.full_until = None;
            for (ticket, command) in std::mem::take(&mut self.waiting) {
                self.rests.is_ordered = true;
                self.board.order(ticket, command);
            }
        }
    }

    /// Opens a VC.
    pub(crate) fn open(&mut self, opening: Opening) {
        let region = LabRegion::for_request(opening.sizes, &opening.request);
        let request = opening.request;
        self.openings.insert(opening.connection, opening);
        let ticket = self.ticket(Ordered::Open(Box::new((opening, Handles::of(&region)))));
        if let Some(judge) = &mut self.judge {
            if opening.lawless {
                judge.let_go(ticket);
            }
            judge.opens(ticket, &request, opening.sizes, &region);
        }
        let mut command = LabCommand::Open {
            ticket,
            request,
            region,
        };
        if let (Some(bug), LabCommand::Open { request, .. }) = (self.options.canary, &mut command)
            && let Some(transmit) = &mut request.transmit
        {
            let line = self.ports[usize::from(request.port.0)].rate;
            sabotage(bug, transmit, line);
        }
        self.order(ticket, command);
    }

    /// Closes the VC of a connection.
    pub(crate) fn close(&mut self, connection: u32) {
        if let Some(vc) = self.by_connection.remove(&connection) {
            self.endpoints.remove(&vc);
            if self.changing.contains(&connection) {
                self.counts.put_off += 1;
                self.closing.insert(connection, false);
            }
            self.close_vc(connection, vc);
        }
    }

    /// Closes whatever its own clients have open.
    pub(crate) fn closes_all(&mut self, net: &mut Net) {
        let here = self.by_connection.keys().copied();
        let own = here.filter(|connection| !self.serves(*connection));
        let mut open: Vec<u32> = own.collect();
        if self.options.canary == Some(Canary::CloseForgotten) {
            open.pop();
        }
        for connection in open {
            self.close(connection);
        }
        self.wakes(net.now, net);
    }

    pub(super) fn close_vc(&mut self, connection: u32, vc: VcId) {
        let ticket = self.ticket(Ordered::Close(connection, vc));
        if let Some(judge) = &mut self.judge {
            judge.closes(ticket, vc);
        }
        self.order(ticket, LabCommand::Close { ticket, vc });
    }

    /// Opens again what was closed, if nobody has yet.
    pub(crate) fn reopen(&mut self, connection: u32) {
        let opens = |ordered: &Ordered| match ordered {
            Ordered::Open(opened) => opened.0.connection == connection,
            _ => false,
        };
        if let Some(opens) = self.closing.get_mut(&connection) {
            *opens = true;
            return;
        }
        let is_open = self.by_connection.contains_key(&connection)
            || self.ordered.values().any(opens)
            || self.is_down;
        if let Some(opening) = self.openings.get(&connection).filter(|_| !is_open) {
            self.open(*opening);
        }
    }

    /// The adapter dies, and all that it knew.
    pub(crate) fn crash(&mut self) {
        self.counts.buried += self.waiting();
        self.is_down = true;
        self.full_until = None;
        self.waiting.clear();
        self.endpoints.clear();
        self.by_connection.clear();
        self.ordered.clear();
        self.changing.clear();
        self.answered.clear();
        self.guests.clear();
        self.liars_vcs.clear();
        self.left.clear();
        self.closing.clear();
    }

    /// Another adapter begins, and its clients open everything again.
    pub(crate) fn restart(&mut self, net: &mut Net) -> Result<(), Refusal> {
        let now = net.now;
        let next = LabAdapter::new(self.config.clone(), self.time(now))?;
        for wires in &self.ports {
            while let Some(flying) = net.lines[wires.input].take(now) {
                self.counts.overflowed += 1;
                let address = address_of(&flying.octets);
                *self.overflowed.entry(address).or_default() += 1;
            }
        }
        self.past.push(*self.adapter.stats());
        self.book.is_lost();
        self.available.is_lost();
        self.adapter = next;
        self.closed.clear();
        self.board = board(&self.config, self.options);
        if self.follows_abr {
            self.board.tell_received();
        }
        self.watch = self.watch.of_next();
        self.rests.forget();
        let time = self.time(now);
        self.judged = self.judged_cells();
        self.judge = (self.options.reference).then(|| Judge::new(&self.config, time));
        let event_slots = self.spec.event_slots;
        for client in &mut self.clients {
            let (is_woken, is_lawless) = (client.is_woken, client.is_lawless);
            *client = Client::new(event_slots);
            (client.is_woken, client.is_lawless) = (is_woken, is_lawless);
        }
        self.is_down = false;
        self.steps.begin_anew(now);
        self.attach();
        for opening in self.openings.clone().into_values() {
            self.open(opening);
        }
        Ok(())
    }

    pub(super) fn completed(&mut self, (completion, now): (&LabCompletion, Ps), net: &mut Net) {
        let ticket = completion.ticket;
        let ordered = self.ordered.remove(&ticket);
        let time = self.time(now);
        if let Some(Ordered::Modify(changing)) = &ordered {
            self.changing.remove(&changing.opening.connection);
        }
        match (ordered, &completion.result) {
            (Some(Ordered::Attach(client)), Ok(Outcome::Attached(index))) => {
                self.clients[client].index = Some(*index);
            }
            (Some(Ordered::Open(opened)), Ok(Outcome::Vc(vc))) => {
                let (opening, handles) = *opened;
                self.watch.opens(*vc, &opening.request);
                self.book.opens(time, &opening.request);
                if self.follows_abr {
                    let request = &opening.request;
                    let output = self.ports[usize::from(request.port.0)].output;
                    let cell_ns = net.lines[output].cell().times(1).ns();
                    let turn_ns = self.spec.step_ns.max(cell_ns);
                    self.available.opens(opening.connection, request, turn_ns);
                }
                self.by_connection.insert(opening.connection, *vc);
                self.add_endpoint(&opening, *vc, ticket, &handles);
            }
            (Some(Ordered::Modify(changing)), Ok(Outcome::Vc(vc))) => {
                self.modified(*changing, *vc, ticket);
            }
            // It was closed meanwhile.
            (Some(Ordered::Modify(changing)), Err(Refusal::StaleVc)) => {
                self.change_ended(changing.opening.connection);
            }
            (Some(Ordered::CloseInVain), Err(Refusal::StaleVc)) => {}
            (Some(Ordered::Guest { stays }), Ok(Outcome::Vc(vc))) => {
                self.counts.guests += 1;
                if stays {
                    self.guests.push(*vc);
                } else {
                    self.close_vc(GUEST, *vc);
                }
            }
            (Some(Ordered::Guest { .. }), Err(Refusal::NoVc | Refusal::NoLeaf)) => {
                self.counts.turned_away += 1;
            }
            // Somebody else has taken its place, and will go.
            (Some(Ordered::Open(opened)), Err(Refusal::NoVc)) if self.has_guests() => {
                self.open(opened.0);
            }
            // It was closed meanwhile, or changed to take none.
            (Some(Ordered::Lend), Err(Refusal::StaleVc | Refusal::BadParameter)) => {}
            (Some(Ordered::Close(connection, _)), Ok(Outcome::Closed(info))) => {
                self.watch.closes(&info.request);
                self.book.closes(time, info);
                let wrong = self.available.closes(info);
                self.abr_is_wrong(now, wrong, net);
                self.closed.push((connection, info.clone()));
            }
            (Some(Ordered::Asked(asked)), _) => self.asked_for(asked, completion),
            (_, Err(refusal)) => self.refusals.push(*refusal),
            _ => {}
        }
    }

    pub(super) fn add_endpoint(
        &mut self,
        opening: &Opening,
        vc: VcId,
        ticket: u64,
        handles: &Handles,
    ) {
        let whose = (opening.connection, opening.client);
        let aal = opening.request.aal;
        let mut endpoint = Endpoint::new(whose, vc, ticket, handles, aal);
        endpoint.is_lawless = opening.lawless;
        if opening.lawless && opening.request.transmit.is_some() {
            self.watch.is_lied_to(opening.request.port);
        }
        endpoint.is_told = is_told(&opening.request) && !opening.lawless;
        self.endpoints.insert(vc, endpoint);
    }
}

/// Has a VC sent otherwise than was asked for: a bug on purpose.
fn sabotage(bug: Canary, transmit: &mut Transmit, line: CellRate) {
    match (bug, transmit.rate) {
        (Canary::ShaperHurries, Some(rate)) => transmit.rate = CellRate::new(2 * rate.cell_s()),
        (Canary::RestWithheld, None) => transmit.peak = CellRate::new(line.cell_s() / 8),
        _ => {}
    }
}

/// Whether events tell of every PDU, sooner or later.
pub(super) fn is_told(request: &OpenRequest) -> bool {
    let receive = request.receive.as_ref();
    receive.is_some_and(|receive| tells_of_all(receive.notification))
}

/// The same of a notification.
pub(crate) fn tells_of_all(notification: Notification) -> bool {
    match notification {
        Notification::EveryCell | Notification::LastCell | Notification::FirstAndLastCell => true,
        Notification::Silent {
            longest_delay_ns, ..
        } => longest_delay_ns < u64::MAX,
        Notification::FirstCell | Notification::Polled => false,
    }
}

#[cfg(test)]
mod tests {
    use cellgate_core::adapter::AdapterStats;
    use cellgate_core::wire::VpiVci;

    use crate::world::scenario::{
        ConnectionSpec, FaultSpec, HostSpec, LinkSpec, Scenario, SourceSpec, Traffic,
    };
    use crate::world::{Options, Ps, World};

    /// A stream that fills the line to a host.
    fn stream() -> Scenario {
        Scenario {
            duration_ns: 10_000_000,
            hosts: ["a", "b"].map(HostSpec::named).into(),
            links: vec![LinkSpec::between("a", "b")],
            connections: vec![ConnectionSpec::between(
                "one",
                ["a", "b"],
                VpiVci::new(0, 32).unwrap_or_default(),
                "ubr,aal5:max_sdu=400",
            )],
            sources: vec![SourceSpec::on("one", Traffic::Greedy, &[400])],
            ..Scenario::default()
        }
    }

    fn after(scenario: &Scenario) -> World {
        let mut world = World::new(scenario, Options::default()).expect("a world");
        world.run();
        world
    }

    #[test]
    fn of_lost_cells_a_host_keeps_each_address_once() {
        let mut scenario = stream();
        scenario.hosts[1].fifo_cells = 1;
        let host = &after(&scenario).hosts[1];
        assert!(host.counts.overflowed > 1_000, "{:?}", host.counts);
        assert_eq!(host.overflowed.len(), 1);
    }

    #[test]
    fn of_dead_adapters_a_host_keeps_what_they_counted() {
        let mut scenario = stream();
        scenario.faults = (1..=3)
            .map(|n| FaultSpec::AdapterCrash {
                host: "b".into(),
                at_ns: n * 2_000_000,
                for_ns: 100_000,
            })
            .collect();
        let stats = after(&scenario).hosts[1].reports(Ps::ZERO).stats;
        assert_eq!(stats.len(), 4);
        let received = |stats: &AdapterStats| stats.cells_received > 100;
        assert!(stats.iter().all(received), "{stats:?}");
    }
}
