//! Tells the program which commit it is built from: a failure of the simulated world names it.

use std::path::Path;
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let commit = commit().unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=CELLGATE_COMMIT={commit}");
}

/// Its hash, with a + if something has changed since. None: this is no checkout of its own, or
/// there is no git.
fn commit() -> Option<String> {
    let head = Path::new(ROOT).join(git(&["rev-parse", "--git-path", "HEAD"])?);
    let top = Path::new(&git(&["rev-parse", "--show-toplevel"])?).canonicalize();
    if top.ok()? != Path::new(ROOT).canonicalize().ok()? {
        return None;
    }
    let log = Path::new(ROOT).join(git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    // What is checked out, each commit, and each change of what is built.
    let crates = Path::new(ROOT).join("crates");
    for path in [head, log, crates].iter().filter(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    let hash = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changes = git(&[
        "status",
        "--porcelain",
        "--untracked-files=no",
        "crates",
        "Cargo.lock",
    ])?;
    let mark = if changes.is_empty() { "" } else { "+" };
    Some(hash + mark)
}

/// What git answers, in one line.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .current_dir(ROOT)
        .args(arguments)
        .output();
    let output = output.ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim_end().to_owned())
}
