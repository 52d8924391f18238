use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Locks a whole file against whoever else locks it, in this process or another, as long as a
/// descriptor of this open file description is there. False: somebody else has it.
///
/// # Errors
/// The file system has no locks.
pub(crate) fn lock_file(file: impl AsFd) -> io::Result<bool> {
    match of_description(file, libc::F_OFD_SETLK) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether somebody else has locked a file; nobody hears of the question.
///
/// # Errors
/// The file system has no locks.
pub(crate) fn is_locked(file: impl AsFd) -> io::Result<bool> {
    let found = of_description(file, libc::F_OFD_GETLK)?;
    Ok(found.l_type != libc::F_UNLCK as libc::c_short)
}

fn of_description(file: impl AsFd, what: libc::c_int) -> io::Result<libc::flock> {
    // SAFETY: all zeroes is a lock of the whole file, of no process.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    let file = file.as_fd();
    // SAFETY: the call reads and writes a whole flock; the descriptor is borrowed.
    match unsafe { libc::fcntl(file.as_raw_fd(), what, &raw mut lock) } {
        0 => Ok(lock),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_locked_for_whoever_opened_it_not_for_its_process() {
        let path = std::env::temp_dir().join(format!("cellgate-lock-{}", std::process::id()));
        let open = || {
            let mut options = std::fs::OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            options.open(&path).unwrap()
        };
        let (first, second) = (open(), open());
        assert!(lock_file(&first).unwrap());
        assert!(lock_file(&first).unwrap());
        assert!(!is_locked(&first).unwrap(), "it is its own");
        assert!(is_locked(&second).unwrap());
        assert!(!lock_file(&second).unwrap());
        // Closing another descriptor of the file gives nothing up.
        drop(second);
        assert!(!lock_file(open()).unwrap());
        drop(first);
        assert!(!is_locked(open()).unwrap());
        assert!(lock_file(open()).unwrap());
        std::fs::remove_file(&path).unwrap();
    }
}
