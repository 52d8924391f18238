//! Two 386 PCs with the ISA board of *High Performance ATM Terminals*, and a line between them.
//! What runs there is the core's kernel; here its work takes time.
//!
//! ```text
//!   File --> PC: kernel, work in microseconds --> board, line, bit errors --> PC --> Memory
//! ```

mod costs;
mod pair;

pub use costs::{Pc386Costs, Pc386Work};
pub use pair::{Pair, PairConfig, PairCounts, PairError};
