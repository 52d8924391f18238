//! Connections whose contracts an adapter keeps while others flood it.
//!
//! ```text
//!  source 1 --port 0--> +---------+
//!  source 2 --port 1--> | adapter | --events, PDUs--> host: checks every octet
//!  source 3 --port 2--> | process |
//!  stranger --port 3--> +---------+
//! ```
//! Every box and every sender is a process. This one starts them and reads their records.

mod cells;
pub(crate) mod control;
pub(crate) mod host;
mod judge;
mod pace;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod sender;
mod shared;
pub(crate) mod stage;
mod stranger;
pub(crate) mod transmit;
pub(crate) mod trial;
pub(crate) mod wire;
