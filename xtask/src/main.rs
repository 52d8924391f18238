//! `cargo xtask`: what is installed beside the command, made from the command itself.
#![forbid(unsafe_code)]

mod completions;
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
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::Man { dir } => man::write(&dir),
        Task::Completions { dir } => completions::write(&dir),
    }
}
