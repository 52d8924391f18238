//! What live trials and benchmarks share: processes.

pub(crate) mod actor;
pub(crate) mod daemon;
