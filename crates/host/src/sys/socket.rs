use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// Has the calling thread make its sockets in the network namespace `name`, as `ip netns` knows it.
///
/// # Errors
/// There is none of this name, or the privilege is missing (CAP_SYS_ADMIN).
pub fn enter_network_namespace(name: &str) -> io::Result<()> {
    let namespace = File::open(Path::new("/run/netns").join(name))?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
    Ok(())
}

/// Has the calling thread make its sockets and network devices in a new network namespace, which
/// ends with the last of them.
///
/// # Errors
/// The privilege is missing (CAP_SYS_ADMIN).
pub fn own_network_namespace() -> io::Result<()> {
    // SAFETY: a network namespace is nothing that others of this process rely on to be shared; no
    // table of descriptors is unshared.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// The user and the process at the other end of a Unix socket, as the kernel noted them when it was
/// connected. The process is 0 if it is in a PID namespace that this one does not see (which is
/// why `rustix`, whose identifiers are never 0, is not asked).
///
/// # Errors
/// The descriptor is no Unix socket.
pub fn peer_credentials(socket: impl AsFd) -> io::Result<(u32, u32)> {
    let credentials = credentials(socket)?;
    Ok((credentials.uid, credentials.pid.cast_unsigned()))
}

fn credentials(socket: impl AsFd) -> io::Result<libc::ucred> {
    let mut credentials = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut len = size_of_val(&credentials) as libc::socklen_t;
    // SAFETY: `credentials` is a valid place for the `len` octets that the call writes at most, and
    // any octets are numbers; `len` is a valid place for how many it wrote.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut len,
        )
    };
    match result {
        0 => Ok(credentials),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What tells a socket's network namespace from all others, as long as the machine runs; none: the
/// kernel is older than Linux 5.14.
pub(super) fn namespace_of(socket: impl AsFd) -> Option<u64> {
    // asm-generic/socket.h; not every libc has it.
    const SO_NETNS_COOKIE: libc::c_int = 71;
    let mut cookie = 0_u64;
    let mut len = size_of_val(&cookie) as libc::socklen_t;
    // SAFETY: `cookie` is a valid place for the `len` octets that the call writes at most, and any
    // octets are a number; `len` is a valid place for how many it wrote.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut len,
        )
    };
    (result == 0).then_some(cookie)
}

/// The groups of the process at the other end of a Unix socket, its own first, as the kernel noted
/// them when it was connected.
///
/// # Errors
/// The descriptor is no Unix socket, or the kernel is older than Linux 4.13.
pub fn peer_groups(socket: impl AsFd) -> io::Result<Vec<u32>> {
    let mut groups = vec![credentials(&socket)?.gid];
    let mut others: Vec<libc::gid_t> = Vec::new();
    loop {
        let mut len = size_of_val(&others[..]) as libc::socklen_t;
        // SAFETY: `others` is a valid place for the `len` octets that the call writes at most, and
        // any octets are numbers; `len` is a valid place for how many there are.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                others.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        let there = len as usize / size_of::<libc::gid_t>();
        match result {
            0 => {
                others.truncate(there);
                groups.append(&mut others);
                return Ok(groups);
            }
            // Those of a connected socket do not change: the second call has room for all.
            _ if there > others.len() => others.resize(there, 0),
            _ => return Err(io::Error::last_os_error()),
        }
    }
}

/// Whether all that was sent through a Unix socket has been received.
pub(crate) fn is_read(socket: impl AsFd) -> bool {
    let mut unread: libc::c_int = 0;
    // SAFETY: the call (unix(7): SIOCOUTQ, whose number is TIOCOUTQ's) writes a `c_int`, for which
    // `unread` is a valid place.
    let result =
        unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut unread) };
    result == 0 && unread == 0
}

/// What the kernel says of a socket's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketMemory {
    /// Octets that may wait to be received, with the kernel's own overhead.
    pub receive_max: u32,
    /// Entries of the receive queue that found it full since the socket was made. An entry is a
    /// datagram, or several that came together (GRO).
    pub drops: u32,
}

/// What the kernel says of `socket`'s memory.
///
/// # Errors
/// The descriptor is no socket.
pub fn socket_memory(socket: impl AsFd) -> io::Result<SocketMemory> {
    // SK_MEMINFO_RMEM_ALLOC to SK_MEMINFO_DROPS.
    let mut values = [0_u32; 9];
    let mut len = size_of_val(&values) as libc::socklen_t;
    // SAFETY: `values` is a valid place for the `len` octets that the call writes at most, and any
    // octets are numbers; `len` is a valid place for how many it wrote.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    match result {
        0 => Ok(SocketMemory {
            receive_max: values[libc::SK_MEMINFO_RCVBUF as usize],
            drops: values[libc::SK_MEMINFO_DROPS as usize],
        }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has the kernel leave out what it would tell of each datagram beside its octets: when it came,
/// through which interface, its class.
///
/// # Errors
/// The descriptor is no socket of IPv4 or IPv6.
pub fn tell_octets_only(socket: impl AsFd, ipv6: bool) -> io::Result<()> {
    let ip = match ipv6 {
        true => [
            (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
        ],
        false => [
            (libc::IPPROTO_IP, libc::IP_PKTINFO),
            (libc::IPPROTO_IP, libc::IP_RECVTOS),
        ],
    };
    let stamp = (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS);
    for (level, name) in ip.into_iter().chain([stamp]) {
        let off: libc::c_int = 0;
        // SAFETY: the call reads one `c_int` at `off`.
        let result = unsafe {
            libc::setsockopt(
                socket.as_fd().as_raw_fd(),
                level,
                name,
                (&raw const off).cast(),
                size_of_val(&off) as libc::socklen_t,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Datagrams that [`receive_many`] takes at once.
pub const RECEIVE_MANY: usize = 64;

/// Plain `recvmmsg`, to compare with: up to 64 datagrams, each into `buffers`' next `stride` octets
/// (longer ones are cut), without waiting. How many; `lens` says how long they are.
///
/// # Errors
/// There is none (`WouldBlock`), or the descriptor is no socket.
pub fn receive_many(
    socket: impl AsFd,
    buffers: &mut [u8],
    stride: usize,
    lens: &mut [usize; RECEIVE_MANY],
) -> io::Result<usize> {
    let mut places = [libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    }; RECEIVE_MANY];
    let mut count = 0;
    for (place, buffer) in places.iter_mut().zip(buffers.chunks_exact_mut(stride)) {
        place.iov_base = buffer.as_mut_ptr().cast();
        place.iov_len = buffer.len();
        count += 1;
    }
    // SAFETY: all zeroes is a header without name, place and control message.
    let mut headers: [libc::mmsghdr; RECEIVE_MANY] = unsafe { std::mem::zeroed() };
    for (header, place) in headers.iter_mut().zip(&mut places) {
        header.msg_hdr.msg_iov = place;
        header.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: each of the first `count` headers, of which there are as many, points to one place in
    // `places`, which stands until the call is over and describes a part of `buffers` that is
    // borrowed as long and in no other place.
    let result = unsafe {
        libc::recvmmsg(
            socket.as_fd().as_raw_fd(),
            headers.as_mut_ptr(),
            count,
            libc::MSG_DONTWAIT as _,
            std::ptr::null_mut(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    for (len, header) in lens.iter_mut().zip(&headers) {
        *len = header.msg_len as usize;
    }
    Ok(result as usize)
}

/// Messages that [`send_many`] sends at once.
pub const SEND_MANY: usize = 8;

/// Sends up to 8 messages without descriptors in one call, without waiting: how many. Whoever
/// receives them is woken once, not for each.
///
/// # Errors
/// Not even one could be sent: `WouldBlock`, or the other end is gone.
pub fn send_many<'a>(
    socket: impl AsFd,
    messages: impl Iterator<Item = &'a [u8]>,
) -> io::Result<usize> {
    let mut places = [libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    }; SEND_MANY];
    let mut count = 0;
    for (place, message) in places.iter_mut().zip(messages) {
        place.iov_base = message.as_ptr().cast_mut().cast();
        place.iov_len = message.len();
        count += 1;
    }
    // SAFETY: all zeroes is a header without name, place and control message.
    let mut headers: [libc::mmsghdr; SEND_MANY] = unsafe { std::mem::zeroed() };
    for (header, place) in headers.iter_mut().zip(&mut places) {
        header.msg_hdr.msg_iov = place;
        header.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: each of the first `count` headers, of which there are as many, points to one place in
    // `places`, which stands until the call is over and describes a message that is borrowed as
    // long; the kernel only reads it.
    let result = unsafe {
        libc::sendmmsg(
            socket.as_fd().as_raw_fd(),
            headers.as_mut_ptr(),
            count,
            (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
        )
    };
    match result {
        0.. => Ok(result as usize),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn messages_that_are_sent_together_come_one_by_one() {
        let (a, b) = cellgate_shm::socket::pair().unwrap();
        let messages: Vec<Vec<u8>> = (1..=10).map(|len| vec![len; len.into()]).collect();
        let of = |messages: &[Vec<u8>]| send_many(&a, messages.iter().map(|one| &**one));
        assert_eq!(of(&messages).unwrap(), SEND_MANY);
        let mut buffer = [0; 64];
        for message in &messages[..SEND_MANY] {
            let len = rustix::io::read(&b, &mut buffer).unwrap();
            assert_eq!(buffer[..len], **message);
        }
        while of(&messages).is_ok() {}
        assert_eq!(of(&messages).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(b);
        assert_ne!(of(&messages).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn tells_who_is_at_the_other_end() {
        let (a, _b) = cellgate_shm::socket::pair().unwrap();
        let me = rustix::process::getuid().as_raw();
        assert_eq!(peer_credentials(&a).unwrap(), (me, std::process::id()));
        assert!(peer_credentials(io::stdin()).is_err());
    }

    #[test]
    fn tells_all_groups_of_who_is_at_the_other_end() {
        let (a, _b) = cellgate_shm::socket::pair().unwrap();
        let own = [rustix::process::getegid()].into_iter();
        let mine = own.chain(rustix::process::getgroups().unwrap());
        let mine: Vec<u32> = mine.map(rustix::process::Gid::as_raw).collect();
        assert_eq!(peer_groups(&a).unwrap(), mine);
        assert!(peer_groups(io::stdin()).is_err());
    }

    #[test]
    fn tells_when_all_is_read() {
        let (a, b) = cellgate_shm::socket::pair().unwrap();
        let mut buffer = [0; 8];
        for octets in [&b"one"[..], b"two"] {
            assert!(is_read(&a) && is_read(&b));
            rustix::io::write(&a, octets).unwrap();
            rustix::io::write(&a, octets).unwrap();
            assert!(!is_read(&a) && is_read(&b));
            rustix::io::read(&b, &mut buffer).unwrap();
            assert!(!is_read(&a));
            rustix::io::read(&b, &mut buffer).unwrap();
        }
        assert!(is_read(&a));
    }

    #[test]
    fn receives_many_at_once() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = receiver.local_addr().unwrap();
        let (mut buffers, mut lens) = ([0; 40], [0; RECEIVE_MANY]);
        let nothing = receive_many(&receiver, &mut buffers, 8, &mut lens).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        for len in [3, 9, 8, 0, 1, 2] {
            sender.send_to(&[len; 9][..len.into()], to).unwrap();
        }
        assert_eq!(
            receive_many(&receiver, &mut buffers, 8, &mut lens).unwrap(),
            5
        );
        assert_eq!(lens[..5], [3, 8, 8, 0, 1]);
        assert_eq!(
            (buffers[2], buffers[15], buffers[16], buffers[32]),
            (3, 9, 8, 1)
        );
        assert_eq!(
            receive_many(&receiver, &mut buffers, 8, &mut lens).unwrap(),
            1
        );
        assert_eq!((lens[0], buffers[..2] == [2, 2]), (2, true));
    }

    #[test]
    fn counts_what_found_the_queue_full() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = receiver.local_addr().unwrap();
        assert_eq!(socket_memory(&receiver).unwrap().drops, 0);
        receiver.set_nonblocking(true).unwrap();
        let sent = 20_000;
        for _ in 0..sent {
            sender.send_to(&[0; 1_000], to).unwrap();
        }
        let mut received = 0;
        while receiver.recv(&mut [0; 1_000]).is_ok() {
            received += 1;
        }
        let memory = socket_memory(&receiver).unwrap();
        assert!(memory.receive_max > 0 && memory.drops > 0);
        assert_eq!(received + memory.drops, sent);
        assert!(socket_memory(std::io::stdin()).is_err());
    }

    #[test]
    fn tells_octets_only() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            if let Ok(socket) = UdpSocket::bind(address) {
                tell_octets_only(&socket, address.starts_with('[')).unwrap();
            }
        }
        assert!(tell_octets_only(std::io::stdin(), false).is_err());
    }
}
