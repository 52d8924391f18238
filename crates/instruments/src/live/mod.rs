//! What live trials and benchmarks share: processes.

pub(crate) mod actor;
