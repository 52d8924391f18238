//! `cellgate serve-files`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use cellgate_host::sys::Signals;
use cellgate_host::terminal::disk::Root;
#[cfg(feature = "quic")]
use cellgate_host::terminal::over::QuicServer;
use cellgate_host::terminal::over::{CLIENTS_MAX, Clients, TcpServer};
use cellgate_host::terminal::{Served, Session};
use cellgate_report::output::Exit;

use super::endpoint::Endpoint;
use crate::commands::server::interrupted;

/// Between two tries to open the connection again.
const PAUSE: Duration = Duration::from_millis(500);

/// Let who is at the other end of a connection, or of a network, get files of a directory
///
/// Whoever has the other end of the connection is let in: cells say nothing of who sends them. So
/// is whoever can connect by TCP, whose octets anybody on the way can read and change, or by QUIC,
/// where nobody can. With --tcp or --quic there is a connection only if --vc or --line names one.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Serve whoever connects by TCP here, as 127.0.0.1:7000 or [::]:7000
    #[arg(long, value_name = "ADDRESS:PORT")]
    tcp: Option<String>,
    /// Serve whoever connects by QUIC here, as 0.0.0.0:7000 (in builds with the feature `quic`)
    #[arg(long, value_name = "ADDRESS:PORT")]
    quic: Option<String>,
    /// Keep the key of QUIC in this file, made if it is not there: clients know the server by it.
    /// Without it the server is another each time
    #[arg(long, value_name = "FILE", requires = "quic")]
    key: Option<PathBuf>,
    /// Serve so many at a time by TCP and QUIC; whoever is one too many is sent away
    #[arg(
        long,
        value_name = "N",
        default_value_t = CLIENTS_MAX,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    clients: u16,
    /// Let them put files there, too
    #[arg(long)]
    writable: bool,
    /// The directory
    directory: PathBuf,
}

pub(crate) fn run_serve(args: &Args) -> anyhow::Result<Exit> {
    let signals = Signals::listen()?;
    let served = Served {
        root: Root::open(&args.directory)?,
        is_writable: args.writable,
    };
    let clients = Clients::new(served.clone(), args.clients.into());
    let directory = args.directory.display();
    if let Some(at) = &args.tcp {
        let server = TcpServer::listen(at).with_context(|| at.clone())?;
        eprintln!("serving {directory} by TCP on {}", server.address()?);
        clients.serve_tcp(server)?;
    }
    if let Some(at) = &args.quic {
        serve_quic(args, at, &clients)?;
    }
    let is_alone = args.tcp.is_none() && args.quic.is_none();
    let exit = if args.endpoint.is_named() || is_alone {
        serve(args, &signals, &served)
    } else {
        while !interrupted(&signals, None, Duration::MAX) {}
        Ok(Exit::Ok)
    };
    clients.end();
    exit
}

#[cfg(feature = "quic")]
fn serve_quic(args: &Args, at: &str, clients: &Clients) -> anyhow::Result<()> {
    let server = QuicServer::listen(at, args.key.as_deref()).with_context(|| at.to_owned())?;
    eprintln!(
        "serving {} by QUIC on {} with fingerprint {}",
        args.directory.display(),
        server.address()?,
        server.fingerprint()
    );
    Ok(clients.serve_quic(server)?)
}

#[cfg(not(feature = "quic"))]
fn serve_quic(_args: &Args, _at: &str, _clients: &Clients) -> anyhow::Result<()> {
    Err(super::over::no_quic())
}

/// Serves who is at the other end of a connection or a line, until somebody ends it.
fn serve(args: &Args, signals: &Signals, served: &Served) -> anyhow::Result<Exit> {
    let mut is_first = true;
    loop {
        let (mut port, terms) = match args.endpoint.open() {
            Ok(open) => open,
            Err(error) if is_first || !error.is::<cellgate::Error>() => return Err(error),
            Err(_) if interrupted(signals, None, PAUSE) => return Ok(Exit::Ok),
            Err(_) => continue,
        };
        is_first = false;
        let directory = args.directory.display();
        match port.connection() {
            Some(connection) => eprintln!(
                "serving {directory} on {} under {}",
                connection.address(),
                connection.contract()
            ),
            None => eprintln!("serving {directory} on a line"),
        }
        let mut session = Session::serve(terms, served.clone());
        let ends = || interrupted(signals, None, Duration::ZERO);
        match session.serve_until(&mut port, ends) {
            None => return Ok(Exit::Ok),
            Some(lost) => eprintln!("cellgate: {lost}; opening the connection again"),
        }
    }
}
