//! Completions: the command's own, which ask the daemon, and behind them those that need nobody.

use std::fs;
use std::path::Path;

use anyhow::Context;
use clap_complete::{Shell, generate};

/// Writes a file for each shell into `dir`, under the name by which the shell looks for it.
pub(crate) fn write(dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    for (name, text) in files() {
        let path = dir.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn files() -> [(&'static str, String); 3] {
    [
        ("cellgate", bash(&alone(Shell::Bash))),
        ("_cellgate", zsh(&alone(Shell::Zsh))),
        ("cellgate.fish", fish(&alone(Shell::Fish))),
    ]
}

/// Completions without a daemon.
fn alone(shell: Shell) -> String {
    let mut text = Vec::new();
    generate(shell, &mut cellgate_cli::command(), "cellgate", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn bash(alone: &str) -> String {
    format!(
        "{alone}
# The command's own completions ask the daemon.
if __cellgate=$(COMPLETE=bash cellgate 2>/dev/null) \\
    && [[ $__cellgate == *_clap_complete_cellgate* ]]; then
    eval \"$__cellgate\"
fi
unset __cellgate
"
    )
}

fn zsh(alone: &str) -> String {
    let (head, alone) = alone.split_once('\n').unwrap_or_default();
    format!(
        "{head}
# The command's own completions ask the daemon.
if [ \"$funcstack[1]\" = \"_cellgate\" ]; then
    local _cellgate_own
    if _cellgate_own=$(COMPLETE=zsh cellgate 2>/dev/null) \\
        && [[ $_cellgate_own == *_clap_dynamic_completer_cellgate* ]]; then
        eval \"$_cellgate_own\"
        _clap_dynamic_completer_cellgate \"$@\"
        return
    fi
fi
{alone}"
    )
}

fn fish(alone: &str) -> String {
    format!(
        "# The command's own completions ask the daemon.
if command --query cellgate; and COMPLETE=fish cellgate >/dev/null 2>&1
    COMPLETE=fish cellgate | source
else
{alone}end
"
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// What a shell prints; nothing where this machine does not have it.
    fn printed(shell: &str, script: &str) -> Option<String> {
        let mut command = Command::new(shell);
        // Nobody is found there.
        let command = command.args(["-c", script]).env("PATH", "/nowhere");
        match command.output() {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(said.is_empty(), "{shell}: {said}");
                Some(String::from_utf8_lossy(&output.stdout).into_owned())
            }
            Err(error) => {
                println!("skipped: {shell}: {error}");
                None
            }
        }
    }

    #[test]
    fn each_shell_loads_them_and_completes_without_the_command() {
        let dir = std::env::temp_dir().join(format!("cellgate-completions-{}", std::process::id()));
        write(&dir).unwrap();
        let at = dir.display();
        let bash = format!(
            "source {at}/cellgate; COMP_WORDS=(cellgate vc ''); COMP_CWORD=2
             _cellgate cellgate '' vc; echo \"${{COMPREPLY[@]}}\""
        );
        let zsh = format!(
            "compdef() {{ print -r -- \"$@\" }}
             autoload() {{ }}
             source {at}/_cellgate; _describe() {{ print -r -- ${{(P)4}} }}
             _cellgate__subcmd__vc_commands"
        );
        let fish = format!("source {at}/cellgate.fish; complete -C 'cellgate vc '");
        for (shell, script) in [
            ("/bin/bash", bash),
            ("/usr/bin/zsh", zsh),
            ("/usr/bin/fish", fish),
        ] {
            let Some(found) = printed(shell, &script) else {
                continue;
            };
            for verb in ["add", "monitor", "show"] {
                assert!(found.contains(verb), "{shell}: no {verb}: {found}");
            }
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}
