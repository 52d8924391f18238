//! What the host and its clients do in a run.

use cellgate_core::adapter::{Event, Region, VcId};
use cellgate_core::queue::layout::{self, connection};

use super::{Judge, Ordered, none_or};
use crate::board::{LabBoard, LabCommand};
use crate::client::is_sendable;
use crate::memory::{Adversary, LabAttachment, LabRegion};
use crate::plan::{Action, Order, VcName};
use crate::reference::Submission;

impl Judge {
    fn resolve(&self, name: VcName) -> VcId {
        match name {
            VcName::Of(ticket) => self.names.get(&ticket).copied().unwrap_or(VcName::NOBODY),
            VcName::Stale(ticket) => {
                let id = self.names.get(&ticket).copied().unwrap_or(VcName::NOBODY);
                VcId {
                    generation: id.generation.wrapping_sub(1),
                    ..id
                }
            }
            VcName::Raw(id) => id,
        }
    }

    pub(super) fn act(&mut self, action: &Action, board: &mut LabBoard) -> Result<(), String> {
        match action {
            Action::Order(ticket, order) => {
                self.order(*ticket, order, board);
                Ok(())
            }
            Action::Take { memory, pdus } => {
                let freed = self.reference.accepted_tail(*memory);
                none_or(self.clients.take(*memory, *pdus, freed))
            }
            Action::WrongTail { memory, off_by } => {
                self.clients.wrong_tail(*memory, *off_by);
                Ok(())
            }
            Action::TakeEvents { client, events } => self.take_events(*client, *events),
            Action::Submit {
                vc,
                memory,
                sdu,
                forged,
                uu,
                cpi,
                clp,
            } => {
                let id = self.resolve(*vc);
                let Some(request) = self.reference.request(id) else {
                    return Ok(());
                };
                let max_sdu = request.transmit.map_or(0, |transmit| transmit.max_sdu);
                let valid = forged.is_none() && is_sendable(request.aal, sdu, max_sdu);
                let submission = Submission {
                    sdu: sdu.clone(),
                    uu: *uu,
                    cpi: *cpi,
                    clp: *clp,
                    forged: !valid,
                };
                let current = self.memories.get(&id) == Some(memory);
                if current && self.clients.submit(*memory, id, &submission, *forged) {
                    self.output.submit(id, submission);
                    self.unrung.insert(id);
                }
                Ok(())
            }
            Action::Ring { client, vc } => {
                let id = self.resolve(*vc);
                self.ring(*client, id);
                Ok(())
            }
        }
    }

    /// Rings for VCs that have something to send, as far as the doorbells have room.
    pub(super) fn ring_all(&mut self) {
        for id in std::mem::take(&mut self.unrung) {
            let client = self.reference.attachment_of(id);
            let Some(client) = client.and_then(|client| self.clients.in_slot(client)) else {
                continue;
            };
            if !self.clients.ring(client, id) {
                self.unrung.insert(id);
            }
        }
    }

    pub(super) fn ring(&mut self, client: u64, id: VcId) {
        let own = self.reference.request(id).is_some_and(|request| {
            request.transmit.is_some() && Some(request.attachment) == self.clients.index(client)
        });
        if self.clients.ring(client, id) {
            self.rung_wrongly += u64::from(!own);
        }
    }

    pub(super) fn take_events(&mut self, client: u64, events: u32) -> Result<(), String> {
        let Some(index) = self.clients.index(client) else {
            return Ok(());
        };
        for _ in 0..events {
            let Some(octets) = self.clients.take_event(client) else {
                break;
            };
            let expected = self.reference.next_queued(index.0);
            let found = Event::parse(&octets);
            if found.is_none() || found != expected {
                return Err(format!(
                    "{index:?} found\n  {found:?}, expected\n  {expected:?}"
                ));
            }
        }
        let (lost, told) = (self.reference.lost(index.0), self.clients.lost(client));
        if lost != Some(told) {
            return Err(format!(
                "{index:?} was told of {told} lost events, expected {lost:?}"
            ));
        }
        Ok(())
    }

    fn order(&mut self, ticket: u64, order: &Order, board: &mut LabBoard) {
        let name = match order {
            Order::Modify(name, ..)
            | Order::Close(name)
            | Order::Reattach(name, _)
            | Order::Lease(name, ..) => Some(*name),
            _ => None,
        };
        let vc = name.map(|name| self.resolve(name));
        let region = match order {
            Order::Open(request, sizes) | Order::Modify(_, request, Some(sizes)) => {
                let region = LabRegion::for_request(*sizes, request);
                self.clients.add_connection(ticket, &region);
                if self.lawless.contains(&ticket) {
                    region.from_client().set_adversary(Some(scribbler(ticket)));
                }
                Some(region)
            }
            _ => None,
        };
        let command = self.command(ticket, order, vc.unwrap_or(VcName::NOBODY), region);
        self.ordered(ticket, order.clone(), vc);
        board.order(ticket, command);
    }

    /// A command was given.
    pub(crate) fn ordered(&mut self, ticket: u64, order: Order, vc: Option<VcId>) {
        let ordered = Ordered {
            order,
            vc,
            taken_ns: None,
            completed: false,
        };
        self.orders.insert(ticket, ordered);
    }

    fn command(
        &mut self,
        ticket: u64,
        order: &Order,
        vc: VcId,
        region: Option<LabRegion>,
    ) -> LabCommand {
        match order.clone() {
            Order::Configure(port, config) => LabCommand::Configure {
                ticket,
                port,
                config,
            },
            Order::Attach(events, doorbells) => {
                let attachment = LabAttachment::new(events, doorbells);
                self.clients.add_attachment(ticket, &attachment);
                LabCommand::Attach { ticket, attachment }
            }
            Order::Detach(index) => LabCommand::Detach { ticket, index },
            Order::Open(request, sizes) => {
                let region = region.unwrap_or_else(|| LabRegion::new(sizes));
                LabCommand::Open {
                    ticket,
                    request,
                    region,
                }
            }
            Order::Modify(_, request, _) => LabCommand::Modify {
                ticket,
                vc,
                request,
                region,
            },
            Order::Close(_) => LabCommand::Close { ticket, vc },
            Order::Enumerate(from, room) => {
                let into = Vec::with_capacity(room as usize);
                LabCommand::Enumerate { ticket, from, into }
            }
            Order::Reattach(_, attachment) => LabCommand::Reattach {
                ticket,
                vc,
                attachment,
            },
            Order::Lease(_, pdus, expires_in_ns) => LabCommand::Lease {
                ticket,
                vc,
                pdus,
                expires_in_ns,
            },
            Order::Loopback(port, address, flow, timeout_ns, _) => LabCommand::Loopback {
                ticket,
                port,
                address,
                flow,
                timeout_ns,
            },
        }
    }
}

/// Writes something likely or unlikely over an index, a descriptor or an octet, at half the loads.
fn scribbler(seed: u64) -> Adversary {
    let mut state = seed;
    Box::new(move |octets, _| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let draw = state >> 33;
        let at = match draw & 7 {
            0 | 1 => connection::RECEIVE_TAIL,
            2 | 3 => connection::TRANSMIT_HEAD,
            4 => layout::SLOTS + (draw >> 3) as usize % 32 * 8,
            5 => (draw >> 3) as usize % (octets.len() / 8) * 8,
            _ => return,
        };
        let old = u64::from_le_bytes(octets[at..at + 8].try_into().unwrap_or_default());
        let new = match draw >> 3 & 3 {
            0 => old.wrapping_add(draw >> 5 & 7),
            1 => old.wrapping_sub(draw >> 5 & 7),
            2 => draw >> 5 & 63,
            _ => state,
        };
        octets[at..at + 8].copy_from_slice(&new.to_le_bytes());
    })
}
