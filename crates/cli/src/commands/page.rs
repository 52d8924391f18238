//! `cellgate page`: what a server does, in a browser.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use cellgate_host::server::become_nobody;
use cellgate_host::sys::{activated_socket, die_with_parent, plain};
use cellgate_page::http::{Listener, Options, is_private, serve};
use cellgate_page::{Watch, metrics};
use cellgate_report::output::Exit;
use rustix::net::{AddressFamily, getsockname};

use super::server::{Misuse, Server};

/// How long a page waits for the daemon that has started it to have a control socket.
const START: Duration = Duration::from_secs(20);

/// Show what a server does, in a browser
///
/// Reads the counters that the server shows, and hears what comes and goes: however many look, the
/// server has the same to do. Nothing can be changed by the page. Beside it there are /metrics for
/// Prometheus, /api/state (JSON, the words of `cellgate stats --json`), /events (server-sent) and
/// /healthz.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate page
  $ cellgate page --listen unix:/run/cellgate-page.sock
  $ cellgate page --listen 0.0.0.0:8080 --public --host atm.example.net")]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
    /// Where: IP:PORT, or unix:PATH. Without it a socket that systemd has passed on is taken
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: Place,
    /// Let --listen name an address that others reach. Anybody who does sees addresses, users and
    /// rates of all connections
    #[arg(long)]
    public: bool,
    /// A name of this host by which browsers may ask, beside localhost and IP addresses
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// In /metrics, so many connections one by one, guaranteed ones first; the others as one
    #[arg(long, value_name = "N", default_value_t = metrics::PER_VC)]
    per_vc: usize,
    /// The daemon that has started this process
    #[arg(long, value_name = "PID", hide = true)]
    of: Option<u32>,
}

/// Where a page is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(path.into()));
        }
        let place = text.parse().map(Self::Tcp);
        place.map_err(|_| "expected IP:PORT, as 127.0.0.1:8080, or unix:PATH".to_owned())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let socket = args.server.path();
    let listener = match activated_socket()? {
        Some(passed) => adopted(passed)?,
        None => listen(&args.listen, args.public)?,
    };
    if let Some(daemon) = args.of {
        let group = group_of(&socket)?;
        become_nobody(group).context("giving privileges up")?;
        // Only now: another user's process forgets it.
        die_with_parent(daemon)?;
    }
    if let Some(url) = url(&listener)? {
        eprintln!("cellgate: page at {url}");
    }
    let options = Options {
        hosts: args.host.clone(),
        per_vc: args.per_vc,
    };
    serve(listener, Box::new(Watch::of(socket)), options).context("page")?;
    Ok(Exit::Ok)
}

/// A socket that somebody else listens at.
fn adopted(socket: OwnedFd) -> anyhow::Result<Listener> {
    let address = getsockname(&socket)?;
    Ok(match address.address_family() {
        AddressFamily::UNIX => Listener::Unix(socket.into()),
        _ => Listener::Tcp(socket.into()),
    })
}

fn listen(place: &Place, public: bool) -> anyhow::Result<Listener> {
    match place {
        Place::Tcp(address) if !public && !is_private(address) => {
            let why = format!(
                "others reach {address}: whoever does sees addresses, users and rates of all \
                 connections. Say --public if that is meant"
            );
            Err(Misuse::of(why).into())
        }
        Place::Tcp(address) => {
            let listener = TcpListener::bind(address);
            let listener = listener.map_err(|error| plain(&error));
            Ok(Listener::Tcp(
                listener.map_err(|why| anyhow::anyhow!("{address}: {why}"))?,
            ))
        }
        Place::Unix(path) => Ok(Listener::Unix(listen_at(path)?)),
    }
}

/// Takes the place of a socket that nobody listens at any more.
fn listen_at(path: &Path) -> anyhow::Result<UnixListener> {
    let shown = path.display();
    if UnixStream::connect(path).is_ok() {
        bail!("{shown}: another process listens there");
    }
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| {
        use std::os::unix::fs::FileTypeExt;
        found.file_type().is_socket()
    });
    if is_socket {
        std::fs::remove_file(path).with_context(|| shown.to_string())?;
    }
    UnixListener::bind(path).with_context(|| shown.to_string())
}

/// Where a browser finds it; none: it is no TCP port.
fn url(listener: &Listener) -> anyhow::Result<Option<String>> {
    let Listener::Tcp(listener) = listener else {
        return Ok(None);
    };
    Ok(Some(format!("http://{}/", listener.local_addr()?)))
}

/// The group of a daemon's control socket, which may not be there yet.
fn group_of(socket: &Path) -> anyhow::Result<u32> {
    let begin = Instant::now();
    loop {
        match std::fs::metadata(socket) {
            Ok(found) => return Ok(found.gid()),
            Err(error) if begin.elapsed() > START => {
                return Err(error).context(socket.display().to_string());
            }
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Starts a page for the daemon that this process is about to be. The
/// calling thread must live as long as the daemon.
pub(crate) fn start(place: &Place, socket: &Path) -> anyhow::Result<()> {
    if let Place::Tcp(address) = place
        && !is_private(address)
    {
        let why = "others reach that address: run `cellgate page --public` beside the daemon";
        return Err(Misuse::of(why.to_owned()).into());
    }
    let mut program = Command::new("/proc/self/exe");
    program
        .arg0("cellgate")
        .args(["page", "--listen", &place.to_string(), "--socket"]);
    program
        .arg(socket)
        .args(["--of", &std::process::id().to_string()]);
    // It ends with the daemon, or says itself why not. A thread that waits for it would keep root's
    // privileges.
    program.spawn().context("the page does not start")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_as_they_are_read() {
        for text in ["127.0.0.1:8080", "[::1]:80", "unix:/run/cellgate/page.sock"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        for bad in ["8080", "localhost:80", "", "127.0.0.1"] {
            assert!(bad.parse::<Place>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_others_reach_is_to_be_asked_for() {
        for place in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let refused = listen(&place.parse().unwrap(), false).unwrap_err();
            assert!(refused.to_string().contains("--public"), "{refused}");
        }
        listen(&"127.0.0.1:0".parse().unwrap(), false).unwrap();
    }
}
