use cellgate_report::Rational;

use super::super::{Error, Ps, address, per_s};
use super::network::Network;
use super::{BUFFER_PDUS, CONTRACT_BIT_S, SDU, STREAM_BIT_S, VCIS, WARM};
use crate::machine::{BoardConfig, Host, HostCosts, ReceiveSpec, Workstation};
use crate::world::{Octets, QueueDiscard};

/// What every point has in common.
pub(super) struct Setup {
    pub(super) config: BoardConfig,
    pub(super) costs: HostCosts,
    pub(super) discard: QueueDiscard,
    pub(super) port_cells: u32,
    pub(super) span: Ps,
    pub(super) seed: u64,
    /// A PDU of each stream.
    pub(super) cells: Vec<Vec<Octets>>,
}

/// Host C at one rate of the hazard.
pub(super) struct Point {
    pub(super) hazard_mbit_s: u32,
    pub(super) cpu_percent: Rational,
    pub(super) interrupts_s: Rational,
    pub(super) full_s: Rational,
    /// Of each connection.
    pub(super) pdu_s: [Rational; 3],
}

impl Point {
    pub(super) fn measured(setup: &Setup, hazard_mbit_s: u32) -> Result<Self, Error> {
        let mut workstation = Workstation::new(setup.config, setup.costs)?;
        for (vci, bit_s) in VCIS
            .into_iter()
            .zip([STREAM_BIT_S, STREAM_BIT_S, CONTRACT_BIT_S])
        {
            // A buffer is emptied at its connection's rate.
            let drain_ps = u128::from(SDU) * 8 * 1_000_000_000_000 / u128::from(bit_s);
            workstation.receive(&ReceiveSpec {
                address: address(vci)?,
                sdu: SDU,
                buffer_pdus: BUFFER_PDUS,
                drain: Ps::new(u64::try_from(drain_ps).unwrap_or(u64::MAX)),
            })?;
        }
        let hazard_bit_s = u64::from(hazard_mbit_s) * 1_000_000;
        let mut network = Network::new(setup, hazard_bit_s, workstation.now());
        workstation.run(
            workstation.now().plus(WARM.max(filled(hazard_bit_s))),
            &mut network,
        );
        let (begin, before) = (workstation.now(), Seen::by(&mut workstation));
        workstation.run(begin.plus(setup.span), &mut network);
        let (span, seen) = (workstation.now().since(begin), Seen::by(&mut workstation));
        let loops = Host::idler_loops(span, seen.busy.since(before.busy));
        let reference = Rational::from(Host::idler_loops(span, Ps::ZERO));
        let idle = Rational::from(loops) / reference;
        Ok(Self {
            hazard_mbit_s,
            cpu_percent: Rational::whole(100) * (Rational::ONE - idle),
            interrupts_s: per_s(seen.interrupts - before.interrupts, span),
            full_s: per_s(seen.full - before.full, span),
            pdu_s: [0, 1, 2].map(|i| per_s(seen.pdus[i] - before.pdus[i], span)),
        })
    }

    pub(super) fn all_pdu_s(&self) -> Rational {
        self.pdu_s
            .into_iter()
            .fold(Rational::ZERO, |sum, rate| sum + rate)
    }
}

/// How long a hazard of that rate takes to fill its buffer, which is emptied at its contract.
fn filled(hazard_bit_s: u64) -> Ps {
    let bits = u128::from(BUFFER_PDUS) * u128::from(SDU) * 8;
    let excess_bit_s = u128::from(hazard_bit_s.saturating_sub(CONTRACT_BIT_S));
    let time = (bits * 1_000_000_000_000).checked_div(excess_bit_s);
    Ps::new(time.map_or(0, |ps| ps as u64))
}

/// Counters at one moment.
struct Seen {
    busy: Ps,
    interrupts: u64,
    full: u64,
    pdus: [u64; 3],
}

impl Seen {
    fn by(workstation: &mut Workstation) -> Self {
        Self {
            full: workstation.board().full_told(),
            busy: workstation.host().busy(),
            interrupts: workstation.host().interrupts(),
            pdus: [0, 1, 2].map(|i| workstation.host().received(i)),
        }
    }
}
