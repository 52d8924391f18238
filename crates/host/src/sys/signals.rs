use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

/// A signal that a daemon listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGTERM or SIGINT: end.
    End,
    /// SIGUSR1: leave, and let a successor take over.
    Leave,
    /// SIGCHLD: a child process has ended.
    Child,
}

/// Where the handler writes; -1: nowhere yet.
static PIPE: AtomicI32 = AtomicI32::new(-1);

const SIGNALS: [libc::c_int; 5] = [
    libc::SIGHUP,
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGUSR1,
    libc::SIGCHLD,
];

extern "C" fn note(signal: libc::c_int) {
    // A number between 1 and 64.
    let octet = signal as u8;
    let pipe = PIPE.load(Ordering::Relaxed);
    // SAFETY: `write` may be called in a signal handler; `octet` is one readable octet. A full or
    // closed pipe is an error that nobody looks at; `errno` is put back.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(pipe, (&raw const octet).cast(), 1);
        *libc::__errno_location() = errno;
    }
}

/// The signals of this process as something to poll. Handlers, unlike a blocked mask, are not
/// inherited by the programs that it starts.
#[derive(Debug)]
pub struct Signals {
    read: OwnedFd,
    write: OwnedFd,
}

impl Signals {
    /// Listens from now on, until it is dropped. A process has one at a time.
    ///
    /// # Errors
    /// No descriptors are left, or another listens already.
    pub fn listen() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let signals = Self { read, write };
        let raw = signals.write.as_raw_fd();
        if PIPE
            .compare_exchange(-1, raw, Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
        {
            // Dropped without the handlers' taking notice: they write to the other's.
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let handler = note as extern "C" fn(libc::c_int);
        set_handlers(handler as libc::sighandler_t)?;
        Ok(signals)
    }

    /// What was heard since the last call, in order; repetitions of the kernel's making are one.
    pub fn heard(&self) -> Vec<Heard> {
        let mut octets = [0; 64];
        let count = loop {
            match rustix::io::read(&self.read, &mut octets) {
                Ok(count) => break count,
                Err(Errno::INTR) => {}
                Err(_) => break 0,
            }
        };
        let heard = |octet: &u8| match libc::c_int::from(*octet) {
            libc::SIGHUP => Some(Heard::Reload),
            libc::SIGTERM | libc::SIGINT => Some(Heard::End),
            libc::SIGUSR1 => Some(Heard::Leave),
            libc::SIGCHLD => Some(Heard::Child),
            _ => None,
        };
        octets[..count].iter().filter_map(heard).collect()
    }
}

impl std::os::fd::AsFd for Signals {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.read.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let raw = self.write.as_raw_fd();
        let mine = PIPE.compare_exchange(raw, -1, Ordering::Relaxed, Ordering::Relaxed);
        if mine.is_ok() {
            // The kernel takes these signals' default back without fail.
            let _ = set_handlers(libc::SIG_DFL);
        }
    }
}

fn set_handlers(handler: libc::sighandler_t) -> io::Result<()> {
    for signal in SIGNALS {
        // SAFETY: all zeroes is an action without flags and with an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: `action` is a whole sigaction; its handler is the default or `note`, which calls
        // only what a handler may call.
        if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, getpid, kill_process};

    #[test]
    fn signals_are_heard_in_order_by_one_listener() {
        let signals = Signals::listen().unwrap();
        assert!(Signals::listen().is_err());
        for signal in [Signal::HUP, Signal::USR1, Signal::TERM] {
            kill_process(getpid(), signal).unwrap();
            let mut heard = Vec::new();
            while heard.is_empty() {
                heard = signals.heard();
                // Other tests' children end whenever they like.
                heard.retain(|heard| *heard != Heard::Child);
            }
            let expected = match signal {
                Signal::HUP => Heard::Reload,
                Signal::USR1 => Heard::Leave,
                _ => Heard::End,
            };
            assert_eq!(heard, [expected]);
        }
    }
}
