//! The commands. Each has `Args` and `run`.

pub(crate) mod bench;
pub(crate) mod config;
pub(crate) mod contract;
pub(crate) mod decode;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod guarantee;
pub(crate) mod lab;
pub(crate) mod replay;
pub(crate) mod serve;
pub(crate) mod server;
pub(crate) mod sim;
