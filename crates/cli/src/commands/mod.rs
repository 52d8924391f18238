//! The commands. Each has `Args` and `run`.

pub(crate) mod config;
pub(crate) mod contract;
pub(crate) mod decode;
pub(crate) mod doctor;
pub(crate) mod lab;
#[cfg(feature = "page")]
pub(crate) mod page;
pub(crate) mod replay;
pub(crate) mod serve;
pub(crate) mod server;
pub(crate) mod sim;
pub(crate) mod upgrade_check;
