//! The page over HTTP, to be read only, by as many as are let in.
//!
//! Whatever asks it costs the daemon nothing: what is sent was looked up for all at once.

mod answer;
mod html;
mod patient;
pub mod screen;
mod site;
mod viewers;

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::rt::{Read, Write};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;

use crate::Source;
use answer::Room;
use patient::Patient;
use site::Site;
use viewers::Viewers;

/// From one look at the server to the next.
const LOOK: Duration = Duration::from_millis(250);
/// Connections at once.
const CONNECTIONS_MAX: usize = 64;
/// Those of them that hear events.
const VIEWERS_MAX: usize = 32;
/// Octets of a request's head.
const HEAD_MAX: usize = 8_192;
/// What a request's head may take to come, and what is sent to be taken.
const PATIENCE: Duration = Duration::from_secs(10);
/// After an error of the listener.
const RETRY: Duration = Duration::from_millis(100);

/// Where the page is.
#[derive(Debug)]
pub enum Listener {
    /// At a TCP port.
    Tcp(TcpListener),
    /// At a Unix socket: whoever forwards to it answers for what hosts it lets in.
    Unix(UnixListener),
}

/// How the page is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of this host, beside `localhost` and IP addresses, by which it may be asked for.
    pub hosts: Vec<String>,
    /// Connections that have metrics of their own.
    pub per_vc: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            per_vc: crate::metrics::PER_VC,
        }
    }
}

/// Whether an address is this machine's alone.
pub const fn is_private(address: &SocketAddr) -> bool {
    address.ip().is_loopback()
}

/// Whatever is looked at, for whoever asks.
type Shared = Arc<Mutex<Box<dyn Source>>>;

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A look that has panicked has left what was there before.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves until the process ends.
///
/// # Errors
/// The kernel refuses what a server needs.
pub fn serve(listener: Listener, source: Box<dyn Source>, options: Options) -> std::io::Result<()> {
    let source: Shared = Arc::new(Mutex::new(source));
    let viewers = Arc::new(Viewers::new(VIEWERS_MAX));
    // The first who comes finds something.
    viewers.publish(lock(&source).look());
    let (looks, seen) = (Arc::clone(&source), Arc::clone(&viewers));
    std::thread::Builder::new()
        .name("cg-page-look".to_owned())
        .spawn(move || watch(&looks, &seen))?;
    let any_host = matches!(listener, Listener::Unix(_));
    let room = Arc::new(Room::new(source, viewers, options, any_host));
    runtime()?.block_on(accept(listener, room))
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(2)
        .build()
}

/// Looks again and again, and tells what it saw.
fn watch(source: &Shared, viewers: &Viewers) {
    let mut next = Instant::now();
    loop {
        next += LOOK;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        // A look that is late is not made up for.
        next = next.max(Instant::now());
        let seen = lock(source).look();
        viewers.publish(seen);
    }
}

async fn accept(listener: Listener, site: Arc<impl Site>) -> std::io::Result<()> {
    match listener {
        Listener::Tcp(listener) => {
            listener.set_nonblocking(true)?;
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let next = async || Ok(listener.accept().await?.0);
            converse_with_all(next, site).await
        }
        Listener::Unix(listener) => {
            listener.set_nonblocking(true)?;
            let listener = tokio::net::UnixListener::from_std(listener)?;
            let next = async || Ok(listener.accept().await?.0);
            converse_with_all(next, site).await
        }
    }
}

/// Answers each stream that comes, as many at once as there are places.
async fn converse_with_all<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    next: impl AsyncFn() -> std::io::Result<S>,
    site: Arc<impl Site>,
) -> std::io::Result<()> {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let Ok(stream) = next().await else {
            tokio::time::sleep(RETRY).await;
            continue;
        };
        let site = Arc::clone(&site);
        tokio::spawn(async move {
            converse(TokioIo::new(stream), site).await;
            drop(place);
        });
    }
}

/// One request and its answer.
async fn converse(stream: impl Read + Write + Unpin + Send + 'static, site: Arc<impl Site>) {
    let service = hyper::service::service_fn(move |request| {
        let site = Arc::clone(&site);
        async move { site::answer(&*site, request).await }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(HEAD_MAX)
        .keep_alive(false)
        .serve_connection(Patient::new(stream, PATIENCE), service);
    // A browser that hangs up, or is too slow, is told nothing.
    let _ = connection.await;
}
