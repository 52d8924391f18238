//! A line that is impaired on purpose: bits in error, cells lost, repeated, delayed, and a
//! bottleneck with a queue. What happens to the n-th cell follows from the line's words alone, not
//! from when it comes or with how many others.
//!
//! ```text
//!            loss  bit errors  duplicates   rate, queue     delay, jitter
//!  cells --> [ Fates: a generator a kind ] --> bottleneck --> in order --> cells
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
