//! The control descriptor: requests and replies in JSON over Unix sequenced packets, descriptors
//! along with them.

mod message;
mod socket;

pub use message::{
    Answer, Ask, ControlError, ENUMERATE_MAX, Hello, NewRegion, PortReport, QueueReport,
    ReceiveInto, Reply, Request, VERSION,
};
pub use socket::{FDS_MAX, MESSAGE_MAX, Received, pair, receive, send, take_stdin};
