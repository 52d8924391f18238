//! `cellgate serve-files`.

use std::path::PathBuf;
use std::time::Duration;

use cellgate_host::sys::Signals;
use cellgate_host::terminal::disk::Root;
use cellgate_host::terminal::{Over, Served, Session, wait};
use cellgate_report::output::Exit;

use super::endpoint::Endpoint;
use crate::commands::server::interrupted;

/// Let who is at the other end of a connection get files of a directory
///
/// Whoever has the other end of the connection is let in: cells say nothing of who sends them.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    endpoint: Endpoint,
    /// The connection: [interface.]vpi.vci
    #[arg(long, value_name = "ADDRESS", default_value = "0.100")]
    vc: String,
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
        let served = Served {
            root: root.clone(),
            is_writable: args.writable,
        };
        let (connection, terms) = match args.endpoint.open(&args.vc) {
            Ok(open) => open,
            Err(error) if is_first || !error.is::<cellgate::Error>() => return Err(error),
            Err(_) => {
                if interrupted(&signals, None, Duration::from_millis(500)) {
                    return Ok(Exit::Ok);
                }
                continue;
            }
        };
        eprintln!(
            "serving {} on {} under {}",
            args.directory.display(),
            connection.address(),
            connection.contract()
        );
        is_first = false;
        let mut session = Session::serve(terms, served);
        let lost = loop {
            let looked = match session.turn(&connection) {
                Ok(looked) => looked,
                Err(Over::Connection(error)) => break error,
                // A session that answers ends with its connection alone.
                Err(_) => continue,
            };
            while session.report().is_some() {}
            if interrupted(&signals, None, Duration::ZERO) {
                session.stop("the server ends");
                for _ in 0..16 {
                    let _ = session.turn(&connection);
                }
                connection.flush(Duration::from_secs(1)).ok();
                return Ok(Exit::Ok);
            }
            if !looked.is_busy {
                wait(&connection, looked.waits.is_some(), session.next_deadline())?;
            }
        };
        session.leave();
        eprintln!("cellgate: {lost}; opening the connection again");
    }
}
