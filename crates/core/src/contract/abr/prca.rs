//! PRCA, the proportional rate control of 1994 that came before TM 4.0: a source slows down with
//! each cell, and only RM cells of a receiver that sees no congestion speed it up.
//!
//! A network that loses RM cells, or a receiver that is gone, so slows a source down by itself. It
//! is here for comparison: no contract has it.

use serde::{Deserialize, Serialize};

use super::{AbrRate, Part};
use crate::contract::CellRate;

/// What a source of PRCA is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PrcaParameters {
    /// The rate is never above it.
    pub pcr: CellRate,
    /// Nor below it. None: 0.
    pub mcr: Option<CellRate>,
    /// The rate at the beginning.
    pub icr: CellRate,
    /// One cell of so many asks the receiver for an RM cell: it has EFCI 0.
    pub n: u16,
    /// Additive increase rate of each of N cells, as a part of PCR.
    pub air: Part,
    /// Multiplicative decrease factor: the part of the rate that a cell costs.
    pub mdf: Part,
}

/// A source of PRCA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrcaSource {
    parameters: PrcaParameters,
    acr: AbrRate,
    /// Additive decrease rate: what each cell costs until the next RM cell.
    adr: AbrRate,
    cells: u16,
}

impl PrcaSource {
    /// A source that has sent nothing.
    pub fn new(parameters: PrcaParameters) -> Self {
        let acr = AbrRate::of(parameters.icr.min(parameters.pcr));
        Self {
            parameters,
            acr,
            adr: acr.part(parameters.mdf),
            cells: 0,
        }
    }

    /// The allowed cell rate.
    pub const fn rate(&self) -> AbrRate {
        self.acr
    }

    fn floor(&self) -> AbrRate {
        self.parameters.mcr.map_or(AbrRate::ZERO, AbrRate::of)
    }

    /// A cell of data leaves: the EFCI that it is sent with. The rate falls.
    pub fn cell(&mut self) -> bool {
        let asks = self.cells == 0;
        self.cells = (self.cells + 1) % self.parameters.n.max(1);
        self.acr = self.acr.minus(self.adr).max(self.floor());
        !asks
    }

    /// An RM cell came: it gives back what N cells have cost, and adds to it.
    pub fn rm(&mut self) {
        let n = u32::from(self.parameters.n.max(1));
        let pcr = AbrRate::of(self.parameters.pcr);
        let more = self.adr.plus(pcr.part(self.parameters.air)).times(n);
        self.acr = self.acr.plus(more).min(pcr);
        self.adr = self.acr.part(self.parameters.mdf);
    }
}

/// A receiver of PRCA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrcaDestination;

impl PrcaDestination {
    /// A cell of data came with this EFCI: whether an RM cell is sent for it. A network that is
    /// congested sets EFCI, so that cells which ask do so no more.
    pub const fn data(self, marked: bool) -> bool {
        !marked
    }
}
