//! ABR, the available bit rate of TM 4.0 (af-tm-0056.000, section 5.10): a source whose rate
//! follows what the network says in RM cells, and the destination that turns these round.
//!
//! ```text
//!   source --- data, forward RM cells ---> network ---> destination
//!     ^                                                      |
//!     '------- backward RM cells: CI, NI, ER ----------------'
//! ```
//!
//! [`Source`] and [`Destination`] are TM 4.0's. [`PrcaSource`] and [`PrcaDestination`] are the
//! scheme before it (1994), which the papers speak of: the rate falls with each cell, and RM cells
//! of a receiver that sees no congestion restore it.
//!
//! The machines have integers alone, no clock and no cells: whoever runs them keeps the rate that
//! they tell, and sends what they name.

mod destination;
mod parameters;
mod planted;
mod prca;
mod rate;
mod source;
mod words;

pub use destination::Destination;
pub use parameters::AbrParameters;
pub use planted::Planted as AbrPlanted;
pub use prca::{PrcaDestination, PrcaParameters, PrcaSource};
pub use rate::{AbrRate, Part};
pub use source::{NextCell, RateReason, Source};
pub use words::{AbrWords, AbrWrong, Cutoff};
