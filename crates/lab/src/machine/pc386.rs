//! Two 386 PCs with the ISA board of *High Performance ATM Terminals*, and a line between them.
//! What runs there is the core's kernel; here its work takes time.
//!
//! ```text
//!   File --> PC: kernel, work in microseconds --> board, line, bit errors --> PC --> buffers, disk
//! ```
//!
//! Beside it the same PCs with TCP/IP, which is smoltcp's; its work takes time, too. And one with a
//! camera beside the file, whose processor has other work as well.

mod costs;
mod disk;
mod file;
mod other_work;
mod pair;
mod pc;
mod shared;
mod tcp;
mod video;

pub use costs::{Pc386Costs, Pc386Work};
pub use disk::Disk;
pub use other_work::OtherWork;
pub use pair::{Pace, Pair, PairConfig, PairCounts, PairError};
pub use shared::Shared;
pub use tcp::{TcpConfig, TcpError, tcp_octets};
pub use video::{VideoConfig, VideoCounts, video};
