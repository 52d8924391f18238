//! `key value` words, as iproute2 writes them.

use std::fmt::Display;
use std::str::FromStr;

/// The `key value` pairs behind a verb, as iproute2 writes them.
pub(super) struct Words {
    words: Vec<(String, bool)>,
    known: Vec<&'static str>,
}

impl Words {
    pub(super) fn new(words: &[String]) -> Self {
        let words = words.iter().map(|word| (word.clone(), false)).collect();
        Self {
            words,
            known: Vec::new(),
        }
    }

    /// The word behind `key`.
    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<String>, String> {
        self.known.push(key);
        let Some(at) = self.position(key) else {
            return Ok(None);
        };
        match self.words.get_mut(at + 1) {
            Some((value, taken)) if !*taken => {
                *taken = true;
                let value = value.clone();
                self.words[at].1 = true;
                Ok(Some(value))
            }
            _ => Err(format!("a value is missing behind `{key}`")),
        }
    }

    /// The value behind `key`.
    pub(super) fn value<T: FromStr<Err: Display>>(
        &mut self,
        key: &'static str,
    ) -> Result<Option<T>, String> {
        let Some(text) = self.text(key)? else {
            return Ok(None);
        };
        let value = text.parse();
        value
            .map(Some)
            .map_err(|error| format!("`{key} {text}`: {error}"))
    }

    /// The same, where there must be one.
    pub(super) fn required<T: FromStr<Err: Display>>(
        &mut self,
        key: &'static str,
    ) -> Result<T, String> {
        self.value(key)?
            .ok_or_else(|| format!("`{key} VALUE` is missing"))
    }

    /// Whether the word `key` is there by itself.
    pub(super) fn flag(&mut self, key: &'static str) -> bool {
        self.known.push(key);
        match self.position(key) {
            Some(at) => {
                self.words[at].1 = true;
                true
            }
            None => false,
        }
    }

    /// That nothing is left.
    pub(super) fn finish(self) -> Result<(), String> {
        match self.words.iter().find(|(_, taken)| !taken) {
            None => Ok(()),
            Some((word, _)) => Err(format!(
                "`{word}` is not known here; known: {}",
                self.known.join(", ")
            )),
        }
    }

    fn position(&self, key: &str) -> Option<usize> {
        let mut words = self.words.iter();
        words.position(|(word, taken)| !taken && word == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Words {
        let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        Words::new(&words)
    }

    #[test]
    fn takes_pairs_and_flags_in_any_order() {
        let mut given = words("mtu 1500 no-completions label 17");
        assert_eq!(given.required::<u32>("label"), Ok(17));
        assert!(given.flag("no-completions"));
        assert_eq!(given.value::<u16>("mtu"), Ok(Some(1500)));
        assert_eq!(given.value::<u16>("pack"), Ok(None));
        assert_eq!(given.finish(), Ok(()));
    }

    #[test]
    fn says_what_is_wrong() {
        assert!(
            words("")
                .required::<u32>("label")
                .unwrap_err()
                .contains("label VALUE")
        );
        assert!(
            words("label")
                .value::<u32>("label")
                .unwrap_err()
                .contains("behind `label`")
        );
        assert!(
            words("label x")
                .value::<u32>("label")
                .unwrap_err()
                .contains("`label x`")
        );
        let mut given = words("label 17 labl 18");
        given.required::<u32>("label").unwrap();
        assert_eq!(
            given.finish().unwrap_err(),
            "`labl` is not known here; known: label"
        );
    }

    #[test]
    fn a_value_is_not_taken_for_a_key() {
        let mut given = words("peer local local a");
        assert_eq!(given.text("peer"), Ok(Some("local".to_owned())));
        assert_eq!(given.text("local"), Ok(Some("a".to_owned())));
        assert_eq!(given.finish(), Ok(()));
    }
}
