//! `cellgate serve-files`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use cellgate::Address;
use cellgate_core::terminal::{Counts, Given, Settled};
use cellgate_core::wire::VpiVci;
use cellgate_host::sys::Signals;
use cellgate_host::terminal::disk::Root;
#[cfg(feature = "quic")]
use cellgate_host::terminal::over::QuicServer;
use cellgate_host::terminal::over::{CLIENTS_MAX, Clients, TcpServer};
use cellgate_host::terminal::{Port, Report, Served, Session, Terms};
use cellgate_report::output::{Exit, print_json_line};
use serde_json::json;

use super::endpoint::Endpoint;
use super::over::CongestionWord;
use super::tally::{discarded, discarded_words};
use super::words::{said, shown, shown_path};
use crate::commands::server::{Misuse, interrupted};

/// Between two tries to open the connection again.
const PAUSE: Duration = Duration::from_millis(500);
/// Between two looks whether somebody ends it.
const LOOK: Duration = Duration::from_millis(100);
/// Connections at a time.
const CONNECTIONS_MAX: u16 = 256;

/// Let who is at the other end of connections, or of a network, get files of a directory
///
/// Whoever has the other end of a connection is let in: cells say nothing of who sends them. So
/// is whoever can connect by TCP, whose octets anybody on the way can read and change, or by QUIC,
/// where nobody can. With --tcp or --quic there is a connection only if --vc or --line names one.
/// `--vc a.0.100..a.0.103` serves four, each by itself.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate serve-files /srv/files --vc wan.0.100 --writable")]
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
    /// How this end finds its rate over QUIC
    #[arg(
        long,
        value_name = "HOW",
        value_enum,
        default_value_t = CongestionWord::Cubic,
        requires = "quic"
    )]
    congestion: CongestionWord,
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
    let addresses = addresses(args.endpoint.vc())?;
    if !args.directory.is_dir() {
        let directory = shown_path(&args.directory);
        return Err(Misuse(format!("{directory} is no directory")).into());
    }
    let signals = Signals::listen()?;
    let served = Served {
        root: Root::open(&args.directory)?,
        is_writable: args.writable,
    };
    let clients = Clients::new(served.clone(), args.clients.into());
    let directory = shown_path(&args.directory);
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
        serve(args, addresses, &signals, &served)
    } else {
        while !interrupted(&signals, None, Duration::MAX) {}
        Ok(Exit::Ok)
    };
    clients.end();
    exit
}

#[cfg(feature = "quic")]
fn serve_quic(args: &Args, at: &str, clients: &Clients) -> anyhow::Result<()> {
    let server = QuicServer::listen(at, args.key.as_deref(), args.congestion.into())
        .with_context(|| at.to_owned())?;
    eprintln!(
        "serving {} by QUIC on {} with fingerprint {}",
        shown_path(&args.directory),
        server.address()?,
        server.fingerprint()
    );
    Ok(clients.serve_quic(server)?)
}

#[cfg(not(feature = "quic"))]
fn serve_quic(_args: &Args, _at: &str, _clients: &Clients) -> anyhow::Result<()> {
    Err(super::over::no_quic())
}

/// Serves who is at the other end of connections or of a line, until somebody ends it.
fn serve(
    args: &Args,
    addresses: Vec<String>,
    signals: &Signals,
    served: &Served,
) -> anyhow::Result<Exit> {
    let ends = AtomicBool::new(false);
    // What does not open at first is an error of the command.
    let one = |vc: String| One::open(args, vc, served, &ends);
    let all = addresses.into_iter().map(one);
    let all = all.collect::<anyhow::Result<Vec<_>>>()?;
    thread::scope(|scope| {
        let threads = all.into_iter().map(|one| scope.spawn(|| one.run()));
        let threads: Vec<_> = threads.collect();
        // One that ends by itself leaves the others alone.
        while !threads.iter().all(thread::ScopedJoinHandle::is_finished)
            && !interrupted(signals, None, LOOK)
        {}
        ends.store(true, Ordering::Relaxed);
        let ended = threads.into_iter().map(|thread| {
            let panicked = |_| Err(anyhow::anyhow!("a thread has panicked"));
            thread.join().unwrap_or_else(panicked)
        });
        ended.collect::<anyhow::Result<()>>()
    })?;
    Ok(Exit::Ok)
}

/// The addresses that a text names: one, or those from one to another.
fn addresses(text: &str) -> Result<Vec<String>, Misuse> {
    let Some((first, last)) = text.split_once("..") else {
        return Ok(vec![text.to_owned()]);
    };
    let parse = |part: &str| {
        let address = part.parse::<Address>();
        address.map_err(|error| Misuse(format!("--vc {text}: {error}")))
    };
    let (first, last) = (parse(first)?, parse(last)?);
    let (from, to) = (first.vc.vci(), last.vc.vci());
    let is_range = first.interface == last.interface && first.vc.vpi() == last.vc.vpi();
    if !is_range || to < from || to - from >= CONNECTIONS_MAX {
        return Err(Misuse(format!(
            "--vc {text}: expected two addresses that differ in their VCIs alone, the lower one \
             first, and {CONNECTIONS_MAX} connections at most"
        )));
    }
    let of = |vci| {
        let vc = VpiVci::new(first.vc.vpi(), vci).unwrap_or(first.vc);
        let interface = first.interface.clone();
        Address { interface, vc }.to_string()
    };
    Ok((from..=to).map(of).collect())
}

/// One connection that is served.
struct One<'a> {
    endpoint: Endpoint,
    served: &'a Served,
    ends: &'a AtomicBool,
    directory: String,
    /// The first, which is open.
    open: Option<(Port, Terms)>,
}

impl<'a> One<'a> {
    fn open(
        args: &Args,
        vc: String,
        served: &'a Served,
        ends: &'a AtomicBool,
    ) -> anyhow::Result<Self> {
        let endpoint = args.endpoint.at(vc);
        let open = endpoint.open()?;
        Ok(Self {
            endpoint,
            served,
            ends,
            directory: shown_path(&args.directory),
            open: Some(open),
        })
    }

    fn is_ended(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    /// Serves until somebody ends it.
    fn run(mut self) -> anyhow::Result<()> {
        let vc = self.endpoint.vc().to_owned();
        while !self.is_ended() {
            let (mut port, terms) = match self.open.take().map_or_else(|| self.endpoint.open(), Ok)
            {
                Ok(open) => open,
                Err(error) if !error.is::<cellgate::Error>() => return Err(error).context(vc),
                Err(_) => {
                    thread::sleep(PAUSE);
                    continue;
                }
            };
            let directory = &self.directory;
            match port.connection() {
                Some(connection) => eprintln!(
                    "serving {directory} on {} under {}",
                    connection.address(),
                    connection.contract()
                ),
                None => eprintln!("serving {directory} on a line"),
            }
            let mut session = Session::serve(terms, self.served.clone());
            let mut told = Ok(());
            let tell = |report: Report| {
                if told.is_ok() {
                    told = self.tell(&report);
                }
            };
            let lost = session.serve_until(&mut port, || self.is_ended(), tell);
            told?;
            if let Some(lost) = lost {
                eprintln!("cellgate: {vc}: {lost}; opening the connection again");
            }
        }
        Ok(())
    }

    /// Tells what has failed or ended; of the rest the other end tells.
    fn tell(&self, report: &Report) -> anyhow::Result<()> {
        let (path, what) = match report {
            Report::Stopped(reason) => (None, format!("the other end has stopped: {reason}")),
            Report::Fault(reason) => (None, format!("the other end is refused: {reason}")),
            Report::Ended(reason) => (None, reason.clone()),
            Report::Discarded(come) => return self.tell_discarded(come),
            Report::Given(Given::Failed { path, reason })
            | Report::Settled(Settled::Failed { path, reason }) => (Some(path), reason.clone()),
            _ => return Ok(()),
        };
        let (vc, what) = (self.endpoint.vc(), said(&what));
        let path = path.map(|path| shown(path));
        if self.endpoint.server.json {
            return print_json_line(&json!({ "vc": vc, "path": path, "told": what }));
        }
        match path {
            Some(path) => eprintln!("cellgate: {vc}: {path}: {what}"),
            None => eprintln!("cellgate: {vc}: {what}"),
        }
        Ok(())
    }

    fn tell_discarded(&self, come: &Counts) -> anyhow::Result<()> {
        let vc = self.endpoint.vc();
        if self.endpoint.server.json {
            return print_json_line(&json!({ "vc": vc, "discarded": discarded(come) }));
        }
        if let Some(words) = discarded_words(come) {
            eprintln!("cellgate: {vc}: {words}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_each_address_of_it() {
        assert_eq!(addresses("b.0.100").unwrap(), ["b.0.100"]);
        let all = addresses("a.0.100..a.0.103").unwrap();
        assert_eq!(all, ["a.0.100", "a.0.101", "a.0.102", "a.0.103"]);
        assert_eq!(addresses("1.40..1.40").unwrap(), ["1.40"]);
        for wrong in [
            "a.0.103..a.0.100",
            "a.0.100..b.0.103",
            "a.0.100..a.1.103",
            "a.0.100..a.0.4000",
            "a.0.100..",
            "..a.0.100",
        ] {
            assert!(addresses(wrong).is_err(), "{wrong}");
        }
    }
}
