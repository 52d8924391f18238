//! TCP.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use cellgate_core::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force};

use super::{Octets, Stream};
use crate::clock::MonotonicClock;

/// Each address is tried for so long.
const CONNECT: Duration = Duration::from_secs(5);
/// Octets that the kernel keeps of what is sent, and of what has come.
const SOCKET_BUFFER: usize = 4 << 20;

/// A connection of TCP.
#[derive(Debug)]
pub struct Tcp {
    socket: TcpStream,
}

impl Tcp {
    /// Connects to `HOST:PORT`.
    ///
    /// # Errors
    /// The name has no address, or nobody there answers.
    pub fn connect(to: &str) -> io::Result<Stream<Self>> {
        let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for address in to.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(socket) => return Self::new(socket),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn new(socket: TcpStream) -> io::Result<Stream<Self>> {
        // Whoever asks waits for the answer.
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        // Beyond the kernel's limit with a privilege alone. To ask for less without one would end
        // the kernel's own tuning, which goes further.
        if set_socket_send_buffer_size_force(&socket, SOCKET_BUFFER).is_ok() {
            let _ = set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER);
        }
        Ok(Stream::new(Self { socket }))
    }
}

impl Octets for Tcp {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&self.socket).read(into)
    }

    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        (&self.socket).write(octets)
    }

    fn wait(&mut self, reads: bool, writes: bool, until: Time) -> io::Result<()> {
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::IN, reads);
        interest.set(PollFlags::OUT, writes);
        wait_for(&self.socket, interest, until)
    }

    fn finish(&mut self, timeout: Duration) {
        // What cannot be told any more is not waited for.
        if self.socket.shutdown(Shutdown::Write).is_err() {
            return;
        }
        let begun = Instant::now();
        let mut octets = [0; 4_096];
        while let Some(left) = timeout.checked_sub(begun.elapsed()) {
            match self.read(&mut octets) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let until = MonotonicClock.now().plus_ns(left.as_nanos() as u64);
                    if self.wait(true, false, until).is_err() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }
}

/// Waits for a descriptor. A wait that a signal ends is over.
pub(super) fn wait_for(fd: impl AsFd, interest: PollFlags, until: Time) -> io::Result<()> {
    let left = Duration::from_nanos(until.since_ns(MonotonicClock.now()));
    let timeout = Timespec::try_from(left).ok();
    match poll(&mut [PollFd::new(&fd, interest)], timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Where connections of TCP come in.
#[derive(Debug)]
pub struct TcpServer {
    listener: TcpListener,
}

impl TcpServer {
    /// Listens at `ADDRESS:PORT`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn listen(at: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The next connection that comes before `until`, and from whom.
    ///
    /// # Errors
    /// The kernel refuses: it may have no descriptor left for now.
    pub fn accept(&self, until: Time) -> io::Result<Option<(Stream<Tcp>, SocketAddr)>> {
        wait_for(&self.listener, PollFlags::IN, until)?;
        match self.listener.accept() {
            Ok((socket, from)) => Ok(Some((Tcp::new(socket)?, from))),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}
