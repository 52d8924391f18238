//! Nodes over a real daemon, whose interfaces `a` and `b` are each the other's peer.
#![cfg(not(any(miri, loom)))]

#[path = "../../../client/tests/common/mod.rs"]
mod common;
mod echo;

mod exchanges;
mod kills;
mod live;
mod relay;
#[cfg(feature = "tarpc")]
mod tarpc;
