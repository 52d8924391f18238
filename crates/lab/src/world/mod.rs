//! The deterministic world: hosts with the real adapter, switches and lines on a virtual clock.
//!
//! ```text
//!  Scenario (pure data) -> World -> run -> Outcome
//!
//!  source -> line -> switch -> line -> FIFO | adapter | queues | client: checks every octet
//!            rate,   output                   the core's own
//!            delay,  queues
//!            faults
//! ```
//!
//! Nothing here reads a clock or draws: a run is a function of its scenario. When a cell arrives is
//! arithmetic: a line has no events of its own, an output's buffer is looked at when a cell comes,
//! and an adapter's FIFO when it steps.

mod build;
mod canary;
mod cell;
mod check;
mod content;
mod draw;
mod endpoint;
mod fault;
mod fnv;
mod host;
mod incident;
mod kills;
mod line;
mod log;
mod marks;
mod names;
mod net;
mod oracle;
mod outcome;
mod plan;
mod queue;
mod rings;
mod run;
pub mod scenario;
mod servers;
mod source;
mod streams;
mod switch;
mod time;
mod topology;
mod trace;
mod transfers;
mod trial;
mod verdict;

pub use build::Options;
pub use canary::Canary;
pub use cell::{CellRef, Octets};
pub use check::{Checked, Refusal, Refusals, checked, limits};
pub use draw::{
    GENERATOR, WITH_ABR, WITH_RESTS, WITH_RINGS, WITH_SERVERS, WITH_STREAMS, WITH_TRANSFERS,
    scenario_of,
};
pub use kills::{OUT_OF_REACH, with_bug, within_reach, world_kill};
pub use line::{Flying, Line, LineCounts};
pub use marks::{Mark, Marks};
pub use outcome::{ConnectionOutcome, HostOutcome, LineOutcome, Outcome, SwitchOutcome};
pub use queue::EventQueue;
pub use rings::{AssociationOutcome, Percentiles, RingOutcome, StationOutcome, ring_spec};
pub use run::World;
pub use servers::{ServerBug, ServerOutcome};
pub use streams::{StreamBug, StreamOutcome};
pub use switch::{Output, OutputCounts, QueueDiscard, QueueMark, Route, Switch};
pub use time::{Interval, Pace, Ps};
pub use trace::{CellTrace, Watch};
pub use transfers::{FileBug, TransferOutcome};
pub use trial::{
    Failure, check, check_determinism, check_isolation, check_marked, check_recorded, check_shown,
};
pub use verdict::{Kind, Violation};
