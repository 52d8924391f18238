//! What live trials and benchmarks share: processes, test SDUs.

pub(crate) mod actor;
pub(crate) mod daemon;
pub(crate) mod sdu;
