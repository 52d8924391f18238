//! Files of the state directory.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Puts `octets` in place of whatever `path` is, whole or not at all. For this user's eyes only.
pub(super) fn replace(path: &Path, octets: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    // A rest of an interrupted attempt.
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(octets)?;
    fs::rename(&new, path)
}
