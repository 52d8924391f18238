//! Video over connections of the world: a camera hands PDUs to its host's adapter, and a playout
//! buffer at the other end releases their packets in the camera's time.
//!
//! ```text
//!   Camera -> Sending -> adapter, lines, switches, adapter -> Playout -> Display
//! ```
//!
//! Everything named with a capital is the core's, as it ships. The world's own are the turns of
//! both ends and a record beside the playout: each packet that was read, in order, and when.

mod bug;
mod film;
mod player;
pub(super) mod scenario;

use serde::{Deserialize, Serialize};

pub(crate) use bug::Bugs;
pub use bug::StreamBug;
pub(crate) use film::Film;
pub(crate) use player::{Player, PlayerReport};

/// What became of a stream's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamOutcome {
    /// Packets that were handed to the adapter.
    pub sent_packets: u64,
    /// Packets that were read.
    pub packets: u64,
    /// Of these, released to the display.
    pub released: u64,
    /// PDUs that their numbers miss, and packets of theirs.
    pub lost_pdus: u64,
    pub lost_packets: u64,
    /// Packets with the error flag in the place of lost ones.
    pub marked: u64,
    /// Packets that came after they were due.
    pub late: u64,
    /// Packets that gave their place up because the buffer was full.
    pub overruns: u64,
    /// Times that what was due had not come.
    pub underruns: u64,
    /// Times that the anchor was set, the first included.
    pub anchors: u64,
    /// Frames that were whole when they were to be shown, whole too late, and not whole.
    pub frames_on_time: u64,
    pub frames_late: u64,
    pub frames_missing: u64,
    /// By how much the camera's clock is faster, as it was recovered at the end, in ppb.
    pub clock_ppb: i64,
    /// From a frame's being made to its first packet's arrival, and to its release, at least and at
    /// most.
    pub arrived_min_ns: Option<u64>,
    pub arrived_max_ns: Option<u64>,
    pub played_min_ns: Option<u64>,
    pub played_max_ns: Option<u64>,
    /// The most packets that have waited.
    pub held_max: u64,
}
