//! The rules: from text to complaints.

use std::collections::BTreeSet;
use std::path::Path;

use crate::files::section;
use crate::source::{Source, segments_after, words};

/// The rooms of the core in flow order.
pub(crate) const ROOMS: [&str; 11] = [
    "wire",
    "contract",
    "line",
    "aal",
    "queue",
    "adapter",
    "keeper",
    "server",
    "application",
    "upper",
    "terminal",
];

/// The parts of the instruments, and which others each may use.
pub(crate) const INSTRUMENTS: [(&str, &[&str]); 5] = [
    ("live", &[]),
    ("flood", &["live"]),
    ("guarantee", &["live"]),
    ("bench", &["live"]),
    ("demo", &["live", "flood"]),
];

/// What of the standard library is I/O, a clock or a thread.
const STD_OUTSIDE_CORE: [&str; 8] = ["env", "fs", "io", "net", "os", "process", "thread", "time"];

/// Words of code that have no place in the core: hash order, clocks, floats.
const WORDS_OUTSIDE_CORE: [&str; 7] = [
    "HashMap",
    "HashSet",
    "RandomState",
    "Instant",
    "SystemTime",
    "f32",
    "f64",
];

/// Comments describe the code, not its history, and leave nothing for later.
const COMMENT_BANS: [&str; 6] = ["TODO", "FIXME", "XXX", "now we", "used to be", "previously"];

pub(crate) const LINES_MAX: usize = 800;
const COLUMNS_MAX: usize = 100;

/// Complaints about paths into rooms that come after `room`.
pub(crate) fn later_rooms(room: &str, source: &Source) -> Vec<String> {
    let place = ROOMS.iter().position(|name| *name == room).expect("a room");
    let code = source.code.join("\n");
    ["crate::", "super::"]
        .into_iter()
        .flat_map(|prefix| segments_after(&code, prefix))
        .filter(|segment| ROOMS[place + 1..].contains(&segment.as_str()))
        .map(|segment| format!("{room} uses {segment}, which comes after it"))
        .collect()
}

/// Complaints about paths from the command `own` into others.
pub(crate) fn other_commands(own: &str, source: &Source) -> Vec<String> {
    let code = source.code.join("\n");
    let reached = segments_after(&code, "crate::commands::").into_iter();
    let others = reached.filter(|name| name != own);
    others.map(|name| format!("{own} uses {name}")).collect()
}

/// Complaints about paths from one part of the instruments into others that it may not use.
pub(crate) fn other_instruments(own: &str, source: &Source) -> Vec<String> {
    let part = INSTRUMENTS.iter().find(|(name, _)| *name == own);
    let (_, allowed) = part.expect("a part of the instruments");
    let is_part = |name: &String| INSTRUMENTS.iter().any(|(part, _)| part == name);
    let reached = segments_after(&source.code.join("\n"), "crate::").into_iter();
    let others = reached.filter(|name| name != own && !allowed.contains(&name.as_str()));
    let others = others.filter(is_part);
    others.map(|name| format!("{own} uses {name}")).collect()
}

/// Complaints about what the core must not know.
pub(crate) fn impurities(source: &Source) -> Vec<String> {
    let code = source.code.join("\n");
    let outside = segments_after(&code, "std::")
        .into_iter()
        .filter(|segment| STD_OUTSIDE_CORE.contains(&segment.as_str()))
        .map(|segment| format!("std::{segment}"));
    let named = words(&code)
        .filter(|word| WORDS_OUTSIDE_CORE.contains(word))
        .map(str::to_string);
    outside.chain(named).collect()
}

/// Complaints about threads.
pub(crate) fn threads(source: &Source) -> Vec<String> {
    let code = source.code.iter();
    // A thread may ask for its own number.
    let starts = |line: &&String| words(line).any(|word| word == "thread");
    let asks = |line: &&String| words(line).any(|word| word == "gettid");
    let found = code.filter(|line| starts(line) && !asks(line));
    found.map(|line| format!("a thread: {line}")).collect()
}

/// Complaints about `unsafe`. A counting allocator cannot be written without; tests may have one.
pub(crate) fn unsafe_code(source: &Source) -> Vec<String> {
    if source
        .code
        .iter()
        .any(|line| line.contains("unsafe impl GlobalAlloc"))
    {
        return Vec::new();
    }
    numbered(&source.code, |line| {
        words(line).any(|word| word == "unsafe")
    })
}

pub(crate) fn forbids_unsafe(text: &str) -> bool {
    text.lines().any(|line| line == "#![forbid(unsafe_code)]")
}

/// Complaints about dependencies of the crate whose manifest is `path`.
pub(crate) fn misplaced_dependencies(path: &str, toml: &str) -> Vec<String> {
    let names = |sections: &[&str]| -> Vec<String> {
        sections
            .iter()
            .flat_map(|name| section(toml, name))
            .filter_map(|line| line.split(['.', ' ', '=']).next())
            .map(str::to_string)
            .collect()
    };
    let shipped = names(&["dependencies"]);
    let all = names(&["dependencies", "dev-dependencies", "build-dependencies"]);
    let wrong = |name: &String| match path {
        "crates/core/Cargo.toml" => {
            shipped.contains(name)
                && ![
                    "blake3",
                    "cellgate-simd",
                    "serde",
                    "serde_json",
                    "thiserror",
                ]
                .contains(&&**name)
        }
        // The product, and what it is measured with, do without the command and the instruments.
        path if path != "crates/cli/Cargo.toml" && of_the_command(name) => {
            // It prints what the command says of itself.
            (path, &**name) != ("xtask/Cargo.toml", "cellgate-cli")
        }
        "crates/lab/Cargo.toml" => name == "cellgate-host" || name == "cellgate-shm",
        "crates/shm/Cargo.toml" => name == "cellgate-host" || name == "cellgate-lab",
        "crates/host/Cargo.toml" => name == "cellgate-lab",
        "crates/simd/Cargo.toml" | "crates/report/Cargo.toml" => name.starts_with("cellgate-"),
        // It lives in other people's processes.
        "crates/client/Cargo.toml" => {
            let small = [
                "cellgate-core",
                "cellgate-shm",
                "rustix",
                "serde_json",
                "thiserror",
            ];
            shipped.contains(name) && !small.contains(&&**name)
        }
        "crates/msna/Cargo.toml" => {
            let kept = ["cellgate", "cellgate-core"];
            shipped.contains(name) && name.starts_with("cellgate") && !kept.contains(&&**name)
        }
        _ => false,
    };
    all.into_iter().filter(wrong).collect()
}

/// What only the command may depend on.
fn of_the_command(name: &str) -> bool {
    ["cellgate-instruments", "cellgate-cli"].contains(&name)
}

/// Complaints about length and width.
pub(crate) fn too_long(text: &str) -> Vec<String> {
    let mut complaints: Vec<_> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.chars().count() > COLUMNS_MAX)
        .map(|(i, line)| format!("{}: {} columns", i + 1, line.chars().count()))
        .collect();
    let lines = lines_before_tests(text);
    if lines >= LINES_MAX {
        complaints.push(format!("{lines} lines"));
    }
    complaints
}

pub(crate) fn lines_before_tests(text: &str) -> usize {
    text.lines()
        .take_while(|line| *line != "#[cfg(test)]")
        .count()
}

/// Complaints about marks of unfinished work and comments that tell history.
pub(crate) fn unfinished(source: &Source) -> Vec<String> {
    let mut complaints = numbered(&source.code, |line| {
        line.contains("todo!") || line.contains("unimplemented!")
    });
    complaints.extend(numbered(&source.comments, |line| {
        let lower = line.to_lowercase().replace("no longer than", "");
        lower.contains("no longer")
            || COMMENT_BANS
                .iter()
                .any(|ban| match ban.chars().all(char::is_uppercase) {
                    true => words(line).any(|word| word == *ban),
                    false => lower.contains(ban),
                })
    }));
    complaints
}

/// Rows of the table of invariants whose last column names nothing in `known`.
pub(crate) fn unheld_invariants(text: &str, known: &str) -> Vec<String> {
    let table = text.split("## Invariants").nth(1).unwrap_or_default();
    let table = table.split("\n## ").next().unwrap_or_default();
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
    let known: BTreeSet<_> = words(known).collect();
    let held = |row: &&str| {
        let last = row
            .trim_end_matches([' ', '|'])
            .rsplit(" | ")
            .next()
            .unwrap_or_default();
        let mut names = last.split('`').skip(1).step_by(2).peekable();
        names.peek().is_some() && names.all(|name| known.contains(name))
    };
    let complaints: Vec<_> = rows
        .clone()
        .filter(|row| !held(row))
        .map(str::to_string)
        .collect();
    match rows.count() {
        0 => vec!["no table of invariants".to_string()],
        _ => complaints,
    }
}

/// Rows of a paper's table whose standing is none, whose tests do not exist, or that have none
/// without being open.
pub(crate) fn unshown_statements(text: &str, known: &str) -> Vec<String> {
    let known: BTreeSet<_> = words(known).collect();
    let rows = text.lines().filter(|line| line.starts_with("| ")).skip(1);
    let is_shown = |row: &&str| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [_, _, _, standing, shown, _] = cells[..] else {
            return false;
        };
        let is_open = standing.starts_with("open");
        let words = ["live", "model", "otherwise", "open"];
        let mut names = shown.split('`').skip(1).step_by(2).peekable();
        words.iter().any(|word| standing.starts_with(word))
            && (is_open || names.peek().is_some())
            && names.all(|name| known.contains(name))
    };
    let complaints = rows.clone().filter(|row| !is_shown(row));
    match rows.count() {
        0 => vec!["no table of statements".to_string()],
        _ => complaints.map(str::to_string).collect(),
    }
}

/// Links to files that do not exist.
pub(crate) fn dead_links(folder: &Path, text: &str) -> Vec<String> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', '#']).next())
        .filter(|target| !target.is_empty() && !target.contains("://"))
        .filter(|target| !folder.join(target).exists())
        .map(str::to_string)
        .collect()
}

fn numbered(lines: &[String], bad: impl Fn(&str) -> bool) -> Vec<String> {
    let bad_lines = lines.iter().enumerate().filter(|(_, line)| bad(line));
    bad_lines
        .map(|(i, line)| format!("{}: {}", i + 1, line.trim()))
        .collect()
}
