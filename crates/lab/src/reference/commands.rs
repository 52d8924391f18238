//! What commands must bring.

use std::collections::{BTreeMap, VecDeque};

use cellgate_core::adapter::{
    Aal, AdapterState, Command, Config, Discard, Excess, Interleaving, OpenRequest, Outcome,
    PortIndex, Refusal, VcId, VcInfo,
};
use cellgate_core::contract::CellRate;
use cellgate_core::wire::HeaderForm;

use super::aal34::{Interleaved, cells_of_sdu};
use super::policer::Buckets;
use super::{Client, RefStats, Reference, State, Vc, oam};
use crate::memory::RegionSizes;
use crate::plan::Order;

impl Reference {
    /// A command ended with `result`; what is wrong about that, if anything. `vc` is the VC that
    /// the order named.
    pub(crate) fn completed(
        &mut self,
        ticket: u64,
        order: &Order,
        vc: Option<VcId>,
        result: &Result<Outcome, Refusal>,
    ) -> Option<String> {
        let difference = match self.loopback_completed(ticket, result) {
            Some(difference) => difference,
            None => self.ended(ticket, order, vc, result),
        };
        self.settle_paths();
        difference
    }

    fn ended(
        &mut self,
        ticket: u64,
        order: &Order,
        vc: Option<VcId>,
        result: &Result<Outcome, Refusal>,
    ) -> Option<String> {
        let refusals = self.refusals(ticket, order, vc);
        self.pending.retain(|_, waiting| waiting.0 != ticket);
        let outcome = match result {
            Err(refusal) if refusals.contains(refusal) => return None,
            Err(refusal) => return Some(format!("refused: {refusal}; expected {refusals:?}")),
            Ok(_) if !refusals.is_empty() => {
                return Some(format!("carried out; expected one of {refusals:?}"));
            }
            Ok(outcome) => outcome,
        };
        let index = vc.map(|vc| vc.index.0);
        match (order, outcome, index) {
            (Order::Configure(port, config), Outcome::Done, _) => {
                self.config.ports[usize::from(port.0)] = *config;
                None
            }
            (Order::Attach(event_slots, _), Outcome::Attached(at), _) => {
                if at.0 >= self.config.attachments || self.clients.contains_key(&at.0) {
                    return Some(format!("{at:?} is not free"));
                }
                let client = Client {
                    event_slots: u64::from(*event_slots),
                    events: 0,
                    silent: 0,
                    silent_deadline_ns: None,
                    interrupts: Vec::new(),
                    guaranteed: false,
                    queued: VecDeque::new(),
                    lost: 0,
                };
                self.clients.insert(at.0, client);
                None
            }
            (Order::Detach(at), Outcome::Done, _) => {
                let client = self.clients.remove(&at.0);
                self.detached = client.map(|client| (at.0, client.interrupts));
                None
            }
            (Order::Open(request, sizes), Outcome::Vc(id), _) => {
                self.open(ticket, *id, *request, *sizes)
            }
            (Order::Modify(_, request, sizes), Outcome::Vc(id), Some(index)) => {
                self.modify(ticket, index, *id, *request, *sizes)
            }
            (Order::Close(_), Outcome::Closed(info), Some(index)) => self.close(index, info),
            (Order::Enumerate(from, room), Outcome::State(state), _) => {
                self.enumerated(from.0, *room, state)
            }
            (Order::Reattach(_, to), Outcome::Done, Some(index)) => {
                self.vc(index).request.attachment = *to;
                None
            }
            (Order::Lease(_, pdus, expires_in_ns), Outcome::Done, Some(index)) => {
                let expires_ns = self.now_ns + expires_in_ns;
                let vc = self.vc(index);
                vc.lease_pdus = *pdus;
                vc.lease_expires_ns = expires_ns;
                None
            }
            (_, outcome, _) => Some(format!("brought {outcome:?}")),
        }
    }

    /// A modification begins to wait, or a loopback cell.
    pub(crate) fn taken(&mut self, ticket: u64, order: &Order, vc: Option<VcId>) {
        self.loopback_taken(ticket, order);
        self.settle_paths();
        if let (Order::Modify(_, _, Some(_)), Some(vc)) = (order, vc) {
            self.pending.entry(vc).or_insert((ticket, self.now_ns));
        }
    }

    /// Whether a VC of another port has this address.
    pub(crate) fn has_namesake(&self, request: &OpenRequest) -> bool {
        let mut others = self.vcs.values().map(|vc| &vc.request);
        others.any(|other| other.address == request.address && other.port != request.port)
    }

    fn vc(&mut self, index: u16) -> &mut Vc {
        self.vcs.get_mut(index).expect("no VC is a refusal")
    }

    /// All refusals that would be right; none if the command must be carried out.
    pub(super) fn refusals(&self, ticket: u64, order: &Order, vc: Option<VcId>) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        let mut refuse = |condition: bool, refusal: Refusal| {
            if condition {
                refusals.push(refusal);
            }
        };
        let named = vc.and_then(|id| self.vcs.get(id.index.0).filter(|vc| vc.id == id));
        match order {
            Order::Configure(port, config) => {
                let exists = usize::from(port.0) < self.config.ports.len();
                refuse(!exists, Refusal::NoPort);
                let known = self.config.ports.get(usize::from(port.0));
                let other = known.is_some_and(|known| {
                    (known.form, known.format) != (config.form, config.format)
                });
                let in_use = self.vcs.values().any(|vc| vc.request.port == *port);
                let odd = config.budget == 0 || config.budget > Config::BUDGET_MAX;
                refuse(odd || other && in_use, Refusal::BadParameter);
                let guaranteed = self.guaranteed(port.0, None);
                refuse(
                    guaranteed > u64::from(config.line_rate.cell_s()),
                    Refusal::LineRate,
                );
            }
            Order::Attach(events, doorbells) => {
                let odd = !events.is_power_of_two() || !doorbells.is_power_of_two();
                refuse(odd, Refusal::BadRegion);
                let full = self.clients.len() >= usize::from(self.config.attachments);
                refuse(full, Refusal::AttachmentsInUse);
            }
            Order::Detach(index) => {
                refuse(!self.clients.contains_key(&index.0), Refusal::NoAttachment);
                let busy = self.vcs.values().any(|vc| vc.request.attachment == *index);
                refuse(busy, Refusal::Busy);
            }
            Order::Open(request, sizes) => {
                self.contract_refusals(request, sizes, None, &mut refuse);
                let place = (request.port, request.address);
                let in_use = self.vcs.values().any(|vc| {
                    (vc.request.port, vc.request.address) == place
                        && ((vc.request.receive.is_some() && request.receive.is_some())
                            || (vc.request.transmit.is_some() && request.transmit.is_some()))
                });
                refuse(in_use, Refusal::AddressInUse);
                refuse(
                    self.vcs.len() >= usize::from(self.config.vcs),
                    Refusal::NoVc,
                );
                let full = self.leaves.len() >= usize::from(self.config.leaves);
                let is_new = !self.leaves.contains_key(&leaf(request));
                refuse(full && is_new, Refusal::NoLeaf);
            }
            Order::Modify(_, request, sizes) => {
                refuse(named.is_none(), Refusal::StaleVc);
                if let Some(vc) = named {
                    let sizes_given = sizes.is_some();
                    let sizes = sizes.as_ref().unwrap_or(&vc.sizes);
                    self.contract_refusals(request, sizes, Some(vc.id), &mut refuse);
                    let (new, old) = (request, &vc.request);
                    let kind = |aal: &Aal| core::mem::discriminant(aal);
                    let same = (new.address, new.port, new.attachment)
                        == (old.address, old.port, old.attachment)
                        && kind(&new.aal) == kind(&old.aal)
                        && new.receive.is_some() == old.receive.is_some()
                        && new.transmit.is_some() == old.transmit.is_some();
                    // One that was let in and then waited may find the VC with another client.
                    let waited = sizes_given
                        && self.pending.get(&vc.id).is_some_and(|(waiting, since_ns)| {
                            *waiting == ticket && *since_ns < self.now_ns
                        });
                    refuse(!same && !waited, Refusal::BadParameter);
                    // What an AAL3/4 VC may hold changes only with its memory.
                    let holds = |request: &OpenRequest| request.receive.map(|r| r.max_sdu);
                    let other = matches!(new.aal, Aal::Aal34(_))
                        && new.receive.is_some()
                        && (new.aal, holds(new)) != (old.aal, holds(old));
                    refuse(other && !sizes_given, Refusal::BadParameter);
                    let other = self
                        .pending
                        .get(&vc.id)
                        .is_some_and(|other| other.0 != ticket);
                    refuse(other, Refusal::Busy);
                }
            }
            &Order::Loopback(port, address, flow, timeout_ns, _) => {
                self.loopback_refusals(port, address, flow, timeout_ns, &mut refuse);
            }
            Order::Close(_) => refuse(named.is_none(), Refusal::StaleVc),
            Order::Enumerate(..) => {}
            Order::Reattach(_, to) => {
                refuse(named.is_none(), Refusal::StaleVc);
                refuse(!self.clients.contains_key(&to.0), Refusal::NoAttachment);
            }
            Order::Lease(_, _, expires_in_ns) => {
                refuse(named.is_none(), Refusal::StaleVc);
                refuse(
                    *expires_in_ns > Command::<(), ()>::LEASE_MAX_NS,
                    Refusal::BadParameter,
                );
                let when_idle = named.is_some_and(|vc| {
                    let excess = vc.request.receive.map(|receive| receive.excess);
                    matches!(excess, Some(Excess::WhenIdle { .. }))
                });
                refuse(!when_idle, Refusal::BadParameter);
            }
        }
        refusals
    }

    fn contract_refusals(
        &self,
        request: &OpenRequest,
        sizes: &RegionSizes,
        except: Option<VcId>,
        refuse: &mut dyn FnMut(bool, Refusal),
    ) {
        if let Aal::Aal34(numbers) = request.aal {
            let mids = (1..=Interleaving::MIDS_MAX).contains(&numbers.mids);
            refuse(!mids, Refusal::BadParameter);
        }
        let address = request.address;
        let uni = self.is_uni(request.port);
        refuse(uni && address.vpi() > 255, Refusal::VpiTooLarge);
        refuse(address.bits() == 0, Refusal::BadParameter);
        refuse(
            request.receive.is_none() && request.transmit.is_none(),
            Refusal::BadParameter,
        );
        refuse(
            !self.clients.contains_key(&request.attachment.0),
            Refusal::NoAttachment,
        );
        if let Some(receive) = &request.receive {
            let odd = request.aal == Aal::Aal0 && receive.max_sdu != 52;
            refuse(receive.max_sdu == 0 || odd, Refusal::BadParameter);
            refuse(
                receive.sustained.is_some() && receive.rate.is_none(),
                Refusal::BadParameter,
            );
            let room = match request.aal {
                Aal::Aal0 => 64,
                Aal::Aal5 => (u32::from(receive.max_sdu) + 8).div_ceil(48) * 48,
                Aal::Aal34(_) => 48 * cells_of_sdu(receive.max_sdu.into()) as u32,
            };
            refuse(room > sizes.receive_buffer, Refusal::BadRegion);
            refuse(!sizes.receive_slots.is_power_of_two(), Refusal::BadRegion);
        }
        if let Some(transmit) = &request.transmit {
            let odd = request.aal == Aal::Aal0 && transmit.max_sdu != 52;
            refuse(transmit.max_sdu == 0 || odd, Refusal::BadParameter);
            refuse(
                transmit.rate.is_none() && transmit.weight == 0,
                Refusal::BadParameter,
            );
            // Either guaranteed, or best effort at no more than a peak.
            refuse(
                transmit.rate.is_some() && transmit.peak.is_some(),
                Refusal::BadParameter,
            );
            // What is sustained is no more than the peak, and VBR has no other bursts.
            let is_odd = transmit.sustained.is_some_and(|sustained| {
                let peak = transmit.rate.map_or(0, |rate| rate.cell_s());
                sustained.rate.cell_s() > peak || transmit.burst > 1
            });
            refuse(is_odd, Refusal::BadParameter);
            refuse(!sizes.transmit_slots.is_power_of_two(), Refusal::BadRegion);
            refuse(
                u32::from(transmit.max_sdu) > sizes.transmit_len,
                Refusal::BadRegion,
            );
        }
        let Some(port) = self.config.ports.get(usize::from(request.port.0)) else {
            return refuse(true, Refusal::NoPort);
        };
        let own = kept_up(request);
        if let Some(own) = own {
            let others = self.guaranteed(request.port.0, except);
            let line = u64::from(port.line_rate.cell_s());
            refuse(others + u64::from(own.cell_s()) > line, Refusal::LineRate);
        }
    }

    /// Whether cells on a port have a GFC.
    pub(super) fn is_uni(&self, port: PortIndex) -> bool {
        let port = self.config.ports.get(usize::from(port.0));
        port.is_some_and(|port| port.form == HeaderForm::Uni)
    }

    /// Guaranteed cells/s of a port's transmission.
    fn guaranteed(&self, port: u8, except: Option<VcId>) -> u64 {
        self.vcs
            .values()
            .filter(|vc| vc.request.port.0 == port && Some(vc.id) != except)
            .filter_map(|vc| kept_up(&vc.request))
            .map(|rate| u64::from(rate.cell_s()))
            .sum()
    }

    fn open(
        &mut self,
        ticket: u64,
        id: VcId,
        request: OpenRequest,
        sizes: RegionSizes,
    ) -> Option<String> {
        let index = id.index.0;
        if index >= self.config.vcs || self.vcs.get(index).is_some() {
            return Some(format!("slot {index} is not free"));
        }
        if self
            .generations
            .get(&index)
            .is_some_and(|&last| last >= id.generation)
        {
            return Some(format!("generation {} was used before", id.generation));
        }
        self.generations.insert(index, id.generation);
        let vc = Vc {
            id,
            request,
            memory: ticket,
            sizes,
            state: State::BetweenPdus,
            interleaved: Interleaved::of(&request).map(Box::new),
            buckets: buckets(&self.config, &request),
            oam: oam::policer(),
            queue_head: 0,
            queue_tail: 0,
            write_head: 0,
            freed: 0,
            ends: Vec::new(),
            told_full_at: None,
            lease_pdus: 0,
            lease_expires_ns: 0,
            lawless: self.lawless.contains(&ticket),
            stats: RefStats::default(),
            counted: 0,
        };
        self.vcs.insert(index, vc);
        self.enter(index);
        None
    }

    /// Enters a VC into the indices.
    fn enter(&mut self, index: u16) {
        let vc = &self.vcs[index];
        let place = self.places.entry(place(vc)).or_default();
        // A slot that is free comes first.
        place[0] = Some(index);
        place.sort_unstable();
        *self.leaves.entry(leaf(&vc.request)).or_default() += 1;
        *self.paths_of_vcs.entry(path(vc)).or_default() += 1;
        if vc.interleaved.is_some() {
            self.interleaved.insert(index);
        }
        self.users.insert(vc.memory, index);
    }

    /// Takes a VC out of the indices.
    fn leave(&mut self, index: u16) {
        let vc = &self.vcs[index];
        if let Some(slots) = self.places.get_mut(&place(vc)) {
            for slot in slots.iter_mut().filter(|slot| **slot == Some(index)) {
                *slot = None;
            }
            slots.sort_unstable();
        }
        one_less(&mut self.leaves, leaf(&vc.request));
        one_less(&mut self.paths_of_vcs, path(vc));
        self.interleaved.remove(&index);
        self.users.remove(&vc.memory);
    }

    fn modify(
        &mut self,
        ticket: u64,
        index: u16,
        id: VcId,
        request: OpenRequest,
        sizes: Option<RegionSizes>,
    ) -> Option<String> {
        let fresh = buckets(&self.config, &request);
        let now_ns = self.now_ns;
        let vc = self.vc(index);
        let generation = vc.id.generation + u32::from(sizes.is_some());
        if id.index != vc.id.index || id.generation != generation {
            return Some(format!("brought {id:?}, expected generation {generation}"));
        }
        self.leave(index);
        let vc = self.vc(index);
        let old = std::mem::replace(&mut vc.buckets, fresh);
        vc.buckets.carry_over(now_ns, &old);
        vc.id = id;
        // Perhaps it went to another client while it waited.
        let attachment = vc.request.attachment;
        vc.request = OpenRequest {
            attachment,
            ..request
        };
        if let Some(sizes) = sizes {
            let old = std::mem::replace(&mut vc.memory, ticket);
            let tail = vc.queue_tail;
            vc.sizes = sizes;
            (vc.queue_head, vc.queue_tail, vc.write_head, vc.freed) = (0, 0, 0, 0);
            vc.ends.clear();
            vc.told_full_at = None;
            self.generations.insert(index, id.generation);
            self.lose_held(index);
            let vc = self.vc(index);
            let fresh = Interleaved::of(&request).map(Box::new);
            let former = std::mem::replace(&mut vc.interleaved, fresh);
            if let (Some(fresh), Some(former)) = (&mut vc.interleaved, former) {
                fresh.succeed(*former);
            }
            self.given_back.insert(old, tail);
        }
        self.enter(index);
        None
    }

    /// The PDU in progress ends here.
    fn lose_held(&mut self, index: u16) {
        self.lose_interleaved(index);
        let vc = self.vc(index);
        let held = vc.held();
        if held > 0 {
            vc.stats.cells_discarded.add(Discard::Closed, held);
            vc.stats.pdus_discarded.add(Discard::Closed, 1);
            vc.state = State::Discarding(Discard::Closed);
            self.discarded.add(Discard::Closed, held);
        }
        self.count_held(index);
    }

    fn close(&mut self, index: u16, info: &VcInfo) -> Option<String> {
        self.lose_held(index);
        self.leave(index);
        let vc = self.vcs.remove(index)?;
        self.given_back.insert(vc.memory, vc.queue_tail);
        let same = info.vc == vc.id && info.request == vc.request;
        if !same {
            return Some(format!(
                "closed {info:?}, expected {:?} {:?}",
                vc.id, vc.request
            ));
        }
        vc.difference(&info.stats)
    }

    fn enumerated(&self, from: u16, room: u32, state: &AdapterState) -> Option<String> {
        if state.time.ns() != self.now_ns {
            return Some(format!("at {:?}", state.time));
        }
        let mut open = self.vcs.from(from);
        for info in &state.vcs {
            let Some((_, vc)) = open.next() else {
                return Some(format!("{:?} is not open", info.vc));
            };
            if info.vc != vc.id || info.request != vc.request {
                return Some(format!(
                    "lists {info:?}, expected {:?} {:?}",
                    vc.id, vc.request
                ));
            }
            if let Some(difference) = vc.difference(&info.stats) {
                return Some(difference);
            }
        }
        let listed = state.vcs.len();
        match (open.next(), state.next) {
            (None, None) => {}
            (Some((index, _)), Some(next)) if next.0 <= index && listed >= room as usize => {}
            (left, next) => return Some(format!("next {next:?}, left {:?}", left.map(|l| l.0))),
        }
        self.adapter_difference(&state.stats)
    }
}

/// Where its cells come in: port, VPI and VCI.
fn place(vc: &Vc) -> (u8, u16, u16) {
    let (port, vpi) = path(vc);
    (port, vpi, vc.request.address.vci())
}

fn path(vc: &Vc) -> (u8, u16) {
    (vc.request.port.0, vc.request.address.vpi())
}

/// The block of addresses that an address is in.
fn leaf(request: &OpenRequest) -> (u8, u32) {
    (request.port.0, request.address.bits() >> 14)
}

fn one_less<K: Ord>(counts: &mut BTreeMap<K, u32>, key: K) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

/// Cells/s that its line keeps for it: of VBR the sustained rate.
fn kept_up(request: &OpenRequest) -> Option<CellRate> {
    let transmit = request.transmit?;
    match transmit.sustained {
        Some(sustained) => Some(sustained.rate),
        None => transmit.rate,
    }
}

fn buckets(config: &Config, request: &OpenRequest) -> Buckets {
    request.receive.map_or(Buckets::default(), |receive| {
        Buckets::new(request.aal, &receive, config.clump_cells)
    })
}
