use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// A file that is locked against whoever else locks it, in this process or another, as long as
/// this stands: children of this process that have its descriptor for a moment lock nothing.
#[derive(Debug)]
pub(crate) struct LockedFile(OwnedFd);

impl LockedFile {
    /// None: somebody else has it.
    ///
    /// # Errors
    /// The file system has no locks.
    pub(crate) fn new(file: OwnedFd) -> io::Result<Option<Self>> {
        match of_description(&file, libc::F_OFD_SETLK, libc::F_WRLCK) {
            Ok(_) => Ok(Some(Self(file))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.raw_os_error() == Some(libc::EACCES) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for LockedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // What is not locked is unlocked without fail.
        let _ = of_description(&self.0, libc::F_OFD_SETLK, libc::F_UNLCK);
    }
}

/// Whether somebody else has locked a file; nobody hears of the question.
///
/// # Errors
/// The file system has no locks.
pub(crate) fn is_locked(file: impl AsFd) -> io::Result<bool> {
    let found = of_description(file, libc::F_OFD_GETLK, libc::F_WRLCK)?;
    Ok(found.l_type != libc::F_UNLCK as libc::c_short)
}

fn of_description(
    file: impl AsFd,
    what: libc::c_int,
    kind: libc::c_int,
) -> io::Result<libc::flock> {
    // SAFETY: all zeroes is a lock of the whole file, of no process.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    // 0 to 2.
    lock.l_type = kind as libc::c_short;
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
    use std::fs::File;

    #[test]
    fn a_file_is_locked_for_whoever_opened_it_not_for_its_process() {
        let path = std::env::temp_dir().join(format!("cellgate-lock-{}", std::process::id()));
        let open = || {
            let mut options = std::fs::OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            options.open(&path).unwrap()
        };
        let lock = |file: File| LockedFile::new(file.into()).unwrap();
        let first = lock(open()).unwrap();
        assert!(!is_locked(&first).unwrap(), "it is its own");
        assert!(is_locked(open()).unwrap());
        // Closing another descriptor of the file gives nothing up.
        assert!(lock(open()).is_none());
        assert!(lock(open()).is_none());
        // As a child has it, until it runs another program.
        let inherited = first.as_fd().try_clone_to_owned().unwrap();
        drop(first);
        assert!(!is_locked(open()).unwrap());
        let again = lock(open()).unwrap();
        assert!(is_locked(&inherited).unwrap());
        drop(again);
        std::fs::remove_file(&path).unwrap();
    }
}
