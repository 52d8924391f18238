//! What a cellgate daemon does, to look at: a page in a browser, and metrics.
//!
//! ```text
//!  daemon --- counters' file ---> Watch --- Stats ---> view ---> http ---> browsers
//!         --- lists, changes --->   |                   (feature `http`)
//!                                   +----------------> metrics ---> scrapers
//! ```
//!
//! - [`Stats`]: all that a server tells of itself, by the words of `cellgate stats --json`.
//! - [`Watch`]: keeps them up to date. Counters come out of shared memory, without a question.
//! - [`metrics`]: the same as OpenMetrics text.
//! - [`alarms`]: what of it somebody should do something about.
//! - `http`: the page, its events, and its limits. An asynchronous runtime is in there alone.
//! - `http::screen`: a film that a command plays, in browsers.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod alarms;
#[cfg(feature = "http")]
pub mod http;
pub mod metrics;
mod stats;
#[cfg(feature = "http")]
mod view;
mod watch;

pub use stats::Stats;
pub use watch::{Look, Source, Watch};
