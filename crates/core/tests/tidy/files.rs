//! The project's files.

use std::fs;
use std::path::{Path, PathBuf};

/// The lines of one table of a manifest, without blank ones and comments.
pub(crate) fn section<'a>(toml: &'a str, name: &str) -> Vec<&'a str> {
    let header = format!("[{name}]");
    toml.lines()
        .skip_while(|line| line.trim() != header)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

/// The workspace's manifests, `crates/*/Cargo.toml` and that of `xtask`: path from the project's
/// folder, text.
pub(crate) fn manifests() -> Vec<(String, String)> {
    let manifests: Vec<_> = files_below(&root().join("crates"), "toml")
        .into_iter()
        .chain([root().join("xtask/Cargo.toml")])
        .filter(|path| path.ends_with("Cargo.toml"))
        .map(|path| (relative(&path), read(&path)))
        .filter(|(path, _)| path.split('/').count() == 3 || path.starts_with("xtask/"))
        .collect();
    assert!(!manifests.is_empty(), "no manifests");
    manifests
}

pub(crate) fn rust_files(folder: &str) -> Vec<PathBuf> {
    files_below(&root().join(folder), "rs")
}

pub(crate) fn files_below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() && !path.ends_with("target") {
            files.extend(files_below(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    files.sort();
    files
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn relative(path: &Path) -> String {
    let below = path.strip_prefix(root()).expect("inside the project");
    below.to_str().expect("our names are UTF-8").to_string()
}

pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.expect("the crate is two folders down").to_path_buf()
}
