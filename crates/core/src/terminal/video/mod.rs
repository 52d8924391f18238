//! Video from a camera to a display in time (*High Performance ATM Terminals*, sections 2.1 and 7):
//! transport packets of MPEG-2 in AAL5 PDUs, and when each is given to its player.
//!
//! - [`Sending`]: octets to PDUs, paced by their clock references where nothing else paces them.
//! - [`Playout`]: PDUs to packets, each released when the sender's clock says so.
//! - [`Recovery`]: the sender's clock, from timestamps or from the fill of the buffer.
//! - [`Entries`]: where a viewer who comes late begins.
//! - [`Camera`], [`Display`]: stand-ins that make frames, and judge each at its due time.
//!
//! Stream time is in ticks of 27 MHz, and never begins anew: that is what [`Pcr`] does.
//!
//! [`Pcr`]: crate::wire::Pcr

mod camera;
mod continuity;
mod display;
mod entries;
mod held;
mod planted;
mod playing;
mod playout;
mod recovery;
mod sending;

pub use camera::{Camera, CameraTerms, FrameKind, Shot};
pub use continuity::Continuity;
pub use display::{Display, DisplayCounts};
pub use entries::{Entries, Step};
pub use planted::{Flaws, Planted, Sound};
pub use playing::RATE_PPM_MAX;
pub use playout::{OnLoss, Playout, PlayoutCounts, PlayoutTerms, Released};
pub use recovery::{DRIFT_PPM_MAX, Recovery};
pub use sending::{Pace, Sending, SendingCounts, SendingTerms};

/// Transport packets of a PDU without further words: with the trailer they fill eight cells.
pub const PACK: usize = 2;
/// The most: what an SDU has room for.
pub const PACK_MAX: usize = u16::MAX as usize / crate::wire::TS_LEN;
