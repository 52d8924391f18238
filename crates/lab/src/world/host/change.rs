//! What a host does with VCs that are open: other contracts, other memory, leases; and the VCs of
//! others that take up its room.

use cellgate_core::adapter::{
    Aal, AttachmentIndex, Excess, Marks, Notification, OpenRequest, PortIndex, Receive, VcId,
};
use cellgate_core::wire::VpiVci;

use super::{Changing, Host, Opening, Ordered};
use crate::board::LabCommand;
use crate::judge::MODIFY_PATIENCE_NS;
use crate::memory::{LabRegion, RegionSizes};
use crate::world::Ps;
use crate::world::endpoint::Handles;

/// Whose VCs have no connection.
pub(super) const GUEST: u32 = u32::MAX;
/// Nobody else uses this path.
pub(crate) const GUESTS_VPI: u16 = 254;
const GUESTS_VCI: u16 = 32;
const GUESTS_SDU: u16 = 40;

impl Host {
    /// Changes an open VC to what `opening` says, which has the address and ends of the old one.
    pub(crate) fn modify(&mut self, now: Ps, opening: Opening, memory: bool) {
        let Some(&vc) = self.by_connection.get(&opening.connection) else {
            return;
        };
        if self.is_down || self.changing.contains(&opening.connection) {
            return;
        }
        self.changing.insert(opening.connection);
        let request = opening.request;
        let region = memory.then(|| LabRegion::for_request(opening.sizes, &request));
        let handles = region.as_ref().map(Handles::of);
        let ticket = self.ticket(Ordered::Modify(Box::new(Changing {
            opening,
            vc,
            handles,
            asked: self.time(now),
        })));
        if let Some(judge) = &mut self.judge {
            judge.modifies(ticket, vc, &request, region.as_ref());
        }
        let command = LabCommand::Modify {
            ticket,
            vc,
            request,
            region,
        };
        self.order(ticket, command);
    }

    pub(super) fn modified(&mut self, changing: Changing, vc: VcId, ticket: u64) {
        let Changing {
            mut opening,
            vc: old,
            handles,
            asked,
        } = changing;
        self.counts.modified += 1;
        self.watch.opens(vc, &opening.request);
        self.available.forget(&opening.request);
        self.book
            .opens(self.time(self.steps.last), &opening.request);
        let connection = opening.connection;
        if handles.is_none() {
            // The memory is what it was.
            let old = self.openings.get(&connection);
            opening.sizes = old.map_or(opening.sizes, |old| old.sizes);
        }
        self.openings.insert(connection, opening);
        if self.closing.contains_key(&connection) {
            self.close_renamed(connection, old, vc);
        } else if let Some(handles) = handles {
            self.counts.replaced += 1;
            // A step that is made up for may take a command up to two steps before it was given.
            let waited = self.time(self.steps.last).since_ns(asked) + 2 * self.spec.step_ns;
            if waited >= MODIFY_PATIENCE_NS {
                self.cut.insert(connection);
            }
            self.left.extend(self.by_connection.insert(connection, vc));
            self.add_endpoint(&opening, vc, ticket, &handles);
        }
        self.change_ended(connection);
    }

    /// Closes by its new name what was to be closed by the old one.
    fn close_renamed(&mut self, connection: u32, old: VcId, vc: VcId) {
        if old == vc {
            return;
        }
        for ordered in self.ordered.values_mut() {
            if matches!(ordered, Ordered::Close(_, named) if *named == old) {
                *ordered = Ordered::CloseInVain;
            }
        }
        self.close_vc(connection, vc);
    }

    /// What was closed while it was being changed is opened again, if that was asked for.
    pub(super) fn change_ended(&mut self, connection: u32) {
        if self.closing.remove(&connection) == Some(true) {
            self.reopen(connection);
        }
    }

    /// Lends a connection time for so many PDUs, if it takes any.
    pub(crate) fn lend(&mut self, connection: u32, pdus: u32, expires_in_ns: u64) {
        let takes = |opening: &Opening| {
            let excess = opening.request.receive.map(|receive| receive.excess);
            matches!(excess, Some(Excess::WhenIdle { .. }))
        };
        let takes = self.openings.get(&connection).is_some_and(takes);
        let Some(&vc) = self.by_connection.get(&connection).filter(|_| takes) else {
            return;
        };
        let ticket = self.ticket(Ordered::Lend);
        if let Some(judge) = &mut self.judge {
            judge.lends(ticket, vc, pdus, expires_in_ns);
        }
        let command = LabCommand::Lease {
            ticket,
            vc,
            pdus,
            expires_in_ns,
        };
        self.order(ticket, command);
    }

    /// Somebody asks for VCs.
    pub(crate) fn invite(&mut self, vcs: u16) {
        if self.is_down {
            return;
        }
        for _ in 0..vcs {
            let request = guest(self.invited);
            self.invited += 1;
            let sizes = RegionSizes {
                receive_buffer: 4_096,
                receive_slots: 4,
                transmit_slots: 1,
                transmit_len: 0,
                stable: true,
            };
            let region = LabRegion::for_request(sizes, &request);
            let ticket = self.ticket(Ordered::Guest { stays: true });
            if let Some(judge) = &mut self.judge {
                judge.opens(ticket, &request, sizes, &region);
            }
            let command = LabCommand::Open {
                ticket,
                request,
                region,
            };
            self.order(ticket, command);
        }
    }

    /// The VCs of others are closed.
    pub(crate) fn show_out(&mut self) {
        for vc in std::mem::take(&mut self.guests) {
            self.close_vc(GUEST, vc);
        }
        for ordered in self.ordered.values_mut() {
            if let Ordered::Guest { stays } = ordered {
                *stays = false;
            }
        }
    }

    /// Whether VCs of others are open, or were when the last step began.
    pub(super) fn has_guests(&self) -> bool {
        let mut ordered = self.ordered.values();
        let ordered = ordered.any(|ordered| match ordered {
            Ordered::Guest { .. } => true,
            Ordered::Close(whose, _) => *whose == GUEST,
            _ => false,
        });
        ordered || !self.guests.is_empty()
    }
}

/// VC `n` of those that nobody sends on.
fn guest(n: u64) -> OpenRequest {
    let vci = GUESTS_VCI + (n % u64::from(u16::MAX - GUESTS_VCI)) as u16;
    OpenRequest {
        address: VpiVci::new(GUESTS_VPI, vci).unwrap_or_default(),
        port: PortIndex(0),
        aal: Aal::Aal5,
        attachment: AttachmentIndex(0),
        receive: Some(Receive {
            marks: Marks::None,
            rate: None,
            sustained: None,
            guaranteed: false,
            cdvt_ns: 0,
            max_sdu: GUESTS_SDU,
            fixed_sdu: false,
            excess: Excess::Discard,
            notification: Notification::Polled,
            queue_threshold: 0,
        }),
        transmit: None,
    }
}
