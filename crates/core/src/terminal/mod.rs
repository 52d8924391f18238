//! Files over connections.
//!
//! A file goes as disk-PDUs, each of which goes as PDUs of the AAL. No PDU crosses from one
//! disk-PDU to the next. What is lost is sent again, and goes to the place of what was lost.
//!
//! - [`Sender`]: what is sent next, what again, and when.
//! - [`Status`]: what a receiver tells its sender.
//! - [`Extents`]: stretches of a file.
//!
//! Source: G. E. Konstantoulakis and G. I. Stassinopoulos, *High Performance ATM Terminals: Design
//! and Evaluation*, section 3. Sequence numbers, statuses and selective retransmission are ours.

mod extents;
mod sender;
mod status;

pub use extents::Extents;
pub use sender::{Arq, Segment, Sender, SenderCounts, Shape, StatusFault};
pub use status::{AGAIN_MAX, EXTENTS_MAX, Status, StatusError};
