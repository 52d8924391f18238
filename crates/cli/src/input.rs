//! What commands read: text files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, ensure};

/// The text in the file `path`: at most `most` octets, for it may be a device that never ends.
pub(crate) fn read_text(path: &Path, most: u64) -> anyhow::Result<String> {
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| name.clone())?;
    read_all(file, &name, most)
}

/// The same of what is open, and called `name`.
pub(crate) fn read_all(from: impl Read, name: &str, most: u64) -> anyhow::Result<String> {
    let named = || name.to_owned();
    let mut octets = Vec::new();
    let mut bounded = from.take(most + 1);
    bounded.read_to_end(&mut octets).with_context(named)?;
    ensure!(
        octets.len() as u64 <= most,
        "{name}: more than {most} octets"
    );
    String::from_utf8(octets).with_context(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_an_end() {
        let read = |path: &str, most| read_text(Path::new(path), most);
        let error = read("/dev/zero", 1_000).unwrap_err().to_string();
        assert_eq!(error, "/dev/zero: more than 1000 octets");
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/src/input.rs");
        let text = include_str!("input.rs");
        let len = text.len() as u64;
        assert_eq!(read(own, len).unwrap(), text);
        assert!(read(own, len - 1).is_err());
        assert_eq!(read("/dev/null", 0).unwrap(), "");
    }
}
