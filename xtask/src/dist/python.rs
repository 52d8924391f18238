//! The wheel and the sdist, by maturin.

use std::process::Command;

use anyhow::Context;

use super::{Places, run};

pub(super) fn make(places: &Places) -> anyhow::Result<()> {
    let mut build = Command::new("maturin");
    build
        .args(["build", "--release", "--sdist", "--locked", "--offline"])
        .arg("-m")
        .arg(places.source("python/Cargo.toml"))
        .arg("-o")
        .arg(&places.out)
        .env("CARGO_TARGET_DIR", places.target.join("python"));
    run(&mut build).context("maturin makes the wheel (pip install 'maturin>=1.9,<2')")
}
