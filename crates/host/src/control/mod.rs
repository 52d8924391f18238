//! The control descriptor: requests and replies in JSON over Unix sequenced packets, descriptors
//! along with them.

mod message;

pub use cellgate_shm::socket::{FDS_MAX, MESSAGE_MAX, Received, pair, receive, send, take_stdin};
pub use message::{
    Answer, Ask, ControlError, ENUMERATE_MAX, Hello, KEPT_MAX, NewRegion, PORTS_MAX, PortReport,
    QueueReport, RECORD_MAX, ReceiveInto, Reply, Request, TakenUp, VERSION,
};
