//! `cellgate get`.

use std::path::PathBuf;

use anyhow::Error;
use cellgate_core::terminal::Message;
use cellgate_host::terminal::disk::Root;
use cellgate_host::terminal::{Next, Place};
use cellgate_report::output::Exit;

use super::endpoint::Asking;
use super::manner::Putting;
use super::run::{local, remote, run};
use super::words::shown_path;
use crate::commands::server::Misuse;

/// Get a file, or a directory and all that is in it, from where `cellgate serve-files` runs
///
/// Each file appears as a whole or not at all, and its BLAKE3 digest is printed when it is there,
/// safe, under its name. The same command again goes on where one was interrupted. Exit code 1
/// where something failed; what did is named at the end.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate get data/today.dat . --vc wan.0.100")]
pub(crate) struct Args {
    #[command(flatten)]
    asking: Asking,
    #[command(flatten)]
    putting: Putting,
    /// What to get, `.` for all; of two or more, the last is where to: a directory is put into, and
    /// any other name is what one REMOTE will be called
    #[arg(required = true, value_name = "REMOTE... [LOCAL]")]
    remotes: Vec<PathBuf>,
}

pub(crate) fn run_get(args: &Args) -> anyhow::Result<Exit> {
    let here = PathBuf::from(".");
    let (remotes, to) = match args.remotes.split_last() {
        Some((to, remotes)) if !remotes.is_empty() => (remotes, to),
        _ => (&args.remotes[..], &here),
    };
    let (root, name) = if to.is_dir() {
        (Root::open(to)?, Vec::new())
    } else if remotes.len() > 1 {
        let to = shown_path(to);
        return Err(Misuse(format!("{to} is no directory: make it, or get one thing")).into());
    } else {
        let (root, name) = local(to)?;
        (root, name.octets().to_vec())
    };
    let mut exit = Exit::Ok;
    for asked in remotes {
        let one = run(&args.asking, "get", |terms, is_first| {
            let manner = args.putting.manner(is_first);
            let place = Place::new(&root, &name, manner, terms.disk_len);
            let path = remote(asked);
            Ok((
                Message::Get { path },
                Next::Take(place.map_err(Error::msg)?),
            ))
        })?;
        if one != Exit::Ok {
            exit = one;
        }
    }
    Ok(exit)
}
