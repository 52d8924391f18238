//! The connection that a program has: its contract, the pace of what is sent, and which of what has
//! arrived is taken.

use core::num::NonZeroU32;

use super::allowance::Allowance;
use crate::Time;
use crate::contract::{
    Aal, Credit, Excess, Police, Remainder, ServiceCategory, TrafficContract, UsageControl,
    UsageDecision,
};
use crate::queue::ReceiveDescriptor;
use crate::server::Opened;
use crate::wire::{CELL_LEN_NO_HEC, PAYLOAD_LEN};

/// How late a writer may wake up and still send all that was its due: as long as an adapter of the
/// usual configuration may stand still. The adapter shapes what then comes at once.
const LATE_NS: u64 = 30_000_000;

/// Why an SDU is never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsendable {
    /// The connection receives only.
    DoesNotSend,
    /// It has no octets.
    Empty,
    /// The contract allows SDUs of `max` octets.
    TooLong { max: u16 },
    /// Over AAL0 an SDU is a cell without HEC.
    NotACell,
    /// The contract commits to SDUs of `size` octets.
    NotFixed { size: u16 },
}

/// A connection as the server told of it last. `M` names its memory.
#[derive(Debug)]
pub struct OpenConnection<M> {
    opened: Opened,
    contract: TrafficContract,
    pub(super) memory: Option<M>,
    /// The number of the Indication that offered a contract.
    pub(super) offer: Option<u64>,
    /// None: the adapter's share is the only pace.
    pace: Option<UsageControl>,
    remainder: Remainder,
    /// Until when the writer has no credit.
    suspended_until: Option<Time>,
    suspensions: u64,
    /// What may be taken of what arrives from `judged_from` on; none: the adapter judges it.
    allowance: Option<Allowance>,
    judged_from: Time,
}

impl<M> OpenConnection<M> {
    pub(super) fn new(
        now: Time,
        opened: Opened,
        memory: Option<M>,
        remainder: Remainder,
    ) -> Result<Self, String> {
        let contract = contract_of(&opened)?;
        let mut open = Self {
            opened,
            contract,
            memory,
            offer: None,
            pace: None,
            remainder,
            suspended_until: None,
            suspensions: 0,
            allowance: None,
            judged_from: now,
        };
        open.keep_pace(now, open.opened.transmit_credit);
        open.allowance = open.allowance_from(now);
        Ok(open)
    }

    /// What the server said of it last.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Its contract.
    pub fn contract(&self) -> &TrafficContract {
        &self.contract
    }

    /// The memory that it has.
    pub fn memory(&self) -> Option<&M> {
        self.memory.as_ref()
    }

    /// Puts in force what the server has changed. What has arrived before is not judged by it.
    pub(super) fn renew(
        &mut self,
        now: Time,
        opened: Opened,
        memory: Option<M>,
    ) -> Result<(), String> {
        self.contract = contract_of(&opened)?;
        self.opened = opened;
        self.memory = memory.or(self.memory.take());
        self.keep_pace(now, self.opened.transmit_credit);
        self.judged_from = now;
        self.allowance = self.allowance_from(now);
        Ok(())
    }

    /// Another pace. The intervals go on where they were.
    pub(super) fn keep_pace(&mut self, now: Time, credit: Option<Credit>) {
        match (credit, &mut self.pace) {
            (Some(credit), Some(pace)) => pace.modify(credit),
            (credit, pace) => {
                let paced = |credit| UsageControl::new(now, credit, self.remainder);
                *pace = credit.map(|credit| paced(credit).catching_up(LATE_NS));
            }
        }
    }

    /// All contracts but those of `police=buffer` the adapter has policed. Nothing limits a share
    /// of best effort.
    fn allowance_from(&self, now: Time) -> Option<Allowance> {
        let contract = &self.contract;
        let is_judged =
            contract.policing() == Police::Buffer && contract.category != ServiceCategory::Ubr;
        let credit = self.opened.receive_credit.filter(|_| is_judged)?;
        let max_sdu = self.opened.receive_max_sdu?;
        let tolerated = contract.receive.unwrap_or_default();
        let late_ns = tolerated.dvt_ns.unwrap_or(0);
        let late_ns = late_ns.saturating_add(self.opened.receive_early_ns);
        let burst_cells = tolerated.mbs.map_or(0, NonZeroU32::get);
        let burst = u64::from(burst_cells) * PAYLOAD_LEN as u64 + u64::from(max_sdu);
        Some(Allowance::new(now, credit, burst, late_ns))
    }

    /// The octets of an SDU that can be sent, whenever there is room and credit.
    ///
    /// # Errors
    /// It can never be sent.
    #[inline]
    pub fn sendable(&self, len: usize) -> Result<u32, Unsendable> {
        let max = self.opened.transmit_max_sdu;
        let max = max.ok_or(Unsendable::DoesNotSend)?;
        let fits = match u16::try_from(len) {
            Ok(0) => return Err(Unsendable::Empty),
            Ok(fits) if fits <= max => fits,
            _ => return Err(Unsendable::TooLong { max }),
        };
        match self.is_odd(len) {
            None => Ok(fits.into()),
            Some(why) => Err(why),
        }
    }

    /// Why an SDU that is not too long cannot have so many octets: over AAL0 it has those of a
    /// cell, where the contract commits to a size it has that.
    #[inline]
    pub fn is_odd(&self, len: usize) -> Option<Unsendable> {
        if self.contract.aal == Some(Aal::Aal0) {
            return (len != CELL_LEN_NO_HEC).then_some(Unsendable::NotACell);
        }
        let size = self.opened.transmit_max_sdu?;
        let is_fixed = self.contract.transmit.is_some_and(|way| way.fixed);
        (is_fixed && len != usize::from(size)).then_some(Unsendable::NotFixed { size })
    }

    /// Takes the credit for an SDU of `len` octets that there is room for, or says when to ask
    /// again.
    #[inline]
    pub fn request(&mut self, now: Time, len: u32) -> UsageDecision {
        let Some(pace) = &mut self.pace else {
            return UsageDecision::Transfer;
        };
        let decision = pace.request(now, len);
        let until = match decision {
            UsageDecision::Transfer => None,
            UsageDecision::SuspendUntil(until) => Some(until),
        };
        if until.is_some() && until != self.suspended_until {
            self.suspensions += 1;
        }
        self.suspended_until = until;
        decision
    }

    /// Gives back the credit of octets that the last SDU turned out not to have.
    #[inline]
    pub fn give_back(&mut self, octets: u32) {
        if let Some(pace) = &mut self.pace {
            pace.give_back(octets);
        }
    }

    /// When a writer that was told to wait has credit again.
    pub fn suspended_at(&self, now: Time) -> Option<Time> {
        self.suspended_until.filter(|until| *until > now)
    }

    /// Times that a writer was told to wait for credit.
    pub fn suspensions(&self) -> u64 {
        self.suspensions
    }

    /// Whether a PDU that has arrived is taken; else it is beyond credit and tolerance, and
    /// dismissed.
    #[inline]
    pub fn takes(&mut self, pdu: &ReceiveDescriptor, len: usize) -> bool {
        // What the adapter has tagged is beyond the contract, and delivered all the same.
        let is_favour = pdu.lent || self.contract.excess == Excess::Tag && pdu.clp;
        is_favour
            || pdu.time < self.judged_from
            || self
                .allowance
                .as_mut()
                .is_none_or(|allowance| allowance.accept(pdu.time, len))
    }
}

/// The contract, which the server has made canonical.
fn contract_of(opened: &Opened) -> Result<TrafficContract, String> {
    opened.contract.parse().map_err(|error| format!("{error}"))
}
