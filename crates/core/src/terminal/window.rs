//! The window of one transfer: what is sent, and what again, at the sender; what the receiver says
//! of what has come.
//!
//! A VC keeps the order of PDUs, and each time that one is sent has a serial number. So what was
//! sent before the newest that came, and is not there, is lost: nothing is sent again for having
//! been late. A timer is there for the last PDUs, of which no later one tells, and for statuses
//! that get lost.

mod length;
mod receiver;
mod sender;

pub(super) use length::BestLength;
pub use receiver::{DiskPdu, Receiver};
pub use sender::{Sender, SenderCounts, StatusFault};
