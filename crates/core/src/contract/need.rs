//! What somebody wants to send, in the words of who sends it, and the contracts that carry it.

mod read;
mod source;

use core::num::NonZeroU32;

use serde::Serialize;

use super::{Aal, Increment, Peak, ServiceCategory, TrafficContract, TrafficDescriptor};
use source::Source;

/// What is to be sent. Its text is read by [`FromStr`](core::str::FromStr): a kind, and quantities
/// in any order, whose units say what they are:
///
/// ```text
/// video 8Mbit/s 25fps [peak 4x] [latency 100ms] [ts]
/// voice 64kbit/s 20ms [latency 60ms]
/// sensor 100B every 10ms [latency 20ms]
/// file 2GB within 60s
/// ip 10Mbit/s mtu 1500 [latency 20ms]
/// ```
///
/// A multiplier is a power of 1,000. A quantity is exact, or an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    traffic: Traffic,
    /// Nanoseconds from a message's being handed over to its reader, stalls of the adapter apart;
    /// none: a message has left when the next one comes.
    latency_ns: Option<u64>,
}

/// What comes, and when; no quantity is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Traffic {
    /// Frames at equal times. With m octets the mean, k frames in a row are no more than
    /// (k - 1 + peak) m octets.
    Video {
        /// Bit/s on the mean.
        bit_s: u64,
        /// Thousandths of a frame/s.
        frames_mhz: u64,
        /// The largest frame, in thousandths of the mean one: 1,000 at least.
        peak_thousandths: u64,
        /// Frames are whole pairs of an MPEG transport stream's packets, 376 octets (ITU-T
        /// H.222.1).
        ts: bool,
    },
    /// Packets of one size, `every_ns` nanoseconds apart.
    Voice { bit_s: u64, every_ns: u64 },
    /// Messages of `octets` at most, `every_ns` nanoseconds apart.
    Sensor { octets: u64, every_ns: u64 },
    /// So many octets within so many nanoseconds.
    File { octets: u64, within_ns: u64 },
    /// Packets of `mtu` octets behind an LLC/SNAP header (RFC 2684), evenly.
    Ip {
        /// Bit/s of packets.
        bit_s: u64,
        mtu: u16,
    },
}

/// A text that is no need, or a need that no contract carries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} (at octet {at})")]
pub struct NeedError {
    /// Octets of the text before the mistake; `usize::MAX`: the whole cannot be had.
    pub at: usize,
    /// What is wrong, and what would do.
    pub reason: String,
}

/// How a contract carries a need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    /// The rate that the largest message needs, all the time (CBR).
    Steady,
    /// That rate for a burst, and the mean over time (rt-VBR). Admission reserves the mean.
    Bursty,
    /// What nobody has reserved (UBR).
    BestEffort,
}

impl Manner {
    /// Its name, as people read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Bursty => "bursty",
            Self::BestEffort => "best effort",
        }
    }
}

/// A contract that carries a need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub manner: Manner,
    pub contract: TrafficContract,
    /// Nanoseconds in which the cells of the largest message leave, where nothing is late; of a
    /// burst, while the line is free. None: nothing is promised.
    pub way_ns: Option<u64>,
    /// The same of a burst that best effort and bursts of others leave no slot: at the sustained
    /// rate (TM 4.0).
    pub way_most_ns: Option<u64>,
}

impl Need {
    /// The kinds that there are, by their words.
    pub const KINDS: [&str; 5] = ["video", "voice", "sensor", "file", "ip"];

    /// Up to three contracts, the strictest promise first. Of a latency `spent_ns` nanoseconds go
    /// by while cells wait at the adapters, and until the reader is up.
    ///
    /// With L the cells of the largest message, P the time between two, S cells/s those of all
    /// messages on the mean, B the most that come beyond that (at least L), and D the time until
    /// the next message, or the latency less `spent_ns`:
    ///
    /// - steady: PCR = max(S, L / D), and for a latency at least (B + S P) / (D + P);
    /// - bursty, where S is less than that: the same PCR, SCR = S, MBS = B (TM 4.0, 4.4);
    /// - best effort.
    ///
    /// Rates are rounded up to a cell/s. SDUs fill their cells.
    ///
    /// # Errors
    /// The latency is spent, or the rate is none that a contract can state.
    pub fn proposals(&self, spent_ns: u64) -> Result<Vec<Proposal>, NeedError> {
        let source = Source::of(&self.traffic)?;
        let sustained = source.sustained()?;
        let peak = source.peak(self.left_ns(spent_ns)?)?;
        let way_cells = source.way_cells(peak);
        let way_ns = Some(Increment::of(peak).times_ns(way_cells));
        let stated = TrafficDescriptor {
            pcr: Some(Peak::Rate(peak)),
            max_sdu: NonZeroU32::new(source.sdu().into()),
            ..TrafficDescriptor::default()
        };
        let mut all = vec![Proposal {
            manner: Manner::Steady,
            contract: both_ways(ServiceCategory::Cbr, stated),
            way_ns,
            way_most_ns: way_ns,
        }];
        let burst = u32::try_from(source.burst_cells()).ok();
        if let (true, Some(mbs)) = (sustained < peak, burst.and_then(NonZeroU32::new)) {
            let bursty = TrafficDescriptor {
                scr: Some(sustained),
                mbs: Some(mbs),
                ..stated
            };
            all.push(Proposal {
                manner: Manner::Bursty,
                contract: both_ways(ServiceCategory::RtVbr, bursty),
                way_ns,
                way_most_ns: Some(Increment::of(sustained).times_ns(mbs.get().into())),
            });
        }
        let best_effort = TrafficDescriptor {
            pcr: None,
            ..stated
        };
        all.push(Proposal {
            manner: Manner::BestEffort,
            contract: both_ways(ServiceCategory::Ubr, best_effort),
            way_ns: None,
            way_most_ns: None,
        });
        Ok(all)
    }

    /// The same where it does not matter how late a message is.
    pub const fn ignoring_latency(self) -> Self {
        Self {
            latency_ns: None,
            ..self
        }
    }

    /// Cells of the largest message.
    ///
    /// # Errors
    /// It is more than a contract can state.
    pub fn largest_cells(&self) -> Result<u64, NeedError> {
        Ok(Source::of(&self.traffic)?.largest_cells())
    }

    /// Whether both ends send such messages.
    pub const fn is_two_way(&self) -> bool {
        matches!(self.traffic, Traffic::Voice { .. } | Traffic::Ip { .. })
    }

    /// Whether its messages are packets of a network device.
    pub const fn is_packets(&self) -> bool {
        matches!(self.traffic, Traffic::Ip { .. })
    }

    /// What a latency leaves to the cells, in nanoseconds; none: no latency is said.
    fn left_ns(&self, spent_ns: u64) -> Result<Option<u64>, NeedError> {
        let Some(latency_ns) = self.latency_ns else {
            return Ok(None);
        };
        let left = latency_ns.checked_sub(spent_ns).filter(|left| *left > 0);
        left.map(Some).ok_or_else(|| {
            let reason = format!(
                "latency {}: the reader's wake-up, and the adapters, take {} of it, which leaves \
                 no time to send; ask for more, or have the daemon assume less (wake_up_ns)",
                crate::TimeWord(latency_ns),
                crate::TimeWord(spent_ns)
            );
            impossible(reason)
        })
    }
}

/// What is wrong with the whole, at the end of any text.
fn impossible(reason: String) -> NeedError {
    NeedError {
        at: usize::MAX,
        reason,
    }
}

fn both_ways(category: ServiceCategory, descriptor: TrafficDescriptor) -> TrafficContract {
    TrafficContract {
        aal: Some(Aal::Aal5),
        transmit: Some(descriptor),
        receive: Some(descriptor),
        ..TrafficContract::new(category)
    }
}
