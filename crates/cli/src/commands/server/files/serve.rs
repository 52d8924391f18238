//! `cellgate serve-files`.

use std::path::PathBuf;
use std::time::Duration;

use cellgate_host::sys::Signals;
use cellgate_host::terminal::disk::Root;
use cellgate_host::terminal::{Over, Port, Served, Session};
use cellgate_report::output::Exit;

use super::endpoint::Endpoint;
use crate::commands::server::interrupted;

/// Between two tries to open the connection again.
const PAUSE: Duration = Duration::from_millis(500);

/// Let who is at the other end of a connection get files of a directory
///
/// Whoever has the other end of the connection is let in: cells say nothing of who sends them.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Let them put files there, too
    #[arg(long)]
    writable: bool,
    /// The directory
    directory: PathBuf,
}

pub(crate) fn run_serve(args: &Args) -> anyhow::Result<Exit> {
    let signals = Signals::listen()?;
    let root = Root::open(&args.directory)?;
    let mut is_first = true;
    loop {
        let (mut port, terms) = match args.endpoint.open() {
            Ok(open) => open,
            Err(error) if is_first || !error.is::<cellgate::Error>() => return Err(error),
            Err(_) if interrupted(&signals, None, PAUSE) => return Ok(Exit::Ok),
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
        let served = Served {
            root: root.clone(),
            is_writable: args.writable,
        };
        let mut session = Session::serve(terms, served);
        match serve(&mut port, &mut session, &signals) {
            None => return Ok(Exit::Ok),
            Some(lost) => {
                session.leave();
                eprintln!("cellgate: {lost}; opening the connection again");
            }
        }
    }
}

/// Serves until somebody ends it, or the connection is lost.
fn serve(port: &mut Port, session: &mut Session, signals: &Signals) -> Option<cellgate::Error> {
    loop {
        let looked = match session.turn(port) {
            Ok(looked) => looked,
            Err(Over::Connection(error)) => return Some(error),
            // A session that answers ends with its connection alone.
            Err(_) => continue,
        };
        while session.report().is_some() {}
        if interrupted(signals, None, Duration::ZERO) {
            session.end(port, "the server ends");
            return None;
        }
        if !looked.is_busy
            && let Err(error) = port.wait(looked.waits, session.next_deadline())
        {
            return Some(error);
        }
    }
}
