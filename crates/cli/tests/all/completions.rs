//! Completions in the shells that this machine has, with a daemon to ask.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::daemon::Daemon;

/// What `words` are completed with in a shell; nothing where this machine does not have it.
fn completed(daemon: &Daemon, shell: &str, words: &[&str]) -> Option<Vec<String>> {
    let typed = words.iter().map(|word| format!("'{word}'"));
    let typed = typed.collect::<Vec<_>>().join(" ");
    let (last, line) = (words[words.len() - 1], words.join(" "));
    let index = words.len() - 1;
    let script = match shell {
        "bash" => format!(
            "source <(COMPLETE=bash cellgate); COMP_WORDS=({typed}); COMP_CWORD={index}; COMP_TYPE=9
             _clap_complete_cellgate cellgate '{last}' ''; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        ),
        // Outside of its line editor nobody has `_describe`.
        "zsh" => format!(
            "compdef() {{ }}
             _describe() {{ print -rl -- ${{(P)3}} }}
             source <(COMPLETE=zsh cellgate); words=({typed}); CURRENT={}
             _clap_dynamic_completer_cellgate",
            index + 1
        ),
        _ => format!("COMPLETE=fish cellgate | source; complete -C '{line}'"),
    };
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_cellgate"));
    let path = format!(
        "{}:{}",
        bin.parent()?.display(),
        std::env::var("PATH").ok()?
    );
    let mut command = Command::new(shell);
    let command = command
        .args(["-c", &script])
        .env("PATH", path)
        .env("CELLGATE_SOCKET", daemon.socket());
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: {shell}: {error}");
            return None;
        }
    };
    let text = String::from_utf8(output.stdout).unwrap();
    // Behind a candidate is what it is.
    let values = text
        .lines()
        .map(|line| line.split(['\t', ':']).next().unwrap_or(line));
    Some(values.map(str::to_owned).collect())
}

#[test]
fn shells_complete_words_and_what_the_daemon_has() {
    let daemon = Daemon::start("");
    daemon.ok(&["vc", "add", "a.0.77", "contract", "ubr,aal5"]);
    'shells: for shell in ["bash", "zsh", "fish"] {
        for (words, wanted) in [
            (&["cellgate", "vc", "del", ""][..], &["a.0.77"][..]),
            (&["cellgate", "send", "--vc", "a"], &["a.0.77", "a.0."]),
            (&["cellgate", "itf", "show", ""], &["a", "b", "lo"]),
            (
                &["cellgate", "itf", "add", "w", "type", "memory", "peer", "l"],
                &["lo"],
            ),
            (
                &["cellgate", "vc", "add", "a.0.78", ""],
                &["contract", "notify", "no-completions"],
            ),
            (
                &["cellgate", "itf", "add", "w", "type", "udp", "lab"],
                &["label"],
            ),
            (
                &["cellgate", "itf", "add", "w", "type", ""],
                &["memory", "udp"],
            ),
            (&["cellgate", "vc", "mon"], &["monitor"]),
        ] {
            let begin = Instant::now();
            // A daemon that this machine keeps from answering completes nothing.
            let found = loop {
                let Some(found) = completed(&daemon, shell, words) else {
                    continue 'shells;
                };
                let all = wanted.iter().all(|one| found.iter().any(|f| f == one));
                if all || begin.elapsed() > Duration::from_secs(120) {
                    break found;
                }
            };
            for one in wanted {
                assert!(
                    found.iter().any(|f| f == one),
                    "{shell}: {words:?}: {found:?}"
                );
            }
        }
    }
}
