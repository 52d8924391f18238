//! The parameters of an ABR direction (TM 4.0, sections 5.10.1 and 5.10.2).

use core::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::{AbrRate, Part};
use crate::contract::CellRate;

/// What a source is told when its connection is opened. Each direction has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AbrParameters {
    /// Peak cell rate: it is never exceeded.
    pub pcr: CellRate,
    /// Minimum cell rate: it is always allowed. None: 0.
    pub mcr: Option<CellRate>,
    /// Initial cell rate, in cells/s: at the beginning and after idling.
    pub icr: CellRate,
    /// Rate increase factor: the part of PCR by which an RM cell raises the rate.
    pub rif: Part,
    /// Rate decrease factor: the part of itself by which congestion lowers the rate.
    pub rdf: Part,
    /// Cutoff decrease factor: the part of itself by which silence lowers the rate. None: 0.
    pub cdf: Option<Part>,
    /// A forward RM cell is one of so many cells, 2 to 256.
    pub nrm: u16,
    /// The longest time between two forward RM cells of a source that sends.
    pub trm_ns: u64,
    /// ACR decrease time factor: a rate that is not used for so long is given up.
    pub adtf_ns: u64,
    /// Transient buffer exposure: cells that may be sent before the network has said anything.
    pub tbe: u32,
}

impl AbrParameters {
    /// Cells of any kind that make a forward RM cell due together with Trm.
    pub const MRM: u32 = 2;
    /// The most out-of-rate forward RM cells, 10 a second.
    pub const TCR: CellRate = CellRate::new(10).expect("not zero");
    /// Nrm where none is given.
    pub const NRM: u16 = 32;
    /// Trm where none is given: 100 ms, the longest.
    pub const TRM_NS: u64 = 100_000_000;
    /// ADTF where none is given: 0.5 s.
    pub const ADTF_NS: u64 = 500_000_000;
    /// TBE where none is given: 2^24 - 1, the most.
    pub const TBE: u32 = (1 << 24) - 1;

    /// TM 4.0's defaults: the source begins at PCR, and nothing is reserved.
    pub const fn new(pcr: CellRate) -> Self {
        Self {
            pcr,
            mcr: None,
            icr: pcr,
            rif: Part::SIXTEENTH,
            rdf: Part::SIXTEENTH,
            cdf: Some(Part::SIXTEENTH),
            nrm: Self::NRM,
            trm_ns: Self::TRM_NS,
            adtf_ns: Self::ADTF_NS,
            tbe: Self::TBE,
        }
    }

    /// The initial rate once the round trip is known: min(ICR, TBE / FRTT), no less than MCR and
    /// than a cell/s.
    pub fn icr_for(icr: CellRate, mcr: Option<CellRate>, tbe: u32, frtt_ns: u64) -> CellRate {
        let exposed = (u64::from(tbe) * 1_000_000_000).checked_div(frtt_ns);
        let exposed = exposed.map_or(u32::MAX, |cell_s| u32::try_from(cell_s).unwrap_or(u32::MAX));
        let initial = icr.min(CellRate::new(exposed.max(1)).unwrap_or(icr));
        mcr.map_or(initial, |mcr| initial.max(mcr))
    }

    /// Missing RM cells count: forward RM cells without an answer before silence counts,
    /// ceil(TBE / Nrm).
    pub const fn crm(&self) -> u32 {
        let nrm = if self.nrm == 0 { 1 } else { self.nrm };
        self.tbe.div_ceil(nrm as u32)
    }

    /// MCR, 0 if there is none.
    pub const fn floor(&self) -> AbrRate {
        match self.mcr {
            Some(mcr) => AbrRate::of(mcr),
            None => AbrRate::ZERO,
        }
    }

    /// Forward RM cells that a source at a rate which nobody answers sends until its rate is MCR:
    /// the CRM that it waits for, and as many as lower the rate. None: it never is, for CDF is 0.
    pub fn forwards_to_floor(&self, from: AbrRate) -> Option<u64> {
        let cdf = self.cdf?;
        let (mut rate, mut forwards) = (from, 0);
        while rate > self.floor() {
            rate = rate.without(cdf).max(self.floor());
            forwards += 1;
        }
        Some(u64::from(self.crm()) + forwards)
    }

    /// RM cells a second that a peer which keeps the rules sends at most to somebody who sends with
    /// `back`: its own, and those of `back` turned round; notices and out-of-rate ones beside.
    pub fn rm_cell_s(&self, back: Option<&Self>) -> CellRate {
        const BESIDE: u64 = 10 + 10 + 10;
        let forward = |of: &Self| {
            let by_cells = u64::from(of.pcr.cell_s()).div_ceil(u64::from(of.nrm.max(1)));
            by_cells + 1_000_000_000u64.div_ceil(of.trm_ns.max(1))
        };
        let sum = forward(self) + back.map_or(0, forward) + BESIDE;
        let sum = NonZeroU32::new(u32::try_from(sum).unwrap_or(u32::MAX));
        sum.and_then(|sum| CellRate::new(sum.get()))
            .unwrap_or(Self::TCR)
    }
}
