//! `cellgate ls`.

use std::path::PathBuf;

use cellgate_core::terminal::{Entry, EntryKind, Message};
use cellgate_host::terminal::Next;
use cellgate_report::output::{Exit, print_json_line};
use serde_json::json;

use super::endpoint::Asking;
use super::run::{remote, run};
use super::tally::shown;

/// List what `cellgate serve-files` has at the other end
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    asking: Asking,
    /// The directory, or the file
    #[arg(default_value = ".")]
    remote: PathBuf,
}

pub(crate) fn run_ls(args: &Args) -> anyhow::Result<Exit> {
    run(&args.asking, "ls", |_| {
        let path = remote(&args.remote);
        Ok((Message::List { path }, Next::List))
    })
}

/// A line for an entry.
pub(super) fn print(entry: &Entry, json: bool) -> anyhow::Result<()> {
    let (kind, to) = match &entry.kind {
        EntryKind::File { .. } => ("file", None),
        EntryKind::Directory => ("directory", None),
        EntryKind::Link { to } => ("link", Some(shown(to))),
    };
    if json {
        return print_json_line(&json!({
            "path": shown(&entry.path),
            "kind": kind,
            "octets": entry.octets(),
            "mode": format!("{:04o}", entry.mode),
            "modified_ns": entry.modified_ns,
            "to": to,
        }));
    }
    let path = shown(&entry.path);
    let mark = if kind == "directory" { "/" } else { "" };
    let to = to.map_or(String::new(), |to| format!(" -> {to}"));
    println!("{:04o} {:>15} {path}{mark}{to}", entry.mode, entry.octets());
    Ok(())
}
