//! The C API: `include/cellgate.h`, by crate `cellgate`.
//!
//! Each entry point judges its pointers, catches panics, and turns errors into codes. A handle owns
//! its connection and whatever the caller has borrowed from it, so that nothing borrowed outlives
//! what it lies in.
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(missing_docs)]
#![expect(non_camel_case_types, reason = "C's names")]

// As the tests of crate `cellgate` name it.
#[cfg(test)]
extern crate client as cellgate;

mod connection;
mod data;
mod error;
mod event;
mod held;
mod indication;
mod open;
mod shortage;
mod stats;
mod stream;
#[cfg(test)]
mod tests;
mod text;
mod wait;

pub use connection::{
    cg_close, cg_connection, cg_contract, cg_lease, cg_max_sdu, cg_open, cg_set_contract, cg_take,
};
pub use data::{
    cg_abandon, cg_flush, cg_next, cg_received, cg_recv, cg_release, cg_reserve, cg_sdu, cg_send,
    cg_submit, cg_truncate,
};
pub use error::{cg_error_string, cg_last_error};
pub use event::{cg_event, cg_event_t};
pub use indication::{cg_accept_offer, cg_decline_offer, cg_indication, cg_indication_t};
pub use open::{cg_capability, cg_open_t, cg_open_with, cg_reattach, cg_take_with};
pub use shortage::{cg_shortage, cg_shortage_t};
pub use stats::{cg_counters, cg_counters_t, cg_discard_name, cg_stats, cg_stats_t};
pub use stream::{
    cg_stream, cg_stream_close, cg_stream_open, cg_stream_read, cg_stream_read_at, cg_stream_state,
};
pub use wait::{cg_arm, cg_disarm, cg_fd};
