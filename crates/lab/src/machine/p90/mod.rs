//! The P-90 of *L4ATM* with its protocol server, writers and time-sharing load.
//!
//! ```text
//!  Open, Close   +------------------+  credit   +------------------+
//! -------------> | Application: core's | --------> | Writer: worker   |  packets   +------+
//!                | Server decides   |           | and application  | ---------> | Wire | --> peer
//!                +------------------+           +------------------+            +------+
//!                                                | Step: run, sleep
//!                     User (AIM-like) ---> [ Cpu: levels, preemption ]
//!
//!  line -> board's buffers -> driver -> socket's queue -> reader: ReceiveHost, by itself
//! ```
//!
//! What is calibrated is named in each experiment's notes.

mod aim;
mod cost;
mod cpu;
mod host;
mod receive;
mod server;
mod writer;

pub use aim::User;
pub(crate) use cost::PS_PER_S;
pub use cost::{KernelClock, P90, Wire};
pub use cpu::{Activity, Cpu, Level, Step, ThreadId};
pub use host::{Host, HostThread};
pub use receive::{Order, ReceiveHost, Received};
pub use server::{Application, ApplicationError};
pub use writer::{Meter, Waking, Writer};
