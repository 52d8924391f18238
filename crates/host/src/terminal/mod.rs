//! The ATM terminal on Linux: what it has on the disk. Knows no network and no protocol.

pub mod disk;
