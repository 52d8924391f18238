//! Where a server would have its files and its socket.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cellgate_core::server::ServerSection;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::process::geteuid;

use super::machine::text;
use crate::server::{foresee_places, group_named, user_named};

/// What is known of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// The state directory.
    pub(crate) directory: String,
    /// What a server could not use.
    pub(crate) notes: Vec<String>,
    /// The user that has the directory and is neither this one nor the server's.
    pub(crate) owner: Option<u32>,
    /// A directory above that would have to be written, and cannot be.
    pub(crate) closed: Option<String>,
    /// A user or group of the configuration that is not there.
    pub(crate) unknown: Option<String>,
    /// Another server that has the directory: its process.
    pub(crate) holder: Option<u32>,
}

impl Places {
    pub(crate) fn of(section: &ServerSection, directory: &Path) -> Self {
        let user = section.user.as_deref();
        let becomes = user.map(user_named);
        let group = section.socket_group.as_deref();
        let unknown_user = becomes.as_ref().is_some_and(Result::is_err);
        let unknown_group = group.is_some_and(|group| group_named(group).is_err());
        let unknown = match (unknown_user, unknown_group) {
            (true, _) => user.map(|user| format!("user {user}")),
            (_, true) => group.map(|group| format!("group {group}")),
            _ => None,
        };
        let me = geteuid().as_raw();
        let becomes = becomes.and_then(Result::ok).map(|(uid, _)| uid);
        let found = std::fs::metadata(directory).ok();
        let owner = found.as_ref().map(MetadataExt::uid);
        let owner = owner.filter(|uid| *uid != me && Some(*uid) != becomes);
        // The nearest that is there has to take the next.
        let there = directory.ancestors().find(|path| path.exists());
        let there = there.filter(|_| owner.is_none());
        let cannot = |path: &&Path| {
            accessat(
                CWD,
                *path,
                Access::WRITE_OK | Access::EXEC_OK,
                AtFlags::EACCESS,
            )
            .is_err()
        };
        let closed = there.filter(cannot).map(|path| path.display().to_string());
        Self {
            directory: directory.display().to_string(),
            notes: foresee_places(section),
            owner,
            closed,
            unknown,
            holder: holder(directory),
        }
    }
}

/// The server that has a directory, by what it has written there, if it still runs.
fn holder(directory: &Path) -> Option<u32> {
    let pid: u32 = text(directory, "lock")?.trim().parse().ok()?;
    let name = text(Path::new("/proc"), &format!("{pid}/comm"))?;
    (name == "cg-service").then_some(pid)
}
