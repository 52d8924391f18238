//! What others have named, and what they say, for people: nothing of it speaks to a terminal.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A path: octets that a terminal would take for something else are escaped.
pub(super) fn shown(path: &[u8]) -> String {
    match std::str::from_utf8(path) {
        Ok(text) if text.chars().all(is_plain) => text.to_owned(),
        _ => path.escape_ascii().to_string(),
    }
}

/// The same of a path of this machine.
pub(super) fn shown_path(path: &Path) -> String {
    shown(path.as_os_str().as_bytes())
}

/// What the other end says.
pub(super) fn said(reason: &str) -> String {
    let escaped = |c: char| match is_plain(c) {
        true => c.to_string(),
        false => c.escape_default().to_string(),
    };
    reason.chars().map(escaped).collect()
}

/// No control character, and none that has the text around it read in another order.
fn is_plain(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_speaks_to_a_terminal() {
        for (name, text) in [
            (&b"plain"[..], "plain"),
            ("gr\u{fc}n".as_bytes(), "gr\u{fc}n"),
            (b"\x1b[2Jgone", "\\x1b[2Jgone"),
            (b"two\nlines", "two\\nlines"),
            (b"\xff\xfe", "\\xff\\xfe"),
            ("c1 \u{9b}2J".as_bytes(), "c1 \\xc2\\x9b2J"),
            ("\u{202e}txt.exe".as_bytes(), "\\xe2\\x80\\xaetxt.exe"),
            (b"\x7f\t\r", "\\x7f\\t\\r"),
        ] {
            assert_eq!(shown(name), text);
        }
        assert_eq!(said("no \x1b]0;x\x07room\n"), "no \\u{1b}]0;x\\u{7}room\\n");
        assert_eq!(said("gr\u{fc}n"), "gr\u{fc}n");
    }
}
