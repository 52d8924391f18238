//! Host time that nobody else wants, lent to connections that take more than their contract
//! (*Policing Offloaded*, section 7.3).

use super::connection::Connection;
use super::machine::{Pending, Server};
use super::{Bugs, CpuLaw, Direction};
use crate::Time;
use crate::adapter::Command;
use crate::contract::{CellRate, Excess};
use crate::keeper::Ask;

/// The longest lease.
pub(super) const LEASE_MAX_NS: u64 = Command::<(), ()>::LEASE_MAX_NS;

const PS_PER_NS: u128 = 1_000;

/// A PDU is taken to cost its reader what it costs the adapter.
const COSTS: u128 = 2;

/// Time of the host's CPUs that nobody has wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idleness {
    /// Nanoseconds to lend.
    pub ns: u64,
    /// The end of the leases.
    pub until: Time,
}

impl Connection {
    /// Its weight among those that are lent to; none: it takes nothing beyond its contract, or
    /// nobody reads it.
    fn borrows(&self) -> Option<u64> {
        let contract = &self.plan.contract;
        let receive = contract.receive?;
        let is_read = self.vc.is_some() && self.user.is_some();
        let weight = receive.min_pcr.map_or(1, CellRate::cell_s);
        (is_read && contract.excess == Excess::WhenIdle).then_some(weight.into())
    }

    /// PDUs of the largest size that `ns` of the host's time are enough for.
    fn pdus_in(&self, ns: u64, law: &CpuLaw) -> u32 {
        let cells = self.plan.max_sdu(Direction::Receive);
        let cells = cells.map_or(1, |sdu| self.plan.pdu_cells(sdu));
        let ps = law.expected.of(Direction::Receive).ps(cells.into(), 1);
        let pdus = u128::from(ns) * PS_PER_NS / (COSTS * ps).max(1);
        u32::try_from(pdus).unwrap_or(u32::MAX)
    }
}

impl<B: Bugs> Server<B> {
    /// Whether anybody would take what is lent.
    pub fn has_borrowers(&self) -> bool {
        let mut connections = self.connections.values();
        connections.any(|connection| connection.borrows().is_some())
    }

    /// Lends idle time to the connections with `excess=when-idle`, by weight (`min_pcr=` of what
    /// they receive, else 1). Who lends by hand is left alone for as long as a lease can last.
    pub fn handle_idle(&mut self, now: Time, idle: Idleness) {
        self.now = now;
        let expires_in_ns = idle.until.since_ns(now).min(LEASE_MAX_NS);
        if expires_in_ns == 0 {
            return;
        }
        let weighed = |one: &Connection| Some((one.number, one.borrows()?));
        let borrowers: Vec<_> = self.connections.values().filter_map(weighed).collect();
        let of_all: u64 = borrowers.iter().map(|(_, weight)| weight).sum();
        for (number, weight) in borrowers {
            let ns = u128::from(idle.ns) * u128::from(weight) / u128::from(of_all.max(1));
            self.lend(number, ns as u64, expires_in_ns);
        }
    }

    fn lend(&mut self, number: u32, ns: u64, expires_in_ns: u64) {
        let mut pending = self.tickets.values().map(|(_, pending)| pending);
        let is_asked = pending.any(|one| matches!(one, Pending::Lending(of) if *of == number));
        let Some(connection) = self.connections.get(&number) else {
            return;
        };
        let pdus = connection.pdus_in(ns, &self.admission.config().adapter_law);
        let by_hand = self.now < connection.lent_by_hand_until;
        let (Some(open), false) = (connection.vc, is_asked || by_hand || pdus == 0) else {
            return;
        };
        let adapter = connection.port.adapter;
        let ask = Ask::Lease {
            vc: open.vc,
            pdus,
            expires_in_ns,
        };
        self.ask(adapter, Pending::Lending(number), ask);
    }
}
