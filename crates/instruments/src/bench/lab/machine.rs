//! The machine of *Policing Offloaded*: the adapter on a board that turns its work into cycles.

use anyhow::{Context, ensure};
use cellgate_core::contract::aal5_cells;
use cellgate_core::wire::VpiVci;
use cellgate_lab::machine::{
    Arrivals, BoardConfig, Cycles, HostCosts, ReceiveSpec, Workstation, pdu_cells,
};
use cellgate_lab::world::{Flying, Octets, Ps};

use super::network::SDU;

/// Which cost tables are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charged {
    /// None: every turn of the firmware takes a cycle.
    Nothing,
    Board,
    /// The i960's, and the host's interrupts and PDUs.
    Both,
}

/// So that a turn of the firmware finds the same whatever time turns take.
struct CellATurn {
    pdu: Vec<Octets>,
    sent: usize,
    due: bool,
}

impl Arrivals for CellATurn {
    fn next(&mut self, now: Ps) -> Option<Flying> {
        self.due = !self.due;
        let octets = self.pdu[self.sent % self.pdu.len()];
        self.sent += usize::from(self.due);
        self.due.then_some(Flying { at: now, octets })
    }
}

/// Receives PDUs of as many cells, one cell a turn.
///
/// # Errors
/// One of them is missing, or cycles were charged that are not to be.
pub(super) fn run(charged: Charged, cells: u64) -> anyhow::Result<()> {
    let board = BoardConfig {
        charged: charged != Charged::Nothing,
        ..BoardConfig::PAPER
    };
    let us = |us: u64| Ps::from_ns(1_000 * us);
    let host = match charged {
        Charged::Both => HostCosts {
            interrupt: us(16),
            pdu: us(16),
            event: Ps::ZERO,
        },
        Charged::Nothing | Charged::Board => HostCosts::NONE,
    };
    let address = VpiVci::new(0, 32).context("an address")?;
    let mut workstation = Workstation::new(board, host)?;
    workstation.receive(&ReceiveSpec {
        address,
        sdu: SDU,
        buffer_pdus: 8,
        drain: Ps::ZERO,
    })?;
    let mut arrivals = CellATurn {
        pdu: pdu_cells(address, SDU)?,
        sent: 0,
        due: false,
    };
    for _ in 0..cells {
        workstation.run(workstation.now().plus(Ps::new(1)), &mut arrivals);
    }
    let (pdus, sent) = (
        workstation.host().received(0),
        cells / u64::from(aal5_cells(SDU.into())),
    );
    ensure!(pdus == sent, "{pdus} PDUs received of {sent}");
    let is_charged = workstation.cycles() != Cycles::default();
    ensure!(
        is_charged == (charged != Charged::Nothing),
        "cycles: {is_charged}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pdu_is_received_whatever_is_charged() {
        for charged in [Charged::Nothing, Charged::Board, Charged::Both] {
            run(charged, 3_200).unwrap();
        }
    }
}
