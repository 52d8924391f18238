//! The offers in place of a contract that was refused: another rate, and where memory or CPU
//! time is short, PDUs of another size or a shorter credit.

use core::num::NonZeroU32;

use super::plan::{Circumstances, Plan};
use super::{Refused, Resource, Shortage};
use crate::contract::{Aal, Jitter, TrafficContract, TrafficDescriptor};

/// The largest SDU of AAL3/4 and AAL5.
const SDU_MAX: u32 = 65_535;

/// Contracts like one that was refused, each of which differs in one respect.
#[derive(Debug, Default)]
pub(super) struct Offers {
    first: Option<TrafficContract>,
    others: Vec<TrafficContract>,
}

impl Offers {
    /// The refusal that makes them.
    pub(super) fn refuse(self, shortage: Shortage) -> Refused {
        let mut all = self.first.into_iter().chain(self.others);
        let mut next = || all.next().map(|contract| contract.to_string());
        Refused::Admission(Shortage {
            offer: next(),
            others: core::iter::from_fn(next).collect(),
            ..shortage
        })
    }
}

impl Circumstances<'_> {
    /// Contracts for whose plans `fits` holds: at the highest rate; where memory is short, with a
    /// shorter credit, and with the largest SDU that does; where CPU time is short, with the
    /// smallest that does, for it has fewer PDUs.
    ///
    /// Work: a plan for each of some 120 contracts at most.
    pub(super) fn offers(
        &self,
        contract: &TrafficContract,
        shortage: &Shortage,
        fits: impl Fn(Plan) -> bool,
    ) -> Offers {
        let holds = |contract: &TrafficContract| self.plan(contract).is_ok_and(&fits);
        let sdu = |larger| other_sdu(contract, larger, holds);
        let others = match shortage.resource {
            Resource::Memory => [shorter_credit(contract, holds), sdu(false)],
            Resource::AdapterCpu | Resource::WorkerCpu => [None, sdu(true)],
            Resource::TransmitBandwidth | Resource::ReceiveBandwidth | Resource::Connections => {
                [None, None]
            }
        };
        Offers {
            first: self.offer(contract, shortage, &fits),
            others: others.into_iter().flatten().collect(),
        }
    }
}

/// With the longest credit below the contract's own for which `holds` says yes.
fn shorter_credit(
    contract: &TrafficContract,
    holds: impl Fn(&TrafficContract) -> bool,
) -> Option<TrafficContract> {
    let ways = [contract.transmit, contract.receive];
    // A tolerance may have chosen the longest.
    let own = ways
        .into_iter()
        .flatten()
        .map(|way| match (way.jitter, way.dvt_ns) {
            (Some(jitter), _) => jitter.pdus(),
            (None, Some(_)) => Jitter::High.pdus(),
            (None, None) => Jitter::Default.pdus(),
        });
    let own = own.max()?;
    let shorter = [Jitter::Default, Jitter::Low].into_iter();
    let shorter = shorter.filter(|jitter| jitter.pdus() < own);
    let with = |jitter| {
        let with = |way| TrafficDescriptor {
            jitter: Some(jitter),
            ..way
        };
        TrafficContract {
            transmit: contract.transmit.map(with),
            receive: contract.receive.map(with),
            ..*contract
        }
    };
    shorter.map(with).find(holds)
}

/// With the nearest other largest SDU for which `holds` says yes, as far as bisection finds it.
fn other_sdu(
    contract: &TrafficContract,
    larger: bool,
    holds: impl Fn(&TrafficContract) -> bool,
) -> Option<TrafficContract> {
    if contract.aal == Some(Aal::Aal0) {
        return None;
    }
    let ways = [contract.transmit, contract.receive];
    let sizes = ways.into_iter().flatten().map(|way| sdu_of(&way));
    // What lies between the sizes of two directions changes one of them alone.
    let own = match larger {
        true => sizes.min()?,
        false => sizes.max()?,
    };
    let at = |octets: u32| with_sdu(contract, octets, larger);
    // Twice or half as far each time, then between the last that did not do and the first that did.
    let (mut bad, mut good) = (own, None);
    while good.is_none() {
        let next = match larger {
            true => bad.saturating_mul(2).min(SDU_MAX),
            false => bad / 2,
        };
        if next == bad || next == 0 {
            return None;
        }
        match holds(&at(next)) {
            true => good = Some(next),
            false => bad = next,
        }
    }
    let mut good = good?;
    while good.abs_diff(bad) > 1 {
        let middle = good.midpoint(bad);
        match holds(&at(middle)) {
            true => good = middle,
            false => bad = middle,
        }
    }
    Some(at(good))
}

fn sdu_of(descriptor: &TrafficDescriptor) -> u32 {
    descriptor.max_sdu.map_or(SDU_MAX, NonZeroU32::get)
}

/// With SDUs of `octets` where the contract has smaller ones, or where it has larger ones.
fn with_sdu(contract: &TrafficContract, octets: u32, larger: bool) -> TrafficContract {
    let other = |descriptor: TrafficDescriptor| {
        let own = sdu_of(&descriptor);
        let octets = match larger {
            true => own.max(octets),
            false => own.min(octets),
        };
        TrafficDescriptor {
            max_sdu: NonZeroU32::new(octets),
            ..descriptor
        }
    };
    TrafficContract {
        transmit: contract.transmit.map(other),
        receive: contract.receive.map(other),
        ..*contract
    }
}
