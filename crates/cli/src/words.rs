//! Words behind a verb, as iproute2 writes them: `itf add w type udp local A peer B label 7`.
//!
//! Each word is an option of clap under the heading [`WORDS`], so that help, manual pages and
//! completions know it. A command line is written with hyphens before clap reads it
//! (`--type udp`), and what clap prints without them before anybody reads that. The word `socket`
//! is `--word-socket`: the command has an option of its name.

use std::collections::BTreeSet;
use std::ffi::OsString;

use cellgate_report::output::wrapped;
use clap::error::{ContextKind, ErrorKind};
use clap::{Arg, Command};

/// The heading of a verb's words.
pub const WORDS: &str = "Words";

/// A command line as clap reads it.
pub(crate) struct Spelled {
    /// As many as were typed, each at its place.
    pub(crate) args: Vec<OsString>,
    /// The words of its verb.
    known: Vec<String>,
    /// The same, and what stands in place of one.
    words: BTreeSet<String>,
}

/// What precedes the name of a word that has another option's name.
const PREFIX: &str = "word-";

/// The options of clap that are words of a verb.
pub fn words_of(verb: &Command) -> impl Iterator<Item = &str> {
    let words = verb.get_arguments().filter(|arg| is_word(arg));
    words.filter_map(Arg::get_long)
}

fn is_word(arg: &Arg) -> bool {
    arg.get_help_heading() == Some(WORDS)
}

impl Spelled {
    /// `typed`, whose first is the program's name, as `command` reads it.
    pub(crate) fn of(command: &Command, typed: impl IntoIterator<Item = OsString>) -> Self {
        let mut typed = typed.into_iter();
        let mut args: Vec<OsString> = typed.next().into_iter().collect();
        let mut path = vec![command];
        let mut words = BTreeSet::new();
        let mut known = Vec::new();
        let mut names = 0;
        while let Some(arg) = typed.next() {
            let verb = path[path.len() - 1];
            let text = arg.to_string_lossy().into_owned();
            if text == "--" {
                args.push(arg);
                args.extend(typed);
                break;
            }
            if text.starts_with('-') {
                let option = path.iter().find_map(|command| option(command, &text));
                args.push(arg);
                if option.is_some_and(|option| takes_value(option) && !text.contains('=')) {
                    args.extend(typed.next());
                }
            } else if let Some(inner) = verb.find_subcommand(&text) {
                args.push(arg);
                names = inner.get_positionals().count();
                known = words_of(inner).map(str::to_owned).collect();
                words = known.iter().cloned().collect();
                path.push(inner);
            } else if words.is_empty() || names > 0 {
                names = names.saturating_sub(1);
                args.push(arg);
            } else {
                let other = format!("{PREFIX}{text}");
                let name = if words.contains(&other) { other } else { text };
                args.push(format!("--{name}").into());
                if option(verb, &format!("--{name}")).is_some_and(takes_value) {
                    args.extend(typed.next());
                }
                words.insert(name);
            }
        }
        Self { args, known, words }
    }

    /// The words of its verb, as options of clap.
    pub(crate) fn known(&self) -> impl Iterator<Item = &str> {
        self.known.iter().map(String::as_str)
    }

    /// Whether it asks for JSON.
    pub(crate) fn wants_json(&self) -> bool {
        let mut options = self.args.iter().take_while(|arg| *arg != "--");
        options.any(|arg| arg == "--json" || arg == "-J")
    }

    /// What clap says of it, in colors or without: without the hyphens that nobody typed.
    pub(crate) fn told(&self, error: &clap::Error, in_colors: bool) -> String {
        let text = match in_colors {
            true => error.render().ansi().to_string(),
            false => error.render().to_string(),
        };
        let mut text = plain(&text, &self.words);
        let is_unknown = error.kind() == ErrorKind::UnknownArgument;
        let has_tip = error.get(ContextKind::SuggestedArg).is_some();
        if is_unknown && !has_tip && !self.known.is_empty() {
            let known = self.known.iter().map(|word| bare(word));
            let known = known.collect::<Vec<_>>().join(", ");
            text += &wrapped("words here: ", &known);
        }
        text
    }
}

/// The option of `command` that `text` names.
fn option<'a>(command: &'a Command, text: &str) -> Option<&'a Arg> {
    let name = text.split('=').next().unwrap_or_default();
    command.get_arguments().find(|arg| {
        let short = arg.get_short().map(|short| format!("-{short}"));
        let long = arg.get_long().map(|long| format!("--{long}"));
        short.as_deref() == Some(name) || long.as_deref() == Some(name)
    })
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

/// A word as it is typed.
pub fn bare(word: &str) -> &str {
    word.strip_prefix(PREFIX).unwrap_or(word)
}

/// `text` with the words as they are typed. A word that begins a line of help leaves the room of
/// its hyphens free.
pub(crate) fn plain(text: &str, words: &BTreeSet<String>) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("--") {
        let (before, found) = rest.split_at(at);
        let behind = &found[2..];
        let len = behind.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        let (name, tail) = behind.split_at(len.unwrap_or(behind.len()));
        shown += before;
        let is_word = words.contains(name);
        let begins = before.ends_with("\n      ") || before.ends_with("\n      \x1b[1m");
        if is_word {
            let word = bare(name);
            let hyphens = if begins {
                2 + name.len() - word.len()
            } else {
                0
            };
            shown += &" ".repeat(hyphens);
            shown += word;
        } else {
            shown += "--";
            shown += name;
        }
        rest = tail;
    }
    shown + rest
}

/// The words of a verb that has no names before them, as tests type them.
#[cfg(test)]
pub(crate) fn read<T: clap::Args>(text: &str) -> Result<T, String> {
    let command = T::augment_args(Command::new("cellgate")).no_binary_name(true);
    let inner = Command::new("cellgate").subcommand(T::augment_args(Command::new("verb")));
    let typed = ["cellgate", "verb"]
        .into_iter()
        .chain(text.split_whitespace());
    let spelled = Spelled::of(&inner, typed.map(OsString::from));
    let read = command.try_get_matches_from(&spelled.args[2..]);
    let read = read.and_then(|matches| T::from_arg_matches(&matches));
    read.map_err(|error| spelled.told(&error, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(text: &str) -> (String, Spelled) {
        let typed = text.split(' ').map(OsString::from);
        let spelled = Spelled::of(&crate::command(), typed);
        let args: Vec<_> = spelled
            .args
            .iter()
            .map(|arg| arg.to_string_lossy())
            .collect();
        (args.join(" "), spelled)
    }

    #[test]
    fn words_become_options_and_their_values_stay() {
        for (typed, read) in [
            (
                "cellgate itf add w type memory peer w",
                "cellgate itf add w --type memory --peer w",
            ),
            (
                "cellgate itf --socket type add type -J type memory --socket=x peer local",
                "cellgate itf --socket type add type -J --type memory --socket=x --peer local",
            ),
            (
                "cellgate itf add a type memory socket /x",
                "cellgate itf add a --type memory --word-socket /x",
            ),
            (
                "cellgate itf set a line ber 1e-6",
                "cellgate itf set a --line --ber 1e-6",
            ),
            (
                "cellgate vc add 0.40 contract ubr no-completions notify contract",
                "cellgate vc add 0.40 --contract ubr --no-completions --notify contract",
            ),
            ("cellgate vc ls 0.40", "cellgate vc ls 0.40"),
            ("cellgate help vc add", "cellgate help vc add"),
            (
                "cellgate run -- x vc add a contract",
                "cellgate run -- x vc add a contract",
            ),
        ] {
            assert_eq!(spelled(typed).0, read);
        }
    }

    #[test]
    fn what_is_said_has_no_hyphens_of_ours() {
        let (_, spelled) = spelled("cellgate vc add 0.40 contrct ubr");
        let text = "\n      --contract <TEXT>  --contrct '--notify' --socket --contract-x";
        assert_eq!(
            plain(text, &spelled.words),
            "\n        contract <TEXT>  contrct 'notify' --socket --contract-x"
        );
    }
}
