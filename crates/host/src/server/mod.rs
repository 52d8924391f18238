//! The daemon around the [protocol server](cellgate_core::server): sockets, descriptors, processes.
//!
//! ```text
//!  applications    +-- Daemon: one thread, one poll -----------------+     adapter processes
//! ---------------> | Applications --> core's Server --> Adapters     | --> requests
//! <--------------- |   messages         decides      links, files    | <-- answers, descriptors
//!  configuration ->| Operator --^                                    |
//!                  +-------------------------------------------------+
//! ```
//!
//! Nothing here waits for an application or for the adapter, not even until a descriptor of theirs
//! is closed: others do that (`given`). What applications send and receive does not pass the
//! daemon: it can end, and a successor takes up what the adapter's process has kept.

mod adapters;
mod applications;
mod calibration;
mod config;
mod cpu_time;
mod daemon;
mod descriptors;
mod files;
mod foresight;
mod idle;
mod limits;
mod link;
mod listener;
mod neighbours;
mod operator;
mod pages;
mod privileges;
mod quota;
mod start;
mod turns;
mod voice;
mod workers;

use std::io;
use std::path::PathBuf;
use std::process::Command;

use crate::control::ControlError;
use crate::events::{Form, Log};

pub use calibration::{Calibration, CalibrationError, Machine, measure};
pub use config::{
    Config, ConfigError, Key, Onto, SECTIONS, Section, Unset, annotated, at_place, new_config,
    place_of, plain, serialize_adapters,
};
pub use foresight::foresee;
pub use listener::state_dir_default;
pub use privileges::become_nobody;
pub use quota::{QuotaSection, QuotaUser};
pub use start::serve;

pub(crate) use daemon::adapter_socket;
pub(crate) use descriptors::connections_within;
pub(crate) use foresight::foresee_places;
pub(crate) use limits::bounds_of_machine;
pub(crate) use privileges::{group as group_named, user as user_named};
pub(crate) use start::is_adapter_socket;

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    pub config: Config,
    /// Where to read it again; none: it is not read again.
    pub path: Option<PathBuf>,
    /// The program of the adapter's process, which calls [`crate::adapter::run_as_child`] and tells
    /// its own events in this form.
    pub adapter: fn(Form) -> io::Result<Command>,
    /// Tells people something. Once the server serves, a thread of its own does.
    pub log: Log,
}

/// Why a server did not start, or ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The kernel refused something.
    #[error("{what}: {error}")]
    Kernel { what: String, error: io::Error },
    /// The calibration failed.
    #[error(transparent)]
    Calibration(#[from] CalibrationError),
    /// No law follows from the calibration.
    #[error("the calibration shows no law: {0}")]
    Law(#[from] cellgate_core::server::LawError),
    /// The adapter did not start.
    #[error(
        "the adapter does not start{}",
        .0.as_ref().map_or_else(String::new, |error| format!(": {error}"))
    )]
    Adapter(Option<ControlError>),
}

impl ServeError {
    /// The kernel's refusal of `what`.
    fn of<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |error| Self::Kernel {
            what,
            error: error.into(),
        }
    }
}
