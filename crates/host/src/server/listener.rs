//! Where applications find the server, and where it keeps what a successor needs.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cellgate_shm::socket;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::geteuid;

/// How long somebody may take to let a caller in.
const PATIENCE: Duration = Duration::from_secs(1);

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

/// Makes a directory that nobody but its owner can write, if there is none: this user's, or that
/// of the user that the server becomes.
pub(super) fn ensure_directory(path: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    match DirBuilder::new().recursive(true).mode(0o755).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let found = fs::symlink_metadata(path)?;
    let (me, is) = (geteuid().as_raw(), found.uid());
    let known = is == me || owner.is_some_and(|(uid, _)| is == uid);
    if !found.is_dir() || !known || found.mode() & 0o022 != 0 {
        return Err(io::Error::other(format!(
            "{} must be a directory of this user that no other can write",
            path.display()
        )));
    }
    match owner.filter(|(uid, _)| is != *uid) {
        Some((uid, gid)) => std::os::unix::fs::chown(path, Some(uid), Some(gid)),
        None => Ok(()),
    }
}

/// Takes the state directory for this process, as long as the file is open.
pub(super) fn lock(directory: &Path) -> io::Result<File> {
    let path = directory.join("lock");
    let options = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .clone();
    let file = options.open(&path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            format!("another server has {}", directory.display()),
        )),
        Err(error) => Err(error.into()),
    }
}

/// Listens at `path`, in place of a socket that nobody listens at any more; whose it becomes.
pub(super) fn listen_at(
    path: &Path,
    mode: u32,
    owner: (Option<u32>, Option<u32>),
) -> io::Result<OwnedFd> {
    if is_listened_at(path) {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    match fs::symlink_metadata(path) {
        Ok(found) if std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()) => {
            fs::remove_file(path)?;
        }
        Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => {}
    }
    socket::listen(path, mode, owner)
}

/// Whether somebody listens at `path`.
pub(super) fn is_listened_at(path: &Path) -> bool {
    matches!(
        socket::dial(path, PATIENCE),
        // It lets nobody in, and listens.
        Ok(_) | Err(Errno::TIMEDOUT)
    )
}
