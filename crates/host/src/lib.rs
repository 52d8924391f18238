//! The stack on Linux: clock, adapter process, links, control.
//!
//! ```text
//!  CellSender -> port -> +---------------+ <- control descriptor -> Control (open, modify, ...)
//!                        | adapter       |
//!  CellReceiver <- port <|   process     | -- eventfd ------------> Attached (events, doorbell)
//!                        +---------------+ <- shared memory ------> OpenVc   (PDUs)
//! ```
//!
//! - [`clock`]: the one clock of everything live.
//! - [`gap`]: how long the adapter was not running, and how long its steps take.
//! - `aside`: what is told to somebody who may not listen.
//! - `closer`: descriptors of others, closed by threads of their own.
//! - `inflight`: descriptors that others have not received yet.
//! - [`rests`]: how often and how long the adapter rested.
//! - `place`: directories, sockets and files, found once and used by descriptor.
//! - [`link`]: the `memory` link, cells in memory shared between processes; the `udp` link, cells
//!   in the datagrams of a pseudowire; faults on either.
//! - [`control`]: the messages of the control descriptor. Does not act on them.
//! - [`adapter`]: the adapter's process. Does not know what clients do with PDUs.
//! - [`client`]: the other side of all of these.
//! - [`doctor`]: what of the machine keeps a server from its promises. Changes nothing.
//! - [`events`]: events of the daemon and the adapter's process, each with a name that stays.
//! - [`server`]: the daemon between applications and the adapter's process.
//! - [`sys`]: the system calls; the only place here with `unsafe`.
//! - [`terminal`]: files of the ATM terminal.
//! - [`upgrade`]: the question whether this program could go on with what runs.
#![deny(unsafe_code)]

pub mod adapter;
mod aside;
pub mod client;
pub mod clock;
mod closer;
pub mod control;
pub mod doctor;
pub mod events;
pub mod gap;
mod inflight;
pub mod link;
mod meter;
mod place;
pub mod rests;
pub mod server;
pub mod sys;
pub mod terminal;
pub mod upgrade;
