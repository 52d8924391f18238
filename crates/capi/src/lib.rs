//! The C API: `include/cellgate.h`, by crate `cellgate`.
//!
//! Each entry point judges its pointers, catches panics, and turns errors into codes. A handle owns
//! its connection and whatever the caller has borrowed from it, so that nothing borrowed outlives
//! what it lies in.
#![deny(unsafe_op_in_unsafe_fn)]
#![expect(non_camel_case_types, reason = "C's names")]

mod connection;
mod data;
mod error;
mod held;
#[cfg(test)]
mod tests;
mod text;
mod wait;

pub use connection::{
    cg_close, cg_connection, cg_contract, cg_counters, cg_counters_t, cg_open, cg_set_contract,
    cg_take,
};
pub use data::{
    cg_abandon, cg_flush, cg_next, cg_received, cg_recv, cg_release, cg_reserve, cg_sdu, cg_send,
    cg_submit,
};
pub use error::{cg_error_string, cg_last_error};
pub use wait::{cg_arm, cg_disarm, cg_fd};
