//! One connection, with the stream that is on it.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cellgate_core::Time;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, Dir, EndpointEvent, Event,
    ReadError, StreamEvent, StreamId, Transmit, VarInt, WriteError,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::socket::{Mailbox, Socket, is_blocked};
use super::{IDLE, NAME};
use crate::clock::MonotonicClock;
use crate::terminal::over::Octets;

/// Datagrams that leave before what has come is looked at.
const BATCH: usize = 64;

/// A connection of QUIC.
pub struct Quic {
    socket: Arc<Socket>,
    handle: ConnectionHandle,
    connection: Connection,
    mailbox: Mailbox,
    stream: Option<StreamId>,
    is_connected: bool,
    /// The other end has all that was sent.
    is_finished: bool,
    lost: Option<ConnectionError>,
    datagram: Vec<u8>,
    /// A datagram that the kernel had no room for.
    blocked: Option<Transmit>,
    /// Ends the thread of a socket that is this connection's alone.
    ends: Option<Arc<AtomicBool>>,
}

impl Quic {
    pub(super) fn new(
        socket: Arc<Socket>,
        handle: ConnectionHandle,
        connection: Connection,
        mailbox: Mailbox,
    ) -> Self {
        Self {
            socket,
            handle,
            connection,
            mailbox,
            stream: None,
            is_connected: false,
            is_finished: false,
            lost: None,
            datagram: Vec::new(),
            blocked: None,
            ends: None,
        }
    }

    /// Begins a connection on a socket of its own.
    pub(super) fn begin(
        socket: Arc<Socket>,
        config: ClientConfig,
        to: SocketAddr,
    ) -> io::Result<Self> {
        let begun = Instant::now();
        let connected = socket.endpoint().connect(begun, config, to, NAME);
        let (handle, connection) = connected.map_err(io::Error::other)?;
        let mut quic = socket.quic(handle, connection)?;
        let ends = Arc::new(AtomicBool::new(false));
        quic.ends = Some(ends.clone());
        thread::Builder::new()
            .name("quic".to_owned())
            .spawn(move || socket.receive(|| ends.load(Ordering::Acquire), |_| ()))?;
        loop {
            quic.drive();
            if let Some(lost) = &quic.lost {
                return Err(broken(lost));
            }
            if quic.is_connected {
                quic.stream = quic.connection.streams().open(Dir::Bi);
                return Ok(quic);
            }
            if begun.elapsed() > IDLE {
                return Err(io::Error::new(
                    ErrorKind::TimedOut,
                    "nobody answers by QUIC",
                ));
            }
            quic.wait(true, false, MonotonicClock.now().plus_ns(100_000_000))?;
        }
    }

    /// Takes what has come, and sends what is due.
    fn drive(&mut self) {
        let now = Instant::now();
        while let Ok(event) = self.mailbox.events.try_recv() {
            self.connection.handle_event(event);
        }
        if self.connection.poll_timeout().is_some_and(|due| due <= now) {
            self.connection.handle_timeout(now);
        }
        self.transmit(now);
        while let Some(event) = self.connection.poll_endpoint_events() {
            let answer = self.socket.endpoint().handle_event(self.handle, event);
            if let Some(event) = answer {
                self.connection.handle_event(event);
            }
        }
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.is_connected = true,
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    let accepted = self.connection.streams().accept(Dir::Bi);
                    self.stream = self.stream.or(accepted);
                }
                Event::Stream(StreamEvent::Finished { .. }) => self.is_finished = true,
                _ => {}
            }
        }
    }

    fn transmit(&mut self, now: Instant) {
        for _ in 0..BATCH {
            let transmit = match self.blocked.take() {
                Some(blocked) => blocked,
                None => {
                    self.datagram.clear();
                    let next = self.connection.poll_transmit(now, 1, &mut self.datagram);
                    let Some(next) = next else { return };
                    next
                }
            };
            match self.socket.send(&transmit, &self.datagram) {
                Err(error) if is_blocked(&error) => {
                    self.blocked = Some(transmit);
                    return;
                }
                // What did not leave is lost on its way, as a probe of the MTU can be.
                Ok(()) | Err(_) => {}
            }
        }
        // There is more, which the timer does not tell of.
        self.mailbox.bell.ring();
    }

    fn lost(&self) -> io::Result<()> {
        self.lost.as_ref().map_or(Ok(()), |lost| Err(broken(lost)))
    }

    /// Whether the other end has closed it.
    const fn is_closed(&self) -> bool {
        matches!(self.lost, Some(ConnectionError::ApplicationClosed(_)))
    }
}

impl Octets for Quic {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.drive();
        let Some(stream) = self.stream else {
            if !self.is_closed() {
                self.lost()?;
                return Err(ErrorKind::WouldBlock.into());
            }
            return Ok(0);
        };
        let mut stream = self.connection.recv_stream(stream);
        // Whoever reads behind the end finds the stream gone.
        let Ok(mut chunks) = stream.read(true) else {
            return Ok(0);
        };
        let mut read = 0;
        let ended = loop {
            if read == into.len() {
                break None;
            }
            match chunks.next(into.len() - read) {
                Ok(Some(chunk)) => {
                    into[read..read + chunk.bytes.len()].copy_from_slice(&chunk.bytes);
                    read += chunk.bytes.len();
                }
                Ok(None) => break Some(Ok(0)),
                Err(ReadError::Blocked) => break Some(Err(ErrorKind::WouldBlock.into())),
                Err(error) => break Some(Err(io::Error::other(error))),
            }
        };
        // The other end may send more.
        let _ = chunks.finalize();
        self.transmit(Instant::now());
        match ended {
            Some(_) if read == 0 && self.is_closed() => Ok(0),
            Some(end) if read == 0 => self.lost().and(end),
            _ => Ok(read),
        }
    }

    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        // That the other end has closed it is read behind what it has sent.
        if self.is_closed() {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.lost()?;
        let Some(stream) = self.stream else {
            return Err(ErrorKind::WouldBlock.into());
        };
        let written = self.connection.send_stream(stream).write(octets);
        self.drive();
        written.map_err(|error| match error {
            WriteError::Blocked => ErrorKind::WouldBlock.into(),
            error => io::Error::other(error),
        })
    }

    fn wait(&mut self, _reads: bool, _writes: bool, until: Time) -> io::Result<()> {
        let now = Instant::now();
        self.transmit(now);
        let mut left = Duration::from_nanos(until.since_ns(MonotonicClock.now()));
        if let Some(due) = self.connection.poll_timeout() {
            left = left.min(due.saturating_duration_since(now));
        }
        let timeout = Timespec::try_from(left).ok();
        let mut fds = vec![PollFd::new(&*self.mailbox.bell, PollFlags::IN)];
        if self.blocked.is_some() {
            fds.push(PollFd::new(&*self.socket, PollFlags::OUT));
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // What comes from here on rings anew.
        self.mailbox.bell.clear();
        self.drive();
        Ok(())
    }

    fn finish(&mut self, timeout: Duration) {
        let Some(stream) = self.stream else { return };
        if self.connection.send_stream(stream).finish().is_err() {
            return;
        }
        let begun = Instant::now();
        while !self.is_finished && self.lost.is_none() {
            let Some(left) = timeout.checked_sub(begun.elapsed()) else {
                return;
            };
            let until = MonotonicClock.now().plus_ns(left.as_nanos() as u64);
            if self.wait(true, false, until).is_err() {
                return;
            }
        }
    }
}

impl Drop for Quic {
    fn drop(&mut self) {
        let now = Instant::now();
        let reason = bytes::Bytes::new();
        self.connection.close(now, VarInt::from_u32(0), reason);
        self.blocked = None;
        self.transmit(now);
        self.socket.close(self.handle);
        // The endpoint forgets it at once: whoever sends to it still is told that it is gone.
        let mut endpoint = self.socket.endpoint();
        endpoint.handle_event(self.handle, EndpointEvent::drained());
        if let Some(ends) = &self.ends {
            ends.store(true, Ordering::Release);
        }
    }
}

fn broken(lost: &ConnectionError) -> io::Error {
    let kind = match lost {
        ConnectionError::TimedOut => ErrorKind::TimedOut,
        ConnectionError::Reset => ErrorKind::ConnectionReset,
        _ => ErrorKind::ConnectionAborted,
    };
    io::Error::new(kind, lost.to_string())
}
