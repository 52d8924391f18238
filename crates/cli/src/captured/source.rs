//! Where a capture comes from: a file, or standard input.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use cellgate_capture::Reader;
use cellgate_report::output::same_file;

/// A capture as the user names it; `-` is standard input.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    path: PathBuf,
}

impl Source {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// Whether it is standard input.
    pub(crate) fn is_stdin(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    /// As messages name it.
    pub(crate) fn name(&self) -> String {
        match self.is_stdin() {
            true => "standard input".into(),
            false => self.path.display().to_string(),
        }
    }

    /// Whether `path` leads to it.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let mine = match self.is_stdin() {
            true => Path::new("/dev/stdin"),
            false => &self.path,
        };
        same_file(mine, path)
    }

    /// The file, or standard input as one.
    pub(crate) fn file(&self) -> anyhow::Result<File> {
        let file = match self.is_stdin() {
            true => io::stdin().as_fd().try_clone_to_owned().map(File::from),
            false => File::open(&self.path),
        };
        file.with_context(|| self.name())
    }

    /// Opens it and reads the file header. Its errors name the capture.
    pub(crate) fn open(&self) -> anyhow::Result<Reader<File>> {
        Reader::open(self.file()?).map_err(|error| anyhow!("{}: {error}", self.name()))
    }
}
