//! What the demo reports: the object of `--json`, whose keys are for programs and stay.

use std::collections::BTreeMap;

use cellgate_core::adapter::DiscardCounts;
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    /// In order. A phase whose tries were all void has a reason.
    pub(super) phases: Vec<PhaseReport>,
    /// `PASS`, `FAIL` or `VOID`, and what that means.
    pub(super) verdict: String,
}

/// One phase: its last try.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PhaseReport {
    /// `quiet`, `contract`, `flood`, `strangers`, or a step of a sweep.
    pub(super) name: String,
    /// How long the senders sent.
    pub(super) seconds: f64,
    /// Why it says nothing, if it does not.
    pub(super) void_reason: Option<String>,
    /// Tries, this one included.
    pub(super) tries: u32,
    pub(super) connections: Vec<ConnectionReport>,
    /// The host's process.
    pub(super) host: HostUse,
    pub(super) adapter: AdapterUse,
    pub(super) link: LinkUse,
    /// When the adapter was not running.
    pub(super) gaps: GapUse,
    /// What the verdict needs beside it.
    #[serde(skip)]
    pub(super) more: More,
}

/// One connection in a phase.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ConnectionReport {
    /// Of its address.
    pub(super) vpi: u16,
    /// Of its address.
    pub(super) vci: u16,
    /// Bit/s of SDU that it is guaranteed.
    pub(super) contract_bit_s: u64,
    /// Bit/s of SDU that its source released, whether or not the port had room.
    pub(super) offered_bit_s: u64,
    /// Bit/s of SDU that reached the host whole.
    pub(super) delivered_bit_s: u64,
    /// PDUs that the port took whole.
    pub(super) sent_pdus: u64,
    /// PDUs that the host got and found right.
    pub(super) delivered_pdus: u64,
    /// PDUs that the host got and found wrong.
    pub(super) corrupt_pdus: u64,
    /// PDUs that the adapter discarded; reasons without any are left out.
    pub(super) discarded: BTreeMap<&'static str, u64>,
    /// From the release at the source to the check at the host.
    pub(super) latency_ns: Latency,
}

/// Nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Latency {
    pub(super) p50: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
}

/// What a phase cost the host.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct HostUse {
    /// Events that it handled.
    pub(super) events: u64,
    /// Times that the adapter woke it.
    pub(super) wakeups: u64,
    /// CPU time of its process.
    pub(super) cpu_ns: u64,
}

/// What the adapter did.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct AdapterUse {
    /// Cells.
    pub(super) cells_received: u64,
    /// Cells; reasons without any are left out.
    pub(super) cells_discarded: BTreeMap<&'static str, u64>,
}

/// What the ports did.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct LinkUse {
    /// The most cells that waited on one port.
    pub(super) queued_max: u64,
    /// Cells that found a port full, those of withdrawn PDUs included.
    pub(super) dropped: u64,
}

/// What the gap detector saw.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct GapUse {
    /// Gaps of 100,000 ns and more.
    pub(super) count: u64,
    /// The longest one.
    pub(super) max_ns: u64,
    /// All of them.
    pub(super) total_ns: u64,
}

/// What the text and the verdict need and `--json` has not.
#[derive(Clone, Debug, Default)]
pub(super) struct More {
    /// Rules that were broken, in words.
    pub(super) faults: Vec<String>,
    /// Cells/s that the adapter discarded while the senders sent.
    pub(super) discarded_cell_s: u64,
    /// The longest lateness of a paced source.
    pub(super) source_late_ns: u64,
    /// The longest lateness of the host.
    pub(super) reader_late_ns: u64,
    /// PDUs of each connection of which the full port took only a part.
    pub(super) damaged_pdus: Vec<u64>,
}

impl PhaseReport {
    /// PDUs that reached the host.
    pub(super) fn delivered(&self) -> u64 {
        self.connections.iter().map(|c| c.delivered_pdus).sum()
    }

    /// Host CPU time for each of them, in nanoseconds.
    pub(super) fn cpu_ns_per_pdu(&self) -> Option<u64> {
        self.host.cpu_ns.checked_div(self.delivered())
    }
}

/// The reasons that have a count.
pub(super) fn by_name(counts: &DiscardCounts) -> BTreeMap<&'static str, u64> {
    let named = counts.iter().filter(|(_, n)| *n > 0);
    named.map(|(reason, n)| (reason.name(), n)).collect()
}

/// What was counted between two readings.
pub(super) fn counted(now: &DiscardCounts, before: &DiscardCounts) -> DiscardCounts {
    let mut between = DiscardCounts::default();
    for (reason, n) in now.iter() {
        between.add(reason, n - before.of(reason));
    }
    between
}

/// The rate of `n` in `ns` nanoseconds, in 1/s.
pub(super) fn per_second(n: u64, ns: u64) -> u64 {
    (u128::from(n) * 1_000_000_000 / u128::from(ns.max(1))) as u64
}
