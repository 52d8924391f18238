//! Captures as `decode`, `replay` and `sim` read them: files, pseudowires, cells.

pub(crate) mod aal;
mod offload;
pub(crate) mod pseudowire;
mod sequence;
pub(crate) mod source;
pub(crate) mod train;

pub(crate) use sequence::SequencePlace;

/// PDUs, or pseudowires, that a reader keeps at once, whatever their length: a capture must not
/// cost more memory.
pub(crate) const PDUS_MAX: usize = 1 << 17;
