use std::os::unix::thread::JoinHandleExt;
use std::thread::JoinHandle;

/// One that does nothing to a process which has no handler for it.
const SIGNAL: libc::c_int = libc::SIGURG;

extern "C" fn nothing(_: libc::c_int) {}

/// From now on threads of this process may be [interrupted](interrupt).
pub fn let_interrupt() {
    // SAFETY: all zeroes is an action without flags and with an empty mask: system calls are not
    // begun anew.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: `action` is a whole sigaction, and its handler does nothing. A handler is refused
    // for signals only that cannot have one.
    unsafe { libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut()) };
}

/// Ends what `thread` waits for in the kernel, as far as that can be ended: a TCP socket's
/// lingering can.
pub fn interrupt<T>(thread: &JoinHandle<T>) {
    // SAFETY: a thread that nobody has joined or detached has its name, also if it has ended.
    unsafe { libc::pthread_kill(thread.as_pthread_t() as libc::pthread_t, SIGNAL) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn who_waits_is_interrupted() {
        let (mine, theirs) = cellgate_shm::socket::pair().unwrap();
        let_interrupt();
        let waits = std::thread::spawn(move || rustix::io::read(&theirs, &mut [0; 1]));
        while !waits.is_finished() {
            interrupt(&waits);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(waits.join().unwrap(), Err(Errno::INTR));
        drop(mine);
    }
}
