//! A package's files as they lie when they are installed, put together below a folder.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use super::{Places, printed, run};

/// The units of docs/systemd.
pub(super) const UNITS: [&str; 4] = [
    "cellgate.service",
    "cellgate.socket",
    "cellgate-page.service",
    "cellgate-page.socket",
];

pub(super) struct Stage {
    /// Where `packaging` has what belongs to it.
    pub(super) sources: PathBuf,
    pub(super) folder: PathBuf,
    /// What was cut off from programs, below usr/lib/debug.
    pub(super) symbols: PathBuf,
    /// The build IDs of these programs.
    pub(super) build_ids: Vec<String>,
    root: PathBuf,
    version: String,
}

impl Stage {
    /// An empty one for the package of this folder of `packaging`.
    pub(super) fn new(places: &Places, name: &str) -> anyhow::Result<Self> {
        let folder = places.work.join(name).join("files");
        let symbols = places.work.join(name).join("symbols");
        empty(&folder)?;
        empty(&symbols)?;
        Ok(Self {
            sources: places.source("packaging").join(name),
            folder,
            symbols,
            build_ids: Vec::new(),
            root: places.root.clone(),
            version: places.version.clone(),
        })
    }

    fn write(&mut self, to: &str, octets: &[u8], mode: u32) -> anyhow::Result<PathBuf> {
        let path = self.folder.join(to);
        fs::create_dir_all(path.parent().context("a folder")?)?;
        fs::write(&path, octets).with_context(|| path.display().to_string())?;
        fs::set_permissions(&path, PermissionsExt::from_mode(mode))?;
        Ok(path)
    }

    pub(super) fn file(&mut self, to: &str, from: &Path, mode: u32) -> anyhow::Result<()> {
        let octets = fs::read(from).with_context(|| from.display().to_string())?;
        self.write(to, &octets, mode).map(drop)
    }

    pub(super) fn link(&mut self, to: &str, from: &Path) -> anyhow::Result<()> {
        let path = self.folder.join(to);
        fs::create_dir_all(path.parent().context("a folder")?)?;
        symlink(fs::read_link(from)?, path).context("a link")
    }

    /// A program or library; its symbols go into a package of their own.
    pub(super) fn split(&mut self, to: &str, from: &Path, mode: u32) -> anyhow::Result<()> {
        self.file(to, from, mode)?;
        let path = self.folder.join(to);
        let notes = printed(Command::new("readelf").arg("-nW").arg(&path))?;
        let id = notes.split_once("Build ID: ");
        let id = id.and_then(|(_, rest)| rest.split_whitespace().next());
        let id = id.with_context(|| format!("{to} has no build ID"))?;
        let (head, tail) = id.split_at_checked(2).context("a build ID")?;
        let symbols = self
            .symbols
            .join(format!("usr/lib/debug/.build-id/{head}/{tail}.debug"));
        fs::create_dir_all(symbols.parent().context("a folder")?)?;
        let keep = ["--only-keep-debug", "--compress-debug-sections"];
        run(Command::new("objcopy").args(keep).arg(&path).arg(&symbols))?;
        fs::set_permissions(&symbols, PermissionsExt::from_mode(0o644))?;
        let strip = ["--strip-unneeded", "-R", ".comment", "-R", ".note"];
        run(Command::new("strip").args(strip).arg(&path))?;
        self.build_ids.push(id.to_owned());
        Ok(())
    }

    /// A static library, without what only a debugger reads.
    pub(super) fn archive(&mut self, to: &str, from: &Path) -> anyhow::Result<()> {
        self.file(to, from, 0o644)?;
        let path = self.folder.join(to);
        let strip = ["--strip-debug", "--enable-deterministic-archives"];
        run(Command::new("strip").args(strip).arg(&path))
    }

    /// A manual page; one that only names another is a link to it.
    pub(super) fn page(&mut self, to: &str, text: &[u8]) -> anyhow::Result<()> {
        let other = std::str::from_utf8(text).ok();
        let other = other.and_then(|text| text.strip_prefix(".so "));
        match other.and_then(|other| other.trim().rsplit_once('/')) {
            Some((_, other)) => {
                let path = self.folder.join(format!("{to}.gz"));
                fs::create_dir_all(path.parent().context("a folder")?)?;
                symlink(format!("{other}.gz"), path).context("a link")
            }
            None => self.compressed(&format!("{to}.gz"), text),
        }
    }

    /// The manual pages of the command.
    pub(super) fn beside_command(&mut self, share: &str) -> anyhow::Result<()> {
        for (name, text) in crate::man::pages()? {
            let section = name.chars().last().context("a section")?;
            self.page(&format!("{share}/man/man{section}/{name}"), text.as_bytes())?;
        }
        Ok(())
    }

    /// What lies in usr/share/doc: the licences and what has changed.
    pub(super) fn documents(&mut self, package: &str) -> anyhow::Result<()> {
        let doc = format!("usr/share/doc/{package}");
        let copyright = self.copyright()?;
        self.write(&format!("{doc}/copyright"), copyright.as_bytes(), 0o644)?;
        let changes = fs::read(self.root.join("CHANGELOG.md"))?;
        self.compressed(&format!("{doc}/changelog.gz"), &changes)?;
        let of = &self.version;
        let mut git = Command::new("git");
        git.args(["log", "-1", "--format=%cD"])
            .current_dir(&self.root);
        let date = printed(&mut git).unwrap_or_default();
        let date = match date.trim() {
            "" => "Thu, 01 Jan 1970 00:00:00 +0000",
            date => date,
        };
        let text = format!(
            "cellgate ({of}) unstable; urgency=medium\n\n  * What has changed stands in \
             /usr/share/doc/{package}/changelog.gz.\n\n -- The cellgate authors \
             <cellgate@users.noreply.github.com>  {date}\n"
        );
        self.compressed(&format!("{doc}/changelog.Debian.gz"), text.as_bytes())
    }

    fn copyright(&self) -> anyhow::Result<String> {
        let mit = fs::read_to_string(self.root.join("LICENSE-MIT")).context("LICENSE-MIT")?;
        let (head, body) = mit.split_once("\n\n").context("LICENSE-MIT has a title")?;
        anyhow::ensure!(head == "MIT License", "LICENSE-MIT is another one");
        let (owner, body) = body
            .split_once("\n\n")
            .context("LICENSE-MIT has an owner")?;
        let owner = owner.strip_prefix("Copyright (c) ").unwrap_or(owner);
        let body = body.trim_end().lines().map(|line| match line {
            "" => " .\n".to_owned(),
            line => format!(" {line}\n"),
        });
        let body: String = body.collect();
        Ok(format!(
            "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
             Upstream-Name: cellgate\nSource: {}\n\n\
             Files: *\nCopyright: {owner}\nLicense: Expat or Apache-2.0\n\n\
             Files: crates/page/player/*\n\
             Copyright: Bilibili, zheng qian and the contributors of mpegts.js\n\
             License: Apache-2.0\n\
             Comment: The command has it within. The es6-promise in it is by Yehuda Katz, Tom Dale,\n \
             Stefan Penner and contributors, under the licence Expat.\n\n\
             License: Expat\n{body}\n\
             License: Apache-2.0\n On Debian systems, the text of this licence is in\n \
             /usr/share/common-licenses/Apache-2.0.\n",
            env!("CARGO_PKG_REPOSITORY"),
        ))
    }

    /// The same octets each time.
    fn compressed(&mut self, to: &str, text: &[u8]) -> anyhow::Result<()> {
        let mut gzip = Command::new("gzip");
        gzip.args(["-9", "-n"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = gzip.spawn().context("gzip")?;
        let mut input = child.stdin.take().context("its input")?;
        let text = text.to_vec();
        // It may write before it has read all.
        let writer = std::thread::spawn(move || input.write_all(&text));
        let output = child.wait_with_output().context("gzip")?;
        anyhow::ensure!(output.status.success(), "gzip: {}", output.status);
        writer.join().expect("it does not panic").context("gzip")?;
        self.write(to, &output.stdout, 0o644).map(drop)
    }
}

/// Makes a folder in which nothing is.
pub(super) fn empty(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}

/// The files and links below a folder, in order, as they are named from there.
pub(super) fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).with_context(|| next.display().to_string())? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => folders.push(entry.path()),
                false => found.push(entry.path().strip_prefix(folder)?.to_owned()),
            }
        }
    }
    found.sort();
    Ok(found)
}
