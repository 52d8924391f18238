//! `cellgate ls`.

use std::path::PathBuf;

use cellgate_core::terminal::{Entry, EntryKind, Message};
use cellgate_host::terminal::Next;
use cellgate_report::output::{Exit, print, print_json_line};
use serde_json::json;

use super::endpoint::Asking;
use super::partial;
use super::run::{remote, run};
use super::words::shown;

/// List what `cellgate serve-files` has at the other end, or what is unfinished here
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate ls --vc wan.0.100 measurements
  $ cellgate ls --partial /srv/files --discard all")]
pub(crate) struct Args {
    #[command(flatten)]
    asking: Asking,
    /// List the unfinished files of a directory of this machine, to which nobody connects
    #[arg(long)]
    partial: bool,
    /// Throw away the unfinished file of this name or path, or all
    #[arg(long, value_name = "NAME|all", requires = "partial")]
    discard: Option<String>,
    /// The directory, or the file
    #[arg(default_value = ".")]
    remote: PathBuf,
}

pub(crate) fn run_ls(args: &Args) -> anyhow::Result<Exit> {
    if args.partial {
        let json = args.asking.endpoint.server.json;
        return match &args.discard {
            None => partial::list(&args.remote, json),
            Some(name) => partial::discard(&args.remote, name, json),
        };
    }
    run(&args.asking, "ls", |_, _| {
        let path = remote(&args.remote);
        Ok((Message::List { path }, Next::List))
    })
}

/// A line for an entry.
pub(super) fn print_entry(entry: &Entry, json: bool) -> anyhow::Result<()> {
    let (kind, to) = match &entry.kind {
        EntryKind::File { .. } | EntryKind::Stream => ("file", None),
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
    let (mode, octets) = (entry.mode, entry.octets());
    print(&format!("{mode:04o} {octets:>15} {path}{mark}{to}\n"))
}
