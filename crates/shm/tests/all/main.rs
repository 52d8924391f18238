//! The tests of shared memory.

mod common;

mod processes;
mod refusals;
