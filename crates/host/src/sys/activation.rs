use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The listening socket that a service manager has passed on (`LISTEN_FDS`), the first time it is
/// asked for; none if there is not exactly one.
pub fn activated_socket() -> Option<OwnedFd> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    // Nobody's, if the variables are not meant for this process.
    let mut fds = sd_notify::listen_fds().ok()?;
    let (Some(fd), None) = (fds.next(), fds.next()) else {
        return None;
    };
    if TAKEN.swap(true, Ordering::Relaxed) {
        return None;
    }
    // SAFETY: the service manager opened the descriptor for this process, which takes it here and
    // nowhere else, and once.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}
