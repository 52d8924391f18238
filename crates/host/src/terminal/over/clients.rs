//! Those who are served, each on a thread of its own.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{TcpServer, Transport};
use crate::clock::MonotonicClock;
use crate::terminal::served::Served;
use crate::terminal::session::{Over, Session};
use crate::terminal::terms::Terms;

/// Who is served at a time, at most, without a word of it.
pub const CLIENTS_MAX: u16 = 16;

/// A thread looks so often at whether it is to end.
const LOOK_NS: u64 = 100_000_000;
/// Those that are served hear so long of the end.
const FAREWELL: Duration = Duration::from_secs(3);

/// What its threads share.
#[derive(Debug)]
struct Shared {
    served: Served,
    max: usize,
    ends: AtomicBool,
    /// Threads that run.
    threads: AtomicUsize,
    clients: AtomicUsize,
}

/// Those who are served.
#[derive(Clone, Debug)]
pub struct Clients(Arc<Shared>);

/// One of a count, until it is dropped.
struct Counted {
    shared: Arc<Shared>,
    of: fn(&Shared) -> &AtomicUsize,
}

impl Counted {
    /// One more, and how many there were before.
    fn new(shared: &Arc<Shared>, of: fn(&Shared) -> &AtomicUsize) -> (Self, usize) {
        let before = of(shared).fetch_add(1, Ordering::AcqRel);
        let shared = shared.clone();
        (Self { shared, of }, before)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.of)(&self.shared).fetch_sub(1, Ordering::AcqRel);
    }
}

impl Clients {
    /// Nobody is served yet, and never more than `max` are.
    pub fn new(served: Served, max: usize) -> Self {
        Self(Arc::new(Shared {
            served,
            max,
            ends: AtomicBool::new(false),
            threads: AtomicUsize::new(0),
            clients: AtomicUsize::new(0),
        }))
    }

    /// Whether all threads are to end.
    pub(super) fn ends(&self) -> bool {
        self.0.ends.load(Ordering::Acquire)
    }

    /// Serves whoever connects by TCP, until the end.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn serve_tcp(&self, server: TcpServer) -> std::io::Result<()> {
        let clients = self.clone();
        self.thread("tcp", move || {
            while !clients.ends() {
                let until = MonotonicClock.now().plus_ns(LOOK_NS);
                match server.accept(until) {
                    Ok(Some((stream, from))) => clients.begin(from, stream),
                    Ok(None) => {}
                    Err(error) => {
                        eprintln!("cellgate: nobody can connect by TCP: {error}");
                        thread::sleep(Duration::from_nanos(LOOK_NS));
                    }
                }
            }
        })
    }

    /// Serves whoever connects by QUIC, until the end.
    ///
    /// # Errors
    /// There is no thread for it.
    #[cfg(feature = "quic")]
    pub fn serve_quic(&self, server: super::QuicServer) -> std::io::Result<()> {
        let clients = self.clone();
        self.thread("quic", move || {
            // Who is served hears of the end through it.
            let is_idle = || clients.0.clients.load(Ordering::Acquire) == 0;
            server.serve(
                || clients.ends() && is_idle(),
                |arrived| clients.begin(arrived.from, arrived.stream),
            );
        })
    }

    /// Serves one; whoever is one too many is sent away.
    pub(super) fn begin<T: Transport + Send + 'static>(
        &self,
        from: impl Display + Send + 'static,
        mut transport: T,
    ) {
        let (counted, before) = Counted::new(&self.0, |shared| &shared.clients);
        if before >= self.0.max {
            eprintln!("cellgate: {from} is sent away: {before} are served already");
            return;
        }
        let clients = self.clone();
        let started = self.thread("client", move || {
            let _counted = counted;
            eprintln!("cellgate: {from} has connected");
            let mut session = Session::serve(Terms::of_stream(), clients.0.served.clone());
            match session.serve_until(&mut transport, || clients.ends(), |_| {}) {
                None => {}
                Some(Over::Closed) => eprintln!("cellgate: {from} has gone"),
                Some(over) => eprintln!("cellgate: {from}: {over}"),
            }
        });
        if let Err(error) = started {
            eprintln!("cellgate: no thread for who has connected: {error}");
        }
    }

    /// Begins a thread that ends with all others.
    pub(super) fn thread(
        &self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<()> {
        let (counted, _) = Counted::new(&self.0, |shared| &shared.threads);
        let begun = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _counted = counted;
            work();
        });
        begun.map(|_| ())
    }

    /// Ends all: who is served hears of it.
    pub fn end(&self) {
        self.0.ends.store(true, Ordering::Release);
        let begun = Instant::now();
        while self.0.threads.load(Ordering::Acquire) > 0 && begun.elapsed() < FAREWELL {
            thread::sleep(Duration::from_millis(10));
        }
    }
}
