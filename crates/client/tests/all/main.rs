//! The client's tests; what must be a program of its own is beside this folder.

#[path = "../common/mod.rs"]
mod common;

mod admin;
mod chain;
mod connection;
mod daemon;
mod events;
mod examples;
mod hostile;
mod policing;
mod poll;
mod session;
mod stream;
