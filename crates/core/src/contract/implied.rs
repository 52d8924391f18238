//! What a contract implies: bursts and buffers, in integers.
//!
//! Paper 003 prints some of these in a form that is short by a PDU or that truncates; those forms
//! are kept under `printed` names, for its figures only.

use core::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::{CellRate, TrafficDescriptor, aal5_cells};
use crate::wire::PAYLOAD_LEN;

const NS_PER_S: u128 = 1_000_000_000;
/// PDUs start on this boundary in a receive buffer.
const PDU_ALIGN: u64 = 64;

/// PDUs of one size as a contract lets them come.
///
/// With T the time of a PDU at the sustained rate, D at the peak rate, and tau the delay variation
/// tolerance (paper 003, section 2.4). A PDU takes whole cells, so a rate in bit/s of SDU becomes
/// cells/s first ([`CellRate::for_sdu_rate`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PduStream {
    /// The rate within a burst.
    pub peak: CellRate,
    /// The rate over time, at most `peak`.
    pub sustained: CellRate,
    /// Octets of SDU in each PDU.
    pub sdu: u32,
    /// Cells of each PDU; 0 counts as 1.
    pub cells: u32,
    /// Delay variation tolerance tau.
    pub dvt_ns: u64,
}

/// How late PDUs may come to their reader, beyond what the sender was allowed, each in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// Cell delay variation of the way here.
    pub cdv_ns: u64,
    /// From an interrupt to the reader running.
    pub wake_up_ns: u64,
    /// The longest delay that notification adds on purpose (silent events).
    pub coalescing_ns: u64,
}

impl TrafficDescriptor {
    /// The stream of the largest SDUs in AAL5 PDUs, `sdu` octets if the descriptor gives no size,
    /// on a link of `line` cells/s.
    pub fn pdus(&self, line: CellRate, sdu: u32) -> PduStream {
        let sdu = self.max_sdu.map_or(sdu, NonZeroU32::get);
        PduStream {
            peak: self.peak().on(line),
            sustained: self.sustained(line),
            sdu,
            cells: aal5_cells(sdu),
            dvt_ns: self.dvt_ns.unwrap_or(0),
        }
    }
}

impl PduStream {
    pub(super) const fn pdu_cells(&self) -> u32 {
        match self.cells {
            0 => 1,
            cells => cells,
        }
    }

    /// The most PDUs at the peak rate, 1 + floor(tau / (T - D)): the maximum burst size of the ATM
    /// Forum, paper 003's Equation 1. None if T = D: the peak rate can last.
    pub fn burst_pdus(&self) -> Option<u64> {
        let peak = self.peak.cell_s() as u128;
        let sustained = self.sustained.cell_s() as u128;
        let spread = peak.checked_sub(sustained).filter(|spread| *spread != 0)?;
        // At most (2^64 - 1)(2^32 - 1)^2 < 2^128.
        let tau = self.dvt_ns as u128 * peak * sustained;
        let burst = 1 + tau / (self.pdu_cells() as u128 * spread * NS_PER_S);
        Some(saturated(burst))
    }

    /// ceil(`ns` / T), T at the sustained rate.
    fn pdus_within(&self, ns: u128) -> u128 {
        // `ns` is a sum of four 64-bit terms at most: below 2^66 * 2^32.
        let cells = ns * self.sustained.cell_s() as u128;
        cells.div_ceil(self.pdu_cells() as u128 * NS_PER_S)
    }

    /// Receive buffer in PDUs as paper 003 prints it (Equation 2): ceil(tau / T). One PDU short
    /// wherever the PDU being read stays in the buffer.
    pub fn buffer_pdus_printed(&self) -> u64 {
        saturated(self.pdus_within(self.dvt_ns as u128))
    }

    /// Equation 2 in octets of SDU.
    pub fn buffer_octets_printed(&self) -> u64 {
        self.buffer_pdus_printed().saturating_mul(self.sdu as u64)
    }

    /// Receive buffer in PDUs: ceil((tau + CDV + wake-up + coalescing) / T) + 1. The last one is
    /// the PDU being read.
    pub fn buffer_pdus(&self, lateness: Lateness) -> u64 {
        let ns = [
            self.dvt_ns,
            lateness.cdv_ns,
            lateness.wake_up_ns,
            lateness.coalescing_ns,
        ];
        let ns = ns.iter().map(|ns| *ns as u128).sum();
        saturated(self.pdus_within(ns) + 1)
    }

    /// Octets of buffer that one PDU takes: its cells' payloads, up to the next multiple of 64.
    pub const fn pdu_octets(&self) -> u64 {
        (self.pdu_cells() as u64 * PAYLOAD_LEN as u64).next_multiple_of(PDU_ALIGN)
    }

    /// Receive buffer in octets: [`buffer_pdus`](Self::buffer_pdus) whole PDUs. `u64::MAX` stands
    /// for more than that.
    pub fn buffer_octets(&self, lateness: Lateness) -> u64 {
        let pdus = self.buffer_pdus(lateness);
        pdus.saturating_mul(self.pdu_octets())
    }
}

fn saturated(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
