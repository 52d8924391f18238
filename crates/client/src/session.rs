//! Many connections of one program.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::now;
use crate::control::Control;
use crate::hub::Hub;
use crate::{Builder, Connection, Error, ServerInfo, socket_path};

/// Connections over one control socket, with one descriptor to wait at.
///
/// At each adapter they share one event queue (*Policing Offloaded*, section 4.2): the threshold of
/// silent events ([`Notification::Silent`](crate::Notification::Silent)) counts those of all of
/// them there. A connection of a session is used as any other, and costs one descriptor, its
/// [capability](Connection::capability)'s. A session has up to 256.
///
/// ```no_run
/// use cellgate::{Connection, Error, Session};
///
/// let session = Session::new()?;
/// let open = |vci| session.open(&Connection::builder().address(format!("wan.0.{vci}")));
/// let connections = (100..300).map(open).collect::<Result<Vec<_>, _>>()?;
/// let mut buffer = [0; 65_535];
/// loop {
///     let ready = session.wait(None)?;
///     for connection in connections.iter().filter(|one| ready.contains(&one.number())) {
///         loop {
///             match connection.try_recv(&mut buffer) {
///                 Ok(received) => println!("{}: {}", connection.address(), received.len),
///                 Err(Error::WouldBlock(_)) => break,
///                 Err(error) => return Err(error),
///             }
///         }
///     }
/// }
/// # #[allow(unreachable_code)]
/// # Ok::<(), Error>(())
/// ```
///
/// Each of its connections ends by itself: one that is closed, dropped, refused or taken over
/// leaves the others as they are. The control socket is closed when the session and its last
/// connection are dropped. A session and its connections can move between threads together; one
/// thread at a time uses them.
#[derive(Debug)]
pub struct Session {
    hub: Arc<Hub>,
}

impl Session {
    /// At the usual server ([`socket_path`]).
    ///
    /// # Errors
    /// There is no server.
    pub fn new() -> Result<Self, Error> {
        Self::connect(socket_path())
    }

    /// At the server of a control socket.
    ///
    /// # Errors
    /// There is no server.
    pub fn connect(socket: impl AsRef<Path>) -> Result<Self, Error> {
        let hub = Hub::connect(socket.as_ref(), Control::PATIENCE)?;
        Ok(Self { hub: Arc::new(hub) })
    }

    /// Over a socket of sequenced packets whose other end the server has.
    ///
    /// # Errors
    /// The server refuses.
    pub fn over(socket: OwnedFd) -> Result<Self, Error> {
        let hub = Hub::over(socket, Control::PATIENCE)?;
        Ok(Self { hub: Arc::new(hub) })
    }

    /// The server at the other end of the control socket when it was called.
    pub fn server(&self) -> &ServerInfo {
        self.hub.server()
    }

    /// Opens a connection, as [`Builder::open`] does; the builder's own socket is left alone.
    ///
    /// # Errors
    /// As [`Builder::open`]; the session has as many connections as it may.
    pub fn open(&self, builder: &Builder) -> Result<Connection, Error> {
        builder.open_in(&self.hub)
    }

    /// Takes the use of a permanent connection, as [`Builder::take`] does.
    ///
    /// # Errors
    /// As [`Builder::take`]; the session has as many connections as it may.
    pub fn take(&self, builder: &Builder) -> Result<Connection, Error> {
        builder.take_in(&self.hub)
    }

    /// Waits until a connection may have something, for `timeout` at most (none: as long as it
    /// takes): the [numbers](Connection::number) of those that may have a PDU, room to send,
    /// another event, or an indication of the server. An empty list: the time is over.
    ///
    /// Each is named once for what has come: take all of it
    /// ([`Connection::try_recv`], [`Connection::next_event`], [`Connection::next_indication`])
    /// before the next wait. Silent events wake nobody before their threshold or their longest
    /// delay; those that have come by then are told all the same. Of a connection that is
    /// [polled](crate::Notification::Polled) no PDU is told, and of credit nothing:
    /// [`Wait::Credit`](crate::Wait::Credit) says for how long to wait.
    ///
    /// # Errors
    /// [`Error::Closed`]: the server is gone, and with it all connections; what they have received
    /// can be read.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<Vec<u32>, Error> {
        let ns = |timeout: Duration| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let deadline = timeout.map(|timeout| now().plus_ns(ns(timeout)));
        let mut told = true;
        loop {
            let heard = match told {
                true => self.hear(),
                false => Ok(()),
            };
            let ready = self.hub.take_ready();
            if ready.is_empty() {
                heard?;
            }
            if !ready.is_empty() || deadline.is_some_and(|deadline| deadline <= now()) {
                return Ok(ready);
            }
            let retry_at = self.hub.retry_at(now());
            if !self.hub.arm() {
                continue;
            }
            let until = [retry_at, deadline].into_iter().flatten().min();
            let slept = self.hub.poller.sleep(until);
            self.hub.disarm();
            let woken;
            (told, woken) = slept?;
            if woken {
                self.hub.drain()?;
            }
        }
    }

    /// Has the descriptor ([`AsFd`]) become readable as soon as a connection may have something,
    /// for who waits elsewhere. `false`: one has already; nothing is armed, call
    /// [`Session::wait`] with a timeout of zero at once. One `true` is good for one wake-up. The
    /// order is *wait with a timeout of zero; where it names none, arm; where that says `true`,
    /// wait for the descriptor*.
    ///
    /// # Errors
    /// As [`Session::wait`].
    pub fn arm(&self) -> Result<bool, Error> {
        self.hear()?;
        self.hub.drain()?;
        if self.hub.has_ready() {
            return Ok(false);
        }
        self.hub.poller.set_timer(self.hub.retry_at(now()))?;
        Ok(self.hub.arm())
    }

    /// Hears all that the server has told.
    fn hear(&self) -> Result<(), Error> {
        let heard = self.hub.socket().hear_all();
        if let Err(Error::Closed) = &heard {
            self.hub.poller.forget_control(self.hub.socket().as_fd());
        }
        heard
    }
}

impl AsFd for Session {
    /// Readable when there is something to do: see [`Session::arm`]. The descriptor is an epoll
    /// descriptor; it is for polling only.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.hub.poller.as_fd()
    }
}
