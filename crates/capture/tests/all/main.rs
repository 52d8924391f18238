//! The tests of capture files.

mod common;

mod agreement;
mod bad_input;
mod frames;
mod tshark;
mod vectors;
