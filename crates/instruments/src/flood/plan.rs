//! What the demo is made of: connections, ports, sizes, phases. Every bound here has its reason
//! beside it.

use cellgate_core::adapter::{
    AttachmentIndex, Config, Notification, OpenRequest, PortIndex, Receive,
};
use cellgate_core::contract::{CellRate, Lateness, PduStream, aal5_cells};
use cellgate_core::queue::{AttachmentSizes, ConnectionSizes};
use cellgate_core::wire::{CellFormat, VpiVci};
use cellgate_host::client::memory_for;
use cellgate_report::bitrate::bit_s;
use serde::{Deserialize, Serialize};

use crate::live::rig::{one_vc, port, receive, request};
use crate::live::weather::GAP_MAX_NS;

/// Octets of every SDU (*Policing Offloaded*, section 6).
pub(crate) const SDU: u32 = 8_192;
/// Cells of its PDU.
pub(crate) const PDU_CELLS: usize = aal5_cells(SDU) as usize;
/// The memory link carries cells as pseudowires do, without HEC.
pub(crate) const FORMAT: CellFormat = CellFormat::NoHec;

/// CDVT of the two guaranteed connections: how late their sources may be and still release all that
/// was due. A sender is a process among others, and its CPU has floods on it.
const CDVT_NS: u64 = 100_000_000;
/// CDVT of the third. A flood has all of it at its begin: the less it is, the closer to the
/// contract is what gets through in a short phase.
const CDVT_HAZARD_NS: u64 = 30_000_000;
/// How late the reader may run, and the buffers still hold what comes. It shares its CPU with
/// senders that never sleep.
pub(crate) const READER_LATE_NS: u64 = 250_000_000;

/// Rates of the contracts, bit/s of SDU (*Policing Offloaded*, section 6): two conforming senders,
/// and the one that will not conform.
pub(crate) const CONTRACTS_BIT_S: [u64; 3] = [20_000_000, 20_000_000, 40_000_000];
/// The connection whose sender becomes the hazard.
pub(crate) const HAZARD: usize = 2;
/// VCI of the first connection, in VPI 0: the first ones above those that I.361 reserves are 32 on.
const FIRST_VCI: u16 = 100;

/// Ports: one for each connection, one for the stranger.
pub(crate) const PORTS: u8 = 4;
/// The stranger's port.
pub(crate) const STRANGER_PORT: PortIndex = PortIndex(3);

/// One guaranteed connection.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Connection {
    /// Its number, from 0.
    pub(crate) index: usize,
    /// Bit/s of SDU.
    pub(crate) contract_bit_s: u64,
    /// Where its cells arrive.
    pub(crate) port: PortIndex,
}

/// The three connections; with `shared_port`, all on port 0.
pub(crate) fn connections(shared_port: bool) -> Vec<Connection> {
    let rates = CONTRACTS_BIT_S.into_iter().enumerate();
    rates
        .map(|(index, contract_bit_s)| Connection {
            index,
            contract_bit_s,
            port: PortIndex(if shared_port { 0 } else { index as u8 }),
        })
        .collect()
}

impl Connection {
    pub(crate) fn address(&self) -> VpiVci {
        VpiVci::from_bits(u32::from(FIRST_VCI) + self.index as u32)
    }

    /// One on its port that nobody opened.
    pub(crate) fn nobodys_address(&self) -> VpiVci {
        VpiVci::from_bits(self.address().bits() + u32::from(PORTS))
    }

    /// Whose its SDUs are in a run.
    pub(crate) fn flow(&self, run: u32) -> u32 {
        run * u32::from(PORTS) + self.index as u32
    }

    /// As people call it.
    pub(crate) fn name(&self) -> String {
        format!("C{}", self.index + 1)
    }

    /// Cells/s of the contract, rounded up: a rate rounded down would make a sender at exactly the
    /// contract's bit/s drift ahead of it.
    pub(crate) fn rate(&self) -> CellRate {
        CellRate::for_sdu_rate(self.contract_bit_s, SDU).unwrap_or(CellRate::OC3)
    }

    /// How late its source may be.
    pub(crate) fn cdvt_ns(&self) -> u64 {
        match self.index {
            HAZARD => CDVT_HAZARD_NS,
            _ => CDVT_NS,
        }
    }

    /// Whether a source at `rate` keeps the contract.
    pub(crate) fn allows(&self, rate: Hazard) -> bool {
        matches!(rate, Hazard::BitS(bit_s) if bit_s <= self.contract_bit_s)
    }

    /// Memory for whatever may wait when everybody is as late as admitted at once: PDUs that the
    /// source was late with, those of the adapter's gap, those of the reader's absence.
    pub(crate) fn sizes(&self) -> ConnectionSizes {
        let stream = PduStream {
            peak: self.rate(),
            sustained: self.rate(),
            sdu: SDU,
            cells: aal5_cells(SDU),
            dvt_ns: 0,
        };
        let pdus = stream.buffer_pdus(Lateness {
            //  The policing limit lets one PDU time more come early than CDVT says: at most one PDU
            //  above what `buffer_pdus` counts, the second one here is for the PDU being written.
            cdv_ns: self.cdvt_ns() + GAP_MAX_NS,
            wake_up_ns: READER_LATE_NS,
            coalescing_ns: 0,
        }) + 2;
        memory_for(SDU as u16, pdus as u32, 0)
    }

    /// How it is opened.
    pub(crate) fn open(&self, attachment: AttachmentIndex) -> OpenRequest {
        let receive = Receive {
            rate: Some(self.rate()),
            cdvt_ns: self.cdvt_ns(),
            fixed_sdu: true,
            ..receive(SDU as u16, Notification::LastCell)
        };
        OpenRequest {
            port: self.port,
            attachment,
            ..request(self.address(), Some(receive), None)
        }
    }
}

/// Events that can wait: one for each PDU that can wait (below 500).
pub(crate) const ATTACHMENT: AttachmentSizes = AttachmentSizes {
    event_slots: 1_024,
    doorbell_slots: 16,
};

/// Cells that can wait on a port: what a conforming source brings after its admitted lateness in an
/// admitted gap of the adapter (130 ms x 52,186 cells/s = 6,784; 60 ms x 104,371 = 6,262); on a
/// shared port, all three bring that (19,830).
pub(crate) const fn port_cells(shared_port: bool) -> u32 {
    if shared_port { 32_768 } else { 8_192 }
}

/// Cells that can wait on a port when the adapter also transmits: a line's 353,207 cells/s for
/// 185 ms, in which their counter may be kept from running.
pub(crate) const TRANSMIT_PORT_CELLS: u32 = 65_536;

/// Cells of one port that the adapter takes in one step. A flood gets no more of a step than this,
/// so that a PDU on another port waits for at most 3 x 256 cells of others; all of a shared port's
/// cells come from one place, so it may have as many at once.
pub(crate) const BUDGET: u16 = 256;

/// The adapter of the demo.
pub(crate) fn adapter_config(shared_port: bool) -> Config {
    let (ports, budget) = match shared_port {
        true => (1, 4 * BUDGET),
        false => (PORTS, BUDGET),
    };
    Config {
        vcs: 16,
        leaves: 4,
        attachments: 2,
        ports: vec![port(budget); ports.into()],
        ..one_vc()
    }
}

/// How fast the hazard sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Hazard {
    /// Bit/s of SDU; 0: not at all.
    BitS(u64),
    /// As fast as its sender can.
    Max,
}

impl Hazard {
    /// Reads `max`, or bit/s of SDU.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.trim().eq_ignore_ascii_case("max") {
            true => Ok(Self::Max),
            false => bit_s(text)
                .map(Self::BitS)
                .map_err(|error| format!("{error}, or max")),
        }
    }
}

/// What the stranger sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Strange {
    Nothing,
    /// Cells of VCs that nobody opened.
    Scan,
    /// Nothing, but the third sender sends as fast as it can besides what it sends on its VC, on
    /// the same port, to an address that nobody opened.
    Beside,
}

/// What all senders do for a while.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    /// As `--json` has it.
    pub(crate) name: String,
    /// The third sender.
    pub(crate) hazard: Hazard,
    pub(crate) strange: Strange,
}

impl Phase {
    pub(crate) fn new(name: impl Into<String>, hazard: Hazard, strange: Strange) -> Self {
        Self {
            name: name.into(),
            hazard,
            strange,
        }
    }
}

/// The third sender within its contract.
pub(crate) const AT_CONTRACT: Hazard = Hazard::BitS(CONTRACTS_BIT_S[HAZARD]);

/// The four phases of a demo.
pub(crate) fn phases(hazard: Hazard) -> Vec<Phase> {
    vec![
        Phase::new("quiet", Hazard::BitS(0), Strange::Nothing),
        Phase::new("contract", AT_CONTRACT, Strange::Nothing),
        Phase::new("flood", hazard, Strange::Nothing),
        Phase::new("strangers", Hazard::BitS(0), Strange::Scan),
    ]
}

/// Steps of `--sweep`: 10^6 bit/s of SDU. The contract's 40, the paper's range to 140, and beyond.
const SWEEP_MBIT_S: [u64; 14] = [0, 2, 5, 10, 20, 30, 40, 60, 80, 100, 140, 200, 400, 800];

/// More of them on a shared port, to find where it begins to overflow.
const SWEEP_SHARED_MBIT_S: [u64; 5] = [2_000, 4_000, 8_000, 12_000, 16_000];

/// The phases of `--sweep`.
pub(crate) fn sweep(shared_port: bool) -> Vec<Phase> {
    let beyond: &[u64] = if shared_port {
        &SWEEP_SHARED_MBIT_S
    } else {
        &[]
    };
    let rates = SWEEP_MBIT_S.iter().chain(beyond);
    let steps = rates.map(|mbit_s| {
        let hazard = Hazard::BitS(mbit_s * 1_000_000);
        Phase::new(format!("hazard {mbit_s} Mbit/s"), hazard, Strange::Nothing)
    });
    let last = Phase::new("hazard max", Hazard::Max, Strange::Nothing);
    steps.chain([last]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contracts_are_not_below_their_bit_rate() {
        for connection in connections(false) {
            assert!(connection.rate().sdu_bit_s(SDU) >= connection.contract_bit_s);
            let one_less = CellRate::new(connection.rate().cell_s() - 1);
            assert!(one_less.is_some_and(|r| r.sdu_bit_s(SDU) < connection.contract_bit_s));
        }
    }

    #[test]
    fn ports_hold_what_the_comment_says() {
        let connections = connections(false);
        let cells = connections
            .iter()
            .map(|c| u64::from(c.rate().cell_s()) * (c.cdvt_ns() + GAP_MAX_NS) / 1_000_000_000);
        let one: u64 = cells.clone().max().unwrap_or_default();
        let all: u64 = cells.sum();
        //  Up to three PDUs more are due at the very edges.
        assert!(one + PDU_CELLS as u64 <= port_cells(false).into());
        assert!(all + 3 * PDU_CELLS as u64 <= port_cells(true).into());
        let pdus: u32 = connections.iter().map(|c| c.sizes().receive_slots).sum();
        assert!(pdus <= ATTACHMENT.event_slots);
    }
}
