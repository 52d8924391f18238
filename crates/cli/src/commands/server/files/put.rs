//! `cellgate put`.

use std::path::PathBuf;

use cellgate_core::terminal::{Existing, Message};
use cellgate_host::terminal::{Next, Tree};
use cellgate_report::output::Exit;

use super::endpoint::Asking;
use super::run::{local, remote, run};

/// Put files and directories to where `cellgate serve-files` runs at the other end
///
/// Each file appears at the other end as a whole or not at all, and its BLAKE3 digest is printed
/// when it is there, safe, under its name. The same command again goes on where one was
/// interrupted. Exit code 1 where something failed; what did is named at the end.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    asking: Asking,
    /// Put directories, and all that is in them
    #[arg(short, long)]
    recursive: bool,
    /// Replace files that are there with other octets
    #[arg(long, conflicts_with = "skip")]
    overwrite: bool,
    /// Leave files that are there as they are
    #[arg(long)]
    skip: bool,
    /// What to put; of two or more, the last is where to, below what the other end serves: `.` is
    /// that itself, a directory is put into, and any other name is what one PATH will be called
    #[arg(required = true, value_name = "PATH... [REMOTE]")]
    paths: Vec<PathBuf>,
}

pub(crate) fn run_put(args: &Args) -> anyhow::Result<Exit> {
    let existing = match (args.overwrite, args.skip) {
        (true, _) => Existing::Replace,
        (_, true) => Existing::Skip,
        _ => Existing::Refuse,
    };
    let (paths, to) = match args.paths.split_last() {
        Some((to, paths)) if !paths.is_empty() => (paths, remote(to)),
        _ => (&args.paths[..], Vec::new()),
    };
    run(&args.asking, "put", |terms| {
        let names = paths.iter().map(|path| local(path));
        let names = names.collect::<anyhow::Result<Vec<_>>>()?;
        let tree = Tree::new(names, terms.disk_len, args.recursive).map_err(anyhow::Error::msg)?;
        let message = Message::Put {
            existing,
            path: if paths.len() > 1 {
                [&to[..], b"/"].concat()
            } else {
                to.clone()
            },
        };
        Ok((message, Next::Give(Box::new(tree))))
    })
}
