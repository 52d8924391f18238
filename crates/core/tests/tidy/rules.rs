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

/// The widest line of a document, rows of tables apart.
const DOCUMENT_COLUMNS_MAX: usize = 120;

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
        // HTTP and its runtime are for the page alone, which the command and the demo start.
        path if !of_the_page(path) && is_of_http(name) => true,
        // The daemon and its adapter alone have a log and probes.
        path if path != "crates/host/Cargo.toml" && is_of_the_log(name) => true,
        "crates/page/Cargo.toml" => name.starts_with("cellgate") && *name != "cellgate",
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

/// Who may depend on the page, or on what it is made of.
fn of_the_page(path: &str) -> bool {
    let those = ["crates/page", "crates/cli", "crates/instruments"];
    those.iter().any(|one| path == format!("{one}/Cargo.toml"))
}

fn is_of_http(name: &str) -> bool {
    name == "cellgate-page" || name.starts_with("hyper") || name.starts_with("http")
}

fn is_of_the_log(name: &str) -> bool {
    name == "probe" || name.starts_with("tracing")
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

/// Rows of tables of invariants that name no test or lint, or one that does not exist, and rows
/// that stand there twice; a text without such a table.
pub(crate) fn unheld_invariants(texts: &[&str], known: &str) -> Vec<String> {
    let known: BTreeSet<_> = words(known).collect();
    let mut complaints = Vec::new();
    let mut seen = BTreeSet::new();
    for text in texts {
        let rows = invariants(text);
        if rows.is_empty() {
            complaints.push("no table of invariants".to_string());
        }
        for (invariant, held_by) in rows {
            let mut names = held_by.split('`').skip(1).step_by(2).peekable();
            if names.peek().is_none() || names.any(|name| !known.contains(name)) {
                complaints.push(format!("nothing holds: {invariant}"));
            }
            if !seen.insert(invariant) {
                complaints.push(format!("twice: {invariant}"));
            }
        }
    }
    complaints
}

/// Invariants and what holds them, of all tables of a text that are headed so.
fn invariants(text: &str) -> Vec<(&str, &str)> {
    let tables = text.split("| invariant | held by |\n|---|---|\n").skip(1);
    let rows = tables.flat_map(|table| table.lines().take_while(|line| line.starts_with("| ")));
    rows.map(|row| {
        let row = row.trim_matches(['|', ' ']);
        row.rsplit_once(" | ").unwrap_or((row, ""))
    })
    .collect()
}

/// What is wrong with the table of reasons below `heading`: rows without a cell's text, and one
/// complaint if its reasons are not `reasons`, in this order.
pub(crate) fn unexplained_reasons(text: &str, heading: &str, reasons: &[&str]) -> Vec<String> {
    let head = format!("\n## {heading}\n");
    let text = format!("\n{text}");
    let section = text.split(&head).nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let mut complaints: Vec<_> = rows
        .clone()
        .filter(|row| {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            cells.len() != 6 || cells[1..5].iter().any(|cell| cell.is_empty())
        })
        .map(str::to_string)
        .collect();
    let named: Vec<_> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    if named != reasons {
        complaints.push(format!("{named:?}, and not {reasons:?}"));
    }
    complaints
}

/// Rows of a paper's table whose standing is none, whose tests do not exist, or that have none
/// without being open.
pub(crate) fn unshown_statements(text: &str, known: &str) -> Vec<String> {
    let known: BTreeSet<_> = words(known).collect();
    let head = "| section | what it says | standing | shown by |\n|---|---|---|---|\n";
    let table = text.split(head).nth(1).unwrap_or_default();
    let rows = table.lines().take_while(|line| line.starts_with("| "));
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

/// Links to files that do not exist, or to headings that a file does not have.
pub(crate) fn dead_links(document: &Path, text: &str) -> Vec<String> {
    let folder = document.parent().expect("a file has a folder");
    let leads = |target: &&str| {
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let there = folder.join(file);
        if file.is_empty() {
            return headings(text).contains(heading);
        }
        if heading.is_empty() || there.extension().is_none_or(|found| found != "md") {
            return there.exists();
        }
        std::fs::read_to_string(there).is_ok_and(|text| headings(&text).contains(heading))
    };
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.contains("://"))
        .filter(|target| !leads(target))
        .map(str::to_string)
        .collect()
}

/// A document's headings as links name them: small letters, spaces as hyphens, no punctuation.
fn headings(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches('#').trim().to_lowercase())
        .map(|line| line.replace(' ', "-"))
        .map(|line| {
            line.chars()
                .filter(|one| one.is_alphanumeric() || "-_".contains(*one))
                .collect()
        })
        .collect()
}

/// Lines of a document that are wider than 120 columns; rows of tables may be.
pub(crate) fn wide_lines(text: &str) -> Vec<String> {
    let lines: Vec<_> = text.lines().map(str::to_string).collect();
    numbered(&lines, |line| {
        line.chars().count() > DOCUMENT_COLUMNS_MAX && !line.starts_with('|')
    })
}

fn numbered(lines: &[String], bad: impl Fn(&str) -> bool) -> Vec<String> {
    let bad_lines = lines.iter().enumerate().filter(|(_, line)| bad(line));
    bad_lines
        .map(|(i, line)| format!("{}: {}", i + 1, line.trim()))
        .collect()
}
