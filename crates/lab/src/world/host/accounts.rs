//! The accounts of a host's VCs: the slots as the core counts them, as a server has them counted,
//! and beside that what they are to be counted from.

use std::collections::BTreeMap;

use cellgate_core::Time;
use cellgate_core::adapter::{OpenRequest, PortIndex, VcIndex, VcInfo};
use cellgate_core::contract::charging::{Flaws, Planted};
use cellgate_core::server::{Bandwidth, ConnectionSlots, Demand, SlotClocks};
use cellgate_core::wire::{CELL_LEN, VpiVci};

use super::Host;
use crate::world::Octets;
use crate::world::line::address_of;

/// The bug that charging has in this run, if it has one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChargeBug(pub(crate) Option<Planted>);

impl Flaws for ChargeBug {
    fn has(&self, bug: Planted) -> bool {
        self.0 == Some(bug)
    }
}

/// What a VC is granted, and what it has sent, while it is open.
#[derive(Clone, Debug)]
struct Granted {
    clocks: SlotClocks,
    /// From when on it has so many cells/s of its own to send, and to receive.
    since: Vec<(Time, [u64; 2])>,
    /// Its cells on the line, and those of low priority.
    sent: [u64; 2],
}

/// The account of a VC.
#[derive(Clone, Debug)]
pub(crate) struct VcAccount {
    pub(crate) info: VcInfo,
    /// As the core counts them.
    pub(crate) slots: ConnectionSlots,
    /// From when on it had so many cells/s of its own to send, and to receive.
    pub(crate) since: Vec<(Time, [u64; 2])>,
    /// When it was closed, or somebody has looked.
    pub(crate) until: Time,
    /// Its cells on the line, and those of low priority.
    pub(crate) sent: [u64; 2],
}

/// The accounts of all VCs that a host's adapter has had.
#[derive(Debug, Default)]
pub(super) struct AccountBook {
    open: BTreeMap<(PortIndex, VpiVci), Granted>,
    ended: Vec<VcAccount>,
    /// Cells on lines that no VC has sent: answers to OAM cells.
    answers: u64,
    bug: ChargeBug,
}

/// Cells/s that a request reserves, each way. The floor of ABR is among them.
fn reserved(request: &OpenRequest) -> [u64; 2] {
    let transmit = request.transmit.and_then(|transmit| transmit.guaranteed());
    let receive = request.receive.and_then(|receive| {
        let kept = request.transmit.and_then(|transmit| transmit.abr?.kept);
        let sustained = receive.sustained.map(|sustained| sustained.rate);
        let rate = sustained.or(receive.rate);
        rate.filter(|_| receive.guaranteed).or(kept)
    });
    [transmit, receive].map(|rate| rate.map_or(0, |rate| rate.cell_s().into()))
}

fn demand([transmit, receive]: [u64; 2]) -> Demand {
    let of = |guaranteed| Bandwidth {
        guaranteed,
        best_effort: 0,
    };
    Demand {
        transmit: of(transmit),
        receive: of(receive),
        ..Demand::default()
    }
}

impl AccountBook {
    pub(super) fn new(bug: Option<Planted>) -> Self {
        Self {
            bug: ChargeBug(bug),
            ..Self::default()
        }
    }

    /// A VC is open by this request, or its contract has changed to it.
    pub(super) fn opens(&mut self, now: Time, request: &OpenRequest) {
        let rates = reserved(request);
        let demand = demand(rates);
        let at = (request.port, request.address);
        if let Some(granted) = self.open.get_mut(&at) {
            granted.clocks = granted.clocks.changed_with(now, &demand, &self.bug);
            granted.since.push((now, rates));
            return;
        }
        let granted = Granted {
            clocks: SlotClocks::begin_with(now, &demand, &self.bug),
            since: vec![(now, rates)],
            sent: [0; 2],
        };
        self.open.insert(at, granted);
    }

    /// A VC is closed.
    pub(super) fn closes(&mut self, now: Time, info: &VcInfo) {
        let at = (info.request.port, info.request.address);
        if let Some(granted) = self.open.remove(&at) {
            self.ended
                .push(account(granted, now, info.clone(), self.bug));
        }
    }

    /// A cell leaves a port.
    pub(super) fn cell(&mut self, port: PortIndex, cell: &Octets) {
        // Bit 2 of the type is set in OAM and RM cells, bit 1 in RM cells alone.
        let is_oam = cell[3] & 8 != 0 && cell[3] & 4 == 0;
        let granted = self.open.get_mut(&(port, address_of(cell)));
        match granted.filter(|_| !is_oam) {
            Some(granted) => {
                granted.sent[0] += 1;
                granted.sent[1] += u64::from(cell[3] & 1);
            }
            None => self.answers += 1,
        }
    }

    /// The accounts until `now`.
    pub(super) fn accounts(
        &self,
        now: Time,
        info: impl Fn(PortIndex, VpiVci) -> Option<VcInfo>,
    ) -> Vec<VcAccount> {
        let open = self.open.iter().filter_map(|((port, address), granted)| {
            let info = info(*port, *address)?;
            Some(account(granted.clone(), now, info, self.bug))
        });
        self.ended.iter().cloned().chain(open).collect()
    }

    pub(super) fn answers(&self) -> u64 {
        self.answers
    }

    /// The adapter dies, and with it what it has counted.
    pub(super) fn is_lost(&mut self) {
        self.open.clear();
        self.ended.clear();
    }
}

fn account(granted: Granted, until: Time, info: VcInfo, bug: ChargeBug) -> VcAccount {
    VcAccount {
        slots: granted.clocks.slots_with(until, &info.stats, &bug),
        info,
        since: granted.since,
        until,
        sent: granted.sent,
    }
}

impl Host {
    /// Its VCs' accounts, and cells that left without a VC.
    pub(super) fn accounts(&self, now: Time) -> (Vec<VcAccount>, u64) {
        let vcs = || (0..self.config.vcs).filter_map(|n| self.adapter.info(VcIndex(n)));
        let of: BTreeMap<_, _> = vcs()
            .map(|info| ((info.request.port, info.request.address), info))
            .collect();
        let accounts = self
            .book
            .accounts(now, |port, address| of.get(&(port, address)).cloned());
        (accounts, self.book.answers())
    }

    /// Cells leave a port.
    pub(super) fn are_accounted_for(&mut self, port: PortIndex, cells: &[u8]) {
        for cell in cells.as_chunks::<CELL_LEN>().0 {
            self.book.cell(port, cell);
        }
    }
}
