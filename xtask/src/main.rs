//! `cargo xtask`: what is installed beside the command, made from the command itself.
#![forbid(unsafe_code)]

mod completions;
mod dist;
mod man;
mod manual;

use std::path::PathBuf;

use clap::Parser;

/// Make what is installed beside the command
#[derive(Parser)]
enum Task {
    /// Manual pages: one for each verb, cellgate.toml(5) and cellgate(7)
    Man {
        /// The folder, which is made if it is not there
        dir: PathBuf,
    },
    /// Completions for bash, zsh and fish
    Completions {
        /// The folder, which is made if it is not there
        dir: PathBuf,
    },
    /// Packages: for Debian, a tarball, a file for containers, a wheel and an sdist
    ///
    /// All of it is made from the lock file, without a network once `cargo fetch` ran. It takes
    /// cargo-deb, dpkg-dev and binutils, and for Python maturin.
    Dist(dist::Args),
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::Man { dir } => man::write(&dir),
        Task::Completions { dir } => completions::write(&dir),
        Task::Dist(args) => dist::make(&args),
    }
}
