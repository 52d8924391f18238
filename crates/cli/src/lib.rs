//! The command `cellgate`, as a library: one file or folder below `commands` per command.
//!
//! Exit codes: 0 all went well, 1 something failed, 2 the command was called wrongly, 3 admission
//! refused, 4 no server answers; of `sim` 10 to 13: see there.
#![forbid(unsafe_code)]

mod captured;
mod commands;
mod completion;
mod input;
mod progress;
pub mod words;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use cellgate_instruments::{bench, demo, guarantee, role};
use cellgate_report::output::{TEXT, print_json_line, width};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::json;

#[cfg(feature = "page")]
use commands::page;
use commands::server::files::{get, ls, put, serve as serve_files};
use commands::server::{
    charge, itf, msna, perf, ping, recv, relay, run, save, send, stats, top, tun, vc, video,
};
use commands::{config, contract, decode, doctor, lab, replay, serve, server, sim, upgrade_check};
use words::Spelled;

/// A real-time ATM host in user space.
#[derive(Parser)]
#[command(name = "cellgate", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(hide = true)]
    Actor(role::Args),
    Bench(bench::Command),
    Charge(charge::Args),
    #[command(subcommand)]
    Config(config::Command),
    #[command(after_long_help = "\
Examples:
  $ cellgate contract cbr,aal5:pcr=20Mbps,max_sdu=1500
  $ cellgate contract for video 8Mbit/s 25fps peak 4x latency 100ms")]
    Contract(contract::Args),
    Decode(decode::Args),
    Demo(demo::Args),
    Doctor(doctor::Args),
    Get(get::Args),
    #[command(subcommand)]
    Guarantee(guarantee::Command),
    Itf(itf::Command),
    #[command(subcommand)]
    Lab(lab::Command),
    Ls(ls::Args),
    Msna(msna::Command),
    #[cfg(feature = "page")]
    Page(page::Args),
    Perf(perf::Args),
    Ping(ping::Args),
    Put(put::Args),
    Recv(recv::Args),
    Relay(relay::Args),
    Replay(replay::Args),
    Run(run::Args),
    Save(save::Args),
    Send(send::Args),
    Serve(serve::Args),
    ServeFiles(serve_files::Args),
    #[command(subcommand)]
    Sim(sim::Command),
    Stats(stats::Args),
    Stream(video::Command),
    Top(top::Args),
    Tun(tun::Command),
    UpgradeCheck(upgrade_check::Args),
    Vc(vc::Command),
}

/// All commands, as clap knows them; help is as wide as the terminal, up to 100 columns.
pub fn command() -> clap::Command {
    let command = Cli::command().term_width(width().unwrap_or(TEXT).min(100));
    arranged(command)
}

/// `command` with what most verbs have in common at the end of its help.
fn arranged(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| match arg.get_id().as_str() {
        "json" | "socket" => arg.help_heading("Server and output"),
        _ => arg,
    });
    completion::with_candidates(command).mut_subcommands(arranged)
}

/// Whether the command that is called is to print JSON.
fn wants_json(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((_, inner)) => wants_json(inner),
        // Not every command has the option.
        None => matches!(matches.try_get_one::<bool>("json"), Ok(Some(true))),
    }
}

/// Does what the program's arguments say.
pub fn run() -> ExitCode {
    completion::complete();
    let command = command();
    let spelled = Spelled::of(&command, std::env::args_os());
    let read = command.try_get_matches_from(&spelled.args);
    let read = read.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match read {
        Ok(read) => read,
        Err(error) => return told_by_clap(&error, &spelled),
    };
    let json = wants_json(&matches);
    let outcome = match cli.command {
        Command::Actor(args) => role::run(&args),
        Command::Bench(command) => bench::run(&command),
        Command::Charge(args) => charge::run(&args),
        Command::Config(command) => config::run(&command),
        Command::Contract(args) => contract::run(&args),
        Command::Decode(args) => decode::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Get(args) => get::run_get(&args),
        Command::Guarantee(command) => guarantee::run(&command),
        Command::Itf(command) => itf::run(&command),
        Command::Lab(command) => lab::run(&command),
        Command::Ls(args) => ls::run_ls(&args),
        Command::Msna(command) => msna::run(&command),
        #[cfg(feature = "page")]
        Command::Page(args) => page::run(&args),
        Command::Perf(args) => perf::run(&args),
        Command::Ping(args) => ping::run(&args),
        Command::Put(args) => put::run_put(&args),
        Command::Recv(args) => recv::run(&args),
        Command::Relay(args) => relay::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Save(args) => save::run(&args),
        Command::Send(args) => send::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::ServeFiles(args) => serve_files::run_serve(&args),
        Command::Sim(command) => sim::run(&command),
        Command::Stats(args) => stats::run(&args),
        Command::Stream(command) => video::run(&command),
        Command::Top(args) => top::run(&args),
        Command::Tun(command) => tun::run(&command),
        Command::UpgradeCheck(args) => upgrade_check::run(&args),
        Command::Vc(command) => vc::run(&command),
    };
    let exit = outcome.unwrap_or_else(|error| {
        // For programs; whoever asked for lines has had theirs.
        if json {
            let mut object = json!({ "error": told(&error) });
            if let Some(refused) = server::refusal(&error) {
                object["refused"] = json!(refused);
            }
            let _ = print_json_line(&object);
        }
        eprintln!("cellgate: {}", told(&error));
        if let Some(advice) = server::advice(&error) {
            eprintln!("cellgate: {advice}");
        }
        server::exit_of(&error)
    });
    exit.into()
}

/// Prints help, or what is wrong with a command line.
fn told_by_clap(error: &clap::Error, spelled: &Spelled) -> ExitCode {
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if error.use_stderr() && spelled.wants_json() {
        let text = spelled.told(error, false);
        let told = text.split("\n\n").next().unwrap_or_default();
        let told = told.strip_prefix("error: ").unwrap_or(told);
        let _ = print_json_line(&json!({ "error": told }));
    }
    let text = |is_terminal: bool| spelled.told(error, is_terminal && !is_plain);
    // Nobody may read it.
    let _ = match error.use_stderr() {
        true => write!(io::stderr(), "{}", text(io::stderr().is_terminal())),
        false => write!(io::stdout(), "{}", text(io::stdout().is_terminal())),
    };
    u8::try_from(error.exit_code()).unwrap_or(2).into()
}

/// The error and its causes; those that its text tells already are left out.
pub(crate) fn told(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn no_two_options_of_a_command_are_the_same() {
        Cli::command().debug_assert();
    }

    /// Help of `command` and of all below it, with whose it is.
    fn help(command: &mut clap::Command, path: &str, all: &mut Vec<(String, String)>) {
        let words = words::words_of(command).map(str::to_owned).collect();
        for text in [command.render_help(), command.render_long_help()] {
            all.push((path.to_owned(), words::plain(&text.to_string(), &words)));
        }
        for inner in command.get_subcommands_mut() {
            let path = format!("{path} {}", inner.get_name());
            help(inner, &path, all);
        }
    }

    #[test]
    fn help_of_every_verb_fits_80_columns_and_ends_with_what_is_common() {
        let mut command = arranged(Cli::command().term_width(80));
        command.build();
        let mut all = Vec::new();
        help(&mut command, "cellgate", &mut all);
        assert!(all.len() > 100, "{} helps", all.len());
        for (path, text) in &all {
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{path}: {line}");
            }
            let sections = text
                .lines()
                .filter(|line| line.ends_with(':') && !line.starts_with(' '));
            let sections: Vec<_> = sections.filter(|line| *line != "Examples:").collect();
            let common = sections
                .iter()
                .position(|line| *line == "Server and output:");
            assert!(
                common.is_none_or(|at| at + 1 == sections.len()),
                "{path}: {sections:?}"
            );
            assert_eq!(common.is_some(), text.contains("--json"), "{path}: {text}");
        }
    }

    /// A line as a shell takes it apart, as far as examples go.
    fn line(text: &str) -> impl Iterator<Item = OsString> {
        let text = text.split(" > ").next().unwrap_or_default();
        let text = text.split(" | ").find(|part| part.starts_with("cellgate"));
        let text = text.expect("a command of ours");
        text.split_whitespace().map(OsString::from)
    }

    #[test]
    fn every_verb_has_examples_that_can_be_typed() {
        fn of_verb(command: &clap::Command, path: &str) {
            for inner in command
                .get_subcommands()
                .filter(|inner| !inner.is_hide_set())
            {
                of_verb(inner, &format!("{path} {}", inner.get_name()));
            }
            if command.has_subcommands() {
                return;
            }
            let examples = command.get_after_long_help().map(ToString::to_string);
            let examples = examples.unwrap_or_default();
            let lines = examples.strip_prefix("Examples:\n").unwrap_or_default();
            assert!(!lines.is_empty(), "{path}: no examples");
            for text in lines.lines() {
                let text = text.strip_prefix("  $ ").expect(path);
                assert!(text.contains(path), "{path}: {text}");
                assert!(text.len() <= 78, "{path}: {text}");
                let typed = Spelled::of(&crate::command(), line(text));
                let read = crate::command().try_get_matches_from(&typed.args);
                if let Err(error) = read {
                    panic!("{text}: {}", typed.told(&error, false));
                }
            }
        }
        of_verb(&command(), "cellgate");
    }

    #[test]
    fn no_cause_is_told_twice() {
        let error = Err::<(), _>(anyhow!("no room")).context("no file: no room");
        let error = error.context("copy").unwrap_err();
        assert_eq!(told(&error), "copy: no file: no room");
    }
}
