//! What commands leave behind: text, JSON, an exit code.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;

use crate::Figure;
use crate::whole::write_whole;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All went well.
    Ok,
    /// It could not do what it was asked, or its verdict is bad.
    Failed,
    /// It was asked for something that makes no sense; clap's code too.
    Usage,
    /// Admission refused: there is not enough of something.
    Refused,
    /// No server answers.
    NoServer,
    /// What the program has ended with that it ran.
    Program(u8),
    /// Something panicked in a simulated world.
    Crash,
    /// Something did not happen there.
    Liveness,
    /// Something happened there that must not.
    Correctness,
    /// Two runs of it differ.
    NonDeterminism,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Ok => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Refused => 3,
            Exit::NoServer => 4,
            Exit::Program(code) => code,
            Exit::Crash => 10,
            Exit::Liveness => 11,
            Exit::Correctness => 12,
            Exit::NonDeterminism => 13,
        })
    }
}

/// Writes to standard output. A reader that went away (`| head`) is no failure.
pub fn print(text: &str) -> anyhow::Result<()> {
    print_on(text).map(|_| ())
}

/// The same of what goes on and on: whether somebody still reads it.
pub fn print_on(text: &str) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).context("standard output"),
    }
}

/// Whether standard output is a terminal that understands escape sequences.
pub fn is_terminal() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    io::stdout().is_terminal() && !is_dumb
}

/// A JSON object on a line of its own.
pub fn json_line(value: &impl Serialize) -> anyhow::Result<String> {
    let mut text = serde_json::to_string(value).context("JSON")?;
    text.push('\n');
    Ok(text)
}

/// Writes it to standard output.
pub fn print_json_line(value: &impl Serialize) -> anyhow::Result<()> {
    print(&json_line(value)?)
}

/// Writes one JSON object and a line feed to standard output.
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(value).context("JSON")?;
    text.push('\n');
    print(&text)
}

/// Draws `figure` into the file `path`.
pub fn write_svg(path: &Path, figure: &Figure) -> anyhow::Result<()> {
    write_whole(path, figure.to_svg()).with_context(|| format!("cannot draw {}", path.display()))
}

/// `Err` if there is no folder to write a file into: better told before the work than after it.
pub fn has_folder(path: &Path) -> anyhow::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let is_there = folder.is_none_or(Path::is_dir) && !path.is_dir();
    anyhow::ensure!(is_there, "{}: no file can be written there", path.display());
    Ok(())
}

/// Whether both paths lead to one file: what is written to one is lost from the other.
pub fn same_file(one: &Path, other: &Path) -> bool {
    let file = |path| {
        let metadata = fs::metadata(path).ok().filter(Metadata::is_file)?;
        Some((metadata.dev(), metadata.ino()))
    };
    file(one).is_some_and(|one| file(other) == Some(one))
}

/// Characters of the widest column; `format!` takes no more than 65,535.
const WIDTH_MAX: usize = 1_000;

/// Columns side by side, without heads: the first to the left, the others to the right. Wider cells
/// than the widest column stand out of it.
pub fn columns(rows: &[impl AsRef<[String]>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.as_ref().get(column));
        let widths = cells.map(|cell| cell.chars().count());
        widths.max().unwrap_or(0).min(WIDTH_MAX)
    };
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.as_ref().iter().enumerate() {
            let width = width(column);
            line += &match column {
                0 => format!("{cell:width$}"),
                _ => format!("  {cell:>width$}"),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// A table whose first row is its heads, as it fits the terminal that it is for, if it is for one.
pub fn table<const N: usize>(rows: &[[String; N]]) -> String {
    fitted(rows, &[], width())
}

/// The same without columns that it has no room for: those in `spare`, from the one of least worth
/// on, whose heads it tells. With `wide` it has all of them.
pub fn table_by_worth<const N: usize>(rows: &[[String; N]], spare: &[usize], wide: bool) -> String {
    match wide {
        true => columns(rows),
        false => fitted(rows, spare, width()),
    }
}

/// What something is, one property below the other, as wide as the terminal.
pub fn described(rows: &[[String; 2]]) -> String {
    let names = rows.iter().map(|[name, _]| name.chars().count());
    let len = names.max().unwrap_or(0);
    let lines = rows.iter();
    let lines = lines.map(|[name, value]| wrapped(&format!("{name:len$}  "), value));
    lines.collect()
}

/// Columns of text where standard output is no terminal, and of a wide terminal.
pub const TEXT: usize = 80;

/// A head, and words behind it on as many lines as they take within the terminal and 80 columns. A
/// word that is longer has a line of its own.
pub fn wrapped(head: &str, words: &str) -> String {
    filled(head, words, width().unwrap_or(TEXT).min(TEXT))
}

/// Text as wide as the terminal: lines that are longer go on below, indented. A word that is longer
/// stands out.
pub fn folded(text: &str) -> String {
    match width() {
        Some(width) => folded_at(text, width),
        None => text.to_owned(),
    }
}

fn folded_at(text: &str, width: usize) -> String {
    const INDENT: &str = "        ";
    let mut folded = String::new();
    for line in text.lines() {
        let mut rest = line.to_owned();
        while let Some((at, beyond)) = rest.char_indices().nth(width) {
            // Columns stay whole as long as one of them fits.
            let begin = rest.len() - rest.trim_start().len();
            let until = &rest[..at + beyond.len_utf8()];
            let gap = until.rfind("  ").filter(|gap| *gap > begin);
            let Some(gap) = gap.or_else(|| until.rfind(' ').filter(|gap| *gap > begin)) else {
                break;
            };
            folded += rest[..gap].trim_end();
            folded.push('\n');
            rest = format!("{INDENT}{}", rest[gap..].trim_start());
        }
        folded += &rest;
        folded.push('\n');
    }
    folded
}

fn filled(head: &str, words: &str, width: usize) -> String {
    let indent = head.chars().count();
    let mut text = head.to_owned();
    let mut column = indent;
    for word in words.split_whitespace() {
        let len = word.chars().count();
        if column > indent && column + 1 + len > width {
            text += &format!("\n{}", " ".repeat(indent));
            column = indent;
        } else if column > indent {
            text.push(' ');
            column += 1;
        }
        text += word;
        column += len;
    }
    text.push('\n');
    text
}

/// Columns that there are for what is printed: `$COLUMNS`, else those of the terminal that standard
/// output is; none where it is no terminal: then nothing bounds them.
pub fn width() -> Option<usize> {
    let told = std::env::var("COLUMNS").ok();
    let told = told.and_then(|columns| columns.trim().parse().ok());
    if told.is_some_and(|columns| columns > 0) {
        return told;
    }
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// The table with heads on one line, or with their words under each other; none if neither fits.
fn side_by_side(rows: &[Vec<String>], width: Option<usize>) -> Option<String> {
    let fits = |text: &String| {
        let mut lines = text.lines();
        width.is_none_or(|width| lines.all(|line| line.chars().count() <= width))
    };
    let wide = columns(rows);
    let (false, Some((head, body))) = (fits(&wide), rows.split_first()) else {
        return Some(wide);
    };
    let words: Vec<Vec<&str>> = head
        .iter()
        .map(|head| head.split_whitespace().collect())
        .collect();
    let lines = words.iter().map(Vec::len).max().unwrap_or(0);
    let line = |at: usize| {
        // They stand on the row below them.
        let word = |of: &Vec<&str>| Some(of[at.checked_sub(lines - of.len())?].to_owned());
        let line = words.iter().map(|of| word(of).unwrap_or_default());
        line.collect::<Vec<_>>()
    };
    let narrow: Vec<_> = (0..lines).map(line).chain(body.iter().cloned()).collect();
    Some(columns(&narrow)).filter(fits)
}

/// The table side by side, without so many of the columns in `spare` as take it within `width`;
/// else a paragraph for each row.
fn fitted<const N: usize>(rows: &[[String; N]], spare: &[usize], width: Option<usize>) -> String {
    let Some((head, body)) = rows.split_first() else {
        return String::new();
    };
    for left_out in (0..=spare.len()).map(|n| &spare[..n]) {
        let kept = |row: &[String; N]| {
            let cells = row.iter().enumerate();
            let kept = cells.filter(|(column, _)| !left_out.contains(column));
            kept.map(|(_, cell)| cell.clone()).collect::<Vec<_>>()
        };
        let rows: Vec<_> = rows.iter().map(kept).collect();
        if let Some(text) = side_by_side(&rows, width) {
            let names: Vec<_> = left_out.iter().map(|column| &*head[*column]).collect();
            return match names.is_empty() {
                true => text,
                false => text + &filled("with --wide: ", &names.join(", "), width.unwrap_or(TEXT)),
            };
        }
    }
    let mut text = String::new();
    for row in body {
        text += &format!("{}\n", row[0]);
        let fields = head.iter().zip(row).skip(1);
        for (name, cell) in fields.filter(|(_, cell)| !cell.is_empty()) {
            text += &filled(&format!("  {name}: "), cell, width.unwrap_or(TEXT));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_wide_stands_out_of_its_column() {
        let long = "n".repeat(70_000);
        let rows = [[long.clone(), "1".into()], ["m".into(), long.clone()]];
        let blanks = " ".repeat(WIDTH_MAX - 1);
        let wanted = format!("{long}  {blanks}1\nm{blanks}  {long}\n");
        assert!(columns(&rows) == wanted);
    }

    #[test]
    fn words_go_on_below_where_they_began() {
        let text = "one two three  four";
        assert_eq!(filled("a: ", text, 40), "a: one two three four\n");
        assert_eq!(filled("a: ", text, 10), "a: one two\n   three\n   four\n");
        assert_eq!(filled("a: ", "longer words", 4), "a: longer\n   words\n");
        assert_eq!(filled("a: ", "", 4), "a: \n");
    }

    #[test]
    fn long_lines_go_on_below() {
        let text = "id  what there is  pass\n\nnote: one two\nunbreakable\n";
        let wanted = "id  what there is\n        pass\n\nnote: one two\nunbreakable\n";
        assert_eq!(folded_at(text, 18), wanted);
        assert_eq!(folded_at(text, 40), text);
        assert_eq!(folded_at("é é é é", 6), "é é é\n        é\n");
        assert_eq!(folded_at("unbreakable", 5), "unbreakable\n");
    }

    #[test]
    fn columns_go_by_worth() {
        let rows = [["vc", "user", "cells out"], ["a.0.100", "0", "353207"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        let whole = "vc       user  cells out\na.0.100     0     353207\n";
        assert_eq!(fitted(&rows, &[1, 2], Some(24)), whole);
        let heads = "                cells\nvc       user     out\na.0.100     0  353207\n";
        assert_eq!(fitted(&rows, &[1, 2], Some(23)), heads);
        let without = "vc       cells out\na.0.100     353207\nwith --wide: user\n";
        assert_eq!(fitted(&rows, &[1, 2], Some(20)), without);
        let one = "vc\na.0.100\nwith --wide: user,\n             cells\n             out\n";
        assert_eq!(fitted(&rows, &[1, 2], Some(14)), one);
        assert!(fitted(&rows, &[1], Some(14)).starts_with("a.0.100\n  user: 0\n"));
    }

    #[test]
    fn a_table_fits_its_terminal() {
        let rows = [
            ["connection", "cells/s out", "PDUs/s in"],
            ["wan.0.100", "353207", ""],
            ["b.0.7", "1", "22"],
        ];
        let rows = rows.map(|row| row.map(str::to_owned));
        let wide = "connection  cells/s out  PDUs/s in\n\
                    wan.0.100        353207\n\
                    b.0.7                 1         22\n";
        assert_eq!(fitted(&rows, &[], None), wide);
        assert_eq!(fitted(&rows, &[], Some(34)), wide);
        let narrow = "            cells/s  PDUs/s\n\
                      connection      out      in\n\
                      wan.0.100    353207\n\
                      b.0.7             1      22\n";
        assert_eq!(fitted(&rows, &[], Some(33)), narrow);
        assert_eq!(fitted(&rows, &[], Some(27)), narrow);
        let paragraphs = "wan.0.100\n  cells/s out: 353207\n\
                          b.0.7\n  cells/s out: 1\n  PDUs/s in: 22\n";
        assert_eq!(fitted(&rows, &[], Some(26)), paragraphs);
    }
}
