//! What an adapter's process counts beside the adapter: gaps, rests, ports, pseudowires.

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::adapter::{AttachmentIndex, PortStats};
use crate::line::LineCounts;

/// How long the adapter went without reading its clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapReport {
    /// Distances between consecutive clock reads from here on count as gaps.
    pub threshold_ns: u64,
    pub count: u64,
    /// The longest gap.
    pub max_ns: u64,
    /// All gaps together.
    pub total_ns: u64,
    /// Gaps by the base-2 logarithm of their nanoseconds.
    pub histogram: Vec<u64>,
    pub steps: u64,
    /// Steps whose duration was measured: those that handled many cells, and one in 64.
    pub steps_timed: u64,
    /// Measured steps as long as a gap. A step's own work is bounded below the threshold, so these
    /// were interrupted; they are no part of `step_max_ns`.
    pub steps_interrupted: u64,
    /// The longest measured step below the threshold. An interruption shorter than that is in it;
    /// the histogram shows how rare such steps are.
    pub step_max_ns: u64,
    /// Measured steps by the base-2 logarithm of their nanoseconds.
    pub step_histogram: Vec<u64>,
    /// All of these together.
    #[serde(default)]
    pub step_total_ns: u64,
    /// What is no gap: the firmware rested.
    pub rests: RestReport,
    /// Octets of connections' memory that the kernel did not let the adapter lock, where that is
    /// wanted: it may take them away, which makes a gap.
    #[serde(default)]
    pub unlocked: u64,
}

impl GapReport {
    /// What happened since `earlier`. The two maxima cannot be taken apart: they stay those since
    /// the maxima last began anew.
    pub fn since(&self, earlier: &Self) -> Self {
        let minus = |now: &[u64], then: &[u64]| {
            now.iter()
                .zip(then)
                .map(|(n, t)| n.saturating_sub(*t))
                .collect()
        };
        Self {
            threshold_ns: self.threshold_ns,
            count: self.count.saturating_sub(earlier.count),
            max_ns: self.max_ns,
            total_ns: self.total_ns.saturating_sub(earlier.total_ns),
            histogram: minus(&self.histogram, &earlier.histogram),
            steps: self.steps.saturating_sub(earlier.steps),
            steps_timed: self.steps_timed.saturating_sub(earlier.steps_timed),
            steps_interrupted: self
                .steps_interrupted
                .saturating_sub(earlier.steps_interrupted),
            step_max_ns: self.step_max_ns,
            step_histogram: minus(&self.step_histogram, &earlier.step_histogram),
            step_total_ns: self.step_total_ns.saturating_sub(earlier.step_total_ns),
            rests: self.rests.since(&earlier.rests),
            unlocked: self.unlocked,
        }
    }
}

/// How an adapter has rested.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestReport {
    pub rests: u64,
    /// Nanoseconds of all of them.
    pub rested_ns: u64,
    /// Rests that ended because their time was over.
    pub by_time: u64,
    /// Times that clients ended one.
    pub by_clients: u64,
    /// Times that cells did.
    pub by_links: u64,
    /// Times that the adapter's service did.
    pub by_service: u64,
    /// Rests that somebody ended, and nothing was there.
    pub for_nothing: u64,
    /// Clients that ended any for nothing, the worst 16 first.
    pub clients_for_nothing: Vec<(AttachmentIndex, u64)>,
    /// The most that the firmware was up too late for what was due, in nanoseconds.
    pub late_max_ns: u64,
    /// Rests that ended because their time was over, by the base-2 logarithm of the nanoseconds
    /// that the firmware was too late then.
    pub late_histogram: Vec<u64>,
    /// All of that together.
    #[serde(default)]
    pub late_total_ns: u64,
    /// How long the firmware goes on looking before it rests, in nanoseconds.
    pub linger_ns: u64,
}

impl RestReport {
    /// What happened since `earlier`; the maximum and the clients stay those of all time.
    pub fn since(&self, earlier: &Self) -> Self {
        let counts = self.late_histogram.iter().zip(&earlier.late_histogram);
        Self {
            rests: self.rests.saturating_sub(earlier.rests),
            rested_ns: self.rested_ns.saturating_sub(earlier.rested_ns),
            by_time: self.by_time.saturating_sub(earlier.by_time),
            by_clients: self.by_clients.saturating_sub(earlier.by_clients),
            by_links: self.by_links.saturating_sub(earlier.by_links),
            by_service: self.by_service.saturating_sub(earlier.by_service),
            for_nothing: self.for_nothing.saturating_sub(earlier.for_nothing),
            late_histogram: counts
                .map(|(now, then)| now.saturating_sub(*then))
                .collect(),
            late_total_ns: self.late_total_ns.saturating_sub(earlier.late_total_ns),
            ..self.clone()
        }
    }
}

/// One port's two directions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortReport {
    /// What is sent to the adapter.
    pub receive: QueueReport,
    /// What the adapter sends.
    pub transmit: QueueReport,
    /// Cells of no VC that it has received, since the adapter began.
    pub strays: PortStats,
    /// Of a pseudowire, if that is its link.
    pub pseudowire: Option<UdpReport>,
    /// Of the line on which it receives, if that is impaired.
    pub line: Option<LineCounts>,
    /// Of a memory link to another server, if that is its link.
    #[serde(default)]
    pub meeting: Option<MeetingReport>,
}

/// How one end of a memory link between servers does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeetingReport {
    /// The other end is there.
    pub joined: bool,
    /// When it was there last; none: never, or it is.
    pub parted: Option<Time>,
    /// Why it is not there, where more than nobody is in the way.
    pub trouble: Option<String>,
}

/// A queue of cells between two processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueReport {
    /// Cells put in.
    pub sent: u64,
    /// Cells that found it full.
    pub dropped: u64,
    /// Cells taken out.
    pub received: u64,
    /// The most cells that its receiver found waiting.
    pub queued_max: u64,
    /// Times that the other party's index could not be.
    pub faults: u64,
}

/// What one end of a pseudowire counted. Cells in datagrams that did not arrive whole are in no
/// count of cells: nobody knows how many they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpReport {
    /// Datagrams that held cells.
    pub received_datagrams: u64,
    /// Cells in them.
    pub received_cells: u64,
    /// Datagrams that did not, by reason.
    pub discarded_datagrams: UdpDiscards,
    /// Numbers that no packet had; without control word always 0.
    pub missing_datagrams: u64,
    /// Entries of the socket's queue that found it full: datagrams, or several that came together.
    pub overflows: u64,
    /// Octets that may wait in the socket, the kernel's overhead included, as it granted them.
    pub receive_buffer_octets: u64,
    /// System calls that received something, or found nothing.
    pub receive_calls: u64,
    /// Errors of these.
    pub receive_errors: u64,
    /// Datagrams that the kernel took.
    pub sent_datagrams: u64,
    /// Cells in them.
    pub sent_cells: u64,
    /// System calls that sent something.
    pub send_calls: u64,
    /// Datagrams that it did not take: too long for a link on the way out, no route, and the like.
    pub send_errors: u64,
    /// Cells in these, those for which there was no room, and those of other VCs.
    pub dropped_cells: u64,
    /// Of these, cells of other VCs than the pseudowire is for.
    pub foreign_cells: u64,
    /// Why the kernel did not take datagrams.
    pub refusals: Refusals,
    /// The error of the last that the kernel refused; none: it has sent for a second since.
    pub last_refusal: Option<i32>,
    /// When a datagram with cells came last.
    pub heard: Option<Time>,
    /// Whose datagram was discarded last for not being the peer's.
    pub last_refused: Option<IpAddr>,
}

/// Datagrams that the kernel did not take, by error number: the first few that were met, and all
/// others under 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals([(i32, u64); Self::MOST]);

impl Refusals {
    /// Error numbers that are counted apart, and the others.
    const MOST: usize = 6;

    /// So many datagrams met an error.
    pub fn count(&mut self, errno: i32, datagrams: u64) {
        let [others, first @ ..] = &mut self.0;
        let own = |place: &&mut (i32, u64)| place.0 == errno || place.1 == 0;
        match first.iter_mut().find(own) {
            Some(place) => *place = (errno, place.1 + datagrams),
            None => others.1 += datagrams,
        }
    }

    /// Error numbers and how many datagrams met them.
    pub fn iter(&self) -> impl Iterator<Item = (i32, u64)> {
        self.0.into_iter().filter(|(_, count)| *count > 0)
    }
}

/// Why datagrams were discarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpDiscards {
    /// Not from the peer's address.
    pub wrong_source: u64,
    /// No label stack.
    pub bad_stack: u64,
    /// The label of something else.
    pub wrong_label: u64,
    /// A control word that is none, or whose length is wrong.
    pub bad_control_word: u64,
    /// No whole number of cells, or none, or of another mode.
    pub bad_length: u64,
    /// Older than one that came before.
    pub out_of_order: u64,
}

impl UdpDiscards {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.wrong_source
            + self.bad_stack
            + self.wrong_label
            + self.bad_control_word
            + self.bad_length
            + self.out_of_order
    }
}
