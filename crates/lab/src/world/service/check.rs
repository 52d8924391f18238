//! What must hold of servers: books, refusals, take-up, and that nothing is left.

use std::collections::BTreeMap;

use cellgate_core::adapter::{PortIndex, VcId};
use cellgate_core::contract::{CellRate, ServiceCategory, TrafficContract};
use cellgate_core::keeper::Ask;
use cellgate_core::server::{
    AdapterAsk, AdapterIndex, Address, ClientId, ConnectionInfo, Direction, FromClient, FromServer,
    On, Opened, Output, Refused, Request, Resource, Shortage,
};

use super::ServerBug;
use super::application::{Application, Asked};
use super::daemon::{Books, Offered, Parcel, Served, ServerOutcome, to_server};
use super::process::KeptVc;
use super::setup::{SERVER_UID, address_at, interface_name};
use crate::world::host::Host;
use crate::world::net::Net;

/// Cells per second that a VC guarantees each way at the adapter. What is received without a rate,
/// its buffer being its only police, has what is reserved for it; at a higher rate than its line's,
/// all of the line.
fn guaranteed(kept: &KeptVc, line: u64) -> [u64; 2] {
    let request = &kept.request;
    let transmit = request.transmit.and_then(|transmit| transmit.rate);
    let receive = request.receive.filter(|receive| receive.guaranteed);
    let receive = receive.map_or(0, |receive| {
        let sustained = receive.sustained.map(|sustained| sustained.rate);
        let rate = sustained.or(receive.rate);
        let reserved = kept.record.demand.receive.guaranteed;
        rate.map_or(reserved, |rate| rate.cell_s().into()).min(line)
    });
    [transmit.map_or(0, |rate| rate.cell_s().into()), receive]
}

const WAYS: [&str; 2] = ["transmit", "receive"];

impl Served {
    /// What of a line's cells per second can be promised.
    fn capacity(&self, cell_s: u64) -> u64 {
        cell_s - (cell_s * u64::from(self.spec.best_effort_percent)).div_ceil(100)
    }

    /// I15, at the adapter: what its VCs guarantee and take is there. What is wrong, if anything.
    fn beyond_capacity(&self, lines: &[u64]) -> Option<String> {
        let mut users: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
        let mut ports = vec![[0; 2]; lines.len()];
        let mut octets = 0;
        for kept in self.process.vcs.values() {
            let port = usize::from(kept.request.port.0);
            let rates = guaranteed(kept, lines[port]);
            let user = users.entry(kept.record.uid).or_default();
            for way in 0..2 {
                ports[port][way] += rates[way];
                user[way] += rates[way];
            }
            octets += u64::from(kept.sizes.receive_len) + u64::from(kept.sizes.transmit_len);
        }
        for (port, (sums, line)) in ports.iter().zip(lines).enumerate() {
            for (way, sum) in WAYS.iter().zip(sums) {
                let capacity = self.capacity(*line);
                if *sum > capacity {
                    return Some(format!("port {port}: {way} {sum} cells/s of {capacity}"));
                }
            }
        }
        let quota = match self.spec.quota_cell_s {
            0 => u64::MAX,
            cell_s => cell_s,
        };
        let bound = users
            .iter()
            .filter(|(uid, _)| ![0, SERVER_UID].contains(*uid));
        for (uid, sums) in bound {
            if let Some(sum) = sums.iter().find(|sum| **sum > quota) {
                return Some(format!("user {uid}: {sum} cells/s of {quota}"));
            }
        }
        if octets > self.spec.memory {
            return Some(format!("{octets} octets of {}", self.spec.memory));
        }
        let (count, most) = (self.process.vcs.len(), self.spec.connections);
        (count > most as usize).then(|| format!("{count} connections of {most}"))
    }

    /// I15, I19: the books say what the adapter has. What is wrong, if anything.
    fn out_of_books(&self, applications: &[Application]) -> Option<String> {
        let server = self.server.as_ref()?;
        let list: Vec<ConnectionInfo> = server.connections().collect();
        if list.len() != self.process.vcs.len() {
            let (books, adapter) = (list.len(), self.process.vcs.len());
            return Some(format!("{books} connections in the books, {adapter} VCs"));
        }
        let mut sums: BTreeMap<PortIndex, [u64; 2]> = BTreeMap::new();
        for info in &list {
            let mut vcs = self.process.vcs.iter();
            let found = vcs.find(|(_, kept)| {
                let port = usize::from(kept.request.port.0);
                let interface = info.address.interface.as_ref();
                kept.request.address == info.address.vc && interface == Some(&interface_name(port))
            });
            let address = &info.address;
            let Some((vc, kept)) = found else {
                return Some(format!("{address} is in the books, and no VC"));
            };
            let line = self.line_of(kept.request.port);
            let sum = sums.entry(kept.request.port).or_default();
            for (way, rate) in [info.transmit, info.receive].iter().enumerate() {
                let rate = rate.filter(|_| info.guaranteed);
                let rate = rate.map_or(0, |rate| u64::from(rate.cell_s()));
                let has = guaranteed(kept, line)[way];
                if rate != has {
                    let way = WAYS[way];
                    return Some(format!(
                        "{address}: {way} {rate} in the books, {has} cells/s"
                    ));
                }
                sum[way] += rate;
            }
            if let Some(text) = self.is_nobodys(info, *vc, applications) {
                return Some(text);
            }
        }
        let rates = self.interfaces.iter().filter_map(|one| one.line_rate);
        let lines: Vec<u64> = rates.map(|rate| rate.cell_s().into()).collect();
        let unbalanced = self.unbalanced(&list, &sums);
        unbalanced.or_else(|| self.shared_wrong(&list, &lines))
    }

    /// Whether a connection that is in use is used by nobody, or in memory of an adapter that has
    /// died: its application was not told of the next.
    fn is_nobodys(
        &self,
        info: &ConnectionInfo,
        vc: VcId,
        applications: &[Application],
    ) -> Option<String> {
        let pid = info.pid?;
        let uses = |n: &usize| {
            let one = &applications[*n];
            let is_of_this = |(life, _)| life == self.adapter_life;
            one.held.as_ref().is_some_and(|held| held.vc == vc) && one.mapped.is_none_or(is_of_this)
        };
        let is_used = self.clients.values().any(uses);
        let address = &info.address;
        (!is_used).then(|| format!("{address} is said to be used by process {pid}, and is not"))
    }

    /// Cells per second of an interface.
    fn line_of(&self, port: PortIndex) -> u64 {
        let interface = self.interfaces.get(usize::from(port.0));
        let line = interface.and_then(|one| one.line_rate);
        line.map_or(0, |rate| rate.cell_s().into())
    }

    /// Whether a refusal tells of less than will be free when what is being closed has gone.
    fn tells_too_little(&self, shortage: &Shortage) -> Option<String> {
        let server = self.server.as_ref()?;
        let of_world = shortage.quota.is_none() && shortage.limit.is_none();
        if !of_world || server.awaiting() > 0 || self.interfaces.len() != 1 {
            return None;
        }
        let all = server.admission().resources(|_| None, |_| None);
        let row = all.iter().find(|one| one.resource == shortage.resource)?;
        let closing = server
            .connections()
            .filter(|info| server.is_closing(info.number));
        let rate = |rate: Option<CellRate>, info: &ConnectionInfo| {
            let rate = rate.filter(|_| info.guaranteed);
            rate.map_or(0, |rate| u64::from(rate.cell_s()))
        };
        let back = closing.map(|info| match row.resource {
            Resource::TransmitBandwidth => rate(info.transmit, &info),
            Resource::ReceiveBandwidth => rate(info.receive, &info),
            Resource::Memory => info.memory,
            Resource::AdapterCpu => info.cpu_reserved_ppm.into(),
            Resource::Connections => 1,
            Resource::WorkerCpu => 0,
        });
        let due = row.capacity.saturating_sub(row.reserved) + back.sum::<u64>();
        // Each connection of best effort keeps a cell per second.
        let mut counts = all.iter();
        let kept = counts.find(|one| one.resource == Resource::Connections);
        let kept = kept.map_or(0, |one| one.reserved);
        (shortage.free + kept < due).then(|| format!("{shortage}, and {due} will be"))
    }

    /// Whether what is reserved is not the sum of what was promised.
    fn unbalanced(
        &self,
        list: &[ConnectionInfo],
        sums: &BTreeMap<PortIndex, [u64; 2]>,
    ) -> Option<String> {
        let server = self.server.as_ref()?;
        let port_of = |name: &str| {
            let port = self.interfaces.iter().position(|one| one.name == name);
            PortIndex(port.unwrap_or(0) as u8)
        };
        let interface =
            |port: On<PortIndex>| Some(self.interfaces.get(usize::from(port.id.0))?.name.as_str());
        for one in server.admission().resources(interface, |_| None) {
            let on_port = one.interface.as_deref().map(port_of);
            let sum = on_port
                .and_then(|port| sums.get(&port))
                .copied()
                .unwrap_or_default();
            let due = match one.resource {
                Resource::TransmitBandwidth => sum[0],
                Resource::ReceiveBandwidth => sum[1],
                Resource::Memory => list.iter().map(|info| info.memory).sum(),
                Resource::AdapterCpu => list.iter().map(|c| u64::from(c.cpu_reserved_ppm)).sum(),
                Resource::Connections => list.len() as u64,
                Resource::WorkerCpu => 0,
            };
            if one.reserved != due {
                let (resource, reserved) = (one.resource, one.reserved);
                return Some(format!("{resource}: {reserved} reserved, {due} promised"));
            }
        }
        for (port, sum) in sums {
            for (direction, sum) in [Direction::Transmit, Direction::Receive].iter().zip(sum) {
                let line = self.line_of(*port);
                let rest = server
                    .admission()
                    .rest(AdapterIndex::FIRST.on(*port), *direction);
                if rest + sum != line {
                    return Some(format!("{port:?}: {sum} promised, {rest} left of {line}"));
                }
            }
        }
        None
    }
}

impl Host {
    pub(super) fn breaks(&self, invariant: &str, text: &str, net: &mut Net) {
        let name = &self.spec.name;
        net.violate(invariant, format!("server of {name}: {text}"));
    }

    /// The books of a host's server.
    pub(super) fn books(&self) -> Option<Books> {
        let server = self.served.as_ref()?.server.as_ref()?;
        Some(server.promised())
    }

    /// I15: no more is promised than there is.
    pub(super) fn promises_fit(&mut self, net: &mut Net) {
        let server = self.served.as_ref().and_then(|one| one.server.as_ref());
        let Some(server) = server else { return };
        let mut all = server.admission().resources(|_| None, |_| None);
        let memory = all.iter().find(|one| one.resource == Resource::Memory);
        let memory = memory.map_or(0, |one| one.reserved);
        let before = self
            .served
            .as_mut()
            .map(|served| std::mem::replace(&mut served.memory.promised, memory));
        // What is promised stays promised where a limit is lowered.
        all.retain(|one| one.resource != Resource::Memory || Some(memory) > before);
        if let Some(one) = all.iter().find(|one| one.reserved > one.capacity) {
            let (resource, reserved, capacity) = (one.resource, one.reserved, one.capacity);
            self.breaks("I15", &format!("{resource}: {reserved} of {capacity}"), net);
        }
    }

    /// I15: the adapter guarantees no more than there is.
    pub(super) fn guarantees_fit(&mut self, net: &mut Net) {
        let lines = self.lines();
        let served = self.served.as_ref();
        if let Some(text) = served.and_then(|served| served.beyond_capacity(&lines)) {
            self.breaks("I15", &format!("its adapter has {text}"), net);
        }
    }

    /// Cells per second of each port's line.
    fn lines(&self) -> Vec<u64> {
        let rates = self.rates().into_iter();
        rates.map(|rate| rate.cell_s().into()).collect()
    }

    /// I15: a refusal leaves no trace, and what it offers would fit.
    pub(super) fn judge_refusal(
        &mut self,
        client: ClientId,
        asked: &FromClient,
        before: &Books,
        outputs: &[Output],
        net: &mut Net,
    ) {
        let [
            Output::Client {
                message:
                    FromServer::Confirm {
                        id: confirmed,
                        result: Err(refused),
                    },
                ..
            },
        ] = outputs
        else {
            return;
        };
        let FromClient::Request { id, request } = asked else {
            return;
        };
        if id != confirmed {
            return;
        }
        let Some(served) = &self.served else {
            return;
        };
        if self.books().as_ref() != Some(before) {
            let text = format!("{request:?} was refused and left a trace: {refused}");
            return self.breaks("I15", &text, net);
        }
        if let (Refused::AddressInUse, Request::Open(open) | Request::Add(open)) =
            (refused, request)
            && served.is_free(&open.address)
        {
            let text = format!("{} is refused as taken, and is not", open.address);
            return self.breaks("I15", &text, net);
        }
        let Refused::Admission(shortage) = refused else {
            return;
        };
        if let Some(text) = served.tells_too_little(shortage) {
            return self.breaks("I15", &text, net);
        }
        let (text, changes) = match request {
            Request::Open(open) => (&open.contract, false),
            Request::Modify { contract } => (contract, true),
            _ => return,
        };
        if changes && self.asks_no_more(served, client, text, shortage.resource) {
            let text = format!("{text} asks for no more than there was: {shortage}");
            return self.breaks("I15", &text, net);
        }
        let canonical = |text: &str| {
            let contract = text.parse::<TrafficContract>().ok();
            contract.map(|contract| contract.to_string())
        };
        let Some(served) = &mut self.served else {
            return;
        };
        let offered = served.offered.remove(&client);
        let is_broken = offered.is_some_and(|offered| {
            let same = Some(offered.contract) == canonical(text) && offered.changes == changes;
            same && offered.life == served.life && offered.books == *before
        });
        if let Some(contract) = shortage.offer.as_deref().and_then(canonical) {
            served.counts.offered += 1;
            let offered = Offered {
                contract,
                changes,
                books: before.clone(),
                life: served.life,
            };
            served.offered.insert(client, offered);
        }
        if is_broken {
            let text = format!("it offered {text} and refuses it: {shortage}");
            self.breaks("I15", &text, net);
        }
    }

    /// Whether a change keeps to what its connection is guaranteed of a line already.
    fn asks_no_more(&self, served: &Served, client: ClientId, text: &str, of: Resource) -> bool {
        let Some(application) = served.clients.get(&client) else {
            return false;
        };
        let Application { port, address, .. } = self.applications[*application];
        let address = address_at(port, address);
        let server = served.server.as_ref();
        let mut all = server.into_iter().flat_map(|server| server.connections());
        let Some(info) = all.find(|info| info.address == address && info.guaranteed) else {
            return false;
        };
        let Ok(asked) = text.parse::<TrafficContract>() else {
            return false;
        };
        let (asked, has) = match of {
            Resource::TransmitBandwidth => (asked.transmit, info.transmit),
            Resource::ReceiveBandwidth => (asked.receive, info.receive),
            _ => return false,
        };
        let line = CellRate::new(served.line_of(PortIndex(port as u8)) as u32);
        match (asked, has, line) {
            (Some(asked), Some(has), Some(line)) => asked.sustained(line) <= has,
            _ => false,
        }
    }

    /// I19: what an application uses is not closed behind its back.
    pub(super) fn is_not_in_use(&mut self, ask: &AdapterAsk, net: &mut Net) {
        let AdapterAsk::Keeper(Ask::Close { vc }, _) = ask else {
            return;
        };
        let Some(served) = &self.served else {
            return;
        };
        let uses = |n: &&usize| {
            let one = &self.applications[**n];
            // What it holds of an adapter that has died has the same names.
            one.held
                .as_ref()
                .is_some_and(|held| held.vc == *vc && held.in_use)
                && self.holders.get(&one.connection) == Some(*n)
                && one.client.is_some()
                && !one.program.is_closing()
                && !served.deleted.contains(&one.connection)
        };
        if let Some(n) = served.clients.values().find(uses) {
            let name = &self.applications[*n].spec.name;
            let text = format!("it closes {vc:?}, which application {name} uses");
            self.breaks("I19", &text, net);
        }
    }

    /// I19: what applications have is opened again in order: what is guaranteed comes first, then
    /// what is permanent, then what is older.
    pub(super) fn is_in_order(&mut self, ask: &AdapterAsk, net: &mut Net) {
        let AdapterAsk::Keeper(Ask::Open { .. }, Some(record)) = ask else {
            return;
        };
        let Some(served) = &mut self.served else {
            return;
        };
        // Those who wait for memory, or are suspected after a second death, come later.
        let is_plain = !served.memory.are_some() && served.adapter_life < 2;
        if !record.reopened || !is_plain {
            return;
        }
        let contract = record.open.contract.parse::<TrafficContract>();
        let category = contract.map(|contract| contract.category);
        let is_best_effort = category == Ok(ServiceCategory::Ubr);
        let place = (is_best_effort, !record.permanent, record.number);
        let before = served.again.last.replace(place);
        if before.is_some_and(|before| before >= place) {
            let text = format!("{} is opened again after what comes later", record.address);
            self.breaks("I19", &text, net);
        }
    }

    /// I15: what was opened is what was asked for.
    pub(super) fn is_what_was_asked(&mut self, asked: &Asked, opened: &Opened, net: &mut Net) {
        let Some(Request::Open(open)) = &asked.request else {
            return;
        };
        let wanted = open.contract.parse::<TrafficContract>();
        let same = wanted.is_ok_and(|wanted| wanted.to_string() == opened.contract);
        if !same || opened.address != open.address {
            let (asked, got) = (&open.contract, &opened.contract);
            self.breaks("I15", &format!("asked for {asked}, opened {got}"), net);
        }
    }

    /// I19: an application hears no name that its VC does not have.
    pub(super) fn is_fresh(&mut self, opened: &Opened, vc: VcId, net: &mut Net) {
        if opened.vc != vc {
            let text = format!("it speaks of {:?}, its files are of {vc:?}", opened.vc);
            self.breaks("I19", &text, net);
        }
    }

    /// When nothing is under way the books say what the adapter has.
    pub(super) fn audit_at_rest(&mut self, net: &mut Net) {
        let Some(served) = &mut self.served else {
            return;
        };
        let server = served.server.as_ref();
        let is_busy = server.is_none_or(|server| server.is_reopening())
            || !served.is_adapter_up
            || served.process.waiting() > 0
            || served.under_way() > 0;
        if is_busy {
            return;
        }
        served.counts.audits += 1;
        net.log.seen.has(&served.process);
        if let Some(text) = served.out_of_books(&self.applications) {
            self.breaks("I15", &text, net);
        }
    }

    /// What must hold of its server when nothing happens any more and everything is open still.
    pub(crate) fn service_is_right(&mut self, net: &mut Net) {
        for one in &self.applications {
            if let Some(asked) = one.asked.as_ref().filter(|asked| asked.id.is_some()) {
                let (name, request) = (&one.spec.name, &asked.request);
                let text = format!("application {name}: {request:?} was never confirmed");
                net.violate("I18", text);
            }
        }
        self.audit_at_rest(net);
        if let Some(served) = &self.served {
            if let Some(text) = served.shares_unheard(&self.applications) {
                self.breaks("I15", &text, net);
            }
            if let Some(text) = served.places.left_wrong() {
                self.breaks("I19", text, net);
            }
        }
        for (n, one) in self.applications.iter().enumerate() {
            let uses = one.held.as_ref().is_some_and(|held| held.in_use);
            if uses && self.holders.get(&one.connection) != Some(&n) {
                let name = &one.spec.name;
                let text = format!("application {name}: its connection was not opened again");
                net.violate("I19", text);
            }
        }
    }

    /// Applications go, one way or the other, and what is permanent is deleted.
    pub(crate) fn ends_service(&mut self, net: &mut Net) {
        for n in 0..self.applications.len() {
            self.applications[n].later.clear();
            let Some(client) = self.applications[n].client else {
                continue;
            };
            let has_one = self.applications[n].held.is_some();
            self.stops_using(n, net);
            self.lets_go(n, net);
            if has_one && self.applications[n].number.is_multiple_of(2) {
                self.request(n, Request::Close, None, net);
            } else {
                self.applications[n].forgets();
                self.post(to_server(client), Parcel::HangUp, net);
            }
        }
        let served = self.served.as_ref();
        let server = served.and_then(|served| served.server.as_ref());
        let all = server.into_iter().flat_map(|server| server.connections());
        let permanent = all.filter(|info| info.permanent);
        let permanent: Vec<Address> = permanent.map(|info| info.address).collect();
        for address in permanent {
            self.operator_asks(Request::Delete { address }, net);
        }
    }

    /// I12: nothing is open, promised or attached.
    pub(crate) fn service_is_left_clean(&self, net: &mut Net) {
        let Some(served) = &self.served else {
            return;
        };
        let mut wrong = |text: String| self.breaks("I12", &text, net);
        let (vcs, clients) = (served.process.vcs.len(), served.process.attachments.len());
        if vcs > 0 || clients > 1 {
            return wrong(format!("{vcs} VCs and {clients} attachments are left"));
        }
        let (config, uid) = (served.config.admission.clone(), served.config.uid);
        let bug = self.options.server_bug.and_then(ServerBug::inside);
        let mut empty = Books::with_bugs(config, uid, bug);
        for (port, one) in served.interfaces.iter().enumerate() {
            let rate = one.line_rate.map_or(0, |rate| rate.cell_s());
            empty.add_line(AdapterIndex::FIRST.on(PortIndex(port as u8)), rate);
        }
        let Some(server) = &served.server else {
            return wrong("there is none".into());
        };
        if *server.admission() != empty {
            return wrong(format!("promised still: {:?}", server.admission()));
        }
        if let Some(info) = server.connections().next() {
            wrong(format!("{} is left", info.address));
        }
    }

    /// Its server in numbers, if it has one.
    pub(crate) fn server_outcome(&self) -> Option<ServerOutcome> {
        let mut counts = self.served.as_ref()?.counts;
        for one in &self.applications {
            counts.requests += one.counts.requests;
            counts.confirmed += one.counts.confirmed;
            counts.refused += one.counts.refused;
            counts.suspended += one.counts.suspended;
        }
        Some(counts)
    }
}
