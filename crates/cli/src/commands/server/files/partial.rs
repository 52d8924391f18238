//! Files of this machine that are not finished.

use std::path::Path;

use cellgate_host::terminal::disk::{Leftover, Root, discard as throw_away, leftovers};
use cellgate_report::output::{Exit, print, print_json_line};
use serde_json::json;

use super::words::{shown, shown_path};
use crate::commands::server::Misuse;

/// All of them, by their paths.
fn found(root: &Root) -> anyhow::Result<Vec<Leftover>> {
    let mut found = leftovers(root)?.collect::<Result<Vec<_>, _>>()?;
    found.sort_by(|one, other| one.path.cmp(&other.path).then(one.name.cmp(&other.name)));
    Ok(found)
}

fn open(directory: &Path) -> anyhow::Result<Root> {
    if !directory.is_dir() {
        let directory = shown_path(directory);
        return Err(Misuse(format!("{directory} is no directory")).into());
    }
    Ok(Root::open(directory)?)
}

/// Where it is to be, for people.
fn path(leftover: &Leftover) -> Option<String> {
    leftover.path.as_ref().map(|path| shown(path.octets()))
}

/// Lists them.
pub(super) fn list(directory: &Path, json: bool) -> anyhow::Result<Exit> {
    for leftover in found(&open(directory)?)? {
        let path = path(&leftover);
        if json {
            print_json_line(&json!({
                "name": leftover.name.to_string(),
                "path": path,
                "octets": leftover.size,
                "allocated": leftover.allocated,
                "in_use": leftover.is_in_use,
            }))?;
            continue;
        }
        let size = leftover
            .size
            .map_or("?".to_owned(), |size| size.to_string());
        let in_use = if leftover.is_in_use { ", in use" } else { "" };
        print(&format!(
            "{:.12} {:>15} of {size:>15} {}{in_use}\n",
            leftover.name.to_string(),
            leftover.allocated,
            path.unwrap_or_else(|| "(nobody knows of what)".to_owned())
        ))?;
    }
    Ok(Exit::Ok)
}

/// Throws away the one of this name, or path, or all. A name may be cut short.
pub(super) fn discard(directory: &Path, name: &str, json: bool) -> anyhow::Result<Exit> {
    let root = open(directory)?;
    let is_meant = |leftover: &Leftover| {
        let is_name = name.len() >= 12 && leftover.name.to_string().starts_with(name);
        name == "all" || is_name || path(leftover).is_some_and(|path| path == name)
    };
    let mut meant = found(&root)?;
    meant.retain(is_meant);
    if meant.is_empty() && name != "all" {
        let text = format!("{name}: no unfinished file has this name or path");
        return Err(Misuse(text).into());
    }
    let mut exit = Exit::Ok;
    for leftover in meant {
        let shown = path(&leftover).unwrap_or_else(|| leftover.name.to_string());
        match throw_away(&root, leftover.name) {
            Ok(_) if json => print_json_line(&json!({
                "discarded": leftover.name.to_string(),
                "path": path(&leftover),
            }))?,
            Ok(_) => print(&format!("discarded {shown}\n"))?,
            Err(error) => {
                exit = Exit::Failed;
                eprintln!("cellgate: {shown}: {error}");
                if json {
                    let error = error.to_string();
                    print_json_line(&json!({ "path": path(&leftover), "error": error }))?;
                }
            }
        }
    }
    Ok(exit)
}
