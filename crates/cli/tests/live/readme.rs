//! What the README and docs/server.md print, as it is printed.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::daemon::{Daemon, stdout};

const README: &str = include_str!("../../../../README.md");
const SERVER: &str = include_str!("../../../../docs/server.md");

/// The blocks of a section that say what they are.
fn blocks(document: &'static str, section: &str, kind: &str) -> Vec<&'static str> {
    let of_section = document
        .split("\n## ")
        .find(|part| part.starts_with(section));
    let begin = format!("```{kind}\n");
    let parts = of_section.expect("a section").split(&*begin).skip(1);
    let block = |part: &'static str| part.split_once("```").expect("an end").0;
    parts.map(block).collect()
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

fn without_digits(word: &str) -> String {
    word.replace(|c: char| c.is_ascii_digit(), "")
}

#[test]
fn its_commands_for_a_server_work_and_print_what_it_says() {
    let section = "A server for applications";
    let [commands, printed] = ["sh", "text"].map(|kind| blocks(README, section, kind));
    let ([commands], [printed]) = (&commands[..], &printed[..]) else {
        panic!("{section}: other blocks");
    };
    let commands = commands.strip_prefix("cellgate serve 2>serve.log &");
    // What is left of that line is a comment.
    let commands = commands
        .expect("the daemon comes first")
        .split_once('\n')
        .expect("more")
        .1;
    let daemon = Daemon::start("");
    let binary = Path::new(env!("CARGO_BIN_EXE_cellgate"));
    let directory = binary.parent().expect("a directory").display();
    let path = std::env::var("PATH").expect("a path");
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1\n{commands}wait")])
        .env("PATH", format!("{directory}:{path}"))
        .env("CELLGATE_SOCKET", daemon.socket())
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    let said = stdout(&output);
    // Advice stands behind an error.
    let (mut left, printed) = (words(&said).into_iter(), words(printed));
    let mut before = "";
    for word in &printed {
        // The speed of this machine decides how much of what is free is offered.
        let is_offer = before == "fit:";
        let is_it = |one: &str| match is_offer {
            true => without_digits(one) == without_digits(word),
            false => one == *word,
        };
        assert!(left.any(is_it), "{word}: {said}");
        before = word;
    }
}

#[test]
fn a_few_lines_of_python_speak_the_control_protocol() {
    const NAME: &str = "control_protocol_python";
    let [program] = blocks(SERVER, "The control protocol", "python")[..] else {
        panic!("other blocks");
    };
    let version = Command::new("python3").arg("--version").output();
    if let Err(error) = version {
        return println!("skipped {NAME}: python3: {error}");
    }
    let daemon = Daemon::start("");
    let output = Command::new("python3")
        .args(["-c", program])
        .arg(daemon.socket())
        .output()
        .expect("python3");
    let said = stdout(&output);
    for one in ["request hello", "confirm ", "refusal ", "indication "] {
        let told = said.lines().any(|line| line.starts_with(one));
        assert!(told, "{one}: {said}");
    }
    println!("ran {NAME}");
}
