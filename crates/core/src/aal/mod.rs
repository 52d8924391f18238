//! Cells to PDUs and back: AAL5 (I.363.5), AAL3/4 (I.363.3) and AAL0, and MSSAR of the Cambridge
//! networks. Does not look up connections, does not police.

pub mod aal0;
pub mod aal34;
pub mod aal5;
mod memory;
pub mod mssar;
pub mod tree;

pub use memory::Memory;
