//! The commands that talk to a running server (`cellgate serve`).

pub(crate) mod charge;
pub(crate) mod files;
mod frame;
mod growth;
pub(crate) mod itf;
mod lost;
mod monitor;
pub(crate) mod msna;
pub(crate) mod perf;
pub(crate) mod ping;
mod quantity;
pub(crate) mod recv;
pub(crate) mod relay;
pub(crate) mod run;
pub(crate) mod save;
pub(crate) mod send;
pub(crate) mod stats;
pub(crate) mod top;
mod transfer;
pub(crate) mod tun;
pub(crate) mod vc;
pub(crate) mod video;

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

use cellgate::{Admin, Error, Refused};
use cellgate_host::sys::{Heard, Signals};
use cellgate_report::output::Exit;
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub(crate) use save::Running;

/// Which server, and how what it says is printed.
#[derive(Clone, Args)]
pub(crate) struct Server {
    /// The server's control socket [default: $CELLGATE_SOCKET, else the first that is there of
    /// /run/cellgate, $XDG_RUNTIME_DIR/cellgate, cellgate-UID in the temporary directory]
    #[arg(long, value_name = "PATH", global = true)]
    socket: Option<PathBuf>,
    /// Print JSON, one object a line: what there is, what was done, or {"error": TEXT}
    #[arg(short = 'J', long, global = true)]
    json: bool,
}

impl Server {
    /// Whether JSON is to be printed.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// The socket of the command line, else the one that is `named`, else the usual one.
    pub(crate) fn path_or(&self, named: Option<PathBuf>) -> PathBuf {
        let own = self.socket.clone().or(named);
        own.unwrap_or_else(cellgate::socket_path)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(cellgate::socket_path)
    }

    fn admin(&self) -> Result<Admin, Error> {
        Admin::at(self.path())
    }
}

/// Waits for `time`, or until `also` can be read; whether somebody wants the command to end
/// meanwhile.
fn interrupted(signals: &Signals, also: Option<BorrowedFd<'_>>, time: Duration) -> bool {
    // A time that is too long for the kernel is for ever.
    let timeout = Timespec::try_from(time).ok();
    let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
    fds.extend(also.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    // A wait that the kernel refuses is one that it ends.
    let _ = poll(&mut fds, timeout.as_ref());
    signals.heard().iter().any(|heard| *heard != Heard::Child)
}

/// What a command comes to: a call that makes no sense is told as such.
fn usage<T>(result: Result<T, String>) -> Result<T, Misuse> {
    result.map_err(Misuse)
}

/// A call that makes no sense.
#[derive(Debug)]
pub(crate) struct Misuse(String);

impl Misuse {
    #[cfg(feature = "page")]
    pub(crate) const fn of(text: String) -> Self {
        Self(text)
    }
}

impl std::fmt::Display for Misuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// The exit code of an error.
pub(crate) fn exit_of(error: &anyhow::Error) -> Exit {
    if error.is::<Misuse>() {
        return Exit::Usage;
    }
    if let Some(exit) = msna::exit_of(error) {
        return exit;
    }
    match error.downcast_ref::<Error>() {
        Some(Error::NoServer { .. } | Error::Silent { .. }) => Exit::NoServer,
        Some(Error::Refused(Refused::Admission(_))) => Exit::Refused,
        Some(
            Error::Refused(Refused::Contract { .. } | Refused::InterfaceUnnamed { .. })
            | Error::Address(_),
        ) => Exit::Usage,
        _ => Exit::Failed,
    }
}

/// What the server has refused, if that is the error.
pub(crate) fn refusal(error: &anyhow::Error) -> Option<&Refused> {
    match error.downcast_ref()? {
        Error::Refused(refused) => Some(refused),
        _ => None,
    }
}

/// What somebody can do about an error.
pub(crate) fn advice(error: &anyhow::Error) -> Option<&'static str> {
    match refusal(error)? {
        Refused::Admission(_) => Some("`cellgate vc show` tells who has it"),
        Refused::Contract { .. } => Some("`cellgate contract TEXT` explains a contract"),
        Refused::NotFound | Refused::InterfaceInUse { .. } => {
            Some("`cellgate vc show` lists connections and their users")
        }
        Refused::InUse | Refused::NotPermanent => {
            Some("`cellgate vc show ADDRESS` tells who uses it")
        }
        Refused::AddressInUse => Some(
            "`cellgate vc show ADDRESS` tells who uses it; two programs that are to talk use one \
             interface each, joined, as a.0.100 and b.0.100 of a daemon without configuration",
        ),
        Refused::Reserved { .. } => Some(
            "take a VCI from 32 on, or have root name you in [[reserve]] of the configuration \
             (docs/server.md)",
        ),
        Refused::NotPermitted => Some("call it as root, or as the user who runs the server"),
        Refused::NoInterface => {
            Some("`cellgate itf show` lists interfaces, `cellgate itf add` adds one")
        }
        Refused::NoReturn => Some("is the connection open at the other end, and its link up?"),
        Refused::Version { .. } => Some("use the command that belongs to the server"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use cellgate::{Resource, Shortage};

    use super::*;

    #[test]
    fn each_error_has_the_exit_code_of_its_kind() {
        let shortage = Shortage {
            resource: Resource::Memory,
            needed: 2,
            free: 1,
            quota: None,
            offer: None,
            others: Vec::new(),
            limit: None,
        };
        let contract = Refused::Contract {
            at: 0,
            reason: "none".to_owned(),
        };
        let unnamed = Refused::InterfaceUnnamed { names: Vec::new() };
        let none = Error::NoServer {
            path: "/x".into(),
            cause: std::io::ErrorKind::NotFound.into(),
        };
        let silent = Error::Silent { path: "/x".into() };
        for (error, exit) in [
            (Misuse("x".to_owned()).into(), Exit::Usage),
            (Error::from(Refused::from(shortage)).into(), Exit::Refused),
            (Error::from(contract).into(), Exit::Usage),
            (Error::from(Refused::NotFound).into(), Exit::Failed),
            (Error::from(unnamed).into(), Exit::Usage),
            (none.into(), Exit::NoServer),
            (silent.into(), Exit::NoServer),
            (anyhow::anyhow!("x"), Exit::Failed),
        ] {
            let error: anyhow::Error = error;
            assert_eq!(exit_of(&error), exit, "{error}");
            let named = Err::<(), _>(error).context("FILE").unwrap_err();
            assert_eq!(exit_of(&named), exit, "{named:#}");
        }
        let refused = Error::from(Refused::NoInterface).into();
        assert!(advice(&refused).is_some_and(|advice| advice.contains("itf show")));
    }
}
