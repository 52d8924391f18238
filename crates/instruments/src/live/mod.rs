//! What live trials and benchmarks share: processes, adapters, test SDUs, spreads, verdicts, when
//! a run says nothing.

pub(crate) mod actor;
pub(crate) mod daemon;
pub(crate) mod process;
pub(crate) mod rig;
pub(crate) mod sdu;
pub(crate) mod spread;
pub(crate) mod verdict;
pub(crate) mod weather;
