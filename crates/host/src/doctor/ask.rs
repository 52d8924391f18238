//! What the daemon says of itself, and what the adapter of its state directory says. Either may
//! hang: nobody waits for it longer than a moment.

use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use cellgate::{Admin, Error, Refused};
use cellgate_core::server::{
    AdapterInfo, AdapterSection, AdmissionSection, InterfaceInfo, ResourceInfo, ServerSection,
};

use crate::client::{ClientError, Control};
use crate::control::{ControlError, Hello};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// A daemon, or none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Daemon {
    /// Nobody listens at the socket.
    None,
    /// Somebody does, and does not answer.
    Silent,
    /// It does not let this user in.
    Closed,
    /// It speaks another version of the protocol.
    Version(u32),
    There(Box<Said>),
}

/// What a daemon says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Said {
    /// Its program's name and version.
    pub(crate) server: String,
    /// Its process; 0: of another PID namespace.
    pub(crate) pid: u32,
    /// What it could not have, and what goes wrong.
    pub(crate) notes: Vec<String>,
    /// Its section; none: it is not for this user.
    pub(crate) section: Option<ServerSection>,
    pub(crate) adapter_sections: Vec<AdapterSection>,
    /// What there is to promise.
    pub(crate) admission: AdmissionSection,
    /// The interfaces there are.
    pub(crate) interfaces: Vec<InterfaceInfo>,
    /// How the adapters have run.
    pub(crate) adapters: Vec<AdapterInfo>,
    /// What there is to promise, and which limits leave no more.
    pub(crate) resources: Vec<ResourceInfo>,
}

impl Daemon {
    /// The one that answers.
    pub(crate) fn said(&self) -> Option<&Said> {
        match self {
            Self::There(said) => Some(said),
            _ => None,
        }
    }
}

/// An adapter that listens in a state directory, or none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Left {
    /// None answers, or none that lets this user in.
    None,
    /// It speaks another version of the protocol.
    Version(u32),
    There(Box<Hello>),
}

/// Does something that may hang; none: it does.
pub(crate) fn in_time<T: Send + 'static>(
    longest: Duration,
    act: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = channel();
    let run = move || drop(tell.send(act()));
    thread::Builder::new().spawn(run).ok()?;
    told.recv_timeout(longest).ok()
}

/// Asks the daemon at `socket`.
pub(crate) fn daemon(socket: &Path) -> Daemon {
    let path = socket.to_owned();
    match in_time(PATIENCE, move || of_daemon(&path)) {
        Some(Ok(said)) => Daemon::There(Box::new(said)),
        Some(Err(Error::Refused(Refused::Version { speaks }))) => Daemon::Version(speaks),
        Some(Err(Error::NoServer { cause, .. }))
            if cause.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            Daemon::Closed
        }
        Some(Err(Error::NoServer { .. })) => Daemon::None,
        None | Some(Err(_)) => Daemon::Silent,
    }
}

fn of_daemon(socket: &Path) -> Result<Said, Error> {
    let mut admin = Admin::at(socket)?;
    let settings = admin.settings()?;
    let server = admin.server().clone();
    Ok(Said {
        server: server.server,
        pid: server.pid,
        notes: server.notes,
        section: settings.server,
        adapter_sections: settings.adapters,
        admission: settings.admission,
        interfaces: admin.interfaces()?,
        adapters: admin.adapters()?,
        resources: admin.resources()?,
    })
}

/// How the adapter of this name has run, asked again.
pub(crate) fn adapter(socket: &Path, name: Option<&str>) -> Option<AdapterInfo> {
    let path = socket.to_owned();
    let all = in_time(PATIENCE, move || Admin::at(path)?.adapters())?.ok()?;
    all.into_iter().find(|one| one.name.as_deref() == name)
}

/// Asks the adapter at `socket`.
pub(crate) fn left(socket: &Path) -> Left {
    let path = socket.to_owned();
    match in_time(PATIENCE, move || {
        Control::at(&path).map(|control| control.hello().clone())
    }) {
        Some(Ok(hello)) => Left::There(Box::new(hello)),
        Some(Err(ClientError::Refused(ControlError::Version { speaks }))) => Left::Version(speaks),
        _ => Left::None,
    }
}
