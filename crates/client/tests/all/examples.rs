//! The examples print what they say.

use std::path::Path;
use std::process::Command;

use crate::common::Daemon;

/// What an example's first comment says that it prints.
fn promised(source: &str) -> String {
    let comment = source.lines().map_while(|line| line.strip_prefix("//!"));
    let lines = comment.map(|line| line.strip_prefix(' ').unwrap_or(line));
    let block = lines.skip_while(|line| *line != "```text").skip(1);
    let block: Vec<_> = block.take_while(|line| *line != "```").collect();
    block.join("\n") + "\n"
}

#[test]
fn every_example_prints_what_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let test = std::env::current_exe().unwrap();
    let built = test
        .parent()
        .and_then(Path::parent)
        .unwrap()
        .join("examples");
    let mut ran = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let source = std::fs::read_to_string(&path).unwrap();
        assert!(source.lines().count() < 60, "{} is long", path.display());
        let daemon = Daemon::start();
        let example = built.join(path.file_stem().unwrap());
        let output = Command::new(example)
            .env("CELLGATE_SOCKET", daemon.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", path.display());
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed, promised(&source), "{}", path.display());
        ran += 1;
    }
    assert_eq!(ran, 6);
}
