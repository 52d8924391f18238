//! `cellgate doctor`: what of this machine keeps a server from its promises.

use std::path::PathBuf;
use std::process::Command;

use cellgate_host::doctor::{Finding, Level, Report, examine, look_as_adapter};
use cellgate_host::server::{Config, state_dir_default};
use cellgate_report::output::{Exit, print, print_json_line, wrapped};

use super::config::read;
use super::server::Server;

/// Tell what of this machine keeps a server from its promises, and what cures it
///
/// It looks at the daemon that answers, or else at what one would meet, for some two seconds, and
/// changes nothing. Each line is ok, note, warn or fail. Exit code 1: something that the
/// configuration asks for does not work (fail).
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate doctor
  $ cellgate doctor -c /etc/cellgate.toml --json")]
pub(crate) struct Args {
    /// The configuration of a daemon that does not run (TOML), as `cellgate serve` takes it
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The adapter to look at, of several [default: the first]
    #[arg(long, value_name = "NAME")]
    adapter: Option<String>,
    #[command(flatten)]
    server: Server,
    /// Look at the adapter's CPU as an adapter would
    #[arg(long, hide = true, value_name = "TASK")]
    look: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if let Some(task) = &args.look {
        print(&look_as_adapter(task)?)?;
        return Ok(Exit::Ok);
    }
    let config = match &args.config {
        Some(path) => read(path)?,
        None => Config::default(),
    };
    let socket = socket_of(&config, args.config.is_some(), &args.server);
    let report = examine(&config, &socket, args.adapter.as_deref(), || {
        let mut program = Command::new("/proc/self/exe");
        program.args(["doctor", "--look"]);
        Ok(program)
    })?;
    match args.server.json() {
        true => print_json_line(&report)?,
        false => print(&people(&report))?,
    }
    Ok(match report.worst {
        Level::Fail => Exit::Failed,
        _ => Exit::Ok,
    })
}

/// Where the daemon answers: a configuration names it, `of_file` or not, unless the command line
/// does.
pub(crate) fn socket_of(config: &Config, of_file: bool, server: &Server) -> PathBuf {
    let section = &config.server;
    let directory = section.state_dir.as_ref().map(PathBuf::from);
    let socket = section.socket.as_ref().map(PathBuf::from);
    let named = socket.or_else(|| directory.map(|path| path.join("control.sock")));
    let named = named.or_else(|| {
        let is_of_file = of_file && std::env::var_os("CELLGATE_SOCKET").is_none();
        is_of_file.then(|| state_dir_default().join("control.sock"))
    });
    server.path_or(named)
}

fn people(report: &Report) -> String {
    let findings = &report.findings;
    let subjects = findings.iter().map(|finding| finding.subject.len());
    let wide = subjects.max().unwrap_or(0);
    let mut text: String = findings.iter().map(|finding| line(finding, wide)).collect();
    let count = |level: Level| {
        findings
            .iter()
            .filter(|finding| finding.level == level)
            .count()
    };
    let counts = [Level::Fail, Level::Warn, Level::Note, Level::Ok].map(|level| {
        let name = level.name();
        format!("{} {name}", count(level))
    });
    text += &format!("\n{}\n", counts.join(", "));
    text
}

fn line(finding: &Finding, wide: usize) -> String {
    let head = format!("{:4}  {:wide$}  ", finding.level.name(), finding.subject);
    let mut text = wrapped(&head, &finding.text);
    let indent = " ".repeat(head.len());
    if let Some(promise) = &finding.promise {
        text += &wrapped(&format!("{indent}so: "), promise);
    }
    if let Some(cure) = &finding.cure {
        text += &wrapped(&format!("{indent}do: "), cure);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_tells_its_promise_and_its_cure_below_it() {
        let finding = |level, promise: Option<&str>, cure: Option<&str>| Finding {
            subject: "memory",
            level,
            text: "so much".to_owned(),
            promise: promise.map(str::to_owned),
            cure: cure.map(str::to_owned),
        };
        let report = Report {
            worst: Level::Warn,
            findings: vec![
                finding(Level::Ok, None, None),
                finding(Level::Warn, Some("it is late"), Some("cure it")),
            ],
            cpu: None,
            wake_up: None,
            gap_longest_ns: None,
            clock_look_ns: 1,
            steal_ppm: None,
            took_ms: 1,
        };
        let expected = "ok    memory  so much\n\
                        warn  memory  so much\n              so: it is late\n              \
                        do: cure it\n\n0 fail, 1 warn, 0 note, 1 ok\n";
        assert_eq!(people(&report), expected);
    }
}
