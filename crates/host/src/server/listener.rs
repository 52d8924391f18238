//! Where applications find the server, and where it keeps what a successor needs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::place::{Entrance, Look};

/// The state directory of this user where none is configured.
pub fn state_dir_default() -> PathBuf {
    if geteuid().is_root() {
        return PathBuf::from("/run/cellgate");
    }
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir).join("cellgate"),
        None => std::env::temp_dir().join(format!("cellgate-{}", geteuid().as_raw())),
    }
}

/// The control socket that applications come by.
#[derive(Debug)]
pub(super) enum Listener {
    /// A service manager has made it, and keeps it.
    Passed(OwnedFd),
    /// This process has.
    Made(Entrance),
}

impl Listener {
    /// Where it is, if this process made it.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::Passed(_) => None,
            Self::Made(entrance) => Some(entrance.path()),
        }
    }

    /// Makes it again if it is gone.
    pub(super) fn look(&mut self) -> io::Result<Look> {
        match self {
            Self::Passed(_) => Ok(Look::Same),
            Self::Made(entrance) => entrance.look(),
        }
    }

    /// Closes it, and takes its name away.
    pub(super) fn remove(self) {
        if let Self::Made(entrance) = self {
            entrance.remove();
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Passed(socket) => socket.as_fd(),
            Self::Made(entrance) => entrance.as_fd(),
        }
    }
}
