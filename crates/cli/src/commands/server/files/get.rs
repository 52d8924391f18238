//! `cellgate get`.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use cellgate_core::terminal::{Existing, Message};
use cellgate_host::terminal::disk::Root;
use cellgate_host::terminal::{Next, Place};
use cellgate_report::output::Exit;

use super::endpoint::Asking;
use super::run::run;

/// Get a file, or a directory and all that is in it, from where `cellgate serve-files` runs
///
/// Each file appears as a whole or not at all, and its BLAKE3 digest is printed when it is there,
/// safe, under its name. The same command again goes on where one was interrupted. Exit code 1
/// where something failed; what did is named at the end.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    asking: Asking,
    /// Replace files that are there with other octets
    #[arg(long, conflicts_with = "skip")]
    overwrite: bool,
    /// Leave files that are there as they are
    #[arg(long)]
    skip: bool,
    /// What to get; empty: all that is served
    remote: PathBuf,
    /// The directory to put it in
    #[arg(default_value = ".")]
    local: PathBuf,
}

pub(crate) fn run_get(args: &Args) -> anyhow::Result<Exit> {
    let existing = match (args.overwrite, args.skip) {
        (true, _) => Existing::Replace,
        (_, true) => Existing::Skip,
        _ => Existing::Refuse,
    };
    let root = Root::open(&args.local)?;
    run(&args.asking, "get", |terms| {
        let place = Place::new(&root, b"", existing, terms.disk_len).map_err(anyhow::Error::msg)?;
        let path = args.remote.as_os_str().as_bytes().to_vec();
        Ok((Message::Get { path }, Next::Take(place)))
    })
}
