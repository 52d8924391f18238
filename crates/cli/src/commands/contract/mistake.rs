use serde::Serialize;

/// What is wrong with a contract's text, and where.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Mistake {
    /// Octets of the text before the mistake.
    at_octet: usize,
    message: String,
}

impl Mistake {
    pub(super) fn at(at_octet: usize, message: String) -> Self {
        Self { at_octet, message }
    }

    /// The message, the text, and a caret under the place.
    pub(super) fn under(&self, text: &str) -> String {
        // Control characters would move the caret away from its place.
        let shown: String = text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let before = text
            .char_indices()
            .take_while(|(at, c)| at + c.len_utf8() <= self.at_octet);
        // Not a width of `format!`, which ends at 65,535.
        let indent = " ".repeat(before.count());
        format!(
            "cellgate: contract: {}\n  {shown}\n  {indent}^\n",
            self.message
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Mistake;

    #[test]
    fn the_caret_stands_under_the_character_whose_octet_is_wrong() {
        let caret = |text: &str, at: usize| {
            let shown = Mistake::at(at, String::new()).under(text);
            let last = shown.lines().last().unwrap_or_default();
            last.len() - "  ^".len()
        };
        assert_eq!(caret("ubr", 0), 0);
        assert_eq!(caret("ubr", 3), 3);
        assert_eq!(caret("é:x", 2), 1);
        // In the middle of a character: under it.
        assert_eq!(caret("é:x", 1), 0);
        assert_eq!(caret("\tcbr", 1), 1);
        assert_eq!(caret("cbr", 99), 3);
        assert_eq!(caret(&"0".repeat(70_000), 69_999), 69_999);
    }
}
