use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The name of the control socket where several are passed on.
const CONTROL: &str = "control";

/// The listening socket that a service manager has passed on (`LISTEN_FDS`), the first time it is
/// asked for; of several the one that is named `control` (`LISTEN_FDNAMES`). None if there is none.
///
/// # Errors
/// There are several, and not exactly one has that name; or the variables are wrong.
pub fn activated_socket() -> io::Result<Option<OwnedFd>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    // None, if the variables are not meant for this process.
    let passed: Vec<(RawFd, String)> = sd_notify::listen_fds_with_names()?.collect();
    if passed.is_empty() || TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(None);
    }
    let names: Vec<String> = passed.iter().map(|(_, name)| name.clone()).collect();
    let owned = passed.into_iter().map(|(fd, name)| {
        // SAFETY: the service manager opened the descriptor for this process, which takes it here
        // and nowhere else, and once.
        (unsafe { OwnedFd::from_raw_fd(fd) }, name)
    });
    let mut owned: Vec<(OwnedFd, String)> = owned.collect();
    if owned.len() > 1 {
        owned.retain(|(_, name)| name == CONTROL);
    }
    match (owned.pop(), owned.is_empty()) {
        (Some((socket, _)), true) => Ok(Some(socket)),
        _ => Err(io::Error::other(format!(
            "{} sockets are passed on ({}): exactly one of them is to be named {CONTROL:?} \
             (FileDescriptorName={CONTROL})",
            names.len(),
            names.join(", ")
        ))),
    }
}
