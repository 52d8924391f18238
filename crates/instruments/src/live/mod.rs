//! What live trials and benchmarks share: processes, test SDUs, when a run says nothing.

pub(crate) mod actor;
pub(crate) mod daemon;
pub(crate) mod sdu;
pub(crate) mod weather;
