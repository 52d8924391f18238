//! A tarball for machines without packages: the command, what belongs to it, and install.sh.

use std::fs;
use std::process::Command;

use anyhow::Context;

use super::program::Program;
use super::stage::{self, Stage};
use super::{Places, run};

pub(super) fn make(places: &Places, program: &Program) -> anyhow::Result<()> {
    let name = format!(
        "cellgate-{}-{}",
        env!("CARGO_PKG_VERSION"),
        program.platform()?
    );
    let mut stage = Stage::new(places, "tarball")?;
    super::command(places, &mut stage, program)?;
    // What is Debian's alone.
    for name in ["etc/needrestart", "usr/share/doc"] {
        fs::remove_dir_all(stage.folder.join(name)).context(name)?;
    }
    for (from, to, mode) in [
        ("packaging/install.sh", "install.sh", 0o755),
        ("packaging/README", "README", 0o644),
        ("LICENSE-MIT", "LICENSE-MIT", 0o644),
        ("LICENSE-APACHE", "LICENSE-APACHE", 0o644),
    ] {
        stage.file(to, &places.source(from), mode)?;
    }
    let folder = places.work.join("tarball").join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::rename(&stage.folder, &folder)?;
    let made = places.out.join(format!("{name}.tar.gz"));
    let files = stage::files(&folder)?;
    anyhow::ensure!(!files.is_empty(), "nothing to pack");
    let mut tar = Command::new("tar");
    tar.args([
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--sort=name",
        "-czf",
    ])
    .arg(&made)
    .arg("-C")
    .arg(places.work.join("tarball"))
    .arg(&name);
    run(&mut tar)?;
    println!("{}", made.display());
    Ok(())
}
