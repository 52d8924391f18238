//! `cellgate put`.

use std::collections::BTreeSet;
use std::fs::symlink_metadata;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use cellgate_core::terminal::Message;
use cellgate_host::terminal::disk::PathBelow;
use cellgate_host::terminal::{Next, Pipe, Tree};
use cellgate_report::output::Exit;
use rustix::rand::{GetRandomFlags, getrandom};

use super::endpoint::Asking;
use super::manner::Putting;
use super::run::{PIPED, local, remote, run};
use super::words::{shown, shown_path};
use crate::commands::server::Misuse;

/// Put files and directories to where `cellgate serve-files` runs at the other end
///
/// Each file appears at the other end as a whole or not at all, and its BLAKE3 digest is printed
/// when it is there, safe, under its name. The same command again goes on where one was
/// interrupted. Exit code 1 where something failed; what did is named at the end.
///
/// Until a file is whole and safe on the disk it lies in .cellgate-partial beside its destination.
/// Digests are printed as b3sum prints them. Modes, times, symbolic links and holes are kept;
/// owners, too, where root receives. Devices, sockets and FIFOs are skipped and named. A file of
/// the same length and time of change stays; another one is refused, unless an option says
/// otherwise. Standard input, `put - NAME`, cannot be gone on with.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate put -r data --vc wan.0.100 --contract cbr,aal5:pcr=90Mbps
  $ tar c src | cellgate put - src.tar --vc wan.0.100")]
pub(crate) struct Args {
    #[command(flatten)]
    asking: Asking,
    #[command(flatten)]
    putting: Putting,
    /// Put directories, and all that is in them
    #[arg(short, long)]
    recursive: bool,
    /// What to put, `-` for standard input; of two or more, the last is where to, below what the
    /// other end serves: `.` is that itself, a directory is put into, and any other name is what
    /// one PATH will be called
    #[arg(required = true, value_name = "PATH... [REMOTE]")]
    paths: Vec<PathBuf>,
}

pub(crate) fn run_put(args: &Args) -> anyhow::Result<Exit> {
    let (paths, to) = match args.paths.split_last() {
        Some((to, paths)) if !paths.is_empty() => (paths, remote(to)),
        _ => (&args.paths[..], Vec::new()),
    };
    if paths.iter().any(|path| path == Path::new("-")) {
        return run_pipe(args, paths.len(), &to);
    }
    check(paths, args.recursive)?;
    run(&args.asking, "put", |terms, is_first| {
        let names = paths.iter().map(|path| local(path));
        let names = names.collect::<anyhow::Result<Vec<_>>>()?;
        let tree = Tree::new(names, terms.disk_len, args.recursive).map_err(anyhow::Error::msg)?;
        let message = Message::Put {
            manner: args.putting.manner(is_first),
            path: if paths.len() > 1 {
                [&to[..], b"/"].concat()
            } else {
                to.clone()
            },
        };
        Ok((message, Next::Give(Box::new(tree))))
    })
}

/// What makes no sense is told before anything is begun.
fn check(paths: &[PathBuf], is_recursive: bool) -> anyhow::Result<()> {
    let mut names = BTreeSet::new();
    for path in paths {
        let found = match symlink_metadata(path) {
            Ok(found) => found.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Misuse(format!("{} is not there", shown_path(path))).into());
            }
            Err(error) => return Err(error).context(shown_path(path)),
        };
        if found.is_dir() && !is_recursive {
            let path = shown_path(path);
            return Err(Misuse(format!("{path} is a directory: -r puts what is in it")).into());
        }
        if !found.is_dir() && !found.is_file() && !found.is_symlink() {
            let path = shown_path(path);
            return Err(Misuse(format!("{path} is no file, directory or link")).into());
        }
        let (_, name) = local(path)?;
        if !names.insert(name.octets().to_vec()) {
            let name = shown(name.octets());
            return Err(Misuse(format!(
                "two of what is to be put are called {name}: put them one after the other, or to \
                 two places"
            ))
            .into());
        }
    }
    Ok(())
}

/// Puts what comes from standard input.
fn run_pipe(args: &Args, sources: usize, to: &[u8]) -> anyhow::Result<Exit> {
    let no = |why: &str| Err(Misuse(format!("standard input {why}")).into());
    if sources > 1 {
        return no("is put by itself: `cellgate put - NAME`");
    }
    if to.is_empty() || to.ends_with(b"/") {
        return no("has no name: give it one, `cellgate put - NAME`");
    }
    if args.recursive {
        return no("is no directory: leave -r out");
    }
    if args.putting.compares() {
        return no("is read once, and cannot be compared before: leave --checksum out");
    }
    let path = PathBelow::new(to).map_err(|fault| Misuse(format!("{}: {fault}", shown(to))))?;
    let name = PathBelow::new(path.split().1).map_err(|fault| anyhow!("{fault}"))?;
    let terms = args.asking.endpoint.checked()?;
    // Whoever waits for it may be interrupted: nothing was begun.
    let pipe = Pipe::new(io::stdin(), terms.disk_len, terms.window).map_err(anyhow::Error::msg)?;
    let mut pipe = Some(pipe);
    run(&args.asking, PIPED, |terms, is_first| {
        let pipe = pipe.take().ok_or_else(|| {
            anyhow!("standard input cannot be read again: put it once more from its beginning")
        })?;
        let mut mark = [0; 16];
        getrandom(&mut mark, GetRandomFlags::empty())?;
        let message = Message::Put {
            manner: args.putting.manner(is_first),
            path: to.to_vec(),
        };
        let tree = Tree::piped(pipe, name.clone(), terms.disk_len, mark);
        Ok((message, Next::Give(Box::new(tree))))
    })
}
