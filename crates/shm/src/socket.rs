//! Control sockets: messages, and descriptors along with them, between processes.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::cmsg_space;
use rustix::fs::{Mode, fchmod};
use rustix::io::{Errno, IoSlice, IoSliceMut, Result};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    bind, connect, recvmsg, sendmsg, socket_with, socketpair,
};
use rustix::process::umask;

/// The longest message in octets.
pub const MESSAGE_MAX: usize = 65_536;

/// The most descriptors that travel with a message.
pub const FDS_MAX: usize = 8;

/// The most that the kernel lets anybody send with one (SCM_MAX_FD). There is room for all of them:
/// those beyond the kernel would close, on the thread that receives, which waits for that.
const FDS_SENT_MAX: usize = 253;

/// The longest wait that the kernel takes anywhere.
const PATIENCE_MAX: Duration = Duration::from_secs(1 << 30);

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// What was received.
#[derive(Debug)]
pub enum Received {
    /// A message of so many octets, now at the start of the buffer, and its descriptors, be they
    /// more than [`FDS_MAX`].
    Message(usize, Vec<OwnedFd>),
    /// A message longer than [`MESSAGE_MAX`]; its descriptors.
    TooLong(Vec<OwnedFd>),
    /// The other end is gone (or sent an empty message, which nobody who speaks this does, with
    /// these descriptors).
    Closed(Vec<OwnedFd>),
}

/// Both ends of a control connection: Unix, sequenced packets, closed on exec.
///
/// # Errors
/// No descriptors are left.
pub fn pair() -> Result<(OwnedFd, OwnedFd)> {
    socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
}

/// Connects to whoever listens at `path`, and waits for it no longer than `patience` where nobody
/// is let in and as many wait as may.
///
/// # Errors
/// `TIMEDOUT` if it waited in vain; anything else means that nobody listens there, or that this
/// user may not.
pub fn dial(path: &Path, patience: Duration) -> Result<OwnedFd> {
    let socket = unbound(SocketFlags::CLOEXEC)?;
    let address = SocketAddrUnix::new(path)?;
    let from = Instant::now();
    loop {
        let left = patience.saturating_sub(from.elapsed());
        // unix(7): it bounds connecting, too. None would be for ever.
        let left = left.clamp(Duration::from_millis(1), PATIENCE_MAX);
        set_socket_timeout(&socket, Timeout::Send, Some(left))?;
        match connect(&socket, &address) {
            Err(Errno::INTR) if from.elapsed() < patience => {}
            Err(Errno::AGAIN | Errno::INTR) => return Err(Errno::TIMEDOUT),
            done => {
                done?;
                break;
            }
        }
    }
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(socket)
}

/// Listens at `path`, for those whom the permissions `mode` let in. Accepting does not wait.
///
/// # Errors
/// Something is at `path` already, or its directory is not this user's to write.
pub fn listen(path: &Path, mode: u32) -> Result<OwnedFd> {
    /// The mask is the whole process's.
    static MASK: Mutex<()> = Mutex::new(());
    let socket = unbound(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    // What is made at `path` has the socket's permissions: nobody changes them by name, which
    // might lead somewhere else by then.
    fchmod(&socket, Mode::from_raw_mode(mode))?;
    let address = SocketAddrUnix::new(path)?;
    {
        let _mine = MASK.lock().unwrap_or_else(PoisonError::into_inner);
        let mask = umask(Mode::empty());
        let bound = bind(&socket, &address);
        umask(mask);
        bound?;
    }
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Whether a program has the socket at `path`, of whatever type, listening or not.
///
/// # Errors
/// There is none, or this user may not connect to it.
pub fn is_alive(path: &Path) -> Result<bool> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        // Nobody has bound it: the name has outlived the socket.
        Err(Errno::CONNREFUSED) => Ok(false),
        // Of another type, or of one that hears somebody else alone.
        Ok(()) | Err(Errno::PROTOTYPE | Errno::PERM | Errno::AGAIN) => Ok(true),
        Err(error) => Err(error),
    }
}

fn unbound(flags: SocketFlags) -> Result<OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Takes the control connection that this process has inherited as its standard input, which is
/// `/dev/null` afterwards: the other end sees the connection close when what is returned is
/// dropped.
///
/// # Errors
/// Standard input is closed, or no descriptors are left.
pub fn take_stdin() -> std::io::Result<OwnedFd> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(socket)
}

/// Sends one message with its descriptors, without waiting if `wait` is false.
///
/// # Errors
/// `AGAIN` if it would have to wait; anything else means that the other end is gone, or
/// `INVAL` if there are more than [`FDS_MAX`] descriptors or [`MESSAGE_MAX`] octets.
pub fn send(socket: impl AsFd, octets: &[u8], fds: &[BorrowedFd<'_>], wait: bool) -> Result<()> {
    if octets.len() > MESSAGE_MAX || fds.len() > FDS_MAX {
        return Err(Errno::INVAL);
    }
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(FDS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::INVAL);
    }
    let mut flags = SendFlags::NOSIGNAL;
    flags.set(SendFlags::DONTWAIT, !wait);
    loop {
        match sendmsg(&socket, &[IoSlice::new(octets)], &mut ancillary, flags) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Receives one message into `buffer` (of [`MESSAGE_MAX`] octets), without waiting if `wait` is
/// false.
///
/// # Errors
/// `AGAIN` if it would have to wait; anything else means that the other end is gone.
pub fn receive(socket: impl AsFd, buffer: &mut [u8], wait: bool) -> Result<Received> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(FDS_SENT_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut flags = RecvFlags::CMSG_CLOEXEC;
    flags.set(RecvFlags::DONTWAIT, !wait);
    let mut reset = false;
    let message = loop {
        let buffers = &mut [IoSliceMut::new(buffer)];
        match recvmsg(&socket, buffers, &mut ancillary, flags) {
            Ok(message) => break message,
            Err(Errno::INTR) => {}
            // The other end is gone and has not read all that was sent to it. The kernel says so
            // once, ahead of what it sent before.
            Err(Errno::CONNRESET) if !reset => reset = true,
            Err(Errno::CONNRESET) => return Ok(Received::Closed(Vec::new())),
            Err(error) => return Err(error),
        }
    };
    // Every descriptor is taken over before anything is judged, so that none leaks.
    let fds: Vec<OwnedFd> = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    if message.flags.contains(ReturnFlags::TRUNC) {
        Ok(Received::TooLong(fds))
    } else if message.bytes == 0 {
        Ok(Received::Closed(fds))
    } else {
        Ok(Received::Message(message.bytes, fds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{fstat, stat};
    use rustix::thread::{UnshareFlags, unshare_unsafe};

    #[test]
    #[cfg_attr(miri, ignore = "system calls")]
    fn the_mask_of_a_process_takes_nothing_from_a_socket() {
        // SAFETY: only the mask and the working directory become this thread's own.
        let own = unsafe { unshare_unsafe(UnshareFlags::FS) };
        if let Err(error) = own {
            println!("skipped mask: {error}");
            return;
        }
        umask(Mode::from_raw_mode(0o027));
        let name = format!("cellgate-mask-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let made = listen(&path, 0o666);
        let found = stat(&path).map(|found| found.st_mode & 0o777);
        let _ = std::fs::remove_file(&path);
        made.unwrap();
        assert_eq!(found, Ok(0o666));
        assert_eq!(umask(Mode::empty()), Mode::from_raw_mode(0o027));
    }

    #[test]
    #[cfg_attr(miri, ignore = "system calls")]
    fn carries_octets_and_descriptors() {
        let (a, b) = pair().unwrap();
        let (sent, _) = pair().unwrap();
        send(&a, b"octets", &[sent.as_fd(), a.as_fd()], true).unwrap();
        let mut buffer = vec![0; MESSAGE_MAX];
        let Received::Message(len, fds) = receive(&b, &mut buffer, false).unwrap() else {
            panic!("a message was sent");
        };
        assert_eq!(&buffer[..len], b"octets");
        assert_eq!(fds.len(), 2);
        assert_eq!(fstat(&fds[0]).unwrap().st_ino, fstat(&sent).unwrap().st_ino);
        assert_eq!(receive(&b, &mut buffer, false).unwrap_err(), Errno::AGAIN);
    }

    #[test]
    #[cfg_attr(miri, ignore = "system calls")]
    fn hands_out_whatever_descriptors_came() {
        let (a, b) = pair().unwrap();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(FDS_SENT_MAX))];
        let many = [a.as_fd(); FDS_SENT_MAX];
        let mut buffer = vec![0; MESSAGE_MAX];
        for len in [0, 1, MESSAGE_MAX + 1] {
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(&many)));
            let octets = vec![1; len];
            let octets = [IoSlice::new(&octets)];
            sendmsg(&a, &octets, &mut ancillary, SendFlags::empty()).unwrap();
            let (Received::Message(_, fds) | Received::TooLong(fds) | Received::Closed(fds)) =
                receive(&b, &mut buffer, false).unwrap();
            assert_eq!(fds.len(), many.len(), "{len}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "system calls")]
    fn tells_a_message_too_long_from_the_end() {
        let (a, b) = pair().unwrap();
        let mut buffer = vec![0; MESSAGE_MAX];
        let long = vec![1; MESSAGE_MAX + 1];
        let flags = SendFlags::empty();
        rustix::net::send(&a, &long, flags).unwrap();
        assert!(matches!(
            receive(&b, &mut buffer, true).unwrap(),
            Received::TooLong(_)
        ));
        assert_eq!(send(&a, &long, &[], true).unwrap_err(), Errno::INVAL);
        send(&a, &long[..MESSAGE_MAX], &[], true).unwrap();
        assert!(matches!(
            receive(&b, &mut buffer, true).unwrap(),
            Received::Message(MESSAGE_MAX, _)
        ));
        drop(a);
        assert!(matches!(
            receive(&b, &mut buffer, true).unwrap(),
            Received::Closed(_)
        ));
    }

    #[test]
    #[cfg_attr(miri, ignore = "system calls")]
    fn last_words_are_heard_though_the_speaker_did_not_listen() {
        let (a, b) = pair().unwrap();
        send(&b, b"unread", &[], true).unwrap();
        send(&a, b"last words", &[], true).unwrap();
        drop(a);
        let mut buffer = vec![0; MESSAGE_MAX];
        let last = receive(&b, &mut buffer, true).unwrap();
        assert!(matches!(last, Received::Message(10, _)), "{last:?}");
        let end = receive(&b, &mut buffer, true).unwrap();
        assert!(matches!(end, Received::Closed(_)), "{end:?}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "system calls")]
    fn whom_nobody_lets_in_waits_no_longer_than_its_patience() {
        let name = format!("cellgate-dial-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = unbound(SocketFlags::CLOEXEC).unwrap();
        bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let patience = Duration::from_millis(50);
        // The kernel lets one more wait than it is told.
        let first = dial(&path, patience).unwrap();
        let from = Instant::now();
        let error = dial(&path, patience).unwrap_err();
        let waited = from.elapsed();
        drop(listener);
        std::fs::remove_file(&path).unwrap();
        assert_eq!((error, waited >= patience), (Errno::TIMEDOUT, true));
        assert_eq!(dial(&path, patience).unwrap_err(), Errno::NOENT);
        // What is sent later waits as long as it takes.
        let timeout = rustix::net::sockopt::socket_timeout(&first, Timeout::Send);
        assert_eq!(timeout.unwrap(), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "system calls")]
    fn refuses_to_send_more_descriptors_than_are_received() {
        let (a, _b) = pair().unwrap();
        let fds = [a.as_fd(); FDS_MAX + 1];
        assert_eq!(send(&a, b"x", &fds, false).unwrap_err(), Errno::INVAL);
    }
}
