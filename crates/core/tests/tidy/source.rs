//! What of a Rust file is code, and what comment.

/// A file's lines twice: without comments and contents of literals, and only the comments.
pub(crate) struct Source {
    pub(crate) code: Vec<String>,
    pub(crate) comments: Vec<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Code,
    LineComment,
    BlockComment { depth: usize },
    Text,
    RawText { hashes: usize },
}

pub(crate) fn split(text: &str) -> Source {
    let mut source = Source {
        code: Vec::new(),
        comments: Vec::new(),
    };
    let mut state = State::Code;
    for line in text.lines() {
        let (code, comment) = split_line(line, &mut state);
        source.code.push(code);
        source.comments.push(comment);
    }
    source
}

fn split_line(line: &str, state: &mut State) -> (String, String) {
    let (mut code, mut comment) = (String::new(), String::new());
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        match *state {
            State::Code => {
                let in_word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
                let raw = rest
                    .strip_prefix('r')
                    .filter(|_| !in_word || code.ends_with('b'));
                let hashes = raw.map_or(0, |r| r.len() - r.trim_start_matches('#').len());
                if rest.starts_with("//") {
                    *state = State::LineComment;
                    taken = rest.len() - rest.trim_start_matches(['/', '!']).len();
                } else if rest.starts_with("/*") {
                    *state = State::BlockComment { depth: 1 };
                    taken = 2;
                } else if raw.is_some_and(|r| r[hashes..].starts_with('"')) {
                    *state = State::RawText { hashes };
                    taken = 2 + hashes;
                    code.push('"');
                } else if c == '"' {
                    *state = State::Text;
                    code.push('"');
                } else if let Some(len) = char_literal(rest) {
                    taken = len;
                    code.push_str("''");
                } else {
                    code.push(c);
                }
            }
            State::LineComment => comment.push(c),
            State::BlockComment { depth } => {
                let end = rest.starts_with("*/");
                if end || rest.starts_with("/*") {
                    taken = 2;
                    let depth = if end { depth - 1 } else { depth + 1 };
                    *state = match depth {
                        0 => State::Code,
                        _ => State::BlockComment { depth },
                    };
                }
                if *state != State::Code {
                    comment.push_str(&rest[..taken]);
                }
            }
            State::Text if c == '\\' => {
                taken += rest[1..].chars().next().map_or(0, char::len_utf8);
            }
            State::Text if c == '"' => {
                *state = State::Code;
                code.push('"');
            }
            State::RawText { hashes } if rest.starts_with(&format!("\"{}", "#".repeat(hashes))) => {
                *state = State::Code;
                taken = 1 + hashes;
                code.push('"');
            }
            State::Text | State::RawText { .. } => {}
        }
        rest = &rest[taken..];
    }
    if *state == State::LineComment {
        *state = State::Code;
    }
    (code, comment)
}

/// Octets of the character literal that `text` starts with; a lifetime is none.
fn char_literal(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    let mut chars = inside.chars();
    match chars.next()? {
        '\\' => Some(2 + inside[2..].find('\'')? + 2),
        c => chars.as_str().starts_with('\'').then(|| c.len_utf8() + 2),
    }
}

/// The first path segments that follow `prefix`, also those in a group: `crate::{a, b::{c, d}}`
/// gives a and b.
pub(crate) fn segments_after(code: &str, prefix: &str) -> Vec<String> {
    let mut segments = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            segments.extend(words(rest).next().map(str::to_string));
            continue;
        };
        let mut depth = 0;
        let mut first = true;
        let mut segment = String::new();
        for c in group.chars() {
            match c {
                '}' if depth == 0 => break,
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    segments.push(std::mem::take(&mut segment));
                    first = true;
                }
                ':' => first = false,
                c if depth == 0 && first && !c.is_whitespace() => segment.push(c),
                _ => {}
            }
        }
        segments.push(segment);
    }
    segments
}

/// Identifiers and keywords.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}
