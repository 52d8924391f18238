//! The Cambridge Backbone Network: a ring of slots, in frames of one slot a channel, and what is
//! attached to it.
//!
//! ```text
//!        frame: a slot of each channel
//!      +---+---+---+---+
//!      | 0 | 1 | 2 | 3 | ->  ...  -> station -> station -> ...  back to the first
//!      +---+---+---+---+             fills an empty slot; empties it when it comes round
//! ```
//!
//! A cell passes its destination, which copies it, and comes round to its source, which empties the
//! slot. Who has emptied a slot passes it on: whoever is behind has it first.

mod bug;
mod deed;
mod diagram;
mod harm;
mod ring;
mod saturated;
mod spec;

pub use bug::CbnBug;
pub use deed::{RingCounts, RingDeed, SlotDeed};
pub use diagram::Diagram;
pub use harm::SlotHarm;
pub use ring::{Attached, Presence, Ring};
pub use saturated::Saturated;
pub use spec::{Release, Reuse, RingSpec};
