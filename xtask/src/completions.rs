//! Completions that need no daemon; those that ask one are `COMPLETE=bash cellgate`.

use std::fs;
use std::path::Path;

use anyhow::Context;
use clap_complete::{Shell, generate_to};

/// Writes a file for each shell into `dir`, under the names by which they look for it.
pub(crate) fn write(dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let mut command = cellgate_cli::command();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let path = generate_to(shell, &mut command, "cellgate", dir);
        let path = path.with_context(|| dir.display().to_string())?;
        println!("{}", path.display());
    }
    Ok(())
}
