//! Completions that ask the daemon: `COMPLETE=bash cellgate` prints what a shell is to run.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cellgate::{Admin, Error};
use clap::Command;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{Bash, CompleteEnv, EnvCompleter, Fish, Shells, Zsh};

use crate::words::{Spelled, bare};

/// A daemon that takes longer completes nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Completes, and ends the process, if a shell asks for it.
pub(crate) fn complete() {
    let shells: [&dyn EnvCompleter; 3] = [&Wordy(Bash), &Wordy(Zsh), &Wordy(Fish)];
    CompleteEnv::with_factory(crate::command)
        .shells(Shells(&shells))
        .complete();
}

/// A shell in which words are completed without hyphens.
struct Wordy<S>(S);

impl<S: EnvCompleter> EnvCompleter for Wordy<S> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn is(&self, name: &str) -> bool {
        self.0.is(name)
    }

    fn write_registration(
        &self,
        var: &str,
        name: &str,
        bin: &str,
        completer: &str,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        self.0.write_registration(var, name, bin, completer, buf)
    }

    fn write_complete(
        &self,
        cmd: &mut Command,
        args: Vec<OsString>,
        current_dir: Option<&Path>,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        let spelled = Spelled::of(cmd, args.iter().cloned());
        let index = std::env::var("_CLAP_COMPLETE_INDEX").ok();
        let index = index.and_then(|index| index.parse().ok());
        let index = index.unwrap_or(args.len().saturating_sub(1));
        let is_word = spelled.args.get(index) != args.get(index);
        if !is_word {
            return self.0.write_complete(cmd, spelled.args, current_dir, buf);
        }
        let mut found = Vec::new();
        let words: Vec<String> = spelled.known().map(str::to_owned).collect();
        self.0
            .write_complete(cmd, spelled.args, current_dir, &mut found)?;
        let ifs = std::env::var("_CLAP_IFS").ok();
        let between = ifs.and_then(|ifs| ifs.chars().next()).unwrap_or('\n');
        let found = String::from_utf8_lossy(&found);
        let words = found.split(between).filter_map(|candidate| {
            let name = candidate.strip_prefix("--")?;
            let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
            let (name, help) = name.split_at(end.unwrap_or(name.len()));
            let is_known = words.iter().any(|word| word == name);
            is_known.then(|| format!("{}{help}", bare(name)))
        });
        let words: Vec<_> = words.collect();
        buf.write_all(words.join(&between.to_string()).as_bytes())
    }
}

/// `command` with candidates of the daemon wherever a connection is named.
pub(crate) fn with_candidates(command: Command) -> Command {
    command.mut_args(|arg| {
        let names = arg.get_value_names().unwrap_or_default();
        match names.iter().any(|name| name.as_str() == "ADDRESS") {
            true => arg.add(addresses()),
            false => arg,
        }
    })
}

/// Connections that there are, and the interfaces that others could be on.
pub(crate) fn addresses() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        asked(|admin| {
            let connections = admin.list()?.into_iter();
            let connections = connections.map(|info| (info.address.to_string(), info.contract));
            let interfaces = admin.interfaces()?.into_iter().map(|info| info.spec);
            let interfaces =
                interfaces.map(|spec| (format!("{}.0.", spec.name), spec.link.to_string()));
            Ok(connections.chain(interfaces).collect())
        })
    })
}

/// The daemon's interfaces.
pub(crate) fn interfaces() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        asked(|admin| {
            let all = admin.interfaces()?.into_iter().map(|info| info.spec);
            Ok(all.map(|spec| (spec.name, spec.link.to_string())).collect())
        })
    })
}

/// The daemon's network devices.
pub(crate) fn devices() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        asked(|admin| {
            let all = admin.devices()?.into_iter();
            let all = all.map(|info| (info.device, format!("over {}", info.vc)));
            Ok(all.collect())
        })
    })
}

/// What the daemon has, with what it is; nothing if none answers.
fn asked(
    question: impl FnOnce(&mut Admin) -> Result<Vec<(String, String)>, Error> + Send + 'static,
) -> Vec<CompletionCandidate> {
    let socket = named_socket(std::env::args_os()).unwrap_or_else(cellgate::socket_path);
    let (told, hears) = mpsc::channel();
    thread::spawn(move || {
        let found = Admin::at(socket).and_then(|mut admin| question(&mut admin));
        // Nobody waits for it any more.
        let _ = told.send(found);
    });
    let found = hears.recv_timeout(PATIENCE).ok().and_then(Result::ok);
    let found = found.unwrap_or_default().into_iter();
    let candidates =
        found.map(|(value, what)| CompletionCandidate::new(value).help(Some(what.into())));
    candidates.collect()
}

/// The control socket that the command line names.
fn named_socket(args: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    let mut args = args.skip_while(|arg| arg != OsStr::new("--")).skip(1);
    while let Some(arg) = args.next() {
        if arg == OsStr::new("--socket") {
            return args.next().map(PathBuf::from);
        }
        if let Some(path) = arg.to_str().and_then(|arg| arg.strip_prefix("--socket=")) {
            return Some(path.into());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemon_that_is_named_is_asked() {
        let named = |text: &str| named_socket(text.split(' ').map(OsString::from));
        assert_eq!(named("x -- cellgate vc show"), None);
        assert_eq!(named("x -- cellgate --socket /a vc"), Some("/a".into()));
        assert_eq!(named("x -- cellgate vc --socket=/a "), Some("/a".into()));
    }
}
