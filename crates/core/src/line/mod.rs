//! A line that is impaired on purpose: bits in error, cells lost, repeated, delayed, and a
//! bottleneck with a queue. What happens to the n-th cell follows from the line's words alone, not
//! from when it comes or with how many others. The bottleneck is the exception: its queue depends
//! on when cells come.
//!
//! ```text
//!  cells --> loss --> bottleneck --> bit errors, duplicates --> delay, jitter --> cells in order
//! ```
//!
//! Faults that a list names, by the cell ([`crate::FaultyLine`]), are another thing.

mod geometric;
mod impaired;
mod share;
mod spec;

pub use impaired::{ImpairedLine, Impairments, LineCounts, Passage};
pub use share::Share;
pub use spec::{Bottleneck, LineError, LineSpec};
