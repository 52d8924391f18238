//! A live connection.
//!
//! A `cellgate::Connection` is for one thread at a time. Here it is behind a lock, which a thread
//! holds only while it tries, never while it waits: a thread that receives keeps none from sending.
//! All tries are made with the interpreter attached, all waits without.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cellgate::{Error, Interest, Wait};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::errors::exception;

/// How long a thread waits before it looks again by itself: another thread may have heard what the
/// server told, and so have taken it off the descriptor.
const LOOK: Duration = Duration::from_millis(500);
/// The same of a thread that does not wait at the descriptor, where another one waits.
const LOOK_BESIDE: Duration = Duration::from_millis(1);

/// A connection, or none: it was closed.
struct Live {
    connection: cellgate::Connection,
    /// A name of the descriptor to wait at that outlives the connection.
    descriptor: Arc<OwnedFd>,
}

/// A connection of this process at an interface of the server (``cellgate.Connection`` has what
/// asyncio needs beside it).
#[pyclass(subclass, frozen, module = "cellgate._native")]
pub(crate) struct Connection {
    live: Mutex<Option<Live>>,
    /// A thread waits at the descriptor. It can be armed for one.
    has_waiter: AtomicBool,
    address: String,
}

#[pymethods]
impl Connection {
    #[new]
    #[pyo3(signature = (address, contract, *, socket = None, timeout = 30.0))]
    fn new(
        py: Python<'_>,
        address: &str,
        contract: &str,
        socket: Option<PathBuf>,
        timeout: f64,
    ) -> PyResult<Self> {
        let mut builder = cellgate::Connection::builder()
            .address(address)
            .contract(contract)
            .patience(seconds(timeout)?);
        if let Some(path) = socket {
            builder = builder.socket(path);
        }
        let connection = py.detach(|| builder.open()).map_err(exception)?;
        let descriptor = connection.as_fd().try_clone_to_owned()?;
        Ok(Self {
            address: connection.address().to_string(),
            live: Mutex::new(Some(Live {
                connection,
                descriptor: Arc::new(descriptor),
            })),
            has_waiter: AtomicBool::new(false),
        })
    }

    /// Where it is, with its interface: ``a.0.100``.
    #[getter]
    fn address(&self) -> &str {
        &self.address
    }

    /// Its contract in canonical form.
    #[getter]
    fn contract(&self) -> PyResult<String> {
        self.ask(|connection| Ok(connection.contract()))
    }

    /// Octets of the largest SDU that it sends; None: it does not send.
    #[getter]
    fn transmit_max_sdu(&self) -> PyResult<Option<u16>> {
        self.ask(|connection| Ok(connection.transmit_max_sdu()))
    }

    /// Octets of the largest SDU that it receives; None: it does not receive.
    #[getter]
    fn receive_max_sdu(&self) -> PyResult<Option<u16>> {
        self.ask(|connection| Ok(connection.receive_max_sdu()))
    }

    /// Whether it was closed here.
    #[getter]
    fn closed(&self) -> bool {
        self.live().is_none()
    }

    /// Sends an SDU: the octets of any bytes-like object, copied once. It waits while there is no
    /// credit or room, so that no more is sent than the contract says.
    ///
    /// Raises ``TimeoutError`` after ``timeout`` seconds, ``ValueError`` if the contract has no
    /// such SDUs, ``Ended`` if the connection has ended.
    #[pyo3(signature = (data, timeout = None))]
    fn send(&self, py: Python<'_>, data: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<()> {
        let octets = octets(data)?;
        let interest = Interest::send(octets.len_bytes());
        self.until(py, interest, timeout, |connection| {
            send(py, connection, &octets)
        })
    }

    /// Sends an SDU if it need not wait; False: it is not sent.
    fn try_send(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<bool> {
        let octets = octets(data)?;
        let sent = self.attempt(|connection| send(py, connection, &octets))?;
        Ok(sent.is_ok())
    }

    /// Receives an SDU: waits for it, and copies it once.
    ///
    /// Raises ``TimeoutError`` after ``timeout`` seconds (0: at once, where there is none),
    /// ``Ended`` if the connection has ended and all that it has received is read.
    #[pyo3(signature = (timeout = None))]
    fn recv<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyBytes>> {
        self.until(py, Interest::RECEIVE, timeout, |connection| {
            receive(py, connection)
        })
    }

    /// Receives an SDU if there is one; None: there is none.
    fn try_recv<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let received = self.attempt(|connection| receive(py, connection))?;
        Ok(received.ok())
    }

    /// Receives an SDU into a writable buffer, and gives the number of its octets. The buffer has
    /// room for the largest SDU (``receive_max_sdu``), else ``ValueError`` is raised, and nothing
    /// received.
    #[pyo3(signature = (buffer, timeout = None))]
    fn recv_into(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<usize> {
        let octets = octets(buffer)?;
        let room = octets.as_mut_slice(py).ok_or_else(|| {
            PyBufferError::new_err("recv_into needs a buffer that is writable and contiguous")
        })?;
        self.until(py, Interest::RECEIVE, timeout, |connection| {
            // Before anything is taken: nothing of an SDU gets lost.
            let max = connection.receive_max_sdu();
            let max = usize::from(max.ok_or(Error::DoesNotReceive)?);
            if room.len() < max {
                return Err(Failure::Python(PyValueError::new_err(format!(
                    "a buffer of {} octets: the contract lets SDUs of {max} come",
                    room.len()
                ))));
            }
            let pdu = connection.try_next_pdu()?;
            for (to, octet) in room.iter().zip(&*pdu) {
                to.set(*octet);
            }
            Ok(pdu.len())
        })
    }

    /// The descriptor to wait at, once ``arm`` has said True.
    fn fileno(&self) -> PyResult<i32> {
        let live = self.live();
        Ok(live.as_ref().ok_or_else(is_closed)?.descriptor.as_raw_fd())
    }

    /// For a program that waits by ``select`` or ``selectors``: has the descriptor become readable
    /// as soon as an SDU may be received, or one of ``send`` octets sent. False: it may at once,
    /// and nothing is armed.
    ///
    /// The order is: try; where that would wait, arm; where that says True, wait for the
    /// descriptor; try again. One True is good for one wake-up.
    #[pyo3(signature = (*, receive = true, send = None))]
    fn arm(&self, receive: bool, send: Option<usize>) -> PyResult<bool> {
        let receive = receive.then_some(Interest::RECEIVE);
        let interests = [receive, send.map(Interest::send)].into_iter().flatten();
        let interest = interests.fold(Interest::INDICATION, Interest::or);
        self.ask(|connection| connection.arm(interest))
    }

    /// Closes it, as ``cellgate.Connection`` says.
    #[pyo3(signature = (linger = 10.0))]
    fn close(&self, py: Python<'_>, linger: f64) -> PyResult<()> {
        let linger = seconds(linger)?;
        let Some(live) = self.live().take() else {
            return Ok(());
        };
        py.detach(move || close(live.connection, linger))
            .map_err(exception)
    }
}

impl Connection {
    fn live(&self) -> MutexGuard<'_, Option<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask<T>(&self, ask: impl FnOnce(&cellgate::Connection) -> Result<T, Error>) -> PyResult<T> {
        let live = self.live();
        let live = live.as_ref().ok_or_else(is_closed)?;
        ask(&live.connection).map_err(exception)
    }

    /// Tries once; what it would have to wait for.
    fn attempt<T>(
        &self,
        attempt: impl FnOnce(&cellgate::Connection) -> Result<T, Failure>,
    ) -> PyResult<Result<T, Wait>> {
        let live = self.live();
        let live = live.as_ref().ok_or_else(is_closed)?;
        match attempt(&live.connection) {
            Ok(done) => Ok(Ok(done)),
            Err(Failure::Library(Error::WouldBlock(wait))) => Ok(Err(wait)),
            Err(Failure::Library(error)) => Err(exception(error)),
            Err(Failure::Python(error)) => Err(error),
        }
    }

    /// Tries until it does not block, waiting in between, for `timeout` seconds at most.
    fn until<T>(
        &self,
        py: Python<'_>,
        interest: Interest,
        timeout: Option<f64>,
        mut attempt: impl FnMut(&cellgate::Connection) -> Result<T, Failure>,
    ) -> PyResult<T> {
        let timeout = timeout.map(seconds).transpose()?;
        // One that no clock reaches is none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let wait = match self.attempt(&mut attempt)? {
                Ok(done) => return Ok(done),
                Err(wait) => wait,
            };
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(PyTimeoutError::new_err(format!(
                    "timed out: {wait} within {} s",
                    timeout.unwrap_or_default().as_secs_f64()
                )));
            }
            self.wait(py, interest, wait, left.unwrap_or(Duration::MAX))?;
        }
    }

    /// Waits until `interest` may be possible, `left` at most, and handles signals.
    fn wait(&self, py: Python<'_>, interest: Interest, wait: Wait, left: Duration) -> PyResult<()> {
        let slept = match Turn::take(&self.has_waiter) {
            Some(_turn) => {
                let descriptor = {
                    let live = self.live();
                    let live = live.as_ref().ok_or_else(is_closed)?;
                    if !live.connection.arm(interest).map_err(exception)? {
                        return Ok(());
                    }
                    Arc::clone(&live.descriptor)
                };
                let slept = py.detach(|| sleep(Some(&descriptor), left.min(LOOK)));
                if let Some(live) = &*self.live() {
                    live.connection.disarm().map_err(exception)?;
                }
                slept
            }
            None => {
                let look = match wait {
                    Wait::Credit(later) => later.min(LOOK),
                    _ => LOOK_BESIDE,
                };
                py.detach(|| sleep(None, left.min(look)))
            }
        };
        match slept {
            Err(Errno::INTR) => py.check_signals(),
            slept => slept.map_err(|errno| std::io::Error::from(errno).into()),
        }
    }
}

/// The right to wait at the descriptor, given back when it is dropped.
struct Turn<'a>(&'a AtomicBool);

impl<'a> Turn<'a> {
    fn take(taken: &'a AtomicBool) -> Option<Self> {
        (!taken.swap(true, Acquire)).then_some(Self(taken))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}

/// Why a try came to nothing.
enum Failure {
    Library(Error),
    Python(PyErr),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

fn send(
    py: Python<'_>,
    connection: &cellgate::Connection,
    octets: &PyBuffer<u8>,
) -> Result<(), Failure> {
    let mut space = connection.try_reserve(octets.len_bytes())?;
    octets.copy_to_slice(py, &mut space)?;
    Ok(space.submit()?)
}

fn receive<'py>(
    py: Python<'py>,
    connection: &cellgate::Connection,
) -> Result<Bound<'py, PyBytes>, Failure> {
    let pdu = connection.try_next_pdu()?;
    Ok(PyBytes::new(py, &pdu))
}

/// Zero closes at once: what waits to be sent is not sent, and nobody is asked.
fn close(connection: cellgate::Connection, linger: Duration) -> Result<(), Error> {
    if linger.is_zero() {
        return Ok(());
    }
    let flushed = connection.flush(linger);
    let closed = connection.close(Duration::ZERO).map(|_| ());
    match flushed.and(closed.or_else(|error| match error {
        // Nobody is there to confirm it: the end of its socket is the end of it.
        Error::TimedOut => Ok(()),
        error => Err(error),
    })) {
        // It needs no end any more.
        Err(Error::Ended(_) | Error::Closed) => Ok(()),
        outcome => outcome,
    }
}

/// The octets of a bytes-like object, of whatever items.
fn octets(data: &Bound<'_, PyAny>) -> PyResult<PyBuffer<u8>> {
    PyBuffer::get(data).or_else(|_| {
        let view = PyMemoryView::from(data)?;
        PyBuffer::get(&view.call_method1("cast", ("B",))?)
    })
}

fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).or_else(|_| match seconds > 0.0 {
        true => Ok(Duration::MAX),
        false => Err(PyValueError::new_err(format!(
            "{seconds} is no time: seconds, from 0 on"
        ))),
    })
}

/// Sleeps until the descriptor is readable, `time` at most.
fn sleep(descriptor: Option<&OwnedFd>, time: Duration) -> Result<(), Errno> {
    // At most `LOOK`.
    let time = Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: time.subsec_nanos().into(),
    };
    let fd = descriptor.map(|fd| PollFd::new(fd, PollFlags::IN));
    poll(&mut fd.into_iter().collect::<Vec<_>>(), Some(&time)).map(|_| ())
}

fn is_closed() -> PyErr {
    PyValueError::new_err("the connection is closed")
}
