//! What a flood shows, phase by phase: the object of `--json`, whose keys are for programs and
//! stay.

use std::collections::BTreeMap;

use cellgate_core::adapter::DiscardCounts;
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// In order. A phase whose tries were all void has a reason.
    pub(crate) phases: Vec<PhaseReport>,
    /// `PASS`, `FAIL` or `VOID`, and what that means.
    pub(crate) verdict: String,
}

/// One phase: its last try.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PhaseReport {
    /// `quiet`, `contract`, `flood`, `strangers`, or a step of a sweep.
    pub(crate) name: String,
    /// How long the senders sent.
    pub(crate) seconds: f64,
    /// Why it says nothing, if it does not.
    pub(crate) void_reason: Option<String>,
    /// Tries, this one included.
    pub(crate) tries: u32,
    pub(crate) connections: Vec<ConnectionReport>,
    /// The host's process.
    pub(crate) host: HostUse,
    pub(crate) adapter: AdapterUse,
    pub(crate) link: LinkUse,
    /// When the adapter was not running.
    pub(crate) gaps: GapUse,
    /// What the verdict needs beside it.
    #[serde(skip)]
    pub(crate) more: More,
}

/// One connection in a phase.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ConnectionReport {
    /// Of its address.
    pub(crate) vpi: u16,
    /// Of its address.
    pub(crate) vci: u16,
    /// Bit/s of SDU that it is guaranteed.
    pub(crate) contract_bit_s: u64,
    /// Bit/s of SDU that its source released, whether or not the port had room.
    pub(crate) offered_bit_s: u64,
    /// Bit/s of SDU that reached the host whole.
    pub(crate) delivered_bit_s: u64,
    /// PDUs that the port took whole.
    pub(crate) sent_pdus: u64,
    /// PDUs that the host got and found right.
    pub(crate) delivered_pdus: u64,
    /// PDUs that the host got and found wrong.
    pub(crate) corrupt_pdus: u64,
    /// PDUs that the adapter discarded; reasons without any are left out.
    pub(crate) discarded: BTreeMap<&'static str, u64>,
    /// From the release at the source to the check at the host.
    pub(crate) latency_ns: Latency,
}

/// Nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

/// What a phase cost the host.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct HostUse {
    /// Events that it handled.
    pub(crate) events: u64,
    /// Times that the adapter woke it.
    pub(crate) wakeups: u64,
    /// CPU time of its process.
    pub(crate) cpu_ns: u64,
}

/// What the adapter did.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct AdapterUse {
    /// Cells.
    pub(crate) cells_received: u64,
    /// Cells; reasons without any are left out.
    pub(crate) cells_discarded: BTreeMap<&'static str, u64>,
}

/// What the ports did.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct LinkUse {
    /// The most cells that waited on one port.
    pub(crate) queued_max: u64,
    /// Cells that found a port full, those of withdrawn PDUs included.
    pub(crate) dropped: u64,
}

/// What the gap detector saw.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct GapUse {
    /// Gaps of 100,000 ns and more.
    pub(crate) count: u64,
    /// The longest one.
    pub(crate) max_ns: u64,
    /// All of them.
    pub(crate) total_ns: u64,
}

/// What the text and the verdict need and `--json` has not.
#[derive(Clone, Debug, Default)]
pub(crate) struct More {
    /// Rules that were broken, in words.
    pub(crate) faults: Vec<String>,
    /// Cells/s that the adapter discarded while the senders sent.
    pub(crate) discarded_cell_s: u64,
    /// The longest lateness of a paced source.
    pub(crate) source_late_ns: u64,
    /// The longest lateness of the host.
    pub(crate) reader_late_ns: u64,
    /// PDUs of each connection of which the full port took only a part.
    pub(crate) damaged_pdus: Vec<u64>,
}

impl PhaseReport {
    /// PDUs that reached the host.
    pub(crate) fn delivered(&self) -> u64 {
        self.connections.iter().map(|c| c.delivered_pdus).sum()
    }

    /// Host CPU time for each of them, in nanoseconds.
    pub(crate) fn cpu_ns_per_pdu(&self) -> Option<u64> {
        self.host.cpu_ns.checked_div(self.delivered())
    }
}

/// The reasons that have a count.
pub(crate) fn by_name(counts: &DiscardCounts) -> BTreeMap<&'static str, u64> {
    let named = counts.iter().filter(|(_, n)| *n > 0);
    named.map(|(reason, n)| (reason.name(), n)).collect()
}

/// What was counted between two readings.
pub(crate) fn counted(now: &DiscardCounts, before: &DiscardCounts) -> DiscardCounts {
    let mut between = DiscardCounts::default();
    for (reason, n) in now.iter() {
        between.add(reason, n - before.of(reason));
    }
    between
}

/// The rate of `n` in `ns` nanoseconds, in 1/s.
pub(crate) fn per_second(n: u64, ns: u64) -> u64 {
    (u128::from(n) * 1_000_000_000 / u128::from(ns.max(1))) as u64
}

/// 10^6 of something per second.
pub(crate) fn million(per_s: u64) -> String {
    match per_s {
        0 => "0".to_owned(),
        _ => format!("{:.2} M", per_s as f64 / 1e6),
    }
}
